#include "cli/cli.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "cli/commands.h"

static const struct command *const commands[] = {&command_serve,  &command_group,    &command_log,
                                                 &command_config, &command_protocol, &command_version};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static void print_overview(FILE *to)
{
    fprintf(to, "Ottla is a message broker that stock Kafka clients and tools talk to.\n"
                "\n"
                "usage: ottla <command> [arguments]\n"
                "\n"
                "commands:\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(to, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(to,
            "  %-9s %s\n"
            "\n"
            "A first try, with nothing configured, in two shells:\n"
            "  ottla serve\n"
            "  echo hello | kcat -P -b 127.0.0.1:9092 -t letters && kcat -C -e -b 127.0.0.1:9092 -t letters\n",
            "help", "what a command does: ottla help <command>");
}

static const struct command *find(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static bool asks_for_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

static int unknown(const char *name)
{
    fprintf(stderr, "ottla: there is no command %s; `ottla help` lists them\n", name);
    return EXIT_USAGE;
}

static int help(int argc, char **argv)
{
    const struct command *command = argc > 0 ? find(argv[0]) : NULL;

    if (argc > 0 && command == NULL)
        return unknown(argv[0]);
    if (command == NULL)
        print_overview(stdout);
    else
        fputs(command->help, stdout);
    return EXIT_SUCCESS;
}

int cli_run(int argc, char **argv, const struct process_companion *companion)
{
    const struct command *command = NULL;

    fs_fill_standard_descriptors();
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 || asks_for_help(argv[1]))
        return help(argc - 2, argv + 2);
    if (strcmp(argv[1], "--version") == 0)
        return command_version.run(0, NULL);
    command = find(argv[1]);
    if (command == NULL)
        return unknown(argv[1]);
    for (int i = 2; i < argc; i++)
        if (asks_for_help(argv[i])) {
            fputs(command->help, stdout);
            return EXIT_SUCCESS;
        }
    if (command->run_beside != NULL)
        return command->run_beside(argc - 2, argv + 2, companion);
    return command->run(argc - 2, argv + 2);
}
