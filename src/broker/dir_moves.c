#include "broker/dir_moves.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/dynamic_config.h"
#include "partition/log_path.h"

enum { NOWHERE = UINT32_MAX };

struct dir_move {
    struct log_move op;
    struct hosted *hosted;
    uint32_t from;
    uint32_t to;
    uint32_t then; /* once it has ended: where it is to go instead; NOWHERE: nowhere */
    bool cancelled;
    bool deciding;
    int64_t began_ns;
    struct list_node node;
    struct metadata_call call;
    struct directory_assignment assignment;
    struct arena arena;
};

struct dir_wish {
    struct loop_task task;
    struct shard *shard;
    uint32_t dir;
    char key[];
};

void dir_moves_init(struct shard *shard)
{
    list_init(&shard->moves.waiting);
    map_init(&shard->moves.wishes, rng_u64(shard->broker->env.rng), DIR_WISHES_MAX);
}

void dir_moves_deinit(struct shard *shard)
{
    void *value = NULL;

    for (uint32_t cursor = 0; map_next(&shard->moves.wishes, &cursor, NULL, &value);)
        mem_free(value);
    map_deinit(&shard->moves.wishes);
}

/* --- one move --- */

static void move_free(struct dir_move *move)
{
    arena_deinit(&move->arena);
    mem_free(move);
}

static double rate(const struct log_move *op)
{
    const struct dir_move *move = LIST_ENTRY(op, const struct dir_move, op);
    const struct shard *shard = move->hosted->shard;
    int64_t limit =
        dynamic_config_long(shard->broker, shard->image, CONFIG_REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND);
    int32_t moves = atomic_load(&shard->broker->moves);

    return limit < 1 ? 1 : (double)limit / (moves < 1 ? 1 : moves);
}

static void committed(struct metadata_call *call)
{
    struct dir_move *move = LIST_ENTRY(call, struct dir_move, call);
    enum err err = call->request.err != ERR_OK ? call->request.err : move->assignment.err;
    struct hosted *hosted = move->hosted;
    bool failed_meanwhile = err == ERR_OK && hosted->shard->dirs[move->to].failed;

    partition_log_move_committed(&move->op, err);
    if (failed_meanwhile && hosted->partition != NULL) /* the others there have heard of it already */
        partition_fail(hosted->partition, ERR_KAFKA_STORAGE_ERROR);
}

static void commit(struct log_move *op)
{
    struct dir_move *move = LIST_ENTRY(op, struct dir_move, op);
    struct hosted *hosted = move->hosted;
    struct shard *shard = hosted->shard;

    if (shard->dirs[move->to].failed) {
        partition_log_move_committed(op, ERR_LOG_DIR_NOT_FOUND);
        return;
    }
    if (image_metadata_version(shard->image) < METADATA_VERSION_DIRECTORIES) {
        partition_log_move_committed(op, ERR_OK);
        return;
    }
    move->deciding = true;
    dir_assign_forget(hosted);
    move->assignment = (struct directory_assignment){.topic_id = hosted->key.topic_id,
                                                     .partition = hosted->key.index,
                                                     .directory = shard->broker->dirs[move->to].id};
    move->call = (struct metadata_call){.home = shard->loop, .done = committed};
    move->call.request.type = CONTROLLER_ASSIGN_DIRECTORIES;
    move->call.request.arena = &move->arena;
    move->call.request.assign_directories = (struct assign_directories){
        .broker_id = shard->broker->node_id,
        .broker_epoch = atomic_load(&shard->broker->broker_epoch),
        .assignments = &move->assignment,
        .count = 1,
    };
    metadata_node_call(shard->broker->metadata, &move->call);
}

static void moved_now(struct log_move *op)
{
    struct dir_move *move = LIST_ENTRY(op, struct dir_move, op);
    struct hosted *hosted = move->hosted;
    struct shard *shard = hosted->shard;
    struct broker *broker = shard->broker;

    if (hosted->partition != NULL) { /* else it is on its way out, and counts nowhere any more */
        atomic_fetch_sub(&broker->dirs[hosted->dir].partitions, 1);
        atomic_fetch_add(&broker->dirs[move->to].partitions, 1);
    }
    hosted->dir = move->to;
    if (hosted->end_note != NULL)
        hosted->end_note->dir = move->to;
    if (hosted->partition != NULL)
        partition_moved(hosted->partition, move->op.to);
}

static void say(const struct dir_move *move)
{
    const struct hosted *hosted = move->hosted;
    struct broker *broker = hosted->shard->broker;

    if (move->op.moved)
        log_info(&broker->log,
                 "partition moved topic_id=%s partition=%" PRId32 " dir=%s to_dir=%s bytes=%" PRIu64
                 " elapsed_ms=%" PRId64 " held_us=%" PRId64,
                 uuid_format(hosted->key.topic_id).text, hosted->key.index, broker->dirs[move->from].path,
                 broker->dirs[move->to].path, move->op.bytes_copied,
                 (loop_now_ns(hosted->shard->loop) - move->began_ns) / 1000000, move->op.held_ns / 1000);
    else if (move->op.err == ERR_CLOSED && move->cancelled)
        log_info(&broker->log, "move given up topic_id=%s partition=%" PRId32 " dir=%s to_dir=%s",
                 uuid_format(hosted->key.topic_id).text, hosted->key.index, broker->dirs[move->from].path,
                 broker->dirs[move->to].path);
}

static void done(struct log_move *op)
{
    struct dir_move *move = LIST_ENTRY(op, struct dir_move, op);
    struct hosted *hosted = move->hosted;
    struct shard *shard = hosted->shard;
    uint32_t then = move->then;

    say(move);
    atomic_fetch_sub(&shard->broker->moves, 1);
    shard->moves.running = NULL;
    hosted->move = NULL;
    move_free(move);
    if (hosted->partition != NULL) {
        dir_assign_check(hosted);
        if (then != NOWHERE && !partition_is_failed(hosted->partition) && dir_moves_ask(hosted, then) != ERR_OK)
            log_warn(&shard->broker->log, "move not begun, no memory topic_id=%s partition=%" PRId32,
                     uuid_format(hosted->key.topic_id).text, hosted->key.index);
    }
    dir_moves_go_on(shard);
}

static void begin(struct dir_move *move)
{
    struct hosted *hosted = move->hosted;
    struct shard *shard = hosted->shard;

    list_remove(&move->node);
    shard->moves.running = move;
    atomic_fetch_add(&shard->broker->moves, 1);
    move->from = hosted->dir;
    move->began_ns = loop_now_ns(shard->loop);
    move->op = (struct log_move){
        .to = &shard->envs[move->to], .rate = rate, .commit = commit, .moved_now = moved_now, .done = done};
    partition_move(hosted->partition, &move->op);
}

void dir_moves_go_on(struct shard *shard)
{
    if (shard->moves.running != NULL || !shard->serving || shard->stopping)
        return;
    list_each (&shard->moves.waiting, node) {
        struct dir_move *move = LIST_ENTRY(node, struct dir_move, node);

        /* Were it not known where it is, a start that finds it in both would not know which one counts. */
        if (partition_is_failed(move->hosted->partition) || !dir_assign_is_told(move->hosted))
            continue;
        begin(move);
        return;
    }
}

/* --- the door --- */

enum err dir_moves_ask(struct hosted *hosted, uint32_t dir)
{
    struct shard *shard = hosted->shard;
    struct dir_move *move = hosted->move;

    if (move != NULL && move == shard->moves.running) {
        bool is_same = move->to == dir && !move->cancelled;

        move->then = is_same ? NOWHERE : dir;
        if (!is_same && !move->op.moved) {
            move->cancelled = true;
            partition_move_cancel(hosted->partition); /* perhaps too late: then it goes on from there */
        }
        return ERR_OK;
    }
    if (move != NULL && dir != hosted->dir) {
        move->to = dir;
        return ERR_OK;
    }
    if (dir == hosted->dir) {
        dir_moves_forget(hosted);
        return ERR_OK;
    }
    move = mem_calloc(1, sizeof(*move));
    if (move == NULL)
        return ERR_NOMEM;
    move->hosted = hosted;
    move->from = hosted->dir;
    move->to = dir;
    move->then = NOWHERE;
    arena_init(&move->arena, DIR_ASSIGN_BYTES_MAX);
    hosted->move = move;
    list_node_init(&move->node);
    list_add_last(&shard->moves.waiting, &move->node);
    dir_moves_go_on(shard);
    return ERR_OK;
}

void dir_moves_forget(struct hosted *hosted)
{
    struct dir_move *move = hosted->move;

    if (move == NULL || move == hosted->shard->moves.running)
        return;
    list_remove(&move->node);
    hosted->move = NULL;
    move_free(move);
}

void dir_moves_target_failed(struct hosted *hosted, uint32_t dir)
{
    struct dir_move *move = hosted->move;

    if (move == NULL || move->to != dir)
        return;
    if (move != hosted->shard->moves.running)
        log_error(&hosted->shard->broker->log, "move ended, its directory has failed topic_id=%s partition=%" PRId32,
                  uuid_format(hosted->key.topic_id).text, hosted->key.index);
    (void)!dir_moves_ask(hosted, hosted->dir); /* takes no memory */
}

bool dir_moves_is_deciding(const struct hosted *hosted)
{
    return hosted->move != NULL && hosted->move->deciding;
}

bool dir_moves_look(const struct hosted *hosted, struct dir_moves_state *state)
{
    const struct dir_move *move = hosted->move;
    bool is_running = move != NULL && move == hosted->shard->moves.running;

    if (move == NULL || move->cancelled || (is_running && move->op.moved) || hosted->partition == NULL)
        return false;
    *state = (struct dir_moves_state){
        .dir = move->to,
        .bytes = is_running ? move->op.size : 0,
        .lag = partition_end_offset(hosted->partition) -
               (is_running ? move->op.copied_offset : partition_start_offset(hosted->partition)),
    };
    return true;
}

/* --- partitions that are not there yet --- */

static struct dir_wish *wish_make(struct shard *shard, struct bytes topic, int32_t index, uint32_t dir)
{
    size_t room = topic.size + 16;
    struct dir_wish *wish = mem_alloc(sizeof(*wish) + room);

    if (wish == NULL)
        return NULL;
    *wish = (struct dir_wish){.shard = shard, .dir = dir};
    (void)snprintf(wish->key, room, "%.*s-%" PRId32, BYTES_PRINTF(topic), index);
    return wish;
}

static void wish_comes(struct loop_task *task)
{
    struct dir_wish *wish = LIST_ENTRY(task, struct dir_wish, task);
    struct shard *shard = wish->shard;
    struct dir_wish *old = map_get(&shard->moves.wishes, bytes_of_text(wish->key));

    if (old != NULL) {
        old->dir = wish->dir;
        mem_free(wish);
    } else if (map_insert(&shard->moves.wishes, bytes_of_text(wish->key), wish) != ERR_OK) {
        mem_free(wish);
    }
}

void dir_moves_wish(struct shard *from, struct bytes topic, int32_t index, uint32_t dir)
{
    struct broker *broker = from->broker;

    for (uint32_t i = 0; i < broker->env.reactor_count; i++) {
        struct dir_wish *wish = wish_make(&broker->shards[i], topic, index, dir);

        if (wish == NULL)
            continue;
        wish->task.run = wish_comes;
        if (&broker->shards[i] == from)
            wish_comes(&wish->task);
        else
            loop_post(broker->shards[i].loop, &wish->task);
    }
}

bool dir_moves_take_wish(struct shard *shard, struct bytes topic, int32_t index, uint32_t *dir)
{
    char key[LOG_NAME_BYTES_MAX + 1];
    struct dir_wish *wish = NULL;
    int size = snprintf(key, sizeof(key), "%.*s-%" PRId32, BYTES_PRINTF(topic), index);

    if (size < 0 || (size_t)size >= sizeof(key))
        return false;
    wish = map_get(&shard->moves.wishes, bytes_of_text(key));
    if (wish == NULL)
        return false;
    (void)map_remove(&shard->moves.wishes, bytes_of_text(key));
    *dir = wish->dir;
    mem_free(wish);
    return true;
}

void dir_moves_forget_wish(struct shard *shard, struct bytes topic, int32_t index)
{
    uint32_t dir = 0;

    if (map_count(&shard->moves.wishes) > 0)
        (void)dir_moves_take_wish(shard, topic, index, &dir);
}
