#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "coordinator/consumer_internal.h"
#include "coordinator/topic_regex.h"
#include "protocol/gen/consumer_group_regular_expression_record.h"

enum {
    PIECE_MATCHES = 1024,               /* in one step: some 200 us of simple expressions */
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

/* All expressions of the group, resolved together, a piece of the topics in each step. */
struct regex_task {
    struct consumer_group *consumer;
    struct loop_timer timer;
    struct arena arena;
    struct resolving *all;
    uint32_t count;
    struct bytes after;   /* the last topic that was looked at; null: none yet */
    uint32_t matches;     /* in this step */
    int64_t version;      /* of the metadata it began with */
    struct bytes *denied; /* topics that whoever began it may not describe, by name */
    uint32_t denied_count;
    uint32_t denied_room;
    uint32_t seen; /* topics that were looked through for that */
    bool rights;   /* they count */
    bool asks;     /* rights are open: done when somebody of the group speaks next */
    bool done;
    enum err err;
};

void consumer_regex_stop(struct consumer_group *consumer)
{
    struct regex_task *task = consumer->regex;

    if (task == NULL)
        return;
    group_timer_stop(consumer->group->groups, &task->timer);
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

static enum err write_expression(struct consumer_group *consumer, struct step *step, const struct regex_task *task,
                                 const struct resolving *resolved)
{
    struct consumer_group_regular_expression_key key = {.group_id = consumer->group->id,
                                                        .regular_expression = resolved->text};
    struct consumer_group_regular_expression_value value;

    consumer_group_regular_expression_value_init(&value);
    value.topics = resolved->topics;
    value.topics_count = resolved->count;
    value.version = task->version;
    value.timestamp = step->now_ms;
    return step_write(step, &consumer_group_regular_expression_key_message, &key,
                      &consumer_group_regular_expression_value_message, 0, &value);
}

/* Records 16 of what somebody still subscribes to. */
static enum err write_all(struct consumer_group *consumer, struct step *step, const struct regex_task *task)
{
    for (uint32_t i = 0; i < task->count; i++) {
        const struct consumer_expression *expression = map_get(&consumer->expressions, task->all[i].text);
        enum err err = ERR_OK;

        if (expression == NULL || expression->subscribers == 0)
            continue;
        err = write_expression(consumer, step, task, &task->all[i]);
        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

static enum err bump_if_changed(struct consumer_group *consumer, struct step *step)
{
    int32_t epoch = consumer->epoch;
    enum err err = consumer_bump(consumer, step, false);

    if (err == ERR_OK && consumer->epoch != epoch)
        consumer_rebalance_begin(consumer, step, CAUSE_EXPRESSION, NULL, BYTES_LITERAL(""));
    return err;
}

static int compare_names(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

static bool is_denied(const struct regex_task *task, struct bytes topic)
{
    return task->denied_count > 0 &&
           bsearch(&topic, task->denied, task->denied_count, sizeof(*task->denied), compare_names) != NULL;
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

enum err consumer_regex_apply(struct consumer_group *consumer, struct step *step, const struct group_op *op)
{
    struct regex_task *task = consumer->regex;
    enum err err = ERR_OK;

    if (task == NULL || !task->done)
        return ERR_OK;
    filter(task, op);
    err = write_all(consumer, step, task);
    consumer_regex_stop(consumer);
    return err == ERR_OK ? bump_if_changed(consumer, step) : err;
}

/* ---- the matching ---- */

static enum err match(struct regex_task *task, struct bytes name)
{
    struct bytes copy = {0};

    for (uint32_t i = 0; i < task->count; i++) {
        struct resolving *resolving = &task->all[i];
        enum err err = ERR_OK;

        task->matches++;
        if (!topic_regex_matches(resolving->regex, name))
            continue;
        if (copy.data == NULL)
            err = arena_copy(&task->arena, name, &copy);
        if (err == ERR_OK)
            err = mem_grow(&resolving->topics, &resolving->room, resolving->count + 1, 16, sizeof(*resolving->topics));
        if (err != ERR_OK)
            return err;
        resolving->topics[resolving->count++] = copy;
    }
    return ERR_OK;
}

/* Topics come by name: those up to where the last step ended are passed over. */
static bool each_topic(void *context, const struct group_topic *topic)
{
    struct regex_task *task = context;

    if (task->after.data != NULL && bytes_compare(topic->name, task->after) <= 0)
        return true;
    if (task->matches >= PIECE_MATCHES) {
        task->done = false;
        return false;
    }
    task->err = match(task, topic->name);
    if (task->err == ERR_OK)
        task->err = arena_copy(&task->arena, topic->name, &task->after);
    return task->err == ERR_OK;
}

static void task_fired(struct loop_timer *timer)
{
    struct regex_task *task = (struct regex_task *)(void *)((char *)timer - offsetof(struct regex_task, timer));
    struct consumer_group *consumer = task->consumer;
    struct step *step = consumer->group->groups->step;
    enum err err = ERR_OK;

    task->matches = 0;
    task->done = true;
    step->topics->each(step->topics, each_topic, task);
    if (task->err != ERR_OK) { /* no memory for so many: begun anew when somebody speaks */
        consumer_regex_stop(consumer);
        return;
    }
    if (!task->done) {
        group_timer_start(consumer->group->groups, timer, step->now_ns + 1);
        return;
    }
    /* Topics that came meanwhile were not looked at for rights. */
    task->asks |= task->rights && step->topics->version != task->version;
    if (task->asks)
        return;
    filter(task, NULL);
    err = write_all(consumer, step, task);
    consumer_regex_stop(consumer);
    if (err == ERR_OK)
        err = bump_if_changed(consumer, step);
    if (err != ERR_OK && step->err == ERR_OK)
        step->err = err;
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

        any |= expression->subscribers > 0;
        unresolved |= expression->subscribers > 0 && !expression->resolved;
        if (!expression->resolved)
            continue;
        if (expression->timestamp_ms > last_ms)
            last_ms = expression->timestamp_ms;
        if (expression->version < version)
            version = expression->version;
    }
    if (!any || step->now_ms <= last_ms + CONSUMER_REGEX_INTERVAL_MS)
        return false;
    return unresolved || version < consumer->topics_version ||
           step->now_ms > last_ms + consumer->group->groups->settings->regex_refresh_ms;
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
    task->timer.fired = task_fired;
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
        if (err == ERR_OK)
            err = topic_regex_new(expression->text, &resolving->regex);
        if (err == ERR_INVALID_REGULAR_EXPRESSION) { /* of a record that another broker wrote: it matches nothing */
            if (consumer->group->groups->log != NULL)
                log_warn(consumer->group->groups->log, "group %.*s: expression is not valid here, it matches no topic",
                         BYTES_PRINTF(consumer->group->id));
            err = topic_regex_new(BYTES_LITERAL("[^\\x00-\\x{10ffff}]"), &resolving->regex);
        }
        if (err != ERR_OK)
            return err;
    }
    if (op->may_describe_topic != NULL)
        step->topics->each(step->topics, each_right, &(struct rights){task, op});
    group_timer_start(consumer->group->groups, &task->timer, step->now_ns);
    return task->err;
}

void consumer_regex_schedule(struct consumer_group *consumer, struct step *step, const struct group_op *op)
{
    if (consumer->regex != NULL || !is_due(consumer, step))
        return;
    if (begin(consumer, step, op) != ERR_OK)
        consumer_regex_stop(consumer); /* tried again with the next heartbeat */
}
