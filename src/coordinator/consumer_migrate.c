#include "coordinator/classic_internal.h"
#include "coordinator/consumer_internal.h"
#include "coordinator/embedded.h"
#include "protocol/gen/group_metadata_record.h"

/* ---- from the classic protocol ---- */

/* A member of the classic group, as it will be. */
struct newcomer {
    struct bytes id;
    struct consumer_group_member_metadata_value about;
    struct classic_member_metadata classic;
    struct partition_set assigned;
};

struct upgrade {
    struct arena arena;
    struct newcomer *all;
    uint32_t count;
    int32_t generation;
};

static void upgrade_deinit(struct upgrade *upgrade)
{
    for (uint32_t i = 0; i < upgrade->count; i++)
        partition_set_deinit(&upgrade->all[i].assigned);
    arena_deinit(&upgrade->arena);
}

static enum err copy_protocols(struct arena *arena, const struct classic_member *member,
                               struct classic_member_metadata *to)
{
    enum err err = ERR_OK;

    to->session_timeout_ms = member->session_timeout_ms;
    to->supported_protocols_count = member->protocol_count;
    to->supported_protocols = arena_array(arena, member->protocol_count, sizeof(*to->supported_protocols));
    if (to->supported_protocols == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < member->protocol_count && err == ERR_OK; i++) {
        err = arena_copy(arena, member->protocols[i].name, &to->supported_protocols[i].name);
        if (err == ERR_OK)
            err = arena_copy(arena, member->protocols[i].metadata, &to->supported_protocols[i].metadata);
    }
    return err;
}

/* ERR_MALFORMED: its bytes are not the consumer protocol's; ERR_UNSUPPORTED_VERSION: a custom assignor's data would be
 * lost. All is copied. */
static enum err take_newcomer(struct upgrade *upgrade, const struct step *step, const struct classic_member *member,
                              struct bytes protocol, struct newcomer *to)
{
    struct arena *arena = &upgrade->arena;
    struct consumer_protocol_subscription subscription;
    struct bytes metadata = {0};
    bool has_user_data = false;
    enum err err =
        consumer_read_assignment(member->assignment, step, upgrade->generation, &to->assigned, &has_user_data);

    if (err == ERR_OK && has_user_data)
        err = ERR_UNSUPPORTED_VERSION;
    if (err == ERR_OK)
        err = arena_copy(arena, classic_member_metadata(member, protocol), &metadata);
    if (err == ERR_OK)
        err = embedded_read_subscription(metadata, arena, &subscription);
    if (err == ERR_OK)
        err = arena_copy(arena, member->id, &to->id);
    if (err != ERR_OK)
        return err;
    consumer_about_init(&to->about);
    to->about.rack_id = subscription.rack_id.size == 0 ? (struct bytes){0} : subscription.rack_id;
    to->about.rebalance_timeout_ms = member->rebalance_timeout_ms;
    to->about.subscribed_topic_names = subscription.topics;
    to->about.subscribed_topic_names_count = subscription.topics_count;
    consumer_names_sort(&to->about);
    to->about.classic_member_metadata = &to->classic;
    err = arena_copy(arena, member->instance_id, &to->about.instance_id);
    if (err == ERR_OK)
        err = arena_copy(arena, member->client_id, &to->about.client_id);
    if (err == ERR_OK)
        err = arena_copy(arena, member->client_host, &to->about.client_host);
    if (to->about.client_id.data == NULL)
        to->about.client_id = BYTES_LITERAL("");
    return err == ERR_OK ? copy_protocols(arena, member, &to->classic) : err;
}

static enum err take_newcomers(const struct classic_group *classic, const struct step *step, struct upgrade *upgrade)
{
    struct bytes protocol = classic->protocol;
    uint32_t cursor = 0;
    void *value = NULL;
    enum err err = ERR_OK;

    *upgrade = (struct upgrade){.generation = classic->generation};
    arena_init(&upgrade->arena, EMBEDDED_BYTES_MAX);
    upgrade->all = arena_array(&upgrade->arena, classic_member_count(classic), sizeof(*upgrade->all));
    if (upgrade->all == NULL)
        return ERR_NOMEM;
    if (protocol.data == NULL && classic_member_count(classic) > 0)
        protocol = classic_select_protocol(classic);
    while (err == ERR_OK && map_next(&classic->members, &cursor, NULL, &value))
        err = take_newcomer(upgrade, step, value, protocol, &upgrade->all[upgrade->count++]);
    return err;
}

/* Of the first target, which all that they subscribe to is in, be it assigned already or not: its partitions' lists. */
static enum err first_target_bytes(const struct group *group, const struct step *step, const struct upgrade *upgrade,
                                   size_t *bytes)
{
    struct map names;
    size_t partitions = 0;
    enum err err = ERR_OK;

    map_init(&names, group->groups->seed, CONSUMER_GROUP_NAMES_MAX);
    for (uint32_t i = 0; i < upgrade->count; i++) {
        const struct consumer_group_member_metadata_value *about = &upgrade->all[i].about;

        for (uint32_t j = 0; j < about->subscribed_topic_names_count && err == ERR_OK; j++) {
            struct group_topic topic = {0};

            err = map_insert(&names, about->subscribed_topic_names[j], &upgrade->all[i]);
            if (err == ERR_OK && step->topics->by_name(step->topics, about->subscribed_topic_names[j], &topic))
                partitions += topic.partition_count;
            err = err == ERR_EXISTS ? ERR_OK : err;
        }
    }
    *bytes = consumer_target_lists_bytes((size_t)upgrade->count + 1, map_count(&names), partitions);
    map_deinit(&names);
    return err;
}

/* Whether two of them have one partition: a leader may give as it likes, in this protocol there is one owner. */
static enum err find_shared(const struct upgrade *upgrade, bool *shared)
{
    struct partition_set all = {0};
    uint32_t given = 0;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < upgrade->count; i++)
        for (uint32_t j = 0; err == ERR_OK && j < upgrade->all[i].assigned.count; j++)
            err = partition_set_add(&all, upgrade->all[i].assigned.items[j].topic,
                                    upgrade->all[i].assigned.items[j].partition, 0);
    given = all.count;
    partition_set_sort(&all);
    *shared = all.count < given;
    partition_set_deinit(&all);
    return err;
}

static enum err newcomer_bytes(const struct group *group, const struct step *step, const struct upgrade *upgrade,
                               size_t *bytes)
{
    const struct consumer_group none = {.group = (struct group *)(uintptr_t)group};
    struct group_metadata_key key = {.group = group->id};
    enum err err = first_target_bytes(group, step, upgrade, bytes);

    *bytes += step_message_bytes(&group_metadata_key_message, &key, &group_metadata_value_message, 0, NULL);
    for (uint32_t i = 0; i < upgrade->count; i++) /* records 5, 7 and 8, and 7 once more */
        *bytes += 4 * consumer_about_bytes(&none, upgrade->all[i].id, &upgrade->all[i].about) +
                  2 * consumer_set_bytes(&upgrade->all[i].assigned, true);
    return err;
}

enum err consumer_upgrade_refusal(const struct group *group, const struct step *step, const char **why)
{
    const struct group_settings *settings = group->groups->settings;
    struct upgrade upgrade;
    size_t bytes = 0;
    bool shared = false;
    enum err err = ERR_OK;

    *why = NULL;
    if ((settings->migration & MIGRATION_UPGRADE) == 0)
        *why = "because online upgrade is disabled.";
    else if (!bytes_equal(classic_protocol_type(group->classic), BYTES_LITERAL("consumer")))
        *why = "because the group does not use the consumer embedded protocol.";
    else if (classic_member_count(group->classic) > consumer_size_max(group->groups))
        *why = "because the group size exceeds the consumer group maximum size.";
    if (*why != NULL)
        return ERR_GROUP_ID_NOT_FOUND;
    err = take_newcomers(group->classic, step, &upgrade);
    if (err == ERR_OK)
        err = newcomer_bytes(group, step, &upgrade, &bytes);
    if (err == ERR_OK && bytes > step_room(step) / 2) /* the rest is for who asked */
        err = ERR_MESSAGE_TOO_LARGE;
    if (err == ERR_OK)
        err = find_shared(&upgrade, &shared);
    if (err == ERR_NOMEM && upgrade.arena.over_limit)
        err = ERR_MESSAGE_TOO_LARGE;
    upgrade_deinit(&upgrade);
    if (err == ERR_NOMEM) /* now: it may be another the next time */
        return err;
    if (err == ERR_OK && shared) {
        /* Apache Kafka fails over it (an IllegalStateException of its ConsumerGroup), so the code is its too. */
        *why = "because two of its members have the same partition.";
        return ERR_UNKNOWN_SERVER_ERROR;
    }
    if (err == ERR_OK)
        return ERR_OK;
    if (err == ERR_MESSAGE_TOO_LARGE || err == ERR_LIMIT)
        *why = "because its records would not fit a batch.";
    else if (err == ERR_UNSUPPORTED_VERSION)
        *why = "because an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
               "default assignor before re-attempting the upgrade.";
    else
        *why = "because the embedded consumer protocol is malformed.";
    return ERR_GROUP_ID_NOT_FOUND;
}

uint32_t consumer_upgrade_count(const struct group *group, struct bytes member_id, struct bytes instance_id,
                                bool *known)
{
    *known = group->classic != NULL &&
             (classic_member_find(group->classic, member_id) != NULL ||
              (instance_id.data != NULL && classic_member_find_instance(group->classic, instance_id) != NULL));
    return group->classic == NULL ? 0 : classic_member_count(group->classic);
}

/* Records 5, then 3, 7, 6 and 8: each member Stable at the generation with what it has. */
static enum err write_newcomers(struct group *group, struct step *step, const struct upgrade *upgrade)
{
    struct group made = {.id = group->id};
    struct consumer_group none = {.group = &made}; /* before the first record there is no other */
    const struct partition_set nothing = {0};
    int64_t hash = 0;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < upgrade->count && err == ERR_OK; i++)
        err = consumer_write_member(&none, step, upgrade->all[i].id, &upgrade->all[i].about);
    if (err == ERR_OK && group->consumer != NULL)
        err = consumer_hash(group->consumer, step, &hash);
    if (err == ERR_OK)
        err = consumer_write_epoch(group->consumer == NULL ? &none : group->consumer, step, upgrade->generation, hash);
    for (uint32_t i = 0; i < upgrade->count && err == ERR_OK; i++)
        err = consumer_write_target(group->consumer, step, upgrade->all[i].id, &upgrade->all[i].assigned);
    if (err == ERR_OK)
        err = consumer_write_target_epoch(group->consumer, step, upgrade->generation, 0);
    for (uint32_t i = 0; i < upgrade->count && err == ERR_OK; i++)
        err = consumer_write_current(group->consumer, step, upgrade->all[i].id,
                                     &(struct consumer_current){.epoch = upgrade->generation,
                                                                .previous_epoch = upgrade->generation,
                                                                .state = MEMBER_STABLE,
                                                                .assigned = &upgrade->all[i].assigned,
                                                                .revoking = &nothing});
    return err;
}

static void start_sessions(struct consumer_group *consumer, struct step *step)
{
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&consumer->members, &cursor, NULL, &value))
        if (((struct consumer_member *)value)->subscribed)
            consumer_start_session(value, step);
}

enum err consumer_upgrade(struct group *group, struct step *step)
{
    struct upgrade upgrade;
    enum err err = ERR_OK;

    if (group->classic == NULL || !classic_has_members(group->classic))
        return classic_convert(group, step);
    err = take_newcomers(group->classic, step, &upgrade);
    if (err == ERR_OK)
        err = classic_convert(group, step);
    if (err == ERR_OK)
        err = write_newcomers(group, step, &upgrade);
    if (err == ERR_OK) {
        consumer_rebalance_forget(group->consumer);
        start_sessions(group->consumer, step);
    }
    upgrade_deinit(&upgrade);
    return err;
}

/* ---- back to it ---- */

/* Whether all that are left are of the classic protocol then, and the group may be. */
static bool would_downgrade(const struct consumer_group *consumer, struct consumer_member *const *members,
                            uint32_t count, bool replaced)
{
    const struct group_settings *settings = consumer->group->groups->settings;
    uint32_t left = replaced ? consumer->member_count : consumer->member_count - count;
    uint32_t others = 0; /* of the members: not of the classic protocol */

    for (uint32_t i = 0; i < count; i++)
        others += !consumer_member_is_classic(members[i]);
    if (consumer->member_count - consumer->classic_count != others || (replaced && others == 0))
        return false;
    return left > 0 && (settings->migration & MIGRATION_DOWNGRADE) != 0 && left <= (uint32_t)settings->size_max;
}

bool consumer_may_downgrade(const struct consumer_group *consumer, const struct step *step,
                            struct consumer_member *const *members, uint32_t count, bool replaced)
{
    return would_downgrade(consumer, members, count, replaced) &&
           consumer_downgrade_bytes(consumer, step) <= step_room(step);
}

bool consumer_downgrade_waits(const struct consumer_group *consumer, const struct step *step,
                              struct consumer_member *member)
{
    size_t bytes = 0;

    if (!would_downgrade(consumer, &member, 1, false))
        return false;
    bytes = consumer_downgrade_bytes(consumer, step);
    return bytes > step_room(step) && bytes <= consumer->group->groups->step_room;
}

static bool is_among(const struct consumer_member *member, struct consumer_member *const *members, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (members[i] == member)
            return true;
    return false;
}

/* What it will be in the classic group; it keeps what it was to have. */
static enum err seed_of(const struct consumer_member *member, const struct step *step, struct arena *arena,
                        struct classic_seed *seed)
{
    struct consumer_group_member_metadata_value about;
    enum err err = consumer_about_copy(&member->about, arena, &about);

    if (err != ERR_OK)
        return err;
    *seed = (struct classic_seed){.instance_id = about.instance_id,
                                  .client_id = about.client_id,
                                  .client_host = about.client_host,
                                  .rebalance_timeout_ms = about.rebalance_timeout_ms,
                                  .session_timeout_ms = about.classic_member_metadata->session_timeout_ms,
                                  .protocols = about.classic_member_metadata->supported_protocols,
                                  .protocol_count = about.classic_member_metadata->supported_protocols_count};
    err = arena_copy(arena, member->id, &seed->id);
    return err == ERR_OK ? consumer_encode_assignment(member, &member->target, step, arena, &seed->assignment) : err;
}

enum err consumer_downgrade(struct consumer_group *consumer, struct step *step, int32_t generation,
                            struct consumer_member *const *without, uint32_t without_count)
{
    struct group *group = consumer->group;
    struct classic_seed *seeds = NULL;
    struct arena arena;
    uint32_t count = 0;
    uint32_t cursor = 0;
    void *value = NULL;
    enum err err = ERR_OK;

    arena_init(&arena, CONSUMER_RECORD_BYTES_MAX);
    seeds = arena_array(&arena, consumer->member_count, sizeof(*seeds));
    if (seeds == NULL)
        err = ERR_NOMEM;
    while (err == ERR_OK && map_next(&consumer->members, &cursor, NULL, &value)) {
        const struct consumer_member *member = value;

        if (member->subscribed && !is_among(member, without, without_count))
            err = seed_of(member, step, &arena, &seeds[count++]);
    }
    if (err == ERR_OK)
        err = consumer_write_tombstones(group, step);
    if (err == ERR_OK)
        err = classic_from_members(group, step, generation, seeds, count);
    arena_deinit(&arena);
    return err;
}

enum err consumer_downgrade_without(struct consumer_group *consumer, struct step *step,
                                    struct consumer_member *const *members, uint32_t count, struct bytes reason)
{
    struct group *group = consumer->group;
    struct rebalance_cause cause = {.cause = CAUSE_CONVERTED, .reason = reason};
    struct arena arena;
    enum err err = ERR_OK;

    arena_init(&arena, CONSUMER_RECORD_BYTES_MAX);
    err = arena_copy(&arena, members[0]->id, &cause.member_id);
    if (err == ERR_OK)
        err = arena_copy(&arena, members[0]->about.client_id, &cause.client_id);
    if (err == ERR_OK)
        err = arena_copy(&arena, members[0]->about.client_host, &cause.client_host);
    if (err == ERR_OK)
        err = consumer_downgrade(consumer, step, consumer->epoch, members, count);
    if (err == ERR_OK)
        classic_begin_rebalance(group, step, &cause);
    arena_deinit(&arena);
    return err;
}
