/*
 * txn_marker: the control record that ends a transaction (on-disk.md 3.1; EndTxnMarker).
 */
#ifndef OTTLA_PARTITION_TXN_MARKER_H
#define OTTLA_PARTITION_TXN_MARKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct txn_marker {
    bool commit; /* else abort */
    int32_t coordinator_epoch;
};

/* ERR_DAMAGED: the batch is no readable marker (another kind of control record is none either). */
MUST_CHECK enum err txn_marker_read(struct bytes batch, struct txn_marker *marker);

#endif
