/* ottla group reset: what is committed becomes something else; what it replaces is kept in a file that undoes it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/group_reset.h"
#include "cli/kafka_offsets.h"
#include "cli/table_out.h"
#include "cli/terminal.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_delete.h"

enum {
    COMMIT_VERSION_MAX = 9,       /* names; from 10 on there are ids */
    COMMIT_PARTITIONS_MAX = 1000, /* a request: it has to fit into one batch of the coordinator's log */
};

static int by_place(const void *a, const void *b)
{
    const struct reset_change *left = a;
    const struct reset_change *right = b;
    int order = bytes_compare(left->topic, right->topic);

    return order != 0 ? order : (left->partition > right->partition) - (left->partition < right->partition);
}

/* In order, each once; of two lines for one partition the command would not know which is meant. */
static enum err order(struct kafka_client *client, struct reset_plan *plan)
{
    if (plan->count > 0)
        qsort(plan->rows, plan->count, sizeof(*plan->rows), by_place);
    for (uint32_t i = 1; i < plan->count; i++)
        if (by_place(&plan->rows[i - 1], &plan->rows[i]) == 0) {
            (void)snprintf(client->message, sizeof(client->message), "partition %d of topic %.*s is named twice",
                           plan->rows[i].partition,
                           (int)(plan->rows[i].topic.size < 250 ? plan->rows[i].topic.size : 250),
                           (const char *)plan->rows[i].topic.data);
            return ERR_USAGE;
        }
    return ERR_OK;
}

/* ---- which partitions ---- */

static enum err parse_partition(const char **at, int32_t *partition)
{
    char *end = NULL;
    long number = strtol(*at, &end, 10);

    if (end == *at || number < 0 || number > INT32_MAX || (*end != ',' && *end != '\0'))
        return ERR_USAGE;
    *partition = (int32_t)number;
    *at = *end == ',' ? end + 1 : end;
    return ERR_OK;
}

enum err group_command_partitions(struct kafka_client *client, const char *argument, struct bytes *topic,
                                  int32_t **partitions, uint32_t *count)
{
    const char *colon = strchr(argument, ':');
    const char *at = colon == NULL ? NULL : colon + 1;
    uint32_t there = 0;
    enum err err = ERR_OK;

    *topic = colon == NULL ? bytes_of_text(argument) : bytes_of(argument, (size_t)(colon - argument));
    *count = 0;
    err = kafka_partition_count(client, *topic, &there);
    if (err != ERR_OK)
        return err;
    *partitions = arena_array(&client->arena, at == NULL ? there : strlen(at) + 1, sizeof(**partitions));
    if (*partitions == NULL)
        return kafka_client_refused(client, ERR_NOMEM, argument);
    if (at == NULL)
        for (; *count < there; (*count)++)
            (*partitions)[*count] = (int32_t)*count;
    else
        do {
            err = parse_partition(&at, &(*partitions)[*count]);
            if (err == ERR_OK && (uint32_t)(*partitions)[*count] >= there)
                err = ERR_UNKNOWN_TOPIC_OR_PARTITION;
            if (err != ERR_OK) {
                (void)snprintf(client->message, sizeof(client->message), "--topic %.200s: %s", argument,
                               err == ERR_USAGE ? "that is not TOPIC:0,1,2" : "there is no such partition");
                return err;
            }
            (*count)++;
        } while (*at != '\0');
    return ERR_OK;
}

static enum err plan_topics(const struct group_options *options, struct kafka_client *client, struct reset_plan *plan)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < options->topic_count && err == ERR_OK; i++) {
        struct bytes topic = {0};
        int32_t *partitions = NULL;
        uint32_t count = 0;

        err = group_command_partitions(client, options->topics[i], &topic, &partitions, &count);
        for (uint32_t k = 0; k < count && err == ERR_OK; k++)
            err = group_reset_add(client, plan, topic, partitions[k], -1);
    }
    return err;
}

static enum err plan_committed(struct kafka_client *client, const struct group_facts *facts, struct reset_plan *plan)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < facts->partition_count && err == ERR_OK; i++)
        err = group_reset_add(client, plan, facts->partitions[i].topic, facts->partitions[i].index, -1);
    if (err == ERR_OK && plan->count == 0)
        err = group_reset_usage(client,
                                "the group has nothing committed that --all-topics could mean; name one with --topic");
    return err;
}

/* ---- what becomes of each ---- */

static enum err ask(struct kafka_client *client, struct reset_plan *plan, int64_t timestamp,
                    struct kafka_offset **answers)
{
    enum err err = ERR_OK;

    *answers = arena_array(&client->arena, plan->count, sizeof(**answers));
    if (*answers == NULL)
        return kafka_client_refused(client, ERR_NOMEM, "ListOffsets");
    for (uint32_t i = 0; i < plan->count; i++)
        (*answers)[i] = (struct kafka_offset){
            .topic = plan->rows[i].topic, .partition = plan->rows[i].partition, .timestamp = timestamp};
    err = kafka_list_offsets(client, *answers, plan->count);
    for (uint32_t i = 0; i < plan->count && err == ERR_OK; i++)
        if ((*answers)[i].err != ERR_OK) {
            (void)snprintf(client->message, sizeof(client->message), "partition %d of topic %.*s: %s",
                           plan->rows[i].partition,
                           (int)(plan->rows[i].topic.size < 250 ? plan->rows[i].topic.size : 250),
                           (const char *)plan->rows[i].topic.data, err_text((*answers)[i].err));
            err = (*answers)[i].err;
        }
    return err;
}

static void bound(struct reset_change *row)
{
    int64_t wanted = row->after;

    if (row->after > row->end)
        row->after = row->end;
    if (row->after < row->start)
        row->after = row->start;
    row->bounded = row->after != wanted;
}

static enum err decide_by_time(const struct group_options *options, struct kafka_client *client,
                               struct reset_plan *plan)
{
    int64_t at_ms =
        options->how == RESET_TO_DATETIME ? options->number : clock_wall_ms(client->clock) - options->number;
    struct kafka_offset *found = NULL;
    enum err err = ask(client, plan, at_ms < 0 ? 0 : at_ms, &found);

    for (uint32_t i = 0; i < plan->count && err == ERR_OK; i++)
        plan->rows[i].after = found[i].offset < 0 ? plan->rows[i].end : found[i].offset; /* none is as late */
    return err;
}

static enum err decide(const struct group_options *options, struct kafka_client *client, struct reset_plan *plan)
{
    struct kafka_offset *starts = NULL;
    struct kafka_offset *ends = NULL;
    enum err err = ask(client, plan, KAFKA_OFFSET_EARLIEST, &starts);

    if (err == ERR_OK)
        err = ask(client, plan, KAFKA_OFFSET_LATEST, &ends);
    for (uint32_t i = 0; i < plan->count && err == ERR_OK; i++) {
        plan->rows[i].start = starts[i].offset;
        plan->rows[i].end = ends[i].offset;
    }
    if (err == ERR_OK && (options->how == RESET_TO_DATETIME || options->how == RESET_BY_DURATION))
        return decide_by_time(options, client, plan);
    for (uint32_t i = 0; i < plan->count && err == ERR_OK; i++) {
        struct reset_change *row = &plan->rows[i];

        switch (options->how) {
        case RESET_TO_EARLIEST:
            row->after = row->start;
            break;
        case RESET_TO_LATEST:
            row->after = row->end;
            break;
        case RESET_TO_CURRENT:
            row->after = row->before < 0 ? row->end : row->before;
            break;
        case RESET_TO_OFFSET:
            row->after = options->number;
            bound(row);
            break;
        case RESET_SHIFT_BY:
            if (row->before < 0)
                return group_reset_usage(client,
                                         "--shift-by: nothing is committed for some of the partitions; name others");
            if (__builtin_add_overflow(row->before, options->number, &row->after))
                row->after = options->number < 0 ? 0 : INT64_MAX;
            bound(row);
            break;
        default:
            if (row->after >= 0 && !row->exact)
                bound(row);
        }
    }
    return err;
}

static void take_before(struct reset_change *row, const struct group_fact_partition *fact)
{
    row->before = fact->committed;
    row->before_epoch = fact->leader_epoch;
    row->before_metadata = fact->metadata.data == NULL ? BYTES_LITERAL("") : fact->metadata;
}

static enum err make_plan(const struct group_options *options, struct kafka_client *client,
                          const struct group_facts *facts, struct reset_plan *plan)
{
    enum err err = ERR_OK;

    if (options->how == RESET_NONE)
        return group_reset_usage(
            client, "group reset: to what? --to-earliest, --to-latest, --to-offset, --shift-by, --to-datetime, "
                    "--by-duration or --from-file");
    if (options->how == RESET_FROM_FILE)
        err = options->topic_count > 0 || options->all_topics
                  ? group_reset_usage(client,
                                      "group reset: the file says which topics; --topic and --all-topics are too much")
                  : group_reset_read(options, client, facts->id, plan);
    else if (options->topic_count > 0 && !options->all_topics)
        err = plan_topics(options, client, plan);
    else if (options->all_topics && options->topic_count == 0)
        err = plan_committed(client, facts, plan);
    else
        err = group_reset_usage(
            client, "group reset: of which topics? --topic TOPIC[:0,1], or --all-topics: all that the group "
                    "committed for");
    if (err == ERR_OK)
        err = order(client, plan);
    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0; i < plan->count; i++)
        for (uint32_t k = 0; k < facts->partition_count; k++)
            if (facts->partitions[k].index == plan->rows[i].partition &&
                bytes_equal(facts->partitions[k].topic, plan->rows[i].topic))
                take_before(&plan->rows[i], &facts->partitions[k]);
    return decide(options, client, plan);
}

/* ---- doing it ---- */

static enum err commit_once(struct kafka_client *client, const struct group_facts *facts,
                            const struct reset_change *rows, uint32_t count)
{
    struct offset_commit_request request;
    struct offset_commit_response response;
    struct offset_commit_request_partition *partitions = arena_array(&client->arena, count, sizeof(*partitions));
    enum err err = ERR_OK;

    offset_commit_request_init(&request);
    request.group_id = facts->id;
    request.topics = arena_array(&client->arena, count, sizeof(*request.topics));
    for (uint32_t i = 0; i < count && partitions != NULL && request.topics != NULL; i++) {
        struct offset_commit_request_topic *topic =
            request.topics_count == 0 ? NULL : &request.topics[request.topics_count - 1];

        if (rows[i].after < 0)
            continue;
        if (topic == NULL || !bytes_equal(topic->name, rows[i].topic)) {
            topic = &request.topics[request.topics_count++];
            offset_commit_request_topic_init(topic);
            topic->name = rows[i].topic;
            topic->partitions = &partitions[i]; /* rows of one topic stand together */
        }
        offset_commit_request_partition_init(&topic->partitions[topic->partitions_count]);
        topic->partitions[topic->partitions_count].partition_index = rows[i].partition;
        topic->partitions[topic->partitions_count].committed_offset = rows[i].after;
        topic->partitions[topic->partitions_count].committed_leader_epoch = rows[i].after_epoch;
        topic->partitions[topic->partitions_count].committed_metadata = rows[i].after_metadata;
        topic->partitions_count++;
    }
    if (partitions == NULL || request.topics == NULL)
        return kafka_client_refused(client, ERR_NOMEM, "OffsetCommit");
    if (request.topics_count == 0)
        return ERR_OK;
    err = kafka_call(client, facts->coordinator, &offset_commit_request_message, COMMIT_VERSION_MAX, &request,
                     &offset_commit_response_message, &response, NULL);
    for (uint32_t i = 0; err == ERR_OK && i < response.topics_count; i++)
        for (uint32_t k = 0; err == ERR_OK && k < response.topics[i].partitions_count; k++) {
            err = err_from_wire(response.topics[i].partitions[k].error_code);
            if (err != ERR_OK)
                (void)kafka_client_refused(client, err, "the commit was refused");
        }
    return err;
}

static enum err delete_once(struct kafka_client *client, const struct group_facts *facts,
                            const struct reset_change *row)
{
    struct offset_delete_request request;
    struct offset_delete_request_topic topic;
    struct offset_delete_request_partition partition = {.partition_index = row->partition};
    struct offset_delete_response response;
    enum err err = ERR_OK;

    offset_delete_request_init(&request);
    offset_delete_request_topic_init(&topic);
    topic.name = row->topic;
    topic.partitions = &partition;
    topic.partitions_count = 1;
    request.group_id = facts->id;
    request.topics = &topic;
    request.topics_count = 1;
    err = kafka_call(client, facts->coordinator, &offset_delete_request_message, INT16_MAX, &request,
                     &offset_delete_response_message, &response, NULL);
    if (err != ERR_OK)
        return err;
    err = err_from_wire(response.error_code);
    if (err == ERR_OK && response.topics_count == 1 && response.topics[0].partitions_count == 1)
        err = err_from_wire(response.topics[0].partitions[0].error_code);
    return err == ERR_OK ? ERR_OK : kafka_client_refused(client, err, "the deletion of an offset was refused");
}

/* Commits those of the rows that will have an offset, or deletes that of the one row; either may be done twice. */
static enum err carry_out_some(struct kafka_client *client, struct group_facts *facts, const struct reset_change *rows,
                               uint32_t count, bool deletes)
{
    int64_t began_ns = clock_mono_ns(client->clock);
    enum err err = ERR_OK;

    do {
        err = kafka_client_coordinator(client, facts->id, &facts->coordinator);
        if (err != ERR_OK)
            break;
        err = deletes ? delete_once(client, facts, rows) : commit_once(client, facts, rows, count);
    } while (kafka_client_asks_again(client, err, began_ns));
    return err;
}

static enum err carry_out(struct kafka_client *client, struct group_facts *facts, const struct reset_plan *plan)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < plan->count && err == ERR_OK; i += COMMIT_PARTITIONS_MAX) {
        uint32_t left = plan->count - i;

        err = carry_out_some(client, facts, &plan->rows[i], left < COMMIT_PARTITIONS_MAX ? left : COMMIT_PARTITIONS_MAX,
                             false);
    }
    for (uint32_t i = 0; i < plan->count && err == ERR_OK; i++)
        if (plan->rows[i].after < 0 && plan->rows[i].before >= 0)
            err = carry_out_some(client, facts, &plan->rows[i], 1, true);
    return err;
}

static void add_number(struct table *table, int64_t value)
{
    if (value < 0)
        table_none(table);
    else
        table_i64(table, value);
}

static void print_undo(struct bytes id, const char *undo)
{
    bool dash = id.size > 0 && id.data[0] == '-'; /* it would be an option */

    printf("done. To undo it: ottla group reset ");
    if (!dash)
        terminal_print_word(id, stdout);
    printf(dash ? "--from-file " : " --from-file ");
    terminal_print_word(bytes_of_text(undo), stdout);
    printf(" --execute");
    if (dash) {
        printf(" -- ");
        terminal_print_word(id, stdout);
    }
    printf("\n");
}

static void show(const struct group_options *options, const struct group_facts *facts, const struct reset_plan *plan,
                 const char *undo)
{
    static const struct table_column columns[] = {
        {"TOPIC", "topic", false},     {"PARTITION", "partition", true},
        {"COMMITTED", "before", true}, {"NEW", "after", true},
        {"CHANGE", "change", true},    {"START", "start", true},
        {"END", "end", true},          {"", "note", false},
    };
    struct table table;

    table_begin(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct reset_change *row = &plan->rows[i];

        table_bytes(&table, row->topic);
        table_i64(&table, row->partition);
        add_number(&table, row->before);
        add_number(&table, row->after);
        if (row->before < 0 || row->after < 0)
            table_none(&table);
        else
            table_i64(&table, row->after - row->before);
        table_i64(&table, row->start);
        table_i64(&table, row->end);
        if (row->after < 0)
            table_text(&table, "nothing will be committed");
        else if (row->bounded)
            table_text(&table, "the nearest that there is");
        else
            table_none(&table);
    }
    if (options->json) {
        json_t *object = json_object();

        (void)json_object_set_new(object, "group", json_text(facts->id));
        (void)json_object_set_new(object, "executed", json_boolean(options->execute));
        (void)json_object_set_new(object, "undo", undo == NULL ? json_null() : json_string(undo));
        (void)json_object_set_new(object, "partitions", table_json(&table));
        table_show_json(object, stdout);
    } else {
        table_print(&table, stdout);
        if (undo != NULL)
            print_undo(facts->id, undo);
        else
            printf("nothing was changed: that is what --execute would do\n");
    }
    table_end(&table);
}

/* No group is one without offsets: a reset may begin it. */
static enum err find_group(struct kafka_client *client, struct bytes id, struct group_facts *facts)
{
    struct metadata_response nodes;
    enum err err = kafka_client_metadata(client, NULL, 0, &nodes);

    if (err == ERR_OK)
        err = group_facts_describe(client, id, facts);
    if (err == ERR_GROUP_ID_NOT_FOUND)
        return ERR_OK;
    if (err == ERR_OK && facts->member_count > 0) {
        (void)snprintf(client->message, sizeof(client->message),
                       "the group has %u members (it is %.*s): stop them first, only a group without members can be "
                       "reset",
                       facts->member_count, (int)(facts->state.size < 64 ? facts->state.size : 64),
                       (const char *)facts->state.data);
        return ERR_NON_EMPTY_GROUP;
    }
    return err == ERR_OK ? group_facts_offsets(client, facts) : err;
}

int group_command_reset(const struct group_options *options, struct kafka_client *client)
{
    struct reset_plan plan = {0};
    struct group_facts facts;
    char named[GROUP_RESET_NAME_CHARS_MAX] = "";
    const char *undo = options->undo;
    bool written = false;
    enum err err = find_group(client, bytes_of_text(options->groups[0]), &facts);

    if (err == ERR_OK)
        err = make_plan(options, client, &facts, &plan);
    if (err == ERR_OK && options->execute) {
        if (undo == NULL) {
            group_reset_undo_name(client, facts.id, named);
            undo = named;
        }
        err = group_reset_write_undo(client, &plan, undo);
        written = err == ERR_OK;
        if (err == ERR_OK)
            err = carry_out(client, &facts, &plan);
    }
    if (err == ERR_OK)
        show(options, &facts, &plan, options->execute ? undo : NULL);
    else
        (void)group_command_fail(client);
    if (err != ERR_OK && written)
        fprintf(stderr, "ottla: some partitions may have been reset; what was committed before is in %s\n", undo);
    mem_free(plan.rows);
    return err == ERR_OK ? EXIT_SUCCESS : err == ERR_USAGE ? EXIT_USAGE : EXIT_FAILURE;
}
