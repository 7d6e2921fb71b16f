/* Rule: what classic consumers embed in their requests is read in the version that it has, a newer one as the newest
 * that is known, and bytes that are no such thing are refused: whatever they are, nothing is read beyond them. */
#include <check.h>
#include <stdlib.h>

#include "coordinator/embedded.h"
#include "partition/run_tests.h"

/* Version, one topic "t", no user data, one owned partition t-3, generation 7, rack "r". */
#define BODY_OF_0 "\0\0\0\1\0\1t\xff\xff\xff\xff"
#define BODY_OF_3 BODY_OF_0 "\0\0\0\1\0\1t\0\0\0\1\0\0\0\3\0\0\0\7\0\1r"

static enum err read_subscription(struct bytes text, struct consumer_protocol_subscription *subscription)
{
    struct arena arena;
    enum err err = ERR_OK;

    arena_init(&arena, EMBEDDED_BYTES_MAX);
    err = embedded_read_subscription(text, &arena, subscription);
    arena_deinit(&arena);
    return err;
}

START_TEST(each_version_has_its_fields)
{
    struct consumer_protocol_subscription subscription;

    ck_assert_int_eq(read_subscription(BYTES_LITERAL("\0\0" BODY_OF_0), &subscription), ERR_OK);
    ck_assert_uint_eq(subscription.topics_count, 1);
    ck_assert_uint_eq(subscription.owned_partitions_count, 0);
    ck_assert_int_eq(read_subscription(BYTES_LITERAL("\0\3" BODY_OF_3), &subscription), ERR_OK);
    ck_assert_uint_eq(subscription.owned_partitions_count, 1);
    ck_assert_int_eq(subscription.generation_id, 7);
    ck_assert(bytes_equal(subscription.rack_id, BYTES_LITERAL("r")));
}
END_TEST

START_TEST(a_newer_version_reads_as_the_newest_known)
{
    struct consumer_protocol_subscription subscription;

    ck_assert_int_eq(read_subscription(BYTES_LITERAL("\x7f\xff" BODY_OF_3 "what came later"), &subscription), ERR_OK);
    ck_assert_int_eq(subscription.generation_id, 7);
    ck_assert_int_eq(embedded_assignment_version(BYTES_LITERAL("\x7f\xff")), CONSUMER_PROTOCOL_ASSIGNMENT_VERSION_MAX);
    ck_assert_int_eq(embedded_assignment_version(BYTES_LITERAL("\0\1")), 1);
}
END_TEST

START_TEST(topics_are_read_whatever_stands_behind)
{
    struct consumer_protocol_subscription subscription;
    struct bytes text = BYTES_LITERAL("\0\3" BODY_OF_0 "\x7f no owned partitions");
    struct arena arena;

    ck_assert_int_eq(read_subscription(text, &subscription), ERR_MALFORMED);
    arena_init(&arena, EMBEDDED_BYTES_MAX);
    ck_assert_int_eq(embedded_read_topics(text, &arena, &subscription), ERR_OK);
    ck_assert_uint_eq(subscription.topics_count, 1);
    ck_assert(bytes_equal(subscription.topics[0], BYTES_LITERAL("t")));
    arena_deinit(&arena);
}
END_TEST

/* On the heap, so that a byte beyond them is a sanitizer's find. */
static enum err read_cut(struct bytes text, size_t size)
{
    struct consumer_protocol_subscription subscription;
    uint8_t *cut = malloc(size == 0 ? 1 : size);
    enum err err = ERR_OK;

    ck_assert_ptr_nonnull(cut);
    memcpy(cut, text.data, size);
    err = read_subscription(bytes_of(cut, size), &subscription);
    free(cut);
    return err;
}

START_TEST(other_bytes_are_refused)
{
    struct consumer_protocol_subscription subscription;
    struct bytes whole = BYTES_LITERAL("\0\3" BODY_OF_3);

    for (size_t size = 0; size < whole.size; size++)
        ck_assert_int_eq(read_cut(whole, size), ERR_MALFORMED);
    ck_assert_int_eq(read_cut(whole, whole.size), ERR_OK);
    ck_assert_int_eq(read_subscription(BYTES_LITERAL("\xff\xff" BODY_OF_3), &subscription), ERR_MALFORMED);
    ck_assert_int_eq(read_subscription((struct bytes){0}, &subscription), ERR_MALFORMED);
    ck_assert_int_eq(embedded_assignment_version(BYTES_LITERAL("\xff\xff")), 0);
    ck_assert_int_eq(embedded_assignment_version(BYTES_LITERAL("\1")), 0);
}
END_TEST

/* Where the arena is too small for what the bytes ask for, they are refused, not read in part. */
START_TEST(more_than_the_arena_holds)
{
    struct consumer_protocol_assignment assignment;
    struct arena arena;

    arena_init(&arena, 16);
    ck_assert_int_ne(
        embedded_read_assignment(BYTES_LITERAL("\0\1\0\0\0\1\0\1t\0\0\0\2\0\0\0\1\0\0\0\2\xff\xff\xff\xff"), &arena,
                                 &assignment),
        ERR_OK);
    arena_deinit(&arena);
    arena_init(&arena, EMBEDDED_BYTES_MAX);
    ck_assert_int_eq(
        embedded_read_assignment(BYTES_LITERAL("\0\1\0\0\0\1\0\1t\0\0\0\2\0\0\0\1\0\0\0\2\xff\xff\xff\xff"), &arena,
                                 &assignment),
        ERR_OK);
    ck_assert_uint_eq(assignment.assigned_partitions_count, 1);
    ck_assert_uint_eq(assignment.assigned_partitions[0].partitions_count, 2);
    ck_assert_int_eq(assignment.assigned_partitions[0].partitions[1], 2);
    arena_deinit(&arena);
}
END_TEST

RUN_TESTS("embedded", each_version_has_its_fields, a_newer_version_reads_as_the_newest_known,
          topics_are_read_whatever_stands_behind, other_bytes_are_refused, more_than_the_arena_holds)
