/*
 * group_command: the parts of `ottla group`, and what its command line says.
 *
 * Threads  the main thread.
 */
#ifndef OTTLA_CLI_GROUP_COMMAND_H
#define OTTLA_CLI_GROUP_COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/group_facts.h"
#include "cli/kafka_client.h"

enum { GROUP_ARGUMENTS_MAX = 1024 };

enum group_reset_how {
    RESET_NONE,
    RESET_TO_EARLIEST,
    RESET_TO_LATEST,
    RESET_TO_OFFSET,   /* number */
    RESET_SHIFT_BY,    /* number */
    RESET_TO_DATETIME, /* number: ms since the epoch */
    RESET_BY_DURATION, /* number: ms */
    RESET_TO_CURRENT,
    RESET_FROM_FILE, /* text */
};

struct group_options {
    const char *bootstrap;
    const char *http; /* NULL: where the coordinator says its listener is */
    int64_t timeout_ms;
    bool json;
    bool all;
    const char *state;
    const char *type;
    const char *groups[GROUP_ARGUMENTS_MAX];
    uint32_t group_count;
    const char *topics[GROUP_ARGUMENTS_MAX]; /* name, or name:0,1 */
    uint32_t topic_count;
    bool all_topics;
    enum group_reset_how how;
    int64_t number;
    const char *text;
    bool execute;
    bool dry_run;
    const char *undo; /* NULL: a name of its own in the working directory */
};

/* Each gives the exit code. The client is open. */
int group_command_list(const struct group_options *options, struct kafka_client *client);
int group_command_describe(const struct group_options *options, struct kafka_client *client);
int group_command_lag(const struct group_options *options, struct kafka_client *client);
int group_command_history(const struct group_options *options, struct kafka_client *client);
int group_command_reset(const struct group_options *options, struct kafka_client *client);
int group_command_delete(const struct group_options *options, struct kafka_client *client);

/* Says on standard error what client->message says; EXIT_FAILURE. */
int group_command_fail(const struct kafka_client *client);
/* The address of the HTTP listener of the node that coordinates the group. False: there is none, client->message says
 * why not. */
bool group_command_http(const struct group_options *options, struct kafka_client *client, int32_t coordinator,
                        struct net_address *address);
/* GET of /groups/ID/what, the id escaped; NULL: client->message. */
json_t *group_command_get(struct kafka_client *client, const struct net_address *address, struct bytes group_id,
                          const char *what);
/* The topic's partitions that "name" or "name:0,1" means. ERR_USAGE: client->message. */
MUST_CHECK enum err group_command_partitions(struct kafka_client *client, const char *argument, struct bytes *topic,
                                             int32_t **partitions, uint32_t *count);
/* "2026-11-30T02:46:07.000Z", "...Z", "...+01:00" or without a zone (UTC), in ms since the epoch. */
bool group_command_parse_time(const char *text, int64_t *ms);
/* ISO 8601: "P3DT4H", "PT90S", in ms. */
bool group_command_parse_duration(const char *text, int64_t *ms);

#endif
