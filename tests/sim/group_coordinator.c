#include "sim/group_coordinator.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "sim/group_coordinator_check.h"
#include "sim/group_coordinator_offsets.h"

#define NS_PER_MS INT64_C(1000000)

enum {
    BATCH_BYTES_MIN = 16 * 1024,
    BATCH_BYTES_SHIFT_MAX = 6, /* to 1 MiB, as is Apache Kafka's default */
    RECORDS_FIRST = 256,
    TRANSACTIONS_FIRST = 64,
    COMMIT_MS_MAX = 30,
    DOWN_MS_MAX = 3000,
    SEED_OF_MAPS = 7,
    COMPACTED_PERCENT = 50,
};

static struct group_coordinator *of_sink(const struct step_sink *sink)
{
    return (struct group_coordinator *)(void *)((char *)(uintptr_t)sink - offsetof(struct group_coordinator, sink));
}

/* ---- the log ---- */

static struct bytes keep(struct bytes from)
{
    char *copy = from.data == NULL ? NULL : mem_copy_text(from.data, from.size);

    assert(from.data == NULL || copy != NULL);
    return bytes_of(copy, from.size);
}

static void drop_record(struct group_record *record)
{
    mem_free((void *)(uintptr_t)record->key.data);
    mem_free((void *)(uintptr_t)record->value.data);
}

static size_t batch_room(const struct step_sink *sink, const struct step *step)
{
    const struct group_coordinator *coordinator = of_sink(sink);

    (void)step;
    return coordinator->batch_bytes_max - coordinator->batch_bytes;
}

static void add_record(struct group_coordinator *coordinator, const struct group_record *record)
{
    if (mem_grow(&coordinator->records, &coordinator->record_room, coordinator->record_count + 1, RECORDS_FIRST,
                 sizeof(*coordinator->records)) != ERR_OK)
        assert(false && "memory");
    coordinator->records[coordinator->record_count++] = *record;
    coordinator->written++;
    sim_trace(coordinator->sim, coordinator->record_count, record->key.size + record->value.size);
}

static enum err take_record(struct step_sink *sink, struct step *step, struct bytes key, struct bytes value)
{
    struct group_coordinator *coordinator = of_sink(sink);
    struct group_record record = {.producer_id = step->producer == NULL ? -1 : step->producer->id,
                                  .batch = coordinator->batches,
                                  .reset = coordinator->resetting,
                                  .confused = coordinator->confused};

    if (coordinator->fail_in > 0 && --coordinator->fail_in == 0)
        return ERR_IO;
    assert(step_record_bytes(key.size, value.size) <= batch_room(sink, step)); /* it was to be asked for */
    coordinator->batch_bytes += step_record_bytes(key.size, value.size);
    record.key = keep(key);
    record.value = keep(value);
    group_record_read_offset(coordinator, &record);
    group_coordinator_check_record(coordinator, &record);
    if (record.producer_id >= 0)
        coordinator->transactions[record.producer_id - 1].written = true;
    add_record(coordinator, &record);
    return groups_replay(coordinator->groups, record.producer_id, key, value);
}

/* Only whole batches below that number stay. */
static void cut(struct group_coordinator *coordinator, uint32_t batches)
{
    while (coordinator->record_count > 0 && coordinator->records[coordinator->record_count - 1].batch >= batches) {
        struct group_record *last = &coordinator->records[--coordinator->record_count];

        if (last->marker)
            coordinator->transactions[last->producer_id - 1].marked = TRANSACTION_OPEN;
        drop_record(last);
    }
    coordinator->batches = batches;
}

/* ---- answers ---- */

static void take_answer(struct step_sink *sink, struct step *step, struct step_op *op)
{
    (void)step;
    list_add_last(&of_sink(sink)->answered, &op->node);
}

static void release(struct group_coordinator *coordinator, struct step_op *op)
{
    list_remove(&op->node);
    sim_trace(coordinator->sim, (uint64_t)op->err, (uint64_t)op->wait_offset);
    op->done(op);
}

static void release_committed(struct group_coordinator *coordinator)
{
    list_each (&coordinator->held, at) {
        struct step_op *op = LIST_ENTRY(at, struct step_op, node);

        if (op->wait_offset <= coordinator->committed)
            release(coordinator, op);
    }
}

static void release_all(struct group_coordinator *coordinator, struct list *list)
{
    while (!list_is_empty(list)) {
        struct step_op *op = LIST_ENTRY(list_first(list), struct step_op, node);

        op->err = ERR_NOT_COORDINATOR;
        release(coordinator, op);
    }
}

static void later(struct group_coordinator *coordinator, struct sim_event *event, int64_t ms_max)
{
    sim_event_add(coordinator->sim, event,
                  coordinator->sim->mono_ns + (int64_t)sim_draw(coordinator->sim, (uint64_t)(ms_max * NS_PER_MS)));
}

static void commit_run(struct sim_event *event)
{
    struct group_coordinator *coordinator =
        (struct group_coordinator *)(void *)((char *)event - offsetof(struct group_coordinator, commit));

    coordinator->committed += 1 + (uint32_t)sim_draw(coordinator->sim, coordinator->batches - coordinator->committed);
    release_committed(coordinator);
    if (coordinator->committed < coordinator->batches)
        later(coordinator, &coordinator->commit, COMMIT_MS_MAX);
}

/* ---- steps ---- */

static void begin(struct group_coordinator *coordinator)
{
    struct sim *sim = coordinator->sim;

    coordinator->batch_bytes = 0;
    coordinator->step = (struct step){.now_ns = sim->mono_ns,
                                      .now_ms = sim->mono_ns / NS_PER_MS + sim->wall_offset_ms,
                                      .rng = &sim->rng,
                                      .topics = &coordinator->topics,
                                      .sink = &coordinator->sink};
}

static void set_tick(struct group_coordinator *coordinator)
{
    int64_t due_ns = groups_due_ns(coordinator->groups);

    sim_event_cancel(coordinator->sim, &coordinator->tick);
    if (due_ns != INT64_MAX)
        sim_event_add(coordinator->sim, &coordinator->tick, due_ns);
}

static void go_down(struct group_coordinator *coordinator)
{
    begin(coordinator);
    groups_unload(coordinator->groups, &coordinator->step, ERR_NOT_COORDINATOR);
    assert(coordinator->step.err == ERR_OK);
    groups_free(coordinator->groups);
    coordinator->groups = NULL;
    group_coordinator_check_lost(coordinator);
    coordinator->fail_in = 0;
    release_all(coordinator, &coordinator->answered);
    sim_event_cancel(coordinator->sim, &coordinator->tick);
    later(coordinator, &coordinator->start, DOWN_MS_MAX);
}

/* The step is over: its records are a batch, its answers wait for that and all before it; or it has failed, and the
 * state goes with it. */
static void end(struct group_coordinator *coordinator)
{
    if (coordinator->step.err != ERR_OK) {
        coordinator->failures++;
        cut(coordinator, coordinator->batches);
        go_down(coordinator);
        return;
    }
    if (coordinator->record_count > 0 &&
        coordinator->records[coordinator->record_count - 1].batch == coordinator->batches) {
        coordinator->batches++;
        if (coordinator->commit.slot == 0)
            later(coordinator, &coordinator->commit, COMMIT_MS_MAX);
    }
    while (!list_is_empty(&coordinator->answered)) {
        struct step_op *op = LIST_ENTRY(list_first(&coordinator->answered), struct step_op, node);

        list_remove(&op->node);
        if (coordinator->decided != NULL)
            coordinator->decided(op);
        op->wait_offset = coordinator->batches;
        list_add_last(&coordinator->held, &op->node);
    }
    group_coordinator_check_state(coordinator);
    set_tick(coordinator);
    release_committed(coordinator);
}

static void tick_run(struct sim_event *event)
{
    struct group_coordinator *coordinator =
        (struct group_coordinator *)(void *)((char *)event - offsetof(struct group_coordinator, tick));

    begin(coordinator);
    groups_tick(coordinator->groups, &coordinator->step);
    end(coordinator);
}

void group_coordinator_ask(struct group_coordinator *coordinator, struct group_op *op)
{
    list_node_init(&op->op.node);
    if (coordinator->groups == NULL) {
        op->op.err = ERR_NOT_COORDINATOR;
        op->op.done(&op->op);
        return;
    }
    begin(coordinator);
    groups_ask(coordinator->groups, &coordinator->step, op);
    end(coordinator);
}

/* ---- life ---- */

/* Whether a later record makes this one needless, or its transaction was aborted: it stays in a log that nobody has
 * compacted. */
static bool superseded(const struct group_coordinator *coordinator, uint32_t at)
{
    const struct group_record *record = &coordinator->records[at];

    if (record->marker)
        return false;
    if (group_record_end(coordinator, record) == TRANSACTION_ABORTED)
        return true;
    for (uint32_t i = at + 1; i < coordinator->record_count; i++)
        if (!coordinator->records[i].marker &&
            group_record_end(coordinator, &coordinator->records[i]) != TRANSACTION_ABORTED &&
            bytes_equal(coordinator->records[i].key, record->key))
            return true;
    return false;
}

static void compact(struct group_coordinator *coordinator)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < coordinator->record_count; i++) /* it gets as far as the first transaction that is open */
        if (group_record_end(coordinator, &coordinator->records[i]) == TRANSACTION_OPEN)
            return;
    for (uint32_t i = 0; i < coordinator->record_count; i++) {
        if (superseded(coordinator, i))
            drop_record(&coordinator->records[i]);
        else
            coordinator->records[kept++] = coordinator->records[i];
    }
    coordinator->record_count = kept;
}

/* The marker of a transaction that is decided, where something of it may stand in the log. */
static void mark(struct group_coordinator *coordinator, int64_t producer_id)
{
    struct group_transaction *transaction = &coordinator->transactions[producer_id - 1];
    struct group_record record = {.producer_id = producer_id, .marker = true, .batch = coordinator->batches};

    if (coordinator->groups == NULL || !transaction->written || transaction->decided == TRANSACTION_OPEN ||
        transaction->marked != TRANSACTION_OPEN)
        return;
    begin(coordinator);
    transaction->marked = transaction->decided;
    add_record(coordinator, &record);
    if (groups_replay_marker(coordinator->groups, producer_id, transaction->decided == TRANSACTION_COMMITTED) != ERR_OK)
        assert(false && "memory");
    end(coordinator);
}

int64_t group_coordinator_begin_transaction(struct group_coordinator *coordinator)
{
    if (mem_grow(&coordinator->transactions, &coordinator->transaction_room, coordinator->transaction_count + 1,
                 TRANSACTIONS_FIRST, sizeof(*coordinator->transactions)) != ERR_OK)
        assert(false && "memory");
    coordinator->transactions[coordinator->transaction_count++] = (struct group_transaction){.written = false};
    return coordinator->transaction_count;
}

void group_coordinator_end_transaction(struct group_coordinator *coordinator, int64_t producer_id, bool committed)
{
    struct group_transaction *transaction = &coordinator->transactions[producer_id - 1];

    assert(transaction->decided == TRANSACTION_OPEN);
    transaction->decided = committed ? TRANSACTION_COMMITTED : TRANSACTION_ABORTED;
    mark(coordinator, producer_id);
}

bool group_coordinator_transaction_is_open(const struct group_coordinator *coordinator, int64_t producer_id)
{
    return coordinator->transactions[producer_id - 1].decided == TRANSACTION_OPEN;
}

static void start_run(struct sim_event *event)
{
    struct group_coordinator *coordinator =
        (struct group_coordinator *)(void *)((char *)event - offsetof(struct group_coordinator, start));
    struct groups_spec spec = {.settings = &coordinator->settings, .seed = SEED_OF_MAPS};
    enum err err = groups_new(&spec, &coordinator->groups);

    if (coordinator->committed == coordinator->batches && sim_chance(coordinator->sim, COMPACTED_PERCENT))
        compact(coordinator);
    for (uint32_t i = 0; i < coordinator->record_count && err == ERR_OK; i++) {
        const struct group_record *record = &coordinator->records[i];

        err = record->marker ? groups_replay_marker(coordinator->groups, record->producer_id,
                                                    group_record_end(coordinator, record) == TRANSACTION_COMMITTED)
                             : groups_replay(coordinator->groups, record->producer_id, record->key, record->value);
    }
    assert(err == ERR_OK);
    begin(coordinator);
    groups_loaded(coordinator->groups, &coordinator->step);
    end(coordinator);
    for (uint32_t i = 0; i < coordinator->transaction_count; i++)
        mark(coordinator, (int64_t)i + 1);
}

void group_coordinator_stop(struct group_coordinator *coordinator, bool crash)
{
    uint32_t open = coordinator->batches - coordinator->committed;

    if (coordinator->groups == NULL)
        return;
    coordinator->crashes++;
    go_down(coordinator);
    if (!crash)
        return;
    release_all(coordinator, &coordinator->held);
    cut(coordinator, coordinator->committed + (uint32_t)sim_draw(coordinator->sim, (uint64_t)open + 1));
    /* What the next leader finds in its log is what is committed. */
    coordinator->committed = coordinator->batches;
    sim_event_cancel(coordinator->sim, &coordinator->commit);
}

void group_coordinator_topic(struct group_coordinator *coordinator, uint32_t topic, uint32_t partitions)
{
    struct group_topic *entry = &coordinator->table[topic];
    struct group_topic gone = *entry;
    bool is_gone = entry->partition_count > 0 && partitions == 0;

    if (entry->partition_count == 0 && partitions > 0) {
        assert(coordinator->lives < COORDINATOR_LIVES_MAX);
        entry->id.bytes[UUID_BYTES - 1] = ++coordinator->lives;
    }
    entry->partition_count = partitions;
    if (partitions > 0) /* it never shrinks */
        coordinator->most[group_coordinator_life(coordinator, topic)] = partitions;
    coordinator->topics.version++;
    if (coordinator->groups == NULL)
        return;
    if (is_gone)
        coordinator->going[gone.id.bytes[UUID_BYTES - 1]] = (uint8_t)(topic + 1);
    begin(coordinator);
    groups_topics_changed(coordinator->groups, &coordinator->step, &gone, is_gone ? 1 : 0);
    end(coordinator);
}

/* ---- topics ---- */

uint8_t group_coordinator_life(const struct group_coordinator *coordinator, uint32_t topic)
{
    return coordinator->table[topic].partition_count == 0 ? 0 : coordinator->table[topic].id.bytes[UUID_BYTES - 1];
}

struct uuid group_coordinator_topic_id(uint8_t life)
{
    struct uuid id = {{0}};

    id.bytes[UUID_BYTES - 1] = life;
    return id;
}

static const struct group_coordinator *of_topics(const struct group_topics *topics)
{
    return (const struct group_coordinator *)(const void *)((const char *)topics -
                                                            offsetof(struct group_coordinator, topics));
}

static bool by_name(const struct group_topics *topics, struct bytes name, struct group_topic *topic)
{
    const struct group_coordinator *coordinator = of_topics(topics);

    for (uint32_t i = 0; i < COORDINATOR_TOPICS; i++)
        if (coordinator->table[i].partition_count > 0 && bytes_equal(coordinator->table[i].name, name)) {
            *topic = coordinator->table[i];
            return true;
        }
    return false;
}

static bool by_id(const struct group_topics *topics, struct uuid id, struct group_topic *topic)
{
    const struct group_coordinator *coordinator = of_topics(topics);

    for (uint32_t i = 0; i < COORDINATOR_TOPICS; i++)
        if (coordinator->table[i].partition_count > 0 && uuid_equal(coordinator->table[i].id, id)) {
            *topic = coordinator->table[i];
            return true;
        }
    return false;
}

static void each_topic(const struct group_topics *topics, struct bytes from,
                       bool (*each)(void *context, const struct group_topic *topic), void *context)
{
    const struct group_coordinator *coordinator = of_topics(topics);

    for (uint32_t i = 0; i < COORDINATOR_TOPICS; i++)
        if (coordinator->table[i].partition_count > 0 && bytes_compare(coordinator->table[i].name, from) >= 0 &&
            !each(context, &coordinator->table[i]))
            return;
}

static uint32_t no_racks(const struct group_topics *topics, struct uuid id, uint32_t partition, struct bytes *racks,
                         uint32_t max)
{
    (void)topics;
    (void)id;
    (void)partition;
    (void)racks;
    (void)max;
    return 0;
}

static struct bytes no_config(const struct group_topics *topics, struct bytes group_id, struct bytes name)
{
    (void)topics;
    (void)group_id;
    (void)name;
    return (struct bytes){0};
}

void group_coordinator_open(struct group_coordinator *coordinator, struct sim *sim)
{
    memset(coordinator, 0, sizeof(*coordinator));
    coordinator->sim = sim;
    group_settings_init(&coordinator->settings);
    coordinator->batch_bytes_max = (size_t)BATCH_BYTES_MIN << rng_below(&sim->rng, BATCH_BYTES_SHIFT_MAX + 1);
    list_init(&coordinator->answered);
    list_init(&coordinator->held);
    coordinator->topics = (struct group_topics){
        .by_name = by_name, .by_id = by_id, .each = each_topic, .racks = no_racks, .group_config = no_config};
    coordinator->sink = (struct step_sink){.record = take_record, .answer = take_answer, .room = batch_room};
    coordinator->tick.run = tick_run;
    coordinator->commit.run = commit_run;
    coordinator->start.run = start_run;
    for (uint32_t i = 0; i < COORDINATOR_TOPICS; i++) {
        (void)snprintf(coordinator->names[i], sizeof(coordinator->names[i]), "t%u", i);
        coordinator->table[i].name = bytes_of_text(coordinator->names[i]);
    }
    later(coordinator, &coordinator->start, DOWN_MS_MAX);
}

void group_coordinator_close(struct group_coordinator *coordinator)
{
    if (coordinator->groups != NULL)
        go_down(coordinator);
    release_all(coordinator, &coordinator->held);
    sim_event_cancel(coordinator->sim, &coordinator->start);
    sim_event_cancel(coordinator->sim, &coordinator->commit);
    cut(coordinator, 0);
    mem_free(coordinator->records);
    mem_free(coordinator->transactions);
    for (uint32_t i = 0; i < COORDINATOR_GROUPS; i++)
        mem_free((void *)(uintptr_t)coordinator->numbers[i].id.data);
}
