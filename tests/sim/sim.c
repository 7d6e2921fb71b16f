#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/sim_internal.h"

enum {
    STEP_NS_MAX = 20 * 1000,      /* a step takes up to this much virtual time */
    WALL_START_MS_HIGH = 1767225, /* 2026-01-01 in kiloseconds: wall clocks look like today's */
    SETTLE_NS = 1000 * 1000,      /* timers further off do not count as unrest */
};

/* splitmix64: small, and the same everywhere. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t clock_mono(struct clock *clock)
{
    return ((struct sim *)(void *)((char *)clock - offsetof(struct sim, clock)))->mono_ns;
}

static int64_t clock_wall(struct clock *clock)
{
    struct sim *sim = (struct sim *)(void *)((char *)clock - offsetof(struct sim, clock));

    return (sim->mono_ns + sim->slept_ns) / 1000000 + sim->wall_offset_ms;
}

static int64_t clock_boot(struct clock *clock)
{
    struct sim *sim = (struct sim *)(void *)((char *)clock - offsetof(struct sim, clock));

    return sim->mono_ns + sim->slept_ns;
}

static void node_fill(struct rng *rng, void *to, size_t size)
{
    struct sim *sim = (struct sim *)(void *)((char *)rng - offsetof(struct sim, rng));
    uint8_t *at = to;

    while (size > 0) {
        uint64_t value = draw(&sim->rng_state);
        size_t take = size < sizeof(value) ? size : sizeof(value);

        memcpy(at, &value, take);
        at += take;
        size -= take;
    }
}

void sim_init(struct sim *sim, uint64_t seed)
{
    *sim = (struct sim){
        .clock = {.mono_ns = clock_mono, .wall_ms = clock_wall, .boot_ns = clock_boot},
        .rng = {.fill = node_fill},
        .rng_state = seed ^ 0x6f74746c61u,
        .world_state = seed,
        .seed = seed,
        .mono_ns = 1000000000,
        .wall_offset_ms = (int64_t)WALL_START_MS_HIGH * 1000 * 1000,
        .habits =
            {
                .job_delay_ns_max = 2000000,
                .network_delay_ns_max = 1000000,
                .network_run_bytes_max = 4096,
                .cached_miss_percent = 5,
            },
    };
}

void sim_deinit(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->loop_count; i++)
        sim_loop_free(sim->loops[i]);
    free(sim->pending);
}

uint64_t sim_draw(struct sim *sim, uint64_t bound)
{
    assert(bound > 0);
    return draw(&sim->world_state) % bound;
}

bool sim_chance(struct sim *sim, uint32_t percent)
{
    return percent > 0 && sim_draw(sim, 100) < percent;
}

void sim_trace(struct sim *sim, uint64_t a, uint64_t b)
{
    uint64_t mixed = sim->trace_hash ^ a;

    mixed = draw(&mixed) ^ b;
    sim->trace_hash = draw(&mixed);
}

void sim_event_add(struct sim *sim, struct sim_event *event, int64_t due_ns)
{
    assert(event->slot == 0);
    if (sim->pending_count == sim->pending_room) {
        size_t room = sim->pending_room == 0 ? 64 : sim->pending_room * 2;
        struct sim_event **grown = realloc(sim->pending, room * sizeof(struct sim_event *));

        assert(grown != NULL); /* the test's own memory */
        sim->pending = grown;
        sim->pending_room = room;
    }
    event->due_ns = due_ns;
    sim->pending[sim->pending_count++] = event;
    event->slot = sim->pending_count;
}

void sim_event_cancel(struct sim *sim, struct sim_event *event)
{
    if (event->slot == 0)
        return;
    assert(sim->pending[event->slot - 1] == event);
    sim->pending[event->slot - 1] = sim->pending[--sim->pending_count];
    sim->pending[event->slot - 1]->slot = event->slot;
    event->slot = 0;
}

static uint32_t choices(struct sim *sim)
{
    uint32_t count = 0;

    for (size_t i = 0; i < sim->pending_count; i++)
        count += sim->pending[i]->due_ns <= sim->mono_ns;
    for (uint32_t i = 0; i < sim->loop_count; i++)
        count += sim_loop_choices(sim->loops[i]);
    return count;
}

static void take(struct sim *sim, uint32_t choice)
{
    for (size_t i = 0; i < sim->pending_count; i++) {
        struct sim_event *event = sim->pending[i];

        if (event->due_ns > sim->mono_ns)
            continue;
        if (choice-- == 0) {
            sim_event_cancel(sim, event);
            event->run(event);
            return;
        }
    }
    for (uint32_t i = 0; i < sim->loop_count; i++) {
        uint32_t count = sim_loop_choices(sim->loops[i]);

        if (choice < count) {
            sim_loop_turn(sim->loops[i], choice);
            return;
        }
        choice -= count;
    }
    assert(false && "a choice that is not there");
}

static int64_t next_due(struct sim *sim)
{
    int64_t due = INT64_MAX;

    for (size_t i = 0; i < sim->pending_count; i++)
        due = sim->pending[i]->due_ns < due ? sim->pending[i]->due_ns : due;
    for (uint32_t i = 0; i < sim->loop_count; i++) {
        int64_t wake = sim_loop_wake_ns(sim->loops[i]);

        due = wake < due ? wake : due;
    }
    return due;
}

bool sim_step(struct sim *sim, int64_t until_ns)
{
    uint32_t count = choices(sim);

    if (count == 0) {
        int64_t due = next_due(sim);

        if (due == INT64_MAX || due > until_ns) {
            sim->mono_ns = until_ns > sim->mono_ns && until_ns != INT64_MAX ? until_ns : sim->mono_ns;
            return false;
        }
        sim->mono_ns = due > sim->mono_ns ? due : sim->mono_ns;
        count = choices(sim);
        assert(count > 0);
    }
    uint32_t choice = (uint32_t)sim_draw(sim, count);
    sim_trace(sim, (uint64_t)sim->mono_ns, (uint64_t)choice << 32 | count);
    take(sim, choice);
    sim->steps++;
    sim->mono_ns += 1 + (int64_t)sim_draw(sim, STEP_NS_MAX);
    if (sim->stepped != NULL)
        sim->stepped(sim->stepped_context);
    return true;
}

bool sim_run(struct sim *sim, int64_t until_ns, bool (*done)(void *context), void *context)
{
    while (done == NULL || !done(context))
        if (sim->mono_ns >= until_ns || !sim_step(sim, until_ns))
            return done != NULL && done(context);
    return true;
}

void sim_settle(struct sim *sim)
{
    while (choices(sim) > 0 || next_due(sim) < sim->mono_ns + SETTLE_NS)
        if (!sim_step(sim, INT64_MAX))
            return;
}
