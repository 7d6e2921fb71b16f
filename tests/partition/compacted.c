#include "compacted.h"

#include <check.h>
#include <inttypes.h>

#include "base/mem.h"

static int64_t draw(struct world *world, uint64_t bound)
{
    return (int64_t)sim_draw(&world->sim, bound);
}

void compacted_begin(struct compacted *compacted, struct world *world, uint64_t seed)
{
    world_begin(world, seed);
    world->spec.config.segment_bytes = 700;
    world->spec.config.index_interval_bytes = 150;
    world->spec.config.cleanup_compact = true;
    world->spec.config.cleanup_delete = false;
    world->spec.config.file_delete_delay_ms = 0;
    compacted->world = world;
    compacted->end = 0;
    compacted->there_count = 0;
}

void compacted_append(struct compacted *compacted, struct partition_log *log, struct keyed_make make)
{
    struct appended appended;
    size_t size = 0;
    uint8_t *batch = keyed_batch(&make, &size);

    if (world_append_run(compacted->world, log, batch, size, LOG_ORIGIN_CLIENT, &appended) == ERR_OK) {
        ck_assert_int_eq(appended.op.base_offset, compacted->end);
        for (uint32_t i = 0; i < make.count; i++) {
            compacted->written[compacted->end] = make.records[i];
            compacted->written[compacted->end].offset = compacted->end;
            compacted->end++;
        }
    }
    mem_free(batch);
}

void compacted_append_one(struct compacted *compacted, struct partition_log *log, int64_t key, int64_t value)
{
    const struct keyed_record record = {.timestamp = 1000, .key = key, .value = value};

    compacted_append(compacted, log, (struct keyed_make){.records = &record, .count = 1});
}

void compacted_append_some(struct compacted *compacted, struct partition_log *log, uint32_t batches)
{
    struct world *world = compacted->world;

    for (uint32_t i = 0; i < batches; i++) {
        struct keyed_record records[6];
        struct keyed_make make = {.records = records,
                                  .count = 1 + (uint32_t)draw(world, 6),
                                  .codec = draw(world, 8) == 0 ? (enum codec)draw(world, CODEC_COUNT) : CODEC_NONE};

        for (uint32_t j = 0; j < make.count; j++)
            records[j] = (struct keyed_record){.timestamp = 1000 + draw(world, 100),
                                               .key = draw(world, COMPACTED_KEYS),
                                               .value = draw(world, 6) == 0 ? -1 : 1000 + compacted->end + j};
        compacted_append(compacted, log, make);
    }
}

static void was_cleaned(struct log_clean *op)
{
    struct compacted_cleaning *cleaned = LIST_ENTRY(op, struct compacted_cleaning, op);

    ck_assert(!cleaned->done);
    cleaned->done = true;
}

struct compacted_cleaning compacted_clean_of(const struct partition_log *log)
{
    return (struct compacted_cleaning){.op = {.stable_offset = partition_log_end_offset(log),
                                              .now_ms = COMPACTED_WALL_MS,
                                              .map_bytes_max = 100000,
                                              .map_load = 0.9,
                                              .buffer_bytes = 1000,
                                              .bytes_per_second = 1e300,
                                              .done = was_cleaned}};
}

void compacted_clean_run(struct world *world, struct partition_log *log, struct compacted_cleaning *cleaned)
{
    partition_log_clean(log, &cleaned->op);
    world_run(world, &cleaned->done);
}

enum err compacted_clean(struct world *world, struct partition_log *log)
{
    struct compacted_cleaning cleaned = compacted_clean_of(log);

    (void)world_sync(world, log);
    compacted_clean_run(world, log, &cleaned);
    return cleaned.op.err;
}

/* --- what is there --- */

void compacted_read(struct compacted *compacted, struct partition_log *log, int64_t offset)
{
    struct world *world = compacted->world;
    int64_t end = partition_log_end_offset(log);

    compacted->there_count = 0;
    while (offset < end) {
        uint8_t *data = NULL;
        size_t size = 0;
        struct bytes rest;
        struct batch_header head;
        int64_t wanted = offset;

        ck_assert_int_eq(world_read(world, log, offset, end, 300 + (uint32_t)draw(world, 400), true, &data, &size),
                         ERR_OK);
        ck_assert_msg(size > 0, "nothing at %" PRId64, offset);
        for (rest = bytes_of(data, size); rest.size > 0;
             rest = bytes_of(rest.data + head.size, rest.size - head.size)) {
            ck_assert_int_eq(batch_peek(rest, &head, NULL), ERR_OK);
            ck_assert_int_ge(batch_last_offset(&head), offset);
            compacted->there_count +=
                keyed_read(bytes_of(rest.data, head.size), compacted->there + compacted->there_count,
                           COMPACTED_RECORDS_MAX - compacted->there_count);
            offset = batch_last_offset(&head) + 1;
        }
        ck_assert_int_gt(offset, wanted);
        mem_free(data);
    }
    for (uint32_t i = 0; i < compacted->there_count; i++) {
        const struct keyed_record *is = &compacted->there[i];
        const struct keyed_record *was = &compacted->written[is->offset];

        ck_assert_int_lt(is->offset, compacted->end);
        ck_assert(i == 0 || is->offset > is[-1].offset);
        ck_assert_int_eq(is->key, was->key);
        ck_assert_int_eq(is->value, was->value);
        ck_assert_int_eq(is->timestamp, was->timestamp);
    }
}

static int64_t latest_written(const struct compacted *compacted, int64_t key, int64_t end)
{
    while (end-- > 0)
        if (compacted->written[end].key == key)
            return end;
    return -1;
}

void compacted_check_state(const struct compacted *compacted, int64_t end)
{
    for (int64_t key = 0; key < COMPACTED_KEYS; key++) {
        int64_t latest = latest_written(compacted, key, end);
        int64_t found = -1;

        for (uint32_t i = 0; i < compacted->there_count; i++)
            if (compacted->there[i].key == key && compacted->there[i].offset < end)
                found = compacted->there[i].offset;
        if (latest >= 0 && compacted->written[latest].value >= 0)
            ck_assert_int_eq(found, latest);
        else if (found >= 0) /* a tombstone may have gone; what it deleted went before */
            ck_assert_int_eq(found, latest);
    }
}

void compacted_check_clean(const struct compacted *compacted, const struct partition_log *log)
{
    int64_t end = partition_log_cleaned_offset(log);

    for (uint32_t i = 0; i < compacted->there_count; i++)
        if (compacted->there[i].offset < end)
            ck_assert_int_eq(compacted->there[i].offset, latest_written(compacted, compacted->there[i].key, end));
}

void compacted_check_all(struct compacted *compacted, struct partition_log *log)
{
    compacted_read(compacted, log, 0);
    compacted_check_state(compacted, compacted->end);
    compacted_check_clean(compacted, log);
}

static enum err no_leftover(void *context, const char *name, bool is_directory)
{
    (void)context;
    (void)is_directory;
    ck_assert_msg(strstr(name, ".cleaned") == NULL && strstr(name, ".swap") == NULL, "%s", name);
    return ERR_OK;
}

void compacted_check_names(struct world *world)
{
    ck_assert_int_eq(fs_list(&world->disk.fs, "/data/t-0", no_leftover, NULL), ERR_OK);
}
