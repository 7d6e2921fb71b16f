/*
 * uuid: 16 bytes, high half first, as on Kafka's wire; text form is URL-safe base64 without padding, 22
 * characters. All zero means "none".
 */
#ifndef OTTLA_BASE_UUID_H
#define OTTLA_BASE_UUID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/rng.h"

enum { UUID_BYTES = 16, UUID_TEXT_CHARS = 22, UUID_HEX_CHARS = 36 };

struct uuid {
    uint8_t bytes[UUID_BYTES];
};

struct uuid_text {
    char text[UUID_TEXT_CHARS + 1];
};

struct uuid_hex {
    char text[UUID_HEX_CHARS + 1];
};

static inline bool uuid_equal(struct uuid a, struct uuid b)
{
    return memcmp(a.bytes, b.bytes, UUID_BYTES) == 0;
}

static inline bool uuid_is_zero(struct uuid id)
{
    return uuid_equal(id, (struct uuid){{0}});
}

/* A random (type 4) id from 16 random bytes. Kafka's reserved ids cannot come out: they lack the version
 * bits. */
struct uuid uuid_from_random(const uint8_t random[UUID_BYTES]);
/* The same from 16 bytes of rng. */
struct uuid uuid_random(struct rng *rng);
/* Printable form, by value: printf("%s", uuid_format(id).text). */
struct uuid_text uuid_format(struct uuid id);
/* As Java and RFC 4122 print it: "6c84fb90-12c4-11e1-840d-7b25c5ee775a". */
struct uuid_hex uuid_format_hex(struct uuid id);
/* ERR_USAGE when it is not 22 characters of URL-safe base64. */
MUST_CHECK enum err uuid_parse(struct bytes text, struct uuid *id);

#endif
