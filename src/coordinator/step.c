#include "coordinator/step.h"

#include "base/assert.h"
#include "base/mem.h"

enum {
    VERSION_BYTES = 2,     /* of the key's type, and of the value */
    ON_STACK_BYTES = 1024, /* most records are smaller */
};

static size_t encoded_bytes(const struct message_type *type, int16_t version, const void *message)
{
    return VERSION_BYTES + wire_size_total(message_size(type, version, message));
}

size_t step_message_bytes(const struct message_type *key_type, const void *key, const struct message_type *value_type,
                          int16_t version, const void *value)
{
    return step_record_bytes(encoded_bytes(key_type, 0, key),
                             value == NULL ? 0 : encoded_bytes(value_type, version, value));
}

/* The message behind its type or version. NULL without memory, or for a string that is too long (err). */
static uint8_t *encode(const struct message_type *type, int16_t version, const void *message, uint8_t *small,
                       size_t *size, enum err *err)
{
    struct wire_writer w;
    uint8_t *to = small;

    *size = encoded_bytes(type, version, message);
    if (*size > ON_STACK_BYTES) {
        to = mem_alloc(*size);
        if (to == NULL) {
            *err = ERR_NOMEM;
            return NULL;
        }
    }
    wire_writer_init_flat(&w, to, *size);
    wire_write_i16(&w, type->kind == MESSAGE_KEY ? type->api_key : version);
    message_write(type, &w, version, message);
    *err = wire_writer_finish(&w, NULL);
    if (*err != ERR_OK && to != small) {
        mem_free(to);
        to = NULL;
    }
    return *err == ERR_OK ? to : NULL;
}

enum err step_write(struct step *step, const struct message_type *key_type, const void *key,
                    const struct message_type *value_type, int16_t version, const void *value)
{
    uint8_t key_small[ON_STACK_BYTES];
    uint8_t value_small[ON_STACK_BYTES];
    uint8_t *key_bytes = NULL;
    uint8_t *value_bytes = NULL;
    size_t key_size = 0;
    size_t value_size = 0;
    enum err err = step->err;

    assert(key_type->kind == MESSAGE_KEY && value_type->kind == MESSAGE_VALUE);
    assert(key_type->api_key == value_type->api_key);
    if (err != ERR_OK)
        return err;
    key_bytes = encode(key_type, 0, key, key_small, &key_size, &err);
    if (key_bytes == NULL)
        goto out;
    if (value != NULL) {
        value_bytes = encode(value_type, version, value, value_small, &value_size, &err);
        if (value_bytes == NULL)
            goto out;
    }
    step->records++;
    err = step->sink->record(step->sink, step, (struct bytes){key_bytes, key_size},
                             (struct bytes){value_bytes, value_size});
out:
    if (key_bytes != key_small)
        mem_free(key_bytes);
    if (value_bytes != value_small)
        mem_free(value_bytes);
    step->err = err;
    return err;
}

void step_answer(struct step *step, struct step_op *op)
{
    assert(!list_node_is_linked(&op->node));
    step->sink->answer(step->sink, step, op);
}

size_t step_room(const struct step *step)
{
    return step->sink->room(step->sink, step);
}

void step_fail(struct step *step, uint32_t since, enum err err)
{
    if (step->err == ERR_OK && step->records != since)
        step->err = err;
}

bool step_has_passed(const struct step *step, int64_t since_ms, int64_t ms)
{
    /* Unsigned: a record may hold any time at all. */
    return since_ms > step->now_ms || (uint64_t)step->now_ms - (uint64_t)since_ms >= (uint64_t)ms;
}
