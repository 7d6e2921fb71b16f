/* Rule: what strangers named shows on a terminal and does nothing there, and as a word of a command it is that word. */
#include "cli/terminal.h"

#include <check.h>
#include <stdlib.h>

#include "partition/run_tests.h"

static char text[512];

static const char *printed(void (*print)(struct bytes text, FILE *to), struct bytes from)
{
    FILE *to = fmemopen(text, sizeof(text), "w");

    print(from, to);
    ck_assert_int_eq(fclose(to), 0);
    return text;
}

START_TEST(shown)
{
    ck_assert_str_eq(printed(terminal_print, BYTES_LITERAL("gr\xc3\xbc\xc3\x9f")), "gr\xc3\xbc\xc3\x9f");
    ck_assert_str_eq(printed(terminal_print, BYTES_LITERAL("x\x1b[2J\x7f\n")), "x?[2J??");
    ck_assert_str_eq(printed(terminal_print, BYTES_LITERAL("x\xc2\x9b"
                                                           "2J\xc2\xa0\xc2")),
                     "x?2J\xc2\xa0\xc2");
}
END_TEST

START_TEST(words)
{
    static const struct {
        const char *from, *word;
    } cases[] = {
        {"orders-v1.csv", "orders-v1.csv"},
        {"a b;c", "'a b;c'"},
        {"it's", "'it'\\''s'"},
        {"", "''"},
        {"--all", "'--all'"},
        {"$(id)", "'$(id)'"},
        {"x\x1b'\\[2J", "$'x\\033\\'\\\\[2J'"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_str_eq(printed(terminal_print_word, bytes_of_text(cases[i].from)), cases[i].word);
}
END_TEST

/* Rule: bash reads each word back as it was. */
START_TEST(read_back)
{
    static const char *const all[] = {"a b;c", "it's", "$HOME`id`\"!", "x\x1b'\\n\xc3\xbc", "*", "~"};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char command[1024];
        char said[256] = "";
        FILE *shell = NULL;

        (void)snprintf(command, sizeof(command), "printf %%s %s", printed(terminal_print_word, bytes_of_text(all[i])));
        ck_assert_int_eq(setenv("OTTLA_TEST_WORD", command, 1), 0);
        shell = popen("exec bash -c \"$OTTLA_TEST_WORD\"", "r");
        ck_assert_ptr_nonnull(shell);
        ck_assert_ptr_nonnull(fgets(said, sizeof(said), shell));
        ck_assert_int_eq(pclose(shell), 0);
        ck_assert_str_eq(said, all[i]);
    }
}
END_TEST

RUN_TESTS("terminal", shown, words, read_back)
