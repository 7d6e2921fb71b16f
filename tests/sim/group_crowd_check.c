/* What an answer must be, whoever hears it: looked at when it is decided. */
#include "base/assert.h"
#include "sim/group_coordinator_offsets.h"
#include "sim/group_crowd_internal.h"

enum { FETCH_VERSION_IDS = 10 };

/* ---- refusals ---- */

/* That a rebalance is under way is said to a member. */
static bool refuses(int16_t code)
{
    return code != 0 && code != err_wire(ERR_REBALANCE_IN_PROGRESS);
}

static bool commit_refused(const struct offset_commit_response *heard)
{
    for (uint32_t t = 0; t < heard->topics_count; t++)
        for (uint32_t p = 0; p < heard->topics[t].partitions_count; p++)
            if (!refuses(heard->topics[t].partitions[p].error_code))
                return false;
    return true;
}

static bool txn_commit_refused(const struct txn_offset_commit_response *heard)
{
    for (uint32_t t = 0; t < heard->topics_count; t++)
        for (uint32_t p = 0; p < heard->topics[t].partitions_count; p++)
            if (!refuses(heard->topics[t].partitions[p].error_code))
                return false;
    return true;
}

static bool is_refused(const struct crowd_call *call)
{
    switch (call->op.ask) {
    case ASK_JOIN_GROUP:
        return refuses(call->response.join.error_code);
    case ASK_SYNC_GROUP:
        return refuses(call->response.sync.error_code);
    case ASK_HEARTBEAT:
        return refuses(call->response.beat.error_code);
    case ASK_CONSUMER_HEARTBEAT:
        return refuses(call->response.consumer_beat.error_code);
    case ASK_LEAVE_GROUP:
        return refuses(call->response.leave.error_code) ||
               (call->response.leave.members_count == 1 && refuses(call->response.leave.members->error_code));
    case ASK_OFFSET_COMMIT:
        return commit_refused(&call->response.commit);
    case ASK_TXN_OFFSET_COMMIT:
        return txn_commit_refused(&call->response.txn_commit);
    case ASK_OFFSET_FETCH:
        return refuses(call->response.fetch.error_code);
    default:
        return true;
    }
}

/* ---- offsets ---- */

static void check_partition(const struct crowd_call *call, const struct offset_fetch_response_partitions *heard,
                            const struct offset_expected *expected, uint8_t life)
{
    bool other = expected->life != 0 && life != 0 && expected->life != life;

    if (expected->pending && call->op.require_stable) {
        assert(heard->error_code == err_wire(ERR_UNSTABLE_OFFSET_COMMIT) && heard->committed_offset == -1);
        return;
    }
    assert(heard->error_code == 0);
    assert(heard->committed_offset == (expected->stored && !other ? expected->offset : -1));
}

static uint32_t topic_number(const struct group_coordinator *coordinator, struct bytes name)
{
    uint32_t t = 0;

    while (t < COORDINATOR_TOPICS && !bytes_equal(coordinator->table[t].name, name))
        t++;
    assert(t < COORDINATOR_TOPICS);
    return t;
}

/* Of a group's offsets all are told that stand for the topic that has the name now, or had it last. */
static uint32_t count_all(const struct crowd_call *call, const struct offsets_expected *expected)
{
    const struct group_coordinator *coordinator = &call->crowd->coordinator;
    uint32_t count = 0;

    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++) {
        uint8_t life = group_coordinator_life(coordinator, t);

        for (uint32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++) {
            const struct offset_expected *one = &expected->of[t][p];
            bool other = one->life != 0 && life != 0 && one->life != life;

            count += one->stored && !other && (life != 0 || call->op.version < FETCH_VERSION_IDS);
        }
    }
    return count;
}

/* What is not there is answered for itself: who named it by its id asked when it still was. */
static bool is_unknown(const struct offset_fetch_response_topics *heard)
{
    return heard->partitions_count > 0 && heard->partitions->error_code == err_wire(ERR_UNKNOWN_TOPIC_ID);
}

static void check_fetch(const struct crowd_call *call)
{
    const struct offset_fetch_response_group *heard = &call->response.fetch;
    const struct group_coordinator *coordinator = &call->crowd->coordinator;
    struct offsets_expected expected;
    uint32_t count = 0;

    if (heard->error_code != 0)
        return;
    group_coordinator_expect(coordinator, call->op.group_id, &expected);
    for (uint32_t i = 0; i < heard->topics_count; i++) {
        const struct offset_fetch_response_topics *topic = &heard->topics[i];
        uint32_t t = 0;

        count += topic->partitions_count;
        if (is_unknown(topic)) {
            struct group_topic now = {0};

            assert(!coordinator->topics.by_id(&coordinator->topics, topic->topic_id, &now));
            continue;
        }
        t = topic_number(coordinator, topic->name);
        for (uint32_t j = 0; j < topic->partitions_count; j++)
            check_partition(call, &topic->partitions[j], &expected.of[t][topic->partitions[j].partition_index],
                            group_coordinator_life(coordinator, t));
    }
    if (call->request.fetch.topics == NULL)
        assert(count == count_all(call, &expected));
}

void crowd_check_answer(struct crowd_call *call)
{
    uint8_t kind = group_coordinator_is_consumer(&call->crowd->coordinator, call->op.group_id) ? REFUSED_BY_CONSUMER
                                                                                               : REFUSED_BY_CLASSIC;

    if (call->op.op.err != ERR_OK)
        return;
    if (call->op.ask == ASK_OFFSET_FETCH)
        check_fetch(call);
    if ((call->refused_by & kind) == 0)
        return;
    assert(is_refused(call));
    call->crowd->fenced++;
}
