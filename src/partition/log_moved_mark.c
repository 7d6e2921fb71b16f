#include "partition/log_moved_mark.h"

#include <inttypes.h>

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
    text_seal(&text);
    err = text.failed ? ERR_NOMEM : text_file_replace(fs, dir, LOG_MOVED_NAME, bytes_of(text.data, text.size));
    text_deinit(&text);
    return err;
}

static bool number_take(struct bytes *line, int64_t *number)
{
    struct bytes word;

    return text_next_word(line, &word) && text_parse_i64(word, number);
}

static bool numbers_parse(struct bytes line, struct log_moved_mark *mark)
{
    struct bytes word;

    return number_take(&line, &mark->recovery_point) && number_take(&line, &mark->start_offset) &&
           number_take(&line, &mark->cleaned_offset) && !text_next_word(&line, &word) && mark->start_offset >= 0 &&
           mark->recovery_point >= mark->start_offset && mark->cleaned_offset >= -1;
}

static enum err parse(struct bytes file, struct log_moved_mark *mark)
{
    struct bytes rest = file;
    struct bytes line;
    struct bytes word;
    int64_t version = 0;

    if (!text_unseal(&rest) || !text_next_line(&rest, &line) || !text_next_word(&line, &word) ||
        !bytes_equal(word, BYTES_LITERAL(MAGIC)) || !number_take(&line, &version))
        return ERR_NOT_FOUND;
    if (version != 1)
        return ERR_UNSUPPORTED_VERSION;
    return text_next_line(&rest, &line) && numbers_parse(line, mark) && rest.size == 0 ? ERR_OK : ERR_NOT_FOUND;
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
