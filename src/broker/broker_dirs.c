#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "broker/broker_internal.h"
#include "partition/sync_group.h"

enum err broker_dir_complain(char message[BROKER_MESSAGE_CHARS], enum err err, const char *path, const char *hint)
{
    (void)snprintf(message, BROKER_MESSAGE_CHARS, "log directory %s: %s%s%s", path, err_text(err),
                   hint[0] == '\0' ? "" : "; ", hint);
    return err;
}

static enum err split_dirs(struct broker *broker, char message[BROKER_MESSAGE_CHARS])
{
    const char *text = config_text(broker->config, CONFIG_LOG_DIRS);
    struct bytes rest;
    struct bytes item;
    char *at = NULL;

    if (text == NULL)
        text = config_text(broker->config, CONFIG_LOG_DIR);
    broker->dirs_text = mem_alloc(strlen(text) + 2);
    if (broker->dirs_text == NULL)
        return ERR_NOMEM;
    at = broker->dirs_text;
    rest = bytes_of_text(text);
    while (config_list_next(&rest, &item)) {
        if (broker->dir_count == BROKER_LOG_DIRS_MAX) {
            (void)snprintf(message, BROKER_MESSAGE_CHARS, "log.dirs: more than %d directories are not accepted",
                           BROKER_LOG_DIRS_MAX);
            return ERR_USAGE;
        }
        memcpy(at, item.data, item.size);
        at[item.size] = '\0';
        broker->dirs[broker->dir_count++].path = at;
        at += item.size + 1;
    }
    if (broker->dir_count == 0) {
        (void)snprintf(message, BROKER_MESSAGE_CHARS, "log.dirs: at least one directory is needed");
        return ERR_USAGE;
    }
    return ERR_OK;
}

static enum err cannot_use(const struct broker_dir *dir, enum err err, char message[BROKER_MESSAGE_CHARS])
{
    return broker_dir_complain(message, err, dir->path,
                               err == ERR_LOCKED       ? "each node needs directories of its own (log.dirs)"
                               : err == ERR_PERMISSION ? "it must be writable by the user that runs ottla"
                                                       : "");
}

static enum err find_metadata_dir(struct broker *broker, char message[BROKER_MESSAGE_CHARS])
{
    const char *metadata = config_text(broker->config, CONFIG_METADATA_LOG_DIR);

    for (uint32_t i = 0; metadata != NULL && i < broker->dir_count; i++)
        if (strcmp(metadata, broker->dirs[i].path) == 0) {
            broker->metadata_dir = i;
            return ERR_OK;
        }
    if (metadata == NULL)
        return ERR_OK;
    (void)snprintf(message, BROKER_MESSAGE_CHARS, "metadata.log.dir=%s is not accepted: one of log.dirs is", metadata);
    return ERR_USAGE;
}

/* Locked, and what it says of itself can be read; that it says nothing yet is for the formatter. is_formatted: out. */
static enum err open_dir(struct broker *broker, struct broker_dir *dir, bool *is_formatted)
{
    struct log_dir_meta meta;
    enum err err = log_dir_open(broker->env.fs, &broker->log, dir->path, &dir->dir);

    *is_formatted = false;
    if (err != ERR_OK)
        return err;
    err = log_dir_read_meta(dir->dir, &meta);
    *is_formatted = err == ERR_OK;
    return err == ERR_IO || err == ERR_PERMISSION ? err : ERR_OK;
}

/* A node that has run before goes on without a directory that it cannot use any more: the metadata name a directory for
 * each partition, so what lies there is led by nobody, and is not made anew elsewhere. */
static bool may_do_without(enum err err)
{
    return err != ERR_LOCKED && err != ERR_NOMEM && err != ERR_NO_DESCRIPTORS;
}

static void leave_dir_out(struct broker *broker, uint32_t at, enum err err)
{
    struct broker_dir *dir = &broker->dirs[at];

    log_error(&broker->log, "log directory cannot be used, its partitions are offline until a start can dir=%s err=%s",
              dir->path, err_name(err));
    if (dir->dir != NULL)
        log_dir_close(dir->dir);
    broker->absent[broker->absent_count++] = dir->path;
    broker->dir_count--;
    for (uint32_t i = at; i < broker->dir_count; i++) { /* nothing else of them is set yet */
        broker->dirs[i].path = broker->dirs[i + 1].path;
        broker->dirs[i].dir = broker->dirs[i + 1].dir;
    }
    broker->dirs[broker->dir_count].path = NULL;
    broker->dirs[broker->dir_count].dir = NULL;
    if (broker->metadata_dir > at)
        broker->metadata_dir--;
}

enum err broker_open_dirs(struct broker *broker, char message[BROKER_MESSAGE_CHARS])
{
    enum err err = split_dirs(broker, message);
    bool has_run = false;
    bool is_formatted = false;

    if (err == ERR_OK)
        err = find_metadata_dir(broker, message);
    if (err != ERR_OK)
        return err;
    err = open_dir(broker, &broker->dirs[broker->metadata_dir], &has_run);
    if (err != ERR_OK)
        return cannot_use(&broker->dirs[broker->metadata_dir], err, message);
    for (uint32_t i = 0; i < broker->dir_count;) {
        err = i == broker->metadata_dir ? ERR_OK : open_dir(broker, &broker->dirs[i], &is_formatted);
        if (err == ERR_OK) {
            i++;
            continue;
        }
        if (!has_run || !may_do_without(err))
            return cannot_use(&broker->dirs[i], err, message);
        leave_dir_out(broker, i, err);
    }
    return ERR_OK;
}

static enum err make_sync_group(struct broker *broker, struct broker_dir *dir, struct partition_env *env)
{
    struct sync_group_options options = {.turn = &dir->syncs_all, .logs_min = broker->env.sync_all_partitions};
    enum err err = log_dir_open_to_sync(dir->dir, &options.file);

    if (err == ERR_OK)
        err = sync_group_new(env, &options, &env->sync_group);
    if (err != ERR_OK)
        fs_file_drop(options.file);
    return err;
}

enum err broker_make_sync_groups(struct broker *broker, char message[BROKER_MESSAGE_CHARS])
{
    broker->sync_all_tells = true;
    for (uint32_t i = 0; i < broker->dir_count; i++) {
        if (!log_dir_sync_all_tells(broker->dirs[i].dir)) {
            broker->sync_all_tells = false;
            continue;
        }
        for (uint32_t j = 0; j < broker->env.reactor_count; j++) {
            enum err err = make_sync_group(broker, &broker->dirs[i], &broker->shards[j].envs[i]);

            if (err != ERR_OK)
                return broker_dir_complain(message, err, broker->dirs[i].path, "");
        }
    }
    return ERR_OK;
}

enum err broker_dir_name(const struct broker *broker, const char *path, struct arena *arena, struct bytes *name)
{
    *name = path[0] == '/' || broker->env.working_dir == NULL
                ? bytes_of_text(path)
                : arena_printf(arena, "%s/%s", broker->env.working_dir, path);
    return name->data == NULL ? ERR_NOMEM : ERR_OK;
}
