/*
 * dir_space: the room of one log directory. What its volume has free is looked at now and then by a job; what producers
 * append meanwhile is taken off, so that the marks hold between two looks. Below the first mark a line says how long
 * the rest will last; below the second producers are refused, while reads, deletion and whatever keeps the node going
 * (metadata, offsets, checkpoints, the start itself) go on, where nothing is free from the reserve: a preallocated file
 * that is given back slice by slice to what needs it, and built up again when there is room.
 *
 * Always holds  a start can use all of the reserve, what runs leaves it a quarter.
 * Threads       dir_space_refuses and dir_space_take: any, without waiting. dir_space_relieve: any that may block.
 *               dir_space_open, _look and _close: one at a time, and they block.
 * File          ottla-reserve in the directory: magic, version and checksum, then blocks that nobody writes. Apache
 *               Kafka ignores it, and it may be deleted at any time while the broker is stopped.
 */
#ifndef OTTLA_PARTITION_DIR_SPACE_H
#define OTTLA_PARTITION_DIR_SPACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"

/* -1: by the size of the volume. 0: no reserve, no warning, nobody is refused. */
struct dir_space_config {
    int64_t reserve_bytes; /* ottla.disk.reserve.bytes */
    int64_t warn_bytes;    /* ottla.disk.warn.bytes: free bytes below which a line says how long they will last */
    int64_t refuse_bytes;  /* ottla.disk.refuse.bytes: free bytes below which producers are refused */
};

enum dir_space_state {
    DIR_SPACE_AMPLE,
    DIR_SPACE_LOW,  /* below the first mark */
    DIR_SPACE_FULL, /* below the second; until there is a quarter more than that */
};

struct dir_space {
    _Atomic(int64_t) room_bytes;     /* that producers may append until the next look; at or below 0 they are refused */
    _Atomic(uint64_t) reserve_bytes; /* held now */
    _Atomic(uint32_t) giving;        /* so many give some of it back just now */
    _Atomic(bool) serving;           /* the start is over: it leaves a quarter of the reserve to the next one */
    struct fs *fs;
    struct clock *clock;
    struct log *log;
    const char *dir;
    struct dir_space_config config;
    _Atomic(struct fs_file *) reserve; /* NULL: there is no file yet, or there can be none */
    _Atomic(uint64_t) reserve_wanted;
    bool reserve_impossible; /* the file system sets nothing aside */
    /* the looks' */
    enum dir_space_state state;
    int64_t first_ns;
    int64_t looked_ns;
    int64_t said_ns; /* when a line said last how things stand; 0: not since there was plenty */
    uint64_t free_bytes;
    double shrinking; /* bytes a second, of late; below 0 it grows */
    struct log_rate lines;
};

/* Finds the reserve that an earlier run left, and has the first look. dir: borrowed.
 * ERR_UNSUPPORTED_VERSION: the reserve is of a later build. Without a look (ERR_IO) all room counts as free. */
MUST_CHECK enum err dir_space_open(struct dir_space *space, struct fs *fs, struct clock *clock, struct log *log,
                                   const char *dir, const struct dir_space_config *config);
void dir_space_close(struct dir_space *space);
/* The start is over. */
void dir_space_serve(struct dir_space *space);

/* What there is: sets the marks' state, says so where it changed, builds the reserve up while there is room for it. */
void dir_space_look(struct dir_space *space);
/* Until the next look; ns. */
int64_t dir_space_pause_ns(const struct dir_space *space);

/* Whether producers are refused. NULL: nobody is. */
static inline bool dir_space_refuses(const struct dir_space *space)
{
    return space != NULL && atomic_load_explicit(&space->room_bytes, memory_order_relaxed) <= 0;
}

/* That much was appended. */
static inline void dir_space_take(struct dir_space *space, uint64_t size)
{
    if (space != NULL)
        (void)atomic_fetch_sub_explicit(&space->room_bytes, (int64_t)size, memory_order_relaxed);
}

/* How often something has failed for lack of room; all zero at first. */
struct dir_relief {
    uint32_t tries;
};
/* Something that the node cannot do without has found no room (ERR_NO_SPACE): gives some back, more each time. True:
 * try again. False: there is no more, or it did not help. NULL: false. */
bool dir_space_relieve(struct dir_space *space, struct dir_relief *relief);

#endif
