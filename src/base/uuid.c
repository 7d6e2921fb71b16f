#include "base/uuid.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

struct uuid uuid_from_random(const uint8_t random[UUID_BYTES])
{
    struct uuid id;

    memcpy(id.bytes, random, UUID_BYTES);
    id.bytes[6] = (uint8_t)((id.bytes[6] & 0x0f) | 0x40); /* RFC 4122: version 4 */
    id.bytes[8] = (uint8_t)((id.bytes[8] & 0x3f) | 0x80); /* RFC 4122: variant */
    return id;
}

struct uuid uuid_random(struct rng *rng)
{
    uint8_t random[UUID_BYTES];

    rng_fill(rng, random, sizeof(random));
    return uuid_from_random(random);
}

struct uuid_hex uuid_format_hex(struct uuid id)
{
    static const char hex[] = "0123456789abcdef";
    struct uuid_hex out = {{0}};
    unsigned chars = 0;

    for (unsigned i = 0; i < UUID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            out.text[chars++] = '-';
        out.text[chars++] = hex[id.bytes[i] >> 4];
        out.text[chars++] = hex[id.bytes[i] & 15];
    }
    return out;
}

struct uuid_text uuid_format(struct uuid id)
{
    struct uuid_text out = {{0}};
    uint32_t bits = 0;
    unsigned bit_count = 0;
    unsigned chars = 0;

    for (unsigned i = 0; i < UUID_BYTES; i++) {
        bits = bits << 8 | id.bytes[i];
        bit_count += 8;
        while (bit_count >= 6) {
            bit_count -= 6;
            out.text[chars++] = digits[bits >> bit_count & 63];
        }
    }
    out.text[chars] = digits[bits << (6 - bit_count) & 63];
    return out;
}

enum err uuid_parse(struct bytes text, struct uuid *id)
{
    uint32_t bits = 0;
    unsigned bit_count = 0;
    unsigned at = 0;
    struct uuid out = {{0}};

    if (text.size != UUID_TEXT_CHARS)
        return ERR_USAGE;
    for (unsigned i = 0; i < UUID_TEXT_CHARS; i++) {
        const char *digit = text.data[i] == 0 ? NULL : strchr(digits, text.data[i]);

        if (digit == NULL)
            return ERR_USAGE;
        bits = bits << 6 | (uint32_t)(digit - digits);
        bit_count += 6;
        if (bit_count >= 8) {
            bit_count -= 8;
            out.bytes[at++] = (uint8_t)(bits >> bit_count);
        }
    }
    *id = out;
    return ERR_OK;
}
