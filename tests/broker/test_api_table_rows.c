/* Rule: what a row of the table says is so, whatever its handler. Who is denied everything is asked for the row's gate,
 * and whatever a request of the row holds, in every version, it ends: with an answer, or with its connection. The
 * requests are random, so that a new row is held to this without another line here. */
#include <stdio.h>

#include "../partition/run_tests.h"
#include "base/mem.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/api_keys.h"
#include "protocol/message_sample.h"

enum {
    SEEDS = 40,              /* messages of each version: few of Fetch's begin a session */
    ENDS_MS = 11 * 60 * 1000 /* the longest wait ends with connections.max.idle.ms */
};

static struct node_world world;

/* What the double that denies was asked. */
static struct {
    const struct api *api;
    bool gate;
} asked;

static bool deny(void *context, const struct request *request, enum operation operation, enum resource_type type,
                 struct bytes name)
{
    (void)context;
    (void)name;
    if (request->api == asked.api && operation == asked.api->gate.operation && type == asked.api->gate.resource)
        asked.gate = true;
    return false;
}

/* Sends one and waits for its end. */
static void send(const struct api *api, int16_t version, uint64_t seed)
{
    struct arena arena;
    struct sample sample = {.seed = seed * 1000 + (uint64_t)version, .arena = &arena};
    struct node_call call;
    void *message = NULL;
    bool silent = false;

    arena_init(&arena, 1 << 24);
    message = sample_message(&sample, api->request, version);
    silent = api->key == API_PRODUCE && ((struct produce_request *)message)->acks == 0;
    node_send(&world, 1, api->request, message, api->response, version, &call);
    ck_assert_msg(node_answered(&world, &call, silent ? 1000 : ENDS_MS) || silent, "%s v%d seed %u", api->name, version,
                  (unsigned)seed);
    if (!call.answered)
        sim_client_break(&world.clients[1]);
    node_call_end(&call);
    arena_deinit(&arena);
}

static void send_all(const struct api *api)
{
    for (int16_t version = api->version_min; version <= api->version_max; version++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            send(api, version, seed);
}

START_TEST(who_is_denied_everything_is_asked_for_the_gate)
{
    node_world_begin(&world, 21, 2);
    world.node.silent = true;
    (void)node_create_topic(&world, "t", 2, NULL);
    world.node.broker->access = deny;
    for (uint32_t i = 0; i < api_count(); i++) {
        asked.api = api_at(i);
        asked.gate = asked.api->gate.operation == 0;
        send_all(asked.api);
        ck_assert_msg(asked.gate, "%s: nobody asked for the permission of its row", asked.api->name);
    }
    world.node.broker->access = NULL;
    node_world_end(&world);
}
END_TEST

START_TEST(whatever_a_request_holds_it_ends)
{
    node_world_begin(&world, 22, 2);
    world.node.silent = true;
    (void)node_create_topic(&world, "t", 2, NULL);
    for (uint32_t i = 0; i < api_count(); i++)
        send_all(api_at(i));
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/api_table_rows", who_is_denied_everything_is_asked_for_the_gate, whatever_a_request_holds_it_ends)
