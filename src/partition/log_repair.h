/*
 * log_repair: mends a partition's directory while no broker has it: everything but the .log files is made anew from
 * them, and a damaged range can be given up.
 *
 * Compaction may have left gaps, and nobody says here which topics compact: gaps are kept.
 * Threads  blocks; nobody else has the directory. env->loop is not used.
 */
#ifndef OTTLA_PARTITION_LOG_REPAIR_H
#define OTTLA_PARTITION_LOG_REPAIR_H

#include "partition/damage.h"
#include "partition/log.h"

#define LOG_LOST_SUFFIX ".lost" /* of the files that keep what was cut out; Apache Kafka passes over them */

struct log_repaired {
    int64_t start_offset;
    int64_t end_offset;
    struct partition_log_recovery recovery;
    uint32_t damaged; /* ranges that are marked, and stay as they are */
    uint32_t given_up;
    int64_t offsets_lost; /* in those given up */
};

/*
 * Indexes, transaction indexes, epochs and producer snapshots are removed and rebuilt by reading every batch; a torn
 * end is cut. spec: as for opening it.
 */
MUST_CHECK enum err log_repair_partition(const struct partition_env *env, const struct partition_log_spec *spec,
                                         struct log_repaired *repaired);
/* Each marked range becomes one batch without records, so that readers pass over it; its bytes go to a file beside the
 * segment, named <segment>.<position>.lost. Then as above. */
MUST_CHECK enum err log_repair_give_up(const struct partition_env *env, const struct partition_log_spec *spec,
                                       struct log_repaired *repaired);
/* What a start would do after a crash, and then a clean stop: torn ends are cut, indexes trimmed, all of it synced. */
MUST_CHECK enum err log_repair_recover(const struct partition_env *env, const struct partition_log_spec *spec,
                                       struct log_repaired *repaired);

#endif
