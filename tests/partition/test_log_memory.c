/* Rule: whichever allocation fails, the operation at hand is told so and nothing else is: what was acknowledged is
 * there, what was not is not, nothing leaks (the sanitizer build looks), and with memory back the log goes on. */
#include "base/mem.h"
#include "move_world.h"
#include "run_tests.h"

enum { BATCHES_MAX = 64 };

static struct world world;
static uint64_t allocations; /* asked for while armed */
static uint64_t refuse_at;   /* 0: none */
static bool armed;

/* The partition room's door to the heap, in this program. */
void *fallible_alloc(size_t size);
void *fallible_calloc(size_t count, size_t size);
void *fallible_realloc(void *block, size_t size);
char *fallible_copy_text(const void *data, size_t size);

static bool refuses(void)
{
    return armed && ++allocations == refuse_at;
}

void *fallible_alloc(size_t size)
{
    return refuses() ? NULL : mem_alloc(size);
}

void *fallible_calloc(size_t count, size_t size)
{
    return refuses() ? NULL : mem_calloc(count, size);
}

void *fallible_realloc(void *block, size_t size)
{
    return refuses() ? NULL : mem_realloc(block, size);
}

char *fallible_copy_text(const void *data, size_t size)
{
    return refuses() ? NULL : mem_copy_text(data, size);
}

static uint8_t *kept[BATCHES_MAX];
static size_t kept_size[BATCHES_MAX];
static uint32_t kept_count;

static void try_append(struct partition_log *log, uint32_t number)
{
    struct batch_make make = {.value_bytes = 200 + number, .timestamp = 1000 + number, .producer_id = 1 + number % 4};
    struct appended appended;
    size_t size = 0;
    uint8_t *batch = NULL;
    enum err err = ERR_OK;

    armed = false; /* the test's own memory */
    make.producer_epoch = (int16_t)number;
    batch = make_batch(&make, &size);
    armed = true;
    err = world_append_run(&world, log, batch, size, LOG_ORIGIN_CLIENT, &appended);
    armed = false;
    ck_assert(err == ERR_OK || err == ERR_NOMEM);
    if (err == ERR_OK) {
        ck_assert_int_eq(appended.op.base_offset, kept_count);
        kept[kept_count] = batch;
        kept_size[kept_count++] = size;
    } else {
        mem_free(batch);
    }
}

static enum err compare(void *context, struct bytes batch)
{
    uint32_t *at = context;

    ck_assert_uint_lt(*at, kept_count);
    ck_assert_uint_eq(batch.size, kept_size[*at]);
    ck_assert_int_eq(memcmp(batch.data, kept[*at], batch.size), 0);
    (*at)++;
    return ERR_OK;
}

static void try_read(struct partition_log *log)
{
    for (int64_t offset = 0; offset < partition_log_end_offset(log); offset += 3) {
        uint8_t *data = NULL;
        size_t size = 0;
        enum err err = ERR_OK;

        armed = true;
        err = world_read(&world, log, offset, partition_log_end_offset(log), 1000, true, &data, &size);
        armed = false;
        ck_assert(err == ERR_OK || err == ERR_NOMEM);
        mem_free(data);
    }
}

struct found {
    struct log_find op;
    bool done;
};

static void was_found(struct log_find *op)
{
    LIST_ENTRY(op, struct found, op)->done = true;
}

static void try_find(struct partition_log *log)
{
    struct found found = {.op = {.timestamp = 1003, .done = was_found}};

    armed = true;
    partition_log_find(log, &found.op);
    world_run(&world, &found.done);
    armed = false;
    ck_assert(found.op.err == ERR_OK || found.op.err == ERR_NOMEM);
}

static void try_close(struct partition_log *log)
{
    struct world_closed closed = {.op.done = world_was_closed};

    armed = true;
    partition_log_close(log, &closed.op);
    world_run(&world, &closed.done);
    armed = false;
    ck_assert(closed.op.err == ERR_OK || closed.op.err == ERR_NOMEM);
    world.spec.clean = closed.op.err == ERR_OK;
}

static struct partition_log *try_open(void)
{
    struct partition_log *log = NULL;
    enum err err = ERR_OK;

    armed = true;
    err = partition_log_open(&world.env, &world.spec, &log, NULL);
    armed = false;
    ck_assert(err == ERR_OK || err == ERR_NOMEM);
    if (err != ERR_OK)
        return NULL;
    partition_log_adopt(log);
    return log;
}

/* False: k is beyond the last allocation. */
static bool run_one(uint64_t k)
{
    struct partition_log *log = NULL;
    uint32_t at = 0;

    allocations = 0;
    refuse_at = k;
    world_begin(&world, k);
    world.spec.config.segment_bytes = 1500;
    world.spec.config.index_interval_bytes = 300;
    world.env.limits.anchor_bytes = 700;
    for (uint32_t life = 0; life < 2; life++) {
        log = try_open();
        if (log == NULL)
            log = try_open();
        for (uint32_t i = 0; i < 10; i++)
            try_append(log, life * 10 + i);
        armed = true;
        enum err err = world_sync(&world, log);
        armed = false;
        ck_assert(err == ERR_OK || err == ERR_NOMEM);
        try_read(log);
        try_find(log);
        armed = true;
        world_pass(&world, INT64_C(70000000000));
        armed = false;
        try_close(log);
    }
    log = try_open();
    if (log == NULL)
        log = try_open();
    ck_assert_int_eq(partition_log_scan(log, 0, compare, &at), ERR_OK);
    ck_assert_uint_eq(at, kept_count);
    try_append(log, 20);
    world_close(&world, log);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
    while (kept_count > 0)
        mem_free(kept[--kept_count]);
    return allocations >= k;
}

START_TEST(every_allocation_failing_once)
{
    uint64_t k = 1;

    while (run_one(k))
        k++;
    ck_assert_uint_gt(k, 100);
}
END_TEST

/* A move ends with it, or is through: in the one directory or in the other, with all records. */
static bool run_one_move(uint64_t k)
{
    struct partition_log *log = NULL;
    struct partition_env other;
    struct moving_op moving = {0};
    uint8_t *before = NULL;
    uint8_t *after = NULL;
    size_t size = 0;
    size_t size_after = 0;

    allocations = 0;
    refuse_at = k;
    move_world_begin(&world, &other, k, false);
    log = world_log(&world);
    move_world_fill(&world, log);
    before = move_world_read(&world, log, &size);
    armed = true;
    move_world_run(&world, log, &other, &moving);
    world_pass(&world, INT64_C(70000000000));
    armed = false;
    ck_assert(moving.op.moved == moving.committed);
    ck_assert_int_eq(moving.op.err, moving.op.moved ? ERR_OK : ERR_NOMEM);
    ck_assert(!partition_log_failed(log));
    after = move_world_read(&world, log, &size_after);
    ck_assert_uint_eq(size, size_after);
    ck_assert_mem_eq(before, after, size);
    mem_free(after);
    (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10});
    world_close(&world, log);
    if (moving.op.moved)
        world.env = other;
    log = world_log(&world);
    after = move_world_read(&world, log, &size_after);
    ck_assert_uint_gt(size_after, size);
    ck_assert_mem_eq(before, after, size);
    world_close(&world, log);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
    mem_free(before);
    mem_free(after);
    return allocations >= k;
}

START_TEST(every_allocation_of_a_move_failing_once)
{
    uint64_t k = 1;

    while (run_one_move(k))
        k++;
    ck_assert_uint_gt(k, 15);
}
END_TEST

RUN_TESTS("log_memory", every_allocation_failing_once, every_allocation_of_a_move_failing_once)
