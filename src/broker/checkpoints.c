/* The checkpoint files of the log directories while the node runs: each shard notes its partitions, an I/O thread
 * writes. A start after a crash reads logs from the recovery point on, so the files follow what has been synced
 * closely: well within log.flush.offset.checkpoint.interval.ms, and only when something moved. */
#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/dir_recovery.h"

/* Gives how many there are now. */
static uint32_t add_lines(const struct partition_note *notes, uint32_t dir, enum log_dir_checkpoint which,
                          struct checkpoint_offset *entries, uint32_t count)
{
    for (const struct partition_note *note = notes; note != NULL; note = note->next) {
        if (note->dir != dir || (which == LOG_DIR_CLEANED_OFFSET && note->checkpoint.cleaned_offset < 0))
            continue;
        entries[count++] = (struct checkpoint_offset){
            .topic = bytes_of_text(note->topic),
            .partition = note->index,
            .offset = which == LOG_DIR_RECOVERY_POINT   ? note->checkpoint.recovery_point
                      : which == LOG_DIR_START_OFFSET   ? note->checkpoint.start_offset
                      : which == LOG_DIR_CLEANED_OFFSET ? note->checkpoint.cleaned_offset
                                                        : note->checkpoint.high_watermark,
        };
    }
    return count;
}

static enum err write_one(struct broker *broker, uint32_t dir, enum log_dir_checkpoint which,
                          const struct partition_note *notes, struct checkpoint_offset *entries)
{
    struct dir_relief relief = {0};
    uint32_t count = add_lines(broker->kept, dir, which, entries, 0);
    enum err err = ERR_OK;

    count = add_lines(notes, dir, which, entries, count);
    do
        err = log_dir_write_checkpoint(broker->dirs[dir].dir, which, entries, count);
    while (err == ERR_NO_SPACE && dir_space_relieve(&broker->dirs[dir].space, &relief));
    return err;
}

enum err checkpoints_write(struct broker *broker, const struct partition_note *notes)
{
    struct checkpoint_offset *entries = NULL;
    size_t count = 1;
    enum err err = ERR_OK;

    for (const struct partition_note *note = notes; note != NULL; note = note->next)
        count++;
    for (const struct partition_note *note = broker->kept; note != NULL; note = note->next)
        count++;
    entries = mem_calloc(count, sizeof(*entries));
    if (entries == NULL)
        return ERR_NOMEM;
    for (uint32_t dir = 0; dir < broker->dir_count; dir++) {
        enum err dir_err = ERR_OK;

        /* Of one that has failed nothing is known any more; what its files say stays. */
        for (int which = 0; which < LOG_DIR_CHECKPOINTS && dir_err == ERR_OK; which++)
            if (!atomic_load(&broker->dirs[dir].failed))
                dir_err = write_one(broker, dir, (enum log_dir_checkpoint)which, notes, entries);
        if (err == ERR_OK) /* one that cannot be written is not to keep the others back */
            err = dir_err;
    }
    mem_free(entries);
    return err;
}

static void turn_over(struct broker *broker);

static void write_them(struct loop_job *job)
{
    struct checkpoints *checkpoints = LIST_ENTRY(job, struct checkpoints, job);
    struct broker *broker = LIST_ENTRY(checkpoints, struct broker, checkpoints);

    checkpoints->err = checkpoints->moved ? checkpoints_write(broker, checkpoints->notes) : ERR_OK;
    dir_recovery_go_on(broker);
}

static void written(struct loop_job *job)
{
    struct checkpoints *checkpoints = LIST_ENTRY(job, struct checkpoints, job);
    struct broker *broker = LIST_ENTRY(checkpoints, struct broker, checkpoints);

    if (checkpoints->err != ERR_OK) {
        checkpoints->written = 0;
        log_line_rated(&broker->log, &broker->checkpoint_lines, LOG_WARN, "checkpoints cannot be written err=%s",
                       err_name(checkpoints->err));
    }
    turn_over(broker);
}

/* Order does not matter to it, nor which shard told first. */
static uint64_t sum_of(const struct partition_note *notes)
{
    uint64_t sum = 1;

    for (const struct partition_note *note = notes; note != NULL; note = note->next) {
        const struct partition_checkpoint *said = &note->checkpoint;

        sum += 1 + (uint64_t)said->recovery_point * 3 + (uint64_t)said->start_offset * 5 +
               (uint64_t)said->high_watermark * 7 + (uint64_t)said->cleaned_offset * 11 + (uint64_t)note->dir * 13;
    }
    return sum;
}

static void gathered(struct loop_task *task)
{
    struct checkpoints *checkpoints = LIST_ENTRY(task, struct checkpoints, gathered);
    struct broker *broker = LIST_ENTRY(checkpoints, struct broker, checkpoints);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < broker->shard_count; i++) {
        struct shard *shard = &broker->shards[i];

        while (shard->notes != NULL) {
            struct partition_note *note = shard->notes;

            shard->notes = note->next;
            note->next = checkpoints->notes;
            checkpoints->notes = note;
        }
    }
    sum = sum_of(checkpoints->notes);
    checkpoints->moved = !atomic_load(&checkpoints->incomplete) && sum != checkpoints->written;
    if (!dir_recovery_is_due(broker) && !checkpoints->moved) {
        turn_over(broker);
        return;
    }
    if (checkpoints->moved)
        checkpoints->written = sum;
    checkpoints->job.run = write_them;
    checkpoints->job.done = written;
    loop_submit(broker->env.controller, &checkpoints->job);
}

static void note_all(struct loop_task *task)
{
    struct shard *shard = LIST_ENTRY(task, struct shard, note_task);
    struct checkpoints *checkpoints = &shard->broker->checkpoints;

    /* While partitions load what the files say holds, and a long start is not to write them again for each of them. */
    if (shard->loading > 0 || shard_note_partitions(shard) != ERR_OK)
        atomic_store(&checkpoints->incomplete, true);
    if (atomic_fetch_sub(&checkpoints->shards_left, 1) == 1)
        loop_post(shard->broker->env.controller, &checkpoints->gathered);
}

static void due(struct loop_timer *timer)
{
    struct checkpoints *checkpoints = LIST_ENTRY(timer, struct checkpoints, timer);
    struct broker *broker = LIST_ENTRY(checkpoints, struct broker, checkpoints);

    checkpoints->busy = true;
    checkpoints->gathered.run = gathered;
    atomic_store(&checkpoints->incomplete, false);
    atomic_store(&checkpoints->shards_left, broker->env.reactor_count);
    for (uint32_t i = 0; i < broker->env.reactor_count; i++) {
        broker->shards[i].note_task.run = note_all;
        loop_post(broker->shards[i].loop, &broker->shards[i].note_task);
    }
}

void checkpoints_begin(struct broker *broker)
{
    struct checkpoints *checkpoints = &broker->checkpoints;
    int64_t interval_ms = config_int(broker->config, CONFIG_LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS);

    if (interval_ms > CHECKPOINT_INTERVAL_MS_MAX)
        interval_ms = CHECKPOINT_INTERVAL_MS_MAX;
    for (uint32_t i = 0; i < broker->dir_count; i++)
        if (broker->dirs[i].journals != NULL && !atomic_load(&broker->dirs[i].failed) &&
            interval_ms > CHECKPOINT_JOURNALS_INTERVAL_MS)
            interval_ms = CHECKPOINT_JOURNALS_INTERVAL_MS;
    checkpoints->timer.fired = due;
    loop_timer_start(broker->env.controller, &checkpoints->timer,
                     loop_now_ns(broker->env.controller) + interval_ms * INT64_C(1000000));
}

static void turn_over(struct broker *broker)
{
    struct checkpoints *checkpoints = &broker->checkpoints;

    checkpoints->busy = false;
    partition_notes_free(checkpoints->notes);
    checkpoints->notes = NULL;
    if (checkpoints->idle != NULL)
        checkpoints->idle(broker);
    else
        checkpoints_begin(broker);
}

void checkpoints_end(struct broker *broker, void (*idle)(struct broker *broker))
{
    loop_timer_stop(broker->env.controller, &broker->checkpoints.timer);
    broker->checkpoints.idle = idle;
    if (!broker->checkpoints.busy)
        idle(broker);
}
