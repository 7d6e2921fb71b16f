#include "broker/process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/histogram.h"
#include "base/list.h"
#include "base/mem.h"
#include "broker/broker.h"
#include "broker/long_turn.h"
#include "broker/process_share.h"
#include "net/io_pool.h"
#include "net/notify.h"
#include "net/reactor.h"
#include "net/resolve.h"
#include "net/socket.h"

enum {
    STDERR = 2,
    SIGNAL_FROM_LOOP = SIGUSR2, /* a loop has something to say to the calling thread */
    COMPANION_LOOK_NS = 100 * 1000 * 1000,
    QUIET_LOOK_NS = 250 * 1000 * 1000, /* how often we look whether a burst is over */
    QUIET_CPU_US_MAX = 10 * 1000,      /* of processor time since the last look: nothing is going on */
    BURST_CPU_US_MIN = 50 * 1000,      /* since memory was given back last: worth it */
    STOP_SECONDS_SAME = 2,             /* signals within it are the same wish */
    STOP_SECONDS_MAX = 30,             /* after so long, or a later signal, the process ends as it is */
};

#define COMPANION_STOP_NS_MAX (INT64_C(6) * 1000 * 1000 * 1000) /* longer than a coordinator lets anybody wait */

/* A loop and its thread's crash ring. */
struct worker {
    struct process *process;
    struct reactor *reactor;
    struct loop_task enter;
    struct loop_task leave; /* nothing says that a loop nobody waited for is through with the first */
    struct crash_ring ring;
    struct histogram turns; /* ns */
    struct log_rate long_turns;
    uint32_t index;
};

enum { PROCESS_PATH_BYTES_MAX = 4096 }; /* PATH_MAX */

struct process {
    const struct config *config;
    const struct process_options *options;
    struct log_sink_fd sink;
    struct clock clock;
    struct rng rng;
    struct fs fs;
    struct log log;
    struct crash crash;
    struct crash_ring ring;
    struct io_pool *io_pool;
    struct net *net;
    struct worker *workers; /* the reactors', the controller's, the one aside, the companion's */
    uint32_t reactor_count;
    const struct process_companion *companion; /* NULL: none is wanted */
    void *companion_state;
    _Atomic(bool) companion_stopped;
    struct loop **loops;
    uint32_t worker_count;
    uint32_t started;
    struct broker *broker;
    char working_dir[PROCESS_PATH_BYTES_MAX];
    sigset_t signals;
    _Atomic(bool) start_told;
    _Atomic(bool) stop_told;
    _Atomic(bool) failed; /* the node cannot go on */
    enum err err;         /* of the last step told */
    char message[BROKER_MESSAGE_CHARS];
};

static enum log_level level_of(const char *name)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};

    for (int i = 0; i < 4; i++)
        if (strcmp(names[i], name) == 0)
            return (enum log_level)i;
    return LOG_INFO;
}

static void report_to_message(void *context, bool fatal, const char *line)
{
    if (fatal)
        (void)snprintf(context, BROKER_MESSAGE_CHARS, "%s", line);
}

static void complain(struct process *process, const char *line)
{
    log_error(&process->log, "%s", line);
}

/* On the worker's thread: from here on it shows in crash reports. */
static void enter(struct loop_task *task)
{
    struct worker *worker = LIST_ENTRY(task, struct worker, enter);
    struct loop *loop = reactor_loop(worker->reactor);

    crash_enter(&worker->process->crash, &worker->ring, worker->process->log.node_id, loop->name);
    loop->ring = &worker->ring;
    worker->ring.turns = &worker->turns;
}

static void leave(struct loop_task *task)
{
    struct worker *worker = LIST_ENTRY(task, struct worker, leave);

    reactor_loop(worker->reactor)->ring = NULL;
    crash_leave(&worker->process->crash, &worker->ring);
}

static void turn_ended(void *context, const struct reactor_turn *turn)
{
    struct worker *worker = context;
    struct process *process = worker->process;

    histogram_record(&worker->turns, turn->ns < 0 ? 0 : (uint64_t)turn->ns);
    if (worker->index == process->reactor_count + 1) /* it is there for long turns */
        return;
    if (process->broker != NULL)
        broker_turn_ended(process->broker, worker->index, turn->ns);
    if (turn->ns >= LONG_TURN_NS)
        long_turn_tell(&process->log, &worker->long_turns, reactor_loop(worker->reactor), turn);
}

static enum err make_workers(struct process *process)
{
    int32_t wanted = config_int(process->config, CONFIG_OTTLA_REACTORS);
    int64_t spin_ns = config_int(process->config, CONFIG_OTTLA_SPIN_US) * INT64_C(1000);
    uint32_t reactors = wanted > 0 ? (uint32_t)wanted : process_cpu_count();
    uint32_t workers = 0;

    if (reactors >= BROKER_REACTORS_MAX)
        reactors = BROKER_REACTORS_MAX - 1;
    process->reactor_count = reactors;
    workers = reactors + 2 + (process->companion != NULL ? 1 : 0);
    process->workers = mem_calloc(workers, sizeof(*process->workers));
    process->loops = mem_calloc(workers, sizeof(struct loop *));
    if (process->workers == NULL || process->loops == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < workers; i++) {
        char name[CRASH_NAME_BYTES_MAX];
        struct reactor_config config = {
            .name = name,
            .index = i,
            .clock = &process->clock,
            .io_pool = process->io_pool,
            .spin_ns = spin_ns,
            .turn_ended = turn_ended,
            .turn_context = &process->workers[i],
        };
        enum err err = ERR_OK;

        if (i < reactors)
            (void)snprintf(name, sizeof(name), "reactor-%u", i);
        else
            (void)snprintf(name, sizeof(name), "%s",
                           i == reactors       ? "controller"
                           : i == reactors + 1 ? "aside"
                                               : process->companion->name);
        err = reactor_new(&config, &process->workers[i].reactor);
        if (err != ERR_OK)
            return err;
        process->workers[i].process = process;
        process->workers[i].index = i;
        process->loops[i] = reactor_loop(process->workers[i].reactor);
        process->worker_count = i + 1;
    }
    return ERR_OK;
}

static enum err start_workers(struct process *process)
{
    for (uint32_t i = 0; i < process->worker_count; i++) {
        struct worker *worker = &process->workers[i];
        enum err err = ERR_OK;

        worker->enter.run = enter;
        loop_post(process->loops[i], &worker->enter);
        err = reactor_start(worker->reactor);
        if (err != ERR_OK)
            return err;
        process->started = i + 1;
    }
    return ERR_OK;
}

/* ---- what the broker tells ---- */

static void told(struct process *process, enum err err, const char *message, _Atomic(bool) *flag)
{
    process->err = err;
    (void)snprintf(process->message, sizeof(process->message), "%s", message);
    atomic_store(flag, true);
    (void)kill(getpid(), SIGNAL_FROM_LOOP);
}

static void start_told(void *context, enum err err, const char *message)
{
    struct process *process = context;

    told(process, err, message, &process->start_told);
}

static void stop_told(void *context, enum err err, const char *message)
{
    struct process *process = context;

    told(process, err, message, &process->stop_told);
}

static void failed(void *context, const char *message)
{
    struct process *process = context;

    (void)message; /* the broker has logged it */
    atomic_store(&process->failed, true);
    (void)kill(getpid(), SIGNAL_FROM_LOOP);
}

/* ---- readiness ---- */

static void format_addresses(const struct listeners *listeners, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < listeners->count && used < size; i++) {
        const struct listener *listener = &listeners->entries[i];
        const char *host = listener->bind.host[0] == '\0' ? "0.0.0.0" : listener->bind.host;
        bool v6 = strchr(host, ':') != NULL;
        int wrote = snprintf(text + used, size - used, "%s%s://%s%s%s:%u", i == 0 ? "" : ",", listener->name,
                             v6 ? "[" : "", host, v6 ? "]" : "", listener->bind.port);

        if (wrote < 0)
            return;
        used += (size_t)wrote;
    }
}

/* Beside and renamed, so that whoever waits for the file finds it whole. */
static enum err write_ready_file(struct process *process, const char *path, const char *addresses)
{
    char beside[4096];
    struct fs_file *file = NULL;
    struct bytes pieces[2] = {bytes_of_text(addresses), BYTES_LITERAL("\n")};
    size_t written = 0;
    enum err err = ERR_OK;

    if ((size_t)snprintf(beside, sizeof(beside), "%s.tmp", path) >= sizeof(beside))
        return ERR_USAGE;
    err = fs_open(&process->fs, beside, FS_WRITE | FS_CREATE | FS_TRUNCATE, &file);
    if (err != ERR_OK)
        return err;
    err = fs_write(file, 0, pieces, 2, &written);
    if (err == ERR_OK && written < pieces[0].size + pieces[1].size)
        err = ERR_NO_SPACE;
    fs_file_drop(file);
    return err == ERR_OK ? fs_rename(&process->fs, beside, path) : err;
}

static bool announce(struct process *process)
{
    char addresses[LISTENERS_MAX * (LISTENER_NAME_CHARS_MAX + NET_HOST_CHARS_MAX + 16)];
    enum err err = ERR_OK;

    format_addresses(broker_listeners(process->broker), addresses, sizeof(addresses));
    log_info(&process->log, "ready node_id=%d cluster=%s listeners=%s", broker_node_id(process->broker),
             broker_cluster_id(process->broker), addresses);
    err = notify_service_manager(process->options->notify_socket, "READY=1");
    if (err != ERR_OK)
        log_warn(&process->log, "the service manager cannot be told err=%s", err_name(err));
    if (process->options->ready_file == NULL)
        return true;
    err = write_ready_file(process, process->options->ready_file, addresses);
    if (err != ERR_OK)
        log_error(&process->log, "the ready file cannot be written path=%s err=%s", process->options->ready_file,
                  err_name(err));
    return err == ERR_OK;
}

/* ---- the calling thread ---- */

static bool start_companion(struct process *process)
{
    struct process_companion_env env = {
        .config = process->config,
        .net = process->net,
        .clock = &process->clock,
        .log = &process->log,
        .broker = process->broker,
    };
    char message[BROKER_MESSAGE_CHARS] = "";
    enum err err = ERR_OK;

    if (process->companion == NULL)
        return true;
    env.loop = process->loops[process->reactor_count + 2];
    err = process->companion->start(&env, &process->companion_state, message);
    if (err != ERR_OK)
        complain(process, message[0] != '\0' ? message : err_text(err));
    return err == ERR_OK;
}

static void companion_stopped(void *context)
{
    struct process *process = context;

    atomic_store(&process->companion_stopped, true);
    (void)kill(getpid(), SIGNAL_FROM_LOOP);
}

/* Its last questions are answered; what cannot be for too long is answered by the stop of the node. */
static void stop_companion(struct process *process)
{
    int64_t until_ns = clock_mono_ns(&process->clock) + COMPANION_STOP_NS_MAX;
    struct timespec patience = {.tv_nsec = COMPANION_LOOK_NS};

    if (process->companion_state == NULL)
        return;
    process->companion->stop(process->companion_state, companion_stopped, process);
    while (!atomic_load(&process->companion_stopped) && clock_mono_ns(&process->clock) < until_ns)
        (void)sigtimedwait(&process->signals, NULL, &patience);
}

/* Whether the node came up. */
static bool wait_for_start(struct process *process, bool *asked_to_stop)
{
    int number = 0;

    while (!atomic_load(&process->start_told)) {
        if (sigwait(&process->signals, &number) != 0 || number == SIGNAL_FROM_LOOP)
            continue;
        *asked_to_stop = true;
        return false;
    }
    if (process->err != ERR_OK) {
        complain(process, process->message);
        return false;
    }
    /* What failed meanwhile has been said; nobody is to be sent here any more. */
    return start_companion(process) && !atomic_load(&process->failed) && announce(process);
}

static int64_t cpu_us(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
}

/* What a burst left free goes back to the system once it is over. */
static void keep_small(int64_t *before_us, int64_t *given_back_us)
{
    int64_t now_us = cpu_us();

    if (now_us - *before_us < QUIET_CPU_US_MAX && now_us - *given_back_us > BURST_CPU_US_MIN) {
        mem_give_back();
        *given_back_us = cpu_us();
    }
    *before_us = now_us;
}

static void wait_for_signal(struct process *process)
{
    struct timespec look = {.tv_nsec = QUIET_LOOK_NS};
    int64_t before_us = cpu_us();
    int64_t given_back_us = 0;
    int number = 0;

    for (;;) {
        number = sigtimedwait(&process->signals, NULL, &look);
        if (atomic_load(&process->failed))
            return;
        if (number > 0 && number != SIGNAL_FROM_LOOP)
            break;
        keep_small(&before_us, &given_back_us);
    }
    log_info(&process->log, "stopping signal=%d", number);
}

/* Whether all was synced and closed. A stop often comes by several ways at once (a terminal signals its whole group, a
 * wrapper passes on what it got): only a later signal means "now". */
static bool wait_for_stop(struct process *process)
{
    int64_t began_ns = clock_mono_ns(&process->clock);
    struct timespec patience = {.tv_sec = 1};

    while (!atomic_load(&process->stop_told)) {
        int number = sigtimedwait(&process->signals, NULL, &patience);
        int64_t waited_s = (clock_mono_ns(&process->clock) - began_ns) / 1000000000;

        if (number > 0 && number != SIGNAL_FROM_LOOP && waited_s >= STOP_SECONDS_SAME) {
            complain(process, "told to stop again: ended as it is");
            return false;
        }
        if (waited_s >= STOP_SECONDS_MAX) {
            complain(process, "the stop takes too long: ended as it is");
            return false;
        }
    }
    if (process->err != ERR_OK)
        complain(process, process->message);
    return process->err == ERR_OK;
}

static int run(struct process *process)
{
    bool asked_to_stop = false;
    bool served = false;
    bool clean = false;

    broker_start(process->broker, start_told, process);
    served = wait_for_start(process, &asked_to_stop);
    if (served)
        wait_for_signal(process);
    (void)!notify_service_manager(process->options->notify_socket, "STOPPING=1");
    stop_companion(process);
    broker_stop(process->broker, stop_told, process);
    clean = wait_for_stop(process);
    if (!clean)
        _exit(EXIT_FAILURE); /* loops may still be at work on what would be freed */
    if (served)
        log_info(&process->log, "stopped cleanly");
    return (served && !atomic_load(&process->failed)) || asked_to_stop ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Found out now rather than by the first client. */
static enum err check_advertised(struct process *process, char message[BROKER_MESSAGE_CHARS])
{
    struct config_report report = {report_to_message, message};
    struct listeners listeners;
    enum err err = listeners_parse(process->config, &listeners, &report);

    for (uint32_t i = 0; i < listeners.count && err == ERR_OK; i++) {
        const struct listener *listener = &listeners.entries[i];

        if (listener->advertised.host[0] == '\0' || resolve_host(listener->advertised.host) == ERR_OK)
            continue;
        (void)snprintf(message, BROKER_MESSAGE_CHARS, "listener %s is advertised as %s, which does not resolve",
                       listener->name, listener->advertised.host);
        err = ERR_USAGE;
    }
    return err;
}

static enum err make_all(struct process *process, char message[BROKER_MESSAGE_CHARS])
{
    const struct config *config = process->config;
    struct socket_options sockets = {
        .send_buffer_bytes = config_is_set(config, CONFIG_SOCKET_SEND_BUFFER_BYTES)
                                 ? config_int(config, CONFIG_SOCKET_SEND_BUFFER_BYTES)
                                 : -1,
        .receive_buffer_bytes = config_is_set(config, CONFIG_SOCKET_RECEIVE_BUFFER_BYTES)
                                    ? config_int(config, CONFIG_SOCKET_RECEIVE_BUFFER_BYTES)
                                    : -1,
        .backlog = config_is_set(config, CONFIG_SOCKET_LISTEN_BACKLOG_SIZE)
                       ? config_int(config, CONFIG_SOCKET_LISTEN_BACKLOG_SIZE)
                       : 0,
    };
    struct broker_env env = {
        .fs = &process->fs,
        .clock = &process->clock,
        .rng = &process->rng,
        .log_sink = &process->sink.sink,
        .log_level = (enum log_level)process->log.level,
        .failed = failed,
        .context = process,
        .memory_bytes_max = process_memory_share(&process->fs),
        .descriptors_max = process_raise_descriptors(),
        .working_dir = getcwd(process->working_dir, sizeof(process->working_dir)),
    };
    enum err err = check_advertised(process, message);

    if (err == ERR_OK)
        err = io_pool_new("io", (uint32_t)config_int(config, CONFIG_OTTLA_IO_THREADS), reactor_job_completed,
                          &process->io_pool);

    if (err == ERR_OK)
        err = make_workers(process);
    if (err == ERR_OK)
        err = socket_net_new(&process->log, &sockets, &process->net);
    if (err != ERR_OK)
        return err;
    env.net = process->net;
    env.reactors = process->loops;
    env.reactor_count = process->reactor_count;
    env.controller = process->loops[process->reactor_count];
    env.aside = process->loops[process->reactor_count + 1];
    err = broker_new(&env, config, &process->broker, message);
    return err == ERR_OK ? start_workers(process) : err;
}

static void process_free(struct process *process)
{
    for (uint32_t i = 0; i < process->started; i++) {
        process->workers[i].leave.run = leave;
        loop_post(process->loops[i], &process->workers[i].leave);
        reactor_stop(process->workers[i].reactor);
    }
    for (uint32_t i = 0; i < process->started; i++)
        reactor_join(process->workers[i].reactor);
    if (atomic_load(&process->companion_stopped))
        process->companion->release(process->companion_state);
    broker_free(process->broker);
    socket_net_free(process->net);
    io_pool_free(process->io_pool);
    for (uint32_t i = 0; i < process->worker_count; i++)
        reactor_free(process->workers[i].reactor);
    mem_free(process->loops);
    mem_free(process->workers);
}

int process_serve(const struct config *config, const struct process_options *options)
{
    struct process *process = mem_calloc(1, sizeof(*process));
    char message[BROKER_MESSAGE_CHARS] = "";
    enum err err = ERR_OK;
    int status = EXIT_FAILURE;

    if (process == NULL)
        return status;
    process->config = config;
    process->options = options;
    if (options->companion != NULL && options->companion->is_wanted(config))
        process->companion = options->companion;
    clock_init_real(&process->clock);
    rng_init_real(&process->rng);
    fs_init_real(&process->fs);
    log_sink_fd_init(&process->sink, STDERR);
    process->log = (struct log){
        .sink = &process->sink.sink,
        .clock = &process->clock,
        .node_id = config_is_set(config, CONFIG_NODE_ID) ? config_int(config, CONFIG_NODE_ID) : -1,
        .room = "process",
        .level = (int)level_of(config_text(config, CONFIG_OTTLA_LOG_LEVEL)),
    };
    /* Before any thread is made: all inherit the mask, and only the calling thread waits for them. */
    (void)sigemptyset(&process->signals);
    (void)sigaddset(&process->signals, SIGTERM);
    (void)sigaddset(&process->signals, SIGINT);
    (void)sigaddset(&process->signals, SIGNAL_FROM_LOOP);
    (void)sigprocmask(SIG_BLOCK, &process->signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file at the limit of its size is then EFBIG: a full disk, no death */
    if (crash_install(&process->crash, STDERR) == ERR_OK)
        crash_enter(&process->crash, &process->ring, process->log.node_id, "ottla");
    err = make_all(process, message);
    if (err == ERR_OK)
        status = run(process);
    else
        complain(process, message[0] != '\0' ? message : err_text(err));
    process_free(process);
    crash_leave(&process->crash, &process->ring);
    crash_uninstall(&process->crash);
    mem_free(process);
    return status;
}
