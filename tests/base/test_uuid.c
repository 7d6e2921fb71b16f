/* Rule: a uuid's text is URL-safe base64 of its 16 bytes without padding, as Kafka prints topic ids; or hexadecimal, as
 * Java prints them. */
#include <check.h>

#include "base/uuid.h"

START_TEST(text_and_back)
{
    struct uuid id = {{0xfb, 0xff, 0xfe, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
    struct uuid back;

    ck_assert_str_eq(uuid_format(id).text, "-__-AAECAwQFBgcICQoLDA");
    ck_assert_int_eq(uuid_parse(bytes_of_text(uuid_format(id).text), &back), ERR_OK);
    ck_assert(uuid_equal(id, back));
    ck_assert_str_eq(uuid_format_hex(id).text, "fbfffe00-0102-0304-0506-0708090a0b0c");
}
END_TEST

START_TEST(bad_text_is_refused)
{
    struct uuid id;

    ck_assert_int_eq(uuid_parse(BYTES_LITERAL("short"), &id), ERR_USAGE);
    ck_assert_int_eq(uuid_parse(BYTES_LITERAL("-__-AAECAwQFBgcICQoL=="), &id), ERR_USAGE);
    ck_assert_int_eq(uuid_parse(BYTES_LITERAL("-__-AAECAwQFBgcIC\0oLDA"), &id), ERR_USAGE);
}
END_TEST

static void fill(struct rng *rng, void *to, size_t size)
{
    (void)rng;
    ck_assert_uint_eq(size, UUID_BYTES);
    memset(to, 0x11, size);
}

START_TEST(random_ids_are_of_type_4)
{
    struct rng rng = {.fill = fill};
    uint8_t random[16];

    memset(random, 0xff, sizeof(random));
    ck_assert_uint_eq(uuid_from_random(random).bytes[6] >> 4, 4);
    ck_assert_uint_eq(uuid_from_random(random).bytes[8] >> 6, 2);
    ck_assert_str_eq(uuid_format_hex(uuid_random(&rng)).text, "11111111-1111-4111-9111-111111111111");
    memset(random, 0, sizeof(random));
    ck_assert(!uuid_is_zero(uuid_from_random(random))); /* Kafka's reserved ids cannot come out */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("uuid");
    TCase *tcase = tcase_create("uuid");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, text_and_back);
    tcase_add_test(tcase, bad_text_is_refused);
    tcase_add_test(tcase, random_ids_are_of_type_4);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
