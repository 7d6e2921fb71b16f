#include "base/crc32c.h"

#include <isa-l/crc.h>
#include <limits.h>

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *at = (const uint8_t *)data;

    /* ISA-L neither inverts the register going in nor coming out, and counts in int. It only reads, whatever its
     * prototype says. */
    crc = ~crc;
    while (size > 0) {
        int part = size > INT_MAX ? INT_MAX : (int)size;

        crc = crc32_iscsi((unsigned char *)(uintptr_t)at, part, crc);
        at += part;
        size -= (size_t)part;
    }
    return ~crc;
}
