/* What a shard tells of its partitions for the checkpoint files. */
#include "base/mem.h"
#include "broker/broker_internal.h"

struct partition_note *partition_note_new(struct bytes topic)
{
    struct partition_note *made = mem_calloc(1, sizeof(*made) + topic.size + 1);

    if (made != NULL)
        memcpy(made->topic, topic.data, topic.size);
    return made;
}

enum err shard_note(struct shard *shard, const struct hosted *hosted, struct partition_note **note)
{
    const struct partition *partition = hosted->partition;
    struct partition_note *made = partition_note_new(partition_topic(partition));

    if (made == NULL)
        return ERR_NOMEM;
    made->dir = hosted->dir;
    made->index = partition_index(partition);
    made->end_offset = partition_end_offset(partition);
    made->checkpoint = partition_look_checkpoint(partition);
    made->next = shard->notes;
    shard->notes = made;
    if (note != NULL)
        *note = made;
    return ERR_OK;
}

void partition_notes_free(struct partition_note *notes)
{
    while (notes != NULL) {
        struct partition_note *next = notes->next;

        mem_free(notes);
        notes = next;
    }
}

bool shard_may_promise(const struct hosted *hosted)
{
    return !hosted->failed && partition_is_ready(hosted->partition) && !partition_is_failed(hosted->partition);
}

enum err shard_note_partitions(struct shard *shard)
{
    void *value = NULL;
    enum err err = ERR_OK;

    for (uint32_t cursor = 0; err == ERR_OK && map_next(&shard->hosted, &cursor, NULL, &value);)
        err = shard_note(shard, value, NULL);
    return err;
}
