#include "coordinator/short_heap.h"

#include "base/mem.h"

static uint64_t calls, refuse_at;
static int64_t blocks;
static bool core, paused;

void *__real_mem_alloc(size_t size);
void *__real_mem_calloc(size_t count, size_t size);
void *__real_mem_realloc(void *block, size_t size);
char *__real_mem_copy_text(const void *data, size_t size);
void __real_mem_free(void *block);
void *__wrap_mem_alloc(size_t size);
void *__wrap_mem_calloc(size_t count, size_t size);
void *__wrap_mem_realloc(void *block, size_t size);
char *__wrap_mem_copy_text(const void *data, size_t size);
void __wrap_mem_free(void *block);

static bool refuses(void)
{
    return core && !paused && ++calls == refuse_at;
}

static void *counted(void *block)
{
    blocks += block != NULL;
    return block;
}

void *__wrap_mem_alloc(size_t size)
{
    return refuses() ? NULL : counted(__real_mem_alloc(size));
}

void *__wrap_mem_calloc(size_t count, size_t size)
{
    return refuses() ? NULL : counted(__real_mem_calloc(count, size));
}

void *__wrap_mem_realloc(void *block, size_t size)
{
    bool is_new = block == NULL;

    if (refuses())
        return NULL;
    block = __real_mem_realloc(block, size);
    return is_new ? counted(block) : block;
}

char *__wrap_mem_copy_text(const void *data, size_t size)
{
    return refuses() ? NULL : counted(__real_mem_copy_text(data, size));
}

void __wrap_mem_free(void *block)
{
    blocks -= block != NULL;
    __real_mem_free(block);
}

void short_heap_begin(uint64_t at)
{
    calls = 0;
    refuse_at = at;
    core = false;
    paused = false;
}

void short_heap_core_runs(bool runs)
{
    core = runs;
}

void short_heap_pause(bool pause)
{
    paused = pause;
}

uint64_t short_heap_calls(void)
{
    return calls;
}

bool short_heap_has_refused(void)
{
    return refuse_at > 0 && calls >= refuse_at;
}

int64_t short_heap_blocks(void)
{
    return blocks;
}
