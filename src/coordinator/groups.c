#include "coordinator/groups.h"

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/mem.h"
#include "coordinator/classic.h"
#include "coordinator/consumer.h"
#include "coordinator/group_history.h"
#include "coordinator/group_list.h"
#include "coordinator/offsets.h"
#include "protocol/gen/consumer_group_metadata_record.h"
#include "protocol/gen/group_metadata_record.h"
#include "protocol/gen/offset_commit_record.h"

enum {
    GROUPS_MAX = 1 << 24, /* of one coordinator: more than memory holds */
    TRANSACTIONS_MAX = 1 << 24,
    KEY_VERSION_BYTES = 2,
    /* Types of keys (on-disk.md 7.1). */
    KEY_OFFSET_LEGACY = 0,
    KEY_OFFSET = OFFSET_COMMIT_KEY_API_KEY,
    KEY_CLASSIC = GROUP_METADATA_KEY_API_KEY,
    KEY_CONSUMER_FIRST = CONSUMER_GROUP_METADATA_KEY_API_KEY,
    KEY_CONSUMER_LAST = 8,
    KEY_CONSUMER_EXPRESSION = 16,
};

enum err groups_new(const struct groups_spec *spec, struct groups **groups)
{
    struct groups *made = mem_calloc(1, sizeof(*made));
    enum err err = ERR_OK;

    if (made == NULL)
        return ERR_NOMEM;
    made->settings = spec->settings;
    list_init(&made->own_histories.entries);
    made->histories = spec->histories == NULL ? &made->own_histories : spec->histories;
    made->log = spec->log;
    made->seed = spec->seed;
    made->partition = spec->partition;
    made->topics_changes = 1;
    made->expire_timer.fired = offsets_sweep_fired;
    made->regex_timer.fired = consumer_regex_fired;
    made->list_timer.fired = group_list_fired;
    list_init(&made->all);
    list_init(&made->resolving);
    list_init(&made->pending);
    list_init(&made->gone_topics);
    list_init(&made->deleting);
    list_init(&made->listing);
    map_init(&made->by_id, spec->seed, GROUPS_MAX);
    map_u64_init(&made->transactions, spec->seed, TRANSACTIONS_MAX);
    err = timer_heap_init(&made->timers);
    if (err != ERR_OK) {
        mem_free(made);
        return err;
    }
    *groups = made;
    return ERR_OK;
}

struct group *group_after(const struct group *group)
{
    struct list_node *next = list_next(&group->groups->all, &group->in_all);

    return next == NULL ? NULL : LIST_ENTRY(next, struct group, in_all);
}

static void free_group(struct group *group)
{
    classic_unload(group, NULL, ERR_OK);
    consumer_unload(group);
    offsets_free(group);
    group_history_free(group);
    if (group->groups->sweep.at == group)
        group->groups->sweep.at = group_after(group);
    if (group->groups->list_at == group)
        group->groups->list_at = group_after(group);
    list_remove(&group->in_all);
    mem_free((void *)(uintptr_t)group->id.data);
    mem_free(group);
}

void groups_free(struct groups *groups)
{
    uint32_t cursor = 0;
    void *value = NULL;

    if (groups == NULL)
        return;
    while (map_next(&groups->by_id, &cursor, NULL, &value))
        free_group(value);
    assert(list_is_empty(&groups->listing));
    map_deinit(&groups->by_id);
    offsets_unload(groups);
    map_u64_deinit(&groups->transactions);
    timer_heap_deinit(&groups->timers);
    mem_free(groups);
}

uint32_t groups_count(const struct groups *groups)
{
    return map_count(&groups->by_id);
}

struct group *group_find(const struct groups *groups, struct bytes id)
{
    return map_get(&groups->by_id, id);
}

enum err group_get_or_make(struct groups *groups, struct bytes id, struct group **group)
{
    struct group *made = group_find(groups, id);
    uint8_t *copy = NULL;
    enum err err = ERR_OK;

    if (made != NULL) {
        *group = made;
        return ERR_OK;
    }
    made = mem_calloc(1, sizeof(*made));
    copy = (uint8_t *)mem_copy_text(id.data, id.size);
    if (made == NULL || copy == NULL) {
        err = ERR_NOMEM;
        goto out;
    }
    made->groups = groups;
    made->id = (struct bytes){copy, id.size};
    made->kind = GROUP_CLASSIC;
    list_node_init(&made->in_all);
    err = map_insert(&groups->by_id, made->id, made);
    if (err != ERR_OK)
        goto out;
    list_add_last(&groups->all, &made->in_all);
    made->number = ++groups->numbers_given;
    *group = made;
    made = NULL;
    copy = NULL;
out:
    mem_free(copy);
    mem_free(made);
    return err;
}

static bool is_settled(const struct group *group)
{
    if (group->classic != NULL && !classic_is_settled(group->classic))
        return false;
    if (group->consumer != NULL && !consumer_is_settled(group->consumer))
        return false;
    return offsets_is_empty(group);
}

bool group_settle(struct group *group)
{
    if (!is_settled(group))
        return false;
    (void)map_remove(&group->groups->by_id, group->id);
    free_group(group);
    return true;
}

void group_timer_start(struct groups *groups, struct loop_timer *timer, int64_t due_ns)
{
    /* What a tick arms is of a later one, whatever time-outs clients ask for: else it might never end. */
    if (groups->ticking && due_ns <= groups->step->now_ns)
        due_ns = groups->step->now_ns + 1;
    timer_heap_start(&groups->timers, timer, due_ns);
}

void group_timer_stop(struct groups *groups, struct loop_timer *timer)
{
    timer_heap_stop(&groups->timers, timer);
}

struct bytes group_state_name(const struct group *group)
{
    return group->kind == GROUP_CONSUMER ? consumer_state_name(group->consumer) : classic_state_name(group->classic);
}

bool group_has_members(const struct group *group)
{
    if (group->kind == GROUP_CONSUMER)
        return consumer_has_members(group->consumer);
    return group->classic != NULL && classic_has_members(group->classic);
}

bool group_subscribes(const struct group *group, struct bytes topic, bool *known)
{
    if (group->kind == GROUP_CONSUMER) {
        *known = true;
        return consumer_subscribes(group->consumer, topic);
    }
    *known = true;
    return group->classic != NULL && classic_subscribes(group->classic, topic, known);
}

enum err groups_replay(struct groups *groups, int64_t producer_id, struct bytes key, struct bytes value)
{
    int16_t kind = 0;

    if (key.size < KEY_VERSION_BYTES)
        return ERR_DAMAGED;
    kind = (int16_t)big_endian_load_u16(key.data);
    if (kind == KEY_OFFSET_LEGACY || kind == KEY_OFFSET)
        return offsets_replay(groups, producer_id, kind, key, value);
    if (kind == KEY_CLASSIC)
        return classic_replay(groups, key, value);
    if ((kind >= KEY_CONSUMER_FIRST && kind <= KEY_CONSUMER_LAST) || kind == KEY_CONSUMER_EXPRESSION)
        return consumer_replay(groups, kind, key, value);
    groups->skipped++;
    return ERR_OK;
}

enum err groups_replay_marker(struct groups *groups, int64_t producer_id, bool committed)
{
    return offsets_replay_marker(groups, producer_id, committed);
}

static void step_is(struct groups *groups, struct step *step)
{
    groups->step = step;
    groups->step_room = step_room(step);
}

void groups_loaded(struct groups *groups, struct step *step)
{
    uint32_t cursor = 0;
    void *value = NULL;

    step_is(groups, step);
    groups->topics_version = step->topics->version;
    while (map_next(&groups->by_id, &cursor, NULL, &value)) {
        struct group *group = value;

        if (group->kind == GROUP_CONSUMER)
            consumer_loaded(group, step);
        else if (group->classic != NULL)
            classic_loaded(group, step);
    }
    offsets_loaded(groups, step);
    groups->step = NULL;
}

void groups_unload(struct groups *groups, struct step *step, enum err why)
{
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&groups->by_id, &cursor, NULL, &value)) {
        classic_unload(value, step, why);
        consumer_unload(value);
    }
    group_list_stop(groups, step, why);
    offsets_stop(groups, step, why);
    group_timer_stop(groups, &groups->expire_timer);
}

/* A deletion takes several steps where there are many offsets. Who got in between two of them would find half of these
 * gone, and be lost with the rest. */
static bool must_come_again(const struct groups *groups, const struct group_op *op)
{
    const struct group *group = NULL;

    switch (op->ask) {
    case ASK_JOIN_GROUP:
    case ASK_CONSUMER_HEARTBEAT:
    case ASK_OFFSET_COMMIT:
    case ASK_TXN_OFFSET_COMMIT:
        group = list_is_empty(&groups->deleting) ? NULL : group_find(groups, op->group_id);
        return group != NULL && group->deleting;
    default:
        return false;
    }
}

void groups_ask(struct groups *groups, struct step *step, struct group_op *op)
{
    static void (*const decide[GROUP_ASK_COUNT])(struct groups *, struct step *, struct group_op *) = {
        [ASK_JOIN_GROUP] = classic_join,
        [ASK_SYNC_GROUP] = classic_sync,
        [ASK_HEARTBEAT] = classic_heartbeat,
        [ASK_LEAVE_GROUP] = classic_leave,
        [ASK_DESCRIBE_GROUP] = classic_describe,
        [ASK_LIST_GROUPS] = group_list_ask,
        [ASK_DELETE_GROUP] = offsets_delete_group,
        [ASK_OFFSET_COMMIT] = offsets_commit,
        [ASK_TXN_OFFSET_COMMIT] = offsets_txn_commit,
        [ASK_OFFSET_FETCH] = offsets_fetch,
        [ASK_OFFSET_DELETE] = offsets_delete,
        [ASK_CONSUMER_HEARTBEAT] = consumer_heartbeat,
        [ASK_CONSUMER_DESCRIBE] = consumer_describe,
        [ASK_HISTORY] = group_history_ask,
    };

    assert(op->ask < GROUP_ASK_COUNT && decide[op->ask] != NULL);
    list_node_init(&op->op.node);
    op->op.err = ERR_OK;
    if (must_come_again(groups, op)) {
        op->op.err = ERR_COORDINATOR_LOAD_IN_PROGRESS;
        step_answer(step, &op->op);
        return;
    }
    step_is(groups, step);
    decide[op->ask](groups, step, op);
    groups->step = NULL;
}

int64_t groups_due_ns(const struct groups *groups)
{
    const struct loop_timer *first = timer_heap_first(&groups->timers);

    return first == NULL ? INT64_MAX : first->due_ns;
}

/* What is due of many groups need not fit one batch: the rest is due at once again. */
bool group_tick_goes_on(const struct groups *groups)
{
    return groups->step->err == ERR_OK && step_room(groups->step) >= groups->step_room / 2;
}

void groups_tick(struct groups *groups, struct step *step)
{
    struct loop_timer *first = NULL;

    step_is(groups, step);
    groups->ticking = true;
    groups->regex_cost = 0;
    while (group_tick_goes_on(groups) && (first = timer_heap_first(&groups->timers)) != NULL &&
           first->due_ns <= step->now_ns) {
        timer_heap_stop(&groups->timers, first);
        first->fired(first);
    }
    groups->ticking = false;
    groups->step = NULL;
}

void groups_topics_changed(struct groups *groups, struct step *step, const struct group_topic *deleted,
                           uint32_t deleted_count)
{
    step_is(groups, step);
    groups->topics_changes++;
    groups->topics_version = step->topics->version;
    offsets_topics_deleted(groups, step, deleted, deleted_count);
    groups->step = NULL;
}
