/* What members read, and commit. */
#include <string.h>

#include "base/assert.h"
#include "protocol/batch.h"
#include "protocol/gen/fetch.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_fetch.h"
#include "sim/node_groups_internal.h"

enum { COMMIT_VERSION = 9, OFFSETS_VERSION = 9, FETCH_VERSION = 13, FETCH_BYTES = 4000 };

/* ---- offsets ---- */

static void on_offsets(struct sim_call *sim_call, enum err err)
{
    struct node_member *member = node_member_heard(sim_call);
    const struct node_group *group = node_member_group(member);
    const struct offset_fetch_response *response = sim_call->response;
    const struct offset_fetch_response_group *told = err == ERR_OK ? &response->groups[0] : NULL;

    if (!node_member_refused(member, err, err == ERR_OK ? told->error_code : 0)) {
        assert(told->topics_count == 1 && told->topics[0].partitions_count == NODE_GROUP_PARTITIONS);
        for (uint32_t i = 0; i < NODE_GROUP_PARTITIONS; i++) {
            const struct offset_fetch_response_partitions *at = &told->topics[0].partitions[i];

            assert(at->error_code == 0);
            assert(at->committed_offset >= member->floors[at->partition_index]);
            assert(at->committed_offset <= group->committed[at->partition_index]);
            sim_trace(member->all->sim, (uint64_t)at->partition_index, (uint64_t)at->committed_offset);
            member->positions[at->partition_index] = at->committed_offset < 0 ? 0 : at->committed_offset;
        }
        member->knows_positions = true;
        node_member_soon(member, 1, NODE_PAUSE_MS_MAX);
    }
    if (err == ERR_OK)
        arena_deinit(&sim_call->arena);
}

void node_member_ask_offsets(struct node_member *member)
{
    struct offset_fetch_request request;
    struct offset_fetch_request_group group;
    struct offset_fetch_request_topics topic = {.name = member->all->topic};
    int32_t partitions[NODE_GROUP_PARTITIONS];

    for (int32_t p = 0; p < NODE_GROUP_PARTITIONS; p++)
        partitions[p] = p;
    topic.partition_indexes = partitions;
    topic.partition_indexes_count = NODE_GROUP_PARTITIONS;
    offset_fetch_request_init(&request);
    offset_fetch_request_group_init(&group);
    group.group_id = node_member_group_id(member);
    group.topics = &topic;
    group.topics_count = 1;
    request.groups = &group;
    request.groups_count = 1;
    node_member_call(member, &offset_fetch_request_message, &request, &offset_fetch_response_message, OFFSETS_VERSION,
                     on_offsets);
}

static void on_committed(struct sim_call *sim_call, enum err err)
{
    struct node_member *member = node_member_heard(sim_call);
    struct node_group *group = node_member_group(member);
    const struct offset_commit_response *response = sim_call->response;
    int16_t code = 0;

    for (uint32_t i = 0; err == ERR_OK && i < response->topics_count; i++)
        for (uint32_t j = 0; j < response->topics[i].partitions_count; j++) {
            const struct offset_commit_response_partition *at = &response->topics[i].partitions[j];
            int64_t offset = member->commits[at->partition_index];

            code = at->error_code == 0 ? code : at->error_code;
            if (at->error_code != 0)
                continue;
            member->all->commits++;
            sim_trace(member->all->sim, (uint64_t)at->partition_index, (uint64_t)offset);
            if (group->acked[at->partition_index] < offset)
                group->acked[at->partition_index] = offset;
        }
    if (!node_member_refused(member, err, code))
        node_member_soon(member, 1, NODE_PAUSE_MS_MAX);
    if (err == ERR_OK)
        arena_deinit(&sim_call->arena);
}

void node_member_commit(struct node_member *member)
{
    struct node_group *group = node_member_group(member);
    struct offset_commit_request request;
    struct offset_commit_request_topic topic;
    struct offset_commit_request_partition partitions[NODE_GROUP_PARTITIONS];

    offset_commit_request_init(&request);
    offset_commit_request_topic_init(&topic);
    request.group_id = node_member_group_id(member);
    request.member_id = bytes_of_text(member->id);
    request.generation_id_or_member_epoch = member->generation;
    request.topics = &topic;
    request.topics_count = 1;
    topic.name = member->all->topic;
    topic.partitions = partitions;
    for (int32_t p = 0; p < NODE_GROUP_PARTITIONS; p++) {
        if (!member->owned[p])
            continue;
        offset_commit_request_partition_init(&partitions[topic.partitions_count]);
        partitions[topic.partitions_count].partition_index = p;
        partitions[topic.partitions_count].committed_offset = member->positions[p];
        member->commits[p] = member->positions[p];
        if (group->committed[p] < member->positions[p])
            group->committed[p] = member->positions[p];
        topic.partitions_count++;
    }
    node_member_call(member, &offset_commit_request_message, &request, &offset_commit_response_message, COMMIT_VERSION,
                     on_committed);
}

/* ---- reading ---- */

static void read_on(struct node_member *member, int32_t partition, const struct records *records)
{
    struct bytes left =
        records->slice_count == 0 ? (struct bytes){0} : bytes_of(records->slices[0].data, records->slices[0].size);
    struct batch_header header;

    while (left.size > 0 && batch_peek(left, &header, NULL) == ERR_OK) {
        int64_t next = header.base_offset + header.last_offset_delta + 1;

        if (next > member->positions[partition])
            member->positions[partition] = next;
        left = bytes_of(left.data + header.size, left.size - header.size);
    }
}

static void on_fetched(struct sim_call *sim_call, enum err err)
{
    struct node_member *member = node_member_heard(sim_call);
    const struct fetch_response *response = sim_call->response;

    for (uint32_t t = 0; err == ERR_OK && t < response->responses_count; t++)
        for (uint32_t p = 0; p < response->responses[t].partitions_count; p++) {
            const struct fetch_response_partition_data *part = &response->responses[t].partitions[p];

            assert(part->error_code == 0); /* neither is what was committed beyond the log's end */
            if (member->owned[part->partition_index])
                read_on(member, part->partition_index, &part->records);
        }
    if (!node_member_refused(member, err, 0))
        node_member_soon(member, 1, NODE_PAUSE_MS_MAX);
    if (err == ERR_OK)
        arena_deinit(&sim_call->arena);
}

void node_member_fetch(struct node_member *member)
{
    struct fetch_request request;
    struct fetch_request_fetch_topic topic;
    struct fetch_request_fetch_partition partitions[NODE_GROUP_PARTITIONS];

    fetch_request_init(&request);
    fetch_request_fetch_topic_init(&topic);
    request.max_wait_ms = 0;
    request.max_bytes = FETCH_BYTES;
    request.session_epoch = -1;
    request.topics = &topic;
    request.topics_count = 1;
    topic.topic_id = member->all->topic_id;
    topic.partitions = partitions;
    for (int32_t p = 0; p < NODE_GROUP_PARTITIONS; p++) {
        if (!member->owned[p])
            continue;
        fetch_request_fetch_partition_init(&partitions[topic.partitions_count]);
        partitions[topic.partitions_count].partition = p;
        partitions[topic.partitions_count].fetch_offset = member->positions[p];
        partitions[topic.partitions_count].partition_max_bytes = FETCH_BYTES;
        topic.partitions_count++;
    }
    node_member_call(member, &fetch_request_message, &request, &fetch_response_message, FETCH_VERSION, on_fetched);
}
