#include "coordinator/classic_client.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "protocol/gen/heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/sync_group.h"

enum { REQUESTS_MAX = WORLD_CALLS_MAX, PARTS_MAX = 8, TEXT_BYTES = 256 };

static struct kept {
    union {
        struct join_group_request join;
        struct sync_group_request sync;
        struct heartbeat_request beat;
        struct leave_group_request leave;
    };
    union {
        struct join_group_request_protocol protocols[PARTS_MAX];
        struct sync_group_request_assignment assignments[PARTS_MAX];
        struct member_identity members[PARTS_MAX];
    };
    char id[CLIENT_ID_BYTES];
    char text[TEXT_BYTES];
} kept[REQUESTS_MAX];
static uint32_t kept_count;

void client_forget_requests(void)
{
    kept_count = 0;
}

static struct kept *keep(const struct classic_client *client)
{
    ck_assert_uint_lt(kept_count, REQUESTS_MAX);
    (void)snprintf(kept[kept_count].id, CLIENT_ID_BYTES, "%s", client->id);
    return &kept[kept_count++];
}

static const char *group_of(const struct classic_client *client)
{
    return client->group == NULL ? "g" : client->group;
}

static int16_t version_of(const struct classic_client *client)
{
    if (client->version == 0)
        return 9;
    return client->version < 0 ? 0 : client->version;
}

static uint32_t split(struct kept *at, const char *protocols)
{
    uint32_t count = 0;
    char *save = NULL;

    (void)snprintf(at->text, TEXT_BYTES, "%s", protocols);
    for (char *part = strtok_r(at->text, ",", &save); part != NULL; part = strtok_r(NULL, ",", &save)) {
        char *equals = strchr(part, '=');

        ck_assert(equals != NULL && count < PARTS_MAX);
        *equals = '\0';
        join_group_request_protocol_init(&at->protocols[count]);
        at->protocols[count].name = bytes_of_text(part);
        at->protocols[count++].metadata = bytes_of_text(equals + 1);
    }
    return count;
}

static int32_t rebalance_ms_of(const struct classic_client *client)
{
    if (client->rebalance_ms == CLIENT_REBALANCE_0)
        return 0;
    return client->rebalance_ms == 0 ? 30000 : client->rebalance_ms;
}

struct world_call *client_join(struct group_world *world, struct classic_client *client)
{
    struct kept *at = keep(client);

    join_group_request_init(&at->join);
    at->join.group_id = bytes_of_text(group_of(client));
    at->join.session_timeout_ms = client->session_ms == 0 ? 10000 : client->session_ms;
    at->join.rebalance_timeout_ms = rebalance_ms_of(client);
    at->join.member_id = bytes_of_text(at->id);
    at->join.group_instance_id = bytes_of_text(client->instance);
    at->join.protocol_type = bytes_of_text(client->type == NULL ? "consumer" : client->type);
    at->join.reason = bytes_of_text(client->reason);
    at->join.protocols_count = split(at, client->protocols == NULL ? "range=t" : client->protocols);
    at->join.protocols = at->protocols;
    for (uint32_t i = 0; client->metadata.data != NULL && i < at->join.protocols_count; i++)
        at->protocols[i].metadata = client->metadata;
    return world_ask(world, client->label, ASK_JOIN_GROUP, version_of(client), group_of(client), &at->join);
}

void client_learn(struct classic_client *client, const struct world_call *call)
{
    const struct join_group_response *out = call->response;

    ck_assert(call->answered);
    ck_assert_int_eq(call->op.op.err, ERR_OK);
    (void)snprintf(client->id, sizeof(client->id), "%.*s", BYTES_PRINTF(out->member_id));
    if (out->error_code == 0)
        client->generation = out->generation_id;
}

struct world_call *client_enter(struct group_world *world, struct classic_client *client)
{
    struct world_call *call = client_join(world, client);

    if (!call->answered || client_error(call) != err_wire(ERR_MEMBER_ID_REQUIRED))
        return call;
    client_learn(client, call);
    return client_join(world, client);
}

struct world_call *client_sync(struct group_world *world, struct classic_client *client,
                               const struct classic_share *shares, uint32_t count)
{
    struct kept *at = keep(client);

    sync_group_request_init(&at->sync);
    at->sync.group_id = bytes_of_text(group_of(client));
    at->sync.generation_id = client->generation;
    at->sync.member_id = bytes_of_text(at->id);
    at->sync.group_instance_id = bytes_of_text(client->instance);
    for (uint32_t i = 0; i < count; i++) {
        sync_group_request_assignment_init(&at->assignments[i]);
        at->assignments[i].member_id = bytes_of_text(shares[i].to->id);
        at->assignments[i].assignment =
            shares[i].assignment.data != NULL ? shares[i].assignment : bytes_of_text(shares[i].bytes);
    }
    at->sync.assignments = at->assignments;
    at->sync.assignments_count = count;
    return world_ask(world, client->label, ASK_SYNC_GROUP, 4, group_of(client), &at->sync);
}

struct world_call *client_beat(struct group_world *world, struct classic_client *client)
{
    struct kept *at = keep(client);

    heartbeat_request_init(&at->beat);
    at->beat.group_id = bytes_of_text(group_of(client));
    at->beat.generation_id = client->generation;
    at->beat.member_id = bytes_of_text(at->id);
    at->beat.group_instance_id = bytes_of_text(client->instance);
    return world_ask(world, client->label, ASK_HEARTBEAT, 4, group_of(client), &at->beat);
}

struct world_call *client_leave(struct group_world *world, struct classic_client *client, int16_t version)
{
    struct kept *at = keep(client);

    leave_group_request_init(&at->leave);
    at->leave.group_id = bytes_of_text(group_of(client));
    at->leave.member_id = bytes_of_text(at->id);
    member_identity_init(&at->members[0]);
    at->members[0].member_id = bytes_of_text(at->id);
    at->members[0].group_instance_id = bytes_of_text(client->instance);
    at->members[0].reason = bytes_of_text(client->reason);
    at->leave.members = at->members;
    at->leave.members_count = 1;
    return world_ask(world, client->label, ASK_LEAVE_GROUP, version == 0 ? 5 : version, group_of(client), &at->leave);
}

struct world_call *client_describe(struct group_world *world, const char *group, int16_t version)
{
    return world_ask(world, "admin", ASK_DESCRIBE_GROUP, version, group, NULL);
}

int client_error(const struct world_call *call)
{
    ck_assert(call->answered);
    ck_assert_int_eq(call->op.op.err, ERR_OK);
    switch (call->op.ask) {
    case ASK_JOIN_GROUP:
        return ((const struct join_group_response *)call->response)->error_code;
    case ASK_SYNC_GROUP:
        return ((const struct sync_group_response *)call->response)->error_code;
    case ASK_HEARTBEAT:
        return ((const struct heartbeat_response *)call->response)->error_code;
    case ASK_LEAVE_GROUP:
        return ((const struct leave_group_response *)call->response)->error_code;
    default:
        ck_abort_msg("no error code of %d", call->op.ask);
    }
    return 0;
}

const char *client_assignment(const struct world_call *call)
{
    static char text[TEXT_BYTES];
    const struct sync_group_response *out = call->response;

    ck_assert_int_eq(client_error(call), 0);
    (void)snprintf(text, sizeof(text), "%.*s", BYTES_PRINTF(out->assignment));
    return text;
}
