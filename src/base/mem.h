/*
 * mem: the heap, the only door to it. A failed allocation is ERR_NOMEM for the request at hand, never an
 * abort. Tests fail the k-th call by wrapping these at link time (-Wl,--wrap=mem_alloc ...).
 *
 * Threads  any.
 */
#ifndef OTTLA_BASE_MEM_H
#define OTTLA_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

/* Uninitialised, aligned for any type; NULL when there is none. size > 0. */
void *mem_alloc(size_t size) MUST_CHECK;
/* Zeroed array; NULL when there is none, or count * size overflows. */
void *mem_calloc(size_t count, size_t size) MUST_CHECK;
/* Grown or shrunk; NULL when there is none, and the old block stays as it was. */
void *mem_realloc(void *block, size_t size) MUST_CHECK;
void mem_free(void *block);
/* A copy with a closing NUL behind it. */
char *mem_copy_text(const void *data, size_t size) MUST_CHECK;

/*
 * Room for `want` elements in an array that doubles. array: the address of the pointer to its elements, which may move;
 * room: how many it has room for; first: how many its first block has. ERR_NOMEM: both are as they were.
 */
MUST_CHECK static inline enum err mem_grow(void *array, uint32_t *room, uint32_t want, uint32_t first,
                                           size_t element_bytes)
{
    uint32_t wider = *room == 0 ? first : *room;
    void *elements = NULL;

    if (want <= *room)
        return ERR_OK;
    while (wider < want)
        wider = wider <= UINT32_MAX / 2 ? wider * 2 : want;
    if (wider > SIZE_MAX / element_bytes)
        return ERR_NOMEM;
    memcpy(&elements, array, sizeof(elements));
    elements = mem_realloc(elements, wider * element_bytes);
    if (elements == NULL)
        return ERR_NOMEM;
    memcpy(array, &elements, sizeof(elements));
    *room = wider;
    return ERR_OK;
}

/* Gives free pages back to the system, all threads' heaps included. They wait meanwhile: for when nothing is going on.
 */
void mem_give_back(void);

#endif
