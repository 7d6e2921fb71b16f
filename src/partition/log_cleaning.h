/*
 * log_cleaning: one cleaning of a log under way, for the files that run it: log_clean.c (on the reactor: what is next),
 * clean_io.c (in jobs: files read and written). Nobody else includes it.
 *
 *     prepare -> map -> (filter -> finish -> swap -> replace)* -> over
 *                        \__ discard, where a group is given up __/
 *
 * A job runs for a slice of CLEAN_SLICE_BYTES, so that neither an I/O thread is taken for long nor a stop has to wait.
 * Files of a group: <base>.log.cleaned and its indexes are written and synced, renamed to .swap and those names synced;
 * from then on a start finishes what is left (log_swap.h).
 */
#ifndef OTTLA_PARTITION_LOG_CLEANING_H
#define OTTLA_PARTITION_LOG_CLEANING_H

#include "partition/batch_scan.h"
#include "partition/clean_plan.h"
#include "partition/cleaner.h"
#include "partition/log.h"
#include "partition/log_internal.h"

#define SUFFIX_CLEANED ".cleaned"
#define SUFFIX_SWAP    ".swap"

enum clean_stage {
    CLEAN_PREPARE, /* aborted transactions and sizes of indexes are read */
    CLEAN_MAP,
    CLEAN_FILTER,
    CLEAN_FINISH,  /* the new files are whole and synced */
    CLEAN_SWAP,    /* they are renamed to .swap */
    CLEAN_REPLACE, /* log_segments_replace has them */
    CLEAN_DISCARD, /* they are removed */
};

struct log_cleaning {
    struct loop_job job;
    struct loop_timer pause;
    struct partition_log *log;
    struct log_clean *op;
    enum clean_stage stage;
    enum err err;      /* of the job */
    enum err ends_err; /* once it is to end: why */
    bool ends;
    struct log_config config; /* as of the beginning */
    struct cleaner_spec spec;
    struct clean_range range;
    int64_t decided_end; /* the log's, then: markers of what is stable lie below it */
    struct clean_source *sources;
    uint32_t source_count; /* those that are cleaned; after the map, those that begin below its end */
    struct cleaner_producer *producers;
    struct cleaner_aborted *aborted;
    uint32_t aborted_count;
    uint32_t aborted_room;
    struct clean_source *aborted_files; /* whose .txnindex has to be read */
    uint32_t aborted_file_count;
    struct segment **used; /* uses, while a job goes by their names */
    uint32_t used_count;
    struct cleaner *cleaner;
    uint32_t at; /* present source */
    uint32_t group_first;
    uint32_t group_end;
    bool source_is_done; /* out of a slice */
    bool map_is_full;
    /* reading */
    struct fs_file *in;
    struct batch_scan scan;
    int64_t next_offset; /* no batch begins below it */
    /* writing */
    struct fs_file *out;
    uint8_t *buffer;
    size_t buffered;
    uint64_t written;     /* of the .log.cleaned, without what is buffered */
    uint64_t pushed;      /* of it, on its way to the disk */
    bool changed;         /* the new segment differs from the old */
    struct segment *made; /* the new segment's books */
    struct log_replace replace;
    /* pace and sums */
    uint64_t slice_bytes; /* read and written by the last job */
    int64_t paced_ns;     /* when what was done so far is due */
};

/* Each runs one slice of the stage; everything but err and what is called out above is the job's alone meanwhile. */
void clean_io_run(struct log_cleaning *cleaning);
/* Adds what an index of aborted transactions holds. ERR_NOMEM. */
MUST_CHECK enum err clean_io_aborted_add(struct log_cleaning *cleaning, const struct txn_index *index);
/* Frees what jobs hold. May block where a file was unlinked: in a job, or when nothing was opened. */
void clean_io_close(struct log_cleaning *cleaning);

#endif
