#include "base/map.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.h"
#include "base/mem.h"

enum { ENTRIES_MIN = 8 };

struct map_entry {
    uint64_t hash;
    void *value; /* NULL: a hole */
    union map_key {
        struct bytes bytes;
        uint64_t number;
    } key;
};

enum key_kind { KEY_BYTES, KEY_NUMBER };

static uint64_t hash_key(const struct map_table *table, enum key_kind kind, union map_key key)
{
    if (kind == KEY_NUMBER)
        return XXH3_64bits_withSeed(&key.number, sizeof(key.number), table->seed);
    return XXH3_64bits_withSeed(key.bytes.size == 0 ? (const void *)"" : key.bytes.data, key.bytes.size, table->seed);
}

static bool key_matches(const struct map_entry *entry, enum key_kind kind, uint64_t hash, union map_key key)
{
    if (entry->hash != hash)
        return false;
    return kind == KEY_NUMBER ? entry->key.number == key.number : bytes_equal(entry->key.bytes, key.bytes);
}

static uint32_t slot_mask(const struct map_table *table)
{
    return table->entries_room * 2 - 1;
}

/* The slot that leads to the key, or the free one where it would go. */
static uint32_t find_slot(const struct map_table *table, enum key_kind kind, uint64_t hash, union map_key key)
{
    uint32_t slot = (uint32_t)hash & slot_mask(table);

    while (table->slots[slot] != 0 && !key_matches(&table->entries[table->slots[slot] - 1], kind, hash, key))
        slot = (slot + 1) & slot_mask(table);
    return slot;
}

static struct map_entry *find(const struct map_table *table, enum key_kind kind, union map_key key)
{
    uint32_t slot = 0;

    if (table->count == 0)
        return NULL;
    slot = find_slot(table, kind, hash_key(table, kind, key), key);
    return table->slots[slot] == 0 ? NULL : &table->entries[table->slots[slot] - 1];
}

/* Moves the live entries into a table of the given room. */
static enum err rebuild(struct map_table *table, uint32_t room)
{
    struct map_table next = *table;

    assert(room > table->count && (room & (room - 1)) == 0);
    next.entries = mem_alloc(room * sizeof(*next.entries));
    next.slots = mem_calloc((size_t)room * 2, sizeof(*next.slots));
    if (next.entries == NULL || next.slots == NULL) {
        mem_free(next.entries);
        mem_free(next.slots);
        return ERR_NOMEM;
    }
    next.entries_room = room;
    next.entries_used = 0;
    for (uint32_t i = 0; i < table->entries_used; i++) {
        uint32_t slot = (uint32_t)table->entries[i].hash & slot_mask(&next);

        if (table->entries[i].value == NULL)
            continue;
        while (next.slots[slot] != 0)
            slot = (slot + 1) & slot_mask(&next);
        next.entries[next.entries_used++] = table->entries[i];
        next.slots[slot] = next.entries_used;
    }
    assert(next.entries_used == table->count);
    mem_free(table->entries);
    mem_free(table->slots);
    *table = next;
    return ERR_OK;
}

/* Makes room for one more. Grows when full, shrinks when most are holes. */
static enum err reserve(struct map_table *table)
{
    uint32_t room = table->entries_room;

    if (table->entries_used < table->entries_room)
        return ERR_OK;
    if (room == 0)
        return rebuild(table, ENTRIES_MIN);
    if (table->count > room / 4 * 3)
        return rebuild(table, room * 2);
    while (room > ENTRIES_MIN && table->count < room / 4)
        room /= 2;
    return rebuild(table, room);
}

static enum err put(struct map_table *table, enum key_kind kind, union map_key key, void *value, void **replaced)
{
    struct map_entry *entry = find(table, kind, key);
    enum err err = ERR_OK;
    uint32_t slot = 0;

    assert(value != NULL);
    if (entry != NULL && replaced == NULL)
        return ERR_EXISTS;
    if (entry != NULL) {
        *replaced = entry->value;
        entry->value = value;
        entry->key = key;
        return ERR_OK;
    }
    if (table->count >= table->count_max)
        return ERR_LIMIT;
    err = reserve(table);
    if (err != ERR_OK)
        return err;
    entry = &table->entries[table->entries_used];
    *entry = (struct map_entry){.hash = hash_key(table, kind, key), .value = value, .key = key};
    slot = find_slot(table, kind, entry->hash, key);
    assert(table->slots[slot] == 0);
    table->slots[slot] = ++table->entries_used;
    table->count++;
    assert(table->count <= table->entries_used && table->entries_used <= table->entries_room);
    if (replaced != NULL)
        *replaced = NULL;
    return ERR_OK;
}

/* Frees a slot and closes the gap, so that every probe still finds its entry without tombstones. */
static void free_slot(struct map_table *table, uint32_t slot)
{
    uint32_t mask = slot_mask(table);

    for (uint32_t at = (slot + 1) & mask; table->slots[at] != 0; at = (at + 1) & mask) {
        uint32_t wanted = (uint32_t)table->entries[table->slots[at] - 1].hash & mask;

        if (((at - wanted) & mask) >= ((at - slot) & mask)) {
            table->slots[slot] = table->slots[at];
            slot = at;
        }
    }
    table->slots[slot] = 0;
}

static void *take(struct map_table *table, enum key_kind kind, union map_key key)
{
    struct map_entry *entry = find(table, kind, key);
    void *value = NULL;

    if (entry == NULL)
        return NULL;
    assert(table->count > 0);
    value = entry->value;
    free_slot(table, find_slot(table, kind, entry->hash, key));
    entry->value = NULL;
    table->count--;
    if (table->count == 0)
        table->entries_used = 0;
    return value;
}

static const struct map_entry *next(const struct map_table *table, uint32_t *cursor)
{
    while (*cursor < table->entries_used) {
        const struct map_entry *entry = &table->entries[(*cursor)++];

        if (entry->value != NULL)
            return entry;
    }
    return NULL;
}

static void init(struct map_table *table, uint64_t seed, uint32_t count_max)
{
    assert(count_max > 0 && count_max <= MAP_COUNT_MAX);
    *table = (struct map_table){.seed = seed, .count_max = count_max};
}

static void deinit(struct map_table *table)
{
    mem_free(table->entries);
    mem_free(table->slots);
    *table = (struct map_table){.seed = table->seed, .count_max = table->count_max};
}

void map_init(struct map *map, uint64_t seed, uint32_t count_max)
{
    init(&map->table, seed, count_max);
}

void map_deinit(struct map *map)
{
    deinit(&map->table);
}

uint32_t map_count(const struct map *map)
{
    return map->table.count;
}

void *map_get(const struct map *map, struct bytes key)
{
    const struct map_entry *entry = find(&map->table, KEY_BYTES, (union map_key){.bytes = key});

    return entry == NULL ? NULL : entry->value;
}

enum err map_insert(struct map *map, struct bytes key, void *value)
{
    return put(&map->table, KEY_BYTES, (union map_key){.bytes = key}, value, NULL);
}

enum err map_put(struct map *map, struct bytes key, void *value, void **replaced)
{
    assert(replaced != NULL);
    return put(&map->table, KEY_BYTES, (union map_key){.bytes = key}, value, replaced);
}

void *map_remove(struct map *map, struct bytes key)
{
    return take(&map->table, KEY_BYTES, (union map_key){.bytes = key});
}

bool map_next(const struct map *map, uint32_t *cursor, struct bytes *key, void **value)
{
    const struct map_entry *entry = next(&map->table, cursor);

    if (entry == NULL)
        return false;
    if (key != NULL)
        *key = entry->key.bytes;
    *value = entry->value;
    return true;
}

void map_u64_init(struct map_u64 *map, uint64_t seed, uint32_t count_max)
{
    init(&map->table, seed, count_max);
}

void map_u64_deinit(struct map_u64 *map)
{
    deinit(&map->table);
}

uint32_t map_u64_count(const struct map_u64 *map)
{
    return map->table.count;
}

void *map_u64_get(const struct map_u64 *map, uint64_t key)
{
    const struct map_entry *entry = find(&map->table, KEY_NUMBER, (union map_key){.number = key});

    return entry == NULL ? NULL : entry->value;
}

enum err map_u64_insert(struct map_u64 *map, uint64_t key, void *value)
{
    return put(&map->table, KEY_NUMBER, (union map_key){.number = key}, value, NULL);
}

enum err map_u64_put(struct map_u64 *map, uint64_t key, void *value, void **replaced)
{
    assert(replaced != NULL);
    return put(&map->table, KEY_NUMBER, (union map_key){.number = key}, value, replaced);
}

void *map_u64_remove(struct map_u64 *map, uint64_t key)
{
    return take(&map->table, KEY_NUMBER, (union map_key){.number = key});
}

bool map_u64_next(const struct map_u64 *map, uint32_t *cursor, uint64_t *key, void **value)
{
    const struct map_entry *entry = next(&map->table, cursor);

    if (entry == NULL)
        return false;
    if (key != NULL)
        *key = entry->key.number;
    *value = entry->value;
    return true;
}
