#include "coordinator/group_history.h"

#include "base/clock.h"
#include "base/mem.h"

enum { TEXT_COUNT = 4 };

/* One rebalance, with its four texts. */
struct entry {
    struct list_node in_group, in_all; /* newest last */
    struct group_history *history;
    int64_t began_ms;
    int64_t began_ns;
    int64_t duration_ms; /* -1: under way */
    enum group_cause cause;
    int32_t generation;
    uint32_t members;
    int32_t moved;
    uint8_t sizes[TEXT_COUNT]; /* member id, client id, client host, reason */
    uint8_t text[];
};

struct group_history {
    struct list entries;
    uint32_t count;
    uint64_t dropped;
};

static struct entry *in_group(struct list_node *node)
{
    return LIST_ENTRY(node, struct entry, in_group);
}

static struct entry *under_way(const struct group_history *history)
{
    struct list_node *last = history == NULL ? NULL : list_last(&history->entries);

    return last != NULL && in_group(last)->duration_ms == -1 ? in_group(last) : NULL;
}

static size_t entry_bytes(const struct entry *entry)
{
    size_t bytes = sizeof(*entry);

    for (int i = 0; i < TEXT_COUNT; i++)
        bytes += entry->sizes[i];
    return bytes;
}

static void free_entry(struct group_histories *all, struct entry *entry)
{
    all->bytes -= entry_bytes(entry);
    entry->history->count--;
    list_remove(&entry->in_group);
    list_remove(&entry->in_all);
    mem_free(entry);
}

static void drop(struct group_histories *all, struct entry *entry)
{
    entry->history->dropped++;
    free_entry(all, entry);
}

/* Cut between characters: what is left is still UTF-8 where it was. */
static uint8_t cut(struct bytes text)
{
    size_t size = text.size;

    if (size <= GROUP_HISTORY_TEXT_MAX)
        return (uint8_t)size;
    size = GROUP_HISTORY_TEXT_MAX;
    while (size > 0 && (text.data[size] & 0xc0) == 0x80)
        size--;
    return (uint8_t)size;
}

static struct entry *new_entry(const struct bytes texts[TEXT_COUNT])
{
    struct entry *entry = NULL;
    size_t size = sizeof(*entry);
    uint8_t *to = NULL;

    for (int i = 0; i < TEXT_COUNT; i++)
        size += cut(texts[i]);
    entry = mem_calloc(1, size);
    if (entry == NULL)
        return NULL;
    list_node_init(&entry->in_group);
    list_node_init(&entry->in_all);
    to = entry->text;
    for (int i = 0; i < TEXT_COUNT; i++) {
        entry->sizes[i] = cut(texts[i]);
        if (entry->sizes[i] > 0)
            memcpy(to, texts[i].data, entry->sizes[i]);
        to += entry->sizes[i];
    }
    return entry;
}

static struct group_history *history_of(struct group *group)
{
    if (group->history == NULL) {
        group->history = mem_calloc(1, sizeof(*group->history));
        if (group->history != NULL)
            list_init(&group->history->entries);
    }
    return group->history;
}

void group_history_begin(struct group *group, const struct step *step, const struct rebalance_cause *cause)
{
    const struct bytes texts[TEXT_COUNT] = {cause->member_id, cause->client_id, cause->client_host, cause->reason};
    struct group_histories *all = group->groups->histories;
    struct group_history *history = history_of(group);
    struct entry *entry = NULL;

    if (history == NULL || under_way(history) != NULL)
        return;
    entry = new_entry(texts);
    if (entry == NULL)
        return;
    entry->history = history;
    entry->began_ms = step->now_ms;
    entry->began_ns = step->now_ns;
    entry->duration_ms = -1;
    entry->cause = cause->cause;
    entry->generation = -1;
    entry->moved = -1;
    all->bytes += entry_bytes(entry);
    list_add_last(&all->entries, &entry->in_all);
    list_add_last(&history->entries, &entry->in_group);
    history->count++;
    if (history->count > GROUP_HISTORY_MAX)
        drop(all, in_group(list_first(&history->entries)));
    while (all->bytes > GROUP_HISTORIES_BYTES_MAX)
        drop(all, LIST_ENTRY(list_first(&all->entries), struct entry, in_all));
}

void group_history_end(struct group *group, const struct step *step, int32_t generation, uint32_t members,
                       int32_t moved)
{
    struct entry *entry = under_way(group->history);

    if (entry == NULL)
        return;
    entry->duration_ms = (step->now_ns - entry->began_ns) / NS_PER_MS;
    entry->generation = generation;
    entry->members = members;
    entry->moved = moved;
}

void group_history_free(struct group *group)
{
    struct group_history *history = group->history;

    if (history == NULL)
        return;
    for (struct list_node *node = NULL; (node = list_first(&history->entries)) != NULL;)
        free_entry(group->groups->histories, in_group(node));
    mem_free(history);
    group->history = NULL;
}

const char *group_cause_text(enum group_cause cause)
{
    static const char *const texts[CAUSE_COUNT] = {
        [CAUSE_JOINED] = "a member joined",
        [CAUSE_REJOINED] = "a member joined again, as the leader or with another subscription",
        [CAUSE_LEFT] = "a member left",
        [CAUSE_SESSION] = "a member was silent for its session time-out",
        [CAUSE_REBALANCE_LATE] = "a member was late: it did not follow within the rebalance time-out",
        [CAUSE_REPLACED] = "a static member came back with another subscription",
        [CAUSE_METADATA] = "topics that the group subscribes to changed",
        [CAUSE_EXPRESSION] = "the topics that match an expression changed",
        [CAUSE_CONVERTED] = "the group went from one protocol to the other",
        [CAUSE_FAILED] = "the assignment could not be written",
        [CAUSE_REMOVED] = "an administrator removed a member",
    };

    return (unsigned)cause < CAUSE_COUNT ? texts[cause] : "unknown";
}

static enum err copy_entry(const struct entry *from, struct arena *arena, struct group_rebalance *to)
{
    struct bytes *texts[TEXT_COUNT] = {&to->member_id, &to->client_id, &to->client_host, &to->reason};
    const uint8_t *at = from->text;
    enum err err = ERR_OK;

    *to = (struct group_rebalance){.began_ms = from->began_ms,
                                   .duration_ms = from->duration_ms,
                                   .cause = from->cause,
                                   .generation = from->generation,
                                   .members = from->members,
                                   .moved = from->moved};
    for (int i = 0; i < TEXT_COUNT && err == ERR_OK; i++) {
        struct bytes text = from->sizes[i] == 0 ? BYTES_LITERAL("") : bytes_of(at, from->sizes[i]);

        err = arena_copy(arena, text, texts[i]);
        at = from->sizes[i] == 0 ? at : at + from->sizes[i];
    }
    return err;
}

void group_history_ask(struct groups *groups, struct step *step, struct group_op *op)
{
    struct group_history_reply *out = op->response;
    const struct group *group = group_find(groups, op->group_id);
    const struct group_history *history = group == NULL ? NULL : group->history;
    uint32_t count = history == NULL ? 0 : history->count;

    *out = (struct group_history_reply){.err = group == NULL ? ERR_GROUP_ID_NOT_FOUND : ERR_OK,
                                        .dropped = history == NULL ? 0 : history->dropped};
    out->entries = arena_array(op->arena, count, sizeof(*out->entries));
    op->op.err = out->entries == NULL ? ERR_NOMEM : ERR_OK;
    for (struct list_node *node = count == 0 ? NULL : list_first(&history->entries);
         node != NULL && op->op.err == ERR_OK; node = list_next(&history->entries, node))
        op->op.err = copy_entry(in_group(node), op->arena, &out->entries[out->count++]);
    step_answer(step, &op->op);
}
