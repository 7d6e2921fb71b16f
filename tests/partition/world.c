#include "world.h"

#include <check.h>
#include <stdio.h>

#include "base/mem.h"

static void line_write(struct log_sink *sink, enum log_level level, const char *line, uint32_t size)
{
    struct world *world = LIST_ENTRY(sink, struct world, sink);

    if (level >= LOG_WARN)
        world->lines++;
    if (world->verbose)
        fprintf(stderr, "%.*s\n", (int)size, line);
}

static void failed(void *context, const char *log_dir, enum err err)
{
    struct world *world = context;

    (void)log_dir;
    (void)err;
    world->storage_failures++;
}

void world_begin(struct world *world, uint64_t seed)
{
    *world = (struct world){0};
    sim_init(&world->sim, seed);
    sim_fs_init(&world->disk, &world->sim);
    world->loop = sim_loop_new(&world->sim, "reactor-0", 0);
    world->sink.write = line_write;
    world->log = (struct log){.sink = &world->sink, .clock = &world->sim.clock, .node_id = 1, .room = "partition"};
    atomic_init(&world->log.level, LOG_INFO);
    partition_files_init(&world->files, 0);
    world->env = (struct partition_env){
        .fs = &world->disk.fs,
        .loop = world->loop,
        .clock = &world->sim.clock,
        .rng = &world->sim.rng,
        .log = &world->log,
        .files = &world->files,
        .log_dir = "/data",
        .storage_failed = failed,
        .context = world,
    };
    world->spec.topic = BYTES_LITERAL("t");
    world->spec.topic_id = uuid_from_random((const uint8_t[16]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
    world->spec.clean = true;
    log_config_init(&world->spec.config);
    ck_assert_int_eq(fs_mkdir(&world->disk.fs, "/data"), ERR_OK);
    ck_assert_int_eq(fs_sync_dir(&world->disk.fs, "/"), ERR_OK);
}

void world_end(struct world *world)
{
    sim_fs_deinit(&world->disk);
    sim_deinit(&world->sim);
}

static bool is_set(void *context)
{
    return *(const bool *)context;
}

void world_run(struct world *world, const bool *flag)
{
    if (*flag)
        return;
    if (!sim_run(&world->sim, world->sim.mono_ns + INT64_C(60000000000), is_set, (void *)(uintptr_t)flag))
        ck_abort_msg("seed=%llu: nothing came within a minute", (unsigned long long)world->sim.seed);
}

void world_pass(struct world *world, int64_t ns)
{
    (void)sim_run(&world->sim, world->sim.mono_ns + ns, NULL, NULL);
}

/* --- batches --- */

uint8_t *make_batch(const struct batch_make *make, size_t *size)
{
    struct batch_builder builder;
    struct batch_spec spec;
    uint8_t *value = mem_alloc(make->value_bytes + 1);
    uint8_t *batch = NULL;
    uint8_t *copy = NULL;
    uint32_t count = make->record_count == 0 ? 1 : make->record_count;

    memset(value, make->fill, make->value_bytes + 1);
    batch_spec_init(&spec);
    spec.codec = make->codec;
    spec.transactional = make->transactional;
    if (make->producer_id > 0) {
        spec.producer_id = make->producer_id;
        spec.producer_epoch = make->producer_epoch;
        spec.base_sequence = make->base_sequence;
    }
    batch_builder_init(&builder, &spec);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_int_eq(batch_builder_append(&builder, make->timestamp + (int64_t)i * make->timestamp_step,
                                              (struct bytes){0}, bytes_of(value, make->value_bytes), NULL, 0),
                         ERR_OK);
    ck_assert_int_eq(batch_builder_finish(&builder, &batch, size), ERR_OK);
    copy = mem_alloc(*size);
    memcpy(copy, batch, *size);
    batch_builder_deinit(&builder);
    mem_free(value);
    return copy;
}

uint8_t *make_marker(int64_t producer_id, int16_t producer_epoch, bool commit, int32_t coordinator_epoch, size_t *size)
{
    struct batch_builder builder;
    struct batch_spec spec;
    uint8_t value[6] = {0};
    uint8_t *batch = NULL;
    uint8_t *copy = NULL;

    value[5] = (uint8_t)coordinator_epoch;
    batch_spec_init(&spec);
    spec.transactional = true;
    spec.control = true;
    spec.producer_id = producer_id;
    spec.producer_epoch = producer_epoch;
    batch_builder_init(&builder, &spec);
    ck_assert_int_eq(batch_builder_append_control(&builder, 1000, commit ? CONTROL_COMMIT : CONTROL_ABORT,
                                                  bytes_of(value, sizeof(value))),
                     ERR_OK);
    ck_assert_int_eq(batch_builder_finish(&builder, &batch, size), ERR_OK);
    copy = mem_alloc(*size);
    memcpy(copy, batch, *size);
    batch_builder_deinit(&builder);
    return copy;
}

/* --- logs --- */

enum err world_open(struct world *world, struct partition_log **log)
{
    enum err err = partition_log_open(&world->env, &world->spec, log, NULL);

    if (err == ERR_OK)
        partition_log_adopt(*log);
    return err;
}

struct partition_log *world_log_of(struct world *world, const struct partition_log_spec *spec)
{
    struct partition_log *log = NULL;

    ck_assert_int_eq(partition_log_open(&world->env, spec, &log, NULL), ERR_OK);
    partition_log_adopt(log);
    return log;
}

struct partition_log *world_log(struct world *world)
{
    struct partition_log *log = NULL;

    ck_assert_int_eq(world_open(world, &log), ERR_OK);
    return log;
}

void world_was_closed(struct partition_log_close *op)
{
    LIST_ENTRY(op, struct world_closed, op)->done = true;
}

void world_was_cut(struct log_truncate *op)
{
    LIST_ENTRY(op, struct world_cut, op)->done = true;
}

void world_close(struct world *world, struct partition_log *log)
{
    struct world_closed closed = {.op.done = world_was_closed};

    world->spec.start_offset = partition_log_start_offset(log);
    partition_log_close(log, &closed.op);
    world_run(world, &closed.done);
    ck_assert_int_eq(closed.op.err, ERR_OK);
    world->spec.clean = true;
}

static void was_appended(struct log_append *op)
{
    struct appended *appended = LIST_ENTRY(op, struct appended, op);

    ck_assert(!appended->done);
    appended->done = true;
}

enum err world_append_run(struct world *world, struct partition_log *log, uint8_t *batches, size_t size,
                          enum log_origin origin, struct appended *appended)
{
    *appended = (struct appended){
        .op = {.batches = batches, .size = size, .origin = origin, .leader_epoch = 0, .done = was_appended}};
    partition_log_append(log, &appended->op);
    world_run(world, &appended->done);
    return appended->op.err;
}

int64_t world_append(struct world *world, struct partition_log *log, const struct batch_make *make)
{
    struct appended appended;
    size_t size = 0;
    uint8_t *batch = make_batch(make, &size);

    ck_assert_int_eq(world_append_run(world, log, batch, size, LOG_ORIGIN_CLIENT, &appended), ERR_OK);
    mem_free(batch);
    return appended.op.base_offset;
}

struct synced {
    struct log_sync op;
    bool done;
};

static void was_synced(struct log_sync *op)
{
    LIST_ENTRY(op, struct synced, op)->done = true;
}

enum err world_sync(struct world *world, struct partition_log *log)
{
    struct synced synced = {.op = {.offset = partition_log_end_offset(log), .done = was_synced}};

    partition_log_sync(log, &synced.op);
    world_run(world, &synced.done);
    return synced.op.err;
}

void world_damage_each(struct world *world, const char *path, bool (*is_damage)(struct bytes content),
                       bool (*is_whole)(struct bytes content))
{
    uint8_t copy[128];
    size_t size = sim_fs_peek(&world->disk, path).size;

    ck_assert_uint_gt(size, 0);
    ck_assert_uint_lt(size, sizeof(copy));
    memcpy(copy, sim_fs_peek(&world->disk, path).data, size);
    ck_assert(is_whole(bytes_of(copy, size)));
    for (size_t i = 0; i < size; i++) {
        for (uint32_t bit = 0; bit < 8; bit++) {
            copy[i] = (uint8_t)(copy[i] ^ 1u << bit);
            ck_assert_msg(is_damage(bytes_of(copy, size)), "byte %zu bit %u", i, bit);
            copy[i] = (uint8_t)(copy[i] ^ 1u << bit);
        }
        if (i < size - 1)
            ck_assert_msg(is_damage(bytes_of(copy, i)), "cut to %zu", i);
    }
    ck_assert(is_whole(bytes_of(copy, size - 1)));
    copy[size] = '\n';
    ck_assert(is_damage(bytes_of(copy, size + 1)));
}

uint8_t *slices_take(struct slice *slices, uint32_t count, size_t size)
{
    uint8_t *data = mem_alloc(size + 1);
    size_t at = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (slices[i].file != NULL) {
            size_t got = 0;

            ck_assert_int_eq(fs_read(slices[i].file, slices[i].position, data + at, slices[i].size, &got), ERR_OK);
            ck_assert_uint_eq(got, slices[i].size);
            fs_file_drop(slices[i].file);
        } else {
            memcpy(data + at, slices[i].data, slices[i].size);
        }
        at += slices[i].size;
    }
    ck_assert_uint_eq(at, size);
    return data;
}

struct was_read {
    struct log_read op;
    bool done;
};

static void read_done(struct log_read *op)
{
    LIST_ENTRY(op, struct was_read, op)->done = true;
}

enum err world_read(struct world *world, struct partition_log *log, int64_t offset, int64_t offset_limit,
                    uint32_t bytes_max, bool at_least_one, uint8_t **data, size_t *size)
{
    struct arena arena;
    struct was_read read = {.op = {.offset = offset,
                                   .offset_limit = offset_limit,
                                   .bytes_max = bytes_max,
                                   .at_least_one = at_least_one,
                                   .arena = &arena,
                                   .done = read_done}};

    *data = NULL;
    *size = 0;
    arena_init(&arena, 1 << 20);
    partition_log_read(log, &read.op);
    world_run(world, &read.done);
    if (read.op.err == ERR_OK) {
        *data = slices_take(read.op.slices, read.op.slice_count, read.op.size);
        *size = read.op.size;
    }
    arena_deinit(&arena);
    return read.op.err;
}

struct journal_closed {
    struct journal_close op;
    bool done;
};

static void journal_was_closed(struct journal_close *op)
{
    LIST_ENTRY(op, struct journal_closed, op)->done = true;
}

void world_journal_close(struct world *world)
{
    struct journal_closed closed = {.op.done = journal_was_closed};

    if (world->env.journal == NULL)
        return;
    journal_close(world->env.journal, &closed.op);
    world_run(world, &closed.done);
    journal_free(world->env.journal);
    world->env.journal = NULL;
}

void world_crash(struct world *world, struct partition_log *log, bool power_cut)
{
    struct world_closed closed = {.op.done = world_was_closed};

    if (log != NULL) {
        partition_log_fail(log, ERR_IO);
        partition_log_close(log, &closed.op);
        world_run(world, &closed.done);
    }
    world_journal_close(world);
    if (power_cut)
        sim_fs_cut(&world->disk);
    else
        sim_fs_kill(&world->disk);
    world->spec.clean = false;
}
