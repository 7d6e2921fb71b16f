/* Levels: an empty log's first ones, and changes (controller.md "Activation", "features"; kraft.md "Features"). */
#include "base/assert.h"
#include "raftmeta/controller_step.h"

const struct image_feature_range *controller_features(uint32_t *count)
{
    static const struct image_feature_range features[] = {
        {BYTES_LITERAL("group.version"), 0, GROUP_VERSION_NEWEST},
        {BYTES_LITERAL("kraft.version"), 0, 1},
        {BYTES_LITERAL("metadata.version"), METADATA_VERSION_OLDEST, METADATA_VERSION_NEWEST},
    };

    *count = sizeof(features) / sizeof(features[0]);
    return features;
}

static const struct image_feature_range *range_of(const struct step *step, struct bytes name)
{
    const struct controller_settings *settings = &step->controller->settings;

    for (uint32_t i = 0; i < settings->feature_count; i++)
        if (bytes_equal(settings->features[i].name, name))
            return &settings->features[i];
    return NULL;
}

/* An empty log: all in one metadata transaction, so that nobody sees half of it. */
static enum err bootstrap(struct step *step, const struct activate *request)
{
    struct metadata_record *record = step_add(step, RECORD_BEGIN_TRANSACTION);

    if (record == NULL)
        return ERR_NOMEM;
    record->begin_transaction.name = BYTES_LITERAL("Bootstrap records");
    for (uint32_t i = 0; i < request->bootstrap_count; i++) {
        record = step_add(step, request->bootstrap[i].kind);
        if (record == NULL)
            return ERR_NOMEM;
        *record = request->bootstrap[i];
    }
    if (request->bootstrap_count == 0) {
        record = step_add(step, RECORD_FEATURE_LEVEL);
        if (record == NULL)
            return ERR_NOMEM;
        record->feature_level.name = BYTES_LITERAL("metadata.version");
        record->feature_level.feature_level = METADATA_VERSION_NEWEST;
    }
    return step_add(step, RECORD_END_TRANSACTION) == NULL ? ERR_NOMEM : ERR_OK;
}

enum err step_activate(struct step *step)
{
    const struct activate *request = &step->request->activate;

    if (request->transaction_open) {
        struct metadata_record *record = step_add(step, RECORD_ABORT_TRANSACTION);

        if (record == NULL)
            return ERR_NOMEM;
        record->abort_transaction.reason = BYTES_LITERAL("Controller failover");
    }
    return image_metadata_version(step->image) == 0 ? bootstrap(step, request) : ERR_OK;
}

/* Whether every registered broker and controller supports the level. */
struct support {
    struct bytes name;
    int16_t level;
    const char *what;
    int32_t who; /* that does not */
};

static enum err supports(void *context, const struct image_broker *node)
{
    struct support *support = context;
    int16_t min = 0;
    int16_t max = 0;

    for (uint32_t i = 0; i < node->feature_count; i++) {
        if (!bytes_equal(node->features[i].name, support->name))
            continue;
        min = node->features[i].min;
        max = node->features[i].max;
    }
    if (support->level == 0 || (support->level >= min && support->level <= max))
        return ERR_OK;
    support->who = node->id;
    return ERR_END;
}

/* Levels of metadata.version that changed record formats cannot be gone back over (controller.md "features"). */
static bool changed_records(int16_t above, int16_t up_to)
{
    static const int16_t levels[] = {7, 8, 11, 13, 14, 15, 17, 23};

    for (uint32_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
        if (levels[i] > above && levels[i] <= up_to)
            return true;
    return false;
}

static void check_change(struct step *step, struct feature_change *change)
{
    const struct image_feature_range *range = range_of(step, change->name);
    bool is_metadata = bytes_equal(change->name, BYTES_LITERAL("metadata.version"));
    int16_t now = image_feature(step->image, change->name);
    struct support support = {.name = change->name, .level = change->level, .what = "Broker"};

    if (bytes_equal(change->name, BYTES_LITERAL("kraft.version"))) {
        change->message =
            BYTES_LITERAL("kraft.version cannot be changed here: it is chosen when a cluster is formatted.");
    } else if (range == NULL || (change->level != 0 && (change->level < range->min || change->level > range->max)) ||
               (is_metadata && change->level == 0)) {
        change->message = step_message(
            step, "Invalid update version %d for feature %.*s. Valid versions are from %d to %d.", change->level,
            BYTES_PRINTF(change->name), range == NULL ? 0 : range->min, range == NULL ? 0 : range->max);
    } else if (change->level < now && change->type == FEATURE_UPGRADE) {
        change->message = step_message(step,
                                       "Invalid update version %d for feature %.*s. Can't downgrade the version of "
                                       "this feature without setting the upgrade type to either safe or unsafe "
                                       "downgrade.",
                                       change->level, BYTES_PRINTF(change->name));
    } else if (is_metadata && change->level < now && changed_records(change->level, now)) {
        change->message = step_message(step,
                                       "Invalid update version %d for feature metadata.version. Refusing to perform "
                                       "the requested downgrade because it might delete metadata information.",
                                       change->level);
    } else if (image_each_broker(step->image, supports, &support) == ERR_END ||
               (support.what = "Controller", image_each_controller(step->image, supports, &support)) == ERR_END) {
        change->message = step_message(step, "Invalid update version %d for feature %.*s. %s %d does not support it.",
                                       change->level, BYTES_PRINTF(change->name), support.what, support.who);
    }
    if (change->message.data != NULL)
        change->err = ERR_INVALID_UPDATE_VERSION;
}

enum err step_update_features(struct step *step)
{
    struct update_features *request = &step->request->update_features;

    for (uint32_t i = 0; i < request->count; i++) {
        struct feature_change *change = &request->changes[i];

        change->err = ERR_OK;
        change->message = (struct bytes){NULL, 0};
        check_change(step, change);
        if (change->err == ERR_OK)
            continue;
        /* All or nothing. */
        step_refuse(step, change->err, "%.*s", BYTES_PRINTF(change->message));
        return ERR_OK;
    }
    for (uint32_t i = 0; !request->validate_only && i < request->count; i++) {
        struct metadata_record *record = NULL;

        if (image_feature(step->image, request->changes[i].name) == request->changes[i].level)
            continue;
        record = step_add(step, RECORD_FEATURE_LEVEL);
        if (record == NULL)
            return ERR_NOMEM;
        record->feature_level.name = request->changes[i].name;
        record->feature_level.feature_level = request->changes[i].level;
    }
    return ERR_OK;
}
