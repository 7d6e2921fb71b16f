/*
 * transcript: what steps and images say, as text to be compared whole, so that changed behaviour is a diff someone
 * reads.
 */
#ifndef OTTLA_TESTS_RAFTMETA_TRANSCRIPT_H
#define OTTLA_TESTS_RAFTMETA_TRANSCRIPT_H

#include "raftmeta/controller.h"
#include "raftmeta/image.h"
#include "raftmeta/metadata_record.h"

enum { TRANSCRIPT_BYTES_MAX = 256 * 1024 };

struct transcript {
    char text[TRANSCRIPT_BYTES_MAX];
    size_t size;
};

void transcript_begin(struct transcript *transcript);
void transcript_say(struct transcript *transcript, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One line a record, indented; partitions in a short form. */
void transcript_records(struct transcript *transcript, const struct metadata_record *records, uint32_t count);
/* The image as the records that make it, one a line. */
void transcript_image(struct transcript *transcript, const struct image *image);
/* The lists of a delta: "+lines -old ~changed" and the like. */
void transcript_delta(struct transcript *transcript, const struct image_delta *delta);
/* Holds it against transcripts/<name>.txt; fails the test, showing both, where they differ. With
 * OTTLA_WRITE_TRANSCRIPTS=1 in the environment the file is written instead, for the diff to be read. */
void transcript_expect(const struct transcript *transcript, const char *name);

/* The bytes of a file beside the tests ("kafka-4.2/quorum-state"); mem_free them. Fails the test when it is not there.
 */
uint8_t *read_test_file(const char *name, size_t *size);

/* A source of randomness that counts: the n-th byte it gives is n. */
struct counting_rng {
    struct rng rng;
    uint8_t next;
};
void counting_rng_init(struct counting_rng *rng);

/* Ids in tests: all bytes 0 but the last. */
struct uuid test_uuid(uint8_t last);

#endif
