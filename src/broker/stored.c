/* What a start finds of partitions in the log directories, until the metadata have said which of it counts. */
#include <stdio.h>

#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/dir_recovery.h"

enum err broker_note_stored(struct broker *broker, uint32_t dir)
{
    struct log_dir_list *list = &broker->dirs[dir].list;

    for (uint32_t i = 0; i < list->count; i++) {
        struct stored *stored = mem_calloc(1, sizeof(*stored));
        struct stored *first = NULL;
        enum err err = ERR_OK;

        if (stored == NULL)
            return ERR_NOMEM;
        stored->found = &list->partitions[i];
        stored->dir = dir;
        (void)snprintf(stored->key, sizeof(stored->key), "%s-%d", list->partitions[i].topic, list->partitions[i].index);
        first = map_get(&broker->stored, bytes_of_text(stored->key));
        if (first != NULL) {
            stored->next = first->next;
            first->next = stored;
        } else if ((err = map_insert(&broker->stored, bytes_of_text(stored->key), stored)) != ERR_OK) {
            mem_free(stored);
            return err;
        }
        broker->dirs[dir].found += stored->found->copy == NULL;
    }
    atomic_init(&broker->dirs[dir].unopened, broker->dirs[dir].found);
    atomic_init(&broker->dirs[dir].unsettled, broker->dirs[dir].found);
    return ERR_OK;
}

static enum err note_kept(struct broker *broker, const struct stored *stored)
{
    const struct log_dir_partition *found = stored->found;
    struct partition_note *note = partition_note_new(bytes_of_text(found->topic));

    if (note == NULL)
        return ERR_NOMEM;
    note->dir = stored->dir;
    note->index = found->index;
    note->checkpoint =
        (struct partition_checkpoint){.recovery_point = found->recovery_point,
                                      .start_offset = found->start_offset,
                                      .high_watermark = found->high_watermark,
                                      .cleaned_offset = found->cleaned_offset > 0 ? found->cleaned_offset : -1};
    note->next = broker->kept;
    broker->kept = note;
    return ERR_OK;
}

enum err broker_keep_stored(struct broker *broker)
{
    void *value = NULL;
    enum err err = ERR_OK;

    for (uint32_t cursor = 0; map_next(&broker->stored, &cursor, NULL, &value);)
        for (struct stored *stored = value; stored != NULL && err == ERR_OK; stored = stored->next) {
            if (!atomic_load(&stored->kept) || stored->found->copy != NULL)
                continue;
            err = note_kept(broker, stored);
            /* All of it was synced before the metadata came to name another directory: no journal waits for it. */
            dir_recovery_set_aside(&broker->dirs[stored->dir]);
        }
    return err;
}

void broker_forget_stored(struct broker *broker)
{
    void *value = NULL;

    for (uint32_t cursor = 0; map_next(&broker->stored, &cursor, NULL, &value);)
        for (struct stored *stored = value, *next = NULL; stored != NULL; stored = next) {
            next = stored->next;
            mem_free(stored);
        }
    map_deinit(&broker->stored);
    map_init(&broker->stored, 0, BROKER_STORED_MAX); /* empty from here on */
    for (uint32_t i = 0; i < broker->dir_count; i++)
        log_dir_list_deinit(&broker->dirs[i].list);
}
