/* Rule: a listener is NAME://host:port; what is wrong with one stops the start with a line that says so, and the limits
 * of their number, names and ports hold at the edge. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "broker/config.h"
#include "broker/listeners.h"

static uint32_t complaints;

static void count_line(void *context, bool fatal, const char *line)
{
    (void)context;
    (void)line;
    complaints += fatal;
}

/* protocols: listener.security.protocol.map; NULL: its default. */
static enum err parse_with(const char *text, const char *protocols, struct listeners *listeners)
{
    static const struct config_report report = {.line = count_line};
    struct config config;
    char assignment[8192];
    enum err err = ERR_OK;

    complaints = 0;
    config_init(&config);
    ck_assert_int_eq(config_use_single_node(&config), ERR_OK);
    (void)snprintf(assignment, sizeof(assignment), "listeners=%s", text);
    ck_assert_int_eq(config_read_assignment(&config, bytes_of_text(assignment), &report), ERR_OK);
    (void)snprintf(assignment, sizeof(assignment), "listener.security.protocol.map=%s", protocols);
    if (protocols != NULL)
        ck_assert_int_eq(config_read_assignment(&config, bytes_of_text(assignment), &report), ERR_OK);
    err = listeners_parse(&config, listeners, &report);
    ck_assert_uint_eq(complaints > 0, err != ERR_OK);
    config_deinit(&config);
    return err;
}

static enum err parse(const char *text, struct listeners *listeners)
{
    return parse_with(text, NULL, listeners);
}

START_TEST(parts_are_taken_apart)
{
    struct listeners listeners;

    ck_assert_int_eq(parse("PLAINTEXT://[::1]:9092,CONTROLLER://localhost:0", &listeners), ERR_OK);
    ck_assert_uint_eq(listeners.count, 2);
    ck_assert_str_eq(listeners.entries[0].name, "PLAINTEXT");
    ck_assert_str_eq(listeners.entries[0].bind.host, "::1");
    ck_assert_uint_eq(listeners.entries[0].bind.port, 9092);
    ck_assert(!listeners.entries[0].is_controller);
    ck_assert_str_eq(listeners.entries[1].bind.host, "localhost");
    ck_assert(listeners.entries[1].is_controller);
}
END_TEST

START_TEST(what_is_no_listener_is_refused)
{
    static const char *const wrong[] = {
        "PLAINTEXT",
        "://host:1",
        "PLAINTEXT://host",
        "PLAINTEXT://host:",
        "PLAINTEXT://host:x",
        "PLAINTEXT://host:-1",
        "PLAINTEXT://::1:9092",
        "PLAIN TEXT://host:1",
        "PLAINTEXT://host:1,PLAINTEXT://other:2",
        "PLAINTEXT://host:1,CONTROLLER://host:1",
    };
    struct listeners listeners;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_msg(parse(wrong[i], &listeners) == ERR_USAGE, "%s", wrong[i]);
}
END_TEST

START_TEST(ports_end_at_65535)
{
    struct listeners listeners;

    ck_assert_int_eq(parse("PLAINTEXT://host:65535,CONTROLLER://host:1", &listeners), ERR_OK);
    ck_assert_int_eq(parse("PLAINTEXT://host:65536,CONTROLLER://host:1", &listeners), ERR_USAGE);
    ck_assert_int_eq(parse("PLAINTEXT://host:99999999999999999999,CONTROLLER://host:1", &listeners), ERR_USAGE);
}
END_TEST

START_TEST(their_number_is_limited)
{
    for (int count = LISTENERS_MAX - 1; count <= LISTENERS_MAX + 1; count++) {
        struct listeners listeners;
        char text[2048] = "CONTROLLER://host:1";
        char protocols[2048] = "CONTROLLER:PLAINTEXT";
        size_t text_size = strlen(text);
        size_t protocols_size = strlen(protocols);

        for (int i = 2; i <= count; i++) {
            text_size += (size_t)snprintf(text + text_size, sizeof(text) - text_size, ",L%d://host:%d", i, i);
            protocols_size +=
                (size_t)snprintf(protocols + protocols_size, sizeof(protocols) - protocols_size, ",L%d:PLAINTEXT", i);
        }
        ck_assert_int_eq(parse_with(text, protocols, &listeners), count <= LISTENERS_MAX ? ERR_OK : ERR_USAGE);
        ck_assert(count > LISTENERS_MAX || listeners.count == (uint32_t)count);
    }
}
END_TEST

START_TEST(names_are_limited)
{
    for (int size = LISTENER_NAME_CHARS_MAX - 1; size <= LISTENER_NAME_CHARS_MAX + 1; size++) {
        struct listeners listeners;
        char name[LISTENER_NAME_CHARS_MAX + 2] = "";
        char text[512];
        char protocols[512];

        memset(name, 'N', (size_t)size);
        (void)snprintf(text, sizeof(text), "%s://host:2,CONTROLLER://host:1", name);
        (void)snprintf(protocols, sizeof(protocols), "%s:PLAINTEXT,CONTROLLER:PLAINTEXT", name);
        ck_assert_int_eq(parse_with(text, protocols, &listeners), size <= LISTENER_NAME_CHARS_MAX ? ERR_OK : ERR_USAGE);
        ck_assert(size > LISTENER_NAME_CHARS_MAX || strcmp(listeners.entries[0].name, name) == 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("listeners");
    TCase *tcase = tcase_create("listeners");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, parts_are_taken_apart);
    tcase_add_test(tcase, what_is_no_listener_is_refused);
    tcase_add_test(tcase, ports_end_at_65535);
    tcase_add_test(tcase, their_number_is_limited);
    tcase_add_test(tcase, names_are_limited);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
