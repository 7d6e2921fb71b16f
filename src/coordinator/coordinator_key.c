#include "coordinator/coordinator_key.h"

#include "base/assert.h"

enum { REPLACEMENT = 0xfffd, SURROGATES_FROM = 0x10000, HIGH_SURROGATE = 0xd800, LOW_SURROGATE = 0xdc00 };

/* Bytes that a character with this first byte takes; 0: none begins so. */
static size_t sequence_size(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first < 0xe0)
        return 2;
    if (first >= 0xe0 && first < 0xf0)
        return 3;
    return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/* Takes the next character off the front. */
static uint32_t next_character(struct bytes *rest)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = sequence_size(rest->data[0]);
    uint32_t character = rest->data[0];
    size_t taken = 1;

    if (size > 1)
        character &= 0xffu >> (size + 1);
    while (taken < size && taken < rest->size && (rest->data[taken] & 0xc0) == 0x80)
        character = character << 6 | (rest->data[taken++] & 0x3fu);
    *rest = bytes_of(rest->data + taken, rest->size - taken);
    if (size == 0 || taken < size || character < smallest[size] || character > 0x10ffff ||
        (character >= HIGH_SURROGATE && character < 0xe000))
        return REPLACEMENT;
    return character;
}

int32_t coordinator_key_hash(struct bytes key)
{
    uint32_t hash = 0;

    while (key.size > 0) {
        uint32_t character = next_character(&key);

        if (character >= SURROGATES_FROM) {
            hash = 31 * hash + (HIGH_SURROGATE + ((character - SURROGATES_FROM) >> 10));
            character = LOW_SURROGATE + ((character - SURROGATES_FROM) & 0x3ff);
        }
        hash = 31 * hash + character;
    }
    return (int32_t)hash;
}

int32_t coordinator_key_partition(struct bytes key, uint32_t partitions)
{
    int32_t hash = coordinator_key_hash(key);

    assert(partitions > 0 && partitions <= INT32_MAX);
    if (hash == INT32_MIN)
        hash = 0;
    return (hash < 0 ? -hash : hash) % (int32_t)partitions;
}
