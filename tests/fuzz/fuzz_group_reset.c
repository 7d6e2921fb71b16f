/*
 * A file for `ottla group reset --from-file` out of any bytes. Shows: none crash, hang or leak; what is refused says
 * why, and a line says which; what is read is in its bounds; and the file that undoes it, read again, says the same.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "cli/group_reset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_BYTES_MAX = 16 * 1024 * 1024, NAME_CHARS_MAX = 64 };

#define GROUP BYTES_LITERAL("g")

static enum err read_file(struct kafka_client *client, const char *path, struct reset_plan *plan)
{
    struct group_options options = {.text = path};
    enum err err = ERR_OK;

    client->message[0] = '\0';
    err = group_reset_read(&options, client, GROUP, plan);
    assert(err == ERR_OK || client->message[0] != '\0');
    assert(err == ERR_OK || err == ERR_USAGE || err == ERR_NOMEM);
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct reset_change *row = &plan->rows[i];

        assert(row->topic.size > 0 && row->partition >= 0 && row->after >= -1 && row->after_epoch >= -1);
        assert(row->exact || (row->after_epoch == -1 && row->after_metadata.size == 0));
    }
    return err;
}

/* Whether Apache Kafka has topics of that name: no other gets as far as a reset. */
static bool is_name(struct bytes topic)
{
    for (size_t i = 0; i < topic.size; i++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", topic.data[i]) == NULL ||
            topic.data[i] == '\0')
            return false;
    return true;
}

/* What was to be becomes what was. */
static void turn_round(struct reset_plan *plan)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < plan->count; i++) {
        struct reset_change row = plan->rows[i];

        if (!is_name(row.topic))
            continue;
        row.before = row.after;
        row.before_epoch = row.after_epoch;
        row.before_metadata = row.after_metadata;
        row.end = row.exact ? row.start : INT64_MAX; /* three fields say that an offset lies in the log */
        plan->rows[kept++] = row;
    }
    plan->count = kept;
}

static void check_undo(struct kafka_client *client, struct reset_plan *plan)
{
    struct reset_plan again = {0};
    char path[NAME_CHARS_MAX];
    enum err err = ERR_OK;

    (void)snprintf(path, sizeof(path), "/dev/shm/ottla-undo-%d", (int)getpid());
    (void)unlink(path);
    err = group_reset_write_undo(client, plan, path);
    if (err == ERR_OK)
        err = read_file(client, path, &again);
    (void)unlink(path);
    if (err == ERR_NOMEM) /* the arena's end */
        goto out;
    assert(err == ERR_OK && again.count == plan->count);
    for (uint32_t i = 0; i < again.count; i++) {
        const struct reset_change *was = &plan->rows[i];
        const struct reset_change *is = &again.rows[i];

        assert(bytes_equal(is->topic, was->topic) && is->partition == was->partition && is->after == was->after);
        /* Of what was never committed there is nothing else to say. */
        assert(was->after < 0 || is->after_epoch == was->after_epoch);
        assert(was->after < 0 || bytes_equal(is->after_metadata, was->after_metadata));
    }
out:
    mem_free(again.rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kafka_client client;
    struct reset_plan plan = {0};
    char path[NAME_CHARS_MAX];
    int file = memfd_create("reset", 0);

    assert(file >= 0);
    if (size > 0 && write(file, data, size) != (ssize_t)size)
        abort();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    memset(&client, 0, sizeof(client));
    arena_init(&client.arena, ARENA_BYTES_MAX);
    if (read_file(&client, path, &plan) == ERR_OK) {
        turn_round(&plan);
        if (plan.count > 0)
            check_undo(&client, &plan);
    }
    mem_free(plan.rows);
    arena_deinit(&client.arena);
    (void)close(file);
    return 0;
}
