#include "http/group_json.h"

#include "base/json_text.h"

#define MS_PER_S 1000.0

/* Whether something found no memory on the way: a page with a part missing is worse than none. */
struct making {
    bool failed;
};

/* Takes value, which may be NULL for want of memory; so may be where it goes. */
static void set(struct making *to, json_t *object, const char *key, json_t *value)
{
    to->failed |= json_object_set_new(object, key, value) != 0;
}

static void add(struct making *to, json_t *array, json_t *value)
{
    to->failed |= json_array_append_new(array, value) != 0;
}

/* NULL instead of a value that is not whole. */
static json_t *made(const struct making *to, json_t *value)
{
    if (!to->failed)
        return value;
    json_decref(value);
    return NULL;
}

static json_t *json_known(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

/* As Apache Kafka's tools and ours spell it, in each page; ListGroups says "classic". */
static const char classic_name[] = "Classic", consumer_name[] = "Consumer";

static json_t *list_json(struct making *to, const struct group_query *query)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < query->group_count; i++) {
        bool is_consumer = bytes_equal(query->groups[i].group_type, BYTES_LITERAL("consumer"));
        json_t *object = json_object();

        set(to, object, "group", json_text(query->groups[i].group_id));
        set(to, object, "state", json_text(query->groups[i].group_state));
        set(to, object, "type", json_string(is_consumer ? consumer_name : classic_name));
        set(to, object, "protocol_type", json_text(query->groups[i].protocol_type));
        add(to, array, object);
    }
    return array;
}

static json_t *assignment_json(struct making *to, const struct consumer_group_describe_response_assignment *assignment)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < assignment->topic_partitions_count; i++) {
        json_t *object = json_object();
        json_t *partitions = json_array();

        for (uint32_t k = 0; k < assignment->topic_partitions[i].partitions_count; k++)
            add(to, partitions, json_integer(assignment->topic_partitions[i].partitions[k]));
        set(to, object, "topic", json_text(assignment->topic_partitions[i].topic_name));
        set(to, object, "partitions", partitions);
        add(to, array, object);
    }
    return array;
}

static json_t *consumer_json(struct making *to, const struct consumer_group_describe_response_described_group *group)
{
    json_t *object = json_object();
    json_t *members = json_array();

    for (uint32_t i = 0; i < group->members_count; i++) {
        const struct consumer_group_describe_response_member *from = &group->members[i];
        json_t *member = json_object();

        set(to, member, "member_id", json_text(from->member_id));
        set(to, member, "instance_id", json_text(from->instance_id));
        set(to, member, "client_id", json_text(from->client_id));
        set(to, member, "client_host", json_text(from->client_host));
        set(to, member, "epoch", json_integer(from->member_epoch));
        set(to, member, "assigned", assignment_json(to, &from->assignment));
        set(to, member, "target", assignment_json(to, &from->target_assignment));
        add(to, members, member);
    }
    set(to, object, "group", json_text(group->group_id));
    set(to, object, "state", json_text(group->group_state));
    set(to, object, "type", json_string(consumer_name));
    set(to, object, "assignor", json_text(group->assignor_name));
    set(to, object, "epoch", json_integer(group->group_epoch));
    set(to, object, "members", members);
    return object;
}

static json_t *classic_json(struct making *to, const struct describe_groups_response_described_group *group)
{
    json_t *object = json_object();
    json_t *members = json_array();

    for (uint32_t i = 0; i < group->members_count; i++) {
        const struct described_group_member *from = &group->members[i];
        json_t *member = json_object();

        set(to, member, "member_id", json_text(from->member_id));
        set(to, member, "instance_id", json_text(from->group_instance_id));
        set(to, member, "client_id", json_text(from->client_id));
        set(to, member, "client_host", json_text(from->client_host));
        add(to, members, member);
    }
    set(to, object, "group", json_text(group->group_id));
    set(to, object, "state", json_text(group->group_state));
    set(to, object, "type", json_string(classic_name));
    set(to, object, "protocol_type", json_text(group->protocol_type));
    set(to, object, "protocol", json_text(group->protocol_data));
    set(to, object, "members", members);
    return object;
}

static json_t *lag_json(struct making *to, const struct group_query *query, struct bytes group_id, int64_t now_ms)
{
    json_t *object = json_object();
    json_t *rows = json_array();
    int64_t lag = 0;
    double oldest_s = -1;

    for (uint32_t i = 0; i < query->partition_count; i++) {
        const struct group_query_partition *from = &query->partitions[i];
        json_t *row = json_object();
        bool has_age = from->lag == 0 || from->next_ms >= 0;
        double age_s = from->lag == 0 || from->next_ms > now_ms ? 0 : (double)(now_ms - from->next_ms) / MS_PER_S;

        set(to, row, "topic", json_text(from->topic));
        set(to, row, "partition", json_integer(from->index));
        set(to, row, "committed", json_known(from->committed));
        set(to, row, "leader_epoch", json_known(from->leader_epoch));
        set(to, row, "metadata", json_text(from->metadata));
        set(to, row, "start", json_known(from->start));
        set(to, row, "end", json_known(from->end));
        set(to, row, "lag", json_known(from->lag));
        /* Nothing unread has no age; what has no time (a record before 0.10) has none that is known. */
        set(to, row, "age_s", has_age ? json_real(age_s) : json_null());
        if (from->err != ERR_OK)
            set(to, row, "error", json_string(err_name(from->err)));
        add(to, rows, row);
        lag += from->lag > 0 ? from->lag : 0;
        if (from->lag >= 0 && has_age && age_s > oldest_s)
            oldest_s = age_s;
    }
    set(to, object, "group", json_text(group_id));
    set(to, object, "lag", json_integer(lag));
    set(to, object, "age_s", oldest_s < 0 ? json_null() : json_real(oldest_s));
    set(to, object, "partitions", rows);
    return object;
}

static json_t *history_json(struct making *to, const struct group_history_reply *history, struct bytes group_id)
{
    static const char *const names[CAUSE_COUNT] = {
        [CAUSE_JOINED] = "joined",     [CAUSE_REJOINED] = "rejoined",     [CAUSE_LEFT] = "left",
        [CAUSE_SESSION] = "session",   [CAUSE_REBALANCE_LATE] = "late",   [CAUSE_REPLACED] = "replaced",
        [CAUSE_METADATA] = "metadata", [CAUSE_EXPRESSION] = "expression", [CAUSE_CONVERTED] = "converted",
        [CAUSE_FAILED] = "failed",     [CAUSE_REMOVED] = "removed",
    };
    json_t *object = json_object();
    json_t *rows = json_array();

    for (uint32_t i = 0; i < history->count; i++) {
        const struct group_rebalance *from = &history->entries[i];
        json_t *row = json_object();

        set(to, row, "began_ms", json_integer(from->began_ms));
        set(to, row, "duration_ms", json_known(from->duration_ms));
        set(to, row, "cause", json_string(names[from->cause]));
        set(to, row, "why", json_string(group_cause_text(from->cause)));
        set(to, row, "member_id", json_text(from->member_id));
        set(to, row, "client_id", json_text(from->client_id));
        set(to, row, "client_host", json_text(from->client_host));
        set(to, row, "reason", json_text(from->reason));
        set(to, row, "generation", json_known(from->generation));
        set(to, row, "members", json_integer(from->members));
        set(to, row, "moved", json_known(from->moved));
        add(to, rows, row);
    }
    set(to, object, "group", json_text(group_id));
    set(to, object, "rebalances", rows);
    set(to, object, "dropped", json_integer((json_int_t)history->dropped));
    return object;
}

static json_t *query_json(struct making *to, const struct group_query *query, int64_t now_ms)
{
    if (query->history != NULL)
        return history_json(to, query->history, query->group_id);
    if (query->consumer != NULL)
        return consumer_json(to, query->consumer);
    if (query->classic != NULL)
        return classic_json(to, query->classic);
    if (query->kind == GROUP_QUERY_LAG)
        return lag_json(to, query, query->group_id, now_ms);
    return list_json(to, query);
}

json_t *group_json(const struct group_query *query, int64_t now_ms)
{
    struct making to = {0};
    json_t *value = query_json(&to, query, now_ms);

    return made(&to, value);
}

json_t *group_json_error(const char *why, enum err err)
{
    struct making to = {0};
    json_t *object = json_object();

    set(&to, object, "error", json_string(why));
    if (err != ERR_OK)
        set(&to, object, "code", json_string(err_name(err)));
    return made(&to, object);
}
