/*
 * process: what is per process and not per node: descriptors, signals, the log sink, threads, the memory total. It
 * gives a broker the real seams and runs it until a signal ends it.
 *
 * Threads  one reactor each for ottla.reactors loops, one for the controller, ottla.io.threads for what may block. The
 *          calling thread sleeps in sigwait: SIGTERM and SIGINT stop, SIGUSR1 writes the crash report, and what the
 *          loops have to tell it comes as SIGUSR2.
 */
#ifndef OTTLA_BROKER_PROCESS_H
#define OTTLA_BROKER_PROCESS_H

#include "broker/config.h"

struct process_options {
    const char *ready_file;    /* gets the listeners' addresses once the node serves; NULL: none */
    const char *notify_socket; /* of the service manager; NULL: none */
};

/* Runs one node to its end. config has passed config_check_whole. Returns the exit code: 0 after a clean stop. */
int process_serve(const struct config *config, const struct process_options *options);

#endif
