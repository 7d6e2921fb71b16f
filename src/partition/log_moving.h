/*
 * log_moving: one move of a log to another directory under way, for the files that run it: log_move.c (on the reactor:
 * what is next), move_io.c (in jobs: files copied and renamed). Nobody else includes it.
 *
 *     begin -> copy ... (passes over what was appended meanwhile) -> final -> note -> commit -> leave
 *                   \____________ discard, where it is given up __________/
 *
 * A pass copies, in slices of MOVE_SLICE_BYTES, what the segments have more than their copies; with each sealed segment
 * go its indexes and its snapshot. When little is left the log is held: its last job is through, what comes queues. The
 * final job then syncs it as a clean stop does, copies the rest, syncs all of it and gives the copy its name. From
 * there on either directory alone is the whole log; which one it is, is what the metadata says.
 */
#ifndef OTTLA_PARTITION_LOG_MOVING_H
#define OTTLA_PARTITION_LOG_MOVING_H

#include "partition/journal.h"
#include "partition/log.h"
#include "partition/log_internal.h"
#include "partition/log_moved_mark.h"

enum move_stage {
    MOVE_BEGIN,   /* older copies are removed there, the directory is made */
    MOVE_COPY,    /* a slice of one segment */
    MOVE_FINAL,   /* the log is held */
    MOVE_NOTE,    /* the old directory's journal is told */
    MOVE_COMMIT,  /* the caller has it */
    MOVE_LEAVE,   /* the old directory is renamed away */
    MOVE_DISCARD, /* the copy is removed */
};

/* What of a segment is there already; ascending by base. */
struct move_copied {
    int64_t base_offset;
    uint64_t size;
    bool sealed; /* its indexes and its snapshot as well, all synced */
};

/* One that a pass or the final job is to copy. */
struct move_source {
    int64_t base_offset;
    int64_t end_offset;
    uint64_t size;
    bool sealed; /* its files will not change any more */
};

struct log_moving {
    struct loop_job job;
    struct loop_timer pause;
    struct partition_log *log;
    struct log_move *op;
    enum move_stage stage;
    bool running; /* a job, a note or the caller has it */
    bool holds;   /* the log is held, or about to be */
    bool ends;
    enum err ends_err;
    bool stale; /* the log was cut: the copy is of what is no more */
    /* paths */
    char *from_dir;   /* the log's, as it was */
    char *future_dir; /* <topic>-<n>.<32 hex>-future */
    char *place_dir;  /* <topic>-<n> there */
    char *aside_dir;  /* <topic>-<n>.<32 hex>-delete, of the old one */
    char *stray_dir;  /* <topic>-<n>.<32 hex>-stray, of what has the place */
    struct move_copied *copied;
    uint32_t copied_count;
    uint32_t copied_room;
    struct move_source *sources; /* of this pass */
    uint32_t source_count;
    uint32_t at;
    uint32_t passes;
    struct segment *used; /* a use, while a job copies it */
    /* the job's */
    struct fs_file *in;
    struct fs_file *out;
    int64_t open_base; /* of the segment they are of */
    uint64_t unsynced; /* written to out */
    uint64_t unpushed;
    uint8_t *buffer;
    uint64_t copied_bytes; /* of a segment, by the last job */
    uint64_t slice_bytes;  /* copied by the last job */
    bool source_is_done;
    bool in_place;  /* the copy has its name */
    bool later;     /* the old directory stays there for file.delete.delay.ms */
    bool at_target; /* err is of the new directory */
    bool synced;    /* the old log was, as by a clean stop */
    enum err err;
    /* final */
    struct log_sync_plan plan;
    struct log_moved_mark mark;
    struct journal_note note;
    struct fs_file *last; /* out: its file in the new place, so that appends need not wait for a job */
    int64_t held_ns;      /* since when */
    int64_t paced_ns;
};

/* The names that a move of the log to op->to goes by; nothing is begun. ERR_NOMEM, or the topic's name has no room. */
MUST_CHECK enum err log_moving_make(struct partition_log *log, struct log_move *op, struct log_moving **moving);
void log_moving_free(struct log_moving *moving);
/* Runs the stage's job. */
void move_io_run(struct log_moving *moving);
/* Frees what jobs hold. */
void move_io_close(struct log_moving *moving);
/* The entry of a segment, made where there is none. NULL without memory. */
struct move_copied *move_copied_of(struct log_moving *moving, int64_t base_offset);

/* What is still to be copied of the segments as they are now; final: of all, whatever is there. ERR_NOMEM. */
MUST_CHECK enum err move_plan_sources(struct log_moving *moving, bool is_final);
/* Passes get shorter as long as copying is quicker than appending; where it is not, the last one is allowed more. */
bool move_plan_is_near(const struct log_moving *moving);

#endif
