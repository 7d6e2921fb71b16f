#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "coordinator/consumer_internal.h"
#include "coordinator/topic_regex.h"
#include "protocol/gen/consumer_group_regular_expression_record.h"

enum {
    COMPILE_BYTES = 16,                 /* of an expression, to compile for a cost of 1 */
    RIGHTS_TOPICS_MAX = 4096,           /* that are looked through for rights within a heartbeat: some 200 us */
    TASK_BYTES_MAX = 256 * 1024 * 1024, /* of names that match */
};

/* One expression on its way. */
struct resolving {
    struct bytes text;
    struct topic_regex *regex;
    struct bytes *topics; /* that matched, in the task's arena */
    uint32_t count;
    uint32_t room;
};

/* All expressions of the group, resolved together, a piece of the topics in each turn. */
struct regex_task {
    struct consumer_group *consumer;
    struct list_node in_resolving;
    struct arena arena;
    struct resolving *all;
    uint32_t count;
    struct bytes after;   /* the last topic that was looked at, in after_name; null: none yet */
    uint32_t next;        /* of all: which has not looked at that one; 0: all have */
    uint32_t compiled;    /* of all */
    uint32_t tired;       /* matches, of all */
    int64_t version;      /* of the metadata it began with */
    struct bytes *denied; /* topics that whoever began it may not describe, by name */
    uint32_t denied_count;
    uint32_t denied_room;
    uint32_t seen; /* topics that were looked through for that */
    bool rights;   /* they count */
    bool asks;     /* rights are open: done when somebody of the group speaks next */
    bool done;
    uint32_t written; /* of all: records that do not fit one step go on in the next */
    enum err err;
    uint8_t after_name[GROUP_TOPIC_NAME_BYTES_MAX];
};

void consumer_regex_stop(struct consumer_group *consumer)
{
    struct regex_task *task = consumer->regex;
    struct groups *groups = consumer->group->groups;

    if (task == NULL)
        return;
    list_remove(&task->in_resolving);
    if (list_is_empty(&groups->resolving))
        group_timer_stop(groups, &groups->regex_timer);
    for (uint32_t i = 0; i < task->count; i++) {
        topic_regex_free(task->all[i].regex);
        mem_free(task->all[i].topics);
    }
    mem_free(task->all);
    mem_free(task->denied);
    arena_deinit(&task->arena);
    mem_free(task);
    consumer->regex = NULL;
}

/* ---- the result ---- */

static void warn_too_large(const struct consumer_group *consumer, const struct resolving *resolved)
{
    if (consumer->group->groups->log != NULL)
        log_warn(consumer->group->groups->log,
                 "group %.*s: an expression matches more topics than a record can name, it stays as it was topics=%u",
                 BYTES_PRINTF(consumer->group->id), resolved->count);
}

static bool same_topics(const struct consumer_expression *before, const struct bytes *topics, uint32_t count)
{
    if (before->topic_count != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!bytes_equal(before->topics[i], topics[i]))
            return false;
    return true;
}

/* What a step writes of the result. */
struct written {
    bool more;    /* not all: the rest goes on in another step */
    bool changed; /* which topics an expression matches */
};

/* more: in, it may go on in another step; out, it has to. reserved: bytes that the step is to write besides. */
static enum err write_expression(struct consumer_group *consumer, struct step *step, const struct regex_task *task,
                                 const struct resolving *resolved, size_t reserved, struct written *written)
{
    const struct consumer_expression *before = map_get(&consumer->expressions, resolved->text);
    struct consumer_group_regular_expression_key key = {.group_id = consumer->group->id,
                                                        .regular_expression = resolved->text};
    struct consumer_group_regular_expression_value value;
    struct arena arena;
    enum err err = ERR_OK;

    if (before == NULL || before->subscribers == 0) {
        written->more = false;
        return ERR_OK;
    }
    consumer_group_regular_expression_value_init(&value);
    value.topics = resolved->topics;
    value.topics_count = resolved->count;
    value.version = task->version;
    value.timestamp = step->now_ms;
    arena_init(&arena, CONSUMER_RECORD_BYTES_MAX);
    if (consumer_expression_bytes(&key, &value) + reserved > step_room(step)) {
        if (written->more)
            goto out;
        warn_too_large(consumer, resolved); /* Apache Kafka keeps what it had, too, and tries again later */
        value.topics_count = 0;
        value.topics = arena_array(&arena, before->topic_count, sizeof(struct bytes));
        err = value.topics == NULL ? ERR_NOMEM : ERR_OK;
        for (; err == ERR_OK && value.topics_count < before->topic_count; value.topics_count++)
            err = arena_copy(&arena, before->topics[value.topics_count], &value.topics[value.topics_count]);
    }
    if (err == ERR_OK) {
        written->changed |= !same_topics(before, value.topics, value.topics_count);
        err = step_write(step, &consumer_group_regular_expression_key_message, &key,
                         &consumer_group_regular_expression_value_message, 0, &value);
    }
    written->more = false;
out:
    arena_deinit(&arena);
    return err;
}

static enum err bump(struct consumer_group *consumer, struct step *step, bool changed)
{
    int32_t epoch = consumer->epoch;
    enum err err = consumer_bump(consumer, step, changed);

    if (err == ERR_OK && consumer->epoch != epoch)
        consumer_rebalance_begin(consumer, step, CAUSE_EXPRESSION, NULL, BYTES_LITERAL(""));
    return err;
}

/* Records 16 of what somebody still subscribes to, as many as fit; *more: out, there are others. With them a new epoch,
 * where an expression matches other topics than before, be they all read already by members that named them. */
static enum err write_all(struct consumer_group *consumer, struct step *step, struct regex_task *task, size_t reserved,
                          bool *more)
{
    struct written written = {0};
    uint32_t from = task->written;
    enum err err = ERR_OK;

    while (task->written < task->count && err == ERR_OK) {
        written.more = task->written > from;
        err = write_expression(consumer, step, task, &task->all[task->written],
                               reserved + consumer_epoch_bytes(consumer), &written);
        if (written.more)
            break;
        task->written++;
    }
    *more = written.more;
    if (err == ERR_OK && (written.changed || !written.more))
        err = bump(consumer, step, written.changed);
    return err;
}

static bool is_denied(const struct regex_task *task, struct bytes topic)
{
    return task->denied_count > 0 &&
           bsearch(&topic, task->denied, task->denied_count, sizeof(*task->denied), bytes_compare_elements) != NULL;
}

/* op NULL: by what was denied when it began. */
static void filter(struct regex_task *task, const struct group_op *op)
{
    for (uint32_t i = 0; i < task->count; i++) {
        struct resolving *resolving = &task->all[i];
        uint32_t kept = 0;

        for (uint32_t j = 0; j < resolving->count; j++) {
            bool may = op == NULL ? !is_denied(task, resolving->topics[j])
                                  : op->may_describe_topic == NULL || op->may_describe_topic(op, resolving->topics[j]);

            if (may)
                resolving->topics[kept++] = resolving->topics[j];
        }
        resolving->count = kept;
    }
}

enum err consumer_regex_apply(struct consumer_group *consumer, struct step *step, const struct group_op *op,
                              const struct consumer_member *member, bool *applied)
{
    struct regex_task *task = consumer->regex;
    bool more = false;
    enum err err = ERR_OK;

    *applied = false;
    if (task == NULL || !task->done)
        return ERR_OK;
    *applied = true;
    filter(task, op);
    err = write_all(consumer, step, task, consumer_current_bytes(member) + consumer_epoch_bytes(consumer), &more);
    if (err == ERR_OK && !more)
        consumer_regex_stop(consumer);
    return err;
}

/* ---- the matching ---- */

static uint32_t *cost_of(const struct regex_task *task)
{
    return &task->consumer->group->groups->regex_cost;
}

static bool is_spent(const struct regex_task *task)
{
    return *cost_of(task) >= CONSUMER_REGEX_TICK_COST;
}

/* With the expressions from next on, as far as the tick's cost allows. */
static enum err match(struct regex_task *task, struct bytes name)
{
    struct bytes copy = {0};

    for (; task->next < task->count; task->next++) {
        struct resolving *resolving = &task->all[task->next];
        enum err err = ERR_OK;

        if (is_spent(task)) {
            task->done = false;
            return ERR_OK;
        }
        if (!topic_regex_matches(resolving->regex, name, cost_of(task), &task->tired))
            continue;
        if (copy.data == NULL)
            err = arena_copy(&task->arena, name, &copy);
        if (err == ERR_OK)
            err = mem_grow(&resolving->topics, &resolving->room, resolving->count + 1, 16, sizeof(*resolving->topics));
        if (err != ERR_OK)
            return err;
        resolving->topics[resolving->count++] = copy;
    }
    task->next = 0;
    return ERR_OK;
}

static enum err compile_next(struct regex_task *task)
{
    struct resolving *resolving = &task->all[task->compiled];
    const struct group *group = task->consumer->group;
    enum err err = topic_regex_new(resolving->text, &resolving->regex);

    if (err == ERR_INVALID_REGULAR_EXPRESSION) { /* of a record that another broker wrote: it matches nothing */
        if (group->groups->log != NULL)
            log_warn(group->groups->log, "group %.*s: expression is not valid here, it matches no topic",
                     BYTES_PRINTF(group->id));
        err = topic_regex_new(BYTES_LITERAL("[^\\x00-\\x{10ffff}]"), &resolving->regex);
    }
    *cost_of(task) += 1 + (uint32_t)resolving->text.size / COMPILE_BYTES;
    task->compiled++;
    return err;
}

/* Topics come by name, from the one on that the last turn ended at. */
static bool each_topic(void *context, const struct group_topic *topic)
{
    struct regex_task *task = context;
    bool again = task->after.data != NULL && bytes_equal(topic->name, task->after);

    if (again && task->next == 0)
        return true;
    if (is_spent(task)) {
        task->done = false;
        return false;
    }
    if (!again) {
        assert(topic->name.size <= sizeof(task->after_name));
        task->next = 0; /* the one that was under way is gone */
        memcpy(task->after_name, topic->name.data, topic->name.size);
        task->after = bytes_of(task->after_name, topic->name.size);
    }
    task->err = match(task, topic->name);
    return task->err == ERR_OK && task->done;
}

/* Its turn comes after that of all who wait already. */
static void queue(struct regex_task *task, int64_t due_ns)
{
    struct groups *groups = task->consumer->group->groups;

    if (list_is_empty(&groups->resolving))
        group_timer_start(groups, &groups->regex_timer, due_ns);
    list_add_last(&groups->resolving, &task->in_resolving);
}

/* From the topic that the last turn ended at: passed over one by one, a hundred thousand that take hundreds of turns
 * would cost tens of millions of comparisons. */
static void look_at_topics(struct regex_task *task, const struct group_topics *topics)
{
    uint8_t name[GROUP_TOPIC_NAME_BYTES_MAX]; /* after_name is another's soon */
    struct bytes from = {0};

    if (task->after.size > 0) {
        memcpy(name, task->after.data, task->after.size);
        from = bytes_of(name, task->after.size);
    }
    topics->each(topics, from, each_topic, task);
}

/* It is in no queue; what is not done afterwards goes to the end of it. */
static void work(struct regex_task *task, struct step *step)
{
    struct consumer_group *consumer = task->consumer;
    bool more = false;
    enum err err = ERR_OK;

    task->done = true;
    while (task->err == ERR_OK && task->compiled < task->count && !is_spent(task))
        task->err = compile_next(task);
    if (task->err == ERR_OK && task->compiled < task->count)
        task->done = false;
    else if (task->err == ERR_OK &&
             task->written == 0) /* else all are matched, and the rest of the records is to be written */
        look_at_topics(task, step->topics);
    if (task->err != ERR_OK) { /* no memory for so many: begun anew when somebody speaks */
        consumer_regex_stop(consumer);
        return;
    }
    if (!task->done) {
        queue(task, step->now_ns + 1);
        return;
    }
    /* Topics that came meanwhile were not looked at for rights. */
    task->asks |= task->written == 0 && task->rights && step->topics->version != task->version;
    if (task->asks)
        return;
    filter(task, NULL);
    err = write_all(consumer, step, task, 0, &more);
    if (err == ERR_OK && more) {
        task->done = false; /* nobody who speaks meanwhile is to write it */
        queue(task, step->now_ns + 1);
        return;
    }
    consumer_regex_stop(consumer);
    if (err != ERR_OK && step->err == ERR_OK)
        step->err = err;
}

/* Each has at most one turn in a tick; who finds the cost spent keeps its place. */
void consumer_regex_fired(struct loop_timer *timer)
{
    struct groups *groups = LIST_ENTRY(timer, struct groups, regex_timer);
    struct list turns;
    struct list_node *node = NULL;

    list_init(&turns);
    list_move_all(&turns, &groups->resolving);
    while (groups->regex_cost < CONSUMER_REGEX_TICK_COST && group_tick_goes_on(groups) &&
           (node = list_take_first(&turns)) != NULL)
        work(LIST_ENTRY(node, struct regex_task, in_resolving), groups->step);
    list_move_all(&turns, &groups->resolving);
    list_move_all(&groups->resolving, &turns);
    if (!list_is_empty(&groups->resolving))
        group_timer_start(groups, &groups->regex_timer, groups->step->now_ns + 1);
}

/* ---- when ---- */

/* As groups.md 3.6: a new expression, new topics, or the last time is long ago; and not too often. */
static bool is_due(const struct consumer_group *consumer, const struct step *step)
{
    int64_t last_ms = 0;
    int64_t version = INT64_MAX;
    bool unresolved = false;
    bool any = false;
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&consumer->expressions, &cursor, NULL, &value)) {
        const struct consumer_expression *expression = value;

        if (expression->subscribers == 0) /* of another broker's record: nothing here is about it, nor renews it */
            continue;
        any = true;
        unresolved |= !expression->resolved;
        if (!expression->resolved)
            continue;
        if (expression->timestamp_ms > last_ms)
            last_ms = expression->timestamp_ms;
        if (expression->version < version)
            version = expression->version;
    }
    if (!any || !step_has_passed(step, last_ms, CONSUMER_REGEX_INTERVAL_MS + 1))
        return false;
    return unresolved || version < consumer->group->groups->topics_version ||
           step_has_passed(step, last_ms, consumer->group->groups->settings->regex_refresh_ms + 1);
}

/* What is denied now; too many topics: rights stay open. */
struct rights {
    struct regex_task *task;
    const struct group_op *op;
};

static bool each_right(void *context, const struct group_topic *topic)
{
    const struct rights *rights = context;
    struct regex_task *task = rights->task;

    if (task->seen == RIGHTS_TOPICS_MAX) {
        task->asks = true;
        return false;
    }
    task->seen++;
    if (rights->op->may_describe_topic(rights->op, topic->name))
        return true;
    task->err = mem_grow(&task->denied, &task->denied_room, task->denied_count + 1, 16, sizeof(*task->denied));
    if (task->err == ERR_OK)
        task->err = arena_copy(&task->arena, topic->name, &task->denied[task->denied_count]);
    task->denied_count += task->err == ERR_OK;
    return task->err == ERR_OK;
}

static enum err begin(struct consumer_group *consumer, struct step *step, const struct group_op *op)
{
    struct regex_task *task = mem_calloc(1, sizeof(*task));
    uint32_t cursor = 0;
    void *value = NULL;

    if (task == NULL)
        return ERR_NOMEM;
    *task = (struct regex_task){
        .consumer = consumer, .version = step->topics->version, .rights = op->may_describe_topic != NULL};
    list_node_init(&task->in_resolving);
    arena_init(&task->arena, TASK_BYTES_MAX);
    consumer->regex = task;
    task->all = mem_calloc((size_t)map_count(&consumer->expressions) + 1, sizeof(*task->all));
    if (task->all == NULL)
        return ERR_NOMEM;
    while (map_next(&consumer->expressions, &cursor, NULL, &value)) {
        const struct consumer_expression *expression = value;
        struct resolving *resolving = &task->all[task->count];
        enum err err = ERR_OK;

        if (expression->subscribers == 0)
            continue;
        task->count++;
        err = arena_copy(&task->arena, expression->text, &resolving->text);
        if (err != ERR_OK)
            return err;
    }
    if (op->may_describe_topic != NULL)
        step->topics->each(step->topics, (struct bytes){0}, each_right, &(struct rights){task, op});
    queue(task, step->now_ns);
    return task->err;
}

void consumer_regex_schedule(struct consumer_group *consumer, struct step *step, const struct group_op *op)
{
    if (consumer->regex != NULL || !is_due(consumer, step))
        return;
    if (begin(consumer, step, op) != ERR_OK)
        consumer_regex_stop(consumer); /* tried again with the next heartbeat */
}
