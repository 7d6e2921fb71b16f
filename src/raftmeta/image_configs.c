/* Configurations, and the kinds of records that are kept as they came: how they change an image. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "raftmeta/image_edit.h"
#include "raftmeta/metadata_limits.h"

/* The place of name among the sorted entries, or where it would go. */
static uint32_t place_of(const struct image_configs *configs, struct bytes name, bool *found)
{
    uint32_t at = 0;

    *found = false;
    while (configs != NULL && at < configs->count) {
        int order = bytes_compare(configs->entries[at].name, name);

        *found = order == 0;
        if (order >= 0)
            break;
        at++;
    }
    return at;
}

enum err image_apply_config(struct image_edit *edit, const struct config_record *record)
{
    const struct image_configs *before = NULL;
    struct image_config *entries = NULL;
    struct image_configs from = {.type = record->resource_type, .resource = record->resource_name};
    struct image_configs *row = NULL;
    uint32_t old_count = 0;
    uint32_t at = 0;
    bool found = false;
    enum err err = ERR_OK;

    if (record->resource_name.size > IMAGE_RESOURCE_BYTES_MAX)
        return edit_fail(edit, "CONFIG for a resource whose name has %zu bytes", record->resource_name.size);
    before = image_configs(edit->next, (enum config_resource_type)record->resource_type, record->resource_name);
    old_count = before == NULL ? 0 : before->count;
    at = place_of(before, record->name, &found);
    if (record->value.data == NULL && !found)
        return ERR_OK;
    if (record->value.data == NULL && old_count == 1)
        return edit_put_configs(edit, before, NULL);
    entries = mem_calloc((size_t)old_count + 1, sizeof(*entries));
    if (entries == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < at; i++)
        entries[from.count++] = before->entries[i];
    if (record->value.data != NULL)
        entries[from.count++] = (struct image_config){record->name, record->value};
    for (uint32_t i = at + found; i < old_count; i++)
        entries[from.count++] = before->entries[i];
    from.entries = entries;
    row = configs_row_new(&from);
    err = row == NULL ? ERR_NOMEM : edit_put_configs(edit, before, row);
    configs_row_drop(row);
    mem_free(entries);
    return err;
}

enum err image_apply_remove_configs(struct image_edit *edit, enum config_resource_type type, struct bytes resource)
{
    const struct image_configs *before = image_configs(edit->next, type, resource);

    return before == NULL ? ERR_OK : edit_put_configs(edit, before, NULL);
}

/* --- records kept as they came --- */

static int by_entity_type(const void *a, const void *b)
{
    const struct client_quota_record_entity_data *x = a;
    const struct client_quota_record_entity_data *y = b;

    return bytes_compare(x->entity_type, y->entity_type);
}

static struct bytes join(struct arena *arena, uint32_t kind, struct bytes a, uint8_t extra)
{
    uint8_t *key = arena_alloc(arena, a.size + 2);

    if (key == NULL)
        return (struct bytes){NULL, 0};
    key[0] = (uint8_t)kind;
    key[1] = extra;
    if (a.size > 0)
        memcpy(key + 2, a.data, a.size);
    return bytes_of(key, a.size + 2);
}

/* Entities come in any order; a quota's key has them by type, each part with its length before it. */
static struct bytes quota_key(struct arena *arena, const struct client_quota_record *record)
{
    struct client_quota_record_entity_data *sorted = arena_array(arena, record->entity_count, sizeof(*sorted));
    struct bytes key = {NULL, 0};

    if (sorted == NULL)
        return key;
    if (record->entity_count > 0)
        memcpy(sorted, record->entity, record->entity_count * sizeof(*sorted));
    qsort(sorted, record->entity_count, sizeof(*sorted), by_entity_type);
    key = arena_printf(arena, "%c%c%zu:%.*s", RECORD_CLIENT_QUOTA, 0, record->key.size, BYTES_PRINTF(record->key));
    for (uint32_t i = 0; key.data != NULL && i < record->entity_count; i++) {
        struct bytes entity =
            arena_printf(arena, "%zu:%.*s%lld:%.*s", sorted[i].entity_type.size, BYTES_PRINTF(sorted[i].entity_type),
                         sorted[i].entity_name.data == NULL ? -1LL : (long long)sorted[i].entity_name.size,
                         BYTES_PRINTF(sorted[i].entity_name));
        uint8_t *both = arena_alloc(arena, key.size + entity.size);

        if (both == NULL || entity.data == NULL)
            return (struct bytes){NULL, 0};
        memcpy(both, key.data, key.size);
        memcpy(both + key.size, entity.data, entity.size);
        key = bytes_of(both, key.size + entity.size);
    }
    return key;
}

/* The key of a record and whether the record takes that key away. A removal has the key of what it removes. */
static struct bytes kept_key(struct arena *arena, const struct metadata_record *record, bool *removes)
{
    *removes = false;
    switch (record->kind) {
    case RECORD_DELEGATION_TOKEN:
        return join(arena, RECORD_DELEGATION_TOKEN, record->delegation_token.token_id, 0);
    case RECORD_REMOVE_DELEGATION_TOKEN:
        *removes = true;
        return join(arena, RECORD_DELEGATION_TOKEN, record->remove_delegation_token.token_id, 0);
    case RECORD_USER_SCRAM_CREDENTIAL:
        return join(arena, RECORD_USER_SCRAM_CREDENTIAL, record->user_scram_credential.name,
                    (uint8_t)record->user_scram_credential.mechanism);
    case RECORD_REMOVE_USER_SCRAM_CREDENTIAL:
        *removes = true;
        return join(arena, RECORD_USER_SCRAM_CREDENTIAL, record->remove_user_scram_credential.name,
                    (uint8_t)record->remove_user_scram_credential.mechanism);
    case RECORD_ACCESS_CONTROL_ENTRY:
        return join(arena, RECORD_ACCESS_CONTROL_ENTRY, bytes_of(record->access_control_entry.id.bytes, UUID_BYTES), 0);
    case RECORD_REMOVE_ACCESS_CONTROL_ENTRY:
        *removes = true;
        return join(arena, RECORD_ACCESS_CONTROL_ENTRY,
                    bytes_of(record->remove_access_control_entry.id.bytes, UUID_BYTES), 0);
    case RECORD_CLIENT_QUOTA:
        *removes = record->client_quota.remove;
        return quota_key(arena, &record->client_quota);
    default:
        assert_failed("a kind that is not kept", __FILE__, __LINE__, __func__);
    }
}

enum err image_apply_kept(struct image_edit *edit, const struct metadata_record *record)
{
    struct arena arena;
    struct image_record *row = NULL;
    struct bytes frame = {NULL, 0};
    struct bytes key;
    bool removes = false;
    enum err err = ERR_NOMEM;

    arena_init(&arena, METADATA_BATCH_BYTES_MAX);
    key = kept_key(&arena, record, &removes);
    if (key.data == NULL)
        goto out;
    edit->delta->records_changed = true;
    if (removes) {
        err = pmap_remove(&edit->next->records, key);
        err = err == ERR_NOT_FOUND ? ERR_OK : err; /* a quota may be removed twice */
        goto out;
    }
    err = metadata_record_write(record, &arena, &frame);
    if (err != ERR_OK)
        goto out;
    row = record_row_new((uint32_t)record->kind, key, frame);
    err = row == NULL ? ERR_NOMEM : pmap_put(&edit->next->records, row->key, row);
out:
    record_row_drop(row);
    arena_deinit(&arena);
    return err;
}
