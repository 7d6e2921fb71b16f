/* Rule: a log is held for the rest of a move once that is little; where copying does not catch up, more and more counts
 * as little, up to MOVE_FINAL_BYTES_MAX and no further. */
#include "partition/log_moving.h"
#include "partition/partition_limits.h"
#include "run_tests.h"

static bool is_near(uint32_t passes, uint64_t left)
{
    struct segment segment = {.base_offset = 7, .size = left + 100};
    struct segment *segments[] = {&segment};
    struct partition_log log = {.segments = segments, .segment_count = 1};
    struct move_copied copied = {.base_offset = 7, .size = 100};
    struct log_moving moving = {.log = &log, .copied = &copied, .copied_count = 1, .passes = passes};

    return move_plan_is_near(&moving);
}

START_TEST(little_is_left)
{
    ck_assert(is_near(0, 0));
    ck_assert(is_near(MOVE_PASSES_MANY, MOVE_FINAL_BYTES));
    ck_assert(!is_near(MOVE_PASSES_MANY, MOVE_FINAL_BYTES + 1));
}
END_TEST

START_TEST(after_many_passes_more_is_little)
{
    ck_assert(is_near(MOVE_PASSES_MANY + 1, 2 * MOVE_FINAL_BYTES));
    ck_assert(!is_near(MOVE_PASSES_MANY + 1, 2 * MOVE_FINAL_BYTES + 1));
    ck_assert(is_near(UINT32_MAX, MOVE_FINAL_BYTES_MAX));
    ck_assert(!is_near(UINT32_MAX, MOVE_FINAL_BYTES_MAX + 1));
}
END_TEST

RUN_TESTS("move_plan", little_is_left, after_many_passes_more_is_little)
