/*
 * image_records: an image as the records that make it, in the order of a snapshot (controller.md "Snapshots of the
 * image"): levels, nodes, each topic with its partitions, configurations, producer ids, and the kinds that are kept as
 * they came. Versions are those of the image's own metadata.version.
 *
 * Threads  any.
 */
#ifndef OTTLA_RAFTMETA_IMAGE_RECORDS_H
#define OTTLA_RAFTMETA_IMAGE_RECORDS_H

#include "base/arena.h"
#include "raftmeta/image.h"
#include "raftmeta/metadata_record.h"

/* The record's frame, valid for the call; stop by returning anything but ERR_OK. */
typedef enum err image_frame_fn(void *context, struct bytes frame);
/* What each returned; ERR_NOMEM. */
MUST_CHECK enum err image_each_frame(const struct image *image, image_frame_fn *each, void *context);

#endif
