#include "partition/text_file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "partition/log_path.h"

enum { ROOM_BYTES_FIRST = 256, SEAL_DIGITS = 8 };

static bool room_make(struct text *text, size_t want)
{
    size_t room = text->room == 0 ? ROOM_BYTES_FIRST : text->room;
    char *grown = NULL;

    while (room < want)
        room *= 2;
    if (room == text->room)
        return true;
    grown = mem_realloc(text->data, room);
    if (grown == NULL)
        return false;
    text->data = grown;
    text->room = room;
    return true;
}

void text_add(struct text *text, const char *format, ...)
{
    va_list args;
    va_list again;
    int size = 0;

    if (text->failed)
        return;
    va_start(args, format);
    va_copy(again, args);
    size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size < 0 || !room_make(text, text->size + (size_t)size + 1)) {
        text->failed = true;
    } else {
        vsnprintf(text->data + text->size, (size_t)size + 1, format, again);
        text->size += (size_t)size;
    }
    va_end(again);
}

void text_deinit(struct text *text)
{
    mem_free(text->data);
    *text = (struct text){0};
}

void text_seal(struct text *text)
{
    if (!text->failed)
        text_add(text, "%08" PRIx32 "\n", crc32c(0, text->data, text->size));
}

bool text_unseal(struct bytes *file)
{
    size_t size = file->size;
    char seal[SEAL_DIGITS + 1];

    if (size > 0 && file->data[size - 1] == '\n')
        size--;
    if (size <= SEAL_DIGITS || file->data[size - SEAL_DIGITS - 1] != '\n')
        return false;
    size -= SEAL_DIGITS;
    (void)snprintf(seal, sizeof(seal), "%08" PRIx32, crc32c(0, file->data, size));
    if (memcmp(file->data + size, seal, SEAL_DIGITS) != 0)
        return false;
    file->size = size;
    return true;
}

enum err text_file_read(struct fs *fs, const char *dir, const char *name, size_t bytes_max, struct text *text)
{
    struct log_path path;
    struct fs_file *file = NULL;
    uint64_t size = 0;
    size_t got = 0;
    enum err err = log_path_in(&path, dir, name);

    *text = (struct text){0};
    if (err != ERR_OK)
        return err;
    err = fs_open(fs, path.text, FS_READ, &file);
    if (err != ERR_OK)
        return err;
    err = fs_size(file, &size);
    if (err != ERR_OK)
        goto out;
    if (size > bytes_max) {
        err = ERR_LIMIT;
        goto out;
    }
    if (!room_make(text, (size_t)size + 1)) {
        err = ERR_NOMEM;
        goto out;
    }
    err = fs_read(file, 0, text->data, (size_t)size, &got);
    if (err != ERR_OK)
        goto out;
    text->size = got;
    text->data[got] = '\0';
out:
    if (err != ERR_OK)
        text_deinit(text);
    fs_file_drop(file);
    return err;
}

static enum err write_whole(struct fs *fs, const char *path, struct bytes content, bool sync)
{
    struct fs_file *file = NULL;
    size_t written = 0;
    enum err err = fs_open(fs, path, FS_WRITE | FS_CREATE | FS_TRUNCATE, &file);

    if (err != ERR_OK)
        return err;
    err = fs_write(file, 0, &content, 1, &written);
    if (err == ERR_OK && written < content.size)
        err = ERR_NO_SPACE;
    if (err == ERR_OK && sync && fs_sync(file) != ERR_OK)
        err = ERR_IO; /* a full disk at this point is no less final */
    fs_file_drop(file);
    return err;
}

static enum err beside_of(struct log_path *beside, const char *dir, const char *name)
{
    int size = snprintf(beside->text, sizeof(beside->text), "%s/%s.tmp", dir, name);

    return size < 0 || (size_t)size >= sizeof(beside->text) ? ERR_LIMIT : ERR_OK;
}

static enum err write_beside(struct fs *fs, const char *dir, const char *name, struct bytes content, bool sync)
{
    struct log_path beside;
    enum err err = beside_of(&beside, dir, name);

    return err == ERR_OK ? write_whole(fs, beside.text, content, sync) : err;
}

enum err text_file_write_beside(struct fs *fs, const char *dir, const char *name, struct bytes content)
{
    return write_beside(fs, dir, name, content, false);
}

enum err text_file_take_place(struct fs *fs, const char *dir, const char *name)
{
    struct log_path path;
    struct log_path beside;
    enum err err = log_path_in(&path, dir, name);

    if (err == ERR_OK)
        err = beside_of(&beside, dir, name);
    return err == ERR_OK ? fs_rename(fs, beside.text, path.text) : err;
}

enum sync_depth { SYNC_NOTHING, SYNC_CONTENT, SYNC_NAME };

static enum err replace(struct fs *fs, const char *dir, const char *name, struct bytes content, enum sync_depth depth)
{
    enum err err = write_beside(fs, dir, name, content, depth >= SYNC_CONTENT);

    if (err == ERR_OK)
        err = text_file_take_place(fs, dir, name);
    if (err == ERR_OK && depth == SYNC_NAME && fs_sync_dir(fs, dir) != ERR_OK)
        err = ERR_IO;
    return err;
}

enum err text_file_replace(struct fs *fs, const char *dir, const char *name, struct bytes content)
{
    return replace(fs, dir, name, content, SYNC_NAME);
}

enum err text_file_replace_unnamed(struct fs *fs, const char *dir, const char *name, struct bytes content)
{
    return replace(fs, dir, name, content, SYNC_CONTENT);
}

enum err text_file_replace_lazily(struct fs *fs, const char *dir, const char *name, struct bytes content)
{
    return replace(fs, dir, name, content, SYNC_NOTHING);
}

bool text_next_line(struct bytes *rest, struct bytes *line)
{
    const uint8_t *newline = NULL;

    if (rest->size == 0)
        return false;
    newline = memchr(rest->data, '\n', rest->size);
    if (newline == NULL) {
        *line = *rest;
        rest->size = 0;
        return true;
    }
    *line = bytes_of(rest->data, (size_t)(newline - rest->data));
    rest->size -= line->size + 1;
    rest->data = newline + 1;
    if (line->size > 0 && line->data[line->size - 1] == '\r')
        line->size--;
    return true;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t';
}

bool text_next_word(struct bytes *rest, struct bytes *word)
{
    size_t size = 0;

    while (rest->size > 0 && is_space(rest->data[0])) {
        rest->data++;
        rest->size--;
    }
    while (size < rest->size && !is_space(rest->data[size]))
        size++;
    if (size == 0)
        return false;
    *word = bytes_of(rest->data, size);
    rest->data += size;
    rest->size -= size;
    return true;
}

bool text_parse_i64(struct bytes word, int64_t *value)
{
    bool negative = word.size > 0 && word.data[0] == '-';
    size_t at = negative ? 1 : 0;
    int64_t sum = 0;

    if (at == word.size)
        return false;
    for (; at < word.size; at++) {
        int64_t digit = word.data[at] - '0';

        if (digit < 0 || digit > 9)
            return false;
        /* Summed below zero, where INT64_MIN has room. */
        if (sum < (INT64_MIN + digit) / 10)
            return false;
        sum = sum * 10 - digit;
    }
    if (!negative && sum == INT64_MIN)
        return false;
    *value = negative ? sum : -sum;
    return true;
}
