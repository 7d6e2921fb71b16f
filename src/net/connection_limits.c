#include "net/connection_limits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "base/map.h"
#include "base/mem.h"

struct connection_limits {
    int32_t connections_max;
    int32_t per_address_max;
    _Atomic(int32_t) connections;
    pthread_mutex_t order; /* of by_address */
    struct map by_address; /* of struct address_count */
};

struct address_count {
    int32_t connections;
    struct net_address address; /* its host is the key */
};

MUST_CHECK enum err connection_limits_new(int32_t connections_max, int32_t per_address_max, uint64_t seed,
                                          struct connection_limits **limits)
{
    struct connection_limits *made = mem_calloc(1, sizeof(*made));

    if (made == NULL)
        return ERR_NOMEM;
    made->connections_max = connections_max;
    made->per_address_max = per_address_max;
    pthread_mutex_init(&made->order, NULL);
    map_init(&made->by_address, seed, MAP_COUNT_MAX);
    *limits = made;
    return ERR_OK;
}

void connection_limits_free(struct connection_limits *limits)
{
    if (limits == NULL)
        return;
    assert(map_count(&limits->by_address) == 0);
    map_deinit(&limits->by_address);
    pthread_mutex_destroy(&limits->order);
    mem_free(limits);
}

/* Under the lock. Without memory to count an address it is let in uncounted. */
static bool enter_address(struct connection_limits *limits, const struct net_address *peer, bool reserve)
{
    struct bytes host = bytes_of_text(peer->host);
    struct address_count *count = map_get(&limits->by_address, host);

    if (limits->per_address_max < 1 && !reserve)
        return false;
    if (count == NULL) {
        count = mem_calloc(1, sizeof(*count));
        if (count == NULL)
            return true;
        count->address = *peer;
        if (map_insert(&limits->by_address, bytes_of_text(count->address.host), count) != ERR_OK) {
            mem_free(count);
            return true;
        }
    }
    if (count->connections >= limits->per_address_max && !reserve)
        return false;
    count->connections++;
    return true;
}

enum connection_verdict connection_limits_enter(struct connection_limits *limits, const struct net_address *peer,
                                                bool reserve)
{
    bool admitted = true;

    if (atomic_fetch_add(&limits->connections, 1) >= limits->connections_max && !reserve) {
        atomic_fetch_sub(&limits->connections, 1);
        return CONNECTION_OVER_TOTAL;
    }
    if (limits->per_address_max == INT32_MAX)
        return CONNECTION_ADMITTED;
    pthread_mutex_lock(&limits->order);
    admitted = enter_address(limits, peer, reserve);
    pthread_mutex_unlock(&limits->order);
    if (admitted)
        return CONNECTION_ADMITTED;
    atomic_fetch_sub(&limits->connections, 1);
    return CONNECTION_OVER_ADDRESS;
}

void connection_limits_leave(struct connection_limits *limits, const struct net_address *peer)
{
    struct bytes host = bytes_of_text(peer->host);
    struct address_count *count = NULL;

    atomic_fetch_sub(&limits->connections, 1);
    if (limits->per_address_max == INT32_MAX)
        return;
    pthread_mutex_lock(&limits->order);
    count = map_get(&limits->by_address, host);
    if (count != NULL && --count->connections <= 0) {
        map_remove(&limits->by_address, host);
        mem_free(count);
    }
    pthread_mutex_unlock(&limits->order);
}
