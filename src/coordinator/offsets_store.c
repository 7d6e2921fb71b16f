#include "coordinator/offsets_store.h"

#include "base/assert.h"
#include "base/mem.h"
#include "coordinator/offsets.h"

enum { TOPICS_FIRST = 2, ENTRIES_FIRST = 2 };

/* What few offsets have. */
struct offset_extra {
    int64_t expire_ms;
    struct uuid topic_id; /* zero: the topic's */
    uint32_t metadata_bytes;
    uint8_t metadata[];
};

/* Where the name is, or would go. */
static uint32_t topic_place(const struct group_offsets *offsets, struct bytes name, bool *found)
{
    uint32_t low = 0;
    uint32_t high = offsets->count;

    *found = false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = bytes_compare(topic_offsets_name(offsets->topics[middle]), name);

        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t entry_place(const struct topic_offsets *topic, int32_t partition)
{
    uint32_t low = 0;
    uint32_t high = topic->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (topic->entries[middle].partition < partition)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct topic_offsets *offsets_find_topic(const struct group *group, struct bytes name)
{
    bool found = false;
    uint32_t at = group->offsets == NULL ? 0 : topic_place(group->offsets, name, &found);

    return found ? group->offsets->topics[at] : NULL;
}

struct offset_entry *offsets_find_entry(const struct topic_offsets *topic, int32_t partition)
{
    uint32_t at = entry_place(topic, partition);

    return at < topic->count && topic->entries[at].partition == partition ? &topic->entries[at] : NULL;
}

struct offset_entry *offsets_find(const struct group *group, struct bytes topic, int32_t partition)
{
    const struct topic_offsets *of = offsets_find_topic(group, topic);

    return of == NULL ? NULL : offsets_find_entry(of, partition);
}

static struct uuid cell_topic_id(const struct topic_offsets *topic, const struct offset_cell *cell)
{
    if (!cell->has_id)
        return (struct uuid){0};
    if (cell->extra != NULL && !uuid_is_zero(cell->extra->topic_id))
        return cell->extra->topic_id;
    return topic->id;
}

struct uuid offset_entry_topic_id(const struct topic_offsets *topic, const struct offset_entry *entry)
{
    return cell_topic_id(topic, &entry->cell);
}

static bool is_of_another(const struct topic_offsets *topic, const struct offset_cell *cell, struct uuid id)
{
    struct uuid of = cell_topic_id(topic, cell);

    return !uuid_is_zero(of) && !uuid_equal(of, id);
}

bool offset_entry_outlives(const struct topic_offsets *topic, const struct offset_entry *entry, struct uuid id)
{
    bool outlives = entry->cell.stored && is_of_another(topic, &entry->cell, id);

    for (const struct pending_offset *at = entry->pending; at != NULL && !outlives; at = at->next)
        outlives = is_of_another(topic, &at->cell, id);
    return outlives;
}

int64_t offset_entry_expire_ms(const struct offset_entry *entry)
{
    return entry->cell.extra == NULL ? -1 : entry->cell.extra->expire_ms;
}

struct offset_value offset_entry_value(const struct topic_offsets *topic, const struct offset_entry *entry)
{
    const struct offset_extra *extra = entry->cell.extra;

    assert(entry->cell.stored);
    return (struct offset_value){
        .offset = entry->cell.offset,
        .commit_ms = entry->cell.commit_ms,
        .expire_ms = offset_entry_expire_ms(entry),
        .leader_epoch = entry->leader_epoch,
        .topic_id = offset_entry_topic_id(topic, entry),
        .metadata = extra == NULL ? BYTES_LITERAL("") : bytes_of(extra->metadata, extra->metadata_bytes),
    };
}

/* The room of an array that grows by half: offsets are many, and most stay. */
static enum err grow(void *array, uint32_t *room, uint32_t want, uint32_t first, size_t element_bytes)
{
    uint32_t wider = *room < first ? first : *room + *room / 2;

    return want <= *room ? ERR_OK : mem_grow(array, room, want, wider, element_bytes);
}

static enum err make_topic(struct group *group, struct bytes name, struct topic_offsets **topic)
{
    struct group_offsets *offsets = group->offsets == NULL ? mem_calloc(1, sizeof(*offsets)) : group->offsets;
    struct topic_offsets *made = mem_calloc(1, sizeof(*made) + name.size);
    bool found = false;
    uint32_t at = 0;

    if (made == NULL || offsets == NULL ||
        grow(&offsets->topics, &offsets->room, offsets->count + 1, TOPICS_FIRST, sizeof(struct topic_offsets *)) !=
            ERR_OK) {
        mem_free(made);
        if (offsets != group->offsets)
            mem_free(offsets);
        return ERR_NOMEM;
    }
    group->offsets = offsets;
    at = topic_place(offsets, name, &found);
    assert(!found);
    made->group = group;
    made->name_bytes = (uint32_t)name.size;
    if (name.size > 0)
        memcpy(made->name, name.data, name.size);
    memmove(&offsets->topics[at + 1], &offsets->topics[at], (offsets->count - at) * sizeof(struct topic_offsets *));
    offsets->topics[at] = made;
    offsets->count++;
    *topic = made;
    return ERR_OK;
}

static void free_topic_if_empty(struct topic_offsets *topic)
{
    struct group *group = topic->group;
    struct group_offsets *offsets = group->offsets;
    bool found = false;
    uint32_t at = 0;

    if (topic->count > 0)
        return;
    at = topic_place(offsets, topic_offsets_name(topic), &found);
    assert(found && offsets->topics[at] == topic);
    offsets->count--;
    memmove(&offsets->topics[at], &offsets->topics[at + 1], (offsets->count - at) * sizeof(struct topic_offsets *));
    mem_free(topic->entries);
    mem_free(topic);
    if (offsets->count == 0) {
        mem_free(offsets->topics);
        mem_free(offsets);
        group->offsets = NULL;
    }
}

static void free_entry_if_empty(struct topic_offsets *topic, struct offset_entry *entry)
{
    uint32_t at = (uint32_t)(entry - topic->entries);

    if (entry->cell.stored || entry->pending != NULL)
        return;
    topic->count--;
    memmove(entry, entry + 1, (topic->count - at) * sizeof(*entry));
    free_topic_if_empty(topic);
}

/* The entry of that partition, made where there was none. */
static enum err make_entry(struct groups *groups, struct bytes group_id, struct bytes name, int32_t partition,
                           struct topic_offsets **topic, struct offset_entry **entry)
{
    struct group *group = NULL;
    uint32_t at = 0;
    enum err err = group_get_or_make(groups, group_id, &group);

    if (err != ERR_OK)
        return err;
    *topic = offsets_find_topic(group, name);
    if (*topic == NULL)
        err = make_topic(group, name, topic);
    if (err != ERR_OK)
        return err;
    at = entry_place(*topic, partition);
    if (at == (*topic)->count || (*topic)->entries[at].partition != partition) {
        err =
            grow(&(*topic)->entries, &(*topic)->room, (*topic)->count + 1, ENTRIES_FIRST, sizeof(struct offset_entry));
        if (err != ERR_OK) {
            free_topic_if_empty(*topic);
            return err;
        }
        memmove(&(*topic)->entries[at + 1], &(*topic)->entries[at],
                ((*topic)->count - at) * sizeof(struct offset_entry));
        (*topic)->count++;
        (*topic)->entries[at] = (struct offset_entry){.partition = partition, .leader_epoch = -1};
    }
    *entry = &(*topic)->entries[at];
    return ERR_OK;
}

/* The value as it is kept below that topic. */
static enum err make_cell(struct topic_offsets *topic, const struct offset_value *value, struct offset_cell *cell)
{
    bool has_id = !uuid_is_zero(value->topic_id);
    bool own_id = has_id && !uuid_is_zero(topic->id) && !uuid_equal(topic->id, value->topic_id);
    struct offset_extra *extra = NULL;

    if (value->metadata.size > 0 || value->expire_ms != -1 || own_id) {
        extra = mem_alloc(sizeof(*extra) + value->metadata.size);
        if (extra == NULL)
            return ERR_NOMEM;
        extra->expire_ms = value->expire_ms;
        extra->topic_id = own_id ? value->topic_id : (struct uuid){0};
        extra->metadata_bytes = (uint32_t)value->metadata.size;
        if (value->metadata.size > 0)
            memcpy(extra->metadata, value->metadata.data, value->metadata.size);
    }
    if (has_id && uuid_is_zero(topic->id))
        topic->id = value->topic_id;
    *cell = (struct offset_cell){.offset = value->offset,
                                 .commit_ms = value->commit_ms,
                                 .sequence = topic->group->groups->offsets_sequence++ & (UINT64_MAX >> 2),
                                 .stored = true,
                                 .has_id = has_id,
                                 .extra = extra};
    return ERR_OK;
}

enum err offsets_put(struct groups *groups, struct bytes group_id, struct bytes topic, int32_t partition,
                     const struct offset_value *value)
{
    struct topic_offsets *of = NULL;
    struct offset_entry *entry = NULL;
    struct offset_cell cell = {0};
    enum err err = make_entry(groups, group_id, topic, partition, &of, &entry);

    if (err != ERR_OK)
        return err;
    err = make_cell(of, value, &cell);
    if (err != ERR_OK) {
        free_entry_if_empty(of, entry);
        return err;
    }
    mem_free(entry->cell.extra);
    entry->cell = cell;
    entry->leader_epoch = value->leader_epoch;
    return ERR_OK;
}

static enum err get_transaction(struct groups *groups, int64_t producer_id, struct offset_transaction **transaction)
{
    struct offset_transaction *made = map_u64_get(&groups->transactions, (uint64_t)producer_id);
    enum err err = ERR_OK;

    if (made == NULL) {
        made = mem_calloc(1, sizeof(*made));
        if (made == NULL)
            return ERR_NOMEM;
        made->producer_id = producer_id;
        list_init(&made->pending);
        err = map_u64_insert(&groups->transactions, (uint64_t)producer_id, made);
        if (err != ERR_OK) {
            mem_free(made);
            return err;
        }
    }
    *transaction = made;
    return ERR_OK;
}

static void free_transaction_if_empty(struct groups *groups, struct offset_transaction *transaction)
{
    if (!list_is_empty(&transaction->pending))
        return;
    (void)map_u64_remove(&groups->transactions, (uint64_t)transaction->producer_id);
    mem_free(transaction);
}

static struct pending_offset *find_pending(const struct offset_entry *entry, int64_t producer_id)
{
    struct pending_offset *at = entry->pending;

    while (at != NULL && at->producer_id != producer_id)
        at = at->next;
    return at;
}

enum err offsets_put_pending(struct groups *groups, int64_t producer_id, struct bytes group_id, struct bytes topic,
                             int32_t partition, const struct offset_value *value)
{
    struct offset_transaction *transaction = NULL;
    struct topic_offsets *of = NULL;
    struct offset_entry *entry = NULL;
    struct pending_offset *pending = NULL;
    struct offset_cell cell = {0};
    enum err err = get_transaction(groups, producer_id, &transaction);

    if (err != ERR_OK)
        return err;
    err = make_entry(groups, group_id, topic, partition, &of, &entry);
    if (err != ERR_OK)
        goto out;
    err = make_cell(of, value, &cell);
    if (err != ERR_OK)
        goto out;
    pending = find_pending(entry, producer_id);
    if (pending == NULL) {
        pending = mem_calloc(1, sizeof(*pending));
        if (pending == NULL) {
            mem_free(cell.extra);
            err = ERR_NOMEM;
            goto out;
        }
        list_node_init(&pending->in_transaction);
        list_add_last(&transaction->pending, &pending->in_transaction);
        pending->producer_id = producer_id;
        pending->topic = of;
        pending->partition = partition;
        pending->next = entry->pending;
        entry->pending = pending;
    }
    mem_free(pending->cell.extra);
    pending->cell = cell;
    pending->leader_epoch = value->leader_epoch;
out:
    if (err != ERR_OK && entry != NULL)
        free_entry_if_empty(of, entry);
    free_transaction_if_empty(groups, transaction);
    return err;
}

/* Out of its partition's chain and its transaction. Its cell's extra is the caller's. */
static void unlink_pending(struct offset_entry *entry, struct pending_offset *pending)
{
    struct pending_offset **link = &entry->pending;

    while (*link != pending)
        link = &(*link)->next;
    *link = pending->next;
    list_remove(&pending->in_transaction);
}

void offsets_drop(struct group *group, struct bytes topic, int32_t partition)
{
    struct topic_offsets *of = offsets_find_topic(group, topic);
    struct offset_entry *entry = of == NULL ? NULL : offsets_find_entry(of, partition);

    if (entry == NULL)
        return;
    while (entry->pending != NULL) {
        struct pending_offset *pending = entry->pending;
        struct offset_transaction *transaction =
            map_u64_get(&group->groups->transactions, (uint64_t)pending->producer_id);

        unlink_pending(entry, pending);
        free_transaction_if_empty(group->groups, transaction);
        mem_free(pending->cell.extra);
        mem_free(pending);
    }
    mem_free(entry->cell.extra);
    entry->cell = (struct offset_cell){0};
    free_entry_if_empty(of, entry);
}

static void settle_one(struct pending_offset *pending, bool committed)
{
    struct offset_entry *entry = offsets_find_entry(pending->topic, pending->partition);
    struct offset_extra *dropped = pending->cell.extra;

    assert(entry != NULL);
    unlink_pending(entry, pending);
    /* Of a commit inside a transaction and one outside the later counts, whenever the marker comes. */
    if (committed && (!entry->cell.stored || entry->cell.sequence < pending->cell.sequence)) {
        dropped = entry->cell.extra;
        entry->cell = pending->cell;
        entry->leader_epoch = pending->leader_epoch;
    }
    mem_free(dropped);
    free_entry_if_empty(pending->topic, entry);
    mem_free(pending);
}

void offsets_settle(struct groups *groups, int64_t producer_id, bool committed)
{
    struct offset_transaction *transaction = map_u64_get(&groups->transactions, (uint64_t)producer_id);
    struct list_node *node = NULL;

    if (transaction == NULL)
        return;
    assert(groups->step == NULL); /* nobody holds a group */
    /* A group of which nothing is left by an abort stays, Empty, for the next sweep, as Apache Kafka's does. */
    while ((node = list_first(&transaction->pending)) != NULL)
        settle_one(LIST_ENTRY(node, struct pending_offset, in_transaction), committed);
    free_transaction_if_empty(groups, transaction);
}

bool offsets_is_empty(const struct group *group)
{
    return group->offsets == NULL;
}

void offsets_free(struct group *group)
{
    while (group->offsets != NULL) {
        struct topic_offsets *topic = group->offsets->topics[group->offsets->count - 1];

        offsets_drop(group, topic_offsets_name(topic), topic->entries[topic->count - 1].partition);
    }
}
