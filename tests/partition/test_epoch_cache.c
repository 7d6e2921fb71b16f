/* Rule: epochs ascend with their offsets, and OffsetForLeaderEpoch answers as replication.md 3 has it. */
#include "partition/epoch_cache.h"
#include "run_tests.h"

static void check_end(const struct epoch_cache *cache, int32_t epoch, int32_t found, int64_t end)
{
    int32_t found_epoch = 0;
    int64_t end_offset = 0;

    epoch_cache_end(cache, epoch, 100, &found_epoch, &end_offset);
    ck_assert_int_eq(found_epoch, found);
    ck_assert_int_eq(end_offset, end);
}

static void fill(struct epoch_cache *cache)
{
    *cache = (struct epoch_cache){0};
    ck_assert_int_eq(epoch_cache_assign(cache, 2, 10), ERR_OK);
    ck_assert_int_eq(epoch_cache_assign(cache, 4, 20), ERR_OK);
    ck_assert_int_eq(epoch_cache_assign(cache, 4, 30), ERR_OK); /* goes on, no new entry */
    ck_assert_int_eq(epoch_cache_assign(cache, 7, 50), ERR_OK);
    ck_assert_uint_eq(cache->count, 3);
}

START_TEST(ends)
{
    struct epoch_cache cache;
    struct epoch_cache empty = {0};

    fill(&cache);
    check_end(&empty, 0, -1, -1);
    check_end(&cache, -1, -1, -1);
    check_end(&cache, 0, 0, 10);
    check_end(&cache, 2, 2, 20);
    check_end(&cache, 3, 2, 20);
    check_end(&cache, 4, 4, 50);
    check_end(&cache, 6, 4, 50);
    check_end(&cache, 7, 7, 100);
    check_end(&cache, 8, -1, -1);
    ck_assert_int_eq(epoch_cache_at(&cache, 9), -1);
    ck_assert_int_eq(epoch_cache_at(&cache, 10), 2);
    ck_assert_int_eq(epoch_cache_at(&cache, 49), 4);
    ck_assert_int_eq(epoch_cache_at(&cache, 1000), 7);
    epoch_cache_deinit(&cache);
}
END_TEST

START_TEST(conflicting_entries_go)
{
    struct epoch_cache cache;

    fill(&cache);
    ck_assert_int_eq(epoch_cache_assign(&cache, 5, 25), ERR_OK); /* begins before 7 did, behind 4 */
    ck_assert_uint_eq(cache.count, 3);
    ck_assert_int_eq(epoch_cache_last(&cache)->epoch, 5);
    ck_assert_int_eq(epoch_cache_assign(&cache, 3, 60), ERR_OK);
    ck_assert_uint_eq(cache.count, 2);
    ck_assert_int_eq(epoch_cache_last(&cache)->start_offset, 60);
    epoch_cache_deinit(&cache);
}
END_TEST

START_TEST(truncations)
{
    struct epoch_cache cache;

    fill(&cache);
    epoch_cache_truncate_end(&cache, 50);
    ck_assert_uint_eq(cache.count, 2);
    epoch_cache_truncate_end(&cache, 21);
    ck_assert_uint_eq(cache.count, 2);
    epoch_cache_deinit(&cache);
    fill(&cache);
    cache.changed = false;
    epoch_cache_truncate_start(&cache, 5);
    ck_assert(!cache.changed);
    epoch_cache_truncate_start(&cache, 35);
    ck_assert_uint_eq(cache.count, 2);
    ck_assert_int_eq(cache.entries[0].epoch, 4);
    ck_assert_int_eq(cache.entries[0].start_offset, 35);
    epoch_cache_truncate_start(&cache, 60);
    ck_assert_uint_eq(cache.count, 1);
    ck_assert_int_eq(cache.entries[0].epoch, 7);
    ck_assert_int_eq(cache.entries[0].start_offset, 60);
    ck_assert(cache.changed);
    epoch_cache_deinit(&cache);
}
END_TEST

START_TEST(knows_how_far_back_it_changed)
{
    struct epoch_cache cache;

    fill(&cache);
    ck_assert(cache.changed);
    ck_assert_int_eq(cache.changed_from, 10);
    cache.changed = false;
    ck_assert_int_eq(epoch_cache_assign(&cache, 8, 70), ERR_OK);
    ck_assert_int_eq(epoch_cache_assign(&cache, 9, 80), ERR_OK);
    ck_assert_int_eq(cache.changed_from, 70);
    epoch_cache_deinit(&cache);
}
END_TEST

RUN_TESTS("epoch_cache", ends, conflicting_entries_go, truncations, knows_how_far_back_it_changed)
