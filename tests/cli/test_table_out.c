/* Rule: a table lines up, whatever is in it, and says the same as its JSON. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table_out.h"
#include "partition/run_tests.h"

START_TEST(rows_of_all_kinds)
{
    static const struct table_column columns[] = {
        {"GROUP", "group", false}, {"LAG", "lag", true}, {"AGE", "age_s", true}, {"", "note", false}};
    struct table table;
    char text[512] = "";
    FILE *to = fmemopen(text, sizeof(text), "w");
    char *json = NULL;

    table_begin(&table, columns, 4);
    table_text(&table, "a");
    table_i64(&table, 12345);
    table_fraction(&table, 1.25);
    table_none(&table);
    table_bytes(&table, BYTES_LITERAL("gr\xc3\xbc\xc3\x9f\x1b[31m"));
    table_none(&table);
    table_none(&table);
    table_text(&table, "new");
    ck_assert_uint_eq(table_rows(&table), 2);
    table_print(&table, to);
    fclose(to);
    ck_assert_str_eq(text, "GROUP        LAG  AGE  \n"
                           "a          12345  1.2  \n"
                           "gr\xc3\xbc\xc3\x9f?[31m      -    -  new\n");
    to = fmemopen(text, sizeof(text), "w");
    table_show_json(table_json(&table), to);
    fclose(to);
    json = strstr(text, "\"lag\": 12345");
    ck_assert_ptr_nonnull(strstr(text, "\\u001B[31m")); /* programs get what it is */
    ck_assert(json != NULL && strstr(json, "\"note\": null") != NULL && strstr(json, "\"age_s\": null") != NULL);
    table_end(&table);
}
END_TEST

RUN_TESTS("table_out", rows_of_all_kinds)
