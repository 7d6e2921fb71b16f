/* A partition changes its log directory: the log's move, of one that is ready. */
#include "base/assert.h"
#include "partition/partition_internal.h"

void partition_move(struct partition *partition, struct log_move *op)
{
    assert(partition->state == PARTITION_READY);
    partition_log_move(partition->log, op);
}

void partition_move_cancel(struct partition *partition)
{
    if (partition->state == PARTITION_READY)
        partition_log_move_cancel(partition->log);
}

void partition_moved(struct partition *partition, const struct partition_env *env)
{
    partition->env = env;
}
