/*
 * step: one decision of a coordinator: the time it is made at, the records that it makes, and the operations that it
 * answers. Coordinators are pure: state + operation + now -> records and answers.
 *
 * Records  step_write encodes a record, hands it to the sink, and the sink replays those bytes on the state at once:
 *          what a restart would read is exactly what has been applied. What nobody would miss after a restart (who
 *          waits, timers, heartbeats, a classic group between two generations) changes directly.
 * Answers  an operation that is decided is given to step_answer, and ends (done) once everything that the state held
 *          at that moment is committed: reads too, so that no answer shows what might still be lost.
 * Atomic   the records of one step land in one batch. What may be split (expiry, deletion of many) asks step_room and
 *          leaves the rest to a later step.
 * Failure  a step that could not write is failed as a whole, and with it the state: the sink's owner throws it away,
 *          answers what waits, and loads it anew. So cores need not undo anything: they return.
 *
 * Threads  those of the coordinator: its home reactor's.
 */
#ifndef OTTLA_COORDINATOR_STEP_H
#define OTTLA_COORDINATOR_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/rng.h"
#include "protocol/message.h"

struct group_topics;
struct step_sink;

/* What waits for an answer; embedded first in each coordinator's operations. */
struct step_op {
    void (*done)(struct step_op *op); /* once; err below is set. The op is the caller's again */
    enum err err;                     /* ERR_OK: the response is filled in; else why there is none:
                                         ERR_NOT_COORDINATOR, ERR_COORDINATOR_LOAD_IN_PROGRESS,
                                         ERR_COORDINATOR_NOT_AVAILABLE, ERR_UNKNOWN_SERVER_ERROR ... */
    struct list_node node;            /* the core's until step_answer, then the sink's */
    int64_t wait_offset;              /* the sink's, as the next */
    int64_t deadline_ns;
};

/* More than a record takes in its batch beside its key and its value. */
enum { STEP_RECORD_FRAME_BYTES = 48 };

/* Whose transaction the records of a step belong to. */
struct step_producer {
    int64_t id;
    int16_t epoch;
};

struct step {
    int64_t now_ns;     /* monotonic: timers and deadlines */
    int64_t now_ms;     /* wall: what records carry */
    bool clock_doubted; /* the wall clock jumped (base/clock_guard.h): nothing goes by its age */
    struct rng *rng;
    /* What is written now lands in a batch of that producer's transaction, of its own; NULL: none. */
    const struct step_producer *producer;
    const struct group_topics *topics; /* the metadata as of now */
    struct step_sink *sink;
    uint32_t records; /* written until now, or tried */
    enum err err;     /* the first failure to write; nothing is written any more, and every answer is an error */
};

/* Who takes what a step brings: the real one is state_log.c, tests have theirs. */
struct step_sink {
    /* key: with its type in front; value: with its version in front, null for a tombstone. Borrowed for the call.
     * Appends to the step's batch, and replays. */
    enum err (*record)(struct step_sink *sink, struct step *step, struct bytes key, struct bytes value);
    void (*answer)(struct step_sink *sink, struct step *step, struct step_op *op);
    /* Bytes of records that this step may still write into its batch, each counted by step_record_bytes. */
    size_t (*room)(const struct step_sink *sink, const struct step *step);
};

/*
 * Writes one record. value NULL: a tombstone. version: of the value.
 *
 * ERR_NOMEM, ERR_MESSAGE_TOO_LARGE, or what replay gave; the step has failed then.
 */
MUST_CHECK enum err step_write(struct step *step, const struct message_type *key_type, const void *key,
                               const struct message_type *value_type, int16_t version, const void *value);
/* The operation is decided; its response is filled in (op->err is ERR_OK), or it is refused as a whole with op->err. It
 * must be in no list. Its done may run within the call. */
void step_answer(struct step *step, struct step_op *op);
size_t step_room(const struct step *step);
/* An operation cannot go on (err). What it has written since step->records was that is half of it, and with that the
 * step has failed; one that has written nothing is refused alone. */
void step_fail(struct step *step, uint32_t since, enum err err);
/* Whether ms (not negative) have passed since a wall-clock time that was noted before. A time that is yet to come has
 * passed: the clock was set back since, and nobody waits until it is there again. */
bool step_has_passed(const struct step *step, int64_t since_ms, int64_t ms);

/* What a record of such a key and value takes of the room: sinks count it so, and so does who asks for room. */
static inline size_t step_record_bytes(size_t key_size, size_t value_size)
{
    return STEP_RECORD_FRAME_BYTES + key_size + value_size;
}

/* The same of a record that is not encoded yet. value NULL: a tombstone. */
size_t step_message_bytes(const struct message_type *key_type, const void *key, const struct message_type *value_type,
                          int16_t version, const void *value);

#endif
