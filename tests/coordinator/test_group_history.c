/* Rule: a group keeps its last 100 rebalances, with who caused each and how long it took, within a bound of memory.
 *
 * Sources: coordinator/consumer_history.c */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/group.h"
#include "coordinator/group_history.h"
#include "coordinator/group_world.h"
#include "partition/run_tests.h"

static struct group_world world;

static struct group *make_group(void)
{
    struct group *group = NULL;

    ck_assert_int_eq(group_get_or_make(world.groups, BYTES_LITERAL("g"), &group), ERR_OK);
    return group;
}

static const struct group_history_reply *ask(const char *id)
{
    return world_ask(&world, "h", ASK_HISTORY, 0, id, NULL)->response;
}

#define BEGIN(of, ...) group_history_begin(of, &world.step, &(struct rebalance_cause){__VA_ARGS__})

START_TEST(who_what_and_how_long)
{
    struct group *group = NULL;

    world_open(&world);
    group = make_group();
    (void)ask("g");
    (void)ask("unknown");
    BEGIN(group, .cause = CAUSE_JOINED, .member_id = BYTES_LITERAL("m-1"), .client_id = BYTES_LITERAL("app"),
          .client_host = BYTES_LITERAL("/127.0.0.1"), .reason = BYTES_LITERAL("need to re-join"));
    (void)ask("g");
    world_say(&world, "a further cause while one is under way is not a rebalance of its own");
    BEGIN(group, .cause = CAUSE_LEFT, .member_id = BYTES_LITERAL("m-2"));
    world_advance(&world, 250);
    world.step.now_ns = world.now_ns;
    group_history_end(group, &world.step, 4, 2, 7);
    group_history_end(group, &world.step, 5, 3, 8);
    for (int cause = 0; cause < CAUSE_COUNT; cause++) {
        BEGIN(group, .cause = (enum group_cause)cause);
        group_history_end(group, &world.step, 5 + cause, 1, -1);
    }
    (void)ask("g");
    transcript_expect(&world.said, "history");
    world_close(&world);
}
END_TEST

START_TEST(the_last_hundred)
{
    static char text[300];
    const struct group_history_reply *reply = NULL;
    struct group *group = NULL;

    memset(text, 'x', sizeof(text));
    memcpy(text + GROUP_HISTORY_TEXT_MAX - 1, "\xc3\xa4", 2); /* a character that lies over the cut */
    world_open(&world);
    world.quiet = true;
    group = make_group();
    for (int i = 0; i < 3 * GROUP_HISTORY_MAX + 1; i++) {
        reply = ask("g");
        ck_assert_uint_eq(reply->count, i < GROUP_HISTORY_MAX ? (uint32_t)i : GROUP_HISTORY_MAX);
        ck_assert_uint_eq(reply->dropped, i < GROUP_HISTORY_MAX ? 0 : (uint64_t)(i - GROUP_HISTORY_MAX));
        BEGIN(group, .cause = CAUSE_LEFT, .member_id = bytes_of(text, sizeof(text)),
              .client_host = bytes_of(text, (size_t)(i % 200)), .reason = BYTES_LITERAL("bye"));
        group_history_end(group, &world.step, i, 1, 0);
    }
    reply = ask("g");
    ck_assert_uint_eq(reply->count, GROUP_HISTORY_MAX);
    for (uint32_t i = 0; i < reply->count; i++) {
        int32_t number = 2 * GROUP_HISTORY_MAX + 1 + (int32_t)i;

        ck_assert_int_eq(reply->entries[i].generation, number);
        ck_assert_uint_eq(reply->entries[i].member_id.size, GROUP_HISTORY_TEXT_MAX - 1);
        ck_assert_uint_eq(reply->entries[i].client_host.size, (size_t)(number % 200));
        ck_assert(bytes_equal(reply->entries[i].reason, BYTES_LITERAL("bye")));
    }
    world_close(&world);
}
END_TEST

/* Rule: all groups of all coordinators of a loop share a bound; over it the oldest rebalance of all goes, and its group
 * says so; what a group had comes free with it. */
START_TEST(all_groups_together)
{
    enum { GROUPS = 200 };
    static char text[GROUP_HISTORY_TEXT_MAX];
    struct group_histories *all = NULL;
    struct group *groups[GROUPS];
    struct bytes longest = bytes_of(text, sizeof(text));
    size_t each = 0;
    uint32_t noted = 0;
    uint32_t fit = 0;

    memset(text, 'x', sizeof(text));
    world_open(&world);
    world.quiet = true;
    all = world.groups->histories;
    for (uint32_t i = 0; i < GROUPS; i++) {
        char id[16];

        (void)snprintf(id, sizeof(id), "%u", i);
        ck_assert_int_eq(group_get_or_make(world.groups, bytes_of_text(id), &groups[i]), ERR_OK);
    }
    for (uint32_t i = 0; i < GROUPS * (GROUP_HISTORY_MAX - 1); i++) { /* all take turns */
        BEGIN(groups[i % GROUPS], .cause = CAUSE_LEFT, .member_id = longest, .client_id = longest,
              .client_host = longest, .reason = longest);
        group_history_end(groups[i % GROUPS], &world.step, (int32_t)i, 1, 0);
        noted++;
        if (i == 0)
            each = all->bytes;
        fit = (uint32_t)(GROUP_HISTORIES_BYTES_MAX / each);
        ck_assert_uint_eq(all->bytes, each * (noted < fit ? noted : fit));
        if (noted == fit)
            ck_assert_uint_eq(ask("0")->dropped, 0);
        if (noted == fit + 1) {
            ck_assert_uint_eq(ask("0")->dropped, 1);
            ck_assert_int_eq(ask("0")->entries[0].generation, GROUPS);
            ck_assert_uint_eq(ask("1")->dropped, 0);
        }
    }
    ck_assert_uint_gt(noted, fit); /* the bound was met */
    for (uint32_t i = 0; i < GROUPS; i++)
        group_history_free(groups[i]);
    ck_assert_uint_eq(all->bytes, 0);
    ck_assert(list_is_empty(&all->entries));
    world_close(&world);
}
END_TEST

RUN_TESTS("group_history", who_what_and_how_long, the_last_hundred, all_groups_together)
