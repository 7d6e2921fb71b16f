/*
 * api_table: the one table of APIs. A row says what is advertised and accepted, on which listeners, which permission is
 * asked first, how much memory decoding may take, and who answers. ApiVersions, dispatch, admission and the names of
 * metrics follow from it; adding an API is one row, one schema, one handler, one test.
 *
 * What does not work has no row, and so is not advertised.
 *
 * Threads  any: constants only.
 */
#ifndef OTTLA_BROKER_API_TABLE_H
#define OTTLA_BROKER_API_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "protocol/message.h"

struct request;

/* Which listeners serve it; or-ed. */
enum api_listeners { ON_BROKER = 1, ON_CONTROLLER = 2 };

/* What a principal may be asked to be allowed; the values are those of ACLs on the wire. */
enum operation {
    MAY_READ = 3,
    MAY_WRITE = 4,
    MAY_CREATE = 5,
    MAY_DELETE = 6,
    MAY_ALTER = 7,
    MAY_DESCRIBE = 8,
    MAY_CLUSTER_ACTION = 9,
    MAY_DESCRIBE_CONFIGS = 10,
    MAY_ALTER_CONFIGS = 11,
    MAY_IDEMPOTENT_WRITE = 12,
};

enum resource_type { ON_TOPIC = 2, ON_GROUP = 3, ON_CLUSTER = 4, ON_TRANSACTIONAL_ID = 5 };

/* The first permission that the handler asks for; for the documentation and for tests with a denying double. */
struct api_gate {
    uint8_t operation; /* enum operation; 0: none */
    uint8_t resource;  /* enum resource_type */
};

/* Which quota beside that on time (which all have): bytes in, bytes out, partitions made or deleted. */
enum api_quota { QUOTA_NONE, QUOTA_REQUEST, QUOTA_PRODUCE, QUOTA_FETCH, QUOTA_MUTATION };

/* Answers request, at once or later, exactly once (request.h). body: decoded, in the request's arena. */
typedef void api_handle_fn(struct request *request, void *body);

struct api {
    int16_t key;
    const char *name;       /* as Kafka spells it: metrics and log lines */
    int16_t advertised_min; /* Produce alone says less than it takes (KAFKA-18659) */
    int16_t version_min;    /* below it the connection is closed */
    int16_t version_max;
    uint8_t listeners; /* enum api_listeners */
    struct api_gate gate;
    enum api_quota quota;
    bool overlaps;                      /* may be appended while earlier ones of its connection wait */
    bool forwarded;                     /* decided by the active controller */
    const char *feature;                /* offered only while it is finalised; NULL: always */
    size_t (*bound)(size_t frame_size); /* bytes that the decoded request may take, before it is decoded */
    size_t throttle_offset;             /* of throttle_time_ms in the response */
    api_handle_fn *handle;
    const struct message_type *request;
    const struct message_type *response;
};

uint32_t api_count(void);
/* 0 .. api_count() - 1, by key. */
const struct api *api_at(uint32_t index);
/* NULL: not served. */
const struct api *api_find(int16_t key);

#endif
