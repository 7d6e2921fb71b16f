/* Index files held against the batches of their segment, as the walk over it brings them. */
#include <inttypes.h>
#include <stdio.h>

#include "base/big_endian.h"
#include "base/mem.h"
#include "partition/log_check_internal.h"
#include "partition/segment.h"
#include "partition/time_index.h"

enum { INDEX_FILE_BYTES_MAX = 256 * 1024 * 1024 };

static void say(const struct segment_check *segment, const struct index_check *index, enum log_weight weight,
                int64_t offset, const char *text)
{
    log_check_say(segment->checking->check, weight, segment->checking->dir, index->name, (int64_t)index->at, offset,
                  "%s", text);
}

static bool all_zero(const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] != 0)
            return false;
    return true;
}

/* Apache Kafka sets its index files aside as zeroes while it writes a segment, and trims them at its clean stop. */
static void tail_trim(struct segment_check *segment, struct index_check *index, size_t entry_bytes)
{
    size_t used = index->content.size;

    while (used >= entry_bytes && all_zero(index->content.data + used - entry_bytes, entry_bytes))
        used -= entry_bytes;
    index->used = index->content.size;
    /* One entry of zeroes could be meant; an index never has two. */
    if (index->content.size - used < 2 * entry_bytes)
        return;
    index->used = used;
    index->at = used;
    say(segment, index, segment->is_last ? LOG_NOTE : LOG_FAULT, -1,
        "ends in zeroes, as a broker that was killed leaves it");
    index->at = 0;
}

static enum err index_read(struct segment_check *segment, struct index_check *index, const char *suffix,
                           size_t entry_bytes, bool expected)
{
    struct log_path path;
    enum err err = ERR_OK;

    log_path_segment(&path, "", segment->base_offset, suffix);
    (void)snprintf(index->name, sizeof(index->name), "%s", path.text + 1);
    err = text_file_read(segment->checking->check->fs, segment->checking->dir, index->name, INDEX_FILE_BYTES_MAX,
                         &index->content);
    if (err == ERR_NOT_FOUND) {
        if (expected && !segment->checking->check->in_use)
            say(segment, index, LOG_NOTE, -1, "is missing; it is rebuilt when it is needed");
        return ERR_OK;
    }
    if (err == ERR_LIMIT) {
        say(segment, index, LOG_FAULT, -1, "is larger than any index can be");
        return ERR_OK;
    }
    if (err != ERR_OK)
        return err;
    index->there = true;
    if (index->content.size % entry_bytes != 0 && !all_zero(index->content.data, index->content.size)) {
        index->at = index->content.size - index->content.size % entry_bytes;
        say(segment, index, segment->checking->check->in_use && segment->is_last ? LOG_NOTE : LOG_FAULT, -1,
            "ends within an entry");
        index->at = 0;
        index->content.size -= index->content.size % entry_bytes;
    }
    tail_trim(segment, index, entry_bytes);
    return ERR_OK;
}

enum err segment_check_indexes_begin(struct segment_check *segment)
{
    enum err err = index_read(segment, &segment->offsets, SEGMENT_INDEX, OFFSET_INDEX_ENTRY_BYTES, true);

    if (err == ERR_OK)
        err = index_read(segment, &segment->times, SEGMENT_TIME_INDEX, TIME_INDEX_ENTRY_BYTES, true);
    if (err == ERR_OK)
        err = index_read(segment, &segment->txns, SEGMENT_TXN_INDEX, TXN_INDEX_ENTRY_BYTES, false);
    return err;
}

void segment_check_indexes_deinit(struct segment_check *segment)
{
    text_deinit(&segment->offsets.content);
    text_deinit(&segment->times.content);
    text_deinit(&segment->txns.content);
    mem_free(segment->aborts);
}

enum err segment_check_indexes_boundaries(const struct segment_check *segment, uint64_t size,
                                          struct offset_index *index)
{
    enum err err = ERR_OK;

    if (!segment->offsets.there)
        return ERR_OK;
    err = offset_index_parse(index, bytes_of(segment->offsets.content.data, segment->offsets.used), size);
    return err == ERR_DAMAGED ? ERR_OK : err;
}

static const uint8_t *entry(const struct index_check *index)
{
    return (const uint8_t *)index->content.data + index->at;
}

/* --- positions --- */

static uint32_t entry_position(const struct index_check *index)
{
    return big_endian_load_u32(entry(index) + 4);
}

static void offsets_pass(struct segment_check *segment, uint64_t position, const char *why)
{
    struct index_check *index = &segment->offsets;

    while (index->at < index->used && entry_position(index) < position) {
        if (why != NULL)
            say(segment, index, LOG_FAULT, segment->base_offset + (int64_t)big_endian_load_u32(entry(index)), why);
        index->at += OFFSET_INDEX_ENTRY_BYTES;
    }
}

/* An entry that names a later offset than its batch's last: Apache Kafka may name the end of the whole append that the
 * batch begins (on-disk.md 3.2). One of the batches up to the next entry has to end there. */
static void pending_end(struct segment_check *segment)
{
    if (segment->pending_offset >= 0)
        log_check_say(segment->checking->check, LOG_FAULT, segment->checking->dir, segment->offsets.name,
                      (int64_t)segment->pending_at, segment->pending_offset, "names an offset at which no batch ends");
    segment->pending_offset = -1;
}

static void offsets_batch(struct segment_check *segment, uint64_t position, const struct batch_header *head)
{
    struct index_check *index = &segment->offsets;
    int64_t offset = 0;

    offsets_pass(segment, position, "points at no batch, or out of order");
    if (index->at < index->used && entry_position(index) == position) {
        pending_end(segment);
        offset = segment->base_offset + (int64_t)big_endian_load_u32(entry(index));
        if (offset < batch_last_offset(head)) {
            say(segment, index, LOG_FAULT, offset, "disagrees with the batch that it points at");
        } else {
            segment->pending_offset = offset;
            segment->pending_at = index->at;
        }
        index->at += OFFSET_INDEX_ENTRY_BYTES;
    }
    if (segment->pending_offset == batch_last_offset(head))
        segment->pending_offset = -1;
}

/* --- times --- */

static void times_batch(struct segment_check *segment, const struct batch_header *head)
{
    struct index_check *index = &segment->times;
    bool is_greatest = head->max_timestamp >= segment->max_timestamp;

    if (head->max_timestamp > segment->max_timestamp)
        segment->max_timestamp = head->max_timestamp;
    while (index->at < index->used) {
        int64_t timestamp = (int64_t)big_endian_load_u64(entry(index));
        int64_t offset = segment->base_offset + (int64_t)big_endian_load_u32(entry(index) + 8);

        if (offset > batch_last_offset(head))
            return;
        if (!segment->times_unknown && (offset < head->base_offset || !is_greatest || timestamp != head->max_timestamp))
            say(segment, index, LOG_FAULT, offset, "disagrees with the greatest timestamp up to there");
        index->at += TIME_INDEX_ENTRY_BYTES;
    }
}

/* --- aborted transactions --- */

static void txns_end(struct segment_check *segment, int64_t end_offset)
{
    struct index_check *index = &segment->txns;
    int64_t before = -1;

    for (; index->at < index->used; index->at += TXN_INDEX_ENTRY_BYTES) {
        int64_t producer_id = (int64_t)big_endian_load_u64(entry(index) + 2);
        int64_t first = (int64_t)big_endian_load_u64(entry(index) + 10);
        int64_t last = (int64_t)big_endian_load_u64(entry(index) + 18);
        bool marker = segment->times_unknown; /* which damage may hide */

        if (big_endian_load_u16(entry(index)) != 0) {
            say(segment, index, LOG_FAULT, -1, "has a version that is not known");
            return;
        }
        for (uint32_t i = 0; i < segment->abort_count && !marker; i++)
            marker = segment->aborts[2 * i] == producer_id && segment->aborts[2 * i + 1] == last;
        if (first > last || first < 0 || last <= before || last < segment->base_offset || last >= end_offset)
            say(segment, index, LOG_FAULT, last, "has an entry out of order or range");
        else if (!marker)
            say(segment, index, LOG_FAULT, last, "has an entry without its abort marker");
        before = last;
    }
}

/* --- together --- */

void segment_check_indexes_batch(struct segment_check *segment, uint64_t position, const struct batch_header *head)
{
    offsets_batch(segment, position, head);
    times_batch(segment, head);
}

void segment_check_indexes_damage(struct segment_check *segment, const struct batch_extent *extent)
{
    offsets_pass(segment, extent->position, "points at no batch, or out of order");
    offsets_pass(segment, extent->position + extent->size, NULL);
    segment->pending_offset = -1;
    segment->times_unknown = true;
}

static void leftovers(struct segment_check *segment, struct index_check *index, size_t entry_bytes)
{
    if (index->at >= index->used)
        return;
    if (!segment->checking->check->in_use || !segment->is_last)
        say(segment, index, segment->checking->tail_torn ? LOG_NOTE : LOG_FAULT, -1,
            "has entries that point behind the end");
    index->at += (index->used - index->at) / entry_bytes * entry_bytes;
}

void segment_check_indexes_end(struct segment_check *segment, int64_t end_offset)
{
    pending_end(segment);
    leftovers(segment, &segment->offsets, OFFSET_INDEX_ENTRY_BYTES);
    leftovers(segment, &segment->times, TIME_INDEX_ENTRY_BYTES);
    txns_end(segment, end_offset);
}
