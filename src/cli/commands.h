/*
 * commands: one row for each `ottla` command. Each gets the arguments behind its name.
 *
 * Threads  the main thread.
 */
#ifndef OTTLA_CLI_COMMANDS_H
#define OTTLA_CLI_COMMANDS_H

struct process_companion;

struct command {
    const char *name;
    const char *summary; /* one line of `ottla help` */
    const char *help;    /* all of `ottla <name> --help` */
    int (*run)(int argc, char **argv);
    /* Or this, where something runs beside the broker. */
    int (*run_beside)(int argc, char **argv, const struct process_companion *companion);
};

extern const struct command command_config;
extern const struct command command_group;
extern const struct command command_log;
extern const struct command command_protocol;
extern const struct command command_serve;
extern const struct command command_version;

#endif
