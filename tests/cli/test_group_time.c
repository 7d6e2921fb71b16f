/* Rule: times and durations mean what they mean to kafka-consumer-groups; what is none of both is refused. */
#include <check.h>
#include <stdlib.h>

#include "cli/group_command.h"
#include "partition/run_tests.h"

static void time_is(const char *text, int64_t expected)
{
    int64_t ms = -1;

    ck_assert_msg(group_command_parse_time(text, &ms), "%s", text);
    ck_assert_msg(ms == expected, "%s: %lld", text, (long long)ms);
}

static void duration_is(const char *text, int64_t expected)
{
    int64_t ms = -1;

    ck_assert_msg(group_command_parse_duration(text, &ms), "%s", text);
    ck_assert_msg(ms == expected, "%s: %lld", text, (long long)ms);
}

START_TEST(times)
{
    time_is("1970-01-01", 0);
    time_is("1970-01-01T00:00:00.001Z", 1);
    time_is("2026-11-30T08:15:00Z", INT64_C(1796026500000));
    time_is("2026-11-30T08:15:00.5", INT64_C(1796026500500));
    time_is("2026-11-30 09:15:00+01:00", INT64_C(1796026500000));
    time_is("2026-11-30T04:45-0330", INT64_C(1796026500000));
    time_is("2024-02-29T00:00:00.000+00", INT64_C(1709164800000));
    time_is("2000-03-01", INT64_C(951868800000));
}
END_TEST

START_TEST(no_times)
{
    static const char *const texts[] = {"",
                                        "now",
                                        "2026-13-01",
                                        "2026-02-29",
                                        "1969-12-31",
                                        "2026-11-30T24:00:00Z",
                                        "2026-11-30T08:15:00.Z",
                                        "2026-11-30T08:15:00Zx",
                                        "2026-11-30T08",
                                        "26-11-30",
                                        "1970-01-01T00:00:00+01:00"};
    int64_t ms = 0;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        ck_assert_msg(!group_command_parse_time(texts[i], &ms), "%s", texts[i]);
}
END_TEST

START_TEST(durations)
{
    duration_is("PT0S", 0);
    duration_is("PT1H", 3600000);
    duration_is("P1DT12H", 129600000);
    duration_is("PT90M", 5400000);
    duration_is("PT1.5S", 1500);
    duration_is("P2W", INT64_C(1209600000));
    duration_is("P1DT2H3M4.005S", 93784005);
}
END_TEST

/* A number has DIGITS_MAX digits at most, whatever they say. */
START_TEST(no_durations)
{
    static const char digits[] = "PT000000000000001S";
    static const char *const texts[] = {"",     "P",      "PT",     "1H",  "PT1",   "P1H",
                                        "PT1D", "PT1M1H", "PT1.5H", "P1Y", "PT-1H", "P99999999999999D"};
    int64_t ms = 0;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        ck_assert_msg(!group_command_parse_duration(texts[i], &ms), "%s", texts[i]);
    duration_is(digits, 1000);
    ck_assert(!group_command_parse_duration("PT0000000000000001S", &ms));
}
END_TEST

RUN_TESTS("group_time", times, no_times, durations, no_durations)
