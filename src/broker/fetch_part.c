#include "broker/fetch_part.h"

#include "base/assert.h"
#include "base/mem.h"
#include "broker/broker_internal.h"

static void evaluate(struct fetch_part *part);

/* The only place where the state changes, as fetch_part.h draws it. */
static void become(struct fetch_part *part, enum fetch_part_state state)
{
    static const uint8_t from[] = {
        [FETCH_PART_IDLE] = 1 << FETCH_PART_READING,
        [FETCH_PART_PARKED] = 1 << FETCH_PART_IDLE,
        [FETCH_PART_WAITING] = 1 << FETCH_PART_IDLE | 1 << FETCH_PART_PARKED,
        [FETCH_PART_READING] = 1 << FETCH_PART_WAITING,
    };

    assert((from[state] & 1 << part->state) != 0);
    part->state = state;
}

/* To the home or back: within the call where both are one. */
static void pass_on(struct fetch_part *part, struct shard *to, struct loop_task *task,
                    void (*run)(struct loop_task *task))
{
    if (part->home == part->origin) {
        run(task);
        return;
    }
    task->run = run;
    loop_post(to->loop, task);
}

struct fetch_part *fetch_part_at(struct shard *origin, struct fetch_session *session, struct shard *home)
{
    struct fetch_part *part = NULL;

    if (session->parts == NULL) {
        session->parts_room = origin->broker->env.reactor_count;
        session->parts = mem_calloc(session->parts_room, sizeof(struct fetch_part *));
        if (session->parts == NULL)
            return NULL;
    }
    if (session->parts[home->index] != NULL)
        return session->parts[home->index];
    part = mem_calloc(1, sizeof(*part));
    if (part == NULL)
        return NULL;
    part->home = home;
    part->origin = origin;
    part->session = session;
    list_init(&part->changed);
    list_init(&part->removed);
    list_init(&part->all);
    list_init(&part->ready);
    session->parts[home->index] = part;
    return part;
}

void fetch_part_place(struct fetch_part *part, struct fetch_entry *entry)
{
    assert(entry->part == NULL);
    list_remove(&entry->all);
    list_remove(&entry->changed);
    entry->part = part;
    list_add_last(&part->changed, &entry->changed);
}

void fetch_result_free(struct fetch_result *result)
{
    if (result == NULL)
        return;
    for (uint32_t i = 0; i < result->count; i++)
        for (uint32_t j = 0; j < result->items[i].read.slice_count; j++)
            fs_file_drop(result->items[i].read.slices[j].file);
    arena_deinit(&result->arena);
    mem_free(result);
}

/* ---- the home ---- */

static void evaluate_at_turns_end(struct loop_task *task)
{
    struct fetch_part *part = LIST_ENTRY(task, struct fetch_part, evaluate_task);

    part->evaluating = false;
    if (part->state == FETCH_PART_WAITING)
        evaluate(part);
}

static void watch_told(struct partition_watch *watch)
{
    struct fetch_entry *entry = LIST_ENTRY(watch, struct fetch_entry, watch);
    struct fetch_part *part = entry->part;

    if (!list_node_is_linked(&entry->ready))
        list_add_last(&part->ready, &entry->ready);
    /* Appends come in bursts; what a turn brought is summed up once. */
    if (part->state == FETCH_PART_WAITING && !part->evaluating) {
        part->evaluating = true;
        part->evaluate_task.run = evaluate_at_turns_end;
        loop_defer(part->home->loop, &part->evaluate_task);
    }
}

static void let_go(struct fetch_entry *entry)
{
    partition_watch_remove(&entry->watch);
    list_remove(&entry->ready);
    list_remove(&entry->all);
    entry->part = NULL;
}

static void take_changes(struct fetch_part *part)
{
    for (struct list_node *node = NULL; (node = list_take_first(&part->removed)) != NULL;)
        let_go(LIST_ENTRY(node, struct fetch_entry, changed));
    for (struct list_node *node = NULL; (node = list_take_first(&part->changed)) != NULL;) {
        struct fetch_entry *entry = LIST_ENTRY(node, struct fetch_entry, changed);

        if (!list_node_is_linked(&entry->all))
            list_add_last(&part->all, &entry->all);
        if (!list_node_is_linked(&entry->ready))
            list_add_last(&part->ready, &entry->ready);
    }
}

/* The entry's partition, watched. */
static enum err find(struct fetch_part *part, struct fetch_entry *entry, struct partition **partition)
{
    enum err err = ERR_OK;

    *partition = entry->watch.partition;
    if (*partition != NULL)
        return ERR_OK;
    err = shard_lookup(part->home, entry->topic_id, entry->index, partition);
    if (err != ERR_OK)
        return err;
    entry->watch.told = watch_told;
    partition_watch_add(*partition, &entry->watch);
    return ERR_OK;
}

static bool diverges(const struct partition *partition, const struct fetch_entry *entry)
{
    int32_t epoch = -1;
    int64_t end = -1;

    if (entry->last_fetched_epoch < 0)
        return false;
    if (partition_epoch_end(partition, -1, entry->last_fetched_epoch, &epoch, &end) != ERR_OK)
        return true; /* the read will say what is wrong */
    return epoch < entry->last_fetched_epoch || end < entry->offset;
}

/* What reading it would give that the fetch waits for: bytes, or something that must not wait. */
struct sum {
    uint64_t bytes;
    bool urgent;
};

/* What the entry's partition may bring at most; never nothing, since the first batch comes whole whatever the limit. */
static uint64_t bytes_limit(const struct fetch_entry *entry)
{
    return entry->bytes_max < 1 ? 1 : (uint64_t)entry->bytes_max;
}

static uint64_t readable(const struct fetch_part *part, const struct partition *partition,
                         const struct fetch_entry *entry)
{
    uint64_t bytes = partition_readable_bytes(partition, entry->offset, part->ask.isolation);

    return bytes < bytes_limit(entry) ? bytes : bytes_limit(entry);
}

static void add_up(struct fetch_part *part, struct fetch_entry *entry, struct sum *sum)
{
    struct partition *partition = NULL;
    uint64_t bytes = 0;

    if (find(part, entry, &partition) != ERR_OK) {
        /* Told at once the first time; from then on it is as an idle one, so that who still follows a deleted topic
         * comes again after max_wait and not without a pause. Apache Kafka waits from the first time. */
        if (!entry->told_missing)
            sum->urgent = true;
        return;
    }
    if (partition_is_failed(partition) ||
        (entry->leader_epoch >= 0 && entry->leader_epoch != partition_leader_epoch(partition))) {
        sum->urgent = true;
        return;
    }
    if (!partition_is_ready(partition))
        return;
    if (entry->offset < partition_start_offset(partition) || entry->offset > partition_end_offset(partition) ||
        diverges(partition, entry)) {
        sum->urgent = true;
        return;
    }
    partition_watch_arm(&entry->watch);
    bytes = readable(part, partition, entry);
    sum->bytes += bytes;
    /* A partition at its own limit cannot bring more, however long the fetch waits (trap B023). */
    if (bytes >= bytes_limit(entry))
        sum->urgent = true;
    if (bytes > 0)
        return;
    if (entry->told_high_watermark == partition_high_watermark(partition) &&
        entry->told_log_start == partition_start_offset(partition))
        list_remove(&entry->ready);
}

static void finish_reading(struct fetch_part *part);

static void read_done(struct partition_read *read)
{
    struct fetch_item *item = LIST_ENTRY(read, struct fetch_item, read);
    struct fetch_part *part = item->part;
    struct fetch_entry *entry = item->entry;

    /* What brought something is looked at again next time: its reader may not move on. So is what found too little
     * room for its first batch, before the others: nobody names it again, and it may never be told of more. */
    if (!list_node_is_linked(&entry->ready)) {
        if (read->size > 0 || read->err != ERR_OK || read->diverging)
            list_add_last(&part->ready, &entry->ready);
        else if (item->readable)
            list_add_first(&part->ready, &entry->ready);
    }
    part->reads_left--;
    if (part->reads_left == 0)
        finish_reading(part);
}

static void told_done(struct loop_task *task)
{
    struct fetch_part *part = LIST_ENTRY(task, struct fetch_part, done_task);

    part->busy = false;
    part->done(part);
}

static void finish_reading(struct fetch_part *part)
{
    become(part, FETCH_PART_IDLE);
    if (part->ask.release) {
        list_each (&part->all, node)
            let_go(LIST_ENTRY(node, struct fetch_entry, all));
        part->released = !part->evaluating;
    }
    pass_on(part, part->origin, &part->done_task, told_done);
}

/* Sets up one read; budget: bytes left of the reply, before and after. */
static void start_read(struct fetch_part *part, struct fetch_item *item, bool *first, uint64_t *budget)
{
    struct fetch_entry *entry = item->entry;
    struct partition *partition = NULL;
    enum err err = find(part, entry, &partition);
    uint64_t bytes = 0;

    item->read.done = read_done;
    item->read.high_watermark = -1;
    item->read.last_stable_offset = -1;
    item->read.log_start_offset = -1;
    if (err != ERR_OK) {
        item->read.err = err;
        read_done(&item->read);
        return;
    }
    partition_watch_arm(&entry->watch);
    bytes = readable(part, partition, entry);
    /* Without any room left it keeps its place in the line; what is read goes to the end when it brought something. */
    item->readable = bytes > 0;
    if (!item->readable || *budget > 0 || *first)
        list_remove(&entry->ready);
    item->read.offset = entry->offset;
    item->read.bytes_max = (uint32_t)bytes_limit(entry);
    if (item->read.bytes_max > *budget)
        item->read.bytes_max = (uint32_t)*budget;
    item->read.at_least_one = *first;
    if (item->read.at_least_one && item->read.bytes_max == 0)
        item->read.bytes_max = 1;
    item->read.isolation = part->ask.isolation;
    item->read.current_leader_epoch = entry->leader_epoch;
    item->read.last_fetched_epoch = entry->last_fetched_epoch;
    item->read.arena = &part->result->arena;
    if (partition_readable_bytes(partition, entry->offset, part->ask.isolation) > 0)
        *first = false;
    *budget -= bytes < *budget ? bytes : *budget;
    partition_read(partition, &item->read);
}

static void collect_items(struct fetch_part *part, struct fetch_result *result, uint32_t room)
{
    struct list *from = part->ask.full ? &part->all : &part->ready;

    list_each (from, node) {
        struct fetch_entry *entry =
            part->ask.full ? LIST_ENTRY(node, struct fetch_entry, all) : LIST_ENTRY(node, struct fetch_entry, ready);

        if (entry->refused != ERR_OK)
            continue;
        assert(result->count < room);
        result->items[result->count].entry = entry;
        result->items[result->count].part = part;
        result->count++;
    }
}

static void read_all(struct fetch_part *part)
{
    uint64_t budget = part->ask.bytes_max;
    uint32_t count = 0;
    bool first = true;

    list_each (part->ask.full ? &part->all : &part->ready, node)
        count++;
    become(part, FETCH_PART_READING);
    part->reads_left = 1; /* our own, so that it comes to 0 once */
    part->result = mem_calloc(1, sizeof(*part->result) + count * sizeof(struct fetch_item));
    if (part->result != NULL) {
        arena_init(&part->result->arena, FETCH_RESULT_BYTES_MAX);
        collect_items(part, part->result, count);
        part->reads_left += part->result->count;
        for (uint32_t i = 0, all = part->result->count; i < all; i++)
            start_read(part, &part->result->items[i], &first, &budget);
    }
    part->reads_left--;
    if (part->reads_left == 0)
        finish_reading(part);
}

static void told_report(struct loop_task *task)
{
    struct fetch_part *part = LIST_ENTRY(task, struct fetch_part, report_task);

    atomic_store(&part->report_posted, false);
    part->available = atomic_load(&part->report_bytes);
    if (part->busy)
        part->reported(part);
}

static void report(struct fetch_part *part, uint64_t bytes)
{
    if (bytes == part->available_reported)
        return;
    part->available_reported = bytes;
    atomic_store(&part->report_bytes, bytes);
    if (!atomic_exchange(&part->report_posted, true))
        pass_on(part, part->origin, &part->report_task, told_report);
}

static void evaluate(struct fetch_part *part)
{
    struct sum sum = {0, false};

    list_each (&part->ready, node) {
        struct fetch_entry *entry = LIST_ENTRY(node, struct fetch_entry, ready);

        if (entry->refused == ERR_OK)
            add_up(part, entry, &sum);
    }
    if (!part->ask.may_wait || sum.urgent || sum.bytes >= part->ask.bytes_min ||
        atomic_load(&part->finish_round) == part->round)
        read_all(part);
    else
        report(part, sum.bytes);
}

static void begin(struct fetch_part *part)
{
    become(part, FETCH_PART_WAITING);
    part->available_reported = 0;
    take_changes(part);
    evaluate(part);
}

static void unparked(struct shard_parked *parked)
{
    begin(LIST_ENTRY(parked, struct fetch_part, parked));
}

static void told_collect(struct loop_task *task)
{
    struct fetch_part *part = LIST_ENTRY(task, struct fetch_part, collect_task);

    if (shard_knows(part->home, part->ask.version)) {
        begin(part);
        return;
    }
    become(part, FETCH_PART_PARKED);
    part->parked.version = part->ask.version;
    part->parked.run = unparked;
    shard_park(part->home, &part->parked);
}

static void told_finish(struct loop_task *task)
{
    struct fetch_part *part = LIST_ENTRY(task, struct fetch_part, finish_task);
    bool due = part->state == FETCH_PART_WAITING && atomic_load(&part->finish_round) == part->round;

    /* Looked at first: unless it waits, the origin may free it as soon as nothing is posted any more. */
    atomic_store(&part->finish_posted, false);
    if (due)
        read_all(part);
}

/* ---- the origin ---- */

void fetch_part_collect(struct fetch_part *part)
{
    assert(!part->busy);
    part->busy = true;
    part->round++;
    part->released = false;
    part->available = 0;
    part->result = NULL;
    pass_on(part, part->home, &part->collect_task, told_collect);
}

void fetch_part_finish(struct fetch_part *part)
{
    if (!part->busy)
        return;
    /* The round number first: whoever finds a message posted already finds the number too. */
    atomic_store(&part->finish_round, part->round);
    if (!atomic_exchange(&part->finish_posted, true))
        pass_on(part, part->home, &part->finish_task, told_finish);
}

static void free_session(struct fetch_session *session)
{
    void (*freed)(void *context) = session->freed;
    void *context = session->freed_context;

    mem_free(session->parts);
    session->parts = NULL;
    fetch_session_free(session);
    freed(context);
}

static void told_given_up(struct loop_task *task)
{
    struct fetch_part *part = LIST_ENTRY(task, struct fetch_part, given_up_task);
    struct fetch_session *session = part->session;

    mem_free(part);
    session->parts_left--;
    if (session->parts_left == 0)
        free_session(session);
}

/* A look at the part may be queued for the end of this turn; it comes before this one, which is queued behind it. */
static void give_up_at_turns_end(struct loop_task *task)
{
    struct fetch_part *part = LIST_ENTRY(task, struct fetch_part, give_up_task);

    assert(!part->evaluating);
    pass_on(part, part->origin, &part->given_up_task, told_given_up);
}

static void told_give_up(struct loop_task *task)
{
    struct fetch_part *part = LIST_ENTRY(task, struct fetch_part, give_up_task);

    assert(part->state == FETCH_PART_IDLE);
    take_changes(part);
    list_each (&part->all, node)
        let_go(LIST_ENTRY(node, struct fetch_entry, all));
    if (part->evaluating) {
        task->run = give_up_at_turns_end;
        loop_defer(part->home->loop, task);
    } else {
        pass_on(part, part->origin, &part->given_up_task, told_given_up);
    }
}

void fetch_parts_give_up(struct fetch_session *session, void (*freed)(void *context), void *context)
{
    uint32_t room = session->parts == NULL ? 0 : session->parts_room;

    session->freed = freed;
    session->freed_context = context;
    session->parts_left = 1;
    for (uint32_t i = 0; i < room; i++)
        session->parts_left += session->parts[i] != NULL;
    for (uint32_t i = 0; i < room; i++) {
        struct fetch_part *part = session->parts[i];

        if (part == NULL)
            continue;
        /* A finish of its only round may still be on its way, or just be looked at: then the home has the last word. */
        if (!part->released || atomic_load(&part->finish_round) == part->round) {
            pass_on(part, part->home, &part->give_up_task, told_give_up);
            continue;
        }
        mem_free(part);
        session->parts_left--;
    }
    session->parts_left--;
    if (session->parts_left == 0)
        free_session(session);
}
