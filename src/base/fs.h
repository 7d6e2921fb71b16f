/*
 * fs: the seam through which files are reached. Calls are synchronous and may block, so they belong into jobs
 * (loop_submit); the two exceptions may be called on a reactor: fs_write (it goes to the page cache) and the
 * *_cached reads, which say ERR_WOULD_BLOCK rather than wait for the disk. Paths are C strings.
 *
 * What holds after a crash (the simulated disk enforces it): bytes written are there only up to the last fs_sync of
 * that file; names created, renamed or removed only up to the last fs_sync_dir of their directory. What holds after
 * the end of a process: everything, as long as fs_boot_id says the same.
 *
 * Errors   ERR_NOT_FOUND, ERR_EXISTS, ERR_NO_SPACE, ERR_PERMISSION, ERR_NO_DESCRIPTORS, ERR_IO.
 * Threads  any; one file may be read by many at once; its writes, truncations and syncs are ordered by the caller.
 */
#ifndef OTTLA_BASE_FS_H
#define OTTLA_BASE_FS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/uuid.h"

struct fs;

enum fs_open_flags {
    FS_READ = 1,
    FS_WRITE = 2,
    FS_CREATE = 4,    /* make it when it is not there */
    FS_EXCLUSIVE = 8, /* with FS_CREATE: ERR_EXISTS when it is */
    FS_TRUNCATE = 16,
};

/* An open file, counted by reference: its partition holds one, each reply that sends a range of it another. */
struct fs_file {
    struct fs *fs;
    atomic_uint references;
};

struct fs_info {
    uint64_t size;    /* bytes */
    int64_t mtime_ms; /* wall clock */
    bool is_directory;
};

struct fs_space {
    uint64_t free_bytes; /* for an ordinary user */
    uint64_t total_bytes;
};

/* One entry of a directory; "." and ".." are left out. Stop early by returning anything but ERR_OK. */
typedef enum err fs_list_fn(void *context, const char *name, bool is_directory);

struct fs_ops {
    enum err (*open)(struct fs *fs, const char *path, int flags, struct fs_file **file);
    enum err (*lock)(struct fs *fs, const char *path, struct fs_file **file);
    bool (*is_locked)(struct fs *fs, const char *path);
    enum err (*rename)(struct fs *fs, const char *from, const char *to);
    enum err (*unlink)(struct fs *fs, const char *path);
    enum err (*mkdir)(struct fs *fs, const char *path);
    enum err (*rmdir)(struct fs *fs, const char *path);
    enum err (*sync_dir)(struct fs *fs, const char *path);
    enum err (*list)(struct fs *fs, const char *path, fs_list_fn *each, void *context);
    enum err (*stat)(struct fs *fs, const char *path, struct fs_info *info);
    enum err (*space)(struct fs *fs, const char *path, struct fs_space *space);
    enum err (*read)(struct fs_file *file, uint64_t position, void *to, size_t size, size_t *got);
    enum err (*read_cached)(struct fs_file *file, uint64_t position, void *to, size_t size, size_t *got);
    bool (*is_cached)(struct fs_file *file, uint64_t position, size_t size);
    enum err (*write)(struct fs_file *file, uint64_t position, const struct bytes *pieces, uint32_t count,
                      size_t *written);
    enum err (*truncate)(struct fs_file *file, uint64_t size);
    enum err (*preallocate)(struct fs_file *file, uint64_t size);
    enum err (*write_behind)(struct fs_file *file, uint64_t position, uint64_t size);
    enum err (*write_out)(struct fs_file *file);
    void (*forget_cached)(struct fs_file *file, uint64_t position, uint64_t size);
    enum err (*sync)(struct fs_file *file);
    enum err (*sync_all)(struct fs_file *file);
    bool (*sync_all_tells)(struct fs_file *file);
    enum err (*set_mtime)(struct fs_file *file, int64_t mtime_ms);
    enum err (*size)(struct fs_file *file, uint64_t *size);
    struct uuid (*boot_id)(struct fs *fs);
    int (*descriptor)(struct fs_file *file);
    void (*close)(struct fs_file *file);
};

struct fs {
    const struct fs_ops *ops;
};

/* POSIX files. */
void fs_init_real(struct fs *fs);

/* Once, before any file is opened: what of descriptors 0 to 2 the process was started without becomes /dev/null, so
 * that nothing that is written to standard error can end in a file of ours. */
void fs_fill_standard_descriptors(void);

/* With one reference. May block. */
MUST_CHECK static inline enum err fs_open(struct fs *fs, const char *path, int flags, struct fs_file **file)
{
    return fs->ops->open(fs, path, flags, file);
}

/* Opens (and makes) a file and takes its exclusive lock, released by closing; ERR_LOCKED when another has it. */
MUST_CHECK static inline enum err fs_lock(struct fs *fs, const char *path, struct fs_file **file)
{
    return fs->ops->lock(fs, path, file);
}

/* Whether another has that lock, without taking it or making anything. */
static inline bool fs_is_locked(struct fs *fs, const char *path)
{
    return fs->ops->is_locked(fs, path);
}

MUST_CHECK static inline enum err fs_rename(struct fs *fs, const char *from, const char *to)
{
    return fs->ops->rename(fs, from, to);
}

MUST_CHECK static inline enum err fs_unlink(struct fs *fs, const char *path)
{
    return fs->ops->unlink(fs, path);
}

/* One level; ERR_EXISTS when something has the name. */
MUST_CHECK static inline enum err fs_mkdir(struct fs *fs, const char *path)
{
    return fs->ops->mkdir(fs, path);
}

MUST_CHECK static inline enum err fs_rmdir(struct fs *fs, const char *path)
{
    return fs->ops->rmdir(fs, path);
}

/* Names made, renamed and removed in the directory survive a power cut from here on. */
MUST_CHECK static inline enum err fs_sync_dir(struct fs *fs, const char *path)
{
    return fs->ops->sync_dir(fs, path);
}

/* In no particular order. */
MUST_CHECK static inline enum err fs_list(struct fs *fs, const char *path, fs_list_fn *each, void *context)
{
    return fs->ops->list(fs, path, each, context);
}

MUST_CHECK static inline enum err fs_stat(struct fs *fs, const char *path, struct fs_info *info)
{
    return fs->ops->stat(fs, path, info);
}

MUST_CHECK static inline enum err fs_space(struct fs *fs, const char *path, struct fs_space *space)
{
    return fs->ops->space(fs, path, space);
}

/* *got < size only at the end of the file. May block. */
MUST_CHECK static inline enum err fs_read(struct fs_file *file, uint64_t position, void *to, size_t size, size_t *got)
{
    return file->fs->ops->read(file, position, to, size, got);
}

/* As fs_read, from memory only: ERR_WOULD_BLOCK when any of it would have to come from the disk. */
MUST_CHECK static inline enum err fs_read_cached(struct fs_file *file, uint64_t position, void *to, size_t size,
                                                 size_t *got)
{
    return file->fs->ops->read_cached(file, position, to, size, got);
}

/* Whether sending this range would find it in memory: a good guess, cheap; for a page at most, exact, and nothing is
 * brought in by asking. */
static inline bool fs_is_cached(struct fs_file *file, uint64_t position, size_t size)
{
    return file->fs->ops->is_cached(file, position, size);
}

/* Writes the pieces one after the other from position on. A short count is no error here (*written says): the disk is
 * full, and the caller cuts back to its last whole batch. ERR_NO_SPACE when nothing went in. */
MUST_CHECK static inline enum err fs_write(struct fs_file *file, uint64_t position, const struct bytes *pieces,
                                           uint32_t count, size_t *written)
{
    return file->fs->ops->write(file, position, pieces, count, written);
}

MUST_CHECK static inline enum err fs_truncate(struct fs_file *file, uint64_t size)
{
    return file->fs->ops->truncate(file, size);
}

/* Sets blocks aside for the first size bytes, holes among them too, without a visible tail (FALLOC_FL_KEEP_SIZE).
 * ERR_UNSUPPORTED: the file system cannot. */
MUST_CHECK static inline enum err fs_preallocate(struct fs_file *file, uint64_t size)
{
    return file->fs->ops->preallocate(file, size);
}

/* Starts writing dirty pages out; promises nothing. */
MUST_CHECK static inline enum err fs_write_behind(struct fs_file *file, uint64_t position, uint64_t size)
{
    return file->fs->ops->write_behind(file, position, size);
}

/* All that was written has been handed to the disk, which may still lose it: only a sync promises. Blocks. An error is
 * told once, as that of a sync, and as final. */
MUST_CHECK static inline enum err fs_write_out(struct fs_file *file)
{
    return file->fs->ops->write_out(file);
}

/* These pages need not stay in memory: a hint, for what was read but will not be again soon. */
static inline void fs_forget_cached(struct fs_file *file, uint64_t position, uint64_t size)
{
    file->fs->ops->forget_cached(file, position, size);
}

/* Data and size on stable storage. A failure is final: what was dirty may be lost, and asking again may lie. */
MUST_CHECK static inline enum err fs_sync(struct fs_file *file)
{
    return file->fs->ops->sync(file);
}

/* The same of everything on the file system that the file lies on, names too: what was written since the file was
 * opened and could not be put there is ERR_IO, once for each open file, where fs_sync_all_tells. One such call costs
 * less than thousands of the others, and waits for what other programs have written there, too. */
MUST_CHECK static inline enum err fs_sync_all(struct fs_file *file)
{
    return file->fs->ops->sync_all(file);
}

/* fs_sync_all on the file's file system is as good as fs_sync of each file: it reaches stable storage, and tells of
 * what could not be written. Linux 5.8 ("vfs: track per-sb writeback errors and report them to syncfs") on file systems
 * that are known to; FUSE, for one, does not pass the call on. */
static inline bool fs_sync_all_tells(struct fs_file *file)
{
    return file->fs->ops->sync_all_tells(file);
}

/* When it was last written, as fs_stat gives it: for a file that takes another's place. */
MUST_CHECK static inline enum err fs_set_mtime(struct fs_file *file, int64_t mtime_ms)
{
    return file->fs->ops->set_mtime(file, mtime_ms);
}

MUST_CHECK static inline enum err fs_size(struct fs_file *file, uint64_t *size)
{
    return file->fs->ops->size(file, size);
}

/* Names the present life of the page cache, from one boot of the machine to the next: while it is the same, all that
 * was written is there, synced or not. Zero, which is the same as nothing: the system has no name for it. May block. */
static inline struct uuid fs_boot_id(struct fs *fs)
{
    return fs->ops->boot_id(fs);
}

/* For sendfile; -1 where there is none (simulation). */
static inline int fs_descriptor(struct fs_file *file)
{
    return file->fs->ops->descriptor(file);
}

static inline struct fs_file *fs_file_keep(struct fs_file *file)
{
    atomic_fetch_add_explicit(&file->references, 1, memory_order_relaxed);
    return file;
}

/* Gives one reference back; the last one closes, which may block when the file has been unlinked: on a reactor, use a
 * job where that can be. NULL does nothing. */
static inline void fs_file_drop(struct fs_file *file)
{
    if (file != NULL && atomic_fetch_sub_explicit(&file->references, 1, memory_order_acq_rel) == 1)
        file->fs->ops->close(file);
}

#endif
