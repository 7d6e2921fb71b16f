#include "partition/batch_walk.h"

#include "base/big_endian.h"
#include "base/mem.h"

enum {
    WINDOW_BYTES = 256 * 1024, /* looked through at a time for the head of a batch */
    /* How often as many bytes as were looked through may be checksummed on the way: what a record holds can look like a
     * head at every byte. Beyond it the search ends at the next known boundary. */
    TRIES_FACTOR_MAX = 8,
};

void batch_walk_init(struct batch_walk *walk, struct fs_file *file, uint64_t position, uint64_t limit,
                     int64_t next_offset)
{
    *walk = (struct batch_walk){.next_offset = next_offset, .end_offset = INT64_MAX};
    batch_scan_init(&walk->scan, file, position, limit, BATCH_SCAN_CHECKED);
}

void batch_walk_deinit(struct batch_walk *walk)
{
    batch_scan_deinit(&walk->scan);
}

/* The offsets of a batch fit between those before it and the end. */
static bool fits(const struct batch_walk *walk, const struct batch_header *head)
{
    return head->base_offset >= walk->next_offset && batch_last_offset(head) < walk->end_offset;
}

/* A batch that leaves a gap is looked at twice. Compaction makes gaps, but a batch whose successor stands before it was
 * not moved by that; nor was the last of all in a log that is not compacted. */
static bool gap_is_damage(const struct batch_walk *walk, const struct batch_header *head)
{
    struct batch_scan scan;
    struct batch_header next;
    struct bytes batch;
    enum err err = ERR_OK;

    batch_scan_init(&scan, walk->scan.file, walk->scan.position, walk->scan.limit, BATCH_SCAN_HEADS);
    err = batch_scan_next(&scan, &next, &batch);
    batch_scan_deinit(&scan);
    return err == ERR_OK ? next.base_offset <= batch_last_offset(head) : err == ERR_END && !walk->gaps_allowed;
}

/* --- behind damage --- */

struct search {
    const struct batch_walk *walk;
    uint64_t from;        /* the damage begins here */
    uint64_t target;      /* a boundary that something else knows */
    uint64_t tried;       /* bytes checksummed */
    uint64_t looked;      /* bytes looked through */
    uint64_t found;       /* 0: nothing */
    int64_t found_offset; /* base offset of the batch there */
};

/* Whether what ends a run of batches before the limit is one more of them, which is torn or damaged itself: what lies
 * inside a record is not followed by the head of its successor. */
static bool successor_begins(const struct search *search, uint64_t position, int64_t next_offset)
{
    uint8_t head[BATCH_FIELD_MAGIC + 1];
    size_t got = 0;

    return search->target == search->walk->scan.limit && position + sizeof(head) <= search->target &&
           fs_read(search->walk->scan.file, position, head, sizeof(head), &got) == ERR_OK && got == sizeof(head) &&
           head[BATCH_FIELD_MAGIC] == BATCH_MAGIC && (int64_t)big_endian_load_u64(head) == next_offset;
}

/* Whole batches from position on, up to the target at most: where they end, and the first one's base offset. ERR_END:
 * they end at the target, or with what can only be the next of them. ERR_DAMAGED: elsewhere. */
static enum err chain(struct search *search, uint64_t position, uint64_t *end, int64_t *base_offset)
{
    const struct batch_walk *walk = search->walk;
    struct batch_scan scan;
    struct batch_header head;
    struct bytes batch;
    int64_t next_offset = walk->next_offset;
    enum err err = ERR_OK;

    *base_offset = -1;
    batch_scan_init(&scan, walk->scan.file, position, walk->scan.limit, BATCH_SCAN_CHECKED);
    while (scan.position < search->target) {
        uint64_t before = scan.position;

        err = batch_scan_next(&scan, &head, &batch);
        search->tried += scan.position > before ? scan.position - before : BATCH_HEADER_BYTES;
        if (err == ERR_OK && (head.base_offset < next_offset || batch_last_offset(&head) >= walk->end_offset)) {
            scan.position = before;
            err = ERR_DAMAGED;
        }
        if (err != ERR_OK)
            break;
        if (*base_offset < 0)
            *base_offset = head.base_offset;
        next_offset = batch_last_offset(&head) + 1;
    }
    *end = scan.position;
    batch_scan_deinit(&scan);
    if (err != ERR_OK && err != ERR_END && err != ERR_DAMAGED)
        return err;
    return *end == search->target || (*base_offset >= 0 && successor_begins(search, *end, next_offset)) ? ERR_END
                                                                                                        : ERR_DAMAGED;
}

/* What any batch of this log that lies here would have: cheap, for every byte. */
static bool may_begin(const struct search *search, const uint8_t *at, uint64_t position)
{
    struct batch_header head;
    enum err err = ERR_OK;

    if (at[BATCH_FIELD_MAGIC] != BATCH_MAGIC)
        return false;
    err = batch_peek(bytes_of(at, BATCH_HEADER_BYTES), &head, NULL);
    return (err == ERR_OK || err == ERR_END) && fits(search->walk, &head) &&
           head.size <= search->walk->scan.limit - position;
}

/* Tries every place of a window. ERR_END: found. */
static enum err look_through(struct search *search, const uint8_t *window, size_t size, uint64_t position)
{
    for (size_t i = 0; i + BATCH_HEADER_BYTES <= size; i++) {
        uint64_t end = 0;
        int64_t base_offset = 0;
        enum err err = ERR_OK;

        if (!may_begin(search, window + i, position + i))
            continue;
        if (search->tried / TRIES_FACTOR_MAX > search->looked + i + WINDOW_BYTES)
            return ERR_OK;
        err = chain(search, position + i, &end, &base_offset);
        if (err == ERR_END) {
            search->found = position + i;
            search->found_offset = base_offset;
        }
        if (err != ERR_DAMAGED)
            return err;
    }
    return ERR_OK;
}

/* Looks for a batch between the damage and the target. ERR_END: found; ERR_OK: not. */
static enum err look(struct search *search)
{
    uint8_t *window = mem_alloc(WINDOW_BYTES);
    uint64_t position = search->from + 1;
    enum err err = window == NULL ? ERR_NOMEM : ERR_OK;

    while (err == ERR_OK && position + BATCH_HEADER_BYTES <= search->target) {
        size_t want = WINDOW_BYTES;
        size_t got = 0;

        if (want > search->target - position)
            want = (size_t)(search->target - position);
        err = fs_read(search->walk->scan.file, position, window, want, &got);
        if (err != ERR_OK || got < BATCH_HEADER_BYTES)
            break;
        err = look_through(search, window, got, position);
        position += got - BATCH_HEADER_BYTES + 1;
        search->looked += got - BATCH_HEADER_BYTES + 1;
    }
    mem_free(window);
    return err;
}

/* The first indexed place behind position where a whole batch begins, and its base offset; else the limit, and -1. */
static uint64_t boundary_behind(const struct batch_walk *walk, uint64_t position, int64_t *base_offset)
{
    for (uint32_t i = 0; walk->offsets != NULL && i < walk->offsets->count; i++) {
        const struct offset_index_entry *entry = &walk->offsets->entries[i];
        struct batch_scan scan;
        struct batch_header head;
        struct bytes batch;
        enum err err = ERR_OK;

        if (entry->position <= position || entry->position >= walk->scan.limit)
            continue;
        batch_scan_init(&scan, walk->scan.file, entry->position, walk->scan.limit, BATCH_SCAN_CHECKED);
        err = batch_scan_next(&scan, &head, &batch);
        batch_scan_deinit(&scan);
        if (err == ERR_OK && fits(walk, &head)) {
            *base_offset = head.base_offset;
            return entry->position;
        }
    }
    *base_offset = -1;
    return walk->scan.limit;
}

/* The easy case: a body is damaged, its head is not. What lies behind it is whole and continues its offsets; or nothing
 * does, and then the head alone does not say how many there were. */
static bool head_still_tells(const struct batch_walk *walk, uint64_t position, uint64_t *behind, int64_t *next_base)
{
    struct batch_scan scan;
    struct batch_header head;
    struct batch_header next;
    struct bytes batch;
    bool tells = false;

    batch_scan_init(&scan, walk->scan.file, position, walk->scan.limit, BATCH_SCAN_HEADS);
    if (batch_scan_next(&scan, &head, &batch) == ERR_OK && fits(walk, &head)) {
        *behind = scan.position;
        *next_base = batch_last_offset(&head) + 1;
        scan.depth = BATCH_SCAN_CHECKED;
        if (scan.position == scan.limit) {
            tells = head.base_offset == walk->next_offset;
            *next_base = -1;
        } else if (batch_scan_next(&scan, &next, &batch) == ERR_OK) {
            tells = head.base_offset == walk->next_offset && next.base_offset == *next_base;
        }
    }
    batch_scan_deinit(&scan);
    return tells;
}

static enum err extent_find(struct batch_walk *walk, uint64_t position)
{
    struct search search = {.walk = walk, .from = position};
    int64_t next_base = 0;
    uint64_t behind = 0;
    enum err err = ERR_OK;

    walk->extent = (struct batch_extent){
        .position = position, .size = walk->scan.limit - position, .first_offset = walk->next_offset, .end_offset = -1};
    if (head_still_tells(walk, position, &behind, &next_base)) {
        walk->extent.size = behind - position;
        walk->extent.end_offset = next_base;
        return ERR_OK;
    }
    search.target = boundary_behind(walk, position, &next_base);
    err = look(&search);
    walk->resync_bytes += search.looked + search.tried;
    if (err != ERR_OK && err != ERR_END)
        return err;
    if (err == ERR_OK && next_base >= 0) { /* no way leads up to the boundary, which is itself the next batch */
        search.found = search.target;
        search.found_offset = next_base;
    }
    if (search.found > 0) {
        walk->extent.size = search.found - position;
        walk->extent.end_offset = search.found_offset;
    }
    return ERR_OK;
}

enum err batch_walk_next(struct batch_walk *walk, struct batch_header *head, struct bytes *batch)
{
    uint64_t position = walk->scan.position;
    enum err err = batch_scan_next(&walk->scan, head, batch);

    if (err == ERR_OK && (!fits(walk, head) || (head->base_offset > walk->next_offset && gap_is_damage(walk, head))))
        err = ERR_DAMAGED;
    if (err == ERR_OK) {
        walk->next_offset = batch_last_offset(head) + 1;
        return ERR_OK;
    }
    if (err != ERR_DAMAGED)
        return err;
    err = extent_find(walk, position);
    if (err != ERR_OK) {
        walk->scan.position = position;
        return err;
    }
    walk->scan.position = position + walk->extent.size;
    if (walk->extent.end_offset >= 0)
        walk->next_offset = walk->extent.end_offset;
    return ERR_DAMAGED;
}
