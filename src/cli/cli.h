/*
 * cli: the `ottla` commands; main.c hands over the command line.
 *
 * Threads  the main thread.
 */
#ifndef OTTLA_CLI_CLI_H
#define OTTLA_CLI_CLI_H

enum { EXIT_USAGE = 2 }; /* the command line or the configuration is not usable */

struct process_companion;

/* Runs one command; returns the exit code. companion: what `ottla serve` runs beside the broker; NULL: nothing. */
int cli_run(int argc, char **argv, const struct process_companion *companion);

#endif
