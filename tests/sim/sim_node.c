#include "sim/sim_node.h"

#include <stdio.h>

#include "base/assert.h"
#include "sim/sim_mem.h"

enum { PATIENCE_NS_SECONDS = 60 };

static void write_line(struct log_sink *sink, enum log_level level, const char *line, uint32_t size)
{
    const struct sim_node *node =
        (const struct sim_node *)(const void *)((char *)sink - offsetof(struct sim_node, log_sink));

    if (node->chatty || (level == LOG_ERROR && !node->silent))
        fprintf(stderr, "%.*s\n", (int)size, line);
    if (node->hear_line != NULL)
        node->hear_line(node->hear_context, bytes_of(line, size));
}

void sim_node_set(struct sim_node *node, const char *assignment)
{
    static const struct config_report silent = {0};
    enum err err = config_read_assignment(&node->config, bytes_of_text(assignment), &silent);

    assert(err == ERR_OK);
}

void sim_node_init(struct sim_node *node, struct sim *sim, struct sim_fs *disk, struct sim_host *host,
                   uint32_t reactor_count)
{
    enum err err = ERR_OK;

    assert(reactor_count >= 1 && reactor_count <= SIM_NODE_REACTORS_MAX);
    *node = (struct sim_node){.sim = sim, .disk = disk, .host = host, .reactor_count = reactor_count};
    node->log_sink.write = write_line;
    sim->entered = sim_mem_enter;
    config_init(&node->config);
    err = config_use_single_node(&node->config);
    assert(err == ERR_OK);
    sim_node_set(node, "log.dirs=/data");
    sim_node_set(node, "ottla.journal.bytes=300000");      /* so that files are used again all the time */
    sim_node_set(node, "ottla.disk.reserve.bytes=262144"); /* the simulated disk keeps it in memory */
    sim_node_set(node, "listeners=PLAINTEXT://10.0.0.1:9092,CONTROLLER://10.0.0.1:9093");
}

static void on_done(void *context, enum err err, const char *message)
{
    struct sim_node *node = context;

    if (err != ERR_OK && !node->silent)
        fprintf(stderr, "node: %s: %s\n", err_name(err), message);
    node->outcome = err;
    node->told = true;
}

static bool is_told(void *context)
{
    return ((struct sim_node *)context)->told;
}

static void wait_told(struct sim_node *node)
{
    bool told = sim_run(node->sim, node->sim->mono_ns + (int64_t)PATIENCE_NS_SECONDS * 1000000000, is_told, node);

    assert(told && node->outcome == ERR_OK);
    node->told = false;
}

void sim_node_begin(struct sim_node *node)
{
    char message[BROKER_MESSAGE_CHARS];
    struct broker_env env = {
        .fs = &node->disk->fs,
        .net = &node->host->net,
        .clock = &node->sim->clock,
        .rng = &node->sim->rng,
        .log_sink = &node->log_sink,
        .reactors = node->reactors,
        .reactor_count = node->reactor_count,
        .sync_all_partitions = node->sim->seed % 2 == 0 ? 1 : 0, /* both ways of a clean stop */
    };
    enum err err = ERR_OK;

    bool before = false;

    for (uint32_t i = 0; i < node->reactor_count; i++) {
        node->reactors[i] = sim_loop_new(node->sim, "reactor", i);
        sim_loop_set_node(node->reactors[i]);
    }
    node->controller = sim_loop_new(node->sim, "controller", node->reactor_count);
    sim_loop_set_node(node->controller);
    node->aside = sim_loop_new(node->sim, "aside", node->reactor_count + 1);
    sim_loop_set_node(node->aside);
    env.controller = node->controller;
    env.aside = node->aside;
    before = sim_mem_enter(true);
    err = broker_new(&env, &node->config, &node->broker, message);
    if (err != ERR_OK)
        fprintf(stderr, "node: %s\n", message);
    assert(err == ERR_OK);
    broker_start(node->broker, on_done, node);
    (void)sim_mem_enter(before);
}

void sim_node_start(struct sim_node *node)
{
    sim_node_begin(node);
    wait_told(node);
}

static void kill_loops(struct sim_node *node)
{
    for (uint32_t i = 0; i < node->reactor_count; i++)
        sim_loop_kill(node->reactors[i]);
    sim_loop_kill(node->controller);
    sim_loop_kill(node->aside);
}

void sim_node_stop(struct sim_node *node)
{
    size_t left = 0;

    broker_stop(node->broker, on_done, node);
    wait_told(node);
    broker_free(node->broker);
    node->broker = NULL;
    kill_loops(node);
    left = sim_mem_free_node();
    if (left > 0)
        fprintf(stderr, "node: %zu blocks of memory were not freed\n", left);
    assert(left == 0 && node->disk->open_files == 0); /* a clean stop leaves nothing behind */
}

void sim_node_kill(struct sim_node *node, bool power_cut)
{
    kill_loops(node);
    sim_host_kill(node->host);
    if (power_cut)
        sim_fs_cut(node->disk);
    else
        sim_fs_kill(node->disk);
    sim_fs_forget_files(node->disk);
    (void)sim_mem_free_node();
    node->broker = NULL;
    node->told = false; /* a start may just have ended */
    if (power_cut)      /* what was not promised to survive one may be gone */
        node->seen_count = 0;
}

void sim_node_deinit(struct sim_node *node)
{
    assert(node->broker == NULL);
    config_deinit(&node->config);
}

struct net_address sim_node_address(const struct sim_node *node)
{
    struct net_address address = {.port = 9092};

    snprintf(address.host, sizeof(address.host), "%s", node->host->name);
    return address;
}
