/*
 * publisher: tells every listener of each new image, in order, on the listener's own loop, and knows when all have
 * applied it. Inside the metadata node only.
 *
 * Threads  the controller loop; deliveries run on the listeners' loops.
 */
#ifndef OTTLA_RAFTMETA_PUBLISHER_H
#define OTTLA_RAFTMETA_PUBLISHER_H

#include "raftmeta/metadata_node.h"

struct publication;

struct publisher {
    struct loop *loop; /* the controller loop */
    struct metadata_listener *listeners;
    uint32_t listener_count;
    struct publication *first, *last; /* told, not yet applied by all */
    int64_t covered_offset;           /* all that is committed below or at it has been applied everywhere */
    int64_t image_offset;             /* of the newest image that listeners have */
    bool begun;                       /* listeners have been told something */
    void (*applied)(void *context);   /* covered_offset moved */
    void *context;
};

/* Made before the change is handed to the quorum, so that what commits can always be told. Keeps both; covers: the last
 * offset of the change. NULL without memory. */
struct publication *publication_new(struct publisher *publisher, struct image *image, struct image_delta *delta,
                                    int64_t covers) MUST_CHECK;
/* One that is not to be told. NULL does nothing. */
void publication_free(struct publication *publication);
struct image *publication_image(const struct publication *publication);
const struct image_delta *publication_delta(const struct publication *publication);

/* Takes it. A change that no listener would act on is not told; it merely counts as applied in its turn. */
void publisher_publish(struct publisher *publisher, struct publication *publication);
bool publisher_is_idle(const struct publisher *publisher);

#endif
