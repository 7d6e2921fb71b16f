#include "partition/segment_checked.h"

#include "base/mem.h"

bool segment_checked_has(const struct segment *segment, uint64_t position, uint64_t size)
{
    const struct segment_checked *checked = segment->checked;

    if (position >= segment->written_from)
        return true;
    if (checked == NULL)
        return false;
    for (uint32_t i = 0; i < checked->count; i++)
        if (checked->ranges[i].from <= position &&
            (checked->ranges[i].to >= position + size || checked->ranges[i].to >= segment->written_from))
            return true;
    return false;
}

static void remove_at(struct segment_checked *checked, uint32_t slot)
{
    checked->ranges[slot] = checked->ranges[--checked->count];
}

void segment_checked_add(struct segment *segment, uint64_t position, uint64_t size)
{
    struct segment_checked *checked = segment->checked;
    uint64_t from = position;
    uint64_t to = position + size;
    uint32_t shortest = 0;

    if (checked == NULL)
        checked = segment->checked = mem_calloc(1, sizeof(*checked));
    if (checked == NULL)
        return;
    for (uint32_t i = checked->count; i > 0; i--) {
        if (checked->ranges[i - 1].to < from || checked->ranges[i - 1].from > to)
            continue;
        from = checked->ranges[i - 1].from < from ? checked->ranges[i - 1].from : from;
        to = checked->ranges[i - 1].to > to ? checked->ranges[i - 1].to : to;
        remove_at(checked, i - 1);
    }
    if (checked->count == SEGMENT_CHECKED_MAX) {
        for (uint32_t i = 1; i < checked->count; i++)
            if (checked->ranges[i].to - checked->ranges[i].from <
                checked->ranges[shortest].to - checked->ranges[shortest].from)
                shortest = i;
        remove_at(checked, shortest);
    }
    checked->ranges[checked->count].from = from;
    checked->ranges[checked->count].to = to;
    checked->count++;
}

void segment_checked_forget(struct segment *segment)
{
    mem_free(segment->checked);
    segment->checked = NULL;
    segment->written_from = segment->size;
}
