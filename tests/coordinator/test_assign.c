/* Rules of the assignors: every partition one owner who subscribes; balance; stickiness; racks; the same each time.
 *
 * Sources: coordinator/assign_range.c, coordinator/assign_uniform.c */
#include "coordinator/assign.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "partition/run_tests.h"

enum { MEMBERS_MAX = 64, TOPICS_MAX = 16, PARTITIONS_MAX = 512 };

struct room {
    struct assign_member members[MEMBERS_MAX];
    uint32_t topics[MEMBERS_MAX][TOPICS_MAX];
    uint32_t first[TOPICS_MAX + 1];
    uint32_t before[PARTITIONS_MAX];
    uint64_t racks[PARTITIONS_MAX];
    uint32_t owner[PARTITIONS_MAX];
    uint32_t again[PARTITIONS_MAX];
    struct assign_input input;
};

static uint32_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33);
}

static void make(struct room *room, uint32_t members, uint32_t topics, uint32_t partitions, bool same, uint64_t *seed)
{
    memset(room, 0, sizeof(*room));
    for (uint32_t i = 0; i < topics; i++)
        room->first[i + 1] = room->first[i] + (same ? partitions : next(seed) % (partitions + 1));
    for (uint32_t i = 0; i < members; i++) {
        for (uint32_t j = 0; j < topics; j++)
            if (same || next(seed) % 3 != 0)
                room->topics[i][room->members[i].topic_count++] = j;
        room->members[i].topics = room->topics[i];
    }
    for (uint32_t i = 0; i < room->first[topics]; i++)
        room->before[i] = ASSIGN_NOBODY;
    room->input = (struct assign_input){.members = room->members,
                                        .member_count = members,
                                        .first = room->first,
                                        .topic_count = topics,
                                        .before = room->before};
}

static bool subscribes(const struct assign_member *member, uint32_t topic)
{
    for (uint32_t i = 0; i < member->topic_count; i++)
        if (member->topics[i] == topic)
            return true;
    return false;
}

static void expect_valid(const struct room *room)
{
    for (uint32_t topic = 0; topic < room->input.topic_count; topic++) {
        bool any = false;

        for (uint32_t i = 0; i < room->input.member_count; i++)
            any |= subscribes(&room->members[i], topic);
        for (uint32_t i = room->first[topic]; i < room->first[topic + 1]; i++) {
            ck_assert_int_eq(room->owner[i] != ASSIGN_NOBODY, any);
            if (any)
                ck_assert(subscribes(&room->members[room->owner[i]], topic));
        }
    }
}

static void count_loads(const struct room *room, uint32_t *loads)
{
    memset(loads, 0, MEMBERS_MAX * sizeof(*loads));
    for (uint32_t i = 0; i < assign_partition_count(&room->input); i++)
        if (room->owner[i] != ASSIGN_NOBODY)
            loads[room->owner[i]]++;
}

static uint32_t count_kept(const struct room *room)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < assign_partition_count(&room->input); i++)
        kept += room->before[i] != ASSIGN_NOBODY && room->before[i] == room->owner[i];
    return kept;
}

static void uniform(struct room *room)
{
    ck_assert_int_eq(assign_uniform(&room->input, room->owner), ERR_OK);
    ck_assert_int_eq(assign_uniform(&room->input, room->again), ERR_OK);
    ck_assert_mem_eq(room->owner, room->again, sizeof(uint32_t) * assign_partition_count(&room->input));
    expect_valid(room);
}

/* Three members, each in a rack of its own, subscribe to two topics of six partitions; room.racks are the test's. */
static void make_with_racks(struct room *room, uint64_t *seed)
{
    make(room, 3, 2, 6, true, seed);
    room->input.rack_bits = room->racks;
    for (uint32_t i = 0; i < 3; i++)
        room->members[i].rack_bit = UINT64_C(1) << i;
}

/* Rule: range: n div m each, the first n mod m one more, in runs; topics of one size are divided alike. */
START_TEST(range_divides)
{
    static struct room room;
    uint64_t seed = 1;
    const uint32_t expected[] = {0, 0, 0, 1, 1, 2, 2};

    make(&room, 3, 2, 7, true, &seed);
    ck_assert_int_eq(assign_range(&room.input, room.owner), ERR_OK);
    ck_assert_mem_eq(room.owner, expected, sizeof(expected));
    ck_assert_mem_eq(room.owner + 7, expected, sizeof(expected));
    make(&room, 5, 1, 2, true, &seed);
    ck_assert_int_eq(assign_range(&room.input, room.owner), ERR_OK);
    ck_assert_uint_eq(room.owner[0], 0);
    ck_assert_uint_eq(room.owner[1], 1);
    for (int i = 0; i < 200; i++) {
        make(&room, 1 + next(&seed) % 8, 1 + next(&seed) % 8, 20, false, &seed);
        ck_assert_int_eq(assign_range(&room.input, room.owner), ERR_OK);
        expect_valid(&room);
    }
}
END_TEST

/* Rule: range, by racks: what lies near in every topic of one size first; as many as without racks, and one member the
 * same partition of each. Where all partitions lie alike, or subscriptions differ, racks change nothing. */
START_TEST(range_prefers_racks)
{
    static struct room room;
    static uint32_t plain[PARTITIONS_MAX];
    uint64_t seed = 11;

    make_with_racks(&room, &seed);
    for (uint32_t i = 0; i < 12; i++)
        room.racks[i] = UINT64_C(1) << (2 - i % 3);
    ck_assert_int_eq(assign_range(&room.input, room.owner), ERR_OK);
    for (uint32_t i = 0; i < 12; i++)
        ck_assert_uint_eq(room.owner[i], 2 - i % 3);
    /* Where all are in one rack, or all of one size lies alike, nothing is nearer to one than to another. */
    for (uint32_t i = 0; i < 3; i++)
        room.members[i].rack_bit = 1;
    ck_assert_int_eq(assign_range(&room.input, room.owner), ERR_OK);
    for (uint32_t i = 0; i < 12; i++)
        ck_assert_uint_eq(room.owner[i], i % 6 / 2);
    room.members[0].rack_bit = 2;
    room.first[1] = 4; /* of four partitions in one rack, and of eight in the other */
    for (uint32_t i = 0; i < 12; i++)
        room.racks[i] = i < 4 ? 1 : 2;
    ck_assert_int_eq(assign_range(&room.input, room.owner), ERR_OK);
    for (uint32_t i = 0; i < 12; i++)
        ck_assert_uint_eq(room.owner[i], i < 4 ? (i < 2 ? 0 : i - 1) : (i < 7 ? 0 : i < 10 ? 1 : 2));
    for (int round = 0; round < 500; round++) {
        uint32_t members = 1 + next(&seed) % 8;
        uint32_t topics = 1 + next(&seed) % 8;
        uint32_t racks = 1 + next(&seed) % 3;
        uint32_t near = 0;
        uint32_t near_plain = 0;
        bool same = next(&seed) % 4 != 0;

        make(&room, members, topics, 1 + next(&seed) % 20, same, &seed);
        ck_assert_int_eq(assign_range(&room.input, plain), ERR_OK);
        room.input.rack_bits = room.racks;
        for (uint32_t i = 0; i < members; i++)
            room.members[i].rack_bit = next(&seed) % 5 == 0 ? 0 : UINT64_C(1) << next(&seed) % racks;
        for (uint32_t i = 0; i < assign_partition_count(&room.input); i++)
            room.racks[i] = UINT64_C(1) << next(&seed) % racks;
        ck_assert_int_eq(assign_range(&room.input, room.owner), ERR_OK);
        expect_valid(&room);
        if (racks == 1)
            ck_assert_mem_eq(room.owner, plain, assign_partition_count(&room.input) * sizeof(*plain));
        for (uint32_t topic = 0; topic < topics; topic++) {
            uint32_t loads[MEMBERS_MAX] = {0};

            for (uint32_t i = room.first[topic]; i < room.first[topic + 1]; i++) {
                if (room.owner[i] == ASSIGN_NOBODY)
                    continue;
                loads[room.owner[i]]++;
                loads[plain[i]]--;
                near += (room.racks[i] & room.members[room.owner[i]].rack_bit) != 0;
                near_plain += (room.racks[i] & room.members[plain[i]].rack_bit) != 0;
                if (same) /* all topics are of one size */
                    ck_assert_uint_eq(room.owner[i], room.owner[i - room.first[topic]]);
            }
            for (uint32_t i = 0; i < members; i++)
                ck_assert_uint_eq(loads[i], 0);
        }
        if (topics == 1)
            ck_assert_uint_ge(near, near_plain);
    }
}
END_TEST

/* Rule: one subscription: nobody has two more than another; whoever was within the quota keeps all. */
START_TEST(uniform_balances_and_sticks)
{
    static struct room room;
    uint32_t loads[MEMBERS_MAX];
    uint64_t seed = 2;

    for (int i = 0; i < 300; i++) {
        uint32_t members = 1 + next(&seed) % 10;
        uint32_t topics = 1 + next(&seed) % 8;
        uint32_t total = 0;
        uint32_t may_keep = 0;

        make(&room, members, topics, next(&seed) % 20, true, &seed);
        total = assign_partition_count(&room.input);
        for (uint32_t j = 0; j < total; j++)
            room.before[j] = next(&seed) % 3 == 0 ? ASSIGN_NOBODY : next(&seed) % members;
        uniform(&room);
        count_loads(&room, loads);
        for (uint32_t j = 0; j < members; j++)
            ck_assert(loads[j] == total / members || loads[j] == total / members + (total % members != 0));
        /* As many as balance leaves: each the least, and one more for as many as there are extras. */
        memset(loads, 0, sizeof(loads));
        for (uint32_t j = 0; j < total; j++)
            if (room.before[j] != ASSIGN_NOBODY)
                loads[room.before[j]]++;
        for (uint32_t j = 0, extra = total % members; j < members; j++) {
            uint32_t quota = total / members;

            if (loads[j] > quota && extra > 0) {
                quota++;
                extra--;
            }
            may_keep += loads[j] < quota ? loads[j] : quota;
        }
        ck_assert_uint_eq(count_kept(&room), may_keep);
    }
}
END_TEST

/* Rule: different subscriptions: no partition can go to a subscriber that has two less; a second time nothing moves. */
START_TEST(uniform_where_subscriptions_differ)
{
    static struct room room;
    uint32_t loads[MEMBERS_MAX];
    uint64_t seed = 3;

    for (int i = 0; i < 500; i++) {
        uint32_t members = 2 + next(&seed) % 10;

        make(&room, members, 1 + next(&seed) % 8, 20, false, &seed);
        for (uint32_t j = 0; j < assign_partition_count(&room.input); j++)
            room.before[j] = next(&seed) % 3 == 0 ? ASSIGN_NOBODY : next(&seed) % members;
        uniform(&room);
        count_loads(&room, loads);
        for (uint32_t topic = 0; topic < room.input.topic_count; topic++)
            for (uint32_t j = room.first[topic]; j < room.first[topic + 1]; j++)
                for (uint32_t k = 0; k < members && room.owner[j] != ASSIGN_NOBODY; k++)
                    if (subscribes(&room.members[k], topic))
                        ck_assert_uint_le(loads[room.owner[j]], loads[k] + 1);
        memcpy(room.before, room.owner, sizeof(room.before));
        uniform(&room);
        ck_assert_mem_eq(room.before, room.owner, sizeof(uint32_t) * assign_partition_count(&room.input));
    }
}
END_TEST

/* Rule: what is new to a member lies in its rack where that is possible; balance and what it has come first. */
START_TEST(uniform_prefers_racks)
{
    static struct room room;
    uint32_t loads[MEMBERS_MAX];
    uint64_t seed = 4;
    uint32_t near = 0;

    make_with_racks(&room, &seed);
    for (uint32_t i = 0; i < 12; i++)
        room.racks[i] = UINT64_C(1) << (i / 4);
    uniform(&room);
    count_loads(&room, loads);
    for (uint32_t i = 0; i < 12; i++)
        near += (room.racks[i] & room.members[room.owner[i]].rack_bit) != 0;
    ck_assert_uint_eq(near, 12);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(loads[i], 4);
    /* They stay with whom has them, far as they are. */
    for (uint32_t i = 0; i < 12; i++)
        room.before[i] = (i / 4 + 1) % 3;
    uniform(&room);
    ck_assert_mem_eq(room.owner, room.before, 12 * sizeof(uint32_t));
}
END_TEST

static double once_ms(bool same, bool is_range, bool fresh)
{
    enum { MEMBERS = 1000, TOPICS = 100, EACH = 100 };
    struct assign_member *members = mem_calloc(MEMBERS, sizeof(*members));
    uint32_t *topics = mem_calloc((size_t)MEMBERS * TOPICS, sizeof(*topics));
    uint32_t *first = mem_calloc(TOPICS + 1, sizeof(*first));
    uint32_t *before = mem_calloc(TOPICS * EACH, sizeof(*before));
    uint32_t *owner = mem_calloc(TOPICS * EACH, sizeof(*owner));
    struct assign_input input = {
        .members = members, .member_count = MEMBERS, .first = first, .topic_count = TOPICS, .before = before};
    struct timespec from;
    struct timespec to;

    for (uint32_t i = 0; i < TOPICS; i++)
        first[i + 1] = first[i] + EACH;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        members[i].topics = same ? topics : topics + (size_t)i * TOPICS;
        for (uint32_t j = 0; j < TOPICS; j++)
            if (same || (i + j) % 7 != 0)
                topics[(same ? 0 : (size_t)i * TOPICS) + members[i].topic_count++] = j;
    }
    for (uint32_t i = 0; i < TOPICS * EACH; i++)
        before[i] = fresh ? ASSIGN_NOBODY : i % (MEMBERS - 1); /* one is new */
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    ck_assert_int_eq(is_range ? assign_range(&input, owner) : assign_uniform(&input, owner), ERR_OK);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    mem_free(members);
    mem_free(topics);
    mem_free(first);
    mem_free(before);
    mem_free(owner);
    return (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
}

/* Shows: how much of a processor's time 1,000 members and 10,000 partitions take; a bound that only a wrong order of
 * growth breaks. */
START_TEST(a_thousand_members)
{
    double fresh = once_ms(true, false, true);
    double sticky = once_ms(true, false, false);
    double different = once_ms(false, false, true);
    double moved = once_ms(false, false, false);
    double range = once_ms(true, true, true);

    printf("1,000 members, 10,000 partitions: uniform %.2f ms, one more member %.2f ms, subscriptions that differ %.2f "
           "and %.2f ms, range %.2f ms\n",
           fresh, sticky, different, moved, range);
    ck_assert(fresh < 1000 && sticky < 1000 && different < 1000 && moved < 1000 && range < 1000);
}
END_TEST

RUN_TESTS("assign", range_divides, range_prefers_racks, uniform_balances_and_sticks, uniform_where_subscriptions_differ,
          uniform_prefers_racks, a_thousand_members)
