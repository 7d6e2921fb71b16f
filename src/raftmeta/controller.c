#include "raftmeta/controller.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "raftmeta/controller_step.h"
#include "raftmeta/metadata_limits.h"

struct controller *controller_new(const struct controller_settings *settings, struct rng *rng)
{
    struct controller *controller = mem_calloc(1, sizeof(*controller));

    if (controller == NULL)
        return NULL;
    controller->settings = *settings;
    controller->rng = rng;
    arena_init(&controller->scratch, CONTROLLER_SCRATCH_BYTES_MAX);
    controller->proposed = image_new();
    if (controller->proposed == NULL) {
        controller_free(controller);
        return NULL;
    }
    return controller;
}

void controller_free(struct controller *controller)
{
    if (controller == NULL)
        return;
    image_drop(controller->proposed);
    mem_free(controller->contacts);
    arena_deinit(&controller->scratch);
    mem_free(controller);
}

struct image *controller_proposed(const struct controller *controller)
{
    return controller->proposed;
}

void controller_skip_to(struct controller *controller, int64_t next_offset)
{
    assert(next_offset >= controller->next_offset);
    controller->next_offset = next_offset;
}

/* --- contacts --- */

struct broker_contact *controller_contact(struct controller *controller, int32_t id)
{
    for (uint32_t i = 0; i < controller->contact_count; i++)
        if (controller->contacts[i].id == id)
            return &controller->contacts[i];
    return NULL;
}

enum err controller_touch(struct controller *controller, int32_t id, int64_t epoch, int64_t now_ms)
{
    struct broker_contact *contact = controller_contact(controller, id);

    if (contact == NULL) {
        if (mem_grow(&controller->contacts, &controller->contact_room, controller->contact_count + 1, 8,
                     sizeof(*contact)) != ERR_OK)
            return ERR_NOMEM;
        contact = &controller->contacts[controller->contact_count++];
        *contact = (struct broker_contact){.id = id, .epoch = epoch, .metadata_offset = -1, .shutdown_offset = -1};
    }
    if (contact->epoch != epoch)
        *contact = (struct broker_contact){.id = id, .epoch = epoch, .metadata_offset = -1, .shutdown_offset = -1};
    contact->at_ms = now_ms;
    return ERR_OK;
}

struct touch_all {
    struct controller *controller;
    int64_t now_ms;
};

/* A new leader counts every unfenced broker as heard of now: it cannot know better (controller.md "Brokers"). */
static enum err touch_unfenced(void *context, const struct image_broker *broker)
{
    struct touch_all *all = context;

    return broker->fenced ? ERR_OK : controller_touch(all->controller, broker->id, broker->epoch, all->now_ms);
}

void controller_reset(struct controller *controller, struct image *image, int64_t next_offset, int32_t epoch,
                      int64_t now_ms)
{
    struct touch_all all = {controller, now_ms};

    image_keep(image);
    assert(next_offset > image_offset(image)); /* control records may stand between */
    image_drop(controller->proposed);
    controller->proposed = image;
    controller->next_offset = next_offset;
    controller->epoch = epoch;
    controller->contact_count = 0;
    /* Without memory a broker is merely taken for one that was never heard of. */
    (void)!image_each_broker(image, touch_unfenced, &all);
}

/* --- what the concerns share --- */

struct metadata_record *step_add(struct step *step, enum metadata_record_kind kind)
{
    if (step->count == step->room) {
        uint32_t room = step->room == 0 ? 16 : step->room * 2;
        struct metadata_record *grown = step_array(step, room, sizeof(*grown));

        if (grown == NULL)
            return NULL;
        if (step->count > 0)
            memcpy(grown, step->records, step->count * sizeof(*grown));
        step->records = grown;
        step->room = room;
    }
    metadata_record_init(&step->records[step->count], kind, image_metadata_version(step->image));
    return &step->records[step->count++];
}

void step_cut(struct step *step, uint32_t count)
{
    assert(count <= step->count);
    step->count = count;
}

static struct bytes format_message(struct arena *arena, const char *format, va_list list)
    __attribute__((format(printf, 2, 0)));

static struct bytes format_message(struct arena *arena, const char *format, va_list list)
{
    char text[IMAGE_MESSAGE_BYTES_MAX * 4];
    int size = vsnprintf(text, sizeof(text), format, list);
    struct bytes message = {NULL, 0};

    if (size < 0)
        return message;
    if ((size_t)size >= sizeof(text))
        size = (int)sizeof(text) - 1;
    /* Without room the code goes out alone. */
    if (arena_copy(arena, bytes_of(text, (size_t)size), &message) != ERR_OK)
        message = (struct bytes){NULL, 0};
    return message;
}

struct bytes step_message(struct step *step, const char *format, ...)
{
    va_list list;
    struct bytes message;

    va_start(list, format);
    message = format_message(step->request->arena, format, list);
    va_end(list);
    return message;
}

void step_refuse(struct step *step, enum err err, const char *format, ...)
{
    va_list list;

    assert(err != ERR_OK);
    va_start(list, format);
    step->request->err = err;
    step->request->message = format_message(step->request->arena, format, list);
    va_end(list);
    step->count = 0;
}

void *step_array(struct step *step, size_t count, size_t size)
{
    return arena_array(&step->controller->scratch, count, size);
}

bool step_broker_is_active(const struct step *step, int32_t id)
{
    const struct image_broker *broker = image_broker(step->image, id);

    return broker != NULL && !broker->fenced && !broker->in_controlled_shutdown;
}

enum err step_check_epoch(struct step *step, int32_t id, int64_t epoch)
{
    const struct image_broker *broker = image_broker(step->image, id);

    if (broker == NULL) {
        step_refuse(step, ERR_STALE_BROKER_EPOCH, "No broker registration found for broker id %d", id);
        return ERR_STALE_BROKER_EPOCH;
    }
    if (broker->epoch != epoch) {
        step_refuse(step, ERR_STALE_BROKER_EPOCH, "Expected broker epoch %lld, but got broker epoch %lld",
                    (long long)broker->epoch, (long long)epoch);
        return ERR_STALE_BROKER_EPOCH;
    }
    return ERR_OK;
}

/* --- the step --- */

static enum err decide(struct step *step)
{
    switch (step->request->type) {
    case CONTROLLER_ACTIVATE:
        return step_activate(step);
    case CONTROLLER_CREATE_TOPICS:
        return step_create_topics(step);
    case CONTROLLER_DELETE_TOPICS:
        return step_delete_topics(step);
    case CONTROLLER_CREATE_PARTITIONS:
        return step_create_partitions(step);
    case CONTROLLER_ALLOCATE_PRODUCER_IDS:
        return step_allocate_producer_ids(step);
    case CONTROLLER_REGISTER_BROKER:
        return step_register_broker(step);
    case CONTROLLER_REGISTER_CONTROLLER:
        return step_register_controller(step);
    case CONTROLLER_BROKER_HEARTBEAT:
        return step_heartbeat(step);
    case CONTROLLER_UNREGISTER_BROKER:
        return step_unregister_broker(step);
    case CONTROLLER_ALTER_CONFIGS:
        return step_alter_configs(step);
    case CONTROLLER_UPDATE_FEATURES:
        return step_update_features(step);
    case CONTROLLER_ASSIGN_DIRECTORIES:
        return step_assign_directories(step);
    case CONTROLLER_NO_OP:
        return step_add(step, RECORD_NO_OP) == NULL ? ERR_NOMEM : ERR_OK;
    }
    assert_failed("a request type without a case", __FILE__, __LINE__, __func__);
}

/* Makes the records part of `proposed`. */
static enum err replay(struct step *step, struct controller_effects *effects)
{
    struct controller *controller = step->controller;
    struct image_edit *edit = image_edit_new(controller->proposed);
    int64_t last = controller->next_offset + step->count - 1;
    enum err err = edit == NULL ? ERR_NOMEM : ERR_OK;

    for (uint32_t i = 0; err == ERR_OK && i < step->count; i++)
        err = image_edit_apply(edit, &step->records[i], controller->next_offset + i);
    if (err == ERR_OK)
        err = image_edit_finish(edit, last, controller->epoch, step->wall_ms, &effects->image, &effects->delta);
    if (err != ERR_OK) {
        image_edit_drop(edit);
        return err;
    }
    effects->records = step->records;
    effects->record_count = step->count;
    effects->base_offset = controller->next_offset;
    image_drop(controller->proposed);
    controller->proposed = image_keep(effects->image);
    controller->next_offset = last + 1;
    assert(image_offset(controller->proposed) == last);
    return ERR_OK;
}

enum err controller_step(struct controller *controller, struct controller_request *request, int64_t now_ms,
                         int64_t wall_ms, struct controller_effects *effects)
{
    struct step step = {.controller = controller,
                        .request = request,
                        .image = controller->proposed,
                        .now_ms = now_ms,
                        .wall_ms = wall_ms};
    enum err err = ERR_OK;

    memset(effects, 0, sizeof(*effects));
    effects->base_offset = controller->next_offset;
    request->err = ERR_OK;
    request->message = (struct bytes){NULL, 0};
    arena_reset(&controller->scratch);
    err = decide(&step);
    if (err != ERR_OK)
        return err;
    if (step.count > CONTROLLER_RECORDS_MAX && request->type != CONTROLLER_REGISTER_BROKER &&
        request->type != CONTROLLER_BROKER_HEARTBEAT)
        step_refuse(&step, ERR_POLICY_VIOLATION, "Unable to perform excessively large batch operation.");
    return step.count == 0 ? ERR_OK : replay(&step, effects);
}
