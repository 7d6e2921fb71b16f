/*
 * group_reset: what `ottla group reset` is about to do, and the files that say so: the one it reads (--from-file) and
 * the one that undoes it.
 *
 * Threads  one.
 */
#ifndef OTTLA_CLI_GROUP_RESET_H
#define OTTLA_CLI_GROUP_RESET_H

#include "cli/group_command.h"

enum { GROUP_RESET_NAME_CHARS_MAX = 512 };

/* One partition, and what becomes of it. */
struct reset_change {
    struct bytes topic;
    int32_t partition;
    int64_t before; /* -1: nothing is committed */
    int64_t after;  /* -1: nothing is to be */
    /* What is committed with it; epochs -1: none. */
    int32_t before_epoch, after_epoch;
    struct bytes before_metadata, after_metadata;
    int64_t start, end;
    bool exact;   /* after is what was committed once, wherever the log is now */
    bool bounded; /* after was outside of the log, and is its nearest end now */
};

struct reset_plan {
    struct reset_change *rows;
    uint32_t count;
    uint32_t room;
};

/* A row, with nothing committed yet. ERR_NOMEM: client->message, as all here. */
MUST_CHECK enum err group_reset_add(struct kafka_client *client, struct reset_plan *plan, struct bytes topic,
                                    int32_t partition, int64_t after);
/* ERR_USAGE, and why. */
enum err group_reset_usage(struct kafka_client *client, const char *message);
/* Rows of the file that options->text names: topic,partition,offset, or with a group in front, as Apache Kafka's tool
 * has them; those of other groups are passed over. Or topic,partition,offset,leader epoch,"metadata": all that was
 * committed, exactly; \xNN in the metadata stands for a byte that is not printable ASCII, a quotation mark or a \. */
MUST_CHECK enum err group_reset_read(const struct group_options *options, struct kafka_client *client,
                                     struct bytes group, struct reset_plan *plan);
/* A name of the group and the time. */
void group_reset_undo_name(struct kafka_client *client, struct bytes group, char name[GROUP_RESET_NAME_CHARS_MAX]);
/* On the disk before anything is replaced. A file of that name is left alone. Rows have three fields where these say
 * all, so that Apache Kafka's tool reads them, too. */
MUST_CHECK enum err group_reset_write_undo(struct kafka_client *client, const struct reset_plan *plan,
                                           const char *name);

#endif
