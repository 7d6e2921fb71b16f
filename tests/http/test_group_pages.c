/* Rule: a path means one page and one group, whatever is in the group's name; anything else is no page. */
#include <check.h>
#include <string.h>

#include "http/group_pages.h"
#include "partition/run_tests.h"

static void leads_to(const char *path, enum group_query_kind kind, struct bytes group)
{
    uint8_t to[256];
    enum group_query_kind got = GROUP_QUERY_LIST;
    struct bytes id = {0};

    ck_assert_msg(group_pages_parse(bytes_of_text(path), to, &got, &id), "%s", path);
    ck_assert_msg(got == kind && bytes_equal(id, group), "%s: %.*s", path, BYTES_PRINTF(id));
}

START_TEST(pages)
{
    leads_to("/groups", GROUP_QUERY_LIST, BYTES_LITERAL(""));
    leads_to("/groups/", GROUP_QUERY_LIST, BYTES_LITERAL(""));
    leads_to("/groups?x=1", GROUP_QUERY_LIST, BYTES_LITERAL(""));
    leads_to("/groups/g", GROUP_QUERY_DESCRIBE, BYTES_LITERAL("g"));
    leads_to("/groups/g/", GROUP_QUERY_DESCRIBE, BYTES_LITERAL("g"));
    leads_to("/groups/g/lag?pretty", GROUP_QUERY_LAG, BYTES_LITERAL("g"));
    leads_to("/groups/my%20group%2Fof%20two/history", GROUP_QUERY_HISTORY, BYTES_LITERAL("my group/of two"));
    leads_to("/groups/%00%fF/lag", GROUP_QUERY_LAG, BYTES_LITERAL("\0\xff"));
    leads_to("/groups/history", GROUP_QUERY_DESCRIBE, BYTES_LITERAL("history"));
}
END_TEST

START_TEST(no_pages)
{
    static const char *const paths[] = {"",
                                        "/",
                                        "/group",
                                        "/groupsg",
                                        "/groups//lag",
                                        "/groups/g/x",
                                        "/groups/%/lag",
                                        "/groups/%2",
                                        "/groups/%zz/lag",
                                        "/metrics"};
    uint8_t to[256];
    enum group_query_kind kind = GROUP_QUERY_LIST;
    struct bytes id = {0};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        ck_assert_msg(!group_pages_parse(bytes_of_text(paths[i]), to, &kind, &id), "%s", paths[i]);
}
END_TEST

RUN_TESTS("group_pages", pages, no_pages)
