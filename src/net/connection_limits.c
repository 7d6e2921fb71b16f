#include "net/connection_limits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "base/map.h"
#include "base/mem.h"

#define NS_PER_S INT64_C(1000000000)

struct connection_limits {
    _Atomic(int32_t) connections_max;
    _Atomic(int64_t) slot_ns; /* between two connections at the highest rate; 0: no limit */
    _Atomic(int64_t) next_slot_ns;
    _Atomic(int32_t) connections;
    uint64_t seed;
    pthread_mutex_t order; /* of what follows */
    int32_t per_address_max;
    struct map by_address; /* of struct address_count */
    struct map overrides;  /* of struct address_max */
};

struct address_count {
    int32_t connections;
    char host[NET_HOST_CHARS_MAX + 1]; /* the key */
};

struct address_max {
    int32_t max;
    char host[NET_HOST_CHARS_MAX + 1]; /* the key */
};

/* --- the count of an address; under the lock --- */

static struct address_count *add_address(struct connection_limits *limits, struct bytes host)
{
    struct address_count *count = NULL;

    if (host.size > NET_HOST_CHARS_MAX)
        return NULL;
    count = mem_calloc(1, sizeof(*count));
    if (count == NULL)
        return NULL;
    memcpy(count->host, host.data, host.size);
    if (map_insert(&limits->by_address, bytes_of_text(count->host), count) == ERR_OK)
        return count;
    mem_free(count);
    return NULL;
}

static void drop_if_unused(struct connection_limits *limits, struct address_count *count)
{
    if (count->connections > 0)
        return;
    map_remove(&limits->by_address, bytes_of_text(count->host));
    mem_free(count);
}

static int32_t max_of(const struct connection_limits *limits, struct bytes host)
{
    const struct address_max *override = map_get(&limits->overrides, host);

    return override == NULL ? limits->per_address_max : override->max;
}

/* Without memory to count an address it is let in uncounted. */
static bool enter_address(struct connection_limits *limits, const struct net_address *peer, bool reserve)
{
    struct bytes host = bytes_of_text(peer->host);
    struct address_count *count = map_get(&limits->by_address, host);

    if (count == NULL)
        count = add_address(limits, host);
    if (count == NULL)
        return true;
    if (count->connections >= max_of(limits, host) && !reserve) {
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
        if (!(byte_hex_digit(c) >= 0 || c == '.' || c == ':'))
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
static enum err add_override(struct map *overrides, struct bytes item)
{
    const uint8_t *colon = memrchr(item.data, ':', item.size);
    struct address_max *override = NULL;
    enum err err = ERR_OK;
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
    if (map_get(overrides, host) != NULL)
        return ERR_USAGE;
    override = mem_calloc(1, sizeof(*override));
    if (override == NULL)
        return ERR_NOMEM;
    override->max = max;
    memcpy(override->host, host.data, host.size);
    err = map_insert(overrides, bytes_of_text(override->host), override);
    if (err != ERR_OK)
        mem_free(override);
    return err;
}

static enum err add_overrides(struct map *overrides, const char *text)
{
    struct bytes rest = trim(bytes_of_text(text == NULL ? "" : text));

    while (rest.size > 0) {
        const uint8_t *comma = memchr(rest.data, ',', rest.size);
        size_t size = comma == NULL ? rest.size : (size_t)(comma - rest.data);
        enum err err = add_override(overrides, bytes_of(rest.data, size));

        if (err != ERR_OK)
            return err;
        rest = comma == NULL ? (struct bytes){0} : bytes_of(comma + 1, rest.size - size - 1);
        if (comma != NULL && rest.size == 0)
            return ERR_USAGE;
    }
    return ERR_OK;
}

static void map_free_all(struct map *map)
{
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(map, &cursor, NULL, &value))
        mem_free(value);
    map_deinit(map);
}

enum err connection_limits_check_overrides(const char *overrides)
{
    struct map map;
    enum err err = ERR_OK;

    map_init(&map, 0, MAP_COUNT_MAX);
    err = add_overrides(&map, overrides);
    map_free_all(&map);
    return err;
}

/* --- --- */

static void set(struct connection_limits *limits, const struct connection_limits_config *config)
{
    int32_t rate = config->creations_per_second_max;

    atomic_store(&limits->connections_max, config->connections_max);
    atomic_store(&limits->slot_ns, rate == INT32_MAX ? 0 : NS_PER_S / (rate > 0 ? rate : 1));
    limits->per_address_max = config->per_address_max;
}

enum err connection_limits_new(const struct connection_limits_config *config, struct connection_limits **limits)
{
    struct connection_limits *made = mem_calloc(1, sizeof(*made));
    enum err err = ERR_OK;

    if (made == NULL)
        return ERR_NOMEM;
    made->seed = config->seed;
    pthread_mutex_init(&made->order, NULL);
    map_init(&made->by_address, config->seed, MAP_COUNT_MAX);
    map_init(&made->overrides, config->seed, MAP_COUNT_MAX);
    set(made, config);
    err = add_overrides(&made->overrides, config->per_address_overrides);
    if (err != ERR_OK) {
        connection_limits_free(made);
        return err;
    }
    *limits = made;
    return ERR_OK;
}

enum err connection_limits_change(struct connection_limits *limits, const struct connection_limits_config *config)
{
    struct map overrides;
    struct map before;
    enum err err = ERR_OK;

    map_init(&overrides, limits->seed, MAP_COUNT_MAX);
    err = add_overrides(&overrides, config->per_address_overrides);
    if (err != ERR_OK) {
        map_free_all(&overrides);
        return err;
    }
    pthread_mutex_lock(&limits->order);
    before = limits->overrides;
    limits->overrides = overrides;
    set(limits, config);
    pthread_mutex_unlock(&limits->order);
    map_free_all(&before);
    return ERR_OK;
}

void connection_limits_free(struct connection_limits *limits)
{
    if (limits == NULL)
        return;
    assert(atomic_load(&limits->connections) == 0);
    map_free_all(&limits->by_address);
    map_free_all(&limits->overrides);
    pthread_mutex_destroy(&limits->order);
    mem_free(limits);
}

/* The next free slot; up to a second's worth of them may be taken at once. */
static int64_t take_slot(struct connection_limits *limits, int64_t slot_ns, int64_t now_ns)
{
    int64_t next = atomic_load(&limits->next_slot_ns);
    int64_t slot = 0;

    do
        slot = next > now_ns - NS_PER_S ? next : now_ns - NS_PER_S + slot_ns;
    while (!atomic_compare_exchange_weak(&limits->next_slot_ns, &next, slot + slot_ns));
    return slot > now_ns ? slot : now_ns;
}

enum connection_verdict connection_limits_enter(struct connection_limits *limits, const struct net_address *peer,
                                                bool reserve, int64_t now_ns, int64_t *slot_ns)
{
    int64_t between_ns = atomic_load(&limits->slot_ns);
    bool admitted = true;

    *slot_ns = now_ns;
    if (atomic_fetch_add(&limits->connections, 1) >= atomic_load(&limits->connections_max) && !reserve) {
        atomic_fetch_sub(&limits->connections, 1);
        return CONNECTION_OVER_TOTAL;
    }
    pthread_mutex_lock(&limits->order);
    admitted = enter_address(limits, peer, reserve);
    pthread_mutex_unlock(&limits->order);
    if (!admitted) {
        atomic_fetch_sub(&limits->connections, 1);
        return CONNECTION_OVER_ADDRESS;
    }
    if (between_ns > 0 && !reserve)
        *slot_ns = take_slot(limits, between_ns, now_ns);
    return CONNECTION_ADMITTED;
}

void connection_limits_leave(struct connection_limits *limits, const struct net_address *peer)
{
    struct address_count *count = NULL;

    atomic_fetch_sub(&limits->connections, 1);
    pthread_mutex_lock(&limits->order);
    count = map_get(&limits->by_address, bytes_of_text(peer->host));
    if (count != NULL && count->connections > 0) {
        count->connections--;
        drop_if_unused(limits, count);
    }
    pthread_mutex_unlock(&limits->order);
}
