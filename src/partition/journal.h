/*
 * journal: one file that is synced for many logs at once. Where a topic asks to be synced before it is acknowledged,
 * its appends go to the segment (page cache) and, in the same bytes, into the journal of their home reactor and log
 * directory: one write and one sync there serve all that wait, whatever the partition. The segments are synced behind
 * it, one at a time, and a journal file is used again once all logs with entries in it have synced their segments past
 * them. After a power cut what the segments lack is taken from the journals (journal_replay.h); the bytes are described
 * in journal_format.h.
 *
 * Always holds  groups go to the disk one after the other, so whatever follows a group that is not whole was never
 *               promised to anybody. Files are used, and used again, oldest first: what lies in them together is the
 *               unbroken end of the journal's history.
 * Files         <log dir>/ottla-journal-<reactor>-<n>: plain files, which Kafka ignores; made and filled with zeroes
 *               when they are first wanted, so that a sync writes data alone; removed by a clean stop.
 * At the limit  an entry for which there is no room (no file is free yet, the disk is full, a group is as large as it
 *               may be) is refused, and its log syncs its own segment as if there were no journal. Runs that are all
 *               cut off before their start is settled leave their journals to the next; if elders_max lie there, no
 *               file is made until they are gone.
 * Failure       a failed sync is final: the journal fails, its directory is reported, and whoever waits hears of it.
 * Threads       the home reactor's.
 */
#ifndef OTTLA_PARTITION_JOURNAL_H
#define OTTLA_PARTITION_JOURNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "base/uuid.h"
#include "partition/journal_format.h"
#include "partition/partition_env.h"

#define JOURNAL_FILE_PREFIX "ottla-journal-"

struct journal;
struct journal_file;

struct journal_options {
    uint32_t reactor;
    struct uuid directory_id;
    uint64_t generation;        /* of the first file: greater than any that lies in the directory */
    const atomic_bool *history; /* whether journals of earlier runs lie there still; NULL: none ever did */
    uint32_t elders;            /* how many files those are */
    uint32_t elders_max;        /* if there are that many, none is made until they are gone; 0: as many as there are */
    uint64_t bytes_max;         /* of all its files; 0: JOURNAL_BYTES_DEFAULT */
};

/* Takes no room on the disk yet. env is borrowed for life. */
MUST_CHECK enum err journal_new(const struct partition_env *env, const struct journal_options *options,
                                struct journal **journal);
struct journal_close {
    void (*done)(struct journal_close *op);
};
/* Once all its logs are closed: waits for what is under way. Its files stay as they are. */
void journal_close(struct journal *journal, struct journal_close *op);
/* Closed, or never used. NULL does nothing. */
void journal_free(struct journal *journal);
/* Blocks. Removes all journals of the directory: no log needs them any more. */
MUST_CHECK enum err journal_files_remove(struct fs *fs, const char *log_dir);

/* --- one log's part in a journal --- */

struct journal_client;

/* Its entries in one group. */
struct journal_ref {
    struct list_node node;
    struct journal_client *client;
    int64_t end_offset; /* what is on the disk once the group is */
};

struct journal_client_ops {
    /* The group that journal_append joined has ended: all up to end_offset is on the disk; or err says why not: ERR_IO,
     * the journal has failed; any other may pass, and the log is to sync its segment. Once for each JOURNAL_JOINED. */
    void (*written)(struct journal_client *client, int64_t end_offset, enum err err);
    /* A sync of the segments is to begin; true: it does, or is under way (journal_sync_ended follows). */
    bool (*sync)(struct journal_client *client);
};

struct journal_client {
    const struct journal_client_ops *ops;
    struct journal *journal;
    struct journal_ref refs[2];
    struct journal_file *oldest; /* that has entries which the segments may lack */
    struct journal_file *later;  /* the first with entries given since the present sync of the segments began */
    struct list_node by_file;    /* in oldest's list */
    struct list_node behind;     /* among those whose segments are to be synced */
    bool syncing;                /* a sync of the segments is under way */
    bool counted;                /* which the journal asked for */
};

void journal_client_init(struct journal_client *client, struct journal *journal, const struct journal_client_ops *ops);
/* The log goes: no group holds entries of it any more. */
void journal_client_leave(struct journal_client *client);
/* The log goes, and its segments were not synced: what the journal has of it stays for the next start. */
void journal_client_keep(struct journal_client *client);
/* The log was cut and its segments are synced: what is under way promises nothing behind that offset, and no file is
 * held for the log any more (its note may be waiting for just that file). */
void journal_client_cut(struct journal_client *client, int64_t offset);

enum journal_answer {
    JOURNAL_REFUSED,
    JOURNAL_TAKEN,
    JOURNAL_JOINED, /* taken, the first of the log in its group: written will be called for it */
};
/* What the log just wrote to its segment; the bytes are copied. It goes to the disk with the next journal_want of
 * anyone, or when much has gathered. */
MUST_CHECK enum journal_answer journal_append(struct journal *journal, struct journal_client *client,
                                              const struct journal_entry *entry);
/* Somebody waits: what was given goes to the disk at the end of this turn, or once the group before it is there. */
void journal_want(struct journal *journal);
bool journal_has_failed(const struct journal *journal);

/* A sync of the log's segments begins; it covers all entries so far. */
void journal_sync_begins(struct journal_client *client);
void journal_sync_ended(struct journal_client *client, bool succeeded);
/* The segments want to be synced, there is no hurry: one log at a time. */
void journal_sync_later(struct journal_client *client);

/* --- what happens to a log besides appends --- */

struct journal_note {
    /* in */
    enum journal_entry_type type; /* not JOURNAL_APPEND */
    struct uuid topic_id;
    int32_t partition;
    int64_t offset;
    void (*done)(struct journal_note *note);
    /* out */
    enum err err; /* ERR_KAFKA_STORAGE_ERROR, ERR_CLOSED */
    /* the journal's */
    struct list_node node;
    bool waiting; /* for room */
};
/*
 * Notes it; done is called once it is on the disk, perhaps within the call where no journal has anything to tell of the
 * log. It waits while there is no room.
 *
 * Truncation, deletion and move make all that was given before history. So the log's segments have to be synced as they
 * then are (cut, and all below the cut) before it is noted, and nothing may be appended behind the cut before done.
 */
void journal_note(struct journal *journal, struct journal_note *note);
/* Nobody cares any more: a note that still waits for room ends now, with err; one that is on its way ends by itself. */
void journal_note_cancel(struct journal_note *note, enum err err);
/* Noted with nobody waiting for it. False: there is no room, and it is not noted. */
MUST_CHECK bool journal_note_lazily(struct journal *journal, enum journal_entry_type type, struct uuid topic_id,
                                    int32_t partition, int64_t offset);

#endif
