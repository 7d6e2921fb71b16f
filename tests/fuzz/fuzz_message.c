/*
 * Messages out of any bytes, all schemas in one target. The first bytes pick what is done:
 *
 *     0-2  which message: a hash of its name (any other value picks one too)
 *     3    its version
 *     4    direction. Even: the rest is a message as it came from the wire. Odd: the rest is a seed from which values
 * are drawn for every field, which are then written
 *
 * Shows: no bytes crash, hang or bloat us (known trap B010); what is read can be written, and reads back equal; what we
 * write reads back equal; and both take the size foretold.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "protocol/gen/messages.h"
#include "protocol/message_sample.h"

enum {
    FUZZ_PICK_BYTES = 5,
    FUZZ_ARENA_BYTES_MAX = 64 * 1024 * 1024,
    FUZZ_ARENA_BYTES_PER_BYTE_MAX = 512, /* as in tests/protocol/test_message_codecs.c */
    FUZZ_TEXT_BYTES_MAX = 2048,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct message_type *pick(const uint8_t *data)
{
    uint32_t hash = (uint32_t)data[0] << 16 | (uint32_t)data[1] << 8 | data[2];

    for (uint32_t i = 0; i < MESSAGE_TYPE_COUNT; i++)
        if (sample_name_hash(message_types[i]->name) == hash)
            return message_types[i];
    return message_types[hash % MESSAGE_TYPE_COUNT];
}

static void *read_message(const struct message_type *type, int16_t version, struct bytes bytes, struct arena *arena)
{
    void *message = arena_alloc(arena, type->structure->size);
    size_t used_bytes = arena->used_bytes;
    struct wire_reader r;
    enum err err;

    assert(message != NULL);
    wire_reader_init(&r, bytes);
    err = message_read(type, &r, arena, version, message);
    assert(err == ERR_OK || err == ERR_MALFORMED || err == ERR_NOMEM);
    assert(arena->used_bytes - used_bytes <= bytes.size * FUZZ_ARENA_BYTES_PER_BYTE_MAX);
    return err == ERR_OK ? message : NULL;
}

/* Writes it, reads that back, compares. */
static void check_message(const struct message_type *type, int16_t version, const void *message, struct arena *arena)
{
    char text[FUZZ_TEXT_BYTES_MAX];
    struct bytes once, twice;
    const void *back = NULL;

    assert(message_print(type, version, message, text, sizeof(text)) < sizeof(text));
    assert(message_encode(type, version, message, arena, &once) == ERR_OK);
    back = read_message(type, version, once, arena);
    assert(back != NULL);
    assert(sample_difference(type, version, message, back, false) == NULL);
    assert(message_encode(type, version, back, arena, &twice) == ERR_OK);
    assert(bytes_equal(once, twice));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct message_type *type = NULL;
    struct sample sample = {.seed = 0};
    struct arena arena;
    const void *message = NULL;
    int16_t version;

    if (size < FUZZ_PICK_BYTES)
        return 0;
    type = pick(data);
    version = (int16_t)(type->version_min + data[3] % (type->version_max - type->version_min + 1));
    arena_init(&arena, FUZZ_ARENA_BYTES_MAX);
    if (data[4] % 2 == 0) {
        message = read_message(type, version, bytes_of(data + FUZZ_PICK_BYTES, size - FUZZ_PICK_BYTES), &arena);
    } else {
        sample.arena = &arena;
        for (size_t i = FUZZ_PICK_BYTES; i < size; i++)
            sample.seed = sample.seed * 257 + data[i];
        message = sample_message(&sample, type, version);
    }
    if (message != NULL)
        check_message(type, version, message, &arena);
    arena_deinit(&arena);
    return 0;
}
