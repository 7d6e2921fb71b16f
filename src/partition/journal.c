#include "partition/journal.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/journal_internal.h"

/* --- life --- */

static void timer_fired(struct loop_timer *timer);

enum err journal_new(const struct partition_env *env, const struct journal_options *options, struct journal **journal)
{
    struct journal *made = mem_calloc(1, sizeof(*made));
    uint64_t bytes_max = options->bytes_max == 0 ? JOURNAL_BYTES_DEFAULT : options->bytes_max;

    if (made == NULL)
        return ERR_NOMEM;
    made->env = env;
    made->options = *options;
    made->generation = options->generation;
    made->file_bytes = bytes_max / JOURNAL_FILES_MAX / JOURNAL_BLOCK_BYTES * JOURNAL_BLOCK_BYTES;
    if (made->file_bytes < JOURNAL_FILE_BYTES_MIN)
        made->file_bytes = JOURNAL_FILE_BYTES_MIN;
    for (uint32_t i = 0; i < JOURNAL_FILES_MAX; i++) {
        made->files[i].journal = made;
        list_init(&made->files[i].clients);
        list_node_init(&made->files[i].order);
    }
    for (uint32_t i = 0; i < 2; i++) {
        list_init(&made->groups[i].refs);
        list_init(&made->groups[i].notes);
    }
    list_init(&made->free);
    list_init(&made->used);
    list_init(&made->behind);
    list_init(&made->notes_waiting);
    made->task.run = journal_turn_ends;
    made->timer.fired = timer_fired;
    *journal = made;
    return ERR_OK;
}

void journal_free(struct journal *journal)
{
    if (journal == NULL)
        return;
    for (uint32_t i = 0; i < JOURNAL_FILES_MAX; i++)
        fs_file_drop(journal->files[i].file);
    for (uint32_t i = 0; i < 2; i++)
        mem_free(journal->groups[i].buffer);
    mem_free(journal);
}

bool journal_has_failed(const struct journal *journal)
{
    return journal->failed;
}

static void note_end(struct journal_note *note, enum err err)
{
    note->waiting = false;
    note->err = err;
    note->done(note);
}

void journal_notes_end(struct list *notes, enum err err)
{
    struct list_node *node = NULL;

    while ((node = list_take_first(notes)) != NULL)
        note_end(LIST_ENTRY(node, struct journal_note, node), err);
}

void journal_close_go_on(struct journal *journal)
{
    struct journal_close *op = journal->closing;

    if (op == NULL || journal->writing || journal->preparing || journal->deferred)
        return;
    journal->closing = NULL;
    op->done(op);
}

void journal_close(struct journal *journal, struct journal_close *op)
{
    journal->closing = op;
    loop_timer_stop(journal->env->loop, &journal->timer);
    journal_notes_end(&journal->notes_waiting, ERR_CLOSED);
    journal_notes_end(&journal->groups[journal->filling].notes, ERR_CLOSED);
    journal_close_go_on(journal);
}

/* For good: nothing that is not on the disk yet will be promised by this journal. */
void journal_fail(struct journal *journal, enum err err, const char *what)
{
    if (journal->failed)
        return;
    journal->failed = true;
    loop_timer_stop(journal->env->loop, &journal->timer);
    log_error(journal->env->log, "%s dir=%s reactor=%" PRIu32 " err=%s", what, journal->env->log_dir,
              journal->options.reactor, err_name(err));
    if (journal->env->storage_failed != NULL)
        journal->env->storage_failed(journal->env->context, journal->env->log_dir, ERR_IO);
    journal->wanted = false;
    journal_filling_fail(journal);
    journal_notes_end(&journal->notes_waiting, ERR_KAFKA_STORAGE_ERROR);
}

/* --- segments behind --- */

void journal_client_init(struct journal_client *client, struct journal *journal, const struct journal_client_ops *ops)
{
    *client = (struct journal_client){.ops = ops, .journal = journal};
    for (uint32_t i = 0; i < 2; i++) {
        list_node_init(&client->refs[i].node);
        client->refs[i].client = client;
    }
    list_node_init(&client->by_file);
    list_node_init(&client->behind);
}

void journal_client_leave(struct journal_client *client)
{
    struct journal *journal = client->journal;

    assert(!list_node_is_linked(&client->refs[0].node) && !list_node_is_linked(&client->refs[1].node));
    list_remove(&client->by_file);
    list_remove(&client->behind);
    if (client->counted)
        journal->syncing--;
    client->counted = false;
    client->oldest = NULL;
    journal_go_on(journal);
}

void journal_client_keep(struct journal_client *client)
{
    if (client->oldest != NULL)
        client->oldest->kept = true;
}

void journal_client_cut(struct journal_client *client, int64_t offset)
{
    for (uint32_t i = 0; i < 2; i++)
        if (client->refs[i].end_offset > offset)
            client->refs[i].end_offset = offset;
    list_remove(&client->by_file);
    list_remove(&client->behind);
    client->oldest = NULL;
    client->later = NULL;
}

void journal_sync_begins(struct journal_client *client)
{
    client->syncing = true;
    client->later = NULL;
    list_remove(&client->behind);
}

void journal_sync_ended(struct journal_client *client, bool succeeded)
{
    struct journal *journal = client->journal;

    client->syncing = false;
    if (client->counted)
        journal->syncing--;
    client->counted = false;
    if (succeeded && client->oldest != NULL) {
        list_remove(&client->by_file);
        client->oldest = client->later;
        if (client->oldest != NULL)
            list_add_last(&client->oldest->clients, &client->by_file);
    }
    client->later = NULL;
    journal_go_on(journal);
}

/* One at a time: a sync of a segment is not to stand before the journal's own. */
void journal_behind_go_on(struct journal *journal)
{
    struct list_node *node = NULL;

    while (journal->syncing < JOURNAL_SYNCS_BEHIND_MAX && (node = list_take_first(&journal->behind)) != NULL) {
        struct journal_client *client = LIST_ENTRY(node, struct journal_client, behind);

        client->counted = true;
        journal->syncing++;
        if (!client->ops->sync(client) && client->counted) {
            client->counted = false;
            journal->syncing--;
        }
    }
}

void journal_behind_add(struct journal_client *client)
{
    if (!client->syncing && !list_node_is_linked(&client->behind))
        list_add_last(&client->journal->behind, &client->behind);
}

void journal_sync_later(struct journal_client *client)
{
    journal_behind_add(client);
    journal_behind_go_on(client->journal);
}

/* --- notes --- */

bool journal_has_elders(const struct journal *journal)
{
    return journal->options.history != NULL && atomic_load_explicit(journal->options.history, memory_order_acquire);
}

static bool note_add(struct journal *journal, enum journal_entry_type type, struct uuid topic_id, int32_t partition,
                     int64_t offset)
{
    struct journal_entry entry = {
        .type = type,
        .topic_id = topic_id,
        .partition = partition,
        .leader_epoch = -1,
        .offset = offset,
        .end_offset = offset,
    };

    if (!journal_entry_add(journal, &entry))
        return false;
    journal->noted = true;
    return true;
}

static bool has_history(const struct journal *journal)
{
    if (journal_has_elders(journal))
        return true;
    for (uint32_t i = 0; i < JOURNAL_FILES_MAX; i++)
        if (journal->files[i].state == JOURNAL_FILE_USED)
            return true;
    return journal->groups[journal->filling].size > 0;
}

bool journal_note_lazily(struct journal *journal, enum journal_entry_type type, struct uuid topic_id, int32_t partition,
                         int64_t offset)
{
    return !has_history(journal) || note_add(journal, type, topic_id, partition, offset);
}

static void notes_retry(struct journal *journal)
{
    struct list_node *node = NULL;

    while ((node = list_first(&journal->notes_waiting)) != NULL) {
        struct journal_note *note = LIST_ENTRY(node, struct journal_note, node);

        if (!note_add(journal, note->type, note->topic_id, note->partition, note->offset))
            return;
        list_remove(node);
        note->waiting = false;
        list_add_last(&journal_filling(journal)->notes, node);
        journal_want(journal);
    }
}

void journal_note(struct journal *journal, struct journal_note *note)
{
    assert(note->type != JOURNAL_APPEND);
    list_node_init(&note->node);
    if (journal->failed || journal->closing != NULL) {
        note_end(note, journal->failed ? ERR_KAFKA_STORAGE_ERROR : ERR_CLOSED);
        return;
    }
    if (!has_history(journal)) {
        note_end(note, ERR_OK);
        return;
    }
    note->waiting = true;
    list_add_last(&journal->notes_waiting, &note->node);
    notes_retry(journal);
}

void journal_note_cancel(struct journal_note *note, enum err err)
{
    if (!note->waiting)
        return;
    list_remove(&note->node);
    note_end(note, err);
}

static void timer_fired(struct loop_timer *timer)
{
    journal_go_on(LIST_ENTRY(timer, struct journal, timer));
}

void journal_look_again(struct journal *journal, int64_t at_ns)
{
    if (!journal->failed && journal->closing == NULL)
        loop_timer_start(journal->env->loop, &journal->timer, at_ns);
}

/* Something ended: what waited for it. */
void journal_go_on(struct journal *journal)
{
    if (!journal->failed && journal->closing == NULL) {
        bool any_used = !list_is_empty(&journal->used) || !list_is_empty(&journal->notes_waiting);

        if (any_used)
            journal_files_provide(journal);
        notes_retry(journal);
        journal_behind_go_on(journal);
        if (journal->wanted)
            journal_want(journal);
    }
    journal_close_go_on(journal);
}
