#include "member.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void owners_change(struct group *group, const struct member *member, int by)
{
    for (uint32_t i = 0; i < member->owned_count; i++) {
        uint16_t *owners = &group->owners[member->owned[i]];

        group->once -= *owners == 1;
        *owners = (uint16_t)(*owners + by);
        group->once += *owners == 1;
        group->overlaps += by > 0 && *owners == 2;
    }
}

bool group_own(struct member *member, const int32_t *partitions, uint32_t count)
{
    struct group *group = member->group;

    if (count == member->owned_count &&
        (count == 0 || memcmp(partitions, member->owned, count * sizeof(*partitions)) == 0))
        return false;
    owners_change(group, member, -1);
    free(member->owned);
    member->owned = NULL;
    member->owned_count = count;
    if (count > 0) {
        member->owned = malloc(count * sizeof(*partitions));
        memcpy(member->owned, partitions, count * sizeof(*partitions));
    }
    for (uint32_t i = 0; i < count; i++) {
        if (partitions[i] < 0 || (uint32_t)partitions[i] >= group->partition_count)
            bench_die(group->name, "was given a partition that its topic has not");
    }
    owners_change(group, member, 1);
    group->changed_ns = bench_now_ns();
    return true;
}

bool group_settled(const struct group *group)
{
    int32_t epoch = -1;
    uint32_t least = UINT32_MAX, most = 0;

    if (group->once != group->partition_count)
        return false;
    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct member *member = &group->members[i];

        if (member->state == MEMBER_GONE)
            continue;
        if (member->state != MEMBER_STABLE || member->leaves || (epoch != -1 && member->epoch != epoch))
            return false;
        epoch = member->epoch;
        least = member->owned_count < least ? member->owned_count : least;
        most = member->owned_count > most ? member->owned_count : most;
    }
    return most - least <= 1;
}

void group_begin(struct group *group, const char *event)
{
    if (group->event != NULL)
        bench_die(group->name, "is not settled yet");
    group->event = event;
    group->began_ns = group->changed_ns = bench_now_ns();
    group->heartbeat_max_ns = 0;
    group->requests = group->overlaps = group->fenced = 0;
}

void group_report(struct group *group)
{
    uint32_t least = UINT32_MAX, most = 0;
    int32_t epoch = 0;

    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct member *member = &group->members[i];

        if (member->state == MEMBER_GONE)
            continue;
        epoch = member->epoch;
        least = member->owned_count < least ? member->owned_count : least;
        most = member->owned_count > most ? member->owned_count : most;
    }
    printf("{\"group\": \"%s\", \"event\": \"%s\", \"members\": %" PRIu32
           ", \"assigned_ms\": %.1f, \"settled_ms\": %.1f"
           ", \"epoch\": %" PRId32 ", \"least\": %" PRIu32 ", \"most\": %" PRIu32 ", \"overlaps\": %" PRIu32
           ", \"fenced\": %" PRIu32 ", \"requests\": %" PRIu32 ", \"heartbeat_max_ms\": %.2f}\n",
           group->name, group->event, group->live_count, (double)(group->changed_ns - group->began_ns) / 1e6,
           (double)(bench_now_ns() - group->began_ns) / 1e6, epoch, least, most, group->overlaps, group->fenced,
           group->requests, (double)group->heartbeat_max_ns / 1e6);
    fflush(stdout);
    group->event = NULL;
}

void group_explain(const struct group *group, char *text, size_t size)
{
    uint32_t states[MEMBER_GONE + 1] = {0};
    int32_t first = INT32_MAX, last = 0;

    for (uint32_t i = 0; i < group->member_count; i++) {
        const struct member *member = &group->members[i];

        states[member->state]++;
        if (member->state != MEMBER_GONE) {
            first = member->epoch < first ? member->epoch : first;
            last = member->epoch > last ? member->epoch : last;
        }
    }
    snprintf(text, size,
             "%s %s: %" PRIu32 " of %" PRIu32 " partitions owned once; joining %" PRIu32 ", syncing %" PRIu32
             ", stable %" PRIu32 ", leaving %" PRIu32 ", gone %" PRIu32 "; epochs %" PRId32 " to %" PRId32,
             group->name, group->event, group->once, group->partition_count, states[MEMBER_JOINING],
             states[MEMBER_SYNCING], states[MEMBER_STABLE], states[MEMBER_LEAVING], states[MEMBER_GONE], first, last);
}
