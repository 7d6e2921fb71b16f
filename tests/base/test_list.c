/* Rule: a list keeps its order, and an element may leave at any time, also while the list is walked. */
#include <check.h>

#include "base/list.h"

struct item {
    int number;
    struct list_node node;
};

static int sum_digits(const struct list *list)
{
    int digits = 0;

    list_each (list, at)
        digits = digits * 10 + LIST_ENTRY(at, struct item, node)->number;
    return digits;
}

START_TEST(order_and_removal)
{
    struct list list;
    struct item items[5];

    list_init(&list);
    ck_assert(list_is_empty(&list));
    ck_assert_ptr_null(list_first(&list));
    ck_assert_ptr_null(list_last(&list));
    ck_assert_ptr_null(list_take_first(&list));
    for (int i = 0; i < 5; i++) {
        items[i].number = i + 1;
        list_node_init(&items[i].node);
    }
    for (int i = 1; i < 4; i++)
        list_add_last(&list, &items[i].node);
    list_add_first(&list, &items[0].node);
    list_insert_before(&items[2].node, &items[4].node);
    ck_assert_int_eq(sum_digits(&list), 12534);
    list_each (&list, at)
        if (LIST_ENTRY(at, struct item, node)->number % 2 == 0)
            list_remove(at);
    ck_assert_int_eq(sum_digits(&list), 153);
    ck_assert(!list_node_is_linked(&items[1].node));
    list_remove(&items[1].node);
    ck_assert_ptr_eq(list_first(&list), &items[0].node);
    ck_assert_ptr_eq(list_last(&list), &items[2].node);
    ck_assert_ptr_eq(list_next(&list, &items[0].node), &items[4].node);
    ck_assert_ptr_null(list_next(&list, &items[2].node));
    ck_assert_ptr_eq(list_take_first(&list), &items[0].node);
    ck_assert_int_eq(sum_digits(&list), 53);
}
END_TEST

START_TEST(moving_all)
{
    struct list a;
    struct list b;
    struct item items[4];

    list_init(&a);
    list_init(&b);
    for (int i = 0; i < 4; i++) {
        items[i].number = i + 1;
        list_node_init(&items[i].node);
        list_add_last(i < 2 ? &a : &b, &items[i].node);
    }
    list_move_all(&a, &b);
    ck_assert_int_eq(sum_digits(&a), 1234);
    ck_assert(list_is_empty(&b));
    list_move_all(&a, &b);
    list_move_all(&b, &a);
    ck_assert_int_eq(sum_digits(&b), 1234);
    ck_assert(list_is_empty(&a));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("list");
    TCase *tcase = tcase_create("list");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, order_and_removal);
    tcase_add_test(tcase, moving_all);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
