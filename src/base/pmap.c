#include "base/pmap.h"

#include <stdatomic.h>

#include "base/assert.h"
#include "base/mem.h"

/*
 * An AVL tree. A change first makes every node that it will touch its own (copying those that others share), which
 * alters nothing that can be seen and may fail at any point; then it changes in place, which cannot fail.
 */
struct pmap_node {
    struct bytes key; /* in the value */
    void *value;
    struct pmap_node *child[2]; /* smaller keys, larger keys */
    atomic_uint references;
    uint32_t height; /* a leaf has 1 */
};

/* The links from the root to a node: path[0] is the root's, each next one a child's of the node before. */
struct path {
    struct pmap_node **link[PMAP_HEIGHT_MAX + 1];
    uint32_t depth;
};

static uint32_t height(const struct pmap_node *node)
{
    return node == NULL ? 0 : node->height;
}

static void update_height(struct pmap_node *node)
{
    uint32_t smaller = height(node->child[0]);
    uint32_t larger = height(node->child[1]);

    node->height = 1 + (smaller > larger ? smaller : larger);
    assert(node->height <= PMAP_HEIGHT_MAX);
}

static struct pmap_node *node_keep(struct pmap_node *node)
{
    if (node != NULL)
        atomic_fetch_add_explicit(&node->references, 1, memory_order_relaxed);
    return node;
}

/* As deep as the tree is high. */
static void node_drop(const struct pmap_ops *ops, struct pmap_node *node)
{
    if (node == NULL || atomic_fetch_sub_explicit(&node->references, 1, memory_order_acq_rel) != 1)
        return;
    node_drop(ops, node->child[0]);
    node_drop(ops, node->child[1]);
    ops->drop(node->value);
    mem_free(node);
}

/* Makes the node behind a link ours alone; the link itself lies in a node that is. */
static enum err make_own(const struct pmap_ops *ops, struct pmap_node **link)
{
    struct pmap_node *shared = *link;
    struct pmap_node *own = NULL;

    /* Who holds the only reference is the only one who could hand out another. */
    if (shared == NULL || atomic_load_explicit(&shared->references, memory_order_acquire) == 1)
        return ERR_OK;
    own = mem_alloc(sizeof(*own));
    if (own == NULL)
        return ERR_NOMEM;
    *own = (struct pmap_node){.key = shared->key, .value = shared->value, .height = shared->height};
    atomic_init(&own->references, 1);
    own->child[0] = node_keep(shared->child[0]);
    own->child[1] = node_keep(shared->child[1]);
    ops->keep(own->value);
    *link = own;
    node_drop(ops, shared);
    return ERR_OK;
}

/* Lifts the child on one side over its parent; both are ours. */
static void rotate(struct pmap_node **link, uint32_t side)
{
    struct pmap_node *parent = *link;
    struct pmap_node *child = parent->child[side];

    parent->child[side] = child->child[1 - side];
    child->child[1 - side] = parent;
    update_height(parent);
    update_height(child);
    *link = child;
}

static bool is_balanced(const struct pmap_node *node)
{
    uint32_t smaller = height(node->child[0]);
    uint32_t larger = height(node->child[1]);

    return smaller <= larger + 1 && larger <= smaller + 1;
}

/* Puts heights right from a path's end up to the root; what gets rotated is ours. */
static void rebalance(struct path *path)
{
    while (path->depth > 0) {
        struct pmap_node **link = path->link[--path->depth];
        struct pmap_node *node = *link;
        uint32_t side = height(node->child[1]) > height(node->child[0]);

        if (height(node->child[side]) > height(node->child[1 - side]) + 1) {
            struct pmap_node *taller = node->child[side];

            if (height(taller->child[1 - side]) > height(taller->child[side]))
                rotate(&node->child[side], 1 - side);
            rotate(link, side);
        } else {
            update_height(node);
        }
        assert(is_balanced(*link));
    }
}

void pmap_init(struct pmap *map, const struct pmap_ops *ops)
{
    *map = (struct pmap){.ops = ops};
}

void pmap_deinit(struct pmap *map)
{
    node_drop(map->ops, map->root);
    pmap_init(map, map->ops);
}

struct pmap pmap_copy(const struct pmap *map)
{
    node_keep(map->root);
    return *map;
}

static struct pmap_node *find(const struct pmap *map, struct bytes key)
{
    struct pmap_node *node = map->root;

    while (node != NULL) {
        int order = bytes_compare(key, node->key);

        if (order == 0)
            break;
        node = node->child[order > 0];
    }
    return node;
}

void *pmap_get(const struct pmap *map, struct bytes key)
{
    const struct pmap_node *node = find(map, key);

    return node == NULL ? NULL : node->value;
}

static enum err insert(struct pmap *map, struct path *path, struct bytes key, void *value)
{
    struct pmap_node *node = NULL;

    if (map->count == UINT32_MAX)
        return ERR_LIMIT;
    node = mem_alloc(sizeof(*node));
    if (node == NULL)
        return ERR_NOMEM;
    *node = (struct pmap_node){.key = key, .value = value, .height = 1};
    atomic_init(&node->references, 1);
    map->ops->keep(value);
    *path->link[path->depth] = node;
    map->count++;
    rebalance(path);
    return ERR_OK;
}

enum err pmap_put(struct pmap *map, struct bytes key, void *value)
{
    struct path path = {.link[0] = &map->root};
    enum err err = ERR_OK;

    assert(value != NULL);
    for (;;) {
        struct pmap_node **link = path.link[path.depth];
        int order = 0;

        err = make_own(map->ops, link);
        if (err != ERR_OK)
            return err;
        if (*link == NULL)
            return insert(map, &path, key, value);
        order = bytes_compare(key, (*link)->key);
        if (order == 0) {
            void *replaced = (*link)->value;

            map->ops->keep(value);
            (*link)->key = key;
            (*link)->value = value;
            map->ops->drop(replaced);
            return ERR_OK;
        }
        path.link[++path.depth] = &(*link)->child[order > 0];
    }
}

/* Makes ours what a removal below the child on one side may rotate here: the other child when it is higher already,
 * and its inner child when that one is what makes it higher. */
static enum err own_rotation(const struct pmap_ops *ops, struct pmap_node *node, uint32_t side)
{
    struct pmap_node **other = &node->child[1 - side];
    enum err err = ERR_OK;

    if (height(*other) <= height(node->child[side]))
        return ERR_OK;
    err = make_own(ops, other);
    if (err == ERR_OK && height((*other)->child[side]) > height((*other)->child[1 - side]))
        err = make_own(ops, &(*other)->child[side]);
    return err;
}

/* One step down towards a removal. */
static enum err descend(const struct pmap_ops *ops, struct path *path, uint32_t side)
{
    struct pmap_node *node = *path->link[path->depth];
    enum err err = own_rotation(ops, node, side);

    if (err != ERR_OK)
        return err;
    path->link[++path->depth] = &node->child[side];
    return make_own(ops, path->link[path->depth]);
}

/* Takes out the node that the path ends at, which has one child at most. */
static void unlink_last(struct pmap *map, struct path *path)
{
    struct pmap_node **link = path->link[path->depth];
    struct pmap_node *gone = *link;

    *link = gone->child[gone->child[0] == NULL];
    gone->child[0] = gone->child[1] = NULL;
    node_drop(map->ops, gone);
    map->count--;
    rebalance(path);
}

enum err pmap_remove(struct pmap *map, struct bytes key)
{
    struct path path = {.link[0] = &map->root};
    struct pmap_node *node = NULL;
    struct pmap_node *heir = NULL;
    void *value = NULL;
    enum err err = ERR_OK;

    if (find(map, key) == NULL)
        return ERR_NOT_FOUND; /* before anything is copied for it */
    err = make_own(map->ops, &map->root);
    while (err == ERR_OK && !bytes_equal((*path.link[path.depth])->key, key))
        err = descend(map->ops, &path, bytes_compare(key, (*path.link[path.depth])->key) > 0);
    if (err != ERR_OK)
        return err;
    node = *path.link[path.depth];
    if (node->child[0] == NULL || node->child[1] == NULL) {
        unlink_last(map, &path);
        return ERR_OK;
    }
    /* Between two children the next larger key takes its place. */
    err = descend(map->ops, &path, 1);
    while (err == ERR_OK && (*path.link[path.depth])->child[0] != NULL)
        err = descend(map->ops, &path, 0);
    if (err != ERR_OK)
        return err;
    heir = *path.link[path.depth];
    value = node->value;
    node->key = heir->key;
    node->value = heir->value;
    heir->value = value;
    unlink_last(map, &path);
    return ERR_OK;
}

/* Down to the smallest key under a node. */
static void push_smallest(struct pmap_cursor *cursor, const struct pmap_node *node)
{
    for (; node != NULL; node = node->child[0])
        cursor->path[cursor->depth++] = node;
}

void pmap_first(const struct pmap *map, struct pmap_cursor *cursor)
{
    cursor->depth = 0;
    push_smallest(cursor, map->root);
}

void pmap_seek(const struct pmap *map, struct bytes key, struct pmap_cursor *cursor)
{
    const struct pmap_node *node = map->root;

    cursor->depth = 0;
    while (node != NULL) {
        int order = bytes_compare(key, node->key);

        if (order <= 0)
            cursor->path[cursor->depth++] = node;
        if (order == 0)
            break;
        node = node->child[order > 0];
    }
}

bool pmap_next(struct pmap_cursor *cursor, struct bytes *key, void **value)
{
    const struct pmap_node *node = NULL;

    if (cursor->depth == 0)
        return false;
    node = cursor->path[--cursor->depth];
    push_smallest(cursor, node->child[1]);
    if (key != NULL)
        *key = node->key;
    *value = node->value;
    return true;
}
