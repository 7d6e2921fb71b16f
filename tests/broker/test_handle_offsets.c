/* Rule: what is committed is fetched, in every version, across restarts and kills; where an error stands is as the
 * version has it (trap B076); who may not is told so with Kafka's codes; the coordinators' topic is made when somebody
 * asks. */
#include <stdio.h>
#include <string.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/list_groups.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_delete.h"
#include "protocol/gen/offset_fetch.h"

enum { COMMIT_VERSION = 10, FETCH_VERSION = 10, STABLE_SINCE = 7, TRIES = 100 };

static struct node_world world;

#define ASK(api, request, version, call)                                                                               \
    node_ask(&world, 0, &api##_request_message, request, &api##_response_message, version, call)

/* A commit of one partition. */
struct commit {
    struct offset_commit_request request;
    struct offset_commit_request_topic topic;
    struct offset_commit_request_partition partition;
};

static void commit_init(struct commit *commit, const char *group, const char *topic, struct uuid id, int64_t offset)
{
    offset_commit_request_init(&commit->request);
    commit->request.group_id = bytes_of_text(group);
    commit->request.member_id = BYTES_LITERAL("");
    commit->request.topics = &commit->topic;
    commit->request.topics_count = 1;
    offset_commit_request_topic_init(&commit->topic);
    commit->topic.name = bytes_of_text(topic);
    commit->topic.topic_id = id;
    commit->topic.partitions = &commit->partition;
    commit->topic.partitions_count = 1;
    offset_commit_request_partition_init(&commit->partition);
    commit->partition.committed_offset = offset;
    commit->partition.committed_metadata = BYTES_LITERAL("m");
}

static int16_t send_commit(const struct commit *commit, int16_t version)
{
    struct offset_commit_response *response = NULL;
    struct node_call call;
    int16_t code = 0;

    for (int i = 0; i < TRIES; i++) {
        response = ASK(offset_commit, &commit->request, version, &call);
        ck_assert_uint_eq(response->topics_count, 1);
        ck_assert_uint_eq(response->topics[0].partitions_count, 1);
        if (version < 10)
            ck_assert(bytes_equal(response->topics[0].name, commit->topic.name));
        code = response->topics[0].partitions[0].error_code;
        node_call_end(&call);
        if (code != err_wire(ERR_COORDINATOR_LOAD_IN_PROGRESS))
            break;
        node_world_pass(&world, 10);
    }
    return code;
}

static int16_t commit_offset(const char *group, const char *topic, struct uuid id, int64_t offset, int16_t version)
{
    struct commit commit;

    commit_init(&commit, group, topic, id, offset);
    return send_commit(&commit, version);
}

struct fetched {
    int64_t offset;
    int16_t code;       /* of the partition */
    int16_t group_code; /* of the group, or of the whole */
    uint32_t topics;
};

static void read_group(const struct offset_fetch_response_group *group, struct fetched *fetched)
{
    fetched->group_code = group->error_code;
    fetched->topics = group->topics_count;
    if (group->topics_count > 0 && group->topics[0].partitions_count > 0) {
        fetched->offset = group->topics[0].partitions[0].committed_offset;
        fetched->code = group->topics[0].partitions[0].error_code;
    }
}

/* Of one partition; topic NULL: of all. stable: from the version on that can say so. */
static struct fetched fetch_stable(const char *group, const char *topic, struct uuid id, int16_t version, bool stable)
{
    struct offset_fetch_request request;
    struct offset_fetch_request_group of;
    struct offset_fetch_request_topic old_topic;
    struct offset_fetch_request_topics new_topic;
    struct offset_fetch_response *response = NULL;
    struct fetched fetched = {.offset = -2};
    int32_t partition = 0;
    struct node_call call;

    offset_fetch_request_init(&request);
    offset_fetch_request_group_init(&of);
    offset_fetch_request_topic_init(&old_topic);
    offset_fetch_request_topics_init(&new_topic);
    request.group_id = of.group_id = bytes_of_text(group);
    request.topics = topic == NULL ? NULL : &old_topic;
    of.topics = topic == NULL ? NULL : &new_topic;
    old_topic.name = new_topic.name = bytes_of_text(topic == NULL ? "" : topic);
    new_topic.topic_id = id;
    old_topic.partition_indexes = new_topic.partition_indexes = &partition;
    old_topic.partition_indexes_count = new_topic.partition_indexes_count = 1;
    request.topics_count = of.topics_count = topic == NULL ? 0 : 1;
    request.groups = &of;
    request.groups_count = 1;
    request.require_stable = stable && version >= STABLE_SINCE;
    response = ASK(offset_fetch, &request, version, &call);
    ck_assert_ptr_nonnull(response);
    if (version >= 8) {
        ck_assert_uint_eq(response->groups_count, 1);
        ck_assert(bytes_equal(response->groups[0].group_id, of.group_id));
        read_group(&response->groups[0], &fetched);
    } else {
        fetched.group_code = response->error_code;
        fetched.topics = response->topics_count;
        if (response->topics_count > 0 && response->topics[0].partitions_count > 0) {
            fetched.offset = response->topics[0].partitions[0].committed_offset;
            fetched.code = response->topics[0].partitions[0].error_code;
        }
    }
    node_call_end(&call);
    return fetched;
}

static struct fetched fetch_once(const char *group, const char *topic, struct uuid id, int16_t version)
{
    return fetch_stable(group, topic, id, version, false);
}

static struct fetched fetch(const char *group, const char *topic, struct uuid id, int16_t version)
{
    struct fetched fetched = {0};
    int16_t loading = err_wire(ERR_COORDINATOR_LOAD_IN_PROGRESS);

    for (int i = 0; i < TRIES; i++) {
        fetched = fetch_once(group, topic, id, version);
        if (fetched.code != loading && fetched.group_code != loading)
            break;
        node_world_pass(&world, 10);
    }
    return fetched;
}

START_TEST(committed_is_fetched)
{
    struct uuid id;
    struct fetched fetched;

    node_world_begin(&world, 1, 2);
    id = node_create_topic(&world, "t", 3, NULL);
    node_find_coordinator(&world, "g");
    for (int16_t version = 1; version <= COMMIT_VERSION; version++)
        ck_assert_int_eq(commit_offset("g", "t", id, 10 + version, version), 0);
    for (int16_t version = 1; version <= FETCH_VERSION; version++) {
        fetched = fetch("g", "t", id, version);
        ck_assert_int_eq(fetched.offset, 10 + COMMIT_VERSION);
        ck_assert_int_eq(fetched.code, 0);
        ck_assert_int_eq(fetched.group_code, 0);
        if (version >= 2)
            ck_assert_uint_eq(fetch("g", NULL, id, version).topics, 1);
        fetched = fetch("nobody", "t", id, version);
        ck_assert_int_eq(fetched.offset, -1);
        ck_assert_int_eq(fetched.code, 0);
    }
    node_world_end(&world);
}
END_TEST

static void start_again(bool kill)
{
    if (kill)
        sim_node_kill(&world.node, false);
    else
        sim_node_stop(&world.node);
    for (uint32_t i = 0; i < NODE_CLIENTS_MAX; i++)
        sim_client_break(&world.clients[i]);
    sim_node_start(&world.node);
}

START_TEST(restarts_lose_nothing)
{
    struct uuid id;

    node_world_begin(&world, 2, 3);
    id = node_create_topic(&world, "t", 1, NULL);
    node_find_coordinator(&world, "g0");
    for (int life = 0; life < 6; life++) {
        char group[8];

        for (int i = 0; i < 20; i++) {
            (void)snprintf(group, sizeof(group), "g%d", i);
            ck_assert_int_eq(fetch(group, "t", id, 8).offset, life == 0 ? -1 : life * 100 + i);
            ck_assert_int_eq(commit_offset(group, "t", id, (life + 1) * 100 + i, 8), 0);
        }
        start_again(life % 2 == 1);
    }
    node_world_end(&world);
}
END_TEST

START_TEST(what_is_refused)
{
    struct uuid id;
    struct uuid other = {{1}};
    struct commit commit;

    node_world_begin(&world, 3, 2);
    id = node_create_topic(&world, "t", 1, NULL);
    /* Before anybody has asked where it is. */
    ck_assert_int_eq(commit_offset("g", "t", id, 1, 8), err_wire(ERR_NOT_COORDINATOR));
    ck_assert_int_eq(fetch("g", "t", id, 1).code, err_wire(ERR_NOT_COORDINATOR));
    ck_assert_int_eq(fetch("g", "t", id, 5).group_code, err_wire(ERR_NOT_COORDINATOR));
    ck_assert_int_eq(fetch("g", "t", id, 9).group_code, err_wire(ERR_NOT_COORDINATOR));
    node_find_coordinator(&world, "g");
    ck_assert_int_eq(commit_offset("g", "missing", id, 1, 8), err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    ck_assert_int_eq(commit_offset("g", "t", other, 1, 10), err_wire(ERR_UNKNOWN_TOPIC_ID));
    commit_init(&commit, "g", "t", id, 4);
    commit.partition.partition_index = 1;
    ck_assert_int_eq(send_commit(&commit, 8), err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    commit_init(&commit, "g", "t", id, 4);
    commit.request.generation_id_or_member_epoch = 3;
    ck_assert_int_eq(send_commit(&commit, 8), err_wire(ERR_ILLEGAL_GENERATION));
    ck_assert_int_eq(send_commit(&commit, 9), err_wire(ERR_GROUP_ID_NOT_FOUND));
    ck_assert_int_eq(fetch("g", "t", other, 10).code, err_wire(ERR_UNKNOWN_TOPIC_ID));
    node_world_end(&world);
}
END_TEST

START_TEST(who_may)
{
    struct uuid id;

    node_world_begin(&world, 4, 2);
    id = node_create_topic(&world, "t", 1, NULL);
    node_find_coordinator(&world, "g");
    ck_assert_int_eq(commit_offset("g", "t", id, 1, 8), 0);
    node_deny(&world, MAY_READ, ON_GROUP);
    ck_assert_int_eq(commit_offset("g", "t", id, 2, 8), err_wire(ERR_GROUP_AUTHORIZATION_FAILED));
    node_deny(&world, MAY_DESCRIBE, ON_GROUP);
    ck_assert_int_eq(fetch("g", "t", id, 1).code, err_wire(ERR_GROUP_AUTHORIZATION_FAILED));
    ck_assert_int_eq(fetch("g", "t", id, 2).group_code, err_wire(ERR_GROUP_AUTHORIZATION_FAILED));
    ck_assert_int_eq(fetch("g", "t", id, 8).group_code, err_wire(ERR_GROUP_AUTHORIZATION_FAILED));
    node_deny(&world, MAY_READ, ON_TOPIC);
    for (int16_t version = 1; version <= COMMIT_VERSION; version++)
        ck_assert_int_eq(commit_offset("g", "t", id, 2, version), err_wire(ERR_TOPIC_AUTHORIZATION_FAILED));
    node_deny(&world, MAY_DESCRIBE, ON_TOPIC);
    for (int16_t version = 1; version <= FETCH_VERSION; version++) {
        ck_assert_int_eq(fetch("g", "t", id, version).code, err_wire(ERR_TOPIC_AUTHORIZATION_FAILED));
        if (version > 1)
            ck_assert_uint_eq(fetch("g", NULL, id, version).topics, 0);
    }
    node_allow(&world);
    ck_assert_int_eq(fetch("g", "t", id, 8).offset, 1);
    node_world_end(&world);
}
END_TEST

static uint32_t list(void)
{
    struct list_groups_request request;
    struct list_groups_response *response = NULL;
    struct node_call call;
    uint32_t count = 0;

    list_groups_request_init(&request);
    response = ASK(list_groups, &request, 5, &call);
    ck_assert_int_eq(response->error_code, 0);
    count = response->groups_count;
    node_call_end(&call);
    return count;
}

START_TEST(listed_and_deleted)
{
    struct uuid id;
    struct delete_groups_request delete;
    struct delete_groups_response *deleted = NULL;
    struct offset_delete_request forget;
    struct offset_delete_request_topic topic;
    struct offset_delete_request_partition partition;
    struct offset_delete_response *forgotten = NULL;
    struct bytes names[2] = {BYTES_LITERAL("g1"), BYTES_LITERAL("nobody")};
    struct node_call call;

    node_world_begin(&world, 5, 3);
    ck_assert_uint_eq(list(), 0);
    id = node_create_topic(&world, "t", 1, NULL);
    node_find_coordinator(&world, "g");
    for (int i = 0; i < 10; i++) {
        char group[8];

        (void)snprintf(group, sizeof(group), "g%d", i);
        ck_assert_int_eq(commit_offset(group, "t", id, i, 8), 0);
    }
    ck_assert_uint_eq(list(), 10);
    delete_groups_request_init(&delete);
    delete.groups_names = names;
    delete.groups_names_count = 2;
    deleted = ASK(delete_groups, &delete, 2, &call);
    ck_assert_uint_eq(deleted->results_count, 2);
    ck_assert_int_eq(deleted->results[0].error_code, 0);
    ck_assert_int_eq(deleted->results[1].error_code, err_wire(ERR_GROUP_ID_NOT_FOUND));
    node_call_end(&call);
    ck_assert_uint_eq(list(), 9);

    offset_delete_request_init(&forget);
    forget.group_id = BYTES_LITERAL("g2");
    forget.topics = &topic;
    forget.topics_count = 1;
    offset_delete_request_topic_init(&topic);
    topic.name = BYTES_LITERAL("t");
    topic.partitions = &partition;
    topic.partitions_count = 1;
    offset_delete_request_partition_init(&partition);
    forgotten = ASK(offset_delete, &forget, 0, &call);
    ck_assert_int_eq(forgotten->error_code, 0);
    ck_assert_int_eq(forgotten->topics[0].partitions[0].error_code, 0);
    node_call_end(&call);
    ck_assert_int_eq(fetch("g2", "t", id, 8).offset, -1);
    forget.group_id = BYTES_LITERAL("nobody");
    forgotten = ASK(offset_delete, &forget, 0, &call);
    ck_assert_int_eq(forgotten->error_code, err_wire(ERR_GROUP_ID_NOT_FOUND));
    node_call_end(&call);

    /* With the topic its offsets go, and the groups that had nothing else. */
    ck_assert_int_eq(node_delete_topic(&world, "t"), ERR_OK);
    node_world_pass(&world, 1000);
    (void)node_create_topic(&world, "t", 1, NULL);
    ck_assert_int_eq(fetch("g3", "t", id, 8).offset, -1);
    node_world_end(&world);
}
END_TEST

/* Where the version has it: each partition's in version 1. */
static int16_t told(struct fetched fetched, int16_t version)
{
    return version == 1 ? fetched.code : fetched.group_code;
}

/* Rule (trap B100): who fetches while the coordinator loads, or while what it wrote is not committed in time, is told
 * what consumers of all times ask again for: 14 (here) or 16 (where it is now). 7 and 15, which the coordinator's own
 * time-out is to others, end those that ask for stable offsets. */
START_TEST(a_coordinator_that_loads_or_is_slow)
{
    struct commit commit;
    struct uuid id;

    node_world_begin_with(&world, 7, 2, "offsets.commit.timeout.ms=1", "group.coordinator.append.linger.ms=500", NULL);
    id = node_create_topic(&world, "t", 1, NULL);
    node_find_coordinator(&world, "g");
    (void)fetch("g", "t", id, FETCH_VERSION);
    for (int16_t version = 1; version <= FETCH_VERSION; version++) {
        commit_init(&commit, "g", "t", id, version);
        ck_assert_int_eq(send_commit(&commit, COMMIT_VERSION), err_wire(ERR_COORDINATOR_NOT_AVAILABLE));
        ck_assert_int_eq(told(fetch_stable("g", "t", id, version, true), version), err_wire(ERR_NOT_COORDINATOR));
        node_world_pass(&world, 1000);
        ck_assert_int_eq(fetch_stable("g", "t", id, version, true).offset, version); /* it was late, not lost */
    }
    for (int16_t version = 1; version <= FETCH_VERSION; version++) {
        start_again(true);
        ck_assert_int_eq(told(fetch_stable("g", "t", id, version, true), version),
                         err_wire(ERR_COORDINATOR_LOAD_IN_PROGRESS));
        ck_assert_int_eq(fetch("g", "t", id, version).offset, FETCH_VERSION);
    }
    node_world_end(&world);
}
END_TEST

enum { RESERVE_BYTES = 1024 * 1024, METADATA_BYTES = 4096, COMMITS_WITHOUT_ROOM = 50, COMMITS_MAX = 1000 };

static void fill_disk(void)
{
    world.disk.capacity_bytes = world.disk.used_bytes;
    node_world_pass(&world, 2000); /* the broker sees it */
}

static int16_t produce_code(struct uuid id)
{
    enum err err = ERR_OK;

    return node_produce(&world, 1, id, 0, 10, &err) >= 0 ? (int16_t)0 : err_wire(err);
}

/* Rule (decision 0009): when nothing is free producers are refused, and commits go on from the reserve, through a kill
 * and a start too; when that is used up they are told to come again, lose nothing that was acknowledged, and go on by
 * themselves when there is room. */
START_TEST(commits_go_on_from_the_reserve)
{
    static char metadata[METADATA_BYTES];
    struct commit commit;
    struct uuid id;
    int64_t last = 0;
    int16_t code = 0;

    memset(metadata, 'm', sizeof(metadata));
    node_world_begin(&world, 6, 2);
    sim_node_stop(&world.node);
    sim_node_set(&world.node, "ottla.disk.reserve.bytes=1048576");
    sim_node_set(&world.node, "ottla.disk.refuse.bytes=65536");
    sim_node_start(&world.node);
    id = node_create_topic(&world, "t", 1, NULL);
    node_find_coordinator(&world, "g");
    ck_assert_int_eq(commit_offset("g", "t", id, 1, 8), 0);
    ck_assert_int_eq(produce_code(id), 0);
    for (int i = 0; i < 100 && sim_fs_peek(&world.disk, "/data/ottla-reserve").size < RESERVE_BYTES; i++)
        node_world_pass(&world, 1000);
    ck_assert_uint_ge(sim_fs_peek(&world.disk, "/data/ottla-reserve").size, RESERVE_BYTES);
    world.node.silent = true;
    fill_disk();
    ck_assert_int_eq(produce_code(id), err_wire(ERR_KAFKA_STORAGE_ERROR));
    commit_init(&commit, "g", "t", id, last);
    commit.partition.committed_metadata = bytes_of(metadata, sizeof(metadata));
    for (int i = 0; i < COMMITS_WITHOUT_ROOM; i++) {
        commit.partition.committed_offset = ++last;
        ck_assert_int_eq(send_commit(&commit, 8), 0);
    }
    ck_assert_uint_lt(sim_fs_peek(&world.disk, "/data/ottla-reserve").size,
                      RESERVE_BYTES - (COMMITS_WITHOUT_ROOM - 10) * METADATA_BYTES);
    start_again(true);
    fill_disk();
    ck_assert_int_eq(fetch("g", "t", id, 8).offset, last);
    ck_assert_int_eq(commit_offset("g", "t", id, ++last, 8), 0);
    ck_assert_int_eq(produce_code(id), err_wire(ERR_KAFKA_STORAGE_ERROR));

    /* Until the reserve is used up, too. */
    for (int i = 0; i < COMMITS_MAX && code == 0; i++) {
        commit.partition.committed_offset = last + 1;
        code = send_commit(&commit, 8);
        last += code == 0;
    }
    ck_assert_int_eq(code, err_wire(ERR_NOT_COORDINATOR));
    node_world_pass(&world, 20000);
    ck_assert_int_eq(fetch("g", "t", id, 8).offset, last);
    world.disk.capacity_bytes = UINT64_MAX;
    node_world_pass(&world, 20000);
    ck_assert_int_eq(fetch("g", "t", id, 8).offset, last);
    ck_assert_int_eq(commit_offset("g", "t", id, last + 1, 8), 0);
    ck_assert_int_eq(fetch("g", "t", id, 8).offset, last + 1);
    ck_assert_int_eq(produce_code(id), 0);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/handle_offsets", committed_is_fetched, restarts_lose_nothing, what_is_refused, who_may,
          listed_and_deleted, a_coordinator_that_loads_or_is_slow, commits_go_on_from_the_reserve)
