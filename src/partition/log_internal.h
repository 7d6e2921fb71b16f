/*
 * log_internal: what the files of the log share: log_open.c (open, recovery), log.c (facts, timer),
 * log_files.c, log_append.c, log_journal.c, log_read.c, log_aborted.c, log_find.c, log_sync.c, log_remove.c,
 * log_retain.c,
 * log_move.c, log_close.c. Nobody else includes it.
 */
#ifndef OTTLA_PARTITION_LOG_INTERNAL_H
#define OTTLA_PARTITION_LOG_INTERNAL_H

#include "partition/damage.h"
#include "partition/epoch_cache.h"
#include "partition/log.h"
#include "partition/log_path.h"
#include "partition/producer_state.h"
#include "partition/segment.h"
#include "partition/text_file.h"

/* What an append waits for: one job at a time. */
enum log_append_job_kind { LOG_JOB_CREATE, LOG_JOB_ROLL, LOG_JOB_CUT, LOG_JOB_RELIEVE };
struct log_append_job;
struct log_journal;
struct log_sync_job;

/* What a log has only while somebody uses it: thousands of idle ones share one that is empty (log_files.c). */
struct log_awake {
    struct partition_log *log;
    struct list appends; /* that queue */
    struct log_append_job *append_job;
    struct list syncs; /* that wait */
    struct log_sync_job *sync_job;
    uint64_t unsynced_bytes; /* that the segments lack */
    int64_t counted_bytes;   /* of those, in the directory's count for this log */
    int64_t lent_bytes;      /* of those, which the sync under way counts */
    uint64_t unpushed_bytes; /* written since the last push */
    struct dirty_waiter dirty_waiter;
    struct list_node by_dirty; /* in env->sync_group while there are un-synced bytes */
    int64_t unsynced_since_ns;
    int64_t unpromised_since_ns; /* of what lies above synced_offset */
    struct list reads;           /* that wait for a segment's file */
    struct list finds;           /* that wait for segments to be replaced */
    struct list lookups;         /* of aborted transactions, that wait for an index */
    struct list_node by_use;     /* in env->files while files are open */
    int64_t last_use_ns;
    uint32_t open_files;
    struct dir_relief relief; /* of the append that finds no room */
};

struct partition_log {
    const struct partition_env *env;
    char *dir; /* path of the partition's directory */
    struct uuid topic_id;
    int32_t partition;
    struct log_config *config; /* a holder of it */

    struct segment **segments; /* ascending; the last is the one appended to */
    uint32_t segment_count;
    uint32_t segment_room;
    int64_t start_offset;
    int64_t end_offset;
    int64_t synced_offset;   /* below it all is on stable storage, in the segments or in the journal */
    int64_t segments_synced; /* below it in the segments */
    int64_t unsynced_from;   /* from here on it is not, only that the log begins higher; -1: it does not */
    uint64_t size;
    struct epoch_cache epochs;
    struct producer_state producers;
    int64_t snapshot_offset; /* of the newest snapshot file; -1: none */

    struct log_awake *awake; /* not to be written to before log_wake */

    struct log_journal *journal; /* NULL until something was given to the journal */
    atomic_uint *unsettled;      /* of the directory; NULL: it was told, or nobody asks */
    int64_t found_end;           /* where the log ended when it was opened */
    uint64_t anchor_bytes;       /* written since the last anchor */

    struct damage damage;              /* ranges that are not served */
    struct log_damage_job *damage_job; /* writes them down */
    struct log_rate damage_rate;       /* of lines that a reader causes by asking again */

    struct log_removal *removal; /* of segments; NULL: nothing is to be done */
    int64_t retain_limit;        /* the wanted roll is for a retention up to here; -1: it is not */

    struct log_truncation *truncation; /* that waits or is under way */
    int64_t truncated_until;           /* a recovery point above the cut may be told up to this one; -1: none may */
    struct log_cleaning *cleaning;     /* under way */
    struct log_moving *moving;         /* to another directory */
    int64_t cleaned_offset;            /* -1: it was never cleaned */
    int64_t clean_again_ns;            /* not before; a cleaning has failed */
    int64_t unopened_offset;           /* of the batch that was last said not to be opened; -1 */
    int64_t unwalked_offset;           /* up to here it has been said which segments cannot be walked; -1 */

    struct partition_log_close *closing;
    struct loop_timer timer;
    int64_t expired_ns; /* when silent producers were last forgotten */
    void (*changed)(void *context);
    void *changed_context;

    /* Small ones, together: thousands of idle logs do not hold the gaps between them. */
    uint32_t jobs;        /* under way; the log is freed when there are none */
    uint32_t damage_told; /* ranges that were reported before the log was adopted */
    bool essential;
    bool adopted;
    bool failed;
    bool deleting;
    bool close_running; /* its last job: no other begins */
    bool draining;      /* the queue of appends is being worked on: nested calls only add to it */
    bool change_pending;
    bool roll_wanted;       /* before the next append, or without any */
    bool giving_back;       /* a job is about to close the files */
    bool placed;            /* the directory and whose it is are certain to be there after a power cut */
    bool names_changed;     /* files were made in dir since its last sync */
    bool dir_is_new;        /* made by this opening */
    bool parent_unsynced;   /* the log directory's entry for dir may not be synced yet */
    bool topic_id_unsynced; /* partition.metadata was written and not yet synced */
    bool sync_waits;        /* it is due, and waits for the group */
    bool sync_has_tails;    /* the present sync writes index entries: nobody else may */
    bool pushing;
    bool damage_unwritten;
    bool lookup_is_running; /* a job loads one */
    bool has_aborted;       /* some segment may have aborted transactions */
    char topic[];           /* a NUL follows */
};

/* --- log.c --- */

void log_free(struct partition_log *log);
struct segment *log_last_segment(const struct partition_log *log); /* NULL: none */
/* The last segment whose base is at or below offset; NULL: none. slot may be NULL. */
struct segment *log_segment_at(const struct partition_log *log, int64_t offset, uint32_t *slot);
bool log_is_segment_base(const struct partition_log *log, int64_t offset);
/* Whether offsets may be missing in the segment that holds offset: compaction leaves gaps, also in a log that is not
 * compacted any more. */
bool log_gaps_are_allowed(const struct partition_log *log, int64_t offset);
/* Room in the list for one more. ERR_NOMEM. */
MUST_CHECK enum err log_segments_room_make(struct partition_log *log);
/* Takes the segment to the end of the list, where room was made. */
void log_segment_add(struct partition_log *log, struct segment *segment);
/* An error of the file system: fatal ones fail the log and report the directory. Gives what the op is to be told. */
enum err log_storage_error(struct partition_log *log, enum err err, const char *what);
/* Sets the timer for what is next. */
void log_timer_set(struct partition_log *log);
/* Offsets moved: tells whoever listens, at a point where the log is at rest. */
void log_tell_change(struct partition_log *log);
void log_job_started(struct partition_log *log);
/* The last of a closing log goes on with the close. Nothing of the log may be used after it. */
void log_job_ended(struct partition_log *log);
/* Whether what deletes may go by the wall clock. */
bool log_trusts_wall_clock(const struct partition_log *log);

/* Forgets the producers that have been silent for producer.id.expiration.ms. */
void log_producers_expire(struct partition_log *log);

/* --- log_files.c --- */

/* From here on it may be used, until it has been idle for a while: whoever adds to its lists or begins a job that does
 * calls this first. ERR_NOMEM. */
MUST_CHECK enum err log_wake(struct partition_log *log);
bool log_is_awake(const struct partition_log *log);
/* Nothing of it is in use: what only such logs need is given back, from the loop alone, where nobody below looks at it
 * any more. Does nothing to one that is. */
void log_sleep(struct partition_log *log);
/* Of one that was just made: it sleeps. */
void log_awake_init(struct partition_log *log);
void log_awake_free(struct partition_log *log);
/* Touched: its files stay open for a while. The log is awake. */
void log_use(struct partition_log *log);
/* The segment has its file now; over the bound some other log gives its files back. */
void log_file_opened(struct partition_log *log, struct segment *segment, struct fs_file *file);
void log_file_close(struct partition_log *log, struct segment *segment);
/* Opens the segment's file and reads its indexes by a job; when it is through, waiting appends and reads go on, or are
 * failed. ERR_NOMEM: there is no job. */
MUST_CHECK enum err log_segment_open(struct partition_log *log, struct segment *segment);
/* No job is under way, nothing waits and all is synced. */
bool log_is_at_rest(const struct partition_log *log);
/* A job writes what index entries are not in the files yet; then the files are closed, unless it is used meanwhile. */
void log_files_give_back(struct partition_log *log);

/* --- log_remove.c --- */

/*
 * Segments may leave the list at any time; what goes on meanwhile keeps what it needs:
 *   the file   by its own reference (fs_file_keep): reads, ranges on their way out;
 *   the names  and the struct, by a use: jobs that open, sync or write by name. Names are renamed when the last lets
 * go. A job that has a use looks at segment->removed before it books anything.
 */
void log_segment_use(struct segment *segment);
/* Before log_job_ended. The segment may be gone afterwards. */
void log_segment_let_go(struct partition_log *log, struct segment *segment);
/* Any of them is being replaced. */
bool log_segments_are_moving(const struct partition_log *log, uint32_t first, uint32_t count);
/*
 * Takes segments out at the list's beginning or end, at once; none may be moving. A job renames their files to .deleted
 * and syncs the directory, another unlinks them after file.delete.delay.ms. Size is kept true; start, end, epochs and
 * the rest are the caller's to move. ERR_NOMEM: nothing was done.
 */
MUST_CHECK enum err log_segments_remove(struct partition_log *log, uint32_t first, uint32_t count);

struct log_replace {
    /* in */
    struct segment *segment; /* heap; its files are <base>.log.swap and so on, synced, names too. The log's when it has
                                succeeded (NULL then), else the caller's still */
    uint32_t count;          /* of segments from the one with its base on, all settled, not the last one; none of them
                                may be removed or replaced until it is done */
    void (*done)(struct log_replace *op);
    enum err err; /* out: ERR_NOMEM, ERR_CLOSED, ERR_KAFKA_STORAGE_ERROR */
};
/* One at a time. Old files are renamed to .deleted, the new ones to their names; readers see the old ones until then,
 * and wait where they would have to open them by name. */
void log_segments_replace(struct partition_log *log, struct log_replace *op);

/* For the log's timer, failure and end. */
int64_t log_removal_due_ns(const struct partition_log *log);
void log_removal_timer_fired(struct partition_log *log);
void log_removal_fail(struct partition_log *log, enum err err); /* what has not begun */
void log_removal_free(struct partition_log *log);
/* From here to the unlinking of files that were renamed aside: file.delete.delay.ms; none where the disk is full, since
 * who deletes then wants the room. */
int64_t log_delete_delay_ns(const struct partition_log *log);

/* --- log_retain.c --- */

/* Removes the segments that lie wholly below the start, but for those that are being replaced. */
void log_remove_below_start(struct partition_log *log);
/* A segment was begun: what waited for it is removed. */
void log_retain_go_on(struct partition_log *log);

/* --- log_move.c --- */

bool log_move_holds(const struct partition_log *log);
/* The last job is through. */
void log_move_go_on(struct partition_log *log);
/* The log was cut: what was copied is no copy of it any more. */
void log_move_stale(struct partition_log *log);
/* A closing or failed log: the move ends at the next chance. */
void log_move_end(struct partition_log *log);

/* --- log_truncate.c --- */

/* While a log is being cut, or about to be, or changes its directory: nothing new is begun, what comes queues. */
static inline bool log_is_held(const struct partition_log *log)
{
    return log->truncation != NULL || (log->moving != NULL && log_move_holds(log));
}
bool log_truncation_is_running(const struct partition_log *log);
/* The last job is through. */
void log_truncation_go_on(struct partition_log *log);
void log_truncation_fail(struct partition_log *log, enum err err); /* one that has not begun */
/* The epoch begins where the log ends when that is known. False: it is known. */
bool log_truncation_takes_epoch(struct partition_log *log, int32_t epoch);

/* --- log_append.c --- */

void log_appends_drain(struct partition_log *log);
/* Begins a new segment at the end, where the last one is not empty. */
void log_roll(struct partition_log *log);
void log_appends_fail(struct partition_log *log, enum err err);

/* --- log_damage.c --- */

/* A job or a walk met these ranges: they are marked, reported once, and not served from here on. */
void log_damage_note(struct partition_log *log, const struct damage *found);
/* The log ends there now. */
void log_damage_cut(struct partition_log *log, int64_t end_offset);
/* Where in the segment's file the last damage before offset ends; 0: there is none. */
uint64_t log_damage_floor(const struct partition_log *log, int64_t segment_base, int64_t offset);
void log_damage_adopt(const struct partition_log *log);

/* --- log_read.c --- */

void log_reads_retry(struct partition_log *log);
void log_reads_fail(struct partition_log *log, enum err err);
/* Those that wait for that segment to be opened; the others are tried again. */
void log_reads_fail_of(struct partition_log *log, const struct segment *segment, enum err err);

/* --- log_find.c --- */

void log_finds_retry(struct partition_log *log);
void log_finds_fail(struct partition_log *log, enum err err);

/* --- log_clean.c --- */

/* A closing or failed log: the cleaning ends at the next chance. */
void log_cleaning_end(struct partition_log *log);

/* --- log_aborted.c --- */

void log_lookups_retry(struct partition_log *log);
void log_lookups_fail(struct partition_log *log, enum err err);
/* What a job has loaded, for a segment that may have gone on meanwhile; taken where it is wanted. */
void log_aborted_loaded(struct partition_log *log, struct segment *segment, struct txn_index *loaded, bool rebuilt);
/* Notes a transaction that the batch just booked into the segment has ended. Room was made. */
void log_note_ended(struct segment *segment, const struct producer_txn *ended);

/* --- log_sync.c --- */

/* Syncs the segments below the present end in the background, by a job of its own. */
void log_sync_start(struct partition_log *log);
/* The same where nobody waits for it: with others, if many have something to sync. */
void log_sync_background(struct partition_log *log);
/* Whether there is a limit to what may be written, or how long it may lie, without being synced (flush.messages,
 * flush.ms). */
bool log_sync_is_asked_for(const struct partition_log *log);
/* Begins what is to be synced by now, by the journal where it can. */
void log_sync_go_on(struct partition_log *log);
/* All that was found when the log was opened is synced in the segments, or gone for good. */
void log_settled(struct partition_log *log);
/* Segments or journal were synced: synced_offset follows, and whoever waits for it. */
void log_synced_move(struct partition_log *log);
void log_syncs_fail(struct partition_log *log, enum err err);
/* Whoever waited for what is synced hears of it. */
void log_syncs_complete(struct partition_log *log);
/* What may be better the next time, as opposed to a sync that failed. */
bool log_may_pass(enum err err);

enum log_sync_kind {
    LOG_SYNC_PLAIN,
    LOG_SYNC_ANCHOR, /* also a producer snapshot and the last segment's index entries: a recovery begins there */
    LOG_SYNC_FINAL,  /* a clean stop: the same, and none of it may fail */
};

/* Whether a clean stop has anything to write or to sync. Of a log without records nothing has to be believed: its next
 * opening takes neither its names nor its files for synced. */
bool log_final_sync_is_due(const struct partition_log *log);
/* None of its names is believed to be synced. */
void log_names_doubt(struct partition_log *log);

/* What a sync does, for the closing job too. */
struct log_sync_file {
    struct segment *segment; /* a use */
    int64_t base_offset;
    struct fs_file *file; /* a reference; NULL: opened by name */
    bool sealed;          /* its indexes are synced too */
    bool has_tail;
    bool lacks_tail;   /* it has index entries that this sync cannot write */
    bool tail_written; /* out */
    struct segment_index_tail tail;
};
struct log_sync_plan {
    enum log_sync_kind kind;
    bool unsynced; /* files are only written; the caller syncs all of them at once, then, but for LOG_SYNC_FINAL, calls
                      log_sync_plan_settle */
    struct log_sync_file *files;
    uint32_t file_count;
    int64_t end_offset; /* reached when it has succeeded */
    struct text epochs;
    bool write_epochs;
    bool unmark; /* the log is synced beyond what it was before it was cut */
    int64_t epochs_from;
    bool epochs_beside;  /* out: under another name */
    bool epochs_written; /* out */
    bool lacks_entries;  /* of an index, or of aborted transactions: they are not in their file */
    bool sync_names;
    bool sync_parent;
    bool sync_topic_id;
    bool places;       /* names of the directory and what is in it are all there then */
    uint8_t *snapshot; /* of the producers, as of end_offset; NULL: none is written */
    size_t snapshot_size;
    int64_t snapshot_old;  /* is removed then; -1: none */
    bool snapshot_written; /* out */
};
/* ERR_NOMEM: nothing is held then. */
MUST_CHECK enum err log_sync_plan_make(struct partition_log *log, enum log_sync_kind kind, struct log_sync_plan *plan);
/* Blocks. ERR_IO: a sync failed, for good; other errors may pass. What needs room (epochs, index entries, snapshots)
 * waits where there is none, but for LOG_SYNC_FINAL. */
MUST_CHECK enum err log_sync_plan_run(const struct partition_env *env, const char *dir, struct log_sync_plan *plan);
/* Blocks. What was written unsynced is on the disk by now: files take their places. named: out, set where names were
 * changed that are to be synced. */
MUST_CHECK enum err log_sync_plan_settle(const struct partition_env *env, const char *dir, struct log_sync_plan *plan,
                                         bool *named);
/* It is to be done again: what it was to cover counts as un-synced as before. */
void log_sync_plan_failed(struct partition_log *log, const struct log_sync_plan *plan);
void log_sync_plan_succeeded(struct partition_log *log, const struct log_sync_plan *plan);
/* On the home reactor, or while nobody else has the log. */
void log_sync_plan_deinit(struct partition_log *log, struct log_sync_plan *plan);

/* --- log_journal.c --- */

/* What was just appended goes into the journal too, where the topic's configuration gains by that. */
void log_journal_give(struct partition_log *log, const struct log_append *op, int64_t end_before);
/* All that lies above segments_synced was given, so that what has to be synced can be by the journal. */
bool log_journal_covers(const struct partition_log *log);
/* Below it the journal has everything that the segments may lack; segments_synced at least. */
int64_t log_journal_synced(const struct partition_log *log);
void log_journal_want(struct partition_log *log);
/* False: there is none, sync the segments yourself. */
bool log_journal_sync_later(struct partition_log *log);
void log_journal_sync_begins(struct partition_log *log);
void log_journal_sync_ended(struct partition_log *log, bool succeeded);
/* The log was cut to that offset, which is its end now, and its segments are synced. A JOURNAL_TRUNCATION has to be
 * noted (journal_note), and nothing appended before it is on the disk. */
void log_journal_truncated(struct partition_log *log, int64_t offset);
/* Its start moves over what no segment has synced, to offset: what the journal has begins behind a hole then, which
 * nobody would find after a power cut, and so it is no promise. Before segments_synced moves. */
void log_journal_skipped(struct partition_log *log, int64_t offset);
/* The log starts at that offset, which may lie behind all it had. */
void log_journal_started(struct partition_log *log, int64_t offset);
/* The log is deleted. */
void log_journal_deleted(struct partition_log *log);
/* The log goes, and its segments were not synced. */
void log_journal_keep(struct partition_log *log);
void log_journal_free(struct partition_log *log);

/* --- log_dirty.c --- */

/* unsynced_bytes has changed, or the log has failed. */
void log_dirty_count(struct partition_log *log);
/* The log goes: none of it counts any more. */
void log_dirty_forget(struct partition_log *log);
/* The directory has as much as it may: appends wait, and are drained again when it has less. */
bool log_dirty_wait(struct partition_log *log);
/* So much was appended to the last segment; now and then a job begins to write it out. */
void log_dirty_push(struct partition_log *log, const struct segment *segment, size_t appended);

/* --- sync_group.c --- */

/* Whether the log has something un-synced has changed. */
void sync_group_follow(struct partition_log *log);
/* The log goes. */
void sync_group_leave(struct partition_log *log);
/* The log is due. True: it is synced with others, now or behind those that are being synced. False: it is on its own.
 */
bool sync_group_takes(struct partition_log *log);
/* Much is un-synced in the directory: none is to wait for its time, where many have a part in it. NULL does nothing. */
void sync_group_hasten(struct sync_group *group);

/* --- log_close.c --- */

/* A closing log at rest goes on. True: the log is not to be used any more. */
bool log_close_continue(struct partition_log *log);
/* Blocks. Renames a directory of env's by fs_rename or bare_dir_rename, where the disk is full with the reserve's room,
 * and syncs that. */
MUST_CHECK enum err log_set_aside(const struct partition_env *env, const char *dir, const char *aside,
                                  enum err (*give_name)(struct fs *fs, const char *from, const char *to));

/* --- snapshots of the producer state --- */

/* Blocks. Writes <offset>.snapshot. */
MUST_CHECK enum err log_snapshot_write(struct fs *fs, const char *dir, int64_t offset, struct bytes content, bool sync);
/* Blocks. One that is not there is removed already. */
MUST_CHECK enum err log_snapshot_remove(struct fs *fs, const char *dir, int64_t offset);

#endif
