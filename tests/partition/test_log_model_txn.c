/* Rule: whatever is done to a log with transactions and compaction in it, in whatever order the disk answers, who reads
 * committed records gets what a plain list of records says: nothing of an aborted or open transaction, everything that
 * was not superseded, and each key's last value. Appends, markers, cleanings and moves to another directory under way
 * while others go on, deletion from the beginning, cuts, restarts, kills, power cuts.
 *
 * OTTLA_MODEL_FIRST and OTTLA_MODEL_SEEDS choose other seeds. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "keyed.h"
#include "partition/txn_marker.h"
#include "roaming.h"
#include "run_tests.h"

enum {
    OFFSETS_MAX = 4096,
    KEYS = 12,
    PRODUCERS = 3,
    STEPS = 70,
    ABORTED_MAX = 256,
    NOW_MS = 1000000,
    PAGE_BYTES = 900
};

#ifdef OTTLA_SLOW_ASSERTS
enum { MODEL_SEEDS = 250 };
#else
enum { MODEL_SEEDS = 2000 };
#endif

enum fate { FATE_PLAIN, FATE_OPEN, FATE_COMMITTED, FATE_ABORTED, FATE_MARKER };

/* A record, by its offset. */
struct row {
    int64_t key;
    int64_t value;
    int64_t producer_id;  /* 0: none */
    int64_t first_offset; /* of its transaction */
    int64_t decided_at;   /* the marker's offset; -1: it is open */
    enum fate fate;
};

static struct world world;
static struct roaming roaming;
static struct row rows[OFFSETS_MAX];
static int64_t end_offset;
static int64_t start_offset;
static int64_t floor_offset;          /* the high watermark: nothing below it is cut */
static int64_t touched_offset;        /* a cleaning may have taken something below it */
static int64_t open_first[PRODUCERS]; /* of the open transaction of producer i + 1; -1: none */
static bool found[OFFSETS_MAX];       /* by the last read */
static struct log_clean cleaning;
static bool cleaning_is_running;
static bool dying;

static int64_t draw(uint64_t bound)
{
    return (int64_t)sim_draw(&world.sim, bound);
}

/* --- appends --- */

static void append_data(struct partition_log *log)
{
    struct keyed_record records[4];
    int64_t who = draw(PRODUCERS + 1);
    bool transactional = who > 0;
    struct keyed_make make = {.records = records,
                              .count = 1 + (uint32_t)draw(4),
                              .producer_id = who,
                              .transactional = transactional,
                              .codec = draw(8) == 0 ? (enum codec)draw(CODEC_COUNT) : CODEC_NONE};
    struct appended appended;
    uint8_t *batch = NULL;
    size_t size = 0;

    for (uint32_t i = 0; i < make.count; i++)
        records[i] = (struct keyed_record){
            .timestamp = 1000 + draw(100), .key = draw(KEYS), .value = draw(6) == 0 ? -1 : end_offset + i};
    batch = keyed_batch(&make, &size);
    ck_assert_int_eq(world_append_run(&world, log, batch, size, LOG_ORIGIN_COORDINATOR, &appended), ERR_OK);
    mem_free(batch);
    ck_assert_int_eq(appended.op.base_offset, end_offset);
    ck_assert_int_le(end_offset + make.count, OFFSETS_MAX);
    if (transactional && open_first[who - 1] < 0)
        open_first[who - 1] = end_offset;
    for (uint32_t i = 0; i < make.count; i++)
        rows[end_offset++] = (struct row){.key = records[i].key,
                                          .value = records[i].value,
                                          .producer_id = who,
                                          .first_offset = transactional ? open_first[who - 1] : -1,
                                          .decided_at = -1,
                                          .fate = transactional ? FATE_OPEN : FATE_PLAIN};
}

/* Now and then for a producer that has nothing open. */
static void append_marker(struct partition_log *log)
{
    int64_t who = 1 + draw(PRODUCERS);
    bool commit = draw(2) == 0;
    struct appended appended;
    size_t size = 0;
    uint8_t *marker = NULL;

    if (open_first[who - 1] < 0 && draw(8) != 0)
        return;
    marker = keyed_marker(0, who, 0, commit, &size);
    ck_assert_int_eq(world_append_run(&world, log, marker, size, LOG_ORIGIN_COORDINATOR, &appended), ERR_OK);
    mem_free(marker);
    for (int64_t i = open_first[who - 1]; i >= 0 && i < end_offset; i++)
        if (rows[i].producer_id == who && rows[i].fate == FATE_OPEN) {
            rows[i].fate = commit ? FATE_COMMITTED : FATE_ABORTED;
            rows[i].decided_at = end_offset;
        }
    open_first[who - 1] = -1;
    rows[end_offset++] = (struct row){.producer_id = who, .fate = FATE_MARKER, .key = -2, .decided_at = -1};
}

/* --- what a consumer reads --- */

static int64_t first_open(void)
{
    int64_t first = INT64_MAX;

    for (int i = 0; i < PRODUCERS; i++)
        if (open_first[i] >= 0 && open_first[i] < first)
            first = open_first[i];
    return first;
}

static int64_t stable_end(void)
{
    return first_open() < floor_offset ? first_open() : floor_offset;
}

struct looked_up {
    struct log_aborted_find op;
    bool done;
};

static void was_looked_up(struct log_aborted_find *op)
{
    LIST_ENTRY(op, struct looked_up, op)->done = true;
}

/* A consumer's books over one page: producers whose records are aborted at the moment. */
struct reader {
    struct log_aborted aborted[ABORTED_MAX];
    uint32_t count;
    bool aborting[PRODUCERS + 1];
};

static void reader_look_up(struct reader *reader, struct partition_log *log, int64_t from, int64_t to)
{
    struct arena arena;
    struct looked_up up = {.op = {.from = from, .to = to, .arena = &arena, .done = was_looked_up}};

    arena_init(&arena, 1 << 20);
    partition_log_find_aborted(log, &up.op);
    world_run(&world, &up.done);
    ck_assert_int_eq(up.op.err, ERR_OK);
    ck_assert_uint_lt(up.op.count, ABORTED_MAX);
    *reader = (struct reader){.count = up.op.count};
    if (up.op.count > 0)
        memcpy(reader->aborted, up.op.aborted, up.op.count * sizeof(reader->aborted[0]));
    arena_deinit(&arena);
}

/* Whether the batch's records are the consumer's. */
static bool reader_takes(struct reader *reader, struct bytes batch)
{
    struct batch_header head;
    struct txn_marker marker;

    batch_header_read(batch.data, &head);
    if (!batch_has(&head, BATCH_TRANSACTIONAL))
        return !batch_has(&head, BATCH_CONTROL);
    ck_assert_int_le(head.producer_id, PRODUCERS);
    for (uint32_t i = 0; i < reader->count; i++) {
        if (reader->aborted[i].producer_id == head.producer_id &&
            reader->aborted[i].first_offset <= batch_last_offset(&head)) {
            reader->aborting[head.producer_id] = true;
            reader->aborted[i].first_offset = INT64_MAX;
        }
    }
    if (!batch_has(&head, BATCH_CONTROL))
        return !reader->aborting[head.producer_id];
    if (head.record_count > 0 && txn_marker_read(batch, &marker) == ERR_OK && !marker.commit)
        reader->aborting[head.producer_id] = false;
    return false;
}

static bool is_visible(int64_t offset)
{
    return rows[offset].fate == FATE_PLAIN || rows[offset].fate == FATE_COMMITTED;
}

static void take_record(const struct keyed_record *record, bool visible, int64_t cleaned)
{
    const struct row *row = &rows[record->offset];

    ck_assert_int_lt(record->offset, end_offset);
    ck_assert_int_eq(record->key, row->key);
    ck_assert_int_eq(record->value, row->value);
    if (visible != is_visible(record->offset))
        ck_abort_msg("offset %" PRId64 " of producer %" PRId64 " is %s", record->offset, row->producer_id,
                     visible ? "read, and aborted" : "left out, and committed");
    ck_assert_msg(record->offset >= cleaned || row->fate != FATE_ABORTED, "aborted %" PRId64 " outlived its cleaning",
                  record->offset);
    found[record->offset] = visible;
}

/* Page by page, as Fetch gives them: each with the aborted transactions of its own range. */
static void read_committed(struct partition_log *log, int64_t from, int64_t to)
{
    int64_t cleaned = partition_log_cleaned_offset(log);

    memset(found, 0, sizeof(found));
    while (from < to) {
        struct keyed_record records[8];
        struct batch_header head;
        struct reader reader;
        struct bytes rest;
        uint8_t *data = NULL;
        size_t size = 0;
        int64_t page_end = from;

        ck_assert_int_eq(world_read(&world, log, from, to, 1 + (uint32_t)draw(PAGE_BYTES), true, &data, &size), ERR_OK);
        if (size == 0) /* all that is left was superseded */
            return;
        for (rest = bytes_of(data, size); rest.size > 0;
             rest = bytes_of(rest.data + head.size, rest.size - head.size)) {
            ck_assert_int_eq(batch_peek(rest, &head, NULL), ERR_OK);
            page_end = batch_last_offset(&head) + 1;
        }
        ck_assert(page_end > from);
        reader_look_up(&reader, log, from, page_end < to ? page_end : to);
        for (rest = bytes_of(data, size); rest.size > 0;
             rest = bytes_of(rest.data + head.size, rest.size - head.size)) {
            bool takes = false;
            uint32_t count = 0;

            batch_header_read(rest.data, &head);
            takes = reader_takes(&reader, bytes_of(rest.data, head.size));
            count = keyed_read(bytes_of(rest.data, head.size), records, 8);
            for (uint32_t i = 0; i < count; i++)
                if (records[i].offset >= from && records[i].offset < to)
                    take_record(&records[i], takes, cleaned);
        }
        mem_free(data);
        from = page_end;
    }
}

/* The last committed record of the key in [from, to); -1: none. */
static int64_t latest(int64_t key, int64_t from, int64_t to)
{
    while (to-- > from)
        if (rows[to].key == key && is_visible(to))
            return to;
    return -1;
}

/* The first record that is still there of any open transaction; INT64_MAX: none. */
static int64_t first_open_there(void)
{
    for (int64_t i = start_offset; i < end_offset; i++)
        if (rows[i].fate == FATE_OPEN)
            return i;
    return INT64_MAX;
}

/* Of a transaction that began below the start a cut may have left no more than what is there of it. */
static bool is_first_unstable(int64_t offset)
{
    if (offset < start_offset)
        offset = start_offset;
    return offset == (first_open() < start_offset ? start_offset : first_open()) || offset == first_open_there();
}

static void check_read(struct partition_log *log)
{
    int64_t from = start_offset;
    int64_t to = 0;
    int64_t cleaned = -1;

    floor_offset = end_offset;
    partition_log_replicated(log, floor_offset);
    ck_assert_int_eq(partition_log_end_offset(log), end_offset);
    ck_assert_int_eq(partition_log_start_offset(log), start_offset);
    ck_assert(is_first_unstable(partition_log_first_unstable_offset(log)));
    to = stable_end();
    if (to > from && draw(2) == 0)
        from += draw((uint64_t)(to - from));
    cleaned = partition_log_cleaned_offset(log); /* one under way may end meanwhile */
    read_committed(log, from, to);
    for (int64_t offset = from; offset < to; offset++) {
        ck_assert_msg(offset < touched_offset || found[offset] == is_visible(offset), "%" PRId64 " is not there",
                      offset);
        if (found[offset] && offset < cleaned)
            ck_assert_int_eq(offset, latest(rows[offset].key, 0, cleaned));
    }
    for (int64_t key = 0; key < KEYS; key++) {
        int64_t last = latest(key, from, to);

        ck_assert_msg(last < 0 || found[last] || (last < touched_offset && rows[last].value < 0),
                      "the last of key %" PRId64 ", %" PRId64 ", is gone", key, last);
    }
}

/* --- compaction, deletion, cuts --- */

static void was_cleaned(struct log_clean *op)
{
    ck_assert(op == &cleaning && cleaning_is_running);
    ck_assert_msg(op->err == ERR_OK || op->err == ERR_CLOSED || dying, "not cleaned: %s", err_name(op->err));
    cleaning_is_running = false;
}

static void clean(struct partition_log *log)
{
    if (cleaning_is_running)
        return;
    if (draw(2) == 0)
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    floor_offset = end_offset;
    partition_log_replicated(log, floor_offset);
    cleaning = (struct log_clean){.stable_offset = stable_end(),
                                  .now_ms = NOW_MS + draw(2) * 2 * world.spec.config.delete_retention_ms,
                                  .map_bytes_max = draw(4) == 0 ? 200 : 100000, /* a map that is soon full, too */
                                  .map_load = 0.9,
                                  .buffer_bytes = 1 + (size_t)draw(2000),
                                  .bytes_per_second = 1e300,
                                  .done = was_cleaned};
    if (cleaning.stable_offset > touched_offset)
        touched_offset = cleaning.stable_offset;
    cleaning_is_running = true;
    partition_log_clean(log, &cleaning);
    if (draw(2) == 0)
        world_pass(&world, INT64_C(1000000000));
}

static void move_start(struct partition_log *log)
{
    int64_t most = stable_end() - start_offset;

    if (most <= 0)
        return;
    start_offset += draw((uint64_t)most / 4 + 1);
    partition_log_move_start(log, start_offset);
}

/* What a marker decided is open again once the marker is gone. */
static void forget_behind(int64_t end)
{
    for (int i = 0; i < PRODUCERS; i++)
        open_first[i] = -1;
    end_offset = end;
    for (int64_t i = 0; i < end; i++) {
        struct row *row = &rows[i];

        if (row->decided_at >= end) {
            row->fate = FATE_OPEN;
            row->decided_at = -1;
        }
        if (row->fate == FATE_OPEN)
            open_first[row->producer_id - 1] = row->first_offset;
    }
}

static void cut(struct partition_log *log)
{
    struct world_cut cutting = {
        .op = {.offset = end_offset - draw((uint64_t)(end_offset - floor_offset) + 1), .done = world_was_cut}};

    if (cutting.op.offset < start_offset)
        return;
    partition_log_truncate(log, &cutting.op);
    world_run(&world, &cutting.done);
    ck_assert_int_eq(cutting.op.err, ERR_OK);
    ck_assert_int_ge(cutting.op.offset, floor_offset);
    forget_behind(cutting.op.offset);
    ck_assert_int_eq(partition_log_end_offset(log), end_offset);
}

enum stop { STOP_CLEAN, STOP_KILL, STOP_POWER };

static struct partition_log *restart(struct partition_log *log, enum stop stop)
{
    int64_t synced = 0;

    world.spec.start_offset = start_offset;
    world.spec.cleaned_offset = draw(3) == 0 ? world.spec.cleaned_offset : partition_log_cleaned_offset(log);
    if (stop != STOP_CLEAN) {
        world.spec.recovery_point = draw(2) == 0 ? partition_log_recovery_point(log) : 0;
        dying = true;
        /* In a log that compacts a hole of what was not synced is not told from what was taken out. */
        if (stop == STOP_POWER)
            ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        synced = partition_log_synced_offset(log);
        world_crash(&world, log, stop == STOP_POWER);
        dying = cleaning_is_running = false;
    } else {
        world_close(&world, log);
        ck_assert(!cleaning_is_running);
        world.spec.recovery_point = end_offset;
    }
    if (roaming_settle(&roaming, &world) && draw(2) == 0) {
        world.spec.recovery_point = 0;
        world.spec.cleaned_offset = -1;
    }
    log = world_log(&world);
    if (stop == STOP_POWER) {
        ck_assert_int_ge(partition_log_end_offset(log), synced);
        forget_behind(partition_log_end_offset(log));
        if (floor_offset > end_offset)
            floor_offset = end_offset;
    }
    return log;
}

static void run(uint64_t seed)
{
    struct partition_log *log = NULL;

    world_begin(&world, seed);
    roaming_begin(&roaming, &world);
    world.sim.habits.cached_miss_percent = (uint32_t)draw(60);
    world.spec.config.segment_bytes = 500 + draw(2500);
    world.spec.config.index_interval_bytes = 1 + (int32_t)draw(300);
    world.spec.config.cleanup_compact = true;
    world.spec.config.file_delete_delay_ms = draw(2) * 1000;
    world.spec.config.delete_retention_ms = draw(2) * 1000000;
    world.env.limits.anchor_bytes = 1 + draw(5000);
    if (seed % 2 == 0) /* it sleeps whenever it can */
        world.env.limits.idle_ns = 1 + (int64_t)(seed % 7) * 5000000;
    end_offset = start_offset = floor_offset = touched_offset = 0;
    cleaning_is_running = false;
    for (int i = 0; i < PRODUCERS; i++)
        open_first[i] = -1;
    log = world_log(&world);
    for (int step = 0; step < STEPS; step++) {
        switch (draw(25)) {
        case 0:
            ck_assert_int_eq(world_sync(&world, log), ERR_OK);
            break;
        case 1:
            world_pass(&world, draw(INT64_C(100000000000)));
            break;
        case 2:
            log = restart(log, (enum stop)draw(3));
            break;
        case 24:
            roaming_draw(&roaming, &world, log);
            break;
        case 3:
            move_start(log);
            break;
        case 4:
        case 5:
            cut(log);
            break;
        case 6:
        case 7:
        case 8:
            clean(log);
            break;
        case 9:
        case 10:
            check_read(log);
            break;
        case 11:
        case 12:
        case 13:
        case 14:
            append_marker(log);
            break;
        default:
            append_data(log);
        }
    }
    log = restart(log, STOP_CLEAN);
    check_read(log);
    world_close(&world, log);
    ck_assert_uint_eq(world.storage_failures, 0);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
}

START_TEST(as_a_list_of_records)
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
    printf("\n");
}
END_TEST

RUN_TESTS("log_model_txn", as_a_list_of_records)
