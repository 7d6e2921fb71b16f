/* Rule: a topic's name may be taken again as soon as the topic is deleted. The new partition waits for the directory of
 * the old one, which goes in its own time and perhaps on another reactor; neither touches what is the other's.
 *
 * Sources: partition/bare_dir.c, partition/log_path.c */
#include <stdlib.h>

#include "base/big_endian.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "partition/damage.h"
#include "run_tests.h"
#include "world.h"

enum { SEEDS = 40 };

/* A partition and what was told of it. */
struct life {
    struct partition *partition;
    bool ready;
    enum err err;
    struct partition_close close;
    bool closed;
};

static struct world world;
static struct arena arena;

static void is_ready(void *context, struct partition *which, enum err err)
{
    struct life *life = context;

    (void)which;
    life->ready = true;
    life->err = err;
}

static void open_of(struct life *life, uint8_t topic_id)
{
    struct partition_spec spec = {
        .topic = BYTES_LITERAL("t"), .topic_id = {{topic_id, 1}}, .index = 0, .leader_epoch = 0, .clean = true};

    *life = (struct life){0};
    log_config_init(&spec.config);
    spec.config.flush_messages = 1;
    spec.config.timestamp_after_max_ms = INT64_MAX;
    ck_assert_int_eq(partition_new(&world.env, &spec, is_ready, life, &life->partition), ERR_OK);
}

static void was_closed(struct partition_close *op)
{
    LIST_ENTRY(op, struct life, close)->closed = true;
}

static void end_of(struct life *life, bool delete)
{
    life->close.done = was_closed;
    if (delete)
        partition_delete(life->partition, &life->close);
    else
        partition_close(life->partition, &life->close);
}

static void finish(struct life *life, bool delete)
{
    end_of(life, delete);
    world_run(&world, &life->closed);
    ck_assert_int_eq(life->close.err, ERR_OK);
}

struct produce {
    struct partition_append op;
    bool done;
};

static void was_produced(struct partition_append *op)
{
    LIST_ENTRY(op, struct produce, op)->done = true;
}

static void produce_start(struct produce *produce, struct life *life)
{
    const struct batch_make make = {.record_count = 1, .value_bytes = 100, .timestamp = 1000};
    size_t size = 0;
    uint8_t *batch = make_batch(&make, &size);
    uint8_t *copy = arena_alloc(&arena, size);

    memcpy(copy, batch, size);
    mem_free(batch);
    *produce = (struct produce){.op = {.batch = copy,
                                       .size = size,
                                       .origin = LOG_ORIGIN_CLIENT,
                                       .acks = -1,
                                       .current_leader_epoch = -1,
                                       .arena = &arena,
                                       .done = was_produced}};
    partition_append(life->partition, &produce->op);
}

static void expect_produced(struct life *life, int64_t offset)
{
    struct produce produce;

    produce_start(&produce, life);
    world_run(&world, &produce.done);
    ck_assert_int_eq(produce.op.err, ERR_OK);
    ck_assert_int_eq(produce.op.base_offset, offset);
}

static void begin(uint64_t seed)
{
    world_begin(&world, seed);
    arena_init(&arena, 1 << 20);
}

static void end(void)
{
    ck_assert_uint_eq(world.disk.open_files, 0);
    arena_deinit(&arena);
    world_end(&world);
}

START_TEST(a_name_is_free_once_the_old_directory_is_gone)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct life old;
        struct life new;
        struct produce last;

        begin(seed);
        open_of(&old, 1);
        if (seed % 2 == 0)
            expect_produced(&old, 0);
        produce_start(&last, &old); /* its sync holds the deletion up, or its load */
        end_of(&old, true);
        open_of(&new, 2);
        expect_produced(&new, 0);
        ck_assert_int_eq(new.err, ERR_OK);
        world_run(&world, &old.closed);
        ck_assert(last.done);
        expect_produced(&new, 1);
        finish(&new, false);
        end();
    }
}
END_TEST

START_TEST(a_directory_that_stays_anothers_is_given_up)
{
    struct life old;
    struct life new;

    begin(1);
    open_of(&old, 1);
    expect_produced(&old, 0);
    open_of(&new, 2);
    world_pass(&world, INT64_C(59000000000));
    ck_assert(!new.ready);
    world_pass(&world, INT64_C(2000000000));
    ck_assert(new.ready);
    ck_assert_int_eq(new.err, ERR_DAMAGED);
    finish(&new, true);
    expect_produced(&old, 1);
    finish(&old, false);
    end();
}
END_TEST

START_TEST(who_waits_for_a_directory_can_go)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct life old;
        struct life new;
        struct produce waits;

        begin(seed);
        open_of(&old, 1);
        expect_produced(&old, 0);
        open_of(&new, 2);
        produce_start(&waits, &new);
        world_pass(&world, (int64_t)seed * 3000000);
        finish(&new, seed % 2 == 0);
        ck_assert(waits.done);
        ck_assert_int_ne(waits.op.err, ERR_OK);
        expect_produced(&old, 1);
        finish(&old, false);
        end();
    }
}
END_TEST

/* What no build of ours can open. */
static void poke_marks_of_a_later_build(void)
{
    uint8_t marks[DAMAGE_HEAD_BYTES] = "OTTLADMG";

    marks[11] = DAMAGE_VERSION + 1;
    big_endian_store_u32(marks + 12, crc32c(crc32c(0, marks + 8, 4), marks + 16, sizeof(marks) - 16));
    sim_fs_poke(&world.disk, "/data/t-0/" DAMAGE_FILE, bytes_of(marks, sizeof(marks)));
}

/* Else the next topic of that name could never be. */
START_TEST(what_could_not_be_opened_goes_with_its_topic)
{
    struct life damaged;
    struct life new;

    begin(1);
    open_of(&damaged, 1);
    expect_produced(&damaged, 0);
    finish(&damaged, false);
    poke_marks_of_a_later_build();
    open_of(&damaged, 1);
    world_run(&world, &damaged.ready);
    ck_assert_int_eq(damaged.err, ERR_UNSUPPORTED_VERSION);
    finish(&damaged, true);
    open_of(&new, 2);
    expect_produced(&new, 0);
    finish(&new, false);
    end();
}
END_TEST

static uint32_t entries;

static enum err count_one(void *context, const char *name, bool is_directory)
{
    (void)context;
    (void)name;
    entries += is_directory;
    return ERR_OK;
}

static uint32_t directories(void)
{
    entries = 0;
    ck_assert_int_eq(fs_list(&world.disk.fs, "/data", count_one, NULL), ERR_OK);
    return entries;
}

/* A full disk, or a power cut, leaves a directory without a topic id and without a record. It goes with its topic, and
 * what an earlier start left in it, too: else a partition that is to move there could not. One that has records stays,
 * whoever's they are. */
START_TEST(a_bare_directory_goes_with_its_topic)
{
    static const char *const left[] = {NULL, "/data/t-0/partition.metadata.tmp", "/data/t-0/00000000000000000000.log"};

    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
        for (int has_records = 0; has_records < 2; has_records++) {
            struct life life;

            begin(1);
            if (left[i] != NULL) {
                ck_assert_int_eq(fs_mkdir(&world.disk.fs, "/data/t-0"), ERR_OK);
                sim_fs_poke(&world.disk, left[i], bytes_of(NULL, 0));
            }
            if (has_records == 1 && left[i] != NULL)
                sim_fs_poke(&world.disk, "/data/t-0/00000000000000000007.log", BYTES_LITERAL("records"));
            sim_fs_set_fault(&world.disk, SIM_FS_BREAK, SIM_FS_RENAME, 1, ERR_NO_SPACE);
            open_of(&life, 1);
            world_run(&world, &life.ready);
            ck_assert_int_eq(life.err, ERR_NO_SPACE);
            sim_fs_set_fault(&world.disk, SIM_FS_NO_FAULT, SIM_FS_ANY, 1, ERR_OK);
            ck_assert_uint_eq(directories(), 1);
            finish(&life, true);
            ck_assert_uint_eq(directories(), has_records == 1 && left[i] != NULL ? 1 : 0);
            end();
        }
}
END_TEST

/* Nor does the next one of that name lose what it has just laid out, whichever comes first. */
START_TEST(a_bare_directory_may_have_become_the_next_ones)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct life old;
        struct life new;

        begin(seed);
        sim_fs_set_fault(&world.disk, SIM_FS_BREAK, SIM_FS_RENAME, 1, ERR_NO_SPACE);
        open_of(&old, 1);
        world_run(&world, &old.ready);
        ck_assert_int_eq(old.err, ERR_NO_SPACE);
        sim_fs_set_fault(&world.disk, SIM_FS_NO_FAULT, SIM_FS_ANY, 1, ERR_OK);
        end_of(&old, true);
        open_of(&new, 2);
        expect_produced(&new, 0);
        world_run(&world, &old.closed);
        finish(&new, false);
        open_of(&new, 2);
        expect_produced(&new, 1);
        ck_assert_uint_eq(directories(), 1);
        finish(&new, false);
        end();
    }
}
END_TEST

RUN_TESTS("partition/names", a_name_is_free_once_the_old_directory_is_gone, a_directory_that_stays_anothers_is_given_up,
          who_waits_for_a_directory_can_go, what_could_not_be_opened_goes_with_its_topic,
          a_bare_directory_goes_with_its_topic, a_bare_directory_may_have_become_the_next_ones)
