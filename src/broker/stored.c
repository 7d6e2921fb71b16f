/* What a start finds of partitions in the log directories, until the metadata have said which of it counts. */
#include <stdio.h>

#include "base/mem.h"
#include "broker/broker_internal.h"

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
