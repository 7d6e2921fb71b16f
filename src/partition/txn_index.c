#include "partition/txn_index.h"

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/mem.h"

enum { ROOM_FIRST = 4, VERSION = 0 };

void txn_index_deinit(struct txn_index *index)
{
    mem_free(index->entries);
    *index = (struct txn_index){0};
}

/* Entries come in the order of their markers; so do the stable offsets, as a stable offset never goes back. */
static void sum_up(struct txn_index *index)
{
    assert(!index->absent);
    index->summed = true;
    index->first_min = INT64_MAX;
    index->last_max = -1;
    index->stable_max = -1;
    for (uint32_t i = 0; i < index->count; i++) {
        const struct txn_index_entry *entry = &index->entries[i];

        if (entry->first_offset < index->first_min)
            index->first_min = entry->first_offset;
        if (entry->stable_offset > index->stable_max)
            index->stable_max = entry->stable_offset;
        index->last_max = entry->last_offset;
    }
}

void txn_index_unload(struct txn_index *index)
{
    if (index->absent || index->count == 0 || index->written < index->count)
        return;
    sum_up(index);
    mem_free(index->entries);
    index->entries = NULL;
    index->room = 0;
    index->absent = true;
}

void txn_index_take(struct txn_index *index, struct txn_index *loaded)
{
    assert(!loaded->absent);
    txn_index_deinit(index);
    *index = *loaded;
    *loaded = (struct txn_index){0};
}

enum err txn_index_reserve(struct txn_index *index, uint32_t count)
{
    assert(!index->absent);
    return mem_grow(&index->entries, &index->room, index->count + count, ROOM_FIRST, sizeof(*index->entries));
}

void txn_index_add(struct txn_index *index, const struct txn_index_entry *entry)
{
    assert(!index->absent && index->count < index->room);
    assert(index->count == 0 || index->entries[index->count - 1].last_offset < entry->last_offset);
    index->entries[index->count++] = *entry;
}

void txn_index_cut(struct txn_index *index, int64_t offset)
{
    assert(!index->absent);
    while (index->count > 0 && index->entries[index->count - 1].last_offset >= offset)
        index->count--;
    if (index->written > index->count)
        index->written = index->count;
}

enum txn_index_search txn_index_judge(const struct txn_index *index, int64_t from, int64_t to)
{
    if (!index->absent || !index->summed)
        return TXN_INDEX_LOAD;
    if (index->last_max >= from && index->first_min < to)
        return TXN_INDEX_LOAD;
    return index->last_max >= from && index->stable_max >= to ? TXN_INDEX_THROUGH : TXN_INDEX_GO_ON;
}

/* The first entry whose marker lies at or behind from. */
static uint32_t first_at(const struct txn_index *index, int64_t from)
{
    uint32_t low = 0;
    uint32_t high = index->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (index->entries[middle].last_offset < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

enum err txn_index_each(const struct txn_index *index, int64_t from, int64_t to, txn_index_fn *each, void *context,
                        bool *through)
{
    assert(!index->absent);
    *through = false;
    for (uint32_t i = first_at(index, from); i < index->count && !*through; i++) {
        const struct txn_index_entry *entry = &index->entries[i];

        if (entry->first_offset < to) {
            enum err err = each(context, entry);

            if (err != ERR_OK)
                return err;
        }
        *through = entry->stable_offset >= to;
    }
    return ERR_OK;
}

enum err txn_index_parse(struct txn_index *index, struct bytes file, int64_t base_offset, int64_t end_offset)
{
    size_t count = file.size / TXN_INDEX_ENTRY_BYTES;
    int64_t last = base_offset - 1;
    enum err err = ERR_OK;

    assert(index->count == 0 && !index->absent);
    if (file.size % TXN_INDEX_ENTRY_BYTES != 0 || count > INT32_MAX)
        return ERR_DAMAGED;
    if (count == 0)
        return ERR_OK;
    err = mem_grow(&index->entries, &index->room, (uint32_t)count, ROOM_FIRST, sizeof(*index->entries));
    if (err != ERR_OK)
        return err;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = file.data + i * TXN_INDEX_ENTRY_BYTES;
        struct txn_index_entry entry = {
            .producer_id = (int64_t)big_endian_load_u64(at + 2),
            .first_offset = (int64_t)big_endian_load_u64(at + 10),
            .last_offset = (int64_t)big_endian_load_u64(at + 18),
            .stable_offset = (int64_t)big_endian_load_u64(at + 26),
        };

        if (big_endian_load_u16(at) != VERSION || entry.producer_id < 0 || entry.first_offset < 0 ||
            entry.first_offset >= entry.last_offset || entry.last_offset <= last || entry.last_offset >= end_offset ||
            entry.stable_offset < 0 || entry.stable_offset > entry.last_offset + 1) {
            txn_index_deinit(index);
            return ERR_DAMAGED;
        }
        last = entry.last_offset;
        index->entries[index->count++] = entry;
    }
    index->written = index->count;
    return ERR_OK;
}

void txn_index_format(const struct txn_index *index, uint32_t first, uint8_t *to)
{
    assert(!index->absent);
    for (uint32_t i = first; i < index->count; i++, to += TXN_INDEX_ENTRY_BYTES) {
        big_endian_store_u16(to, VERSION);
        big_endian_store_u64(to + 2, (uint64_t)index->entries[i].producer_id);
        big_endian_store_u64(to + 10, (uint64_t)index->entries[i].first_offset);
        big_endian_store_u64(to + 18, (uint64_t)index->entries[i].last_offset);
        big_endian_store_u64(to + 26, (uint64_t)index->entries[i].stable_offset);
    }
}
