#include "partition/log_swap.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "partition/batch_walk.h"
#include "partition/log_path.h"
#include "partition/segment.h"

enum state { STATE_PLAIN, STATE_CLEANED, STATE_SWAP };

/* The log first: without it the others are nothing. */
static const char *const kinds[] = {SEGMENT_LOG, SEGMENT_INDEX, SEGMENT_TIME_INDEX, SEGMENT_TXN_INDEX};
enum { KIND_LOG = 0, KINDS = sizeof(kinds) / sizeof(kinds[0]) };
/* That are asked for what a new segment replaces: one may be damaged. */
enum { LAST_BATCHES_MAX = 2 };

struct item {
    int64_t base_offset;
    uint32_t kind;
    enum state state;
    bool gone;
};

struct leftovers {
    struct fs *fs;
    struct log *log;
    const char *dir;
    struct item *items; /* by base offset, then by kind */
    uint32_t count;
    uint32_t room;
    int64_t kept_base; /* of the last old segment that a swap was undone for; -1: of none */
};

static const char *more_of(enum state state)
{
    return state == STATE_CLEANED ? ".cleaned" : state == STATE_SWAP ? ".swap" : "";
}

static void path_of(const struct leftovers *left, int64_t base_offset, uint32_t kind, enum state state,
                    struct log_path *path)
{
    const char *more = more_of(state);

    log_path_segment(path, left->dir, base_offset, kinds[kind]);
    memcpy(path->text + strlen(path->text), more, strlen(more) + 1);
}

static bool suffix_parse(const char *suffix, struct item *item)
{
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        size_t size = strlen(kinds[kind]);

        if (strncmp(suffix, kinds[kind], size) != 0)
            continue;
        for (enum state state = STATE_PLAIN; state <= STATE_SWAP; state++) {
            if (strcmp(suffix + size, more_of(state)) == 0) {
                item->kind = kind;
                item->state = state;
                return true;
            }
        }
    }
    return false;
}

static enum err item_add(void *context, const char *name, bool is_directory)
{
    struct leftovers *left = context;
    const char *suffix = NULL;
    struct item item = {0};
    enum err err = ERR_OK;

    if (is_directory || !log_path_parse_segment(name, &item.base_offset, &suffix) || !suffix_parse(suffix, &item))
        return ERR_OK;
    err = mem_grow(&left->items, &left->room, left->count + 1, 16, sizeof(left->items[0]));
    if (err == ERR_OK)
        left->items[left->count++] = item;
    return err;
}

static int item_compare(const void *a, const void *b)
{
    const struct item *left = a;
    const struct item *right = b;

    if (left->base_offset != right->base_offset)
        return left->base_offset > right->base_offset ? 1 : -1;
    return (left->kind > right->kind) - (left->kind < right->kind);
}

static struct item *item_find(const struct leftovers *left, int64_t base_offset, uint32_t kind, enum state state)
{
    for (uint32_t i = 0; i < left->count; i++) {
        struct item *item = &left->items[i];

        if (item->base_offset == base_offset && item->kind == kind && item->state == state && !item->gone)
            return item;
    }
    return NULL;
}

static enum err item_remove(const struct leftovers *left, struct item *item)
{
    struct log_path path;
    enum err err = ERR_OK;

    path_of(left, item->base_offset, item->kind, item->state, &path);
    err = fs_unlink(left->fs, path.text);
    item->gone = err == ERR_OK || err == ERR_NOT_FOUND;
    return item->gone ? ERR_OK : err;
}

static enum err item_take(const struct leftovers *left, struct item *item)
{
    struct log_path from;
    struct log_path to;
    enum err err = ERR_OK;

    path_of(left, item->base_offset, item->kind, item->state, &from);
    path_of(left, item->base_offset, item->kind, STATE_PLAIN, &to);
    err = fs_rename(left->fs, from.text, to.text);
    if (err == ERR_OK)
        item->state = STATE_PLAIN;
    return err;
}

/* Those of that state from base_offset on; the logs last, as they tell what the others are. */
static enum err remove_from(const struct leftovers *left, enum state state, int64_t base_offset)
{
    for (uint32_t kind = KINDS; kind > 0; kind--) {
        for (uint32_t i = 0; i < left->count; i++) {
            struct item *item = &left->items[i];
            enum err err = ERR_OK;

            if (item->gone || item->state != state || item->kind != kind - 1 || item->base_offset < base_offset)
                continue;
            err = item_remove(left, item);
            if (err != ERR_OK)
                return err;
        }
    }
    return ERR_OK;
}

static enum err cleaned_remove(const struct leftovers *left)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < left->count; i++) {
        if (left->items[i].state != STATE_CLEANED)
            continue;
        err = remove_from(left, STATE_SWAP, left->items[i].base_offset); /* the lowest: they are in order */
        return err == ERR_OK ? remove_from(left, STATE_CLEANED, 0) : err;
    }
    return ERR_OK;
}

/* --- the logs --- */

/* A segment's file, of which only batches are believed that can be vouched for. */
struct swap_file {
    struct fs_file *file;
    uint64_t size;
};

static enum err file_open(const struct leftovers *left, int64_t base_offset, enum state state, struct swap_file *opened)
{
    struct log_path path;
    enum err err = ERR_OK;

    path_of(left, base_offset, KIND_LOG, state, &path);
    err = fs_open(left->fs, path.text, FS_READ, &opened->file);
    if (err == ERR_OK)
        err = fs_size(opened->file, &opened->size);
    if (err != ERR_OK)
        fs_file_drop(opened->file);
    return err;
}

/* The last whole batch that ends at or before limit, and where it lies. ERR_END: there is none. */
static enum err last_batch(const struct swap_file *swap, int64_t base_offset, uint64_t limit, struct batch_header *last,
                           uint64_t *position)
{
    struct batch_walk walk;
    struct batch_header head;
    struct bytes batch;
    bool any = false;
    enum err err = ERR_OK;

    batch_walk_init(&walk, swap->file, 0, limit, base_offset);
    walk.scan.any_codec = true;
    walk.gaps_allowed = true;
    while ((err = batch_walk_next(&walk, &head, &batch)) == ERR_OK || err == ERR_DAMAGED) {
        if (err == ERR_DAMAGED)
            continue; /* said when the segment is read */
        *last = head;
        *position = walk.scan.position - head.size;
        any = true;
    }
    batch_walk_deinit(&walk);
    return err == ERR_END && any ? ERR_OK : err;
}

/* The last old segment that begins between. */
static const struct item *old_below(const struct leftovers *left, int64_t base_offset, int64_t last_offset)
{
    const struct item *found = NULL;

    for (uint32_t i = 0; i < left->count; i++) {
        const struct item *item = &left->items[i];

        if (item->kind == KIND_LOG && item->state == STATE_PLAIN && !item->gone && item->base_offset > base_offset &&
            item->base_offset <= last_offset)
            found = item; /* they are in order */
    }
    return found;
}

/* Whether the segment has that batch, or had it before records were taken out of it: offsets of batches stay. */
static enum err old_holds(const struct leftovers *left, const struct item *old, const struct batch_header *wanted,
                          bool *holds)
{
    struct swap_file segment = {0};
    struct batch_scan scan;
    struct batch_header head;
    struct bytes batch;
    enum err err = file_open(left, old->base_offset, STATE_PLAIN, &segment);

    *holds = false;
    if (err != ERR_OK)
        return err;
    batch_scan_init(&scan, segment.file, 0, segment.size, BATCH_SCAN_HEADS);
    scan.any_codec = true;
    while (!*holds && (err = batch_scan_next(&scan, &head, &batch)) == ERR_OK)
        *holds = head.base_offset == wanted->base_offset && batch_last_offset(&head) == batch_last_offset(wanted);
    batch_scan_deinit(&scan);
    fs_file_drop(segment.file);
    return err == ERR_END || err == ERR_DAMAGED || err == ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT ? ERR_OK : err;
}

/*
 * The base of the last old segment that is still there and that the new one takes the place of; -1: none is. The
 * offsets of a batch are vouched for by no checksum where it is the last one, and were they believed alone a flipped
 * bit could cost the rest of the log: so an old segment goes only if it has a batch of just these offsets.
 */
static enum err last_replaced(const struct leftovers *left, int64_t base_offset, int64_t *replaced)
{
    struct swap_file swap = {0};
    bool holds = false;
    enum err err = file_open(left, base_offset, STATE_SWAP, &swap);
    uint64_t limit = swap.size;

    *replaced = -1;
    if (err != ERR_OK)
        return err;
    for (uint32_t tries = 0; tries < LAST_BATCHES_MAX && err == ERR_OK && !holds; tries++) {
        const struct item *old = NULL;
        struct batch_header last = {0};

        err = last_batch(&swap, base_offset, limit, &last, &limit);
        if (err == ERR_OK)
            old = old_below(left, base_offset, batch_last_offset(&last));
        if (old == NULL)
            break;
        err = old_holds(left, old, &last, &holds);
        if (holds)
            *replaced = old->base_offset;
    }
    fs_file_drop(swap.file);
    return err == ERR_END ? ERR_OK : err;
}

/* What it was to replace is there, all of it: old segments are put aside from the first on. */
static enum err swap_undo(struct leftovers *left, const struct item *swap)
{
    enum err err = ERR_OK;

    log_info(left->log, "interrupted compaction undone dir=%s base_offset=%" PRId64, left->dir, swap->base_offset);
    for (uint32_t kind = KINDS; kind > 0 && err == ERR_OK; kind--) {
        struct item *item = item_find(left, swap->base_offset, kind - 1, STATE_SWAP);

        if (item != NULL)
            err = item_remove(left, item);
    }
    return err;
}

static enum err swap_in(const struct leftovers *left, struct item *swap)
{
    int64_t replaced = -1;
    enum err err = last_replaced(left, swap->base_offset, &replaced);

    for (uint32_t i = 0; i < left->count && err == ERR_OK; i++) {
        struct item *item = &left->items[i];

        if (item->state == STATE_PLAIN && !item->gone &&
            (item->base_offset == swap->base_offset ||
             (item->base_offset > swap->base_offset && item->base_offset <= replaced)))
            err = item_remove(left, item);
    }
    return err == ERR_OK ? item_take(left, swap) : err;
}

/* Where the first of several that were to replace one old segment was undone, so are the others. */
static bool is_to_undo(struct leftovers *left, const struct item *swap)
{
    const struct item *old = old_below(left, -1, swap->base_offset);

    if (old == NULL || (old->base_offset != swap->base_offset && old->base_offset != left->kept_base))
        return false;
    left->kept_base = old->base_offset;
    return true;
}

/* An index without a .log.swap: the log has been swapped in already, unless an old index says that it never was. */
static enum err rest_in(const struct leftovers *left, struct item *item)
{
    if (item_find(left, item->base_offset, item->kind, STATE_PLAIN) != NULL ||
        item_find(left, item->base_offset, KIND_LOG, STATE_PLAIN) == NULL)
        return item_remove(left, item);
    return item_take(left, item);
}

static enum err swaps_finish(struct leftovers *left)
{
    enum err err = ERR_OK;

    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < left->count && err == ERR_OK; i++) {
            struct item *item = &left->items[i];

            if (item->state != STATE_SWAP || item->gone || (item->kind == KIND_LOG) != (pass == 0))
                continue;
            if (pass == 0 && is_to_undo(left, item)) {
                err = swap_undo(left, item);
                continue;
            }
            log_info(left->log, "interrupted compaction finished dir=%s base_offset=%" PRId64 " file=%s", left->dir,
                     item->base_offset, kinds[item->kind]);
            err = pass == 0 ? swap_in(left, item) : rest_in(left, item);
        }
    }
    return err;
}

enum err log_swap_finish(struct fs *fs, struct log *log, const char *dir)
{
    struct leftovers left = {.fs = fs, .log = log, .dir = dir, .kept_base = -1};
    enum err err = fs_list(fs, dir, item_add, &left);

    if (left.count > 0)
        qsort(left.items, left.count, sizeof(left.items[0]), item_compare);
    if (err == ERR_OK)
        err = cleaned_remove(&left);
    if (err == ERR_OK)
        err = swaps_finish(&left);
    if (err == ERR_OK && fs_sync_dir(fs, dir) != ERR_OK)
        err = ERR_IO;
    mem_free(left.items);
    return err;
}
