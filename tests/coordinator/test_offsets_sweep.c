/* Rule: what is too old, what a topic left and what a deleted group had goes a piece in each step, whatever it is of,
 * so that nobody waits long for his turn; nothing of it is forgotten, whatever comes meanwhile.
 *
 * Sources: coordinator/offsets_remove.c */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/classic_client.h"
#include "coordinator/consumer_beats.h"
#include "coordinator/group.h"
#include "coordinator/group_world.h"
#include "coordinator/offset_asks.h"
#include "partition/run_tests.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/offset_commit.h"

enum { PARTITIONS = 3000, IN_STEP = 1024, RETENTION_MS = 1000, CHECK_MS = 10000, STEPS_MAX = 100 };

static struct group_world world;

static void begin(void)
{
    world_open(&world);
    world.quiet = true;
    world.settings.offsets_retention_ms = RETENTION_MS;
    world.settings.offsets_check_ms = CHECK_MS;
    world_restart(&world); /* the time of the first look is set with the load */
    world_topic(&world, "t", PARTITIONS);
    world_topic(&world, "u", PARTITIONS);
}

static struct world_call *commit_all(const char *group, const char *name)
{
    static struct offset_commit_request_partition partitions[PARTITIONS];
    struct offset_commit_request request;
    struct offset_commit_request_topic topic;

    offset_commit_request_init(&request);
    offset_commit_request_topic_init(&topic);
    request.topics = &topic;
    request.topics_count = 1;
    topic.name = bytes_of_text(name);
    topic.partitions = partitions;
    topic.partitions_count = PARTITIONS;
    for (int32_t i = 0; i < PARTITIONS; i++) {
        offset_commit_request_partition_init(&partitions[i]);
        partitions[i].partition_index = i;
        partitions[i].committed_metadata = BYTES_LITERAL("");
    }
    return world_ask(&world, "c", ASK_OFFSET_COMMIT, 8, group, &request);
}

static void commit_one(const char *group, const char *name, int32_t partition)
{
    ck_assert_int_eq(offset_commit(&world, group, name, partition), 0);
}

static struct world_call *ask_to_delete(const char *group)
{
    return world_ask(&world, "admin", ASK_DELETE_GROUP, 2, group, NULL);
}

/* A step a millisecond, until the deletion is answered: with which code. */
static int16_t deletion(const struct world_call *call)
{
    for (int i = 0; i < STEPS_MAX && !call->answered; i++)
        world_advance(&world, 1);
    ck_assert(call->answered);
    return ((const struct deletable_group_result *)call->response)->error_code;
}

/* A step a millisecond, until nothing is written any more: how many. */
static uint32_t steps(void)
{
    for (uint32_t count = 0; count < STEPS_MAX; count++) {
        uint32_t before = world.record_count;

        world_advance(&world, 1);
        ck_assert_uint_le(world.record_count - before, IN_STEP);
        if (world.record_count == before)
            return count;
    }
    ck_abort_msg("it does not end");
    return 0;
}

START_TEST(old_ones_in_pieces)
{
    begin();
    (void)commit_all("g", "t");
    (void)commit_all("h", "t");
    world_advance(&world, CHECK_MS - 1);
    ck_assert_uint_eq(groups_count(world.groups), 2);
    ck_assert_uint_ge(steps(), 2 * PARTITIONS / IN_STEP);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_close(&world);
}
END_TEST

/* A topic that goes while a pass is under way has the next one. */
START_TEST(topics_in_pieces)
{
    uint32_t before = 0;

    begin();
    world.settings.offsets_retention_ms = INT64_MAX;
    (void)commit_all("g", "t");
    (void)commit_all("g", "u");
    before = world.record_count;
    world_topic(&world, "t", 0);
    ck_assert_uint_eq(world.record_count, before); /* all coordinators of a loop are told in one turn: none begins */
    world_advance(&world, 0);
    ck_assert_uint_eq(world.record_count - before, IN_STEP);
    world_topic(&world, "u", 0);
    world_advance(&world, 0);
    ck_assert_uint_eq(world.record_count - before, 2 * IN_STEP);
    (void)steps();
    ck_assert_uint_eq(world.record_count - before, 2 * PARTITIONS);
    world_advance(&world, CHECK_MS);
    ck_assert_uint_eq(groups_count(world.groups), 0); /* nothing is left of it, which the look at ages sees */
    world_close(&world);
}
END_TEST

/* ... and a group that is to go does not wait for the next look. */
START_TEST(groups_in_pieces)
{
    struct world_call *call = NULL;

    begin();
    world.settings.offsets_retention_ms = INT64_MAX;
    (void)commit_all("g", "t");
    (void)commit_all("h", "u");
    call = ask_to_delete("g");
    ck_assert(!call->answered);
    world_topic(&world, "u", 0);
    ck_assert_int_eq(deletion(call), 0);
    world_advance(&world, CHECK_MS);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_close(&world);
}
END_TEST

/* Rule: tombstones of groups ask for room too, and go on in the next step, be there many groups, or one whose offsets
 * leave no room for it. The world fails where a step does not fit. */
START_TEST(many_groups_of_long_names)
{
    enum { GROUPS = 60, NAME_CHARS = 200 };
    static char names[GROUPS][NAME_CHARS + 1];

    begin();
    world.settings.offsets_check_ms = 100 * CHECK_MS;
    world_restart(&world);
    for (int i = 0; i < GROUPS; i++) {
        struct classic_client client = {.label = "m", .group = names[i], .version = 3};

        memset(names[i], 'a', NAME_CHARS);
        (void)snprintf(names[i], NAME_CHARS, "%d", i);
        names[i][strlen(names[i])] = '-';
        (void)client_enter(&world, &client);
    }
    world_advance(&world, 60000); /* they are stable, and their sessions end: each has its record */
    ck_assert_uint_eq(groups_count(world.groups), GROUPS);
    world.batch_room = 2000;
    world_advance(&world, 100 * CHECK_MS);
    for (int i = 0; i < STEPS_MAX; i++)
        world_advance(&world, 1);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_close(&world);
}
END_TEST

START_TEST(a_group_behind_its_offsets)
{
    for (size_t room = 100; room < 600; room++) {
        struct classic_client client = {.label = "m", .group = "g", .version = 3};

        begin();
        for (int32_t i = 0; i < 5; i++)
            commit_one("g", "t", i);
        world.settings.offsets_retention_ms = INT64_MAX;
        (void)client_enter(&world, &client);
        world_advance(&world, 60000);
        world.batch_room = room;
        ck_assert_int_eq(deletion(ask_to_delete("g")), 0);
        ck_assert_uint_eq(groups_count(world.groups), 0);
        world_close(&world);
    }
}
END_TEST

/* Rule: what comes for a group that is being deleted is told to come again: nobody gets into it meanwhile, and a
 * deletion that began leaves nothing. */
START_TEST(who_comes_meanwhile)
{
    struct classic_client client = {.label = "m", .group = "g", .version = 3};
    const struct offset_commit_response *committed = NULL;
    struct world_call *call = NULL;
    struct world_call *came[3];

    begin();
    world.settings.offsets_retention_ms = INT64_MAX;
    (void)commit_all("g", "t");
    call = ask_to_delete("g");
    ck_assert(!call->answered);
    came[0] = client_join(&world, &client);
    came[1] = BEAT(&world, .member = "n", .epoch = 0, .topics = "t");
    came[2] = commit_all("g", "t");
    for (int i = 0; i < 3; i++) {
        ck_assert(came[i]->answered);
        ck_assert_int_eq(came[i]->op.op.err, ERR_COORDINATOR_LOAD_IN_PROGRESS);
    }
    ck_assert_int_eq(deletion(call), 0);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    committed = commit_all("g", "t")->response;
    ck_assert_int_eq(committed->topics[0].partitions[0].error_code, 0);
    world_close(&world);
}
END_TEST

/* max.message.bytes was lowered since: no batch has room for what the group's id stands in. */
enum { ID_CHARS = 400, SMALL_ROOM = 300 };

static char long_id[ID_CHARS + 1];

/* Rule: what no step has room for is refused at once, and stays; it can be deleted when there is room again. */
START_TEST(a_deletion_that_fits_no_batch)
{
    memset(long_id, 'g', ID_CHARS);
    for (int with_offset = 0; with_offset < 2; with_offset++) {
        begin();
        world.settings.offsets_retention_ms = INT64_MAX;
        commit_one(long_id, "t", 0);
        if (!with_offset)
            ck_assert_int_eq(offset_delete(&world, long_id, "t", 0), 0);
        world.batch_room = SMALL_ROOM;
        ck_assert_int_eq(deletion(ask_to_delete(long_id)), err_wire(ERR_UNKNOWN_SERVER_ERROR));
        world_advance(&world, STEPS_MAX);
        ck_assert_uint_eq(groups_count(world.groups), 1);
        world.batch_room = 2 * ID_CHARS;
        commit_one(long_id, "t", 1); /* it is no longer on its way out */
        ck_assert_int_eq(deletion(ask_to_delete(long_id)), 0);
        ck_assert_uint_eq(groups_count(world.groups), 0);
        world_close(&world);
    }
}
END_TEST

/* ... and ages like any other meanwhile. */
START_TEST(a_refused_deletion_is_over)
{
    begin();
    memset(long_id, 'g', ID_CHARS);
    world.settings.offsets_retention_ms = 10 * (int64_t)CHECK_MS;
    commit_one(long_id, "t", 0);
    world.batch_room = SMALL_ROOM;
    (void)ask_to_delete(long_id);
    world.batch_room = 2 * ID_CHARS;
    world_advance(&world, 9 * (int64_t)CHECK_MS);
    ck_assert_uint_eq(groups_count(world.groups), 1);
    world_advance(&world, 3 * (int64_t)CHECK_MS);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_close(&world);
}
END_TEST

/* Rule: an offset goes once its age is the retention, not a check later. */
START_TEST(as_old_as_the_retention)
{
    for (int younger = 0; younger < 2; younger++) {
        begin();
        world.settings.offsets_retention_ms = CHECK_MS + younger;
        commit_one("g", "t", 0);
        world_advance(&world, CHECK_MS);
        ck_assert_uint_eq(groups_count(world.groups), younger ? 1 : 0);
        world_close(&world);
    }
}
END_TEST

/* Rule: a deletion that is refused has taken nothing, whichever of the group's offsets it is that no step has room for,
 * and however many steps the others would take. */
START_TEST(a_deletion_is_all_or_nothing)
{
    enum { NAME_CHARS = 240, ROOM = 250, OFFSETS = 20 };
    static char wide[NAME_CHARS + 1]; /* its tombstone fits no step */

    for (int last = 0; last < 2; last++) {
        uint32_t records = 0;

        begin();
        memset(wide, 'm', NAME_CHARS);
        wide[0] = last ? 'z' : 'a'; /* by name it comes before the others, or behind them */
        world_topic(&world, wide, 1);
        world.settings.offsets_retention_ms = INT64_MAX;
        for (int32_t i = 0; i < OFFSETS; i++)
            commit_one("g", "t", i);
        commit_one("g", wide, 0);
        records = world.record_count;
        world.batch_room = ROOM;
        ck_assert_int_eq(deletion(ask_to_delete("g")), err_wire(ERR_UNKNOWN_SERVER_ERROR));
        world_advance(&world, STEPS_MAX);
        ck_assert_uint_eq(world.record_count, records);
        world.batch_room = 2 * NAME_CHARS;
        ck_assert_int_eq(deletion(ask_to_delete("g")), 0);
        ck_assert_uint_eq(groups_count(world.groups), 0);
        world_close(&world);
    }
}
END_TEST

/* Rule: a pass over all groups leaves one alone that is being deleted: who asked for that is told that it is done. */
START_TEST(a_pass_by_what_is_being_deleted)
{
    struct world_call *call = NULL;

    begin();
    (void)commit_all("first", "t");
    (void)commit_all("second", "t");
    world_advance(&world, CHECK_MS); /* a piece of the first one has gone by its age */
    call = ask_to_delete("second");
    ck_assert(!call->answered);
    ck_assert_int_eq(deletion(call), 0);
    world_advance(&world, STEPS_MAX); /* the rest of the first */
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_close(&world);
}
END_TEST

static void expect_rest_until_the_next_check(void)
{
    ck_assert_int_gt(groups_due_ns(world.groups), world.now_ns + (CHECK_MS / 2) * INT64_C(1000000));
}

/* Rule: the sweep passes by what no step has room for, gets to all others, and rests until the next check. */
START_TEST(a_sweep_past_what_fits_no_batch)
{
    begin();
    memset(long_id, 'g', ID_CHARS);
    commit_one(long_id, "t", 0);
    commit_one(long_id, "u", 0);
    commit_one("g", "t", 0);
    commit_one("h", "u", 0);
    world.batch_room = SMALL_ROOM;
    world_topic(&world, "u", 0);
    world_advance(&world, STEPS_MAX);
    expect_rest_until_the_next_check();
    world_advance(&world, CHECK_MS);
    ck_assert_uint_eq(groups_count(world.groups), 1); /* of those behind it nothing is left */
    expect_rest_until_the_next_check();
    world.batch_room = 2 * ID_CHARS;
    world_advance(&world, CHECK_MS + STEPS_MAX);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_close(&world);
}
END_TEST

/* Rule: what has no room because others wrote into the same step goes on in the next one, not with the next check. */
START_TEST(a_sweep_in_a_step_that_others_fill)
{
    for (int32_t offsets = 1; offsets < 24; offsets++) {
        struct world_call *call = NULL;

        begin();
        world.settings.offsets_retention_ms = INT64_MAX;
        commit_one("e", "t", 0);
        ck_assert_int_eq(offset_delete(&world, "e", "t", 0), 0);
        for (int32_t i = 0; i < offsets; i++)
            commit_one("g", "t", i);
        world_advance(&world, CHECK_MS - 1);
        world.batch_room = 500; /* some eight tombstones */
        call = ask_to_delete("g");
        for (int i = 0; i < 10; i++)
            world_advance(&world, 1);
        ck_assert(call->answered);
        ck_assert_uint_eq(groups_count(world.groups), 0);
        world_close(&world);
    }
}
END_TEST

RUN_TESTS("offsets_sweep", old_ones_in_pieces, topics_in_pieces, groups_in_pieces, many_groups_of_long_names,
          a_group_behind_its_offsets, who_comes_meanwhile, a_deletion_that_fits_no_batch, a_refused_deletion_is_over,
          a_deletion_is_all_or_nothing, as_old_as_the_retention, a_pass_by_what_is_being_deleted,
          a_sweep_past_what_fits_no_batch, a_sweep_in_a_step_that_others_fill)
