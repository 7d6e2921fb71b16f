/*
 * Question: what does one produced batch cost before it is appended, and what is in that?
 *
 * Estimate: a batch of 16 KiB holds about 150 records of 100 B. CRC-32C at 40 GB/s: 0.4 us. A record is seven varints,
 * nearly all of one byte: 8 to 10 ns, so 1.5 us. Together under 2 us: 8 GB/s a core. Opening a compressed one costs its
 * codec's speed: 16 KiB at 2 GB/s is 8 us, gzip ten times that.
 *
 * Usage: bench_batch [milliseconds a measurement, default 100]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/assert.h"
#include "base/crc32c.h"
#include "protocol/batch_build.h"
#include "protocol/batch_validate.h"

enum { BATCH_BYTES = 16384, RECORD_VALUE_BYTES = 100, ROUNDS = 7 };

static uint64_t checksum; /* of all results, so that nothing is optimised away */

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct subject {
    struct bytes input;
    struct batch_rules rules;
};

typedef void work_fn(struct subject *subject);

static int order(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return (left > right) - (left < right);
}

static void measure(const char *what, work_fn *work, struct subject *subject, int64_t budget_ns, size_t plain_bytes)
{
    double results[ROUNDS];

    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = now_ns();
        int64_t spent = 0;
        int64_t runs = 0;

        do {
            for (int i = 0; i < 16; i++)
                work(subject);
            runs += 16;
            spent = now_ns() - start;
        } while (spent < budget_ns);
        results[round] = (double)spent / (double)runs;
    }
    qsort(results, ROUNDS, sizeof(results[0]), order);
    printf("%-28s ns min/median/max %10.0f %10.0f %10.0f   %7.2f GB/s\n", what, results[0], results[ROUNDS / 2],
           results[ROUNDS - 1], (double)plain_bytes / results[ROUNDS / 2]);
}

static void do_crc(struct subject *subject)
{
    checksum += crc32c(0, subject->input.data, subject->input.size);
}

static void do_validate(struct subject *subject)
{
    struct batch_verdict verdict;
    struct arena arena;

    arena_init(&arena, 4096);
    if (batch_validate((uint8_t *)(uintptr_t)subject->input.data, subject->input.size, &subject->rules, &arena,
                       &verdict) != ERR_OK)
        abort();
    checksum += verdict.header.crc;
    arena_deinit(&arena);
}

static void do_iterate(struct subject *subject)
{
    struct record_iter iter;
    struct record record;

    if (record_iter_init(&iter, subject->input, BATCH_OPENED_BYTES_MAX) != ERR_OK)
        abort();
    while (record_iter_next(&iter, &record) == ERR_OK)
        checksum += record.value.size;
    record_iter_deinit(&iter);
}

static struct bytes build(struct batch_builder *builder, enum codec codec)
{
    uint8_t value[RECORD_VALUE_BYTES];
    struct batch_spec spec;
    uint8_t *batch = NULL;
    size_t size = 0;
    uint64_t state = 1;

    batch_spec_init(&spec);
    spec.codec = codec;
    spec.size_max = BATCH_BYTES;
    batch_builder_init(builder, &spec);
    do {
        /* Half noise, half text: compresses to about two thirds. */
        for (size_t i = 0; i < sizeof(value); i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            value[i] = i % 2 == 0 ? (uint8_t)(state >> 56) : (uint8_t)'x';
        }
    } while (batch_builder_append(builder, 1700000000000 + (int64_t)(state >> 60), (struct bytes){0},
                                  bytes_of(value, sizeof(value)), NULL, 0) == ERR_OK);
    if (batch_builder_finish(builder, &batch, &size) != ERR_OK)
        abort();
    return bytes_of(batch, size);
}

int main(int argc, char **argv)
{
    int64_t budget_ns = (argc > 1 ? strtol(argv[1], NULL, 10) : 100) * 1000000;
    struct subject subject;

    batch_rules_init(&subject.rules);
    subject.rules.now_ms = 1700000000000;
    subject.rules.open_compressed = true;
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        struct batch_builder builder;
        char name[64];

        subject.input = build(&builder, codec);
        if (codec == CODEC_NONE) {
            struct bytes whole = subject.input;

            printf("batch_bytes=%zu records=%d value_bytes=%d rounds=%d ms=%ld\n", whole.size, builder.record_count,
                   RECORD_VALUE_BYTES, ROUNDS, (long)(budget_ns / 1000000));
            subject.input.size = 1024;
            measure("crc32c 1 KiB", do_crc, &subject, budget_ns, 1024);
            subject.input.size = whole.size;
            measure("crc32c 16 KiB", do_crc, &subject, budget_ns, whole.size);
        }
        snprintf(name, sizeof(name), "iterate %s", codec_name(codec));
        measure(name, do_iterate, &subject, budget_ns, BATCH_BYTES);
        snprintf(name, sizeof(name), "validate %s", codec_name(codec));
        measure(name, do_validate, &subject, budget_ns, BATCH_BYTES);
        batch_builder_deinit(&builder);
    }
    printf("checksum %s\n", checksum != 0 ? "ok" : "nothing was done");
    return checksum == 0;
}
