#include "base/assert.h"
#include "coordinator/classic_internal.h"
#include "coordinator/consumer.h"
#include "coordinator/group_versions.h"
#include "protocol/gen/join_group.h"

enum { ID_SUFFIX_BYTES = 1 + UUID_HEX_CHARS };

/* ---- answers ---- */

static enum err copy_members(struct classic_group *classic, struct group_op *op, struct join_group_response *out)
{
    uint32_t cursor = 0;
    void *value = NULL;
    enum err err = ERR_OK;

    out->members = arena_array(op->arena, classic_member_count(classic), sizeof(*out->members));
    if (out->members == NULL)
        return ERR_NOMEM;
    while (err == ERR_OK && map_next(&classic->members, &cursor, NULL, &value)) {
        const struct classic_member *member = value;
        struct join_group_response_member *entry = &out->members[out->members_count++];

        join_group_response_member_init(entry);
        err = arena_copy(op->arena, member->id, &entry->member_id);
        if (err == ERR_OK)
            err = arena_copy(op->arena, member->instance_id, &entry->group_instance_id);
        if (err == ERR_OK)
            err = arena_copy(op->arena, classic_member_metadata(member, classic->protocol), &entry->metadata);
    }
    return err;
}

/* What a member is told of its generation. leader: who is said to lead. */
static enum err fill(struct classic_member *member, struct group_op *op, struct bytes leader, bool with_members,
                     bool skip_assignment)
{
    struct classic_group *classic = member->classic;
    struct join_group_response *out = op->response;
    enum err err = ERR_OK;

    join_group_response_init(out);
    out->generation_id = classic->generation;
    out->skip_assignment = skip_assignment;
    err = arena_copy(op->arena, classic->protocol, &out->protocol_name);
    if (out->protocol_name.data == NULL && op->version < JOIN_NULL_PROTOCOL_SINCE)
        out->protocol_name = BYTES_LITERAL("");
    if (err == ERR_OK)
        err = arena_copy(op->arena, classic->protocol_type, &out->protocol_type);
    if (err == ERR_OK)
        err = arena_copy(op->arena, member->id, &out->member_id);
    if (err == ERR_OK)
        err = arena_copy(op->arena, leader, &out->leader);
    if (err == ERR_OK && with_members)
        err = copy_members(classic, op, out);
    return err;
}

static struct bytes leader_id(const struct classic_group *classic)
{
    return classic->leader == NULL ? BYTES_LITERAL("") : classic->leader->id;
}

static bool leads(const struct classic_member *member)
{
    return member->classic->leader == member;
}

static struct group_op *take_join(struct classic_member *member)
{
    struct group_op *op = member->joining;

    if (op != NULL) {
        member->joining = NULL;
        member->classic->joining_count--;
    }
    return op;
}

void classic_answer_join(struct classic_member *member, struct step *step, bool skip_assignment)
{
    struct group_op *op = take_join(member);

    if (op == NULL)
        return;
    op->op.err = fill(member, op, leader_id(member->classic), leads(member), skip_assignment);
    step_answer(step, &op->op);
}

static void refuse(struct step *step, struct group_op *op, enum err err, struct bytes member_id)
{
    struct join_group_response *out = op->response;

    join_group_response_init(out);
    out->error_code = err_wire(err);
    if (op->version >= JOIN_NULL_PROTOCOL_SINCE)
        out->protocol_name = (struct bytes){0};
    op->op.err = arena_copy(op->arena, member_id, &out->member_id);
    step_answer(step, &op->op);
}

void classic_refuse_join(struct classic_member *member, struct step *step, enum err err, struct bytes member_id)
{
    struct group_op *op = take_join(member);

    if (op != NULL)
        refuse(step, op, err, member_id);
}

static void wait_to_join(struct classic_member *member, struct step *step, struct group_op *op)
{
    /* A second request of the same member takes the place of one that nobody listens to any more. */
    classic_refuse_join(member, step, ERR_REBALANCE_IN_PROGRESS, member->id);
    member->joining = op;
    member->classic->joining_count++;
}

/* The step is this request's alone, and what it has written of a group that begins, or becomes a classic one, is half.
 */
static void fail(struct step *step, struct group_op *op, enum err err)
{
    step_fail(step, 0, err);
    op->op.err = err;
    step_answer(step, &op->op);
}

/* What is done already cannot be undone, written or not. */
static void fail_halfway(struct step *step, struct group_op *op, enum err err)
{
    if (step->err == ERR_OK)
        step->err = err;
    fail(step, op, err);
}

/* ---- who comes ---- */

int32_t classic_join_rebalance_ms(const struct group_op *op)
{
    const struct join_group_request *in = op->request;

    return op->version < JOIN_REBALANCE_TIMEOUT_SINCE ? in->session_timeout_ms : in->rebalance_timeout_ms;
}

static struct rebalance_cause cause_of(enum group_cause cause, const struct classic_member *member,
                                       const struct group_op *op)
{
    const struct join_group_request *in = op->request;

    return (struct rebalance_cause){.cause = cause,
                                    .member_id = member->id,
                                    .client_id = member->client_id,
                                    .client_host = member->client_host,
                                    .reason = in->reason};
}

/* The request's protocols in our form; NULL without memory. */
static struct classic_protocol *protocols_of(const struct group_op *op)
{
    const struct join_group_request *in = op->request;
    struct classic_protocol *protocols = arena_array(op->arena, in->protocols_count, sizeof(*protocols));

    for (uint32_t i = 0; protocols != NULL && i < in->protocols_count; i++)
        protocols[i] = (struct classic_protocol){in->protocols[i].name, in->protocols[i].metadata};
    return protocols;
}

static void add_member(struct classic_group *classic, struct step *step, struct group_op *op, struct bytes id,
                       const struct classic_protocol *protocols)
{
    const struct join_group_request *in = op->request;
    struct classic_member_spec spec = {.id = id,
                                       .instance_id = in->group_instance_id,
                                       .client_id = op->client_id,
                                       .client_host = op->client_host,
                                       .rebalance_timeout_ms = classic_join_rebalance_ms(op),
                                       .session_timeout_ms = in->session_timeout_ms,
                                       .protocols = protocols,
                                       .protocol_count = in->protocols_count};
    struct classic_member *member = NULL;
    struct rebalance_cause cause = {0};
    bool first = classic_member_count(classic) == 0;
    enum err err = classic_member_add(classic, &spec, &member);

    if (err == ERR_OK && first) {
        err = classic_keep(&classic->protocol_type, in->protocol_type);
        if (err != ERR_OK)
            classic_member_remove(member);
    }
    if (err != ERR_OK) {
        fail(step, op, err);
        return;
    }
    classic_pending_remove(classic, id);
    member->is_new = true;
    if (classic->state == CLASSIC_PREPARING && classic->initial)
        classic->member_added = true;
    wait_to_join(member, step, op);
    classic_session_start(member, step, CLASSIC_NEW_MEMBER_MS);
    cause = cause_of(CAUSE_JOINED, member, op);
    classic_rebalance(classic, step, &cause);
}

/* What it says this time counts from now on, and it waits. ERR_NOMEM: nothing has changed. */
static enum err update_member(struct classic_member *member, struct step *step, struct group_op *op,
                              const struct classic_protocol *protocols)
{
    const struct join_group_request *in = op->request;
    enum err err = classic_member_set_protocols(member, protocols, in->protocols_count);

    if (err != ERR_OK)
        return err;
    member->rebalance_timeout_ms = classic_join_rebalance_ms(op);
    member->session_timeout_ms = in->session_timeout_ms;
    wait_to_join(member, step, op);
    return ERR_OK;
}

/* "client-a-6c84fb90-12c4-11e1-840d-7b25c5ee775a": clients and tools show it, so it looks like Kafka's. */
static struct bytes make_member_id(struct step *step, struct group_op *op)
{
    const struct join_group_request *in = op->request;
    struct bytes prefix = in->group_instance_id.data != NULL ? in->group_instance_id : op->client_id;

    if (prefix.size > WIRE_STRING_BYTES_MAX - ID_SUFFIX_BYTES)
        prefix.size = WIRE_STRING_BYTES_MAX - ID_SUFFIX_BYTES;
    return arena_printf(op->arena, "%.*s-%s", BYTES_PRINTF(prefix), uuid_format_hex(uuid_random(step->rng)).text);
}

/* A static member is back under a new id: whoever still uses the old one is fenced (KIP-345). */
static void replace_static(struct classic_group *classic, struct step *step, struct group_op *op,
                           struct classic_member *member, struct bytes id, const struct classic_protocol *protocols)
{
    const struct join_group_request *in = op->request;
    struct bytes leader_before = leader_id(classic);
    bool led = leads(member);
    struct rebalance_cause cause = {0};
    enum err err = arena_copy(op->arena, leader_before, &leader_before);

    if (err != ERR_OK) {
        fail(step, op, err);
        return;
    }
    classic_refuse_join(member, step, ERR_FENCED_INSTANCE_ID, member->id);
    (void)classic_answer_sync(member, step, ERR_FENCED_INSTANCE_ID);
    err = classic_member_rename(member, id);
    if (err == ERR_OK) {
        member->is_new = false;
        classic_session_start(member, step, in->session_timeout_ms);
        err = update_member(member, step, op, protocols);
    }
    if (err != ERR_OK) {
        fail_halfway(step, op, err);
        return;
    }
    cause = cause_of(CAUSE_REPLACED, member, op);
    if (classic->state != CLASSIC_STABLE || !bytes_equal(classic_select_protocol(classic), classic->protocol)) {
        classic_rebalance(classic, step, &cause);
        return;
    }
    err = classic_write(classic, step, true);
    if (err == ERR_MESSAGE_TOO_LARGE) {
        classic_refuse_join(member, step, ERR_UNKNOWN_SERVER_ERROR, BYTES_LITERAL(""));
        cause.cause = CAUSE_FAILED;
        classic_rebalance(classic, step, &cause);
        return;
    }
    classic_topics_note(classic); /* there is no generation that would */
    (void)take_join(member);
    /* Before v9 a leader cannot be told to leave the assignment as it is: it is told that somebody else leads. */
    if (err == ERR_OK)
        err = op->version >= JOIN_SKIP_ASSIGNMENT_SINCE ? fill(member, op, leader_id(classic), led, led)
                                                        : fill(member, op, leader_before, false, false);
    if (err != ERR_OK)
        fail_halfway(step, op, err);
    else
        step_answer(step, &op->op);
}

static void join_new(struct classic_group *classic, struct step *step, struct group_op *op,
                     const struct classic_protocol *protocols)
{
    const struct join_group_request *in = op->request;
    struct bytes id = make_member_id(step, op);
    struct classic_member *before = NULL;
    enum err err = ERR_OK;

    if (id.data == NULL) {
        fail(step, op, ERR_NOMEM);
        return;
    }
    if (in->group_instance_id.data != NULL) {
        before = classic_member_find_instance(classic, in->group_instance_id);
        if (before != NULL)
            replace_static(classic, step, op, before, id, protocols);
        else
            add_member(classic, step, op, id, protocols);
        return;
    }
    if (op->version < JOIN_ID_REQUIRED_SINCE) {
        add_member(classic, step, op, id, protocols);
        return;
    }
    err = classic_pending_add(classic, step, id, in->session_timeout_ms);
    if (err != ERR_OK)
        fail(step, op, err);
    else
        refuse(step, op, ERR_MEMBER_ID_REQUIRED, id);
}

static void rejoin(struct classic_member *member, struct step *step, struct group_op *op,
                   const struct classic_protocol *protocols)
{
    struct rebalance_cause cause = cause_of(CAUSE_REJOINED, member, op);
    enum err err = update_member(member, step, op, protocols);

    if (err != ERR_OK)
        fail(step, op, err);
    else
        classic_rebalance(member->classic, step, &cause);
}

/* Nothing changed for it: the generation it is in. */
static void answer_now(struct classic_member *member, struct step *step, struct group_op *op)
{
    bool with_members = leads(member) && member->classic->state == CLASSIC_COMPLETING;

    op->op.err = fill(member, op, leader_id(member->classic), with_members, false);
    step_answer(step, &op->op);
}

static void join_known(struct classic_group *classic, struct step *step, struct group_op *op,
                       const struct classic_protocol *protocols)
{
    const struct join_group_request *in = op->request;
    struct classic_member *member = NULL;
    enum err err = ERR_OK;

    if (in->group_instance_id.data == NULL && classic_pending_has(classic, in->member_id)) {
        add_member(classic, step, op, in->member_id, protocols);
        return;
    }
    err = classic_member_check(classic, in->member_id, in->group_instance_id, &member);
    if (err != ERR_OK) {
        refuse(step, op, err, in->member_id);
        return;
    }
    if (classic->state == CLASSIC_EMPTY)
        refuse(step, op, ERR_UNKNOWN_MEMBER_ID, in->member_id);
    else if (classic->state == CLASSIC_PREPARING || !classic_member_matches(member, protocols, in->protocols_count) ||
             (classic->state == CLASSIC_STABLE && leads(member)))
        rejoin(member, step, op, protocols);
    else
        answer_now(member, step, op);
}

/* ---- whether it may ---- */

static bool has_room(const struct classic_group *classic, struct bytes member_id)
{
    uint32_t max = (uint32_t)classic->group->groups->settings->size_max;
    const struct classic_member *member = classic_member_find(classic, member_id);

    switch (classic->state) {
    case CLASSIC_EMPTY:
        return true;
    case CLASSIC_PREPARING:
        return (member != NULL && member->joining != NULL) || classic->joining_count < max;
    case CLASSIC_COMPLETING:
    case CLASSIC_STABLE:
        break;
    }
    return member != NULL || classic_member_count(classic) < max;
}

static bool speaks(const struct classic_group *classic, const struct join_group_request *in,
                   const struct classic_protocol *protocols)
{
    if (classic->state == CLASSIC_EMPTY || classic_member_count(classic) == 0)
        return in->protocol_type.size > 0 && in->protocols_count > 0;
    return bytes_equal(in->protocol_type, classic->protocol_type) &&
           classic_supports(classic, protocols, in->protocols_count);
}

static void join(struct classic_group *classic, struct step *step, struct group_op *op)
{
    const struct join_group_request *in = op->request;
    const struct classic_protocol *protocols = protocols_of(op);
    struct classic_member *member = NULL;

    if (protocols == NULL) {
        fail(step, op, ERR_NOMEM);
    } else if (!has_room(classic, in->member_id)) {
        /* As Kafka has it, a member that comes too late when a group has shrunk is out with that. */
        classic_pending_remove(classic, in->member_id);
        member = classic_member_find(classic, in->member_id);
        if (member != NULL)
            classic_drop_member(member, step);
        refuse(step, op, ERR_GROUP_MAX_SIZE_REACHED, BYTES_LITERAL(""));
    } else if (!speaks(classic, in, protocols)) {
        refuse(step, op, ERR_INCONSISTENT_GROUP_PROTOCOL, in->member_id);
    } else if (in->member_id.size == 0) {
        join_new(classic, step, op, protocols);
    } else {
        join_known(classic, step, op, protocols);
    }
}

/* A group that nobody knows begins with a record, so that it is there after a restart, too. */
static enum err begin_group(struct groups *groups, struct step *step, struct bytes id, struct classic_group **classic)
{
    struct group *group = NULL;
    enum err err = group_get_or_make(groups, id, &group);

    if (err == ERR_OK)
        err = classic_of_group(group, classic);
    if (err != ERR_OK) {
        if (group != NULL)
            (void)group_settle(group);
        return err;
    }
    (*classic)->since_ms = step->now_ms;
    err = classic_write(*classic, step, true);
    if (err == ERR_MESSAGE_TOO_LARGE)
        (void)group_settle(group);
    return err;
}

static enum err check(const struct groups *groups, const struct group_op *op)
{
    const struct join_group_request *in = op->request;
    size_t bytes = 0;

    if (op->group_id.size == 0)
        return ERR_INVALID_GROUP_ID;
    if (in->session_timeout_ms < groups->settings->session_timeout_ms_min ||
        in->session_timeout_ms > groups->settings->session_timeout_ms_max)
        return ERR_INVALID_SESSION_TIMEOUT;
    if (in->protocols_count > CLASSIC_PROTOCOLS_MAX)
        return ERR_INVALID_REQUEST;
    for (uint32_t i = 0; i < in->protocols_count; i++)
        bytes += in->protocols[i].name.size + in->protocols[i].metadata.size;
    return bytes > CLASSIC_METADATA_BYTES_MAX ? ERR_INVALID_REQUEST : ERR_OK;
}

void classic_join(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct join_group_request *in = op->request;
    struct group *group = group_find(groups, op->group_id);
    struct classic_group *classic = NULL;
    enum err err = check(groups, op);

    if (err != ERR_OK) {
        refuse(step, op, err, in->member_id);
        return;
    }
    if (group != NULL && group->kind == GROUP_CONSUMER) {
        if (consumer_has_members(group->consumer)) {
            consumer_classic_join(group, step, op);
            return;
        }
        if (in->member_id.size > 0) { /* nobody has one, and what is refused changes nothing */
            refuse(step, op, ERR_UNKNOWN_MEMBER_ID, in->member_id);
            return;
        }
        if (consumer_tombstones_bytes(group->consumer) > step_room(step)) {
            refuse(step, op, ERR_UNKNOWN_SERVER_ERROR, in->member_id);
            return;
        }
        err = consumer_write_tombstones(group, step); /* an empty one becomes a classic one */
        if (err != ERR_OK) {
            fail(step, op, err);
            return;
        }
        assert(group->kind == GROUP_CLASSIC);
        if (group_settle(group))
            group = NULL;
    }
    if (group == NULL && in->member_id.size > 0) {
        refuse(step, op, ERR_UNKNOWN_MEMBER_ID, in->member_id);
        return;
    }
    err = group == NULL ? begin_group(groups, step, op->group_id, &classic) : classic_of_group(group, &classic);
    if (err == ERR_MESSAGE_TOO_LARGE)
        refuse(step, op, ERR_UNKNOWN_SERVER_ERROR, in->member_id);
    else if (err != ERR_OK)
        fail(step, op, err);
    else
        join(classic, step, op);
}
