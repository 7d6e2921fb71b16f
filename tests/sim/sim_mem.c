#include "sim/sim_mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* In front of each block, of the node's and the world's alike. */
struct block {
    struct block *next;
    struct block **previous; /* NULL: the world's */
    size_t size;
    size_t padding; /* what follows is aligned for any type */
};

static struct block *blocks; /* the node's */
static bool in_node;

void *__wrap_mem_alloc(size_t size);
void *__wrap_mem_calloc(size_t count, size_t size);
void *__wrap_mem_realloc(void *block, size_t size);
void __wrap_mem_free(void *block);
char *__wrap_mem_copy_text(const void *data, size_t size);

static void *add(struct block *block, size_t size)
{
    if (block == NULL)
        return NULL;
    block->size = size;
    block->previous = NULL;
    if (in_node) {
        block->next = blocks;
        block->previous = &blocks;
        if (blocks != NULL)
            blocks->previous = &block->next;
        blocks = block;
    }
    return block + 1;
}

static void unlink_block(struct block *block)
{
    if (block->previous == NULL)
        return;
    *block->previous = block->next;
    if (block->next != NULL)
        block->next->previous = block->previous;
}

void *__wrap_mem_alloc(size_t size)
{
    assert(size > 0);
    return size > SIZE_MAX / 2 ? NULL : add(malloc(sizeof(struct block) + size), size);
}

void *__wrap_mem_calloc(size_t count, size_t size)
{
    void *at = NULL;

    assert(size > 0);
    if (count > SIZE_MAX / 2 / size)
        return NULL;
    at = __wrap_mem_alloc(count == 0 ? size : count * size);
    return at == NULL ? NULL : memset(at, 0, count * size);
}

void __wrap_mem_free(void *at)
{
    if (at == NULL)
        return;
    unlink_block((struct block *)at - 1);
    free((struct block *)at - 1);
}

void *__wrap_mem_realloc(void *at, size_t size)
{
    struct block *block = at == NULL ? NULL : (struct block *)at - 1;
    bool before = in_node;
    void *grown = NULL;

    if (block == NULL)
        return __wrap_mem_alloc(size);
    in_node = block->previous != NULL; /* it stays whose it was */
    grown = __wrap_mem_alloc(size);
    in_node = before;
    if (grown == NULL)
        return NULL;
    memcpy(grown, at, block->size < size ? block->size : size);
    __wrap_mem_free(at);
    return grown;
}

char *__wrap_mem_copy_text(const void *data, size_t size)
{
    char *copy = __wrap_mem_alloc(size + 1);

    if (copy == NULL)
        return NULL;
    if (size > 0)
        memcpy(copy, data, size);
    copy[size] = '\0';
    return copy;
}

bool sim_mem_enter(bool node)
{
    bool before = in_node;

    in_node = node;
    return before;
}

size_t sim_mem_free_node(void)
{
    size_t count = 0;

    for (; blocks != NULL; count++)
        __wrap_mem_free(blocks + 1);
    return count;
}
