/* Rule: partitions that a request names come out in order, and of one that is named more than once the last mention
 * stays, as in a map. */
#include <check.h>

#include "../partition/run_tests.h"
#include "broker/mentions.h"

static struct arena arena;
static const char *const said[] = {"b-1 first", "a-2", "b-1 second", "b-0", "a-10", "b-1 last"};

static void begin(struct mentions *mentions, uint32_t count)
{
    static const struct {
        const char *topic;
        int32_t index;
    } named[] = {{"b", 1}, {"a", 2}, {"b", 1}, {"b", 0}, {"a", 10}, {"b", 1}};

    arena_init(&arena, 1 << 16);
    ck_assert_int_eq(mentions_init(mentions, &arena, count), ERR_OK);
    for (uint32_t i = 0; i < count; i++)
        mentions_add(mentions, bytes_of_text(named[i].topic), named[i].index, (void *)(uintptr_t)said[i]);
}

static void expect(const struct mentions *mentions, const char *const *expected, uint32_t count)
{
    ck_assert_uint_eq(mentions->count, count);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_str_eq(mentions->list[i].of, expected[i]);
}

START_TEST(sorted)
{
    static const char *const expected[] = {"a-2", "a-10", "b-0", "b-1 first", "b-1 second", "b-1 last"};
    struct mentions mentions;

    begin(&mentions, 6);
    mentions_sort(&mentions);
    expect(&mentions, expected, 6);
    ck_assert(mention_same_partition(&mentions.list[3], &mentions.list[4]));
    ck_assert(!mention_same_partition(&mentions.list[2], &mentions.list[3])); /* another partition */
    ck_assert(!mention_same_partition(&mentions.list[1], &mentions.list[2])); /* another topic */
    arena_deinit(&arena);
}
END_TEST

START_TEST(the_last_stays)
{
    static const char *const expected[] = {"a-2", "a-10", "b-0", "b-1 last"};
    struct mentions mentions;

    begin(&mentions, 6);
    mentions_keep_last(&mentions);
    expect(&mentions, expected, 4);
    arena_deinit(&arena);
}
END_TEST

START_TEST(none_and_one)
{
    struct mentions mentions;

    begin(&mentions, 0);
    mentions_keep_last(&mentions);
    expect(&mentions, NULL, 0);
    arena_deinit(&arena);
    begin(&mentions, 1);
    mentions_keep_last(&mentions);
    expect(&mentions, said, 1);
    arena_deinit(&arena);
}
END_TEST

START_TEST(no_memory)
{
    struct mentions mentions;

    arena_init(&arena, 16);
    ck_assert_int_eq(mentions_init(&mentions, &arena, 100), ERR_NOMEM);
    arena_deinit(&arena);
}
END_TEST

RUN_TESTS("broker/mentions", sorted, the_last_stays, none_and_one, no_memory)
