/* Rule: a flipped byte anywhere below what was synced costs at most the batch that it lies in: nothing wrong is served,
 * all else is, a line says so once, and the next start knows it.
 *
 * Sources: partition/segment_damage.c */
#include "partition/damage.h"

#include <stdio.h>

#include "base/mem.h"
#include "partition/log_moved_mark.h"
#include "partition/log_truncation_mark.h"
#include "run_tests.h"
#include "world.h"

enum { BATCHES = 24, FILES_MAX = 64, BATCH_BYTES_MAX = 4096 };

struct kept_file {
    char path[128];
    uint8_t *data;
    size_t size;
};

struct kept_batch {
    int64_t base_offset;
    int64_t end_offset;
    uint8_t *data;
    size_t size;
};

/* A log on a disk, as it was closed. */
static struct kept_file files[FILES_MAX];
static uint32_t file_count;
static struct kept_batch batches[BATCHES];
static int64_t end_offset;
static struct world world;

static enum err keep(void *context, const char *name, bool is_directory)
{
    struct kept_file *file = &files[file_count];
    struct bytes content;

    (void)context;
    if (is_directory)
        return ERR_OK;
    snprintf(file->path, sizeof(file->path), "/data/t-0/%s", name);
    content = sim_fs_peek(&world.disk, file->path);
    file->data = mem_alloc(content.size + 1);
    memcpy(file->data, content.data, content.size);
    file->size = content.size;
    file_count++;
    ck_assert_uint_lt(file_count, FILES_MAX);
    return ERR_OK;
}

static void world_prepare(void)
{
    world_begin(&world, 1);
    world.spec.config.segment_bytes = 1500;
    world.spec.config.index_interval_bytes = 250;
}

static void lay_out(void)
{
    struct partition_log *log = NULL;

    world_prepare();
    log = world_log(&world);
    for (uint32_t i = 0; i < BATCHES; i++) {
        struct batch_make make = {.record_count = 1 + i % 4,
                                  .value_bytes = 10 + i * 13 % 90,
                                  .timestamp = 1000 + i * 10,
                                  .producer_id = i % 3 == 0 ? 7 : 0,
                                  .producer_epoch = (int16_t)i,
                                  .codec = i % 5 == 1 ? CODEC_ZSTD : CODEC_NONE,
                                  .fill = (uint8_t)('a' + i)};

        batches[i].base_offset = world_append(&world, log, &make);
        batches[i].end_offset = batches[i].base_offset + make.record_count;
        ck_assert_int_eq(world_read(&world, log, batches[i].base_offset, batches[i].end_offset, 1 << 20, true,
                                    &batches[i].data, &batches[i].size),
                         ERR_OK);
    }
    end_offset = batches[BATCHES - 1].end_offset;
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    world_close(&world, log);
    file_count = 0;
    ck_assert_int_eq(fs_list(&world.disk.fs, "/data/t-0", keep, NULL), ERR_OK);
    world_end(&world);
}

static void forget(void)
{
    for (uint32_t i = 0; i < file_count; i++)
        mem_free(files[i].data);
    for (uint32_t i = 0; i < BATCHES; i++)
        mem_free(batches[i].data);
}

/* The disk as it was, but for one byte. */
static void begin_flipped(uint32_t which, uint64_t position, uint8_t mask, bool clean)
{
    world_prepare();
    for (uint32_t i = 0; i < file_count; i++)
        sim_fs_poke(&world.disk, files[i].path, bytes_of(files[i].data, files[i].size));
    if (mask != 0)
        ck_assert(sim_fs_flip(&world.disk, files[which].path, position, mask));
    world.spec.clean = clean;
    world.spec.recovery_point = end_offset;
    world.spec.start_offset = 0;
}

static const struct kept_batch *batch_of(int64_t offset)
{
    for (uint32_t i = 0; i < BATCHES; i++)
        if (offset < batches[i].end_offset)
            return &batches[i];
    return NULL;
}

/* What was given is whole batches as they were written; leader epochs are vouched for by nothing in the segment. Gives
 * the offset behind them. */
static int64_t check_given(const uint8_t *data, size_t size, int64_t offset)
{
    while (size > 0) {
        const struct kept_batch *batch = batch_of(offset);
        uint8_t copy[BATCH_BYTES_MAX];

        ck_assert_ptr_nonnull(batch);
        ck_assert_uint_ge(size, batch->size);
        memcpy(copy, data, batch->size);
        memcpy(copy + BATCH_FIELD_LEADER_EPOCH, batch->data + BATCH_FIELD_LEADER_EPOCH, 4);
        ck_assert_mem_eq(copy, batch->data, batch->size);
        data += batch->size;
        size -= batch->size;
        offset = batch->end_offset;
    }
    return offset;
}

/* Reads all of the log; gives how many batches are refused, and the last of those. */
static uint32_t read_all(struct partition_log *log, uint32_t bytes_max, int64_t *refused_offset)
{
    int64_t offset = 0;
    uint32_t refused = 0;

    while (offset < partition_log_end_offset(log)) {
        uint8_t *data = NULL;
        size_t size = 0;
        enum err err = world_read(&world, log, offset, partition_log_end_offset(log), bytes_max, true, &data, &size);

        if (err == ERR_CORRUPT_MESSAGE) {
            refused++;
            *refused_offset = offset;
            offset = batch_of(offset)->end_offset;
        } else {
            ck_assert_int_eq(err, ERR_OK);
            ck_assert_uint_gt(size, 0);
            offset = check_given(data, size, offset);
        }
        mem_free(data);
    }
    return refused;
}

static int64_t base_of(const char *path)
{
    return strtoll(strrchr(path, '/') + 1, NULL, 10);
}

/* The batch of a segment's file that holds the byte. */
static const struct kept_batch *batch_with(const struct kept_file *file, uint64_t position)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < BATCHES; i++) {
        if (batches[i].base_offset < base_of(file->path))
            continue;
        if (position < at + batches[i].size)
            return &batches[i];
        at += batches[i].size;
    }
    return NULL;
}

static bool is_kind(const struct kept_file *file, const char *suffix)
{
    size_t size = strlen(file->path);
    size_t suffix_size = strlen(suffix);

    return strcmp(file->path + size - suffix_size, suffix) == 0;
}

static bool in_leader_epoch(const struct kept_file *file, uint64_t position)
{
    for (uint32_t i = 0; i < BATCHES; i++) {
        if (batches[i].base_offset < base_of(file->path))
            continue;
        if (position < batches[i].size)
            return position >= BATCH_FIELD_LEADER_EPOCH && position < BATCH_FIELD_MAGIC;
        position -= batches[i].size;
    }
    return false;
}

/* One flipped byte of a segment: opened, read in small and in large pieces, closed, opened and read again. */
static void flip_segment(uint32_t which, uint64_t position, uint8_t mask, bool clean)
{
    const struct kept_batch *hurt = batch_with(&files[which], position);
    struct partition_log *log = NULL;
    int64_t refused = -1;
    uint32_t lines = 0;

    begin_flipped(which, position, mask, clean);
    log = world_log(&world);
    ck_assert_int_eq(partition_log_end_offset(log), end_offset);
    ck_assert_uint_eq(read_all(log, 200, &refused), 1);
    ck_assert_int_eq(refused, hurt->base_offset);
    ck_assert_uint_ge(world.lines, 1);
    lines = world.lines;
    ck_assert_uint_eq(read_all(log, 1 << 20, &refused), 1);
    ck_assert_int_eq(refused, hurt->base_offset);
    ck_assert_uint_eq(world.lines, lines); /* said once */
    world_close(&world, log);
    log = world_log(&world);
    ck_assert_int_eq(partition_log_end_offset(log), end_offset);
    ck_assert_uint_eq(read_all(log, 1 << 20, &refused), 1);
    ck_assert_int_eq(refused, hurt->base_offset);
    world_close(&world, log);
    ck_assert_uint_gt(sim_fs_peek(&world.disk, "/data/t-0/" DAMAGE_FILE).size, 0);
    world_end(&world);
}

static void flip_segments(bool clean)
{
    lay_out();
    for (uint32_t i = 0; i < file_count; i++) {
        if (!is_kind(&files[i], ".log"))
            continue;
        for (uint64_t position = clean ? 0 : 3; position < files[i].size; position += 7)
            if (!in_leader_epoch(&files[i], position))
                flip_segment(i, position, position % 2 == 0 ? 0x10 : 0x81, clean);
    }
    forget();
}

/* After a clean stop. */
START_TEST(a_flipped_byte_of_a_segment_costs_its_batch)
{
    flip_segments(true);
}
END_TEST

/* After a crash with everything synced: recovery reads, marks and keeps. */
START_TEST(recovery_keeps_what_was_synced)
{
    flip_segments(false);
}
END_TEST

/* Marks of a move and of a cut that say what is true of it. */
static void lay_out_marks(void)
{
    const struct log_moved_mark moved = {end_offset, 0, -1};
    const struct log_truncation_mark cut = {end_offset, end_offset};

    world_begin(&world, 1);
    ck_assert_int_eq(fs_mkdir(&world.disk.fs, "/data/t-0"), ERR_OK);
    ck_assert_int_eq(log_moved_mark_write(&world.disk.fs, "/data/t-0", &moved), ERR_OK);
    ck_assert_int_eq(log_truncation_mark_write(&world.disk.fs, "/data/t-0", &cut), ERR_OK);
    ck_assert_int_eq(fs_list(&world.disk.fs, "/data/t-0", keep, NULL), ERR_OK);
    world_end(&world);
}

/* Other files are rebuilt, or passed over: every record stays. */
START_TEST(a_flipped_byte_beside_the_segments_costs_nothing)
{
    lay_out();
    lay_out_marks();
    for (uint32_t i = 0; i < file_count; i++) {
        if (is_kind(&files[i], ".log") || is_kind(&files[i], "partition.metadata"))
            continue;
        for (uint64_t position = 0; position < files[i].size; position++)
            for (int clean = 0; clean < 2; clean++) {
                struct partition_log *log = NULL;
                int64_t refused = -1;

                begin_flipped(i, position, position % 3 == 0 ? 0x01 : position % 3 == 1 ? 0x80 : 0x24, clean != 0);
                log = world_log(&world);
                ck_assert_int_eq(partition_log_end_offset(log), end_offset);
                ck_assert_uint_eq(read_all(log, position % 2 == 0 ? 300 : 1 << 20, &refused), 0);
                world_close(&world, log);
                world_end(&world);
            }
    }
    forget();
}
END_TEST

/* The marks themselves: with a flipped byte they are found again; of a later build they stop the start. */
START_TEST(marks_are_checked_too)
{
    struct partition_log *log = NULL;
    uint8_t marks[256];
    size_t size = 0;
    uint32_t hurt = 0;
    int64_t refused = -1;

    lay_out();
    while (!is_kind(&files[hurt], ".log"))
        hurt++;
    begin_flipped(hurt, 100, 0x40, true);
    log = world_log(&world);
    ck_assert_uint_eq(read_all(log, 1 << 20, &refused), 1);
    world_close(&world, log);
    size = sim_fs_peek(&world.disk, "/data/t-0/" DAMAGE_FILE).size;
    ck_assert_uint_le(size, sizeof(marks));
    memcpy(marks, sim_fs_peek(&world.disk, "/data/t-0/" DAMAGE_FILE).data, size);
    for (uint64_t i = 0; i < size; i++) {
        sim_fs_poke(&world.disk, "/data/t-0/" DAMAGE_FILE, bytes_of(marks, size));
        ck_assert(sim_fs_flip(&world.disk, "/data/t-0/" DAMAGE_FILE, i, 0x04));
        log = world_log(&world);
        ck_assert_uint_eq(read_all(log, 1 << 20, &refused), 1);
        world_close(&world, log);
    }
    world_end(&world);
    forget();
}
END_TEST

static void told(void *context, uint32_t ranges)
{
    *(uint32_t *)context += ranges;
}

/* What is found is counted, at once and after the next start; what is appended behind damage at the end is served. */
START_TEST(the_log_goes_on_behind_damage)
{
    struct partition_log *log = NULL;
    uint32_t last = 0;
    uint32_t count = 0;
    int64_t refused = -1;
    uint8_t *data = NULL;
    size_t size = 0;

    lay_out();
    for (uint32_t i = 0; i < file_count; i++)
        if (is_kind(&files[i], ".log") &&
            (!is_kind(&files[last], ".log") || base_of(files[i].path) > base_of(files[last].path)))
            last = i;
    begin_flipped(last, files[last].size - 3, 0x40, false);
    world.env.damage_found = told;
    world.env.context = &count;
    log = world_log(&world);
    ck_assert_uint_eq(read_all(log, 1 << 20, &refused), 1);
    ck_assert_int_eq(refused, batches[BATCHES - 1].base_offset);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(world_append(&world, log, &(struct batch_make){.record_count = 2, .value_bytes = 10}), end_offset);
    ck_assert_int_eq(world_read(&world, log, end_offset, end_offset + 2, 1 << 20, true, &data, &size), ERR_OK);
    ck_assert_uint_gt(size, 0);
    mem_free(data);
    world_close(&world, log);
    count = 0;
    log = world_log(&world);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(partition_log_end_offset(log), end_offset + 2);
    ck_assert_int_eq(world_read(&world, log, end_offset, end_offset + 2, 1 << 20, true, &data, &size), ERR_OK);
    ck_assert_uint_gt(size, 0);
    mem_free(data);
    world_close(&world, log);
    world_end(&world);
    forget();
}
END_TEST

struct scrubbed {
    struct log_scrub op;
    bool done;
};

static void was_scrubbed(struct log_scrub *op)
{
    ((struct scrubbed *)op)->done = true;
}

/* One pass over the log, in pieces; gives the bytes read. */
static uint64_t scrub_all(struct partition_log *log, uint64_t bytes_max)
{
    struct scrubbed scrubbed = {.op = {.bytes_max = bytes_max, .done = was_scrubbed}};
    uint64_t bytes = 0;

    while (!scrubbed.op.at_end) {
        scrubbed.done = false;
        partition_log_scrub(log, &scrubbed.op);
        world_run(&world, &scrubbed.done);
        ck_assert_int_eq(scrubbed.op.err, ERR_OK);
        bytes += scrubbed.op.bytes;
    }
    return bytes;
}

/* The scrub reads all of it in pieces of any size, finds what nobody has read, marks it and says it once; a whole log
 * gives it nothing to say. */
START_TEST(the_scrub_finds_damage)
{
    lay_out();
    for (uint32_t i = 0; i < file_count; i++)
        for (uint64_t position = 20; is_kind(&files[i], ".log") && position < files[i].size; position += 41) {
            const struct kept_batch *hurt = batch_with(&files[i], position);
            struct partition_log *log = NULL;
            int64_t refused = -1;
            uint32_t lines = 0;

            if (in_leader_epoch(&files[i], position))
                continue;
            begin_flipped(0, 0, 0, true);
            log = world_log(&world);
            ck_assert_uint_eq(scrub_all(log, 1 + position), partition_log_size(log));
            ck_assert_uint_eq(world.lines, 0);
            ck_assert(sim_fs_flip(&world.disk, files[i].path, position, 0x18));
            (void)scrub_all(log, 1 + position * 3);
            ck_assert_uint_eq(world.lines, 1);
            lines = world.lines;
            (void)scrub_all(log, 1 << 20);
            ck_assert_uint_eq(world.lines, lines);
            ck_assert_uint_eq(read_all(log, 1 << 20, &refused), 1);
            ck_assert_int_eq(refused, hurt->base_offset);
            world_close(&world, log);
            world_end(&world);
        }
    forget();
}
END_TEST

RUN_TESTS("log_damage", a_flipped_byte_of_a_segment_costs_its_batch, recovery_keeps_what_was_synced,
          a_flipped_byte_beside_the_segments_costs_nothing, marks_are_checked_too, the_log_goes_on_behind_damage,
          the_scrub_finds_damage)
