/*
 * An expression over topic names out of any bytes, and a name: the first line is the expression. Shows: none crash or
 * hang; what is refused says why; a match costs no more than it may, and comes out the same again.
 */
#include <string.h>

#include "base/assert.h"
#include "coordinator/topic_regex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(struct bytes text)
{
    struct arena arena;
    struct bytes why = {0};
    enum err err = ERR_OK;

    arena_init(&arena, 64 * 1024);
    err = topic_regex_check(text, &arena, &why);
    assert(err == ERR_INVALID_REGULAR_EXPRESSION && why.size > 0);
    arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line = size == 0 ? NULL : memchr(data, '\n', size);
    struct bytes text = bytes_of(data, line == NULL ? size : (size_t)(line - data));
    struct topic_regex *regex = NULL;
    char name[249];
    size_t name_size = 0;
    uint32_t cost = 0;
    uint32_t tired = 0;
    bool matches = false;

    if (topic_regex_new(text, &regex) != ERR_OK) {
        check_refusal(text);
        return 0;
    }
    for (size_t i = text.size + 1; i < size && name_size < sizeof(name); i++)
        name[name_size++] = (char)(data[i] & 0x7f);
    matches = topic_regex_matches(regex, bytes_of(name, name_size), &cost, &tired);
    assert(cost > 0 && cost <= TOPIC_REGEX_MATCH_COST_MAX && tired <= 1);
    assert(topic_regex_matches(regex, bytes_of(name, name_size), &cost, &tired) == matches);
    topic_regex_free(regex);
    return 0;
}
