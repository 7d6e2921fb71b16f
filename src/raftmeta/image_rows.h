/*
 * image_rows: making and freeing the rows of an image. A row is one allocation that holds all it points to; it is made
 * from a template of the same type, whose pointers are borrowed for the call. Inside the image only.
 *
 * Threads  making: one; keep and drop: any.
 */
#ifndef OTTLA_RAFTMETA_IMAGE_ROWS_H
#define OTTLA_RAFTMETA_IMAGE_ROWS_H

#include "base/pmap.h"
#include "raftmeta/image.h"

struct image_feature {
    atomic_uint references;
    struct bytes name;
    int16_t level;
};

/* A record kept as it came (image_each_record). */
struct image_record {
    atomic_uint references;
    uint32_t type;
    struct bytes key;   /* type and what the kind is keyed by */
    struct bytes frame; /* metadata_record.h */
};

struct image {
    atomic_uint references;
    int64_t offset;
    int32_t epoch;
    int64_t timestamp_ms;
    int64_t next_producer_id;
    uint64_t partition_count;
    struct pmap topics_by_name, topics_by_id;
    struct pmap brokers, controllers;
    struct pmap configs;
    struct pmap features;
    struct pmap records;
};

/* Copies a row, or an image, but for its count of references: rows are shared, and reactors count theirs up and down
 * while the controller copies. `references` is the first member of each. */
#define ROW_COPY(to, from)                                                                                             \
    memcpy((uint8_t *)(to) + sizeof(atomic_uint), (const uint8_t *)(from) + sizeof(atomic_uint),                       \
           sizeof(*(to)) - sizeof(atomic_uint))

/* A new one, not yet seen by anybody, that shares all with from; NULL without memory. */
struct image *image_copy(const struct image *from) MUST_CHECK;

/* Each with one reference; NULL without memory. */
struct image_partition *partition_row_new(const struct image_partition *from) MUST_CHECK;
struct image_topic *topic_row_new(struct bytes name, struct uuid id) MUST_CHECK;
/* A copy whose partitions are shared, one by one. */
struct image_topic *topic_row_copy(const struct image_topic *from) MUST_CHECK;
/* Room for partition ids below count; new ones are NULL. */
MUST_CHECK enum err topic_row_grow(struct image_topic *topic, uint32_t count);
struct image_broker *broker_row_new(const struct image_broker *from) MUST_CHECK;
struct image_configs *configs_row_new(const struct image_configs *from) MUST_CHECK;
struct image_feature *feature_row_new(struct bytes name, int16_t level) MUST_CHECK;
struct image_record *record_row_new(uint32_t type, struct bytes key, struct bytes frame) MUST_CHECK;

void partition_row_keep(struct image_partition *row);
/* NULL does nothing, here and below. */
void partition_row_drop(struct image_partition *row);
void topic_row_keep(const struct image_topic *row);
void topic_row_drop(const struct image_topic *row);
void broker_row_keep(const struct image_broker *row);
void broker_row_drop(const struct image_broker *row);
void configs_row_keep(const struct image_configs *row);
void configs_row_drop(const struct image_configs *row);
void feature_row_drop(struct image_feature *row);
void record_row_drop(struct image_record *row);

extern const struct pmap_ops topic_rows, broker_rows, configs_rows, feature_rows, record_rows;

/* Keys of the maps; those of rows lie in the row. */
struct bytes broker_row_key(const struct image_broker *row);
struct bytes configs_row_key(const struct image_configs *row);

#endif
