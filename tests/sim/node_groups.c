#include "sim/node_groups_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/gen/find_coordinator.h"

#define NS_PER_MS INT64_C(1000000)

enum {
    FIND_VERSION = 4,
    RETRY_MS_MIN = 300, /* what came by a broken connection has come, or never does */
    AWAY_MS_MAX = 9000,
    COMES_MS_MAX = 1000,
    GOES_PERCENT = 1,
    EXIST_PERCENT = 50,
};

static const char *const group_ids[NODE_GROUPS] = {"classic", "consumer"};

bool node_member_is_modern(const struct node_member *member)
{
    return member->group == 1;
}

struct node_group *node_member_group(const struct node_member *member)
{
    return &member->all->groups[member->group];
}

struct bytes node_member_group_id(const struct node_member *member)
{
    return bytes_of_text(group_ids[member->group]);
}

void node_member_soon(struct node_member *member, int64_t ms_min, int64_t ms_max)
{
    struct sim *sim = member->all->sim;
    int64_t wait_ms = ms_min + (int64_t)sim_draw(sim, (uint64_t)(ms_max - ms_min));

    sim_event_cancel(sim, &member->next);
    sim_event_add(sim, &member->next, sim->mono_ns + wait_ms * NS_PER_MS);
}

void node_member_go_out(struct node_member *member, enum node_member_state state, bool forgets_id)
{
    member->state = state;
    if (forgets_id)
        member->id[0] = '\0';
    memset(member->owned, 0, sizeof(member->owned));
    member->knows_positions = false;
    node_member_soon(member, 1, NODE_PAUSE_MS_MAX);
}

void node_member_call(struct node_member *member, const struct message_type *request_type, const void *request,
                      const struct message_type *response_type, int16_t version,
                      void (*answered)(struct sim_call *call, enum err err))
{
    member->busy = true;
    member->call.answered = answered;
    /* Members of the consumer protocol come to a new epoch one by one, but who joins comes to the newest. */
    member->floor_generation = node_member_is_modern(member) && member->state == NODE_MEMBER_IN
                                   ? member->generation
                                   : node_member_group(member)->generation;
    memcpy(member->floors, node_member_group(member)->acked, sizeof(member->floors));
    sim_client_call(&member->client, request_type, request, response_type, version, &member->call);
}

struct node_member *node_member_heard(struct sim_call *call)
{
    struct node_member *member = (struct node_member *)(void *)((char *)call - offsetof(struct node_member, call));

    member->busy = false;
    return member;
}

bool node_member_refused(struct node_member *member, enum err err, int16_t code)
{
    if (err == ERR_CLOSED) {
        node_member_soon(member, RETRY_MS_MIN, RETRY_MS_MIN + NODE_PAUSE_MS_MAX);
        return true;
    }
    switch (err_from_wire(code)) {
    case ERR_OK:
        return false;
    case ERR_NOT_COORDINATOR:
    case ERR_COORDINATOR_NOT_AVAILABLE:
    case ERR_COORDINATOR_LOAD_IN_PROGRESS:
    case ERR_STALE_MEMBER_EPOCH:
        node_member_soon(member, RETRY_MS_MIN, RETRY_MS_MIN + NODE_PAUSE_MS_MAX);
        return true;
    case ERR_REBALANCE_IN_PROGRESS:
    case ERR_ILLEGAL_GENERATION:
    case ERR_FENCED_MEMBER_EPOCH:
        node_member_go_out(member, NODE_MEMBER_JOIN, false);
        return true;
    case ERR_UNKNOWN_MEMBER_ID:
    case ERR_GROUP_ID_NOT_FOUND:
        node_member_go_out(member, NODE_MEMBER_JOIN, !node_member_is_modern(member));
        return true;
    default:
        fprintf(stderr, "group %s: not explained: err=%s\n", group_ids[member->group], err_name(err_from_wire(code)));
        assert(false && "an error that nothing explains");
        return true;
    }
}

/* ---- generations ---- */

void node_member_note_generation(struct node_member *member, int32_t generation, bool for_good)
{
    struct node_group *group = node_member_group(member);

    assert(generation >= member->floor_generation);
    member->generation = generation;
    if (for_good && generation > group->generation)
        group->generation = generation;
}

void node_member_note_owned(struct node_member *member, int32_t partition)
{
    struct node_group *group = node_member_group(member);

    assert(partition >= 0 && partition < NODE_GROUP_PARTITIONS);
    assert(group->owner_generation[partition] != member->generation || group->owner[partition] == member->number + 1);
    group->owner_generation[partition] = member->generation;
    group->owner[partition] = member->number + 1;
    member->owned[partition] = true;
}

/* ---- life ---- */

static void on_found(struct sim_call *sim_call, enum err err)
{
    struct node_member *member = node_member_heard(sim_call);
    const struct find_coordinator_response *response = sim_call->response;

    if (!node_member_refused(member, err, err == ERR_OK ? response->coordinators[0].error_code : 0)) {
        member->state = NODE_MEMBER_JOIN;
        node_member_soon(member, 1, NODE_PAUSE_MS_MAX);
    }
    if (err == ERR_OK)
        arena_deinit(&sim_call->arena);
}

static void find(struct node_member *member)
{
    struct find_coordinator_request request;
    struct bytes key = node_member_group_id(member);

    find_coordinator_request_init(&request);
    request.coordinator_keys = &key;
    request.coordinator_keys_count = 1;
    node_member_call(member, &find_coordinator_request_message, &request, &find_coordinator_response_message,
                     FIND_VERSION, on_found);
}

static bool owns_any(const struct node_member *member)
{
    for (uint32_t p = 0; p < NODE_GROUP_PARTITIONS; p++)
        if (member->owned[p])
            return true;
    return false;
}

static void act_in(struct node_member *member)
{
    struct sim *sim = member->all->sim;

    if (!member->all->calm && sim_chance(sim, GOES_PERCENT)) {
        node_member_go_out(member, NODE_MEMBER_OUT, true);
        sim_client_break(&member->client);
        node_member_soon(member, 1, AWAY_MS_MAX);
        return;
    }
    member->turn++;
    if (member->turn % 3 == 0 || !owns_any(member)) {
        if (node_member_is_modern(member))
            node_member_consumer_beat(member);
        else
            node_member_beat(member);
    } else if (!member->knows_positions) {
        node_member_ask_offsets(member);
    } else if (member->turn % 3 == 1) {
        node_member_fetch(member);
    } else {
        node_member_commit(member);
    }
}

static void act(struct sim_event *event)
{
    struct node_member *member = (struct node_member *)(void *)((char *)event - offsetof(struct node_member, next));

    if (member->busy)
        return;
    if (member->state == NODE_MEMBER_OUT)
        find(member);
    else if (member->state == NODE_MEMBER_IN)
        act_in(member);
    else if (node_member_is_modern(member))
        node_member_consumer_beat(member);
    else if (member->state == NODE_MEMBER_JOIN)
        node_member_join(member);
    else
        node_member_sync(member);
}

/* With these all happens within seconds; what is rolled may be compacted. */
static void configure(struct sim_node *node, bool synced)
{
    sim_node_set(node, "offsets.topic.num.partitions=3");
    sim_node_set(node, "log.roll.ms=2000");
    sim_node_set(node, "log.cleaner.backoff.ms=500");
    sim_node_set(node, "group.initial.rebalance.delay.ms=200");
    sim_node_set(node, "group.consumer.min.session.timeout.ms=6000");
    sim_node_set(node, "group.consumer.session.timeout.ms=6000");
    sim_node_set(node, "group.consumer.min.heartbeat.interval.ms=500");
    sim_node_set(node, "group.consumer.heartbeat.interval.ms=500");
    if (synced) /* __consumer_offsets goes by what the node says */
        sim_node_set(node, "log.flush.interval.messages=1");
}

void node_groups_init(struct node_groups *all, struct sim *sim, struct sim_node *node, bool synced)
{
    *all = (struct node_groups){.sim = sim, .exist = sim_chance(sim, EXIST_PERCENT)};
    if (all->exist)
        configure(node, synced);
    for (uint32_t g = 0; g < NODE_GROUPS; g++) {
        memset(all->groups[g].acked, 0xff, sizeof(all->groups[g].acked));
        memset(all->groups[g].committed, 0xff, sizeof(all->groups[g].committed));
    }
}

void node_groups_start(struct node_groups *all, const struct sim_node *node, struct sim_host *host)
{
    struct net_address address = sim_node_address(node);

    if (!all->exist)
        return;
    all->loop = sim_loop_new(all->sim, "members", 0);
    for (uint32_t g = 0; g < NODE_GROUPS; g++)
        for (uint32_t m = 0; m < NODE_GROUP_MEMBERS; m++) {
            struct node_member *member = &all->members[g][m];

            *member = (struct node_member){.all = all, .group = g, .number = m, .next = {.run = act}};
            sim_client_init(&member->client, host, all->loop, &address, "sim-member");
            node_member_soon(member, 1, COMES_MS_MAX);
        }
}

void node_groups_stop(struct node_groups *all)
{
    if (!all->exist)
        return;
    for (uint32_t g = 0; g < NODE_GROUPS; g++)
        for (uint32_t m = 0; m < NODE_GROUP_MEMBERS; m++) {
            struct node_member *member = &all->members[g][m];

            sim_client_deinit(&member->client);
            sim_event_cancel(all->sim, &member->next);
        }
    sim_loop_kill(all->loop); /* with what was about to connect */
}

bool node_groups_are_stable(const struct node_groups *all)
{
    for (uint32_t g = 0; all->exist && g < NODE_GROUPS; g++) {
        uint32_t owned = 0;

        for (uint32_t m = 0; m < NODE_GROUP_MEMBERS; m++) {
            const struct node_member *member = &all->members[g][m];

            if (member->state != NODE_MEMBER_IN || member->generation != all->members[g][0].generation ||
                (node_member_is_modern(member) && !member->reconciled))
                return false;
            for (uint32_t p = 0; p < NODE_GROUP_PARTITIONS; p++)
                owned += member->owned[p];
        }
        if (owned != NODE_GROUP_PARTITIONS)
            return false;
    }
    return true;
}
