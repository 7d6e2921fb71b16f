/*
 * deleted_dirs: directories of deleted partitions, renamed to <name>-delete and synced so, that wait for
 * file.delete.delay.ms to be over. One for each home reactor.
 *
 * Bounds   DELETED_DIRS_MAX wait; beyond it the oldest goes before its time.
 * Stop     what still waits is left to the next start, which removes every -delete directory.
 * Threads  its reactor's; files are removed by jobs, one at a time.
 */
#ifndef OTTLA_PARTITION_DELETED_DIRS_H
#define OTTLA_PARTITION_DELETED_DIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"

enum { DELETED_DIRS_MAX = 10000 /* the partitions of the largest topic that one request makes */ };

struct deleted_dir {
    struct list_node node;
    int64_t due_ns;
    char path[];
};

struct deleted_dirs {
    struct fs *fs;
    struct loop *loop;
    struct log *log;
    struct list waiting; /* in the order in which they came */
    uint32_t count;
    struct deleted_dir *hand; /* the job's */
    enum err err;
    struct loop_timer timer;
    struct loop_job job;
    void (*ended)(void *context); /* once nothing is under way after deleted_dirs_end */
    void *context;
};

void deleted_dirs_init(struct deleted_dirs *dirs, struct fs *fs, struct loop *loop, struct log *log);
/* Of that path, to be removed at due_ns; NULL without memory. */
struct deleted_dir *deleted_dir_new(const char *path, int64_t due_ns) MUST_CHECK;
/* Takes dir. */
void deleted_dirs_take(struct deleted_dirs *dirs, struct deleted_dir *dir);
/* Nothing is removed from here on; ended is told, perhaps within the call, when no job has it any more. */
void deleted_dirs_end(struct deleted_dirs *dirs, void (*ended)(void *context), void *context);

/* Blocks. Removes the directory and the files in it. */
MUST_CHECK enum err deleted_dir_remove(struct fs *fs, const char *path);

#endif
