/* The part of a move that touches files: each call is one slice, in a job. */
#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/bare_dir.h"
#include "partition/checkpoint.h"
#include "partition/log_moving.h"
#include "partition/log_path.h"
#include "partition/partition_limits.h"

static struct fs *fs_of(const struct log_moving *moving)
{
    return moving->log->env->fs;
}

static enum err at_target(struct log_moving *moving, enum err err)
{
    moving->at_target = err != ERR_OK;
    return err;
}

static enum err sync_file(struct fs_file *file)
{
    return fs_sync(file) == ERR_OK ? ERR_OK : ERR_IO;
}

static enum err sync_dir(struct log_moving *moving, const char *path)
{
    return fs_sync_dir(fs_of(moving), path) == ERR_OK ? ERR_OK : ERR_IO;
}

/* --- what is copied already --- */

struct move_copied *move_copied_of(struct log_moving *moving, int64_t base_offset)
{
    uint32_t slot = moving->copied_count;

    while (slot > 0 && moving->copied[slot - 1].base_offset >= base_offset)
        slot--;
    if (slot < moving->copied_count && moving->copied[slot].base_offset == base_offset)
        return &moving->copied[slot];
    if (mem_grow(&moving->copied, &moving->copied_room, moving->copied_count + 1, 8, sizeof(moving->copied[0])) !=
        ERR_OK)
        return NULL;
    memmove(&moving->copied[slot + 1], &moving->copied[slot],
            (moving->copied_count - slot) * sizeof(moving->copied[0]));
    moving->copied_count++;
    moving->copied[slot] = (struct move_copied){.base_offset = base_offset};
    return &moving->copied[slot];
}

/* --- whole files --- */

/* What is left of one file of another, from position on. */
static enum err bytes_copy(struct log_moving *moving, struct fs_file *in, struct fs_file *out, uint64_t position,
                           uint64_t end)
{
    enum err err = ERR_OK;

    while (err == ERR_OK && position < end) {
        size_t wanted = end - position < MOVE_SLICE_BYTES ? (size_t)(end - position) : (size_t)MOVE_SLICE_BYTES;
        bool was_cached = fs_is_cached(in, position, wanted);
        size_t got = 0;
        size_t written = 0;
        struct bytes piece;

        err = fs_read(in, position, moving->buffer, wanted, &got);
        if (err == ERR_OK && got < wanted)
            err = ERR_DAMAGED; /* the file is shorter than what was written to it */
        if (err != ERR_OK)
            return err;
        piece = bytes_of(moving->buffer, got);
        err = at_target(moving, fs_write(out, position, &piece, 1, &written));
        if (err == ERR_OK && written < got)
            err = at_target(moving, ERR_NO_SPACE);
        if (!was_cached)
            fs_forget_cached(in, position, got);
        dir_space_take(moving->op->to->space, got);
        moving->slice_bytes += got;
        moving->op->bytes_copied += got;
        position += got;
    }
    return err;
}

static enum err open_both(struct log_moving *moving, const char *name, bool anew, struct fs_file **in,
                          struct fs_file **out)
{
    struct log_path path;
    enum err err = log_path_in(&path, moving->from_dir, name);

    *in = *out = NULL;
    if (err == ERR_OK)
        err = fs_open(fs_of(moving), path.text, FS_READ, in);
    if (err == ERR_OK)
        err = log_path_in(&path, moving->future_dir, name);
    if (err == ERR_OK)
        err = at_target(
            moving, fs_open(fs_of(moving), path.text, FS_READ | FS_WRITE | FS_CREATE | (anew ? FS_TRUNCATE : 0), out));
    if (err != ERR_OK) {
        fs_file_drop(*in);
        *in = NULL;
    }
    return err;
}

static enum err mtime_copy(struct log_moving *moving, const char *name, struct fs_file *out)
{
    struct log_path path;
    struct fs_info info;
    enum err err = log_path_in(&path, moving->from_dir, name);

    if (err == ERR_OK)
        err = fs_stat(fs_of(moving), path.text, &info);
    return err == ERR_OK ? at_target(moving, fs_set_mtime(out, info.mtime_ms)) : err;
}

/* Synced. One that is not there is left out. */
static enum err file_copy(struct log_moving *moving, const char *name)
{
    struct fs_file *in = NULL;
    struct fs_file *out = NULL;
    uint64_t size = 0;
    enum err err = open_both(moving, name, true, &in, &out);

    if (err == ERR_NOT_FOUND && !moving->at_target)
        return ERR_OK;
    if (err == ERR_OK)
        err = fs_size(in, &size);
    if (err == ERR_OK)
        err = bytes_copy(moving, in, out, 0, size);
    if (err == ERR_OK)
        err = mtime_copy(moving, name, out);
    if (err == ERR_OK)
        err = at_target(moving, sync_file(out));
    fs_file_drop(in);
    fs_file_drop(out);
    return err;
}

/* --- segments --- */

static void name_of(int64_t base_offset, const char *suffix, char name[LOG_SEGMENT_NAME_BYTES_MAX])
{
    struct log_path path;
    const char *last = NULL;

    log_path_segment(&path, ".", base_offset, suffix);
    last = strrchr(path.text, '/') + 1;
    assert(strlen(last) < LOG_SEGMENT_NAME_BYTES_MAX);
    memcpy(name, last, strlen(last) + 1);
}

static void files_close(struct log_moving *moving)
{
    fs_file_drop(moving->in);
    fs_file_drop(moving->out);
    moving->in = moving->out = NULL;
    moving->unsynced = moving->unpushed = 0;
}

static enum err out_sync(struct log_moving *moving)
{
    enum err err = moving->out == NULL || moving->unsynced == 0 ? ERR_OK : at_target(moving, sync_file(moving->out));

    moving->unsynced = moving->unpushed = 0;
    return err;
}

/* The files of that segment; of the one before all that was written is synced first. */
static enum err segment_open(struct log_moving *moving, const struct move_copied *copied)
{
    char name[LOG_SEGMENT_NAME_BYTES_MAX];
    enum err err = ERR_OK;

    if (moving->in != NULL && moving->open_base == copied->base_offset)
        return ERR_OK;
    err = out_sync(moving);
    files_close(moving);
    if (err != ERR_OK)
        return err;
    name_of(copied->base_offset, SEGMENT_LOG, name);
    moving->open_base = copied->base_offset;
    return open_both(moving, name, copied->size == 0, &moving->in, &moving->out);
}

/* Its .log is there; what goes with it, and will not change any more. */
static enum err segment_seal(struct log_moving *moving, struct move_copied *copied)
{
    static const char *const suffixes[] = {SEGMENT_INDEX, SEGMENT_TIME_INDEX, SEGMENT_TXN_INDEX, SEGMENT_SNAPSHOT};
    char name[LOG_SEGMENT_NAME_BYTES_MAX];
    enum err err = out_sync(moving);

    name_of(copied->base_offset, SEGMENT_LOG, name);
    if (err == ERR_OK)
        err = mtime_copy(moving, name, moving->out);
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]) && err == ERR_OK; i++) {
        name_of(copied->base_offset, suffixes[i], name);
        err = file_copy(moving, name);
    }
    copied->sealed = err == ERR_OK;
    return err;
}

static enum err push(struct log_moving *moving, uint64_t end)
{
    enum err err = ERR_OK;

    if (moving->unsynced >= MOVE_SYNC_BYTES)
        return out_sync(moving);
    if (moving->unpushed >= CLEAN_PUSH_BYTES) {
        err = at_target(moving, fs_write_behind(moving->out, end - moving->unpushed, moving->unpushed));
        moving->unpushed = 0;
    }
    return err;
}

/* More of one segment, to the end that the source says at most. */
static enum err segment_copy(struct log_moving *moving, const struct move_source *source, uint64_t bytes_max)
{
    struct move_copied *copied = move_copied_of(moving, source->base_offset);
    uint64_t end = source->size;
    enum err err = copied == NULL ? ERR_NOMEM : ERR_OK;

    moving->source_is_done = false;
    if (err != ERR_OK)
        return err;
    if (copied->size > end)
        return at_target(moving, ERR_DAMAGED);
    err = segment_open(moving, copied);
    if (err != ERR_OK)
        return err;
    if (end - copied->size > bytes_max)
        end = copied->size + bytes_max;
    err = bytes_copy(moving, moving->in, moving->out, copied->size, end);
    if (err != ERR_OK)
        return err;
    moving->copied_bytes = end - copied->size;
    moving->unsynced += end - copied->size;
    moving->unpushed += end - copied->size;
    copied->size = end;
    err = push(moving, end);
    moving->source_is_done = end == source->size;
    if (err == ERR_OK && moving->source_is_done && source->sealed)
        err = segment_seal(moving, copied);
    return err;
}

/* --- the beginning --- */

struct sweep {
    struct log_moving *moving;
    enum log_dir_kind kind;
};

/* Copies that an earlier move of the same partition left. */
static enum err sweep_one(void *context, const char *name, bool is_directory)
{
    const struct sweep *sweep = context;
    const struct partition_log *log = sweep->moving->log;
    struct bytes topic;
    int32_t partition = 0;
    struct log_path path;
    enum err err = ERR_OK;

    if (!is_directory || log_path_parse_dir(name, &topic, &partition) != LOG_DIR_KIND_FUTURE ||
        partition != log->partition || !bytes_equal(topic, bytes_of_text(log->topic)))
        return ERR_OK;
    err = log_path_in(&path, sweep->moving->op->to->log_dir, name);
    if (err == ERR_OK)
        err = deleted_dir_remove(fs_of(sweep->moving), path.text);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err begin(struct log_moving *moving)
{
    struct sweep sweep = {.moving = moving};
    enum err err = ERR_OK;

    moving->buffer = mem_alloc(MOVE_SLICE_BYTES);
    if (moving->buffer == NULL)
        return ERR_NOMEM;
    err = at_target(moving, fs_list(fs_of(moving), moving->op->to->log_dir, sweep_one, &sweep));
    if (err == ERR_OK)
        err = at_target(moving, fs_mkdir(fs_of(moving), moving->future_dir));
    return err == ERR_OK ? at_target(moving, sync_dir(moving, moving->op->to->log_dir)) : err;
}

/* --- the end --- */

static bool ends_with(const char *name, const char *suffix)
{
    size_t size = strlen(name);
    size_t suffix_size = strlen(suffix);

    return size >= suffix_size && strcmp(name + size - suffix_size, suffix) == 0;
}

static bool is_passing(const char *name)
{
    return ends_with(name, ".deleted") || ends_with(name, ".tmp") || ends_with(name, ".cleaned") ||
           ends_with(name, ".swap");
}

static const struct move_source *source_of(const struct log_moving *moving, int64_t base_offset)
{
    for (uint32_t i = 0; i < moving->source_count; i++)
        if (moving->sources[i].base_offset == base_offset)
            return &moving->sources[i];
    return NULL;
}

/* Snapshots of no segment, and what is of the log as a whole. */
static enum err rest_copy(void *context, const char *name, bool is_directory)
{
    struct log_moving *moving = context;
    const char *suffix = NULL;
    int64_t offset = 0;

    if (is_directory || is_passing(name) || strcmp(name, LOG_MOVED_NAME) == 0)
        return ERR_OK;
    if (log_path_parse_segment(name, &offset, &suffix) &&
        (strcmp(suffix, SEGMENT_SNAPSHOT) != 0 || source_of(moving, offset) != NULL))
        return ERR_OK;
    return file_copy(moving, name);
}

/* What a pass brought and the log has lost since. */
static enum err surplus_remove(void *context, const char *name, bool is_directory)
{
    struct log_moving *moving = context;
    const char *suffix = NULL;
    int64_t offset = 0;
    struct log_path path;
    struct fs_info info;
    enum err err = ERR_OK;

    if (is_directory)
        return ERR_OK;
    err = log_path_in(&path, moving->from_dir, name);
    if (err == ERR_OK)
        err = fs_stat(fs_of(moving), path.text, &info);
    if (err == ERR_OK && (!log_path_parse_segment(name, &offset, &suffix) || strcmp(suffix, SEGMENT_SNAPSHOT) == 0 ||
                          source_of(moving, offset) != NULL))
        return ERR_OK;
    if (err != ERR_OK && err != ERR_NOT_FOUND)
        return err;
    err = log_path_in(&path, moving->future_dir, name);
    return err == ERR_OK ? at_target(moving, fs_unlink(fs_of(moving), path.text)) : err;
}

/* The copy is as long as the log, in every segment. */
static enum err copy_verify(struct log_moving *moving)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < moving->source_count && err == ERR_OK; i++) {
        struct log_path path;
        struct fs_info info;

        log_path_segment(&path, moving->future_dir, moving->sources[i].base_offset, SEGMENT_LOG);
        err = at_target(moving, fs_stat(fs_of(moving), path.text, &info));
        if (err == ERR_OK && info.size != moving->sources[i].size)
            err = at_target(moving, ERR_DAMAGED);
    }
    return err;
}

/* What has the place and is nobody's is kept beside, as a start would: the log's own older self, which could not go
 * when the log left, or a bare directory. Another topic's may be about to go, or to begin. */
static enum err way_clear(struct log_moving *moving)
{
    const struct partition_env *to = moving->op->to;
    struct uuid there;
    enum err err = checkpoint_read_topic_id(fs_of(moving), moving->place_dir, &there);

    if (err == ERR_OK)
        err = uuid_equal(there, moving->log->topic_id)
                  ? log_set_aside(to, moving->place_dir, moving->stray_dir, fs_rename)
                  : ERR_BUSY;
    else if (err == ERR_NOT_FOUND || err == ERR_DAMAGED)
        err = log_set_aside(to, moving->place_dir, moving->stray_dir, bare_dir_rename);
    if (err == ERR_OK)
        log_warn(to->log, "what had the place of a moved log is set aside dir=%s", moving->stray_dir);
    return err == ERR_BUSY ? ERR_EXISTS : err;
}

static enum err name_give(struct log_moving *moving)
{
    enum err err = at_target(moving, fs_rename(fs_of(moving), moving->future_dir, moving->place_dir));

    if (err == ERR_EXISTS) {
        err = at_target(moving, way_clear(moving));
        if (err == ERR_OK)
            err = at_target(moving, fs_rename(fs_of(moving), moving->future_dir, moving->place_dir));
    }
    moving->in_place = err == ERR_OK;
    return err == ERR_OK ? at_target(moving, sync_dir(moving, moving->op->to->log_dir)) : err;
}

/* The end of the log as it lies there now. Whoever finds none opens it when it is wanted. */
static void last_open(struct log_moving *moving)
{
    struct log_path path;

    if (moving->source_count == 0)
        return;
    log_path_segment(&path, moving->place_dir, moving->sources[moving->source_count - 1].base_offset, SEGMENT_LOG);
    if (fs_open(fs_of(moving), path.text, FS_READ | FS_WRITE, &moving->last) != ERR_OK)
        moving->last = NULL;
}

static enum err final(struct log_moving *moving)
{
    enum err err = log_sync_plan_run(moving->log->env, moving->from_dir, &moving->plan);

    moving->synced = err == ERR_OK;
    for (uint32_t i = 0; i < moving->source_count && err == ERR_OK; i++) {
        const struct move_copied *copied = move_copied_of(moving, moving->sources[i].base_offset);

        if (copied == NULL || !copied->sealed) {
            err = segment_copy(moving, &moving->sources[i], UINT64_MAX);
        }
    }
    files_close(moving);
    if (err == ERR_OK)
        err = fs_list(fs_of(moving), moving->from_dir, rest_copy, moving);
    if (err == ERR_OK)
        err = fs_list(fs_of(moving), moving->future_dir, surplus_remove, moving);
    if (err == ERR_OK)
        err = copy_verify(moving);
    if (err == ERR_OK)
        err = at_target(moving, log_moved_mark_write(fs_of(moving), moving->future_dir, &moving->mark));
    if (err == ERR_OK)
        err = at_target(moving, sync_dir(moving, moving->future_dir));
    if (err == ERR_OK)
        err = name_give(moving);
    if (err == ERR_OK)
        last_open(moving);
    return err;
}

static enum err leave(struct log_moving *moving)
{
    enum err err = log_set_aside(moving->op->from, moving->from_dir, moving->aside_dir, fs_rename);

    return err == ERR_OK && !moving->later ? deleted_dir_remove(fs_of(moving), moving->aside_dir) : err;
}

static enum err discard(struct log_moving *moving)
{
    enum err err = ERR_OK;

    files_close(moving);
    if (moving->in_place) {
        err = at_target(moving, fs_rename(fs_of(moving), moving->place_dir, moving->future_dir));
        moving->in_place = err != ERR_OK;
        if (err == ERR_OK)
            err = at_target(moving, sync_dir(moving, moving->op->to->log_dir));
    }
    if (err == ERR_OK)
        err = at_target(moving, deleted_dir_remove(fs_of(moving), moving->future_dir));
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* --- a copy without an original --- */

enum err partition_log_adopt_copy(const struct partition_env *env, const struct partition_log_spec *spec)
{
    struct log_dir_name name;
    struct log_path from;
    struct log_path to;
    char copy[LOG_NAME_BYTES_MAX + 1];
    enum err err = log_path_dir_name(&name, spec->topic, spec->partition);

    (void)snprintf(copy, sizeof(copy), "%.*s", BYTES_PRINTF(spec->from_copy));
    if (err == ERR_OK)
        err = log_path_in(&from, env->log_dir, copy);
    if (err == ERR_OK)
        err = log_path_in(&to, env->log_dir, name.text);
    if (err == ERR_OK)
        err = fs_rename(env->fs, from.text, to.text);
    if (err == ERR_NOT_FOUND) /* tried before */
        return ERR_OK;
    return err == ERR_OK && fs_sync_dir(env->fs, env->log_dir) != ERR_OK ? ERR_IO : err;
}

/* --- one slice --- */

void move_io_run(struct log_moving *moving)
{
    moving->slice_bytes = moving->copied_bytes = 0;
    moving->at_target = false;
    switch (moving->stage) {
    case MOVE_BEGIN:
        moving->err = begin(moving);
        return;
    case MOVE_COPY:
        moving->err = segment_copy(moving, &moving->sources[moving->at], MOVE_SLICE_BYTES);
        return;
    case MOVE_FINAL:
        moving->err = final(moving);
        return;
    case MOVE_LEAVE:
        moving->err = leave(moving);
        return;
    case MOVE_DISCARD:
        moving->err = discard(moving);
        return;
    case MOVE_NOTE:
    case MOVE_COMMIT:
        break;
    }
    assert_never("a stage without a job");
}

void move_io_close(struct log_moving *moving)
{
    files_close(moving);
    fs_file_drop(moving->last);
    moving->last = NULL;
    mem_free(moving->buffer);
    moving->buffer = NULL;
}
