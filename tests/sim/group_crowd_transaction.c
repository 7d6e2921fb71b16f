/* Commits in transactions (KIP-447): they count from the transaction's marker on, or never. Which transactions end how
 * is decided elsewhere; a consumer only commits one of which it knows that all of it was taken. */
#include "base/assert.h"
#include "base/mem.h"
#include "sim/group_crowd_internal.h"

enum {
    TXN_COMMIT_VERSION = 5,
    TXN_COMMIT_VERSION_IDS = 6,
    COMMITS_PERCENT = 75,
    ENDS_WITHIN_MS = 3000, /* where nobody asks for it */
};

/* One whose producer is gone. */
struct abandoned {
    struct group_crowd *crowd;
    int64_t producer_id;
    bool commits; /* it had asked for that */
    struct sim_event ends;
};

struct crowd_call *crowd_txn_commit_of(struct crowd_member *member, struct member_view *view, int64_t producer_id)
{
    bool by_ids = sim_chance(crowd_sim(member), 50);
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_TXN_OFFSET_COMMIT,
                                             by_ids ? TXN_COMMIT_VERSION_IDS : TXN_COMMIT_VERSION, member->group);
    struct txn_offset_commit_request *request = &call->request.txn_commit;

    txn_offset_commit_request_init(request);
    request->producer_id = producer_id;
    request->member_id = crowd_call_text(call, view->id);
    request->group_instance_id = crowd_instance(call, member);
    request->generation_id_or_member_epoch = view->generation;
    request->topics = crowd_call_array(call, COORDINATOR_TOPICS, sizeof(*request->topics));
    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++) {
        struct txn_offset_commit_request_topic *topic = &request->topics[request->topics_count];

        txn_offset_commit_request_topic_init(topic);
        topic->name = member->crowd->coordinator.table[t].name;
        topic->topic_id = group_coordinator_topic_id(view->lives[t]);
        topic->partitions = crowd_call_array(call, COORDINATOR_PARTITIONS_MAX, sizeof(*topic->partitions));
        for (int32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++) {
            struct txn_offset_commit_request_partition *partition = &topic->partitions[topic->partitions_count];

            if (!crowd_commits(member, view, by_ids, t, p))
                continue;
            view->positions[t][p] += (int64_t)sim_draw(crowd_sim(member), 10);
            txn_offset_commit_request_partition_init(partition);
            partition->partition_index = p;
            partition->committed_offset = view->positions[t][p];
            topic->partitions_count++;
        }
        if (topic->partitions_count > 0)
            request->topics_count++;
    }
    return call;
}

struct crowd_call *crowd_txn_commit(struct crowd_member *member)
{
    if (member->producer == 0) {
        member->producer = group_coordinator_begin_transaction(&member->crowd->coordinator);
        member->producer_failed = false;
        member->crowd->transactions++;
    }
    return crowd_txn_commit_of(member, &member->now, member->producer);
}

void crowd_end_transaction(struct crowd_member *member)
{
    bool commits = !member->producer_failed && sim_chance(crowd_sim(member), COMMITS_PERCENT);
    int64_t producer_id = member->producer;

    member->producer = 0;
    if (!commits) { /* it goes on from what is committed */
        memset(member->now.positions, 0xff, sizeof(member->now.positions));
        member->fresh = true;
    }
    crowd_member_soon(member, CROWD_RETRY_MS_MAX);
    group_coordinator_end_transaction(&member->crowd->coordinator, producer_id, commits);
}

static void abandoned_ends(struct sim_event *event)
{
    struct abandoned *abandoned = (struct abandoned *)(void *)((char *)event - offsetof(struct abandoned, ends));
    struct group_crowd *crowd = abandoned->crowd;

    crowd->abandoned--;
    group_coordinator_end_transaction(&crowd->coordinator, abandoned->producer_id, abandoned->commits);
    mem_free(abandoned);
}

static void end_later(struct group_crowd *crowd, int64_t producer_id, bool commits)
{
    struct abandoned *abandoned = mem_calloc(1, sizeof(*abandoned));

    assert(abandoned != NULL);
    *abandoned = (struct abandoned){
        .crowd = crowd, .producer_id = producer_id, .commits = commits, .ends = {.run = abandoned_ends}};
    crowd->abandoned++;
    sim_event_add(&crowd->sim, &abandoned->ends,
                  crowd->sim.mono_ns + (int64_t)sim_draw(&crowd->sim, (uint64_t)(ENDS_WITHIN_MS * NS_PER_MS)));
}

void crowd_abort_later(struct group_crowd *crowd, int64_t producer_id)
{
    end_later(crowd, producer_id, false);
}

void crowd_abandon_transaction(struct crowd_member *member)
{
    bool asks = member->call != NULL && member->call->op.ask == ASK_TXN_OFFSET_COMMIT;

    if (member->producer == 0)
        return;
    end_later(member->crowd, member->producer, !member->producer_failed && !asks && sim_chance(crowd_sim(member), 50));
    member->producer = 0;
}

void crowd_hear_txn_commit(struct crowd_member *member, struct crowd_call *call)
{
    const struct txn_offset_commit_response *heard = &call->response.txn_commit;
    int16_t code = 0;

    for (uint32_t t = 0; call->op.op.err == ERR_OK && t < heard->topics_count; t++)
        for (uint32_t p = 0; p < heard->topics[t].partitions_count; p++) {
            int16_t each = heard->topics[t].partitions[p].error_code;

            if (each == err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION) || each == err_wire(ERR_UNKNOWN_TOPIC_ID))
                continue; /* deleted meanwhile */
            code = each;
            member->crowd->commits += each == 0;
        }
    if (member->modern && code == err_wire(ERR_ILLEGAL_GENERATION))
        code = err_wire(ERR_STALE_MEMBER_EPOCH); /* what it is called here */
    member->producer_failed = member->producer_failed || call->op.op.err != ERR_OK || code != 0;
    if (!crowd_refused(member, call, code))
        crowd_member_soon(member, CROWD_BEAT_MS_MAX);
}
