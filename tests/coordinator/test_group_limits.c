/* Rule: what is too much is refused alone and before anything is written: nobody else loses anything by it. What stands
 * in the log is taken, however much it is.
 *
 * Sources: coordinator/consumer_replay.c */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "coordinator/classic.h"
#include "coordinator/classic_client.h"
#include "coordinator/consumer_beats.h"
#include "coordinator/consumer_internal.h"
#include "partition/run_tests.h"
#include "protocol/gen/consumer_group_heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/sync_group.h"

enum {
    GROUP_MAX_SIZE_REACHED = 81,
    INVALID_REQUEST = 42,
    GROUP_ID_NOT_FOUND = 69,
    UNKNOWN_SERVER_ERROR = -1,
    PROTOCOLS = 130 * 1000, /* of one letter: 0.9 MB */
    NAME_CHARS = 7,
    RECORD_ARENA = 1 << 30,
};

static struct group_world world;

static void begin(void)
{
    world_open(&world);
    world.quiet = true;
    world.settings.consumer_assignment_interval_ms = 0;
    world_topic(&world, "t", 4);
}

static void end(void)
{
    ck_assert_uint_eq(world.failed, 0);
    world_close(&world);
}

static const struct consumer_group *consumer(void)
{
    return group_find(world.groups, BYTES_LITERAL("g"))->consumer;
}

static void *zeroed(size_t count, size_t size)
{
    void *made = mem_calloc(count, size);

    ck_assert(made != NULL);
    return made;
}

/* ---- classic requests ---- */

static int join_with(const char *group, uint32_t count, struct bytes metadata)
{
    struct join_group_request_protocol *protocols = zeroed(count, sizeof(*protocols));
    struct join_group_request request;
    const struct world_call *call = NULL;
    int error = 0;

    for (uint32_t i = 0; i < count; i++)
        protocols[i] = (struct join_group_request_protocol){.name = BYTES_LITERAL("a"), .metadata = metadata};
    join_group_request_init(&request);
    request.group_id = bytes_of_text(group);
    request.session_timeout_ms = 10000;
    request.rebalance_timeout_ms = 30000;
    request.protocol_type = BYTES_LITERAL("consumer");
    request.protocols = protocols;
    request.protocols_count = count;
    call = world_ask(&world, "old", ASK_JOIN_GROUP, 3, group, &request);
    if (!call->answered) /* whoever is taken in waits for others */
        world_advance(&world, request.rebalance_timeout_ms);
    error = client_error(call);
    mem_free(protocols);
    return error;
}

/* Rule: no member offers more than a thousand protocols, or more bytes with them than are kept of one, to a group of
 * either kind. */
START_TEST(protocols)
{
    uint8_t *large = zeroed(CLASSIC_METADATA_BYTES_MAX, 1);

    begin();
    JOIN(&world, "new", "t");
    ck_assert_int_eq(join_with("edge", CLASSIC_PROTOCOLS_MAX + 1, BYTES_LITERAL("")), INVALID_REQUEST);
    ck_assert_ptr_null(group_find(world.groups, BYTES_LITERAL("edge")));
    ck_assert_int_eq(join_with("edge", CLASSIC_PROTOCOLS_MAX, BYTES_LITERAL("")), 0);
    ck_assert_int_eq(join_with("g", PROTOCOLS, BYTES_LITERAL("")), INVALID_REQUEST);
    ck_assert_int_eq(join_with("c", PROTOCOLS, BYTES_LITERAL("")), INVALID_REQUEST);
    ck_assert_int_eq(join_with("g", 1, bytes_of(large, CLASSIC_METADATA_BYTES_MAX)), INVALID_REQUEST);
    ck_assert_int_eq(join_with("c", 1, bytes_of(large, CLASSIC_METADATA_BYTES_MAX)), INVALID_REQUEST);
    /* What no batch holds is not for this kind. */
    ck_assert_int_eq(join_with("g", 2, bytes_of(large, world.batch_room / 2)), UNKNOWN_SERVER_ERROR);
    ck_assert_ptr_null(group_find(world.groups, BYTES_LITERAL("c")));
    ck_assert_int_eq(beat_error(BEAT(&world, "new", 2)), 0);
    end();
    mem_free(large);
}
END_TEST

/* Rule: a group whose first record has no room in a batch does not begin. */
START_TEST(no_room_to_begin)
{
    begin();
    world.batch_room = 60;
    ck_assert_int_eq(join_with("c", 1, BYTES_LITERAL("")), UNKNOWN_SERVER_ERROR);
    ck_assert_ptr_null(group_find(world.groups, BYTES_LITERAL("c")));
    end();
}
END_TEST

/* Rule: who names so many that the answer finds no memory is refused alone; beyond a limit at once. */
START_TEST(many_named)
{
    static struct sync_group_request sync;
    struct member_identity *who = zeroed(CLASSIC_NAMED_MAX + 1, sizeof(*who));
    struct leave_group_request request;
    const struct leave_group_response *left = NULL;
    const struct world_call *call = NULL;

    for (uint32_t i = 0; i <= CLASSIC_NAMED_MAX; i++)
        member_identity_init(&who[i]);
    leave_group_request_init(&request);
    request.members = who;
    begin();
    JOIN(&world, "new", "t");
    world.arena_bytes = 64 * 1024;
    for (int i = 0; i < 2; i++) {
        const char *group = i == 0 ? "g" : "c";

        request.members_count = CLASSIC_NAMED_MAX + 1;
        left = world_ask(&world, "old", ASK_LEAVE_GROUP, 5, group, &request)->response;
        ck_assert_int_eq(left->error_code, INVALID_REQUEST);
        request.members_count = CLASSIC_NAMED_MAX;
        call = world_ask(&world, "old", ASK_LEAVE_GROUP, 5, group, &request);
        ck_assert_int_eq(call->op.op.err, ERR_NOMEM);
    }
    sync_group_request_init(&sync);
    sync.assignments_count = CLASSIC_NAMED_MAX + 1;
    ck_assert_int_eq(client_error(world_ask(&world, "old", ASK_SYNC_GROUP, 3, "c", &sync)), INVALID_REQUEST);
    end();
    mem_free(who);
}
END_TEST

/* ---- heartbeats ---- */

static int says_owned(const char *group, int32_t epoch, uint32_t count)
{
    struct consumer_group_heartbeat_request_topic_partitions topic = {.partitions_count = count};
    struct consumer_group_heartbeat_request request;
    int error = 0;

    topic.partitions = zeroed(count, sizeof(*topic.partitions));
    consumer_group_heartbeat_request_init(&request);
    request.group_id = bytes_of_text(group);
    request.member_id = BYTES_LITERAL("new");
    request.member_epoch = epoch;
    request.topic_partitions = &topic;
    request.topic_partitions_count = 1;
    error = beat_error(world_ask(&world, "new", ASK_CONSUMER_HEARTBEAT, 1, group, &request));
    mem_free(topic.partitions);
    return error;
}

/* Rule: a member owns no more than two batches could hold; it is told so before anything is read. */
START_TEST(owned)
{
    begin();
    JOIN(&world, "new", "t");
    ck_assert_int_eq(says_owned("g", 2, CONSUMER_OWNED_MAX), 0);
    ck_assert_int_eq(says_owned("g", 2, CONSUMER_OWNED_MAX + 1), INVALID_REQUEST);
    ck_assert_int_eq(says_owned("none", 2, CONSUMER_OWNED_MAX), GROUP_ID_NOT_FOUND);
    end();
}
END_TEST

/* Rule: a group takes as many members as its settings say, and never more than CONSUMER_MEMBERS_MAX. */
START_TEST(members)
{
    begin();
    world.settings.consumer_size_max = INT32_MAX;
    ck_assert_uint_eq(consumer_size_max(world.groups), CONSUMER_MEMBERS_MAX);
    world.settings.consumer_size_max = 1;
    ck_assert_int_eq(beat_error(JOIN(&world, "new", "t")), 0);
    ck_assert_int_eq(beat_error(JOIN(&world, "newer", "t")), GROUP_MAX_SIZE_REACHED);
    end();
}
END_TEST

/* count different names, of NAME_CHARS each. */
static struct bytes *make_names(uint32_t count, char **text)
{
    struct bytes *names = zeroed(count, sizeof(*names));

    *text = zeroed(count, NAME_CHARS + 1);
    for (uint32_t i = 0; i < count; i++) {
        char *at = *text + (size_t)i * (NAME_CHARS + 1);

        (void)snprintf(at, NAME_CHARS + 1, "%07u", i);
        names[i] = bytes_of(at, NAME_CHARS);
    }
    return names;
}

static int subscribes_to(struct bytes *names, uint32_t count)
{
    struct consumer_group_heartbeat_request request;

    consumer_group_heartbeat_request_init(&request);
    request.group_id = BYTES_LITERAL("g");
    request.member_id = BYTES_LITERAL("new");
    request.rebalance_timeout_ms = 60000;
    request.subscribed_topic_names = names;
    request.subscribed_topic_names_count = count;
    request.topic_partitions = zeroed(1, sizeof(*request.topic_partitions));
    int error = beat_error(world_ask(&world, "new", ASK_CONSUMER_HEARTBEAT, 1, "g", &request));
    mem_free(request.topic_partitions);
    return error;
}

/* ---- records, as any broker may have written them ---- */

static enum err replay(const struct message_type *key_type, const void *key, const struct message_type *value_type,
                       const void *value)
{
    struct arena arena;
    struct bytes halves[2];
    uint8_t *whole[2];
    enum err err = ERR_OK;

    arena_init(&arena, RECORD_ARENA);
    ck_assert_int_eq(message_encode(key_type, 0, key, &arena, &halves[0]), ERR_OK);
    ck_assert_int_eq(message_encode(value_type, 0, value, &arena, &halves[1]), ERR_OK);
    for (int i = 0; i < 2; i++) {
        whole[i] = arena_alloc(&arena, halves[i].size + 2);
        ck_assert(whole[i] != NULL);
        whole[i][1] = i == 0 ? (uint8_t)key_type->api_key : 0;
        memcpy(whole[i] + 2, halves[i].data, halves[i].size);
    }
    err =
        groups_replay(world.groups, -1, bytes_of(whole[0], halves[0].size + 2), bytes_of(whole[1], halves[1].size + 2));
    arena_deinit(&arena);
    return err;
}

static enum err replay_member(const char *id, const struct consumer_group_member_metadata_value *about)
{
    struct consumer_group_member_metadata_key key = {.group_id = BYTES_LITERAL("g"), .member_id = bytes_of_text(id)};

    return replay(&consumer_group_member_metadata_key_message, &key, &consumer_group_member_metadata_value_message,
                  about);
}

/* Rule: a member's record is read whatever its bytes become: those of the smallest protocols and names are many times
 * themselves in memory. */
START_TEST(records_of_any_size)
{
    enum { MANY = 300 * 1000 };
    struct consumer_group_member_metadata_value about;
    struct classic_member_metadata classic = {.session_timeout_ms = 10000};
    struct bytes *names = zeroed(3 * MANY, sizeof(*names));

    begin();
    consumer_about_init(&about);
    classic.supported_protocols = zeroed(MANY, sizeof(*classic.supported_protocols));
    classic.supported_protocols_count = MANY;
    for (uint32_t i = 0; i < MANY; i++)
        classic.supported_protocols[i] = (struct classic_protocol){BYTES_LITERAL(""), BYTES_LITERAL("")};
    about.classic_member_metadata = &classic;
    ck_assert_int_eq(replay_member("old", &about), ERR_OK);
    ck_assert_uint_eq(
        consumer_find(consumer(), BYTES_LITERAL("old"))->about.classic_member_metadata->supported_protocols_count,
        MANY);
    about.classic_member_metadata = NULL;
    for (uint32_t i = 0; i < 3 * MANY; i++)
        names[i] = BYTES_LITERAL("");
    about.subscribed_topic_names = names;
    about.subscribed_topic_names_count = 3 * MANY;
    ck_assert_int_eq(replay_member("new", &about), ERR_OK);
    ck_assert_uint_eq(map_count(&consumer()->names), 1);
    end();
    mem_free(classic.supported_protocols);
    mem_free(names);
}
END_TEST

/* Rule: neither a member nor a group subscribes to names without end; a group that does is loaded all the same. */
START_TEST(names)
{
    struct consumer_group_member_metadata_value about;
    char *text = NULL;
    struct bytes *all = make_names(CONSUMER_GROUP_NAMES_MAX + 2, &text);

    begin();
    ck_assert_int_eq(subscribes_to(all, CONSUMER_NAMES_MAX + 1), INVALID_REQUEST);
    ck_assert_int_eq(subscribes_to(all, CONSUMER_NAMES_MAX), UNKNOWN_SERVER_ERROR); /* no batch holds it */
    ck_assert_ptr_null(group_find(world.groups, BYTES_LITERAL("g")));
    consumer_about_init(&about);
    about.subscribed_topic_names = all;
    about.subscribed_topic_names_count = CONSUMER_GROUP_NAMES_MAX + 1;
    ck_assert_int_eq(replay_member("other", &about), ERR_OK);
    ck_assert_int_eq(subscribes_to(&all[CONSUMER_GROUP_NAMES_MAX + 1], 1), GROUP_MAX_SIZE_REACHED);
    ck_assert_int_eq(subscribes_to(all, 1), 0);
    end();
    mem_free(all);
    mem_free(text);
}
END_TEST

/* Rule: topics that are gone are not remembered for ever by whose they were. */
START_TEST(owners_of_topics_that_are_gone)
{
    char name[2] = "a";

    begin();
    JOIN(&world, "new", "a,b,c,d");
    for (int32_t i = 0; i < 4; i++, name[0]++) {
        world_topic(&world, name, 3);
        ck_assert_int_eq(beat_error(JOIN(&world, "new", "a,b,c,d")), 0);
        ck_assert_uint_eq(map_count(&consumer()->owners), 1);
        world_topic(&world, name, 0);
        ck_assert_int_eq(beat_error(JOIN(&world, "new", "a,b,c,d")), 0);
        ck_assert_uint_eq(map_count(&consumer()->owners), 0);
    }
    end();
}
END_TEST

RUN_TESTS("group_limits", protocols, no_room_to_begin, many_named, owned, members, records_of_any_size, names,
          owners_of_topics_that_are_gone)
