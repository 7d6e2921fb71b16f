/* ottla group delete: groups, or what they committed for some topics. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/group_command.h"
#include "cli/table_out.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/offset_delete.h"

static enum err refused(struct kafka_client *client, enum err err)
{
    const char *why = err == ERR_NON_EMPTY_GROUP             ? "it has members: stop them first"
                      : err == ERR_GROUP_ID_NOT_FOUND        ? "there is no such group"
                      : err == ERR_GROUP_SUBSCRIBED_TO_TOPIC ? "a member is subscribed to the topic"
                                                             : err_text(err);

    (void)snprintf(client->message, sizeof(client->message), "%s", why);
    return err;
}

static enum err delete_group(struct kafka_client *client, int32_t coordinator, struct bytes id)
{
    struct delete_groups_request request;
    struct delete_groups_response response;
    enum err err = ERR_OK;

    delete_groups_request_init(&request);
    request.groups_names = &id;
    request.groups_names_count = 1;
    err = kafka_call(client, coordinator, &delete_groups_request_message, INT16_MAX, &request,
                     &delete_groups_response_message, &response, NULL);
    if (err != ERR_OK)
        return err;
    err = response.results_count == 1 ? err_from_wire(response.results[0].error_code) : ERR_MALFORMED;
    return err == ERR_OK ? ERR_OK : refused(client, err);
}

static enum err first_refusal(const struct offset_delete_response *response)
{
    enum err err = err_from_wire(response->error_code);

    for (uint32_t i = 0; i < response->topics_count && err == ERR_OK; i++)
        for (uint32_t k = 0; k < response->topics[i].partitions_count && err == ERR_OK; k++)
            err = err_from_wire(response->topics[i].partitions[k].error_code);
    return err;
}

static enum err delete_offsets(const struct group_options *options, struct kafka_client *client, int32_t coordinator,
                               struct bytes id)
{
    struct offset_delete_request request;
    struct offset_delete_response response;
    enum err err = ERR_OK;

    offset_delete_request_init(&request);
    request.group_id = id;
    request.topics = arena_array(&client->arena, options->topic_count, sizeof(*request.topics));
    if (request.topics == NULL)
        return kafka_client_refused(client, ERR_NOMEM, "OffsetDelete");
    for (; request.topics_count < options->topic_count; request.topics_count++) {
        struct offset_delete_request_topic *topic = &request.topics[request.topics_count];
        int32_t *partitions = NULL;
        uint32_t count = 0;

        offset_delete_request_topic_init(topic);
        err =
            group_command_partitions(client, options->topics[request.topics_count], &topic->name, &partitions, &count);
        if (err != ERR_OK)
            return err;
        topic->partitions = arena_array(&client->arena, count, sizeof(*topic->partitions));
        if (topic->partitions == NULL)
            return kafka_client_refused(client, ERR_NOMEM, "OffsetDelete");
        for (; topic->partitions_count < count; topic->partitions_count++)
            topic->partitions[topic->partitions_count].partition_index = partitions[topic->partitions_count];
    }
    err = kafka_call(client, coordinator, &offset_delete_request_message, INT16_MAX, &request,
                     &offset_delete_response_message, &response, NULL);
    if (err != ERR_OK)
        return err;
    err = first_refusal(&response);
    return err == ERR_OK ? ERR_OK : refused(client, err);
}

int group_command_delete(const struct group_options *options, struct kafka_client *client)
{
    static const struct table_column columns[] = {{"GROUP", "group", false}, {"RESULT", "result", false}};
    struct metadata_response nodes;
    struct table table;
    int status = EXIT_SUCCESS;

    if (kafka_client_metadata(client, NULL, 0, &nodes) != ERR_OK)
        return group_command_fail(client);
    table_begin(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (uint32_t i = 0; i < options->group_count; i++) {
        struct bytes id = bytes_of_text(options->groups[i]);
        int64_t began_ns = clock_mono_ns(client->clock);
        int32_t coordinator = -1;
        enum err err = ERR_OK;

        do {
            err = kafka_client_coordinator(client, id, &coordinator);
            if (err != ERR_OK)
                break;
            err = options->topic_count > 0 ? delete_offsets(options, client, coordinator, id)
                                           : delete_group(client, coordinator, id);
        } while (kafka_client_asks_again(client, err, began_ns));
        table_bytes(&table, id);
        table_text(&table, err == ERR_OK ? "deleted" : client->message);
        if (err != ERR_OK)
            status = EXIT_FAILURE;
    }
    if (options->json)
        table_show_json(table_json(&table), stdout);
    else
        table_print(&table, stdout);
    table_end(&table);
    return status;
}
