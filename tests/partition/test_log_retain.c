/* Rule: retention deletes whole segments, oldest first, as Apache Kafka does: by the time of their newest record and by
 * the log's size, never beyond the limit it is given, and never by age while the wall clock is not to be believed. */
#include <check.h>
#include <stdlib.h>

#include "base/mem.h"
#include "partition/log_internal.h"
#include "run_tests.h"
#include "world.h"

enum { BATCH_VALUE_BYTES = 2000, DAY_MS = 86400000 };

static struct world world;
static struct clock_guard guard;

static int64_t now_ms(void)
{
    return clock_wall_ms(&world.sim.clock);
}

/* Segments of one batch of two records each. ages_ms: of each one's newest record. */
static struct partition_log *log_of(const int64_t *ages_ms, int count)
{
    struct partition_log *log = NULL;

    world_begin(&world, 1);
    world.sim.wall_offset_ms = INT64_C(1700000000000);
    clock_guard_init(&guard, 3600000, now_ms(), clock_boot_ns(&world.sim.clock));
    world.env.clock_guard = &guard;
    world.spec.config.segment_bytes = 3000;
    log = world_log(&world);
    for (int i = 0; i < count; i++)
        world_append(&world, log,
                     &(struct batch_make){.record_count = 2,
                                          .value_bytes = BATCH_VALUE_BYTES / 2,
                                          .timestamp = ages_ms[i] < 0 ? -1 : now_ms() - ages_ms[i]});
    return log;
}

static void end(struct partition_log *log)
{
    int64_t start = partition_log_start_offset(log);
    int64_t end_offset = partition_log_end_offset(log);

    world_close(&world, log);
    log = world_log(&world); /* and so it stays */
    ck_assert_int_eq(partition_log_start_offset(log), start);
    ck_assert_int_eq(partition_log_end_offset(log), end_offset);
    world_append(&world, log, &(struct batch_make){.value_bytes = 10, .timestamp = now_ms()});
    ck_assert_int_eq(partition_log_end_offset(log), end_offset + 1);
    world_close(&world, log);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
}

static int64_t retain(struct partition_log *log, int64_t limit)
{
    partition_log_retain(log, limit);
    world_pass(&world, INT64_C(500000000));
    return partition_log_start_offset(log);
}

START_TEST(by_age)
{
    static const int64_t ages[] = {9 * (int64_t)DAY_MS, 8 * (int64_t)DAY_MS, 5 * (int64_t)DAY_MS, 0};
    struct partition_log *log = log_of(ages, 4);

    log->config->retention_ms = 7 * (int64_t)DAY_MS;
    ck_assert_int_eq(retain(log, 8), 4);
    ck_assert_uint_eq(partition_log_segment_count(log), 2);
    log->config->retention_ms = -1;
    ck_assert_int_eq(retain(log, 8), 4);
    end(log);
}
END_TEST

/* It goes when it is older than retention.ms, not when it is as old. */
START_TEST(by_age_at_the_edge)
{
    static const int64_t ages[] = {1000000, 0};
    struct partition_log *log = log_of(ages, 2);

    log->config->retention_ms = now_ms() - log->segments[0]->max_timestamp;
    partition_log_retain(log, 4);
    ck_assert_int_eq(partition_log_start_offset(log), 0);
    log->config->retention_ms--;
    partition_log_retain(log, 4);
    ck_assert_int_eq(partition_log_start_offset(log), 2);
    end(log);
}
END_TEST

/* One that stays keeps what is behind it. */
START_TEST(oldest_first)
{
    static const int64_t ages[] = {0, 9 * (int64_t)DAY_MS, 9 * (int64_t)DAY_MS, 0};
    struct partition_log *log = log_of(ages, 4);

    ck_assert_int_eq(retain(log, 8), 0);
    end(log);
}
END_TEST

/* Trap B122: records from the future are kept by age, and go by size all the same. */
START_TEST(future_times)
{
    static const int64_t ages[] = {-2, 9 * (int64_t)DAY_MS, 9 * (int64_t)DAY_MS, 0};
    struct partition_log *log = NULL;
    int64_t microseconds[4];

    memcpy(microseconds, ages, sizeof(ages));
    microseconds[0] = INT64_C(1700000000000) - INT64_C(1700000000000000);
    log = log_of(microseconds, 4);
    log->segments[0]->max_timestamp = INT64_C(1700000000000000);
    ck_assert_int_eq(retain(log, 8), 0);
    log->config->retention_bytes = (int64_t)log->size - 1000;
    ck_assert_int_eq(retain(log, 8), 0); /* the first is larger than what is too much */
    log->config->retention_bytes = (int64_t)(log->size - log->segments[0]->size);
    ck_assert_int_eq(retain(log, 8), 6); /* and what was behind it is old */
    end(log);
}
END_TEST

/* A segment whose records have no time is as old as its file. */
START_TEST(no_times)
{
    static const int64_t ages[] = {-1, -1, 0};
    struct partition_log *log = log_of(ages, 3);

    log->config->retention_ms = 3600000;
    ck_assert_int_eq(log->segments[0]->max_timestamp, -1);
    ck_assert_int_eq(retain(log, 6), 0);
    world_pass(&world, INT64_C(3700) * 1000000000);
    ck_assert_int_eq(retain(log, 6), 6);
    end(log);
}
END_TEST

START_TEST(by_size)
{
    static const int64_t ages[] = {0, 0, 0, 0};
    struct partition_log *log = log_of(ages, 4);
    int64_t one = (int64_t)log->segments[0]->size;

    log->config->retention_bytes = 3 * one + 1;
    ck_assert_int_eq(retain(log, 8), 0);
    log->config->retention_bytes = 3 * one;
    ck_assert_int_eq(retain(log, 8), 2);
    log->config->retention_bytes = one;
    ck_assert_int_eq(retain(log, 8), 6);
    log->config->retention_bytes = 1;
    ck_assert_int_eq(retain(log, 8), 6);
    log->config->retention_bytes = 0; /* the active one, too */
    ck_assert_int_eq(retain(log, 8), 8);
    ck_assert_uint_eq(partition_log_size(log), 0);
    end(log);
}
END_TEST

/* All of an idle log is old: an empty segment is begun, and remembers where the log is. Appends that come meanwhile are
 * not lost with it. */
START_TEST(everything_is_old)
{
    static const int64_t ages[] = {9 * (int64_t)DAY_MS, 8 * (int64_t)DAY_MS};

    for (int idle = 0; idle < 3; idle++) {
        struct partition_log *log = log_of(ages, 2);
        struct appended appended;
        size_t size = 0;
        uint8_t *batch = make_batch(&(struct batch_make){.value_bytes = 10, .timestamp = now_ms()}, &size);

        if (idle == 1) /* its files are closed */
            world_pass(&world, INT64_C(120000000000));
        partition_log_retain(log, 4);
        if (idle == 2) {
            ck_assert_int_eq(world_append_run(&world, log, batch, size, LOG_ORIGIN_CLIENT, &appended), ERR_OK);
            ck_assert_int_eq(appended.op.base_offset, 4);
        }
        world_pass(&world, INT64_C(500000000));
        ck_assert_int_eq(partition_log_start_offset(log), 4);
        ck_assert_int_eq(partition_log_end_offset(log), idle == 2 ? 5 : 4);
        ck_assert_uint_eq(partition_log_segment_count(log), 1);
        ck_assert_int_eq(retain(log, 4), 4);
        mem_free(batch);
        end(log);
    }
}
END_TEST

/* Nothing that readers cannot see yet goes: the limit is the high watermark. */
START_TEST(up_to_the_high_watermark)
{
    static const int64_t ages[] = {9 * (int64_t)DAY_MS, 8 * (int64_t)DAY_MS, 8 * (int64_t)DAY_MS};
    struct partition_log *log = log_of(ages, 3);

    ck_assert_int_eq(retain(log, 3), 2);
    ck_assert_int_eq(retain(log, 5), 4);
    ck_assert_int_eq(retain(log, 6), 6);
    end(log);
}
END_TEST

/* A topic that only compacts loses what is below its start, and nothing else. */
START_TEST(compacted_topics_keep_all)
{
    static const int64_t ages[] = {9 * (int64_t)DAY_MS, 8 * (int64_t)DAY_MS};
    struct partition_log *log = log_of(ages, 2);

    log->config->cleanup_delete = false;
    log->config->cleanup_compact = true;
    log->config->retention_bytes = 0;
    ck_assert_int_eq(retain(log, 4), 0);
    log->config->cleanup_delete = true;
    ck_assert_int_eq(retain(log, 4), 4);
    end(log);
}
END_TEST

/* A clock that jumped a month ahead must not take a week's records with it; nor may producers be forgotten by it. */
START_TEST(a_clock_that_jumped)
{
    static const int64_t ages[] = {DAY_MS, DAY_MS};
    struct partition_log *log = log_of(ages, 2);
    struct batch_make make = {.value_bytes = BATCH_VALUE_BYTES, .producer_id = 1, .timestamp = now_ms()};

    world_append(&world, log, &make);
    world.sim.wall_offset_ms += 30 * (int64_t)DAY_MS;
    ck_assert_int_eq(retain(log, 5), 0);
    log_producers_expire(log);
    ck_assert_uint_eq(producer_state_count(&log->producers), 1);
    log->config->retention_bytes = (int64_t)(log->size - log->segments[0]->size);
    ck_assert_int_eq(retain(log, 5), 2); /* that needs no clock */
    world.sim.wall_offset_ms -= 30 * (int64_t)DAY_MS;
    log->config->retention_ms = DAY_MS / 2;
    ck_assert_int_eq(retain(log, 5), 4);
    end(log);
}
END_TEST

/* The epochs follow the start; what lay before it is in none. */
START_TEST(epochs_follow_the_start)
{
    static const int64_t ages[] = {0, 0, 0};
    struct partition_log *log = log_of(ages, 3);
    int32_t epoch = 0;
    int64_t end_offset = 0;

    ck_assert_int_eq(partition_log_assign_epoch(log, 7), ERR_OK);
    partition_log_move_start(log, 3);
    ck_assert_int_eq(partition_log_epoch_at(log, 2), -1);
    ck_assert_int_eq(partition_log_epoch_at(log, 3), 0);
    partition_log_epoch_end(log, 0, &epoch, &end_offset);
    ck_assert_int_eq(epoch, 0);
    ck_assert_int_eq(end_offset, 6);
    partition_log_move_start(log, 1); /* never back */
    ck_assert_int_eq(partition_log_start_offset(log), 3);
    partition_log_move_start(log, 6); /* the last segment stays */
    ck_assert_uint_eq(partition_log_segment_count(log), 1);
    end(log);
}
END_TEST

/* A retention that waits for a new segment is over when the log is cut meanwhile. */
START_TEST(a_retention_that_waits_ends_with_a_cut)
{
    struct partition_log *log = NULL;
    struct world_cut cut = {.op = {.offset = 2, .done = world_was_cut}};

    world_begin(&world, 1);
    world.spec.config.segment_bytes = 400;
    world.spec.config.retention_ms = 1;
    log = world_log(&world);
    for (int i = 0; i < 3; i++)
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10, .timestamp = 1, .record_count = 2});
    partition_log_retain(log, partition_log_end_offset(log)); /* all of it: a segment is begun first */
    partition_log_truncate(log, &cut.op);
    world_run(&world, &cut.done);
    ck_assert_int_eq(cut.op.err, ERR_OK);
    ck_assert_int_eq(partition_log_end_offset(log), 2);
    world.spec.config.segment_bytes = 100;
    partition_log_set_config(log, &world.spec.config);
    for (int i = 0; i < 3; i++) /* each in a segment of its own */
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10, .timestamp = 1});
    world_close(&world, log);
    world_end(&world);
}
END_TEST

RUN_TESTS("log_retain", by_age, by_age_at_the_edge, oldest_first, future_times, no_times, by_size, everything_is_old,
          up_to_the_high_watermark, compacted_topics_keep_all, a_clock_that_jumped, epochs_follow_the_start,
          a_retention_that_waits_ends_with_a_cut)
