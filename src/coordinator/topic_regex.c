#define PCRE2_CODE_UNIT_WIDTH 8
#include "coordinator/topic_regex.h"

#include <pcre2.h>
#include <stdio.h>

#include "base/mem.h"
#include "coordinator/re2.h"

enum {
    WHY_BYTES = 256,
    STATE_INTS = 3, /* what PCRE2 has of a place in an expression */
    STATE_LISTS = 2,
    SPACE_EXTRA = 2,
    NAME_WORK = 256, /* of the longest name, which a step of the usual matcher may go over, too */
    SPACE_INTS = SPACE_EXTRA + TOPIC_REGEX_STATES_MAX * STATE_LISTS * STATE_INTS,
};

#define TOO_LARGE "expression too large"

struct topic_regex {
    pcre2_general_context *general;
    pcre2_match_context *match;
    pcre2_match_data *data;
    pcre2_code *code;
    bool tired; /* a match took too much work */
    int space[SPACE_INTS];
};

static void *allocate(size_t size, void *context)
{
    (void)context;
    return mem_alloc(size);
}

static void release(void *block, void *context)
{
    (void)context;
    mem_free(block);
}

/* The usual matcher takes few steps, so that it goes neither deep nor needs much memory: each goes over the name, and
 * over the code until it branches. How far that is PCRE2 does not say: an eighth is an estimate, by the times that
 * test_topic_regex.c prints. */
static enum err limit_steps(struct topic_regex *regex)
{
    size_t size = 0;
    size_t steps = 0;

    regex->match = pcre2_match_context_create(regex->general);
    if (regex->match == NULL)
        return ERR_NOMEM;
    (void)pcre2_pattern_info(regex->code, PCRE2_INFO_SIZE, &size);
    steps = TOPIC_REGEX_COST_WORK / (size / 8 + NAME_WORK);
    (void)pcre2_set_match_limit(regex->match, steps == 0 ? 1 : (uint32_t)steps);
    return ERR_OK;
}

static enum err compile(struct topic_regex *regex, struct bytes text, char *why)
{
    /* By bytes: names are ASCII, and classes of 256 characters cost little. */
    const uint32_t options = PCRE2_NEVER_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY | PCRE2_NO_AUTO_CAPTURE |
                             PCRE2_ANCHORED | PCRE2_ENDANCHORED;
    pcre2_compile_context *context = pcre2_compile_context_create(regex->general);
    int error = 0;
    size_t at = 0;
    size_t size = 0;

    if (context == NULL)
        return ERR_NOMEM;
    regex->code = pcre2_compile(text.data, text.size, options, &error, &at, context);
    pcre2_compile_context_free(context);
    if (regex->code == NULL) {
        (void)pcre2_get_error_message(error, (PCRE2_UCHAR *)why, WHY_BYTES);
        return error == PCRE2_ERROR_HEAP_FAILED ? ERR_NOMEM : ERR_INVALID_REGULAR_EXPRESSION;
    }
    (void)pcre2_pattern_info(regex->code, PCRE2_INFO_SIZE, &size);
    if (size > TOPIC_REGEX_CODE_MAX) {
        (void)snprintf(why, WHY_BYTES, TOO_LARGE);
        return ERR_INVALID_REGULAR_EXPRESSION;
    }
    regex->data = pcre2_match_data_create(1, regex->general);
    return regex->data == NULL ? ERR_NOMEM : ERR_OK;
}

static enum err make(struct bytes text, struct topic_regex **regex, char *why)
{
    struct topic_regex *made = mem_calloc(1, sizeof(*made));
    const char *mistake = NULL;
    char *to = NULL;
    size_t size = 0;
    enum err err = ERR_NOMEM;

    if (made == NULL)
        return ERR_NOMEM;
    if (text.size > TOPIC_REGEX_BYTES_MAX) {
        (void)snprintf(why, WHY_BYTES, TOO_LARGE);
        err = ERR_INVALID_REGULAR_EXPRESSION;
        goto out;
    }
    to = mem_alloc(text.size * RE2_GROWTH + RE2_GROWTH_EXTRA);
    if (to == NULL)
        goto out;
    mistake = re2_translate(text, to, &size);
    if (mistake != NULL) {
        (void)snprintf(why, WHY_BYTES, "%s", mistake);
        err = ERR_INVALID_REGULAR_EXPRESSION;
        goto out;
    }
    made->general = pcre2_general_context_create(allocate, release, NULL);
    if (made->general == NULL)
        goto out;
    err = compile(made, bytes_of(to, size), why);
    if (err == ERR_OK)
        err = limit_steps(made);
    if (err != ERR_OK)
        goto out;
    *regex = made;
    made = NULL;
out:
    mem_free(to);
    topic_regex_free(made);
    return err;
}

enum err topic_regex_check(struct bytes text, struct arena *arena, struct bytes *why)
{
    struct topic_regex *regex = NULL;
    char words[WHY_BYTES] = "";
    enum err err = make(text, &regex, words);

    topic_regex_free(regex);
    if (err == ERR_INVALID_REGULAR_EXPRESSION)
        *why = arena_printf(arena, "%s", words);
    return err;
}

enum err topic_regex_new(struct bytes text, struct topic_regex **regex)
{
    char why[WHY_BYTES] = "";

    return make(text, regex, why);
}

void topic_regex_free(struct topic_regex *regex)
{
    if (regex == NULL)
        return;
    pcre2_code_free(regex->code);
    pcre2_match_data_free(regex->data);
    pcre2_match_context_free(regex->match);
    pcre2_general_context_free(regex->general);
    mem_free(regex);
}

static bool is_end(int result)
{
    return result >= 0 || result == PCRE2_ERROR_NOMATCH;
}

bool topic_regex_matches(struct topic_regex *regex, struct bytes name, uint32_t *cost, uint32_t *tired)
{
    int result = PCRE2_ERROR_MATCHLIMIT;

    *cost += 1;
    if (regex->tired && *tired >= TOPIC_REGEX_TIRED_MAX)
        return false;
    result = pcre2_match(regex->code, name.data, name.size, 0, 0, regex->data, regex->match);
    if (is_end(result))
        return result >= 0;
    /* PCRE2 does not say what it did, but is at no more places than there is room for: little is tried first, so that
     * little is counted. */
    if (*tired < TOPIC_REGEX_TIRED_MAX) {
        for (size_t states = TOPIC_REGEX_STATES_LEAST; states <= TOPIC_REGEX_STATES_MAX; states *= TOPIC_REGEX_GROWTH) {
            size_t ints = SPACE_EXTRA + states * STATE_LISTS * STATE_INTS;

            result = pcre2_dfa_match(regex->code, name.data, name.size, 0, 0, regex->data, NULL, regex->space, ints);
            *cost += (uint32_t)(states * states / TOPIC_REGEX_COST_STATES);
            /* It finds all ends, the farthest first, and does not ask that one is the name's. */
            if (is_end(result))
                return result >= 0 && pcre2_get_ovector_pointer(regex->data)[1] == name.size;
        }
    }
    regex->tired = true;
    *tired += 1;
    return false;
}
