#include "partition/journal_format.h"

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/crc32c.h"

#define FILE_MAGIC UINT64_C(0x4f74746c614a726e) /* "OttlaJrn" */

enum {
    GROUP_MAGIC = 0x4f4a4772, /* "OJGr" */
    FILE_CRC_AT = 60,
    VERSION_AT = 8,
};

/* --- file header --- */

void journal_header_write(const struct journal_header *header, uint8_t *to)
{
    memset(to, 0, JOURNAL_HEADER_BYTES);
    big_endian_store_u64(to, FILE_MAGIC);
    big_endian_store_u16(to + VERSION_AT, JOURNAL_VERSION);
    big_endian_store_u32(to + 12, header->reactor);
    memcpy(to + 16, header->directory_id.bytes, UUID_BYTES);
    big_endian_store_u64(to + 32, header->generation);
    big_endian_store_u64(to + 40, header->file_bytes);
    big_endian_store_u64(to + 48, header->random);
    big_endian_store_u32(to + FILE_CRC_AT, crc32c(0, to, FILE_CRC_AT));
}

static bool all_zero(struct bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i++)
        if (bytes.data[i] != 0)
            return false;
    return true;
}

enum err journal_header_read(struct bytes from, struct journal_header *header, uint16_t *version)
{
    if (from.size < JOURNAL_HEADER_BYTES || all_zero(bytes_of(from.data, JOURNAL_HEADER_BYTES)))
        return ERR_NOT_FOUND;
    if (big_endian_load_u64(from.data) != FILE_MAGIC)
        return ERR_DAMAGED;
    if (big_endian_load_u32(from.data + FILE_CRC_AT) != crc32c(0, from.data, FILE_CRC_AT))
        return ERR_DAMAGED;
    *version = big_endian_load_u16(from.data + VERSION_AT);
    if (*version != JOURNAL_VERSION)
        return ERR_UNSUPPORTED_VERSION;
    header->reactor = big_endian_load_u32(from.data + 12);
    memcpy(header->directory_id.bytes, from.data + 16, UUID_BYTES);
    header->generation = big_endian_load_u64(from.data + 32);
    header->file_bytes = big_endian_load_u64(from.data + 40);
    header->random = big_endian_load_u64(from.data + 48);
    return ERR_OK;
}

/* --- groups --- */

void journal_group_header_write(const struct journal_group_header *header, uint8_t *to)
{
    memset(to, 0, JOURNAL_GROUP_HEADER_BYTES);
    big_endian_store_u32(to, GROUP_MAGIC);
    big_endian_store_u64(to + 8, header->random);
    big_endian_store_u64(to + 16, header->generation);
    big_endian_store_u32(to + 24, header->number);
    big_endian_store_u32(to + 28, header->entries_bytes);
    big_endian_store_u32(to + 32, header->entry_count);
    big_endian_store_u32(to + 4, crc32c(0, to + 8, JOURNAL_GROUP_HEADER_BYTES - 8));
}

enum err journal_group_header_read(struct bytes from, struct journal_group_header *header)
{
    if (from.size < JOURNAL_GROUP_HEADER_BYTES || big_endian_load_u32(from.data) != GROUP_MAGIC ||
        big_endian_load_u32(from.data + 4) != crc32c(0, from.data + 8, JOURNAL_GROUP_HEADER_BYTES - 8))
        return ERR_DAMAGED;
    header->random = big_endian_load_u64(from.data + 8);
    header->generation = big_endian_load_u64(from.data + 16);
    header->number = big_endian_load_u32(from.data + 24);
    header->entries_bytes = big_endian_load_u32(from.data + 28);
    header->entry_count = big_endian_load_u32(from.data + 32);
    return ERR_OK;
}

/* --- entries --- */

size_t journal_entry_write(const struct journal_entry *entry, uint8_t *to)
{
    size_t taken = journal_entry_bytes(entry->body.size);
    size_t used = JOURNAL_ENTRY_HEADER_BYTES + entry->body.size;

    assert(entry->body.size <= UINT32_MAX);
    memset(to, 0, JOURNAL_ENTRY_HEADER_BYTES);
    to[4] = (uint8_t)entry->type;
    big_endian_store_u32(to + 20, (uint32_t)entry->body.size);
    memcpy(to + 24, entry->topic_id.bytes, UUID_BYTES);
    big_endian_store_u32(to + 40, (uint32_t)entry->partition);
    big_endian_store_u32(to + 44, (uint32_t)entry->leader_epoch);
    big_endian_store_u64(to + 48, (uint64_t)entry->offset);
    big_endian_store_u64(to + 56, (uint64_t)entry->end_offset);
    big_endian_store_u64(to + 64, (uint64_t)entry->previous_end);
    if (entry->body.size > 0)
        memcpy(to + JOURNAL_ENTRY_HEADER_BYTES, entry->body.data, entry->body.size);
    memset(to + used, 0, taken - used);
    return taken;
}

size_t journal_entry_seal(uint8_t *at, uint64_t random, uint32_t group)
{
    size_t body_bytes = big_endian_load_u32(at + 20);

    big_endian_store_u64(at + 8, random);
    big_endian_store_u32(at + 16, group);
    big_endian_store_u32(at, crc32c(0, at + 4, JOURNAL_ENTRY_HEADER_BYTES - 4 + body_bytes));
    return journal_entry_bytes(body_bytes);
}

enum err journal_entry_read(struct bytes from, struct journal_entry *entry, size_t *taken)
{
    const uint8_t *at = from.data;
    size_t body_bytes = 0;

    if (from.size < JOURNAL_ENTRY_HEADER_BYTES)
        return ERR_DAMAGED;
    body_bytes = big_endian_load_u32(at + 20);
    if (body_bytes > from.size - JOURNAL_ENTRY_HEADER_BYTES || journal_entry_bytes(body_bytes) > from.size ||
        big_endian_load_u32(at) != crc32c(0, at + 4, JOURNAL_ENTRY_HEADER_BYTES - 4 + body_bytes))
        return ERR_DAMAGED;
    if (at[4] < JOURNAL_APPEND || at[4] > JOURNAL_MOVE)
        return ERR_DAMAGED;
    *entry = (struct journal_entry){
        .type = (enum journal_entry_type)at[4],
        .random = big_endian_load_u64(at + 8),
        .group = big_endian_load_u32(at + 16),
        .partition = (int32_t)big_endian_load_u32(at + 40),
        .leader_epoch = (int32_t)big_endian_load_u32(at + 44),
        .offset = (int64_t)big_endian_load_u64(at + 48),
        .end_offset = (int64_t)big_endian_load_u64(at + 56),
        .previous_end = (int64_t)big_endian_load_u64(at + 64),
        .body = bytes_of(at + JOURNAL_ENTRY_HEADER_BYTES, body_bytes),
    };
    memcpy(entry->topic_id.bytes, at + 24, UUID_BYTES);
    if (entry->partition < 0 || entry->offset < 0 || entry->end_offset < entry->offset || entry->previous_end < 0)
        return ERR_DAMAGED;
    *taken = journal_entry_bytes(body_bytes);
    return ERR_OK;
}
