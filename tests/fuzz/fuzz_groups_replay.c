/*
 * A group coordinator over any log: the bytes are a row of acts. Records of any bytes, or well-formed ones of any kind
 * with names out of short lists, so that they meet: of one group in both kinds, gone before they came, epochs that go
 * back, topics and members that nobody knows; markers; and between them what clients ask, time, another metadata, a
 * record that cannot be written, a heap that is spent.
 *
 * Shows: nothing aborts, leaks or hangs; a record is taken or refused with an error that fails the load; whatever was
 * loaded, each question is answered once; what a step writes fits its batch and can always be replayed; and a state
 * that was loaded anew says of offsets and of groups of the consumer protocol what the one before it said.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/mem.h"
#include "coordinator/group_history.h"
#include "fuzz_draw.h"
#include "protocol/gen/consumer_group_describe.h"
#include "protocol/gen/consumer_group_heartbeat.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/describe_groups.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/list_groups.h"
#include "protocol/gen/messages.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_delete.h"
#include "protocol/gen/offset_fetch.h"
#include "protocol/gen/sync_group.h"
#include "protocol/gen/txn_offset_commit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    RECORDS_MAX = 2048,
    CALLS_MAX = 128,
    TOPICS = 3, /* of the metadata; records and clients know of one more */
    TICKS_MAX = 5000,
    STILL_MAX = 1000,
    ARENA_BYTES_MAX = 16 * 1024 * 1024,
    TEXT_BYTES_MAX = 256 * 1024,
    BATCH_ROOM = 1024 * 1024,
    TRANSACTIONS = 3,
};

#define NS_PER_MS INT64_C(1000000)

/* What a row of acts is made of. */
enum act {
    ACT_RECORD,       /* well-formed */
    ACT_RECORD_BYTES, /* any */
    ACT_TOMBSTONE,
    ACT_MARKER,
    ACT_ASK,
    ACT_ASK_AGAIN, /* the same bytes are read as another question: twice as likely */
    ACT_PASS_TIME,
    ACT_TOPICS,
    ACT_RELOAD,
    ACT_FAIL_RECORD,
    ACT_SPEND_HEAP,
    ACT_SETTINGS,
    ACTS,
};

struct record {
    int64_t producer_id;
    struct bytes key;   /* null: a marker; value not null: commit */
    struct bytes value; /* in one block behind it */
    bool own;           /* a step wrote it: it must replay */
};

struct call {
    struct group_op op;
    struct arena arena;
    bool answered;
};

struct world {
    struct draw draw;
    struct groups *groups;
    struct group_settings settings;
    struct group_topics topics;
    struct group_topic table[TOPICS];
    struct step step;
    struct step_sink sink;
    struct rng rng;
    uint8_t random;
    int64_t now_ns, now_ms;
    size_t batch_used;
    enum err fail; /* of the next record that is written */
    struct record records[RECORDS_MAX];
    uint32_t record_count;
    struct call *calls[CALLS_MAX];
    uint32_t call_count;
    bool stale;         /* records were put into the log behind the state's back */
    int64_t heap_calls; /* that the next step of a client or of time has; -1: no end */
};

/* ---- the heap, which may be spent ---- */

static int64_t calls_left = -1; /* -1: no end */

void *__real_mem_alloc(size_t size);
void *__real_mem_calloc(size_t count, size_t size);
void *__real_mem_realloc(void *block, size_t size);
char *__real_mem_copy_text(const void *data, size_t size);
void *__wrap_mem_alloc(size_t size);
void *__wrap_mem_calloc(size_t count, size_t size);
void *__wrap_mem_realloc(void *block, size_t size);
char *__wrap_mem_copy_text(const void *data, size_t size);

static bool is_spent(void)
{
    return calls_left >= 0 && calls_left-- == 0;
}

void *__wrap_mem_alloc(size_t size)
{
    return is_spent() ? NULL : __real_mem_alloc(size);
}

void *__wrap_mem_calloc(size_t count, size_t size)
{
    return is_spent() ? NULL : __real_mem_calloc(count, size);
}

void *__wrap_mem_realloc(void *block, size_t size)
{
    return is_spent() ? NULL : __real_mem_realloc(block, size);
}

char *__wrap_mem_copy_text(const void *data, size_t size)
{
    return is_spent() ? NULL : __real_mem_copy_text(data, size);
}

/* What the world itself takes is always there. */
static struct bytes keep(struct bytes from)
{
    int64_t left = calls_left;
    char *copy = NULL;

    calls_left = -1;
    copy = from.data == NULL ? NULL : mem_copy_text(from.data, from.size);
    calls_left = left;
    assert(from.data == NULL || copy != NULL);
    return bytes_of(copy, from.data == NULL ? 0 : from.size);
}

/* ---- the seams ---- */

static void fill_random(struct rng *rng, void *to, size_t size)
{
    struct world *world = (struct world *)(void *)((char *)rng - offsetof(struct world, rng));

    for (size_t i = 0; i < size; i++)
        ((uint8_t *)to)[i] = world->random++;
}

static struct world *world_of(const struct step_sink *sink)
{
    return (struct world *)(uintptr_t)((const char *)sink - offsetof(struct world, sink));
}

static void add_record(struct world *world, int64_t producer_id, struct bytes key, struct bytes value, bool own)
{
    if (world->record_count < RECORDS_MAX)
        world->records[world->record_count++] =
            (struct record){.producer_id = producer_id, .key = keep(key), .value = keep(value), .own = own};
}

static enum err sink_record(struct step_sink *sink, struct step *step, struct bytes key, struct bytes value)
{
    struct world *world = world_of(sink);
    int64_t producer_id = step->producer == NULL ? -1 : step->producer->id;
    enum err err = world->fail;

    world->fail = ERR_OK;
    if (err == ERR_OK && world->record_count == RECORDS_MAX)
        err = ERR_KAFKA_STORAGE_ERROR;
    if (err != ERR_OK)
        return err;
    world->batch_used += step_record_bytes(key.size, value.size);
    assert(world->batch_used <= BATCH_ROOM);
    add_record(world, producer_id, key, value, true);
    return groups_replay(world->groups, producer_id, key, value);
}

static void sink_answer(struct step_sink *sink, struct step *step, struct step_op *op)
{
    (void)sink;
    if (step->err != ERR_OK)
        op->err = ERR_NOT_COORDINATOR;
    op->done(op);
}

static size_t sink_room(const struct step_sink *sink, const struct step *step)
{
    (void)step;
    return BATCH_ROOM - world_of(sink)->batch_used;
}

static const struct world *of_topics(const struct group_topics *topics)
{
    return (const struct world *)(const void *)((const char *)topics - offsetof(struct world, topics));
}

static bool by_name(const struct group_topics *topics, struct bytes name, struct group_topic *topic)
{
    for (uint32_t i = 0; i < TOPICS; i++) {
        *topic = of_topics(topics)->table[i];
        if (topic->partition_count > 0 && bytes_equal(topic->name, name))
            return true;
    }
    return false;
}

static bool by_id(const struct group_topics *topics, struct uuid id, struct group_topic *topic)
{
    for (uint32_t i = 0; i < TOPICS; i++) {
        *topic = of_topics(topics)->table[i];
        if (topic->partition_count > 0 && uuid_equal(topic->id, id))
            return true;
    }
    return false;
}

static void each_topic(const struct group_topics *topics, struct bytes from,
                       bool (*each)(void *context, const struct group_topic *topic), void *context)
{
    for (uint32_t i = 0; i < TOPICS; i++) /* they stand by name */
        if (of_topics(topics)->table[i].partition_count > 0 &&
            bytes_compare(of_topics(topics)->table[i].name, from) >= 0 && !each(context, &of_topics(topics)->table[i]))
            return;
}

static uint32_t racks(const struct group_topics *topics, struct uuid id, uint32_t partition, struct bytes *to,
                      uint32_t max)
{
    (void)topics;
    (void)id;
    assert(max > 0);
    to[0] = draw_rack(partition);
    return 1;
}

static struct bytes group_config(const struct group_topics *topics, struct bytes group_id, struct bytes name)
{
    (void)topics;
    (void)group_id;
    (void)name;
    return (struct bytes){0};
}

/* ---- the state ---- */

static struct step *step_begin(struct world *world)
{
    world->batch_used = 0;
    world->step = (struct step){.now_ns = world->now_ns,
                                .now_ms = world->now_ms,
                                .rng = &world->rng,
                                .topics = &world->topics,
                                .sink = &world->sink};
    return &world->step;
}

static void groups_begin(struct world *world)
{
    struct groups_spec spec = {.settings = &world->settings, .seed = 1};
    enum err err = groups_new(&spec, &world->groups);

    assert(err == ERR_OK);
}

static void unload(struct world *world)
{
    groups_unload(world->groups, step_begin(world), ERR_NOT_COORDINATOR);
    assert(world->step.err == ERR_OK);
    for (uint32_t i = 0; i < world->call_count; i++)
        assert(world->calls[i]->answered);
    groups_free(world->groups);
}

static enum err replay(struct groups *groups, const struct record *record)
{
    enum err err = record->key.data == NULL
                       ? groups_replay_marker(groups, record->producer_id, record->value.data != NULL)
                       : groups_replay(groups, record->producer_id, record->key, record->value);

    assert(err == ERR_OK || err == ERR_DAMAGED || err == ERR_UNSUPPORTED_VERSION);
    assert(err == ERR_OK || !record->own);
    return err;
}

static void drop_record(struct world *world, uint32_t at)
{
    mem_free((void *)(uintptr_t)world->records[at].key.data);
    mem_free((void *)(uintptr_t)world->records[at].value.data);
    world->record_count--;
    memmove(&world->records[at], &world->records[at + 1], (world->record_count - at) * sizeof(struct record));
}

/* From the records alone. One that fails the load is taken out of the log, as an administrator might, and it begins
 * anew. */
static void load(struct world *world)
{
    uint32_t at = 0;

    world->fail = ERR_OK;
    world->stale = false;
    unload(world);
    groups_begin(world);
    while (at < world->record_count) {
        if (replay(world->groups, &world->records[at]) == ERR_OK) {
            at++;
            continue;
        }
        drop_record(world, at);
        groups_free(world->groups);
        groups_begin(world);
        at = 0;
    }
    groups_loaded(world->groups, step_begin(world));
    assert(world->step.err == ERR_OK);
}

/* One that may find the heap spent. */
static struct step *hard_step_begin(struct world *world)
{
    struct step *step = step_begin(world);

    calls_left = world->heap_calls;
    world->heap_calls = -1;
    return step;
}

static void step_end(struct world *world)
{
    calls_left = -1;
    if (world->step.err != ERR_OK)
        load(world);
}

/* ---- questions ---- */

static const struct asked {
    const struct message_type *request;
    size_t response_size;
} asked[GROUP_ASK_COUNT] = {
    [ASK_JOIN_GROUP] = {&join_group_request_message, sizeof(struct join_group_response)},
    [ASK_SYNC_GROUP] = {&sync_group_request_message, sizeof(struct sync_group_response)},
    [ASK_HEARTBEAT] = {&heartbeat_request_message, sizeof(struct heartbeat_response)},
    [ASK_LEAVE_GROUP] = {&leave_group_request_message, sizeof(struct leave_group_response)},
    [ASK_DESCRIBE_GROUP] = {NULL, sizeof(struct describe_groups_response_described_group)},
    [ASK_LIST_GROUPS] = {&list_groups_request_message, sizeof(struct list_groups_response)},
    [ASK_DELETE_GROUP] = {NULL, sizeof(struct deletable_group_result)},
    [ASK_OFFSET_COMMIT] = {&offset_commit_request_message, sizeof(struct offset_commit_response)},
    [ASK_TXN_OFFSET_COMMIT] = {&txn_offset_commit_request_message, sizeof(struct txn_offset_commit_response)},
    [ASK_OFFSET_FETCH] = {&offset_fetch_request_message, sizeof(struct offset_fetch_response_group)},
    [ASK_OFFSET_DELETE] = {&offset_delete_request_message, sizeof(struct offset_delete_response)},
    [ASK_CONSUMER_HEARTBEAT] = {&consumer_group_heartbeat_request_message,
                                sizeof(struct consumer_group_heartbeat_response)},
    [ASK_CONSUMER_DESCRIBE] = {NULL, sizeof(struct consumer_group_describe_response_described_group)},
    [ASK_HISTORY] = {NULL, sizeof(struct group_history_reply)},
};

/* Ids and epochs that were given out are drawn from then on. */
static void learn(struct world *world, const struct group_op *op)
{
    const struct join_group_response *joined = op->response;
    const struct consumer_group_heartbeat_response *beaten = op->response;

    if (op->op.err != ERR_OK)
        return;
    if (op->ask == ASK_JOIN_GROUP)
        draw_learn(&world->draw, joined->member_id, joined->generation_id);
    if (op->ask == ASK_CONSUMER_HEARTBEAT)
        draw_learn(&world->draw, beaten->member_id, beaten->member_epoch);
}

static void call_done(struct step_op *op)
{
    struct call *call = (struct call *)(void *)op;

    assert(!call->answered);
    call->answered = true;
    learn(call->op.user, &call->op);
}

static struct call *call_new(struct world *world, enum group_ask ask, struct bytes group_id)
{
    struct call *call = NULL;

    if (world->call_count == CALLS_MAX)
        return NULL;
    call = mem_calloc(1, sizeof(*call));
    assert(call != NULL);
    world->calls[world->call_count++] = call;
    arena_init(&call->arena, ARENA_BYTES_MAX);
    call->op = (struct group_op){.op.done = call_done,
                                 .ask = ask,
                                 .group_id = group_id,
                                 .client_id = BYTES_LITERAL("client"),
                                 .client_host = BYTES_LITERAL("/127.0.0.1"),
                                 .user = world,
                                 .arena = &call->arena,
                                 .response = arena_alloc(&call->arena, asked[ask].response_size)};
    assert(call->op.response != NULL);
    return call;
}

static struct bytes group_of(const struct message_type *type, const void *request)
{
    for (uint32_t i = 0; i < type->structure->field_count; i++)
        if (strcmp(type->structure->fields[i].name, "group_id") == 0)
            return *(const struct bytes *)(const void *)((const char *)request + type->structure->fields[i].offset);
    return (struct bytes){0};
}

static void act_ask(struct world *world)
{
    enum group_ask ask = (enum group_ask)draw_below(&world->draw, GROUP_ASK_COUNT);
    struct call *call = call_new(world, ask, (struct bytes){0});
    const struct message_type *type = asked[ask].request;
    const struct offset_fetch_request *fetch = NULL;
    struct offset_fetch_request_group *one = NULL;

    if (call == NULL)
        return;
    if (type == NULL) {
        call->op.group_id = draw_text(&world->draw, "group_id", "");
    } else {
        call->op.version =
            (int16_t)(type->version_min +
                      (int16_t)draw_below(&world->draw, (uint32_t)(type->version_max - type->version_min + 1)));
        if (ask == ASK_OFFSET_FETCH && call->op.version < 8)
            call->op.version = 8; /* the core is asked in the form of those */
        call->op.request = draw_message(&world->draw, &call->arena, type, call->op.version);
        call->op.group_id = group_of(type, call->op.request);
    }
    if (ask == ASK_OFFSET_FETCH) {
        fetch = call->op.request;
        call->op.require_stable = fetch->require_stable;
        one = arena_alloc(&call->arena, sizeof(*one));
        assert(one != NULL);
        offset_fetch_request_group_init(one);
        call->op.request = fetch->groups_count > 0 ? &fetch->groups[0] : one;
        call->op.group_id = ((const struct offset_fetch_request_group *)call->op.request)->group_id;
    }
    groups_ask(world->groups, hard_step_begin(world), &call->op);
    step_end(world);
}

/* ---- the state, as it tells of itself ---- */

struct text {
    char bytes[TEXT_BYTES_MAX];
    size_t size;
};

static void say(struct text *text, const struct message_type *type, int16_t version, const void *message)
{
    text->size += message_print(type, version, message, text->bytes + text->size, sizeof(text->bytes) - text->size);
    if (text->size > sizeof(text->bytes) - 1)
        text->size = sizeof(text->bytes) - 1;
}

static void say_group(struct world *world, struct text *text, struct bytes group_id)
{
    struct consumer_group_describe_response_described_group described;
    struct consumer_group_describe_response consumer = {.groups = &described, .groups_count = 1};
    struct offset_fetch_response_group fetched;
    struct offset_fetch_response offsets = {.groups = &fetched, .groups_count = 1};
    struct offset_fetch_request_group all;
    struct call call = {0};

    offset_fetch_request_group_init(&all);
    all.group_id = group_id;
    all.topics = NULL;
    arena_init(&call.arena, ARENA_BYTES_MAX);
    call.op = (struct group_op){.op.done = call_done,
                                .ask = ASK_CONSUMER_DESCRIBE,
                                .group_id = group_id,
                                .user = world,
                                .arena = &call.arena,
                                .response = &described};
    groups_ask(world->groups, step_begin(world), &call.op);
    assert(call.answered && call.op.op.err == ERR_OK && world->step.err == ERR_OK);
    if (described.error_code == 0)
        say(text, &consumer_group_describe_response_message, 1, &consumer);
    call.answered = false;
    call.op.ask = ASK_OFFSET_FETCH;
    call.op.version = 9;
    call.op.request = &all;
    call.op.response = &fetched;
    call.op.require_stable = true;
    groups_ask(world->groups, step_begin(world), &call.op);
    assert(call.answered && call.op.op.err == ERR_OK && world->step.err == ERR_OK);
    say(text, &offset_fetch_response_message, 9, &offsets);
    arena_deinit(&call.arena);
}

static void say_all(struct world *world, struct text *text)
{
    text->size = 0;
    text->bytes[0] = '\0';
    for (uint32_t i = 0; i < draw_group_count(); i++)
        say_group(world, text, draw_group(i));
}

static void act_reload(struct world *world)
{
    static struct text before, after;

    say_all(world, &before);
    load(world);
    say_all(world, &after);
    if (strcmp(before.bytes, after.bytes) != 0)
        fprintf(stderr, "before %s\nafter  %s\n", before.bytes, after.bytes);
    assert(strcmp(before.bytes, after.bytes) == 0);
}

/* ---- records ---- */

static const struct message_type *find_type(enum message_kind kind, int16_t number)
{
    for (size_t i = 0; i < MESSAGE_TYPE_COUNT; i++)
        if (message_types[i]->family == MESSAGE_FAMILY_GROUP && message_types[i]->kind == kind &&
            message_types[i]->api_key == number)
            return message_types[i];
    return NULL;
}

static struct bytes encode(struct arena *arena, const struct message_type *type, int16_t prefix, int16_t version,
                           const void *message)
{
    struct bytes body = {0};
    uint8_t *to = NULL;
    enum err err = message_encode(type, version, message, arena, &body);

    assert(err == ERR_OK);
    to = arena_alloc(arena, body.size + 2);
    assert(to != NULL);
    big_endian_store_u16(to, (uint16_t)prefix);
    if (body.size > 0)
        memcpy(to + 2, body.data, body.size);
    return bytes_of(to, body.size + 2);
}

static int64_t draw_producer(struct world *world)
{
    return draw_below(&world->draw, 4) == 0 ? (int64_t)draw_below(&world->draw, TRANSACTIONS) : -1;
}

static void act_record(struct world *world, bool gone)
{
    static const int16_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 9, 10, 15, 17, 20};
    int16_t number = numbers[draw_below(&world->draw, sizeof(numbers) / sizeof(numbers[0]))];
    const struct message_type *key_type = find_type(MESSAGE_KEY, number);
    const struct message_type *type = find_type(MESSAGE_VALUE, number);
    struct arena arena;
    struct bytes key = {0};
    struct bytes value = {0};
    int16_t version = 0;

    if (key_type == NULL || type == NULL)
        return;
    arena_init(&arena, ARENA_BYTES_MAX);
    key = encode(&arena, key_type, number, 0, draw_message(&world->draw, &arena, key_type, 0));
    if (!gone) {
        version = (int16_t)(type->version_min +
                            (int16_t)draw_below(&world->draw, (uint32_t)(type->version_max - type->version_min + 1)));
        value = encode(&arena, type, version, version, draw_message(&world->draw, &arena, type, version));
    }
    add_record(world, draw_producer(world), key, value, false);
    world->stale = true;
    arena_deinit(&arena);
}

static void act_record_bytes(struct world *world)
{
    struct bytes key = draw_bytes(&world->draw);
    struct bytes value = draw_bytes(&world->draw);

    if (key.data == NULL)
        return;
    add_record(world, draw_producer(world), key, value, false);
    world->stale = true;
}

static void act_marker(struct world *world)
{
    struct record marker = {.producer_id = (int64_t)draw_below(&world->draw, TRANSACTIONS),
                            .value = draw_below(&world->draw, 2) == 0 ? (struct bytes){0} : BYTES_LITERAL("1")};

    add_record(world, marker.producer_id, marker.key, marker.value, false);
    if (!world->stale)
        (void)replay(world->groups, &marker);
}

/* ---- the rest ---- */

static void act_pass_time(struct world *world)
{
    static const int64_t spans_ms[] = {1, 1000, 6000, 30000, 60000, 300000, 3600000, 8 * INT64_C(86400000)};
    int64_t until = world->now_ns + spans_ms[draw_below(&world->draw, 8)] * NS_PER_MS;
    uint32_t ticks = 0;
    uint32_t still = 0; /* in a row: time stands still */
    int64_t due = 0;

    while ((due = groups_due_ns(world->groups)) <= until) {
        int64_t to = due < world->now_ns ? world->now_ns : due;

        still = to - world->now_ns < NS_PER_MS ? still + 1 : 0;
        assert(still < STILL_MAX);
        if (ticks++ == TICKS_MAX) /* somebody is waited for, again and again */
            break;
        world->now_ms += (to - world->now_ns) / NS_PER_MS;
        world->now_ns = to;
        groups_tick(world->groups, hard_step_begin(world));
        step_end(world);
    }
    world->now_ms += (until - world->now_ns) / NS_PER_MS;
    world->now_ns = until;
}

/* More partitions, or gone, or made anew with another id. */
static void act_topics(struct world *world)
{
    struct group_topic *topic = &world->table[draw_below(&world->draw, TOPICS)];
    uint32_t partitions = draw_below(&world->draw, 4);
    struct group_topic gone = *topic;
    bool is_gone = topic->partition_count > 0 && partitions <= topic->partition_count;

    if (is_gone && partitions > 0)
        topic->id.bytes[0]++;
    topic->partition_count = partitions;
    world->topics.version++;
    groups_topics_changed(world->groups, hard_step_begin(world), &gone, is_gone ? 1 : 0);
    step_end(world);
}

static void act_settings(struct world *world)
{
    uint32_t bits = draw_below(&world->draw, 256);

    world->settings.migration = (enum group_migration)(bits & 3);
    world->settings.consumer_assignment_interval_ms = bits & 4 ? 1000 : 0;
    world->settings.consumer_size_max = bits & 8 ? 2 : INT32_MAX;
    world->settings.size_max = bits & 16 ? 2 : INT32_MAX;
    world->settings.consumer_assignors[0] = bits & 32 ? ASSIGNOR_RANGE : ASSIGNOR_UNIFORM;
    world->settings.consumer_assignors[1] = bits & 32 ? ASSIGNOR_UNIFORM : ASSIGNOR_RANGE;
}

static void act(struct world *world, enum act what)
{
    if (world->stale && what > ACT_MARKER)
        load(world);
    switch (what) {
    case ACT_RECORD:
        act_record(world, false);
        break;
    case ACT_TOMBSTONE:
        act_record(world, true);
        break;
    case ACT_RECORD_BYTES:
        act_record_bytes(world);
        break;
    case ACT_MARKER:
        act_marker(world);
        break;
    case ACT_ASK:
    case ACT_ASK_AGAIN:
        act_ask(world);
        break;
    case ACT_PASS_TIME:
        act_pass_time(world);
        break;
    case ACT_TOPICS:
        act_topics(world);
        break;
    case ACT_RELOAD:
        act_reload(world);
        break;
    case ACT_FAIL_RECORD:
        world->fail = ERR_MESSAGE_TOO_LARGE;
        break;
    case ACT_SPEND_HEAP:
        world->heap_calls = (int64_t)draw_below(&world->draw, 64);
        break;
    case ACT_SETTINGS:
        act_settings(world);
        break;
    case ACTS:
        break;
    }
}

static void open_world(struct world *world, const uint8_t *data, size_t size)
{
    draw_init(&world->draw, data, size);
    group_settings_init(&world->settings);
    world->settings.migration = MIGRATION_BIDIRECTIONAL;
    world->rng.fill = fill_random;
    world->heap_calls = -1;
    world->now_ns = NS_PER_MS;
    world->now_ms = 1000000;
    world->topics = (struct group_topics){
        .by_name = by_name, .by_id = by_id, .each = each_topic, .racks = racks, .group_config = group_config};
    world->sink = (struct step_sink){.record = sink_record, .answer = sink_answer, .room = sink_room};
    for (uint32_t i = 0; i < TOPICS; i++)
        world->table[i] = (struct group_topic){.id = draw_topic_id(i), .name = draw_topic(i), .partition_count = i + 1};
    groups_begin(world);
    groups_loaded(world->groups, step_begin(world));
}

static void close_world(struct world *world)
{
    world->fail = ERR_OK;
    unload(world);
    for (uint32_t i = 0; i < world->call_count; i++) {
        arena_deinit(&world->calls[i]->arena);
        mem_free(world->calls[i]);
    }
    while (world->record_count > 0)
        drop_record(world, world->record_count - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world;

    memset(&world, 0, sizeof(world));
    calls_left = -1;
    open_world(&world, data, size);
    while (draw_left(&world.draw))
        act(&world, (enum act)draw_below(&world.draw, ACTS));
    if (world.stale)
        load(&world);
    act_reload(&world);
    close_world(&world);
    return 0;
}
