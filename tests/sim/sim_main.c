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
#include "sim/scenario.h"

struct options {
    uint64_t first;
    uint64_t last;
    uint64_t fresh;
    uint64_t seconds;
    const char *also;   /* and, before them, the seeds that stand at the beginning of its lines */
    const char *write;  /* seed and trace hash of each run go there */
    const char *expect; /* ... and must be as they stand there */
    const struct sim_scenario *scenario;
    bool chatty;
};

/* All runs together. */
struct campaign {
    struct options options;
    struct clock clock;
    int64_t started_ns;
    FILE *writes;
    FILE *expects;
    uint64_t runs;
    uint64_t left_out; /* of the seeds that were named: time was up */
    uint64_t failed;
    uint64_t compared;
    uint64_t steps;
    uint64_t breaks;
    uint64_t crashes;
    uint64_t records;
    uint64_t virtual_ms;
};

static const char usage[] =
    "usage: tools/sim [--scenario NAME] [--seed N | --seeds FIRST-LAST | --fresh COUNT] [--also FILE] [--seconds S] "
    "[--write FILE] "
    "[--expect FILE] [-v]\n"
    "\n"
    "Runs a whole broker and its clients in a simulated world, once for each seed: disk, network, clocks and threads "
    "are\n"
    "simulated, and the seed decides what happens when. The same seed is the same run on every build.\n"
    "\n"
    "  --scenario NAME      what to run (produce_fetch when nothing is said); see below\n"
    "  --seed N             one seed, the broker's log lines with it\n"
    "  --seeds FIRST-LAST   these (1-1000 when nothing is said)\n"
    "  --fresh COUNT        as many that nobody ran before; one that fails belongs into tests/sim/seeds/NAME\n"
    "  --also FILE          first the seeds at the beginning of its lines\n"
    "  --seconds S          begins no new runs after that time; a seed that was named and did not run is a failure "
    "then\n"
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

static const struct sim_scenario *find_scenario(const char *name)
{
    for (uint32_t i = 0; i < sim_scenario_count; i++)
        if (strcmp(sim_scenarios[i].name, name) == 0)
            return &sim_scenarios[i];
    return NULL;
}

static bool parse(int argc, char **argv, struct options *options)
{
    *options = (struct options){.first = 1, .last = 1000, .seconds = UINT64_MAX, .scenario = &sim_scenarios[0]};
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
        } else if (strcmp(argv[i], "--scenario") == 0) {
            options->scenario = find_scenario(value);
            good = options->scenario != NULL;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            good = range(value, &options->first, &options->last);
        } else if (strcmp(argv[i], "--fresh") == 0) {
            good = number(value, &options->fresh) && options->fresh > 0;
        } else if (strcmp(argv[i], "--seconds") == 0) {
            good = number(value, &options->seconds);
        } else if (strcmp(argv[i], "--also") == 0) {
            options->also = value;
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

static bool out_of_time(struct campaign *campaign)
{
    int64_t ns = clock_mono_ns(&campaign->clock) - campaign->started_ns;

    return (uint64_t)ns / 1000000000 >= campaign->options.seconds;
}

static void run(struct campaign *campaign, uint64_t seed)
{
    const struct sim_scenario *scenario = campaign->options.scenario;
    struct sim_outcome outcome;
    uint64_t other = 0;

    /* Out before the first step: a crash must not swallow it. */
    printf("sim: rerun with tools/sim --scenario %s --seed %" PRIu64 "\r", scenario->name, seed);
    fflush(stdout);
    scenario->run(seed, campaign->options.chatty, &outcome);
    campaign->runs++;
    campaign->steps += outcome.steps;
    campaign->breaks += outcome.breaks;
    campaign->crashes += outcome.crashes;
    campaign->records += outcome.records;
    campaign->virtual_ms += outcome.virtual_ms;
    if (campaign->writes != NULL)
        fprintf(campaign->writes, "%" PRIu64 " %" PRIx64 "\n", seed, outcome.trace_hash);
    if (campaign->expects == NULL || !expected(campaign->expects, seed, &other))
        return;
    campaign->compared++;
    if (other == outcome.trace_hash)
        return;
    printf("sim: seed %" PRIu64 ": trace hash %" PRIx64 ", the other build had %" PRIx64 "\n", seed, outcome.trace_hash,
           other);
    campaign->failed++;
}

/* Whoever names seeds wants all of them; of fresh ones, as many as there is time for. */
static void run_range(struct campaign *campaign)
{
    const struct options *options = &campaign->options;
    uint64_t count = options->fresh > 0 ? options->fresh : options->last - options->first + 1;
    struct rng rng;

    rng_init_real(&rng);
    for (uint64_t i = 0; i < count; i++) {
        if (out_of_time(campaign)) {
            campaign->left_out += options->fresh > 0 ? 0 : count - i;
            return;
        }
        run(campaign, options->fresh > 0 ? rng_u64(&rng) >> 16 : options->first + i);
    }
}

static void run_also(struct campaign *campaign, FILE *file)
{
    char line[1024];

    while (fgets(line, sizeof(line), file) != NULL) {
        char *end = NULL;
        uint64_t seed = strtoull(line, &end, 10);

        if (end == line)
            continue;
        if (out_of_time(campaign))
            campaign->left_out++;
        else
            run(campaign, seed);
    }
}

/* NULL where no name was given. */
static bool open_file(const char *name, const char *mode, FILE **file)
{
    if (name == NULL)
        return true;
    *file = fopen(name, mode);
    if (*file == NULL)
        perror(name);
    return *file != NULL;
}

static void print_totals(struct campaign *campaign)
{
    printf("sim: %" PRIu64 " runs, %" PRIu64 " steps, %" PRIu64 " records, %" PRIu64 " connections broken, %" PRIu64
           " crashes, %" PRIu64 " virtual seconds in %.1f real ones\n",
           campaign->runs, campaign->steps, campaign->records, campaign->breaks, campaign->crashes,
           campaign->virtual_ms / 1000, (double)(clock_mono_ns(&campaign->clock) - campaign->started_ns) / 1e9);
    if (campaign->expects != NULL)
        printf("sim: %" PRIu64 " trace hashes compared\n", campaign->compared);
    if (campaign->left_out > 0)
        printf("sim: time was up after %" PRIu64 " runs: %" PRIu64 " seeds that were named did not run\n",
               campaign->runs, campaign->left_out);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", campaign->runs - campaign->failed,
           campaign->failed + campaign->left_out);
}

int main(int argc, char **argv)
{
    struct campaign campaign = {.runs = 0};
    FILE *also = NULL;

    if (!parse(argc, argv, &campaign.options)) {
        bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;

        fputs(usage, asked ? stdout : stderr);
        for (uint32_t i = 0; i < sim_scenario_count; i++)
            fprintf(asked ? stdout : stderr, "%s  %-20s %s\n", i == 0 ? "\nscenarios:\n" : "", sim_scenarios[i].name,
                    sim_scenarios[i].what);
        return asked ? 0 : 2;
    }
    if (!open_file(campaign.options.write, "w", &campaign.writes) ||
        !open_file(campaign.options.expect, "r", &campaign.expects) || !open_file(campaign.options.also, "r", &also))
        return 2;
    clock_init_real(&campaign.clock);
    campaign.started_ns = clock_mono_ns(&campaign.clock);
    if (also != NULL)
        run_also(&campaign, also);
    run_range(&campaign);
    if (campaign.writes != NULL && fclose(campaign.writes) != 0)
        campaign.failed++;
    print_totals(&campaign);
    return campaign.failed == 0 && campaign.left_out == 0 && campaign.runs > 0 ? 0 : 1;
}
