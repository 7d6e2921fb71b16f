/* Rules of heartbeats of the consumer protocol: groups.md 3.2 to 3.5, as transcripts.
 *
 * Sources: coordinator/consumer_describe.c, coordinator/consumer_epoch.c, coordinator/consumer_heartbeat.c,
 * coordinator/consumer_member.c, coordinator/consumer_reconcile.c, coordinator/consumer_request.c,
 * coordinator/consumer_state.c, coordinator/consumer_subscribe.c */
#include <check.h>

#include "coordinator/consumer_beats.h"
#include "partition/run_tests.h"

static struct group_world world;

static void begin(void)
{
    world_open(&world);
    world.settings.consumer_assignment_interval_ms = 0; /* each joins its own epoch; see the test of the interval */
    world_topic(&world, "t", 3);
}

static void end(const char *name)
{
    transcript_expect(&world.said, name);
    world_close(&world);
}

/* Rule: one joins and has all; a second one gets its part only after the first has given it back; a third waits for
 * what is not released; who leaves lets the others have it. Records in Kafka's order: 5, 3, 7, 6, 8. */
START_TEST(joins_assigns_revokes_leaves)
{
    begin();
    JOIN(&world, "a", "t");
    BEAT(&world, "a", 2);
    JOIN(&world, "b", "t");
    BEAT(&world, "a", 2);
    BEAT(&world, "b", 3);
    world_say(&world, "a still has what it is to give back, then not");
    BEAT(&world, "a", 2, .owned = "1:0,1,2");
    BEAT(&world, "a", 2, .owned = "1:0,1");
    BEAT(&world, "b", 3);
    describe_group(&world);
    BEAT(&world, "a", -1);
    BEAT(&world, "b", 3);
    BEAT(&world, "b", -1);
    describe_group(&world);
    end("consumer_joins");
}
END_TEST

/* Rule: what a request shows to be wrong by itself is refused, with the words that Kafka has for it (42, 112). */
START_TEST(refuses_mistakes)
{
    begin();
    BEAT(&world, "", 0, .rebalance_ms = 1, .topics = "t", .owned = "");
    BEAT(&world, "", 6, .version = -1);
    BEAT(&world, "a", 0, .group = "", .rebalance_ms = 1, .topics = "t", .owned = "");
    JOIN(&world, "a", "t", .instance = "");
    JOIN(&world, "a", "t", .rack = "");
    BEAT(&world, "a", 0, .topics = "t", .owned = "");
    BEAT(&world, "a", 0, .rebalance_ms = 1, .topics = "t");
    BEAT(&world, "a", 0, .rebalance_ms = 1, .topics = "t", .owned = "1:0");
    BEAT(&world, "a", 0, .rebalance_ms = 1, .owned = "");
    BEAT(&world, "a", -2);
    BEAT(&world, "a", -3);
    JOIN(&world, "a", "t", .assignor = "sticky");
    world_say(&world, "nobody is there");
    BEAT(&world, "a", 2);
    BEAT(&world, "a", -1);
    world_say(&world, "before v1 the broker gives the id");
    BEAT(&world, "", 0, .version = -1, .rebalance_ms = 1, .topics = "t", .owned = "");
    BEAT(&world, "x", 2);
    BEAT(&world, "x", -1);
    end("consumer_mistakes");
}
END_TEST

/* Rule: B145: after a lost answer the member goes on from the epoch before, if it owns no more than it may; a full
 * request gets the whole assignment, a minimal one null; any other epoch is fenced. */
START_TEST(lost_answers)
{
    begin();
    JOIN(&world, "a", "t");
    world_say(&world, "joins again: the answer was lost");
    JOIN(&world, "a", "t");
    BEAT(&world, "a", 2);
    BEAT(&world, "a", 2, .rebalance_ms = 60000, .topics = "t", .owned = "1:0,1,2");
    JOIN(&world, "b", "t");
    BEAT(&world, "a", 2, .owned = "1:0,1,2");
    BEAT(&world, "a", 2, .owned = "1:0,1");
    world_say(&world, "the answer with epoch 2 was lost; it owns a part, and too much, and does not say");
    BEAT(&world, "a", 2, .owned = "1:0");
    BEAT(&world, "a", 2, .owned = "1:0,2");
    BEAT(&world, "a", 2);
    BEAT(&world, "a", 4);
    BEAT(&world, "a", 3);
    end("consumer_lost");
}
END_TEST

/* Rule: a static member keeps its place: -2 leaves for now, epoch 0 under the instance id takes over; while it is there
 * nobody else may (111); the old id is fenced (82), an unknown instance is 25; the session goes on meanwhile. */
START_TEST(static_members)
{
    begin();
    JOIN(&world, "a", "t", .instance = "i");
    JOIN(&world, "b", "t", .instance = "i");
    BEAT(&world, "b", 2, .instance = "i");
    BEAT(&world, "a", 2, .instance = "j");
    BEAT(&world, "a", -2, .instance = "i");
    describe_group(&world);
    JOIN(&world, "b", "t", .instance = "i");
    BEAT(&world, "a", 2, .instance = "i");
    BEAT(&world, "b", 2, .instance = "i");
    BEAT(&world, "b", -2, .instance = "i");
    world_say(&world, "it does not come back in time");
    world_advance(&world, 45000);
    describe_group(&world);
    end("consumer_static");
}
END_TEST

/* Rule: who is silent for the session time-out is fenced, and who does not give back within its rebalance time-out;
 * a heartbeat in time keeps it. */
START_TEST(time_outs)
{
    begin();
    JOIN(&world, "a", "t");
    world_advance(&world, 30000);
    BEAT(&world, "a", 2);
    world_advance(&world, 30000);
    BEAT(&world, "a", 2);
    world_advance(&world, 44999);
    BEAT(&world, "a", 2);
    world_advance(&world, 45000);
    BEAT(&world, "a", 2);
    world_say(&world, "it does not give back");
    beat(&world, &(struct beat_says){.member = "a", .rebalance_ms = 10000, .topics = "t", .owned = ""});
    JOIN(&world, "b", "t");
    BEAT(&world, "a", 4, .owned = "1:0,1,2");
    world_advance(&world, 5000);
    BEAT(&world, "a", 4, .owned = "1:0,1,2");
    world_advance(&world, 5000);
    BEAT(&world, "a", 4, .owned = "1:0,1,2");
    end("consumer_timeouts");
}
END_TEST

/* Rule: more partitions, and topics that come and go, bump the epoch at the next heartbeat; other changes of the
 * metadata do not. */
START_TEST(metadata_changes)
{
    begin();
    JOIN(&world, "a", "t,u");
    world_topic(&world, "other", 2);
    BEAT(&world, "a", 2);
    world_topic(&world, "u", 2);
    BEAT(&world, "a", 2);
    world_topic(&world, "t", 4);
    BEAT(&world, "a", 3);
    world_topic(&world, "u", 0);
    BEAT(&world, "a", 4, .owned = "1:0,1,2,3;3:0,1");
    BEAT(&world, "a", 4, .owned = "1:0,1,2,3");
    end("consumer_metadata");
}
END_TEST

/* Rule: a changed subscription takes effect at once: what is not subscribed to any more is given back, whether or not
 * there is a new target. */
START_TEST(subscription_changes)
{
    begin();
    world.settings.consumer_assignment_interval_ms = 60000;
    world_topic(&world, "u", 2);
    JOIN(&world, "a", "t,u");
    BEAT(&world, "a", 2, .topics = "u");
    BEAT(&world, "a", 2, .owned = "2:0,1");
    world_advance(&world, 30000);
    BEAT(&world, "a", 2);
    world_advance(&world, 30000);
    BEAT(&world, "a", 2, .owned = "2:0,1");
    end("consumer_subscription");
}
END_TEST

/* Rule: KIP-1263: a target is computed at most once an interval, the first one at once; the group's own setting counts;
 * when the group was empty it is a first one again. */
START_TEST(assignment_interval)
{
    begin();
    world.settings.consumer_assignment_interval_ms = 1000;
    JOIN(&world, "a", "t");
    JOIN(&world, "b", "t");
    world_advance(&world, 999);
    BEAT(&world, "b", 2);
    world_advance(&world, 1);
    BEAT(&world, "b", 2);
    BEAT(&world, "a", -1);
    BEAT(&world, "b", -1);
    JOIN(&world, "c", "t");
    end("consumer_interval");
}
END_TEST

/* Rule: a group whose members subscribe to nothing yet stays at its first epoch, which has no target to compute, and
 * what is subscribed to first is assigned at once however long the interval: so every consumer begins that matches
 * topics to an expression itself, since it joins before it knows any. */
START_TEST(first_subscription)
{
    begin();
    world.settings.consumer_assignment_interval_ms = 30000;
    JOIN(&world, "a", "");
    JOIN(&world, "b", "");
    BEAT(&world, "b", 1);
    BEAT(&world, "a", 1, .topics = "t");
    world_say(&world, "from here on the interval counts");
    BEAT(&world, "b", 1, .topics = "t");
    world_advance(&world, 30000);
    BEAT(&world, "b", 2);
    end("consumer_first_subscription");
}
END_TEST

/* Rule: a wall clock that goes back holds nobody up: a target from a time that is yet to come is old. */
START_TEST(interval_and_a_clock_set_back)
{
    struct world_call *call = NULL;

    begin();
    world.settings.consumer_assignment_interval_ms = 1000;
    JOIN(&world, "a", "t");
    world.now_ms -= 3600000;
    call = JOIN(&world, "b", "t");
    ck_assert_int_eq(beat_epoch(call), 3);
    world_say(&world, "the interval counts from the new time");
    call = JOIN(&world, "c", "t");
    ck_assert_int_eq(beat_epoch(call), 3);
    world_advance(&world, 1000);
    ck_assert_int_eq(beat_epoch(BEAT(&world, "c", 3)), 4);
    world_close(&world);
}
END_TEST

/* Rule: a group that is full takes nobody else (81), but whom it knows. */
START_TEST(group_is_full)
{
    begin();
    world.settings.consumer_size_max = 1;
    JOIN(&world, "a", "t");
    JOIN(&world, "b", "t");
    JOIN(&world, "a", "t");
    end("consumer_full");
}
END_TEST

/* Rule: the assignor that most ask for is taken, the first one where nobody asks; another one is a new epoch. */
START_TEST(assignor_choice)
{
    begin();
    JOIN(&world, "a", "t");
    describe_group(&world);
    BEAT(&world, "a", 2, .assignor = "range");
    describe_group(&world);
    end("consumer_assignor");
}
END_TEST

/* Rule: settings of the group alone count, within the broker's bounds. */
START_TEST(group_settings)
{
    begin();
    world_group_config(&world, "g", "consumer.heartbeat.interval.ms", "7000");
    world_group_config(&world, "g", "consumer.session.timeout.ms", "50000");
    JOIN(&world, "a", "t");
    world_advance(&world, 49999);
    BEAT(&world, "a", 2);
    world_advance(&world, 50000);
    BEAT(&world, "a", 2);
    end("consumer_settings");
}
END_TEST

/* Rule: a record that cannot be written fails the step as a whole: nobody is answered as if it had been, and what was
 * there before is there. */
START_TEST(failed_records)
{
    begin();
    JOIN(&world, "a", "t");
    world.fail = ERR_NOMEM;
    JOIN(&world, "b", "t");
    BEAT(&world, "a", 2);
    JOIN(&world, "b", "t");
    end("consumer_failed");
}
END_TEST

/* Rule: the history has each rebalance once, from the new epoch until all have what they are to have: why, who, and how
 * many partitions another has than before. */
START_TEST(history)
{
    begin();
    JOIN(&world, "a", "t");
    JOIN(&world, "b", "t");
    world_advance(&world, 100);
    BEAT(&world, "a", 2, .owned = "1:0,1,2");
    BEAT(&world, "a", 2, .owned = "1:0,1");
    world_advance(&world, 100);
    BEAT(&world, "b", 3);
    world_topic(&world, "t", 4);
    BEAT(&world, "b", 3);
    BEAT(&world, "a", 3);
    BEAT(&world, "b", -1);
    BEAT(&world, "a", 4);
    world_advance(&world, 45000);
    world.said.size = 0;
    world_ask(&world, "admin", ASK_HISTORY, 0, "g", NULL);
    end("consumer_history");
}
END_TEST

/* Rule: what would not fit the step's batch is refused before anything of it is written: a failed step would take
 * everybody else's state with it. */
START_TEST(too_large)
{
    begin();
    JOIN(&world, "a", "t");
    world_topic(&world, "wide", 50000);
    world.batch_room = 100000;
    JOIN(&world, "b", "wide");
    BEAT(&world, "a", 2, .topics = "t,wide");
    world.batch_room = 10000000;
    world.quiet = true;
    ck_assert_int_eq(beat_error(BEAT(&world, "a", 2, .topics = "t,wide")), 0);
    world.quiet = false;
    end("consumer_too_large");
}
END_TEST

/* ... and at no size is a part of it written alone: the world fails where a step does not fit. */
START_TEST(about_as_large_as_the_batch)
{
    for (size_t room = 100; room < 4000; room += 10) {
        begin();
        world.quiet = true;
        world_topic(&world, "u", 3);
        world.batch_room = room;
        JOIN(&world, "a", "t", .instance = "i");
        JOIN(&world, "b", "t,u");
        BEAT(&world, "a", 1, .topics = "t,u", .instance = "i");
        BEAT(&world, "b", 2, .topics = "u");
        BEAT(&world, "a", -2, .instance = "i");
        JOIN(&world, "c", "u", .instance = "i");
        world_close(&world);
    }
}
END_TEST

RUN_TESTS("consumer", joins_assigns_revokes_leaves, refuses_mistakes, lost_answers, static_members, time_outs,
          metadata_changes, subscription_changes, assignment_interval, first_subscription,
          interval_and_a_clock_set_back, group_is_full, assignor_choice, group_settings, failed_records, history,
          too_large, about_as_large_as_the_batch)
