/* An administrator of groups: looks at offsets, sets them back (possible only while a group is empty), deletes them, or
 * the group. */
#include "base/assert.h"
#include "sim/group_crowd_internal.h"

enum { COMMIT_VERSION = 8, FETCH_VERSION = 8, FETCH_VERSION_IDS = 10, DELETE_VERSION = 2, OFFSET_DELETE_VERSION = 0 };

static void reset_offsets(struct group_crowd *crowd, uint32_t group)
{
    struct crowd_call *call = crowd_call_new(crowd, NULL, ASK_OFFSET_COMMIT, COMMIT_VERSION, group);
    struct offset_commit_request *request = &call->request.commit;

    offset_commit_request_init(request);
    request->topics = crowd_call_array(call, 1, sizeof(*request->topics));
    request->topics_count = 1;
    offset_commit_request_topic_init(request->topics);
    request->topics->name = crowd->coordinator.table[0].name;
    request->topics->partitions = crowd_call_array(call, 1, sizeof(*request->topics->partitions));
    request->topics->partitions_count = 1;
    offset_commit_request_partition_init(request->topics->partitions);
    call->reset = true;
    crowd_call_send(call);
}

void crowd_look_at_offsets(struct group_crowd *crowd, uint32_t group)
{
    bool by_ids = sim_chance(&crowd->sim, 50);
    struct crowd_call *call =
        crowd_call_new(crowd, NULL, ASK_OFFSET_FETCH, by_ids ? FETCH_VERSION_IDS : FETCH_VERSION, group);

    offset_fetch_request_group_init(&call->request.fetch);
    call->request.fetch.group_id = call->op.group_id;
    call->request.fetch.topics = NULL; /* all */
    if (sim_chance(&crowd->sim, 50))
        crowd_name_topics(call, by_ids);
    call->op.require_stable = sim_chance(&crowd->sim, 50);
    crowd_call_send(call);
}

static void delete_offsets(struct group_crowd *crowd, uint32_t group)
{
    struct crowd_call *call = crowd_call_new(crowd, NULL, ASK_OFFSET_DELETE, OFFSET_DELETE_VERSION, group);
    struct offset_delete_request *request = &call->request.offset_delete;
    struct offset_delete_request_topic *topic = NULL;

    offset_delete_request_init(request);
    request->group_id = call->op.group_id;
    request->topics = crowd_call_array(call, 1, sizeof(*request->topics));
    request->topics_count = 1;
    topic = request->topics;
    *topic = (struct offset_delete_request_topic){
        .name = crowd->coordinator.table[sim_draw(&crowd->sim, COORDINATOR_TOPICS)].name,
        .partitions = crowd_call_array(call, COORDINATOR_PARTITIONS_MAX, sizeof(*topic->partitions)),
        .partitions_count = COORDINATOR_PARTITIONS_MAX};
    for (int32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++)
        topic->partitions[p] = (struct offset_delete_request_partition){.partition_index = p};
    crowd_call_send(call);
}

void crowd_administer(struct group_crowd *crowd)
{
    uint32_t group = (uint32_t)sim_draw(&crowd->sim, CROWD_GROUPS);

    switch (sim_draw(&crowd->sim, 6)) {
    case 0:
        reset_offsets(crowd, group);
        break;
    case 1:
        delete_offsets(crowd, group);
        break;
    case 2:
        crowd_call_send(crowd_call_new(crowd, NULL, ASK_DELETE_GROUP, DELETE_VERSION, group));
        break;
    default:
        crowd_look_at_offsets(crowd, group);
        break;
    }
}
