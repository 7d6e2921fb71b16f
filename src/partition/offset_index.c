#include "partition/offset_index.h"

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/mem.h"

enum { ROOM_FIRST = 16 };

void offset_index_deinit(struct offset_index *index)
{
    mem_free(index->entries);
    *index = (struct offset_index){0};
}

static bool ascends(const struct offset_index *index, uint32_t relative_offset, uint32_t position)
{
    const struct offset_index_entry *last = NULL;

    if (index->count == 0)
        return true;
    last = &index->entries[index->count - 1];
    return relative_offset > last->relative_offset && position > last->position;
}

enum err offset_index_add(struct offset_index *index, uint32_t relative_offset, uint32_t position)
{
    enum err err = ERR_OK;

    if (!ascends(index, relative_offset, position))
        return ERR_OK;
    err = mem_grow(&index->entries, &index->room, index->count + 1, ROOM_FIRST, sizeof(*index->entries));
    if (err == ERR_OK)
        index->entries[index->count++] = (struct offset_index_entry){relative_offset, position};
    return err;
}

uint32_t offset_index_position(const struct offset_index *index, uint32_t relative_offset)
{
    uint32_t low = 0;
    uint32_t high = index->count; /* entries below low are <=, from high on they are > */

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (index->entries[middle].relative_offset <= relative_offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? 0 : index->entries[low - 1].position;
}

uint32_t offset_index_boundary(const struct offset_index *index, uint32_t position)
{
    uint32_t low = 0;
    uint32_t high = index->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (index->entries[middle].position <= position)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? 0 : index->entries[low - 1].position;
}

int64_t offset_index_bound(const struct offset_index *index, uint64_t position)
{
    uint32_t low = 0;
    uint32_t high = index->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (index->entries[middle].position < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low == index->count ? -1 : (int64_t)index->entries[low].relative_offset;
}

void offset_index_cut(struct offset_index *index, uint32_t relative_offset, uint64_t size)
{
    while (index->count > 0 && (index->entries[index->count - 1].relative_offset >= relative_offset ||
                                index->entries[index->count - 1].position >= size))
        index->count--;
    if (index->written > index->count)
        index->written = index->count;
}

enum err offset_index_parse(struct offset_index *index, struct bytes file, uint64_t size)
{
    uint32_t count = 0;
    enum err err = ERR_OK;

    assert(index->count == 0);
    if (file.size % OFFSET_INDEX_ENTRY_BYTES != 0 || file.size > INT32_MAX)
        return ERR_DAMAGED;
    count = (uint32_t)(file.size / OFFSET_INDEX_ENTRY_BYTES);
    err = mem_grow(&index->entries, &index->room, count, ROOM_FIRST, sizeof(*index->entries));
    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *at = file.data + (size_t)i * OFFSET_INDEX_ENTRY_BYTES;
        struct offset_index_entry entry = {big_endian_load_u32(at), big_endian_load_u32(at + 4)};

        if (entry.relative_offset > INT32_MAX || entry.position >= size ||
            !ascends(index, entry.relative_offset, entry.position)) {
            offset_index_deinit(index);
            return ERR_DAMAGED;
        }
        index->entries[index->count++] = entry;
    }
    index->written = count;
    return ERR_OK;
}

void offset_index_format(const struct offset_index *index, uint32_t first, uint8_t *to)
{
    for (uint32_t i = first; i < index->count; i++, to += OFFSET_INDEX_ENTRY_BYTES) {
        big_endian_store_u32(to, index->entries[i].relative_offset);
        big_endian_store_u32(to + 4, index->entries[i].position);
    }
}
