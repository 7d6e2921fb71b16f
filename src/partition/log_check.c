#include "partition/log_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "partition/checkpoint.h"
#include "partition/log_check_internal.h"
#include "partition/partition_limits.h"
#include "partition/producer_state.h"
#include "partition/segment.h"

enum { TEXT_CHARS_MAX = 512, NUMBERS_ROOM_FIRST = 16 };

void log_check_say(struct log_check *check, enum log_weight weight, const char *dir, const char *file, int64_t position,
                   int64_t offset, const char *format, ...)
{
    char text[TEXT_CHARS_MAX];
    struct log_finding finding = {
        .weight = weight,
        .dir = dir,
        .file = file,
        .position = position,
        .offset = offset,
        .end_offset = -1,
        .text = text,
    };
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (weight == LOG_FAULT)
        check->faults++;
    else
        check->notes++;
    check->found(check->context, &finding);
}

/* --- what lies in the directory --- */

struct listed {
    struct checking *checking;
    int64_t *segments; /* base offsets */
    uint32_t segment_count;
    uint32_t segment_room;
    int64_t *snapshots;
    uint32_t snapshot_count;
    uint32_t snapshot_room;
    int64_t *indexes; /* base offsets of index files of all kinds, with repetition */
    uint32_t index_count;
    uint32_t index_room;
};

static enum err number_add(int64_t **numbers, uint32_t *count, uint32_t *room, int64_t number)
{
    enum err err = mem_grow(numbers, room, *count + 1, NUMBERS_ROOM_FIRST, sizeof(**numbers));

    if (err == ERR_OK)
        (*numbers)[(*count)++] = number;
    return err;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t size = strlen(name);
    size_t suffix_size = strlen(suffix);

    return size >= suffix_size && strcmp(name + size - suffix_size, suffix) == 0;
}

static enum err list_entry(void *context, const char *name, bool is_directory)
{
    struct listed *listed = context;
    struct checking *checking = listed->checking;
    const char *suffix = NULL;
    int64_t base_offset = 0;

    if (is_directory)
        return ERR_OK;
    if (ends_with(name, ".deleted") || ends_with(name, ".cleaned") || ends_with(name, ".swap") ||
        ends_with(name, ".tmp") || ends_with(name, ".part")) {
        if (!checking->check->in_use)
            log_check_say(checking->check, LOG_NOTE, checking->dir, name, -1, -1,
                          "was left by work that did not finish; the next start sees to it");
        return ERR_OK;
    }
    if (!log_path_parse_segment(name, &base_offset, &suffix))
        return ERR_OK;
    if (strcmp(suffix, SEGMENT_LOG) == 0)
        return number_add(&listed->segments, &listed->segment_count, &listed->segment_room, base_offset);
    if (strcmp(suffix, SEGMENT_SNAPSHOT) == 0)
        return number_add(&listed->snapshots, &listed->snapshot_count, &listed->snapshot_room, base_offset);
    if (strcmp(suffix, SEGMENT_INDEX) == 0 || strcmp(suffix, SEGMENT_TIME_INDEX) == 0 ||
        strcmp(suffix, SEGMENT_TXN_INDEX) == 0)
        return number_add(&listed->indexes, &listed->index_count, &listed->index_room, base_offset);
    return ERR_OK;
}

static int number_compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static void numbers_sort(int64_t *numbers, uint32_t count)
{
    if (count > 0)
        qsort(numbers, count, sizeof(numbers[0]), number_compare);
}

static void listed_deinit(struct listed *listed)
{
    mem_free(listed->segments);
    mem_free(listed->snapshots);
    mem_free(listed->indexes);
}

static void indexes_check(const struct listed *listed)
{
    struct checking *checking = listed->checking;

    if (checking->check->in_use)
        return;
    for (uint32_t i = 0; i < listed->index_count; i++) {
        struct log_path path;

        if ((i > 0 && listed->indexes[i] == listed->indexes[i - 1]) ||
            (listed->segment_count > 0 && bsearch(&listed->indexes[i], listed->segments, listed->segment_count,
                                                  sizeof(listed->segments[0]), number_compare) != NULL))
            continue;
        log_path_segment(&path, "", listed->indexes[i], SEGMENT_INDEX);
        log_check_say(checking->check, LOG_NOTE, checking->dir, path.text + 1, -1, listed->indexes[i],
                      "is an index without its segment");
    }
}

/* --- the small files --- */

static enum err epochs_read(struct checking *checking)
{
    enum err err = checkpoint_read_epochs(checking->check->fs, checking->dir, &checking->epochs);

    checking->epochs_known = err == ERR_OK && checking->epochs.count > 0;
    if (err == ERR_DAMAGED || err == ERR_LIMIT) {
        log_check_say(checking->check, LOG_FAULT, checking->dir, "leader-epoch-checkpoint", -1, -1,
                      "cannot be read; it is rebuilt from the log");
        epoch_cache_deinit(&checking->epochs);
        return ERR_OK;
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static void epochs_check(struct checking *checking)
{
    const struct epoch_entry *last = epoch_cache_last(&checking->epochs);

    if (last != NULL && last->start_offset > checking->next_offset && !checking->check->in_use && !checking->tail_torn)
        log_check_say(checking->check, LOG_FAULT, checking->dir, "leader-epoch-checkpoint", -1, last->start_offset,
                      "knows an epoch that begins behind the log's end");
}

static enum err topic_id_check(struct checking *checking)
{
    struct uuid topic_id;
    enum err err = checkpoint_read_topic_id(checking->check->fs, checking->dir, &topic_id);

    if (err == ERR_DAMAGED) {
        log_check_say(checking->check, LOG_FAULT, checking->dir, "partition.metadata", -1, -1, "holds no topic id");
        return ERR_OK;
    }
    return err == ERR_NOT_FOUND ? ERR_OK : err; /* the metadata log has none */
}

static enum err damage_check(struct checking *checking)
{
    enum err err = damage_read(checking->check->fs, checking->dir, &checking->damage);

    if (err == ERR_DAMAGED)
        log_check_say(checking->check, LOG_FAULT, checking->dir, DAMAGE_FILE, -1, -1,
                      "is damaged itself; the scrub marks again what is");
    else if (err == ERR_UNSUPPORTED_VERSION)
        log_check_say(checking->check, LOG_FAULT, checking->dir, DAMAGE_FILE, -1, -1, "was written by a later build");
    else if (err != ERR_NOT_FOUND)
        return err;
    return ERR_OK;
}

static enum err snapshot_check(struct checking *checking, int64_t offset)
{
    struct producer_state state;
    struct text content = {0};
    struct log_path path;
    enum err err = ERR_OK;

    log_path_segment(&path, "", offset, SEGMENT_SNAPSHOT);
    err = text_file_read(checking->check->fs, checking->dir, path.text + 1, LOG_SNAPSHOT_BYTES_MAX, &content);
    producer_state_init(&state, 0);
    if (err == ERR_OK)
        err = producer_state_parse(&state, bytes_of(content.data, content.size));
    if (err == ERR_DAMAGED || err == ERR_LIMIT)
        log_check_say(checking->check, LOG_FAULT, checking->dir, path.text + 1, -1, offset,
                      "is no producer snapshot: version, checksum or size disagree");
    if (err == ERR_OK && offset > checking->next_offset && !checking->check->in_use && !checking->tail_torn)
        log_check_say(checking->check, LOG_FAULT, checking->dir, path.text + 1, -1, offset,
                      "speaks of offsets behind the log's end");
    if (err == ERR_OK)
        for (const struct producer *producer = producer_state_next(&state, NULL); producer != NULL;
             producer = producer_state_next(&state, producer)) {
            if ((producer->batch_count > 0 && producer->batches[0].last_offset >= offset) ||
                producer->txn_first_offset >= offset)
                log_check_say(checking->check, LOG_FAULT, checking->dir, path.text + 1, -1, offset,
                              "knows batches that it cannot, of producer %" PRId64, producer->id);
        }
    producer_state_deinit(&state);
    text_deinit(&content);
    return err == ERR_DAMAGED || err == ERR_LIMIT || err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err log_check_partition(struct log_check *check, const char *dir, int64_t recovery_point,
                             struct log_checked *checked)
{
    struct checking checking = {.check = check, .dir = dir, .recovery_point = recovery_point};
    struct listed listed = {.checking = &checking};
    enum err err = fs_list(check->fs, dir, list_entry, &listed);

    *checked = (struct log_checked){0};
    numbers_sort(listed.segments, listed.segment_count);
    numbers_sort(listed.snapshots, listed.snapshot_count);
    numbers_sort(listed.indexes, listed.index_count);
    if (err == ERR_OK)
        err = epochs_read(&checking);
    if (err == ERR_OK)
        err = topic_id_check(&checking);
    if (err == ERR_OK)
        err = damage_check(&checking);
    if (listed.segment_count > 0)
        checking.next_offset = checked->start_offset = listed.segments[0];
    for (uint32_t i = 0; i < listed.segment_count && err == ERR_OK; i++)
        err = segment_check_run(&checking, listed.segments[i],
                                i + 1 < listed.segment_count ? listed.segments[i + 1] : -1);
    checked->end_offset = checking.next_offset;
    checked->tail_torn = checking.tail_torn;
    if (err == ERR_OK) {
        indexes_check(&listed);
        epochs_check(&checking);
    }
    for (uint32_t i = 0; i < listed.snapshot_count && err == ERR_OK; i++)
        err = snapshot_check(&checking, listed.snapshots[i]);
    listed_deinit(&listed);
    epoch_cache_deinit(&checking.epochs);
    damage_deinit(&checking.damage);
    return err;
}

enum err log_check_segment(struct log_check *check, const char *dir, int64_t base_offset, int64_t recovery_point,
                           struct log_checked *checked)
{
    struct checking checking = {
        .check = check, .dir = dir, .recovery_point = recovery_point, .next_offset = base_offset};
    enum err err = epochs_read(&checking);

    if (err == ERR_OK)
        err = damage_check(&checking);
    if (err == ERR_OK)
        err = segment_check_run(&checking, base_offset, -1);
    *checked = (struct log_checked){base_offset, checking.next_offset, checking.tail_torn};
    epoch_cache_deinit(&checking.epochs);
    damage_deinit(&checking.damage);
    return err;
}

enum err log_check_snapshot(struct log_check *check, const char *dir, int64_t offset)
{
    struct checking checking = {.check = check, .dir = dir, .next_offset = INT64_MAX};

    return snapshot_check(&checking, offset);
}
