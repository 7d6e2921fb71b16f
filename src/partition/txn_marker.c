#include "partition/txn_marker.h"

#include "base/big_endian.h"
#include "protocol/batch.h"
#include "protocol/record.h"

enum { KEY_BYTES = 4, VALUE_BYTES_MIN = 6, TYPE_ABORT = 0, TYPE_COMMIT = 1, MARKER_BYTES_MAX = 4096 };

enum err txn_marker_read(struct bytes batch, struct txn_marker *marker)
{
    struct record_iter iter;
    struct record record;
    enum err err = ERR_OK;

    if (batch.size < BATCH_HEADER_BYTES)
        return ERR_DAMAGED;
    err = record_iter_init(&iter, batch, MARKER_BYTES_MAX);
    if (err != ERR_OK)
        return err;
    err = record_iter_next(&iter, &record);
    if (err == ERR_OK && (record.key.size < KEY_BYTES || record.value.size < VALUE_BYTES_MIN))
        err = ERR_DAMAGED;
    if (err == ERR_OK) {
        int16_t type = (int16_t)big_endian_load_u16(record.key.data + 2);

        marker->commit = type == TYPE_COMMIT;
        marker->coordinator_epoch = (int32_t)big_endian_load_u32(record.value.data + 2);
        if (type != TYPE_ABORT && type != TYPE_COMMIT)
            err = ERR_DAMAGED;
    }
    record_iter_deinit(&iter);
    return err == ERR_NOMEM ? err : err == ERR_OK ? ERR_OK : ERR_DAMAGED;
}
