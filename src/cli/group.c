/* `ottla group`: consumer groups: who is in them, how far they are, why they rebalanced; resets and deletions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/group_command.h"

enum {
    TIMEOUT_MS_DEFAULT = 10000,
    TIMEOUT_MS_MAX = 3600 * 1000,
    DECIMAL = 10,
    PART_LIST = 1,
    PART_DESCRIBE = 2,
    PART_LAG = 4,
    PART_HISTORY = 8,
    PART_RESET = 16,
    PART_DELETE = 32,
    PART_ALL = 63,
};

static const struct part {
    const char *name;
    unsigned bit;
    uint32_t groups_min, groups_max;
    int (*run)(const struct group_options *options, struct kafka_client *client);
} parts[] = {
    {"list", PART_LIST, 0, 0, group_command_list},
    {"describe", PART_DESCRIBE, 0, GROUP_ARGUMENTS_MAX, group_command_describe},
    {"lag", PART_LAG, 0, GROUP_ARGUMENTS_MAX, group_command_lag},
    {"history", PART_HISTORY, 1, 1, group_command_history},
    {"reset", PART_RESET, 1, 1, group_command_reset},
    {"delete", PART_DELETE, 1, GROUP_ARGUMENTS_MAX, group_command_delete},
};

enum option_id {
    OPTION_BOOTSTRAP,
    OPTION_HTTP,
    OPTION_TIMEOUT,
    OPTION_JSON,
    OPTION_ALL,
    OPTION_STATE,
    OPTION_TYPE,
    OPTION_TOPIC,
    OPTION_ALL_TOPICS,
    OPTION_EXECUTE,
    OPTION_DRY_RUN,
    OPTION_UNDO,
    OPTION_TO_EARLIEST,
    OPTION_TO_LATEST,
    OPTION_TO_CURRENT,
    OPTION_TO_OFFSET,
    OPTION_SHIFT_BY,
    OPTION_TO_DATETIME,
    OPTION_BY_DURATION,
    OPTION_FROM_FILE,
};

static const struct option {
    const char *name;
    bool value;
    unsigned parts;
    enum option_id id;
} options_known[] = {
    {"--bootstrap-server", true, PART_ALL, OPTION_BOOTSTRAP},
    {"-b", true, PART_ALL, OPTION_BOOTSTRAP},
    {"--http", true, PART_DESCRIBE | PART_LAG | PART_HISTORY, OPTION_HTTP},
    {"--timeout", true, PART_ALL, OPTION_TIMEOUT},
    {"--json", false, PART_ALL, OPTION_JSON},
    {"--all", false, PART_DESCRIBE | PART_LAG, OPTION_ALL},
    {"--state", true, PART_LIST, OPTION_STATE},
    {"--type", true, PART_LIST, OPTION_TYPE},
    {"--topic", true, PART_RESET | PART_DELETE, OPTION_TOPIC},
    {"--all-topics", false, PART_RESET, OPTION_ALL_TOPICS},
    {"--execute", false, PART_RESET, OPTION_EXECUTE},
    {"--dry-run", false, PART_RESET, OPTION_DRY_RUN},
    {"--undo", true, PART_RESET, OPTION_UNDO},
    {"--to-earliest", false, PART_RESET, OPTION_TO_EARLIEST},
    {"--to-latest", false, PART_RESET, OPTION_TO_LATEST},
    {"--to-current", false, PART_RESET, OPTION_TO_CURRENT},
    {"--to-offset", true, PART_RESET, OPTION_TO_OFFSET},
    {"--shift-by", true, PART_RESET, OPTION_SHIFT_BY},
    {"--to-datetime", true, PART_RESET, OPTION_TO_DATETIME},
    {"--by-duration", true, PART_RESET, OPTION_BY_DURATION},
    {"--from-file", true, PART_RESET, OPTION_FROM_FILE},
};

int group_command_fail(const struct kafka_client *client)
{
    fprintf(stderr, "ottla: %s\n", client->message);
    return EXIT_FAILURE;
}

static bool parse_number(const char *text, int64_t *number)
{
    char *end = NULL;

    errno = 0;
    *number = strtoll(text, &end, DECIMAL);
    return errno == 0 && end != text && *end == '\0';
}

static bool refuse_value(const struct option *option, const char *value, const char *wanted)
{
    fprintf(stderr, "ottla: %s %s: that is not %s\n", option->name, value, wanted);
    return false;
}

static bool set_how(struct group_options *options, enum group_reset_how how)
{
    if (options->how != RESET_NONE) {
        fprintf(stderr, "ottla: group reset: only one of --to-earliest, --to-latest, --to-current, --to-offset, "
                        "--shift-by, --to-datetime, --by-duration and --from-file can be meant\n");
        return false;
    }
    options->how = how;
    return true;
}

static bool add_text(const char **list, uint32_t *count, const char *text)
{
    if (*count == GROUP_ARGUMENTS_MAX) {
        fprintf(stderr, "ottla: group: more than %d of them at once\n", GROUP_ARGUMENTS_MAX);
        return false;
    }
    list[(*count)++] = text;
    return true;
}

static bool apply_how(struct group_options *options, const struct option *option, const char *value)
{
    switch (option->id) {
    case OPTION_TO_EARLIEST:
        return set_how(options, RESET_TO_EARLIEST);
    case OPTION_TO_LATEST:
        return set_how(options, RESET_TO_LATEST);
    case OPTION_TO_CURRENT:
        return set_how(options, RESET_TO_CURRENT);
    case OPTION_TO_OFFSET:
        return set_how(options, RESET_TO_OFFSET) && ((parse_number(value, &options->number) && options->number >= 0) ||
                                                     refuse_value(option, value, "an offset (0, 1, 2 ...)"));
    case OPTION_SHIFT_BY:
        return set_how(options, RESET_SHIFT_BY) &&
               (parse_number(value, &options->number) || refuse_value(option, value, "a number (10, or -10)"));
    case OPTION_TO_DATETIME:
        return set_how(options, RESET_TO_DATETIME) &&
               (group_command_parse_time(value, &options->number) ||
                refuse_value(option, value, "a time such as 2026-11-30T08:15:00Z or 2026-11-30T08:15:00.000+01:00"));
    case OPTION_BY_DURATION:
        return set_how(options, RESET_BY_DURATION) &&
               (group_command_parse_duration(value, &options->number) ||
                refuse_value(option, value, "a duration such as PT30M, PT2H or P1DT12H"));
    default:
        options->text = value;
        return set_how(options, RESET_FROM_FILE);
    }
}

static bool apply(struct group_options *options, const struct option *option, const char *value)
{
    switch (option->id) {
    case OPTION_BOOTSTRAP:
        options->bootstrap = value;
        return true;
    case OPTION_HTTP:
        options->http = value;
        return true;
    case OPTION_TIMEOUT:
        return (parse_number(value, &options->timeout_ms) && options->timeout_ms > 0 &&
                options->timeout_ms <= TIMEOUT_MS_MAX) ||
               refuse_value(option, value, "a number of milliseconds, at most an hour");
    case OPTION_JSON:
        options->json = true;
        return true;
    case OPTION_ALL:
        options->all = true;
        return true;
    case OPTION_STATE:
        options->state = value;
        return true;
    case OPTION_TYPE:
        options->type = value;
        return true;
    case OPTION_TOPIC:
        return add_text(options->topics, &options->topic_count, value);
    case OPTION_ALL_TOPICS:
        options->all_topics = true;
        return true;
    case OPTION_EXECUTE:
        options->execute = true;
        return true;
    case OPTION_DRY_RUN:
        options->dry_run = true;
        return true;
    case OPTION_UNDO:
        options->undo = value;
        return true;
    default:
        return apply_how(options, option, value);
    }
}

/* The option that argument is, with "=value" or without; NULL: none of this part. */
static const struct option *find_option(const struct part *part, const char *argument)
{
    for (size_t i = 0; i < sizeof(options_known) / sizeof(options_known[0]); i++) {
        const struct option *option = &options_known[i];
        size_t size = strlen(option->name);

        if ((option->parts & part->bit) != 0 && strncmp(argument, option->name, size) == 0 &&
            (argument[size] == '\0' || (option->value && argument[size] == '=')))
            return option;
    }
    return NULL;
}

static bool parse(const struct part *part, int argc, char **argv, struct group_options *options)
{
    bool names_only = false; /* behind a "--" */

    for (int i = 0; i < argc; i++) {
        const struct option *option = argv[i][0] == '-' ? find_option(part, argv[i]) : NULL;
        const char *value = NULL;

        if (!names_only && strcmp(argv[i], "--") == 0) {
            names_only = true;
            continue;
        }
        if (names_only || argv[i][0] != '-') {
            if (!add_text(options->groups, &options->group_count, argv[i]))
                return false;
            continue;
        }
        if (option == NULL) {
            fprintf(stderr, "ottla: group %s: %s is not understood; `ottla group --help` says what is\n", part->name,
                    argv[i]);
            return false;
        }
        if (option->value) {
            value = strchr(argv[i], '=');
            value = value != NULL ? value + 1 : i + 1 < argc ? argv[++i] : NULL;
            if (value == NULL) {
                fprintf(stderr, "ottla: group %s: %s wants a value\n", part->name, option->name);
                return false;
            }
        }
        if (!apply(options, option, value))
            return false;
    }
    return true;
}

static bool check(const struct part *part, const struct group_options *options)
{
    bool every = options->all || part->groups_min > 0 || part->groups_max == 0;

    if (options->group_count > part->groups_max) {
        fprintf(stderr,
                part->groups_max == 0 ? "ottla: group %s: no group is named here; %s is too much\n"
                                      : "ottla: group %s: one group at a time; %s is too much\n",
                part->name, options->groups[part->groups_max]);
        return false;
    }
    if (options->group_count < part->groups_min || (!every && options->group_count == 0)) {
        fprintf(stderr, "ottla: group %s: of which group? `ottla group list` shows them%s\n", part->name,
                part->groups_min == 0 ? ", --all means all" : "");
        return false;
    }
    if (options->all && options->group_count > 0) {
        fprintf(stderr, "ottla: group %s: --all or the names of groups, not both\n", part->name);
        return false;
    }
    if (options->execute && options->dry_run) {
        fprintf(stderr, "ottla: group reset: --dry-run or --execute, not both\n");
        return false;
    }
    return true;
}

static int run_part(const struct part *part, int argc, char **argv)
{
    struct group_options *options = mem_calloc(1, sizeof(*options));
    struct kafka_client *client = mem_calloc(1, sizeof(*client));
    struct clock clock;
    int status = EXIT_USAGE;

    if (options == NULL || client == NULL) {
        fprintf(stderr, "ottla: out of memory\n");
        goto out;
    }
    options->bootstrap = "127.0.0.1:9092";
    options->timeout_ms = TIMEOUT_MS_DEFAULT;
    if (!parse(part, argc, argv, options) || !check(part, options))
        goto out;
    clock_init_real(&clock);
    status = kafka_client_open(client, &clock, options->bootstrap, options->timeout_ms) == ERR_OK
                 ? part->run(options, client)
                 : group_command_fail(client);
    kafka_client_close(client);
out:
    mem_free(client);
    mem_free(options);
    return status;
}

static int run(int argc, char **argv)
{
    if (argc < 1) {
        fprintf(stderr, "ottla: what about groups? `ottla group --help` says what there is\n");
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strcmp(argv[0], parts[i].name) == 0)
            return run_part(&parts[i], argc - 1, argv + 1);
    fprintf(stderr, "ottla: there is no group %s; `ottla group --help` lists what there is\n", argv[0]);
    return EXIT_USAGE;
}

const struct command command_group = {
    .name = "group",
    .summary = "consumer groups: members, lag, why they rebalanced; reset and delete",
    .help =
        "usage: ottla group list     [--state STATE] [--type TYPE]\n"
        "       ottla group describe GROUP... | --all\n"
        "       ottla group lag      GROUP... | --all\n"
        "       ottla group history  GROUP\n"
        "       ottla group reset    GROUP (--topic TOPIC[:0,1] ... | --all-topics) HOW [--execute] [--undo FILE]\n"
        "       ottla group delete   GROUP... [--topic TOPIC[:0,1] ...]\n"
        "\n"
        "with each (behind -- all is a group's name):\n"
        "  -b, --bootstrap-server HOST:PORT[,...]   the cluster; 127.0.0.1:9092 unless given\n"
        "  --json                                   for programs (jq)\n"
        "  --timeout MS                             how long an answer may take; 10000\n"
        "\n"
        "list shows all groups, or those in a STATE (Stable, Empty, ...) or of a TYPE (Classic, Consumer).\n"
        "\n"
        "describe shows who is in a group, and which partitions each member has.\n"
        "\n"
        "lag shows how far a group is: for each partition what is committed, where the log ends, how many records lie\n"
        "between, and how old the oldest of them is (AGE, in seconds): a group that is 10 records and two days behind "
        "has\n"
        "another trouble than one that is 10 records and a second behind. Groups without members are shown too.\n"
        "\n"
        "history shows the last 100 rebalances since the broker that coordinates the group started: when, how long,\n"
        "what caused it and who, and how many partitions have another owner since; and how many older ones are\n"
        "kept no more. A broker keeps so many megabytes of them, of whichever groups: the oldest go first.\n"
        "  --http HOST:PORT   ages and history are read over HTTP, where the broker's ottla.http.listener says,\n"
        "                     unless it is given here\n"
        "\n"
        "reset sets what is committed to something else. It shows what it would do, and does it with --execute. The "
        "group\n"
        "must have no members. What it replaces is written to a file first, and that file undoes it.\n"
        "  --to-earliest, --to-latest   the beginning or the end of each partition\n"
        "  --to-offset N                this offset, or the nearest that there is\n"
        "  --shift-by N                 N records further, or with a minus back\n"
        "  --to-datetime TIME           the first record at or after 2026-11-30T08:15:00Z\n"
        "  --by-duration DURATION       the first record of the last PT30M, PT2H, P1DT12H ...\n"
        "  --to-current                 what is committed now: with it the file is a copy\n"
        "  --from-file FILE             lines topic,partition,offset (-1: nothing is committed), and where there\n"
        "                               were any the leader epoch and the \"metadata\" of the commit\n"
        "  --undo FILE                  where the replaced offsets go; GROUP-offsets-TIME.csv unless given\n"
        "\n"
        "delete takes a group without members away, with everything that it committed; or with --topic only what it\n"
        "committed for those topics, which no member may be subscribed to.\n"
        "\n"
        "Exit: 0 when all went well, 1 when not, 2 when the arguments are not usable.\n"
        "\n"
        "Who is behind, the oldest unread record first?\n"
        "  ottla group lag --all --json | jq -r '.[] | .group as $g | .partitions[] | [.age_s, $g, .topic] | @tsv' | "
        "sort -rn\n"
        "Read the last hour of a topic again, and think better of it:\n"
        "  ottla group reset billing --topic orders --by-duration PT1H --execute --undo before.csv\n"
        "  ottla group reset billing --from-file before.csv --execute\n",
    .run = run,
};
