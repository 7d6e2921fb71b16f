/* Rule: a set is sorted by topic and partition, each once, whatever came in which order; what is looked for is found or
 * not there; a copy is one's own; it is walked topic by topic. Held against a table of what is in. */
#include <check.h>

#include "base/mem.h"
#include "coordinator/partition_set.h"
#include "partition/run_tests.h"
#include "transcript/transcript.h"

enum { TOPICS = 5, PARTITIONS = 40, ADDED = 120, RUNS = 50 };

static uint64_t seed;

static uint32_t next(uint32_t bound)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % bound;
}

static void check_set(const struct partition_set *set, bool in[TOPICS][PARTITIONS], uint32_t count)
{
    struct arena arena;
    struct partition_run run;
    uint32_t seen = 0;
    uint32_t topics = 0;
    uint32_t at = 0;

    ck_assert_uint_eq(set->count, count);
    for (uint8_t topic = 0; topic < TOPICS; topic++)
        for (int32_t i = 0; i < PARTITIONS; i++) {
            const struct partition_item *item = partition_set_find(set, test_uuid(topic), i);

            ck_assert(in[topic][i] == (item != NULL));
            if (item == NULL)
                continue;
            ck_assert_ptr_eq(item, &set->items[seen++]); /* in order */
            ck_assert_int_eq(item->epoch, topic * PARTITIONS + i);
        }
    arena_init(&arena, SIZE_MAX);
    for (seen = 0; partition_set_next(set, &at, &run); topics++) {
        const int32_t *numbers = partition_run_numbers(&run, &arena);

        ck_assert_uint_gt(run.count, 0);
        ck_assert(seen == 0 || !uuid_equal(run.topic, set->items[seen - 1].topic));
        for (uint32_t i = 0; i < run.count; i++, seen++) {
            ck_assert_ptr_eq(&run.items[i], &set->items[seen]);
            ck_assert(uuid_equal(run.topic, set->items[seen].topic));
            ck_assert_int_eq(numbers[i], set->items[seen].partition);
        }
    }
    arena_deinit(&arena);
    ck_assert_uint_eq(seen, count);
    ck_assert_uint_eq(topics, partition_set_topics(set));
}

START_TEST(whatever_the_order)
{
    for (seed = 1; seed <= RUNS; seed++) {
        uint64_t run = seed;
        struct partition_set set = {0};
        struct partition_set copy = {0};
        struct partition_set moved = {0};
        bool in[TOPICS][PARTITIONS] = {{false}};
        uint32_t count = 0;

        for (int i = 0; i < ADDED; i++) {
            uint8_t topic = (uint8_t)next(TOPICS);
            int32_t partition = (int32_t)next(PARTITIONS);

            count += !in[topic][partition];
            in[topic][partition] = true;
            ck_assert_int_eq(partition_set_add(&set, test_uuid(topic), partition, topic * PARTITIONS + partition),
                             ERR_OK);
        }
        partition_set_sort(&set);
        check_set(&set, in, count);
        partition_set_sort(&set);
        check_set(&set, in, count);
        ck_assert_int_eq(partition_set_copy(&copy, &set), ERR_OK);
        ck_assert(partition_set_equal(&set, &copy, true));
        copy.items[0].epoch++;
        ck_assert(partition_set_equal(&set, &copy, false));
        ck_assert(!partition_set_equal(&set, &copy, true));
        copy.count--;
        ck_assert(!partition_set_equal(&set, &copy, false));
        ck_assert_int_eq(partition_set_add(&moved, test_uuid(0), 0, 0), ERR_OK);
        partition_set_move(&moved, &set);
        ck_assert_uint_eq(set.count, 0);
        check_set(&moved, in, count);
        partition_set_deinit(&copy);
        partition_set_deinit(&moved);
        seed = run;
    }
}
END_TEST

START_TEST(empty_ones)
{
    struct partition_set set = {0};
    struct partition_set copy = {0};
    struct partition_run run;
    uint32_t at = 0;

    partition_set_sort(&set);
    ck_assert_ptr_null(partition_set_find(&set, test_uuid(1), 0));
    ck_assert(!partition_set_next(&set, &at, &run));
    ck_assert_uint_eq(partition_set_topics(&set), 0);
    ck_assert_int_eq(partition_set_copy(&copy, &set), ERR_OK);
    ck_assert(partition_set_equal(&set, &copy, true));
    partition_set_move(&copy, &set);
    partition_set_deinit(&copy);
    partition_set_deinit(&set);
}
END_TEST

RUN_TESTS("partition_set", whatever_the_order, empty_ones)
