/* Rule: a process that dies of a signal or a failed assertion first writes node, build, thread, its last events and a
 * backtrace, and still dies of it; SIGUSR1 writes the same for every thread and life goes on. */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/crash.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Linked with --wrap=mem_alloc: the allocation that this counts down to fails. */
static int allocations_left = -1;

void *__real_mem_alloc(size_t size);
void *__wrap_mem_alloc(size_t size);

void *__wrap_mem_alloc(size_t size)
{
    if (allocations_left == 0)
        return NULL;
    if (allocations_left > 0)
        allocations_left--;
    return __real_mem_alloc(size);
}

enum { WORKERS = 4 };

static char report[256 * 1024];

/* Runs what in a child whose report comes back in `report`; gives the child's wait status. */
static int status_of(void (*what)(struct crash *crash, struct crash_ring *ring))
{
    static struct crash crash;
    static struct crash_ring ring;
    size_t size = 0;
    ssize_t got = 0;
    int ends[2];
    int status = 0;
    pid_t child = 0;

    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        close(ends[0]);
        if (freopen("/dev/null", "w", stderr) == NULL) /* a sanitizer's own report: not what is shown here */
            _exit(99);
        if (crash_install(&crash, ends[1]) != ERR_OK)
            _exit(98);
        crash_enter(&crash, &ring, 3, "reactor-0");
        what(&crash, &ring);
        crash_leave(&crash, &ring);
        crash_uninstall(&crash);
        _exit(0);
    }
    close(ends[1]);
    while (size < sizeof(report) - 1 && (got = read(ends[0], report + size, sizeof(report) - 1 - size)) > 0)
        size += (size_t)got;
    report[size] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

static bool died_of(int status, int signal_number)
{
    return (WIFSIGNALED(status) && WTERMSIG(status) == signal_number) || (SANITIZED && WEXITSTATUS(status) != 0);
}

static int count_of(const char *text)
{
    int count = 0;

    for (const char *at = strstr(report, text); at != NULL; at = strstr(at + 1, text))
        count++;
    return count;
}

static void segfault(struct crash *crash, struct crash_ring *ring)
{
    (void)crash;
    crash_event(ring, 1, "request read", 17, -4);
    raise(SIGSEGV);
}

START_TEST(a_fatal_signal_leaves_a_report)
{
    ck_assert(died_of(status_of(segfault), SIGSEGV));
    ck_assert_ptr_nonnull(strstr(report, "crash report: signal=11"));
    ck_assert_ptr_nonnull(strstr(report, " node=3 build=" OTTLA_VERSION "-"));
    ck_assert_ptr_null(strstr(report, "build=" OTTLA_VERSION "- ")); /* the linker's id is there */
    ck_assert_ptr_nonnull(strstr(report, " thread=reactor-0 tid="));
    ck_assert_ptr_nonnull(strstr(report, " request read a=17 b=-4\n"));
    ck_assert_ptr_nonnull(strstr(report, "backtrace:\n"));
    ck_assert_ptr_nonnull(strstr(report, "end of report\n"));
}
END_TEST

static void fail_assertion(struct crash *crash, struct crash_ring *ring)
{
    (void)crash;
    assert(ring == NULL);
}

START_TEST(a_failed_assertion_leaves_a_report)
{
    ck_assert(died_of(status_of(fail_assertion), SIGABRT));
    ck_assert_ptr_nonnull(strstr(report, "assertion failed: ring == NULL at "));
    ck_assert_ptr_nonnull(strstr(report, "test_crash.c:"));
    ck_assert_ptr_nonnull(strstr(report, "crash report: signal=6"));
    ck_assert_int_eq(count_of("crash report:"), 1);
}
END_TEST

static void many_events(struct crash *crash, struct crash_ring *ring)
{
    (void)crash;
    for (int64_t i = 0; i < CRASH_EVENTS + 10; i++)
        crash_event(ring, i, "step", i, 0);
    abort();
}

START_TEST(the_ring_keeps_the_last_events_only)
{
    ck_assert(died_of(status_of(many_events), SIGABRT));
    ck_assert_int_eq(count_of(" step a="), CRASH_EVENTS);
    ck_assert_ptr_null(strstr(report, " step a=9 "));
    ck_assert_ptr_nonnull(strstr(report, " step a=10 "));
    ck_assert_ptr_nonnull(strstr(report, " step a=265 "));
    ck_assert_ptr_nonnull(strstr(report, "events=256 of=266"));
}
END_TEST

/* A stack that overflowed has no room for a report: it is written on the thread's spare one. */
static volatile int depth;

#pragma GCC diagnostic push
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Winfinite-recursion"
#elif __GNUC__ >= 12
#pragma GCC diagnostic ignored "-Winfinite-recursion"
#endif
static int dive(volatile char *above)
{
    volatile char here[4096];

    here[0] = *above;
    depth++;
    return dive(here) + here[0];
}
#pragma GCC diagnostic pop

static void overflow_stack(struct crash *crash, struct crash_ring *ring)
{
    volatile char start = 0;

    (void)crash;
    (void)ring;
    dive(&start);
}

START_TEST(a_stack_overflow_leaves_a_report)
{
    ck_assert(died_of(status_of(overflow_stack), SIGSEGV));
    ck_assert_ptr_nonnull(strstr(report, "crash report: signal=11 address=0x"));
    ck_assert_ptr_nonnull(strstr(report, "end of report\n"));
}
END_TEST

struct worker {
    struct crash *crash;
    struct crash_ring ring;
    atomic_int *entered;
    atomic_int *reported;
    int stop; /* a pipe's end; the thread goes when the other is closed */
    char name[16];
};

static void *work(void *context)
{
    struct worker *worker = context;
    struct pollfd stop = {.fd = worker->stop};

    crash_enter(worker->crash, &worker->ring, 3, worker->name);
    crash_event(&worker->ring, 1, "working", 1, 2);
    atomic_fetch_add(worker->entered, 1);
    while (poll(&stop, 1, -1) < 1)
        atomic_fetch_add(worker->reported, 1);
    crash_leave(worker->crash, &worker->ring);
    return NULL;
}

static bool thread_sleeps(int32_t thread_id)
{
    char path[64];
    char state = '?';
    FILE *file = NULL;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread_id);
    file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        _exit(97);
    fclose(file);
    return state == 'S';
}

/* In poll, as a reactor at rest: ThreadSanitizer runs handlers at once there, and drops some of those that it puts off
 * (clang 14: it takes the signal, blocks all others for the handler, does not call it). */
static void wait_until_all_sleep(const struct worker *workers, atomic_int *entered)
{
    while (atomic_load(entered) < WORKERS)
        usleep(1000);
    for (int i = 0; i < WORKERS; i++)
        while (!thread_sleeps(workers[i].ring.thread_id))
            usleep(1000);
}

static void usr1_with_workers(struct crash *crash, struct crash_ring *ring)
{
    static struct worker workers[WORKERS];
    static atomic_int entered;
    static atomic_int reported;
    pthread_t threads[WORKERS];
    sigset_t usr1;
    sigset_t before;
    int stop[2];

    (void)ring;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    if (pipe(stop) != 0)
        _exit(96);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.crash = crash, .entered = &entered, .reported = &reported, .stop = stop[0]};
        snprintf(workers[i].name, sizeof(workers[i].name), "worker-%d", i);
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            _exit(97);
    }
    pthread_sigmask(SIG_BLOCK, &usr1, &before);
    wait_until_all_sleep(workers, &entered);
    kill(getpid(), SIGUSR1);
    ppoll(NULL, 0, NULL, &before); /* the first thread reports here: a worker passed it on */
    while (atomic_load(&reported) < WORKERS)
        usleep(1000);
    close(stop[1]);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    close(stop[0]);
}

START_TEST(usr1_reports_every_thread_and_life_goes_on)
{
    char begin[64];

    ck_assert_int_eq(status_of(usr1_with_workers), 0);
    ck_assert_ptr_null(strstr(report, "crash report"));
    ck_assert_int_eq(count_of("report: signal=10"), WORKERS + 1);
    ck_assert_int_eq(count_of("end of report\n"), WORKERS + 1);
    ck_assert_int_eq(count_of(" working a=1 b=2\n"), WORKERS);
    ck_assert_ptr_nonnull(strstr(report, "thread=reactor-0"));
    for (int i = 0; i < WORKERS; i++) {
        snprintf(begin, sizeof(begin), "thread=worker-%d ", i);
        ck_assert_ptr_nonnull(strstr(report, begin));
    }
}
END_TEST

static void install_twice(struct crash *crash, struct crash_ring *ring)
{
    static struct crash other;

    (void)ring;
    if (crash_install(&other, 2) != ERR_BUSY)
        _exit(96);
    crash_uninstall(crash);
    if (crash_install(&other, 2) != ERR_OK)
        _exit(95);
    crash_uninstall(&other);
    if (crash_install(crash, 2) != ERR_OK)
        _exit(94);
}

START_TEST(one_is_installed_at_a_time)
{
    ck_assert_int_eq(status_of(install_twice), 0);
}
END_TEST

START_TEST(a_thread_without_crash_report_is_named_all_the_same)
{
    struct crash_ring *ring = calloc(1, sizeof(*ring));

    crash_enter(NULL, ring, -1, "a name longer than fifteen characters");
    ck_assert_str_eq(ring->name, "a name longer t");
    crash_event(ring, 1, "x", 0, 0);
    crash_leave(NULL, ring);
    free(ring);
}
END_TEST

static void segfault_without_stack(struct crash *crash, struct crash_ring *ring)
{
    crash_leave(crash, ring);
    allocations_left = 0;
    crash_enter(crash, ring, 3, "poor");
    raise(SIGSEGV);
}

START_TEST(without_memory_for_its_stack_a_thread_reports_on_its_own)
{
    ck_assert(died_of(status_of(segfault_without_stack), SIGSEGV));
    ck_assert_ptr_nonnull(strstr(report, " thread=poor tid="));
}
END_TEST

static void *fault_with_signals_blocked(void *context)
{
    sigset_t all;

    (void)context;
    sigfillset(&all);
    crash_keep_unblocked(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_setname_np(pthread_self(), "io-3");
    raise(SIGSEGV);
    return NULL;
}

static void fault_on_a_thread_not_entered(struct crash *crash, struct crash_ring *ring)
{
    pthread_t thread;

    (void)crash;
    (void)ring;
    if (pthread_create(&thread, NULL, fault_with_signals_blocked, NULL) != 0)
        _exit(93);
    pthread_join(thread, NULL);
}

/* A fatal signal that is blocked would end the process without a word. */
START_TEST(threads_without_ring_and_with_signals_blocked_report_by_name)
{
    ck_assert(died_of(status_of(fault_on_a_thread_not_entered), SIGSEGV));
    ck_assert_ptr_nonnull(strstr(report, " thread=io-3 tid="));
    ck_assert_ptr_nonnull(strstr(report, "backtrace:\n"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("crash");
    TCase *tcase = tcase_create("crash");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, a_fatal_signal_leaves_a_report);
    tcase_add_test(tcase, a_failed_assertion_leaves_a_report);
    tcase_add_test(tcase, the_ring_keeps_the_last_events_only);
    tcase_add_test(tcase, a_stack_overflow_leaves_a_report);
    tcase_add_test(tcase, usr1_reports_every_thread_and_life_goes_on);
    tcase_add_test(tcase, one_is_installed_at_a_time);
    tcase_add_test(tcase, a_thread_without_crash_report_is_named_all_the_same);
    tcase_add_test(tcase, without_memory_for_its_stack_a_thread_reports_on_its_own);
    tcase_add_test(tcase, threads_without_ring_and_with_signals_blocked_report_by_name);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
