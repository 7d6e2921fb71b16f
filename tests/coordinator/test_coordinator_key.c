/* Rule: a group lies where Apache Kafka's clients and tools look for it: abs(String.hashCode) over UTF-16 units. Values
 * from Java. */
#include <check.h>
#include <stdlib.h>

#include "coordinator/coordinator_key.h"
#include "partition/run_tests.h"

START_TEST(hash_codes_of_java)
{
    ck_assert_int_eq(coordinator_key_hash(BYTES_LITERAL("")), 0);
    ck_assert_int_eq(coordinator_key_hash(BYTES_LITERAL("a")), 97);
    ck_assert_int_eq(coordinator_key_hash(BYTES_LITERAL("hello")), 99162322);
    ck_assert_int_eq(coordinator_key_hash(BYTES_LITERAL("polygenelubricants")), INT32_MIN);
    ck_assert_int_eq(coordinator_key_hash(BYTES_LITERAL("\xc3\xa9")), 0xe9);
    ck_assert_int_eq(coordinator_key_hash(BYTES_LITERAL("\xf0\x9f\x98\x80")), 0xd83d * 31 + 0xde00);
}
END_TEST

START_TEST(partitions)
{
    ck_assert_int_eq(coordinator_key_partition(BYTES_LITERAL("polygenelubricants"), 50), 0);
    ck_assert_int_eq(coordinator_key_partition(BYTES_LITERAL("a"), 50), 47);
    ck_assert_int_eq(coordinator_key_partition(BYTES_LITERAL("hello"), 50), 22);
    ck_assert_int_eq(coordinator_key_partition(BYTES_LITERAL("hello"), 1), 0);
}
END_TEST

/* Whatever the bytes are, there is a partition. */
START_TEST(any_bytes)
{
    uint8_t bytes[3];

    for (uint32_t i = 0; i < 1 << 24; i += 251) {
        bytes[0] = (uint8_t)(i >> 16);
        bytes[1] = (uint8_t)(i >> 8);
        bytes[2] = (uint8_t)i;
        ck_assert_int_lt(coordinator_key_partition(bytes_of(bytes, 3), 50), 50);
        ck_assert_int_ge(coordinator_key_partition(bytes_of(bytes, 3), 50), 0);
    }
    ck_assert_int_eq(coordinator_key_hash(BYTES_LITERAL("\xff")), 0xfffd);
    ck_assert_int_eq(coordinator_key_hash(BYTES_LITERAL("\xc3")), 0xfffd);
}
END_TEST

RUN_TESTS("coordinator_key", hash_codes_of_java, partitions, any_bytes)
