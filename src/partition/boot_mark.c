#include "partition/boot_mark.h"

#include "base/big_endian.h"
#include "base/crc32c.h"
#include "partition/log_path.h"
#include "partition/text_file.h"

#define MAGIC UINT64_C(0x4f74746c61426f6f) /* "OttlaBoo" */

enum { CRC_AT = 60, BOOT_ID_AT = 16 };

void boot_mark_format(const struct boot_mark *mark, uint8_t to[BOOT_MARK_BYTES])
{
    memset(to, 0, BOOT_MARK_BYTES);
    big_endian_store_u64(to, MAGIC);
    big_endian_store_u16(to + 8, BOOT_MARK_VERSION);
    big_endian_store_u16(to + 10, (uint16_t)mark->state);
    memcpy(to + BOOT_ID_AT, mark->boot_id.bytes, UUID_BYTES);
    big_endian_store_u32(to + CRC_AT, crc32c(0, to, CRC_AT));
}

enum err boot_mark_parse(struct bytes from, struct boot_mark *mark, uint16_t *version)
{
    uint16_t state = 0;

    if (from.size < BOOT_MARK_BYTES || big_endian_load_u64(from.data) != MAGIC ||
        big_endian_load_u32(from.data + CRC_AT) != crc32c(0, from.data, CRC_AT))
        return ERR_DAMAGED;
    *version = big_endian_load_u16(from.data + 8);
    if (*version != BOOT_MARK_VERSION)
        return ERR_UNSUPPORTED_VERSION;
    state = big_endian_load_u16(from.data + 10);
    if (state < BOOT_MARK_RUNNING || state > BOOT_MARK_FAILED)
        return ERR_DAMAGED;
    mark->state = (enum boot_mark_state)state;
    memcpy(mark->boot_id.bytes, from.data + BOOT_ID_AT, UUID_BYTES);
    return ERR_OK;
}

static enum err read_cached(struct fs *fs, const char *path, uint8_t to[BOOT_MARK_BYTES])
{
    struct fs_file *file = NULL;
    size_t got = 0;
    enum err err = fs_open(fs, path, FS_READ, &file);

    /* Looked at before anything reads it: a read brings it in. */
    if (err == ERR_OK && !fs_is_cached(file, 0, BOOT_MARK_BYTES))
        err = ERR_WOULD_BLOCK;
    if (err == ERR_OK)
        err = fs_read_cached(file, 0, to, BOOT_MARK_BYTES, &got);
    fs_file_drop(file);
    return err;
}

enum err boot_mark_read(struct fs *fs, const char *log_dir, struct boot_mark *mark, bool *resident, uint16_t *version)
{
    uint8_t bytes[BOOT_MARK_BYTES];
    struct log_path path;
    struct text text;
    enum err err = log_path_in(&path, log_dir, BOOT_MARK_FILE);

    *resident = false;
    *version = 0;
    if (err != ERR_OK)
        return err;
    *resident = read_cached(fs, path.text, bytes) == ERR_OK;
    err = text_file_read(fs, log_dir, BOOT_MARK_FILE, BOOT_MARK_BYTES, &text);
    if (err != ERR_OK)
        return err == ERR_LIMIT ? ERR_DAMAGED : err;
    err = boot_mark_parse(bytes_of(text.data, text.size), mark, version);
    text_deinit(&text);
    return err;
}

enum err boot_mark_write(struct fs *fs, const char *log_dir, const struct boot_mark *mark)
{
    uint8_t bytes[BOOT_MARK_BYTES];

    boot_mark_format(mark, bytes);
    if (mark->state == BOOT_MARK_FAILED)
        return text_file_replace_lazily(fs, log_dir, BOOT_MARK_FILE, bytes_of(bytes, sizeof(bytes)));
    return text_file_replace(fs, log_dir, BOOT_MARK_FILE, bytes_of(bytes, sizeof(bytes)));
}

enum err boot_mark_doubt(struct fs *fs, const char *log_dir)
{
    /* No boot has that id. The state stays, so that a clean stop by another program is still told from ours. */
    struct boot_mark mark = {BOOT_MARK_RUNNING, {{0}}};
    struct log_path path;
    enum err err = boot_mark_write(fs, log_dir, &mark);

    if (err != ERR_NO_SPACE)
        return err;
    err = log_path_in(&path, log_dir, BOOT_MARK_FILE);
    if (err == ERR_OK)
        err = fs_unlink(fs, path.text);
    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    return err == ERR_OK ? fs_sync_dir(fs, log_dir) : err;
}

void boot_mark_touch(struct fs *fs, const char *log_dir)
{
    uint8_t bytes[BOOT_MARK_BYTES];
    struct log_path path;

    if (log_path_in(&path, log_dir, BOOT_MARK_FILE) == ERR_OK && read_cached(fs, path.text, bytes) != ERR_OK)
        return; /* it is not there any more: a start after a kill takes longer, that is all */
}
