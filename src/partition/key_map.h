/*
 * key_map: the last offset of each key, in a fixed amount of memory. Keys are not kept but their hashes of 128 bits, so
 * that an entry takes 24 bytes whatever the key; two keys that share one would be taken for one key.
 *
 * Bound    it is sized once and takes no key beyond its load; what is asked for and never written to costs nothing (the
 *          pages come as they are touched).
 * Seed     from rng, so that no client can choose keys that collide.
 * Threads  one owner at a time.
 */
#ifndef OTTLA_PARTITION_KEY_MAP_H
#define OTTLA_PARTITION_KEY_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum { KEY_MAP_ENTRY_BYTES = 24 }; /* as in Apache Kafka, so that the same memory holds as many keys */

struct key_map_slot;

/* A key, as the map knows it. */
struct key_hash {
    uint64_t low;
    uint64_t high;
};

struct key_map {
    struct key_map_slot *slots;
    uint64_t slot_count;
    uint64_t count;
    uint64_t count_max;
    uint64_t seed;
};

/*
 * bytes_max      its memory, at least an entry.
 * load           how full it may get, above 0; 1 and more is as full as one slot that stays free.
 * keys_expected  no more will come; may be an over-estimate.
 *
 * ERR_NOMEM.
 */
MUST_CHECK enum err key_map_init(struct key_map *map, size_t bytes_max, double load, uint64_t keys_expected,
                                 uint64_t seed);
/* All zero is fine. */
void key_map_deinit(struct key_map *map);
struct key_hash key_map_hash(const struct key_map *map, struct bytes key);
/* Notes that the key stands at offset, and no later one was noted. ERR_LIMIT: a new key, and the map is full. */
MUST_CHECK enum err key_map_put(struct key_map *map, struct key_hash key, int64_t offset);
/* -1: not noted. */
int64_t key_map_get(const struct key_map *map, struct key_hash key);
/* The key will be asked for soon. */
void key_map_prefetch(const struct key_map *map, struct key_hash key);

#endif
