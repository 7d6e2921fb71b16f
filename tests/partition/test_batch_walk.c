/* Rule: the walk gives every batch that is whole and none that is not, wherever a byte was flipped, and says exactly
 * which offsets are damaged. */
#include "partition/batch_walk.h"

#include "base/mem.h"
#include "run_tests.h"
#include "world.h"

enum { BATCHES = 10, FILE_BYTES_MAX = 64 * 1024 };

static const char path[] = "/data/file";

struct laid {
    uint8_t bytes[FILE_BYTES_MAX];
    size_t size;
    uint64_t positions[BATCHES + 1];
    int64_t offsets[BATCHES + 1];
    struct offset_index index;
};

static struct world world;
static struct laid laid;

/* Batches of one to three records one behind the other; every third is compressed; values may hold a whole batch that
 * would be one of this log's own. */
static void lay_out(bool nested, int64_t gap)
{
    int64_t offset = 0;

    laid = (struct laid){0};
    for (int i = 0; i < BATCHES; i++) {
        size_t size = 0;
        struct batch_make make = {.record_count = 1 + (uint32_t)i % 3,
                                  .value_bytes = 20 + (uint32_t)i * 7,
                                  .timestamp = 1000 + i,
                                  .codec = i % 3 == 2 ? CODEC_LZ4 : CODEC_NONE,
                                  .fill = (uint8_t)('a' + i)};
        uint8_t *batch = NULL;

        if (nested) {
            make.record_count = 1;
            make.codec = CODEC_NONE;
            make.value_bytes = 300;
        }
        batch = make_batch(&make, &size);
        if (nested) {
            size_t inner_size = 0;
            uint8_t *inner = make_batch(&(struct batch_make){.record_count = 1, .value_bytes = 30}, &inner_size);

            batch_set_base_offset(inner, offset + 1);
            memcpy(batch + size - 280, inner, inner_size);
            batch_set_crc(batch);
            mem_free(inner);
        }
        batch_set_base_offset(batch, offset);
        laid.positions[i] = laid.size;
        laid.offsets[i] = offset;
        memcpy(laid.bytes + laid.size, batch, size);
        laid.size += size;
        offset += make.record_count + gap;
        mem_free(batch);
    }
    laid.positions[BATCHES] = laid.size;
    laid.offsets[BATCHES] = offset;
}

static void open_file(struct batch_walk *walk, struct fs_file **file, size_t size)
{
    sim_fs_poke(&world.disk, path, bytes_of(laid.bytes, size));
    ck_assert_int_eq(fs_open(&world.disk.fs, path, FS_READ, file), ERR_OK);
    batch_walk_init(walk, *file, 0, size, 0);
}

/* Walks it: every batch but the given one comes, and the extent is exactly what that one was. */
static void expect_one_lost(const struct offset_index *index, int lost, int64_t end_offset)
{
    struct batch_walk walk;
    struct batch_header head;
    struct bytes batch;
    struct fs_file *file = NULL;
    int at = 0;
    enum err err = ERR_OK;

    open_file(&walk, &file, laid.size);
    walk.offsets = index;
    walk.end_offset = end_offset;
    while ((err = batch_walk_next(&walk, &head, &batch)) != ERR_END) {
        if (err == ERR_DAMAGED) {
            ck_assert_int_eq(at, lost);
            ck_assert_uint_eq(walk.extent.position, laid.positions[at]);
            ck_assert_uint_eq(walk.extent.size, laid.positions[at + 1] - laid.positions[at]);
            ck_assert_int_eq(walk.extent.first_offset, laid.offsets[at]);
            if (walk.extent.end_offset >= 0 || at < BATCHES - 1)
                ck_assert_int_eq(walk.extent.end_offset, laid.offsets[at + 1]);
        } else {
            ck_assert_int_eq(err, ERR_OK);
            ck_assert_int_ne(at, lost);
            ck_assert_int_eq(head.base_offset, laid.offsets[at]);
            ck_assert_uint_eq(batch.size, laid.positions[at + 1] - laid.positions[at]);
        }
        at++;
    }
    ck_assert_int_eq(at, BATCHES);
    batch_walk_deinit(&walk);
    fs_file_drop(file);
}

static bool is_leader_epoch(uint64_t in_batch)
{
    return in_batch >= BATCH_FIELD_LEADER_EPOCH && in_batch < BATCH_FIELD_MAGIC;
}

static int batch_at(uint64_t position)
{
    int i = 0;

    while (laid.positions[i + 1] <= position)
        i++;
    return i;
}

/* A flipped byte anywhere but in the leader epoch, which nothing but the epoch checkpoint vouches for, costs the batch
 * that it lies in and no other: bodies, lengths, magic, checksums, offsets. */
START_TEST(a_flipped_byte_costs_one_batch)
{
    world_begin(&world, 1);
    lay_out(false, 0);
    for (uint64_t position = 0; position < laid.size; position++) {
        int lost = batch_at(position);

        if (is_leader_epoch(position - laid.positions[lost]))
            continue;
        for (int mask = 1; mask < 256; mask *= 16) {
            laid.bytes[position] ^= (uint8_t)mask;
            expect_one_lost(NULL, lost, laid.offsets[BATCHES]);
            laid.bytes[position] ^= (uint8_t)mask;
        }
    }
    world_end(&world);
}
END_TEST

/* The same where an index knows boundaries, and where nothing is known of the end. */
START_TEST(an_index_is_believed_where_it_points_at_batches)
{
    world_begin(&world, 1);
    lay_out(false, 0);
    for (int i = 2; i < BATCHES; i += 3)
        ck_assert_int_eq(offset_index_add(&laid.index, (uint32_t)laid.offsets[i + 1] - 1, (uint32_t)laid.positions[i]),
                         ERR_OK);
    for (uint64_t position = 0; position < laid.size; position += 3) {
        int lost = batch_at(position);

        if (is_leader_epoch(position - laid.positions[lost]))
            continue;
        laid.bytes[position] ^= 0x41;
        expect_one_lost(&laid.index, lost, INT64_MAX);
        laid.bytes[position] ^= 0x41;
    }
    laid.index.entries[1].position += 5; /* one that points nowhere is passed over */
    laid.bytes[laid.positions[3] + 9] ^= 0x10;
    expect_one_lost(&laid.index, 3, INT64_MAX);
    offset_index_deinit(&laid.index);
    world_end(&world);
}
END_TEST

/* A record may hold a whole batch (a mirror of another log): it is not taken for one of this log's own when the batch
 * around it is damaged, however well its offset fits. */
START_TEST(a_batch_inside_a_record_is_not_served)
{
    world_begin(&world, 1);
    lay_out(true, 1);
    for (int lost = 0; lost < BATCHES; lost++)
        for (uint64_t in_batch = BATCH_FIELD_LENGTH; in_batch < BATCH_HEADER_BYTES; in_batch++) {
            struct batch_walk walk;
            struct batch_header head;
            struct bytes batch;
            struct fs_file *file = NULL;
            enum err err = ERR_OK;

            if (is_leader_epoch(in_batch))
                continue;
            laid.bytes[laid.positions[lost] + in_batch] ^= 0x20;
            open_file(&walk, &file, laid.size);
            walk.gaps_allowed = true;
            while ((err = batch_walk_next(&walk, &head, &batch)) != ERR_END) {
                if (err == ERR_OK)
                    ck_assert_int_eq(head.base_offset % 2, 0); /* the ones inside have odd offsets */
                else if (lost < BATCHES - 1)
                    ck_assert_uint_eq(walk.extent.size, laid.positions[lost + 1] - laid.positions[lost]);
            }
            batch_walk_deinit(&walk);
            fs_file_drop(file);
            laid.bytes[laid.positions[lost] + in_batch] ^= 0x20;
        }
    world_end(&world);
}
END_TEST

/* Gaps as compaction leaves them are no damage, also at the end of a topic that compacts. */
START_TEST(gaps_are_no_damage)
{
    struct batch_walk walk;
    struct batch_header head;
    struct bytes batch;
    struct fs_file *file = NULL;
    int count = 0;

    world_begin(&world, 1);
    lay_out(false, 3);
    open_file(&walk, &file, laid.size);
    walk.gaps_allowed = true;
    while (batch_walk_next(&walk, &head, &batch) == ERR_OK)
        count++;
    ck_assert_int_eq(count, BATCHES);
    batch_walk_deinit(&walk);
    fs_file_drop(file);
    world_end(&world);
}
END_TEST

/* What ends within a batch is damage up to the limit, and nobody knows which offsets it stood for. */
START_TEST(a_torn_tail_has_no_end)
{
    world_begin(&world, 1);
    lay_out(false, 0);
    for (size_t size = laid.positions[BATCHES - 1] + 1; size < laid.size; size++) {
        struct batch_walk walk;
        struct batch_header head;
        struct bytes batch;
        struct fs_file *file = NULL;
        int count = 0;

        open_file(&walk, &file, size);
        while (batch_walk_next(&walk, &head, &batch) == ERR_OK)
            count++;
        ck_assert_int_eq(count, BATCHES - 1);
        ck_assert_uint_eq(walk.extent.position, laid.positions[BATCHES - 1]);
        ck_assert_uint_eq(walk.extent.size, size - laid.positions[BATCHES - 1]);
        ck_assert_int_eq(walk.extent.first_offset, laid.offsets[BATCHES - 1]);
        ck_assert_int_eq(walk.extent.end_offset, -1);
        ck_assert_int_eq(batch_walk_next(&walk, &head, &batch), ERR_END);
        batch_walk_deinit(&walk);
        fs_file_drop(file);
    }
    world_end(&world);
}
END_TEST

/* A megabyte in which every other byte could begin a batch costs time in proportion (TRIES_FACTOR_MAX), not in
 * square. */
START_TEST(a_search_is_bounded)
{
    enum { BYTES = 1024 * 1024 };
    uint8_t *bytes = mem_calloc(1, BYTES);
    struct batch_walk walk;
    struct batch_header head;
    struct bytes batch;
    struct fs_file *file = NULL;

    world_begin(&world, 1);
    lay_out(false, 0);
    for (size_t at = 0; at + BATCH_HEADER_BYTES < BYTES; at += BATCH_HEADER_BYTES) {
        bytes[at + BATCH_FIELD_LENGTH + 1] = 8; /* half a megabyte each */
        bytes[at + BATCH_FIELD_MAGIC] = BATCH_MAGIC;
    }
    sim_fs_poke(&world.disk, path, bytes_of(bytes, BYTES));
    ck_assert_int_eq(fs_open(&world.disk.fs, path, FS_READ, &file), ERR_OK);
    batch_walk_init(&walk, file, 0, BYTES, 0);
    ck_assert_int_eq(batch_walk_next(&walk, &head, &batch), ERR_DAMAGED);
    ck_assert_uint_eq(walk.extent.size, BYTES);
    ck_assert_uint_lt(walk.resync_bytes, 12u * BYTES);
    ck_assert_int_eq(batch_walk_next(&walk, &head, &batch), ERR_END);
    batch_walk_deinit(&walk);
    fs_file_drop(file);
    mem_free(bytes);
    world_end(&world);
}
END_TEST

RUN_TESTS("batch_walk", a_flipped_byte_costs_one_batch, an_index_is_believed_where_it_points_at_batches,
          a_batch_inside_a_record_is_not_served, gaps_are_no_damage, a_torn_tail_has_no_end, a_search_is_bounded)
