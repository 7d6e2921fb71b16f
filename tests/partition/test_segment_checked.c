/* Rule: what was verified stays so: ranges that touch are one, and beyond SEGMENT_CHECKED_MAX of them the shortest is
 * forgotten, never a longer one. */
#include "partition/segment_checked.h"

#include "run_tests.h"

enum { STEP = 1000 }; /* between two ranges, which do not touch */

static struct segment segment;

static void begin(void)
{
    segment = (struct segment){.size = 100 * STEP};
    segment_checked_forget(&segment);
    ck_assert_uint_eq(segment.written_from, segment.size);
}

START_TEST(ranges_that_touch_are_one)
{
    begin();
    segment_checked_add(&segment, 100, 100);
    segment_checked_add(&segment, 300, 100);
    ck_assert(segment_checked_has(&segment, 100, 100) && segment_checked_has(&segment, 350, 50));
    ck_assert(!segment_checked_has(&segment, 100, 101) && !segment_checked_has(&segment, 250, 10));
    segment_checked_add(&segment, 200, 100);
    ck_assert(segment_checked_has(&segment, 100, 300));
    ck_assert_uint_eq(segment.checked->count, 1);
    ck_assert(segment_checked_has(&segment, segment.size, 1)); /* written by this process */
    segment_checked_forget(&segment);
    ck_assert(!segment_checked_has(&segment, 100, 1));
}
END_TEST

START_TEST(the_shortest_is_forgotten)
{
    const uint64_t shortest = SEGMENT_CHECKED_MAX / 2;

    begin();
    for (uint64_t i = 0; i < SEGMENT_CHECKED_MAX; i++)
        segment_checked_add(&segment, i * STEP, i == shortest ? 10 : 100 + i);
    for (uint64_t i = 0; i < SEGMENT_CHECKED_MAX; i++)
        ck_assert(segment_checked_has(&segment, i * STEP, i == shortest ? 10 : 100 + i));
    segment_checked_add(&segment, SEGMENT_CHECKED_MAX * STEP, 5);
    ck_assert(segment_checked_has(&segment, SEGMENT_CHECKED_MAX * STEP, 5));
    for (uint64_t i = 0; i < SEGMENT_CHECKED_MAX; i++)
        ck_assert_int_eq(segment_checked_has(&segment, i * STEP, 1), i != shortest);
    segment_checked_forget(&segment);
}
END_TEST

RUN_TESTS("segment_checked", ranges_that_touch_are_one, the_shortest_is_forgotten)
