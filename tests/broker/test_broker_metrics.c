/* Rule: every request counts once, under the name its row of the API table gives it, whichever reactor served it; one
 * that closes its connection counts as refused. */
#include <stdio.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/add_partitions_to_txn.h"
#include "protocol/gen/api_keys.h"
#include "protocol/gen/describe_cluster.h"

static struct node_world world;

START_TEST(every_request_counts_once)
{
    struct describe_cluster_request request;
    struct node_call call;

    node_world_begin(&world, 31, 2);
    describe_cluster_request_init(&request);
    for (uint32_t client = 0; client < 4; client++) {
        ck_assert_ptr_nonnull(node_ask(&world, client, &describe_cluster_request_message, &request,
                                       &describe_cluster_response_message, 1, &call));
        node_call_end(&call);
    }
    ck_assert_uint_eq(broker_metrics_requests(world.node.broker->metrics, API_DESCRIBE_CLUSTER), 4);
    ck_assert_uint_eq(broker_metrics_requests(world.node.broker->metrics, API_FETCH), 0);
    ck_assert_uint_eq(broker_metrics_refused(world.node.broker->metrics), 0);
    node_world_end(&world);
}
END_TEST

/* Traps B013, B014: what is not served closes its connection, and only that; one line says so. */
START_TEST(what_is_not_served_counts_as_refused)
{
    struct add_partitions_to_txn_request request;
    struct node_call call;

    node_world_begin(&world, 32, 2);
    add_partitions_to_txn_request_init(&request);
    ck_assert_ptr_null(api_find(API_ADD_PARTITIONS_TO_TXN));
    node_hear(&world, " WARN ");
    ck_assert_ptr_null(node_ask(&world, 1, &add_partitions_to_txn_request_message, &request,
                                &add_partitions_to_txn_response_message, 4, &call));
    node_call_end(&call);
    ck_assert_uint_eq(broker_metrics_refused(world.node.broker->metrics), 1);
    ck_assert_msg(world.heard_count == 1 && strstr(world.heard, " api=24 version=4 ") != NULL, "%s", world.heard);
    node_world_end(&world);
}
END_TEST

struct dump {
    char chars[64 * 1024];
    size_t size;
};

static void append(void *context, struct bytes piece)
{
    struct dump *text = context;

    ck_assert_uint_lt(text->size + piece.size, sizeof(text->chars));
    memcpy(text->chars + text->size, piece.data, piece.size);
    text->size += piece.size;
    text->chars[text->size] = '\0';
}

START_TEST(names_follow_from_the_table)
{
    static struct dump text;

    node_world_begin(&world, 33, 1);
    metrics_dump(broker_metrics_registry(world.node.broker->metrics), append, &text);
    for (uint32_t i = 0; i < api_count(); i++) {
        char name[128];

        (void)snprintf(name, sizeof(name), "ottla_requests_total{api=\"%s\"} 0\n", api_at(i)->name);
        ck_assert_msg(strstr(text.chars, name) != NULL, "%s", name);
    }
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/broker_metrics", every_request_counts_once, what_is_not_served_counts_as_refused,
          names_follow_from_the_table)
