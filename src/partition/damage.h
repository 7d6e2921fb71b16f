/*
 * damage: which ranges of a log are known to be damaged: below what was synced, kept as they lie there and never
 * served. Kept in a file of the partition's directory that Apache Kafka ignores, so that a start knows them without
 * reading the log.
 *
 * File     "ottla-damage", big-endian: magic "OTTLADMG", version (4 bytes), CRC-32C of the version and of
 *          what follows (4), count (4), then for
 *          each range 48 bytes: first offset, end offset, base offset of its segment, position, size, time found in ms.
 *          There is none when nothing is damaged.
 * Always holds  ranges ascend by offset and do not overlap; at most DAMAGE_RANGES_MAX of them: beyond it a new one is
 *               joined with its neighbour, and what lies between the two is not served either.
 * Threads  the set is its owner's; reading and writing the file blocks: in a job.
 */
#ifndef OTTLA_PARTITION_DAMAGE_H
#define OTTLA_PARTITION_DAMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/fs.h"

#define DAMAGE_FILE "ottla-damage"

enum {
    DAMAGE_VERSION = 1,
    DAMAGE_HEAD_BYTES = 20,
    DAMAGE_RANGE_BYTES = 48,
    DAMAGE_RANGES_MAX = 1024, /* of one partition: 48 kB of file; a disk with more of them is to be replaced */
};

/* Offsets [first_offset, end_offset), where they lie, and since when that is known. */
struct damage_range {
    int64_t first_offset;
    int64_t end_offset;
    int64_t segment_base;
    uint64_t position; /* in the segment's file */
    uint64_t size;
    int64_t found_ms; /* wall clock */
};

/* All-zero is empty. */
struct damage {
    struct damage_range *ranges;
    uint32_t count;
    uint32_t room;
};

void damage_deinit(struct damage *damage);

/* Adds a range; one that is known already changes nothing, what overlaps becomes one. changed: out. ERR_NOMEM. */
MUST_CHECK enum err damage_add(struct damage *damage, const struct damage_range *range, bool *changed);
/* Forgets all of [first_offset, end_offset); ranges that reach further are cut, and keep their bytes. True: there was
 * something to forget. ERR_NOMEM cannot be: a range that would be split is kept whole. */
bool damage_forget(struct damage *damage, int64_t first_offset, int64_t end_offset);

/* The range that holds offset; NULL: none. */
const struct damage_range *damage_at(const struct damage *damage, int64_t offset);
/* The first range that ends above offset, whether or not it holds it; NULL: none. */
const struct damage_range *damage_from(const struct damage *damage, int64_t offset);
/* The last range that ends at or below offset in the segment of that base; NULL: none. */
const struct damage_range *damage_before(const struct damage *damage, int64_t segment_base, int64_t offset);

/* The file's content; mem_free it. ERR_NOMEM. */
MUST_CHECK enum err damage_format(const struct damage *damage, uint8_t **data, size_t *size);
/* Into an empty set. ERR_DAMAGED: no such file; ERR_UNSUPPORTED_VERSION: whole, and of a later build. */
MUST_CHECK enum err damage_parse(struct damage *damage, struct bytes file);

/* ERR_NOT_FOUND; else as damage_parse. */
MUST_CHECK enum err damage_read(struct fs *fs, const char *dir, struct damage *damage);
/* Replaces the file, synced; removes it where nothing is damaged. */
MUST_CHECK enum err damage_write(struct fs *fs, const char *dir, struct bytes content);

#endif
