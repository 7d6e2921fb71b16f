/*
 * records: the value of a "records" field: record batches as they lie in a frame or a file. All-zero is an empty run,
 * which is not null (a null one breaks consumers; KAFKA-18646).
 */
#ifndef OTTLA_PROTOCOL_RECORDS_H
#define OTTLA_PROTOCOL_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct records {
    const struct slice *slices; /* borrowed; decoders give one slice into the frame, in the request's arena */
    uint32_t slice_count;
    bool null;
    size_t size; /* bytes over all slices */
};

#endif
