/*
 * controller: decides every change of the cluster's metadata. Pure: a step takes a request and the time, and gives the
 * records to append and the reply to hold back until they are committed. It calls nobody but the configuration rules it
 * was given, draws no random number but from its rng, and reads no clock.
 *
 * Two heads (ARCHITECTURE.md "Metadata"): `proposed`, all records handed to the quorum, decides requests; what is
 * committed is the caller's, which passes it to controller_reset when leadership is lost or taken.
 *
 * Records become part of `proposed` inside the step, before they are written, so the next step sees them. A caller that
 * cannot append them must give the controller up (controller_reset).
 *
 * Threads  one owner.
 */
#ifndef OTTLA_RAFTMETA_CONTROLLER_H
#define OTTLA_RAFTMETA_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/uuid.h"
#include "raftmeta/image.h"

enum {
    CONTROLLER_RECORDS_MAX = 10000,      /* of one request, and of one batch; Kafka's number */
    CONTROLLER_CONFIG_CHARS_MAX = 32767, /* of one value; Kafka's number */
    CONTROLLER_CONFIGS_MAX = 1000, /* of one resource, and of one change to it: twice the keys there are. Refused */
    CONTROLLER_ALTERATIONS_MAX = 20000, /* resources and changes of one request: as many as its records. Refused */
    PRODUCER_ID_BLOCK = 1000,           /* ids a broker gets at a time; Kafka's number */
};

/* The table of configuration keys lies in the broker's room; the controller reaches it through these. */
struct config_rules {
    void *context;
    /* All entries the resource would have: ERR_OK, or ERR_INVALID_CONFIG and a message naming key and value. */
    enum err (*check)(void *context, enum config_resource_type type, struct bytes resource,
                      const struct image_config *entries, uint32_t count, struct arena *arena, struct bytes *message);
    /* Whether the key holds a list (APPEND and SUBTRACT work on it), and its default; ERR_INVALID_CONFIG: unknown. */
    enum err (*list_default)(void *context, enum config_resource_type type, struct bytes name, bool *is_list,
                             struct bytes *value);
};

/* Levels that this build implements, for controller_settings and for registrations. */
const struct image_feature_range *controller_features(uint32_t *count);

struct controller_settings {
    int32_t node_id;
    const char *cluster_id;
    int32_t partitions_default;                 /* num.partitions */
    int16_t replication_factor_default;         /* default.replication.factor */
    bool delete_topics;                         /* delete.topic.enable */
    int64_t session_timeout_ms;                 /* broker.session.timeout.ms */
    const struct image_feature_range *features; /* what this build supports; kraft.version among them */
    uint32_t feature_count;
    struct config_rules rules; /* check NULL: everything is accepted */
};

/* --- requests; `in` is borrowed until the reply, `out` points into the request's arena ------------------------------
 * An entry's err is about that entry alone; the request's err is about all of it (then entries are not filled). */

struct assignment {
    int32_t partition; /* of create_topic; ignored for create_partitions, where order counts */
    const int32_t *brokers;
    uint32_t broker_count;
};

struct create_topic {
    struct bytes name;
    int32_t partition_count;    /* -1: the default */
    int16_t replication_factor; /* -1: the default */
    const struct assignment *assignments;
    uint32_t assignment_count;
    const struct image_config *configs; /* a null value: INVALID_CONFIG */
    uint32_t config_count;
    /* out */
    enum err err;
    struct bytes message; /* null when there is none */
    bool repeated;        /* a further entry of one name: a reply lists that name once */
    struct uuid id;
    int32_t partitions_made;
    int16_t factor_made;
};
struct create_topics {
    struct create_topic *topics;
    uint32_t count;
    bool validate_only;
};

struct delete_topic {
    struct bytes name; /* nullable: by id */
    struct uuid id;    /* zero: by name */
    /* out: err, message; name and id are both filled where the topic is known */
    enum err err;
    struct bytes message;
    bool repeated; /* a further entry of one topic: a reply lists that one once */
};
struct delete_topics {
    struct delete_topic *topics;
    uint32_t count;
};

struct grow_topic {
    struct bytes name;
    int32_t partition_count;              /* the new total */
    const struct assignment *assignments; /* NULL: placed by us; one for each new partition otherwise */
    uint32_t assignment_count;
    enum err err;
    struct bytes message;
    bool repeated;
};
struct create_partitions {
    struct grow_topic *topics;
    uint32_t count;
    bool validate_only;
};

struct allocate_producer_ids {
    int32_t broker_id;
    int64_t broker_epoch;
    /* out */
    int64_t first;
    int32_t count;
};

struct register_broker {
    int32_t broker_id;
    struct bytes cluster_id;
    struct uuid incarnation;
    const struct image_endpoint *endpoints;
    uint32_t endpoint_count;
    const struct image_feature_range *features;
    uint32_t feature_count;
    struct bytes rack; /* nullable */
    const struct uuid *directories;
    uint32_t directory_count;
    int64_t previous_epoch; /* of the last clean stop; -1: none */
    bool migrating;         /* a ZooKeeper broker: refused */
    /* The controller's own broker, which has seen a change when its answer comes: it is unfenced in the same sync, as
     * by a first heartbeat; whether it was is in the image. Looked at by metadata_node_call alone. */
    bool then_unfence;
    /* out */
    int64_t epoch;
};

struct register_controller {
    int32_t controller_id;
    struct uuid incarnation;
    const struct image_endpoint *endpoints;
    uint32_t endpoint_count;
    const struct image_feature_range *features;
    uint32_t feature_count;
};

struct broker_heartbeat {
    int32_t broker_id;
    int64_t broker_epoch;
    int64_t metadata_offset; /* the last it applied */
    bool want_fence;
    bool want_shutdown;
    const struct uuid *offline; /* log directories that have failed */
    uint32_t offline_count;
    /* out */
    bool caught_up;
    bool fenced;
    bool should_shut_down;
};

/* A broker says where its replicas lie. */
struct directory_assignment {
    struct uuid topic_id;
    int32_t partition;
    struct uuid directory;
    enum err err; /* out: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (no replica of it) */
};
struct assign_directories {
    int32_t broker_id;
    int64_t broker_epoch;
    struct directory_assignment *assignments;
    uint32_t count;
};

struct unregister_broker {
    int32_t broker_id;
};

enum config_op { CONFIG_SET = 0, CONFIG_DELETE = 1, CONFIG_APPEND = 2, CONFIG_SUBTRACT = 3 };

struct config_change {
    struct bytes name, value; /* value nullable with CONFIG_DELETE */
    int8_t op;                /* enum config_op; others are refused */
};
struct alter_resource {
    int8_t type; /* enum config_resource_type; others are refused */
    struct bytes resource;
    const struct config_change *changes;
    uint32_t change_count;
    enum err err;
    struct bytes message;
};
struct alter_configs {
    struct alter_resource *resources;
    uint32_t count;
    bool validate_only;
    bool replace; /* AlterConfigs: what is not named is removed */
};

enum feature_upgrade { FEATURE_UPGRADE = 1, FEATURE_DOWNGRADE_SAFE = 2, FEATURE_DOWNGRADE_UNSAFE = 3 };
struct feature_change {
    struct bytes name;
    int16_t level; /* 0 removes */
    int8_t type;   /* enum feature_upgrade */
    enum err err;
    struct bytes message;
};
struct update_features {
    struct feature_change *changes;
    uint32_t count;
    bool validate_only;
};

/* First thing after leadership: brings an empty log to its first levels, closes an open metadata transaction. */
struct activate {
    const struct metadata_record *bootstrap; /* of bootstrap.checkpoint; none: newest metadata.version */
    uint32_t bootstrap_count;
    bool transaction_open;
};

enum controller_request_type {
    CONTROLLER_ACTIVATE,
    CONTROLLER_CREATE_TOPICS,
    CONTROLLER_DELETE_TOPICS,
    CONTROLLER_CREATE_PARTITIONS,
    CONTROLLER_ALLOCATE_PRODUCER_IDS,
    CONTROLLER_REGISTER_BROKER,
    CONTROLLER_REGISTER_CONTROLLER,
    CONTROLLER_BROKER_HEARTBEAT,
    CONTROLLER_UNREGISTER_BROKER,
    CONTROLLER_ALTER_CONFIGS,
    CONTROLLER_UPDATE_FEATURES,
    CONTROLLER_ASSIGN_DIRECTORIES,
    CONTROLLER_NO_OP,
};

struct controller_request {
    enum controller_request_type type;
    struct arena *arena; /* messages of the reply are made in it */
    void *context;       /* the asker's */
    union {
        struct activate activate;
        struct create_topics create_topics;
        struct delete_topics delete_topics;
        struct create_partitions create_partitions;
        struct allocate_producer_ids allocate_producer_ids;
        struct register_broker register_broker;
        struct register_controller register_controller;
        struct broker_heartbeat broker_heartbeat;
        struct unregister_broker unregister_broker;
        struct alter_configs alter_configs;
        struct update_features update_features;
        struct assign_directories assign_directories;
    };
    /* out */
    enum err err;
    struct bytes message; /* null when there is none */
};

/* What a step asks for; arrays lie in the request's arena. With records, all of them go into one batch, and `image` and
 * `delta` are what is to be published when it commits (one reference each, the caller's). Without, image is NULL and
 * the reply waits for all that was proposed before, since it may have seen it. */
struct controller_effects {
    const struct metadata_record *records;
    uint32_t record_count;
    int64_t base_offset;
    struct image *image;
    struct image_delta *delta;
};

struct controller;

/* settings are copied but for what they point to. NULL without memory. */
struct controller *controller_new(const struct controller_settings *settings, struct rng *rng) MUST_CHECK;
void controller_free(struct controller *controller);
/* Starts over from what is committed: image, and the offset and epoch that the next record will get. */
void controller_reset(struct controller *controller, struct image *image, int64_t next_offset, int32_t epoch,
                      int64_t now_ms);
/* The quorum wrote control records of its own: the next record's offset. */
void controller_skip_to(struct controller *controller, int64_t next_offset);

/*
 * Decides one request. now_ms: monotonic, for sessions; wall_ms: stamps the batch.
 *
 * What is wrong with the request is in its err or its entries', never in the result:
 * ERR_NOMEM    nothing was decided, `proposed` is as it was.
 * ERR_DAMAGED  our own records could not be applied: a bug of ours, and fatal.
 */
MUST_CHECK enum err controller_step(struct controller *controller, struct controller_request *request, int64_t now_ms,
                                    int64_t wall_ms, struct controller_effects *effects);

/* The image with all that was proposed. */
struct image *controller_proposed(const struct controller *controller);

#endif
