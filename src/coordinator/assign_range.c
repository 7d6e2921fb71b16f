#include "base/mem.h"
#include "coordinator/assign.h"

/* What is left to give of one topic. */
struct rest {
    uint32_t next;        /* partition */
    uint32_t subscribers; /* that have not had theirs */
};

enum err assign_range(const struct assign_input *input, uint32_t *owner)
{
    struct rest *rests = mem_calloc((size_t)input->topic_count + 1, sizeof(*rests));

    if (rests == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < assign_partition_count(input); i++)
        owner[i] = ASSIGN_NOBODY;
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
