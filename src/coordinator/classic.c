#include "coordinator/classic.h"

#include "coordinator/classic_internal.h"
#include "coordinator/group_versions.h"
#include "protocol/gen/describe_groups.h"

/* ---- life ---- */

void classic_loaded(struct group *group, struct step *step)
{
    struct classic_group *classic = group->classic;
    struct rebalance_cause cause = {.cause = CAUSE_REMOVED,
                                    .reason = BYTES_LITERAL("group.max.size is less than that")};
    uint32_t cursor = 0;
    void *value = NULL;

    (void)classic_note_owners(classic);
    classic_topics_note(classic);
    while (map_next(&classic->members, &cursor, NULL, &value)) {
        struct classic_member *member = value;

        classic_session_start(member, step, member->session_timeout_ms);
    }
    if (classic_member_count(classic) > (uint32_t)group->groups->settings->size_max)
        classic_rebalance(classic, step, &cause);
}

static void give_up(struct step *step, struct group_op **waiting, enum err why)
{
    struct group_op *op = *waiting;

    *waiting = NULL;
    if (op == NULL)
        return;
    op->op.err = why;
    step_answer(step, &op->op);
}

void classic_unload(struct group *group, struct step *step, enum err why)
{
    struct classic_group *classic = group->classic;
    uint32_t cursor = 0;
    void *value = NULL;

    if (classic == NULL)
        return;
    while (step != NULL && map_next(&classic->members, &cursor, NULL, &value)) {
        struct classic_member *member = value;

        give_up(step, &member->joining, why);
        give_up(step, &member->syncing, why);
    }
    classic_free(classic);
    group->classic = NULL;
}

/* ---- what others ask ---- */

struct bytes classic_state_name(const struct classic_group *classic)
{
    static const struct bytes names[] = {
        [CLASSIC_EMPTY] = {(const uint8_t *)"Empty", 5},
        [CLASSIC_PREPARING] = {(const uint8_t *)"PreparingRebalance", 18},
        [CLASSIC_COMPLETING] = {(const uint8_t *)"CompletingRebalance", 19},
        [CLASSIC_STABLE] = {(const uint8_t *)"Stable", 6},
    };

    return names[classic == NULL ? CLASSIC_EMPTY : classic->state];
}

struct bytes classic_protocol_type(const struct classic_group *classic)
{
    return classic == NULL || classic->protocol_type.data == NULL ? BYTES_LITERAL("") : classic->protocol_type;
}

bool classic_has_members(const struct classic_group *classic)
{
    return classic != NULL && classic->state != CLASSIC_EMPTY;
}

bool classic_is_settled(const struct classic_group *classic)
{
    return !classic->recorded && classic_member_count(classic) == 0 && map_count(&classic->pending) == 0 &&
           classic->state == CLASSIC_EMPTY;
}

int64_t classic_state_since_ms(const struct classic_group *classic)
{
    return classic == NULL ? -1 : classic->since_ms;
}

enum err classic_may_commit(struct group *group, struct step *step, struct bytes member_id, struct bytes instance_id,
                            int32_t generation, bool transactional)
{
    struct classic_group *classic = group->classic;
    enum classic_state state = classic == NULL ? CLASSIC_EMPTY : classic->state;
    struct classic_member *member = NULL;
    enum err err = ERR_OK;

    if (generation < 0 && state == CLASSIC_EMPTY)
        return ERR_OK;
    if (generation >= 0 || member_id.size > 0 || instance_id.data != NULL) {
        err = classic_member_check(classic, member_id, instance_id, &member);
        if (err != ERR_OK)
            return err;
        if (generation != classic->generation)
            return ERR_ILLEGAL_GENERATION;
    } else if (!transactional && state != CLASSIC_EMPTY) {
        return ERR_UNKNOWN_MEMBER_ID;
    }
    if (!transactional && state == CLASSIC_COMPLETING)
        return ERR_REBALANCE_IN_PROGRESS;
    if (!transactional && member != NULL && (state == CLASSIC_STABLE || state == CLASSIC_PREPARING))
        classic_session_start(member, step, member->session_timeout_ms);
    return ERR_OK;
}

/* ---- DescribeGroups ---- */

static enum err describe_member(const struct classic_member *member, struct arena *arena,
                                struct described_group_member *out)
{
    const struct classic_group *classic = member->classic;
    struct bytes metadata =
        classic->state == CLASSIC_STABLE ? classic_member_metadata(member, classic->protocol) : BYTES_LITERAL("");
    struct bytes assignment = member->assignment.data == NULL ? BYTES_LITERAL("") : member->assignment;
    enum err err = arena_copy(arena, member->id, &out->member_id);

    if (err == ERR_OK)
        err = arena_copy(arena, member->instance_id, &out->group_instance_id);
    if (err == ERR_OK)
        err = arena_copy(arena, member->client_id, &out->client_id);
    if (err == ERR_OK)
        err = arena_copy(arena, member->client_host, &out->client_host);
    if (err == ERR_OK)
        err = arena_copy(arena, metadata, &out->member_metadata);
    if (err == ERR_OK)
        err = arena_copy(arena, assignment, &out->member_assignment);
    return err;
}

static enum err describe(const struct classic_group *classic, struct arena *arena,
                         struct describe_groups_response_described_group *out)
{
    uint32_t cursor = 0;
    void *value = NULL;
    enum err err = ERR_OK;

    out->group_state = classic_state_name(classic);
    if (classic == NULL)
        return ERR_OK;
    err = arena_copy(arena, classic_protocol_type(classic), &out->protocol_type);
    if (err == ERR_OK && classic->state == CLASSIC_STABLE)
        err = arena_copy(arena, classic->protocol, &out->protocol_data);
    out->members = arena_array(arena, classic_member_count(classic), sizeof(*out->members));
    if (out->members == NULL)
        return ERR_NOMEM;
    while (err == ERR_OK && map_next(&classic->members, &cursor, NULL, &value)) {
        described_group_member_init(&out->members[out->members_count]);
        err = describe_member(value, arena, &out->members[out->members_count++]);
    }
    return err;
}

static void describe_none(const struct group *group, struct group_op *op,
                          struct describe_groups_response_described_group *out)
{
    out->group_state = BYTES_LITERAL("Dead");
    if (op->version < DESCRIBE_UNKNOWN_SINCE)
        return;
    out->error_code = err_wire(ERR_GROUP_ID_NOT_FOUND);
    out->error_message =
        arena_printf(op->arena, group == NULL ? "Group %.*s not found." : "Group %.*s is not a classic group.",
                     BYTES_PRINTF(op->group_id));
}

void classic_describe(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct group *group = group_find(groups, op->group_id);
    struct describe_groups_response_described_group *out = op->response;

    describe_groups_response_described_group_init(out);
    op->op.err = arena_copy(op->arena, op->group_id, &out->group_id);
    if (op->op.err == ERR_OK && (group == NULL || group->kind != GROUP_CLASSIC))
        describe_none(group, op, out);
    else if (op->op.err == ERR_OK)
        op->op.err = describe(group->classic, op->arena, out);
    step_answer(step, &op->op);
}
