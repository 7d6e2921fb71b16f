#include "partition/dir_dirty.h"

#include "base/assert.h"
#include "base/mem.h"

/* Those who wait go on from here: not at every sync that brings it just below the bound. */
static int64_t low_mark(const struct dir_dirty *dir)
{
    return dir->bytes_max - dir->bytes_max / 4;
}

static void wake(struct loop_task *task)
{
    struct dirty_home *home = LIST_ENTRY(task, struct dirty_home, task);
    struct list woken;
    struct list_node *node = NULL;

    list_init(&woken);
    atomic_store(&home->woken, false);
    atomic_store(&home->waits, false);
    list_move_all(&woken, &home->waiting);
    while ((node = list_take_first(&woken)) != NULL) {
        struct dirty_waiter *waiter = LIST_ENTRY(node, struct dirty_waiter, node);

        waiter->wake(waiter);
    }
}

enum err dir_dirty_init(struct dir_dirty *dir, int64_t bytes_max, struct loop **loops, uint32_t loop_count)
{
    *dir = (struct dir_dirty){.bytes_max = bytes_max, .home_count = loop_count};
    dir->homes = mem_calloc(loop_count, sizeof(dir->homes[0]));
    if (dir->homes == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < loop_count; i++) {
        struct dirty_home *home = &dir->homes[i];

        *home = (struct dirty_home){.dir = dir, .loop = loops[i], .task = {.run = wake}};
        list_init(&home->waiting);
    }
    return ERR_OK;
}

void dir_dirty_deinit(struct dir_dirty *dir)
{
    assert(atomic_load(&dir->bytes) == 0);
    mem_free(dir->homes);
    *dir = (struct dir_dirty){0};
}

void dirty_move(struct dirty_home *home, int64_t bytes)
{
    struct dir_dirty *dir = NULL;
    int64_t now = 0;

    if (home == NULL || bytes == 0)
        return;
    dir = home->dir;
    now = atomic_fetch_add(&dir->bytes, bytes) + bytes;
    assert(now >= 0);
    if (bytes > 0 || now >= low_mark(dir))
        return;
    for (uint32_t i = 0; i < dir->home_count; i++) {
        struct dirty_home *other = &dir->homes[i];

        if (atomic_load(&other->waits) && !atomic_exchange(&other->woken, true))
            loop_post(other->loop, &other->task);
    }
}

bool dirty_wait(struct dirty_home *home, struct dirty_waiter *waiter)
{
    if (home == NULL || atomic_load_explicit(&home->dir->bytes, memory_order_relaxed) < home->dir->bytes_max)
        return false;
    if (list_node_is_linked(&waiter->node))
        return true;
    /* Said first, looked at again then: whoever brings it below the mark meanwhile sees one or the other. */
    atomic_store(&home->waits, true);
    if (atomic_load(&home->dir->bytes) < low_mark(home->dir))
        return false;
    list_add_last(&home->waiting, &waiter->node);
    return true;
}

void dirty_wait_end(struct dirty_waiter *waiter)
{
    if (list_node_is_linked(&waiter->node))
        list_remove(&waiter->node);
}

bool dirty_is_high(const struct dirty_home *home)
{
    return home != NULL && dirty_reaches(home, home->dir->bytes_max / 2);
}

bool dirty_reaches(const struct dirty_home *home, int64_t bytes)
{
    return home != NULL && atomic_load_explicit(&home->dir->bytes, memory_order_relaxed) >= bytes;
}
