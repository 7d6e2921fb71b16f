/* Partitions move between two log directories, again and again, under load. Either directory fails at some call, for
 * once or for good; the node starts without one of them; the process dies at any call, or the power goes; in some runs
 * topics are deleted while they move. Whatever anyone was told is served from one place that has all of it, or waits
 * for its directory. A move ends where it was asked to, or says why not. Once it all stops every partition still moves,
 * and nothing of moves is left. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "partition/log_path.h"
#include "protocol/gen/alter_replica_log_dirs.h"
#include "sim/crowd.h"

enum {
    DIRS = 2,
    ALTER_VERSION = 2,
    PAUSE_NS_MAX = 60 * 1000 * 1000,
    CRASHES_MAX = 12,
    CALLS_LOG2_MAX = 13, /* a fault is met within this many calls */
    SERVED_STEPS = 16,   /* what is served is looked at so often */
    START_SECONDS = 60,
    LOOK_NS = 1000 * 1000 * 1000,
};

/* The first has the metadata. */
static const char *const dirs[DIRS] = {"/data", "/other"};

enum phase { MOVING, QUIET, ASKED, GOING, CLEANING, SETTLED };

/* What is known of one partition's moves. */
struct mover_partition {
    struct crowd_topic *topic;      /* that it was asked for */
    const char *wanted;             /* where it has to end; NULL: anywhere */
    const struct crowd_topic *seen; /* that was looked at last */
    const char *going_to;           /* as it was seen then; NULL: it did not move */
    uint64_t lines;                 /* heard by then */
    bool asked;                     /* to go elsewhere since */
};

struct mover {
    struct crowd *crowd;
    struct sim_client client;
    struct sim_call call;
    struct sim_event next;
    struct mover_partition partitions[CROWD_TOPICS][CROWD_PARTITIONS_MAX];
    struct crowd_topic *topics[CROWD_TOPICS]; /* when it was asked, and not going */
    uint32_t counts[CROWD_TOPICS];            /* of partitions, then */
    bool mentioned[DIRS][CROWD_TOPICS][CROWD_PARTITIONS_MAX];
    bool troubled; /* something failed, or was away, since it was asked */
    bool busy;
    bool away;             /* the node runs without the second directory */
    uint64_t lines;        /* that tell of moves which came to nothing */
    uint64_t lines_before; /* of them, when it was looked last */
    enum phase phase;
    int64_t look_ns;
};

static struct mover *mover_of(const struct crowd *crowd)
{
    return crowd->habits->context;
}

/* ---- asking ---- */

static struct crowd_topic *living_topic(const struct crowd *crowd, uint32_t slot)
{
    return crowd->topics[slot] == NULL || crowd->topics[slot]->going ? NULL : crowd->topics[slot];
}

static uint32_t slot_named(struct bytes name)
{
    uint32_t slot = 0;

    while (!bytes_equal(crowd_topic_name(slot), name)) {
        slot++;
        assert(slot < CROWD_TOPICS);
    }
    return slot;
}

static void on_answer(struct mover *mover, uint32_t slot, int32_t index, enum err err)
{
    struct mover_partition *partition = &mover->partitions[slot][index];
    struct crowd_topic *topic = mover->topics[slot];
    bool is_there = topic != NULL && topic == living_topic(mover->crowd, slot);
    bool explained = false;

    switch (err) {
    case ERR_OK:
        explained = true;
        break;
    case ERR_UNKNOWN_TOPIC_OR_PARTITION:
        explained = !is_there || index >= (int32_t)mover->counts[slot];
        break;
    case ERR_KAFKA_STORAGE_ERROR:
    case ERR_REPLICA_NOT_AVAILABLE:
        explained = !is_there || mover->troubled || mover->away || sim_fs_fault_struck(&mover->crowd->disk);
        break;
    default:
        break;
    }
    explained = explained && (mover->phase < ASKED || err == ERR_OK); /* in the end nothing stands in the way */
    if (!explained)
        fprintf(stderr, "move: not explained: topic=%u partition=%d err=%s\n", slot, index, err_name(err));
    assert(explained);
    if (err != ERR_OK || !is_there || mover->troubled)
        return;
    partition->topic = topic;
    partition->wanted = dirs[mover->mentioned[0][slot][index] ? 0 : 1];
}

static void on_answered(struct sim_call *call, enum err err)
{
    struct mover *mover = (struct mover *)(void *)((char *)call - offsetof(struct mover, call));
    struct crowd *crowd = mover->crowd;
    const struct alter_replica_log_dirs_response *response = call->response;

    for (uint32_t i = 0; err == ERR_OK && i < response->results_count; i++)
        for (uint32_t j = 0; j < response->results[i].partitions_count; j++)
            on_answer(mover, slot_named(response->results[i].topic_name),
                      response->results[i].partitions[j].partition_index,
                      err_from_wire(response->results[i].partitions[j].error_code));
    if (err == ERR_OK)
        arena_deinit(&call->arena);
    mover->busy = false;
    if (mover->phase == ASKED) {
        assert(err == ERR_OK);
        mover->phase = GOING;
    } else if (!crowd->over) {
        sim_event_add(&crowd->sim, &mover->next, crowd->sim.mono_ns + 1 + (int64_t)sim_draw(&crowd->sim, PAUSE_NS_MAX));
    }
}

static uint32_t add_topics(struct mover *mover, uint32_t dir, struct alter_replica_log_dir_topic *topics,
                           int32_t indexes[CROWD_TOPICS][CROWD_PARTITIONS_MAX])
{
    uint32_t count = 0;

    for (uint32_t slot = 0; slot < CROWD_TOPICS; slot++) {
        struct alter_replica_log_dir_topic *topic = &topics[count];

        alter_replica_log_dir_topic_init(topic);
        topic->name = crowd_topic_name(slot);
        topic->partitions = indexes[slot];
        for (int32_t p = 0; p < CROWD_PARTITIONS_MAX; p++) {
            struct mover_partition *partition = &mover->partitions[slot][p];

            if (!mover->mentioned[dir][slot][p])
                continue;
            partition->wanted = NULL;
            partition->asked = true;
            indexes[slot][topic->partitions_count++] = p;
        }
        count += topic->partitions_count > 0;
    }
    return count;
}

/* What is mentioned is to move. */
static void ask(struct mover *mover)
{
    struct alter_replica_log_dirs_request request;
    struct alter_replica_log_dir alter[DIRS];
    struct alter_replica_log_dir_topic topics[DIRS][CROWD_TOPICS];
    int32_t indexes[DIRS][CROWD_TOPICS][CROWD_PARTITIONS_MAX];

    alter_replica_log_dirs_request_init(&request);
    request.dirs = alter;
    request.dirs_count = DIRS;
    for (uint32_t i = 0; i < DIRS; i++) {
        alter_replica_log_dir_init(&alter[i]);
        alter[i].path = bytes_of_text(dirs[i]);
        alter[i].topics = topics[i];
        alter[i].topics_count = add_topics(mover, i, topics[i], indexes[i]);
    }
    for (uint32_t slot = 0; slot < CROWD_TOPICS; slot++) {
        mover->topics[slot] = living_topic(mover->crowd, slot);
        mover->counts[slot] = mover->topics[slot] == NULL ? 0 : mover->topics[slot]->partition_count;
    }
    mover->busy = true;
    mover->troubled = sim_fs_fault_struck(&mover->crowd->disk);
    mover->call.answered = on_answered;
    sim_client_call(&mover->client, &alter_replica_log_dirs_request_message, &request,
                    &alter_replica_log_dirs_response_message, ALTER_VERSION, &mover->call);
}

static void on_next(struct sim_event *event)
{
    struct mover *mover = (struct mover *)(void *)((char *)event - offsetof(struct mover, next));
    struct sim *sim = &mover->crowd->sim;

    if (mover->crowd->over)
        return;
    memset(mover->mentioned, 0, sizeof(mover->mentioned));
    for (uint64_t i = 1 + sim_draw(sim, 4); i > 0; i--) { /* of topics and partitions that may not be there */
        uint32_t slot = (uint32_t)sim_draw(sim, CROWD_TOPICS);
        uint32_t index = (uint32_t)sim_draw(sim, CROWD_PARTITIONS_MAX);
        uint32_t dir = (uint32_t)sim_draw(sim, DIRS);

        mover->mentioned[dir][slot][index] = true;
        mover->mentioned[1 - dir][slot][index] = false;
    }
    ask(mover);
}

/* ---- what has to hold ---- */

static void hear_line(void *context, struct bytes line)
{
    static const char *const ends[] = {"move given up", "move ended", "move refused", "move not known",
                                       "log directory failed"};
    struct mover *mover = context;

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        mover->lines += memmem(line.data, line.size, ends[i], strlen(ends[i])) != NULL;
    if (memmem(line.data, line.size, "move ended", strlen("move ended")) == NULL)
        return;
    for (uint32_t slot = 0; slot < CROWD_TOPICS; slot++)
        for (uint32_t p = 0; p < CROWD_PARTITIONS_MAX; p++) {
            char name[64];
            int size =
                snprintf(name, sizeof(name), "topic=%.*s partition=%u ", BYTES_PRINTF(crowd_topic_name(slot)), p);

            if (memmem(line.data, line.size, name, (size_t)size) != NULL)
                mover->partitions[slot][p].wanted = NULL; /* it has been said why */
        }
}

/* A move that is over has brought the log there, or left a line, or was called off. */
static void check_move(struct mover *mover, const struct crowd_topic *topic, uint32_t slot, int32_t index)
{
    struct mover_partition *partition = &mover->partitions[slot][index];
    const struct sim_node *node = &mover->crowd->node;
    const char *going_to = sim_node_moves_to(node, topic->id, index);
    const char *dir = sim_node_log_dir(node, topic->id, index);

    if (partition->seen != topic) /* the name was taken again */
        partition->going_to = NULL;
    partition->seen = topic;
    if (partition->going_to != NULL && going_to == NULL && dir != NULL && strcmp(dir, partition->going_to) != 0 &&
        !partition->asked && mover->lines == partition->lines) {
        fprintf(stderr, "move ended without a word: topic_id=%s partition=%d dir=%s to_dir=%s\n",
                uuid_format(topic->id).text, index, dir, partition->going_to);
        assert_failed("a line for each", __FILE__, __LINE__, __func__);
    }
    if (going_to != partition->going_to) {
        partition->lines = mover->lines_before;
        partition->asked = mover->busy && (mover->mentioned[0][slot][index] || mover->mentioned[1][slot][index]);
    }
    partition->going_to = going_to;
}

static void watch(struct crowd *crowd)
{
    struct mover *mover = mover_of(crowd);

    if (crowd->sim.steps % SERVED_STEPS != 0 || crowd->disk.dead)
        return;
    for (uint32_t slot = 0; slot < CROWD_TOPICS; slot++) {
        const struct crowd_topic *topic = living_topic(crowd, slot);

        for (int32_t p = 0; topic != NULL && p < (int32_t)topic->partition_count; p++) {
            assert(sim_node_serves(&crowd->node, topic->id, p, topic->partitions[p].end));
            check_move(mover, topic, slot, p);
        }
    }
    mover->lines_before = mover->lines;
}

/* ---- what befalls ---- */

/* Nothing that was asked before has to come about. */
static void forget(struct mover *mover)
{
    mover->troubled = true;
    for (uint32_t slot = 0; slot < CROWD_TOPICS; slot++)
        for (uint32_t p = 0; p < CROWD_PARTITIONS_MAX; p++)
            mover->partitions[slot][p] = (struct mover_partition){.topic = NULL};
}

static bool has_started(void *context)
{
    const struct crowd *crowd = context;

    return crowd->disk.dead || crowd->node.told;
}

static uint64_t some_calls(struct crowd *crowd)
{
    return 1 + sim_draw(&crowd->sim, UINT64_C(1) << sim_draw(&crowd->sim, CALLS_LOG2_MAX + 1));
}

/* False: it has died again in its start. */
static bool starts(struct crowd *crowd, bool may_die)
{
    struct mover *mover = mover_of(crowd);
    struct sim_fs *disk = &crowd->disk;

    if (!may_die) {
        if (mover->away) {
            sim_fs_set_fault(disk, SIM_FS_BREAK, SIM_FS_ANY, 1, ERR_IO);
            sim_fs_limit_fault(disk, dirs[1]);
        }
        sim_node_start(&crowd->node);
        return true;
    }
    sim_node_begin(&crowd->node);
    sim_fs_set_fault(disk, SIM_FS_DIE, SIM_FS_ANY, some_calls(crowd), ERR_IO);
    (void)sim_run(&crowd->sim, crowd->sim.mono_ns + (int64_t)START_SECONDS * 1000000000, has_started, crowd);
    assert(disk->dead || (crowd->node.told && crowd->node.outcome == ERR_OK));
    crowd->node.told = false;
    return !disk->dead;
}

static void die(struct crowd *crowd, bool goes_away)
{
    struct mover *mover = mover_of(crowd);
    bool may_die = false;

    mover->away = goes_away;
    do {
        crowd->outcome->crashes++;
        forget(mover);
        sim_node_kill(&crowd->node, crowd->habits->synced_acks && sim_chance(&crowd->sim, 50));
        may_die = !goes_away && crowd->outcome->crashes < CRASHES_MAX && sim_chance(&crowd->sim, 30);
    } while (!starts(crowd, may_die));
}

/* Any call; or one of those between which a log has two names, or none that is sure. */
static void die_somewhere(struct crowd *crowd)
{
    static const enum sim_fs_call kinds[] = {SIM_FS_RENAME, SIM_FS_SYNC_DIR, SIM_FS_MKDIR, SIM_FS_UNLINK};
    enum sim_fs_call kind = kinds[sim_draw(&crowd->sim, sizeof(kinds) / sizeof(kinds[0]))];

    if (sim_chance(&crowd->sim, 40))
        sim_fs_set_fault(&crowd->disk, SIM_FS_DIE, SIM_FS_ANY, some_calls(crowd), ERR_IO);
    else
        sim_fs_set_fault(&crowd->disk, SIM_FS_DIE, kind, 1 + sim_draw(&crowd->sim, 32), ERR_IO);
}

static void fail_somewhere(struct crowd *crowd)
{
    static const enum sim_fs_call kinds[] = {SIM_FS_ANY,   SIM_FS_ANY,      SIM_FS_OPEN,   SIM_FS_RENAME,
                                             SIM_FS_MKDIR, SIM_FS_SYNC_DIR, SIM_FS_UNLINK, SIM_FS_READ,
                                             SIM_FS_WRITE, SIM_FS_TRUNCATE, SIM_FS_SYNC};
    enum sim_fs_call kind = kinds[sim_draw(&crowd->sim, sizeof(kinds) / sizeof(kinds[0]))];
    enum sim_fs_fault fault = sim_chance(&crowd->sim, 50) ? SIM_FS_FAIL : SIM_FS_BREAK;
    uint64_t calls = 1 + some_calls(crowd) / (kind == SIM_FS_ANY ? 1 : 16);

    sim_fs_set_fault(&crowd->disk, fault, kind, calls, sim_chance(&crowd->sim, 30) ? ERR_NO_SPACE : ERR_IO);
    sim_fs_limit_fault(&crowd->disk, dirs[sim_chance(&crowd->sim, 75) ? 1 : 0]);
}

static void befall(struct crowd *crowd)
{
    struct mover *mover = mover_of(crowd);
    uint64_t what = sim_draw(&crowd->sim, 100);

    if (crowd->disk.dead) {
        die(crowd, false);
    } else if (mover->away || sim_fs_fault_struck(&crowd->disk)) {
        mover->troubled = true;
        if (what < 70)
            die(crowd, false);
    } else if (crowd->disk.fault != SIM_FS_NO_FAULT || crowd->outcome->crashes >= CRASHES_MAX) {
        return;
    } else if (what < 40) {
        die_somewhere(crowd);
    } else if (what < 65) {
        fail_somewhere(crowd);
    } else if (what < 75) {
        die(crowd, false);
    } else if (what < 90) {
        die(crowd, true);
    }
}

static void relent(struct crowd *crowd)
{
    struct mover *mover = mover_of(crowd);
    bool struck = sim_fs_fault_struck(&crowd->disk);

    sim_fs_set_fault(&crowd->disk, SIM_FS_NO_FAULT, SIM_FS_ANY, 1, ERR_OK);
    if (struck || mover->away || crowd->disk.dead) {
        mover->away = false;
        crowd->outcome->crashes++;
        forget(mover);
        crowd_kill(crowd, false);
    }
    mover->phase = QUIET;
}

/* ---- the end ---- */

/* Every partition goes to the directory that it is not in. False: one is not there yet. */
static bool turn_round(struct mover *mover)
{
    struct crowd *crowd = mover->crowd;

    memset(mover->mentioned, 0, sizeof(mover->mentioned));
    for (uint32_t slot = 0; slot < CROWD_TOPICS; slot++)
        for (int32_t p = 0; crowd->topics[slot] != NULL && p < (int32_t)crowd->topics[slot]->partition_count; p++) {
            const char *dir = sim_node_log_dir(&crowd->node, crowd->topics[slot]->id, p);

            if (dir == NULL)
                return false;
            mover->mentioned[strcmp(dir, dirs[0]) == 0 ? 1 : 0][slot][p] = true;
        }
    return true;
}

/* Each is where it was last asked to be. */
static void check_wanted(const struct mover *mover)
{
    const struct crowd *crowd = mover->crowd;

    for (uint32_t slot = 0; slot < CROWD_TOPICS; slot++)
        for (int32_t p = 0; p < CROWD_PARTITIONS_MAX; p++) {
            const struct mover_partition *partition = &mover->partitions[slot][p];

            if (partition->wanted == NULL || partition->topic != crowd->topics[slot])
                continue;
            const char *dir = sim_node_log_dir(&crowd->node, partition->topic->id, p);
            if (dir == NULL || strcmp(dir, partition->wanted) != 0)
                fprintf(stderr, "not where it was sent: topic_id=%s partition=%d dir=%s to_dir=%s\n",
                        uuid_format(partition->topic->id).text, p, dir == NULL ? "none" : dir, partition->wanted);
            assert(dir != NULL && strcmp(dir, partition->wanted) == 0);
        }
}

struct look {
    struct mover *mover;
    uint32_t dir;
    uint32_t found;
    bool deleting;
};

static enum err look_at(void *context, const char *name, bool is_directory)
{
    struct look *look = context;
    const struct crowd *crowd = look->mover->crowd;
    struct bytes topic;
    int32_t index = 0;
    enum log_dir_kind kind = is_directory ? log_path_parse_dir(name, &topic, &index) : LOG_DIR_KIND_OTHER;
    uint32_t slot = 0;
    const char *dir = NULL;

    look->deleting = look->deleting || kind == LOG_DIR_KIND_DELETE;
    assert(kind != LOG_DIR_KIND_FUTURE);
    assert(kind != LOG_DIR_KIND_STRAY || crowd->outcome->crashes > 0);
    if (kind != LOG_DIR_KIND_PARTITION || bytes_equal(topic, BYTES_LITERAL("__cluster_metadata")))
        return ERR_OK;
    slot = slot_named(topic);
    assert(crowd->topics[slot] != NULL && index < (int32_t)crowd->topics[slot]->partition_count);
    dir = sim_node_log_dir(&crowd->node, crowd->topics[slot]->id, index);
    assert(dir != NULL && strcmp(dir, dirs[look->dir]) == 0);
    look->found++;
    return ERR_OK;
}

/* One directory for each partition, and nothing else; strays only of what a crash left in two. False: of what was
 * deleted something is still on its way. */
static bool is_clean(struct mover *mover)
{
    struct look look = {.mover = mover};
    uint32_t partitions = 0;

    for (uint32_t slot = 0; slot < CROWD_TOPICS; slot++)
        partitions += mover->crowd->topics[slot] == NULL ? 0 : mover->crowd->topics[slot]->partition_count;
    for (look.dir = 0; look.dir < DIRS; look.dir++) {
        enum err err = fs_list(&mover->crowd->disk.fs, dirs[look.dir], look_at, &look);

        assert(err == ERR_OK);
    }
    assert(look.found == partitions);
    return !look.deleting;
}

static bool is_settled(struct crowd *crowd)
{
    struct mover *mover = mover_of(crowd);

    if (mover->busy || sim_node_is_moving(&crowd->node) || crowd->sim.mono_ns < mover->look_ns)
        return mover->phase == SETTLED;
    mover->look_ns = crowd->sim.mono_ns + LOOK_NS;
    if (mover->phase == QUIET) {
        check_wanted(mover);
        if (turn_round(mover)) {
            mover->phase = ASKED;
            ask(mover);
        }
    } else if (mover->phase == GOING) {
        check_wanted(mover);
        mover->phase = CLEANING;
    } else if (mover->phase == CLEANING && is_clean(mover)) {
        mover->phase = SETTLED;
    }
    return mover->phase == SETTLED;
}

static void begin(struct crowd *crowd)
{
    struct mover *mover = mover_of(crowd);
    struct net_address address = sim_node_address(&crowd->node);

    mover->crowd = crowd;
    mover->next.run = on_next;
    crowd->node.hear_line = hear_line;
    crowd->node.hear_context = mover;
    sim_client_init(&mover->client, &crowd->network.hosts[1], sim_loop_new(&crowd->sim, "mover", 0), &address, "mover");
    sim_event_add(&crowd->sim, &mover->next, crowd->sim.mono_ns + 1);
}

static void end(struct crowd *crowd)
{
    struct mover *mover = mover_of(crowd);

    sim_event_cancel(&crowd->sim, &mover->next);
    sim_client_deinit(&mover->client);
}

void dir_moves_run(uint64_t seed, bool chatty, struct sim_outcome *outcome)
{
    struct mover mover = {.phase = MOVING};
    struct crowd_habits habits = {
        .producers = 3,
        .consumers = 2,
        .administrator = seed % 2 == 0,
        .synced_acks = seed % 4 < 3,
        .storage_may_fail = true,
        .may_have_no_leader = true,
        .pause_ns_max = 10000000,
        .load_ns = INT64_C(5000000000),
        .settings = {"log.dirs=/data,/other", "log.segment.delete.delay.ms=500"},
        .begin = begin,
        .watch = watch,
        .befall = seed % 16 == 0 ? NULL : befall,
        .relent = relent,
        .is_settled = is_settled,
        .end = end,
        .context = &mover,
    };

    if (seed % 3 == 0) /* what a crash meets is half a copy then */
        habits.settings[2] = "replica.alter.log.dirs.io.max.bytes.per.second=200000";
    crowd_run(&habits, seed, chatty, outcome);
}
