#include "partition/log_moved_mark.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/crc32c.h"
#include "partition/log_path.h"
#include "partition/text_file.h"

enum { MARK_BYTES_MAX = 4096 };
#define MAGIC "ottla-moved"

enum err log_moved_mark_write(struct fs *fs, const char *dir, const struct log_moved_mark *mark)
{
    struct text text = {0};
    enum err err = ERR_OK;

    text_add(&text, MAGIC " 1\n%" PRId64 " %" PRId64 " %" PRId64 "\n", mark->recovery_point, mark->start_offset,
             mark->cleaned_offset);
    if (!text.failed)
        text_add(&text, "%08" PRIx32 "\n", crc32c(0, text.data, text.size));
    err = text.failed ? ERR_NOMEM : text_file_replace(fs, dir, LOG_MOVED_NAME, bytes_of(text.data, text.size));
    text_deinit(&text);
    return err;
}

static bool number_take(struct bytes *line, int64_t *number)
{
    struct bytes word;

    return text_next_word(line, &word) && text_parse_i64(word, number);
}

static enum err parse(struct bytes file, struct log_moved_mark *mark)
{
    struct bytes rest = file;
    struct bytes first;
    struct bytes second;
    struct bytes third;
    struct bytes word;
    int64_t version = 0;
    char sum[16];

    if (!text_next_line(&rest, &first) || !text_next_word(&first, &word) || !bytes_equal(word, BYTES_LITERAL(MAGIC)) ||
        !number_take(&first, &version))
        return ERR_NOT_FOUND;
    if (version != 1)
        return ERR_UNSUPPORTED_VERSION;
    if (!text_next_line(&rest, &second))
        return ERR_NOT_FOUND;
    (void)snprintf(sum, sizeof(sum), "%08" PRIx32, crc32c(0, file.data, file.size - rest.size));
    if (!text_next_line(&rest, &third) || !bytes_equal(third, bytes_of_text(sum)) ||
        !number_take(&second, &mark->recovery_point) || !number_take(&second, &mark->start_offset) ||
        !number_take(&second, &mark->cleaned_offset))
        return ERR_NOT_FOUND;
    return ERR_OK;
}

enum err log_moved_mark_read(struct fs *fs, const char *dir, struct log_moved_mark *mark)
{
    struct text text = {0};
    enum err err = text_file_read(fs, dir, LOG_MOVED_NAME, MARK_BYTES_MAX, &text);

    if (err == ERR_OK)
        err = parse(bytes_of(text.data, text.size), mark);
    text_deinit(&text);
    return err == ERR_LIMIT ? ERR_NOT_FOUND : err;
}

enum err log_moved_mark_remove(struct fs *fs, const char *dir)
{
    struct log_path path;
    enum err err = log_path_in(&path, dir, LOG_MOVED_NAME);

    if (err == ERR_OK)
        err = fs_unlink(fs, path.text);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}
