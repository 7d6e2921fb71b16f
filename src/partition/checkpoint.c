#include "partition/checkpoint.h"

#include <inttypes.h>

#include "base/mem.h"
#include "partition/log_path.h"

#define EPOCH_FILE    "leader-epoch-checkpoint"
#define TOPIC_ID_FILE "partition.metadata"

enum { SMALL_FILE_BYTES_MAX = 1024 * 1024 };

static struct bytes text_bytes(const struct text *text)
{
    return bytes_of(text->data, text->size);
}

static bool line_i64(struct bytes *rest, int64_t *value)
{
    struct bytes line;

    return text_next_line(rest, &line) && text_parse_i64(line, value);
}

/* Version and count. An entry takes four bytes at least, so the count is bounded by what is there. */
static enum err head_read(struct bytes *rest, uint32_t *count)
{
    int64_t version = 0;
    int64_t announced = 0;

    if (!line_i64(rest, &version) || version != 0 || !line_i64(rest, &announced))
        return ERR_DAMAGED;
    if (announced < 0 || (uint64_t)announced > rest->size / 4 + 1)
        return ERR_DAMAGED;
    *count = (uint32_t)announced;
    return ERR_OK;
}

/* The hand of checkpoint_write_offsets. */
static bool has_our_gap(struct bytes line)
{
    size_t at = line.size;

    while (at > 0 && line.data[at - 1] != ' ')
        at--;
    return at >= 2 && line.data[at - 2] == ' ';
}

static bool offset_parse(struct bytes line, struct checkpoint_offset *entry)
{
    struct bytes partition;
    struct bytes offset;
    struct bytes more;
    int64_t partition_value = 0;

    if (!text_next_word(&line, &entry->topic) || !text_next_word(&line, &partition) ||
        !text_next_word(&line, &offset) || text_next_word(&line, &more))
        return false;
    if (!text_parse_i64(partition, &partition_value) || partition_value < 0 || partition_value > INT32_MAX ||
        !text_parse_i64(offset, &entry->offset))
        return false;
    entry->partition = (int32_t)partition_value;
    return true;
}

static enum err offsets_parse(struct checkpoint_offsets *offsets)
{
    struct bytes rest = text_bytes(&offsets->text);
    struct bytes line;
    uint32_t count = 0;
    enum err err = ERR_OK;

    if (rest.size == 0)
        return ERR_OK;
    err = head_read(&rest, &count);
    if (err != ERR_OK)
        return err;
    offsets->entries = mem_calloc(count, sizeof(offsets->entries[0]));
    if (offsets->entries == NULL)
        return ERR_NOMEM;
    while (text_next_line(&rest, &line)) {
        if (offsets->count == count || !offset_parse(line, &offsets->entries[offsets->count]))
            return ERR_DAMAGED;
        offsets->is_ours = offsets->is_ours && has_our_gap(line);
        offsets->count++;
    }
    return offsets->count == count ? ERR_OK : ERR_DAMAGED;
}

enum err checkpoint_read_offsets(struct fs *fs, const char *dir, const char *name, struct checkpoint_offsets *offsets)
{
    enum err err = ERR_OK;

    *offsets = (struct checkpoint_offsets){.is_ours = true};
    err = text_file_read(fs, dir, name, TEXT_FILE_BYTES_MAX, &offsets->text);
    if (err == ERR_OK)
        err = offsets_parse(offsets);
    if (err != ERR_OK)
        checkpoint_offsets_deinit(offsets);
    return err;
}

void checkpoint_offsets_deinit(struct checkpoint_offsets *offsets)
{
    mem_free(offsets->entries);
    text_deinit(&offsets->text);
    *offsets = (struct checkpoint_offsets){0};
}

enum err checkpoint_write_offsets(struct fs *fs, const char *dir, const char *name,
                                  const struct checkpoint_offset *entries, uint32_t count)
{
    struct text text = {0};
    enum err err = ERR_OK;

    text_add(&text, "0\n%" PRIu32 "\n", count);
    for (uint32_t i = 0; i < count; i++)
        text_add(&text, "%.*s %" PRId32 "  %" PRId64 "\n", BYTES_PRINTF(entries[i].topic), entries[i].partition,
                 entries[i].offset);
    err = text.failed ? ERR_NOMEM : text_file_replace(fs, dir, name, text_bytes(&text));
    text_deinit(&text);
    return err;
}

static enum err epoch_line_read(struct bytes line, struct epoch_cache *epochs)
{
    struct bytes epoch;
    struct bytes start;
    struct bytes more;
    int64_t epoch_value = 0;
    int64_t start_value = 0;
    const struct epoch_entry *last = epoch_cache_last(epochs);

    if (!text_next_word(&line, &epoch) || !text_next_word(&line, &start) || text_next_word(&line, &more))
        return ERR_DAMAGED;
    if (!text_parse_i64(epoch, &epoch_value) || epoch_value < 0 || epoch_value > INT32_MAX ||
        !text_parse_i64(start, &start_value) || start_value < 0)
        return ERR_DAMAGED;
    if (last != NULL && (epoch_value <= last->epoch || start_value <= last->start_offset))
        return ERR_DAMAGED;
    return epoch_cache_assign(epochs, (int32_t)epoch_value, start_value);
}

enum err checkpoint_read_epochs(struct fs *fs, const char *dir, struct epoch_cache *epochs)
{
    struct text text;
    struct bytes rest;
    struct bytes line;
    uint32_t count = 0;
    uint32_t seen = 0;
    enum err err = text_file_read(fs, dir, EPOCH_FILE, SMALL_FILE_BYTES_MAX, &text);

    if (err != ERR_OK)
        return err;
    rest = text_bytes(&text);
    if (rest.size > 0)
        err = head_read(&rest, &count);
    while (err == ERR_OK && text_next_line(&rest, &line)) {
        err = epoch_line_read(line, epochs);
        seen++;
    }
    if (err == ERR_OK && seen != count)
        err = ERR_DAMAGED;
    text_deinit(&text);
    return err;
}

void checkpoint_format_epochs(const struct epoch_cache *epochs, struct text *text)
{
    text_add(text, "0\n%" PRIu32 "\n", epochs->count);
    for (uint32_t i = 0; i < epochs->count; i++)
        text_add(text, "%" PRId32 " %" PRId64 "\n", epochs->entries[i].epoch, epochs->entries[i].start_offset);
}

enum err checkpoint_remove_epochs(struct fs *fs, const char *dir)
{
    struct log_path path;
    enum err err = log_path_in(&path, dir, EPOCH_FILE);

    if (err == ERR_OK)
        err = fs_unlink(fs, path.text);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err checkpoint_write_epochs(struct fs *fs, const char *dir, const struct text *text, bool sync)
{
    if (text->failed)
        return ERR_NOMEM;
    return sync ? text_file_replace_unnamed(fs, dir, EPOCH_FILE, text_bytes(text))
                : text_file_replace_lazily(fs, dir, EPOCH_FILE, text_bytes(text));
}

enum err checkpoint_write_epochs_beside(struct fs *fs, const char *dir, const struct text *text)
{
    return text->failed ? ERR_NOMEM : text_file_write_beside(fs, dir, EPOCH_FILE, text_bytes(text));
}

enum err checkpoint_name_epochs(struct fs *fs, const char *dir)
{
    return text_file_take_place(fs, dir, EPOCH_FILE);
}

static bool value_after(struct bytes line, struct bytes key, struct bytes *value)
{
    if (line.size < key.size || memcmp(line.data, key.data, key.size) != 0)
        return false;
    *value = bytes_of(line.data + key.size, line.size - key.size);
    while (value->size > 0 && value->data[0] == ' ') {
        value->data++;
        value->size--;
    }
    return true;
}

static enum err topic_id_parse(struct bytes rest, struct uuid *topic_id)
{
    struct bytes line;
    struct bytes value;
    int64_t version = 0;

    if (!text_next_line(&rest, &line) || !value_after(line, BYTES_LITERAL("version:"), &value) ||
        !text_parse_i64(value, &version) || version < 0)
        return ERR_DAMAGED;
    if (!text_next_line(&rest, &line) || !value_after(line, BYTES_LITERAL("topic_id:"), &value) ||
        uuid_parse(value, topic_id) != ERR_OK || uuid_is_zero(*topic_id))
        return ERR_DAMAGED;
    return ERR_OK;
}

enum err checkpoint_read_topic_id(struct fs *fs, const char *dir, struct uuid *topic_id)
{
    struct text text;
    enum err err = text_file_read(fs, dir, TOPIC_ID_FILE, SMALL_FILE_BYTES_MAX, &text);

    if (err != ERR_OK)
        return err == ERR_LIMIT ? ERR_DAMAGED : err;
    err = topic_id_parse(text_bytes(&text), topic_id);
    text_deinit(&text);
    return err;
}

enum err checkpoint_write_topic_id(struct fs *fs, const char *dir, struct uuid topic_id)
{
    struct text text = {0};
    enum err err = ERR_OK;

    text_add(&text, "version: 0\ntopic_id: %s", uuid_format(topic_id).text);
    err = text.failed ? ERR_NOMEM : text_file_replace_lazily(fs, dir, TOPIC_ID_FILE, text_bytes(&text));
    text_deinit(&text);
    return err;
}

enum err checkpoint_sync_topic_id(struct fs *fs, const char *dir)
{
    struct log_path path;
    struct fs_file *file = NULL;
    enum err err = log_path_in(&path, dir, TOPIC_ID_FILE);

    if (err == ERR_OK)
        err = fs_open(fs, path.text, FS_READ | FS_WRITE, &file);
    if (err == ERR_OK && fs_sync(file) != ERR_OK)
        err = ERR_IO; /* whatever it was: a full disk at this point is no less final */
    fs_file_drop(file);
    return err;
}
