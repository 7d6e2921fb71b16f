/*
 * broker_metrics: what a broker counts of its requests; the names follow from the API table. Each shard writes into a
 * block of its own, and whoever reads adds them up (base/metrics.h).
 *
 *   ottla_requests_total{api="Fetch"}           answered, silently ended ones included
 *   ottla_request_seconds{api="Fetch"}          from the request's last byte to its reply
 *   ottla_requests_refused_total                connections closed for what is not served, or cannot be parsed
 *   ottla_log_damage_total                      ranges of logs that are damaged, those marked by earlier runs too
 *   ottla_wall_clock_doubted                    1 while nothing is deleted by age, because the wall clock has jumped
 *
 * Threads  made and freed with the broker; each block on its shard's loop; reading any.
 */
#ifndef OTTLA_BROKER_BROKER_METRICS_H
#define OTTLA_BROKER_BROKER_METRICS_H

#include "base/metrics.h"
#include "broker/api_table.h"

struct broker_metrics;

/* ERR_NOMEM. */
MUST_CHECK enum err broker_metrics_new(struct broker_metrics **metrics);
/* NULL does nothing. */
void broker_metrics_free(struct broker_metrics *metrics);
struct metrics *broker_metrics_registry(const struct broker_metrics *metrics);

void broker_metrics_count(const struct broker_metrics *metrics, struct metrics_block *block, const struct api *api,
                          int64_t took_ns);
/* A turn of a loop took so long. */
void broker_metrics_turn(const struct broker_metrics *metrics, struct metrics_block *block, int64_t took_ns);
void broker_metrics_damage(const struct broker_metrics *metrics, struct metrics_block *block, uint32_t ranges);
void broker_metrics_refuse(const struct broker_metrics *metrics, struct metrics_block *block);
/* By one shard for the node. */
void broker_metrics_doubt_clock(const struct broker_metrics *metrics, struct metrics_block *block, bool doubted);
/* Over all shards. */
uint64_t broker_metrics_requests(const struct broker_metrics *metrics, int16_t api_key);
uint64_t broker_metrics_refused(const struct broker_metrics *metrics);

#endif
