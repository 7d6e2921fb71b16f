/* What the node does by itself: NoOp records while nothing happens, and snapshots. */
#include "raftmeta/node_internal.h"

#include <stdio.h>

#include "base/assert.h"
#include "raftmeta/metadata_limits.h"

/* --- snapshots --- */

static void write_snapshot(struct loop_job *job)
{
    struct metadata_node *node = LIST_ENTRY(job, struct metadata_node, snapshot_job);
    char name[SNAPSHOT_NAME_CHARS_MAX];
    char path[SNAPSHOT_PATH_CHARS_MAX];
    struct snapshot_source source = {.image = node->snapshot_image,
                                     .voters = node->voters,
                                     .kraft_version = node->kraft_version,
                                     .now_ms = clock_wall_ms(node->options.clock),
                                     .last_ms = image_timestamp_ms(node->snapshot_image),
                                     .epoch = node->snapshot_id.epoch};

    snapshot_name(node->snapshot_id, name);
    node->snapshot_err =
        (size_t)snprintf(path, sizeof(path), "%.*s/%s", SNAPSHOT_PATH_CHARS_MAX - 2, node->dir, name) < sizeof(path)
            ? ERR_OK
            : ERR_LIMIT;
    if (node->snapshot_err == ERR_OK)
        node->snapshot_err = snapshot_write(node->options.fs, path, &source);
    if (node->snapshot_err == ERR_OK)
        node->snapshot_err = snapshot_clean(node->options.fs, node->dir, SNAPSHOTS_KEPT);
}

static void snapshot_written(struct loop_job *job)
{
    struct metadata_node *node = LIST_ENTRY(job, struct metadata_node, snapshot_job);

    if (node->snapshot_err != ERR_OK)
        log_warn(node->options.log, "metadata snapshot not written end_offset=%lld err=%s",
                 (long long)node->snapshot_id.end_offset, err_name(node->snapshot_err));
    else
        log_info(node->options.log, "metadata snapshot written end_offset=%lld topics=%u",
                 (long long)node->snapshot_id.end_offset, image_topic_count(node->snapshot_image));
    image_drop(node->snapshot_image);
    node->snapshot_image = NULL;
    node->snapshot_running = false;
    node_go_on_stopping(node);
}

void node_consider_snapshot(struct metadata_node *node)
{
    int64_t wall_ms = clock_wall_ms(node->options.clock);
    bool old = node->options.snapshot_interval_ms > 0 && node->changed_since_snapshot &&
               wall_ms - node->snapshot_at_ms >= node->options.snapshot_interval_ms;

    if (node->snapshot_running || node->phase != NODE_ACTIVE ||
        (!old && node->bytes_since_snapshot < node->options.snapshot_bytes))
        return;
    node->snapshot_running = true;
    node->snapshot_at_ms = wall_ms;
    node->bytes_since_snapshot = 0;
    node->changed_since_snapshot = false;
    node->snapshot_image = image_keep(node->committed);
    node->snapshot_id = (struct snapshot_id){image_offset(node->committed) + 1, image_epoch(node->committed)};
    node->snapshot_job = (struct loop_job){.run = write_snapshot, .done = snapshot_written};
    loop_submit(node->options.loop, &node->snapshot_job);
}

/* --- NoOp records --- */

/*
 * An idle log moves all the same, so that others can see how far behind they are. Nobody waits for these records: each
 * goes into the page cache and shares the next sync, and only every IDLE_SYNC_EVERY-th asks for one itself.
 */
void node_idle(struct loop_timer *timer)
{
    struct metadata_node *node = LIST_ENTRY(timer, struct metadata_node, idle_timer);
    struct controller_request request = {.type = CONTROLLER_NO_OP};
    bool lazy = ++node->idle_since_sync < IDLE_SYNC_EVERY;
    enum err err = ERR_OK;

    if (node->phase != NODE_ACTIVE)
        return;
    if (!lazy)
        node->idle_since_sync = 0;
    err = node_decide(node, &request, NULL, lazy);
    if (err == ERR_DAMAGED)
        node_fail(node, err, "our own records do not apply");
    /* Without memory the next one tries again. */
    loop_timer_start(node->options.loop, &node->idle_timer,
                     loop_now_ns(node->options.loop) + node->options.idle_interval_ms * 1000000);
    node_consider_snapshot(node);
}
