#include "move_world.h"

#include <check.h>

#include "base/mem.h"
#include "partition/journal.h"

void move_world_begin(struct world *world, struct partition_env *other, uint64_t seed, bool journal)
{
    struct journal_options options = {.generation = 1, .bytes_max = 1024 * 1024};

    world_begin(world, seed);
    world->spec.config.segment_bytes = MOVE_WORLD_SEGMENT_BYTES;
    world->spec.config.index_interval_bytes = 256;
    if (journal) {
        world->spec.config.flush_messages = 1;
        ck_assert_int_eq(journal_new(&world->env, &options, &world->env.journal), ERR_OK);
    }
    *other = world->env;
    other->log_dir = "/data2";
    other->journal = NULL;
    ck_assert_int_eq(fs_mkdir(&world->disk.fs, "/data2"), ERR_OK);
    ck_assert_int_eq(fs_sync_dir(&world->disk.fs, "/"), ERR_OK);
}

void move_world_fill(struct world *world, struct partition_log *log)
{
    struct appended appended;
    size_t size = 0;
    uint8_t *marker = NULL;

    for (uint32_t i = 0; i < MOVE_WORLD_ROUNDS; i++) {
        (void)world_append(world, log,
                           &(struct batch_make){.value_bytes = 700, .fill = (uint8_t)i, .timestamp = 1000 + i});
        (void)world_append(world, log,
                           &(struct batch_make){.value_bytes = 100,
                                                .fill = (uint8_t)(100 + i),
                                                .timestamp = 2000 + i,
                                                .producer_id = 7,
                                                .base_sequence = (int32_t)i});
    }
    (void)world_append(
        world, log, &(struct batch_make){.value_bytes = 50, .producer_id = 8, .transactional = true, .timestamp = 1});
    marker = make_marker(8, 0, false, 0, &size);
    ck_assert_int_eq(world_append_run(world, log, marker, size, LOG_ORIGIN_COORDINATOR, &appended), ERR_OK);
    mem_free(marker);
    (void)world_append(
        world, log, &(struct batch_make){.value_bytes = 50, .producer_id = 9, .transactional = true, .timestamp = 1});
}

static void commit(struct log_move *op)
{
    struct moving_op *moving = LIST_ENTRY(op, struct moving_op, op);

    partition_log_move_start(moving->log, moving->delete_to);
    moving->committed = moving->commit_err == ERR_OK;
    partition_log_move_committed(op, moving->commit_err);
}

static void moved_now(struct log_move *op)
{
    ck_assert(op->moved);
}

static void done(struct log_move *op)
{
    LIST_ENTRY(op, struct moving_op, op)->done = true;
}

static double rate(const struct log_move *op)
{
    return LIST_ENTRY(op, const struct moving_op, op)->bytes_per_second;
}

void move_world_start(struct world *world, struct partition_log *log, const struct partition_env *to,
                      struct moving_op *op)
{
    op->world = world;
    op->log = log;
    op->done = op->committed = false;
    op->op = (struct log_move){.to = to, .rate = rate, .commit = commit, .moved_now = moved_now, .done = done};
    partition_log_move(log, &op->op);
}

void move_world_run(struct world *world, struct partition_log *log, const struct partition_env *to,
                    struct moving_op *op)
{
    move_world_start(world, log, to, op);
    world_run(world, &op->done);
}

uint8_t *move_world_read(struct world *world, struct partition_log *log, size_t *size)
{
    int64_t offset = partition_log_start_offset(log);
    uint8_t *all = NULL;

    *size = 0;
    while (offset < partition_log_end_offset(log)) {
        uint8_t *data = NULL;
        size_t got = 0;
        struct batch_header head;

        ck_assert_int_eq(world_read(world, log, offset, partition_log_end_offset(log), 1024 * 1024, true, &data, &got),
                         ERR_OK);
        ck_assert_uint_gt(got, 0);
        all = mem_realloc(all, *size + got);
        memcpy(all + *size, data, got);
        *size += got;
        for (size_t at = 0; at < got; at += head.size) {
            ck_assert_int_eq(batch_peek(bytes_of(data + at, got - at), &head, NULL), ERR_OK);
            ck_assert(batch_crc_is_valid(bytes_of(data + at, head.size)));
            offset = batch_last_offset(&head) + 1;
        }
        mem_free(data);
    }
    return all;
}

struct count {
    const char *suffix;
    uint32_t count;
};

static enum err count_one(void *context, const char *name, bool is_directory)
{
    struct count *count = context;
    size_t size = strlen(name);

    (void)is_directory;
    count->count += size >= strlen(count->suffix) && strcmp(name + size - strlen(count->suffix), count->suffix) == 0;
    return ERR_OK;
}

uint32_t move_world_count(struct world *world, const char *dir, const char *suffix)
{
    struct count count = {.suffix = suffix};

    ck_assert_int_eq(fs_list(&world->disk.fs, dir, count_one, &count), ERR_OK);
    return count.count;
}
