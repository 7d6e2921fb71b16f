/* Configurations are set, removed, appended to and subtracted from (controller.md "Configs"). What a key may hold is
 * the configuration rules' matter. */
#include <stdlib.h>

#include "base/assert.h"
#include "raftmeta/controller_step.h"

/* The entries a resource will have, sorted by name, as far as the changes have been applied. */
struct draft {
    struct image_config *entries;
    uint32_t count;
};

static uint32_t place_of(const struct draft *draft, struct bytes name, bool *found)
{
    uint32_t at = 0;

    *found = false;
    while (at < draft->count) {
        int order = bytes_compare(draft->entries[at].name, name);

        *found = order == 0;
        if (order >= 0)
            break;
        at++;
    }
    return at;
}

static void draft_remove(struct draft *draft, struct bytes name)
{
    bool found = false;
    uint32_t at = place_of(draft, name, &found);

    if (!found)
        return;
    memmove(&draft->entries[at], &draft->entries[at + 1], (draft->count - at - 1) * sizeof(*draft->entries));
    draft->count--;
}

static void draft_set(struct draft *draft, struct bytes name, struct bytes value)
{
    bool found = false;
    uint32_t at = place_of(draft, name, &found);

    if (!found) {
        memmove(&draft->entries[at + 1], &draft->entries[at], (draft->count - at) * sizeof(*draft->entries));
        draft->count++;
    }
    draft->entries[at] = (struct image_config){name, value};
}

/* The next element of a comma-separated list, without blanks around it; false at the end. */
static bool next_element(struct bytes *list, struct bytes *element)
{
    const uint8_t *comma = NULL;

    if (list->size == 0)
        return false;
    comma = memchr(list->data, ',', list->size);
    *element = bytes_of(list->data, comma == NULL ? list->size : (size_t)(comma - list->data));
    *list = bytes_of(list->data + element->size, list->size - element->size);
    if (comma != NULL)
        *list = bytes_of(list->data + 1, list->size - 1);
    while (element->size > 0 && element->data[0] == ' ')
        *element = bytes_of(element->data + 1, element->size - 1);
    while (element->size > 0 && element->data[element->size - 1] == ' ')
        element->size--;
    return true;
}

static bool has_element(struct bytes list, struct bytes wanted)
{
    struct bytes element;

    while (next_element(&list, &element))
        if (bytes_equal(element, wanted))
            return true;
    return false;
}

static bool has_empty_element(struct bytes list)
{
    bool is_open = true; /* behind a comma, or empty as a whole */
    struct bytes element;

    while (next_element(&list, &element)) {
        if (element.size == 0)
            return true;
        is_open = list.size == 0 && list.data[-1] == ',';
    }
    return is_open;
}

/* The list with what is new in change at its end, or without what is in change. */
static struct bytes merge(struct step *step, struct bytes now, struct bytes change, bool append)
{
    uint8_t *merged = step_array(step, now.size + change.size + 2, 1);
    struct bytes element;
    size_t size = 0;

    if (merged == NULL)
        return (struct bytes){NULL, 0};
    for (struct bytes list = now; next_element(&list, &element);) {
        if (element.size == 0 || (!append && has_element(change, element)))
            continue;
        if (size > 0)
            merged[size++] = ',';
        memcpy(merged + size, element.data, element.size);
        size += element.size;
    }
    for (struct bytes list = change; append && next_element(&list, &element);) {
        if (element.size == 0 || has_element(bytes_of(merged, size), element))
            continue;
        if (size > 0)
            merged[size++] = ',';
        memcpy(merged + size, element.data, element.size);
        size += element.size;
    }
    return bytes_of(merged, size);
}

static void refuse(struct alter_resource *resource, enum err err, struct bytes message)
{
    resource->err = err;
    resource->message = message;
}

static enum err change_list(struct step *step, struct alter_resource *resource, const struct config_change *change,
                            struct draft *draft)
{
    const struct config_rules *rules = &step->controller->settings.rules;
    bool append = change->op == CONFIG_APPEND;
    bool is_list = true;
    bool found = false;
    struct bytes now = {NULL, 0};
    uint32_t at = place_of(draft, change->name, &found);

    if (rules->list_default != NULL && rules->list_default(rules->context, (enum config_resource_type)resource->type,
                                                           change->name, &is_list, &now) != ERR_OK)
        is_list = false;
    if (!is_list) {
        refuse(resource, ERR_INVALID_CONFIG,
               step_message(step, "Can't %s to key %.*s because its type is not LIST.", append ? "APPEND" : "SUBTRACT",
                            BYTES_PRINTF(change->name)));
        return ERR_OK;
    }
    if (append && has_empty_element(change->value)) {
        refuse(resource, ERR_INVALID_CONFIG,
               step_message(step, "Configuration '%.*s' values must not be empty.", BYTES_PRINTF(change->name)));
        return ERR_OK;
    }
    if (found)
        now = draft->entries[at].value;
    now = merge(step, now, change->value, append);
    if (now.data == NULL)
        return ERR_NOMEM;
    draft_set(draft, change->name, now);
    return ERR_OK;
}

static enum err apply_change(struct step *step, struct alter_resource *resource, const struct config_change *change,
                             struct draft *draft)
{
    if (change->op < CONFIG_SET || change->op > CONFIG_SUBTRACT) {
        refuse(resource, ERR_INVALID_REQUEST, step_message(step, "Unknown operation type %d", change->op));
        return ERR_OK;
    }
    if (change->op == CONFIG_DELETE) {
        draft_remove(draft, change->name);
        return ERR_OK;
    }
    if (change->value.data == NULL) {
        refuse(resource, ERR_INVALID_REQUEST,
               step_message(step, "Null value not supported for : %.*s", BYTES_PRINTF(change->name)));
        return ERR_OK;
    }
    if (change->op != CONFIG_SET)
        return change_list(step, resource, change, draft);
    draft_set(draft, change->name, change->value);
    return ERR_OK;
}

/* Kinds of resources that can be configured here. */
static void check_resource(struct step *step, struct alter_resource *resource)
{
    switch (resource->type) {
    case CONFIG_TOPIC:
    case CONFIG_BROKER:
        break; /* topics: check_exists; broker ids are the broker side's to check: it knows which it serves */
    case CONFIG_CLIENT_METRICS:
    case CONFIG_GROUP:
        if (resource->resource.size == 0)
            refuse(resource, ERR_INVALID_REQUEST,
                   BYTES_LITERAL("Default resources are not allowed for this type of resource."));
        break;
    default:
        refuse(resource, ERR_INVALID_REQUEST, step_message(step, "Unknown resource type %d.", resource->type));
        break;
    }
}

/* After all else, as in Apache Kafka: what is wrong with a key or a value is said of an absent topic too. */
static void check_exists(struct step *step, struct alter_resource *resource)
{
    if (resource->type == CONFIG_TOPIC && image_topic_by_name(step->image, resource->resource) == NULL)
        refuse(resource, ERR_UNKNOWN_TOPIC_OR_PARTITION,
               step_message(step, "The topic '%.*s' does not exist.", BYTES_PRINTF(resource->resource)));
}

static void check_size(struct alter_resource *resource, uint32_t count)
{
    if (count > CONTROLLER_CONFIGS_MAX)
        refuse(resource, ERR_POLICY_VIOLATION, BYTES_LITERAL("Too many settings for one resource."));
}

static void check_repeated_keys(struct step *step, struct alter_resource *resource)
{
    for (uint32_t i = 0; i < resource->change_count; i++)
        for (uint32_t j = 0; j < i; j++)
            if (bytes_equal(resource->changes[i].name, resource->changes[j].name)) {
                refuse(resource, ERR_INVALID_REQUEST,
                       step_message(step, "Error due to duplicate config keys : %.*s",
                                    BYTES_PRINTF(resource->changes[i].name)));
                return;
            }
}

static void check_draft(struct step *step, struct alter_resource *resource, const struct draft *draft)
{
    const struct config_rules *rules = &step->controller->settings.rules;
    struct bytes message = {NULL, 0};
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < draft->count; i++) {
        if (draft->entries[i].value.size <= CONTROLLER_CONFIG_CHARS_MAX)
            continue;
        refuse(resource, ERR_INVALID_CONFIG,
               step_message(step,
                            "The configuration value cannot be added because it exceeds the maximum value size "
                            "of %d characters.",
                            CONTROLLER_CONFIG_CHARS_MAX));
        return;
    }
    if (rules->check == NULL)
        return;
    err = rules->check(rules->context, (enum config_resource_type)resource->type, resource->resource, draft->entries,
                       draft->count, step->request->arena, &message);
    if (err != ERR_OK)
        refuse(resource, err, message);
}

static enum err add_record(struct step *step, const struct alter_resource *resource, struct bytes name,
                           struct bytes value)
{
    struct metadata_record *record = step_add(step, RECORD_CONFIG);

    if (record == NULL)
        return ERR_NOMEM;
    record->config.resource_type = resource->type;
    record->config.resource_name = resource->resource;
    record->config.name = name;
    record->config.value = value;
    return ERR_OK;
}

/* Records of what differs. A broker's unchanged value is written again: that is how an operator has it reloaded. */
static enum err add_differences(struct step *step, const struct alter_resource *resource,
                                const struct image_configs *before, const struct draft *draft)
{
    struct draft old = {before == NULL ? NULL : (struct image_config *)(uintptr_t)before->entries,
                        before == NULL ? 0 : before->count};
    bool found = false;
    enum err err = ERR_OK;

    for (uint32_t i = 0; err == ERR_OK && i < draft->count; i++) {
        const struct image_config *entry = &draft->entries[i];
        uint32_t at = place_of(&old, entry->name, &found);
        bool same = found && bytes_equal(old.entries[at].value, entry->value);
        bool named = false;

        for (uint32_t j = 0; j < resource->change_count; j++)
            named |= bytes_equal(resource->changes[j].name, entry->name);
        if (!same || (resource->type == CONFIG_BROKER && named))
            err = add_record(step, resource, entry->name, entry->value);
    }
    for (uint32_t i = 0; err == ERR_OK && i < old.count; i++) {
        (void)place_of(draft, old.entries[i].name, &found);
        if (!found)
            err = add_record(step, resource, old.entries[i].name, (struct bytes){NULL, 0});
    }
    return err;
}

static enum err alter_one(struct step *step, struct alter_resource *resource, bool replace)
{
    const struct image_configs *before = NULL;
    struct draft draft = {NULL, 0};
    uint32_t old_count = 0;
    enum err err = ERR_OK;

    check_resource(step, resource);
    if (resource->err == ERR_OK)
        check_size(resource, resource->change_count);
    if (resource->err == ERR_OK)
        check_repeated_keys(step, resource);
    if (resource->err != ERR_OK)
        return ERR_OK;
    before = image_configs(step->image, (enum config_resource_type)resource->type, resource->resource);
    old_count = before == NULL ? 0 : before->count;
    draft.entries = step_array(step, (size_t)old_count + resource->change_count + 1, sizeof(*draft.entries));
    if (draft.entries == NULL)
        return ERR_NOMEM;
    if (!replace && old_count > 0)
        memcpy(draft.entries, before->entries, old_count * sizeof(*draft.entries));
    draft.count = replace ? 0 : old_count;
    for (uint32_t i = 0; err == ERR_OK && resource->err == ERR_OK && i < resource->change_count; i++) {
        struct config_change change = resource->changes[i];

        if (replace)
            change.op = CONFIG_SET;
        err = apply_change(step, resource, &change, &draft);
    }
    if (err == ERR_OK && resource->err == ERR_OK)
        check_size(resource, draft.count);
    if (err == ERR_OK && resource->err == ERR_OK)
        check_draft(step, resource, &draft);
    if (err == ERR_OK && resource->err == ERR_OK)
        check_exists(step, resource);
    if (err != ERR_OK || resource->err != ERR_OK)
        return err;
    return add_differences(step, resource, before, &draft);
}

static int by_resource(const void *left, const void *right)
{
    const struct alter_resource *a = *(const struct alter_resource *const *)left;
    const struct alter_resource *b = *(const struct alter_resource *const *)right;

    return a->type != b->type ? a->type - b->type : bytes_compare(a->resource, b->resource);
}

/* Of what a request names twice nothing is done. */
static enum err refuse_repeated(struct step *step, struct alter_configs *request)
{
    struct alter_resource **sorted = step_array(step, request->count, sizeof(struct alter_resource *));

    if (sorted == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < request->count; i++)
        sorted[i] = &request->resources[i];
    if (request->count > 1)
        qsort(sorted, request->count, sizeof(struct alter_resource *), by_resource);
    for (uint32_t i = 1; i < request->count; i++) {
        if (by_resource(&sorted[i - 1], &sorted[i]) != 0)
            continue;
        refuse(sorted[i - 1], ERR_INVALID_REQUEST, BYTES_LITERAL("Each resource must appear at most once."));
        refuse(sorted[i], ERR_INVALID_REQUEST, BYTES_LITERAL("Each resource must appear at most once."));
    }
    return ERR_OK;
}

/* More than one batch can hold, even if nothing were to change. */
static bool is_too_large(const struct alter_configs *request)
{
    uint64_t changes = request->count;

    for (uint32_t i = 0; i < request->count; i++)
        changes += request->resources[i].change_count;
    return changes > CONTROLLER_ALTERATIONS_MAX;
}

enum err step_alter_configs(struct step *step)
{
    struct alter_configs *request = &step->request->alter_configs;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < request->count; i++) {
        request->resources[i].err = ERR_OK;
        request->resources[i].message = (struct bytes){NULL, 0};
    }
    if (is_too_large(request)) {
        step_refuse(step, ERR_POLICY_VIOLATION, "Unable to perform excessively large batch operation.");
        return ERR_OK;
    }
    err = refuse_repeated(step, request);
    for (uint32_t i = 0; err == ERR_OK && i < request->count; i++) {
        uint32_t before = step->count;

        if (request->resources[i].err == ERR_OK)
            err = alter_one(step, &request->resources[i], request->replace);
        if (request->resources[i].err != ERR_OK)
            step_cut(step, before);
    }
    if (request->validate_only)
        step_cut(step, 0);
    return err;
}
