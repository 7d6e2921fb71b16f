/*
 * client: what a connection has told of its client's software (ApiVersions v3 and later). Hangs off the connection.
 *
 * Threads  the connection's loop.
 */
#ifndef OTTLA_BROKER_CLIENT_H
#define OTTLA_BROKER_CLIENT_H

enum { CLIENT_SOFTWARE_CHARS_MAX = 63 }; /* longer names are cut */

struct client {
    char name[CLIENT_SOFTWARE_CHARS_MAX + 1];
    char version[CLIENT_SOFTWARE_CHARS_MAX + 1];
};

#endif
