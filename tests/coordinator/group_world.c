#include "coordinator/group_world.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/big_endian.h"
#include "base/mem.h"
#include "coordinator/group_history.h"
#include "coordinator/group_list.h"
#include "protocol/gen/consumer_group_describe.h"
#include "protocol/gen/consumer_group_heartbeat.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/describe_groups.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/messages.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_delete.h"
#include "protocol/gen/offset_fetch.h"
#include "protocol/gen/sync_group.h"
#include "protocol/gen/txn_offset_commit.h"

enum {
    CALL_ARENA_BYTES_MAX = 64 * 1024 * 1024,
    LINE_BYTES_MAX = 32 * 1024,
    NS_A_MS = 1000000,
    BATCH_ROOM = 1024 * 1024
};

/* How each is printed; NULL: by hand. response_size: of what the core fills in. */
static const struct asked {
    const char *name;
    const struct message_type *request;
    const struct message_type *response;
    size_t response_size;
} asked[GROUP_ASK_COUNT] = {
    [ASK_JOIN_GROUP] = {"JoinGroup", &join_group_request_message, &join_group_response_message,
                        sizeof(struct join_group_response)},
    [ASK_SYNC_GROUP] = {"SyncGroup", &sync_group_request_message, &sync_group_response_message,
                        sizeof(struct sync_group_response)},
    [ASK_HEARTBEAT] = {"Heartbeat", &heartbeat_request_message, &heartbeat_response_message,
                       sizeof(struct heartbeat_response)},
    [ASK_LEAVE_GROUP] = {"LeaveGroup", &leave_group_request_message, &leave_group_response_message,
                         sizeof(struct leave_group_response)},
    [ASK_DESCRIBE_GROUP] = {"DescribeGroup", NULL, &describe_groups_response_message,
                            sizeof(struct describe_groups_response_described_group)},
    [ASK_LIST_GROUPS] = {"ListGroups", &list_groups_request_message, NULL, sizeof(struct group_list_reply)},
    [ASK_DELETE_GROUP] = {"DeleteGroup", NULL, &delete_groups_response_message, sizeof(struct deletable_group_result)},
    [ASK_OFFSET_COMMIT] = {"OffsetCommit", &offset_commit_request_message, &offset_commit_response_message,
                           sizeof(struct offset_commit_response)},
    [ASK_TXN_OFFSET_COMMIT] = {"TxnOffsetCommit", &txn_offset_commit_request_message,
                               &txn_offset_commit_response_message, sizeof(struct txn_offset_commit_response)},
    [ASK_OFFSET_FETCH] = {"OffsetFetch", NULL, &offset_fetch_response_message,
                          sizeof(struct offset_fetch_response_group)},
    [ASK_OFFSET_DELETE] = {"OffsetDelete", &offset_delete_request_message, &offset_delete_response_message,
                           sizeof(struct offset_delete_response)},
    [ASK_CONSUMER_HEARTBEAT] = {"ConsumerHeartbeat", &consumer_group_heartbeat_request_message,
                                &consumer_group_heartbeat_response_message,
                                sizeof(struct consumer_group_heartbeat_response)},
    [ASK_CONSUMER_DESCRIBE] = {"ConsumerDescribe", NULL, &consumer_group_describe_response_message,
                               sizeof(struct consumer_group_describe_response_described_group)},
    [ASK_HISTORY] = {"History", NULL, NULL, sizeof(struct group_history_reply)},
};

static char line[LINE_BYTES_MAX];

#define SAY(world, ...) ((world)->quiet ? (void)0 : transcript_say(&(world)->said, __VA_ARGS__))

static void say_message(struct group_world *world, const struct message_type *type, int16_t version,
                        const void *message)
{
    if (world->quiet)
        return;
    ck_assert_uint_lt(message_print(type, version, message, line, sizeof(line)), sizeof(line));
    SAY(world, "%s", line);
}

static const struct message_type *find(enum message_kind kind, int16_t number)
{
    for (size_t i = 0; i < MESSAGE_TYPE_COUNT; i++)
        if (message_types[i]->family == MESSAGE_FAMILY_GROUP && message_types[i]->kind == kind &&
            message_types[i]->api_key == number)
            return message_types[i];
    ck_abort_msg("no record %d", number);
    return NULL;
}

static void say_half(struct group_world *world, const struct message_type *type, int16_t version, struct bytes body)
{
    struct wire_reader reader;
    struct arena arena;
    void *message = NULL;

    arena_init(&arena, CALL_ARENA_BYTES_MAX);
    message = arena_alloc(&arena, type->structure->size);
    wire_reader_init(&reader, body);
    ck_assert_int_eq(message_read(type, &reader, &arena, version, message), ERR_OK);
    ck_assert_uint_eq(wire_reader_left(&reader), 0);
    say_message(world, type, version, message);
    arena_deinit(&arena);
}

static struct bytes rest(struct bytes of)
{
    return bytes_of(of.data + 2, of.size - 2);
}

static void say_record(struct group_world *world, struct bytes key, struct bytes value)
{
    int16_t kind = (int16_t)big_endian_load_u16(key.data);

    if (world->quiet)
        return;
    SAY(world, "  record %s ", find(MESSAGE_KEY, kind)->name);
    say_half(world, find(MESSAGE_KEY, kind), 0, rest(key));
    if (value.data == NULL) {
        SAY(world, " gone\n");
        return;
    }
    SAY(world, " v%d ", (int)big_endian_load_u16(value.data));
    say_half(world, find(MESSAGE_VALUE, kind), (int16_t)big_endian_load_u16(value.data), rest(value));
    SAY(world, "\n");
}

static struct group_world *world_of(struct step_sink *sink)
{
    return (struct group_world *)(void *)((char *)sink - offsetof(struct group_world, sink));
}

static struct bytes keep(struct bytes from)
{
    return from.data == NULL ? from : bytes_of(mem_copy_text(from.data, from.size), from.size);
}

/* From here on the core runs, or does not. */
static void core(const struct group_world *world, bool runs)
{
    if (world->core_runs != NULL)
        world->core_runs(runs);
}

static enum err sink_record(struct step_sink *sink, struct step *step, struct bytes key, struct bytes value)
{
    struct group_world *world = world_of(sink);
    int64_t producer_id = step->producer != NULL ? step->producer->id : world->producer_id;
    enum err err = world->fail;

    core(world, false);
    world->fail = ERR_OK;
    if (err != ERR_OK) {
        SAY(world, "  record fails: %s\n", err_name(err));
        core(world, true);
        return err;
    }
    say_record(world, key, value);
    world->batch_used += step_record_bytes(key.size, value.size);
    ck_assert_msg(world->batch_used <= world->batch_room, "a step does not fit its batch");
    ck_assert_uint_lt(world->record_count, WORLD_RECORDS_MAX);
    world->records[world->record_count++] =
        (struct world_record){.producer_id = producer_id, .key = keep(key), .value = keep(value)};
    core(world, true);
    return groups_replay(world->groups, producer_id, key, value);
}

static void say_history(struct group_world *world, const struct group_history_reply *reply)
{
    SAY(world, "%s", err_name(reply->err));
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct group_rebalance *entry = &reply->entries[i];

        SAY(world,
            "\n    %" PRId64 " ms, took %" PRId64 ": %s (%.*s, %.*s, %.*s, \"%.*s\") -> %d, %u members, %d moved",
            entry->began_ms, entry->duration_ms, group_cause_text(entry->cause), BYTES_PRINTF(entry->member_id),
            BYTES_PRINTF(entry->client_id), BYTES_PRINTF(entry->client_host), BYTES_PRINTF(entry->reason),
            entry->generation, entry->members, entry->moved);
    }
}

static void say_list(struct group_world *world, int16_t version, const struct group_list_reply *reply)
{
    struct list_groups_response listed;

    if (world->quiet)
        return;
    list_groups_response_init(&listed);
    listed.groups = mem_calloc((size_t)reply->count + 1, sizeof(*listed.groups));
    ck_assert_ptr_nonnull(listed.groups);
    listed.groups_count = reply->count;
    group_list_copy(reply, listed.groups);
    say_message(world, &list_groups_response_message, version, &listed);
    mem_free(listed.groups);
}

static void say_response(struct group_world *world, struct world_call *call)
{
    const struct message_type *type = asked[call->op.ask].response;
    int16_t version = call->op.version;
    struct describe_groups_response described = {.groups = call->response, .groups_count = 1};
    struct delete_groups_response deleted = {.results = call->response, .results_count = 1};
    struct offset_fetch_response fetched = {.groups = call->response, .groups_count = 1};
    struct consumer_group_describe_response consumer = {.groups = call->response, .groups_count = 1};

    switch (call->op.ask) {
    case ASK_DESCRIBE_GROUP:
        say_message(world, type, version, &described);
        break;
    case ASK_DELETE_GROUP:
        say_message(world, type, version, &deleted);
        break;
    case ASK_OFFSET_FETCH: /* the core fills the form that holds several groups, whatever the version */
        say_message(world, type, version < 8 ? 8 : version, &fetched);
        break;
    case ASK_CONSUMER_DESCRIBE:
        say_message(world, type, version, &consumer);
        break;
    case ASK_HISTORY:
        say_history(world, call->response);
        break;
    case ASK_LIST_GROUPS:
        say_list(world, version, call->response);
        break;
    default:
        say_message(world, type, version, call->response);
    }
}

static void release(struct group_world *world, struct world_call *call)
{
    call->answered = true;
    SAY(world, "  %s <- ", call->label);
    if (call->op.op.err != ERR_OK)
        SAY(world, "%s", err_name(call->op.op.err));
    else
        say_response(world, call);
    SAY(world, "\n");
    call->op.op.done(&call->op.op);
}

static void sink_answer(struct step_sink *sink, struct step *step, struct step_op *op)
{
    struct group_world *world = world_of(sink);
    struct world_call *call = (struct world_call *)(void *)op;

    core(world, false);
    ck_assert(!call->answered && !call->decided);
    if (step->err != ERR_OK)
        op->err = ERR_NOT_COORDINATOR;
    call->decided = true;
    if (world->hold)
        SAY(world, "  %s waits for the commit\n", call->label);
    else
        release(world, call);
    core(world, true);
}

static size_t sink_room(const struct step_sink *sink, const struct step *step)
{
    const struct group_world *world =
        (const struct group_world *)(const void *)((const char *)sink - offsetof(struct group_world, sink));

    (void)step;
    return world->batch_used > world->batch_room ? 0 : world->batch_room - world->batch_used;
}

static const struct group_world *of_topics(const struct group_topics *topics)
{
    return (const struct group_world *)(const void *)((const char *)topics - offsetof(struct group_world, topics));
}

static bool by_name(const struct group_topics *topics, struct bytes name, struct group_topic *topic)
{
    const struct group_world *world = of_topics(topics);

    for (uint32_t i = 0; i < world->topic_count; i++)
        if (world->table[i].partition_count > 0 && bytes_equal(world->table[i].name, name)) {
            *topic = world->table[i];
            return true;
        }
    return false;
}

static bool by_id(const struct group_topics *topics, struct uuid id, struct group_topic *topic)
{
    const struct group_world *world = of_topics(topics);

    for (uint32_t i = 0; i < world->topic_count; i++)
        if (world->table[i].partition_count > 0 && uuid_equal(world->table[i].id, id)) {
            *topic = world->table[i];
            return true;
        }
    return false;
}

static void each_topic(const struct group_topics *topics, struct bytes from,
                       bool (*each)(void *context, const struct group_topic *topic), void *context)
{
    struct group_world *world = (struct group_world *)(uintptr_t)of_topics(topics);
    const struct group_topic *before = NULL;

    for (;;) { /* by name */
        const struct group_topic *next = NULL;

        for (uint32_t i = 0; i < world->topic_count; i++) {
            const struct group_topic *topic = &world->table[i];

            if (topic->partition_count > 0 && bytes_compare(topic->name, from) >= 0 &&
                (before == NULL || bytes_compare(topic->name, before->name) > 0) &&
                (next == NULL || bytes_compare(topic->name, next->name) < 0))
                next = topic;
        }
        world->topics_told += next != NULL;
        if (next == NULL || !each(context, next))
            return;
        before = next;
    }
}

static uint32_t racks(const struct group_topics *topics, struct uuid id, uint32_t partition, struct bytes *to,
                      uint32_t max)
{
    const struct group_world *world = of_topics(topics);

    (void)partition;
    for (uint32_t i = 0; i < world->topic_count; i++)
        if (uuid_equal(world->table[i].id, id) && world->racks[i].data != NULL && max > 0) {
            to[0] = world->racks[i];
            return 1;
        }
    return 0;
}

static struct bytes group_config(const struct group_topics *topics, struct bytes group_id, struct bytes name)
{
    const struct group_world *world = of_topics(topics);

    for (uint32_t i = 0; i < world->config_count; i++)
        if (bytes_equal(world->configs[i].group, group_id) && bytes_equal(world->configs[i].name, name))
            return world->configs[i].value;
    return (struct bytes){0};
}

static void step_begin(struct group_world *world)
{
    world->batch_used = 0;
    world->step_from = world->record_count;
    world->step = (struct step){.now_ns = world->now_ns,
                                .now_ms = world->now_ms,
                                .clock_doubted = world->clock_doubted,
                                .rng = &world->rng.rng,
                                .topics = &world->topics,
                                .sink = &world->sink};
}

static void drop_records(struct group_world *world, uint32_t from)
{
    while (world->record_count > from) {
        const struct world_record *record = &world->records[--world->record_count];

        mem_free((void *)(uintptr_t)record->key.data);
        mem_free((void *)(uintptr_t)record->value.data);
    }
}

enum err world_replay(struct group_world *world)
{
    struct groups_spec spec = {.settings = &world->settings, .seed = 1};
    enum err err = ERR_OK;

    world->groups = NULL;
    core(world, true);
    err = groups_new(&spec, &world->groups);
    for (uint32_t i = 0; i < world->record_count && err == ERR_OK; i++) {
        const struct world_record *record = &world->records[i];

        err = record->key.data == NULL
                  ? groups_replay_marker(world->groups, record->producer_id, record->value.data != NULL)
                  : groups_replay(world->groups, record->producer_id, record->key, record->value);
    }
    core(world, false);
    return err;
}

/* A core from the records. Where it fails there is none. */
static enum err load(struct group_world *world)
{
    enum err err = world_replay(world);

    step_begin(world);
    if (err == ERR_OK) {
        core(world, true);
        groups_loaded(world->groups, &world->step);
        core(world, false);
        err = world->step.err;
        if (err != ERR_OK)
            groups_unload(world->groups, &world->step, ERR_NOT_COORDINATOR);
    }
    if (err != ERR_OK) {
        groups_free(world->groups);
        drop_records(world, world->step_from);
    }
    return err;
}

static void make_groups(struct group_world *world)
{
    enum err err = load(world);

    if (err == ERR_NOMEM && world->core_runs != NULL)
        err = load(world);
    ck_assert_int_eq(err, ERR_OK);
}

void world_open(struct group_world *world)
{
    memset(world, 0, sizeof(*world));
    group_settings_init(&world->settings);
    counting_rng_init(&world->rng);
    transcript_begin(&world->said);
    world->now_ns = (int64_t)NS_A_MS;
    world->now_ms = 1000000;
    world->producer_id = -1;
    world->arena_bytes = CALL_ARENA_BYTES_MAX;
    world->batch_room = BATCH_ROOM;
    world->topics = (struct group_topics){
        .by_name = by_name, .by_id = by_id, .each = each_topic, .racks = racks, .group_config = group_config};
    world->sink = (struct step_sink){.record = sink_record, .answer = sink_answer, .room = sink_room};
    make_groups(world);
}

void world_forget_calls(struct group_world *world, uint32_t from)
{
    while (world->call_count > from) {
        struct world_call *call = world->calls[--world->call_count];

        ck_assert(call->answered);
        arena_deinit(&call->arena);
        mem_free(call);
    }
}

void world_close(struct group_world *world)
{
    world->quiet = true;
    world->hold = false;
    step_begin(world);
    groups_unload(world->groups, &world->step, ERR_NOT_COORDINATOR);
    world_commit(world);
    groups_free(world->groups);
    world_forget_calls(world, 0);
    drop_records(world, 0);
}

/* A failed step takes the state and its own records with it: loaded anew, as the log's owner does. */
static void step_end(struct group_world *world)
{
    if (world->step.err == ERR_OK)
        return;
    world->failed++;
    drop_records(world, world->step_from);
    SAY(world, "  the step failed: %s\n", err_name(world->step.err));
    world_restart(world);
}

void world_topic(struct group_world *world, const char *name, uint32_t partitions)
{
    struct group_topic gone = {0};
    uint32_t at = 0;

    while (at < world->topic_count &&
           !(world->table[at].partition_count > 0 && bytes_equal(world->table[at].name, bytes_of_text(name))))
        at++;
    if (at == world->topic_count) {
        ck_assert_uint_lt(at, WORLD_TOPICS_MAX);
        world->topic_count++;
        world->table[at] = (struct group_topic){.id = test_uuid((uint8_t)(at + 1)), .name = bytes_of_text(name)};
    }
    gone = world->table[at];
    world->table[at].partition_count = partitions;
    world->topics.version++;
    SAY(world, "topic %s has %u partitions\n", name, partitions);
    step_begin(world);
    core(world, true);
    groups_topics_changed(world->groups, &world->step, &gone, partitions == 0 ? 1 : 0);
    core(world, false);
    step_end(world);
}

void world_group_config(struct group_world *world, const char *group, const char *name, const char *value)
{
    ck_assert_uint_lt(world->config_count, WORLD_CONFIGS_MAX);
    world->configs[world->config_count++] =
        (struct world_config){bytes_of_text(group), bytes_of_text(name), bytes_of_text(value)};
    SAY(world, "group %s has %s=%s\n", group, name, value);
}

static void call_done(struct step_op *op)
{
    (void)op;
}

struct world_call *world_ask(struct group_world *world, const char *label, enum group_ask ask, int16_t version,
                             const char *group, const void *request)
{
    struct world_call *call = mem_calloc(1, sizeof(*call));

    ck_assert(call != NULL && world->call_count < WORLD_CALLS_MAX);
    world->calls[world->call_count++] = call;
    (void)snprintf(call->label, sizeof(call->label), "%s", label);
    call->world = world;
    arena_init(&call->arena, world->arena_bytes);
    call->response = arena_alloc(&call->arena, asked[ask].response_size);
    call->op =
        (struct group_op){.op = {.done = call_done},
                          .ask = ask,
                          .version = version,
                          .group_id = bytes_of_text(group),
                          .client_id = world->client_id.data != NULL ? world->client_id : bytes_of_text(call->label),
                          .client_host = BYTES_LITERAL("/127.0.0.1"),
                          .request = request,
                          .response = call->response,
                          .arena = &call->arena,
                          .may_describe_topic = world->may_describe_topic,
                          .require_stable = world->require_stable};
    SAY(world, "%s: %s %s v%d ", label, asked[ask].name, group, version);
    if (asked[ask].request != NULL)
        say_message(world, asked[ask].request, version, request);
    SAY(world, "\n");
    step_begin(world);
    core(world, true);
    groups_ask(world->groups, &world->step, &call->op);
    core(world, false);
    step_end(world);
    return call;
}

void world_commit(struct group_world *world)
{
    if (world->hold)
        SAY(world, "committed\n");
    for (uint32_t i = 0; i < world->call_count; i++)
        if (world->calls[i]->decided && !world->calls[i]->answered)
            release(world, world->calls[i]);
}

void world_advance(struct group_world *world, int64_t ms)
{
    int64_t until = world->now_ns + ms * NS_A_MS;
    int64_t due = 0;

    SAY(world, "after %" PRId64 " ms\n", ms);
    while ((due = groups_due_ns(world->groups)) <= until) {
        int64_t to = due < world->now_ns ? world->now_ns : due;

        world->now_ms += (to - world->now_ns) / NS_A_MS;
        world->now_ns = to;
        step_begin(world);
        core(world, true);
        groups_tick(world->groups, &world->step);
        core(world, false);
        step_end(world);
    }
    world->now_ms += (until - world->now_ns) / NS_A_MS;
    world->now_ns = until;
}

void world_restart(struct group_world *world)
{
    SAY(world, "restart\n");
    step_begin(world);
    core(world, true);
    groups_unload(world->groups, &world->step, ERR_NOT_COORDINATOR);
    ck_assert_int_eq(world->step.err, ERR_OK);
    groups_free(world->groups);
    core(world, false);
    make_groups(world);
}

void world_marker(struct group_world *world, int64_t producer_id, bool committed)
{
    SAY(world, "marker: %s\n", committed ? "commit" : "abort");
    ck_assert_uint_lt(world->record_count, WORLD_RECORDS_MAX);
    step_begin(world);
    world->records[world->record_count++] = (struct world_record){
        .producer_id = producer_id, .value = committed ? keep(BYTES_LITERAL("1")) : (struct bytes){0}};
    world->step_from = world->record_count; /* it stays, whatever becomes of the state */
    core(world, true);
    world->step.err = groups_replay_marker(world->groups, producer_id, committed);
    core(world, false);
    step_end(world);
}

void world_say(struct group_world *world, const char *text)
{
    SAY(world, "-- %s\n", text);
}
