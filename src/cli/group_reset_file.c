#include "cli/group_reset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/fs.h"
#include "base/mem.h"

enum { FILE_BYTES_MAX = 64 * 1024 * 1024, ROWS_FIRST = 16, FIELDS_MAX = 5, ESCAPED_CHARS = 4 };

enum err group_reset_usage(struct kafka_client *client, const char *message)
{
    (void)snprintf(client->message, sizeof(client->message), "%s", message);
    return ERR_USAGE;
}

enum err group_reset_add(struct kafka_client *client, struct reset_plan *plan, struct bytes topic, int32_t partition,
                         int64_t after)
{
    if (mem_grow(&plan->rows, &plan->room, plan->count + 1, ROWS_FIRST, sizeof(*plan->rows)) != ERR_OK)
        return kafka_client_refused(client, ERR_NOMEM, "reset");
    plan->rows[plan->count++] = (struct reset_change){.topic = topic,
                                                      .partition = partition,
                                                      .before = -1,
                                                      .after = after,
                                                      .before_epoch = -1,
                                                      .after_epoch = -1,
                                                      .before_metadata = BYTES_LITERAL(""),
                                                      .after_metadata = BYTES_LITERAL("")};
    return ERR_OK;
}

static enum err read_text(struct kafka_client *client, const char *path, struct bytes *text)
{
    struct fs fs;
    struct fs_file *file = NULL;
    uint64_t size = 0;
    size_t got = 0;
    uint8_t *data = NULL;
    enum err err = ERR_OK;

    fs_init_real(&fs);
    err = fs_open(&fs, path, FS_READ, &file);
    if (err == ERR_OK)
        err = fs_size(file, &size);
    if (err == ERR_OK && size > FILE_BYTES_MAX)
        err = ERR_LIMIT;
    if (err == ERR_OK) {
        data = arena_alloc(&client->arena, (size_t)size + 1);
        err = data == NULL ? ERR_NOMEM : fs_read(file, 0, data, (size_t)size, &got);
    }
    fs_file_drop(file);
    *text = bytes_of(data, got);
    return err == ERR_OK ? ERR_OK : kafka_client_refused(client, err, path);
}

static bool parse_field(struct bytes field, int64_t *number)
{
    char text[32] = "";
    char *end = NULL;

    field = bytes_trim(field);
    if (field.size == 0 || field.size >= sizeof(text))
        return false;
    memcpy(text, field.data, field.size);
    errno = 0;
    *number = strtoll(text, &end, 10);
    return errno == 0 && end == text + field.size; /* a NUL may stand in it */
}

/* ---- bytes in a quoted field ---- */

static bool is_plain(uint8_t byte)
{
    return byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\';
}

/* Null without memory. */
static struct bytes escape(struct arena *arena, struct bytes from)
{
    uint8_t *to = arena_alloc(arena, from.size * ESCAPED_CHARS + 1);
    size_t size = 0;

    if (to == NULL)
        return (struct bytes){0};
    for (size_t i = 0; i < from.size; i++)
        if (is_plain(from.data[i]))
            to[size++] = from.data[i];
        else
            size += (size_t)snprintf((char *)to + size, ESCAPED_CHARS + 1, "\\x%02x", from.data[i]);
    return bytes_of(to, size);
}

/* False: that is no escaped text, or there is no memory. */
static bool unescape(struct arena *arena, struct bytes from, struct bytes *to)
{
    uint8_t *bytes = arena_alloc(arena, from.size + 1);
    size_t size = 0;

    if (bytes == NULL)
        return false;
    for (size_t i = 0; i < from.size; i++) {
        bool escaped = from.data[i] == '\\';

        if (escaped && (from.size - i < ESCAPED_CHARS || from.data[i + 1] != 'x' ||
                        byte_hex_digit(from.data[i + 2]) < 0 || byte_hex_digit(from.data[i + 3]) < 0))
            return false;
        bytes[size++] = escaped ? (uint8_t)(byte_hex_digit(from.data[i + 2]) * 16 + byte_hex_digit(from.data[i + 3]))
                                : from.data[i];
        i += escaped ? ESCAPED_CHARS - 1 : 0;
    }
    *to = bytes_of(bytes, size);
    return true;
}

/* ---- lines ---- */

/* Fields between commas, which may stand in a field that is "quoted". False: there are too many. */
static bool split(struct bytes line, struct bytes fields[FIELDS_MAX], uint32_t *count)
{
    size_t from = 0;
    bool quoted = false;

    *count = 0;
    for (size_t i = 0; i <= line.size; i++) {
        if (i < line.size && line.data[i] == '"')
            quoted = !quoted;
        if (i < line.size && (quoted || line.data[i] != ','))
            continue;
        if (*count == FIELDS_MAX)
            return false;
        fields[(*count)++] = bytes_trim(bytes_of(line.data + from, i - from));
        from = i + 1;
    }
    for (uint32_t i = 0; i < *count; i++)
        if (fields[i].size >= 2 && fields[i].data[0] == '"' && fields[i].data[fields[i].size - 1] == '"')
            fields[i] = bytes_of(fields[i].data + 1, fields[i].size - 2);
    return !quoted;
}

static bool parse_number(struct bytes field, int64_t min, int64_t max, int64_t *number)
{
    return parse_field(field, number) && *number >= min && *number <= max;
}

/* *other: of another group. */
static bool parse_line(struct arena *arena, struct bytes line, struct bytes group, struct reset_change *row,
                       bool *other)
{
    struct bytes fields[FIELDS_MAX];
    const struct bytes *first = fields;
    uint32_t count = 0;
    int64_t partition = 0;
    int64_t epoch = -1;

    if (!split(line, fields, &count) || count < 3)
        return false;
    *other = count == 4 && !bytes_equal(fields[0], group);
    if (count == 4)
        first++;
    row->topic = first[0];
    if (row->topic.size == 0 || !parse_number(first[1], 0, INT32_MAX, &partition) ||
        !parse_number(first[2], -1, INT64_MAX, &row->after))
        return false;
    row->exact = count == FIELDS_MAX;
    row->after_metadata = BYTES_LITERAL("");
    if (row->exact &&
        (!parse_number(first[3], -1, INT32_MAX, &epoch) || !unescape(arena, first[4], &row->after_metadata)))
        return false;
    row->partition = (int32_t)partition;
    row->after_epoch = (int32_t)epoch;
    return true;
}

enum err group_reset_read(const struct group_options *options, struct kafka_client *client, struct bytes group,
                          struct reset_plan *plan)
{
    struct bytes text = {0};
    uint32_t number = 0;
    enum err err = read_text(client, options->text, &text);

    while (err == ERR_OK && text.size > 0) {
        const uint8_t *end = memchr(text.data, '\n', text.size);
        struct bytes line = bytes_of(text.data, end == NULL ? text.size : (size_t)(end - text.data));
        struct reset_change row = {0};
        bool other = false;

        text = end == NULL ? (struct bytes){0} : bytes_of(end + 1, text.size - line.size - 1);
        line = bytes_trim(line);
        number++;
        if (line.size == 0 || line.data[0] == '#')
            continue;
        if (!parse_line(&client->arena, line, group, &row, &other)) {
            (void)snprintf(
                client->message, sizeof(client->message),
                "%.200s:%u: that is not topic,partition,offset, nor that and a leader epoch and \"metadata\"",
                options->text, number);
            err = ERR_USAGE;
        } else if (!other) {
            err = group_reset_add(client, plan, row.topic, row.partition, row.after);
            if (err == ERR_OK) {
                struct reset_change *added = &plan->rows[plan->count - 1];

                added->exact = row.exact;
                added->after_epoch = row.after_epoch;
                added->after_metadata = row.after_metadata;
            }
        }
    }
    if (err == ERR_OK && plan->count == 0)
        err = group_reset_usage(client, "the file names no partition of this group");
    return err;
}

/* ---- the file that undoes it ---- */

void group_reset_undo_name(struct kafka_client *client, struct bytes group, char name[GROUP_RESET_NAME_CHARS_MAX])
{
    char safe[200] = "";
    time_t now = (time_t)(clock_wall_ms(client->clock) / 1000);
    struct tm parts;
    char at[32] = "";

    for (size_t i = 0; i < group.size && i < sizeof(safe) - 1; i++)
        safe[i] =
            group.data[i] == '/' || group.data[i] < ' ' || (i == 0 && group.data[i] == '.') ? '_' : (char)group.data[i];
    if (gmtime_r(&now, &parts) == NULL || strftime(at, sizeof(at), "%Y%m%dT%H%M%SZ", &parts) == 0)
        at[0] = '\0';
    (void)snprintf(name, GROUP_RESET_NAME_CHARS_MAX, "%s-offsets-%s.csv", safe, at);
}

/* Null without memory. */
static struct bytes undo_line(struct arena *arena, const struct reset_change *row)
{
    struct bytes metadata = {0};

    if (row->before < 0 || (row->before_epoch < 0 && row->before_metadata.size == 0 && row->before >= row->start &&
                            row->before <= row->end))
        return arena_printf(arena, "%.*s,%d,%" PRId64 "\n", BYTES_PRINTF(row->topic), row->partition, row->before);
    metadata = escape(arena, row->before_metadata);
    return metadata.data == NULL ? metadata
                                 : arena_printf(arena, "%.*s,%d,%" PRId64 ",%d,\"%.*s\"\n", BYTES_PRINTF(row->topic),
                                                row->partition, row->before, row->before_epoch, BYTES_PRINTF(metadata));
}

enum err group_reset_write_undo(struct kafka_client *client, const struct reset_plan *plan, const char *name)
{
    struct fs fs;
    struct fs_file *file = NULL;
    uint64_t position = 0;
    enum err err = ERR_OK;

    fs_init_real(&fs);
    err = fs_open(&fs, name, FS_WRITE | FS_CREATE | FS_EXCLUSIVE, &file);
    for (uint32_t i = 0; i < plan->count && err == ERR_OK; i++) {
        struct bytes line = undo_line(&client->arena, &plan->rows[i]);
        size_t written = 0;

        err = line.data == NULL ? ERR_NOMEM : fs_write(file, position, &line, 1, &written);
        if (err == ERR_OK && written < line.size)
            err = ERR_NO_SPACE;
        position += written;
    }
    if (err == ERR_OK)
        err = fs_sync(file);
    fs_file_drop(file);
    if (err == ERR_EXISTS) {
        (void)snprintf(client->message, sizeof(client->message),
                       "%.300s is there already; nothing was changed. --undo FILE names another", name);
        return err;
    }
    return err == ERR_OK ? ERR_OK : kafka_client_refused(client, err, name);
}
