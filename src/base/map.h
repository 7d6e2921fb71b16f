/*
 * map: hash maps from bytes (map) and from 64-bit numbers (map_u64) to pointers, for one owner.
 *
 * Always holds  iteration goes in the order of insertion, so nothing depends on the seed; at most count_max entries.
 * Owns          its table only. A key of map is borrowed and lies, as a rule, in the value: it must stay until the
 *               entry is removed or replaced. Values are the caller's and never NULL.
 * Seed          from rng, so that no client can choose keys that collide.
 * Threads       one owner at a time.
 */
#ifndef OTTLA_BASE_MAP_H
#define OTTLA_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct map_entry;

/* What both maps share; for map.c alone. */
struct map_table {
    struct map_entry *entries; /* in order of insertion; removed ones are holes until the next rebuild */
    uint32_t *slots;           /* open addressing: entry number + 1, 0 is free; a power of two, twice the entries */
    uint64_t seed;
    uint32_t entries_used; /* holes included */
    uint32_t entries_room;
    uint32_t count;
    uint32_t count_max;
};

struct map {
    struct map_table table;
};

struct map_u64 {
    struct map_table table;
};

enum { MAP_COUNT_MAX = 1 << 28 };

/* An empty map takes no memory. count_max: 1 to MAP_COUNT_MAX. */
void map_init(struct map *map, uint64_t seed, uint32_t count_max);
/* Frees the table, not the values. The map is empty afterwards and may be used again. Does nothing to one that is all
 * zero, so that what was half made can be undone. */
void map_deinit(struct map *map);
uint32_t map_count(const struct map *map);
/* NULL when the key is not there. */
void *map_get(const struct map *map, struct bytes key);
/* ERR_EXISTS: the key is there; ERR_LIMIT: count_max; ERR_NOMEM. The map is as it was then. */
MUST_CHECK enum err map_insert(struct map *map, struct bytes key, void *value);
/* As map_insert, but an entry with that key is replaced (its key too, its place in the order stays).
 * replaced: out, the value that was there, or NULL. */
MUST_CHECK enum err map_put(struct map *map, struct bytes key, void *value, void **replaced);
/* The value that was there, or NULL. Never fails. */
void *map_remove(struct map *map, struct bytes key);
/* Walks in order: *cursor = 0 begins, false ends. key may be NULL. During the walk entries may be removed, and values
 * replaced, but none inserted. */
bool map_next(const struct map *map, uint32_t *cursor, struct bytes *key, void **value);

/* The same with numbers as keys. */
void map_u64_init(struct map_u64 *map, uint64_t seed, uint32_t count_max);
void map_u64_deinit(struct map_u64 *map);
uint32_t map_u64_count(const struct map_u64 *map);
void *map_u64_get(const struct map_u64 *map, uint64_t key);
MUST_CHECK enum err map_u64_insert(struct map_u64 *map, uint64_t key, void *value);
MUST_CHECK enum err map_u64_put(struct map_u64 *map, uint64_t key, void *value, void **replaced);
void *map_u64_remove(struct map_u64 *map, uint64_t key);
bool map_u64_next(const struct map_u64 *map, uint32_t *cursor, uint64_t *key, void **value);

#endif
