/*
 * config_duration: times as ISO 8601 writes them, as java.time.Duration reads it: P2DT3H4M5.6S, each part with a sign
 * of its own, in any case.
 *
 * Threads  any: nothing is kept.
 */
#ifndef OTTLA_BROKER_CONFIG_DURATION_H
#define OTTLA_BROKER_CONFIG_DURATION_H

#include <stdbool.h>

#include "base/bytes.h"

/* Whether it is one, and none that goes backwards. */
bool config_is_duration(struct bytes text);

#endif
