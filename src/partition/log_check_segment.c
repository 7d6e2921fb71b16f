/* A segment walked from its first batch to its last, with its indexes beside it. */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "partition/log_check_internal.h"
#include "partition/segment.h"
#include "partition/txn_marker.h"
#include "protocol/record.h"

enum {
    PROGRESS_BYTES = 1024 * 1024, /* between two words of progress */
    GROWING_TRIES = 1000,         /* a tail that grows is read again so often before it counts as torn */
    ABORTS_ROOM_FIRST = 16,
};

static void say(const struct segment_check *segment, enum log_weight weight, uint64_t position, int64_t offset,
                const char *text)
{
    log_check_say(segment->checking->check, weight, segment->checking->dir, segment->name, (int64_t)position, offset,
                  "%s", text);
}

static enum err note_abort(struct segment_check *segment, const struct batch_header *head, struct bytes batch)
{
    struct txn_marker marker;
    enum err err = ERR_OK;

    if (!batch_has(head, BATCH_CONTROL) || txn_marker_read(batch, &marker) != ERR_OK || marker.commit)
        return ERR_OK;
    err = mem_grow(&segment->aborts, &segment->abort_room, 2 * segment->abort_count + 2, ABORTS_ROOM_FIRST,
                   sizeof(segment->aborts[0]));
    if (err != ERR_OK)
        return err;
    segment->aborts[2 * segment->abort_count] = head->producer_id;
    segment->aborts[2 * segment->abort_count + 1] = head->base_offset;
    segment->abort_count++;
    return ERR_OK;
}

static enum err open_records(struct segment_check *segment, uint64_t position, const struct batch_header *head,
                             struct bytes batch)
{
    struct record_iter iter;
    struct record record;
    enum err err = record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX);

    if (err != ERR_OK)
        return err;
    while ((err = record_iter_next(&iter, &record)) == ERR_OK)
        ;
    record_iter_deinit(&iter);
    if (err == ERR_NOMEM)
        return err;
    if (err != ERR_END)
        say(segment, LOG_FAULT, position, head->base_offset, "has records that cannot be read");
    return ERR_OK;
}

static enum err check_batch(struct segment_check *segment, uint64_t position, const struct batch_header *head,
                            struct bytes batch)
{
    struct checking *checking = segment->checking;
    enum err err = note_abort(segment, head, batch);

    checking->check->batches++;
    checking->check->records += (uint64_t)head->record_count;
    if (head->base_offset > checking->next_offset)
        checking->check->gaps++;
    checking->next_offset = batch_last_offset(head) + 1;
    if (checking->epochs_known && epoch_cache_at(&checking->epochs, head->base_offset) != head->leader_epoch &&
        segment->epochs_wrong++ == 0)
        say(segment, LOG_FAULT, position, head->base_offset, "has another leader epoch than leader-epoch-checkpoint");
    segment_check_indexes_batch(segment, position, head);
    if (err == ERR_OK && checking->check->opens_records)
        err = open_records(segment, position, head, batch);
    return err;
}

/* Whether those offsets are below what was synced: what lies there was whole once. */
static void say_damage(struct segment_check *segment, const struct batch_extent *extent, int64_t end_offset)
{
    struct checking *checking = segment->checking;
    const struct damage_range *marked = damage_at(&checking->damage, extent->first_offset);
    struct log_finding finding = {
        .weight = LOG_FAULT,
        .dir = checking->dir,
        .file = segment->name,
        .position = (int64_t)extent->position,
        .offset = extent->first_offset,
        .end_offset = end_offset,
    };
    char text[160];

    (void)snprintf(text, sizeof(text), "is damaged over %" PRIu64 " bytes%s", extent->size,
                   marked == NULL ? "" : ", as it is marked");
    finding.text = text;
    checking->check->faults++;
    checking->check->found(checking->check->context, &finding);
}

/* What ends in no batch at the end of the last segment: torn by a crash, or damaged below what was synced. */
static void tail_judge(struct segment_check *segment, const struct batch_extent *extent)
{
    struct checking *checking = segment->checking;

    if (checking->recovery_point > extent->first_offset) {
        say_damage(segment, extent, checking->recovery_point == INT64_MAX ? -1 : checking->recovery_point);
        return;
    }
    checking->tail_torn = true;
    log_check_say(checking->check, LOG_NOTE, checking->dir, segment->name, (int64_t)extent->position,
                  extent->first_offset, "ends in %" PRIu64 " bytes without a whole batch; the next start cuts them",
                  extent->size);
}

static enum err file_size(const struct segment_check *segment, struct fs_file *file, uint64_t *size)
{
    enum err err = fs_size(file, size);

    if (err == ERR_OK && *size > SEGMENT_BYTES_MAX) {
        say(segment, LOG_FAULT, SEGMENT_BYTES_MAX, -1, "is larger than any segment can be");
        *size = SEGMENT_BYTES_MAX;
    }
    return err;
}

/* Walks from position to limit. behind: out, where it came to; torn: out, and filled, where the end is no batch. */
static enum err walk_to(struct segment_check *segment, struct fs_file *file, uint64_t limit, int64_t next_base,
                        uint64_t *position, struct batch_extent *torn, bool *is_torn)
{
    struct checking *checking = segment->checking;
    struct offset_index boundaries = {0};
    struct batch_walk walk;
    struct batch_header head;
    struct bytes batch;
    uint64_t told = *position;
    enum err err = segment_check_indexes_boundaries(segment, limit, &boundaries);

    *is_torn = false;
    batch_walk_init(&walk, file, *position, limit, checking->next_offset);
    walk.gaps_allowed = true;
    walk.offsets = &boundaries;
    if (next_base >= 0)
        walk.end_offset = next_base;
    while (err == ERR_OK) {
        *position = walk.scan.position;
        if (checking->check->progress != NULL && *position - told >= PROGRESS_BYTES) {
            checking->check->progress(checking->check->context, *position - told);
            told = *position;
        }
        err = batch_walk_next(&walk, &head, &batch);
        if (err == ERR_OK) {
            err = check_batch(segment, *position, &head, batch);
        } else if (err == ERR_DAMAGED) {
            err = ERR_OK;
            if (walk.extent.end_offset < 0 && segment->is_last) {
                *torn = walk.extent;
                *is_torn = true;
                break;
            }
            segment_check_indexes_damage(segment, &walk.extent);
            say_damage(segment, &walk.extent, walk.extent.end_offset < 0 ? next_base : walk.extent.end_offset);
            if (walk.extent.end_offset >= 0)
                checking->next_offset = walk.extent.end_offset;
        }
    }
    if (checking->check->progress != NULL)
        checking->check->progress(checking->check->context, limit - told);
    batch_walk_deinit(&walk);
    offset_index_deinit(&boundaries);
    return err == ERR_END ? ERR_OK : err;
}

static enum err walk_all(struct segment_check *segment, struct fs_file *file, int64_t next_base)
{
    struct batch_extent torn = {0};
    uint64_t position = 0;
    uint64_t size = 0;
    bool is_torn = false;
    enum err err = file_size(segment, file, &size);

    if (err == ERR_OK)
        err = walk_to(segment, file, size, next_base, &position, &torn, &is_torn);
    /* A broker that writes meanwhile: the rest of the batch comes. */
    for (int tries = 0; err == ERR_OK && is_torn && segment->checking->check->in_use && tries < GROWING_TRIES;
         tries++) {
        err = file_size(segment, file, &size);
        if (err == ERR_OK)
            err = walk_to(segment, file, size, next_base, &position, &torn, &is_torn);
    }
    if (err == ERR_OK && is_torn)
        tail_judge(segment, &torn);
    segment->checking->check->bytes += size;
    return err;
}

enum err segment_check_run(struct checking *checking, int64_t base_offset, int64_t next_base)
{
    struct segment_check segment = {.checking = checking,
                                    .base_offset = base_offset,
                                    .is_last = next_base < 0,
                                    .max_timestamp = -1,
                                    .pending_offset = -1};
    struct log_path path;
    struct fs_file *file = NULL;
    enum err err = ERR_OK;

    log_path_segment(&path, "", base_offset, SEGMENT_LOG);
    (void)snprintf(segment.name, sizeof(segment.name), "%s", path.text + 1);
    err = log_path_in(&path, checking->dir, segment.name);
    if (err == ERR_OK)
        err = fs_open(checking->check->fs, path.text, FS_READ, &file);
    if (err == ERR_NOT_FOUND && checking->check->in_use) /* retention came first */
        return ERR_OK;
    if (err != ERR_OK)
        return err;
    checking->check->segments++;
    if (base_offset < checking->next_offset)
        say(&segment, LOG_FAULT, 0, base_offset, "begins before the segment before it ends");
    else if (base_offset > checking->next_offset && checking->check->segments > 1)
        checking->check->gaps++;
    checking->next_offset = base_offset;
    err = segment_check_indexes_begin(&segment);
    if (err == ERR_OK)
        err = walk_all(&segment, file, next_base);
    if (err == ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT) {
        say(&segment, LOG_FAULT, 0, base_offset, "holds messages of a format before 0.11, which are not read");
        checking->next_offset = next_base < 0 ? base_offset : next_base;
        err = ERR_OK;
    } else if (err == ERR_OK) {
        segment_check_indexes_end(&segment, checking->next_offset);
    }
    if (segment.epochs_wrong > 1)
        log_check_say(checking->check, LOG_NOTE, checking->dir, segment.name, -1, -1,
                      "disagrees with leader-epoch-checkpoint in %" PRIu64 " batches", segment.epochs_wrong);
    segment_check_indexes_deinit(&segment);
    fs_file_drop(file);
    return err;
}
