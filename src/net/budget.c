#include "net/budget.h"

#include "base/assert.h"

void budget_init(struct budget *budget, size_t total, size_t reserve, size_t share)
{
    assert(reserve < total);
    *budget = (struct budget){.total = total, .reserve = reserve};
    budget->share = share < total - reserve ? share : total - reserve;
    budget->credit = total / 256 < BUDGET_CREDIT_BYTES_MAX ? total / 256 : BUDGET_CREDIT_BYTES_MAX;
}

/* Free bytes at which it is worth calling a waiter: an eighth at least, lest every small release wakes a crowd. */
static size_t need_of(const struct budget *budget, const struct budget_waiter *waiter)
{
    size_t eighth = (budget->total - budget->reserve) / 8;

    return waiter->bytes > eighth ? waiter->bytes : eighth;
}

static bool is_free(struct budget *budget, size_t bytes)
{
    size_t limit = budget->total - budget->reserve;

    return bytes <= limit && atomic_load(&budget->used) <= limit - bytes;
}

/* --- calling those who wait --- */

static bool change_state(struct budget_gate *gate, enum budget_gate_state from, enum budget_gate_state to)
{
    if (!atomic_compare_exchange_strong(&gate->state, &from, to))
        return false;
    if (from == BUDGET_GATE_WAITING)
        atomic_fetch_sub(&gate->budget->gates_waiting, 1);
    if (to == BUDGET_GATE_WAITING)
        atomic_fetch_add(&gate->budget->gates_waiting, 1);
    return true;
}

/* From any thread: the gate's loop shall look at its waiters, once. */
static void call_waiting(struct budget_gate *gate)
{
    if (change_state(gate, BUDGET_GATE_WAITING, BUDGET_GATE_POSTED))
        loop_post(gate->loop, &gate->wake);
}

static void call_all_waiting(struct budget *budget)
{
    for (int i = 0; i < BUDGET_GATES_MAX; i++) {
        struct budget_gate *gate = atomic_load(&budget->gates[i]);

        if (gate == NULL)
            return;
        if (is_free(budget, atomic_load(&gate->call_at)))
            call_waiting(gate);
    }
}

/* On the gate's loop. What came free before others could see that we wait is looked for again. */
static void start_waiting(struct budget_gate *gate)
{
    if (list_is_empty(&gate->waiters))
        return;
    /* With nobody elected it is enough that the budget is not overdrawn any more. */
    atomic_store(&gate->call_at, gate->elected == NULL ? 0 : gate->needs);
    change_state(gate, BUDGET_GATE_QUIET, BUDGET_GATE_WAITING);
    if (is_free(gate->budget, atomic_load(&gate->call_at)))
        call_waiting(gate);
}

/* One more may overdraw once the last one's overdraft is paid back: that bounds the sum. */
static void elect(struct budget_gate *gate)
{
    struct list_node *first = gate->waiters.head.next;
    int64_t now_ns = loop_now_ns(gate->loop);

    if (gate->elected != NULL || list_is_empty(&gate->waiters) || !is_free(gate->budget, 0))
        return;
    list_remove(first);
    gate->elected = LIST_ENTRY(first, struct budget_waiter, node);
    gate->elected_moved = false;
    gate->elected_until_ns = now_ns + BUDGET_ELECTED_NS_MAX;
    loop_timer_start(gate->loop, &gate->elected_timer, now_ns + BUDGET_ELECTED_STALL_NS);
    gate->elected->resume(gate->elected);
}

/* Those whose bytes are there; the others go on waiting. */
static void resume_waiters(struct budget_gate *gate)
{
    struct list all;

    list_init(&all);
    while (!list_is_empty(&gate->waiters)) {
        struct list_node *first = gate->waiters.head.next;

        list_remove(first);
        list_add_last(&all, first);
    }
    gate->needs = SIZE_MAX;
    while (!list_is_empty(&all)) {
        struct list_node *first = all.head.next;
        struct budget_waiter *waiter = LIST_ENTRY(first, struct budget_waiter, node);
        size_t need = need_of(gate->budget, waiter);

        list_remove(first);
        if (is_free(gate->budget, need)) {
            waiter->resume(waiter);
            continue;
        }
        list_add_last(&gate->waiters, first);
        gate->needs = need < gate->needs ? need : gate->needs;
    }
}

static void woken(struct loop_task *task)
{
    struct budget_gate *gate = LIST_ENTRY(task, struct budget_gate, wake);

    change_state(gate, BUDGET_GATE_POSTED, BUDGET_GATE_QUIET);
    resume_waiters(gate);
    elect(gate);
    start_waiting(gate);
}

/* --- getting rid of what has stalled --- */

static void press(struct loop_task *task)
{
    struct budget_gate *gate = LIST_ENTRY(task, struct budget_gate, press);

    atomic_store(&gate->press_posted, false);
    if (gate->pressed != NULL)
        gate->pressed(gate);
}

static void press_all(struct budget *budget)
{
    for (int i = 0; i < BUDGET_GATES_MAX; i++) {
        struct budget_gate *gate = atomic_load(&budget->gates[i]);

        if (gate == NULL)
            return;
        if (!atomic_exchange(&gate->press_posted, true))
            loop_post(gate->loop, &gate->press);
    }
}

/* The elected one is looked at: it goes on as long as it moves, or nobody else waits. */
static void elected_checked(struct loop_timer *timer)
{
    struct budget_gate *gate = LIST_ENTRY(timer, struct budget_gate, elected_timer);
    struct budget_waiter *elected = gate->elected;
    int64_t now_ns = loop_now_ns(gate->loop);

    assert(elected != NULL);
    if ((gate->elected_moved && now_ns < gate->elected_until_ns) ||
        (list_is_empty(&gate->waiters) && atomic_load(&gate->budget->gates_waiting) == 0)) {
        gate->elected_moved = false;
        loop_timer_start(gate->loop, timer, now_ns + BUDGET_ELECTED_STALL_NS);
        return;
    }
    press_all(gate->budget);
    gate->elected = NULL;
    if (is_free(gate->budget, 0)) {
        list_add_last(&gate->waiters, &elected->node);
        gate->needs = need_of(gate->budget, elected) < gate->needs ? need_of(gate->budget, elected) : gate->needs;
    } else {
        elected->evict(elected);
    }
    start_waiting(gate);
}

/* --- gates --- */

MUST_CHECK enum err budget_gate_init(struct budget_gate *gate, struct budget *budget, struct loop *loop)
{
    *gate = (struct budget_gate){.budget = budget, .loop = loop};
    list_init(&gate->waiters);
    gate->elected_timer.fired = elected_checked;
    gate->wake.run = woken;
    gate->press.run = press;
    for (int i = 0; i < BUDGET_GATES_MAX; i++) {
        struct budget_gate *none = NULL;

        if (atomic_compare_exchange_strong(&budget->gates[i], &none, gate))
            return ERR_OK;
    }
    return ERR_LIMIT;
}

void budget_gate_deinit(struct budget_gate *gate)
{
    struct budget *budget = gate->budget;
    int at = 0;
    int last = 0;

    assert(list_is_empty(&gate->waiters) && gate->elected == NULL);
    change_state(gate, BUDGET_GATE_WAITING, BUDGET_GATE_QUIET);
    atomic_fetch_sub(&budget->used, gate->credit);
    while (atomic_load(&budget->gates[at]) != gate)
        at++;
    while (last + 1 < BUDGET_GATES_MAX && atomic_load(&budget->gates[last + 1]) != NULL)
        last++;
    /* call_all_waiting stops at the first hole, so the last one fills it. */
    atomic_store(&budget->gates[at], atomic_load(&budget->gates[last]));
    atomic_store(&budget->gates[last], NULL);
}

static bool charge(struct budget *budget, size_t bytes, size_t limit)
{
    size_t used = atomic_load_explicit(&budget->used, memory_order_relaxed);

    do {
        if (bytes > limit || used > limit - bytes)
            return false;
    } while (!atomic_compare_exchange_weak(&budget->used, &used, used + bytes));
    return true;
}

MUST_CHECK bool budget_take(struct budget_gate *gate, struct budget_waiter *waiter, size_t bytes, bool reserve)
{
    struct budget *budget = gate->budget;
    size_t limit = reserve ? budget->total : budget->total - budget->reserve;

    if (waiter != NULL && waiter == gate->elected) {
        gate->elected_moved = true;
        budget_take_over(gate, bytes);
        return true;
    }
    if (bytes <= gate->credit) {
        gate->credit -= bytes;
        return true;
    }
    if (charge(budget, bytes + budget->credit, limit)) {
        gate->credit += budget->credit;
        return true;
    }
    return charge(budget, bytes, limit);
}

void budget_take_over(struct budget_gate *gate, size_t bytes)
{
    if (bytes <= gate->credit)
        gate->credit -= bytes;
    else
        atomic_fetch_add(&gate->budget->used, bytes);
}

void budget_give(struct budget_gate *gate, size_t bytes)
{
    struct budget *budget = gate->budget;
    bool waited_for = atomic_load(&budget->gates_waiting) > 0;

    gate->credit += bytes;
    if (!waited_for && gate->credit <= 2 * budget->credit)
        return;
    bytes = waited_for ? gate->credit : gate->credit - budget->credit;
    gate->credit -= bytes;
    atomic_fetch_sub(&budget->used, bytes);
    if (atomic_load(&budget->gates_waiting) > 0)
        call_all_waiting(budget);
}

void budget_wait(struct budget_gate *gate, struct budget_waiter *waiter, size_t bytes)
{
    size_t need = 0;

    assert(waiter != gate->elected);
    waiter->bytes = bytes;
    need = need_of(gate->budget, waiter);
    if (list_is_empty(&gate->waiters) || need < gate->needs)
        gate->needs = need;
    list_add_last(&gate->waiters, &waiter->node);
    start_waiting(gate);
}

void budget_wait_over(struct budget_gate *gate, struct budget_waiter *waiter)
{
    if (waiter != gate->elected) {
        list_remove(&waiter->node);
        return;
    }
    gate->elected = NULL;
    loop_timer_stop(gate->loop, &gate->elected_timer);
    start_waiting(gate);
}
