/* Rule: what is too old, what a topic left and what a deleted group had goes a piece in each step, whatever it is of,
 * so that nobody waits long for his turn; nothing of it is forgotten, whatever comes meanwhile. */
#include <check.h>

#include "coordinator/group_world.h"
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

static void commit_all(const char *group, const char *name)
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
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, 8, group, &request);
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
    commit_all("g", "t");
    commit_all("h", "t");
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
    commit_all("g", "t");
    commit_all("g", "u");
    before = world.record_count;
    world_topic(&world, "t", 0);
    ck_assert_uint_le(world.record_count - before, IN_STEP);
    world_topic(&world, "u", 0);
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
    commit_all("g", "t");
    commit_all("h", "u");
    call = world_ask(&world, "admin", ASK_DELETE_GROUP, 2, "g", NULL);
    ck_assert(!call->answered);
    world_topic(&world, "u", 0);
    for (int i = 0; i < STEPS_MAX && !call->answered; i++)
        world_advance(&world, 1);
    ck_assert(call->answered);
    ck_assert_int_eq(((struct deletable_group_result *)call->response)->error_code, 0);
    world_advance(&world, CHECK_MS);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_close(&world);
}
END_TEST

RUN_TESTS("offsets_sweep", old_ones_in_pieces, topics_in_pieces, groups_in_pieces)
