#include "protocol/batch_validate.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/limits.h"
#include "protocol/record.h"

enum { TIMESTAMP_NONE = -1, LEGACY_RECORD_BYTES_MIN = 14 }; /* nothing that a log ever held was smaller */

/* What one check works on. */
struct check {
    struct bytes batch;
    const struct batch_rules *rules;
    struct arena *arena;
    struct batch_verdict *verdict;
    int64_t earliest_ms; /* that a record may be stamped with */
    int64_t latest_ms;
    int64_t max_timestamp; /* of the records walked */
    bool bad_timestamp;
};

void batch_rules_init(struct batch_rules *rules)
{
    *rules = (struct batch_rules){
        .max_message_bytes = MESSAGE_BYTES_DEFAULT,
        .segment_bytes = INT64_C(1) << 30,
        .from_client = true,
        .zstd_allowed = true,
        .codec = BATCH_RULE_CODEC_PRODUCER,
        .timestamp_before_max_ms = INT64_MAX,
        .timestamp_after_max_ms = 3600000,
        .opened_bytes_max = BATCH_OPENED_BYTES_MAX,
        .record_bytes_max = INT32_MAX,
    };
}

static enum err refuse(struct check *check, enum err err, const char *message)
{
    check->verdict->message = message;
    return err;
}

/* Null without memory: then the message is left out, the error stays. */
static const char *text_of(struct bytes text)
{
    return (const char *)text.data;
}

/* A header of numbers that cannot be: a client's mistake where the CRC vouches for them, else damage. */
static enum err refuse_header(struct check *check)
{
    struct bytes run = check->batch;

    if (run.data[BATCH_FIELD_MAGIC] == BATCH_MAGIC && check->verdict->header.size == run.size &&
        batch_codec(&check->verdict->header) < CODEC_COUNT && batch_crc_is_valid(run))
        return refuse(check, ERR_INVALID_RECORD, "the batch header is not valid");
    return refuse(check, ERR_CORRUPT_MESSAGE, "the batch header is damaged");
}

/* Exactly one whole batch of magic 2 (ProduceRequest, since v3). */
static enum err check_frame(struct check *check)
{
    struct bytes run = check->batch;
    struct batch_header *header = &check->verdict->header;
    enum err err = ERR_OK;
    size_t needed = 0;

    if (run.size >= BATCH_FIELD_LENGTH + sizeof(uint32_t) &&
        (int32_t)big_endian_load_u32(run.data + BATCH_FIELD_LENGTH) < LEGACY_RECORD_BYTES_MIN)
        return refuse(check, ERR_CORRUPT_MESSAGE, "the batch's size is none");
    if (run.size > BATCH_FIELD_MAGIC && run.data[BATCH_FIELD_MAGIC] < BATCH_MAGIC)
        return refuse(check, ERR_INVALID_RECORD, "only record batches of magic 2 are accepted");
    err = batch_peek(run, header, &needed);
    if (err == ERR_END)
        return refuse(check, ERR_INVALID_RECORD, run.size == 0 ? "no record batch" : "the record batch is cut off");
    if (err != ERR_OK)
        return refuse_header(check);
    if (needed < run.size)
        return refuse(check, ERR_INVALID_RECORD, "more than one record batch for a partition");
    return ERR_OK;
}

static enum err check_size(struct check *check)
{
    const struct batch_rules *rules = check->rules;
    int64_t size = (int64_t)check->batch.size;

    if (size > rules->max_message_bytes)
        return refuse(
            check, ERR_MESSAGE_TOO_LARGE,
            text_of(arena_printf(check->arena, "the batch has %" PRId64 " bytes, max.message.bytes is %" PRId32, size,
                                 rules->max_message_bytes)));
    if (size > rules->segment_bytes)
        return refuse(check, ERR_RECORD_LIST_TOO_LARGE,
                      text_of(arena_printf(check->arena, "the batch has %" PRId64 " bytes, segment.bytes is %" PRId64,
                                           size, rules->segment_bytes)));
    return ERR_OK;
}

/* What only clients can get wrong. */
static enum err check_client_header(struct check *check)
{
    const struct batch_header *header = &check->verdict->header;

    if (header->base_offset != 0)
        return refuse(check, ERR_INVALID_RECORD, "the batch's base offset is not 0");
    if (header->record_count <= 0)
        return refuse(check, ERR_INVALID_RECORD, "the batch holds no records");
    if ((int64_t)header->record_count != (int64_t)header->last_offset_delta + 1)
        return refuse(check, ERR_INVALID_RECORD,
                      text_of(arena_printf(check->arena, "%" PRId32 " records, but the last offset delta is %" PRId32,
                                           header->record_count, header->last_offset_delta)));
    if (batch_has(header, BATCH_CONTROL))
        return refuse(check, ERR_INVALID_RECORD, "clients may not write control batches");
    if (batch_has_producer(header) && header->base_sequence < 0)
        return refuse(check, ERR_INVALID_RECORD, "a producer id without a sequence number");
    return ERR_OK;
}

static enum err check_header(struct check *check)
{
    const struct batch_header *header = &check->verdict->header;
    enum err err = check_frame(check);

    if (err != ERR_OK)
        return err;
    check->verdict->framed = true;
    if (batch_codec(header) == CODEC_ZSTD && !check->rules->zstd_allowed)
        return refuse(check, ERR_UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce v7 or later");
    err = check_size(check);
    if (err != ERR_OK)
        return err;
    if (!batch_crc_is_valid(check->batch))
        return refuse(check, ERR_CORRUPT_MESSAGE, "the batch's CRC is wrong");
    if (check->rules->from_client)
        err = check_client_header(check);
    if (err == ERR_OK && check->rules->from_client && batch_has(header, BATCH_LOG_APPEND_TIME))
        return refuse(check, ERR_INVALID_TIMESTAMP, "a producer may not claim LogAppendTime");
    return err;
}

static void add_record_error(struct check *check, int32_t index, const char *message)
{
    struct batch_verdict *verdict = check->verdict;

    if (verdict->record_errors == NULL)
        verdict->record_errors = arena_array(check->arena, BATCH_RECORD_ERRORS_MAX, sizeof(*verdict->record_errors));
    if (verdict->record_errors == NULL || verdict->record_error_count == BATCH_RECORD_ERRORS_MAX)
        return;
    verdict->record_errors[verdict->record_error_count++] = (struct batch_record_error){index, message};
}

/* Sums that would leave the range of int64 stop at its end. */
static int64_t add_saturating(int64_t a, int64_t b)
{
    int64_t sum = 0;

    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

static bool timestamp_is_allowed(const struct check *check, int64_t timestamp)
{
    return timestamp == TIMESTAMP_NONE || (timestamp >= check->earliest_ms && timestamp <= check->latest_ms);
}

/* Whether the record's fields are right; false adds an error that names it. */
static bool check_record(struct check *check, const struct record *record, int32_t index)
{
    if (check->rules->keys_required && record->key.data == NULL) {
        add_record_error(check, index, "a compacted topic takes no record without a key");
        return false;
    }
    if (!check->rules->stamp_append_time && !timestamp_is_allowed(check, record->timestamp)) {
        check->bad_timestamp = true;
        add_record_error(
            check, index,
            text_of(arena_printf(check->arena, "timestamp %" PRId64 " is outside of %" PRId64 " to %" PRId64,
                                 record->timestamp, check->earliest_ms, check->latest_ms)));
        return false;
    }
    return true;
}

static enum err refuse_records(struct check *check)
{
    if (check->bad_timestamp)
        return refuse(check, ERR_INVALID_TIMESTAMP, "records were refused for their timestamps");
    return refuse(check, ERR_INVALID_RECORD, "records were refused");
}

static enum err refuse_unreadable(struct check *check, enum err err, int32_t index)
{
    if (err == ERR_CORRUPT_MESSAGE)
        return refuse(check, err, "the compressed records cannot be unpacked");
    if (err == ERR_MESSAGE_TOO_LARGE)
        return refuse(check, err, "the compressed records unfold to more than is accepted");
    if (err == ERR_INVALID_RECORD)
        return refuse(
            check, err,
            text_of(arena_printf(check->arena, "record %" PRId32 " cannot be read, or bytes follow the last", index)));
    return err;
}

static enum err walk_records(struct check *check)
{
    const struct batch_header *header = &check->verdict->header;
    struct record_iter iter;
    struct record record;
    int32_t index = 0;
    bool good = true;
    bool in_order = true;
    enum err err = record_iter_init(&iter, check->batch, check->rules->opened_bytes_max);

    if (err != ERR_OK)
        return err;
    iter.record_bytes_max = check->rules->record_bytes_max;
    check->max_timestamp = TIMESTAMP_NONE;
    while ((err = record_iter_next(&iter, &record)) == ERR_OK) {
        in_order = in_order && record.offset_delta == index;
        if (record.timestamp > check->max_timestamp)
            check->max_timestamp = record.timestamp;
        good = check_record(check, &record, index) && good;
        index++;
    }
    record_iter_deinit(&iter);
    if (err != ERR_END)
        return refuse_unreadable(check, err, index);
    if (!good)
        return refuse_records(check);
    if (in_order || !check->rules->from_client)
        return ERR_OK;
    /* Some old clients number the records of a compressed batch wrongly, and Kafka mends that. */
    if (batch_codec(header) == CODEC_NONE)
        return refuse(check, ERR_INVALID_RECORD, "the records' offset deltas are not 0, 1, 2, ...");
    check->verdict->rebuild = true;
    return ERR_OK;
}

static bool must_open(const struct check *check)
{
    const struct batch_rules *rules = check->rules;
    enum codec codec = batch_codec(&check->verdict->header);

    return codec == CODEC_NONE || rules->keys_required || rules->stamp_append_time || rules->open_compressed ||
           (rules->codec != BATCH_RULE_CODEC_PRODUCER && (enum codec)rules->codec != codec);
}

/* A batch that stays shut is judged by what its header says. */
static enum err check_header_times(struct check *check)
{
    const struct batch_header *header = &check->verdict->header;

    if (timestamp_is_allowed(check, header->max_timestamp) && timestamp_is_allowed(check, header->base_timestamp))
        return ERR_OK;
    return refuse(check, ERR_INVALID_TIMESTAMP, "the batch's timestamps are out of range");
}

/* The stamps that the topic or the records ask for. */
static void correct_times(struct check *check, uint8_t *batch, bool walked)
{
    const struct batch_rules *rules = check->rules;
    struct batch_header *header = &check->verdict->header;

    if (rules->stamp_append_time)
        batch_set_max_timestamp(batch, true, rules->now_ms);
    else if (walked && header->max_timestamp != check->max_timestamp)
        batch_set_max_timestamp(batch, false, check->max_timestamp);
    else
        return;
    batch_header_read(batch, header);
    check->verdict->rewritten = true;
}

enum err batch_validate(uint8_t *run, size_t size, const struct batch_rules *rules, struct arena *arena,
                        struct batch_verdict *verdict)
{
    struct check check = {
        .batch = bytes_of(run, size),
        .rules = rules,
        .arena = arena,
        .verdict = verdict,
        .earliest_ms = add_saturating(rules->now_ms, -rules->timestamp_before_max_ms),
        .latest_ms = add_saturating(rules->now_ms, rules->timestamp_after_max_ms),
    };
    enum err err = ERR_OK;
    bool walk = false;

    *verdict = (struct batch_verdict){0};
    err = check_header(&check);
    if (err != ERR_OK)
        return err;
    walk = must_open(&check);
    if (walk)
        err = walk_records(&check);
    else if (!rules->stamp_append_time)
        err = check_header_times(&check);
    if (err != ERR_OK)
        return err;
    if (rules->codec != BATCH_RULE_CODEC_PRODUCER && (enum codec)rules->codec != batch_codec(&verdict->header))
        verdict->rebuild = true;
    /* Internal writers stamp their own time, and control batches carry it. */
    if (rules->from_client || rules->stamp_append_time)
        correct_times(&check, run, walk);
    return ERR_OK;
}
