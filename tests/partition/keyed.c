#include "keyed.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "protocol/batch_build.h"
#include "world.h"

enum { NUMBER_CHARS = 24 };

static struct bytes number_text(int64_t number, char text[NUMBER_CHARS])
{
    if (number < 0)
        return (struct bytes){0};
    return bytes_of(text, (size_t)snprintf(text, NUMBER_CHARS, "%" PRId64, number));
}

static int64_t number_of(struct bytes text)
{
    char copy[NUMBER_CHARS] = {0};

    if (text.data == NULL)
        return -1;
    ck_assert_uint_lt(text.size, NUMBER_CHARS);
    memcpy(copy, text.data, text.size);
    return strtoll(copy, NULL, 10);
}

uint8_t *keyed_batch(const struct keyed_make *make, size_t *size)
{
    struct batch_builder builder;
    struct batch_spec spec;
    uint8_t *batch = NULL;
    uint8_t *copy = NULL;

    batch_spec_init(&spec);
    spec.base_offset = make->base_offset;
    spec.leader_epoch = 0;
    spec.codec = make->codec;
    spec.transactional = make->transactional;
    if (make->producer_id > 0) {
        spec.producer_id = make->producer_id;
        spec.producer_epoch = make->producer_epoch;
        spec.base_sequence = make->base_sequence;
    }
    batch_builder_init(&builder, &spec);
    for (uint32_t i = 0; i < make->count; i++) {
        const struct keyed_record *record = &make->records[i];
        const struct record_header header = {BYTES_LITERAL("h"), {0}};
        char key[NUMBER_CHARS];
        char value[NUMBER_CHARS];

        ck_assert_int_eq(batch_builder_append(&builder, record->timestamp, number_text(record->key, key),
                                              number_text(record->value, value), &header, i % 2),
                         ERR_OK);
    }
    ck_assert_int_eq(batch_builder_finish(&builder, &batch, size), ERR_OK);
    copy = mem_alloc(*size);
    memcpy(copy, batch, *size);
    batch_builder_deinit(&builder);
    return copy;
}

uint8_t *keyed_marker(int64_t base_offset, int64_t producer_id, int16_t producer_epoch, bool commit, size_t *size)
{
    uint8_t *marker = make_marker(producer_id, producer_epoch, commit, 1, size);

    batch_set_base_offset(marker, base_offset);
    batch_set_leader_epoch(marker, 0);
    return marker;
}

uint32_t keyed_read(struct bytes batch, struct keyed_record *records, uint32_t room)
{
    struct batch_header head;
    struct record_iter iter;
    struct record record;
    uint32_t count = 0;
    enum err err = ERR_OK;

    batch_header_read(batch.data, &head);
    ck_assert(batch_crc_is_valid(batch));
    if (batch_has(&head, BATCH_CONTROL))
        return 0;
    ck_assert_int_eq(record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX), ERR_OK);
    while ((err = record_iter_next(&iter, &record)) == ERR_OK) {
        ck_assert_uint_lt(count, room);
        records[count++] =
            (struct keyed_record){record.offset, record.timestamp, number_of(record.key), number_of(record.value)};
    }
    record_iter_deinit(&iter);
    ck_assert_int_eq(err, ERR_END);
    return count;
}
