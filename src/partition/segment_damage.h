/*
 * segment_damage: where in a segment's file damage lies, for those who meet it: a recovery that has to go on behind it,
 * a reader who has to say which offsets it cost.
 *
 * Threads  all calls block: in a job.
 */
#ifndef OTTLA_PARTITION_SEGMENT_DAMAGE_H
#define OTTLA_PARTITION_SEGMENT_DAMAGE_H

#include "partition/batch_walk.h"
#include "partition/damage.h"
#include "partition/segment.h"

/* The segment's index file as places to go on from; empty where it cannot be read. ERR_NOMEM. */
MUST_CHECK enum err segment_damage_boundaries(struct fs *fs, const char *dir, int64_t base_offset, uint64_t size,
                                              struct offset_index *offsets);

/*
 * A recovery that came to a bad batch below what was synced: notes the range in how->damage and moves the books behind
 * it. Bytes stay as they are.
 *
 * ERR_DAMAGED  no, what lies there is whole after all
 */
MUST_CHECK enum err segment_damage_pass(struct segment *segment, struct fs *fs, const char *dir, struct fs_file *file,
                                        uint64_t size, const struct segment_recovery *how);

/* What a reader met in a segment. */
struct segment_damage_search {
    /* in */
    struct fs *fs;
    const char *dir;
    struct fs_file *file;
    int64_t base_offset;
    int64_t end_offset; /* of the segment's offsets */
    uint64_t size;
    int64_t offset; /* wanted: the search ends behind the batch that holds it */
    bool gaps_allowed;
    /* out */
    struct damage damage; /* ranges met on the way; damage_deinit them */
    bool found;           /* the batch is there, and whole */
    uint64_t position;
};
/* Walks from the last whole place that the index knows before the offset, with checksums. */
MUST_CHECK enum err segment_damage_search(struct segment_damage_search *search);

#endif
