/* Rule: a large block given back is the next one taken of its size; what is kept is bounded and goes when nobody wants
 * it. */
#include "net/block_pool.h"

#include <check.h>

#include "net/double.h"

static struct double_loop loop;
static struct block_pool pool;

static void start(void)
{
    double_loop_init(&loop, 0);
    block_pool_init(&pool, &loop.loop);
}

static void end(void)
{
    block_pool_deinit(&pool);
    double_loop_deinit(&loop);
}

START_TEST(the_last_given_is_the_first_taken)
{
    struct block first = block_pool_take(&pool, 100000);
    struct block second = block_pool_take(&pool, 100000);

    block_pool_give(&pool, first);
    block_pool_give(&pool, second);
    ck_assert_ptr_eq(block_pool_take(&pool, 100000).data, second.data);
    /* Up to a quarter larger than asked, not more; never smaller. */
    first = block_pool_take(&pool, 100001);
    ck_assert_uint_eq(first.capacity, 100001);
    block_pool_give(&pool, first);
    ck_assert_uint_eq(pool.count, 2);
    block_pool_give(&pool, second);
    ck_assert_uint_eq(block_pool_take(&pool, 80000).capacity, 100000);
    ck_assert_uint_eq(pool.count, 2);
    block_pool_give(&pool, second);
    first = block_pool_take(&pool, 79999);
    ck_assert_uint_eq(first.capacity, 79999);
    block_pool_give(&pool, first);
}
END_TEST

START_TEST(small_and_huge_blocks_are_not_kept)
{
    block_pool_give(&pool, block_pool_take(&pool, CONNECTION_DIRECT_BYTES_MIN - 1));
    block_pool_give(&pool, block_pool_take(&pool, BLOCK_POOL_BYTES_MAX / 2 + 1));
    block_pool_give(&pool, (struct block){0});
    ck_assert_uint_eq(pool.count, 0);
    block_pool_give(&pool, block_pool_take(&pool, CONNECTION_DIRECT_BYTES_MIN));
    block_pool_give(&pool, block_pool_take(&pool, BLOCK_POOL_BYTES_MAX / 2));
    ck_assert_uint_eq(pool.count, 2);
}
END_TEST

START_TEST(what_is_kept_is_bounded)
{
    struct block blocks[BLOCK_POOL_BLOCKS_MAX + 1];

    for (int i = 0; i < BLOCK_POOL_BLOCKS_MAX + 1; i++)
        blocks[i] = block_pool_take(&pool, 40000);
    for (int i = 0; i < BLOCK_POOL_BLOCKS_MAX + 1; i++)
        block_pool_give(&pool, blocks[i]);
    ck_assert_uint_eq(pool.count, BLOCK_POOL_BLOCKS_MAX);
    for (int i = 0; i < 5; i++)
        blocks[i] = block_pool_take(&pool, 2 << 20);
    for (int i = 0; i < 5; i++)
        block_pool_give(&pool, blocks[i]);
    ck_assert_uint_le(pool.bytes, BLOCK_POOL_BYTES_MAX);
    ck_assert_uint_eq(pool.count, 3);
}
END_TEST

START_TEST(what_nobody_wants_goes)
{
    block_pool_give(&pool, block_pool_take(&pool, 100000));
    for (int i = 0; i < 5; i++) {
        block_pool_give(&pool, block_pool_take(&pool, 100000));
        double_wait(&loop, 1000);
        ck_assert_uint_eq(pool.count, 1);
    }
    double_wait(&loop, 1000);
    ck_assert_uint_eq(pool.count, 0);
    ck_assert_uint_eq(pool.bytes, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("block_pool");
    TCase *tcase = tcase_create("block_pool");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_test(tcase, the_last_given_is_the_first_taken);
    tcase_add_test(tcase, small_and_huge_blocks_are_not_kept);
    tcase_add_test(tcase, what_is_kept_is_bounded);
    tcase_add_test(tcase, what_nobody_wants_goes);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
