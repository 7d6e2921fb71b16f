/*
 * log_command: the parts of `ottla log`; log.c picks one. Each gets the arguments behind its name and gives an exit
 * code: LOG_EXIT_OK, LOG_EXIT_FOUND, EXIT_USAGE.
 *
 * Threads  one.
 */
#ifndef OTTLA_CLI_LOG_COMMAND_H
#define OTTLA_CLI_LOG_COMMAND_H

#include <stdbool.h>

#include "base/err.h"

enum {
    LOG_EXIT_OK = 0,
    LOG_EXIT_FOUND = 1, /* something is damaged, or could not be done */
    LOG_EXIT_UNABLE = 2 /* the arguments are not usable, or a path cannot be read: EXIT_USAGE */
};

int log_command_dump(int argc, char **argv);
int log_command_verify(int argc, char **argv);
int log_command_repair(int argc, char **argv);
int log_command_recover(int argc, char **argv);

/* --name value or --name=value: the value, and how many arguments that took; NULL: another option. */
const char *log_option_value(const char *name, int argc, char **argv, int *took);
/* Says that it is not understood; EXIT_USAGE. */
int log_option_unknown(const char *part, const char *option);

#endif
