#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "coordinator/assign.h"

enum { ROUNDS_MAX = 16 }; /* of balancing, where subscriptions differ: as Kafka */

static bool is_near(const struct assign_input *input, uint32_t partition, uint32_t member)
{
    return input->rack_bits != NULL && (input->rack_bits[partition] & input->members[member].rack_bit) != 0;
}

bool assign_is_same_for_all(const struct assign_input *input)
{
    const struct assign_member *first = input->members;

    for (uint32_t i = 1; i < input->member_count; i++) {
        const struct assign_member *member = &input->members[i];

        if (member->topic_count != first->topic_count ||
            (member->topics != first->topics && first->topic_count > 0 &&
             memcmp(member->topics, first->topics, first->topic_count * sizeof(*first->topics)) != 0))
            return false;
    }
    return true;
}

/*
 * The partitions of a run that are new to their owners are dealt out anew among those owners, so that who has a replica
 * in its rack gets it; how many each has does not change.
 */
static enum err place_near(const struct assign_input *input, uint32_t *owner, uint32_t from, uint32_t to)
{
    uint32_t count = 0;
    uint32_t *open = NULL;  /* partitions that are new to their owners */
    uint32_t *slots = NULL; /* their owners, a chain for each rack */
    uint32_t *next = NULL;
    uint32_t heads[ASSIGN_RACKS_MAX + 1];
    enum err err = ERR_OK;

    if (input->rack_bits == NULL || from == to)
        return ERR_OK;
    open = mem_calloc(to - from, sizeof(*open));
    slots = mem_calloc(to - from, sizeof(*slots));
    next = mem_calloc(to - from, sizeof(*next));
    if (open == NULL || slots == NULL || next == NULL) {
        err = ERR_NOMEM;
        goto out;
    }
    for (uint32_t i = 0; i <= ASSIGN_RACKS_MAX; i++)
        heads[i] = ASSIGN_NOBODY;
    for (uint32_t i = from; i < to; i++)
        if (owner[i] != ASSIGN_NOBODY && owner[i] != input->before[i])
            open[count++] = i;
    for (uint32_t i = count; i > 0; i--) {
        uint32_t member = owner[open[i - 1]];
        uint64_t bit = input->members[member].rack_bit;
        uint32_t rack = bit == 0 ? ASSIGN_RACKS_MAX : (uint32_t)__builtin_ctzll(bit);

        slots[i - 1] = member;
        next[i - 1] = heads[rack];
        heads[rack] = i - 1;
        owner[open[i - 1]] = ASSIGN_NOBODY;
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t bits = input->rack_bits[open[i]]; bits != 0 && owner[open[i]] == ASSIGN_NOBODY;
             bits &= bits - 1) {
            uint32_t *head = &heads[__builtin_ctzll(bits)];

            if (*head != ASSIGN_NOBODY) {
                owner[open[i]] = slots[*head];
                *head = next[*head];
            }
        }
    for (uint32_t i = 0, rack = 0; i < count; i++) {
        if (owner[open[i]] != ASSIGN_NOBODY)
            continue;
        while (heads[rack] == ASSIGN_NOBODY)
            rack++;
        assert(rack <= ASSIGN_RACKS_MAX);
        owner[open[i]] = slots[heads[rack]];
        heads[rack] = next[heads[rack]];
    }
out:
    mem_free(open);
    mem_free(slots);
    mem_free(next);
    return err;
}

/* Keeps what is within each one's quota: what lies near first. */
static void keep_within_quota(const struct assign_input *input, const uint32_t *quota, uint32_t *load, uint32_t *owner)
{
    uint32_t count = assign_partition_count(input);

    for (int near = 1; near >= 0; near--)
        for (uint32_t i = 0; i < count; i++) {
            uint32_t member = input->before[i];

            if (member == ASSIGN_NOBODY || owner[i] != ASSIGN_NOBODY || load[member] == quota[member] ||
                is_near(input, i, member) != (near == 1))
                continue;
            owner[i] = member;
            load[member]++;
        }
}

/* All subscribe to the same topics, and these are all there are. */
static enum err assign_same(const struct assign_input *input, uint32_t *owner)
{
    uint32_t count = assign_partition_count(input);
    uint32_t least = count / input->member_count;
    uint32_t extra = count % input->member_count;
    uint32_t *quota = mem_calloc(input->member_count, sizeof(*quota));
    uint32_t *load = mem_calloc(input->member_count, sizeof(*load));
    uint32_t member = 0;
    enum err err = ERR_OK;

    if (quota == NULL || load == NULL) {
        err = ERR_NOMEM;
        goto out;
    }
    for (uint32_t i = 0; i < count; i++)
        if (input->before[i] != ASSIGN_NOBODY)
            load[input->before[i]]++;
    /* Who has one more than the others may keep it; what is left of such goes to the first of the others. */
    for (uint32_t i = 0; i < input->member_count; i++) {
        quota[i] = least;
        if (load[i] > least && extra > 0) {
            quota[i]++;
            extra--;
        }
    }
    for (uint32_t i = 0; i < input->member_count && extra > 0; i++)
        if (quota[i] == least) {
            quota[i]++;
            extra--;
        }
    memset(load, 0, input->member_count * sizeof(*load));
    keep_within_quota(input, quota, load, owner);
    for (uint32_t i = 0; i < count; i++) {
        if (owner[i] != ASSIGN_NOBODY)
            continue;
        while (load[member] == quota[member])
            member = (member + 1) % input->member_count;
        owner[i] = member;
        load[member]++;
        member = (member + 1) % input->member_count;
    }
    err = place_near(input, owner, 0, count);
out:
    mem_free(quota);
    mem_free(load);
    return err;
}

/* Where subscriptions differ. */
struct uneven {
    const struct assign_input *input;
    uint32_t *owner;
    uint32_t *load;        /* partitions of each member */
    uint32_t *first;       /* of each topic the place of its first subscriber; topic_count + 1 of them */
    uint32_t *subscribers; /* by topic */
    uint32_t *topics;      /* those with the fewest subscribers first */
    uint32_t *heap;        /* members, the one with the fewest partitions on top */
    uint32_t heap_count;
    uint32_t *chain_head; /* of each member: its partitions of the topic at hand */
    uint32_t *chain_next; /* of each partition */
    uint32_t *giving;     /* members that have partitions of the topic at hand, the one with the most first */
};

static bool has_less(const struct uneven *uneven, uint32_t a, uint32_t b)
{
    return uneven->load[a] != uneven->load[b] ? uneven->load[a] < uneven->load[b] : a < b;
}

static void heap_sink(struct uneven *uneven, uint32_t at)
{
    uint32_t *heap = uneven->heap;

    for (;;) {
        uint32_t least = at;

        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < uneven->heap_count; child++)
            if (has_less(uneven, heap[child], heap[least]))
                least = child;
        if (least == at)
            return;
        uint32_t swap = heap[at];
        heap[at] = heap[least];
        heap[least] = swap;
        at = least;
    }
}

static void heap_of(struct uneven *uneven, uint32_t topic)
{
    uneven->heap_count = uneven->first[topic + 1] - uneven->first[topic];
    if (uneven->heap_count == 0)
        return;
    memcpy(uneven->heap, uneven->subscribers + uneven->first[topic], uneven->heap_count * sizeof(*uneven->heap));
    for (uint32_t i = uneven->heap_count / 2 + 1; i > 0; i--)
        heap_sink(uneven, i - 1);
}

/* To whoever has the fewest. */
static void give_rest(struct uneven *uneven, uint32_t topic)
{
    heap_of(uneven, topic);
    for (uint32_t i = uneven->input->first[topic]; i < uneven->input->first[topic + 1] && uneven->heap_count > 0; i++)
        if (uneven->owner[i] == ASSIGN_NOBODY) {
            uneven->owner[i] = uneven->heap[0];
            uneven->load[uneven->heap[0]]++;
            heap_sink(uneven, 0);
        }
}

static void chain(struct uneven *uneven, uint32_t topic, bool near, uint32_t *giving)
{
    for (uint32_t i = uneven->input->first[topic + 1]; i > uneven->input->first[topic]; i--) {
        uint32_t member = uneven->owner[i - 1];

        if (is_near(uneven->input, i - 1, member) != near)
            continue;
        if (uneven->chain_head[member] == ASSIGN_NOBODY)
            uneven->giving[(*giving)++] = member;
        uneven->chain_next[i - 1] = uneven->chain_head[member];
        uneven->chain_head[member] = i - 1;
    }
}

static void sort_by_load(struct uneven *uneven, uint32_t *members, uint32_t count)
{
    /* A heap sort, since qsort takes no context: the member with the fewest goes to the end. */
    uint32_t *heap = uneven->heap;
    uint32_t *was = members;

    uneven->heap = was;
    uneven->heap_count = count;
    for (uint32_t i = count / 2 + 1; i > 0 && count > 0; i--)
        heap_sink(uneven, i - 1);
    for (uint32_t left = count; left > 1; left--) {
        uint32_t least = was[0];

        was[0] = was[left - 1];
        was[left - 1] = least;
        uneven->heap_count = left - 1;
        heap_sink(uneven, 0);
    }
    uneven->heap = heap;
}

/* Moves partitions of the topic from those with the most to those with the fewest; true: something moved. */
static bool even_out(struct uneven *uneven, uint32_t topic)
{
    uint32_t giving = 0;
    bool moved = false;

    if (uneven->first[topic] == uneven->first[topic + 1])
        return false;
    chain(uneven, topic, true, &giving);
    chain(uneven, topic, false, &giving); /* in front: what lies far moves first */
    sort_by_load(uneven, uneven->giving, giving);
    heap_of(uneven, topic);
    for (uint32_t i = 0; i < giving; i++) {
        uint32_t from = uneven->giving[i];

        while (uneven->load[from] > uneven->load[uneven->heap[0]] + 1 && uneven->chain_head[from] != ASSIGN_NOBODY) {
            uint32_t partition = uneven->chain_head[from];

            uneven->chain_head[from] = uneven->chain_next[partition];
            uneven->owner[partition] = uneven->heap[0];
            uneven->load[from]--;
            uneven->load[uneven->heap[0]]++;
            heap_sink(uneven, 0);
            moved = true;
        }
        uneven->chain_head[from] = ASSIGN_NOBODY;
    }
    return moved;
}

/* A stable count sort by the number of subscribers. */
static enum err order_topics(struct uneven *uneven)
{
    const struct assign_input *input = uneven->input;
    uint32_t *starts = mem_calloc((size_t)input->member_count + 2, sizeof(*starts));

    if (starts == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < input->topic_count; i++)
        starts[uneven->first[i + 1] - uneven->first[i] + 1]++;
    for (uint32_t i = 0; i <= input->member_count; i++)
        starts[i + 1] += starts[i];
    for (uint32_t i = 0; i < input->topic_count; i++)
        uneven->topics[starts[uneven->first[i + 1] - uneven->first[i]]++] = i;
    mem_free(starts);
    return ERR_OK;
}

static enum err index_subscribers(struct uneven *uneven)
{
    const struct assign_input *input = uneven->input;
    uint32_t total = 0;

    for (uint32_t i = 0; i < input->member_count; i++)
        total += input->members[i].topic_count;
    uneven->subscribers = mem_calloc((size_t)total + 1, sizeof(*uneven->subscribers));
    if (uneven->subscribers == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < input->member_count; i++)
        for (uint32_t j = 0; j < input->members[i].topic_count; j++)
            uneven->first[input->members[i].topics[j] + 1]++;
    for (uint32_t i = 0; i < input->topic_count; i++)
        uneven->first[i + 1] += uneven->first[i];
    for (uint32_t i = input->member_count; i > 0; i--) /* backwards, with first as the ends of the rows */
        for (uint32_t j = 0; j < input->members[i - 1].topic_count; j++)
            uneven->subscribers[--uneven->first[input->members[i - 1].topics[j] + 1]] = i - 1;
    /* Now first[t + 1] is where t begins. */
    memmove(uneven->first, uneven->first + 1, input->topic_count * sizeof(*uneven->first));
    uneven->first[input->topic_count] = total;
    return order_topics(uneven);
}

static void keep_subscribed(struct uneven *uneven)
{
    const struct assign_input *input = uneven->input;

    for (uint32_t i = 0; i < input->member_count; i++)
        uneven->chain_head[i] = ASSIGN_NOBODY;
    for (uint32_t topic = 0; topic < input->topic_count; topic++) {
        for (uint32_t i = uneven->first[topic]; i < uneven->first[topic + 1]; i++)
            uneven->chain_head[uneven->subscribers[i]] = topic; /* a mark, for now */
        for (uint32_t i = input->first[topic]; i < input->first[topic + 1]; i++)
            if (input->before[i] != ASSIGN_NOBODY && uneven->chain_head[input->before[i]] == topic) {
                uneven->owner[i] = input->before[i];
                uneven->load[input->before[i]]++;
            }
    }
    for (uint32_t i = 0; i < input->member_count; i++)
        uneven->chain_head[i] = ASSIGN_NOBODY;
}

static enum err assign_different(const struct assign_input *input, uint32_t *owner)
{
    size_t members = input->member_count;
    size_t topics = (size_t)input->topic_count + 1;
    struct uneven uneven = {
        .input = input,
        .owner = owner,
        .load = mem_calloc(members, sizeof(uint32_t)),
        .first = mem_calloc(topics, sizeof(uint32_t)),
        .topics = mem_calloc(topics, sizeof(uint32_t)),
        .heap = mem_calloc(members, sizeof(uint32_t)),
        .chain_head = mem_calloc(members, sizeof(uint32_t)),
        .chain_next = mem_calloc((size_t)assign_partition_count(input) + 1, sizeof(uint32_t)),
        .giving = mem_calloc(members, sizeof(uint32_t)),
    };
    bool moved = true;
    enum err err = ERR_NOMEM;

    if (uneven.load == NULL || uneven.first == NULL || uneven.topics == NULL || uneven.heap == NULL ||
        uneven.chain_head == NULL || uneven.chain_next == NULL || uneven.giving == NULL)
        goto out;
    err = index_subscribers(&uneven);
    if (err != ERR_OK)
        goto out;
    keep_subscribed(&uneven);
    for (uint32_t i = 0; i < input->topic_count; i++)
        give_rest(&uneven, uneven.topics[i]);
    for (int round = 0; round < ROUNDS_MAX && moved; round++) {
        moved = false;
        for (uint32_t i = 0; i < input->topic_count; i++)
            moved |= even_out(&uneven, uneven.topics[i]);
    }
    for (uint32_t i = 0; i < input->topic_count && err == ERR_OK; i++)
        err = place_near(input, owner, input->first[i], input->first[i + 1]);
out:
    mem_free(uneven.load);
    mem_free(uneven.first);
    mem_free(uneven.subscribers);
    mem_free(uneven.topics);
    mem_free(uneven.heap);
    mem_free(uneven.chain_head);
    mem_free(uneven.chain_next);
    mem_free(uneven.giving);
    return err;
}

enum err assign_uniform(const struct assign_input *input, uint32_t *owner)
{
    for (uint32_t i = 0; i < assign_partition_count(input); i++)
        owner[i] = ASSIGN_NOBODY;
    if (input->member_count == 0)
        return ERR_OK;
    if (assign_is_same_for_all(input) && input->members[0].topic_count == input->topic_count)
        return assign_same(input, owner);
    return assign_different(input, owner);
}
