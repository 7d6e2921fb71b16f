#include "coordinator/group_filters.h"

static const struct bytes states[] = {
    {(const uint8_t *)"Empty", sizeof("Empty") - 1},
    {(const uint8_t *)"PreparingRebalance", sizeof("PreparingRebalance") - 1},
    {(const uint8_t *)"CompletingRebalance", sizeof("CompletingRebalance") - 1},
    {(const uint8_t *)"Stable", sizeof("Stable") - 1},
    {(const uint8_t *)"Assigning", sizeof("Assigning") - 1},
    {(const uint8_t *)"Reconciling", sizeof("Reconciling") - 1},
};
static const struct bytes kinds[] = {{(const uint8_t *)"classic", sizeof("classic") - 1},
                                     {(const uint8_t *)"consumer", sizeof("consumer") - 1}};

enum { STATES = sizeof(states) / sizeof(states[0]), KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* Which of the known ones it is; count: none. */
static uint32_t place_of(struct bytes word, const struct bytes *known, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (bytes_equal_any_case(word, known[i]))
            return i;
    return count;
}

/* The first of each. A filter that has no known word finds nothing, which an empty one would not: it keeps one. */
static void reduce(struct bytes *words, uint32_t *count, const struct bytes *known, uint32_t known_count)
{
    uint32_t seen = 0; /* a bit for each that is known */
    uint32_t kept = 0;

    for (uint32_t i = 0; i < *count; i++) {
        uint32_t place = place_of(words[i], known, known_count);

        if (place == known_count || (seen & UINT32_C(1) << place) != 0)
            continue;
        seen |= UINT32_C(1) << place;
        words[kept++] = words[i];
    }
    if (kept > 0 || *count == 0)
        *count = kept;
    else
        *count = 1;
}

void group_filters_reduce(struct list_groups_request *request)
{
    reduce(request->states_filter, &request->states_filter_count, states, STATES);
    reduce(request->types_filter, &request->types_filter_count, kinds, KINDS);
}
