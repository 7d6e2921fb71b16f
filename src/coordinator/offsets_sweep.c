/* How offsets go that nobody asks about: with their topic, and by age (KIP-211). A pass over all groups does both, a
 * piece in each step: a coordinator may have a hundred thousand groups, or one with as many offsets. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "coordinator/classic.h"
#include "coordinator/consumer.h"
#include "coordinator/offsets.h"
#include "coordinator/offsets_remove.h"

enum {
    LOOKS_IN_STEP = 32 * 1024, /* at offsets, of 12 ns each, and at least at one group's: some 0.4 ms */
    LOOKS_OF_GROUP = 16,       /* what it costs to come by one */
    TOMBSTONES_IN_STEP = 1024, /* some 0.4 ms */
};

/* A topic that was deleted. */
struct gone_topic {
    struct list_node node;
    struct uuid id;
    struct bytes name;
    bool in_pass; /* in the one that is under way; else the next begins with it */
};

struct work {
    struct groups *groups;
    struct step *step;
    uint32_t looks;      /* left in this step: asked for between two groups, so that each gets on */
    uint32_t tombstones; /* likewise, asked for at each */
};

static void look(struct work *work, uint32_t count)
{
    work->looks -= work->looks > count ? count : work->looks;
}

/* False: there is no room for it in this step. What fits no step at all stays: who asked passes on to what is next
 * (offsets_fits_a_step), and the next check comes by again. */
static bool drop(struct work *work, const struct group *group, struct bytes topic, int32_t partition)
{
    if (work->tombstones == 0 || !offsets_has_room(work->step, group, topic))
        return false;
    work->tombstones--;
    return offsets_write_tombstone(group, work->step, topic, partition) == ERR_OK;
}

/* ---- deleted topics ---- */

static void free_gone(struct gone_topic *gone)
{
    list_remove(&gone->node);
    mem_free((void *)(uintptr_t)gone->name.data);
    mem_free(gone);
}

/* False: not all of it fitted. */
static bool drop_topic(struct work *work, struct group *group, const struct gone_topic *gone)
{
    const struct topic_offsets *topic = offsets_find_topic(group, gone->name);
    uint32_t at = topic == NULL ? 0 : topic->count;

    look(work, LOOKS_OF_GROUP);
    while (at > 0) {
        const struct offset_entry *entry = &topic->entries[at - 1];
        bool last = topic->count == 1;

        at--;
        if (offset_entry_outlives(topic, entry, gone->id))
            continue;
        if (!drop(work, group, gone->name, entry->partition))
            return !offsets_fits_a_step(group, gone->name);
        if (last)
            break; /* and the topic's memory is gone */
    }
    return true;
}

static bool drop_gone_topics(struct work *work, struct group *group)
{
    list_each (&work->groups->gone_topics, node) {
        const struct gone_topic *gone = LIST_ENTRY(node, struct gone_topic, node);

        if (gone->in_pass && !drop_topic(work, group, gone))
            return false;
    }
    return true;
}

/* ---- expiry ---- */

/* Since when an offset ages. */
enum age {
    AGE_NEVER,       /* it does not */
    AGE_SINCE_EMPTY, /* since the group has had no members; since the commit where that is unknown */
    AGE_SINCE_COMMIT,
    AGE_UNSUBSCRIBED, /* since the commit, where nobody subscribes to its topic */
};

static enum age age_of(const struct group *group)
{
    struct bytes type = {0};
    struct bytes state = {0};

    if (group->kind == GROUP_CONSUMER)
        return AGE_UNSUBSCRIBED;
    type = classic_protocol_type(group->classic);
    state = classic_state_name(group->classic);
    if (type.size == 0)
        return AGE_SINCE_COMMIT;
    if (bytes_equal(state, BYTES_LITERAL("Empty")))
        return AGE_SINCE_EMPTY;
    return bytes_equal(type, BYTES_LITERAL("consumer")) && bytes_equal(state, BYTES_LITERAL("Stable"))
               ? AGE_UNSUBSCRIBED
               : AGE_NEVER;
}

static bool is_subscribed_for_age(const struct group *group, struct bytes topic)
{
    bool known = false;
    bool subscribes = group_subscribes(group, topic, &known);

    return subscribes || !known;
}

static bool is_expired(const struct group *group, const struct step *step, enum age age,
                       const struct offset_entry *entry)
{
    int64_t expire_ms = offset_entry_expire_ms(entry);
    int64_t base_ms = entry->cell.commit_ms;
    int64_t age_ms = 0;

    if (expire_ms != -1)
        return step->now_ms >= expire_ms;
    if (age == AGE_SINCE_EMPTY && group->classic != NULL && classic_state_since_ms(group->classic) != -1)
        base_ms = classic_state_since_ms(group->classic);
    /* What a record says is not believed to be in the range of a sane clock. */
    return !__builtin_sub_overflow(step->now_ms, base_ms, &age_ms) &&
           age_ms >= group->groups->settings->offsets_retention_ms;
}

/* False: not all of it fitted. */
static bool expire_topic(struct work *work, struct group *group, enum age age, struct topic_offsets *topic)
{
    uint32_t at = topic->count;

    look(work, at);
    if (age == AGE_UNSUBSCRIBED && is_subscribed_for_age(group, topic_offsets_name(topic)))
        return true;
    while (at > 0) {
        const struct offset_entry *entry = &topic->entries[--at];
        bool last = topic->count == 1;

        if (!entry->cell.stored || entry->pending != NULL || !is_expired(group, work->step, age, entry))
            continue;
        if (!drop(work, group, topic_offsets_name(topic), entry->partition))
            return !offsets_fits_a_step(group, topic_offsets_name(topic));
        if (last)
            break;
    }
    return true;
}

static bool expire_group(struct work *work, struct group *group)
{
    enum age age = age_of(group);
    uint32_t at = group->offsets == NULL ? 0 : group->offsets->count;

    while (at > 0 && age != AGE_NEVER) {
        bool last = group->offsets->count == 1;

        if (!expire_topic(work, group, age, group->offsets->topics[--at]))
            return false;
        if (last)
            break;
    }
    if (group->offsets == NULL && bytes_equal(group_state_name(group), BYTES_LITERAL("Empty")) &&
        !group_has_members(group)) {
        if (work->tombstones == 0)
            return false;
        if (!offsets_has_room_for_group(work->step, group))
            return !offsets_group_fits_a_step(group);
        work->tombstones--;
        offsets_drop_group(work->groups, work->step, group);
    }
    return work->step->err == ERR_OK;
}

/* ---- passes ---- */

/* False: there is nothing to do. */
static bool begin(struct groups *groups)
{
    struct list_node *first = list_first(&groups->all);

    if (list_is_empty(&groups->gone_topics) && !groups->sweep.is_due)
        return false;
    list_each (&groups->gone_topics, node)
        LIST_ENTRY(node, struct gone_topic, node)->in_pass = true;
    groups->sweep.at = first == NULL ? NULL : LIST_ENTRY(first, struct group, in_all);
    groups->sweep.expires = groups->sweep.is_due;
    groups->sweep.is_due = false;
    return true;
}

static void end(struct groups *groups)
{
    list_each (&groups->gone_topics, node) {
        struct gone_topic *gone = LIST_ENTRY(node, struct gone_topic, node);

        if (gone->in_pass)
            free_gone(gone);
    }
}

/* What is left of a group goes, and perhaps it. False: not in this step. */
static bool sweep_group(struct work *work, struct group *group)
{
    if (group->deleting)
        return true; /* who deletes it takes all */
    if (!drop_gone_topics(work, group))
        return false;
    return !work->groups->sweep.expires || work->step->clock_doubted || expire_group(work, group);
}

/* False: there is more to do, in another step. */
static bool sweep(struct groups *groups, struct step *step)
{
    struct work work = {.groups = groups, .step = step, .looks = LOOKS_IN_STEP, .tombstones = TOMBSTONES_IN_STEP};

    while (groups->sweep.at != NULL || begin(groups)) {
        while (groups->sweep.at != NULL) {
            struct group *group = groups->sweep.at;

            if (work.looks == 0 || !sweep_group(&work, group))
                return false;
            look(&work, LOOKS_OF_GROUP);
            if (groups->sweep.at == group) /* it is still there */
                groups->sweep.at = group_after(group);
        }
        end(groups);
    }
    return true;
}

static void go_on(struct groups *groups, struct step *step)
{
    if (sweep(groups, step) && list_is_empty(&groups->deleting))
        group_timer_start(groups, &groups->expire_timer, groups->sweep.due_ns);
    else
        offsets_go_on_soon(groups, step);
}

void offsets_loaded(struct groups *groups, struct step *step)
{
    groups->sweep.due_ns = step->now_ns + groups->settings->offsets_check_ms * NS_PER_MS;
    group_timer_start(groups, &groups->expire_timer, groups->sweep.due_ns);
}

void offsets_sweep_fired(struct loop_timer *timer)
{
    struct groups *groups = LIST_ENTRY(timer, struct groups, expire_timer);
    struct step *step = groups->step;

    if (step->now_ns >= groups->sweep.due_ns) {
        groups->sweep.due_ns = step->now_ns + groups->settings->offsets_check_ms * NS_PER_MS;
        groups->sweep.is_due = true;
    }
    if (offsets_delete_waiting(groups, step))
        go_on(groups, step);
    else
        offsets_go_on_soon(groups, step);
}

void offsets_topics_deleted(struct groups *groups, struct step *step, const struct group_topic *topics, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct gone_topic *gone = mem_calloc(1, sizeof(*gone));
        uint8_t *name = (uint8_t *)mem_copy_text(topics[i].name.data, topics[i].name.size);

        if (gone == NULL || name == NULL) {
            mem_free(gone);
            mem_free(name);
            break; /* its offsets stay until they expire; those of a new topic of that name have another id */
        }
        list_node_init(&gone->node);
        gone->id = topics[i].id;
        gone->name = bytes_of(name, topics[i].name.size);
        list_add_last(&groups->gone_topics, &gone->node);
    }
    /* Not in this step: all coordinators of the node are told in one turn of their loop. */
    if (!list_is_empty(&groups->gone_topics))
        group_timer_start(groups, &groups->expire_timer, step->now_ns);
}

void offsets_unload(struct groups *groups)
{
    struct list_node *node = NULL;

    /* What was pending went with the groups, and what waited was answered. */
    assert(map_u64_count(&groups->transactions) == 0);
    assert(list_is_empty(&groups->deleting));
    while ((node = list_first(&groups->gone_topics)) != NULL)
        free_gone(LIST_ENTRY(node, struct gone_topic, node));
}
