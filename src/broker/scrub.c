#include "broker/scrub.h"

#include <inttypes.h>

#include "broker/broker_internal.h"

static const int64_t second_ns = INT64_C(1000000000);

static void arm(struct shard *shard, int64_t pause_ns)
{
    if (!shard->stopping)
        loop_timer_start(shard->loop, &shard->scrub.timer, loop_now_ns(shard->loop) + pause_ns);
}

/* False: all had their turn. */
static bool partition_next(struct shard *shard)
{
    struct shard_scrub *scrub = &shard->scrub;
    void *value = NULL;

    while (map_next(&shard->hosted, &scrub->cursor, NULL, &value)) {
        const struct hosted *hosted = value;

        if (hosted->partition == NULL || !partition_is_ready(hosted->partition))
            continue;
        scrub->has_partition = true;
        scrub->topic_id = partition_topic_id(hosted->partition);
        scrub->index = partition_index(hosted->partition);
        scrub->op = (struct log_scrub){.bytes_max = SCRUB_PIECE_BYTES, .done = scrub->op.done};
        scrub->pass_partitions++;
        return true;
    }
    return false;
}

static void pass_end(struct shard *shard)
{
    struct shard_scrub *scrub = &shard->scrub;
    int64_t took_ns = loop_now_ns(shard->loop) - scrub->pass_began_ns;
    int64_t pause_ns = SCRUB_PASS_S_MIN * second_ns - took_ns;

    if (scrub->pass_bytes > 0)
        log_info(&shard->broker->log, "old data read again partitions=%" PRIu32 " bytes=%" PRIu64 " took_s=%" PRId64,
                 scrub->pass_partitions, scrub->pass_bytes, took_ns / second_ns);
    scrub->cursor = 0;
    scrub->pass_bytes = 0;
    scrub->pass_partitions = 0;
    scrub->pass_began_ns = 0;
    arm(shard, pause_ns > second_ns ? pause_ns : second_ns);
}

static void piece(struct loop_timer *timer)
{
    struct shard *shard = LIST_ENTRY(timer, struct shard, scrub.timer);
    struct shard_scrub *scrub = &shard->scrub;
    struct partition *partition = NULL;

    if (scrub->pass_began_ns == 0)
        scrub->pass_began_ns = loop_now_ns(shard->loop);
    if (!scrub->has_partition && !partition_next(shard)) {
        pass_end(shard);
        return;
    }
    partition = shard_find(shard, scrub->topic_id, scrub->index);
    if (partition == NULL || !partition_is_ready(partition)) {
        scrub->has_partition = false;
        arm(shard, 0);
        return;
    }
    scrub->piece_began_ns = loop_now_ns(shard->loop);
    partition_scrub(partition, &scrub->op);
}

static void piece_done(struct log_scrub *op)
{
    struct shard *shard = LIST_ENTRY(op, struct shard, scrub.op);
    struct shard_scrub *scrub = &shard->scrub;
    int64_t took_ns = loop_now_ns(shard->loop) - scrub->piece_began_ns;
    int64_t pause_ns = (int64_t)((double)op->bytes / (double)scrub->rate * (double)second_ns);

    scrub->pass_bytes += op->bytes;
    if (op->err != ERR_OK || op->at_end)
        scrub->has_partition = false;
    /* Whoever waits for the same disk comes first. */
    if (pause_ns < took_ns * SCRUB_REST_FACTOR)
        pause_ns = took_ns * SCRUB_REST_FACTOR;
    arm(shard, pause_ns);
}

void scrub_begin(struct shard *shard)
{
    struct shard_scrub *scrub = &shard->scrub;
    int64_t rate = config_long(shard->broker->config, CONFIG_OTTLA_SCRUB_BYTES_PER_SECOND);

    if (rate == 0)
        return;
    *scrub = (struct shard_scrub){.op.done = piece_done, .timer.fired = piece};
    scrub->rate = rate / (int64_t)shard->broker->env.reactor_count;
    if (scrub->rate < 1)
        scrub->rate = 1;
    arm(shard, SCRUB_FIRST_S * second_ns);
}

void scrub_end(struct shard *shard)
{
    loop_timer_stop(shard->loop, &shard->scrub.timer);
}
