#include "broker/dir_recovery.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/boot_mark.h"
#include "partition/journal.h"
#include "partition/journal_replay.h"
#include "partition/partition_limits.h"

static enum err mark_write(struct broker *broker, uint32_t dir, enum boot_mark_state state)
{
    struct boot_mark mark = {state, fs_boot_id(broker->env.fs)};

    return boot_mark_write(broker->env.fs, broker->dirs[dir].path, &mark);
}

static enum err journals_find(struct broker *broker, uint32_t at, bool discard)
{
    struct broker_dir *dir = &broker->dirs[at];
    struct journal_replay_options options = {
        .fs = broker->env.fs,
        .log = &broker->log,
        .log_dir = dir->path,
        .directory_id = dir->id,
        .mode = dir->trust == LOG_TRUST_WRITTEN || discard ? JOURNAL_REPLAY_KEEP : JOURNAL_REPLAY_READ,
    };
    enum err err = journal_replay_open(&options, &dir->journals);

    if (err != ERR_OK || dir->journals == NULL)
        return err;
    dir->generation = journal_replay_generation(dir->journals);
    atomic_init(&dir->history, !discard);
    if (!discard)
        return ERR_OK;
    log_warn(&broker->log, "journals discarded, another program has written to the directory since dir=%s", dir->path);
    err = journal_replay_remove(dir->journals);
    journal_replay_free(dir->journals);
    dir->journals = NULL;
    return err;
}

enum err dir_recovery_begin(struct broker *broker, uint32_t at, char message[BROKER_MESSAGE_CHARS])
{
    static const char *const beliefs[] = {
        [LOG_TRUST_SYNCED] = "what was synced",
        [LOG_TRUST_REWRITE] = "what was synced, the rest is written again",
        [LOG_TRUST_WRITTEN] = "what was written",
        [LOG_TRUST_ALL] = "all",
    };
    struct broker_dir *dir = &broker->dirs[at];
    struct log_dir_trust trust;
    enum err err = log_dir_judge(broker->env.fs, &broker->log, dir->path, dir->clean, &trust);

    if (err == ERR_OK) {
        dir->trust = trust.trust;
        dir->foreign = trust.discard_journals;
        err = journals_find(broker, at, trust.discard_journals);
    }
    if (err == ERR_OK && (dir->clean || dir->list.count == 0)) {
        err = mark_write(broker, at, BOOT_MARK_RUNNING);
        dir->marked = err == ERR_OK;
        if (err == ERR_NO_SPACE) /* the start after a kill takes longer then */
            err = ERR_OK;
    } else if (err == ERR_OK && dir->trust == LOG_TRUST_SYNCED) {
        /* To judge has brought the mark into the page cache: a start after this one, should it break off, would believe
         * it. */
        err = boot_mark_doubt(broker->env.fs, dir->path);
    }
    if (err != ERR_OK) {
        (void)snprintf(message, BROKER_MESSAGE_CHARS, "log directory %s: %s", dir->path,
                       err == ERR_UNSUPPORTED_VERSION ? "its marks or journals are of a later build" : err_text(err));
        return err;
    }
    if (!dir->clean && dir->list.count > 0)
        log_info(&broker->log, "the stop was not clean, believed is %s dir=%s partitions=%" PRIu32, beliefs[dir->trust],
                 dir->path, dir->list.count);
    return ERR_OK;
}

/* What the journal of one reactor may take there; 0: there is none. */
static uint64_t journal_bytes(const struct broker *broker, uint32_t dir)
{
    int64_t configured = config_long(broker->config, CONFIG_OTTLA_JOURNAL_BYTES);
    uint64_t share = UINT64_MAX;
    struct fs_space space;

    if (fs_space(broker->env.fs, broker->dirs[dir].path, &space) == ERR_OK && space.total_bytes > 0)
        share = space.total_bytes / DIR_JOURNALS_DIVISOR / broker->env.reactor_count;
    return (uint64_t)configured < share ? (uint64_t)configured : share;
}

enum err dir_recovery_make_journals(struct broker *broker)
{
    for (uint32_t j = 0; j < broker->dir_count; j++) {
        uint64_t bytes_max = journal_bytes(broker, j);

        for (uint32_t i = 0; bytes_max > 0 && i < broker->env.reactor_count; i++) {
            struct partition_env *env = &broker->shards[i].envs[j];
            struct journal_options options = {
                .reactor = i,
                .directory_id = broker->dirs[j].id,
                .generation = broker->dirs[j].generation + 1,
                .history = &broker->dirs[j].history,
                .elders = journal_replay_file_count(broker->dirs[j].journals),
                .elders_max = JOURNAL_RUNS_MAX * JOURNAL_FILES_MAX * broker->env.reactor_count,
                .bytes_max = bytes_max,
            };
            enum err err = journal_new(env, &options, &env->journal);

            if (err != ERR_OK)
                return err;
        }
    }
    return ERR_OK;
}

void dir_recovery_opened(struct broker_dir *dir)
{
    atomic_fetch_sub_explicit(&dir->unopened, 1, memory_order_release);
}

void dir_recovery_set_aside(struct broker_dir *dir)
{
    dir_recovery_opened(dir);
    atomic_fetch_sub_explicit(&dir->unsettled, 1, memory_order_release);
}

static bool may_be_marked(struct broker_dir *dir)
{
    return !dir->marked && !atomic_load(&dir->failed) &&
           atomic_load_explicit(&dir->unopened, memory_order_acquire) == 0;
}

static bool journals_may_go(struct broker_dir *dir)
{
    return dir->journals != NULL && dir->marked && !atomic_load(&dir->failed) &&
           atomic_load_explicit(&dir->unsettled, memory_order_acquire) == 0;
}

/* Every few seconds while partitions are being recovered. */
static void progress_tell(struct broker *broker)
{
    int64_t now_ns = loop_now_ns(broker->env.controller);

    if (broker->recovery_began_ns == 0) {
        broker->recovery_began_ns = now_ns;
        broker->recovery_told_ns = now_ns;
    }
    if (now_ns - broker->recovery_told_ns < BROKER_RECOVERY_LINE_NS)
        return;
    broker->recovery_told_ns = now_ns;
    for (uint32_t i = 0; i < broker->dir_count; i++) {
        struct broker_dir *dir = &broker->dirs[i];
        uint32_t left = atomic_load_explicit(&dir->unopened, memory_order_acquire);
        int64_t elapsed_ms = (now_ns - broker->recovery_began_ns) / 1000000;
        uint32_t done = dir->found - left;

        if (left == 0 || atomic_load(&dir->failed))
            continue;
        log_info(&broker->log,
                 "recovery goes on dir=%s partitions_done=%" PRIu32 " partitions_left=%" PRIu32 " elapsed_ms=%" PRId64
                 " left_ms=%" PRId64,
                 dir->path, done, left, elapsed_ms, done == 0 ? -1 : elapsed_ms * left / done);
    }
}

bool dir_recovery_is_due(struct broker *broker)
{
    progress_tell(broker);
    for (uint32_t i = 0; i < broker->dir_count; i++)
        if (may_be_marked(&broker->dirs[i]) || journals_may_go(&broker->dirs[i]))
            return true;
    return false;
}

void dir_recovery_go_on(struct broker *broker)
{
    for (uint32_t i = 0; i < broker->dir_count; i++) {
        struct broker_dir *dir = &broker->dirs[i];
        enum err err = ERR_OK;

        if (may_be_marked(dir)) {
            err = mark_write(broker, i, BOOT_MARK_RUNNING);
            dir->marked = err == ERR_OK;
            if (atomic_load(&dir->failed)) /* while that was written: what was said of it meanwhile counts */
                err = mark_write(broker, i, BOOT_MARK_FAILED);
        } else {
            boot_mark_touch(broker->env.fs, dir->path);
        }
        if (err == ERR_OK && journals_may_go(dir)) {
            err = journal_replay_remove(dir->journals);
            if (err == ERR_OK) {
                log_info(&broker->log, "journals of the last run are not needed any more dir=%s", dir->path);
                journal_replay_free(dir->journals);
                dir->journals = NULL;
                atomic_store_explicit(&dir->history, false, memory_order_release);
            }
        }
        if (err != ERR_OK)
            log_line_rated(&broker->log, &broker->checkpoint_lines, LOG_WARN, "recovery not wound up dir=%s err=%s",
                           dir->path, err_name(err));
    }
}

/* --- a directory that failed --- */

static void failed_run(struct loop_job *job)
{
    struct broker_dir *dir = LIST_ENTRY(job, struct broker_dir, failed_job);
    struct broker *broker = dir->failed_shard->broker;
    enum err err = mark_write(broker, (uint32_t)(dir - broker->dirs), BOOT_MARK_FAILED);

    if (err != ERR_OK)
        log_warn(&broker->log, "the failure could not be marked dir=%s err=%s", dir->path, err_name(err));
}

static void failed_done(struct loop_job *job)
{
    struct broker_dir *dir = LIST_ENTRY(job, struct broker_dir, failed_job);

    shard_closing_ended(dir->failed_shard);
}

void dir_recovery_failed(struct shard *shard, uint32_t at)
{
    struct broker_dir *dir = &shard->broker->dirs[at];

    dir->failed_shard = shard;
    dir->failed_job.run = failed_run;
    dir->failed_job.done = failed_done;
    shard->closing++; /* a stop waits for it */
    loop_submit(shard->loop, &dir->failed_job);
}

/* --- the end --- */

enum err dir_recovery_sync_all(struct broker *broker, uint32_t at)
{
    struct broker_dir *dir = &broker->dirs[at];
    enum err err = ERR_OK;

    if (!atomic_load(&dir->unsynced) || atomic_load(&dir->failed))
        return ERR_OK;
    err = log_dir_sync_all(dir->dir);
    if (err == ERR_OK)
        return ERR_OK;
    atomic_store(&dir->failed, true);
    log_error(&broker->log, "log directory failed at the stop's sync dir=%s err=%s", dir->path, err_name(err));
    if (mark_write(broker, at, BOOT_MARK_FAILED) != ERR_OK)
        log_warn(&broker->log, "the failure could not be marked dir=%s", dir->path);
    return err;
}

enum err dir_recovery_end(struct broker *broker, uint32_t at)
{
    enum err err = journal_files_remove(broker->env.fs, broker->dirs[at].path);

    return err == ERR_OK ? mark_write(broker, at, BOOT_MARK_STOPPED) : err;
}

void dir_recovery_free(struct broker *broker)
{
    for (uint32_t i = 0; i < broker->dir_count; i++)
        journal_replay_free(broker->dirs[i].journals);
}
