#include "fuzz_draw.h"

#include <string.h>

#include "base/assert.h"
#include "base/big_endian.h"
#include "protocol/gen/consumer_protocol_assignment.h"
#include "protocol/gen/consumer_protocol_subscription.h"

enum { COUNT_MAX = 3, NEWER_VERSION = 9 };

/* ---- words: those of a list stand between commas ---- */

static const char groups[] = "g,h,";
static const char topics[] = "a,b,c,lost";
static const char racks[] = "r0,r1";
static const char members[] = "m,n,o,";
static const char others[] = ",x,a text that is longer than most";

/* The first one whose part of a name a field's has. */
static const struct {
    const char *part, *words;
} fields[] = {
    {"instance", "i,j,"},
    {"group", groups},
    {"protocol_type", "consumer,connect,"},
    {"protocol", "range,sticky,"},
    {"assignor", "range,uniform,other"},
    {"reg", "a.*,b|c,,(,[abc]|lost"},
    {"rack", racks},
    {"topic", topics},
    {"states", "stable,Empty"},
    {"types", "classic,Consumer"},
    {"name", topics},
};

static uint32_t word_count(const char *words)
{
    uint32_t count = 1;

    for (; *words != '\0'; words++)
        count += *words == ',';
    return count;
}

static struct bytes word(const char *words, uint32_t i)
{
    for (; i > 0; i--)
        words = strchr(words, ',') + 1;
    return bytes_of(words, strcspn(words, ","));
}

static struct bytes pick(struct draw *draw, const char *words)
{
    return word(words, draw_below(draw, word_count(words)));
}

static struct bytes draw_member(struct draw *draw)
{
    uint32_t which = draw_below(draw, word_count(members) + DRAW_LEARNT);

    if (which < word_count(members))
        return word(members, which);
    which -= word_count(members);
    return bytes_of(draw->ids[which], draw->id_sizes[which]);
}

struct bytes draw_text(struct draw *draw, const char *name, const char *of)
{
    if (strstr(name, "member") != NULL || strstr(name, "leader") != NULL)
        return draw_member(draw);
    if (strcmp(name, "name") == 0 && strstr(of, "protocol") != NULL)
        name = "protocol";
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (strstr(name, fields[i].part) != NULL)
            return pick(draw, fields[i].words);
    return pick(draw, others);
}

uint32_t draw_group_count(void)
{
    return word_count(groups);
}

struct bytes draw_group(uint32_t i)
{
    return word(groups, i);
}

struct bytes draw_topic(uint32_t i)
{
    return word(topics, i);
}

struct uuid draw_topic_id(uint32_t i)
{
    return (struct uuid){.bytes = {[UUID_BYTES - 1] = (uint8_t)(i + 1)}};
}

struct bytes draw_rack(uint32_t i)
{
    return word(racks, i % word_count(racks));
}

/* ---- bytes and numbers ---- */

void draw_init(struct draw *draw, const uint8_t *data, size_t size)
{
    *draw = (struct draw){.at = data, .end = data + size};
}

bool draw_left(const struct draw *draw)
{
    return draw->at < draw->end;
}

uint32_t draw_below(struct draw *draw, uint32_t below)
{
    assert(below > 0 && below <= 256);
    return draw_left(draw) ? *draw->at++ % below : 0;
}

struct bytes draw_bytes(struct draw *draw)
{
    size_t size = draw_below(draw, 256);
    struct bytes bytes = {0};

    if (size == UINT8_MAX)
        return bytes;
    if (size > (size_t)(draw->end - draw->at))
        size = (size_t)(draw->end - draw->at);
    bytes = bytes_of(size == 0 ? (const uint8_t *)"" : draw->at, size);
    draw->at += size;
    return bytes;
}

void draw_learn(struct draw *draw, struct bytes id, int32_t epoch)
{
    uint32_t at = draw->learnt++ % DRAW_LEARNT;

    if (id.size > DRAW_ID_BYTES)
        id.size = 0;
    if (id.size > 0)
        memcpy(draw->ids[at], id.data, id.size);
    draw->id_sizes[at] = (uint8_t)id.size;
    draw->epochs[at] = epoch;
}

static int64_t draw_number(struct draw *draw, const char *name)
{
    static const int64_t partitions[] = {0, 1, 2, 3, -1, 1000, 1 << 20, INT32_MAX};
    static const int64_t epochs[] = {0, 1, 2, 3, -1, -2, INT32_MAX, INT32_MIN};
    static const int64_t spans_ms[] = {10000, 60000, 6000, -1, 0, 1, INT32_MAX, INT32_MIN};
    static const int64_t times_ms[] = {-1, 0, 1000000, 999999, INT64_MAX, INT64_MIN, 1000000000, 1};
    static const int64_t numbers[] = {0, 1, 2, 100, -1, INT64_MAX, INT64_MIN, INT32_MAX};
    uint32_t which = draw_below(draw, 256);

    if (strstr(name, "epoch") != NULL || strstr(name, "generation") != NULL)
        return which >= 128 ? draw->epochs[which % DRAW_LEARNT] : epochs[which % 8];
    if (strstr(name, "partition") != NULL)
        return partitions[which % 8];
    if (strstr(name, "timestamp") != NULL || strcmp(name, "retention_time_ms") == 0)
        return times_ms[which % 8];
    return strstr(name, "timeout") != NULL ? spans_ms[which % 8] : numbers[which % 8];
}

/* ---- messages ---- */

/* What a consumer of the classic protocol carries inside its requests, or what is no such thing. */
static struct bytes draw_embedded(struct draw *draw, struct arena *arena)
{
    static const struct message_type *const types[] = {&consumer_protocol_subscription_message,
                                                       &consumer_protocol_assignment_message};
    uint32_t which = draw_below(draw, 8);
    const struct message_type *type = types[which % 2];
    struct bytes body = {0};
    uint8_t *to = NULL;
    int16_t version = 0;
    enum err err = ERR_OK;

    if (which == 6)
        return BYTES_LITERAL("");
    if (which == 7) {
        body = draw_bytes(draw);
        return body.data == NULL ? BYTES_LITERAL("") : body;
    }
    version = (int16_t)draw_below(draw, (uint32_t)type->version_max + 1);
    err = message_encode(type, version, draw_message(draw, arena, type, version), arena, &body);
    to = arena_alloc(arena, body.size + 2);
    assert(err == ERR_OK && to != NULL);
    big_endian_store_u16(to, (uint16_t)(which >= 4 ? NEWER_VERSION : version));
    if (body.size > 0)
        memcpy(to + 2, body.data, body.size);
    return bytes_of(to, body.size + 2);
}

static void draw_struct(struct draw *draw, struct arena *arena, const struct message_struct *type, int16_t version,
                        char *to);

static void draw_value(struct draw *draw, struct arena *arena, const struct message_struct *of,
                       const struct message_field *field, int16_t version, void *to)
{
    switch ((enum message_field_type)field->kind) {
    case FIELD_STRUCT:
        draw_struct(draw, arena, field->type, version, to);
        break;
    case FIELD_STRING:
        *(struct bytes *)to = draw_text(draw, field->name, of->name);
        break;
    case FIELD_BYTES:
        *(struct bytes *)to = strcmp(field->name, "user_data") == 0 ? pick(draw, others) : draw_embedded(draw, arena);
        break;
    case FIELD_UUID:
        *(struct uuid *)to = draw_topic_id(draw_below(draw, word_count(topics)));
        break;
    case FIELD_BOOL:
        *(bool *)to = draw_below(draw, 2) == 1;
        break;
    case FIELD_INT8:
        *(int8_t *)to = (int8_t)draw_below(draw, 4);
        break;
    case FIELD_INT16:
        *(int16_t *)to = (int16_t)draw_number(draw, field->name);
        break;
    case FIELD_INT32:
        *(int32_t *)to = (int32_t)draw_number(draw, field->name);
        break;
    case FIELD_INT64:
        *(int64_t *)to = draw_number(draw, field->name);
        break;
    default: /* nothing of groups has any other */
        assert(false);
    }
}

static void draw_field(struct draw *draw, struct arena *arena, const struct message_struct *of,
                       const struct message_field *field, int16_t version, char *in)
{
    bool null = message_versions_has(field->nullable, version) && draw_below(draw, 4) == 3;
    void *at = in + field->offset;
    void *made = NULL;

    if (field->array) {
        uint32_t count = null ? 0 : draw_below(draw, COUNT_MAX + 1);
        size_t size = message_field_size(field);

        made = null ? NULL : arena_array(arena, count, size);
        assert(null || made != NULL);
        *(void **)at = made;
        *(uint32_t *)(void *)(in + field->count_offset) = count;
        for (uint32_t i = 0; i < count; i++)
            draw_value(draw, arena, of, field, version, (char *)made + i * size);
    } else if (field->kind == FIELD_STRUCT && field->nullable.from <= field->nullable.to) {
        made = null ? NULL : arena_alloc(arena, field->type->size);
        assert(null || made != NULL);
        *(void **)at = made;
        if (made != NULL)
            draw_struct(draw, arena, field->type, version, made);
    } else if (null) {
        *(struct bytes *)at = (struct bytes){0};
    } else {
        draw_value(draw, arena, of, field, version, at);
    }
}

static void draw_struct(struct draw *draw, struct arena *arena, const struct message_struct *type, int16_t version,
                        char *to)
{
    type->init(to);
    for (uint32_t i = 0; i < type->field_count; i++)
        if (message_versions_has(type->fields[i].versions, version))
            draw_field(draw, arena, type, &type->fields[i], version, to);
}

void *draw_message(struct draw *draw, struct arena *arena, const struct message_type *type, int16_t version)
{
    char *message = arena_alloc(arena, type->structure->size);

    assert(message != NULL);
    draw_struct(draw, arena, type->structure, version, message);
    return message;
}
