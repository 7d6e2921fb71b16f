/*
 * group_pages: what is read of groups over HTTP, as JSON:
 *
 *   GET /groups                 [{"group", "state", "type", "protocol_type"}, ...] of those that this node coordinates
 *   GET /groups/<id>            state, type and members
 *   GET /groups/<id>/lag        for each partition committed, end, lag in records, age_s of the oldest unread record
 *   GET /groups/<id>/history    the last rebalances, oldest first
 *
 * An error is {"error": "words", "code": "GROUP_ID_NOT_FOUND"}, with 404 for what is not there, 503 for what will be
 * (a coordinator that loads, or is elsewhere). Nothing can be changed here.
 *
 * Limits   GROUP_PAGES_QUERIES_MAX at once (503 beyond): each may hold some memory.
 * Threads  the HTTP loop's.
 */
#ifndef OTTLA_HTTP_GROUP_PAGES_H
#define OTTLA_HTTP_GROUP_PAGES_H

#include "base/clock.h"
#include "broker/broker.h"
#include "broker/group_query.h"
#include "http/http_server.h"

enum { GROUP_PAGES_QUERIES_MAX = 8 };

struct group_pages {
    struct broker *broker;
    struct loop *loop;
    struct clock *clock;
    uint32_t queries;
};

/* For http_server_spec.asked; context: a struct group_pages. */
void group_pages_asked(void *context, struct http_exchange *exchange, struct bytes path);

/* What path asks for. False: there is no such page. group_id: into to, which has room for the path. */
bool group_pages_parse(struct bytes path, uint8_t *to, enum group_query_kind *kind, struct bytes *group_id);

#endif
