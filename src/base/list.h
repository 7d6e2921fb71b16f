/*
 * list: an intrusive doubly linked list. The links lie in the elements, so adding never fails and an element leaves
 * in constant time without its list at hand. A list is a ring through its head.
 *
 *     struct waiter { struct list_node node; ... };
 *     list_each(&log->waiters, at) { struct waiter *waiter = LIST_ENTRY(at, struct waiter, node); ... }
 *
 * Always holds  a node is in one list or in none; in none it points to itself (after list_node_init or list_remove).
 * Owns          nothing.
 */
#ifndef OTTLA_BASE_LIST_H
#define OTTLA_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/assert.h"

struct list_node {
    struct list_node *previous;
    struct list_node *next;
};

struct list {
    struct list_node head; /* not an element */
};

/* The element that a node lies in. */
#define LIST_ENTRY(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void list_node_init(struct list_node *node)
{
    node->previous = node;
    node->next = node;
}

static inline void list_init(struct list *list)
{
    list_node_init(&list->head);
}

static inline bool list_is_empty(const struct list *list)
{
    return list->head.next == &list->head;
}

/* Whether the node is in a list. */
static inline bool list_node_is_linked(const struct list_node *node)
{
    return node->next != node;
}

/* Puts a node that is in no list before another, which may be a list's head. */
static inline void list_insert_before(struct list_node *before, struct list_node *node)
{
    assert(!list_node_is_linked(node));
    node->previous = before->previous;
    node->next = before;
    before->previous->next = node;
    before->previous = node;
}

static inline void list_add_last(struct list *list, struct list_node *node)
{
    list_insert_before(&list->head, node);
}

static inline void list_add_first(struct list *list, struct list_node *node)
{
    list_insert_before(list->head.next, node);
}

/* Takes the node out of the list it is in; does nothing when it is in none. */
static inline void list_remove(struct list_node *node)
{
    node->previous->next = node->next;
    node->next->previous = node->previous;
    list_node_init(node);
}

/* NULL when the list is empty. */
static inline struct list_node *list_first(const struct list *list)
{
    return list_is_empty(list) ? NULL : list->head.next;
}

static inline struct list_node *list_last(const struct list *list)
{
    return list_is_empty(list) ? NULL : list->head.previous;
}

/* Behind the node; NULL at the end. */
static inline struct list_node *list_next(const struct list *list, const struct list_node *node)
{
    return node->next == &list->head ? NULL : node->next;
}

/* Takes out the first; NULL when the list is empty. */
static inline struct list_node *list_take_first(struct list *list)
{
    struct list_node *node = list_first(list);

    if (node != NULL)
        list_remove(node);
    return node;
}

/* Moves all of from, in its order, to the end of to; from is empty afterwards. */
static inline void list_move_all(struct list *to, struct list *from)
{
    if (list_is_empty(from))
        return;
    from->head.next->previous = to->head.previous;
    to->head.previous->next = from->head.next;
    from->head.previous->next = &to->head;
    to->head.previous = from->head.previous;
    list_init(from);
}

/* Walks the list front to back. The body may remove (and free) the node it is at, no other. */
#define list_each(list, node)                                                                                          \
    for (struct list_node *node = (list)->head.next, *node##_next = node->next; node != &(list)->head;                 \
         node = node##_next, node##_next = node->next)

#endif
