/* Rule: the first timer due is always on top, whatever was started, moved and stopped before. */
#include "base/timer_heap.h"

#include <check.h>

#include "net/net_limits.h"

enum { COUNT = 1000 };

START_TEST(random_starts_moves_and_stops_keep_the_order)
{
    static struct loop_timer timers[COUNT];
    struct timer_heap heap = {0};
    uint64_t state = 88172645463325252ULL;
    int64_t before = INT64_MIN;
    size_t armed = 0;

    ck_assert_int_eq(timer_heap_init(&heap), ERR_OK);
    for (int i = 0; i < 20000; i++) {
        struct loop_timer *timer = NULL;

        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        timer = &timers[state % COUNT];
        if (state >> 32 & 1)
            timer_heap_start(&heap, timer, (int64_t)(state >> 40));
        else
            timer_heap_stop(&heap, timer);
    }
    for (int i = 0; i < COUNT; i++)
        armed += timers[i].heap_slot != 0;
    ck_assert_uint_eq(heap.count, armed);
    while (timer_heap_first(&heap) != NULL) {
        struct loop_timer *first = timer_heap_first(&heap);

        ck_assert_int_ge(first->due_ns, before);
        before = first->due_ns;
        timer_heap_stop(&heap, first);
        ck_assert_uint_eq(first->heap_slot, 0);
        armed--;
    }
    ck_assert_uint_eq(armed, 0);
    timer_heap_deinit(&heap);
}
END_TEST

START_TEST(stopping_a_stopped_timer_does_nothing)
{
    struct loop_timer timer = {0};
    struct timer_heap heap = {0};

    ck_assert_int_eq(timer_heap_init(&heap), ERR_OK);
    timer_heap_stop(&heap, &timer);
    timer_heap_start(&heap, &timer, 5);
    timer_heap_start(&heap, &timer, 3);
    ck_assert_uint_eq(heap.count, 1);
    timer_heap_stop(&heap, &timer);
    timer_heap_stop(&heap, &timer);
    ck_assert_ptr_null(timer_heap_first(&heap));
    timer_heap_deinit(&heap);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timer_heap");
    TCase *tcase = tcase_create("timer_heap");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, random_starts_moves_and_stops_keep_the_order);
    tcase_add_test(tcase, stopping_a_stopped_timer_does_nothing);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
