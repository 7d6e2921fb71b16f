#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "coordinator/classic_internal.h"

enum { MAP_ENTRY_BYTES = 64 }; /* of the group's map of them, about */

static size_t cost(const struct classic_pending *pending)
{
    return sizeof(*pending) + MAP_ENTRY_BYTES + pending->id.size;
}

static void forget(struct classic_pending *pending)
{
    struct groups *groups = pending->classic->group->groups;

    (void)map_remove(&pending->classic->pending, pending->id);
    list_remove(&pending->node);
    groups->pending_bytes -= cost(pending);
    group_timer_stop(groups, &pending->timer);
    mem_free(pending);
}

static void fired(struct loop_timer *timer)
{
    struct classic_pending *pending = LIST_ENTRY(timer, struct classic_pending, timer);
    struct classic_group *classic = pending->classic;
    struct group *group = classic->group;

    forget(pending);
    classic_after_removal(classic, group->groups->step, NULL);
    (void)group_settle(group);
}

/* Room for a new one: the oldest of this coordinator are forgotten, whatever their group. They come back with an id
 * that is unknown then, and ask for another. */
static void make_room(struct groups *groups, struct step *step)
{
    while (groups->pending_bytes > CLASSIC_PENDING_BYTES_MAX) {
        struct classic_pending *oldest = LIST_ENTRY(list_first(&groups->pending), struct classic_pending, node);
        struct classic_group *classic = oldest->classic;

        forget(oldest);
        classic_after_removal(classic, step, NULL);
    }
}

enum err classic_pending_add(struct classic_group *classic, struct step *step, struct bytes id,
                             int32_t session_timeout_ms)
{
    struct groups *groups = classic->group->groups;
    struct classic_pending *made = mem_alloc(sizeof(*made) + id.size + 1);

    if (made == NULL)
        return ERR_NOMEM;
    memcpy(made + 1, id.data, id.size);
    *made = (struct classic_pending){.classic = classic, .id = bytes_of(made + 1, id.size), .timer = {.fired = fired}};
    list_node_init(&made->node);
    if (map_insert(&classic->pending, made->id, made) != ERR_OK) {
        mem_free(made);
        return ERR_NOMEM;
    }
    list_add_last(&groups->pending, &made->node);
    groups->pending_bytes += cost(made);
    group_timer_start(groups, &made->timer, step->now_ns + session_timeout_ms * NS_PER_MS);
    make_room(groups, step);
    return ERR_OK;
}

bool classic_pending_has(const struct classic_group *classic, struct bytes id)
{
    return map_get(&classic->pending, id) != NULL;
}

void classic_pending_remove(struct classic_group *classic, struct bytes id)
{
    struct classic_pending *pending = map_get(&classic->pending, id);

    if (pending != NULL)
        forget(pending);
}
