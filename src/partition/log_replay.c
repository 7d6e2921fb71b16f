/* What a start takes from the journals into a log: what was on the disk there, and not yet in the segments. */
#include <inttypes.h>

#include "base/mem.h"
#include "partition/journal_replay.h"
#include "partition/log.h"
#include "partition/log_opening.h"
#include "partition/log_path.h"

enum { REWRITE_BYTES = 1024 * 1024 };

/* The end of the log while batches are added to its files. Its books are kept as far as that takes them: when something
 * was added the log is opened anew, and what is there then is recovered like all else. */
struct adding {
    struct partition_log *log;
    const struct journal_replay *journals;
    struct log_replayed *replayed;
    struct fs_file *file; /* of the last segment; NULL: not open */
    int32_t last_epoch;
    uint8_t *body;
    size_t room;
};

static enum err file_open(struct adding *adding, int64_t base_offset, int flags)
{
    const struct partition_log *log = adding->log;
    struct log_path path;

    fs_file_drop(adding->file);
    adding->file = NULL;
    log_path_segment(&path, log->dir, base_offset, SEGMENT_LOG);
    return fs_open(log->env->fs, path.text, FS_READ | FS_WRITE | flags, &adding->file);
}

static enum err last_sync(struct adding *adding, const struct segment *last)
{
    const struct partition_log *log = adding->log;
    enum err err = adding->file == NULL ? file_open(adding, last->base_offset, 0) : ERR_OK;

    if (err == ERR_OK)
        err = fs_sync(adding->file);
    return err == ERR_OK ? fs_sync_dir(log->env->fs, log->dir) : err;
}

static enum err segment_begin(struct adding *adding, int64_t base_offset)
{
    struct partition_log *log = adding->log;
    const struct segment *last = log_last_segment(log);
    struct segment *segment = NULL;
    enum err err = log_segments_room_make(log);

    /* As where a log is appended to (log_append.c, sealed_sync): what the next power cut takes of it must be missed. */
    if (err == ERR_OK && last != NULL && log_gaps_are_allowed(log, last->base_offset))
        err = last_sync(adding, last);
    if (err == ERR_OK)
        err = file_open(adding, base_offset, FS_CREATE | FS_TRUNCATE);
    if (err != ERR_OK)
        return err;
    segment = mem_alloc(sizeof(*segment));
    if (segment == NULL)
        return ERR_NOMEM;
    segment_init(segment, base_offset, clock_wall_ms(log->env->clock));
    log_segment_add(log, segment);
    return ERR_OK;
}

/* The segment that a batch goes to. */
static enum err segment_provide(struct adding *adding, const struct batch_header *header)
{
    struct partition_log *log = adding->log;
    struct segment *last = log_last_segment(log);

    if (last == NULL || segment_is_full(last, log->config, header->size, header->max_timestamp,
                                        batch_last_offset(header), clock_wall_ms(log->env->clock)))
        return segment_begin(adding, header->base_offset);
    return adding->file == NULL ? file_open(adding, last->base_offset, 0) : ERR_OK;
}

static enum err batch_add(struct adding *adding, const struct batch_header *header, struct bytes batch)
{
    struct partition_log *log = adding->log;
    struct segment *segment = NULL;
    size_t written = 0;
    enum err err = segment_provide(adding, header);

    if (err != ERR_OK)
        return err;
    segment = log_last_segment(log);
    err = fs_write(adding->file, segment->size, &batch, 1, &written);
    if (err == ERR_OK && written < batch.size)
        err = ERR_NO_SPACE;
    if (err != ERR_OK)
        return err;
    segment_book(segment, header, segment->size, log->config->index_interval_bytes);
    log->end_offset = segment->end_offset;
    adding->last_epoch = header->leader_epoch;
    adding->replayed->batches++;
    adding->replayed->changed = true;
    return ERR_OK;
}

static bool continues(const struct adding *adding, const struct batch_header *header, int64_t previous_end)
{
    return adding->log->end_offset == previous_end && header->base_offset >= previous_end &&
           header->leader_epoch >= adding->last_epoch;
}

static enum err body_read(struct adding *adding, const struct journal_replay_entry *entry)
{
    if (entry->body_bytes > adding->room) {
        uint8_t *grown = mem_realloc(adding->body, entry->body_bytes);

        if (grown == NULL)
            return ERR_NOMEM;
        adding->body = grown;
        adding->room = entry->body_bytes;
    }
    return journal_replay_read(adding->journals, entry, adding->body);
}

/* Batch by batch: of an entry the segments may have a part. */
static enum err entry_add(struct adding *adding, const struct journal_replay_entry *entry)
{
    struct partition_log *log = adding->log;
    int64_t previous_end = entry->previous_end;
    struct bytes rest;
    enum err err = ERR_OK;

    if (entry->end_offset <= log->end_offset)
        return ERR_OK;
    err = body_read(adding, entry);
    rest = bytes_of(adding->body, entry->body_bytes);
    while (err == ERR_OK && rest.size > 0) {
        struct batch_header header;

        if (batch_peek(rest, &header, NULL) != ERR_OK || !batch_crc_is_valid(bytes_of(rest.data, header.size)))
            return ERR_DAMAGED;
        if (batch_last_offset(&header) >= log->end_offset) {
            if (!continues(adding, &header, previous_end)) {
                adding->replayed->skipped++;
                return ERR_OK;
            }
            err = batch_add(adding, &header, bytes_of(rest.data, header.size));
        }
        previous_end = batch_last_offset(&header) + 1;
        rest = bytes_of(rest.data + header.size, rest.size - header.size);
    }
    return err;
}

/* The log starts there; where it ended before, what it had is of no use. */
static enum err start_move(struct adding *adding, int64_t start_offset)
{
    struct partition_log *log = adding->log;
    enum err err = ERR_OK;

    if (start_offset <= log->start_offset)
        return ERR_OK;
    adding->replayed->start_offset = start_offset;
    adding->replayed->changed = true;
    log->start_offset = start_offset;
    if (start_offset <= log->end_offset)
        return ERR_OK;
    fs_file_drop(adding->file);
    adding->file = NULL;
    while (err == ERR_OK && log->segment_count > 0) {
        struct segment *last = log_last_segment(log);

        err = log_segment_files_remove(log, last->base_offset);
        segment_deinit(last);
        mem_free(last);
        log->segment_count--;
    }
    log->end_offset = start_offset;
    return err;
}

enum err log_replay_journals(struct partition_log *log, const struct journal_replay *journals,
                             struct log_replayed *replayed)
{
    struct adding adding = {
        .log = log, .journals = journals, .replayed = replayed, .last_epoch = partition_log_last_epoch(log)};
    uint32_t count = 0;
    const struct journal_replay_entry *entries = journal_replay_find(journals, log->topic_id, log->partition, &count);
    enum err err = ERR_OK;

    *replayed = (struct log_replayed){.start_offset = log->start_offset};
    for (uint32_t i = 0; i < count && err == ERR_OK; i++) {
        err =
            entries[i].type == JOURNAL_START ? start_move(&adding, entries[i].offset) : entry_add(&adding, &entries[i]);
        if (err == ERR_DAMAGED) { /* it checked when it was found */
            log_error(log->env->log,
                      "journal entry is damaged, left out topic=%s partition=%" PRId32 " offset=%" PRId64, log->topic,
                      log->partition, entries[i].offset);
            replayed->skipped++;
            err = ERR_OK;
        }
    }
    if (replayed->batches > 0 || replayed->skipped > 0)
        log_info(log->env->log,
                 "log continued from the journals topic=%s partition=%" PRId32 " end_offset=%" PRId64
                 " batches=%" PRIu32 " entries_skipped=%" PRIu32,
                 log->topic, log->partition, log->end_offset, replayed->batches, replayed->skipped);
    if (err != ERR_OK)
        log_error(log->env->log, "journals not replayed topic=%s partition=%" PRId32 " err=%s", log->topic,
                  log->partition, err_name(err));
    fs_file_drop(adding.file);
    mem_free(adding.body);
    return err;
}

/* --- after a sync that failed --- */

static enum err file_rewrite(struct fs_file *file, uint64_t size, uint8_t *buffer)
{
    for (uint64_t position = 0; position < size;) {
        size_t got = 0;
        size_t written = 0;
        struct bytes piece;
        enum err err = fs_read(file, position, buffer, REWRITE_BYTES, &got);

        if (err != ERR_OK || got == 0)
            return err;
        piece = bytes_of(buffer, got);
        err = fs_write(file, position, &piece, 1, &written);
        if (err != ERR_OK)
            return err;
        if (written < got)
            return ERR_NO_SPACE;
        position += got;
    }
    return ERR_OK;
}

enum err log_rewrite(struct opening *opening)
{
    struct partition_log *log = opening->log;
    uint8_t *buffer = mem_alloc(REWRITE_BYTES);
    enum err err = buffer == NULL ? ERR_NOMEM : ERR_OK;

    for (uint32_t i = 0; i < log->segment_count && err == ERR_OK; i++) {
        const struct segment *segment = log->segments[i];
        struct fs_file *file = NULL;
        struct log_path path;

        if (segment->settled || segment->size == 0)
            continue;
        log_path_segment(&path, log->dir, segment->base_offset, SEGMENT_LOG);
        err = fs_open(log->env->fs, path.text, FS_READ | FS_WRITE, &file);
        if (err == ERR_OK)
            err = file_rewrite(file, segment->size, buffer);
        fs_file_drop(file);
    }
    mem_free(buffer);
    return err;
}

/* --- the door --- */

/* What the journals have and the segments lack is added to the files first, and then recovered as if it had been there:
 * from the recovery point on all is read again. */
static enum err open_with_journals(const struct partition_env *env, const struct partition_log_spec *spec,
                                   struct partition_log **log, struct partition_log_recovery *recovery)
{
    struct partition_log_spec again = *spec;
    struct log_replayed replayed = {0};
    enum err err = log_open_once(env, spec, log, recovery);

    if (err != ERR_OK || spec->journals == NULL || spec->clean)
        return err;
    err = log_replay_journals(*log, spec->journals, &replayed);
    if (err == ERR_OK && !replayed.changed) {
        if (recovery != NULL)
            recovery->entries_skipped = replayed.skipped;
        return ERR_OK;
    }
    log_free(*log);
    if (err != ERR_OK)
        return err;
    again.start_offset = replayed.start_offset;
    err = log_open_once(env, &again, log, recovery);
    if (err == ERR_OK && recovery != NULL) {
        recovery->batches_replayed = replayed.batches;
        recovery->entries_skipped = replayed.skipped;
    }
    return err;
}

/* What an opening writes (a new directory and its id, what a recovery leaves) is what a start must find room for. */
enum err partition_log_open(const struct partition_env *env, const struct partition_log_spec *spec,
                            struct partition_log **log, struct partition_log_recovery *recovery)
{
    struct dir_relief relief = {0};
    enum err err = ERR_OK;

    do
        err = open_with_journals(env, spec, log, recovery);
    while (err == ERR_NO_SPACE && dir_space_relieve(env->space, &relief));
    return err;
}
