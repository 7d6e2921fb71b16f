/* Rule: what a step writes is what replay reads: key and value in Kafka's form, tombstones null, a failure final. */
#include <check.h>

#include "base/big_endian.h"
#include "coordinator/step.h"
#include "partition/run_tests.h"
#include "protocol/gen/offset_commit_record.h"

struct taken {
    struct step_sink sink;
    uint32_t count;
    size_t key_size, value_size;
    bool tombstone;
    int kind, version;
    enum err give;
};

static enum err take(struct step_sink *sink, struct step *step, struct bytes key, struct bytes value)
{
    struct taken *taken = (struct taken *)sink;

    (void)step;
    taken->count++;
    taken->key_size = key.size;
    taken->value_size = value.size;
    taken->tombstone = value.data == NULL;
    taken->kind = big_endian_load_u16(key.data);
    taken->version = value.data == NULL ? -1 : big_endian_load_u16(value.data);
    return taken->give;
}

static struct offset_commit_key a_key(void)
{
    return (struct offset_commit_key){.group = BYTES_LITERAL("g"), .topic = BYTES_LITERAL("t"), .partition = 7};
}

START_TEST(a_record_and_its_tombstone)
{
    struct taken taken = {.sink = {.record = take}};
    struct step step = {.sink = &taken.sink};
    struct offset_commit_key key = a_key();
    struct offset_commit_value value;

    offset_commit_value_init(&value);
    value.offset = 5;
    ck_assert_int_eq(step_write(&step, &offset_commit_key_message, &key, &offset_commit_value_message, 3, &value),
                     ERR_OK);
    ck_assert_int_eq(taken.kind, 1);
    ck_assert_int_eq(taken.version, 3);
    ck_assert_uint_eq(taken.key_size, 2 + (2 + 1) + (2 + 1) + 4);
    ck_assert_uint_eq(taken.value_size, 2 + 8 + 4 + 2 + 8);
    ck_assert_int_eq(step_write(&step, &offset_commit_key_message, &key, &offset_commit_value_message, 3, NULL),
                     ERR_OK);
    ck_assert(taken.tombstone);
}
END_TEST

START_TEST(large_ones_too)
{
    static char text[5000];
    struct taken taken = {.sink = {.record = take}};
    struct step step = {.sink = &taken.sink};
    struct offset_commit_key key = a_key();
    struct offset_commit_value value;

    offset_commit_value_init(&value);
    value.metadata = bytes_of(text, sizeof(text));
    ck_assert_int_eq(step_write(&step, &offset_commit_key_message, &key, &offset_commit_value_message, 3, &value),
                     ERR_OK);
    ck_assert_uint_eq(taken.value_size, 2 + 8 + 4 + 2 + sizeof(text) + 8);
}
END_TEST

START_TEST(a_failed_step_writes_no_more)
{
    struct taken taken = {.sink = {.record = take}, .give = ERR_NOMEM};
    struct step step = {.sink = &taken.sink};
    struct offset_commit_key key = a_key();

    ck_assert_int_eq(step_write(&step, &offset_commit_key_message, &key, &offset_commit_value_message, 3, NULL),
                     ERR_NOMEM);
    taken.give = ERR_OK;
    ck_assert_int_eq(step_write(&step, &offset_commit_key_message, &key, &offset_commit_value_message, 3, NULL),
                     ERR_NOMEM);
    ck_assert_uint_eq(taken.count, 1);
    ck_assert_int_eq(step.err, ERR_NOMEM);
}
END_TEST

START_TEST(what_has_passed)
{
    struct step step = {.now_ms = 1000};

    ck_assert(step_has_passed(&step, 0, 1000));
    ck_assert(!step_has_passed(&step, 0, 1001));
    ck_assert(step_has_passed(&step, 1000, 0));
    ck_assert(!step_has_passed(&step, 1000, 1));
    ck_assert(step_has_passed(&step, 1001, 1000)); /* the clock was set back */
    ck_assert(step_has_passed(&step, INT64_MAX, INT64_MAX));
    ck_assert(step_has_passed(&step, INT64_MIN, INT64_MAX));
}
END_TEST

RUN_TESTS("step", a_record_and_its_tombstone, large_ones_too, a_failed_step_writes_no_more, what_has_passed)
