/*
 * Rule: whichever allocation of the group cores fails, who asked is told so and nothing else happens: either nothing
 * else is changed, or the state is thrown away and what the records say is there again. Nobody is told what is not so;
 * what the state holds is what its records make; the members find together again, everything can be deleted, nothing
 * leaks, and then all goes as in a world that never was short of memory.
 *
 * Each story is played once with all memory there is, which says what it asks for and what is answered, and then with
 * one allocation refused: each in turn, or every so-manieth of a long story. With OTTLA_MEMORY_STRIDE=1 none is left
 * out.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "coordinator/consumer_beats.h"
#include "coordinator/group.h"
#include "coordinator/group_history.h"
#include "coordinator/short_heap.h"
#include "coordinator/stubborn.h"
#include "partition/run_tests.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/list_groups.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_delete.h"
#include "protocol/gen/offset_fetch.h"
#include "protocol/gen/txn_offset_commit.h"

enum {
    OPS_MAX = 1024,
    LOOK_BYTES_MAX = 32 * 1024,
    TRIES_MAX = 4,
    DAY_MS = 24 * 3600 * 1000,
    TRIED_MAX = 100, /* of a story, for a few seconds in all */
};

static const char group[] = "g";
static struct group_world world;

/* ---- watching ---- */

/* One thing that is done to the groups: how many allocations were asked for when it was over, and what was said. */
struct op {
    uint64_t calls;
    size_t from, to;
};

static struct op plan[OPS_MAX];
static uint32_t plan_count;
static char plan_text[TRANSCRIPT_BYTES_MAX];
static bool planning, watching;
static uint64_t refuse_at; /* 0: none */
static uint32_t op;        /* the one under way */
static size_t op_from;
static uint32_t op_failed;
static bool is_hit; /* the one under way is that in which memory is short */
static char before[LOOK_BYTES_MAX], after[LOOK_BYTES_MAX], fresh[LOOK_BYTES_MAX];

static void ask_all(bool durable)
{
    struct offset_fetch_request_group all;

    offset_fetch_request_group_init(&all);
    all.group_id = bytes_of_text(group);
    all.topics = NULL;
    if (!durable) {
        (void)world_ask(&world, "look", ASK_DESCRIBE_GROUP, 6, group, NULL);
        (void)world_ask(&world, "look", ASK_HISTORY, 0, group, NULL);
    }
    (void)world_ask(&world, "look", ASK_CONSUMER_DESCRIBE, 1, group, NULL);
    (void)world_ask(&world, "look", ASK_OFFSET_FETCH, 9, group, &all);
}

/* What there is to be seen of the group, without leaving a trace. */
static void look(char *text, bool durable)
{
    size_t said = world.said.size;
    uint32_t calls = world.call_count;

    short_heap_pause(true);
    ask_all(durable);
    short_heap_pause(false);
    ck_assert_uint_lt(world.said.size - said, LOOK_BYTES_MAX);
    memcpy(text, world.said.text + said, world.said.size - said);
    text[world.said.size - said] = '\0';
    world.said.size = said;
    world.said.text[said] = '\0';
    world_forget_calls(&world, calls);
}

/* The same of what the records make. */
static void look_at_records(void)
{
    struct groups *live = world.groups;

    short_heap_pause(true);
    ck_assert_int_eq(world_replay(&world), ERR_OK);
    look(fresh, true);
    short_heap_pause(true);
    groups_free(world.groups);
    short_heap_pause(false);
    world.groups = live;
}

static void op_begins(void)
{
    op_from = world.said.size;
    op_failed = world.failed;
    is_hit = watching && !planning && plan[op].calls >= refuse_at && (op == 0 || plan[op - 1].calls < refuse_at);
    if (watching && !planning)
        world.quiet = !is_hit;
    if (is_hit)
        look(before, false);
}

static bool says(const char *text, size_t size, const char *what)
{
    return memmem(text, size, what, strlen(what)) != NULL;
}

/* Check has no room for messages as long as these. */
#define expect(is_so, ...)                                                                                             \
    do {                                                                                                               \
        if (!(is_so)) {                                                                                                \
            printf(__VA_ARGS__);                                                                                       \
            fflush(stdout);                                                                                            \
            ck_abort_msg("allocation %llu", (unsigned long long)refuse_at);                                            \
        }                                                                                                              \
    } while (0)

/* Nothing has gone another way before it: what was to be said then, or a refusal that changed nothing. */
static void judge(void)
{
    static char said[LOOK_BYTES_MAX];
    const char *planned = plan_text + plan[op].from;
    size_t planned_size = plan[op].to - plan[op].from;
    size_t size = world.said.size - op_from;

    ck_assert(short_heap_has_refused());
    ck_assert_uint_lt(size, sizeof(said));
    memcpy(said, world.said.text + op_from, size);
    said[size] = '\0';
    if (world.failed == op_failed && (size != planned_size || memcmp(said, planned, size) != 0)) {
        look(after, false);
        expect(strcmp(before, after) == 0,
               "allocation %llu, in\n%swhich should be\n%.*sis refused, and yet\n%swas before\n%s",
               (unsigned long long)refuse_at, said, (int)planned_size, planned, after, before);
        expect(!says(planned, planned_size, " <- ") || says(said, size, err_name(ERR_NOMEM)) ||
                   says(said, size, "error_code=-1 "),
               "allocation %llu, in\n%swhich should be\n%.*sis not done, and nobody told",
               (unsigned long long)refuse_at, said, (int)planned_size, planned);
    }
    look(after, true);
    look_at_records();
    expect(strcmp(after, fresh) == 0, "allocation %llu, in\n%sthe records say\n%sand the state is\n%s",
           (unsigned long long)refuse_at, said, fresh, after);
}

static void op_ends(void)
{
    ck_assert_uint_lt(op, OPS_MAX);
    if (planning) {
        plan[op] = (struct op){.calls = short_heap_calls(), .from = op_from, .to = world.said.size};
        plan_count = op + 1;
    }
    if (is_hit)
        judge();
    is_hit = false;
    op++;
}

static const struct stubborn_watch watch = {.begins = op_begins, .ends = op_ends};

/* ---- what a story is told with ---- */

/* Asked until it is answered. */
static const struct world_call *ask(const char *label, enum group_ask what, int16_t version, const void *request)
{
    const struct world_call *call = NULL;

    for (uint32_t try = 0; try < TRIES_MAX; try++) {
        op_begins();
        call = world_ask(&world, label, what, version, group, request);
        op_ends();
        if (!call->answered) /* a list is made in ticks */
            stubborn_wait(&world, &watch, 1);
        ck_assert(call->answered);
        if (!stubborn_may_ask_again(call))
            return call;
    }
    ck_abort_msg("%s is never answered", label);
    return NULL;
}

static void topic(const char *name, uint32_t partitions)
{
    op_begins();
    world_topic(&world, name, partitions);
    op_ends();
}

static void marker(int64_t producer_id, bool committed)
{
    op_begins();
    world_marker(&world, producer_id, committed);
    op_ends();
}

static void restart(void)
{
    op_begins();
    world_restart(&world);
    op_ends();
}

static void commit(const char *name, int32_t partition, int64_t offset, const struct stubborn *member)
{
    static struct offset_commit_request_partition part;
    static struct offset_commit_request_topic of;
    static struct offset_commit_request request;

    offset_commit_request_init(&request);
    offset_commit_request_topic_init(&of);
    offset_commit_request_partition_init(&part);
    part.partition_index = partition;
    part.committed_offset = offset;
    part.committed_metadata = BYTES_LITERAL("where I am");
    of.name = bytes_of_text(name);
    of.partitions = &part;
    of.partitions_count = 1;
    request.topics = &of;
    request.topics_count = 1;
    if (member != NULL) {
        request.member_id = bytes_of_text(member->modern ? member->name : member->classic.id);
        request.generation_id_or_member_epoch = member->modern ? member->epoch : member->classic.generation;
    }
    (void)ask("commit", ASK_OFFSET_COMMIT, 9, &request);
}

static void txn_commit(int64_t producer_id, int32_t partition, int64_t offset)
{
    static struct txn_offset_commit_request_partition part;
    static struct txn_offset_commit_request_topic of;
    static struct txn_offset_commit_request request;

    txn_offset_commit_request_init(&request);
    txn_offset_commit_request_topic_init(&of);
    txn_offset_commit_request_partition_init(&part);
    part.partition_index = partition;
    part.committed_offset = offset;
    of.name = BYTES_LITERAL("t");
    of.partitions = &part;
    of.partitions_count = 1;
    request.transactional_id = BYTES_LITERAL("x");
    request.producer_id = producer_id;
    request.topics = &of;
    request.topics_count = 1;
    (void)ask("txn", ASK_TXN_OFFSET_COMMIT, 5, &request);
}

static void fetch(bool all)
{
    static int32_t partitions[] = {0, 1};
    static struct offset_fetch_request_topics of;
    static struct offset_fetch_request_group request;

    offset_fetch_request_group_init(&request);
    offset_fetch_request_topics_init(&of);
    of.name = BYTES_LITERAL("t");
    of.partition_indexes = partitions;
    of.partition_indexes_count = 2;
    request.topics = all ? NULL : &of;
    request.topics_count = !all;
    (void)ask("fetch", ASK_OFFSET_FETCH, 9, &request);
}

static void delete_offset(int32_t partition)
{
    static struct offset_delete_request_partition part;
    static struct offset_delete_request_topic of;
    static struct offset_delete_request request;

    offset_delete_request_init(&request);
    offset_delete_request_topic_init(&of);
    offset_delete_request_partition_init(&part);
    part.partition_index = partition;
    of.name = BYTES_LITERAL("t");
    of.partitions = &part;
    of.partitions_count = 1;
    request.topics = &of;
    request.topics_count = 1;
    (void)ask("delete", ASK_OFFSET_DELETE, 0, &request);
}

static void look_around(void)
{
    static struct list_groups_request all;

    list_groups_request_init(&all);
    (void)ask("admin", ASK_DESCRIBE_GROUP, 6, NULL);
    (void)ask("admin", ASK_CONSUMER_DESCRIBE, 1, NULL);
    (void)ask("admin", ASK_HISTORY, 0, NULL);
    (void)ask("admin", ASK_LIST_GROUPS, 5, &all);
}

static void settle(struct stubborn **members, uint32_t count)
{
    stubborn_settle(&world, &watch, members, count);
}
#define SETTLE(...)                                                                                                    \
    settle((struct stubborn *[]){__VA_ARGS__}, sizeof((struct stubborn *[]){__VA_ARGS__}) / sizeof(struct stubborn *))

/* ---- the stories ---- */

static void play_classic(void)
{
    static struct stubborn a, b, c;

    a = (struct stubborn){.name = "a", .topics = "t"};
    b = (struct stubborn){.name = "b", .topics = "t"};
    c = (struct stubborn){.name = "c", .topics = "t", .instance = "i"};
    topic("t", STUBBORN_PARTITIONS);
    SETTLE(&a, &b);
    SETTLE(&a, &b, &c);
    commit("t", 0, 7, &a);
    look_around();
    c.state = STUBBORN_OUT; /* it comes back under its name */
    SETTLE(&a, &b, &c);
    stubborn_leave(&world, &watch, &b, -1);
    SETTLE(&a, &c);
    for (uint32_t i = 0; i < 14; i++) /* a is not heard of any more */
        (void)stubborn_round(&world, &watch, (struct stubborn *[]){&c}, 1);
    restart();
    SETTLE(&c, &b);
    fetch(false);
}

static void play_consumer(void)
{
    static struct stubborn a, b, c;

    a = (struct stubborn){.name = "a", .topics = "t,u", .modern = true};
    b = (struct stubborn){.name = "b", .topics = "t", .modern = true};
    c = (struct stubborn){.name = "c", .topics = "u", .instance = "i", .modern = true};
    topic("t", STUBBORN_PARTITIONS);
    topic("u", 2);
    SETTLE(&a);
    SETTLE(&a, &b, &c);
    commit("t", 0, 7, &a);
    look_around();
    topic("u", 3);
    SETTLE(&a, &b, &c);
    stubborn_leave(&world, &watch, &c, -2);
    SETTLE(&a, &b, &c);
    stubborn_leave(&world, &watch, &b, -1);
    b.topics = "u";
    SETTLE(&a, &b, &c);
    restart();
    for (uint32_t i = 0; i < 50; i++) /* a and c are not heard of any more */
        (void)stubborn_round(&world, &watch, (struct stubborn *[]){&b}, 1);
    topic("u", 0);
    topic("u", 2);
    SETTLE(&b);
    fetch(false);
}

static void play_expressions(void)
{
    static struct stubborn a, b;

    a = (struct stubborn){.name = "a", .regex = "t.*", .modern = true};
    b = (struct stubborn){.name = "b", .regex = "(t|u)", .topics = "t", .modern = true};
    topic("t", STUBBORN_PARTITIONS);
    topic("u", 2);
    SETTLE(&a);
    SETTLE(&a, &b);
    topic("tt", 2);
    SETTLE(&a, &b);
    look_around();
    restart();
    a.regex = "u+";
    a.says_all = true;
    SETTLE(&a, &b);
    topic("tt", 0);
    stubborn_leave(&world, &watch, &b, -1);
    SETTLE(&a);
}

static void play_migration(void)
{
    static struct stubborn a, b, c;

    a = (struct stubborn){.name = "a", .topics = "t"};
    b = (struct stubborn){.name = "b", .topics = "t", .instance = "i"};
    c = (struct stubborn){.name = "c", .topics = "t", .modern = true};
    topic("t", STUBBORN_PARTITIONS);
    SETTLE(&a, &b);
    commit("t", 0, 7, &a);
    SETTLE(&a, &b, &c);
    commit("t", 1, 8, &a);
    look_around();
    b.state = STUBBORN_OUT;
    SETTLE(&a, &b, &c);
    restart();
    SETTLE(&a, &b, &c);
    stubborn_leave(&world, &watch, &c, -1);
    SETTLE(&a, &b);
    look_around();
}

static void play_offsets(void)
{
    topic("t", STUBBORN_PARTITIONS);
    topic("u", 2);
    commit("t", 0, 7, NULL);
    commit("t", 1, 8, NULL);
    commit("u", 0, 9, NULL);
    txn_commit(1, 0, 17);
    txn_commit(2, 2, 18);
    fetch(false);
    world.require_stable = true;
    fetch(false);
    world.require_stable = false;
    restart();
    marker(1, true);
    marker(2, false);
    fetch(true);
    delete_offset(0);
    look_around();
    topic("u", 0);
    stubborn_wait(&world, &watch, 1000);
    fetch(true);
    txn_commit(3, 3, 19);
    stubborn_wait(&world, &watch, INT64_C(9) * DAY_MS);
    fetch(true);
    marker(3, true);
    fetch(true);
    (void)ask("delete", ASK_DELETE_GROUP, 2, NULL);
}

/* ---- with the k-th allocation refused ---- */

/* Whoever is there is not heard of any more; what is left can be deleted. */
static void clear(void)
{
    world_advance(&world, INT64_C(1800) * 1000);
    (void)world_ask(&world, "end", ASK_DELETE_GROUP, 2, group, NULL);
    world_advance(&world, INT64_C(20) * DAY_MS - (world.now_ms - 1000000));
    ck_assert_uint_eq(groups_count(world.groups), 0);
    for (uint32_t i = 0; i < world.topic_count; i++)
        world.table[i].partition_count = 0;
    world.topic_count = 0;
    counting_rng_init(&world.rng);
    transcript_begin(&world.said);
}

/* True: the k-th was refused. */
static bool run(void (*play)(void), uint64_t k, char *second)
{
    int64_t blocks = short_heap_blocks();
    bool refused = false;

    planning = k == 0;
    refuse_at = k;
    op = 0;
    world_open(&world);
    world.core_runs = short_heap_core_runs;
    world.settings.consumer_assignment_interval_ms = 0;
    short_heap_begin(k);
    watching = true;
    play();
    watching = false;
    if (planning)
        memcpy(plan_text, world.said.text, world.said.size + 1);
    planning = false;
    world.quiet = false;
    refused = short_heap_has_refused();
    short_heap_begin(0);
    clear();
    play();
    if (k == 0)
        memcpy(second, world.said.text, world.said.size + 1);
    else if (strcmp(second, world.said.text) != 0) {
        printf("allocation %llu: afterwards it was\n%s\nand should be\n%s\n", (unsigned long long)k, world.said.text,
               second);
        ck_abort_msg("after allocation %llu another one", (unsigned long long)k);
    }
    world_close(&world);
    client_forget_requests();
    ck_assert_msg(short_heap_blocks() == blocks, "allocation %llu: %lld blocks are left", (unsigned long long)k,
                  (long long)(short_heap_blocks() - blocks));
    return refused;
}

static void sweep(const char *name, void (*play)(void))
{
    static char second[TRANSCRIPT_BYTES_MAX];
    const char *wish = getenv("OTTLA_MEMORY_STRIDE");
    uint64_t stride = 0, tried = 0, k = 0;

    (void)run(play, 0, second);
    stride = wish == NULL ? plan[plan_count - 1].calls / TRIED_MAX + 1 : strtoull(wish, NULL, 10);
    ck_assert_uint_gt(stride, 0);
    for (k = 1; run(play, k, second); k += stride)
        tried++;
    printf("%s: %llu of %llu allocations refused, in %u operations\n", name, (unsigned long long)tried,
           (unsigned long long)plan[plan_count - 1].calls, plan_count);
    ck_assert_uint_gt(k, plan[plan_count - 1].calls);
}

#define STORY(name)                                                                                                    \
    START_TEST(name)                                                                                                   \
    {                                                                                                                  \
        sweep(#name, play_##name);                                                                                     \
    }                                                                                                                  \
    END_TEST

STORY(classic)
STORY(consumer)
STORY(expressions)
STORY(migration)
STORY(offsets)

RUN_TESTS("groups_memory", classic, consumer, expressions, migration, offsets)
