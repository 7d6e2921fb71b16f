/* Rule: connections are counted in all and by address, refused beyond a limit, and a burst waits for its slots. */
#include "net/connection_limits.h"

#include <check.h>
#include <stdio.h>

#define SECOND INT64_C(1000000000)

static struct connection_limits *make(struct connection_limits_config config)
{
    struct connection_limits *limits = NULL;

    ck_assert_int_eq(connection_limits_new(&config, &limits), ERR_OK);
    return limits;
}

static enum connection_verdict enter(struct connection_limits *limits, const char *host, bool reserve)
{
    struct net_address peer = {0};
    int64_t slot_ns = 0;

    snprintf(peer.host, sizeof(peer.host), "%s", host);
    return connection_limits_enter(limits, &peer, reserve, 5 * SECOND, &slot_ns);
}

static void leave(struct connection_limits *limits, const char *host)
{
    struct net_address peer = {0};

    snprintf(peer.host, sizeof(peer.host), "%s", host);
    connection_limits_leave(limits, &peer);
}

START_TEST(the_total_is_held_but_for_the_reserve)
{
    struct connection_limits *limits = make((struct connection_limits_config){
        .connections_max = 2, .per_address_max = INT32_MAX, .creations_per_second_max = INT32_MAX});

    ck_assert_int_eq(enter(limits, "10.0.0.1", false), CONNECTION_ADMITTED);
    ck_assert_int_eq(enter(limits, "10.0.0.1", false), CONNECTION_ADMITTED);
    ck_assert_int_eq(enter(limits, "10.0.0.1", false), CONNECTION_OVER_TOTAL);
    ck_assert_int_eq(enter(limits, "10.0.0.1", true), CONNECTION_ADMITTED);
    leave(limits, "10.0.0.1");
    ck_assert_int_eq(enter(limits, "10.0.0.1", false), CONNECTION_OVER_TOTAL);
    leave(limits, "10.0.0.1");
    ck_assert_int_eq(enter(limits, "10.0.0.1", false), CONNECTION_ADMITTED);
    leave(limits, "10.0.0.1");
    leave(limits, "10.0.0.1");
    connection_limits_free(limits);
}
END_TEST

START_TEST(each_address_has_its_own_count)
{
    struct connection_limits *limits =
        make((struct connection_limits_config){.connections_max = INT32_MAX,
                                               .per_address_max = 1,
                                               .per_address_overrides = "10.0.0.2:2, ::1:0,[fe80::1]:3",
                                               .creations_per_second_max = INT32_MAX});

    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(enter(limits, "10.0.0.1", false), CONNECTION_ADMITTED);
        ck_assert_int_eq(enter(limits, "10.0.0.1", false), CONNECTION_OVER_ADDRESS);
        ck_assert_int_eq(enter(limits, "10.0.0.2", false), CONNECTION_ADMITTED);
        ck_assert_int_eq(enter(limits, "10.0.0.2", false), CONNECTION_ADMITTED);
        ck_assert_int_eq(enter(limits, "10.0.0.2", false), CONNECTION_OVER_ADDRESS);
        ck_assert_int_eq(enter(limits, "::1", false), CONNECTION_OVER_ADDRESS);
        ck_assert_int_eq(enter(limits, "fe80::1", false), CONNECTION_ADMITTED);
        leave(limits, "10.0.0.1");
        leave(limits, "10.0.0.2");
        leave(limits, "10.0.0.2");
        leave(limits, "fe80::1");
    }
    connection_limits_free(limits);
}
END_TEST

START_TEST(overrides_are_read_or_refused)
{
    static const char *const wrong[] = {"10.0.0.1",    "10.0.0.1:",    ":5",
                                        "localhost:5", "10.0.0.1:-1",  "10.0.0.1:2147483648",
                                        "10.0.0.1:5,", "10.0.0.1:5,,", "10.0.0.1:5,10.0.0.1:6",
                                        "10:5"};
    struct connection_limits *limits = NULL;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct connection_limits_config config = {.per_address_overrides = wrong[i]};

        if (connection_limits_new(&config, &limits) != ERR_USAGE)
            ck_abort_msg("%s was accepted", wrong[i]);
    }
    connection_limits_free(make((struct connection_limits_config){.per_address_overrides = " "}));
    connection_limits_free(make((struct connection_limits_config){.per_address_overrides = "10.0.0.1:2147483647"}));
}
END_TEST

/* A second's worth may come at once; the rest wait, evenly spaced. */
START_TEST(a_burst_waits_for_its_slots)
{
    struct connection_limits *limits = make((struct connection_limits_config){
        .connections_max = INT32_MAX, .per_address_max = INT32_MAX, .creations_per_second_max = 10});
    struct net_address peer = {.host = "10.0.0.1"};
    int64_t now_ns = 100 * SECOND;
    int64_t slot_ns = 0;

    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(connection_limits_enter(limits, &peer, false, now_ns, &slot_ns), CONNECTION_ADMITTED);
        ck_assert_int_eq(slot_ns, now_ns);
    }
    for (int i = 1; i <= 5; i++) {
        ck_assert_int_eq(connection_limits_enter(limits, &peer, false, now_ns, &slot_ns), CONNECTION_ADMITTED);
        ck_assert_int_eq(slot_ns, now_ns + i * SECOND / 10);
    }
    ck_assert_int_eq(connection_limits_enter(limits, &peer, true, now_ns, &slot_ns), CONNECTION_ADMITTED);
    ck_assert_int_eq(slot_ns, now_ns);
    now_ns += 10 * SECOND;
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(connection_limits_enter(limits, &peer, false, now_ns, &slot_ns), CONNECTION_ADMITTED);
        ck_assert_int_eq(slot_ns, now_ns);
    }
    for (int i = 0; i < 26; i++)
        connection_limits_leave(limits, &peer);
    connection_limits_free(limits);
}
END_TEST

START_TEST(changed_limits_hold_for_who_comes_next)
{
    struct connection_limits_config config = {
        .connections_max = INT32_MAX, .per_address_max = INT32_MAX, .creations_per_second_max = INT32_MAX};
    struct connection_limits *limits = make(config);

    ck_assert_int_eq(enter(limits, "10.0.0.1", false), CONNECTION_ADMITTED);
    ck_assert_int_eq(enter(limits, "10.0.0.1", false), CONNECTION_ADMITTED);
    config.per_address_max = 1;
    ck_assert_int_eq(connection_limits_change(limits, &config), ERR_OK);
    ck_assert_int_eq(enter(limits, "10.0.0.1", false), CONNECTION_OVER_ADDRESS);
    config.per_address_overrides = "10.0.0.1:3";
    ck_assert_int_eq(connection_limits_change(limits, &config), ERR_OK);
    ck_assert_int_eq(enter(limits, "10.0.0.1", false), CONNECTION_ADMITTED);
    config.per_address_overrides = "no address";
    ck_assert_int_eq(connection_limits_change(limits, &config), ERR_USAGE);
    ck_assert_int_eq(enter(limits, "10.0.0.1", false), CONNECTION_OVER_ADDRESS);
    config = (struct connection_limits_config){
        .connections_max = 3, .per_address_max = INT32_MAX, .creations_per_second_max = INT32_MAX};
    ck_assert_int_eq(connection_limits_change(limits, &config), ERR_OK);
    ck_assert_int_eq(enter(limits, "10.0.0.2", false), CONNECTION_OVER_TOTAL);
    for (int i = 0; i < 3; i++)
        leave(limits, "10.0.0.1");
    ck_assert_int_eq(enter(limits, "10.0.0.2", false), CONNECTION_ADMITTED);
    leave(limits, "10.0.0.2");
    connection_limits_free(limits);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connection_limits");
    TCase *tcase = tcase_create("connection_limits");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, the_total_is_held_but_for_the_reserve);
    tcase_add_test(tcase, each_address_has_its_own_count);
    tcase_add_test(tcase, overrides_are_read_or_refused);
    tcase_add_test(tcase, a_burst_waits_for_its_slots);
    tcase_add_test(tcase, changed_limits_hold_for_who_comes_next);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
