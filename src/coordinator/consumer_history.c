#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "coordinator/consumer_internal.h"

/* One that comes back under its instance id is the same; 0 is nobody. */
static uint64_t hash_member(const struct consumer_member *member)
{
    struct bytes name = member->about.instance_id.data != NULL ? member->about.instance_id : member->id;

    return XXH3_64bits(name.data, name.size) | 1;
}

void consumer_rebalance_begin(struct consumer_group *consumer, const struct step *step, enum group_cause cause,
                              const struct consumer_member *member, struct bytes reason)
{
    struct rebalance_cause why = {.cause = cause, .reason = reason};

    if (member != NULL) {
        why.member_id = member->id;
        why.client_id = member->about.client_id;
        why.client_host = member->about.client_host;
    }
    consumer->rebalancing = true;
    group_history_begin(consumer->group, step, &why);
}

/* Whether any of the members from one place of the map to another is on its way still; remembers its place. */
static bool any_unsettled(struct consumer_group *consumer, uint32_t from, uint32_t to)
{
    void *value = NULL;

    for (uint32_t place = from; from < to && map_next(&consumer->members, &from, NULL, &value); place = from)
        if (((struct consumer_member *)value)->subscribed && !consumer_is_reconciled(value)) {
            consumer->unsettled = place;
            return true;
        }
    return false;
}

/* Every heartbeat of a rebalance asks. The search goes on where it ended, since members heartbeat in the order in which
 * they joined, as a rule: from the first one on, all heartbeats of a group would take the square of its members. */
static bool is_settled(struct consumer_group *consumer)
{
    if (consumer->member_count > 0 && consumer->epoch > consumer->target_epoch)
        return false;
    return !any_unsettled(consumer, consumer->unsettled, UINT32_MAX) &&
           !any_unsettled(consumer, 0, consumer->unsettled);
}

/* Counts the partitions that another has than before, or that nobody has any more; and remembers who has them now.
 * Without memory the count is unknown. */
static int32_t count_moved(struct consumer_group *consumer)
{
    int32_t moved = 0;
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&consumer->members, &cursor, NULL, &value)) {
        const struct consumer_member *member = value;
        uint64_t hash = member->subscribed ? hash_member(member) : 0;

        for (uint32_t i = 0; hash != 0 && i < member->assigned.count; i++) {
            const struct partition_item *item = &member->assigned.items[i];
            struct consumer_owners *owners = map_get(&consumer->owners, bytes_of(item->topic.bytes, UUID_BYTES));
            uint32_t room = 0;

            if (owners == NULL || (uint32_t)item->partition >= owners->epoch_room)
                continue; /* of two owners, as no log should have them, one gave it back */
            room = owners->had_room;
            if (mem_grow(&owners->had, &owners->had_room, owners->epoch_room, owners->epoch_room,
                         sizeof(*owners->had)) != ERR_OK)
                return -1;
            for (uint32_t j = room; j < owners->had_room; j++)
                owners->had[j] = 0;
            moved += owners->had[item->partition] != hash;
            owners->had[item->partition] = hash;
        }
    }
    for (cursor = 0; map_next(&consumer->owners, &cursor, NULL, &value);) {
        struct consumer_owners *owners = value;

        for (uint32_t i = 0; i < owners->had_room; i++)
            if (owners->had[i] != 0 && owners->epochs[i] == PARTITION_FREE) {
                owners->had[i] = 0;
                moved++;
            }
    }
    consumer_owners_settle(consumer);
    return moved;
}

void consumer_rebalance_settle(struct consumer_group *consumer, const struct step *step)
{
    if (!consumer->rebalancing || !is_settled(consumer))
        return;
    consumer->rebalancing = false;
    group_history_end(consumer->group, step, consumer->epoch, consumer->member_count, count_moved(consumer));
}

void consumer_rebalance_forget(struct consumer_group *consumer)
{
    (void)count_moved(consumer);
}
