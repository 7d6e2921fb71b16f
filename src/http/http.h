/*
 * http: what a process serves over HTTP beside the broker: the pages, on a loop of their own. main.c hands it to the
 * process, which starts it once the node serves and stops it before the node.
 *
 * Threads  as broker/process.h says of a companion.
 */
#ifndef OTTLA_HTTP_HTTP_H
#define OTTLA_HTTP_HTTP_H

#include "broker/process.h"

extern const struct process_companion http_companion;

#endif
