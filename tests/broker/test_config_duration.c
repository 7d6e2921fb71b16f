/* Rule: a duration is what java.time.Duration reads, each part with a sign of its own, and none that goes backwards; a
 * fraction has FRACTION_DIGITS_MAX digits at most. */
#include "broker/config_duration.h"

#include "../partition/run_tests.h"

START_TEST(durations)
{
    static const char *const texts[] = {"PT0S",     "P1D",     "pt1h",  "P2DT3H4M5.6S", "PT0.123456789S", "+PT1S",
                                        "PT1M-30S", "P1DT-1H", "PT1.S", "PT1,5S",       "-PT-1S",         "PT-0.0S"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        ck_assert_msg(config_is_duration(bytes_of_text(texts[i])), "%s", texts[i]);
}
END_TEST

START_TEST(none)
{
    static const char *const texts[] = {"",
                                        "P",
                                        "PT",
                                        "1D",
                                        "P1",
                                        "P1H",
                                        "PT1D",
                                        "P1DT",
                                        "PT1S1M",
                                        "PT1.5M",
                                        "PT-1S",
                                        "-PT1S",
                                        "PT 1S",
                                        "PT0.1234567891S",
                                        "P1Y",
                                        "P1DT-25H",
                                        "PT-0.5S",
                                        "PT1S ",
                                        "P99999999999999999999D"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        ck_assert_msg(!config_is_duration(bytes_of_text(texts[i])), "%s", texts[i]);
}
END_TEST

RUN_TESTS("config_duration", durations, none)
