#include "node_world.h"

#include <stdarg.h>
#include <string.h>

#include "base/assert.h"
#include "broker/broker_internal.h"
#include "protocol/batch_build.h"
#include "protocol/gen/create_topics.h"
#include "protocol/gen/delete_topics.h"
#include "protocol/gen/find_coordinator.h"
#include "protocol/gen/offset_commit.h"

enum {
    PATIENCE_MS = 60 * 1000,
    CONFIGS_MAX = 8,
    COORDINATOR_TRIES = 100,
    CREATE_VERSION = 7,
    DELETE_VERSION = 6,
    PRODUCE_VERSION = 13,
    FIND_VERSION = 2,
    COMMIT_VERSION = 8,
};

static void begin(struct node_world *world, uint64_t seed, uint32_t reactors)
{
    memset(world, 0, sizeof(*world));
    sim_init(&world->sim, seed);
    sim_fs_init(&world->disk, &world->sim);
    sim_network_init(&world->network, &world->sim);
    sim_node_init(&world->node, &world->sim, &world->disk, sim_host_add(&world->network), reactors);
}

static void begin_to_serve(struct node_world *world)
{
    static const char *const names[NODE_CLIENTS_MAX] = {"client-0", "client-1", "client-2", "client-3",
                                                        "client-4", "client-5", "client-6", "client-7"};
    struct sim_host *host = NULL;
    struct net_address address;

    sim_node_start(&world->node);
    host = sim_host_add(&world->network);
    address = sim_node_address(&world->node);
    for (uint32_t i = 0; i < NODE_CLIENTS_MAX; i++)
        sim_client_init(&world->clients[i], host, sim_loop_new(&world->sim, names[i], 0), &address, names[i]);
}

void node_world_begin(struct node_world *world, uint64_t seed, uint32_t reactors)
{
    begin(world, seed, reactors);
    begin_to_serve(world);
}

void node_world_begin_with(struct node_world *world, uint64_t seed, uint32_t reactors, ...)
{
    va_list list;

    begin(world, seed, reactors);
    va_start(list, reactors);
    for (const char *text = va_arg(list, const char *); text != NULL; text = va_arg(list, const char *))
        sim_node_set(&world->node, text);
    va_end(list);
    begin_to_serve(world);
}

void node_world_end(struct node_world *world)
{
    sim_node_stop(&world->node);
    for (uint32_t i = 0; i < NODE_CLIENTS_MAX; i++)
        sim_client_deinit(&world->clients[i]);
    sim_node_deinit(&world->node);
    sim_network_deinit(&world->network);
    sim_deinit(&world->sim);
    sim_fs_deinit(&world->disk);
}

static void hear_line(void *context, struct bytes line)
{
    struct node_world *world = context;

    if (memmem(line.data, line.size, world->hears, strlen(world->hears)) == NULL ||
        world->heard_size + line.size + 2 > sizeof(world->heard))
        return;
    world->heard_count++;
    memcpy(world->heard + world->heard_size, line.data, line.size);
    world->heard_size += line.size;
    world->heard[world->heard_size++] = '\n';
    world->heard[world->heard_size] = '\0';
}

void node_hear(struct node_world *world, const char *what)
{
    world->hears = what;
    world->heard[0] = '\0';
    world->heard_size = 0;
    world->heard_count = 0;
    world->node.hear_line = hear_line;
    world->node.hear_context = world;
}

void node_world_pass(struct node_world *world, int64_t ms)
{
    (void)sim_run(&world->sim, world->sim.mono_ns + ms * 1000000, NULL, NULL);
}

static void on_answered(struct sim_call *call, enum err err)
{
    struct node_call *of = (struct node_call *)call;

    of->answered = true;
    of->err = err;
}

void node_send(struct node_world *world, uint32_t client, const struct message_type *request_type, const void *request,
               const struct message_type *response_type, int16_t version, struct node_call *call)
{
    *call = (struct node_call){.call = {.answered = on_answered}};
    sim_client_call(&world->clients[client], request_type, request, response_type, version, &call->call);
}

static bool is_answered(void *context)
{
    return ((struct node_call *)context)->answered;
}

bool node_answered(struct node_world *world, struct node_call *call, int64_t ms)
{
    return sim_run(&world->sim, world->sim.mono_ns + ms * 1000000, is_answered, call);
}

void *node_ask(struct node_world *world, uint32_t client, const struct message_type *request_type, const void *request,
               const struct message_type *response_type, int16_t version, struct node_call *call)
{
    bool answered = false;

    node_send(world, client, request_type, request, response_type, version, call);
    answered = node_answered(world, call, PATIENCE_MS);
    assert(answered); /* nothing parks for ever */
    return call->err == ERR_OK ? call->call.response : NULL;
}

void node_call_end(struct node_call *call)
{
    if (call->answered && call->err == ERR_OK)
        arena_deinit(&call->call.arena);
}

struct uuid node_create_topic(struct node_world *world, const char *name, int32_t partitions, ...)
{
    struct create_topics_request request;
    struct creatable_topic topic;
    struct creatable_topic_config configs[CONFIGS_MAX];
    struct create_topics_response *response = NULL;
    struct node_call call;
    struct uuid id;
    va_list list;

    create_topics_request_init(&request);
    creatable_topic_init(&topic);
    topic.name = bytes_of_text(name);
    topic.num_partitions = partitions;
    topic.replication_factor = 1;
    topic.configs = configs;
    va_start(list, partitions);
    for (const char *text = va_arg(list, const char *); text != NULL; text = va_arg(list, const char *)) {
        const char *equals = strchr(text, '=');

        assert(equals != NULL && topic.configs_count < CONFIGS_MAX);
        creatable_topic_config_init(&configs[topic.configs_count]);
        configs[topic.configs_count].name = bytes_of(text, (size_t)(equals - text));
        configs[topic.configs_count++].value = bytes_of_text(equals + 1);
    }
    va_end(list);
    request.topics = &topic;
    request.topics_count = 1;
    response = node_ask(world, 0, &create_topics_request_message, &request, &create_topics_response_message,
                        CREATE_VERSION, &call);
    assert(response != NULL && response->topics_count == 1 && response->topics[0].error_code == 0);
    id = response->topics[0].topic_id;
    node_call_end(&call);
    return id;
}

enum err node_delete_topic(struct node_world *world, const char *name)
{
    struct delete_topics_request request;
    struct delete_topic_state topic;
    struct delete_topics_response *response = NULL;
    struct node_call call;
    enum err err = ERR_OK;

    delete_topics_request_init(&request);
    request.timeout_ms = PATIENCE_MS;
    delete_topic_state_init(&topic);
    topic.name = bytes_of_text(name);
    request.topics = &topic;
    request.topics_count = 1;
    response = node_ask(world, 0, &delete_topics_request_message, &request, &delete_topics_response_message,
                        DELETE_VERSION, &call);
    assert(response != NULL && response->responses_count == 1);
    err = err_from_wire(response->responses[0].error_code);
    node_call_end(&call);
    return err;
}

static int64_t produce_batch(struct node_world *world, uint32_t client, struct uuid topic, int32_t partition,
                             struct bytes batch, enum err *err)
{
    struct produce_request request;
    struct topic_produce_data data;
    struct partition_produce_data part;
    struct produce_response *response = NULL;
    struct slice slice = slice_of(batch.data, batch.size);
    struct node_call call;
    int64_t offset = -1;

    produce_request_init(&request);
    topic_produce_data_init(&data);
    partition_produce_data_init(&part);
    part.index = partition;
    part.records = (struct records){.slices = &slice, .slice_count = 1, .size = batch.size};
    data.topic_id = topic;
    data.partition_data = &part;
    data.partition_data_count = 1;
    request.acks = -1;
    request.timeout_ms = PATIENCE_MS;
    request.topic_data = &data;
    request.topic_data_count = 1;
    response =
        node_ask(world, client, &produce_request_message, &request, &produce_response_message, PRODUCE_VERSION, &call);
    assert(response != NULL);
    *err = err_from_wire(response->responses[0].partition_responses[0].error_code);
    offset = response->responses[0].partition_responses[0].base_offset;
    node_call_end(&call);
    return offset;
}

int64_t node_produce_keyed(struct node_world *world, uint32_t client, struct uuid topic, int32_t partition,
                           struct bytes key, size_t value_bytes, enum err *err)
{
    struct batch_builder builder;
    struct batch_spec spec;
    struct arena arena;
    uint8_t *batch = NULL;
    size_t size = 0;
    int64_t offset = -1;
    enum err built = ERR_OK;

    arena_init(&arena, value_bytes + 4096);
    batch_spec_init(&spec);
    spec.leader_epoch = -1;
    batch_builder_init(&builder, &spec);
    built = batch_builder_append(&builder, clock_wall_ms(&world->sim.clock), key,
                                 bytes_of(arena_alloc(&arena, value_bytes), value_bytes), NULL, 0);
    if (built == ERR_OK)
        built = batch_builder_finish(&builder, &batch, &size);
    assert(built == ERR_OK);
    offset = produce_batch(world, client, topic, partition, bytes_of(batch, size), err);
    batch_builder_deinit(&builder);
    arena_deinit(&arena);
    return offset;
}

int64_t node_produce(struct node_world *world, uint32_t client, struct uuid topic, int32_t partition,
                     size_t value_bytes, enum err *err)
{
    return node_produce_keyed(world, client, topic, partition, (struct bytes){0}, value_bytes, err);
}

void node_start_without_second_dir(struct node_world *world)
{
    sim_fs_set_fault(&world->disk, SIM_FS_FAIL, SIM_FS_LOCK, 2, ERR_IO);
    sim_node_start(&world->node);
    assert(sim_fs_fault_struck(&world->disk));
}

void node_find_coordinator(struct node_world *world, const char *group)
{
    struct find_coordinator_request request;
    int16_t code = err_wire(ERR_COORDINATOR_NOT_AVAILABLE);

    find_coordinator_request_init(&request);
    request.key = bytes_of_text(group);
    for (int i = 0; code != 0; i++) {
        const struct find_coordinator_response *response = NULL;
        struct node_call call;

        assert(i < COORDINATOR_TRIES && code == err_wire(ERR_COORDINATOR_NOT_AVAILABLE));
        response = node_ask(world, 0, &find_coordinator_request_message, &request, &find_coordinator_response_message,
                            FIND_VERSION, &call);
        assert(response != NULL);
        code = response->error_code;
        assert(code != 0 || (response->node_id == broker_node_id(world->node.broker) &&
                             response->port == sim_node_address(&world->node).port));
        node_call_end(&call);
        node_world_pass(world, 10);
    }
}

int16_t node_commit(struct node_world *world, const char *group, int32_t partition, int64_t offset)
{
    struct offset_commit_request request;
    struct offset_commit_request_topic topic;
    struct offset_commit_request_partition of;
    const struct offset_commit_response *response = NULL;
    struct node_call call;
    int16_t code = 0;

    offset_commit_request_init(&request);
    offset_commit_request_topic_init(&topic);
    offset_commit_request_partition_init(&of);
    request.group_id = bytes_of_text(group);
    request.topics = &topic;
    request.topics_count = 1;
    topic.name = BYTES_LITERAL("t");
    topic.partitions = &of;
    topic.partitions_count = 1;
    of.partition_index = partition;
    of.committed_offset = offset;
    of.committed_leader_epoch = NODE_COMMIT_EPOCH;
    of.committed_metadata = BYTES_LITERAL(NODE_COMMIT_METADATA);
    response = node_ask(world, 0, &offset_commit_request_message, &request, &offset_commit_response_message,
                        COMMIT_VERSION, &call);
    code = response->topics[0].partitions[0].error_code;
    node_call_end(&call);
    return code;
}

static bool is_allowed(void *context, const struct request *request, enum operation operation, enum resource_type type,
                       struct bytes name)
{
    struct node_world *world = context;

    (void)request;
    (void)name;
    world->denied.asked++;
    return (world->denied.operation != 0 && world->denied.operation != (int)operation) ||
           (world->denied.type != 0 && world->denied.type != (int)type);
}

void node_deny(struct node_world *world, int operation, int type)
{
    world->denied.operation = operation;
    world->denied.type = type;
    world->denied.asked = 0;
    world->node.broker->access = is_allowed;
    world->node.broker->access_context = world;
}

void node_allow(struct node_world *world)
{
    world->node.broker->access = NULL;
}

void node_fetch_init(struct node_fetch *fetch, const char *name, struct uuid topic, int32_t partitions)
{
    assert(partitions <= (int32_t)(sizeof(fetch->partitions) / sizeof(fetch->partitions[0])));
    fetch_request_init(&fetch->request);
    fetch_request_fetch_topic_init(&fetch->topic);
    fetch->request.max_bytes = INT32_MAX;
    fetch->request.topics = &fetch->topic;
    fetch->request.topics_count = 1;
    fetch->topic.topic = bytes_of_text(name);
    fetch->topic.topic_id = topic;
    fetch->topic.partitions = fetch->partitions;
    fetch->topic.partitions_count = (uint32_t)partitions;
    for (int32_t i = 0; i < partitions; i++) {
        fetch_request_fetch_partition_init(&fetch->partitions[i]);
        fetch->partitions[i].partition = i;
        fetch->partitions[i].partition_max_bytes = INT32_MAX;
    }
}

const struct fetch_response_partition_data *node_fetched(const struct fetch_response *response, int32_t partition)
{
    for (uint32_t i = 0; i < response->responses_count; i++)
        for (uint32_t j = 0; j < response->responses[i].partitions_count; j++)
            if (response->responses[i].partitions[j].partition_index == partition)
                return &response->responses[i].partitions[j];
    return NULL;
}
