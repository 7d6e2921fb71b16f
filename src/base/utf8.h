/*
 * utf8: characters off the front of a text. What is not UTF-8 is stepped over as Java's String does it, each step one
 * U+FFFD there (CharsetDecoder of UTF-8): a first byte that begins nothing by itself, a broken sequence up to the byte
 * that breaks it, a surrogate of three bytes whole.
 */
#ifndef OTTLA_BASE_UTF8_H
#define OTTLA_BASE_UTF8_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum {
    UTF8_CODE_MAX = 0x10ffff,
    UTF8_REPLACEMENT = 0xfffd,
    UTF8_PLANE_0_END = 0x10000, /* from here on a character is two units of UTF-16 */
};

/* Takes one off the front of rest (not empty) into *code; false: it is none, *code is UTF8_REPLACEMENT. */
bool utf8_take(struct bytes *rest, uint32_t *code);

/* How long Java calls that text: in units of UTF-16. */
size_t utf8_count_units(struct bytes text);

/* Of UTF-16, as Java writes a character: one or two; how many. */
static inline uint32_t utf8_units(uint32_t code, uint16_t units[2])
{
    if (code < UTF8_PLANE_0_END) {
        units[0] = (uint16_t)code;
        return 1;
    }
    units[0] = (uint16_t)(0xd800 + ((code - UTF8_PLANE_0_END) >> 10));
    units[1] = (uint16_t)(0xdc00 + ((code - UTF8_PLANE_0_END) & 0x3ff));
    return 2;
}

#endif
