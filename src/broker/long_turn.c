#include "broker/long_turn.h"

#include "base/crash.h"
#include "broker/broker_internal.h"

/* What the turn began with, of what leaves a trace: mostly a request. */
static const struct crash_event *first_event(const struct crash_ring *ring, int64_t began_ns, uint32_t *count)
{
    uint32_t next = atomic_load_explicit(&ring->next, memory_order_relaxed);
    const struct crash_event *first = NULL;

    for (*count = 0; *count < CRASH_EVENTS && *count < next; (*count)++) {
        const struct crash_event *event = &ring->events[(next - *count - 1) & (CRASH_EVENTS - 1)];

        if (event->at_ns != began_ns)
            break;
        first = event;
    }
    return first;
}

void long_turn_tell(struct log *log, struct log_rate *rate, const struct loop *loop, const struct reactor_turn *turn)
{
    extern const char __executable_start[]; /* the linker's */
    uint32_t events = 0;
    const struct crash_event *event = loop->ring == NULL ? NULL : first_event(loop->ring, turn->began_ns, &events);

    log_line_rated(log, rate, LOG_WARN,
                   "long turn thread=%s us=%lld sockets_us=%lld tasks_us=%lld tasks=%u jobs_us=%lld jobs=%u "
                   "timers_us=%lld timers=%u deferred_us=%lld deferred=%u longest_us=%lld longest_at=0x%llx "
                   "events=%u first=\"%s\" a=%lld b=%lld",
                   loop->name, (long long)turn->ns / 1000, (long long)turn->of_ns[REACTOR_SOCKETS] / 1000,
                   (long long)turn->of_ns[REACTOR_TASKS] / 1000, turn->counts[REACTOR_TASKS],
                   (long long)turn->of_ns[REACTOR_JOBS] / 1000, turn->counts[REACTOR_JOBS],
                   (long long)turn->of_ns[REACTOR_TIMERS] / 1000, turn->counts[REACTOR_TIMERS],
                   (long long)turn->of_ns[REACTOR_DEFERRED] / 1000, turn->counts[REACTOR_DEFERRED],
                   (long long)turn->longest_ns / 1000,
                   turn->longest == 0 ? 0 : (unsigned long long)(turn->longest - (uintptr_t)__executable_start), events,
                   event == NULL ? "" : event->what, event == NULL ? 0 : (long long)event->a,
                   event == NULL ? 0 : (long long)event->b);
}

void broker_turn_ended(struct broker *broker, uint32_t loop_index, int64_t turn_ns)
{
    if (loop_index < broker->shard_count) /* the thread of the pages over HTTP has no shard */
        broker_metrics_turn(broker->metrics, broker->shards[loop_index].metrics, turn_ns);
}
