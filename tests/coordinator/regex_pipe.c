/*
 * Our expressions over topic names as a program, for integration/expressions. Each line: EXPRESSION NAME NAME ..., in
 * hex
 * ("-": empty). Answer: "refused" with why, or a digit a name: 1 it matches, 0 it does not, t it took too much work.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "coordinator/topic_regex.h"

enum {
    LINE_BYTES = 1 << 16,
    ARENA_BYTES = 64 * 1024,
};

static unsigned nibble(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* In place. */
static struct bytes of_hex(char *text)
{
    size_t size = strcmp(text, "-") == 0 ? 0 : strlen(text) / 2;

    for (size_t i = 0; i < size; i++)
        text[i] = (char)(nibble(text[2 * i]) << 4 | nibble(text[2 * i + 1]));
    return bytes_of(text, size);
}

static void answer(char *line)
{
    char *at = NULL;
    struct bytes text = of_hex(strtok_r(line, " \n", &at));
    struct topic_regex *regex = NULL;
    struct bytes why = {0};
    struct arena arena;

    arena_init(&arena, ARENA_BYTES);
    if (topic_regex_check(text, &arena, &why) != ERR_OK) {
        printf("refused %.*s\n", BYTES_PRINTF(why));
        arena_deinit(&arena);
        return;
    }
    arena_deinit(&arena);
    if (topic_regex_new(text, &regex) != ERR_OK)
        abort();
    for (char *name = strtok_r(NULL, " \n", &at); name != NULL; name = strtok_r(NULL, " \n", &at)) {
        uint32_t cost = 0;
        uint32_t tired = 0;
        bool matches = topic_regex_matches(regex, of_hex(name), &cost, &tired);

        putchar(tired > 0 ? 't' : matches ? '1' : '0');
    }
    putchar('\n');
    topic_regex_free(regex);
}

int main(void)
{
    static char line[LINE_BYTES];

    while (fgets(line, sizeof(line), stdin) != NULL)
        answer(line);
    return 0;
}
