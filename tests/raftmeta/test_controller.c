/* Rule: the controller decides as Apache Kafka's does: the same codes in the same order of checks, the same records
 * (controller.md). Each test is a transcript of steps, compared whole.
 *
 * Sources: raftmeta/controller_brokers.c, raftmeta/controller_configs.c, raftmeta/controller_features.c,
 * raftmeta/controller_partitions.c, raftmeta/controller_producer_ids.c, raftmeta/controller_topics.c */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "raftmeta/transcript.h"

enum { CREATE_BYTES_MAX = 64 * 1024 * 1024 };

static struct transcript out;
static struct counting_rng rng;
static struct arena arena;
static struct controller *controller;

static enum err check_config(void *context, enum config_resource_type type, struct bytes resource,
                             const struct image_config *entries, uint32_t count, struct arena *memory,
                             struct bytes *message)
{
    (void)context;
    (void)type;
    (void)resource;
    for (uint32_t i = 0; i < count; i++) {
        if (!bytes_equal(entries[i].value, BYTES_LITERAL("bad")))
            continue;
        *message = arena_printf(memory, "Invalid value bad for configuration %.*s", BYTES_PRINTF(entries[i].name));
        return ERR_INVALID_CONFIG;
    }
    return ERR_OK;
}

static enum err list_default(void *context, enum config_resource_type type, struct bytes name, bool *is_list,
                             struct bytes *value)
{
    (void)context;
    (void)type;
    *is_list = bytes_equal(name, BYTES_LITERAL("cleanup.policy"));
    *value = BYTES_LITERAL("delete");
    return ERR_OK;
}

/* The k-th allocation from now on fails; 0: none. The linker puts these in place of base/mem.h's. */
static uint64_t fail_at;
void *__real_mem_alloc(size_t size);
void *__real_mem_calloc(size_t count, size_t size);
void *__real_mem_realloc(void *block, size_t size);
void *__wrap_mem_alloc(size_t size);
void *__wrap_mem_calloc(size_t count, size_t size);
void *__wrap_mem_realloc(void *block, size_t size);

static bool fails(void)
{
    return fail_at > 0 && --fail_at == 0;
}

void *__wrap_mem_alloc(size_t size)
{
    return fails() ? NULL : __real_mem_alloc(size);
}

void *__wrap_mem_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_mem_calloc(count, size);
}

void *__wrap_mem_realloc(void *block, size_t size)
{
    return fails() ? NULL : __real_mem_realloc(block, size);
}

/* Runs a step and notes the outcome, the records and the delta. */
static void step_at(struct controller_request *request, const char *what, int64_t now_ms)
{
    struct controller_effects effects;

    request->arena = &arena;
    ck_assert_int_eq(controller_step(controller, request, now_ms, 1000, &effects), ERR_OK);
    transcript_say(&out, "%s -> %s%s%.*s\n", what, err_name(request->err), request->message.data == NULL ? "" : ": ",
                   BYTES_PRINTF(request->message));
    transcript_records(&out, effects.records, effects.record_count);
    ck_assert_int_eq(effects.image != NULL, effects.record_count > 0);
    if (effects.delta != NULL) {
        transcript_say(&out, " @%lld", (long long)effects.base_offset);
        transcript_delta(&out, effects.delta);
    }
    image_drop(effects.image);
    image_delta_drop(effects.delta);
}

static void step(struct controller_request *request, const char *what)
{
    step_at(request, what, 0);
}

static void begin(void)
{
    struct controller_settings settings = {
        .node_id = 1,
        .cluster_id = "cluster",
        .partitions_default = 2,
        .replication_factor_default = 1,
        .delete_topics = true,
        .session_timeout_ms = 9000,
        .rules = {.check = check_config, .list_default = list_default},
    };
    struct image *nothing = image_new();

    settings.features = controller_features(&settings.feature_count);
    transcript_begin(&out);
    counting_rng_init(&rng);
    arena_init(&arena, CREATE_BYTES_MAX);
    controller = controller_new(&settings, &rng.rng);
    controller_reset(controller, nothing, 3, 1, 0);
    image_drop(nothing);
}

static void end(void)
{
    controller_free(controller);
    arena_deinit(&arena);
}

static void activate(void)
{
    struct controller_request request = {.type = CONTROLLER_ACTIVATE};

    step(&request, "activate");
}

static struct controller_request registration(int32_t id, uint8_t incarnation, struct uuid *directory)
{
    static const struct image_endpoint endpoint = {BYTES_LITERAL("PLAINTEXT"), BYTES_LITERAL("host"), 9092, 0};
    struct controller_request request = {.type = CONTROLLER_REGISTER_BROKER};

    request.register_broker = (struct register_broker){
        .broker_id = id,
        .cluster_id = BYTES_LITERAL("cluster"),
        .incarnation = test_uuid(incarnation),
        .endpoints = &endpoint,
        .endpoint_count = 1,
        .directories = directory,
        .directory_count = 1,
        .previous_epoch = -1,
    };
    request.register_broker.features = controller_features(&request.register_broker.feature_count);
    return request;
}

static int64_t register_and_unfence(int32_t id)
{
    struct uuid directory = test_uuid((uint8_t)(200 + id));
    struct controller_request request = registration(id, (uint8_t)id, &directory);
    int64_t epoch = 0;

    step(&request, "register");
    epoch = request.register_broker.epoch;
    request = (struct controller_request){.type = CONTROLLER_BROKER_HEARTBEAT};
    request.broker_heartbeat =
        (struct broker_heartbeat){.broker_id = id, .broker_epoch = epoch, .metadata_offset = INT64_MAX};
    step(&request, "heartbeat");
    ck_assert(!request.broker_heartbeat.fenced);
    return epoch;
}

/* Without a word in the transcript. */
static void quietly_ready(void)
{
    activate();
    (void)register_and_unfence(1);
    transcript_begin(&out);
}

static void create_with(struct create_topic *topic, bool validate_only)
{
    struct controller_request request = {.type = CONTROLLER_CREATE_TOPICS};
    char what[400];

    request.create_topics = (struct create_topics){.topics = topic, .count = 1, .validate_only = validate_only};
    (void)snprintf(what, sizeof(what), "create %.40s%s", (const char *)topic->name.data,
                   validate_only ? " (validate)" : "");
    step(&request, what);
    transcript_say(&out, "  = %s%s%.*s partitions=%d factor=%d\n", err_name(topic->err),
                   topic->message.data == NULL ? "" : ": ", BYTES_PRINTF(topic->message), topic->partitions_made,
                   topic->factor_made);
}

static void create(const char *name, int32_t partitions, int16_t factor)
{
    struct create_topic topic = {
        .name = bytes_of_text(name), .partition_count = partitions, .replication_factor = factor};

    create_with(&topic, false);
}

START_TEST(activation_registers_and_unfences)
{
    begin();
    activate();
    activate(); /* a log that has levels needs nothing */
    (void)register_and_unfence(1);
    transcript_expect(&out, "activation");
    end();
}
END_TEST

START_TEST(topics_are_made)
{
    static const struct image_config configs[] = {{BYTES_LITERAL("retention.ms"), BYTES_LITERAL("5")}};
    static const int32_t one[] = {1};
    static const struct assignment assignments[] = {{1, one, 1}, {0, one, 1}};
    struct create_topic topic = {.name = BYTES_LITERAL("lines"),
                                 .partition_count = 1,
                                 .replication_factor = 1,
                                 .configs = configs,
                                 .config_count = 1};
    struct create_topic manual = {.name = BYTES_LITERAL("manual"),
                                  .partition_count = -1,
                                  .replication_factor = -1,
                                  .assignments = assignments,
                                  .assignment_count = 2};

    begin();
    quietly_ready();
    create_with(&topic, true);
    create_with(&topic, false);
    create("defaults", -1, -1);
    create_with(&manual, false);
    transcript_expect(&out, "create_topics");
    end();
}
END_TEST

/* B055, B056, B059, B064 and the codes of controller.md "Topics". */
START_TEST(bad_topics_are_refused)
{
    static const struct image_config null_value[] = {{BYTES_LITERAL("retention.ms"), {NULL, 0}}};
    static const struct image_config bad_value[] = {{BYTES_LITERAL("retention.ms"), BYTES_LITERAL("bad")}};
    static const int32_t one[] = {1};
    static const int32_t twice[] = {1, 1};
    static const int32_t unknown[] = {7};
    static const struct assignment good[] = {{0, one, 1}};
    static const struct assignment gap[] = {{0, one, 1}, {2, one, 1}};
    static const struct assignment same[] = {{0, one, 1}, {0, one, 1}};
    static const struct assignment repeated[] = {{0, twice, 2}};
    static const struct assignment stranger[] = {{0, unknown, 1}};
    static const struct assignment empty[] = {{0, one, 0}};
    static const struct {
        const struct assignment *list;
        uint32_t count;
    } lists[] = {{gap, 2}, {same, 2}, {repeated, 1}, {stranger, 1}, {empty, 1}};
    char name[252];

    begin();
    quietly_ready();
    memset(name, 'n', sizeof(name));
    create("", 1, 1);
    create(".", 1, 1);
    create("..", 1, 1);
    create("a/b", 1, 1);
    create("a b", 1, 1);
    create("\xc3\xa9", 1, 1);
    name[250] = 0;
    create(name, 1, 1);
    name[249] = 0;
    create(name, 1, 1);
    create("__cluster_metadata", 1, 1);
    create("a.b", 1, 1);
    create("a.b", 1, 1);
    create("a_b", 1, 1);
    create("zero", 0, 1);
    create("negative", -2, 1);
    create("factor_zero", 1, 0);
    create("factor_negative", 1, -2);
    create("factor_too_large", 1, 2);
    create("too_many", 10001, 1);
    create("records_too_many", 10000, 1); /* with its topic's own record one more than a change may have */
    for (uint32_t i = 0; i < 2; i++) {
        struct create_topic topic = {.name = BYTES_LITERAL("configs"),
                                     .partition_count = 1,
                                     .replication_factor = 1,
                                     .configs = i == 0 ? null_value : bad_value,
                                     .config_count = 1};

        create_with(&topic, true);
        create_with(&topic, false);
    }
    for (uint32_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct create_topic topic = {.name = BYTES_LITERAL("assigned"),
                                     .partition_count = -1,
                                     .replication_factor = -1,
                                     .assignments = lists[i].list,
                                     .assignment_count = lists[i].count};

        create_with(&topic, false);
    }
    for (uint32_t i = 0; i < 2; i++) {
        struct create_topic topic = {.name = BYTES_LITERAL("both"),
                                     .partition_count = i == 0 ? 1 : -1,
                                     .replication_factor = i == 1 ? 1 : -1,
                                     .assignments = good,
                                     .assignment_count = 1};

        create_with(&topic, false);
    }
    transcript_expect(&out, "create_topics_refused");
    end();
}
END_TEST

START_TEST(one_bad_topic_spoils_no_other)
{
    struct create_topic topics[] = {
        {.name = BYTES_LITERAL("twice"), .partition_count = 1, .replication_factor = 1},
        {.name = BYTES_LITERAL("good"), .partition_count = 1, .replication_factor = 1},
        {.name = BYTES_LITERAL("a/b"), .partition_count = 1, .replication_factor = 1},
        {.name = BYTES_LITERAL("twice"), .partition_count = 1, .replication_factor = 1},
        {.name = BYTES_LITERAL("factor"), .partition_count = 1, .replication_factor = 3},
        {.name = BYTES_LITERAL("also_good"), .partition_count = 1, .replication_factor = 1},
    };
    struct controller_request request = {.type = CONTROLLER_CREATE_TOPICS};

    begin();
    quietly_ready();
    request.create_topics = (struct create_topics){.topics = topics, .count = 6};
    step(&request, "create many");
    for (uint32_t i = 0; i < 6; i++)
        transcript_say(&out, "  %s = %s %.*s%s\n", (const char *)topics[i].name.data, err_name(topics[i].err),
                       BYTES_PRINTF(topics[i].message), topics[i].repeated ? " (repeated)" : "");
    transcript_expect(&out, "create_topics_many");
    end();
}
END_TEST

START_TEST(topics_are_deleted)
{
    struct delete_topic topics[] = {
        {.name = BYTES_LITERAL("doomed")},
        {.name = BYTES_LITERAL("missing")},
        {.id = test_uuid(9)},
        {{NULL, 0}},
        {.name = BYTES_LITERAL("twice"), .id = test_uuid(9)},
        {.name = BYTES_LITERAL("twice")},
        {.name = BYTES_LITERAL("twice")},
    };
    static const struct image_config configs[] = {{BYTES_LITERAL("retention.ms"), BYTES_LITERAL("5")}};
    struct create_topic doomed = {.name = BYTES_LITERAL("doomed"),
                                  .partition_count = 1,
                                  .replication_factor = 1,
                                  .configs = configs,
                                  .config_count = 1};
    struct controller_request request = {.type = CONTROLLER_DELETE_TOPICS};

    begin();
    quietly_ready();
    create_with(&doomed, false);
    create("twice", 1, 1);
    request.delete_topics = (struct delete_topics){.topics = topics, .count = 7};
    step(&request, "delete");
    for (uint32_t i = 0; i < 7; i++)
        transcript_say(&out, "  %.*s = %s %.*s\n", BYTES_PRINTF(topics[i].name), err_name(topics[i].err),
                       BYTES_PRINTF(topics[i].message));
    transcript_image(&out, controller_proposed(controller));
    transcript_expect(&out, "delete_topics");
    end();
}
END_TEST

static void grow(const char *name, int32_t count, const struct assignment *assignments, uint32_t assignment_count)
{
    struct grow_topic topic = {.name = bytes_of_text(name),
                               .partition_count = count,
                               .assignments = assignments,
                               .assignment_count = assignment_count};
    struct controller_request request = {.type = CONTROLLER_CREATE_PARTITIONS,
                                         .create_partitions = {.topics = &topic, .count = 1}};
    char what[100];

    (void)snprintf(what, sizeof(what), "grow %s to %d", name, count);
    step(&request, what);
    transcript_say(&out, "  = %s %.*s\n", err_name(topic.err), BYTES_PRINTF(topic.message));
}

START_TEST(partitions_are_added)
{
    static const int32_t one[] = {1};
    static const struct assignment list[] = {{0, one, 1}};

    begin();
    quietly_ready();
    create("lines", 1, 1);
    grow("lines", 3, NULL, 0);
    grow("lines", 4, list, 1);
    grow("lines", 4, NULL, 0);
    grow("lines", 2, NULL, 0);
    grow("lines", -1, NULL, 0);
    grow("lines", 7, list, 1);
    grow("lines", 20000, NULL, 0);
    grow("missing", 2, NULL, 0);
    transcript_expect(&out, "create_partitions");
    end();
}
END_TEST

START_TEST(producer_ids_come_in_blocks)
{
    struct controller_request request = {.type = CONTROLLER_ALLOCATE_PRODUCER_IDS};

    begin();
    activate();
    int64_t epoch = register_and_unfence(1);
    transcript_begin(&out);
    for (int i = 0; i < 3; i++) {
        request.allocate_producer_ids =
            (struct allocate_producer_ids){.broker_id = 1, .broker_epoch = i < 2 ? epoch : epoch - 1};
        step(&request, "allocate");
        transcript_say(&out, "  = %lld + %d\n", (long long)request.allocate_producer_ids.first,
                       request.allocate_producer_ids.count);
    }
    transcript_expect(&out, "producer_ids");
    end();
}
END_TEST

/* A node that died and came back is another incarnation of the same broker: its own controller takes it at once, and
 * what it led is led again, in a new leader epoch. Another node's id is guarded by its session. */
START_TEST(a_restarted_broker_is_not_locked_out)
{
    struct uuid directory = test_uuid(201);
    struct controller_request request;

    begin();
    quietly_ready();
    create("lines", 2, 1);
    request = registration(1, 50, &directory);
    step(&request, "register again");
    int64_t epoch = request.register_broker.epoch;
    request = (struct controller_request){.type = CONTROLLER_BROKER_HEARTBEAT};
    request.broker_heartbeat = (struct broker_heartbeat){
        .broker_id = 1, .broker_epoch = epoch, .metadata_offset = epoch - 1, .want_fence = false};
    step(&request, "heartbeat before it has caught up");
    request.broker_heartbeat.metadata_offset = epoch + 10;
    step(&request, "heartbeat");
    request.broker_heartbeat.broker_epoch = epoch - 1;
    step(&request, "heartbeat of the old incarnation");

    (void)register_and_unfence(2);
    directory = test_uuid(202);
    request = registration(2, 60, &directory);
    step_at(&request, "another node in its place, at 8999 ms", 8999);
    step_at(&request, "another node in its place, at 9000 ms", 9000);
    transcript_expect(&out, "restart");
    end();
}
END_TEST

START_TEST(bad_registrations_are_refused)
{
    struct uuid directories[] = {test_uuid(201), test_uuid(201)};
    struct uuid reserved = test_uuid(1);
    struct uuid free_directory = test_uuid(203);
    struct controller_request request;

    begin();
    quietly_ready();
    request = registration(3, 3, &free_directory);
    request.register_broker.cluster_id = BYTES_LITERAL("other");
    step(&request, "another cluster");
    request = registration(3, 3, &free_directory);
    request.register_broker.migrating = true;
    step(&request, "migrating");
    request = registration(3, 3, &free_directory);
    request.register_broker.directory_count = 0;
    step(&request, "no directory");
    request = registration(3, 3, &reserved);
    step(&request, "reserved directory");
    request = registration(3, 3, directories);
    request.register_broker.directory_count = 2;
    step(&request, "one directory twice");
    request = registration(3, 3, directories);
    step(&request, "another broker's directory");
    request = registration(3, 3, &free_directory);
    request.register_broker.feature_count = 0;
    step(&request, "no features");
    static const struct image_feature_range old[] = {{BYTES_LITERAL("metadata.version"), 7, 28}};
    request = registration(3, 3, &free_directory);
    request.register_broker.features = old;
    request.register_broker.feature_count = 1;
    step(&request, "too old");
    transcript_expect(&out, "registrations_refused");
    end();
}
END_TEST

START_TEST(controlled_shutdown_gives_partitions_away)
{
    static const int32_t both[] = {1, 2};
    static const struct assignment assignments[] = {{0, both, 2}};
    struct create_topic topic = {.name = BYTES_LITERAL("lines"),
                                 .partition_count = -1,
                                 .replication_factor = -1,
                                 .assignments = assignments,
                                 .assignment_count = 1};
    struct controller_request request = {.type = CONTROLLER_BROKER_HEARTBEAT};

    begin();
    activate();
    int64_t first = register_and_unfence(1);
    int64_t second = register_and_unfence(2);
    transcript_begin(&out);
    create_with(&topic, false);
    request.broker_heartbeat =
        (struct broker_heartbeat){.broker_id = 1, .broker_epoch = first, .metadata_offset = 100, .want_shutdown = true};
    step(&request, "1 wants to go");
    ck_assert(!request.broker_heartbeat.should_shut_down);
    request.broker_heartbeat = (struct broker_heartbeat){.broker_id = 2, .broker_epoch = second, .metadata_offset = 5};
    step(&request, "2 has not heard of it");
    request.broker_heartbeat =
        (struct broker_heartbeat){.broker_id = 1, .broker_epoch = first, .metadata_offset = 100, .want_shutdown = true};
    step(&request, "1 waits");
    ck_assert(!request.broker_heartbeat.should_shut_down);
    request.broker_heartbeat =
        (struct broker_heartbeat){.broker_id = 2, .broker_epoch = second, .metadata_offset = 100};
    step(&request, "2 has");
    request.broker_heartbeat =
        (struct broker_heartbeat){.broker_id = 1, .broker_epoch = first, .metadata_offset = 100, .want_shutdown = true};
    step(&request, "1 may go");
    ck_assert(request.broker_heartbeat.should_shut_down);
    transcript_expect(&out, "controlled_shutdown");
    end();
}
END_TEST

static void alter(int8_t type, const char *resource, const struct config_change *changes, uint32_t count, bool replace)
{
    struct alter_resource entry = {
        .type = type, .resource = bytes_of_text(resource), .changes = changes, .change_count = count};
    struct controller_request request = {.type = CONTROLLER_ALTER_CONFIGS,
                                         .alter_configs = {.resources = &entry, .count = 1, .replace = replace}};
    char what[100];

    (void)snprintf(what, sizeof(what), "%s %d/%s", replace ? "replace" : "alter", type, resource);
    step(&request, what);
    transcript_say(&out, "  = %s %.*s\n", err_name(entry.err), BYTES_PRINTF(entry.message));
}

/* B059, B073. */
START_TEST(configurations_are_altered)
{
    const struct bytes null = {NULL, 0};
    const struct config_change set[] = {{BYTES_LITERAL("retention.ms"), BYTES_LITERAL("7"), CONFIG_SET},
                                        {BYTES_LITERAL("segment.bytes"), BYTES_LITERAL("99"), CONFIG_SET}};
    const struct config_change bad[] = {{BYTES_LITERAL("retention.ms"), BYTES_LITERAL("bad"), CONFIG_SET}};
    const struct config_change nothing[] = {{BYTES_LITERAL("retention.ms"), null, CONFIG_SET}};
    const struct config_change remove[] = {{BYTES_LITERAL("retention.ms"), null, CONFIG_DELETE},
                                           {BYTES_LITERAL("absent"), null, CONFIG_DELETE}};
    const struct config_change append[] = {
        {BYTES_LITERAL("cleanup.policy"), BYTES_LITERAL("compact,delete"), CONFIG_APPEND}};
    const struct config_change subtract[] = {
        {BYTES_LITERAL("cleanup.policy"), BYTES_LITERAL("delete"), CONFIG_SUBTRACT}};
    const struct config_change not_a_list[] = {{BYTES_LITERAL("retention.ms"), BYTES_LITERAL("1"), CONFIG_APPEND}};
    const struct config_change unknown_op[] = {{BYTES_LITERAL("retention.ms"), BYTES_LITERAL("1"), 9}};
    const struct config_change twice[] = {{BYTES_LITERAL("a"), BYTES_LITERAL("1"), CONFIG_SET},
                                          {BYTES_LITERAL("a"), BYTES_LITERAL("2"), CONFIG_SET}};
    struct alter_resource same[] = {
        {.type = CONFIG_TOPIC, .resource = BYTES_LITERAL("lines"), .changes = set},
        {.type = CONFIG_TOPIC, .resource = BYTES_LITERAL("lines"), .changes = set},
        {.type = CONFIG_BROKER, .resource = BYTES_LITERAL("1"), .changes = set, .change_count = 1}};
    struct controller_request request = {.type = CONTROLLER_ALTER_CONFIGS,
                                         .alter_configs = {.resources = same, .count = 3}};

    begin();
    quietly_ready();
    create("lines", 1, 1);
    alter(CONFIG_TOPIC, "lines", set, 2, false);
    alter(CONFIG_TOPIC, "lines", set, 2, false); /* nothing changes: nothing is written */
    alter(CONFIG_TOPIC, "lines", bad, 1, false);
    alter(CONFIG_TOPIC, "lines", nothing, 1, false);
    alter(CONFIG_TOPIC, "lines", append, 1, false);
    alter(CONFIG_TOPIC, "lines", subtract, 1, false);
    alter(CONFIG_TOPIC, "lines", not_a_list, 1, false);
    alter(CONFIG_TOPIC, "lines", unknown_op, 1, false);
    alter(CONFIG_TOPIC, "lines", twice, 2, false);
    alter(CONFIG_TOPIC, "missing", set, 1, false);
    alter(3, "lines", set, 1, false);
    alter(CONFIG_TOPIC, "lines", remove, 2, false);
    alter(CONFIG_TOPIC, "lines", set, 1, true); /* AlterConfigs: what is not named goes */
    alter(CONFIG_BROKER, "", set, 1, false);
    alter(CONFIG_BROKER, "", set, 1, false); /* a broker's is written again, to be reloaded */
    alter(CONFIG_GROUP, "", set, 1, false);
    step(&request, "one resource twice, and another");
    for (uint32_t i = 0; i < 3; i++)
        transcript_say(&out, "  = %s %.*s\n", err_name(same[i].err), BYTES_PRINTF(same[i].message));
    transcript_expect(&out, "alter_configs");
    end();
}
END_TEST

/* The edge of CONTROLLER_CONFIGS_MAX, of one change and of what a resource holds. */
START_TEST(a_resource_holds_so_many_settings)
{
    static struct config_change changes[CONTROLLER_CONFIGS_MAX + 1];
    static char names[CONTROLLER_CONFIGS_MAX + 1][8];
    struct alter_resource entry = {.type = CONFIG_BROKER, .resource = BYTES_LITERAL("1"), .changes = changes};
    struct controller_request request = {.type = CONTROLLER_ALTER_CONFIGS,
                                         .alter_configs = {.resources = &entry, .count = 1}};

    begin();
    quietly_ready();
    for (int i = 0; i <= CONTROLLER_CONFIGS_MAX; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "k%d", i);
        changes[i] = (struct config_change){bytes_of_text(names[i]), BYTES_LITERAL("v"), CONFIG_SET};
    }
    entry.change_count = CONTROLLER_CONFIGS_MAX + 1;
    step(&request, "one too many");
    ck_assert_int_eq(entry.err, ERR_POLICY_VIOLATION);
    entry.change_count = CONTROLLER_CONFIGS_MAX;
    step(&request, "as many as there may be");
    ck_assert_int_eq(entry.err, ERR_OK);
    entry.changes = &changes[CONTROLLER_CONFIGS_MAX];
    entry.change_count = 1;
    step(&request, "one more");
    ck_assert_int_eq(entry.err, ERR_POLICY_VIOLATION);
    end();
}
END_TEST

/* A step of which only the outcome is looked at: its records are too many for a transcript. */
static enum err decide(struct controller_request *request)
{
    struct controller_effects effects;

    request->arena = &arena;
    ck_assert_int_eq(controller_step(controller, request, 0, 1000, &effects), ERR_OK);
    image_drop(effects.image);
    image_delta_drop(effects.delta);
    return request->err;
}

static enum err grow_to(const char *name, int32_t count)
{
    struct grow_topic topic = {.name = bytes_of_text(name), .partition_count = count};
    struct controller_request request = {.type = CONTROLLER_CREATE_PARTITIONS,
                                         .create_partitions = {.topics = &topic, .count = 1}};

    return decide(&request);
}

static enum err create_so_many(const char *name, int32_t partitions, bool validate_only, struct create_topic *topic)
{
    struct controller_request request = {.type = CONTROLLER_CREATE_TOPICS};

    *topic = (struct create_topic){.name = bytes_of_text(name), .partition_count = partitions, .replication_factor = 1};
    request.create_topics = (struct create_topics){.topics = topic, .count = 1, .validate_only = validate_only};
    return decide(&request);
}

/* The edges of CREATE_PARTITIONS_MAX and CONTROLLER_RECORDS_MAX, which are the same number: a topic's own record is one
 * of them. Asked whether it would do, the answer is the same. */
START_TEST(a_request_makes_so_many_partitions)
{
    struct create_topic topic;

    begin();
    quietly_ready();
    ck_assert_int_eq(create_so_many("over", CREATE_PARTITIONS_MAX + 1, false, &topic), ERR_POLICY_VIOLATION);
    ck_assert_int_eq(create_so_many("batch", CONTROLLER_RECORDS_MAX, false, &topic), ERR_POLICY_VIOLATION);
    ck_assert_int_eq(create_so_many("batch", CONTROLLER_RECORDS_MAX, true, &topic), ERR_POLICY_VIOLATION);
    ck_assert_int_eq(create_so_many("most", CONTROLLER_RECORDS_MAX - 1, false, &topic), ERR_OK);
    ck_assert_int_eq(topic.err, ERR_OK);
    ck_assert_int_eq(topic.partitions_made, CONTROLLER_RECORDS_MAX - 1);
    ck_assert_int_eq(create_so_many("grows", 1, false, &topic), ERR_OK);
    ck_assert_int_eq(grow_to("grows", 1 + CREATE_PARTITIONS_MAX + 1), ERR_POLICY_VIOLATION);
    ck_assert_int_eq(grow_to("grows", 1 + CREATE_PARTITIONS_MAX), ERR_OK);
    end();
}
END_TEST

/* The edges of IMAGE_TOPIC_NAME_BYTES_MAX and of CONTROLLER_CONFIG_CHARS_MAX, for a new topic and for a change. */
START_TEST(names_and_values_are_so_long)
{
    static uint8_t text[CONTROLLER_CONFIG_CHARS_MAX + 1];
    struct image_config config = {BYTES_LITERAL("k"), bytes_of(text, CONTROLLER_CONFIG_CHARS_MAX + 1)};
    struct config_change change = {BYTES_LITERAL("k"), config.value, CONFIG_SET};
    struct create_topic topic = {.name = bytes_of(text, IMAGE_TOPIC_NAME_BYTES_MAX + 1),
                                 .partition_count = 1,
                                 .replication_factor = 1,
                                 .configs = &config};
    struct alter_resource entry = {
        .type = CONFIG_BROKER, .resource = BYTES_LITERAL("1"), .changes = &change, .change_count = 1};
    struct controller_request creation = {.type = CONTROLLER_CREATE_TOPICS,
                                          .create_topics = {.topics = &topic, .count = 1}};
    struct controller_request alteration = {.type = CONTROLLER_ALTER_CONFIGS,
                                            .alter_configs = {.resources = &entry, .count = 1}};

    memset(text, 'x', sizeof(text));
    begin();
    quietly_ready();
    (void)decide(&creation);
    ck_assert_int_eq(topic.err, ERR_INVALID_TOPIC_EXCEPTION);
    topic.name.size = IMAGE_TOPIC_NAME_BYTES_MAX;
    topic.config_count = 1;
    (void)decide(&creation);
    ck_assert_int_eq(topic.err, ERR_INVALID_CONFIG);
    config.value.size = CONTROLLER_CONFIG_CHARS_MAX;
    (void)decide(&creation);
    ck_assert_int_eq(topic.err, ERR_OK);
    (void)decide(&alteration);
    ck_assert_int_eq(entry.err, ERR_INVALID_CONFIG);
    change.value.size = CONTROLLER_CONFIG_CHARS_MAX;
    (void)decide(&alteration);
    ck_assert_int_eq(entry.err, ERR_OK);
    end();
}
END_TEST

static void update(const char *name, int16_t level, int8_t type)
{
    struct feature_change change = {.name = bytes_of_text(name), .level = level, .type = type};
    struct controller_request request = {.type = CONTROLLER_UPDATE_FEATURES,
                                         .update_features = {.changes = &change, .count = 1}};
    char what[100];

    (void)snprintf(what, sizeof(what), "%s to %d", name, level);
    step(&request, what);
}

START_TEST(levels_are_changed)
{
    begin();
    quietly_ready();
    update("metadata.version", 29, FEATURE_UPGRADE);
    update("metadata.version", 30, FEATURE_UPGRADE);
    update("metadata.version", 28, FEATURE_UPGRADE);
    update("metadata.version", 28, FEATURE_DOWNGRADE_SAFE);
    update("metadata.version", 22, FEATURE_DOWNGRADE_SAFE);
    update("metadata.version", 0, FEATURE_DOWNGRADE_UNSAFE);
    update("kraft.version", 0, FEATURE_DOWNGRADE_SAFE);
    update("group.version", 1, FEATURE_UPGRADE);
    update("share.version", 1, FEATURE_UPGRADE);
    transcript_expect(&out, "update_features");
    end();
}
END_TEST

/* What is decided counts before it is committed; when leadership is lost it never was. */
START_TEST(proposed_decides_until_it_is_dropped)
{
    struct image *committed = NULL;

    begin();
    quietly_ready();
    committed = image_keep(controller_proposed(controller));
    create("lines", 1, 1);
    create("lines", 1, 1);
    controller_reset(controller, committed, image_offset(committed) + 1, 2, 0);
    create("lines", 1, 1);
    image_drop(committed);
    transcript_expect(&out, "proposed");
    end();
}
END_TEST

/* A step that runs out of memory, wherever, changed nothing; the next one does all of it. */
static void sweep(struct controller_request *(*make)(void))
{
    static struct transcript before, after, whole;
    int64_t offset = 0;

    begin();
    quietly_ready();
    create("lines", 2, 1);
    create("others", 1, 1);
    transcript_begin(&before);
    transcript_image(&before, controller_proposed(controller));
    offset = image_offset(controller_proposed(controller));
    for (uint64_t k = 1;; k++) {
        struct controller_request *request = make();
        struct controller_effects effects;
        enum err err = ERR_OK;
        bool failed = false;

        request->arena = &arena;
        fail_at = k;
        err = controller_step(controller, request, 0, 1000, &effects);
        failed = fail_at == 0;
        fail_at = 0;
        ck_assert(err == ERR_OK || (failed && err == ERR_NOMEM));
        transcript_begin(&after);
        transcript_image(&after, controller_proposed(controller));
        if (err != ERR_OK) {
            ck_assert_str_eq(before.text, after.text);
            ck_assert_int_eq(image_offset(controller_proposed(controller)), offset);
            continue;
        }
        /* What a message or a contact could not have is left out; records are all there or the step failed. */
        transcript_begin(&whole);
        transcript_records(&whole, effects.records, effects.record_count);
        ck_assert_uint_gt(effects.record_count, 0);
        ck_assert_int_eq(image_offset(effects.image), offset + effects.record_count);
        image_drop(effects.image);
        image_delta_drop(effects.delta);
        if (!failed)
            break;
        /* Back to before, to fail at the next. */
        end();
        begin();
        quietly_ready();
        create("lines", 2, 1);
        create("others", 1, 1);
    }
    end();
}

static struct controller_request *make_topics(void)
{
    static const struct image_config configs[] = {{BYTES_LITERAL("retention.ms"), BYTES_LITERAL("5")},
                                                  {BYTES_LITERAL("segment.bytes"), BYTES_LITERAL("5")}};
    static struct create_topic topics[3];
    static struct controller_request request;

    for (uint32_t i = 0; i < 3; i++)
        topics[i] = (struct create_topic){.name = bytes_of_text(i == 0   ? "new"
                                                                : i == 1 ? "a/b"
                                                                         : "newer"),
                                          .partition_count = 20,
                                          .replication_factor = 1,
                                          .configs = configs,
                                          .config_count = 2};
    request =
        (struct controller_request){.type = CONTROLLER_CREATE_TOPICS, .create_topics = {.topics = topics, .count = 3}};
    return &request;
}

static struct controller_request *make_deletion(void)
{
    static struct delete_topic topics[2];
    static struct controller_request request;

    topics[0] = (struct delete_topic){.name = BYTES_LITERAL("lines")};
    topics[1] = (struct delete_topic){.name = BYTES_LITERAL("others")};
    request =
        (struct controller_request){.type = CONTROLLER_DELETE_TOPICS, .delete_topics = {.topics = topics, .count = 2}};
    return &request;
}

static struct controller_request *make_registration(void)
{
    static struct uuid directory;
    static struct controller_request request;

    directory = test_uuid(201);
    request = registration(1, 77, &directory);
    return &request;
}

static struct controller_request *make_alteration(void)
{
    static const struct config_change set[] = {
        {BYTES_LITERAL("cleanup.policy"), BYTES_LITERAL("compact"), CONFIG_APPEND},
        {BYTES_LITERAL("segment.bytes"), BYTES_LITERAL("99"), CONFIG_SET}};
    static struct alter_resource resource;
    static struct controller_request request;

    resource = (struct alter_resource){
        .type = CONFIG_TOPIC, .resource = BYTES_LITERAL("lines"), .changes = set, .change_count = 2};
    request = (struct controller_request){.type = CONTROLLER_ALTER_CONFIGS,
                                          .alter_configs = {.resources = &resource, .count = 1}};
    return &request;
}

START_TEST(memory_runs_out_anywhere)
{
    sweep(make_topics);
    sweep(make_deletion);
    sweep(make_registration);
    sweep(make_alteration);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("controller");
    TCase *tcase = tcase_create("controller");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, activation_registers_and_unfences);
    tcase_add_test(tcase, topics_are_made);
    tcase_add_test(tcase, bad_topics_are_refused);
    tcase_add_test(tcase, one_bad_topic_spoils_no_other);
    tcase_add_test(tcase, topics_are_deleted);
    tcase_add_test(tcase, partitions_are_added);
    tcase_add_test(tcase, producer_ids_come_in_blocks);
    tcase_add_test(tcase, a_restarted_broker_is_not_locked_out);
    tcase_add_test(tcase, bad_registrations_are_refused);
    tcase_add_test(tcase, controlled_shutdown_gives_partitions_away);
    tcase_add_test(tcase, configurations_are_altered);
    tcase_add_test(tcase, a_resource_holds_so_many_settings);
    tcase_add_test(tcase, a_request_makes_so_many_partitions);
    tcase_add_test(tcase, names_and_values_are_so_long);
    tcase_add_test(tcase, levels_are_changed);
    tcase_add_test(tcase, proposed_decides_until_it_is_dropped);
    tcase_add_test(tcase, memory_runs_out_anywhere);
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
