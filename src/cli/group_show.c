/* ottla group list, describe, lag and history. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json_text.h"
#include "cli/group_command.h"
#include "cli/http_get.h"
#include "cli/table_out.h"
#include "cli/terminal.h"
#include "net/address.h"
#include "protocol/gen/describe_configs.h"

enum {
    RESOURCE_BROKER = 4,
    EPOCH_AWAY = -2, /* a static member said that it will be back (KIP-848) */
    PATH_CHARS_MAX = 100 * 1024,
    NODE_CHARS_MAX = 16,
    MS_PER_S = 1000,
};

static const char http_key[] = "ottla.http.listener";

/* ---- HTTP ---- */

static bool no_http(struct kafka_client *client, const char *why)
{
    (void)snprintf(client->message, sizeof(client->message), "%s", why);
    return false;
}

bool group_command_http(const struct group_options *options, struct kafka_client *client, int32_t coordinator,
                        struct net_address *address)
{
    struct describe_configs_request request;
    struct describe_configs_resource resource;
    struct describe_configs_response response;
    struct bytes key = bytes_of_text(http_key);
    char node[NODE_CHARS_MAX];
    const struct net_address *kafka = kafka_client_address(client, coordinator);

    if (options->http != NULL)
        return address_parse(bytes_of_text(options->http), address) || no_http(client, "--http: that is not host:port");
    describe_configs_request_init(&request);
    describe_configs_resource_init(&resource);
    (void)snprintf(node, sizeof(node), "%d", coordinator);
    resource.resource_type = RESOURCE_BROKER;
    resource.resource_name = bytes_of_text(node);
    resource.configuration_keys = &key;
    resource.configuration_keys_count = 1;
    request.resources = &resource;
    request.resources_count = 1;
    if (kafka_call(client, coordinator, &describe_configs_request_message, INT16_MAX, &request,
                   &describe_configs_response_message, &response, NULL) != ERR_OK)
        return false;
    for (uint32_t i = 0; response.results_count == 1 && i < response.results[0].configs_count; i++) {
        const struct describe_configs_resource_result *config = &response.results[0].configs[i];

        if (!bytes_equal(config->name, key) || config->value.size == 0)
            continue;
        if (!address_parse(config->value, address))
            break;
        if (kafka != NULL &&
            (address->host[0] == '\0' || strcmp(address->host, "0.0.0.0") == 0 || strcmp(address->host, "::") == 0))
            memcpy(address->host, kafka->host, sizeof(address->host));
        return true;
    }
    return no_http(client, "the broker that coordinates the group has no HTTP listener (ottla.http.listener)");
}

json_t *group_command_get(struct kafka_client *client, const struct net_address *address, struct bytes group_id,
                          const char *what)
{
    static const char hex[] = "0123456789ABCDEF";
    char *path = arena_alloc(&client->arena, PATH_CHARS_MAX);
    size_t size = 0;

    if (path == NULL || group_id.size > PATH_CHARS_MAX / 3 - 64) {
        (void)no_http(client, "out of memory");
        return NULL;
    }
    size = (size_t)snprintf(path, PATH_CHARS_MAX, "/groups/");
    for (size_t i = 0; i < group_id.size; i++) {
        uint8_t byte = group_id.data[i];

        if (byte_is_letter(byte) || byte_is_digit(byte) || byte == '-' || byte == '_') {
            path[size++] = (char)byte;
            continue;
        }
        path[size++] = '%';
        path[size++] = hex[byte >> 4];
        path[size++] = hex[byte & 15];
    }
    (void)snprintf(path + size, PATH_CHARS_MAX - size, "/%s", what);
    return http_get(client->clock, address, path, client->timeout_ms, client->message);
}

/* ---- list ---- */

int group_command_list(const struct group_options *options, struct kafka_client *client)
{
    static const struct table_column columns[] = {
        {"GROUP", "group", false},     {"STATE", "state", false},
        {"TYPE", "type", false},       {"PROTOCOL", "protocol_type", false},
        {"NODE", "coordinator", true},
    };
    struct group_fact_row *rows = NULL;
    struct table table;
    uint32_t count = 0;

    if (group_facts_list(client, &rows, &count) != ERR_OK)
        return group_command_fail(client);
    table_begin(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (uint32_t i = 0; i < count; i++) {
        if ((options->state != NULL && !bytes_equal_any_case(rows[i].state, bytes_of_text(options->state))) ||
            (options->type != NULL && !bytes_equal_any_case(rows[i].type, bytes_of_text(options->type))))
            continue;
        table_bytes(&table, rows[i].id);
        table_bytes(&table, rows[i].state);
        table_bytes(&table, rows[i].type);
        table_bytes(&table, rows[i].protocol);
        table_i64(&table, rows[i].coordinator);
    }
    if (options->json)
        table_show_json(table_json(&table), stdout);
    else if (table_rows(&table) == 0)
        printf("no groups%s\n", options->state != NULL || options->type != NULL ? " such as that" : "");
    else
        table_print(&table, stdout);
    table_end(&table);
    return EXIT_SUCCESS;
}

/* ---- many groups ---- */

/* Calls show for each group that is meant; objects: those of JSON. */
static int each_group(const struct group_options *options, struct kafka_client *client,
                      int (*show)(const struct group_options *options, struct kafka_client *client, struct bytes id,
                                  json_t *objects))
{
    struct group_fact_row *rows = NULL;
    uint32_t count = options->group_count;
    json_t *objects = options->json ? json_array() : NULL;
    int status = EXIT_SUCCESS;

    if (options->all && group_facts_list(client, &rows, &count) != ERR_OK) {
        json_decref(objects);
        return group_command_fail(client);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && !options->json)
            printf("\n");
        if (show(options, client, options->all ? rows[i].id : bytes_of_text(options->groups[i]), objects) !=
            EXIT_SUCCESS)
            status = EXIT_FAILURE;
    }
    if (options->json)
        table_show_json(objects, stdout);
    else if (count == 0)
        printf("no groups\n");
    return status;
}

static json_t *group_object(const struct group_facts *facts)
{
    json_t *object = json_object();

    (void)json_object_set_new(object, "group", json_text(facts->id));
    (void)json_object_set_new(object, "state", json_text(facts->state));
    (void)json_object_set_new(object, "type", json_text(facts->type));
    (void)json_object_set_new(object, "assignor", json_text(facts->protocol));
    (void)json_object_set_new(object, "coordinator", json_integer(facts->coordinator));
    if (facts->epoch >= 0)
        (void)json_object_set_new(object, "epoch", json_integer(facts->epoch));
    return object;
}

static void print_group(const struct group_facts *facts)
{
    printf("group ");
    terminal_print(facts->id, stdout);
    printf("  %.*s  %.*s", BYTES_PRINTF(facts->state), BYTES_PRINTF(facts->type));
    if (facts->protocol.size > 0) {
        printf("  assignor ");
        terminal_print(facts->protocol, stdout);
    }
    if (facts->epoch >= 0)
        printf("  epoch %d", facts->epoch);
    printf("  coordinator %d  members %u\n", facts->coordinator, facts->member_count);
}

/* ---- describe ---- */

/* "orders:0-3,7 letters:1": what a member owns. */
static struct bytes owned_text(struct kafka_client *client, const struct group_facts *facts,
                               const struct group_fact_member *member)
{
    struct bytes text = BYTES_LITERAL("");
    const struct group_fact_partition *last = NULL;

    for (uint32_t i = 0; i < facts->partition_count; i++) {
        const struct group_fact_partition *at = &facts->partitions[i];
        uint32_t run = 1;

        if (at->member != member)
            continue;
        while (i + run < facts->partition_count && facts->partitions[i + run].member == member &&
               bytes_equal(facts->partitions[i + run].topic, at->topic) &&
               facts->partitions[i + run].index == at->index + (int32_t)run)
            run++;
        if (last != NULL && bytes_equal(last->topic, at->topic))
            text = arena_printf(&client->arena, "%.*s,%d", BYTES_PRINTF(text), at->index);
        else
            text = arena_printf(&client->arena, "%.*s%s%.*s:%d", BYTES_PRINTF(text), last == NULL ? "" : " ",
                                BYTES_PRINTF(at->topic), at->index);
        if (run > 1)
            text = arena_printf(&client->arena, "%.*s-%d", BYTES_PRINTF(text), at->index + (int32_t)run - 1);
        last = at;
        i += run - 1;
    }
    return text;
}

static int describe_one(const struct group_options *options, struct kafka_client *client, struct bytes id,
                        json_t *objects)
{
    static const struct table_column columns[] = {
        {"MEMBER", "member_id", false},
        {"INSTANCE", "instance_id", false},
        {"CLIENT", "client_id", false},
        {"HOST", "host", false},
        {"EPOCH", "epoch", true},
        {"COUNT", "partition_count", true},
        {"PARTITIONS", "partitions", false},
    };
    struct group_facts facts;
    struct table table;

    if (group_facts_describe(client, id, &facts) != ERR_OK)
        return group_command_fail(client);
    table_begin(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (uint32_t i = 0; i < facts.member_count; i++) {
        const struct group_fact_member *member = &facts.members[i];

        table_bytes(&table, member->id);
        table_bytes(&table, member->instance_id);
        table_bytes(&table, member->client_id);
        table_bytes(&table, member->host);
        if (member->epoch >= 0)
            table_i64(&table, member->epoch);
        else if (member->epoch == EPOCH_AWAY && !options->json)
            table_text(&table, "away");
        else
            table_none(&table);
        table_i64(&table, member->partitions);
        table_bytes(&table, owned_text(client, &facts, member));
    }
    if (options->json) {
        json_t *object = group_object(&facts);

        (void)json_object_set_new(object, "members", table_json(&table));
        (void)json_array_append_new(objects, object);
    } else {
        print_group(&facts);
        if (facts.member_count == 0) {
            printf("nobody is in it; `ottla group lag ");
            terminal_print_word(id, stdout);
            printf("` shows how far it is\n");
        } else {
            table_print(&table, stdout);
        }
    }
    table_end(&table);
    return EXIT_SUCCESS;
}

int group_command_describe(const struct group_options *options, struct kafka_client *client)
{
    return each_group(options, client, describe_one);
}

/* ---- lag ---- */

/* The ages as the broker tells them: [{topic, partition, age_s}]; NULL: unknown, and why is in client->message. */
static json_t *ask_ages(const struct group_options *options, struct kafka_client *client,
                        const struct group_facts *facts)
{
    struct net_address address;

    if (!group_command_http(options, client, facts->coordinator, &address))
        return NULL;
    return group_command_get(client, &address, facts->id, "lag");
}

/* *at: where to look first, since both are in the same order. */
static const json_t *find_age(const json_t *rows, const struct group_fact_partition *partition, size_t *at)
{
    size_t count = json_array_size(rows);

    for (size_t look = 0; look < count; look++) {
        const json_t *row = json_array_get(rows, (*at + look) % count);
        const char *topic = json_string_value(json_object_get(row, "topic"));

        if (topic == NULL || json_integer_value(json_object_get(row, "partition")) != partition->index ||
            !bytes_equal(bytes_of_text(topic), partition->topic))
            continue;
        *at = (*at + look + 1) % count;
        return json_object_get(row, "age_s");
    }
    return NULL;
}

static void add_number(struct table *table, int64_t value)
{
    if (value < 0)
        table_none(table);
    else
        table_i64(table, value);
}

struct sum {
    int64_t lag;
    double age_s;
    bool has_age;
    uint32_t committed; /* partitions */
};

static void fill_lag(struct table *table, const struct group_facts *facts, const json_t *ages, struct sum *sum)
{
    const json_t *rows = json_object_get(ages, "partitions");
    size_t at = 0;

    for (uint32_t i = 0; i < facts->partition_count; i++) {
        const struct group_fact_partition *partition = &facts->partitions[i];
        const json_t *age = find_age(rows, partition, &at);
        int64_t lag = group_fact_lag(partition);

        table_bytes(table, partition->topic);
        table_i64(table, partition->index);
        add_number(table, partition->committed);
        add_number(table, partition->end);
        add_number(table, lag);
        if (json_is_number(age)) {
            table_fraction(table, json_number_value(age));
            sum->has_age = true;
            if (json_number_value(age) > sum->age_s)
                sum->age_s = json_number_value(age);
        } else {
            table_none(table);
        }
        table_bytes(table, partition->member == NULL ? (struct bytes){0} : partition->member->id);
        table_bytes(table, partition->member == NULL ? (struct bytes){0} : partition->member->client_id);
        sum->committed += partition->committed >= 0;
        sum->lag += lag > 0 ? lag : 0;
    }
}

static void print_sum(const struct kafka_client *client, const struct sum *sum, bool ages_asked)
{
    if (sum->committed == 0) {
        printf("nothing is committed\n");
        return;
    }
    printf("%" PRId64 " records behind", sum->lag);
    if (!ages_asked)
        printf("; ages are not known: %s\n", client->message);
    else if (sum->lag > 0 && sum->has_age)
        printf(", the oldest of them for %.1f s\n", sum->age_s);
    else
        printf("\n");
}

static int lag_one(const struct group_options *options, struct kafka_client *client, struct bytes id, json_t *objects)
{
    static const struct table_column columns[] = {
        {"TOPIC", "topic", false},
        {"PARTITION", "partition", true},
        {"COMMITTED", "committed", true},
        {"END", "end", true},
        {"LAG", "lag", true},
        {"AGE", "age_s", true},
        {"MEMBER", "member_id", false},
        {"CLIENT", "client_id", false},
    };
    struct group_facts facts;
    struct table table;
    struct sum sum = {0};
    json_t *ages = NULL;

    if (group_facts_describe(client, id, &facts) != ERR_OK || group_facts_offsets(client, &facts) != ERR_OK ||
        group_facts_ends(client, &facts) != ERR_OK)
        return group_command_fail(client);
    ages = ask_ages(options, client, &facts);
    table_begin(&table, columns, sizeof(columns) / sizeof(columns[0]));
    fill_lag(&table, &facts, ages, &sum);
    if (options->json) {
        json_t *object = group_object(&facts);

        (void)json_object_set_new(object, "lag", json_integer(sum.lag));
        (void)json_object_set_new(object, "age_s", sum.has_age ? json_real(sum.age_s) : json_null());
        (void)json_object_set_new(object, "partitions", table_json(&table));
        (void)json_array_append_new(objects, object);
    } else {
        print_group(&facts);
        if (table_rows(&table) > 0)
            table_print(&table, stdout);
        print_sum(client, &sum, ages != NULL);
    }
    json_decref(ages);
    table_end(&table);
    return EXIT_SUCCESS;
}

int group_command_lag(const struct group_options *options, struct kafka_client *client)
{
    return each_group(options, client, lag_one);
}

/* ---- history ---- */

static void add_time(struct table *table, int64_t ms)
{
    time_t seconds = (time_t)(ms / MS_PER_S);
    struct tm parts;
    char day[32] = "";
    char text[48] = "";

    if (gmtime_r(&seconds, &parts) == NULL || strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &parts) == 0) {
        table_none(table);
        return;
    }
    (void)snprintf(text, sizeof(text), "%s.%03dZ", day, (int)(ms % MS_PER_S));
    table_text(table, text);
}

static void add_json(struct table *table, const json_t *value)
{
    if (json_is_integer(value))
        table_i64(table, json_integer_value(value));
    else if (json_is_string(value) && json_string_length(value) > 0)
        table_text(table, json_string_value(value));
    else
        table_none(table);
}

static void print_history(const json_t *rebalances, int64_t dropped)
{
    static const struct table_column columns[] = {
        {"BEGAN", "began", false},         {"TOOK ms", "duration_ms", true}, {"GENERATION", "generation", true},
        {"MEMBERS", "members", true},      {"MOVED", "moved", true},         {"CAUSE", "why", false},
        {"CLIENT", "client_id", false},    {"HOST", "client_host", false},   {"MEMBER", "member_id", false},
        {"REASON GIVEN", "reason", false},
    };
    struct table table;

    table_begin(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < json_array_size(rebalances); i++) {
        const json_t *row = json_array_get(rebalances, i);

        add_time(&table, json_integer_value(json_object_get(row, "began_ms")));
        for (uint32_t column = 1; column < sizeof(columns) / sizeof(columns[0]); column++)
            add_json(&table, json_object_get(row, columns[column].key));
    }
    if (table_rows(&table) == 0 && dropped == 0)
        printf("no rebalance since the broker that coordinates the group started\n");
    else if (table_rows(&table) > 0)
        table_print(&table, stdout);
    if (dropped > 0)
        printf("older ones that are kept no more: %" PRId64 "\n", (int64_t)dropped);
    table_end(&table);
}

int group_command_history(const struct group_options *options, struct kafka_client *client)
{
    struct bytes id = bytes_of_text(options->groups[0]);
    struct metadata_response nodes;
    struct net_address address;
    struct group_facts facts; /* that there is such a group, and where */
    json_t *answer = NULL;

    if (kafka_client_metadata(client, NULL, 0, &nodes) != ERR_OK ||
        group_facts_describe(client, id, &facts) != ERR_OK ||
        !group_command_http(options, client, facts.coordinator, &address))
        return group_command_fail(client);
    answer = group_command_get(client, &address, id, "history");
    if (answer == NULL)
        return group_command_fail(client);
    if (options->json) {
        table_show_json(answer, stdout);
        return EXIT_SUCCESS;
    }
    print_history(json_object_get(answer, "rebalances"), json_integer_value(json_object_get(answer, "dropped")));
    json_decref(answer);
    return EXIT_SUCCESS;
}
