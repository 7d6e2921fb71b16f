#include "http/group_pages.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/mem.h"

#define MS_PER_S 1000.0

struct page {
    struct group_pages *pages;
    struct http_exchange *exchange;
};

/* ---- paths ---- */

static int hex_digit(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* %2F and its like; false: that is none. */
static bool unescape(struct bytes from, uint8_t *to, struct bytes *text)
{
    size_t size = 0;

    for (size_t i = 0; i < from.size; i++) {
        if (from.data[i] != '%') {
            to[size++] = from.data[i];
            continue;
        }
        if (i + 2 >= from.size || hex_digit(from.data[i + 1]) < 0 || hex_digit(from.data[i + 2]) < 0)
            return false;
        to[size++] = (uint8_t)(hex_digit(from.data[i + 1]) * 16 + hex_digit(from.data[i + 2]));
        i += 2;
    }
    *text = bytes_of(to, size);
    return true;
}

static bool take_prefix(struct bytes *path, struct bytes prefix)
{
    if (path->size < prefix.size || memcmp(path->data, prefix.data, prefix.size) != 0)
        return false;
    *path = bytes_of(path->data + prefix.size, path->size - prefix.size);
    return true;
}

bool group_pages_parse(struct bytes path, uint8_t *to, enum group_query_kind *kind, struct bytes *group_id)
{
    const uint8_t *question = memchr(path.data, '?', path.size);
    const uint8_t *slash = NULL;
    struct bytes rest = {0};

    if (question != NULL)
        path.size = (size_t)(question - path.data);
    *group_id = BYTES_LITERAL("");
    *kind = GROUP_QUERY_LIST;
    if (!take_prefix(&path, BYTES_LITERAL("/groups")))
        return false;
    if (path.size == 0 || bytes_equal(path, BYTES_LITERAL("/")))
        return true;
    if (!take_prefix(&path, BYTES_LITERAL("/")))
        return false;
    slash = memchr(path.data, '/', path.size);
    if (slash != NULL) {
        rest = bytes_of(slash + 1, path.size - (size_t)(slash - path.data) - 1);
        path.size = (size_t)(slash - path.data);
    }
    *kind = GROUP_QUERY_DESCRIBE;
    if (bytes_equal(rest, BYTES_LITERAL("lag")))
        *kind = GROUP_QUERY_LAG;
    else if (bytes_equal(rest, BYTES_LITERAL("history")))
        *kind = GROUP_QUERY_HISTORY;
    else if (rest.size > 0)
        return false;
    return unescape(path, to, group_id) && group_id->size > 0;
}

/* ---- JSON ---- */

static void set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new(object, key, value);
}

/* Null where it is; what is no UTF-8 has '?' for its bytes. */
static json_t *json_text(struct bytes text)
{
    json_t *value = text.data == NULL ? json_null() : json_stringn((const char *)text.data, text.size);
    char *clean = NULL;

    if (value != NULL)
        return value;
    clean = mem_copy_text(text.data, text.size);
    for (size_t i = 0; clean != NULL && i < text.size; i++)
        if ((unsigned char)clean[i] >= 0x80)
            clean[i] = '?';
    value = clean == NULL ? NULL : json_stringn(clean, text.size);
    mem_free(clean);
    return value;
}

static json_t *json_known(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

static json_t *list_json(const struct group_query *query)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < query->group_count; i++) {
        json_t *object = json_object();

        set(object, "group", json_text(query->groups[i].group_id));
        set(object, "state", json_text(query->groups[i].group_state));
        set(object, "type", json_text(query->groups[i].group_type));
        set(object, "protocol_type", json_text(query->groups[i].protocol_type));
        (void)json_array_append_new(array, object);
    }
    return array;
}

static json_t *assignment_json(const struct consumer_group_describe_response_assignment *assignment)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < assignment->topic_partitions_count; i++) {
        json_t *object = json_object();
        json_t *partitions = json_array();

        for (uint32_t k = 0; k < assignment->topic_partitions[i].partitions_count; k++)
            (void)json_array_append_new(partitions, json_integer(assignment->topic_partitions[i].partitions[k]));
        set(object, "topic", json_text(assignment->topic_partitions[i].topic_name));
        set(object, "partitions", partitions);
        (void)json_array_append_new(array, object);
    }
    return array;
}

static json_t *consumer_json(const struct consumer_group_describe_response_described_group *group)
{
    json_t *object = json_object();
    json_t *members = json_array();

    for (uint32_t i = 0; i < group->members_count; i++) {
        const struct consumer_group_describe_response_member *from = &group->members[i];
        json_t *member = json_object();

        set(member, "member_id", json_text(from->member_id));
        set(member, "instance_id", json_text(from->instance_id));
        set(member, "client_id", json_text(from->client_id));
        set(member, "client_host", json_text(from->client_host));
        set(member, "epoch", json_integer(from->member_epoch));
        set(member, "assigned", assignment_json(&from->assignment));
        set(member, "target", assignment_json(&from->target_assignment));
        (void)json_array_append_new(members, member);
    }
    set(object, "group", json_text(group->group_id));
    set(object, "state", json_text(group->group_state));
    set(object, "type", json_string("Consumer"));
    set(object, "assignor", json_text(group->assignor_name));
    set(object, "epoch", json_integer(group->group_epoch));
    set(object, "members", members);
    return object;
}

static json_t *classic_json(const struct describe_groups_response_described_group *group)
{
    json_t *object = json_object();
    json_t *members = json_array();

    for (uint32_t i = 0; i < group->members_count; i++) {
        const struct described_group_member *from = &group->members[i];
        json_t *member = json_object();

        set(member, "member_id", json_text(from->member_id));
        set(member, "instance_id", json_text(from->group_instance_id));
        set(member, "client_id", json_text(from->client_id));
        set(member, "client_host", json_text(from->client_host));
        (void)json_array_append_new(members, member);
    }
    set(object, "group", json_text(group->group_id));
    set(object, "state", json_text(group->group_state));
    set(object, "type", json_string("Classic"));
    set(object, "protocol_type", json_text(group->protocol_type));
    set(object, "protocol", json_text(group->protocol_data));
    set(object, "members", members);
    return object;
}

static json_t *lag_json(const struct group_query *query, struct bytes group_id, int64_t now_ms)
{
    json_t *object = json_object();
    json_t *rows = json_array();
    int64_t lag = 0;
    double oldest_s = -1;

    for (uint32_t i = 0; i < query->partition_count; i++) {
        const struct group_query_partition *from = &query->partitions[i];
        json_t *row = json_object();
        double age_s = from->next_ms < 0 || from->next_ms > now_ms ? 0 : (double)(now_ms - from->next_ms) / MS_PER_S;

        set(row, "topic", json_text(from->topic));
        set(row, "partition", json_integer(from->index));
        set(row, "committed", json_known(from->committed));
        set(row, "leader_epoch", json_known(from->leader_epoch));
        set(row, "metadata", json_text(from->metadata));
        set(row, "start", json_known(from->start));
        set(row, "end", json_known(from->end));
        set(row, "lag", json_known(from->lag));
        /* Nothing unread has no age; what has no time (a record before 0.10) has none that is known. */
        set(row, "age_s", from->lag == 0 ? json_real(0) : from->next_ms < 0 ? json_null() : json_real(age_s));
        if (from->err != ERR_OK)
            set(row, "error", json_string(err_name(from->err)));
        (void)json_array_append_new(rows, row);
        lag += from->lag > 0 ? from->lag : 0;
        if (from->lag >= 0 && age_s > oldest_s)
            oldest_s = age_s;
    }
    set(object, "group", json_text(group_id));
    set(object, "lag", json_integer(lag));
    set(object, "age_s", oldest_s < 0 ? json_null() : json_real(oldest_s));
    set(object, "partitions", rows);
    return object;
}

static json_t *history_json(const struct group_history_reply *history, struct bytes group_id)
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

        set(row, "began_ms", json_integer(from->began_ms));
        set(row, "duration_ms", json_known(from->duration_ms));
        set(row, "cause", json_string(names[from->cause]));
        set(row, "why", json_string(group_cause_text(from->cause)));
        set(row, "member_id", json_text(from->member_id));
        set(row, "client_id", json_text(from->client_id));
        set(row, "client_host", json_text(from->client_host));
        set(row, "reason", json_text(from->reason));
        set(row, "generation", json_known(from->generation));
        set(row, "members", json_integer(from->members));
        set(row, "moved", json_known(from->moved));
        (void)json_array_append_new(rows, row);
    }
    set(object, "group", json_text(group_id));
    set(object, "rebalances", rows);
    return object;
}

/* ---- answers ---- */

static void reply(struct http_exchange *exchange, int status, json_t *value)
{
    size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(12);
    size_t size = value == NULL ? 0 : json_dumpb(value, NULL, 0, flags);
    char *text = size == 0 ? NULL : mem_alloc(size);

    if (text == NULL || json_dumpb(value, text, size, flags) != size)
        http_reply(exchange, 500, BYTES_LITERAL("{\"error\": \"out of memory\"}"));
    else
        http_reply(exchange, status, bytes_of(text, size));
    json_decref(value);
    mem_free(text);
}

static void reply_error(struct http_exchange *exchange, int status, const char *why, enum err err)
{
    json_t *object = json_object();

    set(object, "error", json_string(why));
    if (err != ERR_OK)
        set(object, "code", json_string(err_name(err)));
    reply(exchange, status, object);
}

static int status_of(enum err err)
{
    switch (err) {
    case ERR_GROUP_ID_NOT_FOUND:
        return 404;
    case ERR_NOT_COORDINATOR:
    case ERR_COORDINATOR_NOT_AVAILABLE:
    case ERR_COORDINATOR_LOAD_IN_PROGRESS:
    case ERR_BUSY:
        return 503;
    default:
        return 500;
    }
}

static json_t *result_json(const struct page *page, const struct group_query *query)
{
    if (query->history != NULL)
        return history_json(query->history, query->group_id);
    if (query->consumer != NULL)
        return consumer_json(query->consumer);
    if (query->classic != NULL)
        return classic_json(query->classic);
    if (query->kind == GROUP_QUERY_LAG)
        return lag_json(query, query->group_id, clock_wall_ms(page->pages->clock));
    return list_json(query);
}

static void done(struct group_query *query)
{
    struct page *page = query->context;

    page->pages->queries--;
    if (query->err != ERR_OK)
        reply_error(page->exchange, status_of(query->err), err_text(query->err), query->err);
    else
        reply(page->exchange, 200, result_json(page, query));
    group_query_free(query);
    mem_free(page);
}

void group_pages_asked(void *context, struct http_exchange *exchange, struct bytes path)
{
    struct group_pages *pages = context;
    uint8_t group_text[HTTP_REQUEST_BYTES_MAX];
    struct group_query *query = NULL;
    struct page *page = NULL;
    struct bytes group_id = {0};
    enum group_query_kind kind = GROUP_QUERY_LIST;

    if (!group_pages_parse(path, group_text, &kind, &group_id)) {
        reply_error(exchange, 404, "there are /groups, /groups/<id>, /groups/<id>/lag and /groups/<id>/history",
                    ERR_OK);
        return;
    }
    if (pages->queries == GROUP_PAGES_QUERIES_MAX) {
        reply_error(exchange, 503, "too many questions at once", ERR_BUSY);
        return;
    }
    page = mem_calloc(1, sizeof(*page));
    if (page == NULL || group_query_new(pages->broker, pages->loop, kind, group_id, &query) != ERR_OK) {
        mem_free(page);
        reply_error(exchange, 500, "out of memory", ERR_NOMEM);
        return;
    }
    *page = (struct page){pages, exchange};
    query->context = page;
    query->done = done;
    pages->queries++;
    group_query_run(query);
}
