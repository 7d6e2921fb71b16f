#include "net/connection_limits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "base/map.h"
#include "base/mem.h"

#define NS_PER_S INT64_C(1000000000)

struct connection_limits {
    int32_t connections_max;
    int32_t per_address_max;
    int64_t slot_ns; /* between two connections at the highest rate; 0: no limit */
    _Atomic(int64_t) next_slot_ns;
    _Atomic(int32_t) connections;
    bool counts_addresses;
    pthread_mutex_t order; /* of by_address */
    struct map by_address; /* of struct address_count */
};

struct address_count {
    int32_t connections;
    int32_t max;
    bool overridden;                   /* stays without connections */
    char host[NET_HOST_CHARS_MAX + 1]; /* the key */
};

/* --- the count of an address --- */

static struct address_count *add_address(struct connection_limits *limits, struct bytes host, int32_t max)
{
    struct address_count *count = NULL;

    if (host.size > NET_HOST_CHARS_MAX)
        return NULL;
    count = mem_calloc(1, sizeof(*count));
    if (count == NULL)
        return NULL;
    memcpy(count->host, host.data, host.size);
    count->max = max;
    if (map_insert(&limits->by_address, bytes_of_text(count->host), count) == ERR_OK)
        return count;
    mem_free(count);
    return NULL;
}

static void drop_if_unused(struct connection_limits *limits, struct address_count *count)
{
    if (count->connections > 0 || count->overridden)
        return;
    map_remove(&limits->by_address, bytes_of_text(count->host));
    mem_free(count);
}

/* Under the lock. Without memory to count an address it is let in uncounted. */
static bool enter_address(struct connection_limits *limits, const struct net_address *peer, bool reserve)
{
    struct bytes host = bytes_of_text(peer->host);
    struct address_count *count = map_get(&limits->by_address, host);

    if (count == NULL)
        count = add_address(limits, host, limits->per_address_max);
    if (count == NULL)
        return true;
    if (count->connections >= count->max && !reserve) {
        drop_if_unused(limits, count);
        return false;
    }
    count->connections++;
    return true;
}

/* --- the overrides --- */

static bool is_numeric_address(struct bytes host)
{
    bool has_dot_or_colon = false;

    for (size_t i = 0; i < host.size; i++) {
        uint8_t c = host.data[i];

        has_dot_or_colon = has_dot_or_colon || c == '.' || c == ':';
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '.' || c == ':'))
            return false;
    }
    return has_dot_or_colon;
}

static bool parse_count(struct bytes text, int32_t *count)
{
    int64_t value = 0;

    if (text.size == 0 || text.size > 10)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        value = value * 10 + (text.data[i] - '0');
    }
    *count = (int32_t)value;
    return value <= INT32_MAX;
}

static struct bytes trim(struct bytes text)
{
    while (text.size > 0 && text.data[0] == ' ')
        text = bytes_of(text.data + 1, text.size - 1);
    while (text.size > 0 && text.data[text.size - 1] == ' ')
        text.size--;
    return text;
}

/* "address:count"; the address may itself hold colons (IPv6), or stand in brackets. */
static enum err add_override(struct connection_limits *limits, struct bytes item)
{
    const uint8_t *colon = memrchr(item.data, ':', item.size);
    struct address_count *count = NULL;
    struct bytes host = {0};
    int32_t max = 0;

    if (colon == NULL)
        return ERR_USAGE;
    host = trim(bytes_of(item.data, (size_t)(colon - item.data)));
    if (host.size >= 2 && host.data[0] == '[' && host.data[host.size - 1] == ']')
        host = bytes_of(host.data + 1, host.size - 2);
    if (!is_numeric_address(host) || host.size > NET_HOST_CHARS_MAX ||
        !parse_count(trim(bytes_of(colon + 1, item.size - (size_t)(colon + 1 - item.data))), &max))
        return ERR_USAGE;
    if (map_get(&limits->by_address, host) != NULL)
        return ERR_USAGE;
    count = add_address(limits, host, max);
    if (count == NULL)
        return ERR_NOMEM;
    count->overridden = true;
    limits->counts_addresses = true;
    return ERR_OK;
}

static enum err add_overrides(struct connection_limits *limits, const char *text)
{
    struct bytes rest = trim(bytes_of_text(text == NULL ? "" : text));

    while (rest.size > 0) {
        const uint8_t *comma = memchr(rest.data, ',', rest.size);
        size_t size = comma == NULL ? rest.size : (size_t)(comma - rest.data);
        enum err err = add_override(limits, bytes_of(rest.data, size));

        if (err != ERR_OK)
            return err;
        rest = comma == NULL ? (struct bytes){0} : bytes_of(comma + 1, rest.size - size - 1);
        if (comma != NULL && rest.size == 0)
            return ERR_USAGE;
    }
    return ERR_OK;
}

/* --- --- */

MUST_CHECK enum err connection_limits_new(const struct connection_limits_config *config,
                                          struct connection_limits **limits)
{
    struct connection_limits *made = mem_calloc(1, sizeof(*made));
    enum err err = ERR_OK;

    if (made == NULL)
        return ERR_NOMEM;
    made->connections_max = config->connections_max;
    made->per_address_max = config->per_address_max;
    made->counts_addresses = config->per_address_max != INT32_MAX;
    if (config->creations_per_second_max != INT32_MAX)
        made->slot_ns = NS_PER_S / (config->creations_per_second_max > 0 ? config->creations_per_second_max : 1);
    pthread_mutex_init(&made->order, NULL);
    map_init(&made->by_address, config->seed, MAP_COUNT_MAX);
    err = add_overrides(made, config->per_address_overrides);
    if (err != ERR_OK) {
        connection_limits_free(made);
        return err;
    }
    *limits = made;
    return ERR_OK;
}

void connection_limits_free(struct connection_limits *limits)
{
    uint32_t cursor = 0;
    void *value = NULL;

    if (limits == NULL)
        return;
    assert(atomic_load(&limits->connections) == 0);
    while (map_next(&limits->by_address, &cursor, NULL, &value)) {
        struct address_count *count = value;

        map_remove(&limits->by_address, bytes_of_text(count->host));
        mem_free(count);
    }
    map_deinit(&limits->by_address);
    pthread_mutex_destroy(&limits->order);
    mem_free(limits);
}

/* The next free slot; up to a second's worth of them may be taken at once. */
static int64_t take_slot(struct connection_limits *limits, int64_t now_ns)
{
    int64_t next = atomic_load(&limits->next_slot_ns);
    int64_t slot = 0;

    do
        slot = next > now_ns - NS_PER_S ? next : now_ns - NS_PER_S + limits->slot_ns;
    while (!atomic_compare_exchange_weak(&limits->next_slot_ns, &next, slot + limits->slot_ns));
    return slot > now_ns ? slot : now_ns;
}

enum connection_verdict connection_limits_enter(struct connection_limits *limits, const struct net_address *peer,
                                                bool reserve, int64_t now_ns, int64_t *slot_ns)
{
    bool admitted = true;

    *slot_ns = now_ns;
    if (atomic_fetch_add(&limits->connections, 1) >= limits->connections_max && !reserve) {
        atomic_fetch_sub(&limits->connections, 1);
        return CONNECTION_OVER_TOTAL;
    }
    if (limits->counts_addresses) {
        pthread_mutex_lock(&limits->order);
        admitted = enter_address(limits, peer, reserve);
        pthread_mutex_unlock(&limits->order);
    }
    if (!admitted) {
        atomic_fetch_sub(&limits->connections, 1);
        return CONNECTION_OVER_ADDRESS;
    }
    if (limits->slot_ns > 0 && !reserve)
        *slot_ns = take_slot(limits, now_ns);
    return CONNECTION_ADMITTED;
}

void connection_limits_leave(struct connection_limits *limits, const struct net_address *peer)
{
    struct address_count *count = NULL;

    atomic_fetch_sub(&limits->connections, 1);
    if (!limits->counts_addresses)
        return;
    pthread_mutex_lock(&limits->order);
    count = map_get(&limits->by_address, bytes_of_text(peer->host));
    if (count != NULL && count->connections > 0) {
        count->connections--;
        drop_if_unused(limits, count);
    }
    pthread_mutex_unlock(&limits->order);
}
