#include "base/mem.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

void *mem_alloc(size_t size)
{
    assert(size > 0);
    return malloc(size);
}

void *mem_calloc(size_t count, size_t size)
{
    assert(size > 0);
    return calloc(count == 0 ? 1 : count, size);
}

void *mem_realloc(void *block, size_t size)
{
    assert(size > 0);
    return realloc(block, size);
}

void mem_free(void *block)
{
    free(block);
}

char *mem_copy_text(const void *data, size_t size)
{
    char *copy = mem_alloc(size + 1);

    if (copy == NULL)
        return NULL;
    if (size > 0)
        memcpy(copy, data, size);
    copy[size] = '\0';
    return copy;
}

void mem_give_back(void)
{
    (void)malloc_trim(0);
}
