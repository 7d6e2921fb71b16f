/* Topics are made and deleted (controller.md "Topics"). Codes and the order of checks are Apache Kafka's; messages say
 * the same in its words, since tools show and tests compare them. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "raftmeta/controller_step.h"
#include "raftmeta/placement.h"

static bool is_legal(uint8_t c)
{
    return byte_is_letter(c) || byte_is_digit(c) || c == '.' || c == '_' || c == '-';
}

/* Why a name is none; null when it is fine. */
static struct bytes bad_name(struct step *step, struct bytes name)
{
    if (name.size == 0)
        return BYTES_LITERAL("the empty string is not allowed");
    if (bytes_equal(name, BYTES_LITERAL(".")))
        return BYTES_LITERAL("'.' is not allowed");
    if (bytes_equal(name, BYTES_LITERAL("..")))
        return BYTES_LITERAL("'..' is not allowed");
    if (name.size > IMAGE_TOPIC_NAME_BYTES_MAX)
        return step_message(step, "the length of '%.*s' is longer than the max allowed length %d",
                            BYTES_PRINTF(bytes_of(name.data, 2 * (size_t)IMAGE_TOPIC_NAME_BYTES_MAX < name.size
                                                                 ? 2 * (size_t)IMAGE_TOPIC_NAME_BYTES_MAX
                                                                 : name.size)),
                            IMAGE_TOPIC_NAME_BYTES_MAX);
    for (size_t i = 0; i < name.size; i++)
        if (!is_legal(name.data[i]))
            return step_message(step,
                                "'%.*s' contains one or more characters other than ASCII alphanumerics, '.', '_' and "
                                "'-'",
                                BYTES_PRINTF(name));
    return (struct bytes){NULL, 0};
}

static void refuse(struct create_topic *topic, enum err err, struct bytes message)
{
    topic->err = err;
    topic->message = message;
}

/* Entries by name, to find repeated ones: sorted places in the request's array. */
struct named {
    struct bytes name;
    uint32_t place;
};

static int by_name(const void *a, const void *b)
{
    const struct named *x = a;
    const struct named *y = b;
    int order = bytes_compare(x->name, y->name);

    return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

/* B064: all entries of a name that comes twice are refused; the rest of the request runs. */
static enum err refuse_repeated(struct step *step, struct create_topic *topics, uint32_t count)
{
    struct named *names = step_array(step, count, sizeof(*names));

    if (names == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        names[i] = (struct named){topics[i].name, i};
    qsort(names, count, sizeof(*names), by_name);
    for (uint32_t i = 1; i < count; i++) {
        if (!bytes_equal(names[i - 1].name, names[i].name))
            continue;
        refuse(&topics[names[i - 1].place], ERR_INVALID_REQUEST, BYTES_LITERAL("Duplicate topic name."));
        refuse(&topics[names[i].place], ERR_INVALID_REQUEST, BYTES_LITERAL("Duplicate topic name."));
        topics[names[i].place].repeated = true;
    }
    return ERR_OK;
}

static bool check_name(struct step *step, struct create_topic *topic)
{
    struct bytes why = bad_name(step, topic->name);
    const struct image_topic *other = NULL;

    if (bytes_equal(topic->name, BYTES_LITERAL("__cluster_metadata"))) {
        refuse(topic, ERR_INVALID_REQUEST,
               BYTES_LITERAL("Creation of internal topic __cluster_metadata is prohibited."));
        return false;
    }
    if (why.data != NULL) {
        refuse(topic, ERR_INVALID_TOPIC_EXCEPTION,
               step_message(step, "Topic name is invalid: %.*s", BYTES_PRINTF(why)));
        return false;
    }
    if (image_topic_by_name(step->image, topic->name) != NULL) {
        refuse(topic, ERR_TOPIC_ALREADY_EXISTS,
               step_message(step, "Topic '%.*s' already exists.", BYTES_PRINTF(topic->name)));
        return false;
    }
    other = image_topic_colliding(step->image, topic->name);
    if (other != NULL) {
        refuse(topic, ERR_INVALID_TOPIC_EXCEPTION,
               step_message(step, "Topic '%.*s' collides with existing topic: %.*s", BYTES_PRINTF(topic->name),
                            BYTES_PRINTF(other->name)));
        return false;
    }
    return true;
}

static bool check_configs(struct step *step, struct create_topic *topic)
{
    const struct config_rules *rules = &step->controller->settings.rules;
    struct bytes message = {NULL, 0};
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < topic->config_count; i++) {
        if (topic->configs[i].value.data == NULL) {
            refuse(topic, ERR_INVALID_CONFIG,
                   step_message(step, "Null value not supported for topic configs: %.*s",
                                BYTES_PRINTF(topic->configs[i].name)));
            return false;
        }
        if (topic->configs[i].value.size > CONTROLLER_CONFIG_CHARS_MAX) {
            refuse(topic, ERR_INVALID_CONFIG,
                   step_message(step, "The configuration value of %.*s is longer than %d characters.",
                                BYTES_PRINTF(topic->configs[i].name), CONTROLLER_CONFIG_CHARS_MAX));
            return false;
        }
    }
    if (rules->check == NULL || topic->config_count == 0)
        return true;
    err = rules->check(rules->context, CONFIG_TOPIC, topic->name, topic->configs, topic->config_count,
                       step->request->arena, &message);
    if (err != ERR_OK)
        refuse(topic, err, message);
    return err == ERR_OK;
}

static bool check_counts(struct create_topic *topic)
{
    if (topic->assignment_count > 0) {
        if (topic->replication_factor != -1)
            refuse(topic, ERR_INVALID_REQUEST,
                   BYTES_LITERAL("A manual partition assignment was specified, but replication factor was not set to "
                                 "-1."));
        else if (topic->partition_count != -1)
            refuse(topic, ERR_INVALID_REQUEST,
                   BYTES_LITERAL("A manual partition assignment was specified, but numPartitions was not set to -1."));
        return topic->err == ERR_OK;
    }
    if (topic->replication_factor < -1 || topic->replication_factor == 0)
        refuse(topic, ERR_INVALID_REPLICATION_FACTOR,
               BYTES_LITERAL("Replication factor must be larger than 0, or -1 to use the default value."));
    else if (topic->partition_count < -1 || topic->partition_count == 0)
        refuse(topic, ERR_INVALID_PARTITIONS,
               BYTES_LITERAL("Number of partitions was set to an invalid non-positive value."));
    return topic->err == ERR_OK;
}

/* Fills order with the assignment of each partition id. */
static bool check_assignments(struct step *step, struct create_topic *topic, const struct assignment **order)
{
    uint32_t factor = 0;

    for (uint32_t i = 0; i < topic->assignment_count; i++) {
        const struct assignment *assignment = &topic->assignments[i];
        struct bytes message = {NULL, 0};
        int32_t id = assignment->partition;

        if (id >= 0 && (uint32_t)id < topic->assignment_count && order[id] != NULL) {
            refuse(topic, ERR_INVALID_REPLICA_ASSIGNMENT,
                   step_message(step, "Found multiple manual partition assignments for partition %d", id));
            return false;
        }
        if (step_check_assignment(step, assignment, factor, &message) != ERR_OK) {
            refuse(topic, ERR_INVALID_REPLICA_ASSIGNMENT, message);
            return false;
        }
        factor = assignment->broker_count;
        if (id < 0 || (uint32_t)id >= topic->assignment_count) {
            refuse(topic, ERR_INVALID_REPLICA_ASSIGNMENT,
                   BYTES_LITERAL("partitions should be a consecutive 0-based integer sequence"));
            return false;
        }
        order[id] = assignment;
    }
    return true;
}

static enum err add_records(struct step *step, struct create_topic *topic)
{
    struct metadata_record *record = step_add(step, RECORD_TOPIC);

    if (record == NULL)
        return ERR_NOMEM;
    record->topic.name = topic->name;
    record->topic.topic_id = topic->id;
    for (uint32_t i = 0; i < topic->config_count; i++) {
        record = step_add(step, RECORD_CONFIG);
        if (record == NULL)
            return ERR_NOMEM;
        record->config.resource_type = CONFIG_TOPIC;
        record->config.resource_name = topic->name;
        record->config.name = topic->configs[i].name;
        record->config.value = topic->configs[i].value;
    }
    return ERR_OK;
}

static enum err make_assigned(struct step *step, struct create_topic *topic)
{
    const struct assignment **order = step_array(step, topic->assignment_count, sizeof(*order));
    enum err err = ERR_OK;

    if (order == NULL)
        return ERR_NOMEM;
    if (!check_assignments(step, topic, order))
        return ERR_OK;
    err = add_records(step, topic);
    for (uint32_t i = 0; err == ERR_OK && topic->err == ERR_OK && i < topic->assignment_count; i++) {
        bool no_active = false;

        err = step_add_partition(step, topic->id, (int32_t)i, order[i]->brokers, order[i]->broker_count, &no_active);
        if (no_active)
            refuse(topic, ERR_INVALID_REPLICA_ASSIGNMENT,
                   step_message(step,
                                "All brokers specified in the manual partition assignment for partition %u are fenced "
                                "or in controlled shutdown.",
                                i));
    }
    topic->partitions_made = (int32_t)topic->assignment_count;
    topic->factor_made = (int16_t)order[0]->broker_count;
    return err;
}

static enum err make_placed(struct step *step, struct create_topic *topic)
{
    const struct controller_settings *settings = &step->controller->settings;
    int32_t count = topic->partition_count == -1 ? settings->partitions_default : topic->partition_count;
    int16_t factor = topic->replication_factor == -1 ? settings->replication_factor_default : topic->replication_factor;
    struct placement *placement = step_placement(step);
    enum err err = ERR_OK;

    if (placement == NULL)
        return ERR_NOMEM;
    err = add_records(step, topic);
    for (int32_t i = 0; err == ERR_OK && topic->err == ERR_OK && i < count; i++) {
        int32_t *replicas = step_array(step, (size_t)factor, sizeof(*replicas));
        struct bytes why = {NULL, 0};
        bool no_active = false;

        if (replicas == NULL)
            return ERR_NOMEM;
        if (placement_next(placement, (uint32_t)factor, replicas, &why) != ERR_OK) {
            refuse(topic, ERR_INVALID_REPLICATION_FACTOR, step_unplaced(step, (uint32_t)factor, why));
            break;
        }
        err = step_add_partition(step, topic->id, i, replicas, (uint32_t)factor, &no_active);
        assert(!no_active);
    }
    topic->partitions_made = count;
    topic->factor_made = factor;
    return err;
}

static enum err create_one(struct step *step, struct create_topic *topic)
{
    uint32_t before = step->count;
    enum err err = ERR_OK;

    if (!check_name(step, topic) || !check_configs(step, topic) || !check_counts(topic))
        return ERR_OK;
    do { /* Kafka's generated ids never begin with '-', so that they can stand on a command line */
        topic->id = uuid_random(step->controller->rng);
    } while (uuid_format(topic->id).text[0] == '-' || image_topic_by_id(step->image, topic->id) != NULL);
    err = topic->assignment_count > 0 ? make_assigned(step, topic) : make_placed(step, topic);
    if (topic->err != ERR_OK) {
        step_cut(step, before);
        topic->id = (struct uuid){{0}};
        topic->partitions_made = 0;
        topic->factor_made = 0;
    }
    return err;
}

enum err step_create_topics(struct step *step)
{
    struct create_topics *request = &step->request->create_topics;
    int64_t total = 0;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < request->count; i++) {
        struct create_topic *topic = &request->topics[i];

        topic->err = ERR_OK;
        topic->message = (struct bytes){NULL, 0};
        topic->repeated = false;
        topic->id = (struct uuid){{0}};
        topic->partitions_made = 0;
        topic->factor_made = 0;
        if (topic->assignment_count > 0)
            total += topic->assignment_count;
        else if (topic->partition_count > 0)
            total += topic->partition_count;
        else if (topic->partition_count == -1)
            total += step->controller->settings.partitions_default;
    }
    if (total > CREATE_PARTITIONS_MAX) {
        step_refuse(step, ERR_POLICY_VIOLATION, "Excessively large number of partitions per request.");
        return ERR_OK;
    }
    err = refuse_repeated(step, request->topics, request->count);
    for (uint32_t i = 0; err == ERR_OK && i < request->count; i++)
        if (request->topics[i].err == ERR_OK)
            err = create_one(step, &request->topics[i]);
    if (request->validate_only && step->count <= CONTROLLER_RECORDS_MAX) {
        step_cut(step, 0);
        for (uint32_t i = 0; i < request->count; i++)
            request->topics[i].id = (struct uuid){{0}};
    }
    return err;
}

/* --- deletion --- */

static const struct image_topic *find_topic(struct step *step, struct delete_topic *topic)
{
    const struct image_topic *row = NULL;
    bool by_id = !uuid_is_zero(topic->id);

    if (topic->name.data == NULL && !by_id) {
        topic->err = ERR_INVALID_REQUEST;
        topic->message = BYTES_LITERAL("Neither topic name nor id were specified.");
        return NULL;
    }
    if (topic->name.data != NULL && by_id) {
        topic->err = ERR_INVALID_REQUEST;
        topic->message = BYTES_LITERAL("You may not specify both topic name and topic id.");
        return NULL;
    }
    row = by_id ? image_topic_by_id(step->image, topic->id) : image_topic_by_name(step->image, topic->name);
    if (row == NULL)
        topic->err = by_id ? ERR_UNKNOWN_TOPIC_ID : ERR_UNKNOWN_TOPIC_OR_PARTITION;
    return row;
}

/* Pointers into one array, so that they tell the order in the request too. */
static int by_words(const void *a, const void *b)
{
    const struct delete_topic *x = *(struct delete_topic *const *)a;
    const struct delete_topic *y = *(struct delete_topic *const *)b;
    int order = memcmp(x->id.bytes, y->id.bytes, UUID_BYTES);

    if (order == 0)
        order = bytes_compare(x->name, y->name);
    return order != 0 ? order : (x > y) - (x < y);
}

static bool same_words(const struct delete_topic *a, const struct delete_topic *b)
{
    return uuid_equal(a->id, b->id) && bytes_equal(a->name, b->name) && (a->name.data != NULL || !uuid_is_zero(a->id));
}

static void refuse_deletion(struct delete_topic *topic)
{
    topic->err = ERR_INVALID_REQUEST;
    topic->message =
        topic->name.data == NULL ? BYTES_LITERAL("Duplicate topic id.") : BYTES_LITERAL("Duplicate topic name.");
}

/* What is said twice is refused whether it is there or not; the first mention gives the answer. */
static enum err refuse_said_twice(struct step *step, struct delete_topics *request)
{
    struct delete_topic **sorted = step_array(step, request->count, sizeof(*sorted));

    if (sorted == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < request->count; i++)
        sorted[i] = &request->topics[i];
    qsort(sorted, request->count, sizeof(*sorted), by_words);
    for (uint32_t i = 1; i < request->count; i++) {
        if (!same_words(sorted[i - 1], sorted[i]))
            continue;
        refuse_deletion(sorted[i - 1]);
        refuse_deletion(sorted[i]);
        sorted[i]->repeated = true;
    }
    return ERR_OK;
}

/* Row and place of each entry that names a topic, sorted by row, so that repeated ones lie together. */
struct doomed {
    const struct image_topic *row;
    uint32_t place;
};

static int by_row(const void *a, const void *b)
{
    const struct doomed *x = a;
    const struct doomed *y = b;
    int order = bytes_compare(x->row->name, y->row->name);

    return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

enum err step_delete_topics(struct step *step)
{
    struct delete_topics *request = &step->request->delete_topics;
    struct doomed *doomed = step_array(step, request->count, sizeof(*doomed));
    uint32_t count = 0;

    if (doomed == NULL)
        return ERR_NOMEM;
    if (!step->controller->settings.delete_topics) {
        step_refuse(step, ERR_TOPIC_DELETION_DISABLED, "Topic deletion is disabled.");
        return ERR_OK;
    }
    for (uint32_t i = 0; i < request->count; i++) {
        request->topics[i].err = ERR_OK;
        request->topics[i].message = (struct bytes){NULL, 0};
        request->topics[i].repeated = false;
    }
    if (refuse_said_twice(step, request) != ERR_OK)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < request->count; i++) {
        struct delete_topic *topic = &request->topics[i];
        const struct image_topic *row = topic->err == ERR_OK ? find_topic(step, topic) : NULL;

        if (row != NULL)
            doomed[count++] = (struct doomed){row, i};
    }
    qsort(doomed, count, sizeof(*doomed), by_row);
    for (uint32_t i = 0; i < count; i++) {
        struct delete_topic *topic = &request->topics[doomed[i].place];
        bool repeated =
            (i > 0 && doomed[i - 1].row == doomed[i].row) || (i + 1 < count && doomed[i + 1].row == doomed[i].row);
        struct metadata_record *record = NULL;

        topic->repeated = i > 0 && doomed[i - 1].row == doomed[i].row;
        if (repeated) {
            refuse_deletion(topic);
            continue;
        }
        record = step_add(step, RECORD_REMOVE_TOPIC);
        if (record == NULL || arena_copy(step->request->arena, doomed[i].row->name, &topic->name) != ERR_OK)
            return ERR_NOMEM;
        record->remove_topic.topic_id = doomed[i].row->id;
        topic->id = doomed[i].row->id;
    }
    return ERR_OK;
}
