/*
 * log_check_internal: what the files of the check share: log_check.c (the directory and its small files),
 * log_check_segment.c (a segment), log_check_indexes.c (its indexes). Nobody else includes it.
 */
#ifndef OTTLA_PARTITION_LOG_CHECK_INTERNAL_H
#define OTTLA_PARTITION_LOG_CHECK_INTERNAL_H

#include "partition/batch_walk.h"
#include "partition/damage.h"
#include "partition/epoch_cache.h"
#include "partition/log_check.h"
#include "partition/log_path.h"
#include "partition/text_file.h"

/* What is known while the segments of a partition are read, oldest first. */
struct checking {
    struct log_check *check;
    const char *dir;
    int64_t recovery_point;
    int64_t next_offset; /* the lowest that the next segment may begin at */
    bool tail_torn;
    struct epoch_cache epochs;
    bool epochs_known;
    struct damage damage;
};

/* An index file beside the walk over its segment: entries are held against the batches as they come. */
struct index_check {
    struct text content;
    bool there;
    size_t at;   /* bytes of it that are done with */
    size_t used; /* bytes without a preallocated tail of zeroes */
    char name[LOG_SEGMENT_NAME_BYTES_MAX];
};

struct segment_check {
    struct checking *checking;
    int64_t base_offset;
    bool is_last;
    char name[LOG_SEGMENT_NAME_BYTES_MAX];
    struct index_check offsets;
    int64_t pending_offset; /* of an entry whose batch has not come yet; -1: none */
    size_t pending_at;      /* where that entry stands */
    struct index_check times;
    struct index_check txns;
    int64_t max_timestamp;
    bool times_unknown; /* damage hides some */
    uint64_t epochs_wrong;
    int64_t *aborts; /* pairs of producer id and offset: the abort markers of the segment */
    uint32_t abort_count;
    uint32_t abort_room;
};

/* Reads the three index files of the segment. */
MUST_CHECK enum err segment_check_indexes_begin(struct segment_check *segment);
void segment_check_indexes_deinit(struct segment_check *segment);
/* The offset index as a set of boundaries; left empty where it is not whole. */
MUST_CHECK enum err segment_check_indexes_boundaries(const struct segment_check *segment, uint64_t size,
                                                     struct offset_index *index);
void segment_check_indexes_batch(struct segment_check *segment, uint64_t position, const struct batch_header *head);
/* Entries that point into it are not to be judged. */
void segment_check_indexes_damage(struct segment_check *segment, const struct batch_extent *extent);
void segment_check_indexes_end(struct segment_check *segment, int64_t end_offset);

MUST_CHECK enum err segment_check_run(struct checking *checking, int64_t base_offset, int64_t next_base);

#endif
