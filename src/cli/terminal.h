/*
 * terminal: text of strangers (names of groups and topics, ids of clients) on a terminal, where it is shown and does
 * nothing.
 *
 * Threads  one.
 */
#ifndef OTTLA_CLI_TERMINAL_H
#define OTTLA_CLI_TERMINAL_H

#include <stdio.h>

#include "base/bytes.h"

/* '?' for what a terminal may obey: control characters of ASCII, and those beyond it (C1) as UTF-8 has them. */
void terminal_print(struct bytes text, FILE *to);
/* As one word of a command that can be pasted into a shell: quoted where it needs to be; control characters as $'\ooo'
 * (bash, zsh, POSIX 2024). */
void terminal_print_word(struct bytes text, FILE *to);

#endif
