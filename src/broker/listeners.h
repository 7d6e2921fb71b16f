/*
 * listeners: what `listeners` and its companions say: where a node listens, under which names, for whom, and which
 * addresses it tells of itself.
 *
 * Always holds  names and (host, port) pairs are distinct (port 0 aside); controller listeners are those named in
 *               controller.listener.names.
 * Threads       constant once parsed.
 */
#ifndef OTTLA_BROKER_LISTENERS_H
#define OTTLA_BROKER_LISTENERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/net.h"
#include "broker/broker_limits.h"
#include "broker/config.h"

/* As on the wire (RegisterBrokerRecord). */
enum security_protocol { SECURITY_PLAINTEXT = 0, SECURITY_SSL = 1, SECURITY_SASL_PLAINTEXT = 2, SECURITY_SASL_SSL = 3 };

struct listener {
    char name[LISTENER_NAME_CHARS_MAX + 1];
    enum security_protocol protocol;
    struct net_address bind;       /* host "" is any */
    struct net_address advertised; /* host "": the address at which the asking connection reached us */
    bool advertised_is_set;        /* in advertised.listeners */
    bool is_controller;
};

struct listeners {
    struct listener entries[LISTENERS_MAX];
    uint32_t count;
};

/* Problems are reported; ERR_USAGE. */
MUST_CHECK enum err listeners_parse(const struct config *config, struct listeners *listeners,
                                    const struct config_report *report);
/* "" , "0.0.0.0" and "::" are every address of the machine. */
bool listener_host_is_wildcard(const char *host);
const char *security_protocol_name(enum security_protocol protocol);

#endif
