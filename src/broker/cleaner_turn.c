#include "broker/cleaner_turn.h"

#include "base/list.h"
#include "broker/broker_internal.h"
#include "broker/dynamic_config.h"

static int64_t number(const struct shard *shard, enum config_id id)
{
    return dynamic_config_long(shard->broker, shard->image, id);
}

static void arm(struct shard *shard, int64_t ms)
{
    if (!shard->cleaner.ended)
        loop_timer_start(shard->loop, &shard->cleaner.timer, loop_now_ns(shard->loop) + ms * 1000000);
}

static void arm_later(struct shard *shard)
{
    int64_t ms = number(shard, CONFIG_LOG_CLEANER_BACKOFF_MS);

    arm(shard, ms < CLEANER_BACKOFF_MS_MIN   ? CLEANER_BACKOFF_MS_MIN
               : ms > CLEANER_BACKOFF_MS_MAX ? CLEANER_BACKOFF_MS_MAX
                                             : ms);
}

static struct partition *dirtiest(struct shard *shard, int64_t now_ms)
{
    struct partition *best = NULL;
    double best_ratio = -1;
    void *value = NULL;

    for (uint32_t cursor = 0; map_next(&shard->hosted, &cursor, NULL, &value);) {
        struct partition *partition = ((struct hosted *)value)->partition;
        struct log_cleanable cleanable;

        if (partition == NULL || !partition_config(partition)->cleanup_compact)
            continue;
        partition_look_cleanable(partition, now_ms, &cleanable);
        if (cleanable.is_due && cleanable.ratio > best_ratio) {
            best = partition;
            best_ratio = cleanable.ratio;
        }
    }
    return best;
}

/* One of the broker's cleanings. */
static bool take(struct shard *shard, int64_t threads)
{
    if (atomic_fetch_add(&shard->broker->cleanings, 1) < threads)
        return true;
    atomic_fetch_sub(&shard->broker->cleanings, 1);
    return false;
}

static void cleaned(struct log_clean *op)
{
    struct shard_cleaner *cleaner = LIST_ENTRY(op, struct shard_cleaner, op);
    struct shard *shard = cleaner->shard;

    cleaner->busy = false;
    atomic_fetch_sub(&shard->broker->cleanings, 1);
    if (op->err == ERR_OK)
        arm(shard, 0);
    else
        arm_later(shard);
}

static void clean(struct shard *shard, struct partition *partition, int64_t now_ms, int64_t threads)
{
    struct shard_cleaner *cleaner = &shard->cleaner;
    int64_t map_bytes = number(shard, CONFIG_LOG_CLEANER_DEDUPE_BUFFER_SIZE) / threads;
    int64_t buffer_bytes = number(shard, CONFIG_LOG_CLEANER_IO_BUFFER_SIZE) / threads / 2;
    double load = dynamic_config_double(shard->broker, shard->image, CONFIG_LOG_CLEANER_IO_BUFFER_LOAD_FACTOR);
    double rate = dynamic_config_double(shard->broker, shard->image, CONFIG_LOG_CLEANER_IO_MAX_BYTES_PER_SECOND);

    cleaner->busy = true;
    cleaner->op = (struct log_clean){
        .now_ms = now_ms,
        .map_bytes_max = map_bytes < CLEANER_MAP_BYTES_MIN ? CLEANER_MAP_BYTES_MIN : (size_t)map_bytes,
        .map_load = load > 0 ? load : 0.9,
        .buffer_bytes = buffer_bytes < CLEANER_BUFFER_BYTES_MIN ? CLEANER_BUFFER_BYTES_MIN : (size_t)buffer_bytes,
        .bytes_per_second = rate / (double)threads >= 1 ? rate / (double)threads : 1,
        .done = cleaned,
    };
    partition_clean(partition, &cleaner->op);
}

static void turn(struct loop_timer *timer)
{
    struct shard_cleaner *cleaner = LIST_ENTRY(timer, struct shard_cleaner, timer);
    struct shard *shard = cleaner->shard;
    int64_t threads = number(shard, CONFIG_LOG_CLEANER_THREADS);
    int64_t now_ms = clock_wall_ms(shard->broker->env.clock);
    struct partition *partition = threads < 1 ? NULL : dirtiest(shard, now_ms);

    if (partition != NULL && take(shard, threads))
        clean(shard, partition, now_ms, threads);
    else
        arm_later(shard);
}

void cleaner_turn_begin(struct shard *shard)
{
    shard->cleaner = (struct shard_cleaner){.shard = shard, .timer.fired = turn};
    if (config_bool(shard->broker->config, CONFIG_LOG_CLEANER_ENABLE))
        arm_later(shard);
}

void cleaner_turn_end(struct shard *shard)
{
    shard->cleaner.ended = true;
    loop_timer_stop(shard->loop, &shard->cleaner.timer);
}
