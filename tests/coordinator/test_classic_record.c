/* Rule: a classic group is what its records say (on-disk.md 7.1): all versions are read, tombstones of whatever are
 * fine, damage is said; and it can become a group of the other kind and come back. */
#include <check.h>
#include <string.h>

#include "base/big_endian.h"
#include "coordinator/classic_client.h"
#include "coordinator/classic_internal.h"
#include "partition/run_tests.h"
#include "protocol/gen/consumer_protocol_assignment.h"
#include "protocol/gen/consumer_protocol_subscription.h"
#include "protocol/gen/group_metadata_record.h"

static struct group_world world;

enum { RECORD_BYTES = 4096 };

struct built {
    uint8_t bytes[RECORD_BYTES];
    size_t size;
};

/* A message behind its type or version. */
static struct bytes build(struct built *to, const struct message_type *type, int16_t version, const void *message)
{
    struct wire_writer writer;

    wire_writer_init_flat(&writer, to->bytes, sizeof(to->bytes));
    wire_write_i16(&writer, type->kind == MESSAGE_KEY ? type->api_key : version);
    message_write(type, &writer, version, message);
    to->size = 2 + wire_size_total(message_size(type, version, message));
    return bytes_of(to->bytes, to->size);
}

static struct bytes key_of(struct built *to, const char *group)
{
    struct group_metadata_key key = {.group = bytes_of_text(group)};

    return build(to, &group_metadata_key_message, 0, &key);
}

static enum err replay(const char *group, struct bytes value)
{
    struct built key;

    return groups_replay(world.groups, -1, key_of(&key, group), value);
}

/* Two members, the second a static one where the version has that. */
static struct bytes value_of(struct built *to, int16_t version)
{
    struct member_metadata members[2];
    struct group_metadata_value value;

    group_metadata_value_init(&value);
    for (int i = 0; i < 2; i++) {
        member_metadata_init(&members[i]);
        members[i].client_id = BYTES_LITERAL("client");
        members[i].client_host = BYTES_LITERAL("/10.0.0.1");
        members[i].session_timeout = 10000;
        members[i].rebalance_timeout = 60000;
        members[i].subscription = BYTES_LITERAL("topics");
        members[i].assignment = i == 0 ? BYTES_LITERAL("first") : BYTES_LITERAL("second");
        members[i].member_id = i == 0 ? BYTES_LITERAL("m0") : BYTES_LITERAL("m1");
    }
    members[1].group_instance_id = BYTES_LITERAL("i1");
    value.protocol_type = BYTES_LITERAL("consumer");
    value.generation = 5;
    value.protocol = BYTES_LITERAL("range");
    value.leader = BYTES_LITERAL("m1");
    value.current_state_timestamp = 77;
    value.members = members;
    value.members_count = 2;
    return build(to, &group_metadata_value_message, version, &value);
}

/* Kafka has written all of these over the years. Before v1 the rebalance time-out is the session time-out. */
START_TEST(all_versions)
{
    for (int16_t version = 0; version <= 4; version++) {
        struct built value;
        const struct classic_group *classic = NULL;
        const struct classic_member *second = NULL;

        world_open(&world);
        ck_assert_int_eq(replay("g", value_of(&value, version)), ERR_OK);
        classic = group_find(world.groups, BYTES_LITERAL("g"))->classic;
        ck_assert_int_eq(classic->state, CLASSIC_STABLE);
        ck_assert_int_eq(classic->generation, 5);
        ck_assert_int_eq(classic->since_ms, version >= 2 ? 77 : -1);
        second = classic_member_find(classic, BYTES_LITERAL("m1"));
        ck_assert_ptr_eq(classic->leader, second);
        ck_assert_int_eq(second->rebalance_timeout_ms, version >= 1 ? 60000 : 10000);
        ck_assert(bytes_equal(second->assignment, BYTES_LITERAL("second")));
        ck_assert((second->instance_id.data != NULL) == (version >= 3));
        world_close(&world);
    }
}
END_TEST

START_TEST(what_cannot_be_read)
{
    struct built value;
    struct bytes good = value_of(&value, 3);
    static const uint8_t key_only[] = {0, 2};

    world_open(&world);
    big_endian_store_u16(value.bytes, 5);
    ck_assert_int_eq(replay("g", good), ERR_UNSUPPORTED_VERSION);
    big_endian_store_u16(value.bytes, 3);
    for (size_t size = 0; size < good.size; size++)
        ck_assert_int_eq(replay("g", bytes_of(good.data, size)), ERR_DAMAGED);
    ck_assert_int_eq(groups_replay(world.groups, -1, bytes_of(key_only, 2), good), ERR_DAMAGED);
    ck_assert_int_eq(groups_replay(world.groups, -1, bytes_of(key_only, 1), good), ERR_DAMAGED);
    world_close(&world);
}
END_TEST

/* B143: tombstones alone, a group that went and came back, unknown kinds: replay never fails, and nothing is left of
 * what is gone. */
START_TEST(tombstones)
{
    static const uint8_t unknown[] = {0, 99, 1, 2, 3};
    struct built value;

    world_open(&world);
    ck_assert_int_eq(replay("never", (struct bytes){0}), ERR_OK);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    ck_assert_int_eq(replay("g", value_of(&value, 3)), ERR_OK);
    ck_assert_int_eq(replay("g", (struct bytes){0}), ERR_OK);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    ck_assert_int_eq(replay("g", value_of(&value, 3)), ERR_OK);
    ck_assert_int_eq(groups_replay(world.groups, -1, bytes_of(unknown, 5), bytes_of(unknown, 5)), ERR_OK);
    ck_assert_int_eq(groups_replay(world.groups, -1, bytes_of(unknown, 5), (struct bytes){0}), ERR_OK);
    ck_assert_uint_eq(groups_count(world.groups), 1);
    world_close(&world);
}
END_TEST

/* A later record says who is in the group: who is not in it is out, who has a static member's name has its place. */
START_TEST(a_later_record)
{
    struct built value;
    struct member_metadata member;
    struct group_metadata_value later;
    const struct classic_group *classic = NULL;

    world_open(&world);
    ck_assert_int_eq(replay("g", value_of(&value, 3)), ERR_OK);
    group_metadata_value_init(&later);
    member_metadata_init(&member);
    member.member_id = BYTES_LITERAL("m9");
    member.group_instance_id = BYTES_LITERAL("i1");
    later.generation = 6;
    later.protocol_type = BYTES_LITERAL("consumer");
    later.protocol = BYTES_LITERAL("sticky");
    later.leader = BYTES_LITERAL("gone");
    later.members = &member;
    later.members_count = 1;
    ck_assert_int_eq(replay("g", build(&value, &group_metadata_value_message, 3, &later)), ERR_OK);
    classic = group_find(world.groups, BYTES_LITERAL("g"))->classic;
    ck_assert_uint_eq(classic_member_count(classic), 1);
    ck_assert_ptr_eq(classic_member_find_instance(classic, BYTES_LITERAL("i1")),
                     classic_member_find(classic, BYTES_LITERAL("m9")));
    ck_assert_ptr_null(classic->leader);
    later.members_count = 0;
    ck_assert_int_eq(replay("g", build(&value, &group_metadata_value_message, 3, &later)), ERR_OK);
    ck_assert_int_eq(classic->state, CLASSIC_EMPTY);
    world_close(&world);
}
END_TEST

/* Members that were loaded go on as if nothing had been: same ids, same generation. */
START_TEST(members_that_were_loaded_may_go_on)
{
    struct built value;
    struct classic_client first = {.label = "m0", .id = "m0", .generation = 5, .protocols = "range=topics"};
    struct classic_client second = {
        .label = "m1", .id = "m1", .generation = 5, .instance = "i1", .protocols = "range=topics"};

    world_open(&world);
    ck_assert_int_eq(replay("g", value_of(&value, 3)), ERR_OK);
    groups_loaded(world.groups, &world.step);
    ck_assert_int_eq(client_error(client_beat(&world, &first)), 0);
    ck_assert_str_eq(client_assignment(client_sync(&world, &second, NULL, 0)), "second");
    client_learn(&first, client_join(&world, &first)); /* unchanged */
    ck_assert_int_eq(first.generation, 5);
    ck_assert(!client_join(&world, &second)->answered); /* it leads */
    world_close(&world);
}
END_TEST

/* ---- from one kind to the other ---- */

static struct step begin_step(void)
{
    struct step step = world.step;

    step.now_ns = world.now_ns;
    step.now_ms = world.now_ms;
    step.err = ERR_OK;
    world.groups->step = &world.step;
    return step;
}

/* To the other protocol: who waits is told to join again, the record is gone, and so is the classic half. */
START_TEST(conversion)
{
    struct classic_client a = {.label = "a"};
    struct world_call *waiting = NULL;
    struct group *group = NULL;

    world_open(&world);
    waiting = client_enter(&world, &a);
    group = group_find(world.groups, BYTES_LITERAL("g"));
    world.step = begin_step();
    ck_assert_int_eq(classic_convert(group, &world.step), ERR_OK);
    world.groups->step = NULL;
    ck_assert_int_eq(client_error(waiting), 27);
    ck_assert_ptr_null(group->classic);
    ck_assert_ptr_null(world.records[world.record_count - 1].value.data);
    ck_assert(group_settle(group));
    world_restart(&world);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_close(&world);
}
END_TEST

/* And back: a stable group with what its members had, which lives through a restart. */
START_TEST(back_again)
{
    struct classic_protocol protocols[] = {{BYTES_LITERAL("range"), BYTES_LITERAL("t")},
                                           {BYTES_LITERAL("sticky"), BYTES_LITERAL("t")}};
    struct classic_seed seeds[2] = {{.id = BYTES_LITERAL("m0"),
                                     .client_id = BYTES_LITERAL("c"),
                                     .client_host = BYTES_LITERAL("/h"),
                                     .rebalance_timeout_ms = 30000,
                                     .session_timeout_ms = 10000,
                                     .protocols = protocols,
                                     .protocol_count = 2,
                                     .assignment = BYTES_LITERAL("first")},
                                    {.id = BYTES_LITERAL("m1"),
                                     .instance_id = BYTES_LITERAL("i"),
                                     .client_id = BYTES_LITERAL("c"),
                                     .client_host = BYTES_LITERAL("/h"),
                                     .rebalance_timeout_ms = 30000,
                                     .session_timeout_ms = 10000,
                                     .protocols = protocols,
                                     .protocol_count = 1,
                                     .assignment = BYTES_LITERAL("second")}};
    struct classic_client first = {.label = "m0", .id = "m0", .generation = 7, .protocols = "range=t,sticky=t"};
    struct classic_client second = {.label = "m1", .id = "m1", .instance = "i", .generation = 7};
    struct group *group = NULL;
    const struct rebalance_cause cause = {.cause = CAUSE_CONVERTED};

    world_open(&world);
    ck_assert_int_eq(group_get_or_make(world.groups, BYTES_LITERAL("g"), &group), ERR_OK);
    world.step = begin_step();
    ck_assert_int_eq(classic_from_members(group, &world.step, 7, seeds, 2), ERR_OK);
    world.groups->step = NULL;
    ck_assert_int_eq(client_error(client_beat(&world, &first)), 0);
    ck_assert_str_eq(client_assignment(client_sync(&world, &second, NULL, 0)), "second");
    world_say(&world, "m0 speaks of both protocols still: unchanged; it leads");
    (void)client_describe(&world, "g", 5);
    world_restart(&world);
    ck_assert_str_eq(client_assignment(client_sync(&world, &first, NULL, 0)), "first");
    world.step = begin_step();
    classic_begin_rebalance(group_find(world.groups, BYTES_LITERAL("g")), &world.step, &cause);
    world.groups->step = NULL;
    ck_assert_int_eq(client_error(client_beat(&world, &second)), 27);
    world_advance(&world, 10000);
    transcript_expect(&world.said, "back_again");
    world_close(&world);
}
END_TEST

/* ---- what others ask ---- */

static struct bytes subscription(struct built *to, const char *topic)
{
    struct bytes names[] = {bytes_of_text(topic), BYTES_LITERAL("both")};
    struct consumer_protocol_subscription message;

    consumer_protocol_subscription_init(&message);
    message.topics = names;
    message.topics_count = 2;
    return build(to, &consumer_protocol_subscription_message, 1, &message);
}

static struct bytes assignment(struct built *to, const int32_t *partitions, uint32_t count)
{
    struct consumer_protocol_assignment_topic_partition topic;
    struct consumer_protocol_assignment message;

    consumer_protocol_assignment_init(&message);
    consumer_protocol_assignment_topic_partition_init(&topic);
    topic.topic = BYTES_LITERAL("t");
    topic.partitions = (int32_t *)(uintptr_t)partitions;
    topic.partitions_count = count;
    message.assigned_partitions = &topic;
    message.assigned_partitions_count = 1;
    return build(to, &consumer_protocol_assignment_message, 1, &message);
}

static struct classic_group *two_of(const char *type, struct bytes first, struct bytes second)
{
    struct classic_group *classic = NULL;
    struct built value;
    struct member_metadata members[2];
    struct group_metadata_value message;

    group_metadata_value_init(&message);
    member_metadata_init(&members[0]);
    member_metadata_init(&members[1]);
    members[0].member_id = BYTES_LITERAL("m0");
    members[1].member_id = BYTES_LITERAL("m1");
    members[0].subscription = first;
    members[1].subscription = second;
    message.protocol_type = bytes_of_text(type);
    message.protocol = BYTES_LITERAL("range");
    message.members = members;
    message.members_count = 2;
    ck_assert_int_eq(replay("g", build(&value, &group_metadata_value_message, 3, &message)), ERR_OK);
    classic = group_find(world.groups, BYTES_LITERAL("g"))->classic;
    classic_topics_note(classic); /* as when all is loaded */
    return classic;
}

/* Whether a topic is subscribed: known for consumers whose bytes can be read, of whatever version. */
START_TEST(subscriptions)
{
    struct built first;
    struct built second;
    struct classic_group *classic = NULL;
    bool known = false;

    world_open(&world);
    classic = two_of("consumer", subscription(&first, "a"), subscription(&second, "b"));
    ck_assert(classic_subscribes(classic, BYTES_LITERAL("a"), &known) && known);
    ck_assert(classic_subscribes(classic, BYTES_LITERAL("b"), &known) && known);
    ck_assert(classic_subscribes(classic, BYTES_LITERAL("both"), &known) && known);
    ck_assert(!classic_subscribes(classic, BYTES_LITERAL("c"), &known) && known);
    big_endian_store_u16(second.bytes, 99); /* a version to come: the beginning is the same */
    classic = two_of("consumer", subscription(&first, "a"), bytes_of(second.bytes, second.size));
    ck_assert(classic_subscribes(classic, BYTES_LITERAL("b"), &known) && known);
    classic = two_of("consumer", subscription(&first, "a"), BYTES_LITERAL("?"));
    ck_assert(!classic_subscribes(classic, BYTES_LITERAL("a"), &known) && !known);
    classic = two_of("connect", subscription(&first, "a"), subscription(&second, "b"));
    ck_assert(!classic_subscribes(classic, BYTES_LITERAL("a"), &known) && !known);
    world_close(&world);
}
END_TEST

/* How many partitions have another owner: those that nobody had before do not count, nor those nobody has now. */
START_TEST(moved_partitions)
{
    struct built bytes;
    struct classic_group *classic = NULL;
    struct classic_member *first = NULL;
    struct classic_member *second = NULL;
    static const int32_t all[] = {0, 1, 2, 3};

    world_open(&world);
    classic = two_of("consumer", BYTES_LITERAL(""), BYTES_LITERAL(""));
    first = classic_member_find(classic, BYTES_LITERAL("m0"));
    second = classic_member_find(classic, BYTES_LITERAL("m1"));
    ck_assert_int_eq(classic_member_set_assignment(first, assignment(&bytes, all, 3)), ERR_OK);
    ck_assert_int_eq(classic_note_owners(classic), 0);
    ck_assert_int_eq(classic_member_set_assignment(first, assignment(&bytes, all, 1)), ERR_OK);
    ck_assert_int_eq(classic_member_set_assignment(second, assignment(&bytes, all + 1, 3)), ERR_OK);
    ck_assert_int_eq(classic_note_owners(classic), 2);
    ck_assert_int_eq(classic_member_set_assignment(second, assignment(&bytes, all + 1, 1)), ERR_OK);
    ck_assert_int_eq(classic_note_owners(classic), 0);
    ck_assert_int_eq(classic_member_set_assignment(second, BYTES_LITERAL("?")), ERR_OK);
    ck_assert_int_eq(classic_note_owners(classic), -1);
    ck_assert_int_eq(classic_member_set_assignment(second, BYTES_LITERAL("")), ERR_OK);
    ck_assert_int_eq(classic_note_owners(classic), -1);
    ck_assert_int_eq(classic_note_owners(classic), 0);
    world_close(&world);
}
END_TEST

static enum err may(const char *member, const char *instance, int32_t generation, bool transactional)
{
    struct group *group = group_find(world.groups, BYTES_LITERAL("g"));

    world.step = begin_step();
    world.groups->step = NULL;
    return classic_may_commit(group, &world.step, bytes_of_text(member), bytes_of_text(instance), generation,
                              transactional);
}

/* Who may commit offsets, by state (groups.md 4.1; B082: an administrator not while there are members). */
START_TEST(commits)
{
    struct classic_client a = {.label = "a"};
    struct world_call *waiting = NULL;

    world_open(&world);
    ck_assert_int_eq(client_error(client_join(&world, &a)), 79);
    ck_assert_int_eq(may("", NULL, -1, false), ERR_OK);
    ck_assert_int_eq(may("who", NULL, -1, false), ERR_OK); /* Kafka looks no further in an Empty group */
    ck_assert_int_eq(may("who", NULL, 0, false), ERR_UNKNOWN_MEMBER_ID);
    waiting = client_enter(&world, &a);
    world_advance(&world, 3000);
    client_learn(&a, waiting);
    ck_assert_int_eq(may(a.id, NULL, 1, false), ERR_REBALANCE_IN_PROGRESS);
    ck_assert_int_eq(may(a.id, NULL, 1, true), ERR_OK);
    ck_assert_int_eq(may("", NULL, -1, true), ERR_OK); /* a transaction says nothing of members */
    ck_assert_int_eq(may("", NULL, -1, false), ERR_UNKNOWN_MEMBER_ID);
    (void)client_sync(&world, &a, NULL, 0);
    ck_assert_int_eq(may("", NULL, -1, false), ERR_UNKNOWN_MEMBER_ID);
    ck_assert_int_eq(may(a.id, NULL, -1, false), ERR_ILLEGAL_GENERATION);
    ck_assert_int_eq(may(a.id, NULL, 0, false), ERR_ILLEGAL_GENERATION);
    ck_assert_int_eq(may(a.id, "i", 1, false), ERR_UNKNOWN_MEMBER_ID);
    world_advance(&world, 9999);
    ck_assert_int_eq(may(a.id, NULL, 1, false), ERR_OK); /* a sign of life */
    world_advance(&world, 9999);
    ck_assert_int_eq(client_error(client_beat(&world, &a)), 0);
    world_close(&world);
}
END_TEST

/* DescribeGroups of what is not there: Dead, and from v6 on an error with a text (KIP-1043). */
START_TEST(described)
{
    world_open(&world);
    (void)client_describe(&world, "none", 5);
    (void)client_describe(&world, "none", 6);
    transcript_expect(&world.said, "described");
    world_close(&world);
}
END_TEST

RUN_TESTS("classic_record", all_versions, what_cannot_be_read, tombstones, a_later_record,
          members_that_were_loaded_may_go_on, conversion, back_again, subscriptions, moved_partitions, commits,
          described)
