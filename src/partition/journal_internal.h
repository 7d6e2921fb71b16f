/*
 * journal_internal: what the files of a journal share: journal.c (life, logs, notes), journal_files.c (its files),
 * journal_group.c (what goes to the disk together). Nobody else includes it.
 */
#ifndef OTTLA_PARTITION_JOURNAL_INTERNAL_H
#define OTTLA_PARTITION_JOURNAL_INTERNAL_H

#include "partition/journal.h"
#include "partition/partition_limits.h"

enum journal_file_state {
    JOURNAL_FILE_ABSENT,
    JOURNAL_FILE_PREPARING, /* a job makes it, or gives it its next generation */
    JOURNAL_FILE_FREE,
    JOURNAL_FILE_USED,
};

struct journal_file {
    struct journal *journal;
    enum journal_file_state state;
    struct fs_file *file;
    uint64_t name; /* the last part of its name: its first generation */
    uint64_t generation;
    uint64_t random;
    uint64_t position; /* of the next group */
    uint32_t groups;
    bool kept;              /* for the next start: it is not used again */
    struct list clients;    /* whose oldest it is */
    struct list_node order; /* in the list of its state, oldest first */
};

struct journal_group {
    uint8_t *buffer; /* begins with room for the header */
    size_t room;
    size_t size; /* 0: empty */
    uint32_t entries;
    struct list refs;
    struct list notes;
};

struct write_job {
    struct loop_job job;
    struct journal *journal;
    struct journal_group *group;
    struct journal_file *file;
    uint64_t position;
    uint32_t number;
    enum err err;
    bool sync_failed;
};

struct file_job {
    struct loop_job job;
    struct journal *journal;
    struct journal_file *file;
    bool make;
    enum err err;
    bool sync_failed;
};

struct journal {
    const struct partition_env *env;
    struct journal_options options;
    uint64_t file_bytes;
    uint64_t generation; /* of the next file */
    struct journal_file files[JOURNAL_FILES_MAX];
    struct list free;
    struct list used;
    struct journal_group groups[2];
    uint32_t filling;
    bool wanted; /* the filling group is to go to the disk */
    bool deferred;
    bool writing;
    bool preparing;
    bool failed;
    bool noted; /* something besides appends was */
    struct journal_close *closing;
    struct list behind;
    uint32_t syncing;          /* of the logs behind */
    struct list notes_waiting; /* for room */
    int64_t make_again_ns;     /* not before: the disk was full */
    struct loop_timer timer;   /* for what waits for room on the disk */
    struct loop_task task;
    struct write_job write_job;
    struct file_job file_job;
};

/* --- journal.c --- */

/* Something ended: what waited for it. */
void journal_go_on(struct journal *journal);
/* At that time, even if nothing ends before; no timer outlives the journal. */
void journal_look_again(struct journal *journal, int64_t at_ns);
/* A closing journal at rest is closed. */
void journal_close_go_on(struct journal *journal);
/* For good: nothing that is not on the disk yet will be promised by this journal. Whoever waits is told, but for the
 * group that is being written, whose end its job brings. */
void journal_fail(struct journal *journal, enum err err, const char *what);
void journal_notes_end(struct list *notes, enum err err);
/* The log's segments are to be synced when it is its turn. */
void journal_behind_add(struct journal_client *client);
void journal_behind_go_on(struct journal *journal);

/* Journals of an earlier run lie beside it still. */
bool journal_has_elders(const struct journal *journal);

/* --- journal_files.c --- */

/* An error of a write, which may pass. */
bool journal_may_pass(enum err err);
/* The file that fills; NULL: none yet. */
struct journal_file *journal_current(const struct journal *journal);
/* One file is kept free ahead. Where there is none to be had, the logs with entries in the oldest are to sync. */
void journal_files_provide(struct journal *journal);

/* --- journal_group.c --- */

struct journal_group *journal_filling(struct journal *journal);
/* False: there is no room. */
bool journal_entry_add(struct journal *journal, const struct journal_entry *entry);
/* The group that fills will never be written. */
void journal_filling_fail(struct journal *journal);
void journal_turn_ends(struct loop_task *task);

#endif
