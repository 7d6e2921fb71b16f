/* Groups in trouble: members of all kinds (group_crowd.h), a coordinator that dies and comes back, topics that grow, go
 * and come again. When the trouble ends, each group becomes stable: all members of it in one generation, each partition
 * of what they subscribe to with one of them. */
#include <stdio.h>

#include "base/assert.h"
#include "sim/group_crowd_internal.h"

enum {
    TROUBLE_MS = 60000,
    TROUBLE_EVERY_MS = 1500,
    LAST_TO_COME_MS = 25000,
    SETTLE_MS_MAX = 120000,
    CHANGES = 2,
    DIES_PERCENT = 40,
    /* A consumer's session, with whose end the group becomes a classic one; a rebalance that waits for a static member;
     * that member's session, which begins anew with the generation (as with Apache Kafka); a rebalance. */
    DEATH_MS_MAX = 7000 + 8000 + 8000 + 4000,
    LAST_LOOK_MS = 1000,
    FAIL_WITHIN_RECORDS = 12,
    WALL_MS = 1000000000,
};

static struct group_crowd *of_trouble(struct sim_event *event)
{
    return (struct group_crowd *)(void *)((char *)event - offsetof(struct group_crowd, trouble));
}

static void change_topic(struct group_crowd *crowd)
{
    uint32_t topic = (uint32_t)sim_draw(&crowd->sim, COORDINATOR_TOPICS);
    uint32_t partitions = crowd->coordinator.table[topic].partition_count;

    if (partitions > 0 && (partitions == COORDINATOR_PARTITIONS_MAX || sim_chance(&crowd->sim, 30)))
        partitions = 0;
    else
        partitions += 1 + (uint32_t)sim_draw(&crowd->sim, COORDINATOR_PARTITIONS_MAX - partitions);
    group_coordinator_topic(&crowd->coordinator, topic, partitions);
}

static void trouble(struct sim_event *event)
{
    struct group_crowd *crowd = of_trouble(event);
    struct sim *sim = &crowd->sim;

    switch (sim_draw(sim, 10)) {
    case 0:
        group_coordinator_stop(&crowd->coordinator, true);
        break;
    case 1:
        group_coordinator_stop(&crowd->coordinator, false);
        break;
    case 2:
        crowd->coordinator.fail_in = 1 + (uint32_t)sim_draw(sim, FAIL_WITHIN_RECORDS);
        break;
    case 3:
        change_topic(crowd);
        break;
    case 4:
    case 5:
        crowd_administer(crowd);
        break;
    default:
        break;
    }
    if (!crowd->over)
        sim_event_add(sim, &crowd->trouble,
                      sim->mono_ns + (int64_t)sim_draw(sim, (uint64_t)(TROUBLE_EVERY_MS * NS_PER_MS)));
}

/* ---- when it is over ---- */

/* Whether the group's members are all in, in one generation, and what they subscribe to is theirs. */
static bool is_stable(const struct group_crowd *crowd, uint32_t group)
{
    bool owned[COORDINATOR_TOPICS][COORDINATOR_PARTITIONS_MAX] = {0};
    uint32_t members = 0;
    uint32_t topics = 0;
    int32_t generation = -1;
    /* A static leader that came back before v9 does not know that it leads (KIP-814). */
    bool led = group_coordinator_assigned(&crowd->coordinator, crowd_group_id(group));

    for (uint32_t i = 0; i < CROWD_MEMBERS; i++) {
        const struct crowd_member *member = &crowd->members[i];

        if (member->group != group || member->state == MEMBER_GONE)
            continue;
        if (member->state != MEMBER_IN || (generation != -1 && member->now.generation != generation) ||
            (member->modern && !member->reconciled))
            return false;
        generation = member->now.generation;
        members++;
        topics |= member->topics;
        led = led || member->seen_version >= 0;
        for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++)
            for (uint32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++) {
                assert(!member->now.owned[t][p] || !owned[t][p]);
                owned[t][p] = owned[t][p] || member->now.owned[t][p];
            }
    }
    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++)
        for (uint32_t p = 0; p < crowd->coordinator.table[t].partition_count; p++)
            if (led && (topics & (1u << t)) && !owned[t][p])
                return false;
    return members == group_coordinator_member_count(&crowd->coordinator, crowd_group_id(group));
}

static bool all_stable(void *context)
{
    const struct group_crowd *crowd = context;

    for (uint32_t group = 0; group < CROWD_GROUPS; group++)
        if (!is_stable(crowd, group))
            return false;
    return crowd->coordinator.groups != NULL;
}

static void print_members(const struct group_crowd *crowd)
{
    for (uint32_t i = 0; i < CROWD_MEMBERS; i++) {
        const struct crowd_member *member = &crowd->members[i];

        printf("  %s of g%u%s: state %d%s, generation %d, id %s, instance %s, topics %x, owns", member->label,
               member->group, member->modern ? " (consumer)" : "", (int)member->state,
               member->modern && !member->reconciled ? " (gives back)" : "", member->now.generation, member->now.id,
               member->instance, member->topics);
        for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++)
            for (uint32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++)
                if (member->now.owned[t][p])
                    printf(" t%u/%u", t, p);
        printf("\n");
    }
    for (uint32_t group = 0; group < CROWD_GROUPS; group++)
        printf("  g%u has %u members\n", group,
               group_coordinator_member_count(&crowd->coordinator, crowd_group_id(group)));
    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++)
        printf("  t%u has %u partitions\n", t, crowd->coordinator.table[t].partition_count);
    fflush(stdout);
}

static bool never(void *context)
{
    (void)context;
    return false;
}

static bool all_heard(void *context)
{
    return ((const struct group_crowd *)context)->calls == 0;
}

static void become_stable(struct group_crowd *crowd, int64_t within_ms)
{
    struct sim *sim = &crowd->sim;

    if (!sim_run(sim, sim->mono_ns + within_ms * NS_PER_MS, all_stable, crowd)) {
        print_members(crowd);
        assert(false && "a group whose inputs stopped did not become stable");
    }
    /* ... and stays so. */
    (void)sim_run(sim, sim->mono_ns + SETTLE_MS_MAX / 4 * NS_PER_MS, never, crowd);
    if (!all_stable(crowd)) {
        print_members(crowd);
        assert(false && "a stable group did not stay so");
    }
}

static void settle(struct group_crowd *crowd)
{
    struct sim *sim = &crowd->sim;

    crowd->over = true;
    crowd->coordinator.fail_in = 0;
    sim_event_cancel(sim, &crowd->trouble);
    /* Whoever stalls or is to come back does so within this time. */
    (void)sim_run(sim, sim->mono_ns + LAST_TO_COME_MS * NS_PER_MS, never, crowd);
    become_stable(crowd, SETTLE_MS_MAX);
    for (uint32_t i = 0; i < CHANGES; i++) /* of which nobody tells it who joins */
        change_topic(crowd);
    become_stable(crowd, SETTLE_MS_MAX);
    for (uint32_t i = 0; i < CROWD_MEMBERS; i++)
        if (crowd->members[i].state == MEMBER_IN && sim_chance(sim, DIES_PERCENT))
            crowd_member_die(&crowd->members[i]);
    become_stable(crowd, DEATH_MS_MAX);
    for (uint32_t group = 0; group < CROWD_GROUPS; group++)
        crowd_look_at_offsets(crowd, group);
    (void)sim_run(sim, sim->mono_ns + LAST_LOOK_MS * NS_PER_MS, never, crowd);
}

void groups_crowd_run(uint64_t seed, bool chatty, struct sim_outcome *outcome)
{
    static struct group_crowd crowd;
    struct sim *sim = &crowd.sim;

    memset(&crowd, 0, sizeof(crowd));
    crowd.chatty = chatty;
    sim_init(sim, seed);
    sim->wall_offset_ms = WALL_MS;
    group_coordinator_open(&crowd.coordinator, sim);
    crowd.coordinator.settings.session_timeout_ms_min = 1000;
    crowd.coordinator.decided = crowd_call_decided;
    crowd.coordinator.settings.consumer_session_timeout_ms = 4000 + (int32_t)sim_draw(sim, 3000);
    crowd.coordinator.settings.consumer_session_timeout_ms_min = 1000;
    crowd.coordinator.settings.consumer_assignment_interval_ms = (int32_t)sim_draw(sim, 1000);
    crowd.coordinator.settings.initial_rebalance_delay_ms = (int32_t)sim_draw(sim, 2000);
    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++)
        group_coordinator_topic(&crowd.coordinator, t, 1 + (uint32_t)sim_draw(sim, 4));
    for (uint32_t i = 0; i < CROWD_MEMBERS; i++)
        crowd_member_open(&crowd.members[i], &crowd, i);
    crowd.trouble.run = trouble;
    sim_event_add(sim, &crowd.trouble, TROUBLE_EVERY_MS * NS_PER_MS);
    (void)sim_run(sim, TROUBLE_MS * NS_PER_MS, never, &crowd);
    settle(&crowd);
    if (chatty)
        printf("\n%lu commits, %lu assignments, %lu refusals, %lu fenced, %lu transactions, %lu crashes, %lu failed "
               "writes, %lu records\n",
               (unsigned long)crowd.commits, (unsigned long)crowd.assignments, (unsigned long)crowd.refusals,
               (unsigned long)crowd.fenced, (unsigned long)crowd.transactions, (unsigned long)crowd.coordinator.crashes,
               (unsigned long)crowd.coordinator.failures, (unsigned long)crowd.coordinator.written);
    assert(crowd.abandoned == 0);
    for (uint32_t i = 0; i < CROWD_MEMBERS; i++) {
        crowd.members[i].call = NULL;
        sim_event_cancel(sim, &crowd.members[i].act);
        sim_event_cancel(sim, &crowd.members[i].patience);
    }
    group_coordinator_close(&crowd.coordinator);
    (void)sim_run(sim, sim->mono_ns + SETTLE_MS_MAX * NS_PER_MS, all_heard, &crowd);
    *outcome = (struct sim_outcome){.trace_hash = sim->trace_hash,
                                    .steps = sim->steps,
                                    .crashes = crowd.coordinator.crashes + crowd.coordinator.failures,
                                    .records = crowd.coordinator.written,
                                    .virtual_ms = (uint64_t)(sim->mono_ns / NS_PER_MS)};
    assert(crowd.calls == 0);
    sim_deinit(sim);
}
