/*
 * retention: the timer by which each shard has its partitions delete what is too old or too much, and looks whether the
 * wall clock has jumped.
 *
 * Bounds   RETENTION_TURN_PARTITIONS a turn: a shard of a hundred thousand partitions serves others in between.
 * Threads  the shard's loop.
 */
#ifndef OTTLA_BROKER_RETENTION_H
#define OTTLA_BROKER_RETENTION_H

struct shard;

/* The first check is log.initial.task.delay.ms from now, one begins log.retention.check.interval.ms after the other. */
void retention_begin(struct shard *shard);
void retention_end(struct shard *shard);

#endif
