/*
 * image: the cluster's metadata as of one offset of the metadata log. Immutable once made and counted by reference, so
 * any reactor may read it for as long as it holds a reference; a change makes a new image that shares all but the
 * changed rows and the paths to them (ARCHITECTURE.md "Metadata"). Inside, a topic is its id; names are resolved at the
 * edge.
 *
 *   edit = image_edit_new(image); image_edit_apply(edit, record) ...; image_edit_finish(edit, ..., &next, &delta)
 *
 * Always holds  the rows of one topic are found by name and by id, and by no other name or id; partitions count from 0
 *               without a gap once an image is finished.
 * Ownership     rows live as long as an image or delta that holds them; all pointers in rows are the row's own.
 * Threads       image_keep, image_drop and all reading: any. An edit belongs to one thread.
 */
#ifndef OTTLA_RAFTMETA_IMAGE_H
#define OTTLA_RAFTMETA_IMAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/uuid.h"

struct metadata_record;

enum {
    IMAGE_LEADER_NONE = -1, /* a partition without a leader */
    IMAGE_OFFSET_NONE = -1, /* the version of an empty image */
    IMAGE_TOPIC_NAME_BYTES_MAX = 249,
    IMAGE_RESOURCE_BYTES_MAX = 32767,  /* names of configured resources; what a record's string can hold */
    METADATA_VERSION_OLDEST = 7,       /* 3.3-IV3, the oldest level a 4.x node reads */
    METADATA_VERSION_DIRECTORIES = 17, /* 3.7-IV2: partitions and registrations name log directories (KIP-858) */
    METADATA_VERSION_NEWEST = 29,      /* 4.2-IV1: every record up to it is implemented */
    GROUP_VERSION_NEWEST = 1           /* the consumer protocol (KIP-848) */
};

/* Resource types of configurations, as on the wire. */
enum config_resource_type {
    CONFIG_TOPIC = 2,
    CONFIG_BROKER = 4, /* name "" is the cluster's default */
    CONFIG_CLIENT_METRICS = 16,
    CONFIG_GROUP = 32,
};

struct image_partition {
    atomic_uint references;
    int32_t leader; /* IMAGE_LEADER_NONE: none */
    int32_t leader_epoch;
    int32_t partition_epoch;
    bool recovering; /* elected uncleanly, not recovered yet */
    uint32_t replica_count, isr_count, adding_count, removing_count, elr_count, last_elr_count;
    const int32_t *replicas; /* in order of preference */
    const int32_t *isr;
    const int32_t *adding;
    const int32_t *removing;
    const int32_t *elr;             /* eligible leaders outside the ISR (KIP-966) */
    const int32_t *last_elr;        /* the last known leader of a leaderless partition */
    const struct uuid *directories; /* one a replica, in its order; reserved ids as in kraft "Identity" */
};

struct image_topic {
    atomic_uint references;
    struct uuid id;
    struct bytes name; /* a NUL follows */
    uint32_t partition_count;
    struct image_partition **partitions; /* by partition id */
    struct image_edit *edit;             /* the edit that may still change this row; NULL for all readers */
    uint32_t change;                     /* that edit's entry for it */
};

struct image_endpoint {
    struct bytes name; /* of the listener; NUL follows */
    struct bytes host; /* NUL follows */
    uint16_t port;
    int16_t security_protocol; /* 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL */
};

struct image_feature_range {
    struct bytes name;
    int16_t min, max;
};

/* A broker's registration, or a controller's (then without epoch, rack and directories, never fenced). */
struct image_broker {
    atomic_uint references;
    int32_t id;
    int64_t epoch;
    int64_t registered_offset; /* of its RegisterBroker record; after a snapshot the snapshot's */
    struct uuid incarnation;
    struct bytes rack; /* nullable */
    bool fenced;
    bool in_controlled_shutdown;
    uint32_t endpoint_count, feature_count, directory_count, cordoned_count;
    const struct image_endpoint *endpoints;
    const struct image_feature_range *features;
    const struct uuid *directories;
    const struct uuid *cordoned;
    struct image_edit *edit; /* the edit that made this row, while it goes on */
    uint32_t change;         /* that edit's entry for it */
    uint8_t key[4];
};

struct image_config {
    struct bytes name, value; /* a NUL follows each */
};

/* The configuration records of one resource, sorted by name. Never empty. */
struct image_configs {
    atomic_uint references;
    int8_t type; /* enum config_resource_type */
    struct bytes resource;
    uint32_t count;
    const struct image_config *entries;
    struct image_edit *edit; /* as with brokers */
    uint32_t change;
};

struct image;

/* An empty image at IMAGE_OFFSET_NONE, with one reference; NULL without memory. */
struct image *image_new(void) MUST_CHECK;
struct image *image_keep(struct image *image);
/* NULL does nothing. */
void image_drop(struct image *image);

/* The version: offset of the last record in it. */
int64_t image_offset(const struct image *image);
/* Leader epoch and append time of the batch that held that record. */
int32_t image_epoch(const struct image *image);
int64_t image_timestamp_ms(const struct image *image);

/* NULL where there is none. Rows live as long as the image. */
const struct image_topic *image_topic_by_name(const struct image *image, struct bytes name);
const struct image_topic *image_topic_by_id(const struct image *image, struct uuid id);
/* Another topic whose name is the same once '.' and '_' count as one; their metrics would collide, as Kafka has it. */
const struct image_topic *image_topic_colliding(const struct image *image, struct bytes name);
const struct image_partition *image_partition(const struct image *image, struct uuid id, int32_t partition);
const struct image_broker *image_broker(const struct image *image, int32_t id);
const struct image_broker *image_controller(const struct image *image, int32_t id);
const struct image_configs *image_configs(const struct image *image, enum config_resource_type type,
                                          struct bytes resource);
/* Null when it is not set there. */
struct bytes image_config(const struct image *image, enum config_resource_type type, struct bytes resource,
                          struct bytes name);

/* Ids that name no directory (kraft.md "Identity"): not known, to be chosen, lost. */
bool image_directory_is_reserved(struct uuid id);
/* Whether a replica there can be had, as far as the broker's registration tells: it names the directory, or the
 * replica's is not known. */
bool image_directory_is_online(const struct image *image, int32_t broker_id, struct uuid directory);

/* The finalised level; 0 when it is not finalised. metadata.version 0: nothing was activated yet. */
int16_t image_feature(const struct image *image, struct bytes name);
int16_t image_metadata_version(const struct image *image);
/* First producer id that no block has. */
int64_t image_next_producer_id(const struct image *image);
uint32_t image_topic_count(const struct image *image);
uint32_t image_broker_count(const struct image *image);
uint64_t image_partition_count(const struct image *image);

/* Each row once: topics, configurations (by type first) and features by name, brokers by id; stops at the first that
 * does not return ERR_OK, and gives that. */
typedef enum err image_topic_fn(void *context, const struct image_topic *topic);
typedef enum err image_broker_fn(void *context, const struct image_broker *broker);
typedef enum err image_configs_fn(void *context, const struct image_configs *configs);
typedef enum err image_feature_fn(void *context, struct bytes name, int16_t level);
/* By name, from the first one on that is not below from (null: from all). */
MUST_CHECK enum err image_each_topic_from(const struct image *image, struct bytes from, image_topic_fn *each,
                                          void *context);
MUST_CHECK enum err image_each_topic(const struct image *image, image_topic_fn *each, void *context);
MUST_CHECK enum err image_each_broker(const struct image *image, image_broker_fn *each, void *context);
MUST_CHECK enum err image_each_controller(const struct image *image, image_broker_fn *each, void *context);
MUST_CHECK enum err image_each_configs(const struct image *image, image_configs_fn *each, void *context);
MUST_CHECK enum err image_each_feature(const struct image *image, image_feature_fn *each, void *context);
/* Records of kinds that have no rows of their own yet (quotas, ACLs, SCRAM, tokens): frame is the latest record of its
 * key as it stood in the log (metadata_record.h). */
typedef enum err image_record_fn(void *context, uint32_t type, struct bytes frame);
MUST_CHECK enum err image_each_record(const struct image *image, image_record_fn *each, void *context);

/* before NULL: added; after NULL: removed. A topic that was removed and made again under its name is two entries. */
struct image_topic_change {
    const struct image_topic *before, *after;
};
struct image_broker_change {
    const struct image_broker *before, *after;
};
struct image_configs_change {
    const struct image_configs *before, *after;
};

/* What changed between two images; counted by reference, read by any thread. Holds references to its rows. */
struct image_delta {
    atomic_uint references;
    int64_t from_offset, to_offset;
    uint32_t topic_count, broker_count, configs_count;
    struct image_topic_change *topics;
    struct image_broker_change *brokers;
    struct image_configs_change *configs;
    bool features_changed;
    bool producer_ids_changed;
    bool controllers_changed;
    bool records_changed; /* of image_each_record */
};

/* From nothing to all that the image holds: what a new listener is told first. */
MUST_CHECK enum err image_delta_whole(const struct image *image, struct image_delta **delta);
struct image_delta *image_delta_keep(struct image_delta *delta);
void image_delta_drop(struct image_delta *delta);
/* Nothing that a listener would act on. */
bool image_delta_is_empty(const struct image_delta *delta);

enum { IMAGE_MESSAGE_BYTES_MAX = 256 };

/* Builds the next image. NULL without memory. */
struct image_edit *image_edit_new(struct image *base) MUST_CHECK;
/*
 * Applies one record. offset: of the record (a broker's registered_offset).
 *
 * ERR_DAMAGED  it names what is not there (a partition of an unknown topic ...): message says what; the edit is of no
 *              use any more.
 * ERR_NOMEM    likewise.
 */
MUST_CHECK enum err image_edit_apply(struct image_edit *edit, const struct metadata_record *record, int64_t offset);
/* Why the last apply or finish failed. */
const char *image_edit_message(const struct image_edit *edit);
/* The image with all changes so far, to be read before image_edit_finish. */
const struct image *image_edit_view(const struct image_edit *edit);
/* Ends the edit: the image that holds all up to offset, and what changed. Both have one reference, the caller's. On
 * failure (ERR_DAMAGED: a topic lacks a partition) nothing was made, and the edit is still to be dropped. */
MUST_CHECK enum err image_edit_finish(struct image_edit *edit, int64_t offset, int32_t epoch, int64_t timestamp_ms,
                                      struct image **image, struct image_delta **delta);
/* Gives it up; NULL does nothing. */
void image_edit_drop(struct image_edit *edit);

#endif
