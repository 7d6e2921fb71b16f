#include "partition/journal_replay.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "partition/journal.h"
#include "partition/log_path.h"
#include "partition/text_file.h"

enum {
    REPLAY_FILES_MAX = 4096,   /* of one directory: reactors times files, over a few runs */
    REPLAY_LOGS_MAX = 1 << 20, /* more than a node's partitions */
    REPLAY_ENTRIES_FIRST = 8,
    READ_BYTES = 1024 * 1024, /* at a time */
    LOG_KEY_BYTES = UUID_BYTES + 4,
};

struct replay_file {
    char *name;
    struct fs_file *file;
    uint64_t size;
    uint64_t generation;
    uint64_t random;
    bool used; /* it has a generation */
};

/* What one log has. */
struct replay_log {
    uint8_t key[LOG_KEY_BYTES];
    struct journal_replay_entry *entries;
    uint32_t count;
    uint32_t room;
};

struct journal_replay {
    struct journal_replay_options options;
    struct replay_file *files; /* ascending by generation once sorted */
    uint32_t file_count;
    uint32_t file_room;
    struct map logs; /* by topic id and partition, of struct replay_log */
    uint64_t generation;
    uint64_t entries;
    uint64_t groups;
    uint64_t lost; /* places where something promised is damaged */
};

void journal_replay_free(struct journal_replay *replay)
{
    void *value = NULL;

    if (replay == NULL)
        return;
    for (uint32_t i = 0; i < replay->file_count; i++) {
        fs_file_drop(replay->files[i].file);
        mem_free(replay->files[i].name);
    }
    mem_free(replay->files);
    for (uint32_t cursor = 0; map_next(&replay->logs, &cursor, NULL, &value);) {
        struct replay_log *log = value;

        mem_free(log->entries);
        mem_free(log);
    }
    map_deinit(&replay->logs);
    mem_free(replay);
}

uint64_t journal_replay_generation(const struct journal_replay *replay)
{
    return replay == NULL ? 0 : replay->generation;
}

uint32_t journal_replay_file_count(const struct journal_replay *replay)
{
    return replay == NULL ? 0 : replay->file_count;
}

/* --- files --- */

static enum err file_found(void *context, const char *name, bool is_directory)
{
    struct journal_replay *replay = context;
    struct replay_file *file = NULL;
    int64_t number = 0;
    enum err err = ERR_OK;

    if (is_directory || strncmp(name, JOURNAL_FILE_PREFIX, sizeof(JOURNAL_FILE_PREFIX) - 1) != 0)
        return ERR_OK;
    if (replay->file_count == REPLAY_FILES_MAX)
        return ERR_LIMIT;
    /* A name is taken, also where the file was never used. */
    if (text_parse_i64(bytes_of_text(strrchr(name, '-') + 1), &number) && number > 0 &&
        (uint64_t)number > replay->generation)
        replay->generation = (uint64_t)number;
    err = mem_grow(&replay->files, &replay->file_room, replay->file_count + 1, 8, sizeof(*replay->files));
    if (err != ERR_OK)
        return err;
    file = &replay->files[replay->file_count];
    *file = (struct replay_file){.name = mem_copy_text(name, strlen(name))};
    if (file->name == NULL)
        return ERR_NOMEM;
    replay->file_count++;
    return ERR_OK;
}

static enum err read_at(const struct replay_file *file, uint64_t position, uint8_t *to, size_t size, size_t *got)
{
    *got = 0;
    if (position >= file->size)
        return ERR_OK;
    if (size > file->size - position)
        size = (size_t)(file->size - position);
    return fs_read(file->file, position, to, size, got);
}

/* A file whose header is not readable has it from its first group, which lies where no client's bytes ever did. */
static enum err judge_by_group(struct replay_file *file)
{
    uint8_t bytes[JOURNAL_GROUP_HEADER_BYTES];
    struct journal_group_header header;
    size_t got = 0;
    enum err err = read_at(file, JOURNAL_BLOCK_BYTES, bytes, sizeof(bytes), &got);

    if (err == ERR_OK && journal_group_header_read(bytes_of(bytes, got), &header) == ERR_OK) {
        file->used = true;
        file->generation = header.generation;
        file->random = header.random;
    }
    return err;
}

static enum err header_judge(struct journal_replay *replay, struct replay_file *file, struct bytes bytes)
{
    const struct journal_replay_options *options = &replay->options;
    struct journal_header header;
    uint16_t version = 0;
    enum err err = journal_header_read(bytes, &header, &version);

    switch (err) {
    case ERR_OK:
        if (!uuid_is_zero(options->directory_id) && !uuid_equal(header.directory_id, options->directory_id)) {
            log_warn(options->log, "journal of another directory left alone file=%s/%s directory_id=%s",
                     options->log_dir, file->name, uuid_format(header.directory_id).text);
            return ERR_OK;
        }
        file->used = true;
        file->generation = header.generation;
        file->random = header.random;
        return ERR_OK;
    case ERR_NOT_FOUND:
        return ERR_OK;
    case ERR_UNSUPPORTED_VERSION:
        log_error(options->log, "written by a later build, which this one does not understand file=%s/%s version=%u",
                  options->log_dir, file->name, version);
        return err;
    default:
        break;
    }
    err = judge_by_group(file);
    log_warn(options->log, "journal has a damaged header, %s file=%s/%s generation=%" PRIu64,
             file->used ? "taken by its first group" : "left out", options->log_dir, file->name, file->generation);
    return err;
}

static enum err file_open(struct journal_replay *replay, struct replay_file *file)
{
    uint8_t bytes[JOURNAL_HEADER_BYTES];
    struct log_path path;
    size_t got = 0;
    enum err err = log_path_in(&path, replay->options.log_dir, file->name);

    if (err == ERR_OK)
        err = fs_open(replay->options.fs, path.text, FS_READ, &file->file);
    if (err == ERR_OK)
        err = fs_size(file->file, &file->size);
    if (err == ERR_OK)
        err = read_at(file, 0, bytes, sizeof(bytes), &got);
    if (err == ERR_OK)
        err = header_judge(replay, file, bytes_of(bytes, got));
    if (err == ERR_OK && file->used && file->generation > replay->generation)
        replay->generation = file->generation;
    return err;
}

static int by_generation(const void *a, const void *b)
{
    const struct replay_file *left = a;
    const struct replay_file *right = b;

    return (left->generation > right->generation) - (left->generation < right->generation);
}

/* --- entries --- */

static void key_make(uint8_t key[LOG_KEY_BYTES], struct uuid topic_id, int32_t partition)
{
    memcpy(key, topic_id.bytes, UUID_BYTES);
    for (int i = 0; i < 4; i++)
        key[UUID_BYTES + i] = (uint8_t)((uint32_t)partition >> (24 - 8 * i));
}

static enum err log_of(struct journal_replay *replay, const struct journal_entry *entry, struct replay_log **out)
{
    uint8_t key[LOG_KEY_BYTES];
    struct replay_log *log = NULL;
    enum err err = ERR_OK;

    key_make(key, entry->topic_id, entry->partition);
    *out = map_get(&replay->logs, bytes_of(key, sizeof(key)));
    if (*out != NULL)
        return ERR_OK;
    log = mem_calloc(1, sizeof(*log));
    if (log == NULL)
        return ERR_NOMEM;
    memcpy(log->key, key, sizeof(key));
    err = map_insert(&replay->logs, bytes_of(log->key, sizeof(log->key)), log);
    if (err != ERR_OK) {
        mem_free(log);
        return err;
    }
    *out = log;
    return ERR_OK;
}

static enum err entry_take(struct journal_replay *replay, const struct journal_entry *entry, uint32_t file,
                           uint64_t position)
{
    struct replay_log *log = NULL;
    enum err err = log_of(replay, entry, &log);

    if (err != ERR_OK)
        return err;
    replay->entries++;
    if (entry->type != JOURNAL_APPEND && entry->type != JOURNAL_START) {
        log->count = 0; /* all before is history, and the segments have it */
        return ERR_OK;
    }
    err = mem_grow(&log->entries, &log->room, log->count + 1, REPLAY_ENTRIES_FIRST, sizeof(log->entries[0]));
    if (err != ERR_OK)
        return err;
    log->entries[log->count++] = (struct journal_replay_entry){
        .type = entry->type,
        .leader_epoch = entry->leader_epoch,
        .offset = entry->offset,
        .end_offset = entry->end_offset,
        .previous_end = entry->previous_end,
        .file = file,
        .body_bytes = (uint32_t)entry->body.size,
        .position = position,
    };
    return ERR_OK;
}

/* --- groups --- */

struct walk {
    struct journal_replay *replay;
    uint32_t file;
    uint64_t position; /* of the next group */
    uint32_t number;   /* that it should have */
    uint8_t *buffer;
    size_t room;
};

/* Makes [position, position + size) lie in the buffer; *got less where the file ends. */
static enum err walk_read(struct walk *walk, uint64_t position, size_t size, size_t *got)
{
    if (size > walk->room) {
        uint8_t *grown = mem_realloc(walk->buffer, size);

        if (grown == NULL)
            return ERR_NOMEM;
        walk->buffer = grown;
        walk->room = size;
    }
    return read_at(&walk->replay->files[walk->file], position, walk->buffer, size, got);
}

/* The entries of one group, up to the first that is not whole; whole: out, whether all were. */
static enum err group_take(struct walk *walk, const struct journal_group_header *header, bool *whole)
{
    uint64_t at = walk->position + JOURNAL_GROUP_HEADER_BYTES;
    struct bytes rest;
    size_t got = 0;
    uint32_t seen = 0;
    enum err err = ERR_OK;

    *whole = false;
    if (header->entries_bytes > walk->replay->files[walk->file].size)
        return ERR_OK;
    err = walk_read(walk, at, header->entries_bytes, &got);
    if (err != ERR_OK)
        return err;
    rest = bytes_of(walk->buffer, got);
    while (seen < header->entry_count) {
        struct journal_entry entry;
        size_t taken = 0;

        /* A group's header may be there while its blocks are still those of an earlier use. */
        if (journal_entry_read(rest, &entry, &taken) != ERR_OK || entry.random != header->random ||
            entry.group != header->number)
            return ERR_OK;
        err = entry_take(walk->replay, &entry, walk->file, at);
        if (err != ERR_OK)
            return err;
        at += taken;
        rest = bytes_of(rest.data + taken, rest.size - taken);
        seen++;
    }
    *whole = true;
    return ERR_OK;
}

static bool is_next(const struct walk *walk, struct bytes bytes, struct journal_group_header *header)
{
    const struct replay_file *file = &walk->replay->files[walk->file];

    return journal_group_header_read(bytes, header) == ERR_OK && header->random == file->random &&
           header->generation == file->generation && header->number >= walk->number;
}

/* The next group of the generation at or behind the walk's position. ERR_END: there is none. */
static enum err group_find(struct walk *walk, struct journal_group_header *header)
{
    const struct replay_file *file = &walk->replay->files[walk->file];
    size_t size = JOURNAL_GROUP_HEADER_BYTES; /* most are where they are looked for first */

    for (uint64_t position = walk->position; position < file->size;) {
        size_t got = 0;
        enum err err = walk_read(walk, position, size, &got);

        if (err != ERR_OK)
            return err;
        if (got == 0)
            return ERR_END;
        for (size_t at = 0; at < got; at += JOURNAL_BLOCK_BYTES) {
            if (!is_next(walk, bytes_of(walk->buffer + at, got - at), header))
                continue;
            walk->position = position + at;
            return ERR_OK;
        }
        position += (got + JOURNAL_BLOCK_BYTES - 1) / JOURNAL_BLOCK_BYTES * JOURNAL_BLOCK_BYTES;
        size = READ_BYTES;
    }
    return ERR_END;
}

static void lost(struct walk *walk, const char *what)
{
    const struct replay_file *file = &walk->replay->files[walk->file];

    walk->replay->lost++;
    log_error(walk->replay->options.log, "journal is damaged, %s file=%s/%s position=%" PRIu64 " group=%" PRIu32, what,
              walk->replay->options.log_dir, file->name, walk->position, walk->number);
}

static enum err file_walk(struct walk *walk)
{
    bool torn = false; /* the group before was not whole */

    walk->position = JOURNAL_BLOCK_BYTES;
    walk->number = 0;
    for (;;) {
        struct journal_group_header header;
        bool whole = false;
        enum err err = group_find(walk, &header);

        if (err == ERR_END)
            return ERR_OK;
        if (err != ERR_OK)
            return err;
        /* A group is begun only once all before it are on the disk. */
        if (torn || header.number != walk->number)
            lost(walk, "acknowledged records may be missing before");
        walk->number = header.number;
        err = group_take(walk, &header, &whole);
        if (err != ERR_OK)
            return err;
        walk->replay->groups++;
        torn = !whole;
        walk->number++;
        walk->position += whole ? journal_group_bytes(header.entries_bytes) : JOURNAL_BLOCK_BYTES;
    }
}

static enum err walk_all(struct journal_replay *replay)
{
    struct walk walk = {.replay = replay};
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < replay->file_count && err == ERR_OK; i++) {
        walk.file = i;
        if (replay->files[i].used)
            err = file_walk(&walk);
    }
    mem_free(walk.buffer);
    return err;
}

enum err journal_replay_open(const struct journal_replay_options *options, struct journal_replay **replay)
{
    struct journal_replay *made = mem_calloc(1, sizeof(*made));
    enum err err = ERR_OK;

    *replay = NULL;
    if (made == NULL)
        return ERR_NOMEM;
    made->options = *options;
    map_init(&made->logs, 0, REPLAY_LOGS_MAX); /* random ids, which no client chooses */
    err = fs_list(options->fs, options->log_dir, file_found, made);
    for (uint32_t i = 0; i < made->file_count && err == ERR_OK; i++)
        err = file_open(made, &made->files[i]);
    if (err == ERR_OK && made->file_count > 0) {
        qsort(made->files, made->file_count, sizeof(made->files[0]), by_generation);
        if (options->mode == JOURNAL_REPLAY_READ)
            err = walk_all(made);
    }
    if (err != ERR_OK || made->file_count == 0) {
        journal_replay_free(made);
        return err;
    }
    if (options->mode == JOURNAL_REPLAY_READ)
        log_info(options->log,
                 "journals read dir=%s files=%" PRIu32 " groups=%" PRIu64 " entries=%" PRIu64 " damaged=%" PRIu64,
                 options->log_dir, made->file_count, made->groups, made->entries, made->lost);
    *replay = made;
    return ERR_OK;
}

const struct journal_replay_entry *journal_replay_find(const struct journal_replay *replay, struct uuid topic_id,
                                                       int32_t partition, uint32_t *count)
{
    uint8_t key[LOG_KEY_BYTES];
    const struct replay_log *log = NULL;

    *count = 0;
    if (replay == NULL)
        return NULL;
    key_make(key, topic_id, partition);
    log = map_get(&replay->logs, bytes_of(key, sizeof(key)));
    if (log == NULL)
        return NULL;
    *count = log->count;
    return log->entries;
}

enum err journal_replay_read(const struct journal_replay *replay, const struct journal_replay_entry *entry, uint8_t *to)
{
    const struct replay_file *file = &replay->files[entry->file];
    size_t got = 0;
    enum err err = read_at(file, entry->position + JOURNAL_ENTRY_HEADER_BYTES, to, entry->body_bytes, &got);

    return err == ERR_OK && got < entry->body_bytes ? ERR_DAMAGED : err;
}

enum err journal_replay_remove(struct journal_replay *replay)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < replay->file_count && err == ERR_OK; i++) {
        struct log_path path;

        err = log_path_in(&path, replay->options.log_dir, replay->files[i].name);
        if (err == ERR_OK)
            err = fs_unlink(replay->options.fs, path.text);
        if (err == ERR_NOT_FOUND)
            err = ERR_OK;
    }
    return err == ERR_OK ? fs_sync_dir(replay->options.fs, replay->options.log_dir) : err;
}
