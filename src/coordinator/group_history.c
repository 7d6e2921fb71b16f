#include "coordinator/group_history.h"

#include "base/mem.h"

#define NS_PER_MS INT64_C(1000000)

enum { ENTRIES_FIRST = 4, TEXT_COUNT = 4 };

/* One rebalance; its four texts lie in one block. */
struct entry {
    int64_t began_ms;
    int64_t began_ns;
    int64_t duration_ms; /* -1: under way */
    enum group_cause cause;
    int32_t generation;
    uint32_t members;
    int32_t moved;
    uint8_t sizes[TEXT_COUNT]; /* member id, client id, client host, reason */
    uint8_t *text;             /* NULL: none has any */
};

/* A ring once it is full; before, it grows. */
struct group_history {
    struct entry *entries;
    uint32_t room;
    uint32_t count;
    uint32_t oldest;
};

static struct entry *entry_at(const struct group_history *history, uint32_t age)
{
    return &history->entries[(history->oldest + age) % GROUP_HISTORY_MAX];
}

static struct entry *under_way(const struct group_history *history)
{
    struct entry *last = history == NULL || history->count == 0 ? NULL : entry_at(history, history->count - 1);

    return last != NULL && last->duration_ms == -1 ? last : NULL;
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

static void keep_texts(struct entry *entry, const struct bytes texts[TEXT_COUNT])
{
    size_t size = 0;
    uint8_t *to = NULL;

    for (int i = 0; i < TEXT_COUNT; i++)
        size += cut(texts[i]);
    entry->text = size == 0 ? NULL : mem_alloc(size);
    to = entry->text;
    for (int i = 0; i < TEXT_COUNT && to != NULL; i++) {
        entry->sizes[i] = cut(texts[i]);
        if (entry->sizes[i] > 0)
            memcpy(to, texts[i].data, entry->sizes[i]);
        to += entry->sizes[i];
    }
}

void group_history_begin(struct group *group, const struct step *step, enum group_cause cause, struct bytes member_id,
                         struct bytes client_id, struct bytes client_host, struct bytes reason)
{
    const struct bytes texts[TEXT_COUNT] = {member_id, client_id, client_host, reason};
    struct group_history *history = group->history;
    struct entry *entry = NULL;

    if (under_way(history) != NULL)
        return;
    if (history == NULL) {
        history = mem_calloc(1, sizeof(*history));
        if (history == NULL)
            return;
        group->history = history;
    }
    if (history->count == GROUP_HISTORY_MAX) {
        mem_free(entry_at(history, 0)->text);
        history->oldest = (history->oldest + 1) % GROUP_HISTORY_MAX;
        history->count--;
    } else if (mem_grow(&history->entries, &history->room, history->count + 1, ENTRIES_FIRST,
                        sizeof(*history->entries)) != ERR_OK) {
        return;
    }
    entry = entry_at(history, history->count);
    history->count++;
    *entry = (struct entry){.began_ms = step->now_ms,
                            .began_ns = step->now_ns,
                            .duration_ms = -1,
                            .cause = cause,
                            .generation = -1,
                            .moved = -1};
    keep_texts(entry, texts);
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
    for (uint32_t i = 0; i < history->count; i++)
        mem_free(entry_at(history, i)->text);
    mem_free(history->entries);
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

    *out = (struct group_history_reply){.err = group == NULL ? ERR_GROUP_ID_NOT_FOUND : ERR_OK};
    out->entries = arena_array(op->arena, count, sizeof(*out->entries));
    op->op.err = out->entries == NULL ? ERR_NOMEM : ERR_OK;
    for (; out->count < count && op->op.err == ERR_OK; out->count++)
        op->op.err = copy_entry(entry_at(history, out->count), op->arena, &out->entries[out->count]);
    step_answer(step, &op->op);
}
