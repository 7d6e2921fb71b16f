/* Rule: a fetch is answered once, whoever asks, whatever it says and whoever goes: what found no room comes with the
 * next one, nobody's wait outlives its client, and a session believes nothing of what an earlier fetch of it said.
 *
 * Sources: broker/fetch_part.c, broker/fetch_reply.c */
#include "../partition/run_tests.h"
#include "node_world.h"

enum { BY_NAME = 12, BY_ID = 13 };

static struct node_world world;

static struct fetch_response *fetch(uint32_t client, const struct node_fetch *fetch, int16_t version,
                                    struct node_call *call)
{
    return node_ask(&world, client, &fetch_request_message, &fetch->request, &fetch_response_message, version, call);
}

/* A session over partitions at offset 0, before there is anything in them. */
static int32_t open_session(uint32_t client, struct node_fetch *ask, int16_t version)
{
    struct node_call call;
    struct fetch_response *response = NULL;
    int32_t id = 0;

    ask->request.session_epoch = 0;
    response = fetch(client, ask, version, &call);
    ck_assert_ptr_nonnull(response);
    id = response->session_id;
    ck_assert_int_gt(id, 0);
    node_call_end(&call);
    ask->request.session_id = id;
    return id;
}

/* The session's next fetch, naming nothing. */
static struct fetch_response *fetch_next(uint32_t client, struct node_fetch *ask, int16_t version,
                                         struct node_call *call)
{
    ask->request.session_epoch++;
    ask->request.topics_count = 0;
    return fetch(client, ask, version, call);
}

START_TEST(what_found_no_room_comes_next)
{
    struct node_fetch ask;
    struct node_call call;
    struct fetch_response *response = NULL;
    struct uuid topic;
    int32_t first = 0;
    enum err err = ERR_OK;

    node_world_begin(&world, 1, 1);
    topic = node_create_topic(&world, "t", 2, NULL);
    node_fetch_init(&ask, "t", topic, 2);
    (void)open_session(1, &ask, BY_ID);
    (void)node_produce(&world, 0, topic, 0, 6000, &err);
    (void)node_produce(&world, 0, topic, 1, 6000, &err);
    ask.request.max_bytes = 8000;
    ask.request.max_wait_ms = 1000;
    response = fetch_next(1, &ask, BY_ID, &call);
    first =
        node_fetched(response, 0) != NULL && node_fetched(response, 0)->records.size > 0 ? 0 : 1; /* as they loaded */
    ck_assert_ptr_nonnull(node_fetched(response, first));
    ck_assert_uint_gt(node_fetched(response, first)->records.size, 0);
    ck_assert(node_fetched(response, 1 - first) == NULL || node_fetched(response, 1 - first)->records.size == 0);
    node_call_end(&call);
    /* The consumer has moved on in the one, and says nothing of the other: it knows that the broker has the offset. */
    ask.partitions[first].fetch_offset = 1;
    ask.topic.partitions = &ask.partitions[first];
    ask.topic.partitions_count = 1;
    ask.request.topics_count = 1;
    ask.request.session_epoch++;
    response = fetch(1, &ask, BY_ID, &call);
    ck_assert_ptr_nonnull(response);
    ck_assert_ptr_nonnull(node_fetched(response, 1 - first));
    ck_assert_uint_gt(node_fetched(response, 1 - first)->records.size, 6000);
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

START_TEST(a_limit_of_nothing_gives_the_first_batch_at_once)
{
    struct node_fetch ask;
    struct node_call call;
    struct fetch_response *response = NULL;
    struct uuid topic;
    int64_t began_ns = 0;
    enum err err = ERR_OK;

    node_world_begin(&world, 2, 1);
    topic = node_create_topic(&world, "t", 1, NULL);
    (void)node_produce(&world, 0, topic, 0, 100, &err);
    node_fetch_init(&ask, "t", topic, 1);
    ask.partitions[0].partition_max_bytes = 0;
    ask.request.min_bytes = 1;
    ask.request.max_wait_ms = 30000;
    began_ns = world.sim.mono_ns;
    response = fetch(1, &ask, BY_ID, &call);
    ck_assert_uint_gt(node_fetched(response, 0)->records.size, 100);
    ck_assert_int_lt(world.sim.mono_ns - began_ns, INT64_C(5000000000));
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

/* Who says to be a replica is refused; what was refused is another fetch's no more. */
START_TEST(a_refusal_ends_with_its_fetch)
{
    struct node_fetch ask;
    struct node_call call;
    struct fetch_response *response = NULL;
    struct uuid topic;

    node_world_begin(&world, 3, 2);
    topic = node_create_topic(&world, "t", 50, NULL);
    node_fetch_init(&ask, "t", topic, 50);
    ask.request.replica_id = 1;
    (void)open_session(1, &ask, BY_NAME);
    ask.request.replica_id = -1;
    ask.request.session_epoch++;
    ask.topic.topic = BYTES_LITERAL("no-such-topic");
    ask.topic.partitions_count = 1;
    response = fetch(1, &ask, BY_NAME, &call);
    ck_assert_ptr_nonnull(response);
    ck_assert_int_eq(response->error_code, 0);
    for (int32_t i = 1; i < 50; i++) {
        ck_assert_ptr_nonnull(node_fetched(response, i));
        ck_assert_int_eq(node_fetched(response, i)->error_code, 0);
    }
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

/* The session lives on one reactor, and the client comes back by a connection of the other. */
START_TEST(a_client_that_goes_ends_its_wait_wherever_the_session_lives)
{
    node_world_begin(&world, 4, 2);
    struct uuid topic = node_create_topic(&world, "t", 4, NULL);

    for (uint32_t client = 1; client < NODE_CLIENTS_MAX; client++) {
        struct node_fetch ask;
        struct node_call parked;
        struct node_call call;
        struct fetch_response *response = NULL;

        node_fetch_init(&ask, "t", topic, 4);
        (void)open_session(0, &ask, BY_ID);
        ask.request.max_wait_ms = 300000;
        ask.request.min_bytes = 1;
        ask.request.session_epoch++;
        ask.request.topics_count = 0;
        node_send(&world, client, &fetch_request_message, &ask.request, &fetch_response_message, BY_ID, &parked);
        ck_assert(!node_answered(&world, &parked, 1000));
        sim_client_break(&world.clients[client]);
        ck_assert(parked.answered && parked.err == ERR_CLOSED);
        node_world_pass(&world, 1000);
        /* The session is free for the next fetch, which is answered. */
        ask.request.session_epoch++;
        ask.request.max_wait_ms = 0;
        response = fetch(0, &ask, BY_ID, &call);
        ck_assert_ptr_nonnull(response);
        ck_assert_int_eq(response->error_code, 0);
        node_call_end(&call);
    }
    node_world_end(&world);
}
END_TEST

START_TEST(no_wait_is_longer_than_a_connection_may_idle)
{
    struct node_fetch ask;
    struct node_call call;
    struct uuid topic;

    node_world_begin(&world, 5, 1);
    topic = node_create_topic(&world, "t", 1, NULL);
    node_fetch_init(&ask, "t", topic, 1);
    ask.request.max_wait_ms = INT32_MAX;
    ask.request.min_bytes = INT32_MAX;
    node_send(&world, 1, &fetch_request_message, &ask.request, &fetch_response_message, BY_ID, &call);
    ck_assert(node_answered(&world, &call, 11 * 60 * 1000)); /* connections.max.idle.ms is ten minutes */
    ck_assert_int_eq(call.err, ERR_OK);
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/fetch", what_found_no_room_comes_next, a_limit_of_nothing_gives_the_first_batch_at_once,
          a_refusal_ends_with_its_fetch, a_client_that_goes_ends_its_wait_wherever_the_session_lives,
          no_wait_is_longer_than_a_connection_may_idle)
