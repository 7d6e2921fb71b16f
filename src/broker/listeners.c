#include "broker/listeners.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static const char *const protocol_names[] = {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"};

const char *security_protocol_name(enum security_protocol protocol)
{
    return protocol_names[protocol];
}

bool listener_host_is_wildcard(const char *host)
{
    return host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

static bool protocol_of(struct bytes name, enum security_protocol *protocol)
{
    for (int i = 0; i < (int)(sizeof(protocol_names) / sizeof(protocol_names[0])); i++)
        if (name.size == strlen(protocol_names[i]) &&
            strncasecmp((const char *)name.data, protocol_names[i], name.size) == 0) {
            *protocol = (enum security_protocol)i;
            return true;
        }
    return false;
}

static bool name_equals(struct bytes name, const char *text)
{
    return name.size == strlen(text) && strncasecmp((const char *)name.data, text, name.size) == 0;
}

/* NAME://host:port, NAME://[v6]:port, NAME://:port. Kafka writes listener names in capitals, whatever was read. */
static bool parse_endpoint(struct bytes item, char name[LISTENER_NAME_CHARS_MAX + 1], struct net_address *address)
{
    char text[NET_HOST_CHARS_MAX + LISTENER_NAME_CHARS_MAX + 16];
    char *scheme_end = NULL;
    char *host = NULL;
    char *port = NULL;
    char *end = NULL;
    unsigned long number = 0;
    size_t host_size = 0;

    if (item.size >= sizeof(text))
        return false;
    memcpy(text, item.data, item.size);
    text[item.size] = '\0';
    scheme_end = strstr(text, "://");
    if (scheme_end == NULL || scheme_end == text || scheme_end - text > LISTENER_NAME_CHARS_MAX)
        return false;
    for (const char *at = text; at < scheme_end; at++) {
        char c = *at;

        if (!(byte_is_letter(c) || byte_is_digit(c) || c == '_' || c == '-'))
            return false;
        name[at - text] = c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    }
    name[scheme_end - text] = '\0';
    host = scheme_end + 3;
    port = strrchr(host, ':');
    if (port == NULL || port[1] < '0' || port[1] > '9')
        return false;
    number = strtoul(port + 1, &end, 10);
    if (*end != '\0' || number > UINT16_MAX)
        return false;
    host_size = (size_t)(port - host);
    if (host_size >= 2 && host[0] == '[' && host[host_size - 1] == ']') {
        host++;
        host_size -= 2;
    } else if (memchr(host, ':', host_size) != NULL) {
        return false;
    }
    if (host_size > NET_HOST_CHARS_MAX)
        return false;
    memcpy(address->host, host, host_size);
    address->host[host_size] = '\0';
    address->port = (uint16_t)number;
    return true;
}

static struct listener *find(struct listeners *listeners, const char *name)
{
    for (uint32_t i = 0; i < listeners->count; i++)
        if (strcmp(listeners->entries[i].name, name) == 0)
            return &listeners->entries[i];
    return NULL;
}

static bool list_has(const char *text, const char *name)
{
    struct bytes rest = bytes_of_text(text);
    struct bytes item;

    while (config_list_next(&rest, &item))
        if (name_equals(item, name))
            return true;
    return false;
}

/* Of a listener: by listener.security.protocol.map, whose default also knows controller listeners as PLAINTEXT. */
static bool find_protocol(const struct config *config, const struct listener *listener,
                          enum security_protocol *protocol)
{
    struct bytes rest = bytes_of_text(config_text(config, CONFIG_LISTENER_SECURITY_PROTOCOL_MAP));
    struct bytes item;

    while (config_list_next(&rest, &item)) {
        const uint8_t *colon = memchr(item.data, ':', item.size);
        size_t size = colon == NULL ? 0 : (size_t)(colon - item.data);

        if (colon != NULL && name_equals(bytes_of(item.data, size), listener->name))
            return protocol_of(bytes_of(colon + 1, item.size - size - 1), protocol);
    }
    *protocol = SECURITY_PLAINTEXT;
    return listener->is_controller && !config_is_set(config, CONFIG_LISTENER_SECURITY_PROTOCOL_MAP);
}

static enum err take_listener(const struct config *config, struct bytes item, struct listeners *listeners,
                              const struct config_report *report)
{
    const char *controllers = config_text(config, CONFIG_CONTROLLER_LISTENER_NAMES);
    struct listener *listener = &listeners->entries[listeners->count];

    if (listeners->count == LISTENERS_MAX) {
        config_report_line(report, true, "listeners: more than %d are not accepted", LISTENERS_MAX);
        return ERR_USAGE;
    }
    *listener = (struct listener){0};
    if (!parse_endpoint(item, listener->name, &listener->bind)) {
        config_report_line(report, true, "listeners: %.*s is not accepted: NAME://host:port is", BYTES_PRINTF(item));
        return ERR_USAGE;
    }
    if (find(listeners, listener->name) != NULL) {
        config_report_line(report, true, "listeners: two named %s are not accepted", listener->name);
        return ERR_USAGE;
    }
    for (uint32_t i = 0; i < listeners->count; i++)
        if (listener->bind.port != 0 && listeners->entries[i].bind.port == listener->bind.port &&
            strcmp(listeners->entries[i].bind.host, listener->bind.host) == 0) {
            config_report_line(report, true, "listeners: %s and %s are not accepted on one address",
                               listeners->entries[i].name, listener->name);
            return ERR_USAGE;
        }
    listener->is_controller = controllers != NULL && list_has(controllers, listener->name);
    if (!find_protocol(config, listener, &listener->protocol)) {
        config_report_line(report, true, "listeners: %s has no security protocol in listener.security.protocol.map",
                           listener->name);
        return ERR_USAGE;
    }
    if (listener->protocol != SECURITY_PLAINTEXT) {
        config_report_line(report, true, "listeners: %s with %s is not accepted: only PLAINTEXT works yet",
                           listener->name, security_protocol_name(listener->protocol));
        return ERR_USAGE;
    }
    listeners->count++;
    return ERR_OK;
}

static enum err take_advertised(struct bytes item, struct listeners *listeners, const struct config_report *report)
{
    char name[LISTENER_NAME_CHARS_MAX + 1];
    struct net_address address = {{0}, 0};
    struct listener *listener = NULL;

    if (!parse_endpoint(item, name, &address)) {
        config_report_line(report, true, "advertised.listeners: %.*s is not accepted: NAME://host:port is",
                           BYTES_PRINTF(item));
        return ERR_USAGE;
    }
    listener = find(listeners, name);
    if (listener == NULL) {
        config_report_line(report, true, "advertised.listeners: %s is not accepted: it is not in listeners", name);
        return ERR_USAGE;
    }
    if (listener->advertised_is_set) {
        config_report_line(report, true, "advertised.listeners: two for %s are not accepted", name);
        return ERR_USAGE;
    }
    if (listener_host_is_wildcard(address.host) && address.host[0] != '\0') {
        config_report_line(report, true,
                           "advertised.listeners: %s is not accepted: clients cannot connect to every address",
                           address.host);
        return ERR_USAGE;
    }
    listener->advertised = address;
    listener->advertised_is_set = true;
    return ERR_OK;
}

/* What is not advertised on purpose is advertised as bound; a wildcard is left for the connection to tell. */
static enum err fill_advertised(struct listeners *listeners)
{
    for (uint32_t i = 0; i < listeners->count; i++) {
        struct listener *listener = &listeners->entries[i];

        if (!listener->advertised_is_set)
            listener->advertised = listener->bind;
        if (listener_host_is_wildcard(listener->advertised.host))
            listener->advertised.host[0] = '\0';
    }
    return ERR_OK;
}

static enum err check_whole(const struct config *config, struct listeners *listeners,
                            const struct config_report *report)
{
    const char *inter_broker = config_text(config, CONFIG_INTER_BROKER_LISTENER_NAME);
    uint32_t brokers = 0;

    for (uint32_t i = 0; i < listeners->count; i++)
        brokers += !listeners->entries[i].is_controller;
    if (list_has(config_text(config, CONFIG_PROCESS_ROLES), "broker") && brokers == 0) {
        config_report_line(report, true, "listeners: a broker needs one that is not in controller.listener.names");
        return ERR_USAGE;
    }
    if (list_has(config_text(config, CONFIG_PROCESS_ROLES), "controller") && brokers == listeners->count) {
        config_report_line(report, true, "listeners: a controller needs one named in controller.listener.names");
        return ERR_USAGE;
    }
    if (inter_broker != NULL) {
        struct listener *listener = find(listeners, inter_broker);

        if (listener == NULL || listener->is_controller) {
            config_report_line(report, true,
                               "inter.broker.listener.name: %s is not accepted: a broker's listener in listeners is",
                               inter_broker);
            return ERR_USAGE;
        }
    }
    return fill_advertised(listeners);
}

enum err listeners_parse(const struct config *config, struct listeners *listeners, const struct config_report *report)
{
    struct bytes rest = bytes_of_text(config_text(config, CONFIG_LISTENERS));
    const char *advertised = config_text(config, CONFIG_ADVERTISED_LISTENERS);
    struct bytes item;
    enum err err = ERR_OK;

    *listeners = (struct listeners){0};
    while (config_list_next(&rest, &item)) {
        err = take_listener(config, item, listeners, report);
        if (err != ERR_OK)
            return err;
    }
    rest = bytes_of_text(advertised);
    while (advertised != NULL && config_list_next(&rest, &item)) {
        err = take_advertised(item, listeners, report);
        if (err != ERR_OK)
            return err;
    }
    return check_whole(config, listeners, report);
}
