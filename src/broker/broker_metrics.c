#include "broker/broker_metrics.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"

enum { NAME_CHARS = 96 };

/* The metrics of one row; the names are theirs. */
struct api_metrics {
    struct metric requests;
    struct metric seconds;
    char requests_name[NAME_CHARS];
    char seconds_name[NAME_CHARS];
};

struct broker_metrics {
    struct metrics *metrics;
    struct metric refused;
    struct metric damage;
    struct metric clock_doubted;
    struct metric turns;
    struct api_metrics apis[]; /* by row */
};

static const struct api_metrics *of(const struct broker_metrics *metrics, const struct api *api)
{
    return &metrics->apis[api - api_at(0)];
}

enum err broker_metrics_new(struct broker_metrics **out)
{
    struct broker_metrics *metrics = mem_calloc(1, sizeof(*metrics) + api_count() * sizeof(metrics->apis[0]));
    enum err err = ERR_OK;

    if (metrics == NULL)
        return ERR_NOMEM;
    err = metrics_new(&metrics->metrics);
    if (err != ERR_OK) {
        mem_free(metrics);
        return err;
    }
    metrics->refused = metrics_add_counter(metrics->metrics, "ottla_requests_refused_total",
                                           "Requests that closed their connection: not served, or not parsed.");
    metrics->damage = metrics_add_counter(metrics->metrics, "ottla_log_damage_total",
                                          "Ranges of logs that are damaged, kept and not served.");
    metrics->clock_doubted =
        metrics_add_gauge(metrics->metrics, "ottla_wall_clock_doubted",
                          "1 while a jump of the wall clock keeps anything from being deleted by its age.");
    metrics->turns = metrics_add_histogram(metrics->metrics, "ottla_reactor_turn_seconds",
                                           "Between two waits of a loop: how long a socket may be kept waiting.", 1e-9);
    for (uint32_t i = 0; i < api_count(); i++) {
        struct api_metrics *api = &metrics->apis[i];

        (void)snprintf(api->requests_name, NAME_CHARS, "ottla_requests_total{api=\"%s\"}", api_at(i)->name);
        (void)snprintf(api->seconds_name, NAME_CHARS, "ottla_request_seconds{api=\"%s\"}", api_at(i)->name);
    }
    /* Those of one name one after the other. */
    for (uint32_t i = 0; i < api_count(); i++)
        metrics->apis[i].requests =
            metrics_add_counter(metrics->metrics, metrics->apis[i].requests_name, "Requests ended, answered or not.");
    for (uint32_t i = 0; i < api_count(); i++)
        metrics->apis[i].seconds = metrics_add_histogram(metrics->metrics, metrics->apis[i].seconds_name,
                                                         "From a request's last byte to its reply.", 1e-9);
    *out = metrics;
    return ERR_OK;
}

void broker_metrics_free(struct broker_metrics *metrics)
{
    if (metrics == NULL)
        return;
    metrics_free(metrics->metrics);
    mem_free(metrics);
}

struct metrics *broker_metrics_registry(const struct broker_metrics *metrics)
{
    return metrics->metrics;
}

void broker_metrics_count(const struct broker_metrics *metrics, struct metrics_block *block, const struct api *api,
                          int64_t took_ns)
{
    const struct api_metrics *row = of(metrics, api);

    metrics_count(block, row->requests, 1);
    metrics_record(block, row->seconds, took_ns < 0 ? 0 : (uint64_t)took_ns);
}

void broker_metrics_turn(const struct broker_metrics *metrics, struct metrics_block *block, int64_t took_ns)
{
    metrics_record(block, metrics->turns, took_ns < 0 ? 0 : (uint64_t)took_ns);
}

void broker_metrics_damage(const struct broker_metrics *metrics, struct metrics_block *block, uint32_t ranges)
{
    metrics_count(block, metrics->damage, ranges);
}

void broker_metrics_refuse(const struct broker_metrics *metrics, struct metrics_block *block)
{
    metrics_count(block, metrics->refused, 1);
}

void broker_metrics_doubt_clock(const struct broker_metrics *metrics, struct metrics_block *block, bool doubted)
{
    metrics_set(block, metrics->clock_doubted, doubted);
}

uint64_t broker_metrics_requests(const struct broker_metrics *metrics, int16_t api_key)
{
    const struct api *api = api_find(api_key);

    assert(api != NULL);
    return metrics_read_counter(metrics->metrics, of(metrics, api)->requests);
}

uint64_t broker_metrics_refused(const struct broker_metrics *metrics)
{
    return metrics_read_counter(metrics->metrics, metrics->refused);
}
