/*
 * pmap: a persistent map from bytes to counted objects, for images that many threads read while one makes the next.
 * A struct pmap is a handle on one version; copying a handle costs one counter. Changing through a handle copies the
 * path to the change as far as other handles share it, and changes in place what no one else can see, so replaying a
 * million records copies nothing.
 *
 * Always holds  keys in ascending byte order, each once; a version that someone else holds never changes.
 * Owns          one reference to each value it holds, through ops. The key is borrowed from the value: it must stay
 *               as long as the value does (put it there).
 * Threads       a handle has one owner at a time; handles of the same version, and versions that share nodes, may be
 *               read, changed and dropped on different threads at once. ops must stand that: counters are atomic.
 */
#ifndef OTTLA_BASE_PMAP_H
#define OTTLA_BASE_PMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct pmap_node;

struct pmap_ops {
    void (*keep)(void *value); /* one reference more */
    void (*drop)(void *value); /* one less; frees at the last. On whichever thread that happens. */
};

struct pmap {
    struct pmap_node *root;
    const struct pmap_ops *ops;
    uint32_t count;
};

enum {
    PMAP_HEIGHT_MAX = 46, /* an AVL tree of 2^32 nodes is no higher */
};

/* Where a walk is; borrows from the version it walks, which must be held and not changed meanwhile. */
struct pmap_cursor {
    const struct pmap_node *path[PMAP_HEIGHT_MAX]; /* nodes still to be given, the next one last */
    uint32_t depth;
};

void pmap_init(struct pmap *map, const struct pmap_ops *ops);
/* Lets go of this version. The map is empty afterwards and may be used again. */
void pmap_deinit(struct pmap *map);
/* Another handle on the same version; pmap_deinit both. */
struct pmap pmap_copy(const struct pmap *map);

/* Borrowed from this version; NULL when the key is not there. */
void *pmap_get(const struct pmap *map, struct bytes key);
/* Sets a key; a value that was there is dropped. Takes a reference of its own to the value.
 * ERR_NOMEM: the map is as it was. */
MUST_CHECK enum err pmap_put(struct pmap *map, struct bytes key, void *value);
/* ERR_NOT_FOUND: the key is not there; ERR_NOMEM. The map is as it was then. */
MUST_CHECK enum err pmap_remove(struct pmap *map, struct bytes key);

/* Begin a walk at the first key, or at the first one not below key. */
void pmap_first(const struct pmap *map, struct pmap_cursor *cursor);
void pmap_seek(const struct pmap *map, struct bytes key, struct pmap_cursor *cursor);
/* In ascending order of keys; false ends. key may be NULL; value is borrowed. */
bool pmap_next(struct pmap_cursor *cursor, struct bytes *key, void **value);

#endif
