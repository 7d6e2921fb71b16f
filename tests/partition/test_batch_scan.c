/* Rule: a walk over a segment file gives whole batches one after the other, whatever its depth and wherever its buffer
 * ends, and stops at the first byte that is not good (on-disk.md 3.1). */
#include "base/mem.h"
#include "partition/batch_scan.h"
#include "run_tests.h"
#include "world.h"

enum { BATCHES = 60, PATH_BATCH = 40 };

static struct world world;
static uint64_t positions[BATCHES + 1];

/* Batches of rising size, some larger than the scan's buffer. */
static struct fs_file *lay_out(void)
{
    struct fs_file *file = NULL;
    size_t total = 0;
    uint8_t *all = NULL;

    for (uint32_t i = 0; i < BATCHES; i++) {
        size_t size = 0;
        uint8_t *batch =
            make_batch(&(struct batch_make){.record_count = 1, .value_bytes = i % 20 == 19 ? 200000 : i * 100}, &size);

        batch_set_base_offset(batch, i);
        all = mem_realloc(all, total + size);
        memcpy(all + total, batch, size);
        positions[i] = total;
        total += size;
        mem_free(batch);
    }
    positions[BATCHES] = total;
    sim_fs_poke(&world.disk, "/data/file", bytes_of(all, total));
    mem_free(all);
    ck_assert_int_eq(fs_open(&world.disk.fs, "/data/file", FS_READ, &file), ERR_OK);
    return file;
}

/* How many batches a walk gives, and how it ends. */
static enum err walk(struct fs_file *file, uint64_t from, uint64_t limit, enum batch_scan_depth depth, uint32_t *count,
                     uint64_t *position)
{
    struct batch_scan scan;
    struct batch_header head;
    struct bytes batch;
    enum err err = ERR_OK;

    *count = 0;
    batch_scan_init(&scan, file, from, limit, depth);
    while ((err = batch_scan_next(&scan, &head, &batch)) == ERR_OK) {
        if (depth != BATCH_SCAN_WRITTEN) /* its bodies_from is 0 here: all of them are wanted */
            ck_assert_uint_eq(batch.size, depth == BATCH_SCAN_HEADS ? BATCH_HEADER_BYTES : head.size);
        else
            ck_assert_uint_eq(batch.size, head.size);
        (*count)++;
    }
    *position = scan.position;
    batch_scan_deinit(&scan);
    return err;
}

START_TEST(every_depth_gives_all)
{
    struct fs_file *file = NULL;
    uint64_t position = 0;
    uint32_t count = 0;

    world_begin(&world, 1);
    file = lay_out();
    for (int depth = BATCH_SCAN_HEADS; depth <= BATCH_SCAN_CHECKED; depth++)
        for (uint32_t from = 0; from <= BATCHES; from += 7) {
            ck_assert_int_eq(
                walk(file, positions[from], positions[BATCHES], (enum batch_scan_depth)depth, &count, &position),
                ERR_END);
            ck_assert_uint_eq(count, BATCHES - from);
            ck_assert_uint_eq(position, positions[BATCHES]);
        }
    fs_file_drop(file);
    world_end(&world);
}
END_TEST

/* Where what was written is believed, bodies are read at the end alone, and those of markers: all heads come, and what
 * is skipped is not read. */
START_TEST(bodies_are_read_only_where_they_are_wanted)
{
    struct batch_scan scan;
    struct batch_header head;
    struct bytes batch;
    struct fs_file *file = NULL;
    uint8_t *all = NULL;
    uint64_t total = 0;
    uint64_t reads = 0;
    uint32_t count = 0;
    size_t size = 0;

    world_begin(&world, 1);
    for (uint32_t i = 0; i < BATCHES; i++) {
        uint8_t *one = i % 10 == 9 ? make_marker(7, 0, true, 0, &size)
                                   : make_batch(&(struct batch_make){.record_count = 1, .value_bytes = 50000}, &size);

        batch_set_base_offset(one, i);
        all = mem_realloc(all, total + size);
        memcpy(all + total, one, size);
        total += size;
        mem_free(one);
    }
    sim_fs_poke(&world.disk, "/data/file", bytes_of(all, total));
    ck_assert_int_eq(fs_open(&world.disk.fs, "/data/file", FS_READ, &file), ERR_OK);
    batch_scan_init(&scan, file, 0, total, BATCH_SCAN_WRITTEN);
    scan.bodies_from = total - 120000;
    reads = world.disk.calls[SIM_FS_READ];
    while (batch_scan_next(&scan, &head, &batch) == ERR_OK) {
        bool whole = batch_has(&head, BATCH_CONTROL) || scan.position > scan.bodies_from;

        ck_assert_int_eq(head.base_offset, count);
        ck_assert_uint_eq(batch.size, whole ? head.size : BATCH_HEADER_BYTES);
        ck_assert(memcmp(batch.data, all + scan.position - head.size, batch.size) == 0);
        count++;
    }
    ck_assert_uint_eq(count, BATCHES);
    ck_assert_uint_eq(scan.position, total);
    ck_assert_uint_le(world.disk.calls[SIM_FS_READ] - reads, 2 * BATCHES);
    batch_scan_deinit(&scan);
    fs_file_drop(file);
    mem_free(all);
    world_end(&world);
}
END_TEST

START_TEST(a_limit_within_a_batch_is_damage_there)
{
    struct fs_file *file = NULL;
    uint64_t position = 0;
    uint32_t count = 0;

    world_begin(&world, 2);
    file = lay_out();
    for (int64_t cut = -1; cut <= 1; cut++) {
        enum err err =
            walk(file, 0, (uint64_t)((int64_t)positions[PATH_BATCH] + cut), BATCH_SCAN_HEADS, &count, &position);

        ck_assert_int_eq(err, cut == 0 ? ERR_END : ERR_DAMAGED);
        ck_assert_uint_eq(count, cut < 0 ? PATH_BATCH - 1 : PATH_BATCH);
        ck_assert_uint_eq(position, positions[count]);
    }
    fs_file_drop(file);
    world_end(&world);
}
END_TEST

START_TEST(a_flipped_bit_is_found_where_bodies_are_checked)
{
    struct fs_file *file = NULL;
    uint64_t position = 0;
    uint32_t count = 0;

    world_begin(&world, 3);
    file = lay_out();
    ck_assert(sim_fs_flip(&world.disk, "/data/file", positions[PATH_BATCH + 1] - 1, 1));
    ck_assert_int_eq(walk(file, 0, positions[BATCHES], BATCH_SCAN_CHECKED, &count, &position), ERR_DAMAGED);
    ck_assert_uint_eq(position, positions[PATH_BATCH]);
    ck_assert_int_eq(walk(file, 0, positions[BATCHES], BATCH_SCAN_BODIES, &count, &position), ERR_END);
    fs_file_drop(file);
    world_end(&world);
}
END_TEST

/* A file shorter than its limit says: damage, not a read beyond its end. */
START_TEST(a_file_that_is_too_short)
{
    struct fs_file *file = NULL;
    uint64_t position = 0;
    uint32_t count = 0;

    world_begin(&world, 4);
    file = lay_out();
    for (int depth = BATCH_SCAN_HEADS; depth <= BATCH_SCAN_CHECKED; depth++) {
        ck_assert_int_eq(walk(file, 0, positions[BATCHES] + 500, (enum batch_scan_depth)depth, &count, &position),
                         ERR_DAMAGED);
        ck_assert_uint_eq(count, BATCHES);
    }
    fs_file_drop(file);
    world_end(&world);
}
END_TEST

RUN_TESTS("batch_scan", every_depth_gives_all, bodies_are_read_only_where_they_are_wanted,
          a_limit_within_a_batch_is_damage_there, a_flipped_bit_is_found_where_bodies_are_checked,
          a_file_that_is_too_short)
