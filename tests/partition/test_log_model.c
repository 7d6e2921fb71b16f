/* Rule: a log behaves as a plain list of batches does, whatever is asked of it and in whatever order the disk answers:
 * appends that overlap, rolls, reads at any offset, times, restarts, kills, power cuts, full disks, deletion from the
 * beginning, retention, cuts, moves to another directory. After a power cut it is the beginning of that list, with all
 * that was synced.
 *
 * OTTLA_MODEL_FIRST and OTTLA_MODEL_SEEDS choose other seeds.
 *
 * Sources: partition/log_scan.c */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "roaming.h"

enum { BATCHES_MAX = 4096, OVERLAP_MAX = 8, STEPS = 120 };

#ifdef OTTLA_SLOW_ASSERTS
enum { MODEL_SEEDS = 250 };
#else
enum { MODEL_SEEDS = 1500 };
#endif

/* The model: what was acknowledged, in order. */
struct row {
    int64_t base_offset;
    int64_t last_offset;
    int64_t first_timestamp; /* of its first record; one later for each record */
    uint8_t *bytes;
    size_t size;
};

static struct world world;
static struct roaming roaming;
static struct row rows[BATCHES_MAX];
static uint32_t row_count;
static int64_t model_end;
static int64_t model_start;
static int64_t
    told_recovery_point; /* the highest that a checkpoint told since the last start: it may be of a time before a cut */

static uint64_t draw(uint64_t bound)
{
    return sim_draw(&world.sim, bound);
}

static void model_clear(void)
{
    for (uint32_t i = 0; i < row_count; i++)
        mem_free(rows[i].bytes);
    row_count = 0;
    model_end = 0;
    model_start = 0;
    told_recovery_point = 0;
}

/* --- appends that overlap --- */

struct flight {
    struct log_append op;
    int64_t first_timestamp;
    uint32_t number; /* in order of submission */
    bool done;
    bool cancelled;
};

static uint32_t next_done;

static void flight_done(struct log_append *op)
{
    struct flight *flight = LIST_ENTRY(op, struct flight, op);
    struct row *row = &rows[row_count];

    ck_assert(!flight->done && !flight->cancelled);
    flight->done = true;
    ck_assert_uint_ge(flight->number, next_done); /* in order; those between were taken back */
    next_done = flight->number + 1;
    if (op->err != ERR_OK) {
        ck_assert_int_eq(op->err, ERR_NO_SPACE);
        return;
    }
    ck_assert_int_eq(op->base_offset, model_end);
    ck_assert_uint_lt(row_count, BATCHES_MAX);
    *row = (struct row){op->base_offset, op->last_offset, flight->first_timestamp, mem_alloc(op->size), op->size};
    memcpy(row->bytes, op->batches, op->size);
    row_count++;
    model_end = op->last_offset + 1;
}

static void append_some(struct partition_log *log)
{
    struct flight flights[OVERLAP_MAX];
    uint32_t count = 1 + (uint32_t)draw(OVERLAP_MAX);

    next_done = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct batch_make make = {
            .record_count = 1 + (uint32_t)draw(5),
            .value_bytes = (uint32_t)draw(draw(10) == 0 ? 5000 : 200),
            .timestamp = (int64_t)draw(100000),
            .timestamp_step = 1,
            .codec = (enum codec)draw(CODEC_COUNT),
            .fill = (uint8_t)draw(256),
        };

        flights[i] = (struct flight){.first_timestamp = make.timestamp, .number = i};
        flights[i].op.batches = make_batch(&make, &flights[i].op.size);
        flights[i].op.origin = LOG_ORIGIN_CLIENT;
        flights[i].op.leader_epoch = 1;
        flights[i].op.done = flight_done;
        partition_log_append(log, &flights[i].op);
        if (draw(4) == 0)
            world_pass(&world, (int64_t)draw(300000));
        if (draw(10) == 0 && !flights[i].done && partition_log_append_cancel(log, &flights[i].op))
            flights[i].cancelled = true;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!flights[i].cancelled)
            world_run(&world, &flights[i].done);
        mem_free(flights[i].op.batches);
    }
    ck_assert_int_eq(partition_log_end_offset(log), model_end);
}

/* --- reads --- */

static uint32_t row_of(int64_t offset)
{
    uint32_t at = 0;

    while (at < row_count && rows[at].last_offset < offset)
        at++;
    return at;
}

static void read_some(struct partition_log *log)
{
    uint8_t *data = NULL;
    size_t size = 0;
    int64_t offset = (int64_t)draw((uint64_t)model_end + 2);
    int64_t limit = row_count == 0 || draw(2) == 0 ? model_end : rows[draw(row_count)].base_offset;
    uint32_t bytes_max = 1 + (uint32_t)draw(draw(3) == 0 ? 100000 : 3000);
    bool at_least_one = draw(2) == 0;
    enum err err = world_read(&world, log, offset, limit, bytes_max, at_least_one, &data, &size);
    uint32_t at = row_of(offset);
    size_t compared = 0;

    if (offset > model_end || offset < model_start) {
        ck_assert_int_eq(err, ERR_OFFSET_OUT_OF_RANGE);
        return;
    }
    ck_assert_int_eq(err, ERR_OK);
    if (at == row_count || rows[at].base_offset >= limit || (rows[at].size > bytes_max && !at_least_one)) {
        ck_assert_uint_eq(size, 0);
    } else {
        ck_assert_uint_ge(size, rows[at].size);
        ck_assert(size <= bytes_max || size == rows[at].size);
    }
    for (; compared < size; at++) {
        ck_assert_uint_lt(at, row_count);
        ck_assert_int_lt(rows[at].base_offset, limit);
        ck_assert_uint_ge(size - compared, rows[at].size); /* whole batches only */
        ck_assert_int_eq(memcmp(data + compared, rows[at].bytes, rows[at].size), 0);
        compared += rows[at].size;
    }
    mem_free(data);
}

struct found {
    struct log_find op;
    bool done;
};

static void was_found(struct log_find *op)
{
    LIST_ENTRY(op, struct found, op)->done = true;
}

/* Where the first segment that is there still begins: what an older checkpoint may have told. */
static int64_t segments_start(const struct partition_log *log)
{
    int64_t base = partition_log_segment_count(log) == 0 ? model_start : partition_log_segment_base(log, 0);

    return base < model_start ? base : model_start;
}

static void find_some(struct partition_log *log)
{
    int64_t timestamp = draw(8) == 0 ? LOG_FIND_MAX_TIMESTAMP : (int64_t)draw(100100);
    struct found found = {.op = {.timestamp = timestamp, .done = was_found}};
    int64_t first = timestamp == LOG_FIND_MAX_TIMESTAMP ? segments_start(log) : model_start;
    int64_t offset = -1;
    int64_t at = -1;

    partition_log_find(log, &found.op);
    world_run(&world, &found.done);
    ck_assert_int_eq(found.op.err, ERR_OK);
    for (uint32_t i = 0; i < row_count; i++)
        for (int64_t record = rows[i].base_offset; record <= rows[i].last_offset; record++) {
            int64_t time = rows[i].first_timestamp + record - rows[i].base_offset;

            if (record < first)
                continue;
            if (timestamp == LOG_FIND_MAX_TIMESTAMP ? time > at : offset < 0 && time >= timestamp) {
                offset = record;
                at = time;
            }
        }
    ck_assert_int_eq(found.op.offset, offset);
    ck_assert_int_eq(found.op.out_timestamp, at);
}

/* --- deletion and cuts --- */

static void move_start(struct partition_log *log)
{
    int64_t to = model_start + (int64_t)draw((uint64_t)(model_end - model_start) / 4 + 1);

    partition_log_move_start(log, to);
    model_start = to;
    ck_assert_int_eq(partition_log_start_offset(log), model_start);
    if (draw(2) == 0)
        world_pass(&world, (int64_t)draw(INT64_C(70000000000)));
}

/* By size alone: the clock of the model's records is not that of the world. */
static void retain(struct partition_log *log)
{
    struct log_config config = world.spec.config;
    uint64_t size = partition_log_size(log);
    uint64_t limit = size - draw(size + 1) / 4;

    config.retention_ms = -1;
    config.retention_bytes = (int64_t)limit;
    partition_log_set_config(log, &config);
    partition_log_retain(log, model_end);
    world_pass(&world, INT64_C(100000000));
    partition_log_set_config(log, &world.spec.config);
    ck_assert_int_ge(partition_log_start_offset(log), model_start);
    model_start = partition_log_start_offset(log);
    ck_assert_int_eq(partition_log_end_offset(log), model_end);
}

static void cut(struct partition_log *log)
{
    int64_t to = model_end - (int64_t)draw((uint64_t)(model_end - model_start) / 8 + 1);
    struct world_cut cut = {.op = {.offset = to, .done = world_was_cut}};

    if (partition_log_recovery_point(log) > told_recovery_point)
        told_recovery_point = partition_log_recovery_point(log);
    partition_log_truncate(log, &cut.op);
    world_run(&world, &cut.done);
    if (cut.op.err != ERR_OK) { /* a full disk: nothing was done */
        ck_assert_int_eq(cut.op.err, ERR_NO_SPACE);
        ck_assert_int_eq(partition_log_end_offset(log), model_end);
        return;
    }
    while (row_count > 0 && rows[row_count - 1].last_offset >= to) {
        mem_free(rows[--row_count].bytes);
        model_end = rows[row_count].base_offset;
    }
    ck_assert_int_eq(cut.op.offset, model_end);
    ck_assert_int_eq(partition_log_end_offset(log), model_end);
    if (model_start > model_end)
        model_start = model_end;
    ck_assert_int_eq(partition_log_start_offset(log), model_start);
}

/* --- everything --- */

static enum err compare_batch(void *context, struct bytes batch)
{
    uint32_t *at = context;

    ck_assert_uint_lt(*at, row_count);
    ck_assert_uint_eq(batch.size, rows[*at].size);
    ck_assert_int_eq(memcmp(batch.data, rows[*at].bytes, batch.size), 0);
    (*at)++;
    return ERR_OK;
}

enum stop { STOP_CLEAN, STOP_KILL, STOP_POWER };

/* Of what was not synced some is gone. */
static void model_lose(const struct partition_log *log, int64_t synced)
{
    int64_t end = partition_log_end_offset(log);

    ck_assert(end >= synced || synced == model_start); /* deleted records are no promise */
    while (row_count > 0 && model_end > end) {
        mem_free(rows[--row_count].bytes);
        model_end = rows[row_count].base_offset;
    }
    if (model_end < end) /* nothing is left from the start on, which may lie within a batch */
        ck_assert_int_eq(partition_log_start_offset(log), end);
    model_end = end;
}

static struct partition_log *restart(struct partition_log *log, enum stop stop)
{
    int64_t synced = 0;
    uint32_t at = 0;

    world.disk.capacity_bytes = UINT64_MAX;
    world_pass(&world, INT64_C(20000000));
    if (stop != STOP_CLEAN) {
        switch (draw(3)) {
        case 0:
            world.spec.recovery_point = 0;
            break;
        case 1:
            world.spec.recovery_point = told_recovery_point;
            break;
        default:
            world.spec.recovery_point = partition_log_recovery_point(log);
        }
        if (partition_log_recovery_point(log) > world.spec.recovery_point && draw(2) == 0)
            world.spec.recovery_point = partition_log_recovery_point(log);
        world.spec.start_offset = draw(2) == 0 ? model_start : segments_start(log);
        synced = partition_log_synced_offset(log);
        world_crash(&world, log, stop == STOP_POWER);
    } else {
        world_close(&world, log);
        world.spec.recovery_point = model_end;
    }
    if (roaming_settle(&roaming, &world) && draw(2) == 0)
        world.spec.recovery_point = world.spec.start_offset = 0;
    told_recovery_point = world.spec.recovery_point; /* what the checkpoint says now */
    log = world_log(&world);
    if (stop == STOP_POWER)
        model_lose(log, synced);
    ck_assert_int_eq(partition_log_end_offset(log), model_end);
    ck_assert_int_le(partition_log_start_offset(log), model_start);
    ck_assert_int_ge(partition_log_start_offset(log), world.spec.start_offset);
    model_start = partition_log_start_offset(log); /* where a checkpoint was old, it is so again */
    at = partition_log_segment_count(log) == 0 ? row_count : row_of(partition_log_segment_base(log, 0));
    ck_assert_int_eq(partition_log_scan(log, 0, compare_batch, &at), ERR_OK);
    ck_assert_uint_eq(at, row_count);
    return log;
}

static void run(uint64_t seed)
{
    struct partition_log *log = NULL;

    world_begin(&world, seed);
    roaming_begin(&roaming, &world);
    world.sim.habits.cached_miss_percent = (uint32_t)draw(60);
    world.spec.config.segment_bytes = 26000 + (int64_t)draw(60000);
    world.spec.config.index_interval_bytes = 1 + (int32_t)draw(5000);
    world.env.limits.anchor_bytes = 1 + (int64_t)draw(50000);
    if (seed % 2 == 0) /* it sleeps whenever it can */
        world.env.limits.idle_ns = 1 + (int64_t)(seed % 7) * 5000000;
    log = world_log(&world);
    for (int step = 0; step < STEPS; step++) {
        switch (draw(20)) {
        case 16:
            move_start(log);
            break;
        case 17:
            retain(log);
            break;
        case 18:
            cut(log);
            break;
        case 0:
            ck_assert_int_eq(world_sync(&world, log), ERR_OK);
            break;
        case 1:
            world_pass(&world, (int64_t)draw(INT64_C(100000000000)));
            break;
        case 2:
            log = restart(log, (enum stop)draw(3));
            break;
        case 19:
            roaming_draw(&roaming, &world, log);
            break;
        case 3:
            world.disk.capacity_bytes = draw(2) == 0 ? UINT64_MAX : world.disk.used_bytes + draw(4000);
            break;
        case 4:
        case 5:
            find_some(log);
            break;
        case 6:
        case 7:
        case 8:
        case 9:
            read_some(log);
            break;
        default:
            append_some(log);
        }
    }
    log = restart(log, STOP_CLEAN);
    world_close(&world, log);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
    model_clear();
}

/* They failed once. */
static const uint64_t failed_seeds[] = {43, 245, 851};

START_TEST(as_a_list_of_batches)
{
    const char *text = getenv("OTTLA_MODEL_SEEDS");
    const char *first_text = getenv("OTTLA_MODEL_FIRST");
    uint64_t first = first_text == NULL ? 1 : strtoull(first_text, NULL, 10);
    uint64_t seeds = text == NULL ? MODEL_SEEDS : strtoull(text, NULL, 10);

    for (uint64_t seed = first; seed < first + seeds; seed++) {
        printf("model: rerun with OTTLA_MODEL_FIRST=%llu OTTLA_MODEL_SEEDS=1\r", (unsigned long long)seed);
        fflush(stdout); /* a crash must not swallow it */
        run(seed);
    }
    for (size_t i = 0; text == NULL && i < sizeof(failed_seeds) / sizeof(failed_seeds[0]); i++)
        run(failed_seeds[i]);
    printf("\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log_model");
    TCase *tests = tcase_create("model");
    SRunner *runner = NULL;
    int failed = 0;

    tcase_add_test(tests, as_a_list_of_batches);
    tcase_set_timeout(tests, 3600);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
