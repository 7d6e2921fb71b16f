/*
 * transcript: what steps and images say, for transcripts.
 */
#ifndef OTTLA_TESTS_RAFTMETA_TRANSCRIPT_H
#define OTTLA_TESTS_RAFTMETA_TRANSCRIPT_H

#include "raftmeta/controller.h"
#include "raftmeta/image.h"
#include "raftmeta/metadata_record.h"
#include "transcript/transcript.h"

/* One line a record, indented; partitions in a short form. */
void transcript_records(struct transcript *transcript, const struct metadata_record *records, uint32_t count);
/* The image as the records that make it, one a line. */
void transcript_image(struct transcript *transcript, const struct image *image);
/* The lists of a delta: "+lines -old ~changed" and the like. */
void transcript_delta(struct transcript *transcript, const struct image_delta *delta);
/* The bytes of a file beside the tests ("kafka-4.2/quorum-state"); mem_free them. Fails the test when it is not there.
 */
uint8_t *read_test_file(const char *name, size_t *size);

#endif
