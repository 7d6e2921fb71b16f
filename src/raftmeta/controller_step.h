/*
 * controller_step: what the files of the controller, one for each concern, share. Inside the controller only.
 */
#ifndef OTTLA_RAFTMETA_CONTROLLER_STEP_H
#define OTTLA_RAFTMETA_CONTROLLER_STEP_H

#include "raftmeta/controller.h"
#include "raftmeta/metadata_record.h"

/* When a broker was last heard of. */
struct broker_contact {
    int32_t id;
    int64_t epoch;
    int64_t at_ms;
    int64_t metadata_offset; /* the last it said it had applied */
    int64_t shutdown_offset; /* it may go when all active brokers have applied this; -1: not shutting down */
};

struct controller {
    struct controller_settings settings;
    struct rng *rng;
    struct image *proposed;
    int64_t next_offset;
    int32_t epoch;
    struct broker_contact *contacts; /* by id */
    uint32_t contact_count, contact_room;
    struct arena scratch; /* of the last step: records and what they point to */
};

/* One step under way. */
struct step {
    struct controller *controller;
    struct controller_request *request;
    const struct image *image; /* proposed, as of before the step */
    int64_t now_ms;
    int64_t wall_ms;
    struct metadata_record *records;
    uint32_t count, room;
    const struct uuid *offline; /* directories that are about to be told to have failed */
    uint32_t offline_count;
};

/* One more record, initialised; NULL without memory, or over CONTROLLER_RECORDS_MAX. It stays in place until the next
 * is added. */
struct metadata_record *step_add(struct step *step, enum metadata_record_kind kind) MUST_CHECK;
/* Forgets all records from count on: what a refused entry had added. */
void step_cut(struct step *step, uint32_t count);
/* The whole request is refused. */
void step_refuse(struct step *step, enum err err, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A message for a reply, in the request's arena. */
struct bytes step_message(struct step *step, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Memory that lives until the next step. */
void *step_array(struct step *step, size_t count, size_t size) MUST_CHECK;
/* Not fenced and not leaving. */
bool step_broker_is_active(const struct step *step, int32_t id);
/* STALE_BROKER_EPOCH when the broker is unknown or has another epoch. */
MUST_CHECK enum err step_check_epoch(struct step *step, int32_t id, int64_t epoch);

struct broker_contact *controller_contact(struct controller *controller, int32_t id);
MUST_CHECK enum err controller_touch(struct controller *controller, int32_t id, int64_t epoch, int64_t now_ms);

/* The concerns. What is wrong with the request goes into it; the result is ERR_OK, or ERR_NOMEM. */
MUST_CHECK enum err step_create_topics(struct step *step);
MUST_CHECK enum err step_delete_topics(struct step *step);
MUST_CHECK enum err step_create_partitions(struct step *step);
MUST_CHECK enum err step_allocate_producer_ids(struct step *step);
MUST_CHECK enum err step_register_broker(struct step *step);
MUST_CHECK enum err step_register_controller(struct step *step);
MUST_CHECK enum err step_heartbeat(struct step *step);
MUST_CHECK enum err step_unregister_broker(struct step *step);
MUST_CHECK enum err step_alter_configs(struct step *step);
MUST_CHECK enum err step_update_features(struct step *step);
MUST_CHECK enum err step_activate(struct step *step);
MUST_CHECK enum err step_assign_directories(struct step *step);

/* Placing and checking replicas, for new topics and new partitions. A list that a client gave.
 * ERR_INVALID_REPLICA_ASSIGNMENT with *message; factor 0: any. */
MUST_CHECK enum err step_check_assignment(struct step *step, const struct assignment *assignment, uint32_t factor,
                                          struct bytes *message);
/* Adds the record of a new partition. ERR_INVALID_REPLICA_ASSIGNMENT when no replica is active. */
MUST_CHECK enum err step_add_partition(struct step *step, struct uuid topic_id, int32_t partition,
                                       const int32_t *replicas, uint32_t count, bool *no_active);
MUST_CHECK struct placement *step_placement(struct step *step);
/* The message of a refusal because a partition cannot be placed: why is placement_next's. */
struct bytes step_unplaced(struct step *step, uint32_t factor, struct bytes why);

/* What a partition's replicas can do next. */
struct partition_target {
    int32_t fenced;                     /* this broker counts as fenced; -1: none */
    int32_t unfenced;                   /* and this one as active; -1: none */
    const struct image_broker *offline; /* its replicas in step->offline count as gone; NULL: none do */
};
/* Takes a broker that goes away out of the ISRs, elects where it led, or elects where nobody leads (unfenced). */
MUST_CHECK enum err step_update_partitions(struct step *step, struct partition_target target);
/* These directories of the broker have failed: its registration and its partitions say so. */
MUST_CHECK enum err step_directories_offline(struct step *step, const struct image_broker *broker,
                                             const struct uuid *offline, uint32_t count);
/* Whether the directory of a broker's replica is none of those that are known to be gone. */
bool step_directory_is_online(const struct step *step, int32_t broker_id, struct uuid directory);
/* The place of a broker among the replicas; false: it has none. */
bool step_find_replica(const struct image_partition *partition, int32_t id, uint32_t *slot);
/* Whether the broker leads a partition. */
bool step_leads_any(const struct step *step, int32_t id);

#endif
