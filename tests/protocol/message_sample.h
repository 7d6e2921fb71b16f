/*
 * message_sample: random values for any message, and whether two messages hold the same, by walking its description.
 * The same seed gives the same message on any machine.
 */
#ifndef OTTLA_TESTS_PROTOCOL_MESSAGE_SAMPLE_H
#define OTTLA_TESTS_PROTOCOL_MESSAGE_SAMPLE_H

#include "protocol/message.h"

struct sample {
    uint64_t seed;       /* state of the generator: changed by every draw */
    bool all_fields;     /* also fields that the version lacks */
    struct arena *arena; /* what the message points to; never over its limit in tests */
};

/* 24 bits that tell a message apart in inputs of fuzz_message: FNV-1a of its name. */
uint32_t sample_name_hash(const char *name);
uint64_t sample_draw(struct sample *sample, uint64_t below);
/* A message in the arena with random values. */
void *sample_message(struct sample *sample, const struct message_type *type, int16_t version);
/* Whether every array that the version has, in the first elements of those around it, has an element: a message without
 * shows little. */
bool sample_shows_arrays(const struct message_type *type, int16_t version, const void *message);
/* For fields that the version lacks, b must have the default if a_has_all, else what a has. NULL, or the name of a
 * field that differs. */
const char *sample_difference(const struct message_type *type, int16_t version, const void *a, const void *b,
                              bool a_has_all);

#endif
