/* Rule: what a log says of its quorum comes back as it was written, and a voter set that is larger than any we hold is
 * refused, never cut: the limits of control_record.h, each at its edge. */
#include <check.h>

#include "base/mem.h"
#include "protocol/gen/voters_record.h"
#include "protocol/message.h"
#include "raftmeta/control_record.h"

enum {
    ARENA_BYTES = 16 * 1024 * 1024,
    CROWD = 40000, /* voters whose record is over CONTROL_ARENA_BYTES_MAX in memory */
};

static const struct bytes key = BYTES_LITERAL("\0\0\0\6"); /* version, CONTROL_KRAFT_VOTERS */
static struct voters_record_voter voters[CROWD];
static struct voters_record_endpoint endpoints[VOTER_ENDPOINTS_MAX + 1];
static char name[VOTER_NAME_CHARS_MAX + 1];
static struct quorum_facts facts;

/* So many voters of so many listeners each, their hosts' names that long. */
static enum err read_back(uint32_t voter_count, uint32_t endpoint_count, size_t host_chars)
{
    struct voters_record message;
    struct arena arena;
    struct bytes value;
    enum err err = ERR_OK;

    voters_record_init(&message);
    memset(name, 'h', sizeof(name));
    for (uint32_t i = 0; i < endpoint_count; i++)
        endpoints[i] = (struct voters_record_endpoint){
            .name = BYTES_LITERAL("CONTROLLER"), .host = bytes_of(name, host_chars), .port = 9093};
    for (uint32_t i = 0; i < voter_count; i++) {
        voters_record_voter_init(&voters[i]);
        voters[i].voter_id = (int32_t)i;
        voters[i].endpoints = endpoints;
        voters[i].endpoints_count = endpoint_count;
    }
    message.voters = voters;
    message.voters_count = voter_count;
    arena_init(&arena, ARENA_BYTES);
    ck_assert_int_eq(message_encode(&voters_record_message, 0, &message, &arena, &value), ERR_OK);
    quorum_facts_init(&facts);
    err = quorum_facts_read(&facts, key, value);
    arena_deinit(&arena);
    return err;
}

START_TEST(the_largest_voter_set_is_taken)
{
    ck_assert_int_eq(read_back(VOTERS_MAX, VOTER_ENDPOINTS_MAX, VOTER_NAME_CHARS_MAX), ERR_OK);
    ck_assert_uint_eq(facts.voters.count, VOTERS_MAX);
    ck_assert_int_eq(facts.voters.voters[VOTERS_MAX - 1].id, VOTERS_MAX - 1);
    ck_assert_uint_eq(facts.voters.voters[VOTERS_MAX - 1].endpoint_count, VOTER_ENDPOINTS_MAX);
    ck_assert_uint_eq(strlen(facts.voters.voters[0].endpoints[0].host), VOTER_NAME_CHARS_MAX);
}
END_TEST

START_TEST(one_more_of_anything_is_refused)
{
    ck_assert_int_eq(read_back(VOTERS_MAX + 1, 1, 1), ERR_LIMIT);
    ck_assert(!facts.has_voters);
    ck_assert_int_eq(read_back(1, VOTER_ENDPOINTS_MAX + 1, 1), ERR_LIMIT);
    ck_assert_int_eq(read_back(1, 1, VOTER_NAME_CHARS_MAX + 1), ERR_LIMIT);
    ck_assert_int_eq(read_back(CROWD, 0, 0), ERR_NOMEM); /* CONTROL_ARENA_BYTES_MAX: not even decoded */
    ck_assert(!facts.has_voters);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("control_record");
    TCase *tcase = tcase_create("control_record");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, the_largest_voter_set_is_taken);
    tcase_add_test(tcase, one_more_of_anything_is_refused);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
