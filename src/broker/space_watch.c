/* Looking at the free space of the log directories: one job each, so that a disk that hangs keeps nobody else waiting.
 * It decides nothing: partition/dir_space.h does. */
#include "base/assert.h"
#include "broker/broker_internal.h"

static void look(struct loop_job *job)
{
    struct broker_dir *dir = LIST_ENTRY(job, struct broker_dir, watch.job);

    dir_space_look(&dir->space);
}

static bool is_idle(const struct broker *broker)
{
    for (uint32_t i = 0; i < broker->dir_count; i++)
        if (broker->dirs[i].watch.busy)
            return false;
    return true;
}

static void arm(struct broker_dir *dir)
{
    struct loop *loop = dir->watch.broker->env.controller;

    loop_timer_start(loop, &dir->watch.timer, loop_now_ns(loop) + dir_space_pause_ns(&dir->space));
}

static void looked(struct loop_job *job)
{
    struct broker_dir *dir = LIST_ENTRY(job, struct broker_dir, watch.job);
    struct broker *broker = dir->watch.broker;
    void (*idle)(struct broker * broker) = broker->space_idle;

    dir->watch.busy = false;
    if (idle == NULL) {
        arm(dir);
    } else if (is_idle(broker)) {
        broker->space_idle = NULL;
        idle(broker);
    }
}

static void look_begin(struct broker_dir *dir)
{
    dir->watch.busy = true;
    loop_submit(dir->watch.broker->env.controller, &dir->watch.job);
}

static void due(struct loop_timer *timer)
{
    look_begin(LIST_ENTRY(timer, struct broker_dir, watch.timer));
}

void space_watch_begin(struct broker *broker)
{
    for (uint32_t i = 0; i < broker->dir_count; i++) {
        struct broker_dir *dir = &broker->dirs[i];

        dir->watch =
            (struct space_watch){.broker = broker, .timer = {.fired = due}, .job = {.run = look, .done = looked}};
        dir_space_serve(&dir->space);
        look_begin(dir); /* the reserve of a new directory is made now, when nobody waits for the start any more */
    }
}

void space_watch_end(struct broker *broker, void (*idle)(struct broker *broker))
{
    for (uint32_t i = 0; i < broker->dir_count; i++)
        loop_timer_stop(broker->env.controller, &broker->dirs[i].watch.timer);
    if (is_idle(broker))
        idle(broker);
    else
        broker->space_idle = idle;
}

enum err space_watch_open(struct broker *broker)
{
    const struct dir_space_config config = {
        .reserve_bytes = config_long(broker->config, CONFIG_OTTLA_DISK_RESERVE_BYTES),
        .warn_bytes = config_long(broker->config, CONFIG_OTTLA_DISK_WARN_BYTES),
        .refuse_bytes = config_long(broker->config, CONFIG_OTTLA_DISK_REFUSE_BYTES),
    };
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < broker->dir_count && err == ERR_OK; i++)
        err = dir_space_open(&broker->dirs[i].space, broker->env.fs, broker->env.clock, &broker->log,
                             broker->dirs[i].path, &config);
    return err;
}

void space_watch_close(struct broker *broker)
{
    for (uint32_t i = 0; i < broker->dir_count; i++)
        dir_space_close(&broker->dirs[i].space);
}
