/*
 * fetch: one Fetch request under way, for the two files that answer it: handle_fetch.c says which partitions, places
 * them at their homes and waits until there is enough; fetch_reply.c makes one reply of what the homes have read.
 *
 * Owns     results (each with its arena and references to files) until the reply has left; all else is the request's.
 * Threads  the session's shard from begin to the reply, which leaves from the connection's.
 */
#ifndef OTTLA_BROKER_FETCH_H
#define OTTLA_BROKER_FETCH_H

#include "broker/fetch_part.h"
#include "broker/fetch_session.h"
#include "broker/request.h"
#include "protocol/gen/fetch.h"

struct fetch {
    struct request *request;
    struct shard *shard; /* whose session it is: the connection's, or the one that the session's id tells of */
    struct fetch_response response;
    bool filled;
    struct loop_task task;         /* there and back, where that is another shard */
    struct loop_task abandon_task; /* likewise, behind it: nobody waits for the reply any more */
    bool abandoning;               /* it is on its way */
    bool answered;                 /* the reply is ready, and waits for it to be back */
    const struct fetch_request *in;
    struct fetch_plan plan;
    struct fetch_session *session;
    struct fetch_result *results;
    uint32_t items;   /* over all results */
    uint32_t refused; /* entries that are not read */
    bool urgent;      /* one of them is not to wait for the others */
    uint32_t parts_left;
    uint64_t bytes_min;
    uint32_t bytes_max;
    bool finishing; /* every part was told to read what there is */
    bool no_memory;
    struct loop_timer deadline;
    struct list_node waiting; /* in the shard's list */
};

/* A line of the reply: what was read, or an error that was known before. */
struct fetch_line {
    struct fetch_entry *entry;
    struct fetch_item *item; /* NULL: refused */
    enum err err;
};

/* Fills fetch->response from the results and the entries that were refused, within bytes_max and the slices of a reply,
 * and notes in the session what is told. Returns false without memory. */
MUST_CHECK bool fetch_reply_fill(struct fetch *fetch);

#endif
