#include "partition/log_swap.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "partition/batch_scan.h"
#include "partition/log_path.h"
#include "partition/segment.h"

enum state { STATE_PLAIN, STATE_CLEANED, STATE_SWAP };

/* The log first: without it the others are nothing. */
static const char *const kinds[] = {SEGMENT_LOG, SEGMENT_INDEX, SEGMENT_TIME_INDEX, SEGMENT_TXN_INDEX};
enum { KIND_LOG = 0, KINDS = sizeof(kinds) / sizeof(kinds[0]) };

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

/* Behind the last batch of a .log.swap. */
static enum err swap_end(const struct leftovers *left, int64_t base_offset, int64_t *end_offset)
{
    struct batch_scan scan;
    struct batch_header head;
    struct bytes batch;
    struct fs_file *file = NULL;
    struct log_path path;
    uint64_t size = 0;
    enum err err = ERR_OK;

    *end_offset = base_offset;
    path_of(left, base_offset, KIND_LOG, STATE_SWAP, &path);
    err = fs_open(left->fs, path.text, FS_READ, &file);
    if (err != ERR_OK)
        return err;
    err = fs_size(file, &size);
    if (err == ERR_OK) {
        batch_scan_init(&scan, file, 0, size, BATCH_SCAN_HEADS);
        scan.any_codec = true;
        while ((err = batch_scan_next(&scan, &head, &batch)) == ERR_OK && head.base_offset >= *end_offset)
            *end_offset = batch_last_offset(&head) + 1;
        batch_scan_deinit(&scan);
        err = err == ERR_END ? ERR_OK : err == ERR_OK ? ERR_DAMAGED : err;
    }
    fs_file_drop(file);
    return err;
}

/* Old segments are put aside from the first on, so while that one is there all are. */
static enum err swap_give_up(const struct leftovers *left, struct item *swap)
{
    bool is_whole = item_find(left, swap->base_offset, KIND_LOG, STATE_PLAIN) != NULL;

    log_line(left->log, is_whole ? LOG_WARN : LOG_ERROR, "compacted segment is damaged, %s dir=%s base_offset=%" PRId64,
             is_whole ? "what it was to replace stays" : "and what it was to replace is gone", left->dir,
             swap->base_offset);
    return is_whole ? item_remove(left, swap) : ERR_DAMAGED;
}

static enum err swap_in(const struct leftovers *left, struct item *swap)
{
    int64_t base_offset = swap->base_offset;
    int64_t end_offset = 0;
    enum err err = swap_end(left, base_offset, &end_offset);

    if (err == ERR_DAMAGED || err == ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT)
        return swap_give_up(left, swap);
    for (uint32_t i = 0; i < left->count && err == ERR_OK; i++) {
        struct item *item = &left->items[i];

        if (item->state == STATE_PLAIN && !item->gone && item->base_offset >= base_offset &&
            (item->base_offset < end_offset || item->base_offset == base_offset))
            err = item_remove(left, item);
    }
    return err == ERR_OK ? item_take(left, swap) : err;
}

/* An index without a .log.swap: the log has been swapped in already, unless an old index says that it never was. */
static enum err rest_in(const struct leftovers *left, struct item *item)
{
    if (item_find(left, item->base_offset, item->kind, STATE_PLAIN) != NULL ||
        item_find(left, item->base_offset, KIND_LOG, STATE_PLAIN) == NULL)
        return item_remove(left, item);
    return item_take(left, item);
}

static enum err swaps_finish(const struct leftovers *left)
{
    enum err err = ERR_OK;

    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < left->count && err == ERR_OK; i++) {
            struct item *item = &left->items[i];

            if (item->state != STATE_SWAP || item->gone || (item->kind == KIND_LOG) != (pass == 0))
                continue;
            log_info(left->log, "interrupted compaction finished dir=%s base_offset=%" PRId64 " file=%s", left->dir,
                     item->base_offset, kinds[item->kind]);
            err = pass == 0 ? swap_in(left, item) : rest_in(left, item);
        }
    }
    return err;
}

enum err log_swap_finish(struct fs *fs, struct log *log, const char *dir)
{
    struct leftovers left = {.fs = fs, .log = log, .dir = dir};
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
