#include "base/assert.h"
#include "base/mem.h"
#include "coordinator/classic.h"
#include "coordinator/consumer_internal.h"
#include "coordinator/record_arena.h"

enum {
    OWNER_ROOM_FIRST = 8,
};

/* ---- the group ---- */

static enum err make_consumer(struct group *group)
{
    uint64_t seed = group->groups->seed;
    struct consumer_group *consumer = mem_calloc(1, sizeof(*consumer));

    if (consumer == NULL)
        return ERR_NOMEM;
    consumer->group = group;
    consumer->epoch = CONSUMER_EPOCH_FIRST;
    consumer->target_epoch = CONSUMER_EPOCH_FIRST;
    /* Replay fills them, which no limit may fail: the limits are those of the requests. */
    map_init(&consumer->members, seed, MAP_COUNT_MAX);
    map_init(&consumer->instances, seed, MAP_COUNT_MAX);
    map_init(&consumer->names, seed, MAP_COUNT_MAX);
    map_init(&consumer->expressions, seed, MAP_COUNT_MAX);
    map_init(&consumer->owners, seed, MAP_COUNT_MAX);
    protocol_support_init(&consumer->supported, seed);
    group->consumer = consumer;
    group->kind = GROUP_CONSUMER;
    return ERR_OK;
}

static void free_id(struct bytes id)
{
    mem_free((void *)(uintptr_t)id.data);
}

static void free_member(struct consumer_member *member)
{
    consumer_stop_timers(member);
    arena_deinit(&member->arena);
    partition_set_deinit(&member->assigned);
    partition_set_deinit(&member->revoking);
    partition_set_deinit(&member->target);
    free_id(member->id);
    mem_free(member);
}

static void free_expression(struct consumer_expression *expression)
{
    arena_deinit(&expression->arena);
    free_id(expression->text);
    mem_free(expression);
}

static void free_owners(struct consumer_owners *owners)
{
    mem_free(owners->epochs);
    mem_free(owners->had);
    mem_free(owners);
}

void consumer_free(struct consumer_group *consumer)
{
    uint32_t cursor = 0;
    void *value = NULL;

    consumer_regex_stop(consumer);
    while (map_next(&consumer->members, &cursor, NULL, &value))
        free_member(value);
    for (cursor = 0; map_next(&consumer->names, &cursor, NULL, &value);) {
        free_id(((struct consumer_name *)value)->name);
        mem_free(value);
    }
    for (cursor = 0; map_next(&consumer->expressions, &cursor, NULL, &value);)
        free_expression(value);
    for (cursor = 0; map_next(&consumer->owners, &cursor, NULL, &value);)
        free_owners(value);
    protocol_support_deinit(&consumer->supported);
    map_deinit(&consumer->members);
    map_deinit(&consumer->instances);
    map_deinit(&consumer->names);
    map_deinit(&consumer->expressions);
    map_deinit(&consumer->owners);
    mem_free(consumer);
}

struct consumer_group *consumer_group_find(struct groups *groups, struct bytes id)
{
    struct group *group = group_find(groups, id);

    return group == NULL ? NULL : group->consumer;
}

enum err consumer_group_get(struct groups *groups, struct bytes id, struct consumer_group **consumer)
{
    struct group *group = NULL;
    enum err err = group_get_or_make(groups, id, &group);

    if (err != ERR_OK)
        return err;
    if (group->consumer == NULL) {
        /* Who writes the first record of this kind has taken the other half off; a log may hold anything. */
        assert(group->classic == NULL || groups->step == NULL);
        classic_unload(group, NULL, ERR_OK);
        err = make_consumer(group);
    }
    *consumer = group->consumer;
    return err;
}

/* After a tombstone, while loading. In a step it stays: who wrote the tombstone goes on with it. */
void consumer_group_settle(struct groups *groups, struct consumer_group *consumer)
{
    struct group *group = consumer->group;

    if (groups->step != NULL || !consumer_is_settled(consumer))
        return;
    consumer_unload(group);
    (void)group_settle(group);
}

/* ---- names ---- */

static enum err add_name(struct consumer_group *consumer, struct bytes name)
{
    struct consumer_name *entry = map_get(&consumer->names, name);
    uint8_t *copy = NULL;
    enum err err = ERR_NOMEM;

    if (entry != NULL) {
        entry->count++;
        return ERR_OK;
    }
    entry = mem_calloc(1, sizeof(*entry));
    copy = (uint8_t *)mem_copy_text(name.data, name.size);
    if (entry == NULL || copy == NULL)
        goto out;
    *entry = (struct consumer_name){.name = bytes_of(copy, name.size), .count = 1, .hash_version = INT64_MIN};
    err = map_insert(&consumer->names, entry->name, entry);
    if (err == ERR_OK)
        return ERR_OK;
out:
    mem_free(entry);
    mem_free(copy);
    return err;
}

static void remove_name(struct consumer_group *consumer, struct bytes name)
{
    struct consumer_name *entry = map_get(&consumer->names, name);

    if (entry == NULL || --entry->count > 0)
        return;
    (void)map_remove(&consumer->names, name);
    free_id(entry->name);
    mem_free(entry);
}

enum err consumer_names_add(struct consumer_group *consumer, const struct bytes *names, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        enum err err = add_name(consumer, names[i]);

        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

bool consumer_names_fit(const struct consumer_group *consumer, const struct bytes *names, uint32_t count)
{
    uint32_t others = map_count(&consumer->names);

    if (others <= CONSUMER_GROUP_NAMES_MAX && count <= CONSUMER_GROUP_NAMES_MAX - others)
        return true;
    for (uint32_t i = 0; i < count; i++)
        others += map_get(&consumer->names, names[i]) == NULL;
    return others <= CONSUMER_GROUP_NAMES_MAX || others == map_count(&consumer->names);
}

void consumer_names_remove(struct consumer_group *consumer, const struct bytes *names, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        remove_name(consumer, names[i]);
}

/* ---- expressions ---- */

enum err consumer_expression_get(struct consumer_group *consumer, struct bytes text,
                                 struct consumer_expression **expression)
{
    struct consumer_expression *made = map_get(&consumer->expressions, text);
    uint8_t *copy = NULL;
    enum err err = ERR_NOMEM;

    if (made == NULL) {
        made = mem_calloc(1, sizeof(*made));
        copy = (uint8_t *)mem_copy_text(text.data, text.size);
        if (made == NULL || copy == NULL)
            goto out;
        made->text = bytes_of(copy, text.size);
        record_arena_init(&made->arena, 0); /* until a record brings its own */
        err = map_insert(&consumer->expressions, made->text, made);
        if (err != ERR_OK)
            goto out;
    }
    *expression = made;
    return ERR_OK;
out:
    mem_free(made);
    mem_free(copy);
    return err;
}

void consumer_expression_settle(struct consumer_group *consumer, struct consumer_expression *expression)
{
    if (expression->subscribers > 0 || expression->resolved)
        return;
    (void)map_remove(&consumer->expressions, expression->text);
    free_expression(expression);
}

static enum err subscribe_expression(struct consumer_group *consumer, struct bytes text)
{
    struct consumer_expression *expression = NULL;
    enum err err = ERR_OK;

    if (text.size == 0)
        return ERR_OK;
    err = consumer_expression_get(consumer, text, &expression);
    if (err == ERR_OK)
        expression->subscribers++;
    return err;
}

static void unsubscribe_expression(struct consumer_group *consumer, struct bytes text)
{
    struct consumer_expression *expression = text.size == 0 ? NULL : map_get(&consumer->expressions, text);

    if (expression == NULL || expression->subscribers == 0)
        return;
    expression->subscribers--;
    consumer_expression_settle(consumer, expression);
}

/* ---- members ---- */

enum err consumer_member_get(struct consumer_group *consumer, struct bytes id, struct consumer_member **member)
{
    struct consumer_member *made = map_get(&consumer->members, id);
    uint8_t *copy = NULL;
    enum err err = ERR_NOMEM;

    if (made == NULL) {
        made = mem_calloc(1, sizeof(*made));
        copy = (uint8_t *)mem_copy_text(id.data, id.size);
        if (made == NULL || copy == NULL)
            goto out;
        made->consumer = consumer;
        made->id = bytes_of(copy, id.size);
        record_arena_init(&made->arena, 0); /* until a record brings its own */
        consumer_about_init(&made->about);
        consumer_timers_init(made);
        err = map_insert(&consumer->members, made->id, made);
        if (err != ERR_OK)
            goto out;
    }
    *member = made;
    return ERR_OK;
out:
    mem_free(made);
    mem_free(copy);
    return err;
}

void consumer_member_settle(struct consumer_member *member)
{
    if (member->subscribed || member->current || member->targeted)
        return;
    (void)map_remove(&member->consumer->members, member->id);
    free_member(member);
}

static void vote(struct consumer_group *consumer, struct bytes name, int32_t by)
{
    enum group_assignor assignor = ASSIGNOR_UNIFORM;

    if (name.data != NULL && group_assignor_find(name, &assignor))
        consumer->votes[assignor] += (uint32_t)by;
}

/* What the group keeps of a member's description beside it. */
void consumer_about_forget(struct consumer_member *member)
{
    struct consumer_group *consumer = member->consumer;
    const struct consumer_group_member_metadata_value *about = &member->about;

    if (!member->subscribed)
        return;
    consumer_names_remove(consumer, about->subscribed_topic_names, about->subscribed_topic_names_count);
    unsubscribe_expression(consumer, about->subscribed_topic_regex);
    vote(consumer, about->server_assignor, -1);
    if (about->instance_id.data != NULL && map_get(&consumer->instances, about->instance_id) == member)
        (void)map_remove(&consumer->instances, about->instance_id);
    if (consumer_member_is_classic(member)) {
        protocol_support_remove(&consumer->supported, about->classic_member_metadata->supported_protocols,
                                about->classic_member_metadata->supported_protocols_count);
        consumer->classic_count--;
    }
    consumer->member_count--;
    consumer->id_bytes -= member->id.size;
    member->subscribed = false;
}

enum err consumer_about_remember(struct consumer_member *member)
{
    struct consumer_group *consumer = member->consumer;
    const struct consumer_group_member_metadata_value *about = &member->about;
    void *replaced = NULL;
    enum err err = consumer_names_add(consumer, about->subscribed_topic_names, about->subscribed_topic_names_count);

    if (err == ERR_OK)
        err = subscribe_expression(consumer, about->subscribed_topic_regex);
    if (err == ERR_OK && about->instance_id.data != NULL)
        err = map_put(&consumer->instances, about->instance_id, member, &replaced);
    if (err == ERR_OK && consumer_member_is_classic(member))
        err = protocol_support_add(&consumer->supported, about->classic_member_metadata->supported_protocols,
                                   about->classic_member_metadata->supported_protocols_count);
    if (err != ERR_OK)
        return err; /* the state as a whole is thrown away */
    vote(consumer, about->server_assignor, 1);
    if (consumer_member_is_classic(member))
        consumer->classic_count++;
    consumer->member_count++;
    consumer->id_bytes += member->id.size;
    member->subscribed = true;
    return ERR_OK;
}

/* ---- owners ---- */

static enum err get_owners(struct consumer_group *consumer, struct uuid topic, int32_t partition,
                           struct consumer_owners **owners)
{
    struct consumer_owners *made = map_get(&consumer->owners, bytes_of(topic.bytes, UUID_BYTES));
    uint32_t room = 0;
    enum err err = ERR_OK;

    if (partition < 0 || partition >= CONSUMER_PARTITIONS_MAX)
        return ERR_DAMAGED;
    if (made == NULL) {
        made = mem_calloc(1, sizeof(*made));
        if (made == NULL)
            return ERR_NOMEM;
        made->topic = topic;
        err = map_insert(&consumer->owners, bytes_of(made->topic.bytes, UUID_BYTES), made);
        if (err != ERR_OK) {
            mem_free(made);
            return err;
        }
    }
    room = made->epoch_room;
    err = mem_grow(&made->epochs, &made->epoch_room, (uint32_t)partition + 1, OWNER_ROOM_FIRST, sizeof(*made->epochs));
    for (uint32_t i = room; i < made->epoch_room; i++)
        made->epochs[i] = PARTITION_FREE;
    *owners = made;
    return err;
}

int32_t consumer_owner_epoch(const struct consumer_group *consumer, struct uuid topic, int32_t partition)
{
    const struct consumer_owners *owners = map_get(&consumer->owners, bytes_of(topic.bytes, UUID_BYTES));

    return owners == NULL || (uint32_t)partition >= owners->epoch_room ? PARTITION_FREE : owners->epochs[partition];
}

/* taken is how many are not free, whatever epochs a log brings. */
static void set_owner(struct consumer_owners *owners, int32_t partition, int32_t epoch)
{
    int32_t *owner = &owners->epochs[partition];

    owners->taken += (uint32_t)(epoch != PARTITION_FREE) - (uint32_t)(*owner != PARTITION_FREE);
    *owner = epoch;
}

static void release(struct consumer_member *member, const struct partition_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct partition_item *item = &set->items[i];
        struct consumer_owners *owners = map_get(&member->consumer->owners, bytes_of(item->topic.bytes, UUID_BYTES));

        if (owners != NULL && (uint32_t)item->partition < owners->epoch_room &&
            owners->epochs[item->partition] == member->epoch)
            set_owner(owners, item->partition, PARTITION_FREE);
    }
}

enum err consumer_take(struct consumer_member *member, const struct partition_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        const struct partition_item *item = &set->items[i];
        struct consumer_owners *owners = NULL;
        enum err err = get_owners(member->consumer, item->topic, item->partition, &owners);

        if (err != ERR_OK)
            return err;
        if (owners->epochs[item->partition] == PARTITION_FREE || owners->epochs[item->partition] < member->epoch)
            set_owner(owners, item->partition, member->epoch);
    }
    return ERR_OK;
}

void consumer_owners_settle(struct consumer_group *consumer)
{
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&consumer->owners, &cursor, NULL, &value)) {
        struct consumer_owners *owners = value;

        if (owners->taken > 0)
            continue;
        (void)map_remove(&consumer->owners, bytes_of(owners->topic.bytes, UUID_BYTES));
        free_owners(owners);
    }
}

void consumer_current_forget(struct consumer_member *member)
{
    if (!member->current)
        return;
    release(member, &member->assigned);
    release(member, &member->revoking);
    partition_set_deinit(&member->assigned);
    partition_set_deinit(&member->revoking);
    member->epoch = 0;
    member->previous_epoch = 0;
    member->state = MEMBER_STABLE;
    member->current = false;
}
