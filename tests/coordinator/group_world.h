/*
 * group_world: the group cores in a world of text: a table of topics, a log that is a list of records, and a transcript
 * of everything that goes in and comes out.
 *
 *   world_open(&world);
 *   world_topic(&world, "t", 3);
 *   call = world_ask(&world, "a", ASK_JOIN_GROUP, 9, "g", &request);      says "a: JoinGroup g {...}", records, answers
 *   world_advance(&world, 3000);                                        time passes; timers fire on the way
 *   world_restart(&world);                                              a new core, from the records alone
 *   transcript_expect(&world.said, "join");
 *   world_close(&world);
 */
#ifndef OTTLA_TESTS_COORDINATOR_GROUP_WORLD_H
#define OTTLA_TESTS_COORDINATOR_GROUP_WORLD_H

#include "coordinator/groups.h"
#include "transcript/transcript.h"

enum { WORLD_TOPICS_MAX = 256, WORLD_CALLS_MAX = 1024, WORLD_RECORDS_MAX = 16 * 1024, WORLD_CONFIGS_MAX = 16 };

/* One operation, from its question to its answer. */
struct world_call {
    struct group_op op;
    char label[32];
    struct arena arena;
    void *response; /* of the type that goes with op.ask */
    bool answered;  /* and released: what it saw is committed */
    bool decided;   /* it waits for the commit */
    struct group_world *world;
};

struct world_record {
    int64_t producer_id;
    struct bytes key, value;
};

struct world_config {
    struct bytes group, name, value;
};

struct group_world {
    struct groups *groups;
    struct group_settings settings;
    struct group_topics topics;
    struct group_topic table[WORLD_TOPICS_MAX];
    uint32_t topic_count;
    uint64_t topics_told;                 /* one by one, to whoever asked for them by name */
    struct bytes racks[WORLD_TOPICS_MAX]; /* of every replica of that topic; null: none */
    struct world_config configs[WORLD_CONFIGS_MAX];
    uint32_t config_count;
    struct step step;
    struct step_sink sink;
    struct counting_rng rng;
    int64_t now_ns;
    int64_t now_ms;                                                            /* wall */
    struct bytes client_id;                                                    /* of whoever asks; null: its label */
    bool hold;                                                                 /* answers wait for world_commit */
    bool quiet;                                                                /* nothing is said (simulation) */
    bool (*may_describe_topic)(const struct group_op *op, struct bytes topic); /* of every question; NULL: all */
    enum err fail;                                                             /* the next record fails with it */
    bool clock_doubted;
    bool require_stable;          /* of the questions asked from here on */
    size_t arena_bytes;           /* of each question's arena */
    uint32_t failed;              /* steps that took the state with them */
    uint32_t loads;               /* of the records, those that failed too */
    void (*core_runs)(bool runs); /* told whose memory it is that is asked for now, the core's or not; NULL: nobody */
    size_t batch_room;            /* of one step, as step_record_bytes counts */
    size_t batch_used;            /* by this one */
    int64_t producer_id;          /* of the records written from here on; -1 */
    struct world_record records[WORLD_RECORDS_MAX];
    uint32_t record_count;
    uint32_t step_from; /* the first record of the step under way */
    struct world_call *calls[WORLD_CALLS_MAX];
    uint32_t call_count;
    struct transcript said;
};

/* Time begins at 1000 s after the epoch. Settings are the defaults; change them before the first question. */
void world_open(struct group_world *world);
void world_close(struct group_world *world);
/* Adds a topic (ids count from 1), or changes its partitions; tells the groups. 0 partitions: deletes it. */
void world_topic(struct group_world *world, const char *name, uint32_t partitions);
void world_group_config(struct group_world *world, const char *group, const char *name, const char *value);
/* Asks; the call lives until world_close. request: borrowed until it is answered. client host: "/127.0.0.1", client id:
 * the label. */
struct world_call *world_ask(struct group_world *world, const char *label, enum group_ask ask, int16_t version,
                             const char *group, const void *request);
/* Lets the held answers go. */
void world_commit(struct group_world *world);
void world_advance(struct group_world *world, int64_t ms);
/* Whoever waits is answered ERR_NOT_COORDINATOR; the records make a new core, at the second try if memory is short. */
void world_restart(struct group_world *world);
/* Another core from the records, nothing of which runs: world->groups is its place, and its end groups_free. */
MUST_CHECK enum err world_replay(struct group_world *world);
/* The calls from that one on, all answered, are over. */
void world_forget_calls(struct group_world *world, uint32_t from);
/* A marker of the producer in the log. */
void world_marker(struct group_world *world, int64_t producer_id, bool committed);
void world_say(struct group_world *world, const char *text);

#endif
