/* `ottla log`: looks into the files of a log, checks and mends them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/log_command.h"

_Static_assert(LOG_EXIT_UNABLE == (int)EXIT_USAGE, "one exit code for what cannot be begun");

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} parts[] = {
    {"dump", log_command_dump},
    {"verify", log_command_verify},
    {"repair", log_command_repair},
    {"recover", log_command_recover},
};

const char *log_option_value(const char *name, int argc, char **argv, int *took)
{
    size_t size = strlen(name);

    if (strncmp(argv[0], name, size) != 0)
        return NULL;
    if (argv[0][size] == '=') {
        *took = 1;
        return argv[0] + size + 1;
    }
    if (argv[0][size] != '\0' || argc < 2)
        return NULL;
    *took = 2;
    return argv[1];
}

int log_option_unknown(const char *part, const char *option)
{
    fprintf(stderr, "ottla: log %s: %s is not understood; `ottla log --help` says what is\n", part, option);
    return EXIT_USAGE;
}

static int run(int argc, char **argv)
{
    if (argc < 1) {
        fprintf(stderr, "ottla: what is to be done with the log? `ottla log --help` says what can be\n");
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strcmp(argv[0], parts[i].name) == 0)
            return parts[i].run(argc - 1, argv + 1);
    fprintf(stderr, "ottla: there is no log %s; `ottla log --help` lists what there is\n", argv[0]);
    return EXIT_USAGE;
}

const struct command command_log = {
    .name = "log",
    .summary = "look into the files of a log, check and mend them",
    .help =
        "usage: ottla log dump   [--records] [--json] [--from OFFSET] [--to OFFSET] [--decode HOW] PATH...\n"
        "       ottla log verify [--records] [--json] PATH...\n"
        "       ottla log repair [--accept-loss] [--json] PATH...\n"
        "       ottla log recover [--json] LOG_DIR...\n"
        "\n"
        "A PATH is one file of a log, the directory of a partition (my-topic-0), or a log directory with all that is "
        "in\n"
        "it. Files of Apache Kafka are the same files. A running broker is not disturbed, and may go on writing.\n"
        "\n"
        "dump prints what is there, one thing a line: `batch base_offset=0 ...`, `index_entry ...`, `producer ...`.\n"
        "  --records         also the records of each batch, with keys, values and headers; records of Kafka's own\n"
        "                    topics, of the metadata log and its snapshots are shown field by field\n"
        "  --json            a JSON object a line, for programs (jq)\n"
        "  --from, --to      batches that hold offsets from --from on and below --to\n"
        "  --decode HOW      offsets, transactions, share, metadata or none, whatever the topic's name says\n"
        "Damaged bytes are shown as `damaged ...`, and what lies behind them is printed.\n"
        "\n"
        "verify reads all of it and says what is not as it should be: checksums, offsets that do not ascend, index\n"
        "entries that point at no batch, times that disagree, producer snapshots, epochs, checkpoints that promise "
        "more\n"
        "than there is. Each finding is a line: `fault` is something to act on, `note` is worth knowing (a torn tail "
        "that\n"
        "the next start cuts off). The last line sums up.\n"
        "  --records         also opens every batch, compressed or not, and reads its records\n"
        "  --json            findings and sum as JSON objects\n"
        "\n"
        "repair wants the broker stopped. It makes everything but the .log files anew from them: indexes, transaction\n"
        "indexes, epochs, producer snapshots; it cuts a torn end, and marks what is damaged.\n"
        "  --accept-loss     gives damaged ranges up: consumers pass over them, and what lay there is kept in files "
        "beside\n"
        "                    the segment, <segment>.<position>.lost\n"
        "\n"
        "recover does after a crash what a start of the broker would do first, and no more: torn ends are cut, "
        "indexes\n"
        "trimmed, checkpoints written, so that Apache Kafka can be started on the directory. It does not pretend that "
        "the\n"
        "broker was stopped cleanly.\n"
        "\n"
        "Exit: 0 when all is well, 1 when damage or faults were found, 2 when the arguments or a path are not usable.\n"
        "\n"
        "Who deleted that group? Every change of its offsets, with its time:\n"
        "  ottla log dump --records /var/lib/ottla/__consumer_offsets-12 | grep '\"my-group\"'\n"
        "What did the controller decide?\n"
        "  ottla log dump --records --json /var/lib/ottla/__cluster_metadata-0 | jq 'select(.kind == \"record\")'\n"
        "Is this disk still good?\n"
        "  ottla log verify /var/lib/ottla\n",
    .run = run,
};
