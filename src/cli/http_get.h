/*
 * http_get: one GET of a JSON document, blocking.
 *
 * Threads  one.
 */
#ifndef OTTLA_CLI_HTTP_GET_H
#define OTTLA_CLI_HTTP_GET_H

#include <jansson.h>

#include "base/clock.h"
#include "base/net.h"

enum { HTTP_GET_BYTES_MAX = 256 * 1024 * 1024, HTTP_GET_MESSAGE_CHARS = 512 };

/* path: escaped, with its slash in front. NULL: message says why. */
json_t *http_get(struct clock *clock, const struct net_address *address, const char *path, int64_t timeout_ms,
                 char message[HTTP_GET_MESSAGE_CHARS]);

#endif
