#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"

static int run(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("ottla %s\n", OTTLA_VERSION);
    return EXIT_SUCCESS;
}

const struct command command_version = {
    .name = "version",
    .summary = "which build this is",
    .help = "usage: ottla version\n"
            "\n"
            "Prints the version of this build.\n",
    .run = run,
};
