/*
 * loader: batches of the metadata log, or of a snapshot, become images. A metadata transaction becomes visible as a
 * whole at its End, and not at all when it aborts (controller.md "Record types"), however many batches it spans.
 *
 * Threads  one owner.
 */
#ifndef OTTLA_RAFTMETA_LOADER_H
#define OTTLA_RAFTMETA_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "raftmeta/control_record.h"
#include "raftmeta/image.h"

enum { LOADER_MESSAGE_BYTES_MAX = 512 };

/* For loader_batch: records count as at the offsets they have. */
#define LOADER_OWN_OFFSETS INT64_MIN

struct loader {
    struct image *image;     /* without the edit */
    struct image_edit *edit; /* NULL: nothing new */
    bool transaction_open;
    struct quorum_facts facts;
    int64_t last_offset; /* of the last record read; -1: none */
    int32_t last_epoch;  /* of its batch, as the two below */
    int64_t last_timestamp_ms;
    struct arena scratch; /* of the record at hand */
    char message[LOADER_MESSAGE_BYTES_MAX];
    /* Told each image with what changed, both borrowed; NULL: nobody is. */
    void (*made)(void *context, struct image *image, const struct image_delta *delta);
    void *context;
};

/* Keeps a reference to image. */
void loader_init(struct loader *loader, struct image *image);
void loader_deinit(struct loader *loader);

/*
 * One whole batch whose CRC was checked. as_offset: LOADER_OWN_OFFSETS; or, of a snapshot's batches, the offset
 * that all records count as at.
 *
 * ERR_UNSUPPORTED_VERSION  a record or level that this build does not know; message names it
 * ERR_DAMAGED              a batch or record that cannot be; message says which
 * ERR_NOMEM
 */
MUST_CHECK enum err loader_batch(struct loader *loader, struct bytes batch, int64_t as_offset);
/* Makes the image of all that was read, but for an open transaction. Errors as above. */
MUST_CHECK enum err loader_flush(struct loader *loader);
/* Forgets an open transaction, as a new leader's Abort will have it. */
void loader_abort(struct loader *loader);

#endif
