#include "partition/segment_damage.h"

#include <string.h>

#include "partition/log_path.h"
#include "partition/text_file.h"

enum { INDEX_FILE_BYTES_MAX = 256 * 1024 * 1024 };

enum err segment_damage_boundaries(struct fs *fs, const char *dir, int64_t base_offset, uint64_t size,
                                   struct offset_index *offsets)
{
    struct log_path path;
    struct text content = {0};
    enum err err = ERR_OK;

    log_path_segment(&path, dir, base_offset, SEGMENT_INDEX);
    err = text_file_read(fs, dir, strrchr(path.text, '/') + 1, INDEX_FILE_BYTES_MAX, &content);
    if (err == ERR_OK)
        err = offset_index_parse(offsets, bytes_of(content.data, content.size), size);
    text_deinit(&content);
    return err == ERR_NOMEM ? err : ERR_OK;
}

/* Where damage ends that nothing whole follows: with the segment, where that is known; else at what was synced, as far
 * as that many bytes can have held so many records. */
static int64_t tail_end(const struct batch_extent *extent, const struct segment_recovery *how)
{
    int64_t most = extent->first_offset + (int64_t)extent->size;

    if (how->end_offset > extent->first_offset)
        return how->end_offset;
    if (how->tail_offset <= extent->first_offset)
        return extent->first_offset + 1;
    return how->tail_offset < most ? how->tail_offset : most;
}

enum err segment_damage_pass(struct segment *segment, struct fs *fs, const char *dir, struct fs_file *file,
                             uint64_t size, const struct segment_recovery *how)
{
    struct offset_index offsets = {0};
    struct batch_walk walk;
    struct batch_header head;
    struct bytes batch;
    bool changed = false;
    enum err err = segment_damage_boundaries(fs, dir, segment->base_offset, size, &offsets);

    batch_walk_init(&walk, file, segment->size, size, segment->end_offset);
    walk.gaps_allowed = how->gaps_allowed;
    walk.offsets = &offsets;
    if (how->end_offset >= 0)
        walk.end_offset = how->end_offset;
    if (err == ERR_OK)
        err = batch_walk_next(&walk, &head, &batch);
    if (err == ERR_OK || err == ERR_END) {
        err = ERR_DAMAGED;
    } else if (err == ERR_DAMAGED) {
        struct damage_range range = {
            .first_offset = walk.extent.first_offset,
            .end_offset = walk.extent.end_offset >= 0 ? walk.extent.end_offset : tail_end(&walk.extent, how),
            .segment_base = segment->base_offset,
            .position = walk.extent.position,
            .size = walk.extent.size,
            .found_ms = how->now_ms,
        };

        if (range.end_offset - segment->base_offset <= INT32_MAX && range.end_offset > range.first_offset) {
            err = damage_add(how->damage, &range, &changed);
            segment->size += range.size;
            segment->end_offset = range.end_offset;
        }
    }
    batch_walk_deinit(&walk);
    offset_index_deinit(&offsets);
    return err;
}

/* --- for readers --- */

/* The walk begins at the last entry before the offset whose batch is whole, else at the beginning. */
static enum err walk_begin(const struct segment_damage_search *search, const struct offset_index *offsets,
                           struct batch_walk *walk)
{
    for (uint32_t i = offsets->count; i > 0; i--) {
        const struct offset_index_entry *entry = &offsets->entries[i - 1];
        struct batch_header head;
        struct bytes batch;
        enum err err = ERR_OK;

        if (search->base_offset + entry->relative_offset >= search->offset)
            continue;
        batch_walk_init(walk, search->file, entry->position, search->size, search->base_offset);
        walk->end_offset = search->end_offset;
        walk->gaps_allowed = true;
        err = batch_scan_next(&walk->scan, &head, &batch);
        if (err == ERR_OK && head.base_offset >= search->base_offset &&
            batch_last_offset(&head) == search->base_offset + entry->relative_offset) {
            walk->next_offset = batch_last_offset(&head) + 1;
            return ERR_OK;
        }
        batch_walk_deinit(walk);
        if (err != ERR_OK && err != ERR_DAMAGED && err != ERR_END)
            return err;
    }
    batch_walk_init(walk, search->file, 0, search->size, search->base_offset);
    return ERR_OK;
}

static enum err note(struct segment_damage_search *search, const struct batch_extent *extent)
{
    bool changed = false;

    return damage_add(&search->damage,
                      &(struct damage_range){
                          .first_offset = extent->first_offset,
                          .end_offset = extent->end_offset >= 0 ? extent->end_offset : search->end_offset,
                          .segment_base = search->base_offset,
                          .position = extent->position,
                          .size = extent->size,
                      },
                      &changed);
}

enum err segment_damage_search(struct segment_damage_search *search)
{
    struct offset_index offsets = {0};
    struct batch_walk walk = {0};
    struct batch_header head;
    struct bytes batch;
    enum err err = segment_damage_boundaries(search->fs, search->dir, search->base_offset, search->size, &offsets);

    search->found = false;
    if (err == ERR_OK)
        err = walk_begin(search, &offsets, &walk);
    walk.end_offset = search->end_offset;
    walk.gaps_allowed = search->gaps_allowed;
    walk.offsets = &offsets;
    while (err == ERR_OK && walk.next_offset <= search->offset) {
        search->position = walk.scan.position;
        err = batch_walk_next(&walk, &head, &batch);
        if (err == ERR_OK)
            search->found = batch_last_offset(&head) >= search->offset;
        else if (err == ERR_DAMAGED && walk.extent.first_offset < search->end_offset)
            err = note(search, &walk.extent);
    }
    batch_walk_deinit(&walk);
    offset_index_deinit(&offsets);
    return err == ERR_END ? ERR_OK : err;
}
