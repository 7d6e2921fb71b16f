/*
 * Rule: the bytes of the APIs that every client needs stay what they are, in every version. tests/protocol/golden has
 * them beside the values they stand for; integration/schemas holds the same bytes against Apache Kafka's codecs. After
 * a change that is meant: build/.../tests/protocol/message_pipe golden tests/protocol/golden, and read the difference.
 */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "protocol/frame.h"
#include "protocol/gen/messages.h"

enum { LINE_BYTES_MAX = 128 * 1024, ARENA_BYTES_MAX = 1024 * 1024, GOLDEN_FILES = 24 };

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

static void check_header(const struct message_type *type, int16_t version, struct bytes bytes)
{
    struct wire_reader r;

    wire_reader_init(&r, bytes);
    if (type->kind == MESSAGE_REQUEST) {
        struct request_header header;
        ck_assert_int_eq(frame_read_request_header(&r, &header), ERR_OK);
        ck_assert_int_eq(header.request_api_key, type->api_key);
        ck_assert_int_eq(header.request_api_version, version);
        ck_assert_int_eq(header.correlation_id, 0x01020304);
        ck_assert(bytes_equal(header.client_id, BYTES_LITERAL("golden")));
    } else {
        int32_t correlation_id;
        ck_assert_int_eq(frame_read_response_header(&r, type->api_key, version, &correlation_id), ERR_OK);
        ck_assert_int_eq(correlation_id, 0x01020304);
    }
    ck_assert_uint_eq(wire_reader_left(&r), 0);
}

/* "VERSION VALUES", then "HEADER BODY" in hex. */
static void check_version(const struct message_type *type, int16_t version, const char *values, const char *hex)
{
    static uint8_t header[LINE_BYTES_MAX / 2], body[LINE_BYTES_MAX / 2];
    static char text[LINE_BYTES_MAX];
    struct arena arena;
    struct wire_reader r;
    struct bytes again;

    check_header(type, version, bytes_of(header, from_hex(&hex, header)));
    hex++;
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

static void check_file(const char *name)
{
    static char line[LINE_BYTES_MAX], hex[LINE_BYTES_MAX];
    const struct message_type *type = NULL;
    char path[4096];

    for (uint32_t i = 0; i < MESSAGE_TYPE_COUNT; i++)
        if (strcmp(message_types[i]->name, name) == 0)
            type = message_types[i];
    ck_assert_msg(type != NULL, "no message %s", name);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    int16_t version = type->version_min;
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
    ck_assert_int_eq(version, type->version_max + 1);
}

START_TEST(bytes_stay_what_they_are)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int count = 0;

    ck_assert_msg(dir != NULL, "%s is not there", folder);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        check_file(entry->d_name);
        count++;
    }
    closedir(dir);
    ck_assert_int_eq(count, GOLDEN_FILES);
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
    tcase_add_test(tcase, bytes_stay_what_they_are);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
