#include "raftmeta/image_records.h"

#include "base/assert.h"
#include "raftmeta/metadata_limits.h"

struct writer {
    const struct image *image;
    int16_t metadata_version;
    struct arena arena; /* of the record at hand */
    image_frame_fn *each;
    void *context;
};

static enum err put(struct writer *writer, const struct metadata_record *record)
{
    struct bytes frame;
    enum err err = metadata_record_write(record, &writer->arena, &frame);

    if (err == ERR_OK)
        err = writer->each(writer->context, frame);
    arena_reset(&writer->arena);
    return err;
}

static enum err put_level(struct writer *writer, struct bytes name, int16_t level)
{
    struct metadata_record record;

    metadata_record_init(&record, RECORD_FEATURE_LEVEL, writer->metadata_version);
    record.feature_level.name = name;
    record.feature_level.feature_level = level;
    return put(writer, &record);
}

static enum err put_other_level(void *context, struct bytes name, int16_t level)
{
    /* metadata.version went out first; kraft.version is the quorum's own record. */
    if (bytes_equal(name, BYTES_LITERAL("metadata.version")) || bytes_equal(name, BYTES_LITERAL("kraft.version")))
        return ERR_OK;
    return put_level(context, name, level);
}

static enum err put_broker(void *context, const struct image_broker *broker)
{
    struct writer *writer = context;
    struct metadata_record record;
    struct broker_endpoint *endpoints = arena_array(&writer->arena, broker->endpoint_count, sizeof(*endpoints));
    struct broker_feature *features = arena_array(&writer->arena, broker->feature_count, sizeof(*features));

    if (endpoints == NULL || features == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < broker->endpoint_count; i++)
        endpoints[i] = (struct broker_endpoint){broker->endpoints[i].name, broker->endpoints[i].host,
                                                broker->endpoints[i].port, broker->endpoints[i].security_protocol};
    for (uint32_t i = 0; i < broker->feature_count; i++)
        features[i] =
            (struct broker_feature){broker->features[i].name, broker->features[i].min, broker->features[i].max};
    metadata_record_init(&record, RECORD_REGISTER_BROKER, writer->metadata_version);
    record.register_broker.broker_id = broker->id;
    record.register_broker.incarnation_id = broker->incarnation;
    record.register_broker.broker_epoch = broker->epoch;
    record.register_broker.end_points = endpoints;
    record.register_broker.end_points_count = broker->endpoint_count;
    record.register_broker.features = features;
    record.register_broker.features_count = broker->feature_count;
    record.register_broker.rack = broker->rack;
    record.register_broker.fenced = broker->fenced;
    record.register_broker.in_controlled_shutdown = broker->in_controlled_shutdown;
    record.register_broker.log_dirs = (struct uuid *)(uintptr_t)broker->directories;
    record.register_broker.log_dirs_count = broker->directory_count;
    return put(writer, &record);
}

static enum err put_controller(void *context, const struct image_broker *node)
{
    struct writer *writer = context;
    struct metadata_record record;
    struct controller_endpoint *endpoints = arena_array(&writer->arena, node->endpoint_count, sizeof(*endpoints));
    struct controller_feature *features = arena_array(&writer->arena, node->feature_count, sizeof(*features));

    if (endpoints == NULL || features == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < node->endpoint_count; i++)
        endpoints[i] = (struct controller_endpoint){node->endpoints[i].name, node->endpoints[i].host,
                                                    node->endpoints[i].port, node->endpoints[i].security_protocol};
    for (uint32_t i = 0; i < node->feature_count; i++)
        features[i] = (struct controller_feature){node->features[i].name, node->features[i].min, node->features[i].max};
    metadata_record_init(&record, RECORD_REGISTER_CONTROLLER, writer->metadata_version);
    record.register_controller.controller_id = node->id;
    record.register_controller.incarnation_id = node->incarnation;
    record.register_controller.end_points = endpoints;
    record.register_controller.end_points_count = node->endpoint_count;
    record.register_controller.features = features;
    record.register_controller.features_count = node->feature_count;
    return put(writer, &record);
}

static int32_t *ids(const int32_t *from)
{
    return (int32_t *)(uintptr_t)from;
}

static enum err put_partition(struct writer *writer, const struct image_topic *topic, uint32_t id)
{
    const struct image_partition *partition = topic->partitions[id];
    struct metadata_record record;

    metadata_record_init(&record, RECORD_PARTITION, writer->metadata_version);
    record.partition.partition_id = (int32_t)id;
    record.partition.topic_id = topic->id;
    record.partition.replicas = ids(partition->replicas);
    record.partition.replicas_count = partition->replica_count;
    record.partition.isr = ids(partition->isr);
    record.partition.isr_count = partition->isr_count;
    record.partition.removing_replicas = ids(partition->removing);
    record.partition.removing_replicas_count = partition->removing_count;
    record.partition.adding_replicas = ids(partition->adding);
    record.partition.adding_replicas_count = partition->adding_count;
    record.partition.leader = partition->leader;
    record.partition.leader_recovery_state = partition->recovering;
    record.partition.leader_epoch = partition->leader_epoch;
    record.partition.partition_epoch = partition->partition_epoch;
    record.partition.directories = (struct uuid *)(uintptr_t)partition->directories;
    record.partition.directories_count = partition->replica_count;
    if (partition->elr_count > 0) {
        record.partition.eligible_leader_replicas = ids(partition->elr);
        record.partition.eligible_leader_replicas_count = partition->elr_count;
    }
    if (partition->last_elr_count > 0) {
        record.partition.last_known_elr = ids(partition->last_elr);
        record.partition.last_known_elr_count = partition->last_elr_count;
    }
    return put(writer, &record);
}

static enum err put_topic(void *context, const struct image_topic *topic)
{
    struct writer *writer = context;
    struct metadata_record record;
    enum err err = ERR_OK;

    metadata_record_init(&record, RECORD_TOPIC, writer->metadata_version);
    record.topic.name = topic->name;
    record.topic.topic_id = topic->id;
    err = put(writer, &record);
    for (uint32_t i = 0; err == ERR_OK && i < topic->partition_count; i++)
        err = put_partition(writer, topic, i);
    return err;
}

static enum err put_configs(void *context, const struct image_configs *configs)
{
    struct writer *writer = context;
    struct metadata_record record;
    enum err err = ERR_OK;

    for (uint32_t i = 0; err == ERR_OK && i < configs->count; i++) {
        metadata_record_init(&record, RECORD_CONFIG, writer->metadata_version);
        record.config.resource_type = configs->type;
        record.config.resource_name = configs->resource;
        record.config.name = configs->entries[i].name;
        record.config.value = configs->entries[i].value;
        err = put(writer, &record);
    }
    return err;
}

static enum err put_producer_ids(struct writer *writer)
{
    struct metadata_record record;

    if (image_next_producer_id(writer->image) <= 0)
        return ERR_OK;
    metadata_record_init(&record, RECORD_PRODUCER_IDS, writer->metadata_version);
    record.producer_ids.broker_id = -1; /* who asked is not part of the image */
    record.producer_ids.broker_epoch = -1;
    record.producer_ids.next_producer_id = image_next_producer_id(writer->image);
    return put(writer, &record);
}

static enum err put_kept(void *context, uint32_t type, struct bytes frame)
{
    struct writer *writer = context;

    (void)type;
    return writer->each(writer->context, frame);
}

enum err image_each_frame(const struct image *image, image_frame_fn *each, void *context)
{
    struct writer writer = {
        .image = image, .metadata_version = image_metadata_version(image), .each = each, .context = context};
    enum err err = ERR_OK;

    arena_init(&writer.arena, METADATA_RECORD_ARENA_BYTES_MAX);
    if (writer.metadata_version > 0)
        err = put_level(&writer, BYTES_LITERAL("metadata.version"), writer.metadata_version);
    if (err == ERR_OK)
        err = image_each_feature(image, put_other_level, &writer);
    if (err == ERR_OK)
        err = image_each_broker(image, put_broker, &writer);
    if (err == ERR_OK)
        err = image_each_controller(image, put_controller, &writer);
    if (err == ERR_OK)
        err = image_each_topic(image, put_topic, &writer);
    if (err == ERR_OK)
        err = image_each_configs(image, put_configs, &writer);
    if (err == ERR_OK)
        err = put_producer_ids(&writer);
    if (err == ERR_OK)
        err = image_each_record(image, put_kept, &writer);
    arena_deinit(&writer.arena);
    return err;
}
