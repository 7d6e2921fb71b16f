/* Rule: what one append may hold has limits, and at each the answer is an error of that append alone: batches, bytes
 * and the spread of offsets that a segment can hold. */
#include <check.h>

#include "base/mem.h"
#include "partition/partition_limits.h"
#include "world.h"

static struct world world;

/* count batches of one record, those of a leader's log, with offsets from base on, step apart. mem_free it. */
static uint8_t *make_run(uint32_t count, int64_t base, int64_t step, size_t *size)
{
    size_t each = 0;
    uint8_t *batch = make_batch(&(struct batch_make){.timestamp = 1000}, &each);
    uint8_t *run = mem_alloc(each * count);

    for (uint32_t i = 0; i < count; i++) {
        batch_set_base_offset(batch, base + (int64_t)i * step);
        batch_set_leader_epoch(batch, 0);
        memcpy(run + i * each, batch, each);
    }
    mem_free(batch);
    *size = each * count;
    return run;
}

static enum err append_run(struct partition_log *log, uint32_t count, int64_t base, int64_t step)
{
    struct appended appended;
    size_t size = 0;
    uint8_t *run = make_run(count, base, step, &size);
    enum err err = world_append_run(&world, log, run, size, LOG_ORIGIN_GIVEN, &appended);

    mem_free(run);
    return err;
}

START_TEST(the_number_of_batches_is_limited)
{
    struct partition_log *log = NULL;

    world_begin(&world, 1);
    log = world_log(&world);
    ck_assert_int_eq(append_run(log, LOG_APPEND_BATCHES_MAX - 1, 0, 1), ERR_OK);
    ck_assert_int_eq(append_run(log, LOG_APPEND_BATCHES_MAX, LOG_APPEND_BATCHES_MAX - 1, 1), ERR_OK);
    ck_assert_int_eq(append_run(log, LOG_APPEND_BATCHES_MAX + 1, 2 * LOG_APPEND_BATCHES_MAX - 1, 1), ERR_LIMIT);
    ck_assert_int_eq(partition_log_end_offset(log), 2 * LOG_APPEND_BATCHES_MAX - 1);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* Offsets and positions in a segment are 31 bits wide (trap B140): what is further apart goes into two segments, or,
 * in one append, nowhere. */
START_TEST(an_append_spreads_no_further_than_a_segment)
{
    struct partition_log *log = NULL;

    world_begin(&world, 2);
    log = world_log(&world);
    ck_assert_int_eq(append_run(log, 2, 0, (int64_t)INT32_MAX + 1), ERR_RECORD_LIST_TOO_LARGE);
    ck_assert_int_eq(partition_log_end_offset(log), 0);
    ck_assert_int_eq(append_run(log, 2, 0, INT32_MAX), ERR_OK);
    ck_assert_uint_eq(partition_log_segment_count(log), 1);
    ck_assert_int_eq(append_run(log, 1, (int64_t)INT32_MAX + 1, 1), ERR_OK);
    ck_assert_uint_eq(partition_log_segment_count(log), 2);
    ck_assert_int_eq(partition_log_segment_base(log, 1), (int64_t)INT32_MAX + 1);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

START_TEST(an_append_is_no_larger_than_a_segment)
{
    for (int over = -1; over <= 1; over++) {
        struct partition_log *log = NULL;
        size_t size = 0;

        mem_free(make_run(2, 0, 1, &size));
        world_begin(&world, 3);
        world.spec.config.segment_bytes = (int64_t)size - over;
        log = world_log(&world);
        ck_assert_int_eq(append_run(log, 2, 0, 1), over > 0 ? ERR_RECORD_LIST_TOO_LARGE : ERR_OK);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

enum { ROW = 4 };

static struct partition_log *row_log;
static struct log_append row[ROW];
static uint32_t row_order[ROW];
static uint32_t row_ended;

static void row_begin(uint32_t i)
{
    partition_log_append(row_log, &row[i]);
}

/* The first begins two more, which queue; the second, whose write fails, one more. */
static void row_done(struct log_append *op)
{
    uint32_t i = (uint32_t)(op - row);

    row_order[row_ended++] = i;
    if (i == 0) {
        row_begin(1);
        row_begin(2);
    } else if (i == 1) {
        row_begin(3);
    }
}

/* Appends complete in the order in which they came, also where one of them fails the log. */
START_TEST(a_failing_log_answers_in_order)
{
    size_t size = 0;
    uint8_t *batch = NULL;

    world_begin(&world, 4);
    row_log = world_log(&world);
    world_append(&world, row_log, &(struct batch_make){.record_count = 1});
    batch = make_batch(&(struct batch_make){.record_count = 1}, &size);
    for (uint32_t i = 0; i < ROW; i++)
        row[i] = (struct log_append){.batches = batch, .size = size, .origin = LOG_ORIGIN_CLIENT, .done = row_done};
    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_WRITE, 2, ERR_IO);
    row_begin(0);
    world_pass(&world, 1000000000);
    ck_assert_uint_eq(row_ended, ROW);
    for (uint32_t i = 0; i < ROW; i++) {
        ck_assert_uint_eq(row_order[i], i);
        ck_assert_int_eq(row[i].err, i == 0 ? ERR_OK : ERR_KAFKA_STORAGE_ERROR);
    }
    mem_free(batch);
    world_crash(&world, row_log, false);
    world_end(&world);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log_append");
    TCase *tcase = tcase_create("log_append");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, the_number_of_batches_is_limited);
    tcase_add_test(tcase, an_append_spreads_no_further_than_a_segment);
    tcase_add_test(tcase, an_append_is_no_larger_than_a_segment);
    tcase_add_test(tcase, a_failing_log_answers_in_order);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
