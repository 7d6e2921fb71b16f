/* The files of a journal: made, given their next generation, removed. */
#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "partition/journal.h"
#include "partition/journal_internal.h"
#include "partition/log_path.h"

static void file_path(const struct journal *journal, const struct journal_file *file, struct log_path *path)
{
    int size = snprintf(path->text, sizeof(path->text), "%s/" JOURNAL_FILE_PREFIX "%" PRIu32 "-%" PRIu64,
                        journal->env->log_dir, journal->options.reactor, file->name);

    assert(size > 0 && (size_t)size < sizeof(path->text)); /* shorter than a partition's directory may be */
}

/* Zeroes all over: from then on a write changes data alone, and its sync is cheap. */
static enum err fill_with_zeroes(struct fs_file *file, uint64_t size)
{
    static const uint8_t zeroes[JOURNAL_ZEROES_BYTES];
    struct bytes pieces[16];
    uint64_t position = 0;

    while (position < size) {
        uint32_t count = 0;
        uint64_t planned = 0;
        size_t written = 0;
        enum err err = ERR_OK;

        while (count < sizeof(pieces) / sizeof(pieces[0]) && position + planned < size) {
            uint64_t left = size - position - planned;

            pieces[count] = bytes_of(zeroes, left < sizeof(zeroes) ? (size_t)left : sizeof(zeroes));
            planned += pieces[count++].size;
        }
        err = fs_write(file, position, pieces, count, &written);
        if (err != ERR_OK)
            return err;
        if (written < planned)
            return ERR_NO_SPACE;
        position += written;
    }
    return ERR_OK;
}

static enum err header_put(const struct journal *journal, const struct journal_file *file)
{
    uint8_t block[JOURNAL_BLOCK_BYTES] = {0};
    struct bytes piece = bytes_of(block, sizeof(block));
    struct journal_header header = {
        .reactor = journal->options.reactor,
        .directory_id = journal->options.directory_id,
        .generation = file->generation,
        .file_bytes = journal->file_bytes,
        .random = file->random,
    };
    size_t written = 0;
    enum err err = ERR_OK;

    journal_header_write(&header, block);
    err = fs_write(file->file, 0, &piece, 1, &written);
    return err == ERR_OK && written < sizeof(block) ? ERR_NO_SPACE : err;
}

static void file_run(struct loop_job *base)
{
    struct file_job *job = LIST_ENTRY(base, struct file_job, job);
    const struct journal *journal = job->journal;
    struct journal_file *file = job->file;
    struct log_path path;

    file_path(journal, file, &path);
    if (job->make) {
        job->err = fs_open(journal->env->fs, path.text, FS_READ | FS_WRITE | FS_CREATE | FS_TRUNCATE, &file->file);
        if (job->err == ERR_OK)
            job->err = fill_with_zeroes(file->file, journal->file_bytes);
    }
    /* The header is on the disk before anything of its generation is. */
    if (job->err == ERR_OK)
        job->err = header_put(journal, file);
    if (job->err == ERR_OK) {
        job->err = fs_sync(file->file);
        job->sync_failed = job->err != ERR_OK;
    }
    if (job->err == ERR_OK && job->make) {
        job->err = fs_sync_dir(journal->env->fs, journal->env->log_dir);
        job->sync_failed = job->err != ERR_OK;
    }
    if (job->err != ERR_OK && job->make && file->file != NULL) {
        fs_file_drop(file->file);
        file->file = NULL;
        /* Where it stays it is as good as empty: no group was ever in it. */
        if (!job->sync_failed && fs_unlink(journal->env->fs, path.text) != ERR_OK)
            log_debug(journal->env->log, "journal file not removed path=%s", path.text);
    }
}

bool journal_may_pass(enum err err)
{
    return err == ERR_NO_SPACE || err == ERR_NO_DESCRIPTORS || err == ERR_NOMEM;
}

static void file_done(struct loop_job *base)
{
    struct file_job *job = LIST_ENTRY(base, struct file_job, job);
    struct journal *journal = job->journal;
    struct journal_file *file = job->file;

    journal->preparing = false;
    if (job->err == ERR_OK) {
        file->state = JOURNAL_FILE_FREE;
        file->position = JOURNAL_BLOCK_BYTES;
        file->groups = 0;
        list_add_last(&journal->free, &file->order);
    } else if (job->sync_failed || !journal_may_pass(job->err)) {
        file->state = JOURNAL_FILE_ABSENT;
        journal_fail(journal, job->err, "journal file not made");
    } else {
        log_line_rated(journal->env->log, &journal->env->files->full_disk, LOG_WARN,
                       "journal file not made, logs sync their segments dir=%s err=%s", journal->env->log_dir,
                       err_name(job->err));
        file->state = JOURNAL_FILE_ABSENT;
        if (!job->make) { /* as it was, and still the oldest */
            file->state = JOURNAL_FILE_USED;
            list_add_first(&journal->used, &file->order);
        }
        journal->make_again_ns = loop_now_ns(journal->env->loop) + JOURNAL_MAKE_AGAIN_NS;
        journal_look_again(journal, journal->make_again_ns);
    }
    journal_go_on(journal);
}

static void prepare(struct journal *journal, struct journal_file *file)
{
    struct file_job *job = &journal->file_job;

    *job = (struct file_job){.job = {.run = file_run, .done = file_done}, .journal = journal, .file = file};
    job->make = file->file == NULL;
    file->generation = journal->generation++;
    file->random = rng_u64(journal->env->rng);
    if (job->make) {
        file->name = file->generation;
        dir_space_take(journal->env->space, journal->file_bytes);
    }
    file->state = JOURNAL_FILE_PREPARING;
    journal->preparing = true;
    loop_submit(journal->env->loop, &job->job);
}

struct journal_file *journal_current(const struct journal *journal)
{
    return list_is_empty(&journal->used) ? NULL : LIST_ENTRY(journal->used.head.previous, struct journal_file, order);
}

/* The oldest file may be used again: it is not being written to, and all segments are synced past it. */
static struct journal_file *file_to_reuse(const struct journal *journal)
{
    struct list_node *node = list_first(&journal->used);
    struct journal_file *oldest = node == NULL ? NULL : LIST_ENTRY(node, struct journal_file, order);

    if (oldest == NULL || oldest == journal_current(journal) || oldest->kept || !list_is_empty(&oldest->clients) ||
        (journal->writing && journal->write_job.file == oldest))
        return NULL;
    /* What made entries history must not go before them, and some of them may lie in the journals of the last run. */
    if (journal->noted && journal_has_elders(journal))
        return NULL;
    return oldest;
}

/* A journal is a matter of speed: it takes nothing of what producers could still write. */
static bool disk_has_room(const struct journal *journal)
{
    const struct dir_space *space = journal->env->space;

    return space == NULL ||
           atomic_load_explicit(&space->room_bytes, memory_order_relaxed) >= (int64_t)(2 * journal->file_bytes);
}

/* Every start so far was cut off before it was settled. */
static bool elders_are_many(const struct journal *journal)
{
    return journal->options.elders_max > 0 && journal->options.elders >= journal->options.elders_max;
}

static struct journal_file *file_to_make(struct journal *journal)
{
    if (!disk_has_room(journal) || (elders_are_many(journal) && journal_has_elders(journal)))
        return NULL;
    for (uint32_t i = 0; i < JOURNAL_FILES_MAX; i++)
        if (journal->files[i].state == JOURNAL_FILE_ABSENT)
            return &journal->files[i];
    return NULL;
}

/* One file is kept free ahead. Where there is none to be had, the logs with entries in the oldest are to sync. */
void journal_files_provide(struct journal *journal)
{
    struct journal_file *file = NULL;

    if (journal->preparing || !list_is_empty(&journal->free) ||
        loop_now_ns(journal->env->loop) < journal->make_again_ns)
        return;
    file = file_to_reuse(journal);
    if (file != NULL)
        list_remove(&file->order);
    else
        file = file_to_make(journal);
    if (file != NULL) {
        prepare(journal, file);
        return;
    }
    /* Nobody tells when the elders are gone, or the disk has room. */
    if (!list_is_empty(&journal->notes_waiting))
        journal_look_again(journal, loop_now_ns(journal->env->loop) + JOURNAL_NOTES_AGAIN_NS);
    if (list_first(&journal->used) == NULL)
        return;
    file = LIST_ENTRY(list_first(&journal->used), struct journal_file, order);
    if (file == journal_current(journal))
        return;
    list_each (&file->clients, node)
        journal_behind_add(LIST_ENTRY(node, struct journal_client, by_file));
    journal_behind_go_on(journal);
}

static enum err remove_if_journal(void *context, const char *name, bool is_directory)
{
    struct fs *fs = ((void **)context)[0];
    const char *log_dir = ((void **)context)[1];
    struct log_path path;
    enum err err = ERR_OK;

    if (is_directory || strncmp(name, JOURNAL_FILE_PREFIX, sizeof(JOURNAL_FILE_PREFIX) - 1) != 0)
        return ERR_OK;
    *(bool *)((void **)context)[2] = true;
    err = log_path_in(&path, log_dir, name);
    return err == ERR_OK ? fs_unlink(fs, path.text) : err;
}

enum err journal_files_remove(struct fs *fs, const char *log_dir)
{
    bool any = false;
    void *context[] = {fs, (void *)(uintptr_t)log_dir, &any};
    enum err err = fs_list(fs, log_dir, remove_if_journal, context);

    return err == ERR_OK && any ? fs_sync_dir(fs, log_dir) : err;
}
