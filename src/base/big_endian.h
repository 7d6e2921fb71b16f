/*
 * big_endian: integers as Kafka lays them down, on the wire and on disk, at any alignment.
 *
 * Threads  any.
 */
#ifndef OTTLA_BASE_BIG_ENDIAN_H
#define OTTLA_BASE_BIG_ENDIAN_H

#include <stdint.h>
#include <string.h>

static inline uint16_t big_endian_load_u16(const uint8_t *from)
{
    uint16_t value = 0;

    memcpy(&value, from, sizeof(value));
    return __builtin_bswap16(value);
}

static inline uint32_t big_endian_load_u32(const uint8_t *from)
{
    uint32_t value = 0;

    memcpy(&value, from, sizeof(value));
    return __builtin_bswap32(value);
}

static inline uint64_t big_endian_load_u64(const uint8_t *from)
{
    uint64_t value = 0;

    memcpy(&value, from, sizeof(value));
    return __builtin_bswap64(value);
}

static inline void big_endian_store_u16(uint8_t *to, uint16_t value)
{
    value = __builtin_bswap16(value);
    memcpy(to, &value, sizeof(value));
}

static inline void big_endian_store_u32(uint8_t *to, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(to, &value, sizeof(value));
}

static inline void big_endian_store_u64(uint8_t *to, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(to, &value, sizeof(value));
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the swaps above are for little-endian machines");

#endif
