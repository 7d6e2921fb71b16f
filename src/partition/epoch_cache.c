#include "partition/epoch_cache.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

enum { ROOM_FIRST = 1 }; /* most partitions have one epoch */

void epoch_cache_deinit(struct epoch_cache *cache)
{
    mem_free(cache->entries);
    *cache = (struct epoch_cache){0};
}

const struct epoch_entry *epoch_cache_last(const struct epoch_cache *cache)
{
    return cache->count == 0 ? NULL : &cache->entries[cache->count - 1];
}

static void note_change(struct epoch_cache *cache, int64_t from)
{
    if (!cache->changed || from < cache->changed_from)
        cache->changed_from = from;
    cache->changed = true;
}

/* Epochs and where they begin both rise, from one entry to the next. */
static bool is_ascending(const struct epoch_cache *cache)
{
    for (uint32_t i = 1; i < cache->count; i++)
        if (cache->entries[i - 1].epoch >= cache->entries[i].epoch ||
            cache->entries[i - 1].start_offset >= cache->entries[i].start_offset)
            return false;
    return true;
}

enum err epoch_cache_assign(struct epoch_cache *cache, int32_t epoch, int64_t start_offset)
{
    const struct epoch_entry *last = epoch_cache_last(cache);
    enum err err = ERR_OK;

    assert(epoch >= 0 && start_offset >= 0);
    if (last != NULL && last->epoch == epoch && last->start_offset <= start_offset)
        return ERR_OK;
    err = mem_grow(&cache->entries, &cache->room, cache->count + 1, ROOM_FIRST, sizeof(*cache->entries));
    if (err != ERR_OK)
        return err;
    while (cache->count > 0 && (cache->entries[cache->count - 1].epoch >= epoch ||
                                cache->entries[cache->count - 1].start_offset >= start_offset))
        cache->count--;
    cache->entries[cache->count++] = (struct epoch_entry){epoch, start_offset};
    note_change(cache, start_offset);
    assert_slow(is_ascending(cache));
    return ERR_OK;
}

/* Index of the last entry that begins at or before offset; -1: none. */
static int64_t slot_at(const struct epoch_cache *cache, int64_t offset)
{
    int64_t slot = (int64_t)cache->count - 1;

    /* From the end: what is asked for is mostly recent, and the entries are few. */
    while (slot >= 0 && cache->entries[slot].start_offset > offset)
        slot--;
    return slot;
}

int32_t epoch_cache_at(const struct epoch_cache *cache, int64_t offset)
{
    int64_t slot = slot_at(cache, offset);

    return slot < 0 ? -1 : cache->entries[slot].epoch;
}

void epoch_cache_end(const struct epoch_cache *cache, int32_t epoch, int64_t log_end_offset, int32_t *found_epoch,
                     int64_t *end_offset)
{
    const struct epoch_entry *last = epoch_cache_last(cache);
    uint32_t next = 0;

    *found_epoch = -1;
    *end_offset = -1;
    if (epoch < 0 || last == NULL || epoch > last->epoch)
        return;
    if (epoch == last->epoch) {
        *found_epoch = epoch;
        *end_offset = log_end_offset;
        return;
    }
    while (cache->entries[next].epoch <= epoch)
        next++;
    *found_epoch = next == 0 ? epoch : cache->entries[next - 1].epoch;
    *end_offset = cache->entries[next].start_offset;
}

void epoch_cache_truncate_end(struct epoch_cache *cache, int64_t end_offset)
{
    while (cache->count > 0 && cache->entries[cache->count - 1].start_offset >= end_offset) {
        cache->count--;
        note_change(cache, end_offset);
    }
}

void epoch_cache_truncate_start(struct epoch_cache *cache, int64_t start_offset)
{
    int64_t slot = slot_at(cache, start_offset);

    if (slot < 0 || (slot == 0 && cache->entries[0].start_offset == start_offset))
        return;
    memmove(cache->entries, cache->entries + slot, (cache->count - (size_t)slot) * sizeof(cache->entries[0]));
    cache->count -= (uint32_t)slot;
    cache->entries[0].start_offset = start_offset;
    note_change(cache, INT64_MAX);
    assert_slow(is_ascending(cache));
}
