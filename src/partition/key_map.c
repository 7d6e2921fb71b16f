#include "partition/key_map.h"

#include <xxhash.h>

#include "base/assert.h"
#include "base/mem.h"

struct key_map_slot {
    struct key_hash key;
    uint64_t offset_plus_one; /* 0: free */
};

_Static_assert(sizeof(struct key_map_slot) == KEY_MAP_ENTRY_BYTES, "the bound counts in entries");

enum { SLOTS_MIN = 2 };

enum err key_map_init(struct key_map *map, size_t bytes_max, double load, uint64_t keys_expected, uint64_t seed)
{
    uint64_t slots_max = bytes_max / KEY_MAP_ENTRY_BYTES;
    uint64_t wanted = UINT64_MAX;

    assert(load > 0);
    if (load > 1)
        load = 1;
    *map = (struct key_map){.seed = seed, .slot_count = slots_max < SLOTS_MIN ? SLOTS_MIN : slots_max};
    if ((double)keys_expected < (double)map->slot_count)
        wanted = (uint64_t)((double)keys_expected / load) + SLOTS_MIN;
    if (wanted < map->slot_count)
        map->slot_count = wanted;
    map->count_max = (uint64_t)((double)map->slot_count * load);
    if (map->count_max >= map->slot_count)
        map->count_max = map->slot_count - 1;
    if (map->count_max == 0)
        map->count_max = 1;
    map->slots = mem_calloc(map->slot_count, sizeof(map->slots[0]));
    return map->slots == NULL ? ERR_NOMEM : ERR_OK;
}

void key_map_deinit(struct key_map *map)
{
    mem_free(map->slots);
    *map = (struct key_map){0};
}

static uint64_t home_of(const struct key_map *map, struct key_hash key)
{
    return (uint64_t)(((unsigned __int128)key.low * map->slot_count) >> 64);
}

/* The key's slot, or the free one where it would go. */
static struct key_map_slot *find(const struct key_map *map, struct key_hash key)
{
    uint64_t at = home_of(map, key);

    for (;;) {
        struct key_map_slot *slot = &map->slots[at];

        if (slot->offset_plus_one == 0 || (slot->key.low == key.low && slot->key.high == key.high))
            return slot;
        at = at + 1 == map->slot_count ? 0 : at + 1;
    }
}

struct key_hash key_map_hash(const struct key_map *map, struct bytes key)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(key.data, key.size, map->seed);

    return (struct key_hash){hash.low64, hash.high64};
}

enum err key_map_put(struct key_map *map, struct key_hash key, int64_t offset)
{
    struct key_map_slot *slot = find(map, key);

    assert(offset >= 0);
    if (slot->offset_plus_one == 0) {
        if (map->count == map->count_max)
            return ERR_LIMIT;
        map->count++;
        slot->key = key;
    }
    slot->offset_plus_one = (uint64_t)offset + 1;
    return ERR_OK;
}

int64_t key_map_get(const struct key_map *map, struct key_hash key)
{
    return (int64_t)find(map, key)->offset_plus_one - 1;
}

void key_map_prefetch(const struct key_map *map, struct key_hash key)
{
    __builtin_prefetch(&map->slots[home_of(map, key)]);
}
