/* Rule: jobs are taken in the order in which they came, each is run and completed once, also those still queued when
 * the pool ends. */
#include "net/io_pool.h"

#include <check.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/mem.h"

enum { COUNT = 5000 };

struct work {
    struct loop_job job;
    int number;
    atomic_int runs;
};

static int expected; /* the one thread's */
static bool in_order = true;
static atomic_uint completed;

static void run(struct loop_job *job)
{
    struct work *work = LIST_ENTRY(job, struct work, job);

    in_order = in_order && work->number == expected;
    expected++;
    atomic_fetch_add(&work->runs, 1);
}

static void run_anyhow(struct loop_job *job)
{
    atomic_fetch_add(&LIST_ENTRY(job, struct work, job)->runs, 1);
}

static void note_completed(struct loop_job *job)
{
    (void)job;
    atomic_fetch_add(&completed, 1);
}

static void run_all(uint32_t threads, void (*how)(struct loop_job *job))
{
    struct work *works = mem_calloc(COUNT, sizeof(struct work));
    struct io_pool *pool = NULL;

    ck_assert_int_eq(io_pool_new("disk", threads, note_completed, &pool), ERR_OK);
    for (int i = 0; i < COUNT; i++) {
        works[i].number = i;
        works[i].job.run = how;
        io_pool_submit(pool, &works[i].job);
    }
    io_pool_free(pool);
    ck_assert_uint_eq(atomic_load(&completed), COUNT);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(atomic_load(&works[i].runs), 1);
    mem_free(works);
}

START_TEST(one_thread_takes_them_in_order)
{
    run_all(1, run);
    ck_assert(in_order);
}
END_TEST

START_TEST(several_threads_run_each_once)
{
    run_all(4, run_anyhow);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("io_pool");
    TCase *tcase = tcase_create("io_pool");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, one_thread_takes_them_in_order);
    tcase_add_test(tcase, several_threads_run_each_once);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
