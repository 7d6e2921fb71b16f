/*
 * batch_pipe: our record batches for Apache Kafka's to be held against (integration/batches).
 *
 *     batch_pipe samples SEED COUNT    COUNT drawn batches for each codec: "HEX TEXT" lines
 *     batch_pipe read                  reads HEX lines; answers each with its TEXT, or "! why"
 *     batch_pipe judge                 reads "KEYS_REQUIRED STAMP_TIME HEX" lines, the first two 0 or 1; answers with
 *                                      the error of a client's produce at 1700000000000, batches opened, or NONE
 *
 * TEXT is the records as "offset,timestamp,key,value,header=value,..." with ";" between: bytes in hexadecimal, "-" is
 * null.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "protocol/batch_build.h"
#include "protocol/batch_validate.h"

enum { LINE_BYTES_MAX = 1 << 20, RECORDS_MAX = 20, HEADERS_MAX = 3, FIELD_BYTES_MAX = 300 };

static const int64_t now_ms = 1700000000000;

static void put_bytes(struct bytes bytes)
{
    if (bytes.data == NULL)
        putchar('-');
    for (size_t i = 0; i < bytes.size; i++)
        printf("%02x", bytes.data[i]);
}

static void put_record(const struct record *record)
{
    struct bytes headers = record->headers;
    struct record_header header;

    printf("%" PRId64 ",%" PRId64 ",", record->offset, record->timestamp);
    put_bytes(record->key);
    putchar(',');
    put_bytes(record->value);
    while (record_header_next(&headers, &header)) {
        putchar(',');
        put_bytes(header.key);
        putchar('=');
        put_bytes(header.value);
    }
}

static void put_text(struct bytes batch)
{
    struct record_iter iter;
    struct record record;
    struct batch_header header;
    const char *between = "";
    enum err err = batch_peek(batch, &header, NULL);

    if (err == ERR_OK && batch_crc_is_valid(batch))
        err = record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX);
    if (err != ERR_OK) {
        printf("! %s\n", err_name(err));
        return;
    }
    for (; (err = record_iter_next(&iter, &record)) == ERR_OK; between = ";") {
        printf("%s", between);
        put_record(&record);
    }
    record_iter_deinit(&iter);
    if (err == ERR_END)
        putchar('\n');
    else
        printf("! %s\n", err_name(err));
}

static uint32_t draw(uint64_t *state, uint32_t bound)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % bound;
}

static struct bytes draw_bytes(uint64_t *state, uint8_t *room, bool nullable)
{
    uint32_t size = draw(state, 3) == 0 ? draw(state, FIELD_BYTES_MAX) : draw(state, 4);

    if (nullable && draw(state, 4) == 0)
        return (struct bytes){0};
    /* Letters: Kafka's header keys are text. */
    for (uint32_t i = 0; i < size; i++)
        room[i] = (uint8_t)('a' + draw(state, 20));
    return bytes_of(room, size);
}

static void append_sample(struct batch_builder *builder, uint64_t *state)
{
    static uint8_t room[2 + 2 * HEADERS_MAX][FIELD_BYTES_MAX];
    struct record_header headers[HEADERS_MAX];
    uint32_t header_count = draw(state, HEADERS_MAX + 1);
    struct bytes key = draw_bytes(state, room[0], true);
    struct bytes value = draw_bytes(state, room[1], true);

    for (uint32_t i = 0; i < header_count; i++) {
        headers[i].key = draw_bytes(state, room[2 + 2 * i], false);
        headers[i].value = draw_bytes(state, room[3 + 2 * i], true);
    }
    if (batch_builder_append(builder, now_ms - draw(state, 100000), key, value, headers, header_count) != ERR_OK)
        abort();
}

static void put_samples(uint64_t seed, uint64_t count)
{
    struct batch_builder builder;
    struct batch_spec spec;

    batch_spec_init(&spec);
    batch_builder_init(&builder, &spec);
    for (uint64_t i = 0; i < count; i++)
        for (spec.codec = CODEC_NONE; spec.codec < CODEC_COUNT; spec.codec++) {
            uint32_t records = draw(&seed, RECORDS_MAX) + 1;
            uint8_t *batch = NULL;
            size_t size = 0;

            batch_builder_reset(&builder, &spec);
            while (records-- > 0)
                append_sample(&builder, &seed);
            if (batch_builder_finish(&builder, &batch, &size) != ERR_OK)
                abort();
            put_bytes(bytes_of(batch, size));
            putchar(' ');
            put_text(bytes_of(batch, size));
        }
    batch_builder_deinit(&builder);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place, up to the first character that is no digit; gives the number of bytes. */
static size_t unhex(char *line)
{
    size_t size = 0;

    for (; digit(line[2 * size]) >= 0 && digit(line[2 * size + 1]) >= 0; size++)
        line[size] = (char)(digit(line[2 * size]) << 4 | digit(line[2 * size + 1]));
    return size;
}

static void judge(char *line)
{
    struct batch_rules rules;
    struct batch_verdict verdict;
    struct arena arena;
    enum err err = ERR_OK;
    size_t size = unhex(line + 4);

    batch_rules_init(&rules);
    rules.now_ms = now_ms;
    rules.open_compressed = true;
    rules.keys_required = line[0] == '1';
    rules.stamp_append_time = line[2] == '1';
    arena_init(&arena, 1 << 20);
    err = batch_validate((uint8_t *)line + 4, size, &rules, &arena, &verdict);
    printf("%s\n", err == ERR_OK ? "NONE" : err_name(err));
    arena_deinit(&arena);
}

int main(int argc, char **argv)
{
    static char line[LINE_BYTES_MAX];

    if (argc == 4 && strcmp(argv[1], "samples") == 0) {
        put_samples(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
        return 0;
    }
    if (argc != 2 || (strcmp(argv[1], "read") != 0 && strcmp(argv[1], "judge") != 0)) {
        fprintf(stderr, "usage: batch_pipe samples SEED COUNT | read | judge\n");
        return 2;
    }
    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (argv[1][0] == 'r')
            put_text(bytes_of(line, unhex(line)));
        else
            judge(line);
    }
    return 0;
}
