#include "cli/group_reset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/fs.h"
#include "base/mem.h"

enum { FILE_BYTES_MAX = 64 * 1024 * 1024, ROWS_FIRST = 16 };

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
    plan->rows[plan->count++] =
        (struct reset_change){.topic = topic, .partition = partition, .before = -1, .after = after};
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
    *number = strtoll(text, &end, 10);
    return *end == '\0';
}

/* topic,partition,offset, or group,topic,partition,offset as Apache Kafka's tool writes it for several groups. */
static bool parse_line(struct bytes line, struct bytes group, struct bytes *topic, int64_t *partition, int64_t *offset,
                       bool *other)
{
    struct bytes fields[4];
    uint32_t count = 0;
    size_t from = 0;

    for (size_t i = 0; i <= line.size; i++)
        if (i == line.size || line.data[i] == ',') {
            if (count == 4)
                return false;
            fields[count++] = bytes_trim(bytes_of(line.data + from, i - from));
            from = i + 1;
        }
    for (uint32_t i = 0; i < count; i++) /* "quoted" */
        if (fields[i].size >= 2 && fields[i].data[0] == '"' && fields[i].data[fields[i].size - 1] == '"')
            fields[i] = bytes_of(fields[i].data + 1, fields[i].size - 2);
    *other = count == 4 && !bytes_equal(fields[0], group);
    if (count < 3)
        return false;
    *topic = fields[count - 3];
    return topic->size > 0 && parse_field(fields[count - 2], partition) && *partition >= 0 && *partition <= INT32_MAX &&
           parse_field(fields[count - 1], offset) && *offset >= -1;
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
        struct bytes topic = {0};
        int64_t partition = 0;
        int64_t offset = 0;
        bool other = false;

        text = end == NULL ? (struct bytes){0} : bytes_of(end + 1, text.size - line.size - 1);
        line = bytes_trim(line);
        number++;
        if (line.size == 0 || line.data[0] == '#')
            continue;
        if (!parse_line(line, group, &topic, &partition, &offset, &other)) {
            (void)snprintf(client->message, sizeof(client->message), "%.200s:%u: that is not topic,partition,offset",
                           options->text, number);
            err = ERR_USAGE;
        } else if (!other) {
            err = group_reset_add(client, plan, topic, (int32_t)partition, offset);
        }
    }
    if (err == ERR_OK && plan->count == 0)
        err = group_reset_usage(client, "the file names no partition of this group");
    return err;
}

/* ---- the file that undoes it ---- */

void group_reset_undo_name(const struct group_options *options, struct kafka_client *client, struct bytes group,
                           char name[GROUP_RESET_NAME_CHARS_MAX])
{
    char safe[200] = "";
    time_t now = (time_t)(clock_wall_ms(client->clock) / 1000);
    struct tm parts;
    char at[32] = "";

    if (options->undo != NULL) {
        (void)snprintf(name, GROUP_RESET_NAME_CHARS_MAX, "%s", options->undo);
        return;
    }
    for (size_t i = 0; i < group.size && i < sizeof(safe) - 1; i++)
        safe[i] =
            group.data[i] == '/' || group.data[i] < ' ' || (i == 0 && group.data[i] == '.') ? '_' : (char)group.data[i];
    if (gmtime_r(&now, &parts) == NULL || strftime(at, sizeof(at), "%Y%m%dT%H%M%SZ", &parts) == 0)
        at[0] = '\0';
    (void)snprintf(name, GROUP_RESET_NAME_CHARS_MAX, "%s-offsets-%s.csv", safe, at);
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
        struct bytes line = arena_printf(&client->arena, "%.*s,%d,%" PRId64 "\n", BYTES_PRINTF(plan->rows[i].topic),
                                         plan->rows[i].partition, plan->rows[i].before);
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
