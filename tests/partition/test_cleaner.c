/* Rule: a cleaning keeps what cleaner.h says, told by examples and by a naive model of records on random streams
 * (replication.md 11; KIP-534; traps B125, B127, B137). */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/rng.h"
#include "keyed.h"
#include "partition/cleaner.h"
#include "run_tests.h"
#include "sim/sim.h"

enum { BATCHES_MAX = 512, RECORDS_MAX = 64, RETENTION_MS = 1000 };

/* A log in memory. */
struct stream {
    struct bytes batches[BATCHES_MAX];
    uint32_t count;
    int64_t end;
};

static void stream_add(struct stream *stream, uint8_t *batch, size_t size)
{
    struct batch_header head;

    ck_assert_uint_lt(stream->count, BATCHES_MAX);
    batch_header_read(batch, &head);
    stream->batches[stream->count++] = bytes_of(batch, size);
    stream->end = batch_last_offset(&head) + 1;
}

static void put(struct stream *stream, struct keyed_make make)
{
    uint8_t *batch = NULL;
    size_t size = 0;

    make.base_offset = stream->end;
    batch = keyed_batch(&make, &size);
    stream_add(stream, batch, size);
}

static void end_txn(struct stream *stream, int64_t producer_id, bool commit)
{
    size_t size = 0;
    uint8_t *marker = keyed_marker(stream->end, producer_id, 0, commit, &size);

    stream_add(stream, marker, size);
}

static void drop(struct bytes batch)
{
    mem_free((void *)(uintptr_t)batch.data);
}

static void stream_free(struct stream *stream)
{
    for (uint32_t i = 0; i < stream->count; i++)
        drop(stream->batches[i]);
    *stream = (struct stream){0};
}

static struct bytes copy_of(struct bytes batch)
{
    uint8_t *copy = mem_alloc(batch.size);

    memcpy(copy, batch.data, batch.size);
    return bytes_of(copy, batch.size);
}

struct cleaned {
    int64_t end_offset;
    struct cleaner_stats stats;
    struct cleaner_aborted aborted[64];
    uint32_t aborted_count;
};

static struct cleaner_spec spec_of(const struct stream *stream, int64_t now_ms)
{
    return (struct cleaner_spec){
        .limit_offset = stream->end,
        .now_ms = now_ms,
        .delete_retention_ms = RETENTION_MS,
        .map_bytes_max = 1 << 20,
        .map_load = 0.9,
        .keys_expected = 10000,
        .hash_seed = 5,
    };
}

/* Cleans what begins below the mapped end. */
static struct cleaned clean(struct stream *stream, const struct cleaner_spec *spec)
{
    struct stream made = {.end = stream->end};
    struct cleaned cleaned = {0};
    struct cleaner *cleaner = NULL;
    const struct cleaner_aborted *aborted = NULL;
    enum err err = ERR_OK;

    ck_assert_int_eq(cleaner_new(spec, &cleaner), ERR_OK);
    for (uint32_t i = 0; i < stream->count && err == ERR_OK; i++) {
        struct batch_header head;

        batch_header_read(stream->batches[i].data, &head);
        if (head.base_offset < spec->limit_offset)
            err = cleaner_map_batch(cleaner, stream->batches[i]);
    }
    if (err == ERR_OK)
        cleaner_map_reached(cleaner, spec->limit_offset);
    else
        ck_assert_int_eq(err, ERR_LIMIT);
    cleaned.end_offset = cleaner_end_offset(cleaner);
    for (uint32_t i = 0; i < stream->count; i++) {
        struct batch_header head;
        struct bytes kept = stream->batches[i];

        batch_header_read(stream->batches[i].data, &head);
        if (head.base_offset < cleaned.end_offset)
            ck_assert_int_eq(cleaner_filter_batch(cleaner, stream->batches[i], &kept), ERR_OK);
        if (kept.data != NULL)
            made.batches[made.count++] = copy_of(kept);
    }
    aborted = cleaner_take_aborted(cleaner, &cleaned.aborted_count);
    ck_assert_uint_le(cleaned.aborted_count, 64);
    if (cleaned.aborted_count > 0)
        memcpy(cleaned.aborted, aborted, cleaned.aborted_count * sizeof(aborted[0]));
    cleaner_get_stats(cleaner, &cleaned.stats);
    cleaner_free(cleaner);
    stream_free(stream);
    *stream = made;
    return cleaned;
}

static struct batch_header head_of(const struct stream *stream, uint32_t slot)
{
    struct batch_header head;

    ck_assert_uint_lt(slot, stream->count);
    batch_header_read(stream->batches[slot].data, &head);
    return head;
}

/* "offset=key:value ..." over all batches. */
static const char *text_of(const struct stream *stream)
{
    static char text[8192];
    size_t size = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < stream->count; i++) {
        struct keyed_record records[RECORDS_MAX];
        uint32_t count = keyed_read(stream->batches[i], records, RECORDS_MAX);

        for (uint32_t j = 0; j < count; j++)
            size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%" PRId64 "=%" PRId64 ":%" PRId64,
                                     size == 0 ? "" : " ", records[j].offset, records[j].key, records[j].value);
    }
    return text;
}

#define RECORDS(...)                                                                                                   \
    .records = (const struct keyed_record[]){__VA_ARGS__},                                                             \
    .count = sizeof((const struct keyed_record[]){__VA_ARGS__}) / sizeof(struct keyed_record)

/* --- examples --- */

START_TEST(last_record_of_each_key_stays)
{
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        struct stream stream = {0};
        struct cleaner_spec spec;

        put(&stream, (struct keyed_make){
                         .codec = codec,
                         RECORDS({.timestamp = 50, .key = 1, .value = 10}, {.timestamp = 60, .key = 2, .value = 20},
                                 {.timestamp = 55, .key = -1, .value = 5}, {.timestamp = 70, .key = 3, .value = 30})});
        put(&stream, (struct keyed_make){.codec = codec, RECORDS({.timestamp = 80, .key = 3, .value = 31})});
        put(&stream, (struct keyed_make){.codec = codec, RECORDS({.timestamp = 81, .key = 3, .value = 32})});
        put(&stream, (struct keyed_make){.codec = codec, RECORDS({.timestamp = 82, .key = 4, .value = 40})});
        spec = spec_of(&stream, 1000);
        clean(&stream, &spec);
        ck_assert_str_eq(text_of(&stream), "0=1:10 1=2:20 5=3:32 6=4:40");
        ck_assert_uint_eq(stream.count, 3);
        /* What is built anew keeps its place, its codec and what its readers go by. */
        ck_assert_int_eq(head_of(&stream, 0).base_offset, 0);
        ck_assert_int_eq(head_of(&stream, 0).last_offset_delta, 3);
        ck_assert_int_eq(head_of(&stream, 0).record_count, 2);
        ck_assert_int_eq(batch_codec(&(struct batch_header){.attributes = head_of(&stream, 0).attributes}), codec);
        ck_assert_int_eq(head_of(&stream, 0).base_timestamp, 50);
        ck_assert_int_eq(head_of(&stream, 0).max_timestamp, 60);
        stream_free(&stream);
    }
}
END_TEST

START_TEST(only_what_is_mapped_supersedes)
{
    struct stream stream = {0};
    struct cleaner_spec spec;

    for (int64_t i = 0; i < 6; i++)
        put(&stream, (struct keyed_make){RECORDS({.key = 1, .value = i})});
    spec = spec_of(&stream, 1000);
    spec.first_dirty_offset = 2;
    spec.limit_offset = 4;
    ck_assert_int_eq(clean(&stream, &spec).end_offset, 4);
    ck_assert_str_eq(text_of(&stream), "3=1:3 4=1:4 5=1:5");
    stream_free(&stream);
}
END_TEST

START_TEST(a_full_map_cleans_less)
{
    struct stream stream = {0};
    struct cleaner_spec spec;
    struct keyed_record records[40];

    for (int64_t i = 0; i < 40; i++)
        records[i] = (struct keyed_record){.key = i % 20, .value = i};
    put(&stream, (struct keyed_make){.records = records, .count = 40});
    put(&stream, (struct keyed_make){RECORDS({.key = 100, .value = 1})});
    spec = spec_of(&stream, 1000);
    spec.map_bytes_max = 10 * 24;
    spec.map_load = 0.8;
    /* Eight keys fit: what lies behind is cleaned next, from the middle of the batch on. */
    ck_assert_int_eq(clean(&stream, &spec).end_offset, 8);
    ck_assert_int_eq(head_of(&stream, 0).record_count, 40);
    spec.map_bytes_max = 1 << 20;
    spec.first_dirty_offset = 8;
    ck_assert_int_eq(clean(&stream, &spec).end_offset, 41);
    ck_assert_int_eq(head_of(&stream, 0).record_count, 20);
    stream_free(&stream);
}
END_TEST

START_TEST(tombstones_live_until_their_horizon)
{
    struct stream stream = {0};
    struct cleaner_spec spec;
    struct keyed_record records[4];

    put(&stream, (struct keyed_make){RECORDS({.timestamp = 3, .key = 1, .value = 10})});
    put(&stream,
        (struct keyed_make){RECORDS({.timestamp = 7, .key = 1, .value = -1}, {.timestamp = 9, .key = 2, .value = 20})});
    put(&stream, (struct keyed_make){RECORDS({.timestamp = 10, .key = 3, .value = 30})});
    spec = spec_of(&stream, 5000);
    clean(&stream, &spec);
    ck_assert_str_eq(text_of(&stream), "1=1:-1 2=2:20 3=3:30");
    ck_assert(batch_has(&(struct batch_header){.attributes = head_of(&stream, 0).attributes}, BATCH_DELETE_HORIZON));
    ck_assert_int_eq(head_of(&stream, 0).base_timestamp, 5000 + RETENTION_MS);
    ck_assert_int_eq(head_of(&stream, 0).max_timestamp, 9);
    ck_assert_uint_eq(keyed_read(stream.batches[0], records, 4), 2);
    ck_assert_int_eq(records[0].timestamp, 7);
    ck_assert_int_eq(records[1].timestamp, 9);
    /* Later cleanings leave the horizon alone. */
    spec.now_ms = 5999;
    spec.first_dirty_offset = stream.end;
    clean(&stream, &spec);
    ck_assert_str_eq(text_of(&stream), "1=1:-1 2=2:20 3=3:30");
    ck_assert_int_eq(head_of(&stream, 0).base_timestamp, 6000);
    spec.now_ms = 6000;
    clean(&stream, &spec);
    ck_assert_str_eq(text_of(&stream), "2=2:20 3=3:30");
    stream_free(&stream);
}
END_TEST

START_TEST(a_horizon_does_not_overflow)
{
    struct stream stream = {0};
    struct cleaner_spec spec;

    put(&stream, (struct keyed_make){RECORDS({.timestamp = 7, .key = 1, .value = -1})});
    spec = spec_of(&stream, 5000);
    spec.delete_retention_ms = INT64_MAX;
    clean(&stream, &spec);
    ck_assert_int_eq(head_of(&stream, 0).base_timestamp, INT64_MAX);
    clean(&stream, &spec);
    ck_assert_str_eq(text_of(&stream), "0=1:-1");
    stream_free(&stream);
}
END_TEST

START_TEST(aborted_records_go_and_their_marker_follows)
{
    struct stream stream = {0};
    struct cleaner_spec spec;
    const struct cleaner_aborted aborted = {
        .producer_id = 9, .first_offset = 1, .last_offset = 3, .last_stable_offset = 1};
    struct cleaned cleaned;

    put(&stream, (struct keyed_make){RECORDS({.key = 1, .value = 10})});
    put(&stream, (struct keyed_make){.producer_id = 9, .transactional = true, RECORDS({.key = 1, .value = 666})});
    put(&stream, (struct keyed_make){RECORDS({.key = 2, .value = 20})});
    end_txn(&stream, 9, false);
    put(&stream, (struct keyed_make){
                     .producer_id = 9, .base_sequence = 1, .transactional = true, RECORDS({.key = 3, .value = 30})});
    end_txn(&stream, 9, true);
    put(&stream, (struct keyed_make){RECORDS({.key = 4, .value = 40})});
    spec = spec_of(&stream, 5000);
    spec.aborted = &aborted;
    spec.aborted_count = 1;
    cleaned = clean(&stream, &spec);
    ck_assert_str_eq(text_of(&stream), "0=1:10 2=2:20 4=3:30 6=4:40");
    ck_assert_uint_eq(stream.count, 6);
    ck_assert_uint_eq(cleaned.aborted_count, 1);
    ck_assert_int_eq(cleaned.aborted[0].last_offset, 3);
    /* No batch of it is left: the marker gets its horizon, and its entry goes. */
    cleaned = clean(&stream, &spec);
    ck_assert_uint_eq(stream.count, 6);
    ck_assert_uint_eq(cleaned.aborted_count, 0);
    ck_assert_int_eq(head_of(&stream, 2).base_offset, 3);
    ck_assert_int_eq(head_of(&stream, 2).base_timestamp, 6000);
    ck_assert_int_eq(head_of(&stream, 4).attributes & BATCH_DELETE_HORIZON, 0); /* the other still has its record */
    spec.now_ms = 6000;
    clean(&stream, &spec);
    ck_assert_uint_eq(stream.count, 5);
    ck_assert_str_eq(text_of(&stream), "0=1:10 2=2:20 4=3:30 6=4:40");
    stream_free(&stream);
}
END_TEST

START_TEST(a_committed_marker_outlives_its_records)
{
    struct stream stream = {0};
    struct cleaner_spec spec;

    put(&stream, (struct keyed_make){.producer_id = 9, .transactional = true, RECORDS({.key = 1, .value = 10})});
    end_txn(&stream, 9, true);
    put(&stream, (struct keyed_make){RECORDS({.key = 1, .value = 11})});
    spec = spec_of(&stream, 5000);
    clean(&stream, &spec); /* the record goes */
    ck_assert_uint_eq(stream.count, 2);
    ck_assert_int_eq(head_of(&stream, 0).attributes & BATCH_DELETE_HORIZON, 0);
    clean(&stream, &spec); /* the marker gets its horizon */
    ck_assert_int_eq(head_of(&stream, 0).base_timestamp, 6000);
    spec.now_ms = 6000;
    clean(&stream, &spec);
    ck_assert_uint_eq(stream.count, 1);
    ck_assert_str_eq(text_of(&stream), "2=1:11");
    stream_free(&stream);
}
END_TEST

START_TEST(last_batch_of_a_producer_is_emptied_not_dropped)
{
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        struct stream stream = {0};
        struct cleaner_spec spec;
        const struct cleaner_producer producers[] = {{8, 5, 2}, {7, 1, 3}};
        struct batch_header head;

        put(&stream, (struct keyed_make){
                         .producer_id = 7,
                         .producer_epoch = 3,
                         .base_sequence = 40,
                         .codec = codec,
                         RECORDS({.timestamp = 5, .key = 1, .value = 1}, {.timestamp = 4, .key = 1, .value = 2})});
        put(&stream, (struct keyed_make){.producer_id = 8, RECORDS({.key = 1, .value = 3})});
        put(&stream, (struct keyed_make){RECORDS({.key = 1, .value = 4})});
        spec = spec_of(&stream, 5000);
        spec.producers = producers;
        spec.producer_count = 2;
        for (int round = 0; round < 2; round++) {
            clean(&stream, &spec);
            ck_assert_uint_eq(stream.count, 2);
            ck_assert_str_eq(text_of(&stream), "3=1:4");
            head = head_of(&stream, 0);
            ck_assert_uint_eq(head.size, BATCH_HEADER_BYTES);
            ck_assert_int_eq(head.record_count, 0);
            ck_assert_int_eq(head.producer_id, 7);
            ck_assert_int_eq(head.producer_epoch, 3);
            ck_assert_int_eq(head.base_sequence, 40);
            ck_assert_int_eq(batch_last_sequence(&head), 41);
            ck_assert_int_eq(head.base_offset, 0);
            ck_assert_int_eq(batch_last_offset(&head), 1);
            ck_assert_int_eq(head.max_timestamp, 5);
            ck_assert_int_eq(head.attributes, 0);
        }
        spec.producer_count = 0; /* forgotten since */
        clean(&stream, &spec);
        ck_assert_uint_eq(stream.count, 1);
        stream_free(&stream);
    }
}
END_TEST

START_TEST(a_producers_last_marker_guards_its_epoch)
{
    struct stream stream = {0};
    struct cleaner_spec spec;
    const struct cleaner_producer producer = {9, -1, 0};

    end_txn(&stream, 9, false); /* of nothing: it only raised the epoch */
    put(&stream, (struct keyed_make){RECORDS({.key = 1, .value = 1})});
    spec = spec_of(&stream, 5000);
    spec.producers = &producer;
    spec.producer_count = 1;
    clean(&stream, &spec);
    spec.now_ms = 6000;
    clean(&stream, &spec); /* its record goes, its header stays */
    ck_assert_uint_eq(stream.count, 2);
    ck_assert_int_eq(head_of(&stream, 0).record_count, 0);
    ck_assert_int_eq(head_of(&stream, 0).attributes, BATCH_TRANSACTIONAL | BATCH_CONTROL);
    clean(&stream, &spec);
    ck_assert_uint_eq(stream.count, 2);
    spec.producer_count = 0;
    clean(&stream, &spec);
    ck_assert_uint_eq(stream.count, 1);
    stream_free(&stream);
}
END_TEST

START_TEST(last_batch_of_the_range_keeps_the_offsets)
{
    struct stream stream = {0};
    struct cleaner_spec spec;
    const struct cleaner_aborted aborted = {.producer_id = 9, .first_offset = 1, .last_offset = 2};

    put(&stream, (struct keyed_make){RECORDS({.key = 1, .value = 1})});
    put(&stream, (struct keyed_make){.producer_id = 9, .transactional = true, RECORDS({.key = 1, .value = 2})});
    end_txn(&stream, 9, false);
    spec = spec_of(&stream, 5000);
    spec.limit_offset = 2; /* the marker lies beyond */
    spec.aborted = &aborted;
    spec.aborted_count = 1;
    clean(&stream, &spec);
    ck_assert_uint_eq(stream.count, 3);
    ck_assert_str_eq(text_of(&stream), "0=1:1");
    ck_assert_int_eq(head_of(&stream, 1).base_offset, 1);
    ck_assert_int_eq(head_of(&stream, 1).record_count, 0);
    stream_free(&stream);
}
END_TEST

START_TEST(what_cannot_be_opened_is_kept)
{
    for (int kind = 0; kind < 4; kind++) {
        struct stream stream = {0};
        struct cleaner_spec spec;
        struct cleaned cleaned;
        uint8_t *bytes = NULL;
        struct bytes before;

        put(&stream, (struct keyed_make){RECORDS({.key = 1, .value = 1}, {.key = 2, .value = 2})});
        put(&stream,
            (struct keyed_make){.codec = CODEC_GZIP,
                                RECORDS({.key = 2, .value = 3}, {.key = 3, .value = 4}, {.key = 2, .value = 5})});
        put(&stream, (struct keyed_make){.producer_id = 9, .transactional = true, RECORDS({.key = 1, .value = 6})});
        end_txn(&stream, 9, true);
        put(&stream, (struct keyed_make){RECORDS({.key = 1, .value = 7})});
        bytes = (uint8_t *)(uintptr_t)stream.batches[1].data;
        if (kind == 0)
            bytes[70] ^= 1; /* a wrong checksum */
        if (kind == 1) {
            bytes[BATCH_FIELD_ATTRIBUTES + 1] = 6; /* no codec of ours */
            batch_set_crc(bytes);
        }
        if (kind == 2) {
            bytes[80] ^= 0xff; /* the codec does not take it */
            batch_set_crc(bytes);
        }
        if (kind == 3) {
            bytes[BATCH_FIELD_RECORD_COUNT + 3] = 4; /* more than there are: it breaks off behind good records */
            batch_set_crc(bytes);
        }
        before = copy_of(stream.batches[1]);
        spec = spec_of(&stream, 5000);
        for (int round = 0; round < 3; round++) {
            spec.now_ms += RETENTION_MS;
            cleaned = clean(&stream, &spec);
            ck_assert_uint_eq(cleaned.stats.batches_unopened, 1);
            ck_assert_int_eq(cleaned.stats.first_unopened_offset, 2);
            ck_assert(bytes_equal(stream.batches[1], before));
        }
        /* Its keys have superseded nothing, and no marker behind it has gone. */
        ck_assert_uint_eq(stream.count, 4);
        ck_assert_int_eq(head_of(&stream, 0).record_count, 1);
        ck_assert_int_eq(head_of(&stream, 2).record_count, 1);
        ck_assert_int_eq(head_of(&stream, 2).attributes, BATCH_TRANSACTIONAL | BATCH_CONTROL);
        drop(before);
        stream_free(&stream);
    }
}
END_TEST

/* --- the model --- */

enum { MODEL_PRODUCERS = 4, MODEL_KEYS = 12, MODEL_RECORDS_MAX = 2048 };

struct model_batch {
    int64_t base;
    int64_t last;
    int64_t producer; /* 0: none */
    bool transactional;
    bool marker;
    bool aborted;
    int64_t txn; /* number of its transaction; -1 */
    int64_t horizon;
    bool alive;
    bool emptied;
};

struct model {
    struct rng *rng;
    struct stream stream;
    struct keyed_record records[MODEL_RECORDS_MAX];
    bool alive[MODEL_RECORDS_MAX]; /* by offset, as are the records */
    uint32_t batch_of[MODEL_RECORDS_MAX];
    struct model_batch batches[BATCHES_MAX];
    uint32_t batch_count;
    struct cleaner_aborted aborted[BATCHES_MAX];
    uint32_t aborted_count;
    int64_t open_from[MODEL_PRODUCERS]; /* of an open transaction; -1 */
    int64_t open_txn[MODEL_PRODUCERS];
    struct cleaner_producer last[MODEL_PRODUCERS];
    int64_t sequence[MODEL_PRODUCERS];
    int64_t txns;
    int64_t now_ms;
};

static int64_t draw(struct model *model, uint64_t below)
{
    return (int64_t)rng_below(model->rng, below);
}

static struct model_batch *model_batch_add(struct model *model, int64_t last)
{
    struct model_batch *batch = &model->batches[model->batch_count++];

    *batch = (struct model_batch){.base = model->stream.end, .last = last, .txn = -1, .horizon = -1, .alive = true};
    return batch;
}

static void model_put(struct model *model)
{
    struct keyed_record records[8];
    uint32_t count = 1 + (uint32_t)draw(model, 8);
    int64_t who = draw(model, 2 * MODEL_PRODUCERS) - MODEL_PRODUCERS;
    struct keyed_make make = {.records = records, .count = count, .codec = (enum codec)draw(model, CODEC_COUNT)};
    int64_t base = model->stream.end;
    struct model_batch *batch = model_batch_add(model, base + count - 1);

    for (uint32_t i = 0; i < count; i++) {
        records[i] = (struct keyed_record){
            .timestamp = model->now_ms + draw(model, 50),
            .key = draw(model, 20) == 0 ? -1 : draw(model, MODEL_KEYS),
            .value = draw(model, 4) == 0 ? -1 : base + i,
        };
        model->records[base + i] = records[i];
        model->records[base + i].offset = base + i;
        model->alive[base + i] = true;
        model->batch_of[base + i] = model->batch_count - 1;
    }
    if (who >= 0) {
        make.producer_id = batch->producer = 1 + who;
        make.base_sequence = (int32_t)model->sequence[who];
        make.transactional = batch->transactional = who >= 1; /* the first is only idempotent */
        model->sequence[who] += count;
        if (make.transactional && model->open_from[who] < 0) {
            model->open_from[who] = base;
            model->open_txn[who] = model->txns++;
        }
        batch->txn = make.transactional ? model->open_txn[who] : -1;
        model->last[who] = (struct cleaner_producer){1 + who, batch->last, 0};
    }
    put(&model->stream, make);
}

static void model_end_txn(struct model *model, int64_t who, bool commit)
{
    struct model_batch *batch = NULL;

    if (who < 1 || model->open_from[who] < 0)
        return;
    batch = model_batch_add(model, model->stream.end);
    batch->producer = 1 + who;
    batch->marker = batch->transactional = true;
    batch->txn = model->open_txn[who];
    batch->aborted = !commit;
    model->batch_of[batch->base] = model->batch_count - 1;
    if (!commit) {
        model->aborted[model->aborted_count++] =
            (struct cleaner_aborted){1 + who, model->open_from[who], batch->base, model->open_from[who]};
        for (uint32_t i = 0; i < model->batch_count; i++)
            model->batches[i].aborted |= model->batches[i].txn == batch->txn;
    }
    end_txn(&model->stream, 1 + who, commit);
    model->open_from[who] = -1;
}

static bool model_supersedes(const struct model *model, int64_t offset, int64_t dirty, int64_t end)
{
    for (int64_t later = offset + 1; later < end; later++)
        if (later >= dirty && model->alive[later] && !model->batches[model->batch_of[later]].aborted &&
            model->records[later].key == model->records[offset].key)
            return true;
    return false;
}

static bool model_txn_has_batches(const struct model *model, int64_t txn)
{
    for (uint32_t i = 0; i < model->batch_count; i++)
        if (model->batches[i].alive && !model->batches[i].marker && model->batches[i].txn == txn)
            return true;
    return false;
}

static bool model_is_guarded(const struct model *model, const struct model_batch *batch, int64_t limit)
{
    return batch->last + 1 == limit ||
           (batch->producer > 0 && model->last[batch->producer - 1].last_offset == batch->last);
}

/* The same cleaning, thought through record by record. */
static void model_clean(struct model *model, int64_t dirty, int64_t limit)
{
    bool alive[MODEL_RECORDS_MAX];
    bool batches_alive[BATCHES_MAX];

    memcpy(alive, model->alive, sizeof(alive));
    for (uint32_t i = 0; i < model->batch_count && model->batches[i].base < limit; i++) {
        struct model_batch *batch = &model->batches[i];
        bool guarded = model_is_guarded(model, batch, limit);
        bool any = false;
        bool tombstone = false;

        batches_alive[i] = batch->alive;
        if (!batch->alive)
            continue;
        if (batch->marker) {
            if (batch->emptied) {
                batches_alive[i] = guarded;
            } else if (!model_txn_has_batches(model, batch->txn)) {
                if (batch->horizon < 0)
                    batch->horizon = model->now_ms + RETENTION_MS;
                else if (batch->horizon <= model->now_ms) {
                    batches_alive[i] = guarded;
                    batch->emptied = true;
                    batch->horizon = -1;
                }
            }
            continue;
        }
        for (int64_t offset = batch->base; offset <= batch->last; offset++) {
            const struct keyed_record *record = &model->records[offset];

            alive[offset] = model->alive[offset] && !batch->aborted && record->key >= 0 &&
                            !model_supersedes(model, offset, dirty, limit) &&
                            (record->value >= 0 || batch->horizon < 0 || batch->horizon > model->now_ms);
            any |= alive[offset];
            tombstone |= alive[offset] && record->value < 0;
        }
        if (tombstone && batch->horizon < 0)
            batch->horizon = model->now_ms + RETENTION_MS;
        if (!any)
            batch->horizon = -1;
        batches_alive[i] = any || guarded;
    }
    memcpy(model->alive, alive, sizeof(alive));
    for (uint32_t i = 0; i < model->batch_count && model->batches[i].base < limit; i++)
        model->batches[i].alive = batches_alive[i];
}

static void model_compare(const struct model *model)
{
    const struct stream *stream = &model->stream;
    uint32_t slot = 0;

    for (uint32_t i = 0; i < model->batch_count; i++) {
        const struct model_batch *batch = &model->batches[i];
        struct keyed_record records[RECORDS_MAX];
        struct batch_header head;
        uint32_t count = 0;
        uint32_t at = 0;

        if (!batch->alive)
            continue;
        head = head_of(stream, slot);
        ck_assert_int_eq(head.base_offset, batch->base);
        ck_assert_int_eq(batch_last_offset(&head), batch->last);
        ck_assert_int_eq(head.producer_id, batch->producer == 0 ? -1 : batch->producer);
        ck_assert_int_eq(batch_has(&head, BATCH_TRANSACTIONAL), batch->transactional);
        ck_assert_int_eq(batch_has(&head, BATCH_CONTROL), batch->marker);
        ck_assert_int_eq(batch_has(&head, BATCH_DELETE_HORIZON), batch->horizon >= 0);
        if (batch->horizon >= 0)
            ck_assert_int_eq(head.base_timestamp, batch->horizon);
        count = keyed_read(stream->batches[slot++], records, RECORDS_MAX);
        for (int64_t offset = batch->base; offset <= batch->last && !batch->marker; offset++) {
            if (!model->alive[offset])
                continue;
            ck_assert_uint_lt(at, count);
            ck_assert_int_eq(records[at].offset, offset);
            ck_assert_int_eq(records[at].key, model->records[offset].key);
            ck_assert_int_eq(records[at].value, model->records[offset].value);
            ck_assert_int_eq(records[at++].timestamp, model->records[offset].timestamp);
        }
        ck_assert_uint_eq(at, count);
    }
    ck_assert_uint_eq(slot, stream->count);
}

/* Whatever the order of things: the latest committed value of a key is there, and nothing older than a deletion is. */
static void model_check_latest(const struct model *model)
{
    for (int64_t key = 0; key < MODEL_KEYS; key++) {
        int64_t latest = -1;

        for (uint32_t i = 0; i < model->batch_count; i++)
            for (int64_t offset = model->batches[i].base;
                 offset <= model->batches[i].last && !model->batches[i].marker && !model->batches[i].aborted; offset++)
                if (model->records[offset].key == key)
                    latest = offset;
        if (latest >= 0 && model->records[latest].value >= 0)
            ck_assert(model->alive[latest]);
    }
}

static void model_run(uint64_t seed)
{
    static struct model model;
    struct sim sim;
    int64_t dirty = 0;

    sim_init(&sim, seed);
    model = (struct model){.rng = &sim.rng, .now_ms = 1000};
    for (int i = 0; i < MODEL_PRODUCERS; i++) {
        model.open_from[i] = -1;
        model.last[i] = (struct cleaner_producer){.id = 1 + i, .last_offset = -1, .epoch = 99};
    }
    for (int round = 0; round < 5; round++) {
        struct cleaner_spec spec;
        int64_t limit = 0;

        for (int i = 0; i < 25; i++) {
            if (draw(&model, 4) == 0)
                model_end_txn(&model, draw(&model, MODEL_PRODUCERS), draw(&model, 2) == 0);
            else
                model_put(&model);
        }
        for (int who = 0; who < MODEL_PRODUCERS; who++) /* so that all below the limit is decided */
            model_end_txn(&model, who, draw(&model, 2) == 0);
        limit = model.stream.end;
        for (int i = 0; i < 3; i++)
            model_put(&model);
        for (int who = 0; who < MODEL_PRODUCERS; who++)
            model_end_txn(&model, who, draw(&model, 2) == 0);
        spec = spec_of(&model.stream, model.now_ms);
        spec.first_dirty_offset = dirty;
        spec.limit_offset = limit;
        spec.producers = model.last;
        spec.producer_count = MODEL_PRODUCERS;
        spec.aborted = model.aborted;
        spec.aborted_count = model.aborted_count;
        model_clean(&model, dirty, limit);
        dirty = clean(&model.stream, &spec).end_offset;
        ck_assert_int_eq(dirty, limit);
        model_compare(&model);
        model_check_latest(&model);
        model.now_ms += draw(&model, 2 * RETENTION_MS);
    }
    stream_free(&model.stream);
    sim_deinit(&sim);
}

START_TEST(as_the_model_says)
{
    for (uint64_t seed = 1; seed <= 80; seed++)
        model_run(seed);
}
END_TEST

RUN_TESTS("cleaner", last_record_of_each_key_stays, only_what_is_mapped_supersedes, a_full_map_cleans_less,
          tombstones_live_until_their_horizon, a_horizon_does_not_overflow, aborted_records_go_and_their_marker_follows,
          a_committed_marker_outlives_its_records, last_batch_of_a_producer_is_emptied_not_dropped,
          a_producers_last_marker_guards_its_epoch, last_batch_of_the_range_keeps_the_offsets,
          what_cannot_be_opened_is_kept, as_the_model_says)
