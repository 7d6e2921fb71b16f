/* Brokers and controllers register, are heard of, and leave (controller.md "Brokers"). */
#include "base/assert.h"
#include "raftmeta/controller_step.h"

struct taken {
    const struct register_broker *request;
    struct uuid directory;
    int32_t owner;
};

static enum err find_owner(void *context, const struct image_broker *broker)
{
    struct taken *taken = context;

    if (broker->id == taken->request->broker_id)
        return ERR_OK;
    for (uint32_t i = 0; i < broker->directory_count; i++) {
        for (uint32_t j = 0; j < taken->request->directory_count; j++) {
            if (!uuid_equal(broker->directories[i], taken->request->directories[j]))
                continue;
            taken->directory = broker->directories[i];
            taken->owner = broker->id;
            return ERR_END;
        }
    }
    return ERR_OK;
}

static bool check_directories(struct step *step, const struct register_broker *request)
{
    struct taken taken = {.request = request};

    if (request->directory_count == 0) {
        step_refuse(step, ERR_INVALID_REGISTRATION, "No directories specified in request");
        return false;
    }
    for (uint32_t i = 0; i < request->directory_count; i++) {
        if (image_directory_is_reserved(request->directories[i])) {
            step_refuse(step, ERR_INVALID_REGISTRATION, "Reserved directory ID in request");
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (!uuid_equal(request->directories[i], request->directories[j]))
                continue;
            step_refuse(step, ERR_INVALID_REGISTRATION, "Duplicate directory ID in request");
            return false;
        }
    }
    if (image_each_broker(step->image, find_owner, &taken) == ERR_END) {
        step_refuse(step, ERR_INVALID_REGISTRATION, "Broker %d is already registered with directory %s", taken.owner,
                    uuid_format(taken.directory).text);
        return false;
    }
    return true;
}

/* What a registration must support: each finalised feature, at its level; one it does not list counts as 0 to 0. */
struct supports {
    struct step *step;
    const struct image_feature_range *features;
    uint32_t count;
};

static enum err check_level(void *context, struct bytes name, int16_t level)
{
    struct supports *supports = context;
    struct image_feature_range range = {.name = name};

    for (uint32_t i = 0; i < supports->count; i++)
        if (bytes_equal(supports->features[i].name, name))
            range = supports->features[i];
    if (level >= range.min && level <= range.max)
        return ERR_OK;
    step_refuse(supports->step, ERR_UNSUPPORTED_VERSION,
                "Unable to register because the broker does not support finalized version %d of %.*s. The broker wants "
                "a version between %d and %d, inclusive.",
                level, BYTES_PRINTF(name), range.min, range.max);
    return ERR_UNSUPPORTED_VERSION;
}

static bool check_features(struct step *step, const struct register_broker *request)
{
    struct supports supports = {step, request->features, request->feature_count};
    bool names_metadata = false;

    for (uint32_t i = 0; i < request->feature_count; i++)
        names_metadata |= bytes_equal(request->features[i].name, BYTES_LITERAL("metadata.version"));
    if (!names_metadata) {
        step_refuse(step, ERR_INVALID_REGISTRATION, "Request features do not contain 'metadata.version'");
        return false;
    }
    return image_each_feature(step->image, check_level, &supports) == ERR_OK;
}

/*
 * Another process with this id may be alive only if it was heard of lately. This node's own broker is never locked out:
 * it shares our process and its directories' lock, so whoever registered before is gone.
 */
static bool may_be_alive(struct step *step, const struct image_broker *old)
{
    const struct controller *controller = step->controller;
    const struct broker_contact *contact = controller_contact(step->controller, old->id);

    return old->id != controller->settings.node_id && !old->fenced && contact != NULL && contact->epoch == old->epoch &&
           step->now_ms - contact->at_ms < controller->settings.session_timeout_ms;
}

static enum err add_registration(struct step *step, const struct register_broker *request, int64_t epoch,
                                 const struct image_broker *same)
{
    struct metadata_record *record = step_add(step, RECORD_REGISTER_BROKER);
    struct broker_endpoint *endpoints = step_array(step, request->endpoint_count, sizeof(*endpoints));
    struct broker_feature *features = step_array(step, request->feature_count, sizeof(*features));

    if (record == NULL || endpoints == NULL || features == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < request->endpoint_count; i++)
        endpoints[i] = (struct broker_endpoint){request->endpoints[i].name, request->endpoints[i].host,
                                                request->endpoints[i].port, request->endpoints[i].security_protocol};
    for (uint32_t i = 0; i < request->feature_count; i++)
        features[i] =
            (struct broker_feature){request->features[i].name, request->features[i].min, request->features[i].max};
    record->register_broker.broker_id = request->broker_id;
    record->register_broker.incarnation_id = request->incarnation;
    record->register_broker.broker_epoch = epoch;
    record->register_broker.end_points = endpoints;
    record->register_broker.end_points_count = request->endpoint_count;
    record->register_broker.features = features;
    record->register_broker.features_count = request->feature_count;
    record->register_broker.rack = request->rack;
    record->register_broker.fenced = same == NULL || same->fenced;
    record->register_broker.in_controlled_shutdown = same != NULL && same->in_controlled_shutdown;
    record->register_broker.log_dirs = (struct uuid *)(uintptr_t)request->directories;
    record->register_broker.log_dirs_count = request->directory_count;
    return ERR_OK;
}

enum err step_register_broker(struct step *step)
{
    struct register_broker *request = &step->request->register_broker;
    const char *cluster_id = step->controller->settings.cluster_id;
    const struct image_broker *old = image_broker(step->image, request->broker_id);
    bool same = old != NULL && uuid_equal(old->incarnation, request->incarnation);
    enum err err = ERR_OK;

    request->epoch = -1;
    if (!bytes_equal(request->cluster_id, bytes_of_text(cluster_id))) {
        step_refuse(step, ERR_INCONSISTENT_CLUSTER_ID, "Expected cluster ID %s, but got cluster ID %.*s", cluster_id,
                    BYTES_PRINTF(request->cluster_id));
        return ERR_OK;
    }
    if (old != NULL && !same && may_be_alive(step, old)) {
        step_refuse(step, ERR_DUPLICATE_BROKER_REGISTRATION, "Another broker is registered with that broker id.");
        return ERR_OK;
    }
    if (request->migrating) {
        step_refuse(step, ERR_BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.");
        return ERR_OK;
    }
    if (image_metadata_version(step->image) >= METADATA_VERSION_DIRECTORIES && !check_directories(step, request))
        return ERR_OK;
    if (!check_features(step, request))
        return ERR_OK;
    /* Partitions of a gone incarnation first, so that the new one begins with nothing; the epoch is the offset of the
     * first record of this write. */
    request->epoch = same ? old->epoch : step->controller->next_offset;
    if (old != NULL && !same)
        err = step_update_partitions(step, (struct partition_target){.fenced = request->broker_id, .unfenced = -1});
    if (err == ERR_OK)
        err = add_registration(step, request, request->epoch, same ? old : NULL);
    if (err == ERR_OK)
        err = controller_touch(step->controller, request->broker_id, request->epoch, step->now_ms);
    return err;
}

enum err step_register_controller(struct step *step)
{
    const struct register_controller *request = &step->request->register_controller;
    struct metadata_record *record = NULL;
    struct controller_endpoint *endpoints = step_array(step, request->endpoint_count, sizeof(*endpoints));
    struct controller_feature *features = step_array(step, request->feature_count, sizeof(*features));

    if (image_metadata_version(step->image) < 15) {
        step_refuse(step, ERR_UNSUPPORTED_VERSION,
                    "The current MetadataVersion is too old to support controller registrations.");
        return ERR_OK;
    }
    record = step_add(step, RECORD_REGISTER_CONTROLLER);
    if (record == NULL || endpoints == NULL || features == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < request->endpoint_count; i++)
        endpoints[i] =
            (struct controller_endpoint){request->endpoints[i].name, request->endpoints[i].host,
                                         request->endpoints[i].port, request->endpoints[i].security_protocol};
    for (uint32_t i = 0; i < request->feature_count; i++)
        features[i] =
            (struct controller_feature){request->features[i].name, request->features[i].min, request->features[i].max};
    record->register_controller.controller_id = request->controller_id;
    record->register_controller.incarnation_id = request->incarnation;
    record->register_controller.end_points = endpoints;
    record->register_controller.end_points_count = request->endpoint_count;
    record->register_controller.features = features;
    record->register_controller.features_count = request->feature_count;
    return ERR_OK;
}

/* --- heartbeats --- */

static enum err add_change(struct step *step, const struct image_broker *broker, int8_t fenced, int8_t shutdown)
{
    struct metadata_record *record = step_add(step, RECORD_BROKER_REGISTRATION_CHANGE);

    if (record == NULL)
        return ERR_NOMEM;
    record->version = shutdown != 0 ? 1 : 0;
    record->broker_registration_change.broker_id = broker->id;
    record->broker_registration_change.broker_epoch = broker->epoch;
    record->broker_registration_change.fenced = fenced;
    record->broker_registration_change.in_controlled_shutdown = shutdown;
    return ERR_OK;
}

static enum err fence(struct step *step, const struct image_broker *broker)
{
    enum err err = step_update_partitions(step, (struct partition_target){.fenced = broker->id, .unfenced = -1});

    return err == ERR_OK && !broker->fenced ? add_change(step, broker, 1, 0) : err;
}

static enum err unfence(struct step *step, const struct image_broker *broker)
{
    enum err err = add_change(step, broker, -1, 0);

    return err == ERR_OK ? step_update_partitions(step, (struct partition_target){.fenced = -1, .unfenced = broker->id})
                         : err;
}

struct lowest {
    const struct step *step;
    int64_t offset;
};

/* The offset that every active broker has applied. */
static enum err find_lowest(void *context, const struct image_broker *broker)
{
    struct lowest *lowest = context;
    const struct broker_contact *contact = controller_contact(lowest->step->controller, broker->id);

    if (!broker->fenced && !broker->in_controlled_shutdown && contact != NULL &&
        contact->metadata_offset < lowest->offset)
        lowest->offset = contact->metadata_offset;
    return ERR_OK;
}

/* Controlled shutdown: first its partitions are given away, then all others must have learnt of it, then it may go. */
static enum err shut_down(struct step *step, const struct image_broker *broker, struct broker_contact *contact,
                          struct broker_heartbeat *request)
{
    struct lowest lowest = {step, INT64_MAX};
    enum err err = ERR_OK;

    if (!broker->in_controlled_shutdown && step_leads_any(step, broker->id)) {
        err = add_change(step, broker, 0, 1);
        if (err == ERR_OK)
            err = step_update_partitions(step, (struct partition_target){.fenced = broker->id, .unfenced = -1});
        contact->shutdown_offset = step->controller->next_offset + step->count - 1;
        return err;
    }
    if (broker->in_controlled_shutdown) {
        if (step_leads_any(step, broker->id))
            return ERR_OK;
        err = image_each_broker(step->image, find_lowest, &lowest);
        assert(err == ERR_OK);
        if (contact->shutdown_offset > lowest.offset)
            return ERR_OK;
    }
    request->should_shut_down = true;
    request->fenced = true;
    return fence(step, broker);
}

enum err step_heartbeat(struct step *step)
{
    struct broker_heartbeat *request = &step->request->broker_heartbeat;
    const struct image_broker *broker = image_broker(step->image, request->broker_id);
    struct broker_contact *contact = NULL;
    enum err err = ERR_OK;

    request->caught_up = false;
    request->fenced = true;
    request->should_shut_down = false;
    if (step_check_epoch(step, request->broker_id, request->broker_epoch) != ERR_OK)
        return ERR_OK;
    err = controller_touch(step->controller, broker->id, broker->epoch, step->now_ms);
    if (err != ERR_OK)
        return err;
    contact = controller_contact(step->controller, broker->id);
    contact->metadata_offset = request->metadata_offset;
    request->caught_up = request->metadata_offset >= broker->registered_offset;
    request->fenced = broker->fenced;
    if (request->offline_count > 0) {
        err = step_directories_offline(step, broker, request->offline, request->offline_count);
        if (err != ERR_OK)
            return err;
    }
    if (broker->fenced) {
        if (request->want_shutdown) {
            request->should_shut_down = true;
            return fence(step, broker);
        }
        if (request->want_fence || !request->caught_up)
            return ERR_OK;
        request->fenced = false;
        return unfence(step, broker);
    }
    if (request->want_fence) {
        request->fenced = true;
        request->should_shut_down = request->want_shutdown;
        return fence(step, broker);
    }
    return request->want_shutdown ? shut_down(step, broker, contact, request) : ERR_OK;
}

enum err step_unregister_broker(struct step *step)
{
    const struct unregister_broker *request = &step->request->unregister_broker;
    const struct image_broker *broker = image_broker(step->image, request->broker_id);
    struct metadata_record *record = NULL;
    enum err err = ERR_OK;

    if (broker == NULL) {
        step_refuse(step, ERR_BROKER_ID_NOT_REGISTERED, "Broker ID %d is not currently registered", request->broker_id);
        return ERR_OK;
    }
    err = step_update_partitions(step, (struct partition_target){.fenced = broker->id, .unfenced = -1});
    if (err != ERR_OK)
        return err;
    record = step_add(step, RECORD_UNREGISTER_BROKER);
    if (record == NULL)
        return ERR_NOMEM;
    record->unregister_broker.broker_id = broker->id;
    record->unregister_broker.broker_epoch = broker->epoch;
    return ERR_OK;
}
