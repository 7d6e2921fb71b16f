/*
 * dir_recovery: what a start found of each log directory's last run, until all of it is settled: how far it is to be
 * believed, the journals of that run, and the mark of this one (partition/boot_mark.h).
 *
 * The mark says this boot only once every partition of the directory has been opened, so that a start that is broken
 * off leaves the next one to look as closely. The old journals go once every log has synced what it had from that run.
 *
 * Threads  as each says.
 */
#ifndef OTTLA_BROKER_DIR_RECOVERY_H
#define OTTLA_BROKER_DIR_RECOVERY_H

#include "broker/broker_internal.h"

/* Before the reactors run; the partitions were listed. Blocks. message: out, where it fails. */
MUST_CHECK enum err dir_recovery_begin(struct broker *broker, uint32_t dir, char message[BROKER_MESSAGE_CHARS]);
/* Makes the journals of all reactors, once all directories have begun. */
MUST_CHECK enum err dir_recovery_make_journals(struct broker *broker);
/* A partition that was found is open; or it is set aside, and nobody will open it. Any thread. */
void dir_recovery_opened(struct broker_dir *dir);
void dir_recovery_set_aside(struct broker_dir *dir);

/* Whether dir_recovery_go_on has something to do; says in a line now and then how a long start gets on. Controller
 * loop. */
bool dir_recovery_is_due(struct broker *broker);
/* On an I/O thread: removes what is settled, writes the marks. */
void dir_recovery_go_on(struct broker *broker);

/* A sync has failed in the directory: the mark is to say so, as far as the disk lets it. On that shard's loop. */
void dir_recovery_failed(struct shard *shard, uint32_t at);
/* On an I/O thread, the logs are all closed: what some of them left to be synced is. ERR_IO: the directory has failed.
 */
MUST_CHECK enum err dir_recovery_sync_all(struct broker *broker, uint32_t dir);
/* On an I/O thread, the logs are all closed and synced: nothing is left in the journals. */
MUST_CHECK enum err dir_recovery_end(struct broker *broker, uint32_t dir);
/* While no loop runs. */
void dir_recovery_free(struct broker *broker);

#endif
