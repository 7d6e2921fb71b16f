/*
 * One node with two reactors; a producer with an idempotent id pipelines batches to
 * partitions on both, a consumer follows them with long polls, connections break now and then, every I/O completion is
 * delayed and reordered; in most runs the node is killed in the middle, or (flush.messages=1) loses its power, and
 * starts again; then it stops cleanly, starts once more, and all is read and written on; at last the faults stop. In
 * half of the runs members of groups read the same records (node_groups.h), and the node may die at any step.
 *
 * Holds     after every step: sim_node_check, and what was acknowledged is there to be read. Record n of a partition is
 * the n-th that the producer sent there, once, whatever broke meanwhile; what was acknowledged is there after the
 * restart; a batch sent again after it keeps its offset; all ends in time, and without faults at once; without them
 * groups become stable.
 */
#include "sim/scenario.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "protocol/batch_build.h"
#include "protocol/gen/create_topics.h"
#include "protocol/gen/fetch.h"
#include "protocol/gen/init_producer_id.h"
#include "protocol/gen/produce.h"
#include "protocol/record.h"
#include "sim/node_groups.h"
#include "sim/sim_client.h"
#include "sim/sim_node.h"

enum {
    PARTITIONS = 4,
    IN_FLIGHT_MAX = 4, /* of the five batches a partition remembers for a producer */
    BATCHES = 60,      /* produce requests of one phase */
    RECORDS_MAX = 20,  /* in a batch */
    CRASHES = 2,       /* of one phase */
    PATIENCE_SECONDS = 300,
    CALM_PATIENCE_SECONDS = 10, /* without faults all goes on at once */
    STABLE_SECONDS = 30,        /* who went before them comes back, and what it was is forgotten */
    GROUP_COMMITS = 40,         /* of one phase, at least */
    CRASH_STEPS = 12000,        /* of a phase with groups, at most */
    CREATE_TOPICS_VERSION = 7,
    INIT_PRODUCER_ID_VERSION = 4,
    PRODUCE_FIRST_WITH_ZSTD = 7,
    FETCH_FIRST_WITH_SESSIONS = 7,
};

#define TOPIC "simulated"

struct scenario;

/* A produce request: one batch for some of the partitions. Sent again, unchanged, until answered. */
struct sending {
    struct sim_call call;
    struct scenario *scenario;
    bool under_way;
    struct partition_produce_data parts[PARTITIONS];
    struct slice slices[PARTITIONS];
    uint8_t *batches[PARTITIONS];
    int64_t first[PARTITIONS]; /* the offset the batch must get; -1: no batch for that partition */
    uint32_t part_count;
    struct sending *next; /* younger */
};

struct scenario {
    struct sim sim;
    struct sim_fs disk;
    struct sim_network network;
    struct sim_node node;
    struct sim_client producer;
    struct sim_client consumer;
    struct sim_call setup; /* CreateTopics, then InitProducerId */
    struct sim_call fetch;
    struct sending sendings[IN_FLIGHT_MAX];
    struct uuid topic_id;
    int64_t producer_id;
    int16_t producer_epoch;
    int16_t produce_version;
    int16_t fetch_version;
    int16_t acks;
    bool sessions;
    int32_t session_id;
    int32_t session_epoch;
    uint32_t batches_left;
    uint32_t sendings_open;
    int64_t sent[PARTITIONS];  /* records handed to the producer */
    int64_t acked[PARTITIONS]; /* of them, acknowledged */
    int64_t read[PARTITIONS];  /* by the consumer */
    bool setup_done;
    bool fetching;
    bool stop_fetching;
    uint64_t breaks;
    uint64_t crashes;
    bool synced_acks; /* the topic has flush.messages=1; only then is what was acknowledged safe from power cuts */
    bool calm;        /* no fault happens any more */
    int64_t crash_at; /* acknowledged records that bring the next crash; INT64_MAX: none */
    struct node_groups groups;
    uint64_t commits_wanted;
    uint64_t crash_step, crash_commits; /* ... or the step, or number of commits, that does, if that is sooner */
};
_Static_assert(PARTITIONS == (int)NODE_GROUP_PARTITIONS, "members read all of it");

/* ---- what the records say ---- */

static void value_make(uint8_t value[12], int32_t partition, int64_t n)
{
    memcpy(value, &partition, 4);
    memcpy(value + 4, &n, 8);
}

/* ---- setting up ---- */

static void on_topic(struct sim_call *call, enum err err)
{
    struct scenario *s = (struct scenario *)(void *)((char *)call - offsetof(struct scenario, setup));
    struct create_topics_response *response = call->response;

    if (err == ERR_OK) {
        assert(response->topics_count == 1);
        err = err_from_wire(response->topics[0].error_code);
        s->topic_id = response->topics[0].topic_id;
        arena_deinit(&call->arena);
    }
    assert(err == ERR_OK); /* no connection breaks before the setting up is done */
    s->setup_done = true;
}

static void on_producer_id(struct sim_call *call, enum err err)
{
    struct scenario *s = (struct scenario *)(void *)((char *)call - offsetof(struct scenario, setup));
    struct init_producer_id_response *response = call->response;

    assert(err == ERR_OK && response->error_code == 0 && response->producer_id >= 0);
    s->producer_id = response->producer_id;
    s->producer_epoch = response->producer_epoch;
    arena_deinit(&call->arena);
    s->setup_done = true;
}

static void ask_setup(struct scenario *s)
{
    if (s->setup.answered == on_topic) {
        struct create_topics_request request;
        struct creatable_topic topic;
        struct creatable_topic_config flush;

        create_topics_request_init(&request);
        creatable_topic_init(&topic);
        topic.name = BYTES_LITERAL(TOPIC);
        topic.num_partitions = PARTITIONS;
        topic.replication_factor = 1;
        creatable_topic_config_init(&flush);
        flush.name = BYTES_LITERAL("flush.messages");
        flush.value = BYTES_LITERAL("1");
        topic.configs = &flush;
        topic.configs_count = s->synced_acks ? 1 : 0;
        request.topics = &topic;
        request.topics_count = 1;
        sim_client_call(&s->producer, &create_topics_request_message, &request, &create_topics_response_message,
                        CREATE_TOPICS_VERSION, &s->setup);
    } else {
        struct init_producer_id_request request;

        init_producer_id_request_init(&request);
        request.transactional_id = (struct bytes){0};
        request.transaction_timeout_ms = 60000;
        sim_client_call(&s->producer, &init_producer_id_request_message, &request, &init_producer_id_response_message,
                        INIT_PRODUCER_ID_VERSION, &s->setup);
    }
}

/* ---- the producer ---- */

static void produce_more(struct scenario *s);

static void send(struct sending *sending)
{
    struct scenario *s = sending->scenario;
    struct produce_request request;
    struct topic_produce_data topic;

    produce_request_init(&request);
    topic_produce_data_init(&topic);
    request.acks = s->acks;
    request.timeout_ms = 30000;
    request.topic_data = &topic;
    request.topic_data_count = 1;
    topic.name = BYTES_LITERAL(TOPIC);
    topic.topic_id = s->topic_id;
    topic.partition_data = sending->parts;
    topic.partition_data_count = sending->part_count;
    sim_client_call(&s->producer, &produce_request_message, &request, &produce_response_message, s->produce_version,
                    &sending->call);
}

static void on_produced(struct sim_call *call, enum err err)
{
    struct sending *sending = (struct sending *)(void *)((char *)call - offsetof(struct sending, call));
    struct scenario *s = sending->scenario;
    struct produce_response *response = call->response;
    struct batch_header header;

    if (err == ERR_CLOSED) {
        send(sending); /* the same batches: the broker must know them again */
        return;
    }
    assert(response->responses_count == 1 && response->responses[0].partition_responses_count == sending->part_count);
    for (uint32_t i = 0; i < sending->part_count; i++) {
        const struct partition_produce_response *part = &response->responses[0].partition_responses[i];

        if (part->error_code != 0)
            fprintf(stderr, "produce: partition=%d err=%s\n", part->index, err_name(err_from_wire(part->error_code)));
        assert(part->error_code == 0);
        assert(part->base_offset == sending->first[part->index]);
        sim_trace(&s->sim, (uint64_t)part->index, (uint64_t)part->base_offset);
    }
    for (int32_t i = 0; i < PARTITIONS; i++) {
        if (sending->first[i] < 0)
            continue;
        assert(s->acked[i] == sending->first[i]); /* acknowledged in order */
        batch_header_read(sending->batches[i], &header);
        s->acked[i] += header.record_count;
        mem_free(sending->batches[i]);
        sending->batches[i] = NULL;
    }
    arena_deinit(&call->arena);
    sending->under_way = false;
    s->sendings_open--;
    produce_more(s);
}

static void add_batch(struct scenario *s, struct sending *sending, int32_t partition)
{
    struct batch_builder builder;
    struct batch_spec spec;
    uint8_t *batch = NULL;
    size_t size = 0;
    int64_t count = 1 + (int64_t)sim_draw(&s->sim, RECORDS_MAX);
    enum err err = ERR_OK;

    batch_spec_init(&spec);
    spec.leader_epoch = -1;
    spec.codec =
        (enum codec)sim_draw(&s->sim, s->produce_version < PRODUCE_FIRST_WITH_ZSTD ? CODEC_ZSTD : CODEC_ZSTD + 1);
    spec.producer_id = s->producer_id;
    spec.producer_epoch = s->producer_epoch;
    spec.base_sequence = (int32_t)s->sent[partition];
    batch_builder_init(&builder, &spec);
    for (int64_t i = 0; i < count; i++) {
        uint8_t value[12];

        value_make(value, partition, s->sent[partition] + i);
        err = batch_builder_append(&builder, clock_wall_ms(&s->sim.clock), (struct bytes){0},
                                   bytes_of(value, sizeof(value)), NULL, 0);
        assert(err == ERR_OK);
    }
    err = batch_builder_finish(&builder, &batch, &size);
    assert(err == ERR_OK);
    sending->first[partition] = s->sent[partition];
    s->sent[partition] += count;
    sending->batches[partition] = mem_alloc(size);
    assert(sending->batches[partition] != NULL);
    memcpy(sending->batches[partition], batch, size);
    batch_builder_deinit(&builder);
    sending->slices[sending->part_count] = slice_of(sending->batches[partition], size);
    partition_produce_data_init(&sending->parts[sending->part_count]);
    sending->parts[sending->part_count].index = partition;
    sending->parts[sending->part_count].records =
        (struct records){.slices = &sending->slices[sending->part_count], .slice_count = 1, .size = size};
    sending->part_count++;
}

static void produce_more(struct scenario *s)
{
    for (uint32_t i = 0; i < IN_FLIGHT_MAX && s->batches_left > 0; i++) {
        struct sending *sending = &s->sendings[i];

        if (sending->under_way)
            continue;
        *sending = (struct sending){.scenario = s, .under_way = true, .call = {.answered = on_produced}};
        for (int32_t p = 0; p < PARTITIONS; p++) {
            sending->first[p] = -1;
            if (sim_chance(&s->sim, 60))
                add_batch(s, sending, p);
        }
        if (sending->part_count == 0)
            add_batch(s, sending, (int32_t)sim_draw(&s->sim, PARTITIONS));
        s->batches_left--;
        s->sendings_open++;
        send(sending);
    }
}

/* ---- the consumer ---- */

static void fetch_more(struct scenario *s);

static void check_batch(struct scenario *s, int32_t partition, struct bytes batch)
{
    struct record_iter iter;
    struct record record;
    enum err err = record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX);

    assert(err == ERR_OK);
    while ((err = record_iter_next(&iter, &record)) == ERR_OK) {
        uint8_t value[12];

        if (record.offset < s->read[partition])
            continue; /* the batch began before what was asked for */
        assert(record.offset == s->read[partition]);
        value_make(value, partition, record.offset);
        assert(bytes_equal(record.value, bytes_of(value, sizeof(value))));
        s->read[partition]++;
    }
    assert(err == ERR_END);
    record_iter_deinit(&iter);
}

static void check_records(struct scenario *s, int32_t partition, const struct records *records)
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
        check_batch(s, partition, bytes_of(left.data, header.size));
        left = bytes_of(left.data + header.size, left.size - header.size);
    }
}

static void on_fetched(struct sim_call *call, enum err err)
{
    struct scenario *s = (struct scenario *)(void *)((char *)call - offsetof(struct scenario, fetch));
    struct fetch_response *response = call->response;

    s->fetching = false;
    if (err == ERR_CLOSED) {
        s->session_id = 0;
        s->session_epoch = s->sessions ? 0 : -1;
        fetch_more(s);
        return;
    }
    if (response->error_code != 0) {
        err = err_from_wire(response->error_code);
        /* A session dies with its node. */
        assert(err == ERR_FETCH_SESSION_ID_NOT_FOUND);
        s->session_id = 0;
        s->session_epoch = 0;
    } else if (s->sessions) {
        s->session_id = response->session_id;
        s->session_epoch = response->session_id == 0 ? 0 : s->session_epoch + 1;
    }
    for (uint32_t t = 0; t < response->responses_count; t++)
        for (uint32_t p = 0; p < response->responses[t].partitions_count; p++) {
            const struct fetch_response_partition_data *part = &response->responses[t].partitions[p];

            if (part->error_code != 0)
                fprintf(stderr, "fetch: partition=%d err=%s\n", part->partition_index,
                        err_name(err_from_wire(part->error_code)));
            assert(part->error_code == 0);
            assert(part->high_watermark >= s->read[part->partition_index]);
            check_records(s, part->partition_index, &part->records);
            assert(part->high_watermark >= s->read[part->partition_index]);
            sim_trace(&s->sim, (uint64_t)part->partition_index, (uint64_t)s->read[part->partition_index]);
        }
    arena_deinit(&call->arena);
    fetch_more(s);
}

static void fetch_more(struct scenario *s)
{
    struct fetch_request request;
    struct fetch_request_fetch_topic topic;
    struct fetch_request_fetch_partition partitions[PARTITIONS];

    if (s->stop_fetching)
        return;
    fetch_request_init(&request);
    fetch_request_fetch_topic_init(&topic);
    request.max_wait_ms = (int32_t)sim_draw(&s->sim, 500);
    request.min_bytes = (int32_t)sim_draw(&s->sim, 3000);
    if (s->calm) { /* a fetch that nobody tells of a record comes back too late */
        request.max_wait_ms = 2 * CALM_PATIENCE_SECONDS * 1000;
        request.min_bytes = 1;
    }
    request.max_bytes = 100 + (int32_t)sim_draw(&s->sim, 20000);
    request.session_id = s->session_id;
    request.session_epoch = s->session_epoch;
    request.topics = &topic;
    request.topics_count = 1;
    topic.topic = BYTES_LITERAL(TOPIC);
    topic.topic_id = s->topic_id;
    topic.partitions = partitions;
    topic.partitions_count = PARTITIONS;
    for (int32_t p = 0; p < PARTITIONS; p++) {
        fetch_request_fetch_partition_init(&partitions[p]);
        partitions[p].partition = p;
        partitions[p].fetch_offset = s->read[p];
        partitions[p].partition_max_bytes = 50 + (int32_t)sim_draw(&s->sim, 10000);
    }
    s->fetching = true;
    s->fetch.answered = on_fetched;
    sim_client_call(&s->consumer, &fetch_request_message, &request, &fetch_response_message, s->fetch_version,
                    &s->fetch);
}

/* ---- the course of events ---- */

static bool is_set_up(void *context)
{
    return ((struct scenario *)context)->setup_done;
}

static bool all_is_read(void *context)
{
    struct scenario *s = context;

    if (!s->calm && s->sim.steps % 64 == 0)
        s->breaks += sim_network_reset_some(&s->network, 5);
    for (int32_t p = 0; p < PARTITIONS; p++)
        if (s->read[p] < s->sent[p])
            return false;
    return s->batches_left == 0 && s->sendings_open == 0 && s->groups.commits >= s->commits_wanted;
}

/* After every step: the node is whole, and what was acknowledged is there. */
static void check(void *context)
{
    struct scenario *s = context;

    sim_node_check(&s->node);
    for (int32_t p = 0; p < PARTITIONS; p++)
        assert(s->acked[p] == 0 || sim_node_serves(&s->node, s->topic_id, p, s->acked[p]));
}

static int64_t acked_total(const struct scenario *s)
{
    int64_t total = 0;

    for (int32_t p = 0; p < PARTITIONS; p++)
        total += s->acked[p];
    return total;
}

static bool crash_is_due(void *context)
{
    struct scenario *s = context;

    return all_is_read(s) || acked_total(s) >= s->crash_at || s->sim.steps >= s->crash_step ||
           s->groups.commits >= s->crash_commits;
}

static bool is_quiet(void *context)
{
    return !((struct scenario *)context)->fetching;
}

static void run_within(struct scenario *s, int64_t seconds, bool (*done)(void *context), const char *what)
{
    bool reached = sim_run(&s->sim, s->sim.mono_ns + seconds * 1000000000, done, s);

    if (!reached)
        fprintf(stderr, "never came: %s\n", what);
    assert(reached);
}

static void run_until(struct scenario *s, bool (*done)(void *context), const char *what)
{
    run_within(s, s->calm ? CALM_PATIENCE_SECONDS : PATIENCE_SECONDS, done, what);
}

static void connect_clients(struct scenario *s)
{
    struct net_address address = sim_node_address(&s->node);
    struct sim_host *host = &s->network.hosts[1];

    sim_client_init(&s->producer, host, sim_loop_new(&s->sim, "producer", 0), &address, "sim-producer");
    sim_client_init(&s->consumer, host, sim_loop_new(&s->sim, "consumer", 0), &address, "sim-consumer");
}

static void disconnect_clients(struct scenario *s)
{
    sim_client_deinit(&s->producer);
    sim_client_deinit(&s->consumer);
    node_groups_stop(&s->groups);
}

static void set_up(struct scenario *s)
{
    s->setup.answered = on_topic;
    ask_setup(s);
    run_until(s, is_set_up, "the topic");
    s->setup_done = false;
    s->setup.answered = on_producer_id;
    ask_setup(s);
    run_until(s, is_set_up, "a producer id");
}

static bool is_stable(void *context)
{
    return node_groups_are_stable(&((struct scenario *)context)->groups);
}

static void produce_and_read(struct scenario *s)
{
    s->batches_left = BATCHES;
    s->commits_wanted = s->groups.exist ? s->groups.commits + GROUP_COMMITS : 0;
    s->stop_fetching = false;
    s->session_id = 0;
    s->session_epoch = s->sessions ? 0 : -1;
    fetch_more(s);
    produce_more(s);
    for (uint32_t i = 0; i < CRASHES && s->crash_at != INT64_MAX; i++) {
        s->crash_at = acked_total(s) + 1 + (int64_t)sim_draw(&s->sim, BATCHES * RECORDS_MAX / 2);
        s->crash_step = s->groups.exist ? s->sim.steps + sim_draw(&s->sim, CRASH_STEPS) : UINT64_MAX;
        s->crash_commits = s->groups.exist ? s->groups.commits + 1 + sim_draw(&s->sim, GROUP_COMMITS) : UINT64_MAX;
        s->crash_at += s->groups.exist ? INT32_MAX : 0; /* it may come when the producer is through, too */
        run_until(s, crash_is_due, "a crash");
        if (all_is_read(s))
            break;
        sim_node_kill(&s->node, s->synced_acks && sim_chance(&s->sim, 60));
        s->crashes++;
        sim_node_start(&s->node);
    }
    run_until(s, all_is_read, "all records");
    s->stop_fetching = true;
    run_within(s, PATIENCE_SECONDS, is_quiet, "the last fetch's answer"); /* which waits as long as it was told to */
}

void produce_fetch_run(uint64_t seed, bool chatty, struct sim_outcome *outcome)
{
    struct scenario *s = mem_calloc(1, sizeof(*s));

    assert(s != NULL);
    sim_init(&s->sim, seed);
    sim_fs_init(&s->disk, &s->sim);
    sim_network_init(&s->network, &s->sim);
    sim_node_init(&s->node, &s->sim, &s->disk, sim_host_add(&s->network), 2);
    s->node.chatty = chatty;
    sim_host_add(&s->network);
    s->produce_version = (int16_t)(PRODUCE_REQUEST_VERSION_MIN +
                                   sim_draw(&s->sim, PRODUCE_REQUEST_VERSION_MAX - PRODUCE_REQUEST_VERSION_MIN + 1));
    s->fetch_version = (int16_t)(FETCH_REQUEST_VERSION_MIN +
                                 sim_draw(&s->sim, FETCH_REQUEST_VERSION_MAX - FETCH_REQUEST_VERSION_MIN + 1));
    s->acks = sim_chance(&s->sim, 50) ? 1 : -1;
    s->sessions = s->fetch_version >= FETCH_FIRST_WITH_SESSIONS && sim_chance(&s->sim, 60);
    s->synced_acks = sim_chance(&s->sim, 50);
    s->crash_at = sim_chance(&s->sim, 70) ? 0 : INT64_MAX;
    node_groups_init(&s->groups, &s->sim, &s->node, s->synced_acks);

    sim_node_start(&s->node);
    connect_clients(s);
    set_up(s);
    s->groups.topic = BYTES_LITERAL(TOPIC);
    s->groups.topic_id = s->topic_id;
    node_groups_start(&s->groups, &s->node, &s->network.hosts[1]);
    s->sim.stepped = check;
    s->sim.stepped_context = s;
    produce_and_read(s);

    /* All that was acknowledged outlives a clean stop, and the producer goes on where it was. */
    sim_node_stop(&s->node);
    disconnect_clients(s);
    sim_node_start(&s->node);
    connect_clients(s);
    node_groups_start(&s->groups, &s->node, &s->network.hosts[1]);
    memset(s->read, 0, sizeof(s->read));
    produce_and_read(s);

    /* The faults stop: from here on everything goes its way without delay. */
    s->calm = true;
    s->crash_at = INT64_MAX;
    s->groups.calm = true;
    run_within(s, STABLE_SECONDS, is_stable, "stable groups");
    produce_and_read(s);

    *outcome = (struct sim_outcome){
        .trace_hash = s->sim.trace_hash,
        .steps = s->sim.steps,
        .breaks = s->breaks,
        .crashes = s->crashes,
        .virtual_ms = (uint64_t)s->sim.mono_ns / 1000000,
    };
    for (int32_t p = 0; p < PARTITIONS; p++) {
        assert(s->acked[p] == s->sent[p] && s->read[p] == s->sent[p]);
        outcome->records += (uint64_t)s->read[p];
    }
    sim_node_stop(&s->node);
    disconnect_clients(s);
    sim_node_deinit(&s->node);
    sim_network_deinit(&s->network);
    sim_deinit(&s->sim);
    sim_fs_deinit(&s->disk);
    mem_free(s);
}
