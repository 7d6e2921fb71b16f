#include "broker/retention.h"

#include <inttypes.h>

#include "broker/broker_internal.h"

static void arm(struct shard *shard, int64_t due_ns)
{
    loop_timer_start(shard->loop, &shard->retention_timer, due_ns);
}

static int64_t config_ns(const struct shard *shard, enum config_id id)
{
    int64_t ms = config_long(shard->broker->config, id);

    return ms < RETENTION_INTERVAL_MS_MAX ? ms * 1000000 : RETENTION_INTERVAL_MS_MAX * 1000000;
}

/* One line when it begins to be doubted, one when it is believed again: of the first shard, since all find the same. */
static void watch_clock(struct shard *shard)
{
    struct broker *broker = shard->broker;
    struct clock_guard *guard = &shard->clock_guard;
    bool doubted = guard->doubts;
    bool trusted = clock_guard_trusts(guard, clock_wall_ms(broker->env.clock), clock_boot_ns(broker->env.clock));

    if (shard->index != 0 || doubted == !trusted)
        return;
    broker_metrics_doubt_clock(broker->metrics, shard->metrics, !trusted);
    if (!trusted)
        log_warn(&broker->log,
                 "the wall clock has jumped, nothing is deleted by age until it is back or the node is started anew "
                 "jump_ms=%" PRId64 " ottla.clock.jump.max.ms=%" PRId64,
                 guard->jump_ms, guard->jump_ms_max);
    else
        log_info(&broker->log, "the wall clock is back");
}

static void check(struct loop_timer *timer)
{
    struct shard *shard = LIST_ENTRY(timer, struct shard, retention_timer);
    void *value = NULL;

    if (shard->retention_cursor == 0) {
        watch_clock(shard);
        shard->retention_due_ns = loop_now_ns(shard->loop) + config_ns(shard, CONFIG_LOG_RETENTION_CHECK_INTERVAL_MS);
    }
    for (uint32_t i = 0; i < RETENTION_TURN_PARTITIONS; i++) {
        /* What came or went since the last turn may move others past the cursor: the next check finds them. */
        if (!map_next(&shard->hosted, &shard->retention_cursor, NULL, &value)) {
            shard->retention_cursor = 0;
            arm(shard, shard->retention_due_ns);
            return;
        }
        if (((struct hosted *)value)->partition != NULL)
            partition_retain(((struct hosted *)value)->partition);
    }
    arm(shard, loop_now_ns(shard->loop));
}

void retention_begin(struct shard *shard)
{
    shard->retention_timer.fired = check;
    shard->retention_cursor = 0;
    arm(shard, loop_now_ns(shard->loop) + config_ns(shard, CONFIG_LOG_INITIAL_TASK_DELAY_MS));
}

void retention_end(struct shard *shard)
{
    loop_timer_stop(shard->loop, &shard->retention_timer);
}
