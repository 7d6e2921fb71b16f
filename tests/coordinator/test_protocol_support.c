/* Rule: each member counts once for a protocol, however often it names it, and not at all once it has gone. */
#include <check.h>

#include "coordinator/protocol_support.h"
#include "partition/run_tests.h"
#include "protocol/gen/consumer_group_member_metadata_record.h"

static uint32_t count_of(const struct protocol_support *support, const char *name)
{
    return protocol_support_count(support, bytes_of_text(name));
}

START_TEST(members_count_once)
{
    const struct classic_protocol first[] = {
        {.name = BYTES_LITERAL("range")}, {.name = BYTES_LITERAL("sticky")}, {.name = BYTES_LITERAL("range")}};
    const struct classic_protocol second[] = {{.name = BYTES_LITERAL("range")}, {.name = BYTES_LITERAL("")}};
    struct protocol_support support;

    protocol_support_init(&support, 1);
    ck_assert_int_eq(protocol_support_add(&support, first, 3), ERR_OK);
    ck_assert_int_eq(protocol_support_add(&support, second, 2), ERR_OK);
    ck_assert_int_eq(protocol_support_add(&support, NULL, 0), ERR_OK);
    ck_assert_uint_eq(count_of(&support, "range"), 2);
    ck_assert_uint_eq(count_of(&support, "sticky"), 1);
    ck_assert_uint_eq(count_of(&support, ""), 1);
    protocol_support_remove(&support, first, 3);
    ck_assert_uint_eq(count_of(&support, "range"), 1);
    ck_assert_uint_eq(count_of(&support, "sticky"), 0);
    protocol_support_remove(&support, second, 2);
    ck_assert_uint_eq(map_count(&support.names), 0);
    protocol_support_deinit(&support);
}
END_TEST

RUN_TESTS("protocol_support", members_count_once)
