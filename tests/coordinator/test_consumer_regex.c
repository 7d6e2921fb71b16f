/* Rules of expressions of the consumer protocol: groups.md 3.6, as transcripts. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/consumer_beats.h"
#include "coordinator/consumer_internal.h"
#include "coordinator/topic_regex.h"
#include "partition/run_tests.h"

static struct group_world world;

static void begin(void)
{
    world_open(&world);
    world.settings.consumer_assignment_interval_ms = 0;
    world_topic(&world, "a1", 2);
    world_topic(&world, "a2", 1);
    world_topic(&world, "b1", 1);
}

static void end(const char *name)
{
    transcript_expect(&world.said, name);
    world_close(&world);
}

/* Rule: an expression is resolved beside the heartbeat (record 16, and a new epoch); new topics count from the next
 * resolution on, which is at least 10 s after the last; names and expression are merged; a second member of a resolved
 * one has its topics at once; the last one takes the record with it. */
START_TEST(resolved_beside)
{
    begin();
    JOIN(&world, "a", NULL, .regex = "a.*");
    world_advance(&world, 1);
    BEAT(&world, "a", 0, .rebalance_ms = 60000, .regex = "a.*", .owned = "");
    world_topic(&world, "a3", 1);
    world_advance(&world, 5000);
    BEAT(&world, "a", 2);
    world_advance(&world, 5002);
    BEAT(&world, "a", 2);
    world_advance(&world, 1);
    BEAT(&world, "a", 2);
    JOIN(&world, "b", "b1", .regex = "a.*");
    BEAT(&world, "a", 2, .topics = "b1", .regex = "");
    BEAT(&world, "b", -1);
    describe_group(&world);
    end("regex_resolved");
}
END_TEST

/* Rule: who subscribes with an expression has its share of topics that others have named all before: what the group
 * reads is the same then, and yet there is a new epoch. */
START_TEST(matches_what_others_named)
{
    begin();
    JOIN(&world, "a", "a1,a2");
    JOIN(&world, "b", NULL, .regex = "a.*");
    world_advance(&world, 1);
    BEAT(&world, "a", 2, .owned = "");
    BEAT(&world, "b", 2, .owned = "");
    describe_group(&world);
    end("regex_named_by_others");
}
END_TEST

/* Rule: what is no expression is refused (128), before anything is written; one that somebody has already is not looked
 * at again. */
START_TEST(invalid)
{
    begin();
    JOIN(&world, "a", NULL, .regex = "(?=a)");
    JOIN(&world, "a", NULL, .regex = "[a");
    JOIN(&world, "a", "a1", .regex = "");
    BEAT(&world, "a", 2, .regex = "(a)\\1");
    BEAT(&world, "a", 2);
    end("regex_invalid");
}
END_TEST

static bool denies_a2(const struct group_op *op, struct bytes topic)
{
    (void)op;
    return !bytes_equal(topic, BYTES_LITERAL("a2"));
}

/* Rule: only topics that whoever spoke when it began may describe count; where the topics changed meanwhile, the result
 * waits for somebody whose rights are known. */
START_TEST(rights_count)
{
    begin();
    world.may_describe_topic = denies_a2;
    JOIN(&world, "a", NULL, .regex = "a.*");
    world_advance(&world, 1);
    BEAT(&world, "a", 0, .rebalance_ms = 60000, .regex = "a.*", .owned = "");
    world_topic(&world, "a3", 1);
    world_advance(&world, 10001);
    BEAT(&world, "a", 2);
    world_topic(&world, "a4", 1);
    world_advance(&world, 1);
    world_say(&world, "a4 came meanwhile: nothing yet");
    BEAT(&world, "a", 2);
    end("regex_rights");
}
END_TEST

/* Rule: it is refreshed every refresh interval, and after a restart. */
START_TEST(refreshed)
{
    begin();
    JOIN(&world, "a", NULL, .regex = "a.*");
    world_advance(&world, 1);
    BEAT(&world, "a", 0, .rebalance_ms = 60000, .regex = "a.*", .owned = "");
    world_restart(&world);
    BEAT(&world, "a", 2);
    for (int i = 0; i < 15; i++) {
        world_advance(&world, 40001);
        BEAT(&world, "a", 2);
    }
    world_advance(&world, 1);
    end("regex_refreshed");
}
END_TEST

static const struct consumer_expression *expression(const char *text)
{
    struct group *group = group_find(world.groups, BYTES_LITERAL("g"));

    ck_assert_ptr_nonnull(group);
    return map_get(&group->consumer->expressions, bytes_of_text(text));
}

enum { LONG_NAMES = 10, LONG_NAME_CHARS = 200, SMALL_BATCH = 2700 };

static void long_names(char first, int count)
{
    static char names[2 * LONG_NAMES][LONG_NAME_CHARS + 1];
    static int used;

    for (int i = 0; i < count; i++) {
        char *name = names[used++ % (2 * LONG_NAMES)];

        memset(name, 'x', LONG_NAME_CHARS);
        name[0] = first;
        name[1] = (char)('a' + i);
        world_topic(&world, name, 1);
    }
}

/* Rule: what an expression matches may be more than a record can name: then it stays as it was, and costs nobody else
 * anything; what does not fit one step with others goes on in the next. */
START_TEST(too_many_topics)
{
    begin();
    world.quiet = true;
    world.batch_room = SMALL_BATCH;
    long_names('m', 6);
    JOIN(&world, "a", NULL, .regex = "m.*");
    JOIN(&world, "b", NULL, .regex = "ma.*|mb.*|mc.*|md.*|me.*|mf.*");
    world_advance(&world, 10001);
    JOIN(&world, "b", NULL, .regex = "ma.*|mb.*|mc.*|md.*|me.*|mf.*");
    world_advance(&world, 10);
    ck_assert_uint_eq(expression("m.*")->topic_count, 6);
    ck_assert_uint_eq(expression("ma.*|mb.*|mc.*|md.*|me.*|mf.*")->topic_count, 6);
    JOIN(&world, "c", NULL, .regex = "[ml].*");
    long_names('l', LONG_NAMES - 2);
    world_advance(&world, 10001);
    JOIN(&world, "c", NULL, .regex = "[ml].*");
    world_advance(&world, 10);
    ck_assert(expression("[ml].*")->resolved);
    ck_assert_uint_eq(expression("[ml].*")->topic_count, 0);
    ck_assert_uint_eq(expression("m.*")->topic_count, 6);
    world_close(&world);
}
END_TEST

/* Rule: the same where the result waits for somebody who speaks: his heartbeat is answered, and the target follows with
 * a later one. */
START_TEST(too_many_topics_with_rights)
{
    begin();
    world.quiet = true;
    world.may_describe_topic = denies_a2;
    world.batch_room = SMALL_BATCH;
    JOIN(&world, "a", NULL, .regex = "[mab].*");
    world_advance(&world, 1);
    BEAT(&world, "a", 0, .rebalance_ms = 60000, .regex = "[mab].*", .owned = "");
    ck_assert_uint_eq(expression("[mab].*")->topic_count, 2);
    world_advance(&world, 10001);
    long_names('m', 1);
    BEAT(&world, "a", 2);
    long_names('m', LONG_NAMES);
    long_names('n', 1);
    world_advance(&world, 1);
    ck_assert_int_eq(beat_error(BEAT(&world, "a", 2)), 0);
    ck_assert_uint_eq(expression("[mab].*")->topic_count, 2);
    world_close(&world);
}
END_TEST

/* So many topics, of the longest names that there are. */
static uint32_t many;

static void each_of_many(const struct group_topics *topics, struct bytes from,
                         bool (*each)(void *context, const struct group_topic *topic), void *context)
{
    char name[GROUP_TOPIC_NAME_BYTES_MAX + 1];
    bool wants = true;

    (void)topics;
    memset(name, 'm', sizeof(name));
    for (uint32_t i = 0; wants && i < many; i++) {
        struct group_topic topic = {
            .id = test_uuid(1), .name = bytes_of(name, GROUP_TOPIC_NAME_BYTES_MAX), .partition_count = 1};

        (void)snprintf(name, 6, "m%04u", i);
        name[5] = 'm';
        if (from.data == NULL || bytes_compare(topic.name, from) >= 0)
            wants = each(context, &topic);
    }
}

/* Rule: a heartbeat asks for the rights to no more than 4096 topics (RIGHTS_TOPICS_MAX of consumer_regex.c); where
 * there are more, what an expression matches is held against them by the one who speaks next. */
START_TEST(rights_to_so_many)
{
    for (many = 4096; many <= 4097; many++) {
        int32_t epoch = 0;

        begin();
        world.quiet = true;
        world.batch_room = 8 * 1024 * 1024;
        world.may_describe_topic = denies_a2;
        world.topics.each = each_of_many;
        epoch = beat_epoch(JOIN(&world, "a", NULL, .regex = "m.*"));
        world_advance(&world, 100);
        ck_assert_int_eq(expression("m.*")->resolved, many == 4096);
        BEAT(&world, "a", epoch);
        ck_assert(expression("m.*")->resolved);
        ck_assert_uint_eq(expression("m.*")->topic_count, many);
        world_close(&world);
    }
}
END_TEST

/* Rule: a wall clock that goes back holds nobody up: a resolution of a time that is yet to come is old. */
START_TEST(a_clock_set_back)
{
    begin();
    JOIN(&world, "a", NULL, .regex = "a.*");
    world_advance(&world, 1);
    BEAT(&world, "a", 0, .rebalance_ms = 60000, .regex = "a.*", .owned = "");
    ck_assert_uint_eq(expression("a.*")->topic_count, 2);
    world.now_ms -= 3600000;
    JOIN(&world, "b", NULL, .regex = "b.*");
    world_advance(&world, 1);
    ck_assert(expression("b.*")->resolved);
    ck_assert_uint_eq(expression("b.*")->topic_count, 1);
    world_close(&world);
}
END_TEST

/* Rule: however many expressions a group has, and however bad they are, one step takes a bounded part of them. */
START_TEST(a_piece_in_a_step)
{
    enum { MEMBERS = 8 };
    static char names[MEMBERS][8];
    static char texts[MEMBERS][32];

    begin();
    world_topic(&world, "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", 1);
    world_topic(&world, "c", 1);
    for (int i = 0; i < MEMBERS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "m%d", i);
        (void)snprintf(texts[i], sizeof(texts[i]), "((z+)+)+[w-x]|c{1,%d}", i + 1);
        JOIN(&world, names[i], NULL, .regex = texts[i]);
    }
    world_advance(&world, 1);
    world_advance(&world, 10001);
    JOIN(&world, names[0], NULL, .regex = texts[0]);
    world_advance(&world, 0);
    ck_assert(!expression(texts[1])->resolved);
    world_advance(&world, 1);
    for (int i = 0; i < MEMBERS; i++) {
        ck_assert(expression(texts[i])->resolved);
        ck_assert_uint_eq(expression(texts[i])->topic_count, 1);
    }
    world_close(&world);
}
END_TEST

/* Rule: what nobody of the group subscribes to (a record that another broker wrote) says nothing about when to resolve,
 * be its time yet to come or its version older than all: it would stay so, for nothing renews it. */
START_TEST(left_by_another_broker)
{
    static const int64_t times_ms[] = {INT64_MAX / 2, 0};

    for (size_t i = 0; i < sizeof(times_ms) / sizeof(*times_ms); i++) {
        struct consumer_group_regular_expression_key key = {.group_id = BYTES_LITERAL("g"),
                                                            .regular_expression = BYTES_LITERAL("z.*")};
        struct consumer_group_regular_expression_value value;
        uint32_t before = 0;

        begin();
        world.quiet = true;
        consumer_group_regular_expression_value_init(&value);
        value.timestamp = times_ms[i];
        JOIN(&world, "a", NULL, .regex = "a.*");
        world_advance(&world, 1);
        BEAT(&world, "a", 0, .rebalance_ms = 60000, .regex = "a.*", .owned = "");
        ck_assert_int_eq(step_write(&world.step, &consumer_group_regular_expression_key_message, &key,
                                    &consumer_group_regular_expression_value_message, 0, &value),
                         ERR_OK);
        ck_assert(expression("z.*")->resolved);
        ck_assert_uint_eq(expression("z.*")->subscribers, 0);
        before = world.record_count;
        for (int j = 0; j < 5; j++) {
            world_advance(&world, 3000);
            ck_assert_int_eq(beat_error(BEAT(&world, "a", 2)), 0);
            world_advance(&world, 1);
        }
        ck_assert_uint_eq(world.record_count, before);
        world_close(&world);
    }
}
END_TEST

/* Rule: ... nor does it hold up what somebody subscribes to. */
START_TEST(left_just_now)
{
    struct consumer_group_regular_expression_key key = {.group_id = BYTES_LITERAL("g"),
                                                        .regular_expression = BYTES_LITERAL("z.*")};
    struct consumer_group_regular_expression_value value;

    begin();
    world.quiet = true;
    JOIN(&world, "b", "b1");
    consumer_group_regular_expression_value_init(&value);
    value.timestamp = world.now_ms;
    ck_assert_int_eq(step_write(&world.step, &consumer_group_regular_expression_key_message, &key,
                                &consumer_group_regular_expression_value_message, 0, &value),
                     ERR_OK);
    JOIN(&world, "a", NULL, .regex = "a.*");
    world_advance(&world, 1);
    ck_assert(expression("a.*")->resolved);
    world_close(&world);
}
END_TEST

enum { CROWD = 6, CROWD_EXPRESSIONS = 3, CROWD_TOPICS = 8 };

/* Which of the groups has all its expressions resolved. */
static bool crowd_is_resolved(int group, char texts[CROWD_EXPRESSIONS][48])
{
    char id[8];
    const struct group *found = NULL;
    bool all = true;

    (void)snprintf(id, sizeof(id), "g%d", group);
    found = group_find(world.groups, bytes_of_text(id));
    ck_assert_ptr_nonnull(found);
    for (int i = 0; i < CROWD_EXPRESSIONS; i++) {
        const struct consumer_expression *at = map_get(&found->consumer->expressions, bytes_of_text(texts[i]));

        all &= at != NULL && at->resolved && at->topic_count == 1;
    }
    return all;
}

/* Rule: however many groups resolve expressions at once, a tick does what it may for all of them together, but for the
 * match that is under way when that is spent; they take turns, so that all end, and one with little to do is not kept
 * by those with much. */
START_TEST(many_groups_take_turns)
{
    static char ids[CROWD][8];
    static char texts[CROWD_EXPRESSIONS][48];
    static char names[CROWD_EXPRESSIONS][8];
    int ticks = 0;
    int little_at = 0;
    int resolved = 0;

    begin();
    world.quiet = true;
    for (int i = 0; i < CROWD_TOPICS; i++) {
        static char topics[CROWD_TOPICS][48];

        (void)snprintf(topics[i], sizeof(topics[i]), "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz-%d", i);
        world_topic(&world, topics[i], 1);
    }
    world_topic(&world, "c", 1);
    for (int i = 0; i < CROWD_EXPRESSIONS; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "((z+)+)+[w-x]|c{1,%d}", i + 1);
        (void)snprintf(names[i], sizeof(names[i]), "m%d", i);
    }
    for (int i = 0; i < CROWD; i++) {
        (void)snprintf(ids[i], sizeof(ids[i]), "g%d", i);
        for (int j = 0; j < CROWD_EXPRESSIONS; j++)
            JOIN(&world, names[j], NULL, .regex = texts[j], .group = ids[i]);
    }
    world_advance(&world, 1);
    world_advance(&world, 10001);
    for (int i = 0; i < CROWD; i++)
        JOIN(&world, names[0], NULL, .regex = texts[0], .group = ids[i]);
    JOIN(&world, "little", NULL, .regex = "c", .group = "little");
    for (; resolved < CROWD && ticks < 10000; ticks++) {
        const struct group *little = group_find(world.groups, BYTES_LITERAL("little"));
        const struct consumer_expression *at = map_get(&little->consumer->expressions, BYTES_LITERAL("c"));

        if (at->resolved && little_at == 0)
            little_at = ticks;
        world.now_ns += 1;
        world_advance(&world, 0);
        ck_assert_uint_lt(world.groups->regex_cost, CONSUMER_REGEX_TICK_COST + TOPIC_REGEX_MATCH_COST_MAX);
        resolved = 0;
        for (int i = 0; i < CROWD; i++)
            resolved += crowd_is_resolved(i, texts);
        ck_assert(little_at > 0 || resolved == 0);
    }
    ck_assert_int_eq(resolved, CROWD);
    /* Each match with those topics costs all that one may. */
    ck_assert_int_ge(ticks * (CONSUMER_REGEX_TICK_COST + TOPIC_REGEX_MATCH_COST_MAX),
                     CROWD * CROWD_EXPRESSIONS * CROWD_TOPICS * TOPIC_REGEX_MATCH_COST_MAX);
    ck_assert_int_le(little_at, CROWD + 1);
    ck_assert_int_gt(groups_due_ns(world.groups), world.now_ns + 1);
    world_close(&world);
}
END_TEST

/* Rule: a turn goes on where the last one ended: each topic is looked at once, but for those that a turn ends and
 * begins at, however many turns there are. */
START_TEST(each_topic_once)
{
    enum { MANY = 20, EXPRESSIONS = 4, TICKS_MAX = 10000 };
    static char topics[MANY][48];
    static char texts[EXPRESSIONS][48];
    static char names[EXPRESSIONS][8];
    uint64_t told = 0;
    uint64_t ticks = 0;

    begin();
    world.quiet = true;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(topics[i], sizeof(topics[i]), "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz-%d", i);
        world_topic(&world, topics[i], 1);
    }
    for (int i = 0; i < EXPRESSIONS; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "((z+)+)+[w-x]|c{1,%d}", i + 1);
        (void)snprintf(names[i], sizeof(names[i]), "m%d", i);
        JOIN(&world, names[i], NULL, .regex = texts[i]);
    }
    world_advance(&world, 1);
    world_advance(&world, 10001);
    told = world.topics_told;
    JOIN(&world, names[0], NULL, .regex = texts[0]);
    for (; !expression(texts[EXPRESSIONS - 1])->resolved; ticks++) {
        ck_assert_uint_lt(ticks, TICKS_MAX);
        world.now_ns += 1;
        world_advance(&world, 0);
    }
    ck_assert_uint_gt(ticks, MANY); /* else nothing is shown */
    ck_assert_uint_le(world.topics_told - told, world.topic_count + 2 * ticks);
    world_close(&world);
}
END_TEST

RUN_TESTS("consumer_regex", resolved_beside, matches_what_others_named, invalid, rights_count, refreshed,
          too_many_topics, too_many_topics_with_rights, rights_to_so_many, a_clock_set_back, a_piece_in_a_step,
          left_by_another_broker, left_just_now, many_groups_take_turns, each_topic_once)
