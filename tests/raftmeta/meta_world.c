#include "raftmeta/meta_world.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

enum { MINUTE_S = 60, GRAVES_MAX = 8192 };

static void write_line(struct log_sink *sink, enum log_level level, const char *line, uint32_t size)
{
    (void)sink;
    (void)level;
    if (getenv("META_WORLD_VERBOSE") != NULL)
        fprintf(stderr, "%.*s\n", (int)size, line);
}

static void publish(struct metadata_listener *listener, struct image *image, const struct image_delta *delta)
{
    struct meta_world *world =
        (struct meta_world *)(void *)((uint8_t *)listener - offsetof(struct meta_world, listener));

    /* Each delta continues the one before it. */
    if (world->image != NULL)
        ck_assert_int_ge(delta->from_offset, image_offset(world->image));
    ck_assert_int_eq(delta->to_offset, image_offset(image));
    image_drop(world->image);
    world->image = image_keep(image);
    world->publications++;
}

static void failed(void *context, enum err err)
{
    struct meta_world *world = context;

    (void)err;
    world->failed = true;
}

static void new_loops(struct meta_world *world)
{
    world->loop = sim_loop_new(&world->sim, "controller", 0);
    world->reactor = sim_loop_new(&world->sim, "reactor-0", 0);
}

void meta_world_begin(struct meta_world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    sim_init(&world->sim, seed);
    sim_fs_init(&world->disk, &world->sim);
    world->sink.write = write_line;
    world->log = (struct log){.sink = &world->sink, .clock = &world->sim.clock, .node_id = 1, .room = "raftmeta"};
    world->formatted.directory_ids = &world->directory_id;
    arena_init(&world->arena, 64 * 1024 * 1024);
    ck_assert_int_eq(fs_mkdir(&world->disk.fs, "/data"), ERR_OK);
    ck_assert_int_eq(fs_sync_dir(&world->disk.fs, "/"), ERR_OK);
    new_loops(world);
    world->options = (struct metadata_node_options){
        .dir = "/data",
        .controller = {.node_id = 1,
                       .partitions_default = 1,
                       .replication_factor_default = 1,
                       .delete_topics = true,
                       .session_timeout_ms = 9000},
        .voter_endpoint = {BYTES_LITERAL("CONTROLLER"), BYTES_LITERAL("127.0.0.1"), 9093, 0},
        .idle_interval_ms = 0,
        .snapshot_bytes = 20 * 1024 * 1024,
        .snapshot_interval_ms = 3600000,
        .segment_bytes = 1024 * 1024 * 1024,
        .failed = failed,
        .context = world,
    };
}

void meta_world_end(struct meta_world *world)
{
    ck_assert_ptr_null(world->node);
    if (world->dir != NULL)
        log_dir_close(world->dir);
    image_drop(world->image);
    arena_deinit(&world->arena);
    sim_deinit(&world->sim);
    sim_fs_deinit(&world->disk);
}

static bool is_set(void *context)
{
    return *(const bool *)context;
}

static bool run(struct meta_world *world, bool *flag)
{
    return sim_run(&world->sim, world->sim.mono_ns + MINUTE_S * INT64_C(1000000000), is_set, flag);
}

enum err meta_world_format(struct meta_world *world, char message[FORMAT_MESSAGE_BYTES_MAX])
{
    struct format_options options = {
        .fs = &world->disk.fs,
        .clock = &world->sim.clock,
        .rng = &world->sim.rng,
        .dirs = &world->dir,
        .dir_count = 1,
        .node_id = 1,
        .may_format = true,
        .voter_endpoint = world->options.voter_endpoint,
    };
    enum err err = ERR_OK;

    message[0] = 0;
    if (world->dir == NULL)
        err = log_dir_open(&world->disk.fs, &world->log, "/data", &world->dir);
    return err == ERR_OK ? format_dirs(&options, &world->formatted, message) : err;
}

static void on_started(struct metadata_start *start)
{
    ((struct meta_world *)(void *)((uint8_t *)start - offsetof(struct meta_world, start)))->started = true;
}

static void on_stopped(struct metadata_start *stop)
{
    ((struct meta_world *)(void *)((uint8_t *)stop - offsetof(struct meta_world, stop)))->stopped = true;
}

enum err meta_world_start(struct meta_world *world)
{
    char message[FORMAT_MESSAGE_BYTES_MAX];
    enum err err = meta_world_format(world, message);

    if (err != ERR_OK)
        return err;
    world->options.fs = &world->disk.fs;
    world->options.clock = &world->sim.clock;
    world->options.rng = &world->sim.rng;
    world->options.log = &world->log;
    world->options.loop = world->loop;
    world->options.directory_id = world->directory_id;
    world->options.controller.cluster_id = world->formatted.cluster_id;
    image_drop(world->image);
    world->image = NULL;
    world->publications = 0;
    world->started = false;
    world->failed = false;
    world->node = metadata_node_new(&world->options);
    ck_assert_ptr_nonnull(world->node);
    world->listener = (struct metadata_listener){.loop = world->reactor, .publish = publish};
    metadata_node_subscribe(world->node, &world->listener);
    world->start = (struct metadata_start){.home = world->reactor, .done = on_started};
    metadata_node_start(world->node, &world->start);
    if (!run(world, &world->started))
        return ERR_REQUEST_TIMED_OUT;
    return world->start.err;
}

void meta_world_stop(struct meta_world *world)
{
    world->stopped = false;
    world->stop = (struct metadata_start){.home = world->reactor, .done = on_stopped};
    metadata_node_stop(world->node, &world->stop);
    ck_assert(run(world, &world->stopped));
    metadata_node_free(world->node);
    world->node = NULL;
}

/* What dead processes held: kept in reach, so that the sanitizer does not take it for lost. */
static void *graves[GRAVES_MAX];
static uint32_t grave_count;

static void bury(void *what)
{
    ck_assert_uint_lt(grave_count, GRAVES_MAX);
    graves[grave_count++] = what;
}

void meta_world_crash(struct meta_world *world, bool power_cut)
{
    bury(world->node);
    bury(world->dir);
    sim_loop_kill(world->loop);
    sim_loop_kill(world->reactor);
    if (power_cut)
        sim_fs_cut(&world->disk);
    else
        sim_fs_kill(&world->disk);
    world->node = NULL; /* what it held goes with the process */
    world->dir = NULL;
    new_loops(world);
}

static void on_answer(struct metadata_call *request)
{
    *(bool *)request->request.context = true;
}

bool meta_world_ask(struct meta_world *world, struct metadata_call *request)
{
    bool done = false;

    request->home = world->reactor;
    request->done = on_answer;
    request->request.arena = &world->arena;
    request->request.context = &done;
    metadata_node_call(world->node, request);
    return run(world, &done);
}

enum err meta_world_create(struct meta_world *world, const char *name, int32_t partitions)
{
    struct create_topic topic = {.name = bytes_of_text(name), .partition_count = partitions, .replication_factor = 1};
    struct metadata_call request = {
        .request = {.type = CONTROLLER_CREATE_TOPICS, .create_topics = {.topics = &topic, .count = 1}}};

    if (!meta_world_ask(world, &request))
        return ERR_REQUEST_TIMED_OUT;
    if (request.request.err != ERR_OK)
        return request.request.err;
    if (topic.err == ERR_OK) /* whoever is told finds it */
        ck_assert_ptr_nonnull(image_topic_by_name(world->image, topic.name));
    ck_assert_int_le(request.visible_offset, image_offset(world->image));
    return topic.err;
}

int64_t meta_world_register(struct meta_world *world)
{
    static const struct image_endpoint endpoint = {BYTES_LITERAL("PLAINTEXT"), BYTES_LITERAL("127.0.0.1"), 9092, 0};
    uint8_t random[UUID_BYTES];
    uint32_t feature_count = 0;
    const struct image_feature_range *features = controller_features(&feature_count);
    struct metadata_call request = {.request = {.type = CONTROLLER_REGISTER_BROKER}};
    int64_t epoch = -1;

    rng_fill(&world->sim.rng, random, sizeof(random));
    request.request.register_broker = (struct register_broker){
        .broker_id = 1,
        .cluster_id = bytes_of_text(world->formatted.cluster_id),
        .incarnation = uuid_from_random(random),
        .endpoints = &endpoint,
        .endpoint_count = 1,
        .features = features,
        .feature_count = feature_count,
        .directories = &world->directory_id,
        .directory_count = 1,
        .previous_epoch = -1,
    };
    if (!meta_world_ask(world, &request) || request.request.err != ERR_OK)
        return -1;
    epoch = request.request.register_broker.epoch;
    request = (struct metadata_call){.request = {.type = CONTROLLER_BROKER_HEARTBEAT}};
    request.request.broker_heartbeat =
        (struct broker_heartbeat){.broker_id = 1, .broker_epoch = epoch, .metadata_offset = image_offset(world->image)};
    if (!meta_world_ask(world, &request) || request.request.err != ERR_OK || request.request.broker_heartbeat.fenced)
        return -1;
    return epoch;
}
