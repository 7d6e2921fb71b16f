/*
 * Rule: racks are told apart up to ASSIGN_RACKS_MAX of them; members of further ones count as without, and nobody is
 * any worse off: every partition has one owner, and all have the same number.
 */
#include <check.h>
#include <stdio.h>

#include "coordinator/assign.h"
#include "coordinator/consumer_beats.h"
#include "coordinator/consumer_internal.h"
#include "partition/run_tests.h"

enum { NAME_CHARS = 16 };

static struct group_world world;

START_TEST(more_racks_than_are_told_apart)
{
    for (uint32_t racks = ASSIGN_RACKS_MAX - 1; racks <= ASSIGN_RACKS_MAX + 2; racks++) {
        static char names[ASSIGN_RACKS_MAX + 2][NAME_CHARS];
        const struct consumer_group *consumer = NULL;

        world_open(&world);
        world.quiet = true;
        world.settings.consumer_assignment_interval_ms = 0;
        world_topic(&world, "t", 2 * racks);
        for (uint32_t i = 0; i < racks; i++) {
            (void)snprintf(names[i], sizeof(names[i]), "rack-%u", i);
            world.racks[0] = bytes_of_text(names[racks - 1]); /* the topic lies in the last one */
            ck_assert_int_eq(beat_error(JOIN(&world, names[i], "t", .rack = names[i])), 0);
        }
        consumer = group_find(world.groups, BYTES_LITERAL("g"))->consumer;
        ck_assert_int_eq(consumer->target_epoch, consumer->epoch);
        for (uint32_t i = 0; i < racks; i++)
            ck_assert_uint_eq(consumer_find(consumer, bytes_of_text(names[i]))->target.count, 2);
        world_close(&world);
    }
}
END_TEST

RUN_TESTS("consumer_target", more_racks_than_are_told_apart)
