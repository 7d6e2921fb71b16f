#include "base/assert.h"
#include "base/clock.h"
#include "coordinator/classic_internal.h"

/* Between two looks for somebody who joins: members may ask for a rebalance time-out of 0, and static ones that are
 * away stay for their session, in which Apache Kafka looks again and again without a pause. */
enum { ELECT_AGAIN_MS_MIN = 100 };

/* Where each state may lead (classic.h). */
static bool leads_to(enum classic_state from, enum classic_state to)
{
    switch (to) {
    case CLASSIC_EMPTY:
        return from == CLASSIC_PREPARING;
    case CLASSIC_PREPARING:
        return from != CLASSIC_PREPARING;
    case CLASSIC_COMPLETING:
        return from == CLASSIC_PREPARING;
    case CLASSIC_STABLE:
        return from == CLASSIC_COMPLETING;
    }
    return false;
}

void classic_set_state(struct classic_group *classic, struct step *step, enum classic_state state)
{
    assert(leads_to(classic->state, state));
    classic->state = state;
    classic->since_ms = step->now_ms;
}

static struct groups *groups_of(const struct classic_group *classic)
{
    return classic->group->groups;
}

static void join_fired(struct loop_timer *timer);
static void sync_fired(struct loop_timer *timer);

static void start_join_timer(struct classic_group *classic, struct step *step, int32_t ms)
{
    classic->join_timer.fired = join_fired;
    group_timer_start(groups_of(classic), &classic->join_timer, step->now_ns + ms * NS_PER_MS);
}

bool classic_all_joined(const struct classic_group *classic)
{
    return classic->joining_count == classic_member_count(classic) && map_count(&classic->pending) == 0;
}

/* What was being agreed on is void: whoever waits for the leader joins again. */
static void void_assignments(struct classic_group *classic, struct step *step)
{
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&classic->members, &cursor, NULL, &value)) {
        struct classic_member *member = value;

        classic_drop(&member->assignment);
        if (classic_answer_sync(member, step, ERR_REBALANCE_IN_PROGRESS))
            classic_session_start(member, step, member->session_timeout_ms);
    }
}

void classic_prepare(struct classic_group *classic, struct step *step, const struct rebalance_cause *cause)
{
    int32_t delay_ms = groups_of(classic)->settings->initial_rebalance_delay_ms;
    int32_t timeout_ms = classic_rebalance_timeout_ms(classic);

    group_history_begin(classic->group, step, cause);
    if (classic->state == CLASSIC_COMPLETING)
        void_assignments(classic, step);
    group_timer_stop(groups_of(classic), &classic->sync_timer);
    classic->initial = classic->state == CLASSIC_EMPTY;
    classic_set_state(classic, step, CLASSIC_PREPARING);
    if (classic->initial) {
        classic->member_added = false;
        classic->delay_ms = delay_ms;
        classic->remaining_ms = timeout_ms > delay_ms ? timeout_ms - delay_ms : 0;
        start_join_timer(classic, step, delay_ms);
    } else if (classic_all_joined(classic)) {
        classic_complete_join(classic, step);
    } else {
        start_join_timer(classic, step, timeout_ms);
    }
}

void classic_rebalance(struct classic_group *classic, struct step *step, const struct rebalance_cause *cause)
{
    if (classic->state != CLASSIC_PREPARING)
        classic_prepare(classic, step, cause);
    else if (!classic->initial && classic_all_joined(classic))
        classic_complete_join(classic, step);
}

void classic_after_removal(struct classic_group *classic, struct step *step, const struct rebalance_cause *cause)
{
    if (classic->state == CLASSIC_PREPARING) {
        if (classic_all_joined(classic))
            classic_complete_join(classic, step);
    } else if (classic->state != CLASSIC_EMPTY && cause != NULL) {
        classic_prepare(classic, step, cause);
    }
}

/* Dynamic members that did not come back are out; static ones stay until their session ends. */
static void remove_absent(struct classic_group *classic)
{
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&classic->members, &cursor, NULL, &value)) {
        struct classic_member *member = value;

        if (member->joining == NULL && member->instance_id.data == NULL)
            classic_member_remove(member);
    }
}

/* Whether a member leads that waits to join; the first that does takes over from one that does not. */
static bool elect(struct classic_group *classic)
{
    uint32_t cursor = 0;
    void *value = NULL;

    if (classic->leader != NULL && classic->leader->joining != NULL)
        return true;
    while (map_next(&classic->members, &cursor, NULL, &value)) {
        struct classic_member *member = value;

        if (member->joining != NULL) {
            classic->leader = member;
            return true;
        }
    }
    return false;
}

static void go_empty(struct classic_group *classic, struct step *step)
{
    classic_drop(&classic->protocol);
    classic->leader = NULL;
    classic_set_state(classic, step, CLASSIC_EMPTY);
    classic_topics_note(classic);
    (void)classic_note_owners(classic);
    if (classic_write_or_fail(classic, step) == ERR_OK)
        group_history_end(classic->group, step, classic->generation, 0, 0);
}

static void begin_generation(struct classic_group *classic, struct step *step)
{
    uint32_t cursor = 0;
    void *value = NULL;

    if (classic_keep(&classic->protocol, classic_select_protocol(classic)) != ERR_OK) {
        step->err = ERR_NOMEM;
        return;
    }
    classic_set_state(classic, step, CLASSIC_COMPLETING);
    classic_topics_note(classic);
    while (map_next(&classic->members, &cursor, NULL, &value)) {
        struct classic_member *member = value;

        member->is_new = false;
        if (!member->sync_pending) {
            member->sync_pending = true;
            classic->sync_pending_count++;
        }
        classic_session_start(member, step, member->session_timeout_ms);
        classic_answer_join(member, step, false);
    }
    classic->sync_timer.fired = sync_fired;
    group_timer_start(groups_of(classic), &classic->sync_timer,
                      step->now_ns + classic_rebalance_timeout_ms(classic) * NS_PER_MS);
}

/* A record may hold any, though nothing counts that far: members know -1 for none, and behind the last comes the first.
 */
static int32_t next_generation(int32_t generation)
{
    return generation < 0 || generation == INT32_MAX ? 1 : generation + 1;
}

void classic_complete_join(struct classic_group *classic, struct step *step)
{
    assert(classic->state == CLASSIC_PREPARING);
    group_timer_stop(groups_of(classic), &classic->join_timer);
    remove_absent(classic);
    if (classic_member_count(classic) > 0 && !elect(classic)) {
        int32_t timeout_ms = classic_rebalance_timeout_ms(classic);

        start_join_timer(classic, step, timeout_ms < ELECT_AGAIN_MS_MIN ? ELECT_AGAIN_MS_MIN : timeout_ms);
        return;
    }
    classic->initial = false;
    classic->generation = next_generation(classic->generation);
    if (classic_member_count(classic) == 0)
        go_empty(classic, step);
    else
        begin_generation(classic, step);
}

/* Members that come in the initial delay start it anew, up to the rebalance time-out. */
static void end_of_delay(struct classic_group *classic, struct step *step)
{
    int32_t delay_ms = groups_of(classic)->settings->initial_rebalance_delay_ms;
    int32_t before_ms = classic->delay_ms;

    if (!classic->member_added || classic->remaining_ms == 0) {
        classic_complete_join(classic, step);
        return;
    }
    classic->member_added = false;
    classic->delay_ms = delay_ms < classic->remaining_ms ? delay_ms : classic->remaining_ms;
    classic->remaining_ms = classic->remaining_ms > before_ms ? classic->remaining_ms - before_ms : 0;
    start_join_timer(classic, step, classic->delay_ms);
}

static void join_fired(struct loop_timer *timer)
{
    struct classic_group *classic = LIST_ENTRY(timer, struct classic_group, join_timer);
    struct step *step = groups_of(classic)->step;

    if (classic->initial)
        end_of_delay(classic, step);
    else
        classic_complete_join(classic, step);
}

/* Whoever has not synced is out, and the rest starts over. */
static void sync_fired(struct loop_timer *timer)
{
    struct classic_group *classic = LIST_ENTRY(timer, struct classic_group, sync_timer);
    struct step *step = groups_of(classic)->step;
    struct rebalance_cause cause = {.cause = CAUSE_REBALANCE_LATE};
    uint32_t cursor = 0;
    void *value = NULL;
    bool noted = false;

    assert(classic->state == CLASSIC_COMPLETING || classic->state == CLASSIC_STABLE);
    if (classic->sync_pending_count == 0)
        return;
    while (map_next(&classic->members, &cursor, NULL, &value)) {
        struct classic_member *member = value;

        if (!member->sync_pending)
            continue;
        if (!noted) {
            cause.member_id = member->id;
            cause.client_id = member->client_id;
            cause.client_host = member->client_host;
            group_history_begin(classic->group, step, &cause);
            noted = true;
        }
        classic_drop_member(member, step);
    }
    cause = (struct rebalance_cause){.cause = CAUSE_REBALANCE_LATE};
    classic_prepare(classic, step, &cause);
}
