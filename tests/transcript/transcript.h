/*
 * transcript: what a core did, as text to be compared whole, so that changed behaviour is a diff someone reads.
 */
#ifndef OTTLA_TESTS_TRANSCRIPT_TRANSCRIPT_H
#define OTTLA_TESTS_TRANSCRIPT_TRANSCRIPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/uuid.h"

enum { TRANSCRIPT_BYTES_MAX = 256 * 1024 };

struct transcript {
    char text[TRANSCRIPT_BYTES_MAX];
    size_t size;
};

void transcript_begin(struct transcript *transcript);
void transcript_say(struct transcript *transcript, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Holds it against transcripts/<name>.txt beside the test; fails the test, showing both, where they differ. With
 * OTTLA_WRITE_TRANSCRIPTS=1 in the environment the file is written instead, for the diff to be read. */
#define transcript_expect(transcript, name) transcript_expect_in(transcript, TEST_FILES_DIR, name)
void transcript_expect_in(const struct transcript *transcript, const char *dir, const char *name);

/* A source of randomness that counts: the n-th byte it gives is n. */
struct counting_rng {
    struct rng rng;
    uint8_t next;
};
void counting_rng_init(struct counting_rng *rng);

/* Ids in tests: all bytes 0 but the last. */
struct uuid test_uuid(uint8_t last);

#endif
