/*
 * fetch_session: which partitions a fetcher follows, and the rules by which incremental fetches name only what changed
 * (KIP-227). Pure: it is told the time and draws ids from its rng; reading and waiting are fetch_part.h's and
 * handle_fetch.c's.
 *
 *   epoch -1            a full fetch without a session; closes the session whose id it names
 *   epoch 0             a full fetch; closes the session whose id it names and opens a new one, if there is room
 *   epoch n > 0, id     incremental: must equal the session's next epoch, which then becomes n + 1 (1 after 2^31 - 1)
 *
 * What fetches without a session follow is a session too, with id 0, that ends with its reply: one code for both.
 *
 * Entries   a partition is one entry, under its topic id, or under its topic's name for sessions of versions before 13.
 *           Their order is that in which a reply is filled; those that brought data go to the end (fairness).
 * Sharing   an entry is written by the session's shard between fetches, and belongs to its home from the moment a
 *           fetch is sent there until the results are back (fetch_part.h).
 * Threads   the shard's loop.
 */
#ifndef OTTLA_BROKER_FETCH_SESSION_H
#define OTTLA_BROKER_FETCH_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rng.h"
#include "base/uuid.h"
#include "broker/broker_limits.h"
#include "partition/partition.h"
#include "protocol/gen/fetch.h"

struct fetch_part;

enum {
    FETCH_SESSION_EPOCH_NONE = -1,
    FETCH_SESSION_EPOCH_FIRST = 0,
};

struct fetch_entry {
    /* what the fetcher says */
    struct uuid topic_id; /* zero while a name is not known */
    int32_t index;
    struct bytes name; /* in key; of sessions by name, else null */
    int64_t offset;
    int64_t log_start_offset; /* of a follower */
    int32_t bytes_max;
    int32_t leader_epoch;
    int32_t last_fetched_epoch;
    /* what was last told; -1 at first and after an error, so that the partition shows up again */
    int64_t told_high_watermark;
    int64_t told_log_start;
    bool told_missing; /* the last answer said that there is no such partition */
    /* the session's */
    uint64_t order;
    struct list_node node;    /* in entries, by order */
    struct fetch_part *part;  /* where it is read; NULL: not placed */
    struct list_node changed; /* in fetch_session.changed, then in its part's lists, while a fetch named it */
    enum err refused;         /* not to be read by the fetch under way, and why; ERR_OK between fetches */
    bool stale;               /* its topic id is no topic's any more, while its name may be another's */
    /* the home's, see fetch_part.h */
    struct partition_watch watch;
    struct list_node ready; /* in the part's ready list */
    struct list_node all;   /* in the part's list of all */
    /* what it is found under: the partition, then the topic's id or name */
    size_t key_size;
    uint8_t key[];
};

struct fetch_session {
    int32_t id; /* 0: none */
    int32_t next_epoch;
    bool by_id;    /* topic ids, versions from 13 on */
    bool follower; /* replica id >= 0 */
    bool cached;   /* found under its id */
    bool in_use;   /* a fetch is under way */
    int64_t created_ns;
    int64_t used_ns;
    uint64_t next_order;
    uint32_t count; /* of entries */
    struct list entries;
    struct list changed;   /* of entries that the fetch under way named */
    struct list forgotten; /* of entries that it forgot: still to be taken from their parts, then freed */
    struct list unplaced;  /* of entries without a part (by their node all) */
    uint32_t stale_count;  /* of entries */
    size_t bytes;          /* that all entries take */
    size_t bytes_max;
    size_t counted_bytes; /* of them, in the cache's sum */
    struct map index;     /* by key, of sessions that have more than a few entries */
    bool indexed;
    struct list_node by_use;   /* in the cache, longest unused first */
    struct fetch_part **parts; /* by home; fetch_part.h's */
    uint32_t parts_room;
    uint32_t parts_left; /* of those that are being given up */
    void (*freed)(void *context);
    void *freed_context;
};

/* What sessions may take. A client decides how many partitions it follows, under names as long as it likes. */
struct fetch_session_limits {
    size_t one_bytes_max;    /* of one fetch's: ERR_LIMIT beyond it */
    size_t cached_bytes_max; /* of all that are kept: beyond it none is opened, or one that grows is closed */
};

struct fetch_sessions {
    struct map_u64 by_id;
    struct list by_use;
    uint32_t slots;
    size_t bytes; /* of all that are cached */
    struct fetch_session_limits limits;
    uint32_t shard;
    struct rng *rng;
    uint64_t seed; /* of the sessions' maps: drawn once, then moved on, since most sessions live for one fetch */
    uint64_t evictions;
    /* Told when a session is over: parts are still to be given up, then fetch_session_free. */
    void (*closed)(void *context, struct fetch_session *session);
    void *context;
};

/* What a request comes to. */
struct fetch_plan {
    enum err err; /* ERR_FETCH_SESSION_ID_NOT_FOUND, ERR_INVALID_FETCH_SESSION_EPOCH, ERR_FETCH_SESSION_TOPIC_ID_ERROR,
                     ERR_NOMEM, ERR_LIMIT: of the whole fetch */
    struct fetch_session *session; /* NULL with an error */
    bool incremental;              /* the reply leaves out what did not change */
};

/* slots: sessions at once; 0: none are ever opened. shard: goes into the ids, so that those of two shards differ. */
void fetch_sessions_init(struct fetch_sessions *sessions, uint32_t slots, const struct fetch_session_limits *limits,
                         uint32_t shard, struct rng *rng);
/* Frees what is left; parts must have been given up. */
void fetch_sessions_deinit(struct fetch_sessions *sessions);

/*
 * Applies the session rules and the request's changes. With ERR_OK the session is in use until fetch_session_done;
 * changed and forgotten say what the request touched (of a full fetch: everything).
 */
void fetch_session_begin(struct fetch_sessions *sessions, const struct fetch_request *request, int16_t version,
                         int64_t now_ns, struct fetch_plan *plan);
/* The fetch is answered: forgotten entries must be out of their parts and are freed. Ends a session without id, and one
 * that has no partition left. The reply carries the id that this returns. */
int32_t fetch_session_done(struct fetch_sessions *sessions, struct fetch_session *session);
/* Which shard made a session of that id. */
uint32_t fetch_session_shard(int32_t id);
/* The id for the reply, before fetch_session_done: 0 for a session that ends with it. */
int32_t fetch_session_reply_id(const struct fetch_session *session);
/* The entry brought data: others come first next time. */
void fetch_session_move_last(struct fetch_session *session, struct fetch_entry *entry);
/* A stale entry gives way to a new, unplaced one with the same wishes; the old one is forgotten. ERR_NOMEM. */
MUST_CHECK enum err fetch_session_renew(struct fetch_session *session, struct fetch_entry *entry);
/* Closes a cached session (closed is told unless it is in use). */
void fetch_session_close(struct fetch_sessions *sessions, struct fetch_session *session);
/* Closes all that are cached. */
void fetch_sessions_close_all(struct fetch_sessions *sessions);
void fetch_session_free(struct fetch_session *session);

/* Whether an incremental reply shows the partition, and what was told is noted (fetch rules of KIP-227). */
bool fetch_entry_shows(struct fetch_entry *entry, bool incremental, enum err err, size_t record_bytes, bool diverging,
                       int64_t high_watermark, int64_t log_start);

#endif
