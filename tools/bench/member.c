#include "member.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/slice.h"
#include "protocol/frame.h"
#include "protocol/gen/api_versions.h"
#include "protocol/gen/consumer_group_heartbeat.h"
#include "protocol/gen/consumer_protocol_assignment.h"
#include "protocol/gen/consumer_protocol_subscription.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/sync_group.h"

enum {
    API_VERSIONS_VERSION = 2,
    JOIN_VERSION = 9,
    SYNC_VERSION = 5,
    HEARTBEAT_VERSION = 4,
    LEAVE_VERSION = 5,
    CONSUMER_HEARTBEAT_VERSION = 1,
    SUBSCRIPTION_VERSION = 3,
    ASSIGNMENT_VERSION = 3,
    REBALANCE_TIMEOUT_MS = 300000, /* max.poll.interval.ms of Apache Kafka's consumer */
    RETRY_MS = 100,                /* its retry.backoff.ms */
    LEAVE_EPOCH = -1,
    REPLY_BYTES_MAX = 64 << 20,
    ARENA_BYTES_MAX = 256 << 20,
};

static const struct bytes client_id = BYTES_LITERAL("bench");
static const struct bytes protocol_type = BYTES_LITERAL("consumer");
static const struct bytes protocol_name = BYTES_LITERAL("range");

/* --- asking --- */

static void write_all(int fd, const void *data, size_t size)
{
    const uint8_t *at = data;

    while (size > 0) {
        ssize_t moved = send(fd, at, size, MSG_NOSIGNAL);

        if (moved <= 0)
            bench_die("write", strerror(errno));
        at += moved;
        size -= (size_t)moved;
    }
}

static void ask(struct member *member, const struct message_type *type, int16_t version, const void *request,
                struct arena *arena)
{
    struct slice *slices = NULL;
    uint32_t count = 0;
    uint8_t *frame = NULL;
    size_t size = 0;

    if (frame_encode_request(type, version, 1, client_id, request, arena, &slices, &count) != ERR_OK)
        bench_die(type->name, "not encoded");
    for (uint32_t i = 0; i < count; i++)
        size += slices[i].size;
    frame = malloc(size + 4);
    for (int i = 0; i < 4; i++)
        frame[i] = (uint8_t)(size >> (24 - 8 * i));
    size = 4;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(frame + size, slices[i].data, slices[i].size);
        size += slices[i].size;
    }
    member->asked = type->api_key;
    member->asked_ns = bench_now_ns();
    member->got = 0;
    member->group->requests++;
    write_all(member->fd, frame, size);
    free(frame);
}

/* What is carried inside another message: the version, then the message. */
static struct bytes carried(const struct message_type *type, int16_t version, const void *message, struct arena *arena)
{
    struct bytes body;
    uint8_t *all = NULL;

    if (message_encode(type, version, message, arena, &body) != ERR_OK ||
        (all = arena_alloc(arena, body.size + 2)) == NULL)
        bench_die(type->name, "not encoded");
    all[0] = 0;
    all[1] = (uint8_t)version;
    memcpy(all + 2, body.data, body.size);
    return bytes_of(all, body.size + 2);
}

static void ask_join(struct member *member, struct arena *arena)
{
    struct bytes topic = bytes_of_text(member->group->topic);
    struct consumer_protocol_subscription subscription;
    struct join_group_request_protocol protocol = {.name = protocol_name};
    struct join_group_request request;

    consumer_protocol_subscription_init(&subscription);
    subscription.topics = &topic;
    subscription.topics_count = 1;
    protocol.metadata = carried(&consumer_protocol_subscription_message, SUBSCRIPTION_VERSION, &subscription, arena);
    join_group_request_init(&request);
    request.group_id = bytes_of_text(member->group->name);
    request.member_id = bytes_of_text(member->id);
    request.session_timeout_ms = member->group->session_timeout_ms;
    request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS;
    request.protocol_type = protocol_type;
    request.protocols = &protocol;
    request.protocols_count = 1;
    ask(member, &join_group_request_message, JOIN_VERSION, &request, arena);
}

static int by_id(const void *a, const void *b)
{
    return bytes_compare(((const struct join_group_response_member *)a)->member_id,
                         ((const struct join_group_response_member *)b)->member_id);
}

/* The range assignor: the members in order of their ids have neighbouring partitions. */
static void share_out(const struct group *group, const struct join_group_response *joined,
                      struct sync_group_request *request, struct arena *arena)
{
    uint32_t count = joined->members_count, next = 0;

    qsort(joined->members, count, sizeof(*joined->members), by_id);
    request->assignments_count = count;
    request->assignments = arena_array(arena, count, sizeof(*request->assignments));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t share = group->partition_count / count + (i < group->partition_count % count);
        int32_t *partitions = arena_array(arena, share, sizeof(*partitions));
        struct consumer_protocol_assignment_topic_partition topic = {.topic = bytes_of_text(group->topic)};
        struct consumer_protocol_assignment assignment;

        for (uint32_t j = 0; j < share; j++)
            partitions[j] = (int32_t)next++;
        topic.partitions = partitions;
        topic.partitions_count = share;
        consumer_protocol_assignment_init(&assignment);
        assignment.assigned_partitions = &topic;
        assignment.assigned_partitions_count = share > 0;
        request->assignments[i].member_id = joined->members[i].member_id;
        request->assignments[i].assignment =
            carried(&consumer_protocol_assignment_message, ASSIGNMENT_VERSION, &assignment, arena);
    }
}

static void ask_sync(struct member *member, const struct join_group_response *joined, struct arena *arena)
{
    struct sync_group_request request;

    sync_group_request_init(&request);
    request.group_id = bytes_of_text(member->group->name);
    request.generation_id = member->epoch;
    request.member_id = bytes_of_text(member->id);
    request.protocol_type = protocol_type;
    request.protocol_name = protocol_name;
    if (bytes_equal(joined->leader, joined->member_id))
        share_out(member->group, joined, &request, arena);
    ask(member, &sync_group_request_message, SYNC_VERSION, &request, arena);
}

static void ask_heartbeat(struct member *member, struct arena *arena)
{
    struct heartbeat_request request;

    heartbeat_request_init(&request);
    request.group_id = bytes_of_text(member->group->name);
    request.generation_id = member->epoch;
    request.member_id = bytes_of_text(member->id);
    ask(member, &heartbeat_request_message, HEARTBEAT_VERSION, &request, arena);
}

static void ask_leave(struct member *member, struct arena *arena)
{
    struct member_identity identity = {.member_id = bytes_of_text(member->id)};
    struct leave_group_request request;

    leave_group_request_init(&request);
    request.group_id = bytes_of_text(member->group->name);
    request.members = &identity;
    request.members_count = 1;
    ask(member, &leave_group_request_message, LEAVE_VERSION, &request, arena);
}

/* Everything when it joins, what it owns when that has changed, else only that it lives (KIP-848). */
static void ask_consumer_heartbeat(struct member *member, struct arena *arena)
{
    struct group *group = member->group;
    struct bytes topic = bytes_of_text(group->topic);
    struct consumer_group_heartbeat_request_topic_partitions owned = {.topic_id = group->topic_id};
    struct consumer_group_heartbeat_request request;

    consumer_group_heartbeat_request_init(&request);
    request.group_id = bytes_of_text(group->name);
    request.member_id = bytes_of_text(member->id);
    request.member_epoch = member->state == MEMBER_LEAVING ? LEAVE_EPOCH : member->epoch;
    if (member->state == MEMBER_JOINING) {
        request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS;
        request.subscribed_topic_names = &topic;
        request.subscribed_topic_names_count = 1;
    }
    if (member->state == MEMBER_JOINING || member->state == MEMBER_SYNCING) {
        owned.partitions = member->owned;
        owned.partitions_count = member->owned_count;
        request.topic_partitions = &owned;
        request.topic_partitions_count = member->owned_count > 0;
    }
    ask(member, &consumer_group_heartbeat_request_message, CONSUMER_HEARTBEAT_VERSION, &request, arena);
}

/* --- what comes back --- */

static void lose_all(struct member *member)
{
    group_own(member, NULL, 0);
    member->state = MEMBER_JOINING;
    member->due_ns = 0;
}

static void die_of(const struct member *member, const char *what, enum err err)
{
    char text[2 * MEMBER_NAME_BYTES_MAX];

    snprintf(text, sizeof(text), "%s: %s", member->group->name, what);
    bench_die(text, err_name(err));
}

/* What all classic requests may be answered with: the member joins again, with its id where that still counts. */
static void classic_refused(struct member *member, const char *what, enum err err)
{
    switch (err) {
    case ERR_COORDINATOR_LOAD_IN_PROGRESS:
    case ERR_COORDINATOR_NOT_AVAILABLE:
    case ERR_NOT_COORDINATOR: /* there is but one broker */
        member->due_ns = bench_now_ns() + RETRY_MS * INT64_C(1000000);
        return;
    case ERR_UNKNOWN_MEMBER_ID:
        member->id[0] = '\0';
        member->group->fenced++;
        lose_all(member);
        return;
    case ERR_ILLEGAL_GENERATION:
    case ERR_REBALANCE_IN_PROGRESS:
        lose_all(member);
        return;
    default:
        die_of(member, what, err);
    }
}

static void take_id(struct member *member, struct bytes id)
{
    if (id.size >= sizeof(member->id))
        bench_die(member->group->name, "a member id is too long");
    memcpy(member->id, id.data, id.size);
    member->id[id.size] = '\0';
}

static void on_join(struct member *member, struct wire_reader *r, struct arena *arena)
{
    struct join_group_response response;
    enum err err = join_group_response_read(r, arena, JOIN_VERSION, &response);

    if (err == ERR_OK)
        err = err_from_wire(response.error_code);
    if (err == ERR_MEMBER_ID_REQUIRED) {
        take_id(member, response.member_id);
        ask_join(member, arena);
    } else if (err != ERR_OK) {
        classic_refused(member, "JoinGroup", err);
    } else {
        take_id(member, response.member_id);
        member->epoch = response.generation_id;
        member->state = MEMBER_SYNCING;
        ask_sync(member, &response, arena);
    }
}

static void on_sync(struct member *member, struct wire_reader *r, struct arena *arena)
{
    struct sync_group_response response;
    struct consumer_protocol_assignment assignment;
    struct wire_reader inner;
    enum err err = sync_group_response_read(r, arena, SYNC_VERSION, &response);

    if (err == ERR_OK)
        err = err_from_wire(response.error_code);
    if (err != ERR_OK) {
        lose_all(member);
        classic_refused(member, "SyncGroup", err);
        return;
    }
    wire_reader_init(&inner, response.assignment);
    err = consumer_protocol_assignment_read(&inner, arena, wire_read_i16(&inner), &assignment);
    if (err != ERR_OK || assignment.assigned_partitions_count > 1)
        bench_die(member->group->name, "an assignment that the leader did not make");
    if (assignment.assigned_partitions_count == 1)
        group_own(member, assignment.assigned_partitions[0].partitions,
                  assignment.assigned_partitions[0].partitions_count);
    member->state = MEMBER_STABLE;
    member->due_ns = bench_now_ns() + member->group->heartbeat_ms * INT64_C(1000000);
}

static void on_heartbeat(struct member *member, struct wire_reader *r, struct arena *arena)
{
    struct heartbeat_response response;
    enum err err = heartbeat_response_read(r, arena, HEARTBEAT_VERSION, &response);

    if (err == ERR_OK)
        err = err_from_wire(response.error_code);
    member->due_ns = member->asked_ns + member->group->heartbeat_ms * INT64_C(1000000);
    if (err != ERR_OK)
        classic_refused(member, "Heartbeat", err);
}

static void on_leave(struct member *member, struct wire_reader *r, struct arena *arena)
{
    struct leave_group_response response;
    enum err err = leave_group_response_read(r, arena, LEAVE_VERSION, &response);

    if (err == ERR_OK)
        err = err_from_wire(response.error_code);
    if (err == ERR_OK && response.members_count == 1)
        err = err_from_wire(response.members[0].error_code);
    if (err != ERR_OK)
        die_of(member, "LeaveGroup", err);
    member_kill(member);
}

static void on_consumer_heartbeat(struct member *member, struct wire_reader *r, struct arena *arena)
{
    struct group *group = member->group;
    struct consumer_group_heartbeat_response response;
    enum err err = consumer_group_heartbeat_response_read(r, arena, CONSUMER_HEARTBEAT_VERSION, &response);
    bool changed = false;

    if (err == ERR_OK)
        err = err_from_wire(response.error_code);
    if (member->state == MEMBER_LEAVING) {
        if (err != ERR_OK)
            die_of(member, "leaving", err);
        member_kill(member);
        return;
    }
    if (err == ERR_COORDINATOR_LOAD_IN_PROGRESS || err == ERR_COORDINATOR_NOT_AVAILABLE || err == ERR_NOT_COORDINATOR) {
        member->due_ns = bench_now_ns() + RETRY_MS * INT64_C(1000000);
        return;
    }
    if (err == ERR_FENCED_MEMBER_EPOCH || err == ERR_UNKNOWN_MEMBER_ID) {
        group->fenced++;
        member->epoch = 0;
        lose_all(member);
        return;
    }
    if (err != ERR_OK)
        die_of(member, "ConsumerGroupHeartbeat", err);
    group->heartbeat_ms = response.heartbeat_interval_ms;
    member->epoch = response.member_epoch;
    member->due_ns = member->asked_ns + group->heartbeat_ms * INT64_C(1000000);
    member->state = MEMBER_STABLE;
    if (response.assignment == NULL)
        return;
    if (response.assignment->topic_partitions_count > 0) {
        group->topic_id = response.assignment->topic_partitions[0].topic_id;
        changed = group_own(member, response.assignment->topic_partitions[0].partitions,
                            response.assignment->topic_partitions[0].partitions_count);
    } else {
        changed = group_own(member, NULL, 0);
    }
    if (changed) {
        member->state = MEMBER_SYNCING;
        member->due_ns = 0;
    }
}

static void replied(struct member *member, struct arena *arena)
{
    struct wire_reader r;
    int32_t correlation_id = 0;
    int16_t asked = member->asked, version = 0;
    int64_t took_ns = bench_now_ns() - member->asked_ns;

    switch (asked) {
    case JOIN_GROUP_REQUEST_API_KEY:
        version = JOIN_VERSION;
        break;
    case SYNC_GROUP_REQUEST_API_KEY:
        version = SYNC_VERSION;
        break;
    case HEARTBEAT_REQUEST_API_KEY:
        version = HEARTBEAT_VERSION;
        break;
    case LEAVE_GROUP_REQUEST_API_KEY:
        version = LEAVE_VERSION;
        break;
    default:
        version = CONSUMER_HEARTBEAT_VERSION;
        break;
    }
    wire_reader_init(&r, bytes_of(member->reply + 4, member->got - 4));
    if (frame_read_response_header(&r, asked, version, &correlation_id) != ERR_OK)
        bench_die("reply", "no header");
    member->asked = -1;
    if (member->leaves) {
        member_leave(member);
        return;
    }
    if (asked == HEARTBEAT_REQUEST_API_KEY || asked == CONSUMER_GROUP_HEARTBEAT_REQUEST_API_KEY)
        member->group->heartbeat_max_ns =
            took_ns > member->group->heartbeat_max_ns ? took_ns : member->group->heartbeat_max_ns;
    if (asked == JOIN_GROUP_REQUEST_API_KEY)
        on_join(member, &r, arena);
    else if (asked == SYNC_GROUP_REQUEST_API_KEY)
        on_sync(member, &r, arena);
    else if (asked == HEARTBEAT_REQUEST_API_KEY)
        on_heartbeat(member, &r, arena);
    else if (asked == LEAVE_GROUP_REQUEST_API_KEY)
        on_leave(member, &r, arena);
    else
        on_consumer_heartbeat(member, &r, arena);
}

/* Reads what there is. */
static bool reply_is_whole(struct member *member)
{
    size_t wanted = 4;

    if (member->got >= 4)
        wanted += (size_t)member->reply[0] << 24 | (size_t)member->reply[1] << 16 | (size_t)member->reply[2] << 8 |
                  member->reply[3];
    if (wanted > REPLY_BYTES_MAX)
        bench_die(member->group->name, "a reply is too large");
    if (wanted > member->reply_room) {
        member->reply_room = wanted;
        member->reply = realloc(member->reply, wanted);
    }
    if (wanted > member->got) {
        ssize_t moved = recv(member->fd, member->reply + member->got, wanted - member->got, MSG_DONTWAIT);

        if (moved < 0 && errno == EAGAIN)
            return false;
        if (moved <= 0)
            bench_die(member->group->name, moved == 0 ? "the broker closed a connection" : strerror(errno));
        member->got += (size_t)moved;
        if (member->got == 4) /* the rest of a small reply is here already */
            return reply_is_whole(member);
    }
    return member->got == wanted;
}

bool member_read(struct member *member)
{
    struct arena arena;

    if (!reply_is_whole(member))
        return false;
    arena_init(&arena, ARENA_BYTES_MAX);
    replied(member, &arena);
    arena_deinit(&arena);
    member_tick(member, bench_now_ns());
    return true;
}

/* --- its life --- */

void member_connect(struct member *member, struct group *group, const char *address, uint16_t port)
{
    struct api_versions_request request;
    struct arena arena;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int one = 1;

    *member = (struct member){.group = group, .asked = -1};
    member->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
        bench_die("no address", address);
    if (member->fd < 0 || connect(member->fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        bench_die("connect", strerror(errno));
    setsockopt(member->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (group->consumer)
        snprintf(member->id, sizeof(member->id), "%s-%u", group->name, group->member_count);
    group->member_count++;
    group->live_count++;
    api_versions_request_init(&request);
    arena_init(&arena, ARENA_BYTES_MAX);
    ask(member, &api_versions_request_message, API_VERSIONS_VERSION, &request, &arena);
    arena_deinit(&arena);
}

void member_await(struct member *member)
{
    struct pollfd wait = {.fd = member->fd, .events = POLLIN};

    while (!reply_is_whole(member))
        (void)poll(&wait, 1, -1);
    member->asked = -1;
}

void member_tick(struct member *member, int64_t now_ns)
{
    struct arena arena;

    if (member->state == MEMBER_GONE || member->asked != -1 || member->due_ns > now_ns)
        return;
    arena_init(&arena, ARENA_BYTES_MAX);
    if (member->group->consumer)
        ask_consumer_heartbeat(member, &arena);
    else if (member->state == MEMBER_JOINING)
        ask_join(member, &arena);
    else if (member->state == MEMBER_LEAVING)
        ask_leave(member, &arena);
    else
        ask_heartbeat(member, &arena);
    arena_deinit(&arena);
}

void member_leave(struct member *member)
{
    member->leaves = member->asked != -1;
    if (member->leaves)
        return;
    group_own(member, NULL, 0);
    member->state = MEMBER_LEAVING;
    member->due_ns = 0;
}

void member_kill(struct member *member)
{
    group_own(member, NULL, 0);
    member->state = MEMBER_GONE;
    member->group->live_count--;
    close(member->fd);
    free(member->reply);
    member->reply = NULL;
    member->reply_room = 0;
}
