/*
 * conversation: one or more connections on doubles, with a handler that writes down what it is told. What happened is
 * compared whole, as one text:
 *
 *   +a      request a was started          a/   its reply was released, all sent       a!   released, not sent
 *   a?      a was abandoned                opened, closed, freed   the connection's life
 *
 * A frame of the test is a kind, a tag, and filling. Kinds: S is answered at once with its own bytes; W waits for the
 * test; P waits too and may overlap; N is ended at once without a reply; C closes the connection; X closes it at once.
 */
#ifndef OTTLA_TESTS_CONVERSATION_H
#define OTTLA_TESTS_CONVERSATION_H

#include "net/budget.h"
#include "net/connection.h"
#include "net/double.h"

enum { CONVERSATION_FRAME_MAX = 2 << 20 };

struct conversation {
    struct double_loop loop;
    struct double_log log;
    struct budget budget;
    struct connections *connections;
    struct connection_listener listener;
    struct connection *connection;   /* the last that was opened */
    struct exchange *exchanges[256]; /* those that wait, by tag */
    bool ends_when_abandoned;
    char told[4096];
    size_t told_size;
};

/* Limits of the listener: 1 MiB frames, idle 10 s. total: the budget's. */
void conversation_start(struct conversation *c, size_t total);
/* Closes what is open; everything must have been given back. */
void conversation_end(struct conversation *c);
struct double_stream *conversation_connect(struct conversation *c);
/* A frame arrives; nobody is told yet. size: behind the size field. */
void conversation_frame(struct double_stream *stream, char kind, char tag, uint32_t size);
/* A frame arrives and the loop turns. */
void conversation_send(struct conversation *c, struct double_stream *stream, char kind, char tag, uint32_t size);
/* Ends the exchange that waits with that tag by a reply of its own bytes, then turns. */
void conversation_reply(struct conversation *c, char tag);
/* What has been told since the last call is this. */
void conversation_expect(struct conversation *c, const char *told);
/* The tags of the whole frames sent to the peer so far, and no half one. */
const char *conversation_answers(struct double_stream *stream);

#endif
