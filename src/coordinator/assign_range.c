#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "coordinator/assign.h"

/* What is left to give of one topic. */
struct rest {
    uint32_t next;        /* partition */
    uint32_t subscribers; /* that have not had theirs */
};

static enum err divide_in_order(const struct assign_input *input, uint32_t *owner)
{
    struct rest *rests = mem_calloc((size_t)input->topic_count + 1, sizeof(*rests));

    if (rests == NULL)
        return ERR_NOMEM;
    for (uint32_t topic = 0; topic < input->topic_count; topic++)
        rests[topic].next = input->first[topic];
    for (uint32_t member = 0; member < input->member_count; member++)
        for (uint32_t i = 0; i < input->members[member].topic_count; i++)
            rests[input->members[member].topics[i]].subscribers++;
    for (uint32_t member = 0; member < input->member_count; member++)
        for (uint32_t i = 0; i < input->members[member].topic_count; i++) {
            uint32_t topic = input->members[member].topics[i];
            struct rest *rest = &rests[topic];
            uint32_t left = input->first[topic + 1] - rest->next;
            /* Rounded up at each: the first n mod m get one more. */
            uint32_t share = (left + rest->subscribers - 1) / rest->subscribers;

            for (uint32_t j = 0; j < share; j++)
                owner[rest->next++] = member;
            rest->subscribers--;
        }
    mem_free(rests);
    return ERR_OK;
}

/* ---- by racks ---- */

struct sized {
    uint32_t partitions;
    uint32_t topic;
};

static int by_size(const void *a, const void *b)
{
    const struct sized *left = a;
    const struct sized *right = b;

    if (left->partitions != right->partitions)
        return left->partitions < right->partitions ? -1 : 1;
    return (left->topic > right->topic) - (left->topic < right->topic);
}

/* Members are in different racks; and all subscribe to the same, so that what is divided by racks still gives one
 * member the same partition of each topic of one size. */
static bool racks_matter(const struct assign_input *input)
{
    bool differ = false;

    for (uint32_t i = 1; i < input->member_count; i++)
        differ |= input->members[i].rack_bit != input->members[0].rack_bit;
    return differ && input->rack_bits != NULL && assign_is_same_for_all(input);
}

static bool are_alike(const uint64_t *near, uint32_t partitions)
{
    for (uint32_t i = 1; i < partitions; i++)
        if (near[i] != near[0])
            return false;
    return true;
}

/* Of topics of one size, of whose n-th partitions all have a replica in near[n]: who gets each, as many as without
 * racks; first, in order, what lies near. */
static void divide_by_racks(const struct assign_input *input, const uint64_t *near, uint32_t partitions,
                            uint32_t *quotas, uint32_t *owner)
{
    uint32_t cursors[ASSIGN_RACKS_MAX] = {0};
    uint32_t cursor = 0;

    for (uint32_t i = 0; i < partitions; i++)
        owner[i] = ASSIGN_NOBODY;
    for (uint32_t member = 0; member < input->member_count; member++) {
        uint64_t bit = input->members[member].rack_bit;
        uint32_t *at = bit == 0 ? NULL : &cursors[__builtin_ctzll(bit)];

        quotas[member] = partitions / input->member_count + (member < partitions % input->member_count ? 1 : 0);
        for (; at != NULL && quotas[member] > 0 && *at < partitions; (*at)++)
            if (owner[*at] == ASSIGN_NOBODY && (near[*at] & bit) != 0) {
                owner[*at] = member;
                quotas[member]--;
            }
    }
    for (uint32_t member = 0; member < input->member_count; member++)
        for (; quotas[member] > 0; cursor++)
            if (owner[cursor] == ASSIGN_NOBODY) {
                owner[cursor] = member;
                quotas[member]--;
            }
}

static enum err divide_all_by_racks(const struct assign_input *input, uint32_t *owner)
{
    uint32_t count = input->members[0].topic_count;
    struct sized *sized = mem_calloc((size_t)count + 1, sizeof(*sized));
    uint32_t *quotas = mem_calloc(input->member_count, sizeof(*quotas));
    uint64_t *near = mem_calloc((size_t)assign_partition_count(input) + 1, sizeof(*near));
    uint32_t *made = mem_calloc((size_t)assign_partition_count(input) + 1, sizeof(*made));
    enum err err = sized == NULL || quotas == NULL || near == NULL || made == NULL ? ERR_NOMEM : ERR_OK;

    for (uint32_t i = 0; err == ERR_OK && i < count; i++) {
        uint32_t topic = input->members[0].topics[i];

        sized[i] = (struct sized){input->first[topic + 1] - input->first[topic], topic};
    }
    if (err == ERR_OK)
        qsort(sized, count, sizeof(*sized), by_size);
    for (uint32_t from = 0, end = 0; err == ERR_OK && from < count; from = end) {
        uint32_t partitions = sized[from].partitions;

        memset(near, 0xff, partitions * sizeof(*near));
        for (end = from; end < count && sized[end].partitions == partitions; end++)
            for (uint32_t i = 0; i < partitions; i++)
                near[i] &= input->rack_bits[input->first[sized[end].topic] + i];
        if (are_alike(near, partitions)) /* nothing is nearer than something else: in order, as without racks */
            memset(near, 0, partitions * sizeof(*near));
        divide_by_racks(input, near, partitions, quotas, made);
        for (uint32_t i = from; i < end; i++)
            memcpy(owner + input->first[sized[i].topic], made, partitions * sizeof(*owner));
    }
    mem_free(sized);
    mem_free(quotas);
    mem_free(near);
    mem_free(made);
    return err;
}

enum err assign_range(const struct assign_input *input, uint32_t *owner)
{
    for (uint32_t i = 0; i < assign_partition_count(input); i++)
        owner[i] = ASSIGN_NOBODY;
    return racks_matter(input) ? divide_all_by_racks(input, owner) : divide_in_order(input, owner);
}
