/* Rule: the state of a coordinator is what its log says. What is answered is in the log, whatever is killed, fails or
 * fills up; what a failed step or append left is thrown away; whoever waits is answered once.
 *
 * Sources: coordinator/state_write.c */
#include <check.h>
#include <stdlib.h>

#include "base/big_endian.h"
#include "base/mem.h"
#include "base/timer_heap.h"
#include "coordinator/state_log.h"
#include "partition/run_tests.h"
#include "partition/world.h"

enum { REGISTERS = 8, OPS_MAX = 4096 };

/* A state that is as small as one can be: registers, each written as a record "<register>" -> value; those of a
 * transaction wait for its marker. */
struct toy {
    int64_t registers[REGISTERS];
    int64_t pending[REGISTERS];
    struct list waiting;
    int64_t due_ns;
    uint32_t ticks, left; /* so many ticks more for what is due */
    bool loaded;
};

struct toy_op {
    struct step_op op; /* first */
    uint32_t count;    /* registers written, from the first on */
    int64_t value;
    size_t padding;      /* of each record */
    bool waits;          /* until the state is unloaded */
    enum err fails;      /* the step, after its records */
    int64_t producer_id; /* 0: no transaction */
    /* out */
    int64_t seen; /* of the first register */
    uint32_t ticks_seen;
    uint32_t done;
};

static struct world world;
static struct partition *partition;
static struct partition_spec spec;
static struct state_logs logs;
static struct state_log *log_;
static bool ready, closed, gone;
static struct toy *toy;
static uint32_t made;
static int32_t known_version; /* replay refuses others */

static enum err toy_make(void *context, void **state)
{
    ck_assert_ptr_eq(context, &world);
    ck_assert_ptr_null(toy);
    toy = mem_calloc(1, sizeof(*toy));
    list_init(&toy->waiting);
    toy->due_ns = INT64_MAX;
    made++;
    *state = toy;
    return ERR_OK;
}

static void toy_free(void *state)
{
    ck_assert(list_is_empty(&((struct toy *)state)->waiting));
    mem_free(state);
    toy = NULL;
}

static enum err toy_replay(void *state, int64_t producer_id, struct bytes key, struct bytes value)
{
    struct toy *of = state;

    if (key.size != 1 || value.size < 10)
        return ERR_DAMAGED;
    if (big_endian_load_u16(value.data) != known_version)
        return ERR_UNSUPPORTED_VERSION;
    (producer_id >= 0 ? of->pending : of->registers)[key.data[0]] = (int64_t)big_endian_load_u64(value.data + 2);
    return ERR_OK;
}

static enum err toy_marker(void *state, int64_t producer_id, bool committed)
{
    struct toy *of = state;

    ck_assert_int_ge(producer_id, 0);
    for (int i = 0; i < REGISTERS; i++) {
        if (committed && of->pending[i] != 0)
            of->registers[i] = of->pending[i];
        of->pending[i] = 0;
    }
    return ERR_OK;
}

static void toy_loaded(void *state, struct step *step)
{
    (void)step;
    ((struct toy *)state)->loaded = true;
}

static void toy_unload(void *state, struct step *step, enum err why)
{
    struct toy *of = state;
    struct list_node *node = NULL;

    while ((node = list_take_first(&of->waiting)) != NULL) {
        struct step_op *op = LIST_ENTRY(node, struct step_op, node);

        op->err = why;
        step_answer(step, op);
    }
}

static int64_t toy_due_ns(const void *state)
{
    return ((const struct toy *)state)->due_ns;
}

static enum err write_register(struct step *step, uint32_t which, int64_t value, size_t padding)
{
    uint8_t key = (uint8_t)which;
    uint8_t *bytes = mem_calloc(1, 10 + padding);
    enum err err = ERR_OK;

    big_endian_store_u64(bytes + 2, (uint64_t)value);
    err = step->sink->record(step->sink, step, bytes_of(&key, 1), bytes_of(bytes, 10 + padding));
    mem_free(bytes);
    if (step->err == ERR_OK)
        step->err = err;
    return err;
}

static void toy_tick(void *state, struct step *step)
{
    struct toy *of = state;

    ck_assert_int_le(of->due_ns, step->now_ns);
    if (of->left == 0)
        of->due_ns = INT64_MAX;
    else
        of->left--;
    of->ticks++;
    ck_assert_int_eq(write_register(step, 7, 77, 0), ERR_OK);
}

static const struct state_kind toy_kind = {
    .name = "toy",
    .make = toy_make,
    .free = toy_free,
    .replay = toy_replay,
    .replay_marker = toy_marker,
    .loaded = toy_loaded,
    .unload = toy_unload,
    .due_ns = toy_due_ns,
    .tick = toy_tick,
};

static void toy_done(struct step_op *base)
{
    struct toy_op *op = (struct toy_op *)base;

    op->done++;
    ck_assert_uint_eq(op->done, 1);
}

static void toy_run(void *state, struct step *step, void *argument)
{
    struct toy *of = state;
    struct toy_op *op = argument;
    struct step_producer producer = {op->producer_id, 0};

    list_node_init(&op->op.node);
    if (op->waits) {
        list_add_last(&of->waiting, &op->op.node);
        return;
    }
    if (op->producer_id > 0)
        step->producer = &producer;
    for (uint32_t i = 0; i < op->count; i++)
        if (write_register(step, i, op->value, op->padding) != ERR_OK)
            break;
    if (op->fails != ERR_OK)
        step->err = op->fails;
    op->seen = of->registers[0];
    op->ticks_seen = of->ticks;
    step->producer = NULL;
    step_answer(step, &op->op);
}

static void is_ready(void *context, struct partition *which, enum err err)
{
    (void)context;
    (void)which;
    ck_assert_int_eq(err, ERR_OK);
    ready = true;
}

static void open_all(void)
{
    ready = false;
    ck_assert_int_eq(partition_new(&world.env, &spec, is_ready, NULL, &partition), ERR_OK);
    world_run(&world, &ready);
    ck_assert_int_eq(state_log_new(&logs, &toy_kind, &world, partition, &log_), ERR_OK);
}

static void begin(uint64_t seed)
{
    made = 0;
    known_version = 0;
    world_begin(&world, seed);
    world.log.level = LOG_INFO;
    spec = (struct partition_spec){
        .topic = BYTES_LITERAL("t"), .topic_id = world.spec.topic_id, .index = 0, .leader_epoch = 3, .clean = true};
    log_config_init(&spec.config);
    logs = (struct state_logs){
        .loop = world.loop,
        .clock = &world.sim.clock,
        .rng = &world.sim.rng,
        .log = &world.log,
        .settings = {.linger_ms = -1, .commit_timeout_ms = 5000, .load_bytes = 4096},
    };
    state_logs_init(&logs);
}

static void is_closed(void *context)
{
    (void)context;
    closed = true;
}

static void is_gone(struct partition_close *op)
{
    (void)op;
    gone = true;
}

static void close_log(enum err why)
{
    closed = false;
    state_log_close(log_, why, is_closed, NULL);
}

static void close_partition(void)
{
    static struct partition_close close;

    gone = false;
    close = (struct partition_close){.done = is_gone};
    partition_close(partition, &close);
    world_run(&world, &gone);
}

static void close_all(void)
{
    close_log(ERR_NOT_COORDINATOR);
    close_partition();
    world_run(&world, &closed);
    ck_assert_ptr_null(toy);
}

static void end(void)
{
    close_all();
    ck_assert_uint_eq(world.disk.open_files, 0);
    state_logs_deinit(&logs);
    world_end(&world);
}

static void run_until_active(void)
{
    for (int i = 0; state_log_check(log_) != ERR_OK; i++) {
        ck_assert_int_lt(i, 100000);
        world_pass(&world, 1000000);
    }
    ck_assert(toy->loaded);
}

static void ask(struct toy_op *op)
{
    op->op.done = toy_done;
    op->op.err = state_log_check(log_);
    if (op->op.err == ERR_OK)
        state_log_step(log_, toy_run, op);
    else
        toy_done(&op->op);
}

static enum err ask_and_wait(struct toy_op *op)
{
    ask(op);
    for (int i = 0; op->done == 0; i++) {
        ck_assert_int_lt(i, 100000);
        world_pass(&world, 1000000);
    }
    return op->op.err;
}

static enum err set(uint32_t count, int64_t value)
{
    struct toy_op op = {.count = count, .value = value};

    return ask_and_wait(&op);
}

static void reload(void)
{
    close_all();
    open_all();
    run_until_active();
}

START_TEST(what_is_answered_is_read_again)
{
    begin(1);
    open_all();
    run_until_active();
    ck_assert_int_eq(set(3, 5), ERR_OK);
    ck_assert_int_eq(set(1, 6), ERR_OK);
    ck_assert_int_eq(partition_end_offset(partition), 4);
    reload();
    ck_assert_int_eq(toy->registers[0], 6);
    ck_assert_int_eq(toy->registers[1], 5);
    ck_assert_int_eq(toy->registers[2], 5);
    ck_assert_int_eq(toy->registers[3], 0);
    end();
}
END_TEST

/* The steps of one turn share a batch; answers come in order, none before the watermark has passed what it saw; a
 * question that writes nothing waits for what it saw, and for nothing where nothing is under way. */
START_TEST(one_turn_is_one_batch)
{
    struct toy_op ops[10] = {0};
    struct toy_op read = {0};
    uint64_t writes = 0;

    begin(2);
    spec.config.flush_messages = 1;
    open_all();
    run_until_active();
    ck_assert_int_eq(set(1, 1), ERR_OK);
    writes = world.disk.calls[SIM_FS_WRITE];
    for (int i = 0; i < 10; i++) {
        ops[i] = (struct toy_op){.count = 2, .value = 10 + i};
        ask(&ops[i]);
        ck_assert_uint_eq(ops[i].done, 0);
    }
    ask(&read);
    ck_assert_uint_eq(read.done, 0);
    ck_assert_int_eq(read.seen, 19);
    for (int i = 0; i < 10; i++)
        while (ops[i].done == 0)
            world_pass(&world, 10000);
    ck_assert_int_ge(partition_synced_offset(partition), 21);
    ck_assert_uint_eq(world.disk.calls[SIM_FS_WRITE], writes + 1);
    ck_assert_uint_eq(read.done, 1);
    read = (struct toy_op){0};
    ask(&read);
    ck_assert_uint_eq(read.done, 1);
    end();
}
END_TEST

START_TEST(lingers_as_long_as_is_said)
{
    struct toy_op first = {.count = 1, .value = 1};
    struct toy_op second = {.count = 1, .value = 2};

    begin(3);
    logs.settings.linger_ms = 50;
    open_all();
    run_until_active();
    ask(&first);
    world_pass(&world, 40 * 1000000);
    ask(&second);
    ck_assert_uint_eq(first.done, 0);
    ck_assert_int_eq(partition_end_offset(partition), 0);
    world_pass(&world, 20 * 1000000);
    ck_assert_uint_eq(first.done, 1);
    ck_assert_uint_eq(second.done, 1);
    end();
}
END_TEST

/* A step's records are never in two batches; what does not fit behind others begins a new one. */
START_TEST(steps_are_whole_in_a_batch)
{
    struct toy_op ops[5] = {0};

    begin(4);
    spec.config.max_message_bytes = 4096;
    open_all();
    run_until_active();
    for (int i = 0; i < 5; i++) {
        ops[i] = (struct toy_op){.count = 4, .value = i + 1, .padding = 600};
        ask(&ops[i]);
    }
    world_pass(&world, 100000000);
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_eq(ops[i].done, 1);
        ck_assert_int_eq(ops[i].op.err, ERR_OK);
    }
    ck_assert_int_eq(partition_end_offset(partition), 20);
    reload();
    ck_assert_int_eq(toy->registers[3], 5);
    end();
}
END_TEST

/* A step that is larger than a batch may be fails alone: what others wrote in the same turn stays and is answered, the
 * state is loaded anew. */
START_TEST(a_step_too_large_fails_alone)
{
    struct toy_op before = {.count = 1, .value = 3};
    struct toy_op large = {.count = 8, .value = 4, .padding = 1000};
    struct toy_op waits = {.waits = true};
    struct toy_op after = {.count = 1, .value = 5};

    begin(5);
    spec.config.max_message_bytes = 4096;
    open_all();
    run_until_active();
    ask(&waits);
    ask(&before);
    ask(&large);
    ask(&after);
    ck_assert_uint_eq(large.done, 1);
    ck_assert_int_eq(large.op.err, ERR_UNKNOWN_SERVER_ERROR);
    ck_assert_uint_eq(waits.done, 1);
    ck_assert_int_eq(waits.op.err, ERR_NOT_COORDINATOR);
    ck_assert_int_eq(after.op.err, ERR_NOT_COORDINATOR);
    run_until_active();
    ck_assert_uint_eq(before.done, 1);
    ck_assert_int_eq(before.op.err, ERR_OK);
    ck_assert_uint_eq(made, 2);
    ck_assert_int_eq(toy->registers[0], 3);
    ck_assert_int_eq(toy->registers[1], 0);
    ck_assert_int_eq(set(1, 6), ERR_OK);
    end();
}
END_TEST

static int64_t away_ns(struct toy_op *large)
{
    int64_t before_ns = loop_now_ns(world.loop);

    *large = (struct toy_op){.count = 8, .value = 4, .padding = 1000};
    ask(large);
    run_until_active();
    return loop_now_ns(world.loop) - before_ns;
}

/* Failures one after another are tried again ever later; whoever has served long since then is back at once, though it
 * had nothing to write. */
START_TEST(failures_long_ago_are_forgotten)
{
    struct toy_op large;
    int64_t first_ns = 0;
    int64_t fifth_ns = 0;

    begin(5);
    spec.config.max_message_bytes = 4096;
    open_all();
    run_until_active();
    first_ns = away_ns(&large);
    for (int i = 1; i < 5; i++)
        fifth_ns = away_ns(&large);
    ck_assert_int_ge(fifth_ns, first_ns + 2 * STATE_LOG_RETRY_MS_MIN * INT64_C(1000000));
    for (int i = 0; i < STATE_LOG_RETRY_MS_MAX; i++)
        world_pass(&world, 1000000);
    ck_assert_int_lt(away_ns(&large), first_ns + STATE_LOG_RETRY_MS_MIN * INT64_C(1000000));
    end();
}
END_TEST

/* An append that fails: all that wait are told, as groups.md 1.3 maps it; afterwards what the log says counts. */
START_TEST(a_failed_append_loads_anew)
{
    struct toy_op ops[3] = {0};

    begin(6);
    open_all();
    run_until_active();
    ck_assert_int_eq(set(1, 1), ERR_OK);
    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_WRITE, 1, ERR_NO_SPACE);
    for (int i = 0; i < 3; i++) {
        ops[i] = (struct toy_op){.count = 1, .value = 10 + i};
        ask(&ops[i]);
    }
    world_pass(&world, 100000);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(ops[i].done, 1);
        ck_assert_int_eq(ops[i].op.err, ERR_NOT_COORDINATOR);
    }
    run_until_active();
    ck_assert_uint_eq(made, 2);
    ck_assert_int_eq(toy->registers[0], 1);
    ck_assert_int_eq(set(1, 2), ERR_OK);
    end();
}
END_TEST

/* What is not committed in time is answered so; it may still come. */
START_TEST(late_commits_are_told)
{
    struct toy_op op = {.count = 1, .value = 9};

    begin(7);
    logs.settings.linger_ms = 10000;
    open_all();
    run_until_active();
    ask(&op);
    world_pass(&world, INT64_C(4990) * 1000000);
    ck_assert_uint_eq(op.done, 0);
    world_pass(&world, 20 * 1000000);
    ck_assert_uint_eq(op.done, 1);
    ck_assert_int_eq(op.op.err, ERR_COORDINATOR_NOT_AVAILABLE);
    world_pass(&world, INT64_C(6000) * 1000000);
    ck_assert_int_eq(partition_end_offset(partition), 1);
    ck_assert_int_eq(toy->registers[0], 9);
    ck_assert_int_eq(state_log_check(log_), ERR_OK);
    end();
}
END_TEST

/* A value that this build does not know fails the load, which is tried again; nothing is served meanwhile. */
START_TEST(unknown_versions_fail_the_load)
{
    begin(8);
    open_all();
    run_until_active();
    ck_assert_int_eq(set(2, 4), ERR_OK);
    close_all();
    known_version = 1;
    world.lines = 0;
    open_all();
    world_pass(&world, INT64_C(3000) * 1000000);
    ck_assert_int_ne(state_log_check(log_), ERR_OK);
    ck_assert_uint_gt(world.lines, 0);
    ck_assert_uint_gt(made, 3);
    known_version = 0;
    run_until_active();
    ck_assert_int_eq(toy->registers[1], 4);
    end();
}
END_TEST

/* The time that a state asks for comes, and what it writes then counts. */
START_TEST(time_passes)
{
    begin(9);
    open_all();
    run_until_active();
    toy->due_ns = world.sim.mono_ns + 30 * 1000000;
    ck_assert_int_eq(set(1, 1), ERR_OK); /* the timer is looked at after each step */
    ck_assert_int_eq(toy->registers[7], 0);
    world_pass(&world, 40 * 1000000);
    ck_assert_int_eq(toy->registers[7], 77);
    reload();
    ck_assert_int_eq(toy->registers[7], 77);
    end();
}
END_TEST

/* Who asks finds what has become due by then: a loop has its sockets and its mail before its timers, and a session that
 * is over must not keep a group from being deleted by as much. Once a turn at most: who asks often gets no state to do
 * more of what it does a piece at a time. */
START_TEST(what_is_due_comes_before_who_asks)
{
    struct toy_op early = {.count = 1, .value = 1}, due = {.count = 1, .value = 2},
                  same_turn = {.count = 1, .value = 3};

    begin(10);
    open_all();
    run_until_active();
    toy->due_ns = world.sim.mono_ns + 30 * 1000000;
    world.sim.mono_ns = toy->due_ns - 1; /* no turn of the loop in between */
    ask(&early);
    ck_assert_uint_eq(early.ticks_seen, 0);
    world.sim.mono_ns = toy->due_ns;
    ask(&due);
    ck_assert_uint_eq(due.ticks_seen, 1);
    toy->due_ns = world.sim.mono_ns; /* more of it */
    ask(&same_turn);
    ck_assert_uint_eq(same_turn.ticks_seen, 1);
    world_pass(&world, 10 * 1000000);
    ck_assert_uint_eq(toy->ticks, 2);
    ck_assert_uint_eq(early.done + due.done + same_turn.done, 3);
    ck_assert_int_eq(toy->registers[7], 77);
    end();
}
END_TEST

/* A loop that slept hears everybody first: what waits in its sockets, in those of another loop, or in a client that
 * comes back may have come in time. What is overdue waits once for as long as it is late, STATE_LOG_PUT_OFF_NS_MAX at
 * most, and what a tick leaves of that for the next waits no more. */
START_TEST(who_slept_hears_everybody_first)
{
    struct toy_op op = {.count = 1, .value = 1}, more = op;

    begin(11);
    open_all();
    run_until_active();
    toy->due_ns = world.sim.mono_ns + 1;
    world.sim.mono_ns += 2 * STATE_LOG_PUNCTUAL_NS;
    ask(&op);
    ck_assert_uint_eq(op.ticks_seen, 0);
    world_pass(&world, STATE_LOG_PUNCTUAL_NS);
    ask(&more);
    ck_assert_uint_eq(more.ticks_seen, 0);
    ck_assert_uint_eq(toy->ticks, 0);
    world_pass(&world, STATE_LOG_PUNCTUAL_NS);
    ck_assert_uint_eq(toy->ticks, 1);

    toy->due_ns = world.sim.mono_ns + 1;
    toy->left = 3;
    world.sim.mono_ns += 10 * (int64_t)STATE_LOG_PUT_OFF_NS_MAX;
    op.done = more.done = 0;
    ask(&op);
    world_pass(&world, STATE_LOG_PUT_OFF_NS_MAX - 1000000);
    ck_assert_uint_eq(toy->ticks, 1);
    world_pass(&world, 10 * 1000000);
    ck_assert_uint_eq(toy->ticks, 5);
    end();
}
END_TEST

/* Who was heard is due later: nothing has ticked when the loop sleeps again, and then all are heard again first. */
START_TEST(who_sleeps_twice_hears_everybody_twice)
{
    struct toy_op renewed[] = {{.count = 1, .value = 1}, {.count = 1, .value = 1}};
    struct toy_op asked[] = {{.count = 1, .value = 1}, {.count = 1, .value = 1}};

    begin(12);
    open_all();
    run_until_active();
    for (int i = 0; i < 2; i++) {
        toy->due_ns = world.sim.mono_ns + 2 * (int64_t)STATE_LOG_PUT_OFF_NS_MAX;
        ask(&renewed[i]);
        world.sim.mono_ns += 10 * (int64_t)STATE_LOG_PUT_OFF_NS_MAX;
        ask(&asked[i]);
        ck_assert_uint_eq(asked[i].ticks_seen, 0);
        world_pass(&world, 1000000);
        ck_assert_uint_eq(toy->ticks, 0);
    }
    world_pass(&world, STATE_LOG_PUT_OFF_NS_MAX);
    ck_assert_uint_eq(toy->ticks, 1);
    end();
}
END_TEST

/* Somebody is silent, and the loop sleeps again before all are heard: they wait again, STATE_LOG_PUT_OFFS_MAX times. */
START_TEST(a_loop_that_is_always_late_ends_what_is_due)
{
    struct toy_op op = {.count = 1, .value = 1};

    begin(14);
    open_all();
    run_until_active();
    toy->due_ns = world.sim.mono_ns + 1;
    ask(&op);
    for (int i = 0; i < STATE_LOG_PUT_OFFS_MAX; i++) {
        world.sim.mono_ns += 10 * (int64_t)STATE_LOG_PUT_OFF_NS_MAX;
        world_pass(&world, 1000000);
        ck_assert_uint_eq(toy->ticks, 0);
    }
    world.sim.mono_ns += 10 * (int64_t)STATE_LOG_PUT_OFF_NS_MAX;
    world_pass(&world, 1000000);
    ck_assert_uint_eq(toy->ticks, 1);
    end();
}
END_TEST

/* What comes due while everybody is being heard waits as well, whoever asks a moment after. */
START_TEST(who_asks_meanwhile_ends_nothing)
{
    struct toy_op op = {.count = 1, .value = 1}, more = op;

    begin(13);
    open_all();
    run_until_active();
    toy->due_ns = world.sim.mono_ns + 1;
    ask(&op);
    world.sim.mono_ns += 10 * (int64_t)STATE_LOG_PUT_OFF_NS_MAX;
    world_pass(&world, 1000000);
    toy->due_ns = world.sim.mono_ns + 100000000;
    op.done = 0;
    ask(&op);
    world_pass(&world, 100000000 + STATE_LOG_PUNCTUAL_NS / 2);
    ask(&more);
    ck_assert_uint_eq(more.ticks_seen, 0);
    ck_assert_uint_eq(toy->ticks, 0);
    world_pass(&world, STATE_LOG_PUT_OFF_NS_MAX);
    ck_assert_uint_eq(toy->ticks, 1);
    end();
}
END_TEST

/* A state that is due once, or again in the very next turn, for ever, and notes when it had its tick. */
struct alarm {
    struct state_log *log;
    bool restless;
    int64_t due_ns, ticked_ns;
};

static enum err alarm_make(void *context, void **state)
{
    *state = context;
    return ERR_OK;
}

static void alarm_free(void *state)
{
    (void)state;
}

static enum err alarm_replay(void *state, int64_t producer_id, struct bytes key, struct bytes value)
{
    (void)state, (void)producer_id, (void)key, (void)value;
    return ERR_OK;
}

static void alarm_step(void *state, struct step *step)
{
    (void)state, (void)step;
}

static void alarm_unload(void *state, struct step *step, enum err why)
{
    (void)state, (void)step, (void)why;
}

static int64_t alarm_due_ns(const void *state)
{
    return ((const struct alarm *)state)->due_ns;
}

static void alarm_tick(void *state, struct step *step)
{
    struct alarm *alarm = state;

    ck_assert_int_le(alarm->due_ns, step->now_ns);
    alarm->due_ns = alarm->restless ? step->now_ns + 1 : INT64_MAX;
    alarm->ticked_ns = step->now_ns;
}

static const struct state_kind alarm_kind = {
    .name = "alarm",
    .make = alarm_make,
    .free = alarm_free,
    .replay = alarm_replay,
    .loaded = alarm_step,
    .unload = alarm_unload,
    .due_ns = alarm_due_ns,
    .tick = alarm_tick,
};

static void open_alarms(struct alarm *alarms, int count, struct alarm as)
{
    for (int i = 0; i < count; i++) {
        alarms[i] = as;
        ck_assert_int_eq(state_log_new(&logs, &alarm_kind, &alarms[i], partition, &alarms[i].log), ERR_OK);
    }
}

static void close_alarms(const struct alarm *alarms, int count)
{
    for (int i = 0; i < count; i++) {
        closed = false;
        state_log_close(alarms[i].log, ERR_NOT_COORDINATOR, is_closed, NULL);
        world_run(&world, &closed);
    }
}

/* Rule: of the logs of one loop one has its tick in a turn; the others come with the next turns, each once. */
START_TEST(ticks_take_turns)
{
    enum { ALARMS = 50 };
    static struct alarm alarms[ALARMS];
    int64_t due_ns = 0;

    begin(12);
    open_all();
    run_until_active();
    due_ns = world.sim.mono_ns + INT64_C(1000000000);
    open_alarms(alarms, ALARMS, (struct alarm){.due_ns = due_ns});
    world_pass(&world, INT64_C(999000000));
    for (int i = 0; i < ALARMS; i++)
        ck_assert_int_eq(state_log_check(alarms[i].log), ERR_OK);
    world_pass(&world, INT64_C(2000000));
    for (int i = 0; i < ALARMS; i++) {
        ck_assert_int_ge(alarms[i].ticked_ns, due_ns);
        for (int j = 0; j < i; j++)
            ck_assert_int_ne(alarms[i].ticked_ns, alarms[j].ticked_ns);
    }
    close_alarms(alarms, ALARMS);
    end();
}
END_TEST

static void nothing(void *state, struct step *step, void *argument)
{
    (void)state, (void)step, (void)argument;
}

/* The world's loop, but for timers, which fire as a reactor's do: the first of a heap, again and again, in a turn that
 * has one time. */
struct turning {
    struct loop loop;
    struct timer_heap heap;
    int64_t now_ns, firing_ns;
};

static struct turning turning;

static void turning_post(struct loop *loop, struct loop_task *task)
{
    (void)loop;
    loop_post(world.loop, task);
}

static void turning_defer(struct loop *loop, struct loop_task *task)
{
    (void)loop;
    loop_defer(world.loop, task);
}

static void turning_submit(struct loop *loop, struct loop_job *job)
{
    (void)loop;
    loop_submit(world.loop, job);
}

static void turning_start(struct loop *loop, struct loop_timer *timer, int64_t due_ns)
{
    (void)loop;
    timer_heap_start(&turning.heap, timer, due_ns > turning.firing_ns ? due_ns : turning.firing_ns + 1);
}

static void turning_stop(struct loop *loop, struct loop_timer *timer)
{
    (void)loop;
    timer_heap_stop(&turning.heap, timer);
}

static int64_t turning_now_ns(struct loop *loop)
{
    (void)loop;
    return turning.now_ns;
}

static const struct loop_ops turning_ops = {.post = turning_post,
                                            .defer = turning_defer,
                                            .submit = turning_submit,
                                            .timer_start = turning_start,
                                            .timer_stop = turning_stop,
                                            .now_ns = turning_now_ns};

static void turn(int64_t now_ns)
{
    struct loop_timer *first = NULL;

    turning.now_ns = now_ns;
    turning.firing_ns = now_ns;
    while ((first = timer_heap_first(&turning.heap)) != NULL && first->due_ns <= now_ns) {
        timer_heap_stop(&turning.heap, first);
        first->fired(first);
    }
    turning.firing_ns = INT64_MIN;
}

/* Rule: who is due again at once, as while expressions are resolved or groups are listed, comes behind whoever waits,
 * whether it is asked in each turn besides or not. */
START_TEST(nobody_is_kept_from_a_turn)
{
    enum { RESTLESS = 3, TURNS = 3 * RESTLESS };
    static struct alarm restless[RESTLESS];
    int64_t now_ns = 0;

    begin(13);
    turning = (struct turning){.loop = *world.loop, .firing_ns = INT64_MIN};
    turning.loop.ops = &turning_ops;
    ck_assert_int_eq(timer_heap_init(&turning.heap), ERR_OK);
    logs.loop = &turning.loop;
    open_all();
    run_until_active();
    open_alarms(restless, RESTLESS, (struct alarm){.due_ns = INT64_MAX, .restless = true});
    world_pass(&world, 999 * 1000000);
    now_ns = turning.now_ns = world.sim.mono_ns;
    for (int i = 0; i < RESTLESS; i++) {
        restless[i].due_ns = now_ns + 1;
        state_log_step(restless[i].log, nothing, NULL); /* arms its timer */
    }
    toy->due_ns = now_ns + 10000;
    state_log_step(log_, nothing, NULL);
    for (int i = 0; i < TURNS; i++) {
        now_ns += 5000;
        turning.now_ns = now_ns;
        ck_assert_int_eq(state_log_check(restless[0].log), ERR_OK);
        turn(now_ns);
    }
    ck_assert_uint_eq(toy->ticks, 1);
    for (int i = 0; i < RESTLESS; i++)
        ck_assert_int_ge(restless[i].ticked_ns, now_ns - 4 * 5000);
    close_alarms(restless, RESTLESS);
    end();
    timer_heap_deinit(&turning.heap);
}
END_TEST

/* Rule: of those that are due in a turn, whoever asks has its tick at once, but for more than
 * STATE_LOG_ASKED_TICKS_MAX: the others' come by their timers, with the next turns. */
START_TEST(so_many_tick_because_somebody_asks)
{
    enum { ALARMS = STATE_LOG_ASKED_TICKS_MAX + 3 };
    static struct alarm alarms[ALARMS];
    int64_t due_ns = 0;
    int ticked = 0;

    begin(14);
    turning = (struct turning){.loop = *world.loop, .firing_ns = INT64_MIN};
    turning.loop.ops = &turning_ops;
    ck_assert_int_eq(timer_heap_init(&turning.heap), ERR_OK);
    logs.loop = &turning.loop;
    open_all();
    run_until_active();
    open_alarms(alarms, ALARMS, (struct alarm){.due_ns = INT64_MAX});
    world_pass(&world, 999 * 1000000);
    turning.now_ns = world.sim.mono_ns;
    due_ns = turning.now_ns + 1000;
    for (int i = 0; i < ALARMS; i++) {
        alarms[i].due_ns = due_ns;
        state_log_step(alarms[i].log, nothing, NULL); /* arms its timer */
    }
    turning.now_ns = due_ns;
    for (int i = 0; i < ALARMS; i++) {
        ck_assert_int_eq(state_log_check(alarms[i].log), ERR_OK);
        ticked += alarms[i].ticked_ns == due_ns;
    }
    ck_assert_int_eq(ticked, STATE_LOG_ASKED_TICKS_MAX);
    for (int i = 1; i < ALARMS; i++)
        turn(due_ns + i);
    for (int i = 0; i < ALARMS; i++)
        ck_assert_int_ge(alarms[i].ticked_ns, due_ns);
    close_alarms(alarms, ALARMS);
    end();
    timer_heap_deinit(&turning.heap);
}
END_TEST

struct produced {
    struct partition_append op;
    bool done;
};

static void was_produced(struct partition_append *op)
{
    LIST_ENTRY(op, struct produced, op)->done = true;
}

static void put(uint8_t *batch, size_t size)
{
    struct produced produced = {.op = {.batch = batch,
                                       .size = size,
                                       .origin = LOG_ORIGIN_COORDINATOR,
                                       .acks = -1,
                                       .current_leader_epoch = -1,
                                       .done = was_produced}};

    partition_append(partition, &produced.op);
    world_run(&world, &produced.done);
    ck_assert_int_eq(produced.op.err, ERR_OK);
}

static void put_transactional(int64_t producer_id, uint8_t which, int64_t value, enum codec codec)
{
    struct batch_builder builder;
    struct batch_spec of;
    uint8_t bytes[10] = {0};
    uint8_t *batch = NULL;
    size_t size = 0;

    batch_spec_init(&of);
    of.codec = codec;
    of.transactional = producer_id >= 0;
    of.producer_id = producer_id;
    of.producer_epoch = producer_id >= 0 ? 0 : -1;
    batch_builder_init(&builder, &of);
    big_endian_store_u64(bytes + 2, (uint64_t)value);
    ck_assert_int_eq(batch_builder_append(&builder, 1, bytes_of(&which, 1), bytes_of(bytes, 10), NULL, 0), ERR_OK);
    ck_assert_int_eq(batch_builder_finish(&builder, &batch, &size), ERR_OK);
    put(batch, size);
    batch_builder_deinit(&builder);
}

/* Records of a transaction count with its commit marker, and go with its abort marker; compressed batches are opened.
 */
START_TEST(transactions_and_codecs_are_replayed)
{
    size_t size = 0;
    uint8_t *marker = NULL;

    begin(10);
    open_all();
    run_until_active();
    put_transactional(5, 0, 50, CODEC_NONE);
    put_transactional(-1, 1, 51, CODEC_ZSTD);
    marker = make_marker(5, 0, true, 0, &size);
    put(marker, size);
    mem_free(marker);
    put_transactional(6, 0, 60, CODEC_LZ4);
    marker = make_marker(6, 0, false, 0, &size);
    put(marker, size);
    mem_free(marker);
    put_transactional(7, 2, 70, CODEC_NONE);
    reload();
    ck_assert_int_eq(toy->registers[0], 50);
    ck_assert_int_eq(toy->registers[1], 51);
    ck_assert_int_eq(toy->registers[2], 0);
    ck_assert_int_eq(toy->pending[2], 70);
    end();
}
END_TEST

/* A step in a transaction has a batch of its own, of that producer; what it wrote counts with the marker. */
START_TEST(steps_in_transactions)
{
    struct toy_op ops[3] = {
        {.count = 1, .value = 1}, {.count = 1, .value = 2, .producer_id = 9}, {.count = 1, .value = 3}};
    size_t size = 0;
    uint8_t *marker = NULL;

    begin(14);
    open_all();
    run_until_active();
    for (int i = 0; i < 3; i++)
        ask(&ops[i]);
    ck_assert_int_eq(ask_and_wait(&(struct toy_op){0}), ERR_OK);
    ck_assert_int_eq(toy->registers[0], 3);
    ck_assert_int_eq(toy->pending[0], 2);
    reload();
    ck_assert_int_eq(toy->registers[0], 3);
    ck_assert_int_eq(toy->pending[0], 2);
    marker = make_marker(9, 0, true, 0, &size);
    put(marker, size);
    mem_free(marker);
    reload();
    ck_assert_int_eq(toy->registers[0], 2);
    end();
}
END_TEST

/* More than a turn and a piece of records, with compression; closing in the middle of a load ends it. */
START_TEST(a_long_log_is_loaded_in_turns)
{
    static struct toy_op ops[1200];

    begin(11);
    logs.settings.codec = CODEC_ZSTD;
    open_all();
    run_until_active();
    for (int i = 0; i < 1200; i++) {
        ops[i] = (struct toy_op){.count = 1, .value = i, .padding = 1000};
        ask(&ops[i]);
        if (i % 10 == 0)
            world_pass(&world, 100000);
    }
    world_pass(&world, 100000000);
    for (int i = 0; i < 1200; i++)
        ck_assert_int_eq(ops[i].op.err, ERR_OK);
    reload();
    ck_assert_int_eq(toy->registers[0], 1199);
    for (int i = 0; i < 20; i++) {
        close_all();
        open_all();
        for (int j = 0; j < i; j++)
            world_pass(&world, 1000);
    }
    run_until_active();
    ck_assert_int_eq(toy->registers[0], 1199);
    end();
}
END_TEST

/* A close: who waits hears why, what is written is still answered. */
START_TEST(closing_answers_everybody)
{
    struct toy_op waits = {.waits = true};
    struct toy_op write = {.count = 1, .value = 8};
    struct toy_op late = {.count = 1, .value = 9};

    begin(12);
    open_all();
    run_until_active();
    ask(&waits);
    ask(&write);
    close_log(ERR_COORDINATOR_NOT_AVAILABLE);
    ask(&late);
    ck_assert_int_eq(waits.op.err, ERR_COORDINATOR_NOT_AVAILABLE);
    ck_assert_int_eq(late.op.err, ERR_COORDINATOR_NOT_AVAILABLE);
    ck_assert_uint_eq(write.done, 0);
    world_run(&world, &closed);
    ck_assert_int_eq(write.op.err, ERR_OK);
    close_partition();
    open_all();
    run_until_active();
    ck_assert_int_eq(toy->registers[0], 8);
    end();
}
END_TEST

/* The partition goes under it: what is under way is answered, in every order of events. */
START_TEST(the_partition_goes)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct toy_op ops[20] = {0};

        begin(100 + seed);
        spec.config.flush_messages = 1;
        open_all();
        run_until_active();
        for (int i = 0; i < 20; i++) {
            ops[i] = (struct toy_op){.count = 1, .value = i + 1};
            ask(&ops[i]);
            if (i % 4 == (int)(seed % 4))
                world_pass(&world, (int64_t)(seed * 1000));
        }
        end();
        for (int i = 0; i < 20; i++)
            ck_assert_uint_eq(ops[i].done, 1);
    }
}
END_TEST

/* Over its bound of bytes on their way it asks clients to come again, and takes no more. */
START_TEST(a_bound_of_pending_bytes)
{
    static struct toy_op ops[OPS_MAX];
    uint32_t taken = 0;

    begin(13);
    logs.settings.linger_ms = 1000;
    open_all();
    run_until_active();
    while (state_log_check(log_) == ERR_OK) {
        ck_assert_uint_lt(taken, OPS_MAX);
        ops[taken] = (struct toy_op){.count = 1, .value = taken, .padding = 1000000};
        ask(&ops[taken++]);
    }
    ck_assert_int_eq(state_log_check(log_), ERR_COORDINATOR_LOAD_IN_PROGRESS);
    ck_assert_uint_ge(taken, STATE_LOG_PENDING_BYTES_MAX / 1010000);
    ck_assert_uint_le(taken, STATE_LOG_PENDING_BYTES_MAX / 1000000 + 1);
    world_pass(&world, 1500 * INT64_C(1000000));
    ck_assert_int_eq(state_log_check(log_), ERR_OK);
    for (uint32_t i = 0; i < taken; i++)
        ck_assert_int_eq(ops[i].op.err, ERR_OK);
    end();
}
END_TEST

/* Failure sweep: the k-th call to the disk dies (and the power goes or the process is killed), for each k: what was
 * answered is there afterwards, in order; nothing that nobody asked for is. */
static void die_at(uint64_t k, bool power_cut, bool *struck)
{
    struct toy_op ops[12] = {0};
    int64_t answered = 0;

    begin(1000 + k);
    spec.config.flush_messages = 1;
    open_all();
    run_until_active();
    sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, k, ERR_IO);
    for (int i = 0; i < 12; i++) {
        ops[i] = (struct toy_op){.count = REGISTERS, .value = i + 1};
        ask(&ops[i]);
        if (i % 3 == 2)
            world_pass(&world, 20 * 1000000);
    }
    world_pass(&world, 200 * 1000000);
    for (int i = 0; i < 12; i++)
        if (ops[i].done > 0 && ops[i].op.err == ERR_OK)
            answered = i + 1;
    *struck = sim_fs_fault_struck(&world.disk);
    close_all();
    if (power_cut)
        sim_fs_cut(&world.disk);
    else
        sim_fs_kill(&world.disk);
    sim_fs_forget_files(&world.disk);
    world.storage_failures = 0;
    spec.clean = false;
    open_all();
    run_until_active();
    ck_assert_int_ge(toy->registers[0], answered);
    ck_assert_int_le(toy->registers[0], 12);
    for (int i = 1; i < REGISTERS; i++) /* steps are whole */
        ck_assert_int_eq(toy->registers[i], toy->registers[0]);
    ck_assert_int_eq(set(1, 100), ERR_OK);
    end();
    spec.clean = true;
}

START_TEST(whatever_dies)
{
    bool struck = true;
    uint64_t k = 1;

    for (; struck; k++) {
        bool other = false;

        ck_assert_uint_lt(k, 1000);
        die_at(k, false, &struck);
        die_at(k, true, &other);
    }
    ck_assert_uint_gt(k, 10);
}
END_TEST

/* A call that fails once, for each: answers are true, and all goes on unless the directory failed for good. */
START_TEST(whatever_fails_once)
{
    for (uint64_t k = 1; k < 200; k++) {
        struct toy_op ops[12] = {0};
        int64_t answered = 0;
        bool struck = false;

        begin(2000 + k);
        open_all();
        run_until_active();
        sim_fs_set_fault(&world.disk, SIM_FS_SHORT, SIM_FS_WRITE, k, ERR_NO_SPACE);
        for (int i = 0; i < 12; i++) {
            ops[i] = (struct toy_op){.count = REGISTERS, .value = i + 1};
            ask(&ops[i]);
            if (i % 3 == 2)
                world_pass(&world, 20 * 1000000);
        }
        struck = sim_fs_fault_struck(&world.disk);
        run_until_active();
        for (int i = 0; i < 12; i++) {
            ck_assert_uint_eq(ops[i].done, 1);
            if (ops[i].op.err == ERR_OK)
                answered = i + 1;
        }
        ck_assert_int_eq(toy->registers[0], answered);
        reload();
        ck_assert_int_eq(toy->registers[0], answered);
        end();
        if (!struck)
            break;
    }
}
END_TEST

RUN_TESTS("state_log", what_is_answered_is_read_again, one_turn_is_one_batch, lingers_as_long_as_is_said,
          steps_are_whole_in_a_batch, a_step_too_large_fails_alone, failures_long_ago_are_forgotten,
          a_failed_append_loads_anew, late_commits_are_told, unknown_versions_fail_the_load, time_passes,
          ticks_take_turns, nobody_is_kept_from_a_turn, so_many_tick_because_somebody_asks,
          what_is_due_comes_before_who_asks, who_slept_hears_everybody_first, who_sleeps_twice_hears_everybody_twice,
          a_loop_that_is_always_late_ends_what_is_due, who_asks_meanwhile_ends_nothing,
          transactions_and_codecs_are_replayed, steps_in_transactions, a_long_log_is_loaded_in_turns,
          closing_answers_everybody, the_partition_goes, a_bound_of_pending_bytes, whatever_dies, whatever_fails_once)
