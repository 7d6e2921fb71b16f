/* Rule: the file that undoes a reset brings back exactly what was committed: offset, leader epoch and metadata,
 * whatever bytes these are and wherever the log is by now; where three fields say all it is a file of Apache Kafka's
 * tool; what is no such line is refused with its number. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/group_reset.h"
#include "partition/run_tests.h"

enum { ARENA_BYTES = 1024 * 1024, BYTES_ALL = 256 };

static struct kafka_client client;
static char folder[] = "/tmp/ottla-reset-XXXXXX";
static char path[64];

static void begin(void)
{
    memset(&client, 0, sizeof(client));
    arena_init(&client.arena, ARENA_BYTES);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/undo.csv", folder);
}

static void end(void)
{
    arena_deinit(&client.arena);
    (void)unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
    (void)memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
}

static void put(const char *text)
{
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static enum err get(struct reset_plan *plan)
{
    struct group_options options = {.text = path};

    *plan = (struct reset_plan){0};
    return group_reset_read(&options, &client, BYTES_LITERAL("g"), plan);
}

START_TEST(written_and_read)
{
    static uint8_t all[BYTES_ALL];
    struct bytes metadata[] = {BYTES_LITERAL(""), BYTES_LITERAL("a,\"b\"\\x41,\n"), bytes_of(all, sizeof(all)),
                               BYTES_LITERAL(" spaces ")};
    int64_t offsets[] = {0, 20, INT64_MAX, 7};
    int32_t epochs[] = {-1, 3, INT32_MAX, 0};
    struct reset_plan plan = {0};
    struct reset_plan read;

    begin();
    for (size_t i = 0; i < sizeof(all); i++)
        all[i] = (uint8_t)i;
    for (int32_t i = 0; i < 4; i++) {
        ck_assert_int_eq(group_reset_add(&client, &plan, BYTES_LITERAL("t.1"), i, 5), ERR_OK);
        plan.rows[i].before = offsets[i];
        plan.rows[i].before_epoch = epochs[i];
        plan.rows[i].before_metadata = metadata[i];
        plan.rows[i].start = 10;
        plan.rows[i].end = 30;
    }
    ck_assert_int_eq(group_reset_add(&client, &plan, BYTES_LITERAL("t.1"), 4, 5), ERR_OK); /* nothing is committed */
    ck_assert_int_eq(group_reset_write_undo(&client, &plan, path), ERR_OK);
    ck_assert_int_eq(group_reset_write_undo(&client, &plan, path), ERR_EXISTS);
    ck_assert_int_eq(get(&read), ERR_OK);
    ck_assert_uint_eq(read.count, 5);
    for (int32_t i = 0; i < 4; i++) {
        ck_assert(bytes_equal(read.rows[i].topic, BYTES_LITERAL("t.1")));
        ck_assert_int_eq(read.rows[i].partition, i);
        ck_assert_int_eq(read.rows[i].after, offsets[i]);
        ck_assert_int_eq(read.rows[i].after_epoch, epochs[i]);
        ck_assert(bytes_equal(read.rows[i].after_metadata, metadata[i]));
        ck_assert(read.rows[i].exact);
    }
    ck_assert_int_eq(read.rows[4].after, -1);
    ck_assert(!read.rows[4].exact);
    mem_free(read.rows);
    mem_free(plan.rows);
    end();
}
END_TEST

START_TEST(as_apache_kafkas_tool_writes)
{
    struct reset_plan plan = {0};
    struct reset_plan read;
    char text[64] = "";
    FILE *file = NULL;

    begin();
    ck_assert_int_eq(group_reset_add(&client, &plan, BYTES_LITERAL("t"), 0, 5), ERR_OK);
    plan.rows[0].before = 20;
    plan.rows[0].end = 30;
    ck_assert_int_eq(group_reset_write_undo(&client, &plan, path), ERR_OK);
    mem_free(plan.rows);
    file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(text, sizeof(text), file));
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_str_eq(text, "t,0,20\n");
    put("# a remark\n\"t\",0,20\n\ng,\"u\",1,30\nother,u,2,40\r\n");
    ck_assert_int_eq(get(&read), ERR_OK);
    ck_assert_uint_eq(read.count, 2);
    ck_assert_int_eq(read.rows[1].after, 30);
    ck_assert_int_eq(read.rows[1].after_epoch, -1);
    ck_assert(!read.rows[1].exact);
    mem_free(read.rows);
    end();
}
END_TEST

/* A field more than FIELDS_MAX among them. */
START_TEST(what_is_none)
{
    static const char *const lines[] = {"t,0",
                                        "t,0,x",
                                        "t,-1,5",
                                        "t,0,-2",
                                        ",0,5",
                                        "t,0,5,1,\"a",
                                        "t,0,5,-2,\"\"",
                                        "t,0,5,x,\"\"",
                                        "t,0,5,1,\\",
                                        "t,0,5,1,\"\\x4",
                                        "t,0,5,1,\"\\xzz\"",
                                        "t,0,5,1,\"\",6",
                                        "t,0,5,1,\"\\y41\"",
                                        "t,2147483648,5",
                                        "t,0,9223372036854775808",
                                        "t,0,99999999999999999999",
                                        "t,0,-99999999999999999999",
                                        "t,0,5,4294967296,\"\""};

    begin();
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct reset_plan read;
        char text[64];

        (void)snprintf(text, sizeof(text), "t,9,9\n%s\n", lines[i]);
        put(text);
        ck_assert_msg(get(&read) == ERR_USAGE, "%s", lines[i]);
        ck_assert_ptr_nonnull(strstr(client.message, "undo.csv:2: "));
        mem_free(read.rows);
    }
    end();
}
END_TEST

/* Not the number before it. */
START_TEST(a_nul_ends_no_number)
{
    static const char text[] = "t,9,9\nt,0,1\0002\n";
    struct reset_plan read;
    FILE *file = NULL;

    begin();
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, sizeof(text) - 1, file), sizeof(text) - 1);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(get(&read), ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(client.message, "undo.csv:2: "));
    mem_free(read.rows);
    end();
}
END_TEST

RUN_TESTS("group_reset_file", written_and_read, as_apache_kafkas_tool_writes, what_is_none, a_nul_ends_no_number)
