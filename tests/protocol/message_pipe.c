/*
 * message_pipe: our codecs for programs in other languages to be held against (integration/schemas).
 *
 *     message_pipe samples SEED COUNT    COUNT random messages of each type and version: "NAME VERSION HEX" lines
 *     message_pipe echo                  reads such lines; answers each with the HEX of what was decoded and encoded
 *                                        again, or "! why"
 *     message_pipe golden DIR            the files of tests/protocol/golden, as they should be
 *     message_pipe seeds DIR             one input of tests/fuzz/fuzz_message for each type, in its newest version
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "message_sample.h"
#include "protocol/frame.h"
#include "protocol/gen/control_record_type_schema.h"
#include "protocol/gen/end_txn_marker.h"
#include "protocol/gen/messages.h"

enum {
    LINE_BYTES_MAX = 1024 * 1024,
    ARENA_BYTES_MAX = 64 * 1024 * 1024,
    GOLDEN_FRONT_BYTES_MAX = 16, /* of a record */
    GOLDEN_TRIES = 200,          /* seeds, for one whose message shows all its arrays */
};

static void put_hex(struct bytes bytes)
{
    for (size_t i = 0; i < bytes.size; i++)
        printf("%02x", bytes.data[i]);
    putchar('\n');
}

static void put_samples(uint64_t seed, uint64_t count)
{
    struct sample sample = {.seed = seed};
    struct arena arena;
    struct bytes bytes;

    arena_init(&arena, ARENA_BYTES_MAX);
    sample.arena = &arena;
    for (uint32_t i = 0; i < MESSAGE_TYPE_COUNT; i++) {
        const struct message_type *type = message_types[i];
        for (int16_t version = type->version_min; version <= type->version_max; version++) {
            for (uint64_t j = 0; j < count; j++) {
                void *message = sample_message(&sample, type, version);
                enum err err = message_encode(type, version, message, &arena, &bytes);
                assert(err == ERR_OK);
                printf("%s %d ", type->name, version);
                put_hex(bytes);
                arena_reset(&arena);
            }
        }
    }
    arena_deinit(&arena);
}

static int put_seeds(const char *folder)
{
    struct sample sample = {.seed = 1};
    struct arena arena;
    struct bytes bytes;

    arena_init(&arena, ARENA_BYTES_MAX);
    sample.arena = &arena;
    for (uint32_t i = 0; i < MESSAGE_TYPE_COUNT; i++) {
        const struct message_type *type = message_types[i];
        uint32_t hash = sample_name_hash(type->name);
        uint8_t pick[] = {(uint8_t)(hash >> 16), (uint8_t)(hash >> 8), (uint8_t)hash,
                          (uint8_t)(type->version_max - type->version_min), 0};
        char path[4096];

        void *message = sample_message(&sample, type, type->version_max);
        enum err err = message_encode(type, type->version_max, message, &arena, &bytes);
        assert(err == ERR_OK);
        snprintf(path, sizeof(path), "%s/%s", folder, type->name);
        FILE *file = fopen(path, "wb");
        if (file == NULL) {
            perror(path);
            return 1;
        }
        fwrite(pick, 1, sizeof(pick), file);
        fwrite(bytes.data, 1, bytes.size, file);
        fclose(file);
        arena_reset(&arena);
    }
    arena_deinit(&arena);
    return 0;
}

/* What stands in front of a message's body: the header of a frame, or what tells readers of a log's record (on-disk.md
 * 7) or of a member's bytes which type and version they have. Empty for headers, and for control records but a
 * transaction's. */
static struct bytes golden_front(const struct message_type *type, int16_t version, struct arena *arena)
{
    struct request_header request = {.request_api_key = type->api_key,
                                     .request_api_version = version,
                                     .correlation_id = 0x01020304,
                                     .client_id = BYTES_LITERAL("golden")};
    struct response_header response = {.correlation_id = 0x01020304};
    uint8_t *room = arena_alloc(arena, GOLDEN_FRONT_BYTES_MAX);
    struct bytes front = {0};
    struct wire_writer w;
    enum err err = ERR_OK;

    assert(room != NULL);
    wire_writer_init_flat(&w, room, GOLDEN_FRONT_BYTES_MAX);
    switch (type->kind) {
    case MESSAGE_REQUEST:
        err = message_encode(&request_header_message, frame_request_header_version(type->api_key, version), &request,
                             arena, &front);
        assert(err == ERR_OK);
        return front;
    case MESSAGE_RESPONSE:
        err = message_encode(&response_header_message, frame_response_header_version(type->api_key, version), &response,
                             arena, &front);
        assert(err == ERR_OK);
        return front;
    case MESSAGE_RECORD:
        wire_write_uvarint(&w, 1);
        wire_write_uvarint(&w, (uint32_t)type->api_key);
        wire_write_uvarint(&w, (uint32_t)version);
        break;
    case MESSAGE_KEY:
        wire_write_i16(&w, type->api_key);
        break;
    case MESSAGE_VALUE:
        wire_write_i16(&w, version);
        break;
    case MESSAGE_DATA:
        if (type->family == MESSAGE_FAMILY_PAYLOAD || type == &end_txn_marker_message ||
            type == &control_record_type_schema_message)
            wire_write_i16(&w, version);
        break;
    case MESSAGE_HEADER:
        break;
    }
    return bytes_of(room, (size_t)(w.at - room));
}

static void put_golden_version(FILE *file, const struct message_type *type, int16_t version)
{
    struct arena arena;
    struct sample sample = {.arena = &arena};
    struct bytes parts[2];
    void *message = NULL;
    char text[65536];

    arena_init(&arena, ARENA_BYTES_MAX);
    for (uint64_t try = 0; try < GOLDEN_TRIES && (try == 0 || !sample_shows_arrays(type, version, message)); try++) {
        sample.seed = 4711 + (uint64_t)version + try * 1000;
        message = sample_message(&sample, type, version);
    }
    parts[0] = golden_front(type, version, &arena);
    enum err err = message_encode(type, version, message, &arena, &parts[1]);
    assert(err == ERR_OK);
    size_t size = message_print(type, version, message, text, sizeof(text));
    assert(size < sizeof(text) - 1);
    fprintf(file, "\n%d %s\n", version, text);
    for (size_t part = 0; part < 2; part++) {
        for (size_t i = 0; i < parts[part].size; i++)
            fprintf(file, "%02x", parts[part].data[i]);
        fprintf(file, part == 0 ? " " : "\n");
    }
    arena_deinit(&arena);
}

static int put_golden(const char *folder)
{
    for (uint32_t i = 0; i < MESSAGE_TYPE_COUNT; i++) {
        const struct message_type *type = message_types[i];
        char path[4096];

        snprintf(path, sizeof(path), "%s/%s", folder, type->name);
        FILE *file = fopen(path, "w");
        if (file == NULL) {
            perror(path);
            return 1;
        }
        fprintf(file,
                "# %s: version and values, then what stands in front and the body, as they go over the wire or\n"
                "# into a log.\n",
                type->name);
        for (int16_t version = type->version_min; version <= type->version_max; version++)
            put_golden_version(file, type, version);
        fclose(file);
    }
    return 0;
}

static const struct message_type *find(const char *name, size_t size)
{
    for (uint32_t i = 0; i < MESSAGE_TYPE_COUNT; i++)
        if (strlen(message_types[i]->name) == size && memcmp(message_types[i]->name, name, size) == 0)
            return message_types[i];
    return NULL;
}

static size_t from_hex(const char *text, uint8_t *bytes)
{
    size_t size = 0;

    for (; text[0] > ' ' && text[1] > ' '; text += 2) {
        char pair[3] = {text[0], text[1], '\0'};
        bytes[size++] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return size;
}

static void echo(const char *line, uint8_t *bytes)
{
    const char *space = strchr(line, ' ');
    const struct message_type *type = space == NULL ? NULL : find(line, (size_t)(space - line));
    struct wire_reader r;
    struct arena arena;
    struct bytes again;
    char *end = NULL;

    if (type == NULL) {
        printf("! no such message\n");
        return;
    }
    int16_t version = (int16_t)strtol(space, &end, 10);
    wire_reader_init(&r, bytes_of(bytes, from_hex(end + 1, bytes)));
    arena_init(&arena, ARENA_BYTES_MAX);
    void *message = arena_alloc(&arena, type->structure->size);
    enum err err = message_read(type, &r, &arena, version, message);
    if (err != ERR_OK)
        printf("! %s at %zu, wanted %zu, left %zu\n", err_name(err), wire_reader_position(&r), r.wanted, r.left);
    else if (wire_reader_left(&r) != 0)
        printf("! %zu bytes left\n", wire_reader_left(&r));
    else if ((err = message_encode(type, version, message, &arena, &again)) != ERR_OK)
        printf("! encoding: %s\n", err_name(err));
    else
        put_hex(again);
    arena_deinit(&arena);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "samples") == 0) {
        put_samples(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "seeds") == 0)
        return put_seeds(argv[2]);
    if (argc == 3 && strcmp(argv[1], "golden") == 0)
        return put_golden(argv[2]);
    if (argc == 2 && strcmp(argv[1], "echo") == 0) {
        char *line = malloc(LINE_BYTES_MAX);
        uint8_t *bytes = malloc(LINE_BYTES_MAX / 2);
        assert(line != NULL && bytes != NULL);
        while (fgets(line, LINE_BYTES_MAX, stdin) != NULL)
            echo(line, bytes);
        free(line);
        free(bytes);
        return 0;
    }
    fprintf(stderr, "usage: message_pipe samples SEED COUNT | echo | golden DIR | seeds DIR\n");
    return 2;
}
