/*
 * group_json: what was found of groups, as the JSON of a page (group_pages.h says which there are).
 *
 * Fails    with NULL, out of memory; never with a part left out.
 * Threads  one a call.
 */
#ifndef OTTLA_HTTP_GROUP_JSON_H
#define OTTLA_HTTP_GROUP_JSON_H

#include <jansson.h>

#include "broker/group_query.h"

/* query: done, without an error. now_ms: wall clock, for ages. json_decref it. */
json_t *group_json(const struct group_query *query, int64_t now_ms);
/* {"error": why, "code": the error's name}; ERR_OK: without a code. */
json_t *group_json_error(const char *why, enum err err);

#endif
