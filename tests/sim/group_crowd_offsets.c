/* What members commit, and where they go on from: the same in both protocols. */
#include "base/assert.h"
#include "sim/group_crowd_internal.h"

enum {
    COMMIT_VERSION = 8,
    COMMIT_VERSION_EPOCHS = 9,
    COMMIT_VERSION_IDS = 10,
    FETCH_VERSION = 8,
    FETCH_VERSION_MEMBERS = 9,
    FETCH_VERSION_IDS = 10,
    GOES_ON_PERCENT = 25,
};

/* A stale one under the same id is taken where the member has had the partition all along: it must not go back then.
 * With its epoch of now a member may commit for any partition, as with Apache Kafka: a client does not.
 * By name nobody commits for a topic that came under it since. */
bool crowd_commits(const struct crowd_member *member, const struct member_view *view, bool by_ids, uint32_t topic,
                   int32_t partition)
{
    int64_t now = member->now.owned[topic][partition] ? member->now.positions[topic][partition] : -1;

    if (!view->owned[topic][partition] || view->positions[topic][partition] < 0)
        return false;
    if (!by_ids && view->lives[topic] != group_coordinator_life(&member->crowd->coordinator, topic))
        return false;
    if (view == &member->now || strcmp(view->id, member->now.id) != 0)
        return true;
    if (view->generation == member->now.generation && member->state == MEMBER_IN)
        return false;
    if (now < 0) /* or it does not know where it is since a transaction was aborted */
        return !member->transactional || !member->now.owned[topic][partition];
    return member->state != MEMBER_IN && now <= view->positions[topic][partition];
}

struct crowd_call *crowd_commit_of(struct crowd_member *member, struct member_view *view)
{
    int16_t version = !member->modern                     ? COMMIT_VERSION
                      : sim_chance(crowd_sim(member), 50) ? COMMIT_VERSION_IDS
                                                          : COMMIT_VERSION_EPOCHS;
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_OFFSET_COMMIT, version, member->group);
    struct offset_commit_request *request = &call->request.commit;

    offset_commit_request_init(request);
    request->member_id = crowd_call_text(call, view->id);
    request->group_instance_id = crowd_instance(call, member);
    request->generation_id_or_member_epoch = view->generation;
    request->topics = crowd_call_array(call, COORDINATOR_TOPICS, sizeof(*request->topics));
    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++) {
        struct offset_commit_request_topic *topic = &request->topics[request->topics_count];

        offset_commit_request_topic_init(topic);
        topic->name = member->crowd->coordinator.table[t].name;
        topic->topic_id = group_coordinator_topic_id(view->lives[t]);
        topic->partitions = crowd_call_array(call, COORDINATOR_PARTITIONS_MAX, sizeof(*topic->partitions));
        for (int32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++) {
            struct offset_commit_request_partition *partition = &topic->partitions[topic->partitions_count];

            if (!crowd_commits(member, view, version >= COMMIT_VERSION_IDS, t, p))
                continue;
            view->positions[t][p] += (int64_t)sim_draw(crowd_sim(member), 10);
            offset_commit_request_partition_init(partition);
            partition->partition_index = p;
            partition->committed_offset = view->positions[t][p];
            topic->partitions_count++;
        }
        if (topic->partitions_count > 0)
            request->topics_count++;
    }
    return call;
}

void crowd_name_topics(struct crowd_call *call, bool by_ids)
{
    struct offset_fetch_request_group *request = &call->request.fetch;
    const struct group_coordinator *coordinator = &call->crowd->coordinator;

    request->topics = crowd_call_array(call, COORDINATOR_TOPICS, sizeof(*request->topics));
    request->topics_count = 0;
    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++) {
        struct offset_fetch_request_topics *topic = &request->topics[request->topics_count];

        if (by_ids && coordinator->table[t].partition_count == 0)
            continue;
        *topic = (struct offset_fetch_request_topics){.name = coordinator->table[t].name};
        topic->topic_id = by_ids ? coordinator->table[t].id : (struct uuid){{0}};
        topic->partition_indexes =
            crowd_call_array(call, COORDINATOR_PARTITIONS_MAX, sizeof(*topic->partition_indexes));
        topic->partition_indexes_count = COORDINATOR_PARTITIONS_MAX;
        for (int32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++)
            topic->partition_indexes[p] = p;
        request->topics_count++;
    }
}

struct crowd_call *crowd_fetch_of(struct crowd_member *member, const struct member_view *view)
{
    bool by_ids = sim_chance(crowd_sim(member), 50);
    int16_t version = !view->modern ? FETCH_VERSION : by_ids ? FETCH_VERSION_IDS : FETCH_VERSION_MEMBERS;
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_OFFSET_FETCH, version, member->group);
    struct offset_fetch_request_group *request = &call->request.fetch;

    offset_fetch_request_group_init(request);
    request->group_id = call->op.group_id;
    if (view->modern) {
        request->member_id = crowd_call_text(call, view->id);
        request->member_epoch = view->generation;
    }
    crowd_name_topics(call, version >= FETCH_VERSION_IDS);
    call->op.require_stable = true; /* else somebody might go on before what a transaction is about to commit */
    return call;
}

void crowd_fetch(struct crowd_member *member)
{
    member->now.modern = member->modern;
    crowd_ask(member, crowd_fetch_of(member, &member->now));
}

void crowd_commit(struct crowd_member *member)
{
    bool goes_on = member->producer == 0 || (!member->producer_failed && crowd_chance(member, GOES_ON_PERCENT));

    if (!goes_on)
        crowd_end_transaction(member);
    else if (member->transactional)
        crowd_ask(member, crowd_txn_commit(member));
    else
        crowd_ask(member, crowd_commit_of(member, &member->now));
}

void crowd_hear_commit(struct crowd_member *member, struct crowd_call *call)
{
    const struct offset_commit_response *heard = &call->response.commit;
    int16_t code = 0;

    for (uint32_t t = 0; call->op.op.err == ERR_OK && t < heard->topics_count; t++)
        for (uint32_t p = 0; p < heard->topics[t].partitions_count; p++) {
            int16_t each = heard->topics[t].partitions[p].error_code;

            if (each == err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION) || each == err_wire(ERR_UNKNOWN_TOPIC_ID))
                continue; /* deleted meanwhile */
            code = each;
            member->crowd->commits += each == 0;
        }
    if (!crowd_refused(member, call, code))
        crowd_member_soon(member, CROWD_BEAT_MS_MAX);
}

static bool is_unstable(const struct offset_fetch_response_group *heard)
{
    for (uint32_t i = 0; i < heard->topics_count; i++)
        for (uint32_t j = 0; j < heard->topics[i].partitions_count; j++)
            if (heard->topics[i].partitions[j].error_code == err_wire(ERR_UNSTABLE_OFFSET_COMMIT))
                return true;
    return false;
}

void crowd_hear_fetch(struct crowd_member *member, struct crowd_call *call)
{
    const struct offset_fetch_response_group *heard = &call->response.fetch;
    struct group_coordinator *coordinator = &member->crowd->coordinator;

    if (call->op.op.err != ERR_OK || heard->error_code != 0) {
        crowd_member_soon(member, CROWD_RETRY_MS_MAX);
        return;
    }
    if (is_unstable(heard)) { /* a transaction is about to end */
        crowd_member_soon(member, CROWD_BEAT_MS_MAX);
        return;
    }
    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++)
        for (uint32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++)
            member->now.positions[t][p] = 0;
    for (uint32_t i = 0; i < heard->topics_count; i++)
        for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++)
            for (uint32_t j = 0; j < heard->topics[i].partitions_count; j++) {
                const struct offset_fetch_response_partitions *partition = &heard->topics[i].partitions[j];

                if (bytes_equal(heard->topics[i].name, coordinator->table[t].name) && partition->committed_offset >= 0)
                    member->now.positions[t][partition->partition_index] = partition->committed_offset;
            }
    member->fresh = false;
    crowd_member_soon(member, CROWD_BEAT_MS_MAX);
}
