#include "partition/time_index.h"

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/mem.h"

enum { ROOM_FIRST = 16 };

void time_index_deinit(struct time_index *index)
{
    mem_free(index->entries);
    *index = (struct time_index){0};
}

const struct time_index_entry *time_index_last(const struct time_index *index)
{
    return index->count == 0 ? NULL : &index->entries[index->count - 1];
}

enum err time_index_add(struct time_index *index, int64_t timestamp, uint32_t relative_offset)
{
    const struct time_index_entry *last = time_index_last(index);
    enum err err = ERR_OK;

    /* No timestamp at all (-1) is what an empty index says by itself. */
    if (timestamp < 0 || (last != NULL && (timestamp <= last->timestamp || relative_offset < last->relative_offset)))
        return ERR_OK;
    err = mem_grow(&index->entries, &index->room, index->count + 1, ROOM_FIRST, sizeof(*index->entries));
    if (err == ERR_OK)
        index->entries[index->count++] = (struct time_index_entry){timestamp, relative_offset};
    return err;
}

uint32_t time_index_offset(const struct time_index *index, int64_t timestamp)
{
    uint32_t low = 0;
    uint32_t high = index->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (index->entries[middle].timestamp <= timestamp)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? 0 : index->entries[low - 1].relative_offset;
}

void time_index_cut(struct time_index *index, uint32_t relative_offset)
{
    while (index->count > 0 && index->entries[index->count - 1].relative_offset >= relative_offset)
        index->count--;
    if (index->written > index->count)
        index->written = index->count;
}

enum err time_index_parse(struct time_index *index, struct bytes file)
{
    uint32_t count = 0;
    enum err err = ERR_OK;

    assert(index->count == 0);
    if (file.size % TIME_INDEX_ENTRY_BYTES != 0 || file.size > INT32_MAX)
        return ERR_DAMAGED;
    count = (uint32_t)(file.size / TIME_INDEX_ENTRY_BYTES);
    err = mem_grow(&index->entries, &index->room, count, ROOM_FIRST, sizeof(*index->entries));
    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *at = file.data + (size_t)i * TIME_INDEX_ENTRY_BYTES;
        struct time_index_entry entry = {(int64_t)big_endian_load_u64(at), big_endian_load_u32(at + 8)};
        const struct time_index_entry *last = time_index_last(index);

        if (entry.relative_offset > INT32_MAX ||
            (last != NULL && (entry.timestamp <= last->timestamp || entry.relative_offset < last->relative_offset))) {
            time_index_deinit(index);
            return ERR_DAMAGED;
        }
        index->entries[index->count++] = entry;
    }
    index->written = count;
    return ERR_OK;
}

void time_index_format(const struct time_index *index, uint32_t first, uint8_t *to)
{
    for (uint32_t i = first; i < index->count; i++, to += TIME_INDEX_ENTRY_BYTES) {
        big_endian_store_u64(to, (uint64_t)index->entries[i].timestamp);
        big_endian_store_u32(to + 8, index->entries[i].relative_offset);
    }
}
