/*
 * Rule: a loop loads STATE_LOG_LOADS_MAX logs at a time and no more, the others in their turn, in the order in which
 * they came; what fails is tried again at once, then after STATE_LOG_RETRY_MS_MIN, twice that each time, up to
 * STATE_LOG_RETRY_MS_MAX; a log that is closed while it waits for its turn is never loaded. What is replayed begins
 * with the log's start.
 */
#include <check.h>

#include "base/mem.h"
#include "coordinator/state_log.h"
#include "partition/run_tests.h"
#include "partition/world.h"

enum { LOGS = 6, RECORDS = 64, VALUE_BYTES = 1024, LOAD_BYTES = 4096, TRIES_MAX = 16, TURNS_MAX = 100000 };

#define NS_PER_MS INT64_C(1000000)

static struct world world;
static struct partition *partition;
static struct state_logs logs;
static bool ready, gone;
static uint32_t closed_count;

/* A state that only counts, and refuses records where that is wanted. */
struct counted {
    bool loaded;
    uint32_t records;
};

static uint32_t loading, loading_most;
static struct state_log *began[LOGS * 2]; /* in that order */
static uint32_t began_count;
static int64_t made_ns[TRIES_MAX];
static uint32_t made_count;
static enum err refused;
static uint32_t expected; /* records */

static enum err make(void *context, void **state)
{
    struct counted *made = mem_calloc(1, sizeof(*made));

    ck_assert_ptr_nonnull(made);
    loading++;
    if (loading > loading_most)
        loading_most = loading;
    if (began_count < LOGS * 2)
        began[began_count++] = context == NULL ? NULL : *(struct state_log **)context;
    if (made_count < TRIES_MAX)
        made_ns[made_count++] = loop_now_ns(world.loop);
    *state = made;
    return ERR_OK;
}

static void free_state(void *state)
{
    loading -= !((struct counted *)state)->loaded;
    mem_free(state);
}

static enum err replay(void *state, int64_t producer_id, struct bytes key, struct bytes value)
{
    (void)producer_id;
    (void)key;
    (void)value;
    ((struct counted *)state)->records++;
    return refused;
}

static enum err replay_marker(void *state, int64_t producer_id, bool committed)
{
    (void)state;
    (void)producer_id;
    (void)committed;
    return ERR_OK;
}

static void loaded(void *state, struct step *step)
{
    struct counted *counted = state;

    (void)step;
    ck_assert_uint_eq(counted->records, expected);
    counted->loaded = true;
    loading--;
}

static void unload(void *state, struct step *step, enum err why)
{
    (void)state;
    (void)step;
    (void)why;
}

static int64_t due_ns(const void *state)
{
    (void)state;
    return INT64_MAX;
}

static void tick(void *state, struct step *step)
{
    (void)state;
    (void)step;
    ck_abort_msg("nothing is due");
}

static const struct state_kind kind = {.name = "counted",
                                       .make = make,
                                       .free = free_state,
                                       .replay = replay,
                                       .replay_marker = replay_marker,
                                       .loaded = loaded,
                                       .unload = unload,
                                       .due_ns = due_ns,
                                       .tick = tick};

static void is_ready(void *context, struct partition *which, enum err err)
{
    (void)context;
    (void)which;
    ck_assert_int_eq(err, ERR_OK);
    ready = true;
}

static void is_gone(struct partition_close *op)
{
    (void)op;
    gone = true;
}

static void is_closed(void *context)
{
    (void)context;
    closed_count++;
}

static void was_appended(struct partition_append *op)
{
    ck_assert_int_eq(op->err, ERR_OK);
    ready = true;
}

/* A log of more than one piece. */
static void append(void)
{
    struct batch_make batch = {.record_count = RECORDS / 4, .value_bytes = VALUE_BYTES};
    struct partition_append op = {.done = was_appended, .acks = 1, .current_leader_epoch = -1};
    size_t size = 0;
    uint8_t *bytes = NULL;

    for (int i = 0; i < 4; i++) {
        bytes = make_batch(&batch, &size);
        op.batch = bytes;
        op.size = size;
        ready = false;
        partition_append(partition, &op);
        world_run(&world, &ready);
        mem_free(bytes);
    }
}

static void begin(uint64_t seed)
{
    struct partition_spec spec = {.topic = BYTES_LITERAL("t"), .index = 0, .leader_epoch = 3, .clean = true};

    loading = loading_most = began_count = made_count = closed_count = 0;
    refused = ERR_OK;
    expected = RECORDS;
    world_begin(&world, seed);
    spec.topic_id = world.spec.topic_id;
    log_config_init(&spec.config);
    logs = (struct state_logs){
        .loop = world.loop,
        .clock = &world.sim.clock,
        .rng = &world.sim.rng,
        .log = &world.log,
        .settings = {.linger_ms = -1, .commit_timeout_ms = 5000, .load_bytes = LOAD_BYTES},
    };
    state_logs_init(&logs);
    ready = false;
    ck_assert_int_eq(partition_new(&world.env, &spec, is_ready, NULL, &partition), ERR_OK);
    world_run(&world, &ready);
    append();
}

static void end(uint32_t closed)
{
    struct partition_close close = {.done = is_gone};

    for (uint32_t i = 0; closed_count < closed; i++) {
        ck_assert_uint_lt(i, TURNS_MAX);
        world_pass(&world, NS_PER_MS);
    }
    ck_assert_uint_eq(closed_count, closed);
    ck_assert_uint_eq(loading, 0);
    gone = false;
    partition_close(partition, &close);
    world_run(&world, &gone);
    state_logs_deinit(&logs);
    world_end(&world);
}

START_TEST(so_many_at_a_time)
{
    for (uint32_t count = STATE_LOG_LOADS_MAX - 1; count <= LOGS; count++) {
        struct state_log *all[LOGS] = {NULL};

        begin(count);
        for (uint32_t i = 0; i < count; i++)
            ck_assert_int_eq(state_log_new(&logs, &kind, &all[i], partition, &all[i]), ERR_OK);
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t turns = 0; state_log_check(all[i]) != ERR_OK; turns++) {
                ck_assert_int_eq(state_log_check(all[i]), ERR_COORDINATOR_LOAD_IN_PROGRESS);
                ck_assert_uint_lt(turns, TURNS_MAX);
                world_pass(&world, NS_PER_MS / 100);
            }
        ck_assert_uint_eq(loading_most, count < STATE_LOG_LOADS_MAX ? count : STATE_LOG_LOADS_MAX);
        ck_assert_uint_eq(began_count, count);
        for (uint32_t i = 0; i < count; i++)
            ck_assert_ptr_eq(began[i], all[i]);
        for (uint32_t i = 0; i < count; i++)
            state_log_close(all[i], ERR_NOT_COORDINATOR, is_closed, NULL);
        end(count);
    }
}
END_TEST

/* Its turn goes to the next one. */
START_TEST(closed_before_its_turn)
{
    struct state_log *all[LOGS] = {NULL};

    begin(20);
    for (uint32_t i = 0; i < LOGS; i++)
        ck_assert_int_eq(state_log_new(&logs, &kind, &all[i], partition, &all[i]), ERR_OK);
    ck_assert_uint_eq(began_count, STATE_LOG_LOADS_MAX);
    for (uint32_t i = STATE_LOG_LOADS_MAX; i < LOGS - 1; i++)
        state_log_close(all[i], ERR_NOT_COORDINATOR, is_closed, NULL);
    ck_assert_uint_eq(closed_count, LOGS - 1 - STATE_LOG_LOADS_MAX);
    for (uint32_t turns = 0; state_log_check(all[LOGS - 1]) != ERR_OK; turns++) {
        ck_assert_uint_lt(turns, TURNS_MAX);
        world_pass(&world, NS_PER_MS);
    }
    ck_assert_uint_eq(began_count, STATE_LOG_LOADS_MAX + 1);
    ck_assert_ptr_eq(began[STATE_LOG_LOADS_MAX], all[LOGS - 1]);
    for (uint32_t i = 0; i < STATE_LOG_LOADS_MAX; i++)
        state_log_close(all[i], ERR_NOT_COORDINATOR, is_closed, NULL);
    state_log_close(all[LOGS - 1], ERR_NOT_COORDINATOR, is_closed, NULL);
    end(LOGS);
}
END_TEST

START_TEST(tried_again_ever_less_often)
{
    struct state_log *log = NULL;
    int64_t wait_ms = 0;

    begin(30);
    refused = ERR_UNSUPPORTED_VERSION;
    ck_assert_int_eq(state_log_new(&logs, &kind, NULL, partition, &log), ERR_OK);
    for (uint32_t i = 0; made_count < TRIES_MAX; i++) {
        ck_assert_uint_lt(i, TURNS_MAX);
        world_pass(&world, 100 * NS_PER_MS);
    }
    for (uint32_t i = 1; i < TRIES_MAX; i++) {
        int64_t waited_ms = (made_ns[i] - made_ns[i - 1]) / NS_PER_MS;

        ck_assert_int_ge(waited_ms, wait_ms);
        ck_assert_int_le(waited_ms, wait_ms + STATE_LOG_RETRY_MS_MIN / 2); /* the load itself takes some of it */
        wait_ms = wait_ms == 0 ? STATE_LOG_RETRY_MS_MIN : 2 * wait_ms;
        if (wait_ms > STATE_LOG_RETRY_MS_MAX)
            wait_ms = STATE_LOG_RETRY_MS_MAX;
    }
    ck_assert_int_eq(wait_ms, STATE_LOG_RETRY_MS_MAX); /* it got there */
    state_log_close(log, ERR_NOT_COORDINATOR, is_closed, NULL);
    end(1);
}
END_TEST

/* The log's start may lie in the middle of a batch: what is before it is no part of the log. */
START_TEST(not_before_the_start)
{
    for (int64_t start = RECORDS / 4 - 1; start <= RECORDS / 4 + 2; start++) {
        struct state_log *log = NULL;
        int64_t low_watermark = 0;

        begin(40);
        ck_assert_int_eq(partition_delete_records(partition, start, &low_watermark), ERR_OK);
        ck_assert_int_eq(low_watermark, start);
        expected = (uint32_t)(RECORDS - start);
        ck_assert_int_eq(state_log_new(&logs, &kind, NULL, partition, &log), ERR_OK);
        for (uint32_t turns = 0; state_log_check(log) != ERR_OK; turns++) {
            ck_assert_uint_lt(turns, TURNS_MAX);
            world_pass(&world, NS_PER_MS);
        }
        state_log_close(log, ERR_NOT_COORDINATOR, is_closed, NULL);
        end(1);
    }
}
END_TEST

RUN_TESTS("state_load", not_before_the_start, so_many_at_a_time, closed_before_its_turn, tried_again_ever_less_often)
