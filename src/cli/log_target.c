#include "cli/log_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "partition/boot_mark.h"
#include "partition/damage.h"
#include "partition/journal.h"
#include "partition/segment.h"
#include "raftmeta/snapshot.h"

enum { NAMES_ROOM_FIRST = 64 };

/* --- names --- */

static enum err name_add(void *context, const char *name, bool is_directory)
{
    struct log_names *names = context;
    enum err err = mem_grow(&names->names, &names->room, names->count + 1, NAMES_ROOM_FIRST, sizeof(names->names[0]));
    char *text = err == ERR_OK ? mem_copy_text(name, strlen(name)) : NULL;

    if (text == NULL)
        return ERR_NOMEM;
    names->names[names->count++] = (struct log_name){text, is_directory};
    return ERR_OK;
}

static int name_compare(const void *a, const void *b)
{
    return strcmp(((const struct log_name *)a)->text, ((const struct log_name *)b)->text);
}

enum err log_names_read(struct fs *fs, const char *dir, struct log_names *names)
{
    enum err err = ERR_OK;

    *names = (struct log_names){0};
    err = fs_list(fs, dir, name_add, names);
    if (err != ERR_OK)
        log_names_deinit(names);
    else if (names->count > 0)
        qsort(names->names, names->count, sizeof(names->names[0]), name_compare);
    return err;
}

void log_names_deinit(struct log_names *names)
{
    for (uint32_t i = 0; i < names->count; i++)
        mem_free(names->names[i].text);
    mem_free(names->names);
    *names = (struct log_names){0};
}

/* --- what a path is --- */

enum log_file_kind log_file_kind_of(const char *name, int64_t *base_offset)
{
    static const struct {
        const char *name;
        enum log_file_kind kind;
    } known[] = {
        {"leader-epoch-checkpoint", LOG_FILE_EPOCHS},
        {"partition.metadata", LOG_FILE_TOPIC_ID},
        {"recovery-point-offset-checkpoint", LOG_FILE_OFFSETS},
        {"log-start-offset-checkpoint", LOG_FILE_OFFSETS},
        {"replication-offset-checkpoint", LOG_FILE_OFFSETS},
        {"cleaner-offset-checkpoint", LOG_FILE_OFFSETS},
        {"bootstrap.checkpoint", LOG_FILE_METADATA_SNAPSHOT},
        {"meta.properties", LOG_FILE_TEXT},
        {"quorum-state", LOG_FILE_TEXT},
        {LOG_CLEAN_FILE, LOG_FILE_TEXT},
        {DAMAGE_FILE, LOG_FILE_DAMAGE},
        {BOOT_MARK_FILE, LOG_FILE_BOOT_MARK},
    };
    static const struct {
        const char *suffix;
        enum log_file_kind kind;
    } segments[] = {
        {SEGMENT_LOG, LOG_FILE_SEGMENT},           {SEGMENT_INDEX, LOG_FILE_OFFSET_INDEX},
        {SEGMENT_TIME_INDEX, LOG_FILE_TIME_INDEX}, {SEGMENT_TXN_INDEX, LOG_FILE_TXN_INDEX},
        {SEGMENT_SNAPSHOT, LOG_FILE_PRODUCERS},
    };
    const char *suffix = NULL;
    struct snapshot_id id;

    *base_offset = -1;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].kind;
    if (strncmp(name, JOURNAL_FILE_PREFIX, sizeof(JOURNAL_FILE_PREFIX) - 1) == 0)
        return LOG_FILE_JOURNAL;
    if (snapshot_parse_name(name, &id)) {
        *base_offset = id.end_offset;
        return LOG_FILE_METADATA_SNAPSHOT;
    }
    if (!log_path_parse_segment(name, base_offset, &suffix))
        return LOG_FILE_OTHER;
    for (size_t i = 0; i < sizeof(segments) / sizeof(segments[0]); i++)
        if (strcmp(suffix, segments[i].suffix) == 0)
            return segments[i].kind;
    return LOG_FILE_OTHER;
}

static void parent_of(const struct log_path *path, struct log_path *parent)
{
    const char *slash = strrchr(path->text, '/');

    if (slash == NULL)
        (void)snprintf(parent->text, sizeof(parent->text), ".");
    else if (slash == path->text)
        (void)snprintf(parent->text, sizeof(parent->text), "/");
    else
        (void)snprintf(parent->text, sizeof(parent->text), "%.*s", (int)(slash - path->text), path->text);
}

static const char *last_name(const struct log_path *path)
{
    const char *slash = strrchr(path->text, '/');

    return slash == NULL ? path->text : slash + 1;
}

static enum err path_set(const char *path, struct log_path *set)
{
    size_t size = strlen(path);

    if (size == 0 || size >= sizeof(set->text))
        return ERR_LIMIT;
    memcpy(set->text, path, size + 1);
    while (size > 1 && set->text[size - 1] == '/')
        set->text[--size] = '\0';
    return ERR_OK;
}

static void name_partition(struct log_target *target)
{
    enum log_dir_kind kind = log_path_parse_dir(last_name(&target->partition_dir), &target->topic, &target->partition);

    if (kind == LOG_DIR_KIND_OTHER)
        target->topic = (struct bytes){0};
}

/* A directory is a partition's by its name, or by the segments in it where it was copied under another. */
static enum err directory_find(struct fs *fs, struct log_target *target)
{
    struct log_names names;
    bool segments = false;
    enum err err = ERR_OK;

    target->partition_dir = target->path;
    name_partition(target);
    if (target->topic.data == NULL) {
        err = log_names_read(fs, target->path.text, &names);
        if (err != ERR_OK)
            return err;
        for (uint32_t i = 0; i < names.count && !segments; i++) {
            int64_t base_offset = 0;

            segments =
                !names.names[i].is_directory && log_file_kind_of(names.names[i].text, &base_offset) == LOG_FILE_SEGMENT;
        }
        log_names_deinit(&names);
        if (!segments) {
            target->kind = LOG_TARGET_DIR;
            target->log_dir = target->path;
            return ERR_OK;
        }
    }
    target->kind = LOG_TARGET_PARTITION;
    parent_of(&target->path, &target->log_dir);
    return ERR_OK;
}

enum err log_target_find(struct fs *fs, const char *path, struct log_target *target)
{
    struct fs_info info;
    enum err err = ERR_OK;

    *target = (struct log_target){.base_offset = -1, .partition = -1};
    err = path_set(path, &target->path);
    if (err == ERR_OK)
        err = fs_stat(fs, target->path.text, &info);
    if (err == ERR_OK && info.is_directory)
        err = directory_find(fs, target);
    if (err != ERR_OK) {
        fprintf(stderr, "ottla: %s: %s\n", path, err_text(err));
        return err;
    }
    if (info.is_directory)
        return ERR_OK;
    target->kind = LOG_TARGET_FILE;
    target->name = last_name(&target->path);
    target->file = log_file_kind_of(target->name, &target->base_offset);
    parent_of(&target->path, &target->partition_dir);
    if (target->file == LOG_FILE_OTHER) {
        fprintf(stderr, "ottla: %s: its name is that of no file of a log; `ottla log --help` says which there are\n",
                path);
        return ERR_USAGE;
    }
    name_partition(target);
    if (target->topic.data != NULL)
        parent_of(&target->partition_dir, &target->log_dir);
    else
        target->log_dir = target->partition_dir;
    return ERR_OK;
}

/* --- what the log directory knows --- */

static enum err offsets_read(struct fs *fs, const char *log_dir, const char *name, struct checkpoint_offsets *offsets,
                             bool *there)
{
    enum err err = checkpoint_read_offsets(fs, log_dir, name, offsets);

    *there = err == ERR_OK;
    return err == ERR_NOMEM ? err : ERR_OK;
}

static enum err is_journal(void *context, const char *name, bool is_directory)
{
    if (!is_directory && strncmp(name, JOURNAL_FILE_PREFIX, sizeof(JOURNAL_FILE_PREFIX) - 1) == 0)
        *(bool *)context = true;
    return ERR_OK;
}

enum err log_dir_facts_read(struct fs *fs, const char *log_dir, struct log_dir_facts *facts)
{
    struct log_path path;
    struct fs_info info;
    enum err err = ERR_OK;

    *facts = (struct log_dir_facts){0};
    facts->in_use = log_path_in(&path, log_dir, LOG_LOCK_FILE) == ERR_OK && fs_is_locked(fs, path.text);
    facts->clean = log_path_in(&path, log_dir, LOG_CLEAN_FILE) == ERR_OK && fs_stat(fs, path.text, &info) == ERR_OK;
    if (fs_list(fs, log_dir, is_journal, &facts->has_journals) != ERR_OK)
        facts->has_journals = false;
    err = offsets_read(fs, log_dir, "recovery-point-offset-checkpoint", &facts->recovery_points,
                       &facts->recovery_points_there);
    if (err == ERR_OK)
        err = offsets_read(fs, log_dir, "log-start-offset-checkpoint", &facts->starts, &facts->starts_there);
    if (err == ERR_OK)
        err = offsets_read(fs, log_dir, "replication-offset-checkpoint", &facts->high_watermarks,
                           &facts->high_watermarks_there);
    if (err != ERR_OK)
        log_dir_facts_deinit(facts);
    return err;
}

void log_dir_facts_deinit(struct log_dir_facts *facts)
{
    checkpoint_offsets_deinit(&facts->recovery_points);
    checkpoint_offsets_deinit(&facts->starts);
    checkpoint_offsets_deinit(&facts->high_watermarks);
}

int64_t log_facts_find(const struct checkpoint_offsets *offsets, struct bytes topic, int32_t partition)
{
    for (uint32_t i = 0; i < offsets->count; i++)
        if (offsets->entries[i].partition == partition && bytes_equal(offsets->entries[i].topic, topic))
            return offsets->entries[i].offset;
    return -1;
}

int64_t log_facts_synced(const struct log_dir_facts *facts, struct bytes topic, int32_t partition)
{
    return facts->clean ? INT64_MAX : log_facts_find(&facts->recovery_points, topic, partition);
}
