/* Rule: crc32c is CRC-32C (Castagnoli) as RFC 3720 B.4 gives it, over one run or over its pieces. */
#include <check.h>

#include "base/crc32c.h"

START_TEST(known_values)
{
    uint8_t zeroes[32] = {0};
    uint8_t ones[32];

    for (int i = 0; i < 32; i++)
        ones[i] = 0xff;
    ck_assert_uint_eq(crc32c(0, "123456789", 9), 0xe3069283);
    ck_assert_uint_eq(crc32c(0, zeroes, sizeof(zeroes)), 0x8a9136aa);
    ck_assert_uint_eq(crc32c(0, ones, sizeof(ones)), 0x62a8ab43);
    ck_assert_uint_eq(crc32c(0, "", 0), 0);
}
END_TEST

START_TEST(pieces_give_the_same)
{
    uint8_t data[3000];
    uint32_t whole = 0;

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    whole = crc32c(0, data, sizeof(data));
    for (size_t cut = 0; cut <= sizeof(data); cut += 37)
        ck_assert_uint_eq(crc32c(crc32c(0, data, cut), data + cut, sizeof(data) - cut), whole);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("crc32c");
    TCase *tcase = tcase_create("crc32c");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, known_values);
    tcase_add_test(tcase, pieces_give_the_same);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
