/* What goes to the disk together: a group fills while the one before it is written and synced. */
#include "base/assert.h"
#include "base/mem.h"
#include "partition/journal.h"
#include "partition/journal_internal.h"

/* --- the group that fills --- */

struct journal_group *journal_filling(struct journal *journal)
{
    return &journal->groups[journal->filling];
}

static bool has_room(const struct journal *journal, uint64_t entries_bytes)
{
    const struct journal_file *file = journal_current(journal);
    uint64_t bytes = journal_group_bytes(entries_bytes);

    if (entries_bytes > JOURNAL_GROUP_BYTES_MAX || bytes > journal->file_bytes - JOURNAL_BLOCK_BYTES)
        return false;
    return !list_is_empty(&journal->free) || (file != NULL && file->position + bytes <= journal->file_bytes);
}

static enum err group_room_make(struct journal_group *group, size_t bytes)
{
    size_t room = group->room == 0 ? JOURNAL_GROUP_BYTES_FIRST : group->room;
    uint8_t *grown = NULL;

    if (bytes <= group->room)
        return ERR_OK;
    while (room < bytes)
        room *= 2;
    grown = mem_realloc(group->buffer, room);
    if (grown == NULL)
        return ERR_NOMEM;
    group->buffer = grown;
    group->room = room;
    return ERR_OK;
}

/* False: there is no room. */
bool journal_entry_add(struct journal *journal, const struct journal_entry *entry)
{
    struct journal_group *group = journal_filling(journal);
    size_t size = group->size == 0 ? JOURNAL_GROUP_HEADER_BYTES : group->size;
    size_t bytes = journal_entry_bytes(entry->body.size);

    if (journal->failed || journal->closing != NULL)
        return false;
    if (!has_room(journal, size - JOURNAL_GROUP_HEADER_BYTES + bytes)) {
        journal_files_provide(journal);
        journal_want(journal);
        return false;
    }
    if (group_room_make(group, (size_t)journal_group_bytes(size - JOURNAL_GROUP_HEADER_BYTES + bytes)) != ERR_OK)
        return false;
    (void)journal_entry_write(entry, group->buffer + size);
    group->size = size + bytes;
    group->entries++;
    if (group->size >= JOURNAL_GROUP_BYTES_ENOUGH)
        journal_want(journal);
    return true;
}

enum journal_answer journal_append(struct journal *journal, struct journal_client *client,
                                   const struct journal_entry *entry)
{
    struct journal_ref *ref = &client->refs[journal->filling];

    assert(client->journal == journal);
    if (!journal_entry_add(journal, entry))
        return JOURNAL_REFUSED;
    ref->end_offset = entry->end_offset;
    if (list_node_is_linked(&ref->node))
        return JOURNAL_TAKEN;
    list_add_last(&journal_filling(journal)->refs, &ref->node);
    return JOURNAL_JOINED;
}

void journal_want(struct journal *journal)
{
    if (journal_filling(journal)->size == 0)
        return;
    journal->wanted = true;
    if (journal->deferred || journal->writing)
        return;
    journal->deferred = true;
    loop_defer(journal->env->loop, &journal->task);
}

/* --- a group's way to the disk --- */

static void write_run(struct loop_job *base)
{
    struct write_job *job = LIST_ENTRY(base, struct write_job, job);
    struct journal_group *group = job->group;
    size_t entries_bytes = group->size - JOURNAL_GROUP_HEADER_BYTES;
    size_t whole = (size_t)journal_group_bytes(entries_bytes);
    struct journal_group_header header = {
        .random = job->file->random,
        .generation = job->file->generation,
        .number = job->number,
        .entries_bytes = (uint32_t)entries_bytes,
        .entry_count = group->entries,
    };
    struct bytes piece = bytes_of(group->buffer, whole);
    size_t written = 0;

    journal_group_header_write(&header, group->buffer);
    for (size_t at = JOURNAL_GROUP_HEADER_BYTES; at < group->size;)
        at += journal_entry_seal(group->buffer + at, header.random, header.number);
    memset(group->buffer + group->size, 0, whole - group->size);
    job->err = fs_write(job->file->file, job->position, &piece, 1, &written);
    if (job->err == ERR_OK && written < whole)
        job->err = ERR_NO_SPACE;
    if (job->err == ERR_OK) {
        job->err = fs_sync(job->file->file);
        job->sync_failed = job->err != ERR_OK;
    }
}

/* The clients' oldest file, where they had none: their entries are in this one. */
static void refs_place(struct journal_group *group, struct journal_file *file)
{
    list_each (&group->refs, node) {
        struct journal_client *client = LIST_ENTRY(node, struct journal_ref, node)->client;

        if (client->oldest == NULL) {
            client->oldest = file;
            list_add_last(&file->clients, &client->by_file);
        }
        if (client->syncing && client->later == NULL)
            client->later = file;
    }
}

static void group_clear(struct journal_group *group)
{
    size_t used = group->size;

    group->size = 0;
    group->entries = 0;
    /* A burst is over: its memory goes. */
    if (group->room > JOURNAL_GROUP_BYTES_KEPT && used < group->room / 4) {
        mem_free(group->buffer);
        group->buffer = NULL;
        group->room = 0;
    }
}

static void refs_end(struct list *refs, enum err err)
{
    struct list_node *node = NULL;

    while ((node = list_take_first(refs)) != NULL) {
        struct journal_ref *ref = LIST_ENTRY(node, struct journal_ref, node);

        ref->client->ops->written(ref->client, ref->end_offset, err);
    }
}

static void notes_wait(struct journal *journal, struct list *notes)
{
    list_each (notes, node)
        LIST_ENTRY(node, struct journal_note, node)->waiting = true;
    list_move_all(&journal->notes_waiting, notes);
}

static void group_end(struct journal *journal, struct journal_group *group, enum err err)
{
    struct list refs;
    struct list notes;

    list_init(&refs);
    list_init(&notes);
    list_move_all(&refs, &group->refs);
    list_move_all(&notes, &group->notes);
    group_clear(group);
    refs_end(&refs, err);
    if (err == ERR_OK || err == ERR_IO)
        journal_notes_end(&notes, err == ERR_OK ? ERR_OK : ERR_KAFKA_STORAGE_ERROR);
    else
        notes_wait(journal, &notes);
}

void journal_filling_fail(struct journal *journal)
{
    group_end(journal, journal_filling(journal), ERR_IO);
}

static void write_done(struct loop_job *base)
{
    struct write_job *job = LIST_ENTRY(base, struct write_job, job);
    struct journal *journal = job->journal;
    enum err err = job->err;

    journal->writing = false;
    if (err != ERR_OK && !job->sync_failed && journal_may_pass(err)) {
        log_line_rated(journal->env->log, &journal->env->files->full_disk, LOG_WARN,
                       "journal not written, logs sync their segments dir=%s err=%s", journal->env->log_dir,
                       err_name(err));
        job->file->position = job->position;
        job->file->groups = job->number;
        journal_look_again(journal, loop_now_ns(journal->env->loop) + JOURNAL_MAKE_AGAIN_NS);
    } else if (err != ERR_OK) {
        journal_fail(journal, err, "journal not synced");
    }
    if (err != ERR_OK && journal->failed) /* there is no other try */
        err = ERR_IO;
    group_end(journal, job->group, err);
    journal_go_on(journal);
}

static void submit(struct journal *journal)
{
    struct journal_group *group = journal_filling(journal);
    uint64_t bytes = journal_group_bytes(group->size - JOURNAL_GROUP_HEADER_BYTES);
    struct journal_file *file = journal_current(journal);
    struct write_job *job = &journal->write_job;

    if (file == NULL || file->position + bytes > journal->file_bytes) {
        struct list_node *next = list_take_first(&journal->free);

        assert(next != NULL); /* has_room saw it */
        file = LIST_ENTRY(next, struct journal_file, order);
        file->state = JOURNAL_FILE_USED;
        list_add_last(&journal->used, &file->order);
    }
    *job = (struct write_job){
        .job = {.run = write_run, .done = write_done},
        .journal = journal,
        .group = group,
        .file = file,
        .position = file->position,
        .number = file->groups,
    };
    file->position += bytes;
    file->groups++;
    refs_place(group, file);
    journal->filling = 1 - journal->filling;
    journal->wanted = false;
    journal->writing = true;
    loop_submit(journal->env->loop, &job->job);
    journal_files_provide(journal);
}

void journal_turn_ends(struct loop_task *task)
{
    struct journal *journal = LIST_ENTRY(task, struct journal, task);

    journal->deferred = false;
    if (journal->wanted && !journal->writing && !journal->failed && journal_filling(journal)->size > 0)
        submit(journal);
    journal_close_go_on(journal);
}
