#include "partition/partition.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/partition_internal.h"
#include "partition/partition_limits.h"

static void partition_free(struct partition *partition)
{
    if (partition == NULL)
        return;
    mem_free(partition->topic);
    mem_free(partition);
}

/* --- watches --- */

static void watches_tell(struct partition *partition)
{
    struct list armed;
    struct list_node *node = NULL;

    if (list_is_empty(&partition->watches_armed))
        return;
    list_init(&armed);
    list_move_all(&armed, &partition->watches_armed);
    while ((node = list_take_first(&armed)) != NULL) {
        struct partition_watch *watch = LIST_ENTRY(node, struct partition_watch, node);

        watch->armed = false;
        list_add_last(&partition->watches_told, node);
        watch->told(watch);
    }
}

static void watches_end(struct partition *partition)
{
    struct list_node *node = NULL;

    list_move_all(&partition->watches_armed, &partition->watches_told);
    while ((node = list_take_first(&partition->watches_armed)) != NULL) {
        struct partition_watch *watch = LIST_ENTRY(node, struct partition_watch, node);

        watch->armed = false;
        watch->partition = NULL;
        watch->told(watch);
    }
}

void partition_watch_add(struct partition *partition, struct partition_watch *watch)
{
    assert(partition->state != PARTITION_GONE);
    watch->partition = partition;
    watch->armed = true;
    list_node_init(&watch->node);
    list_add_last(&partition->watches_armed, &watch->node);
}

void partition_watch_arm(struct partition_watch *watch)
{
    if (watch->partition == NULL || watch->armed)
        return;
    list_remove(&watch->node);
    watch->armed = true;
    list_add_last(&watch->partition->watches_armed, &watch->node);
}

void partition_watch_remove(struct partition_watch *watch)
{
    if (watch->partition == NULL)
        return;
    list_remove(&watch->node);
    watch->partition = NULL;
    watch->armed = false;
}

/* --- watermarks --- */

/* A single replica: what it has itself, or has synced where that is asked for: neither an ack nor a consumer
 * runs ahead of the disk. */
static int64_t high_watermark_of(const struct partition *partition)
{
    int64_t end = partition_log_end_offset(partition->log);
    int64_t synced = partition_log_synced_offset(partition->log);

    /* flush.messages=N: in Apache Kafka whoever appends the N-th record that is not synced waits for the sync, so that
     * fewer than N are promised beyond it. */
    if (end - synced < partition_log_config(partition->log)->flush_messages)
        return end;
    return synced > partition->high_watermark ? synced : partition->high_watermark;
}

/* What partition.h says always holds of offsets. */
static void check(const struct partition *partition)
{
    int64_t last_stable = partition_last_stable_offset(partition);

    assert(partition_log_start_offset(partition->log) <= last_stable);
    assert(last_stable <= partition->high_watermark);
    assert(partition->high_watermark <= partition_log_end_offset(partition->log));
}

static void watermark_set(struct partition *partition, int64_t high_watermark)
{
    partition->high_watermark = high_watermark;
    partition_log_replicated(partition->log, high_watermark);
    check(partition);
}

static void acks_complete(struct partition *partition)
{
    for (;;) {
        struct list_node *node = list_first(&partition->acks);
        struct partition_append *op = NULL;

        if (node == NULL)
            return;
        op = LIST_ENTRY(node, struct partition_append, node);
        if (op->wait_offset > partition->high_watermark)
            return;
        list_remove(node);
        partition_append_complete(op, ERR_OK);
    }
}

static void acks_fail(struct partition *partition, enum err err)
{
    struct list_node *node = NULL;

    while ((node = list_take_first(&partition->acks)) != NULL)
        partition_append_complete(LIST_ENTRY(node, struct partition_append, node), err);
}

static void log_changed(void *context)
{
    struct partition *partition = context;
    int64_t high_watermark = 0;

    if (partition->state != PARTITION_READY)
        return;
    if (partition_log_failed(partition->log)) {
        acks_fail(partition, ERR_KAFKA_STORAGE_ERROR);
        watches_tell(partition);
        return;
    }
    high_watermark = high_watermark_of(partition);
    if (partition_log_end_offset(partition->log) < partition->high_watermark) /* it was cut */
        watermark_set(partition, high_watermark);
    if (high_watermark <= partition->high_watermark &&
        partition_log_start_offset(partition->log) == partition->told_start_offset)
        return;
    watermark_set(partition, high_watermark > partition->high_watermark ? high_watermark : partition->high_watermark);
    partition->told_start_offset = partition_log_start_offset(partition->log);
    watches_tell(partition); /* first: a consumer is not to see less than a producer was told */
    acks_complete(partition);
}

/* --- load --- */

static void load_run(struct loop_job *base)
{
    struct partition_load *job = LIST_ENTRY(base, struct partition_load, job);

    job->err = job->spec.from_copy.data == NULL ? ERR_OK : partition_log_adopt_copy(job->partition->env, &job->spec);
    if (job->err == ERR_OK)
        job->err = partition_log_open(job->partition->env, &job->spec, &job->log, &job->recovery);
}

static void loading_release(struct partition *partition)
{
    struct list_node *node = NULL;

    if (partition->load == NULL)
        return;
    while ((node = list_take_first(&partition->load->appends)) != NULL)
        partition_append_start(LIST_ENTRY(node, struct partition_append, node));
    while ((node = list_take_first(&partition->load->reads)) != NULL)
        partition_read_start(LIST_ENTRY(node, struct partition_read, node));
    while ((node = list_take_first(&partition->load->offsets)) != NULL)
        partition_offsets_start(LIST_ENTRY(node, struct partition_offsets, node));
    while ((node = list_take_first(&partition->load->waits)) != NULL) {
        struct partition_wait *wait = LIST_ENTRY(node, struct partition_wait, node);

        wait->done(wait, partition);
    }
}

static enum err take_log(struct partition *partition, struct partition_log *log, struct partition_load *job)
{
    partition->log = log;
    partition_log_share_config(log, job->config);
    job->config = NULL;
    partition_log_adopt(log);
    partition_log_on_change(log, log_changed, partition);
    watermark_set(partition, high_watermark_of(partition));
    partition->told_start_offset = partition_log_start_offset(log);
    if (job->recovery.segments_recovered > 0)
        log_info(partition->env->log,
                 "partition recovered topic=%s partition=%" PRId32 " end_offset=%" PRId64 " bytes_scanned=%" PRIu64
                 " bytes_cut=%" PRIu64,
                 partition->topic, partition->index, partition_log_end_offset(log), job->recovery.bytes_scanned,
                 job->recovery.bytes_cut);
    mem_free(partition->topic); /* the log has a copy, which lives as long */
    partition->topic = NULL;
    return partition_log_assign_epoch(log, partition->leader_epoch);
}

static void close_go_on(struct partition *partition);

static void loads_go_on(struct partition_files *files)
{
    struct list_node *node = NULL;

    while (files->loads_running < PARTITION_LOADS_MAX && (node = list_take_first(&files->loads_waiting)) != NULL) {
        struct partition_load *load = LIST_ENTRY(node, struct partition_load, waiting);

        files->loads_running++;
        load->is_running = true;
        loop_submit(load->partition->env->loop, &load->job);
    }
}

static void load_submit(struct partition *partition)
{
    struct partition_files *files = partition->env->files;

    list_add_last(&files->loads_waiting, &partition->load->waiting);
    loads_go_on(files);
}

void partition_hasten(struct partition *partition)
{
    struct partition_load *load = partition->load;

    if (load == NULL || !list_node_is_linked(&load->waiting))
        return;
    list_remove(&load->waiting);
    list_add_first(&partition->env->files->loads_waiting, &load->waiting);
}

void partition_load_await(struct partition *partition, struct list *list, struct list_node *node)
{
    list_add_last(list, node);
    partition_hasten(partition);
}

static void load_again(struct loop_timer *timer)
{
    load_submit(LIST_ENTRY(timer, struct partition_load, again)->partition);
}

static void load_again_at(struct partition *partition, int64_t due_ns)
{
    partition->load->again.fired = load_again;
    loop_timer_start(partition->env->loop, &partition->load->again, due_ns);
}

/* An earlier topic of the same name, which may have lived on another reactor, still has the directory: it is waited
 * for. False: for too long. */
static bool load_later(struct partition *partition)
{
    int64_t now_ns = loop_now_ns(partition->env->loop);

    if (now_ns >= partition->load->until_ns) {
        log_error(partition->env->log, "directory belongs to another topic topic=%s partition=%" PRId32 " topic_id=%s",
                  partition->topic, partition->index, uuid_format(partition->topic_id).text);
        return false;
    }
    load_again_at(partition, now_ns + PARTITION_LOAD_AGAIN_NS);
    return true;
}

static void load_free(struct partition *partition)
{
    log_config_drop(partition->load->config);
    slab_give_back(&partition->env->files->loads, partition->load);
    partition->load = NULL;
}

static void load_done(struct loop_job *base)
{
    struct partition_load *job = LIST_ENTRY(base, struct partition_load, job);
    struct partition *partition = job->partition;
    enum err err = job->err;

    job->is_running = false;
    partition->env->files->loads_running--;
    loads_go_on(partition->env->files);
    if (err == ERR_OK)
        err = take_log(partition, job->log, job);
    if (partition->state == PARTITION_GONE) {
        close_go_on(partition);
        return;
    }
    if (err == ERR_BUSY && load_later(partition))
        return;
    if (err == ERR_BUSY)
        err = ERR_DAMAGED;
    if (err == ERR_NO_SPACE && job->log == NULL)
        load_again_at(partition, loop_now_ns(partition->env->loop) + PARTITION_LOAD_FULL_NS);
    partition->state = err == ERR_OK ? PARTITION_READY : PARTITION_UNUSABLE;
    if (job->fails_after && err == ERR_OK)
        partition_log_fail(partition->log, ERR_IO);
    if (err == ERR_IO && partition->env->storage_failed != NULL)
        partition->env->storage_failed(partition->env->context, partition->env->log_dir, err);
    if (job->ready != NULL)
        job->ready(job->ready_context, partition, err);
    if (partition->state == PARTITION_GONE) /* closing: the load has gone */
        return;
    loading_release(partition);
    if (partition->log != NULL)
        load_free(partition);
    watches_tell(partition);
}

static enum err load_start(struct partition *partition, const struct partition_spec *spec, partition_ready_fn *ready,
                           void *context)
{
    struct slab *loads = &partition->env->files->loads;
    struct partition_load *job = NULL;
    struct log_config *config = NULL;

    if (loads->piece_bytes == 0)
        slab_init(loads, sizeof(*job));
    config = spec->shared == NULL ? log_config_share(&spec->config) : log_config_keep(spec->shared);
    if (config == NULL)
        return ERR_NOMEM;
    job = slab_take(loads);
    if (job == NULL) {
        log_config_drop(config);
        return ERR_NOMEM;
    }
    job->config = config;
    job->ready = ready;
    job->ready_context = context;
    job->job.run = load_run;
    job->job.done = load_done;
    job->partition = partition;
    job->spec = (struct partition_log_spec){
        .topic = bytes_of_text(partition->topic),
        .partition = partition->index,
        .topic_id = partition->topic_id,
        .config = *config,
        .recovery_point = spec->recovery_point,
        .start_offset = spec->start_offset,
        .cleaned_offset = spec->cleaned_offset,
        .clean = spec->clean,
        .trust = spec->trust,
        .foreign = spec->foreign,
        .journals = spec->journals,
        .unsettled = spec->unsettled,
        .essential = spec->essential,
    };
    if (spec->from_copy.data != NULL) {
        assert(spec->from_copy.size < sizeof(job->from_copy));
        memcpy(job->from_copy, spec->from_copy.data, spec->from_copy.size);
        job->spec.from_copy = bytes_of(job->from_copy, spec->from_copy.size);
    }
    job->high_watermark = spec->high_watermark;
    list_node_init(&job->waiting);
    list_init(&job->appends);
    list_init(&job->reads);
    list_init(&job->offsets);
    list_init(&job->waits);
    partition->load = job;
    job->until_ns = loop_now_ns(partition->env->loop) + PARTITION_LOAD_PATIENCE_NS;
    load_submit(partition);
    return ERR_OK;
}

enum err partition_new(const struct partition_env *env, const struct partition_spec *spec, partition_ready_fn *ready,
                       void *context, struct partition **partition)
{
    struct partition *made = mem_calloc(1, sizeof(*made));
    enum err err = ERR_NOMEM;

    if (made == NULL)
        return ERR_NOMEM;
    made->env = env;
    made->state = PARTITION_LOADING;
    made->topic = mem_copy_text(spec->topic.data, spec->topic.size);
    made->topic_id = spec->topic_id;
    made->index = spec->index;
    made->leader_epoch = spec->leader_epoch;
    made->essential = spec->essential;
    list_init(&made->acks);
    list_init(&made->watches_armed);
    list_init(&made->watches_told);
    if (made->topic != NULL)
        err = load_start(made, spec, ready, context);
    if (err != ERR_OK) {
        partition_free(made);
        return err;
    }
    *partition = made;
    return ERR_OK;
}

/* --- the end --- */

static void close_finish(struct partition *partition, enum err err)
{
    struct partition_close *op = partition->closing;

    acks_fail(partition, ERR_NOT_LEADER_OR_FOLLOWER); /* none: nothing can have come since */
    partition_free(partition);
    op->err = err;
    op->done(op);
}

static void log_closed(struct partition_log_close *log_op)
{
    struct partition_close *op = LIST_ENTRY(log_op, struct partition_close, log_close);

    op->left_unsynced = log_op->left_unsynced;
    close_finish(op->partition, log_op->err);
}

/* Of a partition that has no log: what was laid out for it, if anything. */
struct discard_job {
    struct loop_job job;
    struct partition *partition;
    struct partition_log_spec spec;
    struct uuid unique;
    enum err err;
};

static void discard_run(struct loop_job *base)
{
    struct discard_job *job = LIST_ENTRY(base, struct discard_job, job);

    job->err = partition_log_discard(job->partition->env, &job->spec, job->unique);
}

static void discard_done(struct loop_job *base)
{
    struct discard_job *job = LIST_ENTRY(base, struct discard_job, job);
    struct partition *partition = job->partition;
    enum err err = job->err;

    mem_free(job);
    close_finish(partition, err);
}

static void discard_start(struct partition *partition)
{
    struct discard_job *job = mem_calloc(1, sizeof(*job));

    if (job == NULL) {
        close_finish(partition, ERR_NOMEM);
        return;
    }
    job->job.run = discard_run;
    job->job.done = discard_done;
    job->partition = partition;
    job->spec = (struct partition_log_spec){
        .topic = bytes_of_text(partition->topic), .partition = partition->index, .topic_id = partition->topic_id};
    rng_fill(partition->env->rng, &job->unique, sizeof(job->unique));
    loop_submit(partition->env->loop, &job->job);
}

static void close_go_on(struct partition *partition)
{
    if (partition->load != NULL) {
        if (partition->load->is_running)
            return;
        list_remove(&partition->load->waiting);
        loop_timer_stop(partition->env->loop, &partition->load->again);
        load_free(partition);
    }
    if (partition->log == NULL) {
        if (partition->deleting)
            discard_start(partition);
        else
            close_finish(partition, ERR_OK);
        return;
    }
    partition->closing->log_close.done = log_closed;
    partition->closing->log_close.sync_all_follows = partition->closing->sync_all_follows;
    if (partition->deleting)
        partition_log_delete(partition->log, &partition->closing->log_close);
    else
        partition_log_close(partition->log, &partition->closing->log_close);
}

static void close_begin(struct partition *partition, struct partition_close *op, bool deleting)
{
    assert(partition->state != PARTITION_GONE);
    partition->state = PARTITION_GONE;
    partition->closing = op;
    partition->deleting = deleting;
    op->partition = partition;
    op->left_unsynced = false;
    loading_release(partition); /* each is refused */
    acks_fail(partition, deleting ? ERR_UNKNOWN_TOPIC_OR_PARTITION : ERR_NOT_LEADER_OR_FOLLOWER);
    watches_end(partition);
    close_go_on(partition);
}

bool partition_needs_final_sync(const struct partition *partition)
{
    return partition->log != NULL && partition_log_needs_final_sync(partition->log);
}

void partition_close(struct partition *partition, struct partition_close *op)
{
    close_begin(partition, op, false);
}

void partition_delete(struct partition *partition, struct partition_close *op)
{
    close_begin(partition, op, true);
}

void partition_fail(struct partition *partition, enum err err)
{
    if (partition->state == PARTITION_READY)
        partition_log_fail(partition->log, err);
    else if (partition->load != NULL)
        partition->load->fails_after = true;
}

/* --- checks --- */

enum err partition_check(const struct partition *partition, int32_t current_leader_epoch)
{
    if (partition->state == PARTITION_GONE)
        return partition->deleting ? ERR_UNKNOWN_TOPIC_OR_PARTITION : ERR_NOT_LEADER_OR_FOLLOWER;
    if (partition->state == PARTITION_UNUSABLE || partition_log_failed(partition->log))
        return ERR_KAFKA_STORAGE_ERROR;
    if (current_leader_epoch >= 0 && current_leader_epoch < partition->leader_epoch)
        return ERR_FENCED_LEADER_EPOCH;
    if (current_leader_epoch > partition->leader_epoch)
        return ERR_UNKNOWN_LEADER_EPOCH;
    return ERR_OK;
}

enum err partition_client_error(const struct partition *partition, enum err err)
{
    if (err == ERR_CLOSED)
        return partition->deleting ? ERR_UNKNOWN_TOPIC_OR_PARTITION : ERR_NOT_LEADER_OR_FOLLOWER;
    if (err == ERR_NO_SPACE || err == ERR_IO || err == ERR_NO_DESCRIPTORS)
        return ERR_KAFKA_STORAGE_ERROR;
    return err;
}

int64_t partition_readable_end(const struct partition *partition, enum partition_isolation isolation)
{
    if (isolation == PARTITION_READ_LOG_END)
        return partition_log_end_offset(partition->log);
    return isolation == PARTITION_READ_COMMITTED ? partition_last_stable_offset(partition) : partition->high_watermark;
}

/* --- changes --- */

void partition_look_cleanable(const struct partition *partition, int64_t now_ms, struct log_cleanable *cleanable)
{
    *cleanable = (struct log_cleanable){0};
    if (partition->state == PARTITION_READY)
        partition_log_look_cleanable(partition->log, partition_last_stable_offset(partition), now_ms, cleanable);
}

void partition_clean(struct partition *partition, struct log_clean *op)
{
    assert(partition->state == PARTITION_READY);
    op->stable_offset = partition_last_stable_offset(partition);
    partition_log_clean(partition->log, op);
}

void partition_set_config(struct partition *partition, const struct log_config *config)
{
    if (partition->load != NULL && partition->load->config != NULL)
        *partition->load->config = *config;
    if (partition->state == PARTITION_READY) {
        partition_log_set_config(partition->log, config);
        log_changed(partition); /* flush.messages may have let the watermark go */
    }
}

enum err partition_set_leader_epoch(struct partition *partition, int32_t leader_epoch)
{
    if (leader_epoch <= partition->leader_epoch || partition->state == PARTITION_GONE)
        return ERR_OK;
    if (partition->state == PARTITION_READY) {
        enum err err = partition_log_assign_epoch(partition->log, leader_epoch);

        if (err != ERR_OK)
            return err;
    }
    partition->leader_epoch = leader_epoch;
    watches_tell(partition);
    return ERR_OK;
}
