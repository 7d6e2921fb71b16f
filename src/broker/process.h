/*
 * process: what is per process and not per node: descriptors, signals, the log sink, threads, the memory total. It
 * gives a broker the real seams and runs it until a signal ends it.
 *
 * Threads  one reactor each for ottla.reactors loops, one for the controller, one aside for what takes long, one for
 *          the companion if there is one, ottla.io.threads for what may block. The calling thread sleeps in sigwait:
 *          SIGTERM and SIGINT stop, SIGUSR1 writes the crash report, and what the loops have to tell it comes as
 *          SIGUSR2.
 */
#ifndef OTTLA_BROKER_PROCESS_H
#define OTTLA_BROKER_PROCESS_H

#include "base/clock.h"
#include "base/net.h"
#include "broker/broker.h"
#include "broker/config.h"

/* What a process runs beside its broker, on a loop of its own: made once the node serves, stopped before the node. */
struct process_companion_env {
    const struct config *config;
    struct net *net;
    struct loop *loop;
    struct clock *clock;
    struct log *log;
    struct broker *broker;
};

struct process_companion {
    const char *name; /* of its thread */
    /* False: it is not made, and has no thread. */
    bool (*is_wanted)(const struct config *config);
    /* On the calling thread. *state NULL: there is none after all. */
    enum err (*start)(const struct process_companion_env *env, void **state, char message[BROKER_MESSAGE_CHARS]);
    /* stopped: once, on its loop, when it asks nothing of the broker any more. */
    void (*stop)(void *state, void (*stopped)(void *context), void *context);
    /* Once its loop has ended. NULL does nothing. */
    void (*release)(void *state);
};

struct process_options {
    const char *ready_file;                    /* gets the listeners' addresses once the node serves; NULL: none */
    const char *notify_socket;                 /* of the service manager; NULL: none */
    const struct process_companion *companion; /* NULL: none */
};

/* Runs one node to its end. config has passed config_check_whole. Returns the exit code: 0 after a clean stop. */
int process_serve(const struct config *config, const struct process_options *options);

#endif
