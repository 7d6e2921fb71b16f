#include "partition/log_repair.h"

#include <stdio.h>
#include <string.h>

#include "base/big_endian.h"
#include "base/mem.h"
#include "partition/batch_walk.h"
#include "partition/checkpoint.h"
#include "partition/log_internal.h"

enum { COPY_BYTES = 1024 * 1024 };

static enum err dir_of(const struct partition_env *env, const struct partition_log_spec *spec, struct log_path *dir)
{
    struct log_dir_name name;
    enum err err = log_path_dir_name(&name, spec->topic, spec->partition);

    return err == ERR_OK ? log_path_in(dir, env->log_dir, name.text) : err;
}

/* --- opened and closed again --- */

static enum err close_now(struct partition_log *log)
{
    struct log_sync_plan plan;
    enum err err = log_sync_plan_make(log, LOG_SYNC_FINAL, &plan);

    if (err == ERR_OK) {
        err = log_sync_plan_run(log->env, log->dir, &plan);
        log_sync_plan_deinit(log, &plan);
    }
    log_free(log);
    return err;
}

static enum err open_and_close(const struct partition_env *env, const struct partition_log_spec *spec,
                               struct log_repaired *repaired)
{
    struct partition_log *log = NULL;
    enum err err = partition_log_open(env, spec, &log, &repaired->recovery);

    if (err != ERR_OK)
        return err;
    repaired->start_offset = log->start_offset;
    repaired->end_offset = log->end_offset;
    repaired->damaged = log->damage.count;
    return close_now(log);
}

enum err log_repair_recover(const struct partition_env *env, const struct partition_log_spec *spec,
                            struct log_repaired *repaired)
{
    *repaired = (struct log_repaired){0};
    return open_and_close(env, spec, repaired);
}

/* --- made anew --- */

struct removal {
    struct fs *fs;
    const char *dir;
};

static enum err remove_derived(void *context, const char *name, bool is_directory)
{
    const struct removal *removal = context;
    struct log_path path;
    const char *suffix = NULL;
    int64_t base_offset = 0;
    enum err err = ERR_OK;

    if (is_directory)
        return ERR_OK;
    if (strcmp(name, "leader-epoch-checkpoint") != 0 &&
        (!log_path_parse_segment(name, &base_offset, &suffix) ||
         (strcmp(suffix, SEGMENT_INDEX) != 0 && strcmp(suffix, SEGMENT_TIME_INDEX) != 0 &&
          strcmp(suffix, SEGMENT_TXN_INDEX) != 0 && strcmp(suffix, SEGMENT_SNAPSHOT) != 0)))
        return ERR_OK;
    err = log_path_in(&path, removal->dir, name);
    return err == ERR_OK ? fs_unlink(removal->fs, path.text) : err;
}

/* Marks are made anew, too: nothing is given up for a mark that is wrong. What was marked had been synced. */
static enum err marks_take(struct fs *fs, const char *dir, struct partition_log_spec *spec)
{
    struct damage damage = {0};
    enum err err = damage_read(fs, dir, &damage);

    if (err == ERR_NOT_FOUND || err == ERR_DAMAGED)
        err = ERR_OK;
    if (err == ERR_OK && damage.count > 0 && damage.ranges[damage.count - 1].end_offset > spec->recovery_point)
        spec->recovery_point = damage.ranges[damage.count - 1].end_offset;
    if (err == ERR_OK)
        err = damage_write(fs, dir, (struct bytes){0});
    damage_deinit(&damage);
    return err;
}

enum err log_repair_partition(const struct partition_env *env, const struct partition_log_spec *spec,
                              struct log_repaired *repaired)
{
    struct partition_log_spec anew = *spec;
    struct log_path dir;
    struct removal removal = {env->fs, dir.text};
    enum err err = dir_of(env, spec, &dir);

    *repaired = (struct log_repaired){0};
    anew.rebuild = true;
    if (err == ERR_OK)
        err = marks_take(env->fs, dir.text, &anew);
    if (err == ERR_OK)
        err = fs_list(env->fs, dir.text, remove_derived, &removal);
    if (err == ERR_OK)
        err = fs_sync_dir(env->fs, dir.text);
    return err == ERR_OK ? open_and_close(env, &anew, repaired) : err;
}

/* --- given up --- */

static enum err copy(struct fs_file *from, uint64_t position, uint64_t size, struct fs_file *to, uint64_t *at)
{
    uint8_t *buffer = mem_alloc(COPY_BYTES);
    enum err err = buffer == NULL ? ERR_NOMEM : ERR_OK;

    while (err == ERR_OK && size > 0) {
        size_t want = size < COPY_BYTES ? (size_t)size : (size_t)COPY_BYTES;
        size_t got = 0;
        size_t written = 0;

        err = fs_read(from, position, buffer, want, &got);
        if (err == ERR_OK && got < want)
            err = ERR_DAMAGED;
        if (err == ERR_OK)
            err = fs_write(to, *at, &(struct bytes){buffer, got}, 1, &written);
        if (err == ERR_OK && written < got)
            err = ERR_NO_SPACE;
        position += got;
        *at += got;
        size -= got;
    }
    mem_free(buffer);
    return err;
}

static enum err make_file(struct fs *fs, const char *path, struct fs_file **file)
{
    return fs_open(fs, path, FS_READ | FS_WRITE | FS_CREATE | FS_TRUNCATE, file);
}

static enum err set_aside(struct fs *fs, const char *dir, struct fs_file *from, const struct damage_range *range)
{
    struct log_path path;
    struct fs_file *file = NULL;
    char suffix[64];
    uint64_t at = 0;
    enum err err = ERR_OK;

    (void)snprintf(suffix, sizeof(suffix), ".%llu" LOG_LOST_SUFFIX, (unsigned long long)range->position);
    log_path_segment(&path, dir, range->segment_base, suffix);
    err = make_file(fs, path.text, &file);
    if (err == ERR_OK)
        err = copy(from, range->position, range->size, file, &at);
    if (err == ERR_OK)
        err = fs_sync(file);
    fs_file_drop(file);
    return err;
}

/* A batch without records, as compaction leaves them, so that offsets stay without a gap. */
static enum err put_empty(struct fs_file *to, const struct damage_range *range, int32_t leader_epoch, uint64_t *at)
{
    uint8_t batch[BATCH_HEADER_BYTES] = {0};
    size_t written = 0;
    enum err err = ERR_OK;

    batch_set_base_offset(batch, range->first_offset);
    big_endian_store_u32(batch + BATCH_FIELD_LENGTH, BATCH_HEADER_BYTES - BATCH_LENGTH_BIAS_BYTES);
    batch_set_leader_epoch(batch, leader_epoch);
    batch[BATCH_FIELD_MAGIC] = BATCH_MAGIC;
    big_endian_store_u32(batch + BATCH_FIELD_LAST_OFFSET_DELTA,
                         (uint32_t)(range->end_offset - range->first_offset - 1));
    memset(batch + BATCH_FIELD_BASE_TIMESTAMP, 0xff, BATCH_FIELD_RECORD_COUNT - BATCH_FIELD_BASE_TIMESTAMP);
    batch_set_crc(batch);
    err = fs_write(to, *at, &(struct bytes){batch, sizeof(batch)}, 1, &written);
    *at += written;
    return err == ERR_OK && written < sizeof(batch) ? ERR_NO_SPACE : err;
}

/* The segment without its damaged ranges from `first` on, as <base>.log.cleaned: what a start removes where this does
 * not come to its end. */
static enum err write_without(struct fs *fs, const char *dir, struct fs_file *from, const struct damage *damage,
                              uint32_t first, uint32_t count, const struct epoch_cache *epochs, const char *to_path)
{
    struct fs_file *to = NULL;
    uint64_t position = 0;
    uint64_t size = 0;
    uint64_t at = 0;
    enum err err = make_file(fs, to_path, &to);

    if (err == ERR_OK)
        err = fs_size(from, &size);
    for (uint32_t i = first; i < first + count && err == ERR_OK; i++) {
        const struct damage_range *range = &damage->ranges[i];
        int32_t epoch = epoch_cache_at(epochs, range->first_offset);

        if (range->position < position || range->size > size - range->position || range->position > size)
            err = ERR_DAMAGED; /* the marks are of another file */
        if (err == ERR_OK)
            err = set_aside(fs, dir, from, range);
        if (err == ERR_OK)
            err = copy(from, position, range->position - position, to, &at);
        if (err == ERR_OK)
            err = put_empty(to, range, epoch < 0 ? 0 : epoch, &at);
        position = range->position + range->size;
    }
    if (err == ERR_OK)
        err = copy(from, position, size - position, to, &at);
    if (err == ERR_OK)
        err = fs_sync(to);
    fs_file_drop(to);
    return err;
}

static enum err segment_give_up(struct fs *fs, const char *dir, const struct damage *damage, uint32_t first,
                                uint32_t count, const struct epoch_cache *epochs)
{
    static const char *const indexes[] = {SEGMENT_INDEX, SEGMENT_TIME_INDEX, SEGMENT_TXN_INDEX};
    int64_t base_offset = damage->ranges[first].segment_base;
    struct log_path path;
    struct log_path beside;
    struct fs_file *from = NULL;
    enum err err = ERR_OK;

    log_path_segment(&path, dir, base_offset, SEGMENT_LOG);
    log_path_segment(&beside, dir, base_offset, SEGMENT_LOG ".cleaned");
    err = fs_open(fs, path.text, FS_READ, &from);
    if (err == ERR_OK)
        err = write_without(fs, dir, from, damage, first, count, epochs, beside.text);
    fs_file_drop(from);
    /* Positions change: no index may outlive that. */
    for (size_t i = 0; i < sizeof(indexes) / sizeof(indexes[0]) && err == ERR_OK; i++) {
        struct log_path index;

        log_path_segment(&index, dir, base_offset, indexes[i]);
        err = fs_unlink(fs, index.text);
        err = err == ERR_NOT_FOUND ? ERR_OK : err;
    }
    if (err == ERR_OK)
        err = fs_sync_dir(fs, dir);
    if (err == ERR_OK)
        err = fs_rename(fs, beside.text, path.text);
    return err == ERR_OK ? fs_sync_dir(fs, dir) : err;
}

static enum err give_up_all(struct fs *fs, const char *dir, struct damage *damage, struct log_repaired *repaired)
{
    struct epoch_cache epochs = {0};
    uint8_t *content = NULL;
    size_t size = 0;
    enum err err = checkpoint_read_epochs(fs, dir, &epochs);

    if (err == ERR_NOT_FOUND || err == ERR_DAMAGED || err == ERR_LIMIT)
        err = ERR_OK;
    for (uint32_t first = 0; first < damage->count && err == ERR_OK;) {
        uint32_t count = 1;

        while (first + count < damage->count &&
               damage->ranges[first + count].segment_base == damage->ranges[first].segment_base)
            count++;
        err = segment_give_up(fs, dir, damage, first, count, &epochs);
        for (uint32_t i = first; i < first + count; i++)
            repaired->offsets_lost += damage->ranges[i].end_offset - damage->ranges[i].first_offset;
        first += count;
        repaired->given_up += count;
    }
    epoch_cache_deinit(&epochs);
    if (err != ERR_OK)
        return err;
    (void)damage_forget(damage, INT64_MIN, INT64_MAX);
    err = damage_format(damage, &content, &size);
    if (err == ERR_OK)
        err = damage_write(fs, dir, bytes_of(content, size));
    mem_free(content);
    return err;
}

enum err log_repair_give_up(const struct partition_env *env, const struct partition_log_spec *spec,
                            struct log_repaired *repaired)
{
    struct log_repaired before;
    struct damage damage = {0};
    struct log_path dir;
    enum err err = log_repair_partition(env, spec, &before); /* all of it is known then */

    *repaired = before;
    if (err != ERR_OK || before.damaged == 0)
        return err;
    err = dir_of(env, spec, &dir);
    if (err == ERR_OK)
        err = damage_read(env->fs, dir.text, &damage);
    if (err == ERR_OK)
        err = give_up_all(env->fs, dir.text, &damage, &before);
    damage_deinit(&damage);
    if (err == ERR_OK)
        err = log_repair_partition(env, spec, repaired);
    repaired->given_up = before.given_up;
    repaired->offsets_lost = before.offsets_lost;
    return err;
}
