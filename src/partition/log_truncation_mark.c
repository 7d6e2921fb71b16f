#include "partition/log_truncation_mark.h"

#include <inttypes.h>

#include "partition/log_path.h"
#include "partition/text_file.h"

enum { MARK_BYTES_MAX = 4096 };
#define MAGIC "ottla-truncation"

enum err log_truncation_mark_write(struct fs *fs, const char *dir, const struct log_truncation_mark *mark)
{
    struct text text = {0};
    enum err err = ERR_OK;

    text_add(&text, MAGIC " 1\n%" PRId64 " %" PRId64 "\n", mark->offset, mark->until);
    text_seal(&text);
    err = text.failed ? ERR_NOMEM : text_file_replace(fs, dir, LOG_TRUNCATION_NAME, bytes_of(text.data, text.size));
    text_deinit(&text);
    return err;
}

static bool numbers_parse(struct bytes line, struct log_truncation_mark *mark)
{
    struct bytes word;

    return text_next_word(&line, &word) && text_parse_i64(word, &mark->offset) && text_next_word(&line, &word) &&
           text_parse_i64(word, &mark->until) && !text_next_word(&line, &word) && mark->offset >= 0;
}

static enum err parse(struct bytes file, struct log_truncation_mark *mark)
{
    struct bytes rest = file;
    struct bytes line;
    struct bytes word;
    int64_t version = 0;

    if (!text_unseal(&rest) || !text_next_line(&rest, &line) || !text_next_word(&line, &word) ||
        !bytes_equal(word, BYTES_LITERAL(MAGIC)) || !text_next_word(&line, &word) || !text_parse_i64(word, &version))
        return ERR_DAMAGED;
    if (version != 1)
        return ERR_UNSUPPORTED_VERSION;
    return text_next_line(&rest, &line) && numbers_parse(line, mark) ? ERR_OK : ERR_DAMAGED;
}

enum err log_truncation_mark_read(struct fs *fs, const char *dir, struct log_truncation_mark *mark)
{
    struct text text = {0};
    enum err err = text_file_read(fs, dir, LOG_TRUNCATION_NAME, MARK_BYTES_MAX, &text);

    if (err == ERR_OK)
        err = parse(bytes_of(text.data, text.size), mark);
    text_deinit(&text);
    if (err == ERR_DAMAGED || err == ERR_LIMIT) {
        *mark = (struct log_truncation_mark){.until = INT64_MAX};
        err = ERR_OK;
    }
    return err;
}

enum err log_truncation_mark_remove(struct fs *fs, const char *dir)
{
    struct log_path path;
    enum err err = log_path_in(&path, dir, LOG_TRUNCATION_NAME);

    if (err == ERR_OK)
        err = fs_unlink(fs, path.text);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}
