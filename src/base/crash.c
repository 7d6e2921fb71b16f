#include "base/crash.h"

#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/histogram.h"
#include "base/mem.h"

enum {
    FRAMES_MAX = 64,
    WAIT_TURNS_MAX = 200000, /* yields while another thread writes its report; then both write at once */
};

static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
enum { FATAL_SIGNALS = sizeof(fatal_signals) / sizeof(fatal_signals[0]) };

/* A signal handler is handed nothing, so what it needs is found here: the exception in tools/lint. */
static struct {
    _Atomic(struct crash *) crash;
    struct sigaction before[FATAL_SIGNALS];
    struct sigaction usr1_before;
} installed;

/* Everything below, down to crash_install, runs in signal handlers: no locks, no heap, write(2) only. */

struct text {
    char data[512];
    size_t size;
};

static void put(struct text *text, const char *part)
{
    while (*part != '\0' && text->size < sizeof(text->data))
        text->data[text->size++] = *part++;
}

static void put_number(struct text *text, int64_t number, unsigned base)
{
    char digits[24];
    size_t at = sizeof(digits);
    uint64_t left = number < 0 && base == 10 ? 0 - (uint64_t)number : (uint64_t)number;

    digits[--at] = '\0';
    do {
        digits[--at] = "0123456789abcdef"[left % base];
        left /= base;
    } while (left > 0);
    if (number < 0 && base == 10)
        digits[--at] = '-';
    put(text, digits + at);
}

static void put_key(struct text *text, const char *key, int64_t number)
{
    put(text, key);
    put_number(text, number, 10);
}

static void flush(struct text *text, int fd)
{
    size_t done = 0;

    put(text, "\n");
    while (done < text->size) {
        ssize_t moved = write(fd, text->data + done, text->size - done);

        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0)
            break;
        done += (size_t)moved;
    }
    text->size = 0;
}

static int32_t own_thread_id(void)
{
    return (int32_t)syscall(SYS_gettid);
}

static struct crash_ring *own_ring(struct crash *crash)
{
    int32_t thread_id = own_thread_id();

    for (uint32_t i = 0; i < CRASH_THREADS_MAX; i++) {
        struct crash_ring *ring = atomic_load_explicit(&crash->rings[i], memory_order_acquire);

        if (ring != NULL && ring->thread_id == thread_id)
            return ring;
    }
    return NULL;
}

static void write_events(const struct crash_ring *ring, int fd)
{
    uint32_t next = atomic_load_explicit(&ring->next, memory_order_acquire);
    uint32_t count = next < CRASH_EVENTS ? next : CRASH_EVENTS;
    struct timespec now = {0};
    struct text text = {.size = 0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    put_key(&text, "events=", count);
    put_key(&text, " of=", next);
    put(&text, ", oldest first; age_us from this report");
    flush(&text, fd);
    for (uint32_t i = next - count; i != next; i++) {
        const struct crash_event *event = &ring->events[i & (CRASH_EVENTS - 1)];

        put_key(&text, "  age_us=", ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec - event->at_ns) / 1000);
        put(&text, " ");
        put(&text, event->what);
        put_key(&text, " a=", event->a);
        put_key(&text, " b=", event->b);
        flush(&text, fd);
    }
}

static void write_turns(const struct crash_ring *ring, int fd)
{
    struct text text = {.size = 0};
    uint64_t count = 0;

    if (ring->turns == NULL)
        return;
    count = histogram_count(ring->turns);
    put_key(&text, "turns=", (int64_t)count);
    put_key(&text, " p50_us=", (int64_t)histogram_quantile(ring->turns, 0.5) / 1000);
    put_key(&text, " p99_us=", (int64_t)histogram_quantile(ring->turns, 0.99) / 1000);
    put_key(&text, " p999_us=", (int64_t)histogram_quantile(ring->turns, 0.999) / 1000);
    put_key(&text, " p9999_us=", (int64_t)histogram_quantile(ring->turns, 0.9999) / 1000);
    put_key(&text, " max_us=", (int64_t)atomic_load_explicit(&ring->turns->max, memory_order_relaxed) / 1000);
    flush(&text, fd);
}

static void write_backtrace(int fd)
{
    void *frames[FRAMES_MAX];
    int count = backtrace(frames, FRAMES_MAX);
    struct text text = {.size = 0};

    put(&text, "backtrace:");
    flush(&text, fd);
    backtrace_symbols_fd(frames, count, fd);
}

/* One report at a time where that can be waited for. A thread that crashes within its own report does not wait. */
static bool begin_report(struct crash *crash)
{
    int own = own_thread_id();

    for (int turn = 0; turn < WAIT_TURNS_MAX; turn++) {
        int holder = 0;

        if (atomic_compare_exchange_strong(&crash->reporting, &holder, own))
            return true;
        if (holder == own)
            return false;
        sched_yield();
    }
    return false;
}

static void end_report(struct crash *crash, bool began)
{
    if (began)
        atomic_store(&crash->reporting, 0);
}

static void write_report(struct crash *crash, int signal_number, const siginfo_t *info)
{
    const struct crash_ring *ring = own_ring(crash);
    struct text text = {.size = 0};
    bool began = begin_report(crash);
    char name[CRASH_NAME_BYTES_MAX] = "?";

    prctl(PR_GET_NAME, name);
    if (ring != NULL)
        memcpy(name, ring->name, sizeof(name));
    put(&text, signal_number == SIGUSR1 ? "report:" : "crash report:");
    put_key(&text, " signal=", signal_number);
    if (info != NULL && info->si_code > 0 && signal_number != SIGABRT) {
        put(&text, " address=0x");
        put_number(&text, (int64_t)(uintptr_t)info->si_addr, 16);
    }
    if (ring != NULL && ring->node_id >= 0)
        put_key(&text, " node=", ring->node_id);
    put(&text, " build=" OTTLA_VERSION "-");
    put(&text, crash->build_id);
    put(&text, " thread=");
    put(&text, name);
    put_key(&text, " tid=", own_thread_id());
    put_key(&text, " pid=", getpid());
    flush(&text, crash->fd);
    if (ring != NULL)
        write_turns(ring, crash->fd);
    if (ring != NULL)
        write_events(ring, crash->fd);
    write_backtrace(crash->fd);
    put(&text, "end of report");
    flush(&text, crash->fd);
    end_report(crash, began);
}

static void on_fatal(int signal_number, siginfo_t *info, void *context)
{
    struct crash *crash = atomic_load(&installed.crash);

    (void)context;
    /* The first crash tells the story; a second one, in the report itself or on another thread, must not hide it. */
    if (crash != NULL && !atomic_exchange(&crash->dying, true))
        write_report(crash, signal_number, info);
    for (uint32_t i = 0; i < FATAL_SIGNALS; i++)
        if (fatal_signals[i] == signal_number)
            sigaction(signal_number, &installed.before[i], NULL);
    /* What the instruction at fault raised comes again on return, with its address, for whoever was there before us
     * (a sanitizer, or the kernel and its core dump); what was sent has to be sent again. */
    if (info->si_code <= 0)
        raise(signal_number);
}

static void on_usr1(int signal_number, siginfo_t *info, void *context)
{
    struct crash *crash = atomic_load(&installed.crash);
    int saved_errno = errno;
    bool own_was_entered = false;

    (void)context;
    if (crash == NULL)
        return;
    if (info->si_code != SI_TKILL) { /* from outside: pass it on to every thread that has a ring */
        for (uint32_t i = 0; i < CRASH_THREADS_MAX; i++) {
            const struct crash_ring *ring = atomic_load_explicit(&crash->rings[i], memory_order_acquire);

            if (ring == NULL)
                continue;
            if (ring->thread_id == own_thread_id())
                own_was_entered = true;
            else
                syscall(SYS_tgkill, getpid(), ring->thread_id, SIGUSR1);
        }
    }
    if (info->si_code == SI_TKILL || own_was_entered)
        write_report(crash, signal_number, NULL);
    errno = saved_errno;
}

/* The first object is the program itself; its notes hold what the linker computed over it. */
static int find_build_id(struct dl_phdr_info *info, size_t size, void *context)
{
    struct crash *crash = context;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uint8_t *at = (const uint8_t *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        const uint8_t *end = at + info->dlpi_phdr[i].p_memsz;

        if (info->dlpi_phdr[i].p_type != PT_NOTE)
            continue;
        while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(const void *)at;
            const uint8_t *id = at + sizeof(*note) + (note->n_namesz + 3) / 4 * 4;

            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4) {
                for (uint32_t k = 0; k < note->n_descsz && k < CRASH_BUILD_ID_BYTES_MAX; k++)
                    snprintf(crash->build_id + 2 * k, 3, "%02x", id[k]);
                return 1;
            }
            at = id + (note->n_descsz + 3) / 4 * 4;
        }
    }
    return 1;
}

enum err crash_install(struct crash *crash, int fd)
{
    struct sigaction action = {.sa_sigaction = on_fatal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct crash *none = NULL;
    void *frame = NULL;

    memset(crash, 0, sizeof(*crash));
    crash->fd = fd;
    dl_iterate_phdr(find_build_id, crash);
    if (!atomic_compare_exchange_strong(&installed.crash, &none, crash))
        return ERR_BUSY;
    backtrace(&frame, 1); /* loads what it needs now: in a handler that could lock or allocate */
    sigemptyset(&action.sa_mask);
    for (uint32_t i = 0; i < FATAL_SIGNALS; i++)
        sigaction(fatal_signals[i], &action, &installed.before[i]);
    action.sa_sigaction = on_usr1;
    action.sa_flags |= SA_RESTART;
    sigaction(SIGUSR1, &action, &installed.usr1_before);
    return ERR_OK;
}

void crash_uninstall(struct crash *crash)
{
    assert(atomic_load(&installed.crash) == crash);
    for (uint32_t i = 0; i < FATAL_SIGNALS; i++)
        sigaction(fatal_signals[i], &installed.before[i], NULL);
    sigaction(SIGUSR1, &installed.usr1_before, NULL);
    atomic_store(&installed.crash, NULL);
}

void crash_keep_unblocked(sigset_t *signals)
{
    for (uint32_t i = 0; i < FATAL_SIGNALS; i++)
        sigdelset(signals, fatal_signals[i]);
    sigdelset(signals, SIGUSR1);
}

void crash_enter(struct crash *crash, struct crash_ring *ring, int32_t node_id, const char *name)
{
    stack_t stack = {.ss_size = CRASH_STACK_BYTES};

    ring->node_id = node_id;
    ring->thread_id = own_thread_id();
    snprintf(ring->name, sizeof(ring->name), "%s", name);
    if (ring->thread_id != getpid()) /* the first thread's name is the program's in ps(1) and stays */
        pthread_setname_np(pthread_self(), ring->name);
    if (crash == NULL)
        return;
    ring->stack = mem_alloc(CRASH_STACK_BYTES);
    stack.ss_sp = ring->stack;
    if (stack.ss_sp != NULL)
        sigaltstack(&stack, &ring->stack_before);
    for (uint32_t i = 0; i < CRASH_THREADS_MAX; i++) {
        struct crash_ring *none = NULL;

        if (atomic_compare_exchange_strong(&crash->rings[i], &none, ring))
            return;
    }
}

void crash_leave(struct crash *crash, struct crash_ring *ring)
{
    for (uint32_t i = 0; crash != NULL && i < CRASH_THREADS_MAX; i++) {
        struct crash_ring *own = ring;

        atomic_compare_exchange_strong(&crash->rings[i], &own, NULL);
    }
    if (ring->stack != NULL) {
        sigaltstack(&ring->stack_before, NULL);
        mem_free(ring->stack);
        ring->stack = NULL;
    }
}

void assert_failed(const char *expression, const char *file, int line, const char *function)
{
    struct crash *crash = atomic_load(&installed.crash);
    struct text text = {.size = 0};

    put(&text, "assertion failed: ");
    put(&text, expression);
    put(&text, " at ");
    put(&text, file);
    put_key(&text, ":", line);
    put(&text, " in ");
    put(&text, function);
    flush(&text, crash != NULL ? crash->fd : STDERR_FILENO);
    if (crash == NULL)
        write_backtrace(STDERR_FILENO);
    abort(); /* SIGABRT brings the report */
}
