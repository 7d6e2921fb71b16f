/* group_crowd_internal: what the files of the crowd share (group_crowd.h). */
#ifndef OTTLA_TESTS_SIM_GROUP_CROWD_INTERNAL_H
#define OTTLA_TESTS_SIM_GROUP_CROWD_INTERNAL_H

#include "sim/group_crowd_call.h"

#define NS_PER_MS INT64_C(1000000)

enum {
    CROWD_BEAT_MS_MAX = 1500,
    CROWD_RETRY_MS_MAX = 200,
    CROWD_COMES_BACK_MS_MAX = 10000,
    CROWD_STALL_MS_MAX = 20000,
};

/* group_crowd_call.c */
struct bytes crowd_group_id(uint32_t group);

/* group_crowd.c */
static inline struct sim *crowd_sim(struct crowd_member *member)
{
    return &member->crowd->sim;
}
/* Of trouble: never, once that is over. */
bool crowd_chance(struct crowd_member *member, uint32_t percent);
/* Null: it is dynamic. */
struct bytes crowd_instance(struct crowd_call *call, const struct crowd_member *member);
/* What it subscribes to, as its metadata of a protocol. */
struct bytes crowd_subscription(struct crowd_member *member, struct crowd_call *call);
/* Asks, and waits for the answer so long as it has patience. */
void crowd_ask(struct crowd_member *member, struct crowd_call *call);
/* It has to: a commit is no heartbeat in a group of the consumer protocol. */
bool crowd_must_beat(const struct crowd_member *member);
/* A coordinator has said that it is a member, in that generation, and what it said is not lost. */
void crowd_is_sure(struct crowd_member *member);
/* What it knew of a generation in which it was a member, for crowd_say_stale. */
void crowd_remember(struct crowd_member *member);
/* It is to join again, as another member if it forgets its id. */
void crowd_go_out(struct crowd_member *member, bool forget_id);
/* It is gone, and comes back. */
void crowd_vanish(struct crowd_member *member);
/* True: the call, or its answer, which says that code, was an error, and is dealt with as a client does. */
bool crowd_refused(struct crowd_member *member, const struct crowd_call *call, int16_t code);
/* It was told that it owns that partition, of the group's generation or epoch that it is in: nobody else may have been
 * told so. */
void crowd_check_owner(struct crowd_member *member, const struct crowd_call *call, uint32_t topic, int32_t partition);
/* It does not read from topics that are gone. */
void crowd_forget_topics(struct crowd_member *member);

/* group_crowd_lead.c */
/* The share of each of whom the answer to JoinGroup names; some may be forgotten. */
void crowd_lead(struct crowd_member *member, const struct join_group_response *heard, struct crowd_call *call);
/* What such a share says. */
void crowd_read_share(struct crowd_member *member, const struct crowd_call *call, struct bytes bytes);
/* A message behind its version. */
struct bytes crowd_encode(struct crowd_call *call, const struct message_type *type, int16_t version,
                          const void *message);

/* group_crowd_consumer.c */
void crowd_consumer_start(struct crowd_member *member); /* its process */
void crowd_consumer_join(struct crowd_member *member);
void crowd_consumer_act(struct crowd_member *member); /* it is in */
void crowd_consumer_hear(struct crowd_member *member, struct crowd_call *call);
/* An answer is lost: what it was told before may be another by now. */
void crowd_consumer_lost(struct crowd_member *member);
void crowd_consumer_subscribe(struct crowd_member *member);

/* Another heartbeat than one of now. */
struct crowd_call *crowd_consumer_beat(struct crowd_member *member, int32_t epoch);

/* group_crowd_offsets.c */
/* What it has read since: all of its partitions, further on. */
void crowd_commit(struct crowd_member *member);
struct crowd_call *crowd_commit_of(struct crowd_member *member, struct member_view *view);
/* Whether that view of the member is to commit for the partition. */
bool crowd_commits(const struct crowd_member *member, const struct member_view *view, bool by_ids, uint32_t topic,
                   int32_t partition);
/* Where to go on from. */
void crowd_fetch(struct crowd_member *member);
struct crowd_call *crowd_fetch_of(struct crowd_member *member, const struct member_view *view);
/* All partitions that there could be, by names or (by_ids) by the ids of topics that are there. */
void crowd_name_topics(struct crowd_call *call, bool by_ids);
void crowd_hear_commit(struct crowd_member *member, struct crowd_call *call);
void crowd_hear_fetch(struct crowd_member *member, struct crowd_call *call);

/* group_crowd_transaction.c */
/* Commits the one that is open, or aborts it; asks nothing. */
void crowd_end_transaction(struct crowd_member *member);
struct crowd_call *crowd_txn_commit_of(struct crowd_member *member, struct member_view *view, int64_t producer_id);
/* The first of a transaction begins it. */
struct crowd_call *crowd_txn_commit(struct crowd_member *member);
void crowd_hear_txn_commit(struct crowd_member *member, struct crowd_call *call);
/* It goes, and whoever coordinates transactions ends what it had open. */
void crowd_abandon_transaction(struct crowd_member *member);
void crowd_abort_later(struct group_crowd *crowd, int64_t producer_id);

/* group_crowd_stale.c */
/* Something of a generation that is over, or of an id that is: whoever hears it has to see that. */
void crowd_say_stale(struct crowd_member *member);

/* group_crowd_check.c: at the end of the step that answers it */
void crowd_check_answer(struct crowd_call *call);

#endif
