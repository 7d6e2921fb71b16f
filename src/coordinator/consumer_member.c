#include <stdlib.h>

#include "base/clock.h"
#include "coordinator/consumer_internal.h"
#include "protocol/gen/consumer_group_current_member_assignment_record.h"
#include "protocol/gen/consumer_group_target_assignment_member_record.h"

struct consumer_member *consumer_find(const struct consumer_group *consumer, struct bytes id)
{
    struct consumer_member *member = map_get(&consumer->members, id);

    return member == NULL || !member->subscribed ? NULL : member;
}

struct consumer_member *consumer_find_instance(const struct consumer_group *consumer, struct bytes instance_id)
{
    return map_get(&consumer->instances, instance_id);
}

bool consumer_member_is_classic(const struct consumer_member *member)
{
    return member->about.classic_member_metadata != NULL;
}

void consumer_about_init(struct consumer_group_member_metadata_value *about)
{
    consumer_group_member_metadata_value_init(about);
    about->instance_id = (struct bytes){0};
    about->rack_id = (struct bytes){0};
    about->server_assignor = (struct bytes){0};
    about->classic_member_metadata = NULL;
}

static bool is_same(struct bytes a, struct bytes b)
{
    return (a.data == NULL) == (b.data == NULL) && bytes_equal(a, b);
}

bool consumer_names_equal(const struct consumer_group_member_metadata_value *a,
                          const struct consumer_group_member_metadata_value *b)
{
    if (a->subscribed_topic_names_count != b->subscribed_topic_names_count)
        return false;
    for (uint32_t i = 0; i < a->subscribed_topic_names_count; i++)
        if (!bytes_equal(a->subscribed_topic_names[i], b->subscribed_topic_names[i]))
            return false;
    return true;
}

static bool is_same_classic(const struct classic_member_metadata *a, const struct classic_member_metadata *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    if (a->session_timeout_ms != b->session_timeout_ms || a->supported_protocols_count != b->supported_protocols_count)
        return false;
    for (uint32_t i = 0; i < a->supported_protocols_count; i++)
        if (!bytes_equal(a->supported_protocols[i].name, b->supported_protocols[i].name) ||
            !bytes_equal(a->supported_protocols[i].metadata, b->supported_protocols[i].metadata))
            return false;
    return true;
}

bool consumer_about_equal(const struct consumer_group_member_metadata_value *a,
                          const struct consumer_group_member_metadata_value *b)
{
    return is_same(a->instance_id, b->instance_id) && is_same(a->rack_id, b->rack_id) &&
           bytes_equal(a->client_id, b->client_id) && bytes_equal(a->client_host, b->client_host) &&
           consumer_names_equal(a, b) && bytes_equal(a->subscribed_topic_regex, b->subscribed_topic_regex) &&
           a->rebalance_timeout_ms == b->rebalance_timeout_ms && is_same(a->server_assignor, b->server_assignor) &&
           is_same_classic(a->classic_member_metadata, b->classic_member_metadata);
}

enum err consumer_about_copy(const struct consumer_group_member_metadata_value *from, struct arena *arena,
                             struct consumer_group_member_metadata_value *to)
{
    const struct message_type *type = &consumer_group_member_metadata_value_message;
    struct wire_reader reader;
    struct bytes encoded = {0};
    enum err err = message_encode(type, 0, from, arena, &encoded);

    if (err != ERR_OK)
        return err;
    wire_reader_init(&reader, encoded);
    return message_read(type, &reader, arena, 0, to);
}

void consumer_names_sort(struct consumer_group_member_metadata_value *about)
{
    struct bytes *names = about->subscribed_topic_names;
    uint32_t kept = 0;

    if (about->subscribed_topic_names_count > 1)
        qsort(names, about->subscribed_topic_names_count, sizeof(*names), bytes_compare_elements);
    for (uint32_t i = 0; i < about->subscribed_topic_names_count; i++)
        if (kept == 0 || !bytes_equal(names[kept - 1], names[i]))
            names[kept++] = names[i];
    about->subscribed_topic_names_count = kept;
}

static bool has_name(const struct bytes *names, uint32_t count, struct bytes name)
{
    return count > 0 && bsearch(&name, names, count, sizeof(*names), bytes_compare_elements) != NULL;
}

bool consumer_member_subscribes(const struct consumer_member *member, struct bytes topic)
{
    const struct consumer_group_member_metadata_value *about = &member->about;
    const struct consumer_expression *expression = NULL;

    if (has_name(about->subscribed_topic_names, about->subscribed_topic_names_count, topic))
        return true;
    if (about->subscribed_topic_regex.size == 0)
        return false;
    expression = map_get(&member->consumer->expressions, about->subscribed_topic_regex);
    return expression != NULL && has_name(expression->topics, expression->topic_count, topic);
}

enum err consumer_write_member(struct consumer_group *consumer, struct step *step, struct bytes member_id,
                               const struct consumer_group_member_metadata_value *about)
{
    struct consumer_group_member_metadata_key key = {.group_id = consumer->group->id, .member_id = member_id};

    return step_write(step, &consumer_group_member_metadata_key_message, &key,
                      &consumer_group_member_metadata_value_message, 0, about);
}

enum err consumer_write_member_gone(struct consumer_group *consumer, struct step *step, struct bytes member_id)
{
    struct bytes group_id = consumer->group->id;
    struct consumer_group_current_member_assignment_key current = {.group_id = group_id, .member_id = member_id};
    struct consumer_group_target_assignment_member_key target = {.group_id = group_id, .member_id = member_id};
    struct consumer_group_member_metadata_key about = {.group_id = group_id, .member_id = member_id};
    enum err err = step_write(step, &consumer_group_current_member_assignment_key_message, &current,
                              &consumer_group_current_member_assignment_value_message, 0, NULL);

    if (err == ERR_OK)
        err = step_write(step, &consumer_group_target_assignment_member_key_message, &target,
                         &consumer_group_target_assignment_member_value_message, 0, NULL);
    if (err == ERR_OK)
        err = step_write(step, &consumer_group_member_metadata_key_message, &about,
                         &consumer_group_member_metadata_value_message, 0, NULL);
    return err;
}

enum err consumer_replace(struct consumer_member *old, struct step *step, struct arena *arena, struct bytes member_id)
{
    struct consumer_group *consumer = old->consumer;
    struct consumer_group_member_metadata_value about;
    struct bytes old_id = {0};
    struct partition_set target = {0};
    struct partition_set assigned = {0};
    struct partition_set revoking = {0};
    int8_t state = old->state;
    enum err err = consumer_about_copy(&old->about, arena, &about);

    if (err == ERR_OK)
        err = arena_copy(arena, old->id, &old_id);
    if (err == ERR_OK)
        err = partition_set_copy(&target, &old->target);
    if (err == ERR_OK)
        err = partition_set_copy(&assigned, &old->assigned);
    if (err == ERR_OK)
        err = partition_set_copy(&revoking, &old->revoking);
    if (err == ERR_OK)
        err = consumer_write_member_gone(consumer, step, old_id);
    if (err == ERR_OK)
        err = consumer_write_member(consumer, step, member_id, &about);
    if (err == ERR_OK)
        err = consumer_write_target(consumer, step, member_id, &target);
    if (err == ERR_OK)
        err = consumer_write_current(
            consumer, step, member_id,
            &(struct consumer_current){.state = state, .assigned = &assigned, .revoking = &revoking});
    partition_set_deinit(&target);
    partition_set_deinit(&assigned);
    partition_set_deinit(&revoking);
    return err;
}

/* Decimal; -1 for anything else. */
static int64_t number_of(struct bytes text)
{
    int64_t number = 0;

    if (text.size == 0 || text.size > 10)
        return -1;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -1;
        number = number * 10 + (text.data[i] - '0');
    }
    return number;
}

int32_t consumer_setting(const struct group *group, const struct step *step, struct bytes name, int32_t value,
                         int32_t min, int32_t max)
{
    int64_t own = number_of(step->topics->group_config(step->topics, group->id, name));

    if (own < 0)
        return value;
    return own < min ? min : own > max ? max : (int32_t)own;
}

int32_t consumer_heartbeat_ms(const struct group *group, const struct step *step)
{
    const struct group_settings *settings = group->groups->settings;

    return consumer_setting(group, step, BYTES_LITERAL("consumer.heartbeat.interval.ms"),
                            settings->consumer_heartbeat_ms, settings->consumer_heartbeat_ms_min,
                            settings->consumer_heartbeat_ms_max);
}

void consumer_start_session(struct consumer_member *member, struct step *step)
{
    const struct group *group = member->consumer->group;
    const struct group_settings *settings = group->groups->settings;
    int64_t ms = consumer_setting(group, step, BYTES_LITERAL("consumer.session.timeout.ms"),
                                  settings->consumer_session_timeout_ms, settings->consumer_session_timeout_ms_min,
                                  settings->consumer_session_timeout_ms_max);

    if (consumer_member_is_classic(member))
        ms = member->about.classic_member_metadata->session_timeout_ms;
    group_timer_start(group->groups, &member->session_timer, step->now_ns + ms * NS_PER_MS);
}

void consumer_stop_timers(struct consumer_member *member)
{
    struct groups *groups = member->consumer->group->groups;

    group_timer_stop(groups, &member->session_timer);
    group_timer_stop(groups, &member->rebalance_timer);
    group_timer_stop(groups, &member->join_timer);
    group_timer_stop(groups, &member->sync_timer);
}

enum group_assignor consumer_assignor(const struct consumer_group *consumer)
{
    const struct group_settings *settings = consumer->group->groups->settings;
    enum group_assignor chosen = settings->consumer_assignors[0];

    for (uint32_t i = 1; i < settings->consumer_assignor_count; i++)
        if (consumer->votes[settings->consumer_assignors[i]] > consumer->votes[chosen])
            chosen = settings->consumer_assignors[i];
    return chosen;
}
