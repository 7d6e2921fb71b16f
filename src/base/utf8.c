#include "base/utf8.h"

#include "base/assert.h"

/* Bytes of a character that begins so; 0: none does. */
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

/* What may come second is less than any continuation where the character had a shorter form, or is too large. */
static bool is_second(uint8_t first, uint8_t second)
{
    uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t most = first == 0xf4 ? 0x8f : 0xbf;

    return second >= least && second <= most;
}

bool utf8_take(struct bytes *rest, uint32_t *code)
{
    size_t size = 0;
    size_t taken = 1;

    assert(rest->size > 0);
    size = sequence_size(rest->data[0]);
    *code = size < 2 ? rest->data[0] : rest->data[0] & (0x7fU >> size);
    while (taken < size && taken < rest->size &&
           (taken == 1 ? is_second(rest->data[0], rest->data[1]) : (rest->data[taken] & 0xc0) == 0x80))
        *code = *code << 6 | (rest->data[taken++] & 0x3fU);
    *rest = bytes_of(rest->data + taken, rest->size - taken);
    if (taken == size && (*code < 0xd800 || *code >= 0xe000))
        return true;
    *code = UTF8_REPLACEMENT;
    return false;
}

size_t utf8_count_units(struct bytes text)
{
    uint16_t units[2];
    size_t count = 0;
    uint32_t code = 0;

    while (text.size > 0) {
        utf8_take(&text, &code);
        count += utf8_units(code, units);
    }
    return count;
}
