/*
 * sim_fs: a disk in memory that is as unkind as real ones are allowed to be. It remembers what has been synced and
 * what has only been written: a power cut keeps any subset of the un-synced writes, torn or in scattered sectors where
 * the seed says so, and any beginning of the un-synced changes of each directory. A mere kill keeps all. It fills up,
 * fails the k-th call, and flips bits. What lies under each directory of the root counts as a file system of its own:
 * no rename leads from one to another, and one is synced without the others.
 *
 * Threads  one.
 */
#ifndef OTTLA_TESTS_SIM_FS_H
#define OTTLA_TESTS_SIM_FS_H

#include "base/fs.h"
#include "sim/sim.h"

enum sim_fs_call {
    SIM_FS_ANY,
    SIM_FS_OPEN,
    SIM_FS_LOCK,
    SIM_FS_RENAME,
    SIM_FS_UNLINK,
    SIM_FS_MKDIR,
    SIM_FS_RMDIR,
    SIM_FS_SYNC_DIR,
    SIM_FS_LIST,
    SIM_FS_STAT,
    SIM_FS_SPACE,
    SIM_FS_READ,
    SIM_FS_WRITE,
    SIM_FS_TRUNCATE,
    SIM_FS_PREALLOCATE,
    SIM_FS_SYNC,
    SIM_FS_SET_MTIME,
    SIM_FS_SIZE,
    SIM_FS_CALLS,
};

/* What happens at the chosen call. */
enum sim_fs_fault {
    SIM_FS_NO_FAULT,
    SIM_FS_FAIL,  /* that call fails with the error; nothing of it happens */
    SIM_FS_SHORT, /* a write takes a part, the seed says how much; other calls fail */
    SIM_FS_BREAK, /* that call and all after it of that kind fail with the error, until another fault is set */
    SIM_FS_DIE,   /* that call and all after it fail with ERR_IO: the machine is gone; cut or kill comes next.
                     A write may have taken a part, a sync may have happened */
};

struct sim_file;
struct sim_fs_node;

struct sim_fs {
    struct fs fs;
    struct sim *sim;
    struct sim_fs_node *root;
    uint64_t calls[SIM_FS_CALLS]; /* made so far, by kind; [SIM_FS_ANY] counts all */
    enum sim_fs_fault fault;
    enum sim_fs_call fault_kind;
    uint64_t fault_at; /* the fault strikes from when calls[fault_kind] reaches this */
    enum err fault_err;
    const char *fault_volume; /* that it is limited to; NULL: it is not */
    bool struck;
    bool dead;
    uint64_t capacity_bytes; /* of all files' data; UINT64_MAX: endless */
    uint64_t used_bytes;
    uint32_t generation;    /* files opened before a cut or kill answer ERR_IO */
    uint32_t boots;         /* power cuts so far: fs_boot_id changes with them */
    uint32_t open_files;    /* of this generation */
    struct sim_file *files; /* of all generations */
};

/* An empty root directory "/". */
void sim_fs_init(struct sim_fs *fs, struct sim *sim);
void sim_fs_deinit(struct sim_fs *fs);

/* The k-th call from now on (1 is the next) of that kind meets the fault. */
void sim_fs_set_fault(struct sim_fs *fs, enum sim_fs_fault fault, enum sim_fs_call kind, uint64_t k, enum err err);
/* The fault set last strikes only under that directory of the root, at its first call there once k have been made
 * anywhere. Borrowed. */
void sim_fs_limit_fault(struct sim_fs *fs, const char *volume);
/* Whether the fault has struck. */
bool sim_fs_fault_struck(const struct sim_fs *fs);

/* The process dies: open files and locks are gone, what was written stays. The disk works again afterwards. */
void sim_fs_kill(struct sim_fs *fs);
/* The power goes: a legal subset of what was not synced is lost. */
void sim_fs_cut(struct sim_fs *fs);
/* The same of the file system alone: it is taken away and mounted again, and the machine goes on in its boot. */
void sim_fs_remount(struct sim_fs *fs);

/* Frees what the dead process had open: its memory is gone, so it will not close them. Call after a kill or cut. */
void sim_fs_forget_files(struct sim_fs *fs);

/* Flips the masked bits of one byte, in memory and on the disk alike. False: there is no such byte. */
bool sim_fs_flip(struct sim_fs *fs, const char *path, uint64_t position, uint8_t mask);
/* The whole file as it reads now; empty when there is none. Valid until the file changes. */
struct bytes sim_fs_peek(struct sim_fs *fs, const char *path);
/* Makes the file hold exactly this, synced, with its directories. For tests that lay out a disk. */
void sim_fs_poke(struct sim_fs *fs, const char *path, struct bytes content);

#endif
