/*
 * batch_validate: what a leader checks of a produced batch before it appends it, as far as it does not depend on the
 * log (that is: all but sequences and epochs), and what it corrects in it. In place; nothing is written into a batch
 * that is refused.
 *
 * Records of a plain batch are always walked. A compressed batch is opened only where a rule below asks for it;
 * otherwise its header is believed.
 *
 * Threads  any; the arena has one owner at a time.
 */
#ifndef OTTLA_PROTOCOL_BATCH_VALIDATE_H
#define OTTLA_PROTOCOL_BATCH_VALIDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "protocol/batch.h"

enum {
    BATCH_RULE_CODEC_PRODUCER = -1, /* compression.type=producer */
    BATCH_RECORD_ERRORS_MAX = 100,  /* named one by one in an answer; Kafka names all, which a batch of a million
                                       bad records turns into a reply larger than itself */
};

struct batch_rules {
    int32_t max_message_bytes; /* max.message.bytes */
    int64_t segment_bytes;     /* segment.bytes: a batch must fit in one */
    bool from_client;          /* no control batch, base offset 0, count and sequence in order */
    bool keys_required;        /* the topic compacts; opens compressed ones */
    bool stamp_append_time;    /* message.timestamp.type=LogAppendTime; opens compressed ones */
    bool zstd_allowed;         /* Produce v7 and later */
    bool open_compressed;      /* ottla.validate.compressed, and always for internal topics */
    int32_t codec;             /* enum codec that the topic wants, or BATCH_RULE_CODEC_PRODUCER; another than the
                                  batch's opens it */
    int64_t now_ms;            /* wall clock */
    int64_t timestamp_before_max_ms;
    int64_t timestamp_after_max_ms;
    size_t opened_bytes_max;  /* what a compressed batch may unfold to */
    int32_t record_bytes_max; /* max.decompressed.message.bytes: of one record in a compressed batch */
};

struct batch_record_error {
    int32_t index; /* of the record in its batch */
    const char *message;
};

struct batch_verdict {
    struct batch_header header; /* as it is afterwards; all zero when there is none to read */
    const char *message;        /* why it was refused: a literal or in the arena; NULL: the error's own text will do */
    struct batch_record_error *record_errors; /* in the arena; NULL unless single records are at fault */
    uint32_t record_error_count;
    bool framed;    /* it is one whole batch: what was found is about what it says */
    bool rewritten; /* timestamp type or maximum were corrected, and the CRC with them */
    bool rebuild;   /* accepted, but must go through batch_recompress: the topic wants another codec, or the offsets
                       inside are not 0..n-1 */
};

/* Kafka's defaults, for a client: 1 MiB + 12, 1 GiB segments, CreateTime, one hour ahead, producer's codec. */
void batch_rules_init(struct batch_rules *rules);

/*
 * run      the records field as it came; exactly one batch is legal.
 * arena    for messages and record errors only; when it is full they are left out.
 *
 * ERR_INVALID_RECORD                not exactly one batch of magic 2; base offset, count, control, sequence; a record
 *                                   that cannot be read; a null key where keys are required
 * ERR_CORRUPT_MESSAGE               length or CRC-32C disagrees, or the codec cannot take it
 * ERR_MESSAGE_TOO_LARGE, ERR_RECORD_LIST_TOO_LARGE
 * ERR_INVALID_TIMESTAMP             a record's time out of range, or the batch claims LogAppendTime
 * ERR_UNSUPPORTED_COMPRESSION_TYPE  zstd before Produce v7
 * ERR_NOMEM
 * (replication.md 5, KIP-467 for the record errors, KIP-937 for the times)
 */
MUST_CHECK enum err batch_validate(uint8_t *run, size_t size, const struct batch_rules *rules, struct arena *arena,
                                   struct batch_verdict *verdict);

#endif
