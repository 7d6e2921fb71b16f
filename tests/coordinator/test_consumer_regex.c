/* Rules of expressions of the consumer protocol: groups.md 3.6, as transcripts. */
#include <check.h>
#include <stdio.h>

#include "coordinator/consumer_beats.h"
#include "partition/run_tests.h"

static struct group_world world;

static void begin(void)
{
    world_open(&world);
    world.settings.consumer_assignment_interval_ms = 0;
    world_topic(&world, "a1", 2);
    world_topic(&world, "a2", 1);
    world_topic(&world, "b1", 1);
}

static void end(const char *name)
{
    transcript_expect(&world.said, name);
    world_close(&world);
}

/* Rule: an expression is resolved beside the heartbeat (record 16, and a new epoch); new topics count from the next
 * resolution on, which is at least 10 s after the last; names and expression are merged; a second member of a resolved
 * one has its topics at once; the last one takes the record with it. */
START_TEST(resolved_beside)
{
    begin();
    JOIN(&world, "a", NULL, .regex = "a.*");
    world_advance(&world, 1);
    BEAT(&world, "a", 0, .rebalance_ms = 60000, .regex = "a.*", .owned = "");
    world_topic(&world, "a3", 1);
    world_advance(&world, 5000);
    BEAT(&world, "a", 2);
    world_advance(&world, 5002);
    BEAT(&world, "a", 2);
    world_advance(&world, 1);
    BEAT(&world, "a", 2);
    JOIN(&world, "b", "b1", .regex = "a.*");
    BEAT(&world, "a", 2, .topics = "b1", .regex = "");
    BEAT(&world, "b", -1);
    describe_group(&world);
    end("regex_resolved");
}
END_TEST

/* Rule: what is no expression is refused (128), before anything is written; one that somebody has already is not looked
 * at again. */
START_TEST(invalid)
{
    begin();
    JOIN(&world, "a", NULL, .regex = "(?=a)");
    JOIN(&world, "a", NULL, .regex = "[a");
    JOIN(&world, "a", "a1", .regex = "");
    BEAT(&world, "a", 2, .regex = "(a)\\1");
    BEAT(&world, "a", 2);
    end("regex_invalid");
}
END_TEST

static bool denies_a2(const struct group_op *op, struct bytes topic)
{
    (void)op;
    return !bytes_equal(topic, BYTES_LITERAL("a2"));
}

/* Rule: only topics that whoever spoke when it began may describe count; where the topics changed meanwhile, the result
 * waits for somebody whose rights are known. */
START_TEST(rights_count)
{
    begin();
    world.may_describe_topic = denies_a2;
    JOIN(&world, "a", NULL, .regex = "a.*");
    world_advance(&world, 1);
    BEAT(&world, "a", 0, .rebalance_ms = 60000, .regex = "a.*", .owned = "");
    world_topic(&world, "a3", 1);
    world_advance(&world, 10001);
    BEAT(&world, "a", 2);
    world_topic(&world, "a4", 1);
    world_advance(&world, 1);
    world_say(&world, "a4 came meanwhile: nothing yet");
    BEAT(&world, "a", 2);
    end("regex_rights");
}
END_TEST

/* Rule: it is refreshed every refresh interval, and after a restart. */
START_TEST(refreshed)
{
    begin();
    JOIN(&world, "a", NULL, .regex = "a.*");
    world_advance(&world, 1);
    BEAT(&world, "a", 0, .rebalance_ms = 60000, .regex = "a.*", .owned = "");
    world_restart(&world);
    BEAT(&world, "a", 2);
    for (int i = 0; i < 15; i++) {
        world_advance(&world, 40001);
        BEAT(&world, "a", 2);
    }
    world_advance(&world, 1);
    end("regex_refreshed");
}
END_TEST

RUN_TESTS("consumer_regex", resolved_beside, invalid, rights_count, refreshed)
