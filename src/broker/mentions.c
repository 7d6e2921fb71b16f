#include "broker/mentions.h"

#include <stdlib.h>

#include "base/assert.h"

enum err mentions_init(struct mentions *mentions, struct arena *arena, uint32_t room)
{
    *mentions = (struct mentions){.list = arena_array(arena, room, sizeof(*mentions->list)), .room = room};
    return mentions->list == NULL ? ERR_NOMEM : ERR_OK;
}

void mentions_add(struct mentions *mentions, struct bytes topic, int32_t index, void *of)
{
    uint32_t place = mentions->count++;

    assert(place < mentions->room);
    mentions->list[place] = (struct mention){.topic = topic, .index = index, .place = place, .of = of};
}

static int by_partition(const void *a, const void *b)
{
    const struct mention *left = a;
    const struct mention *right = b;
    int order = bytes_compare(left->topic, right->topic);

    if (order == 0)
        order = (left->index > right->index) - (left->index < right->index);
    return order != 0 ? order : (left->place > right->place) - (left->place < right->place);
}

void mentions_sort(struct mentions *mentions)
{
    if (mentions->count > 1)
        qsort(mentions->list, mentions->count, sizeof(*mentions->list), by_partition);
}

void mentions_keep_last(struct mentions *mentions)
{
    uint32_t all = mentions->count;

    mentions_sort(mentions);
    mentions->count = 0;
    for (uint32_t i = 0; i < all; i++)
        if (i + 1 == all || !mention_same_partition(&mentions->list[i], &mentions->list[i + 1]))
            mentions->list[mentions->count++] = mentions->list[i];
}

bool mention_same_partition(const struct mention *a, const struct mention *b)
{
    return a->index == b->index && bytes_equal(a->topic, b->topic);
}
