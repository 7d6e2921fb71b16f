#include "coordinator/re2.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/re2_read.h"

enum {
    NAMES_MAX = RE2_BYTES_MAX / 5, /* "(?<n>" is the least of one: whether it ends comes out last */
};

#define BAD_PERL "invalid or unsupported Perl syntax"

/* What a group goes back to at its end, and where it began in what is written. */
struct outer {
    size_t from;
    bool folds;
    bool said;
};

struct translation {
    struct re2_reader in;
    char *to;
    size_t size;
    bool said; /* PCRE2 was told that case does not count */
    /* What a quantifier would repeat. */
    bool can_repeat;   /* there is something */
    bool has_repeated; /* it has a quantifier already */
    bool must_wrap;    /* PCRE2 takes no quantifier for it as it stands: an assertion, or it has one */
    size_t item_from;  /* where it begins in what is written */
    struct outer outers[RE2_DEPTH_MAX];
    size_t depth;
    struct bytes names[NAMES_MAX];
    size_t name_count;
};

static void emit(struct translation *t, const char *text)
{
    size_t size = strlen(text);

    assert(t->size + size <= t->in.from.size * RE2_GROWTH + RE2_GROWTH_EXTRA);
    memcpy(t->to + t->size, text, size);
    t->size += size;
}

/* A character up to CHAR_SET_BEYOND, in or out of a class. */
static void emit_char(struct translation *t, uint32_t code)
{
    char text[8];

    if (byte_is_digit((int)code) || byte_is_letter((int)code))
        (void)snprintf(text, sizeof(text), "%c", (char)code);
    else
        (void)snprintf(text, sizeof(text), "\\x%02x", code < CHAR_SET_BEYOND ? code : RE2_BEYOND);
    emit(t, text);
}

/* What is written from here on is a new item. Flags are told where they are first needed, so that a quantifier behind
 * them finds what it repeats. */
static void begin_item(struct translation *t)
{
    if (t->said != t->in.folds)
        emit(t, t->in.folds ? "(?i)" : "(?-i)");
    t->said = t->in.folds;
    t->item_from = t->size;
    t->can_repeat = true;
    t->has_repeated = false;
    t->must_wrap = false;
}

static void emit_set(struct translation *t, const struct char_set *set)
{
    /* Under (?i) PCRE2 would add what is missing. */
    bool as_it_is = t->in.folds && !char_set_is_folded(set);
    bool any = false;

    begin_item(t);
    emit(t, as_it_is ? "(?-i:[" : "[");
    for (uint32_t code = 0; code <= CHAR_SET_BEYOND; code++) {
        uint32_t last = code;

        if (!char_set_has(set, code))
            continue;
        any = true;
        while (last + 1 < CHAR_SET_BEYOND && char_set_has(set, last + 1))
            last++;
        emit_char(t, code);
        if (last > code + 1)
            emit(t, "-");
        if (last > code)
            emit_char(t, last);
        code = last;
    }
    if (!any)
        emit(t, "^\\x00-\\xff");
    emit(t, as_it_is ? "])" : "]");
}

static void emit_literal(struct translation *t, uint32_t code)
{
    struct char_set set = {0};

    if (code >= CHAR_SET_BEYOND && t->in.folds) {
        char_set_add(&set, code, code, true);
        emit_set(t, &set);
        return;
    }
    begin_item(t);
    emit_char(t, code);
}

static void quoted(struct translation *t) /* behind \Q */
{
    while (t->in.why == NULL && t->in.at < t->in.from.size && !re2_looking_at(&t->in, "\\E"))
        emit_literal(t, re2_next_char(&t->in));
    if (t->in.at < t->in.from.size)
        t->in.at += 2;
}

static bool is_word(int c)
{
    return byte_is_digit(c) || byte_is_letter(c) || c == '_';
}

static void open_group(struct translation *t, bool folds)
{
    if (t->depth == RE2_DEPTH_MAX) {
        re2_fail(&t->in, "expression nests too deeply");
        return;
    }
    t->outers[t->depth++] = (struct outer){.from = t->size, .folds = t->in.folds, .said = t->said};
    emit(t, "(?:");
    t->in.folds = folds;
    t->can_repeat = false;
}

static void close_group(struct translation *t) /* at the ) */
{
    t->in.at++;
    if (t->depth == 0) {
        re2_fail(&t->in, "unexpected )");
        return;
    }
    t->depth--;
    emit(t, ")");
    t->item_from = t->outers[t->depth].from;
    t->in.folds = t->outers[t->depth].folds;
    t->said = t->outers[t->depth].said;
    t->can_repeat = true;
    t->has_repeated = false;
    t->must_wrap = false;
}

/* (?P<name> and (?<name>: nobody asks for the groups, so they go without. */
static void named_group(struct translation *t, size_t from)
{
    size_t end = from;
    struct bytes name = {0};

    while (is_word(re2_peek(&t->in, end)))
        end++;
    name = bytes_of(re2_rest(&t->in).data + from, end - from);
    if (name.size == 0 || re2_peek(&t->in, end) != '>') {
        re2_fail(&t->in, "invalid named capture");
        return;
    }
    for (size_t i = 0; i < t->name_count; i++) {
        if (bytes_equal(t->names[i], name))
            re2_fail(&t->in, "duplicate capture group name");
    }
    assert(t->name_count < NAMES_MAX);
    t->names[t->name_count++] = name;
    open_group(t, t->in.folds);
    t->in.at += end + 1;
}

static void flags(struct translation *t) /* at the (? */
{
    bool folds = t->in.folds;
    bool off = false;
    bool any = false; /* since there may be a minus */
    size_t at = 2;

    for (; re2_is_one_of("-imsU", re2_peek(&t->in, at)); at++) {
        if (re2_peek(&t->in, at) == '-') {
            if (off)
                break;
            off = true;
            any = false;
            continue;
        }
        any = true;
        if (re2_peek(&t->in, at) == 'i')
            folds = !off;
    }
    if ((re2_peek(&t->in, at) != ')' && re2_peek(&t->in, at) != ':') || (off && !any)) {
        re2_fail(&t->in, BAD_PERL);
        return;
    }
    if (re2_peek(&t->in, at) == ':') {
        open_group(t, folds);
    } else {
        t->in.folds = folds;
        t->must_wrap |= t->has_repeated;
        t->has_repeated = false;
    }
    t->in.at += at + 1;
}

static void group(struct translation *t) /* at the ( */
{
    if (re2_peek(&t->in, 1) != '?') {
        open_group(t, t->in.folds);
        t->in.at++;
    } else if (re2_looking_at(&t->in, "(?P<")) {
        named_group(t, 4);
    } else if (re2_looking_at(&t->in, "(?<")) {
        named_group(t, 3);
    } else {
        flags(t);
    }
}

/* Of a number at ahead: its digits, and the number, RE2_REPEAT_MAX + 1 where it is above. 0: none, or with a leading
 * zero. */
static size_t number(const struct translation *t, size_t ahead, int *value)
{
    size_t size = 0;

    for (*value = 0; byte_is_digit(re2_peek(&t->in, ahead + size)); size++) {
        *value = *value * 10 + (re2_peek(&t->in, ahead + size) - '0');
        if (*value > RE2_REPEAT_MAX)
            *value = RE2_REPEAT_MAX + 1;
    }
    return size > 1 && re2_peek(&t->in, ahead) == '0' ? 0 : size;
}

/* The bytes of {n}, {n,} or {n,m}; 0: it is none, and so a text. to: -1 where there is no end. */
static size_t braces(const struct translation *t, int *from, int *to)
{
    size_t at = 1 + number(t, 1, from);

    *to = *from;
    if (at == 1)
        return 0;
    if (re2_peek(&t->in, at) == ',' && re2_peek(&t->in, at + 1) == '}') {
        *to = -1;
        at++;
    } else if (re2_peek(&t->in, at) == ',') {
        size_t size = number(t, at + 1, to);

        if (size == 0)
            return 0;
        at += 1 + size;
    }
    return re2_peek(&t->in, at) == '}' ? at + 1 : 0;
}

/* The bytes of the quantifier that is next; 0: there is none. */
static size_t quantifier(struct translation *t)
{
    int from = 0;
    int to = 0;
    size_t size = 0;

    if (re2_is_one_of("*+?", re2_peek(&t->in, 0)))
        return 1;
    if (re2_peek(&t->in, 0) == '{')
        size = braces(t, &from, &to);
    if (size > 0 && (from > RE2_REPEAT_MAX || to > RE2_REPEAT_MAX || (to >= 0 && to < from)))
        re2_fail(&t->in, "invalid repeat count");
    return size;
}

static void wrap(struct translation *t)
{
    static const char open[] = "(?:";

    emit(t, open); /* for the room */
    memmove(t->to + t->item_from + sizeof(open) - 1, t->to + t->item_from, t->size - t->item_from - (sizeof(open) - 1));
    memcpy(t->to + t->item_from, open, sizeof(open) - 1);
    emit(t, ")");
}

static void repeat(struct translation *t, size_t size)
{
    char text[16];

    if (!t->can_repeat)
        re2_fail(&t->in, "missing argument to repetition operator");
    else if (t->has_repeated)
        re2_fail(&t->in, "invalid nested repetition operator");
    if (t->in.why != NULL)
        return;
    if (t->must_wrap)
        wrap(t);
    (void)snprintf(text, sizeof(text), "%.*s", (int)size, (const char *)re2_rest(&t->in).data);
    emit(t, text);
    t->in.at += size;
    if (re2_peek(&t->in, 0) == '?') /* lazy: nobody asks for the shortest, nor does PCRE2 find more by it */
        t->in.at++;
    t->has_repeated = true;
}

/* What asks for nothing but where it is. */
static void assertion(struct translation *t, const char *text)
{
    begin_item(t);
    t->must_wrap = true;
    emit(t, text);
}

static void behind_backslash(struct translation *t) /* at the backslash */
{
    struct char_set set = {0};
    int c = re2_peek(&t->in, 1);

    if (c == 'Q') {
        t->in.at += 2;
        t->must_wrap |= t->has_repeated;
        t->has_repeated = false;
        quoted(t);
    } else if (re2_is_one_of("AbBz", c)) {
        assertion(t, (const char[]){'\\', (char)c, '\0'});
        t->in.at += 2;
    } else if (re2_escaped_set(&t->in, &set)) {
        emit_set(t, &set);
    } else {
        t->in.at++;
        emit_literal(t, re2_escaped_char(&t->in));
    }
}

static void one(struct translation *t)
{
    struct char_set set = {0};
    int c = re2_peek(&t->in, 0);
    size_t size = quantifier(t);

    if (size > 0) {
        repeat(t, size);
    } else if (c == '(') {
        group(t);
    } else if (c == ')') {
        close_group(t);
    } else if (c == '[') {
        re2_class(&t->in, &set);
        emit_set(t, &set);
    } else if (c == '\\') {
        behind_backslash(t);
    } else if (c == '^' || c == '$') {
        assertion(t, c == '^' ? "^" : "$");
        t->in.at++;
    } else if (c == '.') {
        begin_item(t);
        emit(t, ".");
        t->in.at++;
    } else if (c == '|') {
        emit(t, "|");
        t->can_repeat = false;
        t->in.at++;
    } else {
        emit_literal(t, re2_next_char(&t->in));
        t->has_repeated = c == '{'; /* re2j's way: a brace that is a text is not repeated */
    }
}

const char *re2_translate(struct bytes from, char *to, size_t *size)
{
    struct translation t = {.in = {.from = from}, .to = to};

    assert(from.size <= RE2_BYTES_MAX);
    while (t.in.at < from.size && t.in.why == NULL)
        one(&t);
    if (t.depth > 0)
        re2_fail(&t.in, "missing closing )");
    *size = t.size;
    return t.in.why;
}
