#include "cli/kafka_offsets.h"

#include <stdio.h>

#include "protocol/gen/list_offsets.h"

enum { LIST_OFFSETS_VERSION_MAX = 7, NO_LEADER = -1 };

static enum err find_leaders(struct kafka_client *client, struct kafka_offset *offsets, uint32_t count)
{
    struct bytes *topics = arena_array(&client->arena, count, sizeof(*topics));
    struct metadata_response response;
    uint32_t topic_count = 0;
    enum err err = ERR_OK;

    if (topics == NULL)
        return kafka_client_refused(client, ERR_NOMEM, "Metadata");
    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || !bytes_equal(offsets[i].topic, offsets[i - 1].topic))
            topics[topic_count++] = offsets[i].topic;
    err = kafka_client_metadata(client, topics, topic_count, &response);
    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0, at = 0; i < count; i++) {
        const struct metadata_response_topic *topic = NULL;

        offsets[i].leader = NO_LEADER;
        offsets[i].offset = -1;
        offsets[i].err = ERR_UNKNOWN_TOPIC_OR_PARTITION;
        /* As a rule the answer has the topics in the order in which they were asked for. */
        for (uint32_t look = 0; look < response.topics_count && topic == NULL; look++) {
            uint32_t k = (at + look) % response.topics_count;

            if (bytes_equal(response.topics[k].name, offsets[i].topic)) {
                topic = &response.topics[k];
                at = k;
            }
        }
        for (uint32_t k = 0; topic != NULL && k < topic->partitions_count; k++)
            if (topic->partitions[k].partition_index == offsets[i].partition) {
                offsets[i].leader = topic->partitions[k].leader_id;
                offsets[i].err = offsets[i].leader == NO_LEADER ? ERR_LEADER_NOT_AVAILABLE : ERR_OK;
            }
    }
    return ERR_OK;
}

static enum err build(struct kafka_client *client, const struct kafka_offset *offsets, uint32_t count, int32_t leader,
                      struct list_offsets_request *request)
{
    list_offsets_request_init(request);
    request->replica_id = -1;
    request->topics = arena_array(&client->arena, count, sizeof(*request->topics));
    if (request->topics == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < count; i++) {
        struct list_offsets_topic *topic = NULL;

        if (offsets[i].leader != leader)
            continue;
        topic = request->topics_count == 0 ? NULL : &request->topics[request->topics_count - 1];
        if (topic == NULL || !bytes_equal(topic->name, offsets[i].topic)) {
            uint32_t room = 0;

            while (i + room < count && bytes_equal(offsets[i + room].topic, offsets[i].topic))
                room++;
            topic = &request->topics[request->topics_count++];
            list_offsets_topic_init(topic);
            topic->name = offsets[i].topic;
            topic->partitions = arena_array(&client->arena, room, sizeof(*topic->partitions));
            if (topic->partitions == NULL)
                return ERR_NOMEM;
        }
        list_offsets_partition_init(&topic->partitions[topic->partitions_count]);
        topic->partitions[topic->partitions_count].partition_index = offsets[i].partition;
        topic->partitions[topic->partitions_count].timestamp = offsets[i].timestamp;
        topic->partitions_count++;
    }
    return ERR_OK;
}

static void take(struct kafka_offset *offsets, uint32_t count, const struct list_offsets_response *response)
{
    for (uint32_t i = 0; i < response->topics_count; i++) {
        uint32_t from = 0;

        while (from < count && !bytes_equal(offsets[from].topic, response->topics[i].name))
            from++;
        for (uint32_t k = 0; k < response->topics[i].partitions_count; k++) {
            const struct list_offsets_partition_response *found = &response->topics[i].partitions[k];

            for (uint32_t at = from; at < count && bytes_equal(offsets[at].topic, response->topics[i].name); at++)
                if (offsets[at].partition == found->partition_index) {
                    offsets[at].err = err_from_wire(found->error_code);
                    offsets[at].offset = found->offset;
                }
        }
    }
}

enum err kafka_list_offsets(struct kafka_client *client, struct kafka_offset *offsets, uint32_t count)
{
    enum err err = count == 0 ? ERR_OK : find_leaders(client, offsets, count);

    for (uint32_t i = 0; i < client->node_count && err == ERR_OK && count > 0; i++) {
        int32_t node_id = client->nodes[i].id;
        struct list_offsets_request request;
        struct list_offsets_response response;

        err = build(client, offsets, count, node_id, &request);
        if (err != ERR_OK)
            return kafka_client_refused(client, err, "ListOffsets");
        if (request.topics_count == 0)
            continue;
        err = kafka_call(client, node_id, &list_offsets_request_message, LIST_OFFSETS_VERSION_MAX, &request,
                         &list_offsets_response_message, &response, NULL);
        if (err == ERR_OK)
            take(offsets, count, &response);
    }
    return err;
}

enum err kafka_partition_count(struct kafka_client *client, struct bytes topic, uint32_t *count)
{
    struct metadata_response response;
    enum err err = kafka_client_metadata(client, &topic, 1, &response);

    if (err != ERR_OK)
        return err;
    if (response.topics_count != 1)
        return kafka_client_refused(client, ERR_MALFORMED, "Metadata");
    err = err_from_wire(response.topics[0].error_code);
    if (err != ERR_OK) {
        (void)snprintf(client->message, sizeof(client->message), "topic %.*s: %s",
                       (int)(topic.size < 250 ? topic.size : 250), (const char *)topic.data, err_text(err));
        return err;
    }
    *count = response.topics[0].partitions_count;
    return ERR_OK;
}
