/*
 * What a consumer of the classic protocol carries inside JoinGroup and SyncGroup, out of any bytes: the first byte says
 * which of the two. Shows: none crash, hang or leak; what is read is in its bounds, topics that do not exist apart; and
 * what is given to a member that speaks so is an assignment which reads back as what it has.
 */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "coordinator/consumer_internal.h"
#include "coordinator/embedded.h"
#include "fuzz_draw.h"
#include "protocol/gen/consumer_protocol_assignment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_BYTES_MAX = 16 * 1024 * 1024, TOPICS = 3, EPOCH = 7 };

static bool fill(uint32_t i, struct group_topic *topic)
{
    *topic = (struct group_topic){.id = draw_topic_id(i), .name = draw_topic(i), .partition_count = i + 1};
    return true;
}

static bool by_name(const struct group_topics *topics, struct bytes name, struct group_topic *topic)
{
    (void)topics;
    for (uint32_t i = 0; i < TOPICS; i++)
        if (bytes_equal(draw_topic(i), name))
            return fill(i, topic);
    return false;
}

static bool by_id(const struct group_topics *topics, struct uuid id, struct group_topic *topic)
{
    (void)topics;
    for (uint32_t i = 0; i < TOPICS; i++)
        if (uuid_equal(draw_topic_id(i), id))
            return fill(i, topic);
    return false;
}

/* Sorted, each once, of topics that exist. */
static void check_set(const struct partition_set *set, int32_t epoch)
{
    const struct group_topics topics = {.by_id = by_id};

    for (uint32_t i = 0; i < set->count; i++) {
        const struct partition_item *item = &set->items[i];
        struct group_topic topic;

        assert(by_id(&topics, item->topic, &topic) && item->epoch == epoch);
        assert(item->partition >= 0 && item->partition < CONSUMER_PARTITIONS_MAX);
        assert(partition_set_find(set, item->topic, item->partition) == item);
    }
}

/* In the version of the client's own words. */
static void check_given(struct bytes words, const struct step *step, const struct partition_set *set)
{
    struct classic_protocol protocol = {.name = BYTES_LITERAL("range"), .metadata = words};
    struct classic_member_metadata classic = {.supported_protocols = &protocol, .supported_protocols_count = 1};
    struct consumer_member member = {.about.classic_member_metadata = &classic};
    struct partition_set again = {0};
    struct bytes encoded = {0};
    struct arena arena;
    bool has_user_data = true;
    enum err err = ERR_OK;

    arena_init(&arena, ARENA_BYTES_MAX);
    err = consumer_encode_assignment(&member, set, step, &arena, &encoded);
    assert(err == ERR_OK);
    err = consumer_read_assignment(encoded, step, EPOCH, &again, &has_user_data);
    assert(err == ERR_OK && !has_user_data && partition_set_equal(&again, set, false));
    check_set(&again, EPOCH);
    partition_set_deinit(&again);
    arena_deinit(&arena);
}

static void run_subscription(struct bytes words, const struct step *step)
{
    struct consumer_protocol_subscription subscription;
    struct partition_set owned = {0};
    struct arena arena;
    enum err err = ERR_OK;

    arena_init(&arena, ARENA_BYTES_MAX);
    err = embedded_read_subscription(words, &arena, &subscription);
    if (err == ERR_OK)
        err = consumer_read_owned(&subscription, step, &owned);
    assert(err == ERR_OK || err == ERR_MALFORMED || err == ERR_NOMEM);
    check_set(&owned, 0);
    check_given(words, step, &owned);
    partition_set_deinit(&owned);
    arena_deinit(&arena);
}

static void run_assignment(struct bytes words, const struct step *step)
{
    struct partition_set set = {0};
    bool has_user_data = false;
    enum err err = consumer_read_assignment(words, step, EPOCH, &set, &has_user_data);

    assert(err == ERR_OK || err == ERR_MALFORMED || err == ERR_NOMEM);
    if (err == ERR_OK) {
        check_set(&set, EPOCH);
        check_given(words, step, &set);
    }
    partition_set_deinit(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct group_topics topics = {.by_name = by_name, .by_id = by_id};
    const struct step step = {.topics = &topics};

    if (size == 0)
        return 0;
    if (data[0] % 2 == 0)
        run_subscription(bytes_of(data + 1, size - 1), &step);
    else
        run_assignment(bytes_of(data + 1, size - 1), &step);
    return 0;
}
