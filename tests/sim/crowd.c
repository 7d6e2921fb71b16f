#include "sim/crowd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/batch_build.h"
#include "protocol/gen/create_partitions.h"
#include "protocol/gen/create_topics.h"
#include "protocol/gen/delete_topics.h"
#include "protocol/gen/fetch.h"
#include "protocol/gen/list_offsets.h"
#include "protocol/gen/metadata.h"
#include "protocol/gen/produce.h"
#include "protocol/record.h"

enum {
    REACTORS = 3,
    RECORDS_MAX = 5,
    VALUE_BYTES_MAX = 2000,
    FETCH_WAIT_MS_MAX = 1500,
    PRODUCE_TIMEOUT_MS = 5000,
    ADMIN_TIMEOUT_MS = 30 * 1000,
    PATIENCE_SECONDS = 120, /* for any answer */
    READ_SECONDS = 600,     /* for all to be read in the end */
    LEAVE_NS_MAX = 300 * 1000 * 1000,
    BEFALL_NS_MAX = 1500 * 1000 * 1000,
    CREATE_VERSION = 7,
    DELETE_VERSION = 6,
    GROW_VERSION = 3,
    METADATA_VERSION = 12,
    PRODUCE_VERSION = 13,
    OFFSETS_VERSION = 8,
};

enum administration { CREATING, DELETING, GROWING, LOOKING };

static void act(struct crowd_actor *actor);

/* ---- what is known ---- */

static struct crowd_record *record_of(struct crowd *crowd, uint64_t id)
{
    assert(id > 0 && id < crowd->record_count);
    return &crowd->records[id];
}

static uint64_t record_new(struct crowd *crowd, struct crowd_topic *topic, int32_t partition, int64_t timestamp)
{
    if (crowd->record_count == 0)
        crowd->record_count = 1; /* 0 is none */
    if (crowd->record_count >= crowd->record_room) {
        crowd->record_room = crowd->record_room == 0 ? 1024 : crowd->record_room * 2;
        crowd->records = realloc(crowd->records, crowd->record_room * sizeof(*crowd->records));
        assert(crowd->records != NULL); /* the test's own memory */
    }
    crowd->records[crowd->record_count] =
        (struct crowd_record){.topic = topic, .partition = partition, .timestamp = timestamp, .offset = -1};
    return crowd->record_count++;
}

/* Record id stands at offset: if anyone said otherwise before, the broker lies. */
static void note_place(struct crowd *crowd, uint64_t id, int64_t offset)
{
    struct crowd_record *record = record_of(crowd, id);
    struct crowd_partition *partition = &record->topic->partitions[record->partition];

    assert(offset >= 0 && (record->offset < 0 || record->offset == offset));
    while (offset >= partition->room) {
        int64_t room = partition->room == 0 ? 256 : partition->room * 2;

        partition->ids = realloc(partition->ids, (size_t)room * sizeof(*partition->ids));
        assert(partition->ids != NULL);
        memset(partition->ids + partition->room, 0, (size_t)(room - partition->room) * sizeof(*partition->ids));
        partition->room = room;
    }
    assert(partition->ids[offset] == 0 || partition->ids[offset] == id);
    partition->ids[offset] = id;
    record->offset = offset;
    if (partition->end <= offset)
        partition->end = offset + 1;
}

static struct crowd_topic *topic_new(struct crowd *crowd, uint32_t slot, struct uuid id, uint32_t partition_count)
{
    struct crowd_topic *topic = calloc(1, sizeof(*topic));

    assert(topic != NULL && partition_count <= CROWD_PARTITIONS_MAX);
    topic->slot = slot;
    topic->id = id;
    topic->partition_count = partition_count;
    topic->older = crowd->all;
    crowd->all = topic;
    crowd->topics[slot] = topic;
    return topic;
}

struct bytes crowd_topic_name(uint32_t slot)
{
    static const char *const names[CROWD_TOPICS] = {"crowded-0", "crowded-1", "crowded-2"};

    return bytes_of_text(names[slot]);
}

/* An answer's error must be one that what was going on explains. */
static void judge(const struct crowd_actor *actor, const struct crowd_topic *topic, int16_t code, const char *what)
{
    enum err err = err_from_wire(code);
    bool explained = false;

    switch (err) {
    case ERR_OK:
        return;
    case ERR_UNKNOWN_TOPIC_ID:
    case ERR_UNKNOWN_TOPIC_OR_PARTITION:
        explained = topic->going;
        break;
    case ERR_KAFKA_STORAGE_ERROR:
        explained = actor->crowd->habits->storage_may_fail;
        break;
    case ERR_REQUEST_TIMED_OUT:
        explained = actor->role == CROWD_PRODUCER;
        break;
    case ERR_NOT_LEADER_OR_FOLLOWER: /* of a node that goes */
        explained = actor->crowd->over || actor->crowd->habits->may_have_no_leader;
        break;
    default:
        break;
    }
    if (!explained)
        fprintf(stderr, "%s: not explained: topic=%u going=%d err=%s\n", what, topic->slot, topic->going,
                err_name(err));
    assert(explained);
}

/* ---- one client's doings ---- */

static bool leaves(struct crowd_actor *actor)
{
    return sim_chance(&actor->crowd->sim, actor->crowd->habits->leave_percent);
}

static void on_left(struct sim_event *event)
{
    struct crowd_actor *actor = (struct crowd_actor *)(void *)((char *)event - offsetof(struct crowd_actor, leave));

    actor->crowd->outcome->breaks++;
    sim_client_break(&actor->client);
}

static void call(struct crowd_actor *actor, const struct message_type *request_type, const void *request,
                 const struct message_type *response_type, int16_t version,
                 void (*answered)(struct sim_call *call, enum err err))
{
    struct crowd *crowd = actor->crowd;

    actor->busy = true;
    actor->asked_ns = crowd->sim.mono_ns;
    actor->asked_at = crowd->sim.steps;
    actor->call.answered = answered;
    sim_client_call(&actor->client, request_type, request, response_type, version, &actor->call);
    if (leaves(actor))
        sim_event_add(&crowd->sim, &actor->leave, crowd->sim.mono_ns + (int64_t)sim_draw(&crowd->sim, LEAVE_NS_MAX));
}

static void on_next(struct sim_event *event)
{
    struct crowd_actor *actor = (struct crowd_actor *)(void *)((char *)event - offsetof(struct crowd_actor, next));

    act(actor);
}

/* The answer has been taken: the next request follows after a pause. */
static void rest(struct crowd_actor *actor)
{
    struct crowd *crowd = actor->crowd;

    actor->busy = false;
    sim_event_cancel(&crowd->sim, &actor->leave);
    sim_event_add(&crowd->sim, &actor->next,
                  crowd->sim.mono_ns + 1 + (int64_t)sim_draw(&crowd->sim, (uint64_t)crowd->habits->pause_ns_max));
}

static void done_with(struct sim_call *call, struct crowd_actor *actor)
{
    arena_deinit(&call->arena);
    rest(actor);
}

static struct crowd_actor *actor_of(struct sim_call *call)
{
    return (struct crowd_actor *)(void *)((char *)call - offsetof(struct crowd_actor, call));
}

static struct crowd_topic *some_topic(struct crowd *crowd)
{
    uint32_t first = (uint32_t)sim_draw(&crowd->sim, CROWD_TOPICS);

    for (uint32_t i = 0; i < CROWD_TOPICS; i++)
        if (crowd->topics[(first + i) % CROWD_TOPICS] != NULL)
            return crowd->topics[(first + i) % CROWD_TOPICS];
    return NULL;
}

/* ---- the administrator ---- */

static void ask_administration(struct crowd_actor *actor);

/* The disk is full, or has failed; where that is the metadata's, the controller steps down. */
static bool is_of_storage(const struct crowd *crowd, enum err err)
{
    return (err == ERR_KAFKA_STORAGE_ERROR && crowd->habits->storage_may_fail) ||
           (err == ERR_NOT_CONTROLLER && crowd->habits->may_have_no_leader);
}

static void on_created(struct sim_call *call, enum err err)
{
    struct crowd_actor *actor = actor_of(call);
    const struct create_topics_response *response = call->response;

    if (err == ERR_OK) {
        err = err_from_wire(response->topics[0].error_code);
        if (err == ERR_OK)
            (void)topic_new(actor->crowd, actor->slot, response->topics[0].topic_id, actor->count);
        else if (err == ERR_TOPIC_ALREADY_EXISTS)
            actor->what = LOOKING; /* an earlier try, whose answer was lost */
        else
            assert(is_of_storage(actor->crowd, err));
        arena_deinit(&call->arena);
        err = err == ERR_OK ? ERR_OK : ERR_CLOSED;
    }
    if (err == ERR_OK)
        actor->what = -1;
    rest(actor);
}

static void on_looked(struct sim_call *call, enum err err)
{
    struct crowd_actor *actor = actor_of(call);
    const struct metadata_response *response = call->response;

    if (err == ERR_OK) {
        if (response->topics[0].error_code == 0)
            (void)topic_new(actor->crowd, actor->slot, response->topics[0].topic_id,
                            response->topics[0].partitions_count);
        actor->what = -1;
        arena_deinit(&call->arena);
    }
    rest(actor);
}

static void on_deleted(struct sim_call *call, enum err err)
{
    struct crowd_actor *actor = actor_of(call);
    const struct delete_topics_response *response = call->response;

    if (err == ERR_OK) {
        err = err_from_wire(response->responses[0].error_code);
        if (err == ERR_OK || err == ERR_UNKNOWN_TOPIC_ID) {
            actor->crowd->topics[actor->slot] = NULL;
            actor->what = -1;
        } else {
            assert(is_of_storage(actor->crowd, err));
        }
        arena_deinit(&call->arena);
    }
    rest(actor);
}

static void on_grown(struct sim_call *call, enum err err)
{
    struct crowd_actor *actor = actor_of(call);
    const struct create_partitions_response *response = call->response;

    if (err == ERR_OK) {
        err = err_from_wire(response->results[0].error_code);
        if (err == ERR_OK || err == ERR_INVALID_PARTITIONS) {
            actor->topic->partition_count = actor->count;
            actor->what = -1;
        } else {
            assert(is_of_storage(actor->crowd, err));
        }
        arena_deinit(&call->arena);
    }
    rest(actor);
}

static void ask_create(struct crowd_actor *actor)
{
    struct create_topics_request request;
    struct creatable_topic topic;
    struct creatable_topic_config configs[2];

    create_topics_request_init(&request);
    creatable_topic_init(&topic);
    topic.name = crowd_topic_name(actor->slot);
    topic.num_partitions = (int32_t)actor->count;
    topic.replication_factor = 1;
    creatable_topic_config_init(&configs[0]);
    creatable_topic_config_init(&configs[1]);
    configs[0].name = BYTES_LITERAL("segment.bytes");
    configs[0].value = BYTES_LITERAL("1048576");
    configs[1].name = BYTES_LITERAL("flush.messages");
    configs[1].value = BYTES_LITERAL("1");
    topic.configs = configs;
    topic.configs_count = actor->crowd->habits->synced_acks ? 2 : 1;
    request.topics = &topic;
    request.topics_count = 1;
    call(actor, &create_topics_request_message, &request, &create_topics_response_message, CREATE_VERSION, on_created);
}

static void ask_look(struct crowd_actor *actor)
{
    struct metadata_request request;
    struct metadata_request_topic topic;

    metadata_request_init(&request);
    metadata_request_topic_init(&topic);
    topic.name = crowd_topic_name(actor->slot);
    request.topics = &topic;
    request.topics_count = 1;
    request.allow_auto_topic_creation = false;
    call(actor, &metadata_request_message, &request, &metadata_response_message, METADATA_VERSION, on_looked);
}

static void ask_delete(struct crowd_actor *actor)
{
    struct delete_topics_request request;
    struct delete_topic_state topic;

    delete_topics_request_init(&request);
    request.timeout_ms = ADMIN_TIMEOUT_MS;
    delete_topic_state_init(&topic);
    topic.name = (struct bytes){0};
    topic.topic_id = actor->topic->id;
    request.topics = &topic;
    request.topics_count = 1;
    actor->topic->going = true;
    call(actor, &delete_topics_request_message, &request, &delete_topics_response_message, DELETE_VERSION, on_deleted);
}

static void ask_grow(struct crowd_actor *actor)
{
    struct create_partitions_request request;
    struct create_partitions_topic topic;

    create_partitions_request_init(&request);
    request.timeout_ms = ADMIN_TIMEOUT_MS;
    create_partitions_topic_init(&topic);
    topic.name = crowd_topic_name(actor->slot);
    topic.count = (int32_t)actor->count;
    topic.assignments = NULL;
    request.topics = &topic;
    request.topics_count = 1;
    call(actor, &create_partitions_request_message, &request, &create_partitions_response_message, GROW_VERSION,
         on_grown);
}

static void ask_administration(struct crowd_actor *actor)
{
    static void (*const asks[])(struct crowd_actor * actor) = {ask_create, ask_delete, ask_grow, ask_look};

    asks[actor->what](actor);
}

/* What was begun is brought to its end first, however often its answer is lost. */
static void administrate(struct crowd_actor *actor)
{
    struct crowd *crowd = actor->crowd;

    if (actor->what < 0 && !crowd->over) {
        actor->slot = (uint32_t)sim_draw(&crowd->sim, CROWD_TOPICS);
        actor->topic = crowd->topics[actor->slot];
        if (actor->topic == NULL) {
            actor->what = CREATING;
            actor->count = 1 + (uint32_t)sim_draw(&crowd->sim, CROWD_PARTITIONS_MAX);
        } else if (sim_chance(&crowd->sim, 15)) {
            actor->what = DELETING;
        } else if (sim_chance(&crowd->sim, 15) && actor->topic->partition_count < CROWD_PARTITIONS_MAX) {
            actor->what = GROWING;
            actor->count = actor->topic->partition_count + 1;
        }
    }
    if (actor->what >= 0)
        ask_administration(actor);
    else if (!crowd->over)
        rest(actor);
}

/* ---- producers ---- */

static void on_produced(struct sim_call *call, enum err err)
{
    struct crowd_actor *actor = actor_of(call);
    struct crowd *crowd = actor->crowd;
    const struct produce_response *response = call->response;

    if (err == ERR_OK) {
        const struct partition_produce_response *part = &response->responses[0].partition_responses[0];

        judge(actor, actor->topic, part->error_code, "produce");
        for (uint32_t i = 0; part->error_code == 0 && i < actor->id_count; i++) {
            note_place(crowd, actor->first_id + i, part->base_offset + i);
            record_of(crowd, actor->first_id + i)->acked_at = crowd->sim.steps;
            crowd->acked++;
        }
        sim_trace(&crowd->sim, (uint64_t)part->error_code, (uint64_t)part->base_offset);
        arena_deinit(&call->arena);
    }
    rest(actor);
}

static uint8_t *make_batch(struct crowd_actor *actor, struct batch_builder *builder, size_t *size)
{
    struct crowd *crowd = actor->crowd;
    struct batch_spec spec;
    uint8_t value[VALUE_BYTES_MAX] = {0};
    uint8_t *batch = NULL;
    enum err err = ERR_OK;

    batch_spec_init(&spec);
    spec.leader_epoch = -1;
    spec.codec = (enum codec)sim_draw(&crowd->sim, CODEC_ZSTD + 1);
    batch_builder_init(builder, &spec);
    actor->id_count = 1 + (uint32_t)sim_draw(&crowd->sim, RECORDS_MAX);
    for (uint32_t i = 0; i < actor->id_count; i++) {
        /* Not ascending: clients' clocks differ. */
        int64_t timestamp = clock_wall_ms(&crowd->sim.clock) - (int64_t)sim_draw(&crowd->sim, 1000);
        uint64_t id = record_new(crowd, actor->topic, actor->partition, timestamp);

        if (i == 0)
            actor->first_id = id;
        memcpy(value, &id, sizeof(id));
        err = batch_builder_append(builder, timestamp, (struct bytes){0},
                                   bytes_of(value, sizeof(id) + sim_draw(&crowd->sim, sizeof(value) - sizeof(id))),
                                   NULL, 0);
        assert(err == ERR_OK);
    }
    err = batch_builder_finish(builder, &batch, size);
    assert(err == ERR_OK);
    return batch;
}

static void produce(struct crowd_actor *actor)
{
    struct crowd *crowd = actor->crowd;
    struct produce_request request;
    struct topic_produce_data topic;
    struct partition_produce_data part;
    struct batch_builder builder;
    struct slice slice;
    size_t size = 0;
    uint8_t *batch = NULL;

    actor->topic = some_topic(crowd);
    if (actor->topic == NULL) {
        rest(actor);
        return;
    }
    actor->partition = (int32_t)sim_draw(&crowd->sim, actor->topic->partition_count);
    batch = make_batch(actor, &builder, &size);
    slice = slice_of(batch, size);
    produce_request_init(&request);
    topic_produce_data_init(&topic);
    partition_produce_data_init(&part);
    part.index = actor->partition;
    part.records = (struct records){.slices = &slice, .slice_count = 1, .size = size};
    topic.topic_id = actor->topic->id;
    topic.partition_data = &part;
    topic.partition_data_count = 1;
    request.topic_data = &topic;
    request.topic_data_count = 1;
    request.timeout_ms = PRODUCE_TIMEOUT_MS;
    request.acks = sim_chance(&crowd->sim, 50) ? 1 : -1;
    if (sim_chance(&crowd->sim, crowd->habits->acks_0_percent)) {
        request.acks = 0;
        sim_client_tell(&actor->client, &produce_request_message, &request, PRODUCE_VERSION);
        rest(actor);
        if (leaves(actor)) {
            crowd->outcome->breaks++;
            sim_client_break(&actor->client);
        }
    } else {
        call(actor, &produce_request_message, &request, &produce_response_message, PRODUCE_VERSION, on_produced);
    }
    batch_builder_deinit(&builder);
}

/* ---- consumers ---- */

static void follow_afresh(struct crowd_actor *actor)
{
    actor->session_id = 0;
    actor->session_epoch = actor->sessions ? 0 : -1;
    memset(actor->told, 0, sizeof(actor->told));
}

static void take_batch(struct crowd_actor *actor, uint32_t slot, int32_t partition, struct bytes batch)
{
    struct crowd *crowd = actor->crowd;
    int64_t *position = &actor->positions[slot][partition];
    struct record_iter iter;
    struct record record;
    enum err err = record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX);

    assert(err == ERR_OK);
    while ((err = record_iter_next(&iter, &record)) == ERR_OK) {
        uint64_t id = 0;
        const struct crowd_record *known = NULL;

        if (record.offset < *position)
            continue; /* the batch began before what was asked for */
        assert(record.offset == *position && record.value.size >= sizeof(id));
        memcpy(&id, record.value.data, sizeof(id));
        known = record_of(crowd, id);
        assert(known->topic == actor->followed[slot] && known->partition == partition &&
               known->timestamp == record.timestamp);
        note_place(crowd, id, record.offset);
        (*position)++;
        crowd->seen++;
    }
    assert(err == ERR_END);
    record_iter_deinit(&iter);
}

static void take_records(struct crowd_actor *actor, uint32_t slot, int32_t partition, const struct records *records)
{
    struct bytes left =
        records->slice_count == 0 ? (struct bytes){0} : bytes_of(records->slices[0].data, records->slices[0].size);

    assert(!records->null && records->slice_count <= 1);
    while (left.size > 0) {
        struct batch_header header;
        enum err err = batch_peek(left, &header, NULL);

        if (err == ERR_END)
            break; /* the last one may be cut off */
        assert(err == ERR_OK);
        take_batch(actor, slot, partition, bytes_of(left.data, header.size));
        left = bytes_of(left.data + header.size, left.size - header.size);
    }
}

static void take_partition(struct crowd_actor *actor, uint32_t slot, const struct fetch_response_partition_data *part)
{
    struct crowd_topic *topic = actor->followed[slot];
    int32_t index = part->partition_index;
    int64_t before = actor->positions[slot][index];

    assert(index >= 0 && index < (int32_t)topic->partition_count);
    judge(actor, topic, part->error_code, "fetch");
    if (part->error_code != 0)
        return;
    take_records(actor, slot, index, &part->records);
    assert(part->high_watermark >= actor->positions[slot][index]);
    assert(part->log_start_offset == 0);
    if (actor->positions[slot][index] != before)
        actor->told[slot][index] = false;
    if (topic->partitions[index].end < part->high_watermark)
        topic->partitions[index].end = part->high_watermark;
}

static uint32_t slot_of(const struct crowd_actor *actor, struct uuid id)
{
    for (uint32_t slot = 0; slot < CROWD_TOPICS; slot++)
        if (actor->followed[slot] != NULL && uuid_equal(actor->followed[slot]->id, id))
            return slot;
    return CROWD_TOPICS;
}

static void on_fetched(struct sim_call *call, enum err err)
{
    struct crowd_actor *actor = actor_of(call);
    const struct fetch_response *response = call->response;

    if (err == ERR_CLOSED) {
        /* Some come back to their session by another connection, as if nothing had been. */
        if (actor->session_id == 0 || sim_chance(&actor->crowd->sim, 50))
            follow_afresh(actor);
        rest(actor);
        return;
    }
    err = err_from_wire(response->error_code);
    if (err != ERR_OK) {
        assert(err == ERR_FETCH_SESSION_ID_NOT_FOUND || err == ERR_INVALID_FETCH_SESSION_EPOCH);
        follow_afresh(actor);
    } else if (actor->sessions) {
        actor->session_id = response->session_id;
        actor->session_epoch = response->session_id == 0 ? 0 : actor->session_epoch + 1;
        if (response->session_id == 0)
            memset(actor->told, 0, sizeof(actor->told));
    }
    for (uint32_t i = 0; i < response->responses_count; i++) {
        uint32_t slot = slot_of(actor, response->responses[i].topic_id);

        assert(slot < CROWD_TOPICS);
        for (uint32_t j = 0; j < response->responses[i].partitions_count; j++)
            take_partition(actor, slot, &response->responses[i].partitions[j]);
    }
    sim_trace(&actor->crowd->sim, response->responses_count, actor->crowd->seen);
    done_with(call, actor);
}

/* Topics that are gone give way to those that are there now. */
static void choose_topics(struct crowd_actor *actor, struct fetch_request_forgotten_topic *forgotten,
                          int32_t all[CROWD_PARTITIONS_MAX], uint32_t *forgotten_count)
{
    *forgotten_count = 0;
    for (uint32_t slot = 0; slot < CROWD_TOPICS; slot++) {
        struct crowd_topic *now = actor->crowd->topics[slot];

        if (actor->followed[slot] == now)
            continue;
        if (actor->followed[slot] != NULL && actor->session_id != 0) {
            struct fetch_request_forgotten_topic *entry = &forgotten[(*forgotten_count)++];

            fetch_request_forgotten_topic_init(entry);
            entry->topic_id = actor->followed[slot]->id;
            entry->partitions = all;
            entry->partitions_count = CROWD_PARTITIONS_MAX;
        }
        actor->followed[slot] = now;
        memset(actor->positions[slot], 0, sizeof(actor->positions[slot]));
        memset(actor->told[slot], 0, sizeof(actor->told[slot]));
    }
}

static void fetch(struct crowd_actor *actor)
{
    struct crowd *crowd = actor->crowd;
    struct fetch_request request;
    struct fetch_request_fetch_topic topics[CROWD_TOPICS];
    struct fetch_request_fetch_partition partitions[CROWD_TOPICS][CROWD_PARTITIONS_MAX];
    struct fetch_request_forgotten_topic forgotten[CROWD_TOPICS];
    int32_t all[CROWD_PARTITIONS_MAX];

    fetch_request_init(&request);
    for (int32_t i = 0; i < CROWD_PARTITIONS_MAX; i++)
        all[i] = i;
    choose_topics(actor, forgotten, all, &request.forgotten_topics_data_count);
    request.forgotten_topics_data = forgotten;
    request.max_wait_ms = (int32_t)sim_draw(&crowd->sim, FETCH_WAIT_MS_MAX);
    request.min_bytes = (int32_t)sim_draw(&crowd->sim, 4000);
    request.max_bytes = (int32_t)sim_draw(&crowd->sim, 20000);
    request.session_id = actor->session_id;
    request.session_epoch = actor->session_epoch;
    request.topics = topics;
    for (uint32_t slot = 0; slot < CROWD_TOPICS; slot++) {
        struct fetch_request_fetch_topic *topic = &topics[request.topics_count];

        if (actor->followed[slot] == NULL)
            continue;
        fetch_request_fetch_topic_init(topic);
        topic->topic_id = actor->followed[slot]->id;
        topic->partitions = partitions[slot];
        for (uint32_t p = 0; p < actor->followed[slot]->partition_count; p++) {
            struct fetch_request_fetch_partition *partition = &partitions[slot][topic->partitions_count];

            if (actor->session_id != 0 && actor->told[slot][p])
                continue; /* the session knows it, as with any real consumer */
            fetch_request_fetch_partition_init(partition);
            partition->partition = (int32_t)p;
            partition->fetch_offset = actor->positions[slot][p];
            partition->partition_max_bytes = (int32_t)sim_draw(&crowd->sim, 6000);
            actor->told[slot][p] = true;
            topic->partitions_count++;
        }
        request.topics_count += topic->partitions_count > 0;
    }
    call(actor, &fetch_request_message, &request, &fetch_response_message, actor->version, on_fetched);
}

/* ---- who asks for offsets ---- */

/* No record that was acknowledged before the question may be earlier and late enough. */
static void check_found(const struct crowd_actor *actor, int64_t offset)
{
    const struct crowd *crowd = actor->crowd;
    const struct crowd_partition *partition = &actor->topic->partitions[actor->partition];
    int64_t until = offset < 0 || offset > partition->room ? partition->room : offset;

    for (int64_t i = 0; i < until; i++) {
        const struct crowd_record *record = partition->ids[i] == 0 ? NULL : &crowd->records[partition->ids[i]];

        assert(record == NULL || record->acked_at == 0 || record->acked_at > actor->asked_at ||
               record->timestamp < actor->timestamp);
    }
    if (offset >= 0 && offset < partition->room && partition->ids[offset] != 0)
        assert(crowd->records[partition->ids[offset]].timestamp >= actor->timestamp);
}

static void on_offsets(struct sim_call *call, enum err err)
{
    struct crowd_actor *actor = actor_of(call);
    const struct list_offsets_response *response = call->response;

    if (err == ERR_CLOSED) {
        rest(actor);
        return;
    }
    const struct list_offsets_partition_response *part = &response->topics[0].partitions[0];

    if (part->error_code != 0) {
        judge(actor, actor->topic, part->error_code, "offsets");
    } else if (actor->crowd->topics[actor->slot] == actor->topic && !actor->topic->going) {
        /* Names are resolved when they are asked for: only while nobody took it away is it sure whose answer this is.
         */
        struct crowd_partition *partition = &actor->topic->partitions[actor->partition];

        if (actor->timestamp == -1) {
            assert(part->offset >= (int64_t)actor->count);
            if (partition->end < part->offset)
                partition->end = part->offset;
        } else if (actor->timestamp == -2) {
            assert(part->offset == 0);
        } else {
            check_found(actor, part->offset);
        }
    }
    done_with(call, actor);
}

static void ask_offsets(struct crowd_actor *actor)
{
    struct crowd *crowd = actor->crowd;
    struct list_offsets_request request;
    struct list_offsets_topic topic;
    struct list_offsets_partition partition;

    actor->topic = some_topic(crowd);
    if (actor->topic == NULL || actor->topic->going) {
        rest(actor);
        return;
    }
    actor->slot = actor->topic->slot;
    actor->partition = (int32_t)sim_draw(&crowd->sim, actor->topic->partition_count);
    actor->timestamp = sim_chance(&crowd->sim, 30) ? -1
                       : sim_chance(&crowd->sim, 10)
                           ? -2
                           : clock_wall_ms(&crowd->sim.clock) - (int64_t)sim_draw(&crowd->sim, 4000);
    actor->count = (uint32_t)actor->topic->partitions[actor->partition].end; /* as far as anyone knows by now */
    list_offsets_request_init(&request);
    list_offsets_topic_init(&topic);
    list_offsets_partition_init(&partition);
    partition.partition_index = actor->partition;
    partition.timestamp = actor->timestamp;
    topic.name = crowd_topic_name(actor->slot);
    topic.partitions = &partition;
    topic.partitions_count = 1;
    request.topics = &topic;
    request.topics_count = 1;
    call(actor, &list_offsets_request_message, &request, &list_offsets_response_message, OFFSETS_VERSION, on_offsets);
}

/* ---- all of them ---- */

static void act(struct crowd_actor *actor)
{
    if (actor->crowd->ended)
        return;
    switch (actor->role) {
    case CROWD_ADMINISTRATOR:
        administrate(actor);
        return;
    case CROWD_PRODUCER:
        if (!actor->crowd->over)
            produce(actor);
        return;
    case CROWD_CONSUMER: /* they read to the end */
        fetch(actor);
        return;
    case CROWD_ASKER:
        if (!actor->crowd->over)
            ask_offsets(actor);
        return;
    }
}

/* Nobody waits for ever. */
static void check_patience(const struct crowd *crowd)
{
    for (uint32_t i = 0; i < crowd->actor_count; i++) {
        const struct crowd_actor *actor = &crowd->actors[i];
        bool late = actor->busy && crowd->sim.mono_ns - actor->asked_ns > (int64_t)PATIENCE_SECONDS * 1000000000;

        if (late)
            fprintf(stderr, "never answered: actor=%u role=%d api=%d\n", i, actor->role, actor->call.api_key);
        assert(!late);
    }
}

static bool load_is_over(void *context)
{
    struct crowd *crowd = context;

    sim_node_check(&crowd->node);
    if (crowd->habits->watch != NULL)
        crowd->habits->watch(crowd);
    if (crowd->sim.steps % 256 == 0)
        check_patience(crowd);
    return crowd->disk.dead;
}

/* Every consumer has come to the end of everything, and the administrator to the end of what he began. */
static bool all_is_read(void *context)
{
    struct crowd *crowd = context;

    (void)load_is_over(context);
    for (uint32_t i = 0; i < crowd->actor_count; i++) {
        const struct crowd_actor *actor = &crowd->actors[i];

        if (actor->role == CROWD_ADMINISTRATOR && actor->what >= 0)
            return false;
        for (uint32_t slot = 0; actor->role == CROWD_CONSUMER && slot < CROWD_TOPICS; slot++) {
            const struct crowd_topic *topic = crowd->topics[slot];

            if (actor->followed[slot] != topic)
                return false;
            for (uint32_t p = 0; topic != NULL && p < topic->partition_count; p++)
                if (actor->positions[slot][p] < topic->partitions[p].end)
                    return false;
        }
    }
    return crowd->habits->is_settled == NULL || crowd->habits->is_settled(crowd);
}

static void join(struct crowd *crowd, enum crowd_role role)
{
    struct crowd_actor *actor = &crowd->actors[crowd->actor_count++];
    struct net_address address = sim_node_address(&crowd->node);

    assert(crowd->actor_count <= CROWD_ACTORS_MAX);
    actor->crowd = crowd;
    actor->role = role;
    actor->what = -1;
    actor->next.run = on_next;
    actor->leave.run = on_left;
    actor->version = (int16_t)(13 + sim_draw(&crowd->sim, FETCH_REQUEST_VERSION_MAX - 13 + 1));
    actor->sessions = sim_chance(&crowd->sim, 75);
    follow_afresh(actor);
    sim_client_init(&actor->client, &crowd->network.hosts[1], sim_loop_new(&crowd->sim, "client", 0), &address,
                    "crowd");
}

static bool is_idle(void *context)
{
    return !((struct crowd_actor *)context)->busy;
}

static bool are_idle(void *context)
{
    struct crowd *crowd = context;

    for (uint32_t i = 0; i < crowd->actor_count; i++)
        if (crowd->actors[i].busy)
            return false;
    return true;
}

/* Topics that are there from the start. */
static void lay_out(struct crowd *crowd)
{
    struct crowd_actor *actor = &crowd->actors[0];

    for (uint32_t slot = 0; slot < CROWD_TOPICS; slot++) {
        actor->slot = slot;
        actor->count = 2 + (uint32_t)sim_draw(&crowd->sim, CROWD_PARTITIONS_MAX - 1);
        actor->what = CREATING;
        while (crowd->topics[slot] == NULL) {
            ask_create(actor);
            (void)sim_run(&crowd->sim, crowd->sim.mono_ns + (int64_t)PATIENCE_SECONDS * 1000000000, is_idle, actor);
            assert(!actor->busy);
            sim_event_cancel(&crowd->sim, &actor->next);
        }
    }
}

void crowd_kill(struct crowd *crowd, bool power_cut)
{
    crowd->outcome->crashes++;
    sim_node_kill(&crowd->node, power_cut);
    sim_node_start(&crowd->node);
}

static void live_through_it(struct crowd *crowd)
{
    const struct crowd_habits *habits = crowd->habits;

    crowd->load_until_ns = crowd->sim.mono_ns + habits->load_ns;
    while (crowd->sim.mono_ns < crowd->load_until_ns) {
        int64_t until = crowd->sim.mono_ns + 1 + (int64_t)sim_draw(&crowd->sim, BEFALL_NS_MAX);

        (void)sim_run(&crowd->sim, until < crowd->load_until_ns ? until : crowd->load_until_ns, load_is_over, crowd);
        if (habits->befall != NULL && crowd->sim.mono_ns < crowd->load_until_ns)
            habits->befall(crowd);
    }
    if (habits->relent != NULL)
        habits->relent(crowd);
    crowd->over = true;
}

/* All that was acknowledged, of topics that live, was read where it was said to be. */
static void check_all(const struct crowd *crowd)
{
    for (uint64_t id = 1; id < crowd->record_count; id++) {
        const struct crowd_record *record = &crowd->records[id];
        const struct crowd_topic *topic = crowd->topics[record->topic->slot];

        if (record->topic != topic || record->acked_at == 0)
            continue;
        for (uint32_t i = 0; i < crowd->actor_count; i++)
            assert(crowd->actors[i].role != CROWD_CONSUMER ||
                   crowd->actors[i].positions[topic->slot][record->partition] > record->offset);
        crowd->outcome->records++;
    }
}

static void leave_all(struct crowd *crowd)
{
    for (uint32_t i = 0; i < crowd->actor_count; i++) {
        sim_event_cancel(&crowd->sim, &crowd->actors[i].leave);
        sim_client_deinit(&crowd->actors[i].client);
        sim_event_cancel(&crowd->sim, &crowd->actors[i].next);
    }
    while (crowd->all != NULL) {
        struct crowd_topic *topic = crowd->all;

        crowd->all = topic->older;
        for (int p = 0; p < CROWD_PARTITIONS_MAX; p++)
            free(topic->partitions[p].ids);
        free(topic);
    }
    free(crowd->records);
}

void crowd_run(const struct crowd_habits *habits, uint64_t seed, bool chatty, struct sim_outcome *outcome)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));

    assert(crowd != NULL);
    *outcome = (struct sim_outcome){0};
    crowd->habits = habits;
    crowd->outcome = outcome;
    sim_init(&crowd->sim, seed);
    sim_fs_init(&crowd->disk, &crowd->sim);
    sim_network_init(&crowd->network, &crowd->sim);
    sim_node_init(&crowd->node, &crowd->sim, &crowd->disk, sim_host_add(&crowd->network), REACTORS);
    crowd->node.chatty = chatty;
    crowd->node.silent = habits->storage_may_fail;
    for (int i = 0; i < CROWD_SETTINGS_MAX && habits->settings[i] != NULL; i++)
        sim_node_set(&crowd->node, habits->settings[i]);
    sim_host_add(&crowd->network);
    sim_node_start(&crowd->node);

    join(crowd, CROWD_ADMINISTRATOR);
    lay_out(crowd);
    if (!habits->administrator)
        crowd->actors[0].role = CROWD_ASKER;
    join(crowd, CROWD_ASKER);
    for (uint32_t i = 0; i < habits->producers; i++)
        join(crowd, CROWD_PRODUCER);
    for (uint32_t i = 0; i < habits->consumers; i++)
        join(crowd, CROWD_CONSUMER);
    for (uint32_t i = 0; i < crowd->actor_count; i++)
        rest(&crowd->actors[i]);
    if (habits->begin != NULL)
        habits->begin(crowd);
    live_through_it(crowd);
    if (!sim_run(&crowd->sim, crowd->sim.mono_ns + (int64_t)READ_SECONDS * 1000000000, all_is_read, crowd)) {
        fprintf(stderr, "never came: the end of all partitions\n");
        assert_failed("all is read", __FILE__, __LINE__, __func__);
    }
    check_all(crowd);
    if (habits->end != NULL)
        habits->end(crowd);
    crowd->ended = true;
    (void)sim_run(&crowd->sim, crowd->sim.mono_ns + (int64_t)PATIENCE_SECONDS * 1000000000, are_idle, crowd);
    assert(are_idle(crowd));
    sim_node_stop(&crowd->node);
    outcome->trace_hash = crowd->sim.trace_hash;
    outcome->steps = crowd->sim.steps;
    outcome->virtual_ms = (uint64_t)crowd->sim.mono_ns / 1000000;
    leave_all(crowd);
    sim_node_deinit(&crowd->node);
    sim_network_deinit(&crowd->network);
    sim_deinit(&crowd->sim);
    sim_fs_deinit(&crowd->disk);
    free(crowd);
}
