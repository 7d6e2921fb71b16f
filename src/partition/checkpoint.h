/*
 * checkpoint: Kafka's text files of numbers: the offset checkpoints of a log directory ("topic partition offset"), the
 * leader-epoch-checkpoint of a partition ("epoch startOffset"), and partition.metadata (on-disk.md 2).
 *
 * Format   a line "0" (version), a line with the count, a line for each entry. Offset checkpoints that we write have
 * two spaces before the offset: Kafka reads any number of them and writes one, so the file tells who wrote it last.
 * Threads  all calls block: in a job.
 */
#ifndef OTTLA_PARTITION_CHECKPOINT_H
#define OTTLA_PARTITION_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/uuid.h"
#include "partition/epoch_cache.h"
#include "partition/text_file.h"

struct checkpoint_offset {
    struct bytes topic; /* points into the text it was read from */
    int32_t partition;
    int64_t offset;
};

struct checkpoint_offsets {
    struct checkpoint_offset *entries;
    uint32_t count;
    bool is_ours;     /* written by us; true as well where there is no entry to tell by */
    struct text text; /* holds the names */
};

/* ERR_NOT_FOUND; ERR_DAMAGED: another version, a count that disagrees, a line that is none. An empty file has no
 * entries. */
MUST_CHECK enum err checkpoint_read_offsets(struct fs *fs, const char *dir, const char *name,
                                            struct checkpoint_offsets *offsets);
void checkpoint_offsets_deinit(struct checkpoint_offsets *offsets);
MUST_CHECK enum err checkpoint_write_offsets(struct fs *fs, const char *dir, const char *name,
                                             const struct checkpoint_offset *entries, uint32_t count);

/* Into an empty cache; entries that do not ascend are ERR_DAMAGED. */
MUST_CHECK enum err checkpoint_read_epochs(struct fs *fs, const char *dir, struct epoch_cache *epochs);
/* The file's content; checkpoint_write_epochs writes it. Two steps, so that the text can be made on the reactor. */
void checkpoint_format_epochs(const struct epoch_cache *epochs, struct text *text);
/* The directory is the caller's to sync; without sync so is the file. */
MUST_CHECK enum err checkpoint_write_epochs(struct fs *fs, const char *dir, const struct text *text, bool sync);
/* In two steps: the content under another name; then, when that is synced, the name. */
MUST_CHECK enum err checkpoint_write_epochs_beside(struct fs *fs, const char *dir, const struct text *text);
MUST_CHECK enum err checkpoint_name_epochs(struct fs *fs, const char *dir);
/* Where there is none the epochs are had from the batches. It need not be there. */
MUST_CHECK enum err checkpoint_remove_epochs(struct fs *fs, const char *dir);

/* ERR_NOT_FOUND; ERR_DAMAGED: not "version: n" and "topic_id: <uuid>", or a zero id. */
MUST_CHECK enum err checkpoint_read_topic_id(struct fs *fs, const char *dir, struct uuid *topic_id);
/* Not synced: what is lost with a power cut is written again, as no record was in the log yet. */
MUST_CHECK enum err checkpoint_write_topic_id(struct fs *fs, const char *dir, struct uuid topic_id);
/* Syncs partition.metadata: to be called before the first record of the log is written. */
MUST_CHECK enum err checkpoint_sync_topic_id(struct fs *fs, const char *dir);

#endif
