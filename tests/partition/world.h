/*
 * world: a log or a partition on the simulated disk and loop, with the calls that tests make of them: append and wait,
 * read and wait, die, cut, open again.
 */
#ifndef OTTLA_TESTS_PARTITION_WORLD_H
#define OTTLA_TESTS_PARTITION_WORLD_H

#include "partition/journal.h"
#include "partition/log.h"
#include "partition/partition.h"
#include "protocol/batch_build.h"
#include "sim/sim_fs.h"

struct world {
    struct sim sim;
    struct sim_fs disk;
    struct loop *loop;
    struct log log;
    struct log_sink sink;
    struct partition_files files;
    struct partition_env env;
    struct partition_log_spec spec; /* of the log that tests open */
    uint32_t storage_failures;
    uint32_t lines; /* logged at warn and above */
    bool verbose;
};

/* An empty disk with the directory /data; spec: topic "t", partition 0, defaults. */
void world_begin(struct world *world, uint64_t seed);
void world_end(struct world *world);
/* Runs until *flag, or fails the test after a virtual minute. */
void world_run(struct world *world, const bool *flag);
/* Runs for that long, in virtual time. */
void world_pass(struct world *world, int64_t ns);

/* The process dies, or the power goes: the log is dropped without another touch of the disk, once the jobs that were
 * under way are through (a fault that kills the disk before decides where it happens). log may be NULL. */
void world_crash(struct world *world, struct partition_log *log, bool power_cut);

/* Where env.journal was made: waits for what is under way in it, and frees it. A crash does it too. */
void world_journal_close(struct world *world);

/* --- batches --- */

struct batch_make {
    uint32_t record_count;
    uint32_t value_bytes; /* of each record */
    int64_t timestamp;    /* of the first; the others follow by step */
    int64_t timestamp_step;
    int64_t producer_id; /* 0: none (tests number producers from 1) */
    int16_t producer_epoch;
    int32_t base_sequence;
    bool transactional;
    enum codec codec;
    uint8_t fill; /* of the values */
};
/* mem_free it. */
uint8_t *make_batch(const struct batch_make *make, size_t *size);
/* A commit or abort marker. */
uint8_t *make_marker(int64_t producer_id, int16_t producer_epoch, bool commit, int32_t coordinator_epoch, size_t *size);

/* --- logs --- */

MUST_CHECK enum err world_open(struct world *world, struct partition_log **log);
/* Opened and adopted, or the test fails. */
struct partition_log *world_log(struct world *world);
/* The same of another one beside it. */
struct partition_log *world_log_of(struct world *world, const struct partition_log_spec *spec);
/* Closed cleanly; spec is set for opening it again. */
void world_close(struct world *world, struct partition_log *log);

/* Calls whose end a test waits for by world_run(&done); done is what tells it. */
struct world_closed {
    struct partition_log_close op;
    bool done;
};
void world_was_closed(struct partition_log_close *op);
struct world_cut {
    struct log_truncate op;
    bool done;
};
void world_was_cut(struct log_truncate *op);

struct appended {
    struct log_append op;
    bool done;
};
/* Appends and waits. */
enum err world_append_run(struct world *world, struct partition_log *log, uint8_t *batches, size_t size,
                          enum log_origin origin, struct appended *appended);
/* Makes one, appends it as a client's, in epoch 0; gives the base offset, or fails the test. */
int64_t world_append(struct world *world, struct partition_log *log, const struct batch_make *make);
enum err world_sync(struct world *world, struct partition_log *log);

/* Reads from offset up to the log's end; whole is the concatenation of what was given (mem_free it). */
enum err world_read(struct world *world, struct partition_log *log, int64_t offset, int64_t offset_limit,
                    uint32_t bytes_max, bool at_least_one, uint8_t **data, size_t *size);
/* Of a small file, sealed by its last line: every bit of every byte, every length and more behind it is damage, but for
 * the last newline, which nothing hangs on. is_damage puts the content there and looks; is_whole the same. */
void world_damage_each(struct world *world, const char *path, bool (*is_damage)(struct bytes content),
                       bool (*is_whole)(struct bytes content));

/* Gives slices back and copies them together. */
uint8_t *slices_take(struct slice *slices, uint32_t count, size_t size);

#endif
