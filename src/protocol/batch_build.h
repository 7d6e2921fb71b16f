/*
 * batch_build: making record batches (magic 2): for the metadata log, the coordinators, transaction markers,
 * compaction, a topic that wants another codec, and tests.
 *
 *     batch_spec_init(&spec);
 *     batch_builder_init(&builder, &spec);
 *     batch_builder_append(&builder, now_ms, key, value, NULL, 0);      as often as needed
 *     batch_builder_finish(&builder, &batch, &size);
 *     batch_builder_reset(&builder, &spec);                             for the next one
 *     batch_builder_deinit(&builder);
 *
 * Owns     its memory; the finished batch lies in it until reset or deinit.
 * Threads  one owner at a time.
 */
#ifndef OTTLA_PROTOCOL_BATCH_BUILD_H
#define OTTLA_PROTOCOL_BATCH_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "protocol/batch.h"
#include "protocol/record.h"

/* What kind of batch it is to be. */
struct batch_spec {
    int64_t base_offset;
    int32_t leader_epoch;
    enum codec codec;
    int32_t level; /* CODEC_LEVEL_DEFAULT, or the codec's own scale */
    bool transactional;
    bool control;
    bool log_append_time;      /* max_timestamp is what readers see */
    int64_t delete_horizon_ms; /* stands where the base timestamp does, and the bit that says so is set (KIP-534); -1 */
    int32_t last_offset_delta_min; /* of a batch that has lost its last records; -1 */
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    size_t size_max; /* of the plain batch, header included; INT32_MAX at most */
};

struct batch_builder {
    struct batch_spec spec;
    uint8_t *data; /* header, then plain records */
    size_t size;
    size_t room;
    uint8_t *packed; /* the finished batch of a codec */
    size_t packed_room;
    int32_t record_count;
    int32_t last_offset_delta; /* -1 before the first record */
    int64_t base_timestamp;    /* the first record's, or the delete horizon */
    int64_t max_timestamp;
};

/* The keys of control records (KIP-98, KIP-595). */
enum control_type {
    CONTROL_ABORT = 0,
    CONTROL_COMMIT = 1,
    CONTROL_LEADER_CHANGE = 2,
    CONTROL_SNAPSHOT_HEADER = 3,
    CONTROL_SNAPSHOT_FOOTER = 4,
    CONTROL_KRAFT_VERSION = 5,
    CONTROL_KRAFT_VOTERS = 6,
};

/* Offset 0, no epoch, no codec, no producer, no limit but the format's. */
void batch_spec_init(struct batch_spec *spec);
/* Takes no memory yet. */
void batch_builder_init(struct batch_builder *builder, const struct batch_spec *spec);
void batch_builder_deinit(struct batch_builder *builder);
/* Begins a new batch and keeps the memory. */
void batch_builder_reset(struct batch_builder *builder, const struct batch_spec *spec);
/* Bytes so far, header included, not compressed. */
size_t batch_builder_size(const struct batch_builder *builder);

/*
 * Adds a record behind the others, with the next offset. All arguments are copied; a null key or value stays null.
 * timestamp: ms since the epoch, or -1.
 *
 * ERR_MESSAGE_TOO_LARGE  over size_max; the batch is as it was: finish it, and begin another
 * ERR_NOMEM              likewise
 */
MUST_CHECK enum err batch_builder_append(struct batch_builder *builder, int64_t timestamp, struct bytes key,
                                         struct bytes value, const struct record_header *headers,
                                         uint32_t header_count);
/* A control record; the spec says control. */
MUST_CHECK enum err batch_builder_append_control(struct batch_builder *builder, int64_t timestamp,
                                                 enum control_type type, struct bytes value);
/* A record that was read elsewhere, with its offset, which is at or above base_offset and above those before it.
 * ERR_LIMIT: too far from base_offset for one batch; else as above. */
MUST_CHECK enum err batch_builder_copy(struct batch_builder *builder, const struct record *record);

/* A batch that has lost all its records, as compaction keeps it for its offsets and its producer's sequence: the header
 * of BATCH_HEADER_BYTES, without a codec and a delete horizon. */
void batch_write_empty(const struct batch_header *of, uint8_t *to);

/* Seals the batch: compresses, fills the header, computes the CRC. ERR_NOMEM; the builder is as it was then. */
MUST_CHECK enum err batch_builder_finish(struct batch_builder *builder, uint8_t **batch, size_t *size);

/*
 * The same batch with another codec. Producer, sequence, times, attributes, base offset and epoch stay; records stay
 * byte for byte but for their offset deltas, which become 0..n-1 where the batch has no gaps by its header.
 *
 * batch    valid by batch_peek and CRC; must not lie in the builder.
 * builder  initialised, with any spec; its old content goes. result: out, in its memory.
 *
 * Errors as record_iter_next, without ERR_END.
 */
MUST_CHECK enum err batch_recompress(struct batch_builder *builder, struct bytes batch, enum codec codec, int32_t level,
                                     size_t opened_bytes_max, uint8_t **result, size_t *size);

#endif
