#include "base/assert.h"
#include "base/mem.h"
#include "coordinator/classic_internal.h"
#include "coordinator/consumer.h"
#include "coordinator/record_arena.h"
#include "protocol/gen/group_metadata_record.h"

enum {
    KEY_TYPE_BYTES = 2,
    VERSION_BYTES = 2,
};

/* ---- writing ---- */

static void fill_member(struct member_metadata *to, const struct classic_member *member, bool keep)
{
    const struct classic_group *classic = member->classic;
    struct bytes assignment = keep ? member->assignment : member->given;

    member_metadata_init(to);
    to->member_id = member->id;
    to->group_instance_id = member->instance_id;
    to->client_id = member->client_id;
    to->client_host = member->client_host;
    to->rebalance_timeout = member->rebalance_timeout_ms;
    to->session_timeout = member->session_timeout_ms;
    to->subscription = classic_member_metadata(member, classic->protocol);
    to->assignment = assignment.data == NULL ? BYTES_LITERAL("") : assignment;
}

enum err classic_write(struct classic_group *classic, struct step *step, bool keep)
{
    struct group_metadata_key key = {.group = classic->group->id};
    struct group_metadata_value value;
    uint32_t cursor = 0;
    void *member = NULL;
    enum err err = ERR_OK;

    group_metadata_value_init(&value);
    value.protocol_type = classic->protocol_type.data == NULL ? BYTES_LITERAL("") : classic->protocol_type;
    value.generation = classic->generation;
    value.protocol = classic->protocol;
    value.leader = classic->leader == NULL ? (struct bytes){0} : classic->leader->id;
    value.current_state_timestamp = classic_member_count(classic) == 0 ? classic->since_ms : step->now_ms;
    value.members = mem_calloc((size_t)classic_member_count(classic) + 1, sizeof(*value.members));
    if (value.members == NULL) {
        step->err = ERR_NOMEM;
        return ERR_NOMEM;
    }
    while (map_next(&classic->members, &cursor, NULL, &member))
        fill_member(&value.members[value.members_count++], member, keep);
    if (step_message_bytes(&group_metadata_key_message, &key, &group_metadata_value_message, CLASSIC_RECORD_VERSION,
                           &value) > step_room(step))
        err = ERR_MESSAGE_TOO_LARGE;
    else
        err = step_write(step, &group_metadata_key_message, &key, &group_metadata_value_message, CLASSIC_RECORD_VERSION,
                         &value);
    mem_free(value.members);
    return err;
}

enum err classic_write_or_fail(struct classic_group *classic, struct step *step)
{
    enum err err = classic_write(classic, step, true);

    if (err != ERR_OK && step->err == ERR_OK)
        step->err = err;
    return err;
}

enum err classic_write_tombstone(struct group *group, struct step *step)
{
    struct group_metadata_key key = {.group = group->id};

    return step_write(step, &group_metadata_key_message, &key, &group_metadata_value_message, CLASSIC_RECORD_VERSION,
                      NULL);
}

size_t classic_tombstone_bytes(const struct group *group)
{
    struct group_metadata_key key = {.group = group->id};

    return step_message_bytes(&group_metadata_key_message, &key, &group_metadata_value_message, CLASSIC_RECORD_VERSION,
                              NULL);
}

/* ---- replay ---- */

static enum err replay_member(struct classic_group *classic, const struct group_metadata_value *value,
                              const struct member_metadata *from)
{
    struct classic_member *member = classic_member_find(classic, from->member_id);
    struct classic_protocol protocol = {value->protocol, from->subscription};
    struct classic_member_spec spec = {.id = from->member_id,
                                       .instance_id = from->group_instance_id,
                                       .client_id = from->client_id,
                                       .client_host = from->client_host,
                                       .protocols = &protocol,
                                       .protocol_count = 1};
    enum err err = ERR_OK;

    if (protocol.name.data == NULL)
        protocol.name = BYTES_LITERAL("");
    if (member == NULL && from->group_instance_id.data != NULL) {
        member = classic_member_find_instance(classic, from->group_instance_id);
        if (member != NULL)
            err = classic_member_rename(member, from->member_id);
    }
    if (member == NULL)
        err = classic_member_add(classic, &spec, &member);
    else if (err == ERR_OK && !bytes_equal(classic_member_metadata(member, protocol.name), from->subscription))
        err = classic_member_set_protocols(member, &protocol, 1);
    if (err == ERR_OK)
        err = classic_member_set_assignment(member, from->assignment);
    if (err != ERR_OK)
        return err;
    member->session_timeout_ms = from->session_timeout;
    member->rebalance_timeout_ms = from->rebalance_timeout < 0 ? from->session_timeout : from->rebalance_timeout;
    member->recorded = true;
    return ERR_OK;
}

static void drop_unrecorded(struct classic_group *classic)
{
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&classic->members, &cursor, NULL, &value)) {
        struct classic_member *member = value;

        if (!member->recorded)
            classic_member_remove(member);
        else
            member->recorded = false;
    }
}

static enum err replay_value(struct classic_group *classic, const struct group_metadata_value *value)
{
    struct bytes type = value->protocol_type.size == 0 ? (struct bytes){0} : value->protocol_type;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < value->members_count && err == ERR_OK; i++)
        err = replay_member(classic, value, &value->members[i]);
    if (err != ERR_OK)
        return err;
    drop_unrecorded(classic);
    err = classic_keep(&classic->protocol_type, type);
    if (err == ERR_OK)
        err = classic_keep(&classic->protocol, value->protocol);
    if (err != ERR_OK)
        return err;
    classic->leader = value->leader.data == NULL ? NULL : classic_member_find(classic, value->leader);
    classic->generation = value->generation;
    classic->since_ms = value->current_state_timestamp;
    classic->state = classic_member_count(classic) == 0 ? CLASSIC_EMPTY : CLASSIC_STABLE;
    classic->recorded = true;
    return ERR_OK;
}

static enum err replay_tombstone(struct groups *groups, struct bytes id)
{
    struct group *group = group_find(groups, id);

    if (group == NULL)
        return ERR_OK; /* compaction leaves tombstones of groups that nothing else is known of */
    if (group->classic != NULL)
        classic_free(group->classic);
    group->classic = NULL;
    if (groups->step == NULL) /* within a step, who wrote it still holds the group */
        (void)group_settle(group);
    return ERR_OK;
}

static enum err read_key(struct bytes key, struct arena *arena, struct group_metadata_key *to)
{
    struct wire_reader reader;

    wire_reader_init(&reader, bytes_of(key.data + KEY_TYPE_BYTES, key.size - KEY_TYPE_BYTES));
    return group_metadata_key_read(&reader, arena, 0, to) == ERR_OK ? ERR_OK : ERR_DAMAGED;
}

static enum err read_value(struct bytes value, struct arena *arena, struct group_metadata_value *to)
{
    struct wire_reader reader;
    int16_t version = 0;
    enum err err = ERR_OK;

    wire_reader_init(&reader, value);
    version = wire_read_i16(&reader);
    if (reader.err != ERR_OK)
        return ERR_DAMAGED;
    if (!message_serves(&group_metadata_value_message, version))
        return ERR_UNSUPPORTED_VERSION;
    err = group_metadata_value_read(&reader, arena, version, to);
    return err == ERR_OK || err == ERR_NOMEM ? err : ERR_DAMAGED;
}

enum err classic_replay(struct groups *groups, struct bytes key, struct bytes value)
{
    struct group_metadata_key of;
    struct group_metadata_value now;
    struct group *group = NULL;
    struct classic_group *classic = NULL;
    struct arena arena;
    enum err err = ERR_OK;

    record_arena_init(&arena, key.size + value.size);
    err = read_key(key, &arena, &of);
    if (err != ERR_OK)
        goto out;
    if (value.data == NULL) {
        err = replay_tombstone(groups, of.group);
        goto out;
    }
    err = read_value(value, &arena, &now);
    if (err == ERR_OK)
        err = group_get_or_make(groups, of.group, &group);
    if (err == ERR_OK)
        err = classic_of_group(group, &classic);
    if (err != ERR_OK)
        goto out;
    if (group->kind == GROUP_CONSUMER) {
        assert(groups->step == NULL); /* who writes it has taken the other half off */
        consumer_unload(group);
    }
    group->kind = GROUP_CLASSIC;
    err = replay_value(classic, &now);
out:
    arena_deinit(&arena);
    return err;
}

/* ---- from one kind to the other ---- */

enum err classic_convert(struct group *group, struct step *step)
{
    struct classic_group *classic = group->classic;
    uint32_t cursor = 0;
    void *value = NULL;

    while (classic != NULL && map_next(&classic->members, &cursor, NULL, &value)) {
        struct classic_member *member = value;

        classic_refuse_join(member, step, ERR_REBALANCE_IN_PROGRESS, member->id);
        (void)classic_answer_sync(member, step, ERR_REBALANCE_IN_PROGRESS);
    }
    if (classic == NULL)
        return ERR_OK;
    if (classic->recorded)
        return classic_write_tombstone(group, step);
    classic_free(classic);
    group->classic = NULL;
    return ERR_OK;
}

static enum err take_seeds(struct classic_group *classic, const struct classic_seed *seeds, uint32_t count)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < count && err == ERR_OK; i++) {
        struct classic_member_spec spec = {.id = seeds[i].id,
                                           .instance_id = seeds[i].instance_id,
                                           .client_id = seeds[i].client_id,
                                           .client_host = seeds[i].client_host,
                                           .rebalance_timeout_ms = seeds[i].rebalance_timeout_ms,
                                           .session_timeout_ms = seeds[i].session_timeout_ms,
                                           .protocols = seeds[i].protocols,
                                           .protocol_count = seeds[i].protocol_count};
        struct classic_member *member = NULL;

        err = classic_member_add(classic, &spec, &member);
        if (err == ERR_OK)
            err = classic_member_set_assignment(member, seeds[i].assignment);
    }
    return err;
}

enum err classic_from_members(struct group *group, struct step *step, int32_t generation,
                              const struct classic_seed *seeds, uint32_t count)
{
    struct classic_group *classic = NULL;
    uint32_t cursor = 0;
    void *value = NULL;
    enum err err = ERR_OK;

    assert(count > 0 && group->classic == NULL && group->consumer == NULL && group->kind == GROUP_CLASSIC);
    err = classic_of_group(group, &classic);
    if (err == ERR_OK)
        err = take_seeds(classic, seeds, count);
    if (err == ERR_OK)
        err = classic_keep(&classic->protocol_type, BYTES_LITERAL("consumer"));
    if (err == ERR_OK)
        err = classic_keep(&classic->protocol, classic_select_protocol(classic));
    if (err != ERR_OK) {
        step->err = err;
        return err;
    }
    classic->generation = generation;
    classic->state = CLASSIC_COMPLETING; /* replay of the record makes it Stable */
    err = classic_write_or_fail(classic, step);
    if (err != ERR_OK)
        return err;
    (void)classic_note_owners(classic);
    classic_topics_note(classic);
    while (map_next(&classic->members, &cursor, NULL, &value)) {
        struct classic_member *member = value;

        classic_session_start(member, step, member->session_timeout_ms);
    }
    return ERR_OK;
}

void classic_begin_rebalance(struct group *group, struct step *step, const struct rebalance_cause *cause)
{
    classic_rebalance(group->classic, step, cause);
}
