/*
 * compacted: a log of records with keys on a world's disk, what was written to it, and what a cleaning may have made of
 * that; for the tests of compaction.
 */
#ifndef OTTLA_TESTS_PARTITION_COMPACTED_H
#define OTTLA_TESTS_PARTITION_COMPACTED_H

#include "keyed.h"
#include "world.h"

enum { COMPACTED_RECORDS_MAX = 4096, COMPACTED_KEYS = 24, COMPACTED_WALL_MS = 1000000 };

struct compacted {
    struct world *world;
    struct keyed_record written[COMPACTED_RECORDS_MAX]; /* by offset */
    int64_t end;
    struct keyed_record there[COMPACTED_RECORDS_MAX]; /* at the last compacted_read */
    uint32_t there_count;
};

/* The world of world_begin, with small segments that are compacted. */
void compacted_begin(struct compacted *compacted, struct world *world, uint64_t seed);
void compacted_append(struct compacted *compacted, struct partition_log *log, struct keyed_make make);
void compacted_append_one(struct compacted *compacted, struct partition_log *log, int64_t key, int64_t value);
/* Of a few records each, drawn. */
void compacted_append_some(struct compacted *compacted, struct partition_log *log, uint32_t batches);

struct compacted_cleaning {
    struct log_clean op;
    bool done;
};

/* Of all that is there, at any pace. */
struct compacted_cleaning compacted_clean_of(const struct partition_log *log);
/* Runs it, and waits. */
void compacted_clean_run(struct world *world, struct partition_log *log, struct compacted_cleaning *cleaned);
/* Syncs, cleans and waits. */
enum err compacted_clean(struct world *world, struct partition_log *log);

/* Every record from offset on, read in pieces: each as it was written, and in order. */
void compacted_read(struct compacted *compacted, struct partition_log *log, int64_t offset);
/* Nobody who reads from the beginning comes to another state than one who read all below end. */
void compacted_check_state(const struct compacted *compacted, int64_t end);
/* Nothing superseded is left below the cleaned offset. */
void compacted_check_clean(const struct compacted *compacted, const struct partition_log *log);
/* All that is there, read from the beginning, holds the three above. */
void compacted_check_all(struct compacted *compacted, struct partition_log *log);
/* No file of a cleaning is left. */
void compacted_check_names(struct world *world);

#endif
