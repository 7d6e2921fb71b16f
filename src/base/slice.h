/*
 * slice: a run of bytes on its way out, in memory or in a file. A file range goes out by sendfile where the
 * transport can; it holds a reference to its file (fs_file_keep) until the reply it is part of has left.
 */
#ifndef OTTLA_BASE_SLICE_H
#define OTTLA_BASE_SLICE_H

#include <stddef.h>
#include <stdint.h>

struct fs_file;

struct slice {
    const uint8_t *data;  /* memory; NULL for a file range */
    struct fs_file *file; /* file range; NULL for memory */
    uint64_t position;    /* of the range's first byte in the file */
    size_t size;          /* in bytes */
};

static inline struct slice slice_of(const void *data, size_t size)
{
    return (struct slice){.data = (const uint8_t *)data, .size = size};
}

#endif
