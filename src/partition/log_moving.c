/* A move of a log: its memory, and the names of the directories that it goes between. */
#include "partition/log_moving.h"
#include "base/mem.h"

void log_moving_free(struct log_moving *moving)
{
    move_io_close(moving);
    mem_free(moving->from_dir);
    mem_free(moving->future_dir);
    mem_free(moving->place_dir);
    mem_free(moving->aside_dir);
    mem_free(moving->stray_dir);
    mem_free(moving->copied);
    mem_free(moving->sources);
    mem_free(moving);
}

static char *path_make(const char *dir, const char *name)
{
    struct log_path path;

    return log_path_in(&path, dir, name) != ERR_OK ||
                   strlen(path.text) + LOG_SEGMENT_NAME_BYTES_MAX >= LOG_PATH_BYTES_MAX
               ? NULL
               : mem_copy_text(path.text, strlen(path.text));
}

enum err log_moving_make(struct partition_log *log, struct log_move *op, struct log_moving **made)
{
    struct log_moving *moving = mem_calloc(1, sizeof(*moving));
    struct bytes topic = bytes_of_text(log->topic);
    struct log_dir_name name;
    struct uuid unique;
    enum err err = log_path_dir_name(&name, topic, log->partition);

    if (moving == NULL)
        return ERR_NOMEM;
    moving->log = log;
    moving->op = op;
    moving->open_base = -1;
    moving->plan.snapshot_old = -1;
    rng_fill(log->env->rng, &unique, sizeof(unique));
    moving->from_dir = mem_copy_text(log->dir, strlen(log->dir));
    moving->place_dir = path_make(op->to->log_dir, name.text);
    log_path_aside_name(&name, topic, log->partition, unique, "-future");
    moving->future_dir = path_make(op->to->log_dir, name.text);
    log_path_aside_name(&name, topic, log->partition, unique, "-stray");
    moving->stray_dir = path_make(op->to->log_dir, name.text);
    rng_fill(log->env->rng, &unique, sizeof(unique));
    log_path_aside_name(&name, topic, log->partition, unique, "-delete");
    moving->aside_dir = path_make(log->env->log_dir, name.text);
    if (moving->from_dir == NULL || moving->place_dir == NULL || moving->future_dir == NULL ||
        moving->aside_dir == NULL || moving->stray_dir == NULL)
        err = ERR_NOMEM;
    if (err != ERR_OK) {
        log_moving_free(moving);
        return err;
    }
    *made = moving;
    return ERR_OK;
}
