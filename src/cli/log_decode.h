/*
 * log_decode: the records of Kafka's own topics in words: __consumer_offsets, __transaction_state, __share_group_state,
 * the metadata log and its snapshots, and control records, by the generated codecs.
 *
 * Threads  one.
 */
#ifndef OTTLA_CLI_LOG_DECODE_H
#define OTTLA_CLI_LOG_DECODE_H

#include "base/arena.h"
#include "cli/line_out.h"
#include "protocol/record.h"

enum log_decoder {
    DECODE_NOTHING, /* keys and values as bytes */
    DECODE_OFFSETS,
    DECODE_TRANSACTIONS,
    DECODE_SHARE,
    DECODE_METADATA,
};

/* What the topic of that name holds. */
enum log_decoder log_decoder_of(struct bytes topic);
/* "offsets", "transactions", "share", "metadata", "none". */
bool log_decoder_parse(const char *name, enum log_decoder *decoder);

/* Adds the record's key and value to the line. What cannot be decoded is given as bytes, and why. control: of a control
 * batch. arena is reset. */
void log_decode_record(struct line_out *out, enum log_decoder decoder, bool control, const struct record *record,
                       struct arena *arena);

#endif
