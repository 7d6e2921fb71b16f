/* A log read from one end to the other, each batch checked. It blocks. */
#include "partition/log.h"

#include "partition/batch_scan.h"
#include "partition/log_internal.h"

enum err partition_log_scan(struct partition_log *log, int64_t offset, partition_log_scan_fn *each, void *context)
{
    for (uint32_t i = 0; i < log->segment_count; i++) {
        const struct segment *segment = log->segments[i];
        struct batch_scan scan;
        struct batch_header header;
        struct bytes batch;
        struct fs_file *file = NULL;
        struct log_path path;
        int64_t next = segment->base_offset;
        enum err err = ERR_OK;

        if (segment->end_offset <= offset || segment->size == 0)
            continue;
        log_path_segment(&path, log->dir, segment->base_offset, SEGMENT_LOG);
        err = fs_open(log->env->fs, path.text, FS_READ, &file);
        if (err != ERR_OK)
            return err;
        batch_scan_init(&scan, file, 0, segment->size, BATCH_SCAN_CHECKED);
        while ((err = batch_scan_next(&scan, &header, &batch)) == ERR_OK) {
            if (header.base_offset < next) { /* no checksum covers it */
                err = ERR_DAMAGED;
                break;
            }
            next = batch_last_offset(&header) + 1;
            if (batch_last_offset(&header) < offset)
                continue;
            err = each(context, batch);
            if (err != ERR_OK)
                break;
        }
        batch_scan_deinit(&scan);
        fs_file_drop(file);
        if (err != ERR_END)
            return err;
    }
    return ERR_OK;
}
