#include "broker/topic_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/assert.h"

enum { NODE_ID_CHARS = 12 };

bool topic_is_internal(struct bytes name)
{
    return bytes_equal(name, BYTES_LITERAL("__consumer_offsets")) ||
           bytes_equal(name, BYTES_LITERAL("__transaction_state")) ||
           bytes_equal(name, BYTES_LITERAL("__share_group_state"));
}

bool topic_internal_settings(const struct config *config, struct create_topic *topic, struct arena *arena)
{
    static const struct {
        const char *name;
        enum config_id partitions;
        enum config_id factor;
        enum config_id segment_bytes;
        enum config_id min_isr; /* CONFIG_NONE: not set */
        const char *compression;
    } rows[] = {
        {"__consumer_offsets", CONFIG_OFFSETS_TOPIC_NUM_PARTITIONS, CONFIG_OFFSETS_TOPIC_REPLICATION_FACTOR,
         CONFIG_OFFSETS_TOPIC_SEGMENT_BYTES, CONFIG_NONE, "producer"},
        {"__transaction_state", CONFIG_TRANSACTION_STATE_LOG_NUM_PARTITIONS,
         CONFIG_TRANSACTION_STATE_LOG_REPLICATION_FACTOR, CONFIG_TRANSACTION_STATE_LOG_SEGMENT_BYTES,
         CONFIG_TRANSACTION_STATE_LOG_MIN_ISR, "uncompressed"},
        {"__share_group_state", CONFIG_SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS,
         CONFIG_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR, CONFIG_SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES,
         CONFIG_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR, "uncompressed"},
    };
    struct image_config *configs = NULL;
    size_t i = 0;

    while (i < sizeof(rows) / sizeof(rows[0]) && !bytes_equal(topic->name, bytes_of_text(rows[i].name)))
        i++;
    if (i == sizeof(rows) / sizeof(rows[0]))
        return true;
    configs = arena_array(arena, 4, sizeof(*configs));
    if (configs == NULL)
        return false;
    topic->partition_count = config_int(config, rows[i].partitions);
    topic->replication_factor = (int16_t)config_int(config, rows[i].factor);
    topic->configs = configs;
    configs[topic->config_count++] = (struct image_config){BYTES_LITERAL("cleanup.policy"), BYTES_LITERAL("compact")};
    configs[topic->config_count++] =
        (struct image_config){BYTES_LITERAL("compression.type"), bytes_of_text(rows[i].compression)};
    configs[topic->config_count++] = (struct image_config){BYTES_LITERAL("segment.bytes"),
                                                           bytes_of_text(config_text(config, rows[i].segment_bytes))};
    if (rows[i].min_isr != CONFIG_NONE)
        configs[topic->config_count++] = (struct image_config){BYTES_LITERAL("min.insync.replicas"),
                                                               bytes_of_text(config_text(config, rows[i].min_isr))};
    return true;
}

bool topic_name_is_valid(struct bytes name)
{
    if (name.size == 0 || name.size > IMAGE_TOPIC_NAME_BYTES_MAX)
        return false;
    if (bytes_equal(name, BYTES_LITERAL(".")) || bytes_equal(name, BYTES_LITERAL("..")))
        return false;
    for (size_t i = 0; i < name.size; i++) {
        uint8_t c = name.data[i];

        if (!(byte_is_letter(c) || byte_is_digit(c) || c == '.' || c == '_' || c == '-'))
            return false;
    }
    return true;
}

/* What a request says twice holds as it says it last, as in the image. */
static struct bytes find_entry(const struct image_configs *configs, const char *name)
{
    for (uint32_t i = configs == NULL ? 0 : configs->count; i > 0; i--)
        if (bytes_equal(configs->entries[i - 1].name, bytes_of_text(name)))
            return configs->entries[i - 1].value;
    return (struct bytes){0};
}

/* Where broker keys are set, beside the file. */
struct levels {
    const struct config *config;
    const struct image_configs *node;
    const struct image_configs *cluster;
};

static struct levels levels_of(const struct config *config, const struct image *image, int32_t node_id)
{
    struct levels levels = {.config = config};
    char node[NODE_ID_CHARS];

    if (image == NULL)
        return levels;
    (void)snprintf(node, sizeof(node), "%d", node_id);
    levels.node = image_configs(image, CONFIG_BROKER, bytes_of_text(node));
    levels.cluster = image_configs(image, CONFIG_BROKER, BYTES_LITERAL(""));
    return levels;
}

static bool is_of_resources(enum config_id id)
{
    return config_key(id)->scope == CONFIG_SCOPE_TOPIC || config_key(id)->scope == CONFIG_SCOPE_GROUP;
}

/* What the file says of a key. Of the two names of the node's id the one that is not given says the same. */
static struct bytes static_value(const struct config *config, enum config_id id)
{
    enum config_id other = id == CONFIG_BROKER_ID ? CONFIG_NODE_ID : id == CONFIG_NODE_ID ? CONFIG_BROKER_ID : id;

    if (config_is_set(config, id))
        return bytes_of_text(config_text(config, id));
    return config_is_set(config, other) ? bytes_of_text(config_text(config, other)) : (struct bytes){0};
}

/* Keys that say one thing in several units, most telling first: told of together, each also where another is asked
 * for. n: 0 .. until CONFIG_NONE. */
static enum config_id family(enum config_id id, uint32_t n)
{
    static const enum config_id heads[] = {CONFIG_LOG_FLUSH_INTERVAL_MS, CONFIG_LOG_RETENTION_MS,
                                           CONFIG_LOG_ROLL_JITTER_MS, CONFIG_LOG_ROLL_MS};

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        bool belongs = heads[i] == id;

        for (uint32_t j = 0; config_synonym(heads[i], j) != CONFIG_NONE; j++)
            belongs |= config_synonym(heads[i], j) == id;
        if (belongs)
            return n == 0 ? heads[i] : config_synonym(heads[i], n - 1);
    }
    return n == 0 ? id : CONFIG_NONE;
}

bool config_is_on_line_only(enum config_id id)
{
    return id == CONFIG_LEADER_REPLICATION_THROTTLED_RATE || id == CONFIG_FOLLOWER_REPLICATION_THROTTLED_RATE ||
           id == CONFIG_REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND;
}

static void add(struct config_places *to, enum config_id id, struct bytes value, enum config_origin origin)
{
    if (value.data != NULL && to->count < CONFIG_PLACES_MAX)
        to->entries[to->count++] =
            (struct config_place){.name = config_key(id)->name, .value = value, .origin = origin};
}

/* All that stands for a broker key, by level. */
static void add_node_values(const struct levels *levels, enum config_id id, struct config_places *to)
{
    enum config_id each = CONFIG_NONE;

    for (uint32_t n = 0; (each = family(id, n)) != CONFIG_NONE; n++)
        add(to, each, find_entry(levels->node, config_key(each)->name), CONFIG_ORIGIN_DYNAMIC_BROKER);
    for (uint32_t n = 0; (each = family(id, n)) != CONFIG_NONE; n++)
        add(to, each, find_entry(levels->cluster, config_key(each)->name), CONFIG_ORIGIN_DYNAMIC_DEFAULT_BROKER);
    for (uint32_t n = 0; (each = family(id, n)) != CONFIG_NONE; n++)
        add(to, each, static_value(levels->config, each), CONFIG_ORIGIN_STATIC_BROKER);
    for (uint32_t n = 0; (each = family(id, n)) != CONFIG_NONE; n++)
        if (each != CONFIG_NODE_ID && !config_is_on_line_only(each))
            add(to, each, bytes_of_text(config_key(each)->value), CONFIG_ORIGIN_DEFAULT);
}

void config_places_find(const struct config *config, const struct image *image, int32_t node_id, enum config_id id,
                        const struct image_configs *own, struct config_places *places)
{
    struct levels levels = levels_of(config, image, node_id);
    enum config_id first = is_of_resources(id) ? config_synonym(id, 0) : id;
    uint32_t skipped = 0;

    places->count = 0;
    if (first != CONFIG_NONE)
        add_node_values(&levels, first, places);
    else if (config_key(id)->scope == CONFIG_SCOPE_GROUP)
        add(places, id, bytes_of_text(config_key(id)->value), CONFIG_ORIGIN_DEFAULT);
    /* What comes before the key's own name is not told, as in Apache Kafka: where only hours are set, nothing is. */
    while (first != CONFIG_NONE && skipped < places->count &&
           strcmp(places->entries[skipped].name, config_key(first)->name) != 0)
        skipped++;
    places->count -= skipped;
    memmove(places->entries, places->entries + skipped, places->count * sizeof(places->entries[0]));
    if (own == NULL || find_entry(own, config_key(id)->name).data == NULL)
        return;
    if (places->count == CONFIG_PLACES_MAX)
        places->count--;
    memmove(places->entries + 1, places->entries, places->count++ * sizeof(places->entries[0]));
    places->entries[0] = (struct config_place){
        .name = config_key(id)->name,
        .value = find_entry(own, config_key(id)->name),
        .origin = config_key(id)->scope == CONFIG_SCOPE_GROUP ? CONFIG_ORIGIN_GROUP : CONFIG_ORIGIN_TOPIC,
    };
}

/* One broker key where it stands for id, in id's unit: dynamic for the node, for the cluster. */
static struct bytes dynamic_value(const struct levels *levels, enum config_id key)
{
    struct bytes value = find_entry(levels->node, config_key(key)->name);

    return value.data != NULL ? value : find_entry(levels->cluster, config_key(key)->name);
}

struct bytes config_effective(const struct config *config, const struct image *image, int32_t node_id,
                              enum config_id id, const struct image_configs *own, char text[CONFIG_NUMBER_CHARS])
{
    struct levels levels = levels_of(config, image, node_id);
    struct bytes value = find_entry(own, config_key(id)->name);
    enum config_id source = CONFIG_NONE;
    enum config_id other = CONFIG_NONE;

    if (value.data != NULL)
        return value;
    if (!is_of_resources(id)) {
        value = dynamic_value(&levels, id);
        if (value.data == NULL)
            value = static_value(config, id);
        return value.data != NULL ? value : bytes_of_text(config_key(id)->value);
    }
    /* Only keys in the unit of the topic's can be dynamic. */
    for (uint32_t n = 0; (other = config_synonym(id, n)) != CONFIG_NONE; n++) {
        value = dynamic_value(&levels, other);
        if (value.data != NULL)
            return value;
    }
    value = bytes_of_text(config_resolve(config, id, text, &source));
    if (value.data == NULL &&
        config_synonym(id, 0) != CONFIG_NONE) /* streams.assignor.name: only the node's key has one */
        value = bytes_of_text(config_text(config, config_synonym(id, 0)));
    return value;
}

struct config_value config_effective_value(const struct config *config, const struct image *image, int32_t node_id,
                                           enum config_id id, const struct image_configs *own, struct bytes *text,
                                           char room[CONFIG_NUMBER_CHARS])
{
    struct config_value value;
    struct config_why why;

    *text = config_effective(config, image, node_id, id, own, room);
    if (text->data != NULL && config_check(id, *text, &value, &why) == ERR_OK)
        return value;
    /* A value in the log that no longer passes counts as the default; so does none. */
    *text = bytes_of_text(config_key(id)->value);
    if (text->data == NULL || config_check(id, *text, &value, &why) != ERR_OK)
        value = (struct config_value){0};
    return value;
}

static enum log_compression compression_of(struct bytes text)
{
    static const struct {
        const char *name;
        enum log_compression compression;
    } names[] = {
        {"uncompressed", LOG_COMPRESSION_NONE}, {"gzip", LOG_COMPRESSION_GZIP}, {"snappy", LOG_COMPRESSION_SNAPPY},
        {"lz4", LOG_COMPRESSION_LZ4},           {"zstd", LOG_COMPRESSION_ZSTD},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (bytes_equal(text, bytes_of_text(names[i].name)))
            return names[i].compression;
    return LOG_COMPRESSION_PRODUCER;
}

void topic_config_resolve(const struct config *config, const struct image *image, int32_t node_id,
                          const struct image_configs *own, bool internal, struct log_config *log_config)
{
    char room[CONFIG_NUMBER_CHARS];
    struct bytes text;

#define NUMBER(id) config_effective_value(config, image, node_id, id, own, &text, room).number
    log_config_init(log_config);
    log_config->segment_bytes = NUMBER(CONFIG_TOPIC_SEGMENT_BYTES);
    log_config->segment_ms = NUMBER(CONFIG_TOPIC_SEGMENT_MS);
    log_config->segment_jitter_ms = NUMBER(CONFIG_TOPIC_SEGMENT_JITTER_MS);
    log_config->segment_index_bytes = (int32_t)NUMBER(CONFIG_TOPIC_SEGMENT_INDEX_BYTES);
    log_config->index_interval_bytes = (int32_t)NUMBER(CONFIG_TOPIC_INDEX_INTERVAL_BYTES);
    log_config->max_message_bytes = (int32_t)NUMBER(CONFIG_TOPIC_MAX_MESSAGE_BYTES);
    log_config->max_decompressed_message_bytes = (int32_t)NUMBER(CONFIG_TOPIC_MAX_DECOMPRESSED_MESSAGE_BYTES);
    log_config->retention_ms = NUMBER(CONFIG_TOPIC_RETENTION_MS);
    log_config->retention_bytes = NUMBER(CONFIG_TOPIC_RETENTION_BYTES);
    log_config->flush_messages = NUMBER(CONFIG_TOPIC_FLUSH_MESSAGES);
    log_config->flush_ms = NUMBER(CONFIG_TOPIC_FLUSH_MS);
    log_config->file_delete_delay_ms = NUMBER(CONFIG_TOPIC_FILE_DELETE_DELAY_MS);
    log_config->min_compaction_lag_ms = NUMBER(CONFIG_TOPIC_MIN_COMPACTION_LAG_MS);
    log_config->max_compaction_lag_ms = NUMBER(CONFIG_TOPIC_MAX_COMPACTION_LAG_MS);
    log_config->delete_retention_ms = NUMBER(CONFIG_TOPIC_DELETE_RETENTION_MS);
    log_config->min_cleanable_dirty_ratio =
        config_effective_value(config, image, node_id, CONFIG_TOPIC_MIN_CLEANABLE_DIRTY_RATIO, own, &text, room).real;
    log_config->timestamp_before_max_ms = NUMBER(CONFIG_TOPIC_MESSAGE_TIMESTAMP_BEFORE_MAX_MS);
    log_config->timestamp_after_max_ms = NUMBER(CONFIG_TOPIC_MESSAGE_TIMESTAMP_AFTER_MAX_MS);
    log_config->min_insync_replicas = (int32_t)NUMBER(CONFIG_TOPIC_MIN_INSYNC_REPLICAS);
    (void)NUMBER(CONFIG_TOPIC_MESSAGE_TIMESTAMP_TYPE);
    log_config->timestamp_type = bytes_equal(text, BYTES_LITERAL("LogAppendTime")) ? LOG_APPEND_TIME : LOG_CREATE_TIME;
    (void)NUMBER(CONFIG_TOPIC_COMPRESSION_TYPE);
    log_config->compression = compression_of(text);
    (void)NUMBER(CONFIG_TOPIC_CLEANUP_POLICY);
    log_config->cleanup_delete = config_list_has(text, BYTES_LITERAL("delete"));
    log_config->cleanup_compact = config_list_has(text, BYTES_LITERAL("compact"));
#undef NUMBER
    /* KIP-354: what is to be compacted by then must not lie in the active segment. */
    if (log_config->cleanup_compact && log_config->max_compaction_lag_ms < log_config->segment_ms)
        log_config->segment_ms = log_config->max_compaction_lag_ms;
    log_config->validate_compressed = internal || config_bool(config, CONFIG_OTTLA_VALIDATE_COMPRESSED);
}
