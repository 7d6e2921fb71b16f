/* Rule: what group coordinators know of topics is what the shard's image says: by name and by id, all of them in order
 * of name until whoever walks has enough; the racks of a partition's replicas sorted, each once, no more than there is
 * room for (the cores have room for GROUP_TOPIC_RACKS_MAX), replicas without one left out; and before the first image
 * nothing at all. */
#include "broker/group_topics_image.h"

#include <check.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "raftmeta/metadata_record.h"

enum { BROKERS = 6, TOPICS = 3, RACKS_MAX = 8 };

static struct shard shard;
static const struct group_topics *topics;

static struct uuid topic_id(uint8_t last)
{
    return (struct uuid){.bytes = {[UUID_BYTES - 1] = last}};
}

static void apply(struct metadata_record *record)
{
    struct image_edit *edit = image_edit_new(shard.image);
    struct image *next = NULL;
    struct image_delta *delta = NULL;
    int64_t offset = image_offset(shard.image) + 1;

    ck_assert_ptr_nonnull(edit);
    ck_assert_int_eq(image_edit_apply(edit, record, offset), ERR_OK);
    ck_assert_int_eq(image_edit_finish(edit, offset, 1, 0, &next, &delta), ERR_OK);
    image_delta_drop(delta);
    image_drop(shard.image);
    shard.image = next;
}

static void add_broker(int32_t id, struct bytes rack)
{
    struct metadata_record record;

    metadata_record_init(&record, RECORD_REGISTER_BROKER, METADATA_VERSION_NEWEST);
    record.register_broker.broker_id = id;
    record.register_broker.rack = rack;
    apply(&record);
}

static void add_topic(const char *name, uint8_t id)
{
    struct metadata_record record;

    metadata_record_init(&record, RECORD_TOPIC, METADATA_VERSION_NEWEST);
    record.topic.name = bytes_of_text(name);
    record.topic.topic_id = topic_id(id);
    apply(&record);
}

static void add_partition(uint8_t topic, int32_t *replicas, uint32_t count)
{
    const struct image_topic *of = image_topic_by_id(shard.image, topic_id(topic));
    struct metadata_record record;

    metadata_record_init(&record, RECORD_PARTITION, METADATA_VERSION_NEWEST);
    record.partition.topic_id = of->id;
    record.partition.partition_id = (int32_t)of->partition_count;
    record.partition.replicas = replicas;
    record.partition.replicas_count = count;
    record.partition.isr = replicas;
    record.partition.isr_count = 1;
    record.partition.leader = replicas[0];
    record.partition.leader_epoch = 0;
    record.partition.partition_epoch = 0;
    apply(&record);
}

/* Brokers 0 to 4 in racks c, a, b, a and none; 5 is not there. */
static void setup(void)
{
    static const struct bytes racks[] = {
        BYTES_LITERAL("c"), BYTES_LITERAL("a"), BYTES_LITERAL("b"), BYTES_LITERAL("a"), {0}};

    shard = (struct shard){.image = image_new(), .groups.shard = &shard};
    group_topics_image_init(&shard.groups.topics);
    topics = &shard.groups.topics;
    for (int32_t i = 0; i < BROKERS - 1; i++)
        add_broker(i, racks[i]);
    add_topic("zebra", 1);
    add_topic("ant", 2);
    add_topic("mole", 3);
    add_partition(1, (int32_t[]){0, 1, 2, 3, 4, 5}, BROKERS);
    add_partition(1, (int32_t[]){4, 5}, 2);
    add_partition(2, (int32_t[]){1}, 1);
}

static void teardown(void)
{
    image_drop(shard.image);
    shard.image = NULL;
}

START_TEST(by_name_and_by_id)
{
    struct group_topic topic = {0};

    setup();
    ck_assert(topics->by_name(topics, BYTES_LITERAL("zebra"), &topic));
    ck_assert_uint_eq(topic.partition_count, 2);
    ck_assert(uuid_equal(topic.id, topic_id(1)));
    ck_assert(topics->by_id(topics, topic_id(2), &topic));
    ck_assert(bytes_equal(topic.name, BYTES_LITERAL("ant")));
    ck_assert(!topics->by_name(topics, BYTES_LITERAL("zebr"), &topic));
    ck_assert(!topics->by_id(topics, topic_id(9), &topic));
    teardown();
}
END_TEST

struct seen {
    struct bytes names[TOPICS];
    uint32_t count, max;
};

static bool see(void *context, const struct group_topic *topic)
{
    struct seen *seen = context;

    ck_assert_uint_lt(seen->count, TOPICS);
    seen->names[seen->count++] = topic->name;
    return seen->count < seen->max;
}

START_TEST(all_in_order_until_it_is_enough)
{
    setup();
    for (uint32_t max = 1; max <= TOPICS + 1; max++) {
        struct seen seen = {.max = max};

        topics->each(topics, (struct bytes){0}, see, &seen);
        ck_assert_uint_eq(seen.count, max < TOPICS ? max : TOPICS);
        ck_assert(bytes_equal(seen.names[0], BYTES_LITERAL("ant")));
        for (uint32_t i = 1; i < seen.count; i++)
            ck_assert_int_lt(bytes_compare(seen.names[i - 1], seen.names[i]), 0);
    }
    teardown();
}
END_TEST

START_TEST(racks_each_once)
{
    struct bytes racks[RACKS_MAX];

    setup();
    ck_assert_uint_eq(topics->racks(topics, topic_id(1), 0, racks, RACKS_MAX), 3);
    ck_assert(bytes_equal(racks[0], BYTES_LITERAL("a")));
    ck_assert(bytes_equal(racks[1], BYTES_LITERAL("b")));
    ck_assert(bytes_equal(racks[2], BYTES_LITERAL("c")));
    ck_assert_uint_eq(topics->racks(topics, topic_id(1), 0, racks, 3), 3);
    ck_assert_uint_eq(topics->racks(topics, topic_id(1), 0, racks, 2), 2); /* and no byte behind them */
    ck_assert_int_lt(bytes_compare(racks[0], racks[1]), 0);
    ck_assert_uint_eq(topics->racks(topics, topic_id(1), 1, racks, RACKS_MAX), 0);
    ck_assert_uint_eq(topics->racks(topics, topic_id(1), 2, racks, RACKS_MAX), 0);
    ck_assert_uint_eq(topics->racks(topics, topic_id(9), 0, racks, RACKS_MAX), 0);
    teardown();
}
END_TEST

START_TEST(settings_of_a_group)
{
    struct metadata_record record;

    setup();
    metadata_record_init(&record, RECORD_CONFIG, METADATA_VERSION_NEWEST);
    record.config.resource_type = CONFIG_GROUP;
    record.config.resource_name = BYTES_LITERAL("g");
    record.config.name = BYTES_LITERAL("consumer.session.timeout.ms");
    record.config.value = BYTES_LITERAL("50000");
    apply(&record);
    ck_assert(bytes_equal(topics->group_config(topics, BYTES_LITERAL("g"), record.config.name), record.config.value));
    ck_assert_ptr_null(topics->group_config(topics, BYTES_LITERAL("h"), record.config.name).data);
    ck_assert_ptr_null(topics->group_config(topics, BYTES_LITERAL("g"), BYTES_LITERAL("other")).data);
    teardown();
}
END_TEST

START_TEST(before_the_first_image)
{
    struct group_topic topic = {0};
    struct bytes racks[RACKS_MAX];
    struct seen seen = {.max = TOPICS};

    setup();
    teardown();
    ck_assert(!topics->by_name(topics, BYTES_LITERAL("ant"), &topic));
    ck_assert(!topics->by_id(topics, topic_id(2), &topic));
    ck_assert_uint_eq(topics->racks(topics, topic_id(2), 0, racks, RACKS_MAX), 0);
    ck_assert_ptr_null(topics->group_config(topics, BYTES_LITERAL("g"), BYTES_LITERAL("x")).data);
    topics->each(topics, (struct bytes){0}, see, &seen);
    ck_assert_uint_eq(seen.count, 0);
}
END_TEST

RUN_TESTS("broker/group_topics_image", by_name_and_by_id, all_in_order_until_it_is_enough, racks_each_once,
          settings_of_a_group, before_the_first_image)
