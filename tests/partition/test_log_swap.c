/* Rule: whatever a crash leaves of a compaction, a start makes the old or the new segments of it, also where a byte of
 * what is left is wrong or some are missing: no record is served that was not written; while the old segments are there
 * nothing is lost; once they are gone damage costs the batch that it lies in, as in any segment, and a line says so. */
#include <check.h>
#include <stdio.h>

#include "base/mem.h"
#include "compacted.h"
#include "run_tests.h"

enum { FILES_MAX = 64, STATES_MAX = 32, BATCH_RECORDS_MAX = 6, APPENDED = 14 };

struct kept_file {
    char path[128];
    uint8_t *data;
    size_t size;
};

/* What a crash left. */
struct state {
    struct kept_file files[FILES_MAX];
    uint32_t count;
    bool has_leftovers;
};

static struct world world;
static struct compacted kept;
static struct state states[STATES_MAX];
static uint32_t state_count;
static int64_t synced_end;
static int64_t recovery_point;

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text);
    size_t end_size = strlen(end);

    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

static bool is_leftover(const struct kept_file *file)
{
    return ends_with(file->path, ".cleaned") || ends_with(file->path, ".swap");
}

static enum err keep(void *context, const char *name, bool is_directory)
{
    struct state *state = context;
    struct kept_file *file = &state->files[state->count++];
    struct bytes content;

    ck_assert(!is_directory);
    ck_assert_uint_lt(state->count, FILES_MAX);
    snprintf(file->path, sizeof(file->path), "/data/t-0/%s", name);
    content = sim_fs_peek(&world.disk, file->path);
    file->data = mem_alloc(content.size + 1);
    if (content.size > 0)
        memcpy(file->data, content.data, content.size);
    file->size = content.size;
    state->has_leftovers = state->has_leftovers || is_leftover(file);
    return ERR_OK;
}

static void state_forget(struct state *state)
{
    for (uint32_t i = 0; i < state->count; i++)
        mem_free(state->files[i].data);
    *state = (struct state){0};
}

static bool is_same(const struct state *a, const struct state *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (strcmp(a->files[i].path, b->files[i].path) != 0 || a->files[i].size != b->files[i].size ||
            memcmp(a->files[i].data, b->files[i].data, a->files[i].size) != 0)
            return false;
    return true;
}

/* All segments but the last become one; the process dies at the k-th call. False: it was through before. */
static bool die_cleaning(uint64_t k, struct state *state)
{
    struct partition_log *log = NULL;
    struct compacted_cleaning cleaning;
    bool struck = false;

    compacted_begin(&kept, &world, 3);
    log = world_log(&world);
    compacted_append_some(&kept, log, APPENDED);
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    synced_end = partition_log_synced_offset(log);
    recovery_point = partition_log_recovery_point(log);
    ck_assert_int_eq(synced_end, kept.end);
    world.spec.config.segment_bytes = 100000;
    partition_log_set_config(log, &world.spec.config);
    cleaning = compacted_clean_of(log);
    sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, k, ERR_IO);
    partition_log_clean(log, &cleaning.op);
    world_run(&world, &cleaning.done);
    world_pass(&world, INT64_C(100000000));
    struck = sim_fs_fault_struck(&world.disk);
    world_crash(&world, log, false);
    ck_assert_int_eq(fs_list(&world.disk.fs, "/data/t-0", keep, state), ERR_OK);
    world_end(&world);
    return struck;
}

/* Every different one. */
static void states_collect(void)
{
    bool struck = true;

    for (uint64_t k = 1; struck; k++) {
        struct state *state = &states[state_count];

        ck_assert_uint_lt(state_count, STATES_MAX);
        struck = die_cleaning(k, state);
        if (!state->has_leftovers || (state_count > 0 && is_same(state, &states[state_count - 1])))
            state_forget(state);
        else
            state_count++;
    }
    ck_assert_uint_gt(state_count, 10);
}

static void states_forget(void)
{
    while (state_count > 0)
        state_forget(&states[--state_count]);
}

static bool has_old(const struct state *state)
{
    for (uint32_t i = 0; i < state->count; i++)
        if (ends_with(state->files[i].path, "/00000000000000000000.log"))
            return true;
    return false;
}

static void begin_with(const struct state *state)
{
    world_begin(&world, 1);
    world.spec.config.cleanup_compact = true;
    world.spec.config.cleanup_delete = false;
    world.spec.config.index_interval_bytes = 150;
    world.spec.clean = false;
    world.spec.recovery_point = recovery_point;
    for (uint32_t i = 0; i < state->count; i++)
        sim_fs_poke(&world.disk, state->files[i].path, bytes_of(state->files[i].data, state->files[i].size));
}

static bool refused[COMPACTED_RECORDS_MAX];

enum hurt {
    HURT_NOTHING,
    HURT_BYTE,
    HURT_OFFSETS, /* of a batch: outside its checksum, and believed where they fit between its neighbours */
    HURT_END,     /* is missing */
};

/* All that is read is as it was written, but for records of one batch where its offsets are wrong; gives how many
 * offsets are refused. */
static uint32_t read_what_is_there(struct partition_log *log, const char *when, bool offsets_wrong)
{
    uint32_t strange = 0;
    int64_t end = partition_log_end_offset(log);
    int64_t offset = 0;
    uint32_t count = 0;

    kept.there_count = 0;
    memset(refused, 0, sizeof(refused));
    while (offset < end) {
        uint8_t *data = NULL;
        size_t size = 0;
        struct bytes rest;
        struct batch_header head;
        enum err err = world_read(&world, log, offset, end, 500, true, &data, &size);

        if (err == ERR_CORRUPT_MESSAGE) {
            refused[offset++] = true;
            count++;
            continue;
        }
        ck_assert_int_eq(err, ERR_OK);
        ck_assert_msg(size > 0, "nothing at %lld", (long long)offset);
        for (rest = bytes_of(data, size); rest.size > 0;
             rest = bytes_of(rest.data + head.size, rest.size - head.size)) {
            ck_assert_int_eq(batch_peek(rest, &head, NULL), ERR_OK);
            ck_assert_int_ge(batch_last_offset(&head), offset);
            ck_assert_int_lt(batch_last_offset(&head), synced_end);
            kept.there_count += keyed_read(bytes_of(rest.data, head.size), kept.there + kept.there_count,
                                           COMPACTED_RECORDS_MAX - kept.there_count);
            offset = batch_last_offset(&head) + 1;
        }
        mem_free(data);
    }
    for (uint32_t i = 0; i < kept.there_count; i++) {
        const struct keyed_record *is = &kept.there[i];

        ck_assert_int_lt(is->offset, synced_end);
        ck_assert(i == 0 || is->offset > is[-1].offset);
        strange += is->key != kept.written[is->offset].key || is->value != kept.written[is->offset].value;
    }
    ck_assert_msg(strange == 0 || (offsets_wrong && strange <= BATCH_RECORDS_MAX), "%s: %u wrong records", when,
                  strange);
    return count;
}

/* Each key's last value is there, but for what lies in one damaged batch. */
static void check_lost(const char *when, bool offsets_wrong)
{
    int64_t first = INT64_MAX;
    int64_t last = -1;

    for (int64_t key = 0; key < COMPACTED_KEYS; key++) {
        int64_t latest = synced_end - 1;
        bool is_there = false;

        while (latest >= 0 && kept.written[latest].key != key)
            latest--;
        if (latest < 0 || kept.written[latest].value < 0)
            continue;
        for (uint32_t i = 0; i < kept.there_count; i++)
            is_there = is_there || kept.there[i].offset == latest;
        if (is_there)
            continue;
        ck_assert_msg(refused[latest] || offsets_wrong, "%s: offset %lld is gone", when, (long long)latest);
        first = latest < first ? latest : first;
        last = latest > last ? latest : last;
    }
    ck_assert_msg(last - first < BATCH_RECORDS_MAX, "%s: lost from %lld to %lld", when, (long long)first,
                  (long long)last);
}

/* Opened, read, written to, closed and opened again. */
static void check_start(const struct state *state, enum hurt hurt, const char *when)
{
    bool offsets_wrong = hurt == HURT_OFFSETS && !has_old(state);
    struct partition_log *log = NULL;
    uint32_t count = 0;

    if (world_open(&world, &log) != ERR_OK)
        ck_abort_msg("%s: not opened", when);
    compacted_check_names(&world);
    ck_assert_msg(partition_log_end_offset(log) == synced_end, "%s: ends at %lld", when,
                  (long long)partition_log_end_offset(log));
    count = read_what_is_there(log, when, offsets_wrong);
    if (hurt != HURT_END || has_old(state)) /* else it is a segment that ends early */
        check_lost(when, offsets_wrong);
    if (has_old(state))
        ck_assert_msg(count == 0, "%s: %u offsets refused", when, count);
    ck_assert_msg(count == 0 || world.lines >= 1, "%s: nothing was said", when);
    ck_assert_msg(world.lines <= 1, "%s: %u lines", when, world.lines);
    ck_assert_int_eq(world_append(&world, log, &(struct batch_make){.value_bytes = 10}), synced_end);
    world_close(&world, log);
    log = world_log(&world);
    ck_assert_int_eq(partition_log_end_offset(log), synced_end + 1);
    world_close(&world, log);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
}

/* As the crash left it: nothing is lost, and nothing is wrong with it. */
START_TEST(as_it_was_left)
{
    states_collect();
    for (uint32_t i = 0; i < state_count; i++) {
        begin_with(&states[i]);
        check_start(&states[i], HURT_NOTHING, "as it was left");
        ck_assert_uint_eq(world.lines, 0);
    }
    states_forget();
}
END_TEST

static bool is_in_base_offset(const struct kept_file *file, uint64_t position)
{
    struct bytes rest = bytes_of(file->data, file->size);
    struct batch_header head;

    if (strstr(file->path, ".log.") == NULL)
        return false;
    while (batch_peek(rest, &head, NULL) == ERR_OK && position >= head.size) {
        position -= head.size;
        rest = bytes_of(rest.data + head.size, rest.size - head.size);
    }
    return position < sizeof(int64_t);
}

START_TEST(a_byte_is_wrong)
{
    static const uint8_t masks[] = {0x01, 0x40, 0x80, 0x14};

    states_collect();
    for (uint32_t i = 0; i < state_count; i++)
        for (uint32_t j = 0; j < states[i].count; j++)
            for (uint64_t at = 0; is_leftover(&states[i].files[j]) && at < states[i].files[j].size; at++) {
                const struct kept_file *file = &states[i].files[j];
                char when[200];

                if (at > BATCH_HEADER_BYTES && at % 11 != 0 && at + BATCH_HEADER_BYTES < file->size)
                    continue;
                snprintf(when, sizeof(when), "state %u, byte %llu of %s", i, (unsigned long long)at, file->path);
                begin_with(&states[i]);
                ck_assert(sim_fs_flip(&world.disk, file->path, at, masks[at % 4]));
                check_start(&states[i], is_in_base_offset(file, at) ? HURT_OFFSETS : HURT_BYTE, when);
            }
    states_forget();
}
END_TEST

START_TEST(the_end_is_missing)
{
    states_collect();
    for (uint32_t i = 0; i < state_count; i++)
        for (uint32_t j = 0; j < states[i].count; j++)
            for (size_t size = 0; is_leftover(&states[i].files[j]) && size < states[i].files[j].size; size += 13) {
                const struct kept_file *file = &states[i].files[j];
                char when[200];

                snprintf(when, sizeof(when), "state %u, %s cut to %zu bytes", i, file->path, size);
                begin_with(&states[i]);
                sim_fs_poke(&world.disk, file->path, bytes_of(file->data, size));
                check_start(&states[i], HURT_END, when);
            }
    states_forget();
}
END_TEST

RUN_TESTS("log_swap", as_it_was_left, a_byte_is_wrong, the_end_is_missing)
