#include "base/assert.h"
#include "base/mem.h"
#include "coordinator/classic_internal.h"

enum { MEMBERS_MAX = 1 << 24, PROTOCOLS_MAX = 1 << 24 };

enum err classic_keep(struct bytes *to, struct bytes from)
{
    char *copy = NULL;

    if (from.data != NULL) {
        copy = mem_copy_text(from.data, from.size);
        if (copy == NULL)
            return ERR_NOMEM;
    }
    mem_free((void *)(uintptr_t)to->data);
    *to = bytes_of(copy, from.size);
    return ERR_OK;
}

void classic_drop(struct bytes *text)
{
    mem_free((void *)(uintptr_t)text->data);
    *text = (struct bytes){0};
}

enum err classic_of_group(struct group *group, struct classic_group **classic)
{
    struct classic_group *made = group->classic;
    uint64_t seed = group->groups->seed;

    if (made == NULL) {
        made = mem_calloc(1, sizeof(*made));
        if (made == NULL)
            return ERR_NOMEM;
        made->group = group;
        made->since_ms = -1;
        map_init(&made->members, seed, MEMBERS_MAX);
        map_init(&made->instances, seed, MEMBERS_MAX);
        map_init(&made->pending, seed, MEMBERS_MAX);
        protocol_support_init(&made->supported, seed);
        map_init(&made->topics, seed, MAP_COUNT_MAX);
        group->classic = made;
    }
    *classic = made;
    return ERR_OK;
}

/* ---- which protocols how many support ---- */

static bool all_support(const struct classic_group *classic, struct bytes name)
{
    return classic_member_count(classic) > 0 &&
           protocol_support_count(&classic->supported, name) == classic_member_count(classic);
}

bool classic_supports(const struct classic_group *classic, const struct classic_protocol *protocols, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (all_support(classic, protocols[i].name))
            return true;
    return false;
}

struct bytes classic_select_protocol(const struct classic_group *classic)
{
    struct bytes best = {0};
    uint32_t best_votes = 0;
    uint32_t cursor = 0;
    void *value = NULL;
    struct map votes; /* by name: a number in the guise of a pointer */

    map_init(&votes, classic->group->groups->seed, PROTOCOLS_MAX);
    while (map_next(&classic->members, &cursor, NULL, &value)) {
        const struct classic_member *member = value;
        struct bytes name = {0};
        uint32_t count = 0;
        void *before = NULL;

        for (uint32_t i = 0; i < member->protocol_count && name.data == NULL; i++)
            if (all_support(classic, member->protocols[i].name))
                name = member->protocols[i].name;
        if (name.data == NULL)
            continue; /* a record that Kafka would not have written */
        count = (uint32_t)(uintptr_t)map_get(&votes, name) + 1;
        /* Without memory the vote is not counted: any protocol that all support will do. */
        if (map_put(&votes, name, (void *)(uintptr_t)count, &before) != ERR_OK)
            count = 1;
        if (count > best_votes) {
            best = name;
            best_votes = count;
        }
    }
    map_deinit(&votes);
    return best;
}

/* ---- members ---- */

/* One block: the array, then names and bytes. Names that come again are left out. */
static enum err copy_protocols(uint64_t seed, const struct classic_protocol *from, uint32_t count,
                               struct classic_protocol **protocols, uint32_t *kept)
{
    size_t size = sizeof(*from) * ((size_t)count + 1);
    struct classic_protocol *to = NULL;
    uint8_t *at = NULL;
    struct map seen;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < count; i++)
        size += from[i].name.size + from[i].metadata.size;
    to = mem_alloc(size);
    if (to == NULL)
        return ERR_NOMEM;
    map_init(&seen, seed, PROTOCOLS_MAX);
    at = (uint8_t *)(to + count + 1);
    *kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct classic_protocol *entry = &to[*kept];

        err = map_insert(&seen, from[i].name, to);
        if (err == ERR_EXISTS)
            continue;
        if (err != ERR_OK)
            goto out;
        entry->name = bytes_of(at, from[i].name.size);
        if (from[i].name.size > 0)
            memcpy(at, from[i].name.data, from[i].name.size);
        at += from[i].name.size;
        entry->metadata = bytes_of(at, from[i].metadata.size);
        if (from[i].metadata.size > 0)
            memcpy(at, from[i].metadata.data, from[i].metadata.size);
        at += from[i].metadata.size;
        ++*kept;
    }
    err = ERR_OK;
    *protocols = to;
    to = NULL;
out:
    map_deinit(&seen);
    mem_free(to);
    return err == ERR_OK ? ERR_OK : ERR_NOMEM;
}

enum err classic_member_set_protocols(struct classic_member *member, const struct classic_protocol *protocols,
                                      uint32_t count)
{
    struct classic_group *classic = member->classic;
    struct classic_protocol *copy = NULL;
    uint32_t kept = 0;
    enum err err = copy_protocols(classic->group->groups->seed, protocols, count, &copy, &kept);

    if (err != ERR_OK)
        return err;
    err = protocol_support_add(&classic->supported, copy, kept);
    if (err != ERR_OK) {
        mem_free(copy);
        return err;
    }
    protocol_support_remove(&classic->supported, member->protocols, member->protocol_count);
    mem_free(member->protocols);
    member->protocols = copy;
    member->protocol_count = kept;
    return ERR_OK;
}

static void free_parts(struct classic_member *member)
{
    mem_free(member->protocols);
    classic_drop(&member->id);
    classic_drop(&member->instance_id);
    classic_drop(&member->client_id);
    classic_drop(&member->client_host);
    classic_drop(&member->assignment);
    mem_free(member);
}

static void free_member(struct classic_member *member)
{
    struct classic_group *classic = member->classic;

    assert(member->joining == NULL && member->syncing == NULL);
    group_timer_stop(classic->group->groups, &member->session);
    protocol_support_remove(&classic->supported, member->protocols, member->protocol_count);
    free_parts(member);
}

static struct bytes or_empty(struct bytes text)
{
    return text.data == NULL ? BYTES_LITERAL("") : text;
}

enum err classic_member_add(struct classic_group *classic, const struct classic_member_spec *spec,
                            struct classic_member **member)
{
    struct classic_member *made = mem_calloc(1, sizeof(*made));
    enum err err = ERR_NOMEM;

    if (made == NULL)
        return ERR_NOMEM;
    made->classic = classic;
    made->rebalance_timeout_ms = spec->rebalance_timeout_ms;
    made->session_timeout_ms = spec->session_timeout_ms;
    if (classic_keep(&made->id, spec->id) != ERR_OK || classic_keep(&made->instance_id, spec->instance_id) != ERR_OK ||
        classic_keep(&made->client_id, or_empty(spec->client_id)) != ERR_OK ||
        classic_keep(&made->client_host, or_empty(spec->client_host)) != ERR_OK)
        goto out;
    err = classic_member_set_protocols(made, spec->protocols, spec->protocol_count);
    if (err != ERR_OK)
        goto out;
    err = map_insert(&classic->members, made->id, made);
    if (err == ERR_OK && made->instance_id.data != NULL) {
        err = map_insert(&classic->instances, made->instance_id, made);
        if (err != ERR_OK)
            (void)map_remove(&classic->members, made->id);
    }
    if (err != ERR_OK)
        goto out;
    if (classic->leader == NULL)
        classic->leader = made;
    *member = made;
    made = NULL;
out:
    if (made != NULL)
        free_member(made);
    return err == ERR_OK ? ERR_OK : ERR_NOMEM;
}

enum err classic_member_rename(struct classic_member *member, struct bytes id)
{
    struct classic_group *classic = member->classic;
    struct bytes copy = {0};
    enum err err = classic_keep(&copy, id);

    if (err != ERR_OK)
        return err;
    err = map_insert(&classic->members, copy, member);
    if (err != ERR_OK) {
        classic_drop(&copy);
        return ERR_NOMEM;
    }
    (void)map_remove(&classic->members, member->id);
    classic_drop(&member->id);
    member->id = copy;
    return ERR_OK;
}

enum err classic_member_set_assignment(struct classic_member *member, struct bytes assignment)
{
    return classic_keep(&member->assignment, assignment);
}

void classic_member_remove(struct classic_member *member)
{
    struct classic_group *classic = member->classic;
    uint32_t cursor = 0;
    void *first = NULL;

    classic_synced(member);
    (void)map_remove(&classic->members, member->id);
    if (member->instance_id.data != NULL)
        (void)map_remove(&classic->instances, member->instance_id);
    if (classic->leader == member)
        classic->leader = map_next(&classic->members, &cursor, NULL, &first) ? first : NULL;
    free_member(member);
}

void classic_free(struct classic_group *classic)
{
    struct groups *groups = classic->group->groups;
    uint32_t cursor = 0;
    void *value = NULL;
    struct bytes id = {0};

    while (map_next(&classic->members, &cursor, NULL, &value))
        free_member(value);
    cursor = 0;
    while (map_next(&classic->pending, &cursor, &id, &value))
        classic_pending_remove(classic, id);
    group_timer_stop(groups, &classic->join_timer);
    group_timer_stop(groups, &classic->sync_timer);
    map_deinit(&classic->members);
    map_deinit(&classic->instances);
    map_deinit(&classic->pending);
    protocol_support_deinit(&classic->supported);
    classic_topics_forget(classic);
    classic_drop(&classic->protocol_type);
    classic_drop(&classic->protocol);
    mem_free(classic->owned);
    mem_free(classic);
}

struct classic_member *classic_member_find(const struct classic_group *classic, struct bytes id)
{
    return map_get(&classic->members, id);
}

struct classic_member *classic_member_find_instance(const struct classic_group *classic, struct bytes instance_id)
{
    return map_get(&classic->instances, instance_id);
}

enum err classic_member_check(const struct classic_group *classic, struct bytes id, struct bytes instance_id,
                              struct classic_member **member)
{
    struct classic_member *found = NULL;

    if (classic == NULL)
        return ERR_UNKNOWN_MEMBER_ID;
    if (instance_id.data != NULL) {
        found = classic_member_find_instance(classic, instance_id);
        if (found == NULL)
            return ERR_UNKNOWN_MEMBER_ID;
        if (!bytes_equal(found->id, id))
            return ERR_FENCED_INSTANCE_ID;
    }
    found = classic_member_find(classic, id);
    if (found == NULL)
        return ERR_UNKNOWN_MEMBER_ID;
    *member = found;
    return ERR_OK;
}

struct bytes classic_member_metadata(const struct classic_member *member, struct bytes protocol)
{
    for (uint32_t i = 0; i < member->protocol_count; i++)
        if (bytes_equal(member->protocols[i].name, protocol))
            return member->protocols[i].metadata;
    return BYTES_LITERAL("");
}

bool classic_member_matches(const struct classic_member *member, const struct classic_protocol *protocols,
                            uint32_t count)
{
    if (member->protocol_count != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!bytes_equal(member->protocols[i].name, protocols[i].name) ||
            !bytes_equal(member->protocols[i].metadata, protocols[i].metadata))
            return false;
    return true;
}

int32_t classic_rebalance_timeout_ms(const struct classic_group *classic)
{
    int32_t most = 0;
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&classic->members, &cursor, NULL, &value)) {
        const struct classic_member *member = value;

        if (member->rebalance_timeout_ms > most)
            most = member->rebalance_timeout_ms;
    }
    return most;
}
