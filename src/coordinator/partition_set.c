#include "coordinator/partition_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

enum { ROOM_FIRST = 4 };

void partition_set_deinit(struct partition_set *set)
{
    mem_free(set->items);
    *set = (struct partition_set){0};
}

void partition_set_move(struct partition_set *to, struct partition_set *from)
{
    mem_free(to->items);
    *to = *from;
    *from = (struct partition_set){0};
}

enum err partition_set_copy(struct partition_set *to, const struct partition_set *from)
{
    enum err err = mem_grow(&to->items, &to->room, from->count, from->count, sizeof(*to->items));

    assert(to->count == 0);
    if (err != ERR_OK)
        return err;
    if (from->count > 0)
        memcpy(to->items, from->items, from->count * sizeof(*to->items));
    to->count = from->count;
    return ERR_OK;
}

enum err partition_set_add(struct partition_set *set, struct uuid topic, int32_t partition, int32_t epoch)
{
    enum err err = mem_grow(&set->items, &set->room, set->count + 1, ROOM_FIRST, sizeof(*set->items));

    if (err != ERR_OK)
        return err;
    set->items[set->count++] = (struct partition_item){.topic = topic, .partition = partition, .epoch = epoch};
    return ERR_OK;
}

static int compare(const void *a, const void *b)
{
    const struct partition_item *x = a;
    const struct partition_item *y = b;
    int order = memcmp(x->topic.bytes, y->topic.bytes, UUID_BYTES);

    return order != 0 ? order : (x->partition > y->partition) - (x->partition < y->partition);
}

void partition_set_sort(struct partition_set *set)
{
    uint32_t kept = 0;
    bool sorted = true;

    for (uint32_t i = 1; i < set->count && sorted; i++)
        sorted = compare(&set->items[i - 1], &set->items[i]) < 0;
    if (sorted)
        return;
    qsort(set->items, set->count, sizeof(*set->items), compare);
    for (uint32_t i = 0; i < set->count; i++)
        if (kept == 0 || compare(&set->items[kept - 1], &set->items[i]) != 0)
            set->items[kept++] = set->items[i];
    set->count = kept;
}

const struct partition_item *partition_set_find(const struct partition_set *set, struct uuid topic, int32_t partition)
{
    struct partition_item key = {.topic = topic, .partition = partition};

    return set->count == 0 ? NULL : bsearch(&key, set->items, set->count, sizeof(*set->items), compare);
}

bool partition_set_equal(const struct partition_set *a, const struct partition_set *b, bool epochs)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (compare(&a->items[i], &b->items[i]) != 0 || (epochs && a->items[i].epoch != b->items[i].epoch))
            return false;
    return true;
}

bool partition_set_next(const struct partition_set *set, uint32_t *at, struct partition_run *run)
{
    uint32_t from = *at;

    while (*at < set->count && uuid_equal(set->items[*at].topic, set->items[from].topic))
        (*at)++;
    if (*at == from)
        return false;
    *run = (struct partition_run){.topic = set->items[from].topic, .items = &set->items[from], .count = *at - from};
    return true;
}

uint32_t partition_set_topics(const struct partition_set *set)
{
    struct partition_run run;
    uint32_t at = 0;
    uint32_t count = 0;

    while (partition_set_next(set, &at, &run))
        count++;
    return count;
}

int32_t *partition_run_numbers(const struct partition_run *run, struct arena *arena)
{
    int32_t *numbers = arena_array(arena, run->count, sizeof(*numbers));

    for (uint32_t i = 0; numbers != NULL && i < run->count; i++)
        numbers[i] = run->items[i].partition;
    return numbers;
}
