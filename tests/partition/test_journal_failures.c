/* Rule: whatever call of the disk fails while two logs share a journal (an append, the sync of a group, of a segment, a
 * file's next use, the start that reads what is there, the removal of what is not needed any more), in whatever way,
 * and whether the process is killed or the power cut there: no record that was promised is lost, none is there that was
 * never appended at its offset or was cut away, and the next start succeeds and goes on. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "partition/journal.h"
#include "partition/journal_replay.h"
#include "world.h"

enum { LOGS = 2, ATTEMPTS_MAX = 256, STEPS = 26 };

enum state {
    THERE,
    PERHAPS, /* it may be there, and may not */
    GONE,    /* never again */
};

struct attempt {
    int64_t base_offset;
    int64_t end_offset;
    uint8_t *bytes;
    size_t size;
    enum state state;
};

struct one {
    struct partition_log *log; /* NULL: not open */
    struct partition_log_spec spec;
    struct attempt attempts[ATTEMPTS_MAX];
    uint32_t count;
    int64_t synced; /* promised to survive a power cut */
    int64_t start;  /* where it may begin at the latest */
};

static struct world world;
static struct one ones[LOGS];
static struct journal_replay *replay;
static atomic_bool history;
static uint64_t script_state; /* the script's own draws, the same for every k */
static atomic_uint unsettled; /* logs whose segments are not synced as far as the start found them */
static bool marked;           /* all logs were opened: a kill from here on leaves all that was written */
static bool struck;
static char when[160];

static uint64_t script_draw(uint64_t bound)
{
    script_state = script_state * 6364136223846793005u + 1442695040888963407u;
    return (script_state >> 33) % bound;
}

/* --- what is known of the records --- */

static void forget(void)
{
    for (uint32_t i = 0; i < LOGS; i++) {
        for (uint32_t j = 0; j < ones[i].count; j++)
            mem_free(ones[i].attempts[j].bytes);
        ones[i] = (struct one){0};
    }
}

static void judge_from(struct one *one, int64_t offset, enum state from, enum state to)
{
    for (uint32_t i = 0; i < one->count; i++)
        if (one->attempts[i].end_offset > offset && one->attempts[i].state == from)
            one->attempts[i].state = to;
}

static void promised(struct one *one)
{
    int64_t synced = partition_log_synced_offset(one->log);

    if (synced > one->synced && !partition_log_failed(one->log))
        one->synced = synced;
}

struct walk {
    struct one *one;
    int64_t next;
};

static enum err check_batch(void *context, struct bytes batch)
{
    struct walk *walk = context;
    struct batch_header header;

    batch_header_read(batch.data, &header);
    if (header.base_offset != walk->next)
        ck_abort_msg("%s: offset %lld stands at %lld", when, (long long)header.base_offset, (long long)walk->next);
    walk->next = batch_last_offset(&header) + 1;
    for (uint32_t i = 0; i < walk->one->count; i++) {
        struct attempt *attempt = &walk->one->attempts[i];

        if (attempt->state == GONE || attempt->base_offset != header.base_offset || attempt->size != batch.size ||
            memcmp(attempt->bytes, batch.data, batch.size) != 0)
            continue;
        attempt->state = THERE;
        return ERR_OK;
    }
    ck_abort_msg("%s: offset %lld holds what is not to be there", when, (long long)header.base_offset);
}

/* After an opening: what is there is what there is from now on. */
static void check_log(struct one *one)
{
    struct walk walk = {one, partition_log_start_offset(one->log)};
    enum sim_fs_fault fault = world.disk.fault;
    uint64_t calls = world.disk.calls[SIM_FS_ANY];

    if (walk.next > one->start)
        ck_abort_msg("%s: begins at %lld, not %lld", when, (long long)walk.next, (long long)one->start);
    world.disk.fault = SIM_FS_NO_FAULT; /* this is the test's own look */
    ck_assert_int_eq(partition_log_scan(one->log, walk.next, check_batch, &walk), ERR_OK);
    world.disk.fault = fault;
    world.disk.calls[SIM_FS_ANY] = calls;
    if (walk.next < one->synced)
        ck_abort_msg("%s: lost from offset %lld up to %lld", when, (long long)walk.next, (long long)one->synced);
    ck_assert_int_eq(walk.next, partition_log_end_offset(one->log));
    judge_from(one, walk.next, THERE, GONE);
    judge_from(one, walk.next, PERHAPS, GONE);
    judge_from(one, INT64_MIN, PERHAPS, GONE); /* another one stands there */
}

/* --- a life --- */

static void journal_begin(void)
{
    struct journal_options options = {
        .generation = journal_replay_generation(replay) + 1,
        .history = &history,
        .elders = journal_replay_file_count(replay),
        .bytes_max = 4 * 64 * 1024,
    };

    atomic_store(&history, replay != NULL);
    ck_assert_int_eq(journal_new(&world.env, &options, &world.env.journal), ERR_OK);
}

static enum err logs_open(void)
{
    enum err err = ERR_OK;

    journal_begin();
    atomic_store(&unsettled, LOGS);
    for (uint32_t i = 0; i < LOGS && err == ERR_OK; i++) {
        world.spec = ones[i].spec;
        world.spec.journals = replay;
        world.spec.unsettled = &unsettled;
        err = world_open(&world, &ones[i].log);
        if (err != ERR_OK)
            ones[i].log = NULL;
        else
            check_log(&ones[i]);
    }
    marked = marked || err == ERR_OK;
    return err;
}

/* As dir_recovery.c goes about it. */
static enum err elders_remove_due(void)
{
    enum err err = ERR_OK;

    if (replay == NULL || atomic_load(&unsettled) > 0)
        return ERR_OK;
    err = journal_replay_remove(replay);
    if (err == ERR_OK) {
        journal_replay_free(replay);
        replay = NULL;
        atomic_store(&history, false);
    }
    return err;
}

static void append(struct one *one)
{
    struct attempt *attempt = &one->attempts[one->count];
    struct appended appended;
    struct batch_make make = {
        .record_count = 1 + (uint32_t)script_draw(3),
        .value_bytes = (uint32_t)script_draw(6000),
        .timestamp = 1000 + one->count,
        .fill = (uint8_t)(one->count * LOGS + (uint32_t)(one - ones)),
    };

    ck_assert_uint_lt(one->count, ATTEMPTS_MAX);
    attempt->bytes = make_batch(&make, &attempt->size);
    one->count++;
    (void)world_append_run(&world, one->log, attempt->bytes, attempt->size, LOG_ORIGIN_CLIENT, &appended);
    attempt->base_offset = appended.op.err == ERR_OK ? appended.op.base_offset : partition_log_end_offset(one->log);
    attempt->end_offset = attempt->base_offset + make.record_count;
    attempt->state = appended.op.err == ERR_OK ? THERE : PERHAPS;
}

static bool any_failed(void)
{
    for (uint32_t i = 0; i < LOGS; i++)
        if (partition_log_failed(ones[i].log))
            return true;
    return world.storage_failures > 0;
}

/* As shard_dirs.c does when a directory fails. */
static void fail_all(void)
{
    for (uint32_t i = 0; i < LOGS; i++)
        partition_log_fail(ones[i].log, ERR_KAFKA_STORAGE_ERROR);
}

static void truncate_somewhere(struct one *one)
{
    int64_t start = partition_log_start_offset(one->log);
    int64_t end = partition_log_end_offset(one->log);
    struct world_cut cut = {.op = {.done = world_was_cut}};

    cut.op.offset = start + (int64_t)script_draw((uint64_t)(end - start) + 1);
    promised(one);
    if (one->synced > cut.op.offset)
        one->synced = start; /* no batch is cut in two: it may be a little more that goes */
    partition_log_truncate(one->log, &cut.op);
    for (int i = 0; i < 600 && !cut.done; i++) {
        world_pass(&world, 10000000);
        if (any_failed())
            fail_all();
        if (elders_remove_due() != ERR_OK) /* dir_recovery.c tries again */
            continue;
    }
    ck_assert_msg(cut.done, "%s: no end of a truncation", when);
    if (cut.op.err == ERR_OK) {
        judge_from(one, cut.op.offset, THERE, GONE);
        judge_from(one, cut.op.offset, PERHAPS, GONE);
    } else if (partition_log_failed(one->log)) {
        judge_from(one, start, THERE, PERHAPS);
    }
}

static void write_for_a_while(void)
{
    for (uint32_t i = 0; i < STEPS && !any_failed(); i++) {
        struct one *one = &ones[script_draw(LOGS)];
        uint64_t what = script_draw(100);

        if (what < 5) {
            truncate_somewhere(one);
        } else if (what < 10) {
            promised(one);
            if (one->start < one->synced)
                one->start = one->synced;
            partition_log_move_start(one->log, one->synced);
        } else {
            append(one);
        }
        if (script_draw(100) < 60)
            world_pass(&world, 400000); /* so that what waits gets on */
        if (script_draw(100) < 5)
            world_pass(&world, INT64_C(1100000000)); /* segments are synced */
        promised(&ones[0]);
        promised(&ones[1]);
    }
}

/* So that none are left. */
static enum err elders_remove(void)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < LOGS && err == ERR_OK; i++) {
        err = world_sync(&world, ones[i].log);
        if (err == ERR_OK && !partition_log_failed(ones[i].log))
            ones[i].spec.recovery_point = partition_log_recovery_point(ones[i].log);
    }
    for (int i = 0; i < 600 && err == ERR_OK && replay != NULL && !any_failed(); i++) {
        world_pass(&world, 10000000);
        err = elders_remove_due();
    }
    return any_failed() ? ERR_KAFKA_STORAGE_ERROR : err;
}

static void logs_drop(void)
{
    for (uint32_t i = 0; i < LOGS; i++) {
        struct world_closed closed = {.op.done = world_was_closed};

        if (ones[i].log == NULL)
            continue;
        promised(&ones[i]);
        partition_log_fail(ones[i].log, ERR_IO);
        partition_log_close(ones[i].log, &closed.op);
        world_run(&world, &closed.done);
        ones[i].log = NULL;
    }
}

/* A fault that has not struck yet outlives the crash. */
static void crash(bool power_cut)
{
    enum sim_fs_fault fault = world.disk.fault;
    uint64_t at = world.disk.fault_at;

    struck = struck || sim_fs_fault_struck(&world.disk);
    world_crash(&world, NULL, power_cut);
    if (!struck && fault != SIM_FS_NO_FAULT) {
        world.disk.fault = fault;
        world.disk.fault_at = at;
    }
}

/* The end of a life, and the start that reads what is there. */
static enum err restart(bool power_cut)
{
    struct journal_replay_options options = {.fs = &world.disk.fs, .log = &world.log, .log_dir = "/data"};
    bool sync_failed = world.storage_failures > 0 && !power_cut;

    logs_drop();
    crash(power_cut);
    marked = marked && !power_cut;
    journal_replay_free(replay);
    replay = NULL;
    for (uint32_t i = 0; i < LOGS; i++) {
        ones[i].spec.clean = false;
        ones[i].spec.trust = sync_failed ? LOG_TRUST_REWRITE : marked ? LOG_TRUST_WRITTEN : LOG_TRUST_SYNCED;
    }
    options.mode = sync_failed || !marked ? JOURNAL_REPLAY_READ : JOURNAL_REPLAY_KEEP;
    return journal_replay_open(&options, &replay);
}

static enum err logs_close(void)
{
    enum err first = ERR_OK;

    for (uint32_t i = 0; i < LOGS; i++) {
        struct world_closed closed = {.op.done = world_was_closed};
        int64_t end = partition_log_end_offset(ones[i].log);
        int64_t start = partition_log_start_offset(ones[i].log);

        promised(&ones[i]);
        partition_log_close(ones[i].log, &closed.op);
        world_run(&world, &closed.done);
        ones[i].log = NULL;
        first = first == ERR_OK ? closed.op.err : first;
        if (closed.op.err != ERR_OK)
            continue;
        ones[i].synced = end;
        ones[i].spec.recovery_point = end;
        ones[i].spec.start_offset = start;
        ones[i].spec.clean = true;
    }
    world_journal_close(&world);
    for (uint32_t i = 0; i < LOGS && first != ERR_OK; i++)
        ones[i].spec.clean = false;
    if (first != ERR_OK)
        return first;
    journal_replay_free(replay);
    replay = NULL;
    return journal_files_remove(&world.disk.fs, "/data");
}

/* Two logs over three lives; false: something went so wrong that the process ends. */
static bool script(void)
{
    if (logs_open() != ERR_OK)
        return false;
    write_for_a_while();
    if (any_failed())
        return false;
    if (restart(true) != ERR_OK || logs_open() != ERR_OK)
        return false;
    write_for_a_while();
    if (any_failed() || elders_remove() != ERR_OK)
        return false;
    write_for_a_while();
    if (any_failed() || logs_close() != ERR_OK)
        return false;
    if (logs_open() != ERR_OK)
        return false;
    write_for_a_while();
    return true;
}

struct fault {
    const char *name;
    enum sim_fs_fault fault;
    enum sim_fs_call kind;
    enum err err;
    bool power_cut;
};

/* After a failed call the power goes; a process that dies alone is held to what was promised as well. */
static const struct fault faults[] = {
    {"is where the power goes", SIM_FS_DIE, SIM_FS_ANY, ERR_IO, true},
    {"is where the process dies", SIM_FS_DIE, SIM_FS_ANY, ERR_IO, false},
    {"fails", SIM_FS_FAIL, SIM_FS_ANY, ERR_IO, true},
    {"fails, the process is started again", SIM_FS_FAIL, SIM_FS_ANY, ERR_IO, false},
    {"fails for want of space", SIM_FS_FAIL, SIM_FS_ANY, ERR_NO_SPACE, true},
    {"fails for want of descriptors", SIM_FS_FAIL, SIM_FS_ANY, ERR_NO_DESCRIPTORS, true},
    {"is short", SIM_FS_SHORT, SIM_FS_WRITE, ERR_IO, true},
};

static void begin(uint64_t seed)
{
    world_begin(&world, seed);
    world.spec.config.flush_messages = 1;
    world.spec.config.segment_bytes = 40000;
    world.env.limits.anchor_bytes = 30000;
    for (uint32_t i = 0; i < LOGS; i++) {
        ones[i].spec = world.spec;
        ones[i].spec.partition = (int32_t)i;
    }
}

static bool run_one(const struct fault *fault, uint64_t seed, uint64_t k)
{
    struck = false;
    marked = false;
    snprintf(when, sizeof(when), "seed %llu: call %llu %s", (unsigned long long)seed, (unsigned long long)k,
             fault->name);
    script_state = seed;
    begin(seed);
    sim_fs_set_fault(&world.disk, fault->fault, fault->kind, k, fault->err);
    (void)script();
    struck = struck || sim_fs_fault_struck(&world.disk);
    if (!struck)
        sim_fs_set_fault(&world.disk, SIM_FS_NO_FAULT, SIM_FS_ANY, 1, ERR_OK);
    ck_assert(world.storage_failures == 0 || world.lines > 0);
    if (restart(fault->power_cut) != ERR_OK)
        ck_abort_msg("%s: journals are not read again", when);
    if (seed % 2 == 0 && struck) { /* and again, while it starts */
        sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, 1 + k % 41, ERR_IO);
        (void)logs_open();
        if (restart(fault->power_cut) != ERR_OK)
            ck_abort_msg("%s: journals are not read a third time", when);
    }
    world.storage_failures = 0;
    if (logs_open() != ERR_OK)
        ck_abort_msg("%s: does not open again", when);
    write_for_a_while();
    ck_assert(!any_failed());
    ck_assert_int_eq(elders_remove(), ERR_OK);
    ck_assert_int_eq(logs_close(), ERR_OK);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
    forget();
    return struck;
}

enum { STRIDE = 11 };

/* OTTLA_SWEEP_SEEDS: that many, with every call; otherwise one, with every eleventh, others for each fault. */
static uint64_t seeds(void)
{
    const char *text = getenv("OTTLA_SWEEP_SEEDS");

    return text == NULL ? 0 : strtoull(text, NULL, 10);
}

START_TEST(every_call_failing)
{
    uint64_t last = seeds() == 0 ? 1 : seeds();

    for (uint64_t seed = 1; seed <= last; seed++) {
        uint64_t k = seeds() == 0 ? 1 + (uint64_t)_i % STRIDE : 1;

        while (run_one(&faults[_i], seed, k))
            k += seeds() == 0 ? STRIDE : 1;
        ck_assert_uint_gt(k, 60); /* the script touches the disk that often */
    }
}
END_TEST

/* Without any fault, whatever the power cuts leave of what was not synced. */
START_TEST(only_power_cuts)
{
    for (uint64_t seed = 1; seed <= 30 + 100 * seeds(); seed++)
        ck_assert(!run_one(&faults[0], seed, UINT64_MAX / 2));
}
END_TEST

/* What makes entries of an earlier run's journals history is not used again while those lie there: else they would come
 * back behind the cut. */
START_TEST(a_note_outlives_the_elders)
{
    struct world_cut cut = {.op = {.offset = 3, .done = world_was_cut}};

    snprintf(when, sizeof(when), "elders");
    script_state = 1;
    begin(1);
    ck_assert_int_eq(logs_open(), ERR_OK);
    for (int i = 0; i < 20; i++) {
        append(&ones[0]);
        world_pass(&world, 3000000);
        promised(&ones[0]);
    }
    ck_assert_int_eq(restart(true), ERR_OK);
    ck_assert_int_eq(logs_open(), ERR_OK);
    partition_log_truncate(ones[0].log, &cut.op);
    world_run(&world, &cut.done);
    ck_assert_int_eq(cut.op.err, ERR_OK);
    judge_from(&ones[0], cut.op.offset, THERE, GONE);
    ones[0].synced = cut.op.offset;
    for (int i = 0; i < 120; i++) { /* every file many times over, were it for the other log alone */
        append(&ones[1]);
        world_pass(&world, i % 10 == 0 ? INT64_C(1100000000) : 3000000);
    }
    ck_assert_int_eq(restart(true), ERR_OK);
    ck_assert_int_eq(logs_open(), ERR_OK); /* and looks at what is there */
    ck_assert_int_eq(partition_log_end_offset(ones[0].log), cut.op.offset);
    ck_assert_int_eq(elders_remove(), ERR_OK);
    ck_assert_int_eq(logs_close(), ERR_OK);
    world_end(&world);
    forget();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_failures");
    TCase *tests = tcase_create("sweep");
    SRunner *runner = NULL;
    int failed = 0;

    tcase_add_loop_test(tests, every_call_failing, 0, (int)(sizeof(faults) / sizeof(faults[0])));
    tcase_add_test(tests, only_power_cuts);
    tcase_add_test(tests, a_note_outlives_the_elders);
    tcase_set_timeout(tests, 600);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
