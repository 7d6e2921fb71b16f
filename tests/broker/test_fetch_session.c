/* Rule: KIP-227: full fetches open and close sessions, incremental ones must continue the epoch, name only what changed
 * and forget what they say; every misuse has its own code; a full cache gives up the idle before the fresh. */
#include <check.h>
#include <stdio.h>

#include "base/mem.h"
#include "broker/fetch_session.h"

enum { SLOTS = 2, SHARD = 5 };

struct seeded {
    struct rng rng;
    uint64_t state;
};

static void fill(struct rng *rng, void *to, size_t size)
{
    struct seeded *seeded = (struct seeded *)rng;

    for (size_t i = 0; i < size; i++) {
        seeded->state = seeded->state * 6364136223846793005u + 1442695040888963407u;
        ((uint8_t *)to)[i] = (uint8_t)(seeded->state >> 56);
    }
}

static const struct fetch_session_limits limits = {.one_bytes_max = 1 << 20, .cached_bytes_max = 3 << 19};
static struct seeded seeded;
static struct fetch_sessions sessions;
static int closed;

static void note_closed(void *context, struct fetch_session *session)
{
    (void)context;
    closed++;
    fetch_session_free(session);
}

static void setup(void)
{
    seeded = (struct seeded){{fill}, 42};
    fetch_sessions_init(&sessions, SLOTS, &limits, SHARD, &seeded.rng);
    sessions.closed = note_closed;
    closed = 0;
}

static void teardown(void)
{
    fetch_sessions_deinit(&sessions);
}

/* A request over partitions 0 .. count - 1 of one topic, each at offset. */
struct ask {
    struct fetch_request request;
    struct fetch_request_fetch_topic topic;
    struct fetch_request_fetch_partition partitions[32];
    struct fetch_request_forgotten_topic forgotten;
    int32_t forgotten_ids[4];
};

static const struct uuid topic_id = {{1, 2, 3}};

static struct fetch_request *ask_for(struct ask *ask, int32_t id, int32_t epoch, int32_t first, int32_t count,
                                     int64_t offset)
{
    fetch_request_init(&ask->request);
    fetch_request_fetch_topic_init(&ask->topic);
    ask->topic.topic = BYTES_LITERAL("t");
    ask->topic.topic_id = topic_id;
    ask->topic.partitions = ask->partitions;
    ask->topic.partitions_count = (uint32_t)count;
    for (int32_t i = 0; i < count; i++) {
        fetch_request_fetch_partition_init(&ask->partitions[i]);
        ask->partitions[i].partition = first + i;
        ask->partitions[i].fetch_offset = offset;
    }
    ask->request.session_id = id;
    ask->request.session_epoch = epoch;
    ask->request.topics = &ask->topic;
    ask->request.topics_count = count > 0;
    return &ask->request;
}

static struct fetch_request *forget(struct ask *ask, int32_t partition)
{
    fetch_request_forgotten_topic_init(&ask->forgotten);
    ask->forgotten.topic = BYTES_LITERAL("t");
    ask->forgotten.topic_id = topic_id;
    ask->forgotten.partitions = ask->forgotten_ids;
    ask->forgotten_ids[0] = partition;
    ask->forgotten.partitions_count = 1;
    ask->request.forgotten_topics_data = &ask->forgotten;
    ask->request.forgotten_topics_data_count = 1;
    return &ask->request;
}

/* What the parts do in between: unplaced and forgotten entries are taken care of. */
static int32_t finish(struct fetch_session *session)
{
    return fetch_session_done(&sessions, session);
}

static int32_t open_session(int32_t count, int64_t now_ns)
{
    struct ask ask;
    struct fetch_plan plan;

    fetch_session_begin(&sessions, ask_for(&ask, 0, 0, 0, count, 0), 13, now_ns, &plan);
    ck_assert_int_eq(plan.err, ERR_OK);
    ck_assert(!plan.incremental);
    return finish(plan.session);
}

static enum err begin(int32_t id, int32_t epoch, int16_t version, struct fetch_plan *plan)
{
    struct ask ask;

    fetch_session_begin(&sessions, ask_for(&ask, id, epoch, 0, 0, 0), version, 0, plan);
    return plan->err;
}

START_TEST(without_a_session_everything_ends_with_the_reply)
{
    struct ask ask;
    struct fetch_plan plan;

    fetch_session_begin(&sessions, ask_for(&ask, 0, FETCH_SESSION_EPOCH_NONE, 0, 3, 9), 13, 0, &plan);
    ck_assert_int_eq(plan.err, ERR_OK);
    ck_assert(!plan.incremental);
    ck_assert_uint_eq(plan.session->count, 3);
    ck_assert_int_eq(fetch_session_reply_id(plan.session), 0);
    ck_assert_int_eq(finish(plan.session), 0);
    ck_assert_int_eq(closed, 1);
}
END_TEST

START_TEST(an_incremental_fetch_continues_the_epoch)
{
    struct fetch_plan plan;
    int32_t id = open_session(2, 0);

    ck_assert_int_gt(id, 0);
    ck_assert_uint_eq(fetch_session_shard(id), SHARD);
    ck_assert_int_eq(begin(id, 1, 13, &plan), ERR_OK);
    ck_assert(plan.incremental);
    ck_assert(list_is_empty(&plan.session->changed));
    ck_assert_int_eq(finish(plan.session), id);
    ck_assert_int_eq(begin(id, 2, 13, &plan), ERR_OK);
    ck_assert_int_eq(finish(plan.session), id);
    /* Trap B031. */
    ck_assert_int_eq(begin(id, 2, 13, &plan), ERR_INVALID_FETCH_SESSION_EPOCH);
    ck_assert_int_eq(begin(id, 9, 13, &plan), ERR_INVALID_FETCH_SESSION_EPOCH);
    ck_assert_int_eq(begin(id + 256, 3, 13, &plan), ERR_FETCH_SESSION_ID_NOT_FOUND);
    ck_assert_int_eq(begin(0, 3, 13, &plan), ERR_FETCH_SESSION_ID_NOT_FOUND);
    ck_assert_int_eq(begin(id, 3, 12, &plan), ERR_FETCH_SESSION_TOPIC_ID_ERROR);
    ck_assert_int_eq(begin(id, 3, 13, &plan), ERR_OK);
    ck_assert_int_eq(finish(plan.session), id);
}
END_TEST

START_TEST(the_epoch_wraps_to_one)
{
    struct fetch_plan plan;
    int32_t id = open_session(1, 0);

    ck_assert_int_eq(begin(id, 1, 13, &plan), ERR_OK);
    plan.session->next_epoch = INT32_MAX;
    (void)finish(plan.session);
    ck_assert_int_eq(begin(id, INT32_MAX, 13, &plan), ERR_OK);
    (void)finish(plan.session);
    ck_assert_int_eq(begin(id, 1, 13, &plan), ERR_OK);
    (void)finish(plan.session);
}
END_TEST

START_TEST(partitions_come_change_and_go)
{
    struct ask ask;
    struct fetch_plan plan;
    int32_t id = open_session(2, 0);
    struct fetch_entry *entry = NULL;

    fetch_session_begin(&sessions, ask_for(&ask, id, 1, 1, 2, 77), 13, 0, &plan); /* 1 moves on, 2 is new */
    ck_assert_int_eq(plan.err, ERR_OK);
    ck_assert_uint_eq(plan.session->count, 3);
    entry = LIST_ENTRY(list_first(&plan.session->changed), struct fetch_entry, changed);
    ck_assert_int_eq(entry->index, 1);
    ck_assert_int_eq(entry->offset, 77);
    (void)finish(plan.session);
    (void)ask_for(&ask, id, 2, 0, 0, 0);
    fetch_session_begin(&sessions, forget(&ask, 0), 13, 0, &plan);
    ck_assert_int_eq(plan.err, ERR_OK);
    ck_assert_uint_eq(plan.session->count, 2);
    ck_assert(!list_is_empty(&plan.session->forgotten));
    ck_assert_int_eq(finish(plan.session), id);
}
END_TEST

START_TEST(an_emptied_session_is_closed)
{
    struct ask ask;
    struct fetch_plan plan;
    int32_t id = open_session(1, 0);

    (void)ask_for(&ask, id, 1, 0, 0, 0);
    fetch_session_begin(&sessions, forget(&ask, 0), 13, 0, &plan);
    ck_assert_int_eq(plan.err, ERR_OK);
    ck_assert_int_eq(finish(plan.session), 0);
    ck_assert_int_eq(closed, 1);
    ck_assert_int_eq(begin(id, 2, 13, &plan), ERR_FETCH_SESSION_ID_NOT_FOUND);
}
END_TEST

START_TEST(a_full_fetch_replaces_or_closes_the_session_it_names)
{
    struct ask ask;
    struct fetch_plan plan;
    int32_t first = open_session(1, 0);
    int32_t second = 0;

    fetch_session_begin(&sessions, ask_for(&ask, first, 0, 0, 2, 0), 13, 0, &plan);
    second = finish(plan.session);
    ck_assert_int_gt(second, 0);
    ck_assert_int_ne(second, first);
    ck_assert_int_eq(begin(first, 1, 13, &plan), ERR_FETCH_SESSION_ID_NOT_FOUND);
    fetch_session_begin(&sessions, ask_for(&ask, second, -1, 0, 1, 0), 13, 0, &plan);
    ck_assert_int_eq(finish(plan.session), 0);
    ck_assert_int_eq(begin(second, 1, 13, &plan), ERR_FETCH_SESSION_ID_NOT_FOUND);
}
END_TEST

START_TEST(a_slot_is_taken_from_the_idle_only)
{
    struct fetch_plan plan;
    int32_t first = open_session(1, 0);
    int32_t second = open_session(1, 10);

    ck_assert_int_eq(open_session(1, FETCH_SESSION_IDLE_NS - 1), 0); /* both are fresh: a full fetch without one */
    ck_assert_int_gt(open_session(1, FETCH_SESSION_IDLE_NS), 0);
    ck_assert_uint_eq(sessions.evictions, 1);
    ck_assert_int_eq(begin(first, 1, 13, &plan), ERR_FETCH_SESSION_ID_NOT_FOUND);
    ck_assert_int_eq(begin(second, 1, 13, &plan), ERR_OK);
    (void)finish(plan.session);
}
END_TEST

START_TEST(a_session_in_use_outlives_its_closing)
{
    struct ask ask;
    struct fetch_plan busy;
    struct fetch_plan plan;
    int32_t id = open_session(1, 0);

    ck_assert_int_eq(begin(id, 1, 13, &busy), ERR_OK);
    ck_assert_int_eq(begin(id, 2, 13, &plan), ERR_INVALID_FETCH_SESSION_EPOCH);
    fetch_session_begin(&sessions, ask_for(&ask, id, -1, 0, 1, 0), 13, 0, &plan);
    (void)finish(plan.session);
    ck_assert_int_eq(closed, 1);
    ck_assert_int_eq(finish(busy.session), 0);
    ck_assert_int_eq(closed, 2);
}
END_TEST

/* KIP-227: what changed is told; an error makes the partition show up again when it is over. */
START_TEST(an_incremental_reply_shows_what_changed)
{
    struct fetch_entry entry = {.told_high_watermark = -1, .told_log_start = -1};

    ck_assert(fetch_entry_shows(&entry, true, ERR_OK, 0, false, 10, 0));
    ck_assert(!fetch_entry_shows(&entry, true, ERR_OK, 0, false, 10, 0));
    ck_assert(fetch_entry_shows(&entry, false, ERR_OK, 0, false, 10, 0));
    ck_assert(fetch_entry_shows(&entry, true, ERR_OK, 5, false, 10, 0));
    ck_assert(fetch_entry_shows(&entry, true, ERR_OK, 0, false, 11, 0));
    ck_assert(fetch_entry_shows(&entry, true, ERR_OK, 0, false, 11, 3));
    ck_assert(fetch_entry_shows(&entry, true, ERR_OK, 0, true, 11, 3));
    ck_assert(fetch_entry_shows(&entry, true, ERR_NOT_LEADER_OR_FOLLOWER, 0, false, 11, 3));
    ck_assert(fetch_entry_shows(&entry, true, ERR_OK, 0, false, 11, 3));
    ck_assert(!fetch_entry_shows(&entry, true, ERR_OK, 0, false, 11, 3));
}
END_TEST

START_TEST(many_partitions_are_found_again)
{
    struct ask ask;
    struct fetch_plan plan;
    int32_t id = open_session(32, 0);

    for (int32_t epoch = 1; epoch <= 32; epoch++) {
        fetch_session_begin(&sessions, ask_for(&ask, id, epoch, epoch - 1, 1, epoch), 13, 0, &plan);
        ck_assert_int_eq(plan.err, ERR_OK);
        ck_assert_uint_eq(plan.session->count, 32);
        (void)finish(plan.session);
    }
}
END_TEST

START_TEST(by_name_a_stale_entry_gives_way_to_a_fresh_one)
{
    struct ask ask;
    struct fetch_plan plan;
    struct fetch_entry *entry = NULL;

    fetch_session_begin(&sessions, ask_for(&ask, 0, 0, 0, 1, 7), 12, 0, &plan);
    ck_assert_int_eq(plan.err, ERR_OK);
    entry = LIST_ENTRY(list_first(&plan.session->entries), struct fetch_entry, node);
    ck_assert(bytes_equal(entry->name, BYTES_LITERAL("t")));
    entry->stale = true;
    plan.session->stale_count = 1;
    ck_assert_int_eq(fetch_session_renew(plan.session, entry), ERR_OK);
    ck_assert_uint_eq(plan.session->count, 1);
    ck_assert_uint_eq(plan.session->stale_count, 0);
    entry = LIST_ENTRY(list_first(&plan.session->entries), struct fetch_entry, node);
    ck_assert(!entry->stale);
    ck_assert_int_eq(entry->offset, 7);
    (void)finish(plan.session);
}
END_TEST

/* A frame of 32 KB can say a hundred thousand times its topic's name. */
START_TEST(names_count_for_each_partition)
{
    static uint8_t name[INT16_MAX];
    struct ask ask;
    struct fetch_plan plan;

    memset(name, 'n', sizeof(name));
    for (int32_t count = 31; count <= 32; count++) { /* 32 of them are a megabyte */
        struct fetch_request *request = ask_for(&ask, 0, -1, 0, count, 0);

        ask.topic.topic = bytes_of(name, sizeof(name));
        fetch_session_begin(&sessions, request, 12, 0, &plan);
        ck_assert_int_eq(plan.err, count == 31 ? ERR_OK : ERR_LIMIT);
        if (plan.session != NULL)
            (void)finish(plan.session);
    }
    ck_assert_uint_eq(sessions.bytes, 0);
}
END_TEST

/* What is kept for fetchers that may never come back has a bound of its own, and growing counts like opening. */
START_TEST(what_is_kept_is_bounded)
{
    static uint8_t name[INT16_MAX];
    struct ask ask;
    struct fetch_plan plan;
    struct fetch_request *request = NULL;
    int32_t ids[2] = {0, 0};

    memset(name, 'n', sizeof(name));
    for (int i = 0; i < 2; i++) { /* of a megabyte and a half */
        request = ask_for(&ask, 0, 0, 0, i == 0 ? 30 : 20, 0);
        ask.topic.topic = bytes_of(name, sizeof(name));
        fetch_session_begin(&sessions, request, 12, 0, &plan);
        ck_assert_int_eq(plan.err, ERR_OK);
        ids[i] = finish(plan.session);
    }
    ck_assert_int_ne(ids[0], 0);
    ck_assert_int_eq(ids[1], 0);
    request = ask_for(&ask, 0, 0, 0, 10, 0);
    ask.topic.topic = bytes_of(name, sizeof(name));
    fetch_session_begin(&sessions, request, 12, 0, &plan);
    ids[1] = finish(plan.session);
    ck_assert_int_ne(ids[1], 0);
    request = ask_for(&ask, ids[1], 1, 10, 10, 0);
    ask.topic.topic = bytes_of(name, sizeof(name));
    fetch_session_begin(&sessions, request, 12, 0, &plan);
    ck_assert_int_eq(plan.err, ERR_OK);
    ck_assert_int_eq(finish(plan.session), 0); /* answered, and closed */
    ck_assert_int_eq(begin(ids[1], 2, 12, &plan), ERR_FETCH_SESSION_ID_NOT_FOUND);
    ck_assert_int_eq(begin(ids[0], 1, 12, &plan), ERR_OK);
    ck_assert_int_eq(finish(plan.session), ids[0]);
}
END_TEST

/* max - 1, max and max + 1 partitions; what a session has stays as it was when more are refused. */
START_TEST(so_many_partitions_and_no_more)
{
    const struct fetch_session_limits roomy = {.one_bytes_max = SIZE_MAX, .cached_bytes_max = SIZE_MAX};
    struct fetch_request_fetch_partition *partitions =
        mem_calloc(FETCH_PARTITIONS_MAX + 1, sizeof(struct fetch_request_fetch_partition));
    struct fetch_plan plan;
    struct ask ask;
    int32_t id = 0;

    ck_assert_ptr_nonnull(partitions);
    sessions.limits = roomy;
    for (int32_t i = 0; i <= FETCH_PARTITIONS_MAX; i++) {
        fetch_request_fetch_partition_init(&partitions[i]);
        partitions[i].partition = i;
    }
    (void)ask_for(&ask, 0, 0, 0, 1, 0);
    ask.topic.partitions = partitions;
    ask.topic.partitions_count = FETCH_PARTITIONS_MAX + 1;
    fetch_session_begin(&sessions, &ask.request, 13, 0, &plan);
    ck_assert_int_eq(plan.err, ERR_LIMIT);
    ck_assert_ptr_null(plan.session);
    ask.topic.partitions_count = FETCH_PARTITIONS_MAX - 1;
    fetch_session_begin(&sessions, &ask.request, 13, 0, &plan);
    ck_assert_int_eq(plan.err, ERR_OK);
    id = finish(plan.session);
    ck_assert_int_ne(id, 0);
    for (int32_t more = 0; more <= 1; more++) {
        (void)ask_for(&ask, id, 1 + more, FETCH_PARTITIONS_MAX - 1 + more, 1, 0);
        fetch_session_begin(&sessions, &ask.request, 13, 0, &plan);
        ck_assert_int_eq(plan.err, more == 0 ? ERR_OK : ERR_LIMIT);
        if (more > 0)
            break;
        ck_assert_uint_eq(plan.session->count, FETCH_PARTITIONS_MAX);
        ck_assert_int_eq(finish(plan.session), id);
    }
    fetch_sessions_close_all(&sessions);
    mem_free(partitions);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fetch_session");
    TCase *tcase = tcase_create("fetch_session");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, without_a_session_everything_ends_with_the_reply);
    tcase_add_test(tcase, an_incremental_fetch_continues_the_epoch);
    tcase_add_test(tcase, the_epoch_wraps_to_one);
    tcase_add_test(tcase, partitions_come_change_and_go);
    tcase_add_test(tcase, an_emptied_session_is_closed);
    tcase_add_test(tcase, a_full_fetch_replaces_or_closes_the_session_it_names);
    tcase_add_test(tcase, a_slot_is_taken_from_the_idle_only);
    tcase_add_test(tcase, a_session_in_use_outlives_its_closing);
    tcase_add_test(tcase, an_incremental_reply_shows_what_changed);
    tcase_add_test(tcase, many_partitions_are_found_again);
    tcase_add_test(tcase, by_name_a_stale_entry_gives_way_to_a_fresh_one);
    tcase_add_test(tcase, names_count_for_each_partition);
    tcase_add_test(tcase, what_is_kept_is_bounded);
    tcase_add_test(tcase, so_many_partitions_and_no_more);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
