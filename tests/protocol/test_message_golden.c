/*
 * Rule: the bytes of every message stay what they are, in every version: of requests and responses, of the records of
 * all logs, of what clients embed. tests/protocol/golden has them beside the values they stand for, a file a message,
 * and none is missing; integration/schemas holds the same bytes against Apache Kafka's codecs. After a change that is
 * meant: build/.../tests/protocol/message_pipe golden tests/protocol/golden, and read the difference.
 */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "protocol/frame.h"
#include "protocol/gen/messages.h"

enum { LINE_BYTES_MAX = 128 * 1024, ARENA_BYTES_MAX = 1024 * 1024 };

static const char *folder = "tests/protocol/golden";

static size_t from_hex(const char **text, uint8_t *bytes)
{
    size_t size = 0;

    for (; (*text)[0] > ' ' && (*text)[1] > ' '; *text += 2) {
        char pair[3] = {(*text)[0], (*text)[1], '\0'};
        bytes[size++] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return size;
}

static void check_request_header(const struct message_type *type, int16_t version, struct wire_reader *r)
{
    struct request_header header;

    ck_assert_int_eq(frame_read_request_header(r, &header), ERR_OK);
    ck_assert_int_eq(header.request_api_key, type->api_key);
    ck_assert_int_eq(header.request_api_version, version);
    ck_assert_int_eq(header.correlation_id, 0x01020304);
    ck_assert(bytes_equal(header.client_id, BYTES_LITERAL("golden")));
}

/* What stands before the body. */
static void check_front(const struct message_type *type, int16_t version, struct bytes front)
{
    struct wire_reader r;
    int32_t correlation_id = 0;

    wire_reader_init(&r, front);
    switch (type->kind) {
    case MESSAGE_REQUEST:
        check_request_header(type, version, &r);
        break;
    case MESSAGE_RESPONSE:
        ck_assert_int_eq(frame_read_response_header(&r, type->api_key, version, &correlation_id), ERR_OK);
        ck_assert_int_eq(correlation_id, 0x01020304);
        break;
    case MESSAGE_RECORD:
        ck_assert(wire_read_uvarint(&r) == 1);
        ck_assert(wire_read_uvarint(&r) == (uint32_t)type->api_key);
        ck_assert(wire_read_uvarint(&r) == (uint32_t)version);
        break;
    case MESSAGE_KEY:
        ck_assert_int_eq(wire_read_i16(&r), type->api_key);
        break;
    case MESSAGE_VALUE:
        ck_assert_int_eq(wire_read_i16(&r), version);
        break;
    case MESSAGE_DATA:
        ck_assert(front.size == 0 || wire_read_i16(&r) == version);
        break;
    case MESSAGE_HEADER:
        break;
    }
    ck_assert_int_eq(r.err, ERR_OK);
    ck_assert_uint_eq(wire_reader_left(&r), 0);
}

/* "VERSION VALUES", then "FRONT BODY" in hex. */
static void check_version(const struct message_type *type, int16_t version, const char *values, const char *hex)
{
    static uint8_t front[LINE_BYTES_MAX / 2], body[LINE_BYTES_MAX / 2];
    static char text[LINE_BYTES_MAX];
    struct arena arena;
    struct wire_reader r;
    struct bytes again;

    check_front(type, version, bytes_of(front, from_hex(&hex, front)));
    ck_assert_int_eq(*hex++, ' ');
    struct bytes bytes = bytes_of(body, from_hex(&hex, body));
    arena_init(&arena, ARENA_BYTES_MAX);
    void *message = arena_alloc(&arena, type->structure->size);
    wire_reader_init(&r, bytes);
    ck_assert_msg(message_read(type, &r, &arena, version, message) == ERR_OK, "%s v%d", type->name, version);
    ck_assert_uint_eq(wire_reader_left(&r), 0);
    message_print(type, version, message, text, sizeof(text));
    ck_assert_str_eq(text, values);
    ck_assert_int_eq(message_encode(type, version, message, &arena, &again), ERR_OK);
    ck_assert_msg(bytes_equal(again, bytes), "%s v%d", type->name, version);
    arena_deinit(&arena);
}

static void check_file(const struct message_type *type)
{
    static char line[LINE_BYTES_MAX], hex[LINE_BYTES_MAX];
    int16_t version = type->version_min;
    char path[4096];
    FILE *file = NULL;

    snprintf(path, sizeof(path), "%s/%s", folder, type->name);
    file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s has no golden file", type->name);
    while (fgets(line, sizeof(line), file) != NULL) {
        char *values = NULL;
        if (line[0] == '#' || line[0] == '\n')
            continue;
        ck_assert_int_eq(strtol(line, &values, 10), version);
        values[strcspn(values, "\n")] = '\0';
        ck_assert_ptr_nonnull(fgets(hex, sizeof(hex), file));
        check_version(type, version, values + 1, hex);
        version++;
    }
    fclose(file);
    ck_assert_msg(version == type->version_max + 1, "%s has golden bytes up to version %d", type->name, version - 1);
}

START_TEST(bytes_of_every_message_stay_what_they_are)
{
    for (uint32_t i = 0; i < MESSAGE_TYPE_COUNT; i++)
        check_file(message_types[i]);
}
END_TEST

START_TEST(every_file_is_a_messages)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry = NULL;
    uint32_t count = 0;

    ck_assert_msg(dir != NULL, "%s is not there", folder);
    while ((entry = readdir(dir)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(dir);
    ck_assert_uint_eq(count, MESSAGE_TYPE_COUNT);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("golden");
    TCase *tcase = tcase_create("golden");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    if (argc > 1)
        folder = argv[1];
    tcase_add_test(tcase, bytes_of_every_message_stay_what_they_are);
    tcase_add_test(tcase, every_file_is_a_messages);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
