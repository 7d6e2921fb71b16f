/*
 * Properties of consumer groups under clients that join, leave, change their minds, lose answers and come back, with
 * restarts in between: no partition has two owners, and nobody has what it was not given; when all calm down, every
 * partition has one owner; and a restart after every step changes nothing of where it ends.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/consumer_beats.h"
#include "coordinator/consumer_internal.h"
#include "partition/run_tests.h"

enum { CLIENTS = 5, TOPICS = 3, PARTITIONS = 7, STEPS = 120, CALM = 60, TEXT_MAX = 512 };

/* As a client has it. */
struct client {
    char id[8];
    int32_t epoch;
    bool in;
    bool says_all; /* after an answer was lost it says everything */
    const char *topics;
    bool owned[TOPICS][PARTITIONS];
};

static struct group_world world;
static struct client clients[CLIENTS];
static uint64_t seed;
static bool restarts; /* after every step */

static uint32_t next(uint32_t bound)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % bound;
}

static void write_owned(const struct client *client, char *text)
{
    size_t size = 0;

    text[0] = '\0';
    for (int topic = 0; topic < TOPICS; topic++) {
        char before = ':';

        for (int i = 0; i < PARTITIONS; i++) {
            if (!client->owned[topic][i])
                continue;
            if (before == ':')
                size += (size_t)snprintf(text + size, TEXT_MAX - size, "%s%d", size > 0 ? ";" : "", topic + 1);
            size += (size_t)snprintf(text + size, TEXT_MAX - size, "%c%d", before, i);
            before = ',';
        }
    }
}

static void take_answer(struct client *client, const struct world_call *call)
{
    const struct consumer_group_heartbeat_response *response = call->response;

    if (response->error_code != 0) {
        ck_assert_msg(response->error_code == 110 || response->error_code == 25 || response->error_code == 69, "%s: %d",
                      client->id, response->error_code);
        memset(client->owned, 0, sizeof(client->owned));
        client->epoch = 0;
        client->says_all = true;
        return;
    }
    client->epoch = response->member_epoch;
    client->says_all = false;
    if (response->assignment == NULL)
        return;
    memset(client->owned, 0, sizeof(client->owned));
    for (uint32_t i = 0; i < response->assignment->topic_partitions_count; i++)
        for (uint32_t j = 0; j < response->assignment->topic_partitions[i].partitions_count; j++)
            client->owned[response->assignment->topic_partitions[i].topic_id.bytes[15] - 1]
                         [response->assignment->topic_partitions[i].partitions[j]] = true;
}

static void expect_safe(void)
{
    static uint8_t owners[TOPICS][PARTITIONS];
    struct group *group = group_find(world.groups, BYTES_LITERAL("g"));
    uint32_t cursor = 0;
    void *value = NULL;

    if (group == NULL || group->consumer == NULL)
        return;
    memset(owners, 0, sizeof(owners));
    while (map_next(&group->consumer->members, &cursor, NULL, &value)) {
        const struct consumer_member *member = value;
        const struct partition_set *sets[] = {&member->assigned, &member->revoking};

        for (size_t i = 0; i < 2; i++)
            for (uint32_t j = 0; j < sets[i]->count; j++)
                ck_assert_uint_eq(owners[sets[i]->items[j].topic.bytes[15] - 1][sets[i]->items[j].partition]++, 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        const struct client *client = &clients[i];
        const struct consumer_member *member = consumer_find(group->consumer, bytes_of_text(client->id));

        if (!client->in || member == NULL || client->epoch != member->epoch)
            continue;
        for (int topic = 0; topic < TOPICS; topic++)
            for (int p = 0; p < PARTITIONS; p++)
                if (client->owned[topic][p])
                    ck_assert(partition_set_find(&member->assigned, test_uuid((uint8_t)(topic + 1)), p) != NULL ||
                              partition_set_find(&member->revoking, test_uuid((uint8_t)(topic + 1)), p) != NULL);
    }
}

static void speak(struct client *client, bool lost)
{
    char owned[TEXT_MAX];
    bool all = client->says_all || client->epoch == 0;
    struct world_call *call = NULL;

    if (!client->in) {
        client->in = true;
        client->epoch = 0;
        memset(client->owned, 0, sizeof(client->owned));
        all = true;
    }
    if (client->epoch == 0)
        memset(client->owned, 0, sizeof(client->owned));
    write_owned(client, owned);
    call = beat(&world, &(struct beat_says){.member = client->id,
                                            .epoch = client->epoch,
                                            .rebalance_ms = all ? 300000 : 0,
                                            .topics = all ? client->topics : NULL,
                                            .owned = owned});
    ck_assert(call->answered);
    if (lost)
        client->says_all = true;
    else
        take_answer(client, call);
    expect_safe();
    if (restarts)
        world_restart(&world);
}

static void leave(struct client *client)
{
    if (client->in)
        BEAT(&world, client->id, -1);
    client->in = false;
    expect_safe();
    if (restarts)
        world_restart(&world);
}

static const char *const wishes[] = {"t1", "t1,t2", "t1,t2,t3", "t3"};

static void step(void)
{
    struct client *client = &clients[next(CLIENTS)];

    switch (next(12)) {
    case 0:
        leave(client);
        break;
    case 1:
        if (client->in) {
            client->topics = wishes[next(4)];
            client->says_all = true;
        }
        break;
    case 2:
        speak(client, true);
        break;
    case 3:
        world_topic(&world, "t3", next(2) == 0 ? 5 : PARTITIONS);
        break;
    default:
        speak(client, false);
    }
    world_advance(&world, next(500));
}

static void expect_all_assigned(void)
{
    struct group *group = group_find(world.groups, BYTES_LITERAL("g"));
    bool subscribed[TOPICS] = {false};
    int have[TOPICS][PARTITIONS] = {{0}};

    for (int i = 0; i < CLIENTS; i++) {
        for (int topic = 0; topic < TOPICS && clients[i].in; topic++) {
            char name[] = {'t', (char)('1' + topic), '\0'};

            subscribed[topic] |= strstr(clients[i].topics, name) != NULL;
            for (int p = 0; p < PARTITIONS; p++)
                have[topic][p] += clients[i].owned[topic][p];
        }
    }
    for (int topic = 0; topic < TOPICS; topic++)
        for (int p = 0; p < (int)world.table[topic].partition_count; p++)
            ck_assert_int_eq(have[topic][p], subscribed[topic] ? 1 : 0);
    if (group != NULL && group->consumer != NULL && group->consumer->member_count > 0)
        ck_assert(bytes_equal(consumer_state_name(group->consumer), BYTES_LITERAL("Stable")));
}

static void run(uint64_t from, bool with_restarts, char *result, size_t room)
{
    seed = from;
    restarts = with_restarts;
    world_open(&world);
    world.quiet = true;
    world.settings.consumer_assignment_interval_ms = from % 2 == 0 ? 0 : 300;
    world_topic(&world, "t1", PARTITIONS);
    world_topic(&world, "t2", 3);
    world_topic(&world, "t3", 5);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.topics = wishes[i % 4], .says_all = true};
        (void)snprintf(clients[i].id, sizeof(clients[i].id), "m%d", i);
    }
    for (int i = 0; i < STEPS; i++)
        step();
    for (int i = 0; i < CALM; i++) {
        if (clients[i % CLIENTS].in)
            speak(&clients[i % CLIENTS], false);
        world_advance(&world, 200);
    }
    expect_all_assigned();
    world.quiet = false;
    transcript_begin(&world.said);
    describe_group(&world);
    (void)snprintf(result, room, "%s", world.said.text);
    world_close(&world);
}

START_TEST(safe_and_live)
{
    static char with[64 * 1024];
    static char without[64 * 1024];

    for (uint64_t i = 1; i <= 12; i++) {
        run(i, false, without, sizeof(without));
        run(i, true, with, sizeof(with));
        ck_assert_str_eq(with, without);
    }
}
END_TEST

RUN_TESTS("consumer_random", safe_and_live)
