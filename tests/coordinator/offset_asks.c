#include "coordinator/offset_asks.h"

#include <check.h>

#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_delete.h"

enum { OFFSET = 7, COMMIT_VERSION = 8, DELETE_VERSION = 0 };

/* The answer; the request may go then. */
static const void *ask(struct group_world *world, const char *label, enum group_ask kind, int16_t version,
                       const char *group, const void *request)
{
    const struct world_call *call = world_ask(world, label, kind, version, group, request);

    ck_assert(call->answered);
    ck_assert_int_eq(call->op.op.err, ERR_OK);
    return call->response;
}

int offset_commit_as(struct group_world *world, const char *group, const char *topic, int32_t partition,
                     const char *member, int32_t generation, int16_t version)
{
    struct offset_commit_request request;
    struct offset_commit_request_topic of;
    struct offset_commit_request_partition at;
    const struct offset_commit_response *response = NULL;

    offset_commit_request_init(&request);
    offset_commit_request_topic_init(&of);
    offset_commit_request_partition_init(&at);
    request.member_id = bytes_of_text(member);
    request.generation_id_or_member_epoch = generation;
    request.topics = &of;
    request.topics_count = 1;
    of.name = bytes_of_text(topic);
    of.partitions = &at;
    of.partitions_count = 1;
    at.partition_index = partition;
    at.committed_offset = OFFSET;
    response = ask(world, "c", ASK_OFFSET_COMMIT, version, group, &request);
    return response->topics[0].partitions[0].error_code;
}

int offset_commit(struct group_world *world, const char *group, const char *topic, int32_t partition)
{
    return offset_commit_as(world, group, topic, partition, "", -1, COMMIT_VERSION);
}

int offset_delete(struct group_world *world, const char *group, const char *topic, int32_t partition)
{
    struct offset_delete_request request;
    struct offset_delete_request_topic of;
    struct offset_delete_request_partition at;
    const struct offset_delete_response *response = NULL;

    offset_delete_request_init(&request);
    offset_delete_request_topic_init(&of);
    offset_delete_request_partition_init(&at);
    request.topics = &of;
    request.topics_count = 1;
    of.name = bytes_of_text(topic);
    of.partitions = &at;
    of.partitions_count = 1;
    at.partition_index = partition;
    response = ask(world, "d", ASK_OFFSET_DELETE, DELETE_VERSION, group, &request);
    return response->error_code != 0 ? response->error_code : response->topics[0].partitions[0].error_code;
}
