/* Rule: an image never changes once made; the next one shares what did not change, its delta says what did, and the
 * records of an image make the same image again (ARCHITECTURE.md "Metadata").
 *
 * Sources: raftmeta/image_brokers.c, raftmeta/image_configs.c, raftmeta/image_edit.c, raftmeta/image_records.c,
 * raftmeta/image_rows.c, raftmeta/image_topics.c */
#include <check.h>
#include <stdio.h>

#include "base/mem.h"
#include "raftmeta/image_records.h"
#include "raftmeta/metadata_limits.h"
#include "raftmeta/transcript.h"
#include "sim/sim.h"

enum { ROUNDS = 300, NAMES = 24 };

static struct sim sim;
static struct transcript before, after;

static struct metadata_record of_kind(enum metadata_record_kind kind)
{
    struct metadata_record record;

    metadata_record_init(&record, kind, 29);
    return record;
}

/* One more image of the records. */
static struct image *next(struct image *image, const struct metadata_record *records, uint32_t count,
                          struct image_delta **delta)
{
    struct image_edit *edit = image_edit_new(image);
    struct image *made = NULL;
    int64_t offset = image_offset(image);

    ck_assert_ptr_nonnull(edit);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_int_eq(image_edit_apply(edit, &records[i], ++offset), ERR_OK);
    ck_assert_int_eq(image_edit_finish(edit, offset, 1, 0, &made, delta), ERR_OK);
    return made;
}

/* --- a random history, and a shadow that follows the deltas alone --- */

struct shadow {
    const struct image_topic *topics[1024];
    uint32_t topic_count;
    const struct image_configs *configs[1024];
    uint32_t configs_count;
};

static void follow(struct shadow *shadow, const struct image_delta *delta)
{
    for (uint32_t i = 0; i < delta->topic_count; i++) {
        const struct image_topic_change *change = &delta->topics[i];
        uint32_t at = 0;

        while (change->before != NULL && shadow->topics[at] != change->before) {
            at++;
            ck_assert_uint_lt(at, shadow->topic_count); /* what it replaces was there */
        }
        if (change->before == NULL)
            at = shadow->topic_count++;
        shadow->topics[at] = change->after;
        if (change->after == NULL)
            shadow->topics[at] = shadow->topics[--shadow->topic_count];
    }
    for (uint32_t i = 0; i < delta->configs_count; i++) {
        const struct image_configs_change *change = &delta->configs[i];
        uint32_t at = 0;

        while (change->before != NULL && shadow->configs[at] != change->before) {
            at++;
            ck_assert_uint_lt(at, shadow->configs_count);
        }
        if (change->before == NULL)
            at = shadow->configs_count++;
        shadow->configs[at] = change->after;
        if (change->after == NULL)
            shadow->configs[at] = shadow->configs[--shadow->configs_count];
    }
}

static void hold(const struct shadow *shadow, const struct image *image)
{
    ck_assert_uint_eq(shadow->topic_count, image_topic_count(image));
    for (uint32_t i = 0; i < shadow->topic_count; i++) {
        ck_assert_ptr_eq(image_topic_by_id(image, shadow->topics[i]->id), shadow->topics[i]);
        ck_assert_ptr_eq(image_topic_by_name(image, shadow->topics[i]->name), shadow->topics[i]);
    }
    for (uint32_t i = 0; i < shadow->configs_count; i++)
        ck_assert_ptr_eq(
            image_configs(image, (enum config_resource_type)shadow->configs[i]->type, shadow->configs[i]->resource),
            shadow->configs[i]);
}

static char names[NAMES][8];

static uint32_t draw(uint32_t bound)
{
    return (uint32_t)rng_below(&sim.rng, bound);
}

/* A record that fits the image, as far as it has been edited. */
static bool draw_record(const struct image *image, struct metadata_record *record, int32_t *ids)
{
    struct bytes name = bytes_of_text(names[draw(NAMES)]);
    const struct image_topic *topic = image_topic_by_name(image, name);
    uint8_t random[UUID_BYTES];

    switch (draw(8)) {
    case 0:
        if (topic != NULL)
            return false;
        *record = of_kind(RECORD_TOPIC);
        rng_fill(&sim.rng, random, sizeof(random));
        record->topic.name = name;
        record->topic.topic_id = uuid_from_random(random);
        return true;
    case 1:
    case 2:
        if (topic == NULL || topic->partition_count > 20)
            return false;
        *record = of_kind(RECORD_PARTITION);
        record->partition.partition_id = (int32_t)topic->partition_count;
        record->partition.topic_id = topic->id;
        record->partition.replicas = ids;
        record->partition.replicas_count = 1 + draw(3);
        record->partition.isr = ids;
        record->partition.isr_count = 1;
        record->partition.leader = ids[0];
        record->partition.leader_epoch = 0;
        record->partition.partition_epoch = 0;
        return true;
    case 3:
        if (topic == NULL || topic->partition_count == 0)
            return false;
        *record = of_kind(RECORD_PARTITION_CHANGE);
        record->partition_change.partition_id = (int32_t)draw(topic->partition_count);
        record->partition_change.topic_id = topic->id;
        record->partition_change.isr = ids;
        record->partition_change.isr_count = draw(3);
        if (draw(2) == 0)
            record->partition_change.leader = (int32_t)draw(5) - 1;
        return true;
    case 4:
        if (topic == NULL || draw(3) > 0)
            return false;
        *record = of_kind(RECORD_REMOVE_TOPIC);
        record->remove_topic.topic_id = topic->id;
        return true;
    default:
        *record = of_kind(RECORD_CONFIG);
        record->config.resource_type = draw(2) == 0 ? CONFIG_TOPIC : CONFIG_BROKER;
        record->config.resource_name = name;
        record->config.name = bytes_of_text(names[draw(4)]);
        record->config.value = draw(3) == 0 ? (struct bytes){NULL, 0} : bytes_of_text(names[draw(NAMES)]);
        return true;
    }
}

struct copy {
    struct image_edit *edit;
};

static enum err apply_frame(void *context, struct bytes frame)
{
    struct copy *copy = context;
    struct metadata_record record;
    struct arena arena;
    enum err err = ERR_OK;

    arena_init(&arena, 1024 * 1024);
    err = metadata_record_read(frame, &arena, &record);
    if (err == ERR_OK)
        err = image_edit_apply(copy->edit, &record, 0);
    arena_deinit(&arena);
    return err;
}

/* The image that an image's own records make. */
static struct image *image_again(const struct image *image)
{
    struct image *nothing = image_new();
    struct copy copy = {image_edit_new(nothing)};
    struct image *again = NULL;
    struct image_delta *delta = NULL;

    ck_assert_int_eq(image_each_frame(image, apply_frame, &copy), ERR_OK);
    ck_assert_int_eq(image_edit_finish(copy.edit, image_offset(image), 0, 0, &again, &delta), ERR_OK);
    image_delta_drop(delta);
    image_drop(nothing);
    return again;
}

START_TEST(random_histories)
{
    struct image *images[ROUNDS + 1];
    struct image_delta *deltas[ROUNDS];
    static struct shadow shadow;
    static char texts[3][TRANSCRIPT_BYTES_MAX];
    int32_t ids[3] = {1, 2, 3};

    sim_init(&sim, 11);
    for (uint32_t i = 0; i < NAMES; i++)
        (void)snprintf(names[i], sizeof(names[i]), "t%c%u", "._-"[i % 3], i / 3);
    images[0] = image_new();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct image_edit *edit = image_edit_new(images[round]);
        uint32_t count = 1 + draw(12);

        for (uint32_t i = 0; i < count; i++) {
            struct metadata_record record;

            if (draw_record(image_edit_view(edit), &record, ids))
                ck_assert_int_eq(image_edit_apply(edit, &record, round), ERR_OK);
        }
        ck_assert_int_eq(image_edit_finish(edit, round, 1, 0, &images[round + 1], &deltas[round]), ERR_OK);
        follow(&shadow, deltas[round]);
        hold(&shadow, images[round + 1]);
        if (round % 100 == 50) { /* remembered, to be looked at when much has changed */
            transcript_begin(&before);
            transcript_image(&before, images[round + 1]);
            memcpy(texts[round / 100], before.text, before.size + 1);
        }
        if (round % 10 == 0) {
            struct image *again = image_again(images[round + 1]);

            transcript_begin(&before);
            transcript_begin(&after);
            transcript_image(&before, images[round + 1]);
            transcript_image(&after, again);
            ck_assert_str_eq(before.text, after.text);
            ck_assert_uint_eq(image_partition_count(again), image_partition_count(images[round + 1]));
            image_drop(again);
        }
    }
    for (uint32_t i = 0; i < 3; i++) {
        transcript_begin(&before);
        transcript_image(&before, images[i * 100 + 51]);
        ck_assert_str_eq(before.text, texts[i]);
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        image_delta_drop(deltas[i]);
        image_drop(images[i]);
    }
    image_drop(images[ROUNDS]);
    sim_deinit(&sim);
}
END_TEST

START_TEST(a_dropped_edit_leaves_no_trace)
{
    struct image *nothing = image_new();
    struct metadata_record topic = of_kind(RECORD_TOPIC);
    struct metadata_record gone = of_kind(RECORD_REMOVE_TOPIC);
    struct image_edit *edit = NULL;
    struct image *image = NULL;
    struct image_delta *delta = NULL;

    topic.topic.name = BYTES_LITERAL("a");
    topic.topic.topic_id = test_uuid(1);
    gone.remove_topic.topic_id = test_uuid(1);
    image = next(nothing, &topic, 1, &delta);
    image_delta_drop(delta);
    edit = image_edit_new(image);
    ck_assert_int_eq(image_edit_apply(edit, &gone, 5), ERR_OK);
    ck_assert_ptr_null(image_topic_by_name(image_edit_view(edit), BYTES_LITERAL("a")));
    image_edit_drop(edit);
    ck_assert_ptr_nonnull(image_topic_by_name(image, BYTES_LITERAL("a")));
    image_drop(image);
    image_drop(nothing);
}
END_TEST

/* Made and removed within one change: nobody hears of it. Removed and made again: two entries. */
START_TEST(deltas_within_one_change)
{
    struct metadata_record records[3] = {of_kind(RECORD_TOPIC), of_kind(RECORD_REMOVE_TOPIC), of_kind(RECORD_TOPIC)};
    struct image *nothing = image_new();
    struct image *first = NULL;
    struct image *second = NULL;
    struct image_delta *delta = NULL;

    records[0].topic.name = BYTES_LITERAL("a");
    records[0].topic.topic_id = test_uuid(1);
    records[1].remove_topic.topic_id = test_uuid(1);
    records[2].topic.name = BYTES_LITERAL("a");
    records[2].topic.topic_id = test_uuid(2);
    first = next(nothing, records, 2, &delta);
    ck_assert(image_delta_is_empty(delta));
    image_delta_drop(delta);
    image_drop(first);

    first = next(nothing, records, 1, &delta);
    image_delta_drop(delta);
    second = next(first, records + 1, 2, &delta);
    ck_assert_uint_eq(delta->topic_count, 2);
    ck_assert_ptr_null(delta->topics[0].after);
    ck_assert_ptr_null(delta->topics[1].before);
    ck_assert(uuid_equal(image_topic_by_name(second, BYTES_LITERAL("a"))->id, test_uuid(2)));
    image_delta_drop(delta);
    image_drop(second);
    image_drop(first);
    image_drop(nothing);
}
END_TEST

/* controller.md "Record types": the partition epoch rises with each change, the leader epoch when a leader is named. */
START_TEST(epochs_rise)
{
    int32_t ids[] = {1, 2};
    struct metadata_record records[5];
    struct image *nothing = image_new();
    struct image *image = NULL;
    struct image_delta *delta = NULL;
    const struct image_partition *partition = NULL;

    records[0] = of_kind(RECORD_TOPIC);
    records[0].topic.name = BYTES_LITERAL("a");
    records[0].topic.topic_id = test_uuid(1);
    records[1] = of_kind(RECORD_PARTITION);
    records[1].partition = (struct partition_record){.topic_id = test_uuid(1),
                                                     .replicas = ids,
                                                     .replicas_count = 2,
                                                     .isr = ids,
                                                     .isr_count = 2,
                                                     .leader = 1,
                                                     .leader_epoch = 4,
                                                     .partition_epoch = 6};
    for (uint32_t i = 2; i < 5; i++) {
        records[i] = of_kind(RECORD_PARTITION_CHANGE);
        records[i].partition_change.partition_id = 0;
        records[i].partition_change.topic_id = test_uuid(1);
    }
    records[2].partition_change.isr = ids;
    records[2].partition_change.isr_count = 1;
    records[3].partition_change.leader = 1; /* the same one: an epoch all the same */
    records[4].partition_change.leader = IMAGE_LEADER_NONE;
    records[4].partition_change.leader_recovery_state = 1;
    image = next(nothing, records, 5, &delta);
    partition = image_partition(image, test_uuid(1), 0);
    ck_assert_int_eq(partition->leader, IMAGE_LEADER_NONE);
    ck_assert_int_eq(partition->leader_epoch, 6);
    ck_assert_int_eq(partition->partition_epoch, 9);
    ck_assert_uint_eq(partition->isr_count, 1);
    ck_assert(partition->recovering);
    ck_assert_uint_eq(partition->replica_count, 2);
    ck_assert(uuid_is_zero(partition->directories[1])); /* not known: MIGRATING */
    ck_assert_ptr_null(image_partition(image, test_uuid(1), 1));
    ck_assert_ptr_null(image_partition(image, test_uuid(1), -1));
    image_delta_drop(delta);
    image_drop(image);
    image_drop(nothing);
}
END_TEST

/* The edges of TOPIC_PARTITIONS_MAX and IMAGE_RESOURCE_BYTES_MAX: a record beyond them is damage, one at them is not.
 */
START_TEST(what_no_record_says_is_damage)
{
    static uint8_t text[IMAGE_RESOURCE_BYTES_MAX + 1];
    struct metadata_record topic = of_kind(RECORD_TOPIC);
    struct metadata_record partition = of_kind(RECORD_PARTITION);
    struct metadata_record config = of_kind(RECORD_CONFIG);
    struct image *image = image_new();
    struct image_edit *edit = image_edit_new(image);

    memset(text, 'x', sizeof(text));
    ck_assert_ptr_nonnull(edit);
    topic.topic.name = BYTES_LITERAL("a");
    topic.topic.topic_id = test_uuid(1);
    partition.partition.topic_id = test_uuid(1);
    config.config.resource_type = CONFIG_GROUP;
    config.config.name = BYTES_LITERAL("k");
    config.config.value = BYTES_LITERAL("v");
    ck_assert_int_eq(image_edit_apply(edit, &topic, 1), ERR_OK);
    partition.partition.partition_id = TOPIC_PARTITIONS_MAX;
    ck_assert_int_eq(image_edit_apply(edit, &partition, 2), ERR_DAMAGED);
    partition.partition.partition_id = TOPIC_PARTITIONS_MAX - 1;
    ck_assert_int_eq(image_edit_apply(edit, &partition, 2), ERR_OK);
    config.config.resource_name = bytes_of(text, IMAGE_RESOURCE_BYTES_MAX + 1);
    ck_assert_int_eq(image_edit_apply(edit, &config, 3), ERR_DAMAGED);
    config.config.resource_name = bytes_of(text, IMAGE_RESOURCE_BYTES_MAX);
    ck_assert_int_eq(image_edit_apply(edit, &config, 3), ERR_OK);
    ck_assert_ptr_nonnull(image_configs(image_edit_view(edit), CONFIG_GROUP, config.config.resource_name));
    ck_assert_ptr_null(image_configs(image_edit_view(edit), CONFIG_GROUP, bytes_of(text, sizeof(text))));
    image_edit_drop(edit);
    image_drop(image);
}
END_TEST

static bool collide(const char *a, const char *b)
{
    size_t size = strlen(a);

    if (strlen(b) != size || strcmp(a, b) == 0)
        return false;
    for (size_t i = 0; i < size; i++)
        if (a[i] != b[i] && !((a[i] == '.' || a[i] == '_') && (b[i] == '.' || b[i] == '_')))
            return false;
    return true;
}

/* Against a comparison with every name. */
START_TEST(names_collide)
{
    enum { COUNT = 300 };
    static char all[COUNT][8];
    struct image *image = image_new();

    sim_init(&sim, 3);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t size = 1 + draw(5);
        struct metadata_record record = of_kind(RECORD_TOPIC);
        struct image_delta *delta = NULL;
        struct image *made = NULL;
        const struct image_topic *found = NULL;
        bool expected = false;
        uint8_t random[UUID_BYTES];

        for (uint32_t j = 0; j < size; j++)
            all[i][j] = "._-a"[draw(4)];
        all[i][size] = 0;
        for (uint32_t j = 0; j < i; j++)
            expected |= collide(all[i], all[j]);
        found = image_topic_colliding(image, bytes_of_text(all[i]));
        ck_assert_int_eq(found != NULL, expected);
        if (found != NULL)
            ck_assert(collide(all[i], (const char *)found->name.data));
        if (image_topic_by_name(image, bytes_of_text(all[i])) != NULL)
            continue;
        rng_fill(&sim.rng, random, sizeof(random));
        record.topic.name = bytes_of_text(all[i]);
        record.topic.topic_id = uuid_from_random(random);
        made = next(image, &record, 1, &delta);
        image_delta_drop(delta);
        image_drop(image);
        image = made;
    }
    image_drop(image);
    sim_deinit(&sim);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("image");
    TCase *tcase = tcase_create("image");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, random_histories);
    tcase_add_test(tcase, a_dropped_edit_leaves_no_trace);
    tcase_add_test(tcase, deltas_within_one_change);
    tcase_add_test(tcase, epochs_rise);
    tcase_add_test(tcase, what_no_record_says_is_damage);
    tcase_add_test(tcase, names_collide);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
