#include "partition/deleted_dirs.h"

#include "base/assert.h"
#include "base/mem.h"
#include "partition/log_path.h"

struct walk {
    struct fs *fs;
    const char *dir;
};

static enum err remove_entry(void *context, const char *name, bool is_directory)
{
    const struct walk *walk = context;
    struct log_path path;
    enum err err = log_path_in(&path, walk->dir, name);

    if (err != ERR_OK)
        return err;
    return is_directory ? fs_rmdir(walk->fs, path.text) : fs_unlink(walk->fs, path.text);
}

enum err deleted_dir_remove(struct fs *fs, const char *path)
{
    struct walk walk = {fs, path};
    enum err err = fs_list(fs, path, remove_entry, &walk);

    return err == ERR_OK ? fs_rmdir(fs, path) : err;
}

void deleted_dirs_init(struct deleted_dirs *dirs, struct fs *fs, struct loop *loop, struct log *log)
{
    *dirs = (struct deleted_dirs){.fs = fs, .loop = loop, .log = log};
    list_init(&dirs->waiting);
}

struct deleted_dir *deleted_dir_new(const char *path, int64_t due_ns)
{
    size_t size = strlen(path) + 1;
    struct deleted_dir *dir = mem_alloc(sizeof(*dir) + size);

    if (dir == NULL)
        return NULL;
    list_node_init(&dir->node);
    dir->due_ns = due_ns;
    memcpy(dir->path, path, size);
    return dir;
}

static void go_on(struct deleted_dirs *dirs);

static void remove_run(struct loop_job *job)
{
    struct deleted_dirs *dirs = LIST_ENTRY(job, struct deleted_dirs, job);

    dirs->err = deleted_dir_remove(dirs->fs, dirs->hand->path);
}

static void remove_done(struct loop_job *job)
{
    struct deleted_dirs *dirs = LIST_ENTRY(job, struct deleted_dirs, job);

    if (dirs->err != ERR_OK && dirs->err != ERR_NOT_FOUND)
        log_warn(dirs->log, "directory of a deleted partition not removed, the next start tries again dir=%s err=%s",
                 dirs->hand->path, err_name(dirs->err));
    mem_free(dirs->hand);
    dirs->hand = NULL;
    if (dirs->ended != NULL)
        dirs->ended(dirs->context);
    else
        go_on(dirs);
}

static void is_due(struct loop_timer *timer)
{
    go_on(LIST_ENTRY(timer, struct deleted_dirs, timer));
}

static void go_on(struct deleted_dirs *dirs)
{
    struct list_node *node = list_first(&dirs->waiting);
    struct deleted_dir *first = node == NULL ? NULL : LIST_ENTRY(node, struct deleted_dir, node);

    if (first == NULL || dirs->hand != NULL)
        return;
    if (dirs->count <= DELETED_DIRS_MAX && first->due_ns > loop_now_ns(dirs->loop)) {
        dirs->timer.fired = is_due;
        loop_timer_start(dirs->loop, &dirs->timer, first->due_ns);
        return;
    }
    list_remove(node);
    dirs->count--;
    dirs->hand = first;
    dirs->job.run = remove_run;
    dirs->job.done = remove_done;
    loop_submit(dirs->loop, &dirs->job);
}

void deleted_dirs_take(struct deleted_dirs *dirs, struct deleted_dir *dir)
{
    if (dirs->ended != NULL) {
        mem_free(dir);
        return;
    }
    list_add_last(&dirs->waiting, &dir->node);
    dirs->count++;
    go_on(dirs);
}

void deleted_dirs_end(struct deleted_dirs *dirs, void (*ended)(void *context), void *context)
{
    assert(dirs->ended == NULL);
    dirs->ended = ended;
    dirs->context = context;
    loop_timer_stop(dirs->loop, &dirs->timer);
    for (struct list_node *node = NULL; (node = list_take_first(&dirs->waiting)) != NULL;)
        mem_free(LIST_ENTRY(node, struct deleted_dir, node));
    dirs->count = 0;
    if (dirs->hand == NULL)
        ended(context);
}
