/* sim_main: runs the simulated scenarios from seeds: `tools/sim --help`. A scenario that does not hold aborts, behind a
 * line that says how to run it again. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "sim/produce_fetch.h"

struct options {
    uint64_t first;
    uint64_t last;
    uint64_t fresh;
    uint64_t seconds;
    const char *write;  /* seed and trace hash of each run go there */
    const char *expect; /* ... and must be as they stand there */
    bool chatty;
};

struct totals {
    uint64_t runs;
    uint64_t steps;
    uint64_t breaks;
    uint64_t crashes;
    uint64_t records;
    uint64_t virtual_ms;
};

static const char usage[] =
    "usage: tools/sim [--seed N | --seeds FIRST-LAST | --fresh COUNT] [--seconds S] [--write FILE] [--expect FILE] "
    "[-v]\n"
    "\n"
    "Runs a whole broker and its clients in a simulated world, once for each seed: disk, network, clocks and threads "
    "are\n"
    "simulated, and the seed decides what happens when. The same seed is the same run on every build.\n"
    "\n"
    "  --seed N             one seed, the broker's log lines with it\n"
    "  --seeds FIRST-LAST   these (1-1000 when nothing is said)\n"
    "  --fresh COUNT        as many that nobody ran before; one that fails belongs into tests/sim/seeds\n"
    "  --seconds S          stops beginning new runs after that time\n"
    "  --write FILE         writes each seed with its trace hash\n"
    "  --expect FILE        the hashes must be as in FILE, written by another build\n"
    "  -v                   log lines of the broker\n";

static bool number(const char *text, uint64_t *value)
{
    char *end = NULL;

    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

static bool range(const char *text, uint64_t *first, uint64_t *last)
{
    char *end = NULL;

    errno = 0;
    *first = strtoull(text, &end, 10);
    return errno == 0 && *end == '-' && number(end + 1, last) && *first <= *last;
}

static bool parse(int argc, char **argv, struct options *options)
{
    *options = (struct options){.first = 1, .last = 1000, .seconds = UINT64_MAX};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bool good = true;

        if (strcmp(argv[i], "-v") == 0) {
            options->chatty = true;
            continue;
        }
        if (strcmp(argv[i], "--seed") == 0) {
            good = number(value, &options->first);
            options->last = options->first;
            options->chatty = true;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            good = range(value, &options->first, &options->last);
        } else if (strcmp(argv[i], "--fresh") == 0) {
            good = number(value, &options->fresh) && options->fresh > 0;
        } else if (strcmp(argv[i], "--seconds") == 0) {
            good = number(value, &options->seconds);
        } else if (strcmp(argv[i], "--write") == 0) {
            options->write = value;
        } else if (strcmp(argv[i], "--expect") == 0) {
            options->expect = value;
        } else {
            good = false;
        }
        if (!good)
            return false;
        i++;
    }
    return true;
}

/* The hash that FILE has for the seed; false when it has none. */
static bool expected(FILE *file, uint64_t seed, uint64_t *hash)
{
    uint64_t at = 0;

    rewind(file);
    while (fscanf(file, "%" SCNu64 " %" SCNx64 "\n", &at, hash) == 2)
        if (at == seed)
            return true;
    return false;
}

static void run(uint64_t seed, const struct options *options, struct totals *totals, uint64_t *hash)
{
    struct produce_fetch_outcome outcome;

    /* Out before the first step: a crash must not swallow it. */
    printf("sim: rerun with tools/sim --seed %" PRIu64 "\r", seed);
    fflush(stdout);
    produce_fetch_run(seed, options->chatty, &outcome);
    totals->runs++;
    totals->steps += outcome.steps;
    totals->breaks += outcome.breaks;
    totals->crashes += outcome.crashes;
    totals->records += outcome.records;
    totals->virtual_ms += outcome.virtual_ms;
    *hash = outcome.trace_hash;
}

int main(int argc, char **argv)
{
    struct options options;
    struct totals totals = {0};
    struct clock clock;
    struct rng rng;
    FILE *written = NULL;
    FILE *expects = NULL;
    uint64_t failed = 0;
    uint64_t compared = 0;

    if (!parse(argc, argv, &options)) {
        bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;

        fputs(usage, asked ? stdout : stderr);
        return asked ? 0 : 2;
    }
    clock_init_real(&clock);
    rng_init_real(&rng);
    if ((options.write != NULL && (written = fopen(options.write, "w")) == NULL) ||
        (options.expect != NULL && (expects = fopen(options.expect, "r")) == NULL)) {
        perror(options.write != NULL && written == NULL ? options.write : options.expect);
        return 2;
    }
    int64_t started_ns = clock_mono_ns(&clock);
    uint64_t count = options.fresh > 0 ? options.fresh : options.last - options.first + 1;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t seed = options.fresh > 0 ? rng_u64(&rng) >> 16 : options.first + i;
        uint64_t hash = 0;
        uint64_t other = 0;

        if ((uint64_t)(clock_mono_ns(&clock) - started_ns) / 1000000000 >= options.seconds)
            break;
        run(seed, &options, &totals, &hash);
        if (written != NULL)
            fprintf(written, "%" PRIu64 " %" PRIx64 "\n", seed, hash);
        if (expects != NULL && expected(expects, seed, &other)) {
            compared++;
            if (other != hash) {
                printf("sim: seed %" PRIu64 ": trace hash %" PRIx64 ", the other build had %" PRIx64 "\n", seed, hash,
                       other);
                failed++;
            }
        }
    }
    printf("sim: %" PRIu64 " runs, %" PRIu64 " steps, %" PRIu64 " records, %" PRIu64 " connections broken, %" PRIu64
           " crashes, %" PRIu64 " virtual seconds in %.1f real ones\n",
           totals.runs, totals.steps, totals.records, totals.breaks, totals.crashes, totals.virtual_ms / 1000,
           (double)(clock_mono_ns(&clock) - started_ns) / 1e9);
    if (expects != NULL)
        printf("sim: %" PRIu64 " trace hashes compared\n", compared);
    if (written != NULL && fclose(written) != 0)
        failed++;
    if (expects != NULL)
        fclose(expects);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", totals.runs - failed, failed);
    return failed == 0 && totals.runs > 0 ? 0 : 1;
}
