/* Rule: whatever call of the disk fails, in whatever way, and whether the process is killed or the power cut there: no
 * acknowledged batch that was promised is lost, none comes back changed or torn, and the log opens again and goes on.
 * Promised is: through a kill, all that was appended; through a power cut, all that was synced. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "world.h"

enum { ATTEMPTS_MAX = 256 };

struct attempt {
    int64_t base_offset; /* -1: was never given one */
    uint8_t *bytes;
    size_t size;
    bool acked;
};

static struct world world;
static struct attempt attempts[ATTEMPTS_MAX];
static uint32_t attempt_count;
static int64_t synced_end;    /* everything below was promised to survive a power cut */
static int64_t acked_end;     /* and this, a kill */
static uint64_t script_state; /* the script's own draws, the same for every k */

static uint64_t script_draw(uint64_t bound)
{
    script_state = script_state * 6364136223846793005u + 1442695040888963407u;
    return (script_state >> 33) % bound;
}

static void forget_attempts(void)
{
    for (uint32_t i = 0; i < attempt_count; i++)
        mem_free(attempts[i].bytes);
    attempt_count = 0;
    synced_end = 0;
    acked_end = 0;
}

static void try_append(struct partition_log *log)
{
    struct attempt *attempt = &attempts[attempt_count];
    struct appended appended;
    struct batch_make make = {
        .record_count = 1 + (uint32_t)script_draw(3),
        .value_bytes = (uint32_t)script_draw(900),
        .timestamp = 1000 + attempt_count,
        .fill = (uint8_t)attempt_count,
    };

    ck_assert_uint_lt(attempt_count, ATTEMPTS_MAX);
    attempt_count++;
    *attempt = (struct attempt){.base_offset = -1};
    attempt->bytes = make_batch(&make, &attempt->size);
    (void)world_append_run(&world, log, attempt->bytes, attempt->size, LOG_ORIGIN_CLIENT, &appended);
    attempt->acked = appended.op.err == ERR_OK;
    if (attempt->acked) {
        attempt->base_offset = appended.op.base_offset;
        ck_assert_int_eq(attempt->base_offset, acked_end);
        acked_end = appended.op.last_offset + 1;
        ck_assert_int_eq(partition_log_end_offset(log), acked_end);
    }
}

static void try_sync(struct partition_log *log)
{
    int64_t end = partition_log_end_offset(log);

    if (world_sync(&world, log) == ERR_OK)
        synced_end = end;
    /* As a checkpoint would have it, now and then. */
    if (script_draw(2) == 0)
        world.spec.recovery_point = partition_log_recovery_point(log);
}

/* False: not cleanly. */
static bool try_close(struct partition_log *log)
{
    struct world_closed closed = {.op.done = world_was_closed};
    int64_t end = partition_log_end_offset(log);
    int64_t start = partition_log_start_offset(log);

    partition_log_close(log, &closed.op);
    world_run(&world, &closed.done);
    if (closed.op.err == ERR_OK) {
        synced_end = end;
        world.spec.recovery_point = end;
        world.spec.start_offset = start;
    }
    world.spec.clean = closed.op.err == ERR_OK;
    return world.spec.clean;
}

/* The life of a log: appends over several segments, syncs, a clean stop, a second life. NULL: it is closed. */
static struct partition_log *script(void)
{
    struct partition_log *log = NULL;

    for (int life = 0; life < 2; life++) {
        if (world_open(&world, &log) != ERR_OK) {
            world.spec.clean = false;
            return NULL;
        }
        world.spec.clean = false;
        for (int i = 0; i < 24; i++) {
            try_append(log);
            if (script_draw(6) == 0)
                try_sync(log);
            if (script_draw(12) == 0)
                world_pass(&world, INT64_C(70000000000)); /* files are given back */
        }
        if (life == 0 && !try_close(log))
            return NULL;
    }
    return log;
}

struct check {
    int64_t next;
    bool acked_ended; /* a batch that nobody was told of may only come last */
};

static enum err check_batch(void *context, struct bytes batch)
{
    struct check *check = context;
    struct batch_header header;

    batch_header_read(batch.data, &header);
    ck_assert_int_eq(header.base_offset, check->next);
    check->next = batch_last_offset(&header) + 1;
    for (uint32_t i = 0; i < attempt_count; i++) {
        const struct attempt *attempt = &attempts[i];

        /* Base offset and epoch were written into the attempt's own bytes. */
        if (attempt->size != batch.size || memcmp(attempt->bytes, batch.data, batch.size) != 0)
            continue;
        ck_assert(attempt->acked ? !check->acked_ended : true);
        check->acked_ended = check->acked_ended || !attempt->acked;
        return ERR_OK;
    }
    ck_abort_msg("offset %lld holds what was never appended", (long long)header.base_offset);
}

static void check_log(struct partition_log *log, int64_t promised_end, const char *when)
{
    struct check check = {0};

    ck_assert_int_eq(partition_log_scan(log, 0, check_batch, &check), ERR_OK);
    if (check.next < promised_end)
        ck_abort_msg("%s: lost from offset %lld up to %lld", when, (long long)check.next, (long long)promised_end);
    ck_assert_int_eq(check.next, partition_log_end_offset(log));
    /* And the way a consumer reads it. */
    for (int64_t offset = 0; offset < partition_log_end_offset(log);) {
        uint8_t *data = NULL;
        size_t size = 0;
        struct batch_header header;
        struct bytes rest;

        ck_assert_int_eq(world_read(&world, log, offset, partition_log_end_offset(log), 2000, true, &data, &size),
                         ERR_OK);
        rest = bytes_of(data, size);
        ck_assert_int_eq(batch_peek(rest, &header, NULL), ERR_OK);
        ck_assert_int_eq(header.base_offset, offset);
        for (; batch_peek(rest, &header, NULL) == ERR_OK;
             rest = bytes_of(rest.data + header.size, rest.size - header.size)) {
            ck_assert(batch_crc_is_valid(bytes_of(rest.data, header.size)));
            offset = batch_last_offset(&header) + 1;
        }
        mem_free(data);
    }
}

struct fault {
    const char *name;
    enum sim_fs_fault fault;
    enum err err;
    bool power_cut;
};

static const struct fault faults[] = {
    {"fails with an I/O error", SIM_FS_FAIL, ERR_IO, false},
    {"fails for want of space", SIM_FS_FAIL, ERR_NO_SPACE, false},
    {"fails for want of descriptors", SIM_FS_FAIL, ERR_NO_DESCRIPTORS, false},
    {"is short", SIM_FS_SHORT, ERR_IO, false},
    {"is where the process dies", SIM_FS_DIE, ERR_IO, false},
    {"is where the power goes", SIM_FS_DIE, ERR_IO, true},
    {"is short, the power goes later", SIM_FS_SHORT, ERR_IO, true},
    {"fails for want of descriptors, the power goes later", SIM_FS_FAIL, ERR_NO_DESCRIPTORS, true},
    {"fails for want of space, the power goes later", SIM_FS_FAIL, ERR_NO_SPACE, true},
};

static bool run_one(const struct fault *fault, uint64_t seed, uint64_t k)
{
    struct partition_log *log = NULL;
    bool struck = false;
    char when[128];

    snprintf(when, sizeof(when), "seed %llu: call %llu %s", (unsigned long long)seed, (unsigned long long)k,
             fault->name);
    script_state = seed;
    world_begin(&world, seed);
    world.spec.config.segment_bytes = 5000;
    world.spec.config.index_interval_bytes = 700;
    world.env.limits.anchor_bytes = 1 + (int64_t)(seed * 1000 % 6000);
    sim_fs_set_fault(&world.disk, fault->fault, SIM_FS_ANY, k, fault->err);
    log = script();
    struck = sim_fs_fault_struck(&world.disk);
    world_crash(&world, log, fault->power_cut);
    if (seed % 2 == 1 && struck) { /* and again, while it recovers */
        sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, 1 + k % 37, ERR_IO);
        log = NULL;
        if (world_open(&world, &log) != ERR_OK)
            log = NULL;
        world_crash(&world, log, fault->power_cut);
    }
    if (world_open(&world, &log) != ERR_OK)
        ck_abort_msg("%s: does not open again", when);
    check_log(log, fault->power_cut ? synced_end : acked_end, when);
    /* It goes on. */
    acked_end = partition_log_end_offset(log);
    try_append(log);
    ck_assert(attempts[attempt_count - 1].acked);
    ck_assert(try_close(log));
    ck_assert_int_eq(world_open(&world, &log), ERR_OK);
    ck_assert_int_eq(partition_log_end_offset(log), acked_end);
    ck_assert(try_close(log));
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
    forget_attempts();
    return struck;
}

static uint64_t seeds(void)
{
    const char *text = getenv("OTTLA_SWEEP_SEEDS");

    return text == NULL ? 1 : strtoull(text, NULL, 10);
}

START_TEST(every_call_failing)
{
    const struct fault *fault = &faults[_i];

    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        uint64_t k = 1;

        while (run_one(fault, seed, k))
            k++;
        ck_assert_uint_gt(k, 60); /* the script touches the disk that often */
    }
}
END_TEST

/* Without any fault, at the end of the script: what a crash there leaves. */
START_TEST(crash_after_the_last_call)
{
    for (uint64_t seed = 1; seed <= 20 * seeds(); seed++)
        ck_assert(!run_one(&faults[4 + _i], seed, UINT64_MAX / 2));
}
END_TEST

/* A sync that was put off has not synced the names either: of the log's directory, and of what lies in it. */
START_TEST(a_sync_put_off_is_done_whole)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct partition_log *log = NULL;

        script_state = seed;
        world_begin(&world, seed);
        world.spec.config.segment_bytes = 2000;
        log = world_log(&world);
        while (partition_log_segment_count(log) < 3)
            try_append(log);
        /* The index of a segment that was sealed. */
        sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_OPEN, 1, ERR_NO_DESCRIPTORS);
        try_sync(log);
        ck_assert(sim_fs_fault_struck(&world.disk));
        ck_assert_int_eq(synced_end, acked_end);
        world_crash(&world, log, true);
        ck_assert_int_eq(world_open(&world, &log), ERR_OK);
        check_log(log, synced_end, "put off");
        ck_assert(try_close(log));
        world_end(&world);
        forget_attempts();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log_failures");
    TCase *tests = tcase_create("sweep");
    SRunner *runner = NULL;
    int failed = 0;

    tcase_add_loop_test(tests, every_call_failing, 0, (int)(sizeof(faults) / sizeof(faults[0])));
    tcase_add_loop_test(tests, crash_after_the_last_call, 0, 2);
    tcase_add_test(tests, a_sync_put_off_is_done_whole);
    tcase_set_timeout(tests, 600);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
