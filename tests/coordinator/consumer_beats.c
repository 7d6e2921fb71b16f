#include "coordinator/consumer_beats.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/gen/consumer_group_heartbeat.h"

enum { TEXTS_MAX = 64, PARTITIONS_MAX = 1024 };

static struct bytes text_of(const char *text)
{
    return text == NULL ? (struct bytes){0} : bytes_of_text(text);
}

static void read_topics(const char *text, struct consumer_group_heartbeat_request *request)
{
    static struct bytes topics[TEXTS_MAX];

    if (text == NULL)
        return;
    request->subscribed_topic_names = topics;
    while (*text != '\0') {
        size_t size = strcspn(text, ",");

        ck_assert_uint_lt(request->subscribed_topic_names_count, TEXTS_MAX);
        topics[request->subscribed_topic_names_count++] = bytes_of(text, size);
        text += size + (text[size] == ',');
    }
}

static void read_owned(const char *text, struct consumer_group_heartbeat_request *request)
{
    static struct consumer_group_heartbeat_request_topic_partitions owned[TEXTS_MAX];
    static int32_t partitions[PARTITIONS_MAX];
    uint32_t used = 0;

    if (text == NULL)
        return;
    request->topic_partitions = owned;
    while (*text != '\0') {
        struct consumer_group_heartbeat_request_topic_partitions *topic = &owned[request->topic_partitions_count++];
        char *end = NULL;

        topic->topic_id = test_uuid((uint8_t)strtol(text, &end, 10));
        topic->partitions = &partitions[used];
        topic->partitions_count = 0;
        do {
            partitions[used++] = (int32_t)strtol(end + 1, &end, 10);
            topic->partitions_count++;
        } while (*end == ',');
        text = end + (*end == ';');
    }
}

struct world_call *beat(struct group_world *world, const struct beat_says *says)
{
    static struct consumer_group_heartbeat_request request;
    const char *group = says->group == NULL ? "g" : says->group;

    consumer_group_heartbeat_request_init(&request);
    request.group_id = bytes_of_text(group);
    request.member_id = bytes_of_text(says->member);
    request.member_epoch = says->epoch;
    request.instance_id = text_of(says->instance);
    request.rack_id = text_of(says->rack);
    request.rebalance_timeout_ms = says->rebalance_ms == 0 ? -1 : says->rebalance_ms;
    request.subscribed_topic_regex = text_of(says->regex);
    request.server_assignor = text_of(says->assignor);
    read_topics(says->topics, &request);
    read_owned(says->owned, &request);
    return world_ask(world, says->member, ASK_CONSUMER_HEARTBEAT,
                     (int16_t)(says->version == 0    ? 1
                               : says->version == -1 ? 0
                                                     : says->version),
                     group, &request);
}

struct world_call *describe_group(struct group_world *world)
{
    return world_ask(world, "admin", ASK_CONSUMER_DESCRIBE, 1, "g", NULL);
}

int32_t beat_epoch(const struct world_call *call)
{
    return ((const struct consumer_group_heartbeat_response *)call->response)->member_epoch;
}

int16_t beat_error(const struct world_call *call)
{
    return ((const struct consumer_group_heartbeat_response *)call->response)->error_code;
}
