/* Rule: whatever a heartbeat would write is refused, or put off, where it has no room in its step; nothing is begun
 * that does not fit, at any size of topics, names and groups. The world fails where a step takes more room than it has.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/consumer_beats.h"
#include "coordinator/consumer_internal.h"
#include "partition/run_tests.h"

enum {
    MEMBERS = 3,
    TOPICS = 3,
    NAME_CHARS_MAX = 200,
    ROOM = 64 * 1024 * 1024,
    PARTITIONS_MAX = 3000,
    ROUNDS = 30,
    UNKNOWN_SERVER_ERROR = -1,
    UNRELEASED_INSTANCE_ID = 111, /* its leave was refused */
};

static struct group_world world;
static uint64_t seed;

static uint32_t next(uint32_t bound)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % bound;
}

/* Of any order of magnitude. */
static uint32_t any_size(uint32_t max)
{
    uint32_t bound = 1;

    while (bound < max && next(6) != 0)
        bound *= 4;
    return 1 + next(bound < max ? bound : max);
}

static const char *any_name(char *to, char first)
{
    uint32_t chars = any_size(NAME_CHARS_MAX - 1);

    memset(to, first, chars);
    to[chars] = '\0';
    return to;
}

struct story {
    char members[MEMBERS][NAME_CHARS_MAX];
    char topics[TOPICS][NAME_CHARS_MAX];
    char names[MEMBERS][TOPICS * NAME_CHARS_MAX + TOPICS]; /* that each subscribes to */
    char group[NAME_CHARS_MAX];
    uint32_t partitions[TOPICS], grown[TOPICS];
    uint32_t members_before;
    enum { JOINS, SPEAKS, COMES_BACK } last;
};

static void draw(struct story *story)
{
    *story = (struct story){.members_before = next(MEMBERS)};
    (void)any_name(story->group, 'g');
    for (uint32_t i = 0; i < TOPICS; i++) {
        (void)any_name(story->topics[i], (char)('t' + i));
        story->partitions[i] = any_size(PARTITIONS_MAX);
        story->grown[i] = next(2) == 0 ? story->partitions[i] : story->partitions[i] + any_size(PARTITIONS_MAX);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        size_t size = 0;

        (void)any_name(story->members[i], (char)('m' + i));
        for (uint32_t j = 0; j < TOPICS; j++) {
            if (next(3) == 0 && (size > 0 || j + 1 < TOPICS))
                continue;
            size += (size_t)snprintf(story->names[i] + size, sizeof(story->names[i]) - size, "%s%s",
                                     size > 0 ? "," : "", story->topics[j]);
        }
    }
    story->last = story->members_before == 0 ? JOINS : next(3);
}

static struct world_call *say(struct story *story, uint32_t who, const char *id, int32_t epoch)
{
    return BEAT(&world, .member = id, .epoch = epoch, .rebalance_ms = 60000, .topics = story->names[who], .owned = "",
                .instance = who == 0 ? "instance" : NULL, .group = story->group);
}

/* Tells it with so much room for the last step; what that took. */
static size_t tell(struct story *story, size_t room, int16_t *error)
{
    struct world_call *call = NULL;
    int32_t epoch = 0;
    size_t used = 0;

    world_open(&world);
    world.quiet = true;
    world.batch_room = ROOM;
    world.settings.consumer_assignment_interval_ms = 0;
    for (uint32_t i = 0; i < TOPICS; i++)
        world_topic(&world, story->topics[i], story->partitions[i]);
    for (uint32_t i = 0; i < story->members_before; i++)
        epoch = beat_epoch(say(story, i, story->members[i], 0));
    for (uint32_t i = 0; i < TOPICS; i++)
        if (story->grown[i] != story->partitions[i])
            world_topic(&world, story->topics[i], story->grown[i]);
    world.batch_room = room;
    if (story->last == COMES_BACK)
        (void)BEAT(&world, .member = story->members[0], .epoch = -2, .instance = "instance", .group = story->group);
    if (story->last == JOINS) {
        call = say(story, story->members_before, story->members[story->members_before], 0);
    } else if (story->last == SPEAKS) {
        call = say(story, story->members_before - 1, story->members[story->members_before - 1], epoch);
    } else { /* the first one, under another id */
        call = say(story, 0, story->members[MEMBERS - 1], 0);
    }
    ck_assert_int_eq(call->op.op.err, ERR_OK);
    used = world.batch_used;
    *error = beat_error(call);
    ck_assert(*error == 0 || *error == UNKNOWN_SERVER_ERROR || *error == UNRELEASED_INSTANCE_ID);
    world_close(&world);
    return used;
}

START_TEST(any_story)
{
    static struct story story;
    uint32_t refused = 0;

    for (uint64_t round = 1; round <= ROUNDS; round++) {
        int16_t error = 0;
        size_t used = 0;

        seed = round;
        draw(&story);
        used = tell(&story, ROOM, &error);
        ck_assert_int_eq(error, 0);
        for (size_t room = used - 1; room > 64; room = room * 2 / 3) {
            size_t less = tell(&story, room, &error);

            ck_assert_uint_le(less, room);
            refused += error != 0;
        }
    }
    ck_assert_uint_gt(refused, 0);
}
END_TEST

/* With Apache Kafka's batches: a topic has grown, its old member has not said anything since, and who joins may have
 * half of it at once: target and assignment are more than a batch holds. What has no room comes with the next
 * heartbeats. */
START_TEST(a_topic_that_grew)
{
    enum { GROWN = 140 * 1000, ROOM_DEFAULT = 1024 * 1024 };
    uint32_t assigned = 0;
    uint32_t before = 0;
    int32_t epoch = 0;

    world_open(&world);
    world.quiet = true;
    world.settings.consumer_assignment_interval_ms = 0;
    world_topic(&world, "t", 10);
    JOIN(&world, "a", "t");
    world_topic(&world, "t", GROWN);
    world.batch_room = ROOM_DEFAULT;
    for (int beats = 0; beats == 0 || assigned > before; beats++) {
        const struct group *group = NULL;
        const struct world_call *call =
            beats == 0 ? JOIN(&world, "b", "t") : BEAT(&world, .member = "b", .epoch = epoch, .owned = "");

        ck_assert_int_eq(call->op.op.err, ERR_OK);
        ck_assert_int_eq(beat_error(call), 0);
        epoch = beat_epoch(call);
        group = group_find(world.groups, BYTES_LITERAL("g"));
        before = beats == 0 ? 0 : assigned;
        assigned = consumer_find(group->consumer, BYTES_LITERAL("b"))->assigned.count;
        if (beats == 0)
            ck_assert_uint_lt(assigned, GROWN / 2);
    }
    ck_assert_uint_ge(assigned, GROWN / 2 - 10);
    world_close(&world);
}
END_TEST

/* So many topics, t0000, t0001 ..., of so many partitions each; targets are computed at once. */
static void begin_many(int topics, uint32_t partitions)
{
    static char names[WORLD_TOPICS_MAX][16];

    world_open(&world);
    world.quiet = true;
    world.settings.consumer_assignment_interval_ms = 0;
    for (int i = 0; i < topics; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "t%04d", i);
        world_topic(&world, names[i], partitions);
    }
}

/* Rule: what a member took over several heartbeats it can give back by halves: of each topic some, which is another run
 * of each in its record. */
START_TEST(half_of_each_topic_goes_back)
{
    enum { MANY = 250, EACH = 10, LITTLE = 30000, BEATS = 8 };
    const struct consumer_group *consumer = NULL;
    const struct world_call *call = NULL;
    int32_t epoch = 0;

    begin_many(MANY, EACH);
    world.batch_room = LITTLE;
    epoch = beat_epoch(BEAT(&world, .member = "a", .rebalance_ms = 60000, .topics = "", .regex = "t.*",
                            .assignor = "range", .owned = ""));
    for (int i = 0; i < BEATS; i++) {
        world_advance(&world, 2000);
        epoch = beat_epoch(BEAT(&world, .member = "a", .epoch = epoch, .owned = i == 0 ? "" : NULL));
    }
    consumer = group_find(world.groups, BYTES_LITERAL("g"))->consumer;
    ck_assert_uint_ge(consumer_find(consumer, BYTES_LITERAL("a"))->assigned.count, MANY * EACH / 2);
    call = BEAT(&world, .member = "b", .rebalance_ms = 60000, .topics = "", .regex = "t.*", .assignor = "range",
                .owned = "");
    ck_assert_int_eq(beat_error(call), 0);
    world_advance(&world, 1000);
    call = BEAT(&world, .member = "a", .epoch = epoch);
    ck_assert_int_eq(call->op.op.err, ERR_OK);
    ck_assert_int_eq(beat_error(call), 0);
    ck_assert_uint_le(world.batch_used, LITTLE);
    world_close(&world);
}
END_TEST

/* Rule: a topic of which a member has one partition counts once, since nothing of it can stay when it goes: all of them
 * are taken as far as they have room, and a static member that has them can leave. */
START_TEST(topics_of_one_partition)
{
    enum { MANY = 200, LITTLE = 10000, LESS = 7700, BEATS = 8 };
    const struct world_call *call = NULL;
    int32_t epoch = 0;

    begin_many(MANY, 1);
    epoch = beat_epoch(BEAT(&world, .member = "a", .instance = "i", .rebalance_ms = 60000, .topics = "", .regex = "t.*",
                            .assignor = "range", .owned = ""));
    world_advance(&world, 2000);
    world.batch_room = LITTLE;
    for (int i = 0; i < BEATS; i++) {
        call = BEAT(&world, .member = "a", .instance = "i", .epoch = epoch, .owned = i == 0 ? "" : NULL);
        epoch = beat_epoch(call);
        world_advance(&world, 2000);
    }
    ck_assert_uint_eq(
        consumer_find(group_find(world.groups, BYTES_LITERAL("g"))->consumer, BYTES_LITERAL("a"))->assigned.count,
        MANY);
    world.batch_room = LESS;
    call = BEAT(&world, .member = "a", .instance = "i", .epoch = -2);
    ck_assert_int_eq(beat_error(call), 0);
    world_close(&world);
}
END_TEST

RUN_TESTS("consumer_size", any_story, a_topic_that_grew, half_of_each_topic_goes_back, topics_of_one_partition)
