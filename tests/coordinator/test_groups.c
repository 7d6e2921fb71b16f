/*
 * Rules of the front door: whatever a log holds becomes a state or fails the load, and what became one can be asked.
 * Kinds of records that are unknown are passed over, versions of values that are unknown are not; the last record says
 * of which kind a group is, and what stands of the other does not come into its way; numbers end somewhere. Apache
 * Kafka writes none of the odd ones, but whoever may write into __consumer_offsets can.
 *
 * Sources: coordinator/group_settings.c */
#include <check.h>
#include <string.h>

#include "base/big_endian.h"
#include "base/mem.h"
#include "coordinator/classic_client.h"
#include "coordinator/classic_internal.h"
#include "coordinator/consumer_beats.h"
#include "coordinator/consumer_internal.h"
#include "partition/run_tests.h"
#include "protocol/gen/consumer_group_current_member_assignment_record.h"
#include "protocol/gen/consumer_group_metadata_record.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/group_metadata_record.h"

enum { HALF_BYTES_MAX = 1024, VERSION_BYTES = 2 };

static struct group_world world;

static void begin(void)
{
    world_open(&world);
    world.settings.consumer_assignment_interval_ms = 0;
    world.quiet = true;
    world_topic(&world, "t", 2);
}

/* ---- a log of our own ---- */

static struct bytes half_of(const struct message_type *type, int16_t version, const void *message)
{
    struct bytes half = bytes_of(mem_calloc(1, HALF_BYTES_MAX), VERSION_BYTES);
    uint8_t *to = (uint8_t *)(uintptr_t)half.data;
    struct wire_writer w;

    ck_assert_ptr_nonnull(to);
    wire_writer_init_flat(&w, to, HALF_BYTES_MAX);
    wire_write_i16(&w, type->kind == MESSAGE_KEY ? type->api_key : version);
    message_write(type, &w, version, message);
    half.size += wire_size_total(message_size(type, version, message));
    ck_assert_uint_le(half.size, HALF_BYTES_MAX);
    return half;
}

/* Into the log; world_restart reads it. value NULL: a tombstone. */
static void put(const struct message_type *key_type, const void *key, const struct message_type *value_type,
                const void *value)
{
    int16_t version = value_type->version_max < 3 ? value_type->version_max : 3;

    world.records[world.record_count++] =
        (struct world_record){.producer_id = -1,
                              .key = half_of(key_type, 0, key),
                              .value = value == NULL ? (struct bytes){0} : half_of(value_type, version, value)};
}

static void put_classic(int32_t generation, struct bytes member_id)
{
    struct group_metadata_key key = {.group = BYTES_LITERAL("g")};
    struct group_metadata_value value;
    struct member_metadata member;

    member_metadata_init(&member);
    member.member_id = member_id;
    member.session_timeout = 10000;
    member.rebalance_timeout = 10000;
    member.subscription = BYTES_LITERAL("t");
    group_metadata_value_init(&value);
    value.protocol_type = BYTES_LITERAL("consumer");
    value.protocol = BYTES_LITERAL("range");
    value.generation = generation;
    value.leader = member_id;
    value.members = &member;
    value.members_count = 1;
    put(&group_metadata_key_message, &key, &group_metadata_value_message, &value);
}

static void put_epoch(int32_t epoch)
{
    struct consumer_group_metadata_key key = {.group_id = BYTES_LITERAL("g")};
    struct consumer_group_metadata_value value;

    consumer_group_metadata_value_init(&value);
    value.epoch = epoch;
    put(&consumer_group_metadata_key_message, &key, &consumer_group_metadata_value_message, &value);
}

/* speaks_classic: a member of the classic protocol in a group of the other. */
static void put_member(const char *id, bool speaks_classic)
{
    static const uint8_t says_nothing[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    struct consumer_group_member_metadata_key key = {.group_id = BYTES_LITERAL("g"), .member_id = bytes_of_text(id)};
    struct bytes topic = BYTES_LITERAL("t");
    struct classic_protocol protocol = {.name = BYTES_LITERAL("range"),
                                        .metadata = bytes_of(says_nothing, sizeof(says_nothing))};
    struct classic_member_metadata classic = {
        .session_timeout_ms = 10000, .supported_protocols = &protocol, .supported_protocols_count = 1};
    struct consumer_group_member_metadata_value value;

    consumer_about_init(&value);
    value.client_id = BYTES_LITERAL("c");
    value.client_host = BYTES_LITERAL("/h");
    value.subscribed_topic_names = &topic;
    value.subscribed_topic_names_count = 1;
    value.rebalance_timeout_ms = 60000;
    value.classic_member_metadata = speaks_classic ? &classic : NULL;
    put(&consumer_group_member_metadata_key_message, &key, &consumer_group_member_metadata_value_message, &value);
}

/* partitions of topic 1; none where count is 0 */
static void put_current(const char *id, int32_t epoch, uint32_t count)
{
    struct consumer_group_current_member_assignment_key key = {.group_id = BYTES_LITERAL("g"),
                                                               .member_id = bytes_of_text(id)};
    struct consumer_group_current_member_assignment_value value;
    struct consumer_group_current_member_assignment_value_topic_partitions assigned = {
        .topic_id = test_uuid(1), .partitions = (int32_t[]){0, 1}, .partitions_count = count};

    consumer_group_current_member_assignment_value_init(&value);
    value.member_epoch = epoch;
    value.previous_member_epoch = epoch - 1;
    value.assigned_partitions = &assigned;
    value.assigned_partitions_count = count > 0;
    put(&consumer_group_current_member_assignment_key_message, &key,
        &consumer_group_current_member_assignment_value_message, &value);
}

static struct group *the_group(void)
{
    struct group *group = group_find(world.groups, BYTES_LITERAL("g"));

    ck_assert_ptr_nonnull(group);
    return group;
}

/* ---- the rules ---- */

static enum err replay(struct bytes key, struct bytes value)
{
    return groups_replay(world.groups, -1, key, value);
}

/* Share and streams groups lie in the same topic; nothing is known of them, and they stay where they are. */
START_TEST(unknown_kinds_are_passed_over)
{
    static const int16_t unknown[] = {9, 10, 15, 17, 20, 99, -1, INT16_MAX, INT16_MIN};

    begin();
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        uint8_t key[] = {0, 0, 'x'};

        big_endian_store_u16(key, (uint16_t)unknown[i]);
        ck_assert_int_eq(replay(bytes_of(key, sizeof(key)), BYTES_LITERAL("anything")), ERR_OK);
        ck_assert_int_eq(replay(bytes_of(key, VERSION_BYTES), (struct bytes){0}), ERR_OK);
    }
    ck_assert_uint_eq(world.groups->skipped, 2 * sizeof(unknown) / sizeof(unknown[0]));
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_close(&world);
}
END_TEST

/* Of each kind that is known: a key that is cut, a value without its version, of a version that is to come, that is
 * cut. 4 alone is not read: what it said is hashed now. */
START_TEST(what_cannot_be_read_fails_the_load)
{
    static const int16_t known[] = {0, 1, 2, 3, 5, 6, 7, 8, 16};

    begin();
    ck_assert_int_eq(replay(BYTES_LITERAL(""), (struct bytes){0}), ERR_DAMAGED);
    ck_assert_int_eq(replay(BYTES_LITERAL("\0"), (struct bytes){0}), ERR_DAMAGED);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        uint8_t key[64] = {0, (uint8_t)known[i], 0, 1, 'g', 0, 1, 'm', 0, 0, 0, 0};
        struct bytes whole = bytes_of(key, 12); /* a string, and where the kind has more a string and a number */
        struct bytes later = bytes_of((const uint8_t[]){0, 99}, VERSION_BYTES);
        struct bytes cut = bytes_of((const uint8_t[]){0, known[i] == 0 || known[i] > 2 ? 0 : 1}, VERSION_BYTES);

        ck_assert_int_eq(replay(bytes_of(key, 4), (struct bytes){0}), ERR_DAMAGED);
        ck_assert_int_eq(replay(whole, (struct bytes){0}), ERR_OK);
        ck_assert_int_eq(replay(whole, bytes_of(key, 1)), ERR_DAMAGED);
        ck_assert_int_eq(replay(whole, BYTES_LITERAL("")), ERR_DAMAGED);
        ck_assert_int_eq(replay(whole, later), ERR_UNSUPPORTED_VERSION);
        ck_assert_int_eq(replay(whole, cut), ERR_DAMAGED);
    }
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_close(&world);
}
END_TEST

/* Behind the last generation comes the first; no member is ever told -1, which is none. */
START_TEST(generations_end_somewhere)
{
    static const int32_t odd[] = {INT32_MAX, -1, -2, INT32_MIN};

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        struct classic_client client = {.label = "a"};
        struct world_call *call = NULL;

        begin();
        put_classic(odd[i], BYTES_LITERAL("gone"));
        world_restart(&world);
        call = client_enter(&world, &client);
        world_advance(&world, 30000); /* the one of the record is silent */
        ck_assert(call->answered);
        client_learn(&client, call);
        ck_assert_int_eq(client_error(call), 0);
        ck_assert_int_ge(client.generation, 1);
        ck_assert_int_le(client.generation, 2);
        world_close(&world);
    }
}
END_TEST

/* Epochs of the other protocol only rise: at the last one a group stays as it is, and can still be left and deleted. */
START_TEST(epochs_end_somewhere)
{
    struct world_call *call = NULL;

    begin();
    put_epoch(INT32_MAX - 1);
    world_restart(&world);
    call = JOIN(&world, "m", "t");
    ck_assert_int_eq(beat_error(call), 0);
    ck_assert_int_eq(beat_epoch(call), INT32_MAX);
    call = JOIN(&world, "n", "t");
    ck_assert_int_eq(beat_error(call), 0);
    ck_assert_int_eq(the_group()->consumer->epoch, INT32_MAX);
    ck_assert_int_eq(beat_error(BEAT(&world, .member = "m", .epoch = -1)), 0);
    ck_assert_int_eq(beat_error(BEAT(&world, .member = "n", .epoch = -1)), 0);
    ck_assert_int_eq(the_group()->consumer->epoch, INT32_MAX);
    world_restart(&world);
    ck_assert_int_eq(the_group()->consumer->epoch, INT32_MAX);
    world_close(&world);
}
END_TEST

/* The last record says of which kind it is. */
START_TEST(one_id_in_both_kinds)
{
    begin();
    put_classic(5, BYTES_LITERAL("a"));
    put_epoch(7);
    put_member("m", false);
    world_restart(&world);
    ck_assert_int_eq(the_group()->kind, GROUP_CONSUMER);
    put_classic(9, BYTES_LITERAL("b"));
    world_restart(&world);
    ck_assert_int_eq(the_group()->kind, GROUP_CLASSIC);
    ck_assert_ptr_null(the_group()->consumer);
    ck_assert_int_eq(the_group()->classic->generation, 9);
    world_close(&world);
}
END_TEST

/* What stands of a classic group beside members of the other protocol comes into nobody's way: not when the group goes
 * back to the classic protocol, nor when it is deleted. */
START_TEST(what_stands_of_the_other_kind)
{
    for (int deleted = 0; deleted < 2; deleted++) {
        struct deletable_group_result *result = NULL;

        begin();
        world.settings.migration = MIGRATION_BIDIRECTIONAL;
        put_classic(5, BYTES_LITERAL("old"));
        put_epoch(7);
        put_member("m", false);
        if (!deleted)
            put_member("c", true);
        world_restart(&world);
        ck_assert_int_eq(beat_error(BEAT(&world, .member = "m", .epoch = -1)), 0);
        if (deleted) {
            result = world_ask(&world, "admin", ASK_DELETE_GROUP, 2, "g", NULL)->response;
            ck_assert_int_eq(result->error_code, 0);
            world_advance(&world, 1000);
            ck_assert_ptr_null(group_find(world.groups, BYTES_LITERAL("g")));
            world_restart(&world);
            ck_assert_ptr_null(group_find(world.groups, BYTES_LITERAL("g")));
        } else {
            ck_assert_int_eq(the_group()->kind, GROUP_CLASSIC);
            ck_assert_ptr_nonnull(classic_member_find(the_group()->classic, BYTES_LITERAL("c")));
            ck_assert_ptr_null(classic_member_find(the_group()->classic, BYTES_LITERAL("old")));
        }
        world_close(&world);
    }
}
END_TEST

/* Of two that have a partition by their records it is whose epoch is the later; the other one's going frees nothing. */
START_TEST(two_that_have_one_partition)
{
    for (int later_first = 0; later_first < 2; later_first++) {
        begin();
        put_epoch(7);
        put_member("m", false);
        put_member("n", false);
        put_current(later_first ? "n" : "m", later_first ? 6 : 5, 1);
        put_current(later_first ? "m" : "n", later_first ? 5 : 6, 1);
        world_restart(&world);
        ck_assert_int_eq(consumer_owner_epoch(the_group()->consumer, test_uuid(1), 0), 6);
        put_current("m", 7, 0);
        world_restart(&world);
        ck_assert_int_eq(consumer_owner_epoch(the_group()->consumer, test_uuid(1), 0), 6);
        put_current("n", 8, 0);
        world_restart(&world);
        ck_assert_int_eq(consumer_owner_epoch(the_group()->consumer, test_uuid(1), 0), PARTITION_FREE);
        world_close(&world);
    }
}
END_TEST

static struct loop_timer restless;
static uint32_t fired_count;

static void fired(struct loop_timer *timer)
{
    fired_count++;
    group_timer_start(world.groups, timer, world.groups->step->now_ns - (int64_t)(fired_count % 2));
}

/* A timer that a tick arms is of a later one, be it due by then: whatever time-outs clients ask for, a tick ends. */
START_TEST(a_tick_ends)
{
    begin();
    restless.fired = fired;
    group_timer_start(world.groups, &restless, 0);
    for (uint32_t ticks = 1; ticks <= 4; ticks++) {
        world.step.now_ns = ++world.now_ns;
        groups_tick(world.groups, &world.step);
        ck_assert_uint_eq(fired_count, ticks);
        ck_assert_int_eq(groups_due_ns(world.groups), world.now_ns + 1);
    }
    group_timer_stop(world.groups, &restless);
    world_close(&world);
}
END_TEST

RUN_TESTS("groups", a_tick_ends, two_that_have_one_partition, unknown_kinds_are_passed_over,
          what_cannot_be_read_fails_the_load, generations_end_somewhere, epochs_end_somewhere, one_id_in_both_kinds,
          what_stands_of_the_other_kind)
