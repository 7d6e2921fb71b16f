#include "broker/leader_hint.h"

void leader_hint(const struct image *image, struct uuid topic_id, int32_t index, int32_t *leader_id,
                 int32_t *leader_epoch)
{
    const struct image_partition *row = image == NULL ? NULL : image_partition(image, topic_id, index);

    if (row == NULL || row->leader == IMAGE_LEADER_NONE)
        return;
    *leader_id = row->leader;
    *leader_epoch = row->leader_epoch;
}

void leader_ids_add(struct leader_ids *ids, int32_t id)
{
    if (id < 0 || ids->count == LEADER_IDS_MAX)
        return;
    for (uint32_t i = 0; i < ids->count; i++)
        if (ids->ids[i] == id)
            return;
    ids->ids[ids->count++] = id;
}
