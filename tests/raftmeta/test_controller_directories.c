/* Rules: a broker says where its replicas lie, and the records say it after it (KIP-858); what lies in a directory that
 * has failed is not led, and led again once the broker comes back with it, or has it in another one. */
#include <check.h>

#include "partition/run_tests.h"
#include "raftmeta/transcript.h"

enum { ARENA_BYTES_MAX = 1024 * 1024 };

static struct transcript out;
static struct counting_rng rng;
static struct arena arena;
static struct controller *controller;
static struct uuid topic_id;

static void step(struct controller_request *request, const char *what)
{
    struct controller_effects effects;

    request->arena = &arena;
    ck_assert_int_eq(controller_step(controller, request, 0, 1000, &effects), ERR_OK);
    transcript_say(&out, "%s -> %s%s%.*s\n", what, err_name(request->err), request->message.data == NULL ? "" : ": ",
                   BYTES_PRINTF(request->message));
    transcript_records(&out, effects.records, effects.record_count);
    image_drop(effects.image);
    image_delta_drop(effects.delta);
}

/* With three directories: 201 to 203. */
static int64_t enroll(uint8_t incarnation, uint32_t directory_count)
{
    static const struct image_endpoint endpoint = {BYTES_LITERAL("PLAINTEXT"), BYTES_LITERAL("host"), 9092, 0};
    struct uuid directories[] = {test_uuid(201), test_uuid(202), test_uuid(203)};
    struct controller_request request = {.type = CONTROLLER_REGISTER_BROKER};
    int64_t epoch = 0;

    request.register_broker = (struct register_broker){
        .broker_id = 1,
        .cluster_id = BYTES_LITERAL("cluster"),
        .incarnation = test_uuid(incarnation),
        .endpoints = &endpoint,
        .endpoint_count = 1,
        .directories = directories,
        .directory_count = directory_count,
        .previous_epoch = -1,
    };
    request.register_broker.features = controller_features(&request.register_broker.feature_count);
    step(&request, "register");
    epoch = request.register_broker.epoch;
    request = (struct controller_request){.type = CONTROLLER_BROKER_HEARTBEAT};
    request.broker_heartbeat =
        (struct broker_heartbeat){.broker_id = 1, .broker_epoch = epoch, .metadata_offset = INT64_MAX};
    step(&request, "heartbeat");
    ck_assert(!request.broker_heartbeat.fenced);
    return epoch;
}

static int64_t begin(void)
{
    struct create_topic topic = {.name = BYTES_LITERAL("lines"), .partition_count = 3, .replication_factor = 1};
    struct controller_settings settings = {
        .node_id = 1, .cluster_id = "cluster", .delete_topics = true, .session_timeout_ms = 9000};
    struct controller_request request = {.type = CONTROLLER_ACTIVATE};
    struct image *nothing = image_new();
    int64_t epoch = 0;

    settings.features = controller_features(&settings.feature_count);
    transcript_begin(&out);
    counting_rng_init(&rng);
    arena_init(&arena, ARENA_BYTES_MAX);
    controller = controller_new(&settings, &rng.rng);
    controller_reset(controller, nothing, 3, 1, 0);
    image_drop(nothing);
    step(&request, "activate");
    epoch = enroll(1, 3);
    transcript_begin(&out);
    request = (struct controller_request){.type = CONTROLLER_CREATE_TOPICS};
    request.create_topics = (struct create_topics){.topics = &topic, .count = 1};
    step(&request, "create");
    topic_id = topic.id;
    return epoch;
}

static void end(const char *name)
{
    transcript_expect(&out, name);
    controller_free(controller);
    arena_deinit(&arena);
}

static void assign(int64_t epoch, int32_t partition, uint8_t directory)
{
    struct directory_assignment assignment = {
        .topic_id = topic_id, .partition = partition, .directory = test_uuid(directory)};
    struct controller_request request = {.type = CONTROLLER_ASSIGN_DIRECTORIES};

    request.assign_directories =
        (struct assign_directories){.broker_id = 1, .broker_epoch = epoch, .assignments = &assignment, .count = 1};
    step(&request, "assign");
    transcript_say(&out, "  = %s\n", err_name(assignment.err));
}

static void lose(int64_t epoch, uint8_t directory)
{
    struct uuid offline = test_uuid(directory);
    struct controller_request request = {.type = CONTROLLER_BROKER_HEARTBEAT};

    request.broker_heartbeat = (struct broker_heartbeat){
        .broker_id = 1, .broker_epoch = epoch, .metadata_offset = INT64_MAX, .offline = &offline, .offline_count = 1};
    step(&request, "directory offline");
    ck_assert(!request.broker_heartbeat.fenced);
}

/* Each partition is where the broker said last; what does not exist is refused by itself; a stale broker as a whole. */
START_TEST(replicas_are_assigned)
{
    int64_t epoch = begin();

    assign(epoch, 0, 201);
    assign(epoch, 0, 201);
    assign(epoch, 0, 202);
    assign(epoch, 3, 202);
    assign(epoch - 1, 1, 202);
    topic_id = test_uuid(99);
    assign(epoch, 0, 201);
    end("assign_directories");
}
END_TEST

/* Its partitions lose their leader, the others none; what is told again changes nothing; a restart without it elects
 * nobody there, one with it does, and so does word that the partition is somewhere else. */
START_TEST(a_failed_directory_leads_nothing)
{
    int64_t epoch = begin();

    assign(epoch, 0, 201);
    assign(epoch, 1, 202);
    assign(epoch, 2, 202);
    lose(epoch, 202);
    lose(epoch, 202);
    epoch = enroll(2, 1);
    assign(epoch, 1, 201);
    (void)enroll(3, 3);
    end("directory_offline");
}
END_TEST

RUN_TESTS("controller_directories", replicas_are_assigned, a_failed_directory_leads_nothing)
