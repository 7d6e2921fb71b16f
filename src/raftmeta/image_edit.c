#include "raftmeta/image_edit.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"

struct image_edit *image_edit_new(struct image *base)
{
    struct image_edit *edit = mem_calloc(1, sizeof(*edit));

    if (edit == NULL)
        return NULL;
    edit->base = image_keep(base);
    edit->next = image_copy(base);
    edit->delta = mem_calloc(1, sizeof(*edit->delta));
    if (edit->delta != NULL)
        atomic_init(&edit->delta->references, 1);
    if (edit->next == NULL || edit->delta == NULL) {
        image_edit_drop(edit);
        return NULL;
    }
    return edit;
}

/* Rows are readers' from here on; no edit may change them any more. */
static void release_rows(struct image_edit *edit)
{
    struct image_delta *delta = edit->delta;

    for (uint32_t i = 0; i < delta->topic_count; i++)
        if (delta->topics[i].after != NULL)
            ((struct image_topic *)(uintptr_t)delta->topics[i].after)->edit = NULL;
    for (uint32_t i = 0; i < delta->broker_count; i++)
        if (delta->brokers[i].after != NULL)
            ((struct image_broker *)(uintptr_t)delta->brokers[i].after)->edit = NULL;
    for (uint32_t i = 0; i < delta->configs_count; i++)
        if (delta->configs[i].after != NULL)
            ((struct image_configs *)(uintptr_t)delta->configs[i].after)->edit = NULL;
}

void image_edit_drop(struct image_edit *edit)
{
    if (edit == NULL)
        return;
    image_delta_drop(edit->delta);
    image_drop(edit->next);
    image_drop(edit->base);
    mem_free(edit);
}

const char *image_edit_message(const struct image_edit *edit)
{
    return edit->message;
}

const struct image *image_edit_view(const struct image_edit *edit)
{
    return edit->next;
}

void edit_say(struct image_edit *edit, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    (void)vsnprintf(edit->message, sizeof(edit->message), format, list);
    va_end(list);
}

enum err edit_fail(struct image_edit *edit, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    (void)vsnprintf(edit->message, sizeof(edit->message), format, list);
    va_end(list);
    return ERR_DAMAGED;
}

enum { CHANGES_FIRST = 4 };

enum err edit_put_topic(struct image_edit *edit, const struct image_topic *before, struct image_topic *after)
{
    struct image_delta *delta = edit->delta;
    struct image *next = edit->next;
    bool known = before != NULL && before->edit == edit;
    uint32_t change = known ? before->change : delta->topic_count;
    enum err err = known ? ERR_OK
                         : mem_grow(&delta->topics, &edit->topic_room, delta->topic_count + 1, CHANGES_FIRST,
                                    sizeof(*delta->topics));

    if (err != ERR_OK)
        return err;
    if (!known && before != NULL)
        topic_row_keep(before); /* the change's; it also outlives its removal from the maps */
    if (after != NULL) {
        err = pmap_put(&next->topics_by_id, bytes_of(after->id.bytes, UUID_BYTES), after);
        if (err == ERR_OK)
            err = pmap_put(&next->topics_by_name, after->name, after);
    } else {
        err = pmap_remove(&next->topics_by_id, bytes_of(before->id.bytes, UUID_BYTES));
        if (err == ERR_OK)
            err = pmap_remove(&next->topics_by_name, before->name);
    }
    if (err != ERR_OK) {
        if (!known)
            topic_row_drop(before);
        return err;
    }
    if (!known)
        delta->topics[delta->topic_count++] = (struct image_topic_change){before, NULL};
    topic_row_drop(delta->topics[change].after);
    delta->topics[change].after = after;
    if (after != NULL) {
        topic_row_keep(after);
        after->edit = edit;
        after->change = change;
    }
    return ERR_OK;
}

enum err edit_topic(struct image_edit *edit, const struct image_topic *topic, struct image_topic **mine)
{
    struct image_topic *copy = NULL;
    enum err err = ERR_OK;

    if (topic->edit == edit) {
        *mine = (struct image_topic *)(uintptr_t)topic;
        return ERR_OK;
    }
    copy = topic_row_copy(topic);
    if (copy == NULL)
        return ERR_NOMEM;
    err = edit_put_topic(edit, topic, copy);
    *mine = copy; /* the image holds it */
    topic_row_drop(copy);
    return err;
}

enum err edit_put_broker(struct image_edit *edit, const struct image_broker *before, struct image_broker *after)
{
    struct image_delta *delta = edit->delta;
    bool known = before != NULL && before->edit == edit;
    uint32_t change = known ? before->change : delta->broker_count;
    enum err err = known ? ERR_OK
                         : mem_grow(&delta->brokers, &edit->broker_room, delta->broker_count + 1, CHANGES_FIRST,
                                    sizeof(*delta->brokers));

    if (err != ERR_OK)
        return err;
    if (!known && before != NULL)
        broker_row_keep(before); /* the change's */
    err = after != NULL ? pmap_put(&edit->next->brokers, broker_row_key(after), after)
                        : pmap_remove(&edit->next->brokers, broker_row_key(before));
    if (err != ERR_OK) {
        if (!known)
            broker_row_drop(before);
        return err;
    }
    if (!known)
        delta->brokers[delta->broker_count++] = (struct image_broker_change){before, NULL};
    broker_row_drop(delta->brokers[change].after);
    delta->brokers[change].after = after;
    if (after != NULL) {
        broker_row_keep(after);
        after->edit = edit;
        after->change = change;
    }
    return ERR_OK;
}

enum err edit_put_configs(struct image_edit *edit, const struct image_configs *before, struct image_configs *after)
{
    struct image_delta *delta = edit->delta;
    bool known = before != NULL && before->edit == edit;
    uint32_t change = known ? before->change : delta->configs_count;
    enum err err = known ? ERR_OK
                         : mem_grow(&delta->configs, &edit->configs_room, delta->configs_count + 1, CHANGES_FIRST,
                                    sizeof(*delta->configs));

    if (err != ERR_OK)
        return err;
    if (!known && before != NULL)
        configs_row_keep(before); /* the change's */
    err = after != NULL ? pmap_put(&edit->next->configs, configs_row_key(after), after)
                        : pmap_remove(&edit->next->configs, configs_row_key(before));
    if (err != ERR_OK) {
        if (!known)
            configs_row_drop(before);
        return err;
    }
    if (!known)
        delta->configs[delta->configs_count++] = (struct image_configs_change){before, NULL};
    configs_row_drop(delta->configs[change].after);
    delta->configs[change].after = after;
    if (after != NULL) {
        configs_row_keep(after);
        after->edit = edit;
        after->change = change;
    }
    return ERR_OK;
}

static enum err apply_feature(struct image_edit *edit, const struct feature_level_record *record)
{
    bool is_metadata = bytes_equal(record->name, BYTES_LITERAL("metadata.version"));
    struct image_feature *row = NULL;
    enum err err = ERR_OK;

    if (is_metadata &&
        (record->feature_level < METADATA_VERSION_OLDEST || record->feature_level > METADATA_VERSION_NEWEST)) {
        edit_say(edit, "metadata.version %d is not one this build knows (%d to %d)", record->feature_level,
                 METADATA_VERSION_OLDEST, METADATA_VERSION_NEWEST);
        return ERR_UNSUPPORTED_VERSION;
    }
    edit->delta->features_changed = true;
    if (record->feature_level == 0) {
        err = pmap_remove(&edit->next->features, record->name);
        return err == ERR_NOT_FOUND ? ERR_OK : err;
    }
    row = feature_row_new(record->name, record->feature_level);
    if (row == NULL)
        return ERR_NOMEM;
    err = pmap_put(&edit->next->features, row->name, row);
    feature_row_drop(row);
    return err;
}

enum err image_edit_apply(struct image_edit *edit, const struct metadata_record *record, int64_t offset)
{
    switch (record->kind) {
    case RECORD_REGISTER_BROKER:
        return image_apply_register_broker(edit, &record->register_broker, offset);
    case RECORD_UNREGISTER_BROKER:
        return image_apply_unregister_broker(edit, &record->unregister_broker);
    case RECORD_TOPIC:
        return image_apply_topic(edit, &record->topic);
    case RECORD_PARTITION:
        return image_apply_partition(edit, &record->partition);
    case RECORD_CONFIG:
        return image_apply_config(edit, &record->config);
    case RECORD_PARTITION_CHANGE:
        return image_apply_partition_change(edit, &record->partition_change);
    case RECORD_FENCE_BROKER:
        return image_apply_fence(edit, record->fence_broker.id, record->fence_broker.epoch, true);
    case RECORD_UNFENCE_BROKER:
        return image_apply_fence(edit, record->unfence_broker.id, record->unfence_broker.epoch, false);
    case RECORD_REMOVE_TOPIC:
        return image_apply_remove_topic(edit, &record->remove_topic);
    case RECORD_FEATURE_LEVEL:
        return apply_feature(edit, &record->feature_level);
    case RECORD_PRODUCER_IDS:
        edit->next->next_producer_id = record->producer_ids.next_producer_id;
        edit->delta->producer_ids_changed = true;
        return ERR_OK;
    case RECORD_BROKER_REGISTRATION_CHANGE:
        return image_apply_broker_change(edit, &record->broker_registration_change);
    case RECORD_REGISTER_CONTROLLER:
        return image_apply_register_controller(edit, &record->register_controller, offset);
    case RECORD_CLEAR_ELR:
        return image_apply_clear_elr(edit, &record->clear_elr);
    case RECORD_DELEGATION_TOKEN:
    case RECORD_REMOVE_DELEGATION_TOKEN:
    case RECORD_USER_SCRAM_CREDENTIAL:
    case RECORD_REMOVE_USER_SCRAM_CREDENTIAL:
    case RECORD_CLIENT_QUOTA:
    case RECORD_ACCESS_CONTROL_ENTRY:
    case RECORD_REMOVE_ACCESS_CONTROL_ENTRY:
        return image_apply_kept(edit, record);
    case RECORD_NO_OP:
    case RECORD_ZK_MIGRATION_STATE: /* what it says has no meaning in 4.x */
    case RECORD_BEGIN_TRANSACTION:  /* the three are their reader's matter (loader.h) */
    case RECORD_END_TRANSACTION:
    case RECORD_ABORT_TRANSACTION:
        return ERR_OK;
    }
    assert_failed("a record kind without a case", __FILE__, __LINE__, __func__);
}

/* Drops changes that came and went within the edit, and finds topics with a partition missing. */
static enum err settle(struct image_edit *edit)
{
    struct image_delta *delta = edit->delta;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < delta->topic_count; i++) {
        const struct image_topic *topic = delta->topics[i].after;

        for (uint32_t p = 0; topic != NULL && p < topic->partition_count; p++)
            if (topic->partitions[p] == NULL)
                return edit_fail(edit, "topic %s has a partition %u but no partition %u", topic->name.data,
                                 topic->partition_count - 1, p);
        if (topic != NULL || delta->topics[i].before != NULL)
            delta->topics[kept++] = delta->topics[i];
    }
    delta->topic_count = kept;
    kept = 0;
    for (uint32_t i = 0; i < delta->broker_count; i++)
        if (delta->brokers[i].after != NULL || delta->brokers[i].before != NULL)
            delta->brokers[kept++] = delta->brokers[i];
    delta->broker_count = kept;
    kept = 0;
    for (uint32_t i = 0; i < delta->configs_count; i++)
        if (delta->configs[i].after != NULL || delta->configs[i].before != NULL)
            delta->configs[kept++] = delta->configs[i];
    delta->configs_count = kept;
    return ERR_OK;
}

enum err image_edit_finish(struct image_edit *edit, int64_t offset, int32_t epoch, int64_t timestamp_ms,
                           struct image **image, struct image_delta **delta)
{
    enum err err = settle(edit);

    assert(offset >= edit->base->offset);
    if (err != ERR_OK)
        goto out;
    release_rows(edit);
    edit->next->offset = offset;
    edit->next->epoch = epoch;
    edit->next->timestamp_ms = timestamp_ms;
    edit->delta->from_offset = edit->base->offset;
    edit->delta->to_offset = offset;
    *image = edit->next;
    *delta = edit->delta;
    edit->next = NULL;
    edit->delta = NULL;
out:
    if (err == ERR_OK)
        image_edit_drop(edit);
    return err;
}
