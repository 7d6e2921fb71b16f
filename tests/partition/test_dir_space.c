/* Rules: below the first mark a line forecasts, below the second producers are refused until there is a quarter more
 * room than that; what the node cannot do without goes on from the reserve, a quarter of which is a start's alone. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "partition/dir_space.h"
#include "partition/partition_limits.h"
#include "run_tests.h"
#include "world.h"

enum { KIB = 1024, MIB = 1024 * 1024, SLICE = DIR_RESERVE_SLICE_BYTES, LINE_CHARS = 512 };

#define RESERVE "/data/ottla-reserve"

static struct world world;
static struct dir_space space;
static char last_line[LINE_CHARS];
static uint32_t line_count;

static void keep_line(struct log_sink *sink, enum log_level level, const char *line, uint32_t size)
{
    (void)sink;
    (void)level;
    line_count++;
    (void)snprintf(last_line, sizeof(last_line), "%.*s", (int)size, line);
}

static void begin(const struct dir_space_config *config)
{
    world_begin(&world, 1);
    world.sink.write = keep_line;
    line_count = 0;
    world.disk.capacity_bytes = 10 * MIB;
    ck_assert_int_eq(dir_space_open(&space, &world.disk.fs, &world.sim.clock, &world.log, "/data", config), ERR_OK);
    world.env.space = &space;
}

static void end(void)
{
    dir_space_close(&space);
    world_end(&world);
}

/* What else lies on the disk grows or shrinks, so that many bytes are free from now on. */
static void leave(uint64_t free_bytes)
{
    struct fs_file *filler = NULL;
    uint64_t size = 0;
    uint64_t free_now = world.disk.capacity_bytes - world.disk.used_bytes;

    ck_assert_int_eq(fs_open(&world.disk.fs, "/filler", FS_WRITE | FS_CREATE, &filler), ERR_OK);
    ck_assert_int_eq(fs_size(filler, &size), ERR_OK);
    size = size + free_now - free_bytes;
    ck_assert_int_eq(fs_truncate(filler, size), ERR_OK);
    ck_assert_int_eq(fs_preallocate(filler, size), ERR_OK);
    fs_file_drop(filler);
    ck_assert_uint_eq(world.disk.capacity_bytes - world.disk.used_bytes, free_bytes);
}

static uint64_t reserve_bytes(void)
{
    return sim_fs_peek(&world.disk, RESERVE).size - DIR_RESERVE_HEAD_BYTES;
}

START_TEST(producers_are_refused_below_the_second_mark)
{
    begin(&(struct dir_space_config){.reserve_bytes = 0, .warn_bytes = 2 * MIB, .refuse_bytes = MIB});
    ck_assert(!dir_space_refuses(&space));
    ck_assert_int_eq(space.state, DIR_SPACE_AMPLE);
    leave(2 * MIB);
    dir_space_look(&space);
    ck_assert_int_eq(space.state, DIR_SPACE_AMPLE);
    leave(2 * MIB - 1);
    dir_space_look(&space);
    ck_assert_int_eq(space.state, DIR_SPACE_LOW);
    leave(MIB + 1);
    dir_space_look(&space);
    ck_assert(!dir_space_refuses(&space));
    leave(MIB - 1);
    dir_space_look(&space);
    ck_assert_int_eq(space.state, DIR_SPACE_FULL);
    ck_assert(dir_space_refuses(&space));
    ck_assert_ptr_nonnull(strstr(last_line, "producers are refused"));
    /* A little more does not do: it would be to and fro. */
    leave(MIB + MIB / 4 - 1);
    dir_space_look(&space);
    ck_assert(dir_space_refuses(&space));
    leave(MIB + MIB / 4);
    dir_space_look(&space);
    ck_assert(!dir_space_refuses(&space));
    end();
}
END_TEST

START_TEST(what_is_appended_counts_before_anyone_looks_again)
{
    begin(&(struct dir_space_config){.reserve_bytes = 0, .warn_bytes = 0, .refuse_bytes = MIB});
    leave(MIB + 1000);
    dir_space_look(&space);
    dir_space_take(&space, 999);
    ck_assert(!dir_space_refuses(&space));
    dir_space_take(&space, 1);
    ck_assert(dir_space_refuses(&space));
    dir_space_look(&space); /* none of it was written after all */
    ck_assert(!dir_space_refuses(&space));
    end();
}
END_TEST

START_TEST(without_marks_nobody_is_refused)
{
    begin(&(struct dir_space_config){0});
    leave(0);
    dir_space_look(&space);
    ck_assert(!dir_space_refuses(&space));
    ck_assert(!dir_space_refuses(NULL));
    ck_assert_int_eq(space.state, DIR_SPACE_AMPLE);
    ck_assert_uint_eq(sim_fs_peek(&world.disk, RESERVE).size, 0);
    ck_assert_uint_eq(line_count, 0);
    end();
}
END_TEST

/* -1: shares of the volume. */
START_TEST(marks_go_by_the_size_of_the_volume)
{
    begin(&(struct dir_space_config){-1, -1, -1});
    dir_space_look(&space);
    ck_assert_uint_eq(reserve_bytes(), 10 * MIB / DIR_RESERVE_DIVISOR / SLICE * SLICE);
    leave(MIB - 1);
    dir_space_look(&space);
    ck_assert_int_eq(space.state, DIR_SPACE_LOW);
    leave(10 * MIB / DIR_REFUSE_DIVISOR - 1);
    dir_space_look(&space);
    ck_assert_int_eq(space.state, DIR_SPACE_FULL);
    end();
}
END_TEST

static struct fs_space claimed;

static enum err claim_space(struct fs *fs, const char *path, struct fs_space *to)
{
    (void)fs, (void)path;
    *to = claimed;
    return ERR_OK;
}

static enum dir_space_state state_with(uint64_t free_bytes)
{
    claimed.free_bytes = free_bytes;
    dir_space_look(&space);
    return space.state;
}

/* The edges of DIR_WARN_BYTES_MAX and DIR_REFUSE_BYTES_MAX, which a share of a large volume would be over; its reserve
 * is DIR_RESERVE_BYTES_MAX. */
START_TEST(marks_end_on_a_large_volume)
{
    struct fs_ops ops;

    begin(&(struct dir_space_config){-1, -1, -1});
    world.disk.capacity_bytes = UINT64_C(1) << 50;
    ops = *world.disk.fs.ops;
    ops.space = claim_space;
    world.disk.fs.ops = &ops;
    claimed = (struct fs_space){.total_bytes = UINT64_C(1) << 50};
    ck_assert_int_eq(state_with(DIR_WARN_BYTES_MAX), DIR_SPACE_AMPLE);
    for (int i = 0; i < 1000 && reserve_bytes() < DIR_RESERVE_BYTES_MAX; i++)
        dir_space_look(&space);
    ck_assert_uint_eq(reserve_bytes(), DIR_RESERVE_BYTES_MAX);
    ck_assert_int_eq(state_with(DIR_WARN_BYTES_MAX - 1), DIR_SPACE_LOW);
    ck_assert_int_eq(state_with(DIR_REFUSE_BYTES_MAX), DIR_SPACE_LOW);
    ck_assert_int_eq(state_with(DIR_REFUSE_BYTES_MAX - 1), DIR_SPACE_FULL);
    end();
}
END_TEST

START_TEST(a_warning_says_how_long_the_rest_will_last)
{
    const char *hours = NULL;
    const struct dir_space_config config = {.reserve_bytes = 0, .warn_bytes = 4 * MIB, .refuse_bytes = MIB};

    begin(&config);
    leave(4 * MIB + 10 * KIB);
    ck_assert_int_eq(dir_space_open(&space, &world.disk.fs, &world.sim.clock, &world.log, "/data", &config), ERR_OK);
    for (uint32_t i = 0; i < 20; i++) { /* 1 KiB a second */
        leave(4 * MIB + 9 * KIB - i * KIB);
        world.sim.mono_ns += 1000000000;
        dir_space_look(&space);
    }
    ck_assert_uint_eq(line_count, 1);
    ck_assert_ptr_nonnull(strstr(last_line, "disk is filling up dir=/data"));
    hours = strstr(last_line, "hours_until_producers_are_refused=");
    ck_assert_ptr_nonnull(hours);
    ck_assert_str_eq(hours, "hours_until_producers_are_refused=0.9"); /* 3 MiB at 1 KiB a second */
    world.sim.mono_ns += DIR_SPACE_SAY_EVERY_NS;
    dir_space_look(&space);
    ck_assert_uint_eq(line_count, 2);
    end();
}
END_TEST

/* Creates ask for room: some comes back each time, and the last quarter only to a start. */
START_TEST(the_reserve_is_given_back_slice_by_slice)
{
    struct dir_relief relief = {0};
    uint32_t given = 0;

    begin(&(struct dir_space_config){.reserve_bytes = 16 * SLICE, .warn_bytes = 0, .refuse_bytes = 0});
    dir_space_look(&space);
    ck_assert_uint_eq(reserve_bytes(), 16 * SLICE);
    dir_space_serve(&space);
    leave(0);
    ck_assert(dir_space_relieve(&space, &relief));
    ck_assert_uint_eq(reserve_bytes(), 15 * SLICE);
    leave(0);
    ck_assert(dir_space_relieve(&space, &relief)); /* it was not enough: two now */
    ck_assert_uint_eq(reserve_bytes(), 13 * SLICE);
    leave(0);
    do {
        relief.tries = 0;
        given++;
        leave(0);
    } while (dir_space_relieve(&space, &relief));
    ck_assert_uint_eq(given, 10);
    ck_assert_uint_eq(reserve_bytes(), 4 * SLICE);
    dir_space_close(&space);
    ck_assert_int_eq(dir_space_open(&space, &world.disk.fs, &world.sim.clock, &world.log, "/data",
                                    &(struct dir_space_config){16 * SLICE, 0, 0}),
                     ERR_OK);
    for (uint32_t i = 0; i < 4; i++) {
        relief.tries = 0;
        leave(0);
        ck_assert(dir_space_relieve(&space, &relief));
    }
    relief.tries = 0;
    leave(0);
    ck_assert(!dir_space_relieve(&space, &relief));
    ck_assert_uint_eq(reserve_bytes(), 0);
    leave(2 * MIB); /* room again */
    dir_space_look(&space);
    ck_assert_uint_eq(reserve_bytes(), 16 * SLICE);
    end();
}
END_TEST

/* What fails though bytes are free lacks something else: it may try a few times and costs no reserve. */
START_TEST(what_lacks_no_bytes_is_not_helped)
{
    struct dir_relief relief = {0};
    uint32_t tries = 0;

    begin(&(struct dir_space_config){.reserve_bytes = 4 * SLICE, .warn_bytes = 0, .refuse_bytes = 0});
    world.disk.capacity_bytes = UINT64_MAX;
    dir_space_look(&space);
    while (dir_space_relieve(&space, &relief))
        tries++;
    ck_assert_uint_eq(tries, DIR_SPACE_RELIEFS_MAX);
    ck_assert_uint_eq(reserve_bytes(), 4 * SLICE);
    end();
}
END_TEST

/* It never takes what the marks leave to producers; it is built as far as there is room. */
START_TEST(the_reserve_is_built_above_the_second_mark_alone)
{
    begin(&(struct dir_space_config){.reserve_bytes = 16 * SLICE, .warn_bytes = 0, .refuse_bytes = MIB});
    leave(MIB + 5 * SLICE + 1);
    dir_space_look(&space);
    ck_assert_uint_eq(reserve_bytes(), 4 * SLICE); /* its head takes room, too */
    ck_assert(!dir_space_refuses(&space));
    leave(MIB);
    dir_space_look(&space);
    ck_assert_uint_eq(reserve_bytes(), 4 * SLICE);
    end();
}
END_TEST

START_TEST(a_later_version_stops_the_start_and_damage_does_not)
{
    const struct dir_space_config config = {2 * SLICE, 0, 0};

    begin(&config);
    dir_space_look(&space);
    dir_space_close(&space);
    ck_assert(sim_fs_flip(&world.disk, RESERVE, 2, 1)); /* no header of any version */
    ck_assert_int_eq(dir_space_open(&space, &world.disk.fs, &world.sim.clock, &world.log, "/data", &config), ERR_OK);
    dir_space_look(&space);
    ck_assert_uint_eq(reserve_bytes(), 2 * SLICE);
    dir_space_close(&space);
    sim_fs_poke(&world.disk, RESERVE, BYTES_LITERAL("ottlarsv\0\0\0\2\x8e\xd0\xe7\x43"));
    ck_assert_int_eq(dir_space_open(&space, &world.disk.fs, &world.sim.clock, &world.log, "/data", &config),
                     ERR_UNSUPPORTED_VERSION);
    end();
}
END_TEST

/* --- two at a time --- */

static const struct fs_ops *plain_ops;
static void (*meanwhile)(void); /* happens once, before the reserve's next change of size */

static enum err interrupted_truncate(struct fs_file *file, uint64_t size)
{
    void (*other)(void) = file == atomic_load(&space.reserve) ? meanwhile : NULL;

    if (other != NULL) {
        meanwhile = NULL;
        other();
    }
    return plain_ops->truncate(file, size);
}

static void gives(void)
{
    struct dir_relief relief = {0};

    leave(0);
    ck_assert(dir_space_relieve(&space, &relief));
}

static void grows(void)
{
    leave(2 * MIB);
    dir_space_look(&space);
}

/* Who gives back and who builds up may meet at any point: what the reserve says it holds is what its file has, or what
 * is given back later were nothing. */
START_TEST(the_reserve_has_what_it_says)
{
    static void (*const ways[][2])(void) = {{gives, grows}, {gives, gives}, {grows, gives}};

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct fs_ops ops;
        uint64_t held = 0;

        begin(&(struct dir_space_config){.reserve_bytes = 16 * SLICE, .warn_bytes = 0, .refuse_bytes = 0});
        dir_space_look(&space);
        dir_space_serve(&space);
        gives();
        plain_ops = world.disk.fs.ops;
        ops = *plain_ops;
        ops.truncate = interrupted_truncate;
        world.disk.fs.ops = &ops;
        meanwhile = ways[i][1];
        ways[i][0]();
        ck_assert(meanwhile == NULL);
        world.disk.fs.ops = plain_ops;
        held = atomic_load(&space.reserve_bytes);
        ck_assert_uint_eq(reserve_bytes(), held);
        leave(0);
        sim_fs_poke(&world.disk, RESERVE, bytes_of(NULL, 0));
        ck_assert_uint_ge(world.disk.capacity_bytes - world.disk.used_bytes, held); /* blocks, not a hole */
        end();
    }
}
END_TEST

/* An essential log goes on until the reserve is used up; others are refused at once. */
START_TEST(an_essential_log_goes_on_from_the_reserve)
{
    struct partition_log *plain = NULL;
    struct partition_log *essential = NULL;
    struct batch_make make = {.value_bytes = 30000};
    struct appended appended;
    size_t size = 0;
    uint8_t *batch = make_batch(&make, &size);
    uint32_t count = 0;
    int64_t end_offset = 0;

    begin(&(struct dir_space_config){.reserve_bytes = 16 * SLICE, .warn_bytes = 0, .refuse_bytes = 0});
    dir_space_look(&space);
    dir_space_serve(&space);
    plain = world_log(&world);
    ck_assert_int_eq(world_append_run(&world, plain, batch, size, LOG_ORIGIN_CLIENT, &appended), ERR_OK);
    leave(0);
    ck_assert_int_eq(world_append_run(&world, plain, batch, size, LOG_ORIGIN_CLIENT, &appended), ERR_NO_SPACE);
    ck_assert_uint_eq(reserve_bytes(), 16 * SLICE);
    world.spec.topic = BYTES_LITERAL("essential");
    world.spec.essential = true;
    essential = world_log(&world);
    while (world_append_run(&world, essential, batch, size, LOG_ORIGIN_COORDINATOR, &appended) == ERR_OK)
        count++;
    ck_assert_int_eq(appended.op.err, ERR_NO_SPACE);
    ck_assert_uint_ge(count, 11 * SLICE / 30200); /* the first slice went to its directory */
    ck_assert_uint_eq(reserve_bytes(), 4 * SLICE);
    end_offset = partition_log_end_offset(essential);
    ck_assert_int_eq(end_offset, count);
    leave(MIB);
    ck_assert_int_eq(world_append_run(&world, essential, batch, size, LOG_ORIGIN_COORDINATOR, &appended), ERR_OK);
    ck_assert_int_eq(world_append_run(&world, plain, batch, size, LOG_ORIGIN_CLIENT, &appended), ERR_OK);
    world_close(&world, essential);
    world_close(&world, plain);
    mem_free(batch);
    end();
}
END_TEST

/* Without a byte and without a reserve a log recovers all the same; its indexes follow when there is room. */
START_TEST(a_log_opens_without_a_byte_of_room)
{
    struct partition_log *log = NULL;
    struct batch_make make = {.value_bytes = 3000};
    uint8_t *data = NULL;
    size_t size = 0;
    int64_t end_offset = 0;

    begin(&(struct dir_space_config){0});
    world.spec.config.segment_bytes = 40000;
    log = world_log(&world);
    for (int i = 0; i < 40; i++)
        world_append(&world, log, &make);
    end_offset = partition_log_end_offset(log);
    world_crash(&world, log, false);
    world.spec.clean = false;
    leave(0);
    log = world_log(&world);
    ck_assert_int_eq(partition_log_end_offset(log), end_offset);
    ck_assert_int_eq(world_read(&world, log, 17, end_offset, 2000, true, &data, &size), ERR_OK);
    ck_assert_uint_gt(size, 3000);
    mem_free(data);
    leave(MIB);
    world_append(&world, log, &make);
    world_close(&world, log);
    log = world_log(&world);
    ck_assert_int_eq(partition_log_end_offset(log), end_offset + 1);
    world_close(&world, log);
    end();
}
END_TEST

RUN_TESTS("dir_space", producers_are_refused_below_the_second_mark, what_is_appended_counts_before_anyone_looks_again,
          without_marks_nobody_is_refused, marks_go_by_the_size_of_the_volume, marks_end_on_a_large_volume,
          a_warning_says_how_long_the_rest_will_last, the_reserve_is_given_back_slice_by_slice,
          what_lacks_no_bytes_is_not_helped, the_reserve_is_built_above_the_second_mark_alone,
          a_later_version_stops_the_start_and_damage_does_not, the_reserve_has_what_it_says,
          an_essential_log_goes_on_from_the_reserve, a_log_opens_without_a_byte_of_room)
