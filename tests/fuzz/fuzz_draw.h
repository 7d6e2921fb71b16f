/*
 * fuzz_draw: messages of groups out of an input's bytes: any type by its description, each field by its name from a
 * short list, so that groups, members and topics of one input meet. What the input has no bytes for is 0.
 *
 * Threads  one.
 */
#ifndef OTTLA_TESTS_FUZZ_FUZZ_DRAW_H
#define OTTLA_TESTS_FUZZ_FUZZ_DRAW_H

#include "protocol/message.h"

enum { DRAW_LEARNT = 4, DRAW_ID_BYTES = 64 };

struct draw {
    const uint8_t *at, *end;
    /* What a coordinator gave out, the oldest forgotten. */
    char ids[DRAW_LEARNT][DRAW_ID_BYTES];
    uint8_t id_sizes[DRAW_LEARNT];
    int32_t epochs[DRAW_LEARNT];
    uint32_t learnt;
};

void draw_init(struct draw *draw, const uint8_t *data, size_t size);
bool draw_left(const struct draw *draw);
/* Below 256; 0 at the end. */
uint32_t draw_below(struct draw *draw, uint32_t below);
/* Any bytes; null now and then. Borrowed from the input. */
struct bytes draw_bytes(struct draw *draw);
/* name: of the field; of: of its struct. */
struct bytes draw_text(struct draw *draw, const char *name, const char *of);
/* In the arena, which is never spent in tests. */
void *draw_message(struct draw *draw, struct arena *arena, const struct message_type *type, int16_t version);
void draw_learn(struct draw *draw, struct bytes id, int32_t epoch);

uint32_t draw_group_count(void);
struct bytes draw_group(uint32_t i);
/* By name. The last one of them is in no metadata. */
struct bytes draw_topic(uint32_t i);
struct uuid draw_topic_id(uint32_t i);
struct bytes draw_rack(uint32_t i);

#endif
