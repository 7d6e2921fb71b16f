/* What a shard tells of its partitions for the checkpoint files. */
#include "base/mem.h"
#include "broker/broker_internal.h"

enum err shard_note(struct shard *shard, const struct hosted *hosted, struct partition_note **note)
{
    const struct partition *partition = hosted->partition;
    struct bytes topic = partition_topic(partition);
    struct partition_note *made = mem_calloc(1, sizeof(*made) + topic.size + 1);

    if (made == NULL)
        return ERR_NOMEM;
    memcpy(made->topic, topic.data, topic.size);
    made->dir = hosted->dir;
    made->index = partition_index(partition);
    made->recovery_point = partition_recovery_point(partition);
    made->end_offset = partition_end_offset(partition);
    made->start_offset = partition_start_offset(partition);
    made->high_watermark = partition_high_watermark(partition);
    made->cleaned_offset = partition_cleaned_offset(partition);
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

bool shard_can_note(const struct hosted *hosted)
{
    return hosted->partition != NULL && !hosted->failed && partition_is_ready(hosted->partition) &&
           !partition_is_failed(hosted->partition);
}

enum err shard_note_partitions(struct shard *shard)
{
    void *value = NULL;
    enum err err = ERR_OK;

    for (uint32_t cursor = 0; err == ERR_OK && map_next(&shard->hosted, &cursor, NULL, &value);)
        if (shard_can_note(value))
            err = shard_note(shard, value, NULL);
    return err;
}
