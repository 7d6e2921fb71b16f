#include "partition/damage.h"

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "partition/log_path.h"
#include "partition/text_file.h"

enum { ROOM_FIRST = 4, FILE_BYTES_MAX = DAMAGE_HEAD_BYTES + DAMAGE_RANGES_MAX * DAMAGE_RANGE_BYTES };

static const uint8_t magic[8] = {'O', 'T', 'T', 'L', 'A', 'D', 'M', 'G'};

/* Of all but the magic and itself: a flipped bit in the version is damage, and no later build's file. */
static uint32_t crc_of(const uint8_t *data, size_t size)
{
    return crc32c(crc32c(0, data + 8, 4), data + 16, size - 16);
}

void damage_deinit(struct damage *damage)
{
    mem_free(damage->ranges);
    *damage = (struct damage){0};
}

/* Slot of the first range that ends above offset; count: none. */
static uint32_t slot_from(const struct damage *damage, int64_t offset)
{
    uint32_t low = 0;
    uint32_t high = damage->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (damage->ranges[middle].end_offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct damage_range *damage_from(const struct damage *damage, int64_t offset)
{
    uint32_t slot = slot_from(damage, offset);

    return slot == damage->count ? NULL : &damage->ranges[slot];
}

const struct damage_range *damage_at(const struct damage *damage, int64_t offset)
{
    const struct damage_range *range = damage_from(damage, offset);

    return range == NULL || range->first_offset > offset ? NULL : range;
}

const struct damage_range *damage_before(const struct damage *damage, int64_t segment_base, int64_t offset)
{
    uint32_t slot = slot_from(damage, offset);

    return slot == 0 || damage->ranges[slot - 1].segment_base != segment_base ? NULL : &damage->ranges[slot - 1];
}

static void remove_at(struct damage *damage, uint32_t slot, uint32_t count)
{
    memmove(damage->ranges + slot, damage->ranges + slot + count,
            (damage->count - slot - count) * sizeof(damage->ranges[0]));
    damage->count -= count;
}

/* Takes `other` into the range; in one segment the bytes from the first to the last are meant. */
static void join(struct damage_range *range, const struct damage_range *other)
{
    if (range->segment_base == other->segment_base) {
        uint64_t end = range->position + range->size;
        uint64_t other_end = other->position + other->size;

        if (other->position < range->position)
            range->position = other->position;
        range->size = (end > other_end ? end : other_end) - range->position;
    } else if (other->first_offset < range->first_offset) {
        range->segment_base = other->segment_base;
        range->position = other->position;
        range->size = other->size;
    }
    if (other->first_offset < range->first_offset)
        range->first_offset = other->first_offset;
    if (other->end_offset > range->end_offset)
        range->end_offset = other->end_offset;
    if (other->found_ms < range->found_ms)
        range->found_ms = other->found_ms;
}

enum err damage_add(struct damage *damage, const struct damage_range *range, bool *changed)
{
    uint32_t slot = slot_from(damage, range->first_offset);
    uint32_t behind = slot;
    struct damage_range joined = *range;
    enum err err = ERR_OK;

    assert(range->first_offset < range->end_offset);
    *changed = false;
    if (slot < damage->count && damage->ranges[slot].first_offset <= range->first_offset &&
        damage->ranges[slot].end_offset >= range->end_offset)
        return ERR_OK;
    while (behind < damage->count && damage->ranges[behind].first_offset < range->end_offset)
        join(&joined, &damage->ranges[behind++]);
    if (behind == slot && damage->count == DAMAGE_RANGES_MAX) {
        uint32_t neighbour = slot == damage->count ? slot - 1 : slot;

        join(&damage->ranges[neighbour], range);
        *changed = true;
        return ERR_OK;
    }
    err = mem_grow(&damage->ranges, &damage->room, damage->count + 1, ROOM_FIRST, sizeof(damage->ranges[0]));
    if (err != ERR_OK)
        return err;
    if (behind > slot) {
        remove_at(damage, slot + 1, behind - slot - 1);
    } else {
        memmove(damage->ranges + slot + 1, damage->ranges + slot, (damage->count - slot) * sizeof(damage->ranges[0]));
        damage->count++;
    }
    damage->ranges[slot] = joined;
    *changed = true;
    return ERR_OK;
}

bool damage_forget(struct damage *damage, int64_t first_offset, int64_t end_offset)
{
    bool forgotten = false;
    uint32_t slot = slot_from(damage, first_offset);

    while (slot < damage->count && damage->ranges[slot].first_offset < end_offset) {
        struct damage_range *range = &damage->ranges[slot];

        if (range->first_offset >= first_offset && range->end_offset <= end_offset) {
            remove_at(damage, slot, 1);
            forgotten = true;
            continue;
        }
        if (range->first_offset >= first_offset) {
            range->first_offset = end_offset;
            forgotten = true;
        } else if (range->end_offset <= end_offset) {
            range->end_offset = first_offset;
            forgotten = true;
        }
        slot++;
    }
    return forgotten;
}

/* --- the file --- */

enum err damage_format(const struct damage *damage, uint8_t **data, size_t *size)
{
    uint8_t *at = NULL;

    *size = DAMAGE_HEAD_BYTES + (size_t)damage->count * DAMAGE_RANGE_BYTES;
    *data = mem_alloc(*size);
    if (*data == NULL)
        return ERR_NOMEM;
    memcpy(*data, magic, sizeof(magic));
    big_endian_store_u32(*data + 8, DAMAGE_VERSION);
    big_endian_store_u32(*data + 16, damage->count);
    at = *data + DAMAGE_HEAD_BYTES;
    for (uint32_t i = 0; i < damage->count; i++, at += DAMAGE_RANGE_BYTES) {
        const struct damage_range *range = &damage->ranges[i];

        big_endian_store_u64(at, (uint64_t)range->first_offset);
        big_endian_store_u64(at + 8, (uint64_t)range->end_offset);
        big_endian_store_u64(at + 16, (uint64_t)range->segment_base);
        big_endian_store_u64(at + 24, range->position);
        big_endian_store_u64(at + 32, range->size);
        big_endian_store_u64(at + 40, (uint64_t)range->found_ms);
    }
    big_endian_store_u32(*data + 12, crc_of(*data, *size));
    return ERR_OK;
}

static enum err range_parse(struct damage *damage, const uint8_t *at)
{
    struct damage_range range = {
        .first_offset = (int64_t)big_endian_load_u64(at),
        .end_offset = (int64_t)big_endian_load_u64(at + 8),
        .segment_base = (int64_t)big_endian_load_u64(at + 16),
        .position = big_endian_load_u64(at + 24),
        .size = big_endian_load_u64(at + 32),
        .found_ms = (int64_t)big_endian_load_u64(at + 40),
    };

    if (range.segment_base < 0 || range.first_offset < range.segment_base || range.first_offset >= range.end_offset ||
        range.position > INT64_MAX || range.size > INT64_MAX - range.position ||
        (damage->count > 0 && range.first_offset < damage->ranges[damage->count - 1].end_offset))
        return ERR_DAMAGED;
    damage->ranges[damage->count++] = range;
    return ERR_OK;
}

enum err damage_parse(struct damage *damage, struct bytes file)
{
    uint32_t count = 0;
    enum err err = ERR_OK;

    assert(damage->count == 0);
    if (file.size < DAMAGE_HEAD_BYTES || memcmp(file.data, magic, sizeof(magic)) != 0 ||
        big_endian_load_u32(file.data + 12) != crc_of(file.data, file.size))
        return ERR_DAMAGED;
    if (big_endian_load_u32(file.data + 8) != DAMAGE_VERSION)
        return ERR_UNSUPPORTED_VERSION;
    count = big_endian_load_u32(file.data + 16);
    if (count > DAMAGE_RANGES_MAX || file.size != DAMAGE_HEAD_BYTES + (size_t)count * DAMAGE_RANGE_BYTES)
        return ERR_DAMAGED;
    err = mem_grow(&damage->ranges, &damage->room, count, ROOM_FIRST, sizeof(damage->ranges[0]));
    for (uint32_t i = 0; i < count && err == ERR_OK; i++)
        err = range_parse(damage, file.data + DAMAGE_HEAD_BYTES + (size_t)i * DAMAGE_RANGE_BYTES);
    if (err != ERR_OK)
        damage_deinit(damage);
    return err;
}

enum err damage_read(struct fs *fs, const char *dir, struct damage *damage)
{
    struct text content = {0};
    enum err err = text_file_read(fs, dir, DAMAGE_FILE, FILE_BYTES_MAX, &content);

    if (err == ERR_OK)
        err = damage_parse(damage, bytes_of(content.data, content.size));
    text_deinit(&content);
    return err == ERR_LIMIT ? ERR_DAMAGED : err;
}

enum err damage_write(struct fs *fs, const char *dir, struct bytes content)
{
    struct log_path path;
    enum err err = ERR_OK;

    if (content.size > DAMAGE_HEAD_BYTES)
        return text_file_replace(fs, dir, DAMAGE_FILE, content);
    err = log_path_in(&path, dir, DAMAGE_FILE);
    if (err == ERR_OK)
        err = fs_unlink(fs, path.text);
    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    if (err == ERR_OK && fs_sync_dir(fs, dir) != ERR_OK)
        err = ERR_IO;
    return err;
}
