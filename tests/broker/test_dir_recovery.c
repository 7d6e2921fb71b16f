/* Rule: while a start's partitions are being recovered a line every few seconds says, for each directory, how many are
 * done and left and how long that took and will take; a start that is quick says nothing. */
#include <stdlib.h>
#include <string.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"

static struct node_world world;

enum { PARTITIONS = 24, LINE_MS = BROKER_RECOVERY_LINE_NS / 1000000, JOB_MS = 8000, LINES_MAX = 64 };

struct told {
    int64_t at_ms; /* of the line */
    bool is_more;  /* of /more, else of /data */
    uint32_t done;
    uint32_t left;
    int64_t elapsed_ms;
    int64_t left_ms;
};

static struct told lines[LINES_MAX];

/* The number behind that word. */
static int64_t number(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    char *end = NULL;
    int64_t value = 0;

    ck_assert_msg(at != NULL, "%s in %s", word, text);
    at += strlen(word);
    value = strtoll(at, &end, 10);
    ck_assert(end != at);
    return value;
}

/* The time of day is in the head of a line: "...T12:34:56.789Z ...". */
static int64_t time_of(const char *line)
{
    const char *day = strchr(line, 'T');

    ck_assert_ptr_nonnull(day);
    ck_assert_uint_gt(strlen(day), strlen("T12:34:56.789Z"));
    return ((number(day, "T") * 60 + number(day + 3, ":")) * 60 + number(day + 6, ":")) * 1000 + number(day + 9, ".");
}

static uint32_t read_lines(void)
{
    uint32_t count = 0;
    char *line = world.heard;

    for (char *end = NULL; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        struct told *told = &lines[count++];

        ck_assert_uint_le(count, LINES_MAX);
        *end = '\0';
        *told = (struct told){
            .at_ms = time_of(line),
            .is_more = strstr(line, "dir=/more ") != NULL,
            .done = (uint32_t)number(line, " partitions_done="),
            .left = (uint32_t)number(line, " partitions_left="),
            .elapsed_ms = number(line, " elapsed_ms="),
            .left_ms = number(line, " left_ms="),
        };
    }
    ck_assert_uint_eq(count, world.heard_count);
    return count;
}

/* A node that was killed with something in each of its partitions, and starts again on a disk of that speed. */
static void start_again(uint64_t seed, const char *dirs, int64_t job_delay_ns_max)
{
    struct uuid topic;
    enum err err = ERR_OK;

    node_world_begin_with(&world, seed, 1, dirs, NULL);
    topic = node_create_topic(&world, "t", PARTITIONS, NULL);
    for (int32_t i = 0; i < PARTITIONS; i++)
        ck_assert_int_eq(node_produce(&world, 0, topic, i, 100, &err), 0);
    node_world_pass(&world, 3000);
    sim_node_kill(&world.node, false);
    node_hear(&world, "recovery goes on");
    sim_node_begin(&world.node);
    while (atomic_load(&world.node.broker->state) != BROKER_SERVING)
        node_world_pass(&world, 1);
    world.node.told = false;
    world.sim.habits.job_delay_ns_max = job_delay_ns_max;
}

/* Of /data. */
static void check_lines(uint32_t found)
{
    uint32_t count = read_lines();
    uint32_t of_dir = 0;
    const struct told *before = NULL;

    for (uint32_t i = 0; i < count; i++) {
        const struct told *told = &lines[i];

        if (told->is_more)
            continue;
        of_dir++;
        ck_assert_uint_eq(told->done + told->left, found);
        ck_assert_uint_gt(told->left, 0);
        ck_assert_int_eq(told->left_ms, told->done == 0 ? -1 : told->elapsed_ms * told->left / told->done);
        ck_assert_int_ge(told->elapsed_ms, (int64_t)of_dir * LINE_MS);
        if (before != NULL) {
            ck_assert_int_ge(told->at_ms - before->at_ms, LINE_MS);
            ck_assert_uint_ge(told->done, before->done);
        }
        before = told;
    }
    ck_assert_uint_ge(of_dir, 2);
}

START_TEST(a_quick_start_says_nothing)
{
    start_again(1, "log.dirs=/data", 1000000);
    node_world_pass(&world, 60000);
    ck_assert_uint_eq(world.heard_count, 0);
    ck_assert_uint_eq(atomic_load(&world.node.broker->dirs[0].unopened), 0);
    node_world_end(&world);
}
END_TEST

START_TEST(a_slow_one_says_how_far_it_is)
{
    uint32_t found = 0;

    start_again(2, "log.dirs=/data", JOB_MS * INT64_C(1000000));
    found = world.node.broker->dirs[0].found;
    ck_assert_uint_eq(found, PARTITIONS);
    while (atomic_load(&world.node.broker->dirs[0].unopened) > 0)
        node_world_pass(&world, 100);
    ck_assert_str_ne(world.heard, "");
    check_lines(found);
    node_hear(&world, "recovery goes on"); /* no more of it once all are open */
    node_world_pass(&world, 60000);
    ck_assert_uint_eq(world.heard_count, 0);
    world.sim.habits.job_delay_ns_max = 1000000;
    node_world_end(&world);
}
END_TEST

/* Each for itself; one that has failed will not come to an end, and is not told of. */
START_TEST(of_several_directories_each)
{
    start_again(3, "log.dirs=/data,/more", JOB_MS * INT64_C(1000000));
    ck_assert_uint_eq(world.node.broker->dirs[0].found + world.node.broker->dirs[1].found, PARTITIONS);
    node_world_pass(&world, LINE_MS * 2 + 3000);
    ck_assert_ptr_nonnull(strstr(world.heard, "dir=/data "));
    ck_assert_ptr_nonnull(strstr(world.heard, "dir=/more "));
    world.node.silent = true;
    shard_storage_failed(&world.node.broker->shards[0], "/more", ERR_IO);
    node_hear(&world, "recovery goes on");
    while (atomic_load(&world.node.broker->dirs[0].unopened) > 0)
        node_world_pass(&world, 100);
    ck_assert_ptr_null(strstr(world.heard, "dir=/more "));
    check_lines(world.node.broker->dirs[0].found);
    world.sim.habits.job_delay_ns_max = 1000000;
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/dir_recovery", a_quick_start_says_nothing, a_slow_one_says_how_far_it_is, of_several_directories_each)
