#include <stdlib.h>

#include <xxhash.h>

#include "base/mem.h"
#include "coordinator/classic_internal.h"
#include "coordinator/embedded.h"

enum { FIRST_OWNED = 16 };

struct owners {
    struct classic_owned *owned;
    uint32_t count;
    uint32_t room;
};

static int by_partition(const void *left, const void *right)
{
    const struct classic_owned *a = left;
    const struct classic_owned *b = right;

    return (a->partition > b->partition) - (a->partition < b->partition);
}

/* Static members keep what they are called through all restarts. */
static uint64_t owner_of(const struct classic_member *member)
{
    struct bytes name = member->instance_id.data != NULL ? member->instance_id : member->id;

    return XXH3_64bits(name.data, name.size);
}

static enum err take(struct owners *owners, const struct classic_member *member,
                     const struct consumer_protocol_assignment *assignment)
{
    for (uint32_t i = 0; i < assignment->assigned_partitions_count; i++) {
        struct bytes topic = assignment->assigned_partitions[i].topic;
        uint64_t hash = XXH3_64bits(topic.data, topic.size);

        for (uint32_t j = 0; j < assignment->assigned_partitions[i].partitions_count; j++) {
            uint32_t partition = (uint32_t)assignment->assigned_partitions[i].partitions[j];
            enum err err =
                mem_grow(&owners->owned, &owners->room, owners->count + 1, FIRST_OWNED, sizeof(*owners->owned));

            if (err != ERR_OK)
                return err;
            owners->owned[owners->count++] = (struct classic_owned){hash + partition, owner_of(member)};
        }
    }
    return ERR_OK;
}

/* False: these bytes are no assignment of the consumer protocol. */
static bool take_member(struct owners *owners, const struct classic_member *member)
{
    struct consumer_protocol_assignment assignment;
    struct arena arena;
    bool ok = false;

    if (member->assignment.size == 0)
        return true;
    arena_init(&arena, EMBEDDED_BYTES_MAX);
    ok = embedded_read_assignment(member->assignment, &arena, &assignment) == ERR_OK &&
         take(owners, member, &assignment) == ERR_OK;
    arena_deinit(&arena);
    return ok;
}

static int32_t compare(const struct classic_owned *before, uint32_t before_count, const struct owners *now)
{
    int32_t moved = 0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < now->count; i++) {
        while (at < before_count && before[at].partition < now->owned[i].partition)
            at++;
        if (at < before_count && before[at].partition == now->owned[i].partition &&
            before[at].owner != now->owned[i].owner)
            moved++;
    }
    return moved;
}

int32_t classic_note_owners(struct classic_group *classic)
{
    struct owners now = {0};
    bool known = bytes_equal(classic->protocol_type, BYTES_LITERAL("consumer"));
    int32_t moved = -1;
    uint32_t cursor = 0;
    void *value = NULL;

    while (known && map_next(&classic->members, &cursor, NULL, &value))
        known = take_member(&now, value);
    if (known) {
        if (now.count > 1)
            qsort(now.owned, now.count, sizeof(*now.owned), by_partition);
        if (!classic->owned_unreadable)
            moved = compare(classic->owned, classic->owned_count, &now);
    } else {
        mem_free(now.owned);
        now = (struct owners){0};
    }
    mem_free(classic->owned);
    classic->owned = now.owned;
    classic->owned_count = now.count;
    classic->owned_unreadable = !known;
    return moved;
}
