#include "partition/sync_group.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/log_syncing.h"
#include "partition/partition_limits.h"

enum group_state {
    GROUP_IDLE,
    GROUP_WAITING, /* for the directory's turn */
    GROUP_GATHERING,
    GROUP_SYNCING,
    GROUP_ENDING, /* members hear of it */
};

struct sync_group {
    const struct partition_env *env;
    struct fs_file *file;
    atomic_bool *turn;
    uint32_t logs_min;
    struct list dirty; /* logs that have something un-synced, but for those that are to be synced sooner than others */
    uint32_t dirty_count;
    enum group_state state;
    bool again;          /* a log is due that is not in this one */
    bool failure_told;   /* of this one */
    int64_t ended_ns;    /* the last one */
    uint32_t left;       /* dirty logs that were not looked at yet */
    struct list members; /* of struct log_sync_job */
    struct loop_task step_task;
    struct loop_timer turn_timer;
    struct loop_job job;
    enum err err; /* of the calls for the whole file system */
};

static void gather(struct sync_group *group);
static void end_some(struct sync_group *group);

/* --- who has something to sync --- */

static void leave(struct sync_group *group, struct partition_log *log)
{
    if (!list_node_is_linked(&log->awake->by_dirty))
        return;
    list_remove(&log->awake->by_dirty);
    group->dirty_count--;
    log->sync_waits = false;
    if (group->dirty_count == 0 && group->state == GROUP_WAITING) {
        loop_timer_stop(group->env->loop, &group->turn_timer);
        group->state = GROUP_IDLE;
    }
}

void sync_group_follow(struct partition_log *log)
{
    struct sync_group *group = log->env->sync_group;

    if (group == NULL)
        return;
    if (log->awake->unsynced_bytes == 0 || log->failed || !log->adopted || log_sync_is_asked_for(log)) {
        leave(group, log);
    } else if (!list_node_is_linked(&log->awake->by_dirty)) {
        list_add_last(&group->dirty, &log->awake->by_dirty);
        group->dirty_count++;
    }
}

void sync_group_leave(struct partition_log *log)
{
    if (log->env->sync_group != NULL)
        leave(log->env->sync_group, log);
}

static bool may_join(const struct partition_log *log)
{
    return log->awake->sync_job == NULL && !log->failed && log->closing == NULL && !log_is_held(log) &&
           !log_sync_is_asked_for(log) && list_is_empty(&log->awake->syncs) &&
           list_node_is_linked(&log->awake->by_dirty);
}

/* --- begin --- */

static void step(struct loop_task *task)
{
    struct sync_group *group = LIST_ENTRY(task, struct sync_group, step_task);

    if (group->state == GROUP_GATHERING)
        gather(group);
    else
        end_some(group);
}

static void take_turn(struct sync_group *group)
{
    if (atomic_exchange(group->turn, true)) {
        group->state = GROUP_WAITING;
        loop_timer_start(group->env->loop, &group->turn_timer, loop_now_ns(group->env->loop) + SYNC_GROUP_AGAIN_NS);
        return;
    }
    group->state = GROUP_GATHERING;
    group->left = group->dirty_count;
    group->again = false;
    group->failure_told = false;
    gather(group);
}

static void turn_may_be_ours(struct loop_timer *timer)
{
    take_turn(LIST_ENTRY(timer, struct sync_group, turn_timer));
}

bool sync_group_takes(struct partition_log *log)
{
    struct sync_group *group = log->env->sync_group;

    if (group == NULL || !may_join(log))
        return false;
    if (group->state == GROUP_IDLE && group->dirty_count < group->logs_min)
        return false;
    log->sync_waits = true;
    group->again = true;
    if (group->state == GROUP_IDLE)
        take_turn(group);
    return true;
}

void sync_group_hasten(struct sync_group *group)
{
    if (group != NULL && group->state == GROUP_IDLE && group->dirty_count >= group->logs_min &&
        loop_now_ns(group->env->loop) >= group->ended_ns + SYNC_GROUP_PAUSE_NS)
        take_turn(group);
}

/* --- the sync --- */

static struct log_sync_job *member_of(struct list_node *node)
{
    return LIST_ENTRY(node, struct log_sync_job, in_group);
}

/* It waits for the disk no more, so whoever waits for room below the directory's bound need not wait for the others. */
static void count_off(const struct sync_group *group, struct log_sync_job *member)
{
    dirty_move(group->env->dirty, -member->counted_bytes);
    member->counted_bytes = 0;
}

static enum err each_file(const struct log_sync_job *member, bool wait)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < member->plan.file_count && err == ERR_OK; i++) {
        struct fs_file *file = member->plan.files[i].file;

        if (file != NULL)
            err = wait ? fs_write_out(file) : fs_write_behind(file, 0, 0);
    }
    return err;
}

/* All files are written out before they are synced, some ahead of the one that is waited for. */
static enum err write_out(const struct sync_group *group)
{
    struct list_node *ahead = list_first(&group->members);
    uint32_t depth = 0;

    list_each (&group->members, node) {
        for (; ahead != NULL && depth < SYNC_GROUP_AHEAD_LOGS; depth++) {
            if (each_file(member_of(ahead), false) != ERR_OK)
                return ERR_IO;
            ahead = list_next(&group->members, ahead);
        }
        if (each_file(member_of(node), true) != ERR_OK)
            return ERR_IO;
        depth--;
        count_off(group, member_of(node));
    }
    return ERR_OK;
}

/* What each has to write is written, the rest is the call's. */
static void run(struct loop_job *base)
{
    struct sync_group *group = LIST_ENTRY(base, struct sync_group, job);
    const struct partition_env *env = group->env;
    bool named = false;

    list_each (&group->members, node) {
        struct log_sync_job *member = member_of(node);

        member->err = log_sync_plan_run(env, member->log->dir, &member->plan);
    }
    group->err = write_out(group);
    if (group->err == ERR_OK)
        group->err = fs_sync_all(group->file);
    if (group->err != ERR_OK)
        return;
    list_each (&group->members, node) {
        struct log_sync_job *member = member_of(node);

        if (member->err == ERR_OK)
            member->err = log_sync_plan_settle(env, member->log->dir, &member->plan, &named);
    }
    if (named)
        group->err = fs_sync_all(group->file);
}

static void run_done(struct loop_job *base)
{
    struct sync_group *group = LIST_ENTRY(base, struct sync_group, job);

    atomic_store(group->turn, false);
    group->state = GROUP_ENDING;
    end_some(group);
}

static void gather(struct sync_group *group)
{
    for (uint32_t i = 0; i < SYNC_GROUP_SLICE_LOGS && group->left > 0 && !list_is_empty(&group->dirty); i++) {
        struct partition_log *log = LIST_ENTRY(list_first(&group->dirty), struct log_awake, by_dirty)->log;
        struct log_sync_job *member = NULL;

        group->left--;
        list_remove(&log->awake->by_dirty);
        list_add_last(&group->dirty, &log->awake->by_dirty);
        if (may_join(log))
            member = log_sync_job_new(log);
        if (member != NULL) {
            member->plan.unsynced = true;
            member->counted_bytes = log->awake->lent_bytes = log->awake->counted_bytes;
            log->awake->counted_bytes = 0;
            list_add_last(&group->members, &member->in_group);
        }
        if (log->sync_waits) {
            log->sync_waits = false;
            log_timer_set(log);
        }
    }
    if (group->left > 0 && !list_is_empty(&group->dirty)) {
        loop_post(group->env->loop, &group->step_task);
        return;
    }
    if (list_is_empty(&group->members)) {
        atomic_store(group->turn, false);
        group->state = GROUP_IDLE;
        return;
    }
    group->state = GROUP_SYNCING;
    loop_submit(group->env->loop, &group->job);
}

/* --- end --- */

static void end_one(struct sync_group *group, struct log_sync_job *member)
{
    struct partition_log *log = member->log;

    count_off(group, member);
    log->awake->lent_bytes = 0;
    if (group->err != ERR_OK) {
        /* Whatever the error was, whichever file it concerned: of any of these pages nobody knows. One line says so. */
        member->err = ERR_IO;
        if (group->failure_told)
            partition_log_fail(log, ERR_IO);
        else
            (void)log_storage_error(log, ERR_IO, "sync of the whole file system failed");
        group->failure_told = true;
    }
    log_sync_job_end(member);
}

/* Logs became due meanwhile. */
static void go_on(struct sync_group *group)
{
    uint32_t left = group->dirty_count;

    if (!group->again)
        return;
    if (group->dirty_count >= group->logs_min) {
        take_turn(group);
        return;
    }
    group->again = false;
    for (; left > 0 && !list_is_empty(&group->dirty); left--) {
        struct partition_log *log = LIST_ENTRY(list_first(&group->dirty), struct log_awake, by_dirty)->log;

        list_remove(&log->awake->by_dirty);
        list_add_last(&group->dirty, &log->awake->by_dirty);
        if (!log->sync_waits)
            continue;
        log->sync_waits = false;
        log_sync_start(log);
        log_timer_set(log);
    }
}

static void end_some(struct sync_group *group)
{
    for (uint32_t i = 0; i < SYNC_GROUP_SLICE_LOGS && !list_is_empty(&group->members); i++)
        end_one(group, member_of(list_take_first(&group->members)));
    if (!list_is_empty(&group->members)) {
        loop_post(group->env->loop, &group->step_task);
        return;
    }
    group->state = GROUP_IDLE;
    group->ended_ns = loop_now_ns(group->env->loop);
    go_on(group);
}

/* --- life --- */

enum err sync_group_new(const struct partition_env *env, const struct sync_group_options *options,
                        struct sync_group **group)
{
    struct sync_group *made = mem_calloc(1, sizeof(*made));

    if (made == NULL)
        return ERR_NOMEM;
    made->env = env;
    made->file = options->file;
    made->turn = options->turn;
    made->logs_min = options->logs_min > 0 ? options->logs_min : SYNC_GROUP_LOGS_MIN;
    made->step_task.run = step;
    made->turn_timer.fired = turn_may_be_ours;
    made->job.run = run;
    made->job.done = run_done;
    list_init(&made->dirty);
    list_init(&made->members);
    *group = made;
    return ERR_OK;
}

void sync_group_free(struct sync_group *group)
{
    if (group == NULL)
        return;
    assert(list_is_empty(&group->dirty) && list_is_empty(&group->members));
    fs_file_drop(group->file);
    mem_free(group);
}
