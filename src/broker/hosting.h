/*
 * hosting: partitions come to live on a shard, and leave it. Where one lies: in the directory in which the start found
 * it; found in several, in that which the metadata names, and where they name none of them the start ends, since one of
 * them is old, unless it is bare: without a topic id and without a record. A copy that a move left unfinished counts
 * only where nothing else is there. Where the metadata name a directory that is not here, neither a copy nor a bare
 * directory counts, and while one of log.dirs is missing no log in the others does either; where they name none, a log
 * that is here counts, and where none is, the partition is left alone while one of log.dirs is missing. What does not
 * count is kept, and the partition is offline. A new one goes where the metadata, somebody's wish (dir_moves.h) or the
 * number of partitions says.
 *
 * Threads  the shard's loop.
 */
#ifndef OTTLA_BROKER_HOSTING_H
#define OTTLA_BROKER_HOSTING_H

#include "broker/shard.h"

/* Begins to open it; config: shared with the topic's others, kept. is_new: the node serves, and has had no such replica
 * until now; any other that is nowhere to be seen is not made anew while one of log.dirs is missing. ERR_NOMEM;
 * ERR_BUSY: it is found in more directories than one. Either ends the start where something of it was found. */
MUST_CHECK enum err hosting_begin(struct shard *shard, const struct image_topic *topic, int32_t index,
                                  struct log_config *config, bool is_new);
/* Closes it, or deletes it. */
void hosting_end(struct shard *shard, struct hosted *hosted, bool delete);

#endif
