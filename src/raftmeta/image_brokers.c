/* Brokers and controllers: how their records change an image. */
#include "base/assert.h"
#include "base/mem.h"
#include "raftmeta/image_edit.h"

enum err image_apply_register_broker(struct image_edit *edit, const struct register_broker_record *record,
                                     int64_t offset)
{
    struct image_endpoint *endpoints = mem_calloc((size_t)record->end_points_count + 1, sizeof(*endpoints));
    struct image_feature_range *features = mem_calloc((size_t)record->features_count + 1, sizeof(*features));
    struct image_broker from = {
        .id = record->broker_id,
        .epoch = record->broker_epoch,
        .registered_offset = offset,
        .incarnation = record->incarnation_id,
        .rack = record->rack,
        .fenced = record->fenced,
        .in_controlled_shutdown = record->in_controlled_shutdown,
        .endpoint_count = record->end_points_count,
        .endpoints = endpoints,
        .feature_count = record->features_count,
        .features = features,
        .directory_count = record->log_dirs_count,
        .directories = record->log_dirs,
        .cordoned_count = record->cordoned_log_dirs_count,
        .cordoned = record->cordoned_log_dirs,
    };
    struct image_broker *row = NULL;
    enum err err = ERR_NOMEM;

    if (endpoints == NULL || features == NULL)
        goto out;
    for (uint32_t i = 0; i < record->end_points_count; i++)
        endpoints[i] = (struct image_endpoint){record->end_points[i].name, record->end_points[i].host,
                                               record->end_points[i].port, record->end_points[i].security_protocol};
    for (uint32_t i = 0; i < record->features_count; i++)
        features[i] = (struct image_feature_range){record->features[i].name, record->features[i].min_supported_version,
                                                   record->features[i].max_supported_version};
    row = broker_row_new(&from);
    if (row != NULL)
        err = edit_put_broker(edit, image_broker(edit->next, record->broker_id), row);
out:
    broker_row_drop(row);
    mem_free(endpoints);
    mem_free(features);
    return err;
}

/* The registration that a record is about; epoch is of that incarnation. */
static enum err find(struct image_edit *edit, const char *kind, int32_t id, int64_t epoch,
                     const struct image_broker **broker)
{
    *broker = image_broker(edit->next, id);
    if (*broker == NULL)
        return edit_fail(edit, "%s for the unknown broker %d", kind, id);
    if ((*broker)->epoch != epoch)
        return edit_fail(edit, "%s for broker %d names epoch %lld, but it has %lld", kind, id, (long long)epoch,
                         (long long)(*broker)->epoch);
    return ERR_OK;
}

enum err image_apply_unregister_broker(struct image_edit *edit, const struct unregister_broker_record *record)
{
    const struct image_broker *broker = NULL;
    enum err err = find(edit, "UNREGISTER_BROKER", record->broker_id, record->broker_epoch, &broker);

    return err == ERR_OK ? edit_put_broker(edit, broker, NULL) : err;
}

static enum err replace(struct image_edit *edit, const struct image_broker *broker, const struct image_broker *from)
{
    struct image_broker *row = broker_row_new(from);
    enum err err = ERR_NOMEM;

    if (row != NULL)
        err = edit_put_broker(edit, broker, row);
    broker_row_drop(row);
    return err;
}

enum err image_apply_broker_change(struct image_edit *edit, const struct broker_registration_change_record *record)
{
    const struct image_broker *broker = NULL;
    struct image_broker from;
    enum err err = find(edit, "BROKER_REGISTRATION_CHANGE", record->broker_id, record->broker_epoch, &broker);

    if (err != ERR_OK)
        return err;
    ROW_COPY(&from, broker);
    if (record->fenced != 0) /* 1 fenced, -1 not any more */
        from.fenced = record->fenced > 0;
    if (record->in_controlled_shutdown != 0)
        from.in_controlled_shutdown = record->in_controlled_shutdown > 0;
    if (record->log_dirs_count > 0) {
        from.directory_count = record->log_dirs_count;
        from.directories = record->log_dirs;
    }
    if (record->cordoned_log_dirs != NULL) {
        from.cordoned_count = record->cordoned_log_dirs_count;
        from.cordoned = record->cordoned_log_dirs;
    }
    return replace(edit, broker, &from);
}

enum err image_apply_fence(struct image_edit *edit, int32_t id, int64_t epoch, bool fenced)
{
    const struct image_broker *broker = NULL;
    struct image_broker from;
    enum err err = find(edit, fenced ? "FENCE_BROKER" : "UNFENCE_BROKER", id, epoch, &broker);

    if (err != ERR_OK)
        return err;
    ROW_COPY(&from, broker);
    from.fenced = fenced;
    return replace(edit, broker, &from);
}

enum err image_apply_register_controller(struct image_edit *edit, const struct register_controller_record *record,
                                         int64_t offset)
{
    struct image_endpoint *endpoints = mem_calloc((size_t)record->end_points_count + 1, sizeof(*endpoints));
    struct image_feature_range *features = mem_calloc((size_t)record->features_count + 1, sizeof(*features));
    struct image_broker from = {
        .id = record->controller_id,
        .epoch = -1,
        .registered_offset = offset,
        .incarnation = record->incarnation_id,
        .endpoint_count = record->end_points_count,
        .endpoints = endpoints,
        .feature_count = record->features_count,
        .features = features,
    };
    struct image_broker *row = NULL;
    enum err err = ERR_NOMEM;

    if (endpoints == NULL || features == NULL)
        goto out;
    for (uint32_t i = 0; i < record->end_points_count; i++)
        endpoints[i] = (struct image_endpoint){record->end_points[i].name, record->end_points[i].host,
                                               record->end_points[i].port, record->end_points[i].security_protocol};
    for (uint32_t i = 0; i < record->features_count; i++)
        features[i] = (struct image_feature_range){record->features[i].name, record->features[i].min_supported_version,
                                                   record->features[i].max_supported_version};
    row = broker_row_new(&from);
    if (row != NULL)
        err = pmap_put(&edit->next->controllers, broker_row_key(row), row);
    edit->delta->controllers_changed = true;
out:
    broker_row_drop(row);
    mem_free(endpoints);
    mem_free(features);
    return err;
}
