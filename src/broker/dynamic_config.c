#include "broker/dynamic_config.h"

#include "broker/broker_internal.h"
#include "broker/topic_config.h"
#include "net/connection_limits.h"

static struct config_value value_of(const struct broker *broker, const struct image *image, enum config_id id)
{
    char room[CONFIG_NUMBER_CHARS];
    struct bytes text;

    return config_effective_value(broker->config, image, broker->node_id, id, NULL, &text, room);
}

int64_t dynamic_config_long(const struct broker *broker, const struct image *image, enum config_id id)
{
    return value_of(broker, image, id).number;
}

double dynamic_config_double(const struct broker *broker, const struct image *image, enum config_id id)
{
    return value_of(broker, image, id).real;
}

/* --- what each shard has of its own --- */

static void apply_to_logs(struct shard *shard)
{
    struct broker *broker = shard->broker;
    int64_t expiry_ms = dynamic_config_long(broker, shard->image, CONFIG_PRODUCER_ID_EXPIRATION_MS);

    for (uint32_t i = 0; i < broker->dir_count; i++)
        shard->envs[i].limits.producer_expiry_ms = expiry_ms;
}

/* --- what they share --- */

static void apply_to_connections(struct broker *broker, const struct image *image)
{
    char room[CONFIG_NUMBER_CHARS];
    struct bytes overrides =
        config_effective(broker->config, image, broker->node_id, CONFIG_MAX_CONNECTIONS_PER_IP_OVERRIDES, NULL, room);
    /* Numbers alone are converted; a text lies where it was written, with a NUL behind it. */
    struct connection_limits_config limits = {
        .connections_max = (int32_t)dynamic_config_long(broker, image, CONFIG_MAX_CONNECTIONS),
        .per_address_max = (int32_t)dynamic_config_long(broker, image, CONFIG_MAX_CONNECTIONS_PER_IP),
        .per_address_overrides = (const char *)overrides.data,
        .creations_per_second_max = (int32_t)dynamic_config_long(broker, image, CONFIG_MAX_CONNECTION_CREATION_RATE),
    };
    enum err err = connection_limits_change(broker->connection_limits, &limits);

    if (err != ERR_OK)
        log_error(&broker->log, "connection limits are left as they were err=%s", err_name(err));
}

void dynamic_config_apply(struct shard *shard)
{
    if (shard->index < shard->broker->env.reactor_count) {
        apply_to_logs(shard);
        group_coordinators_configure(shard);
    } else if (shard == broker_aside(shard->broker)) {
        group_coordinators_configure(shard); /* its requests are refused or not by the same settings */
    } else {
        apply_to_connections(shard->broker, shard->image);
    }
}
