#include "partition/bare_dir.h"

#include <string.h>

#include "partition/checkpoint.h"
#include "partition/log_path.h"
#include "partition/segment.h"

struct bytes_search {
    struct fs *fs;
    const char *dir;
    bool found;
};

static enum err look_for_bytes(void *context, const char *name, bool is_directory)
{
    struct bytes_search *search = context;
    const char *suffix = NULL;
    int64_t offset = 0;
    struct log_path path;
    struct fs_info info = {0};

    if (is_directory || !log_path_parse_segment(name, &offset, &suffix) || strcmp(suffix, SEGMENT_LOG) != 0)
        return ERR_OK;
    search->found = search->found || log_path_in(&path, search->dir, name) != ERR_OK ||
                    fs_stat(search->fs, path.text, &info) != ERR_OK || info.size > 0;
    return ERR_OK;
}

bool bare_dir_is(struct fs *fs, const char *dir)
{
    struct bytes_search search = {fs, dir, false};
    struct uuid id;
    enum err err = checkpoint_read_topic_id(fs, dir, &id);

    return (err == ERR_NOT_FOUND || err == ERR_DAMAGED) && fs_list(fs, dir, look_for_bytes, &search) == ERR_OK &&
           !search.found;
}

enum err bare_dir_rename(struct fs *fs, const char *dir, const char *to)
{
    struct fs_info info;
    enum err err = fs_stat(fs, dir, &info);

    if (err == ERR_OK && !bare_dir_is(fs, dir))
        err = ERR_BUSY;
    if (err == ERR_OK)
        err = fs_rename(fs, dir, to);
    if (err != ERR_OK || bare_dir_is(fs, to))
        return err;
    err = fs_rename(fs, to, dir); /* it was written to in between */
    return err == ERR_OK ? ERR_BUSY : err;
}
