/*
 * quorum_single: a quorum whose only voter is this node. It leads from the start, in an epoch above all it has seen,
 * which is on disk before anything is written in it. Many proposals share one sync: while one is under way all others
 * gather for the next.
 */
#ifndef OTTLA_RAFTMETA_QUORUM_SINGLE_H
#define OTTLA_RAFTMETA_QUORUM_SINGLE_H

#include "base/clock.h"
#include "base/fs.h"
#include "base/loop.h"
#include "partition/dir_space.h"
#include "raftmeta/control_record.h"
#include "raftmeta/quorum.h"
#include "raftmeta/quorum_state.h"

struct quorum_single_options {
    struct fs *fs;
    struct clock *clock;
    struct loop *loop;                /* the controller loop */
    const char *dir;                  /* of the log; borrowed for life */
    struct dir_space *space;          /* of its log directory; NULL: there is no reserve */
    struct partition_log *log;        /* open and read; the quorum's from here on */
    const struct quorum_facts *facts; /* of that log; copied */
    struct quorum_state state;        /* as it was read; its voters are not used */
    struct voter self;                /* with kraft.version 1, written where the log has another */
    const struct quorum_events *events;
    void *context;
};

/* NULL without memory; the log is the caller's then. */
struct quorum *quorum_single_new(const struct quorum_single_options *options) MUST_CHECK;

#endif
