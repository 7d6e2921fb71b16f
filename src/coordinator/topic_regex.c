#define PCRE2_CODE_UNIT_WIDTH 8
#include "coordinator/topic_regex.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

enum {
    WHY_BYTES = 256,
    HEAP_KB_MAX = 1024,
    CODE_ROOM_EXTRA = 16,
    NO_CODE = -1,
    BEYOND = 0xff,   /* stands for every character beyond ASCII: no topic name has any, so they are all alike */
    NAME_WORK = 256, /* of the longest name, which a step may go over, too */
    GROWTH = 6,      /* an escaped octal number takes at most that many times its bytes */
};

#define TOO_LARGE "expression too large"

struct topic_regex {
    pcre2_general_context *general;
    pcre2_match_context *match;
    pcre2_match_data *data;
    pcre2_code *code;
    size_t step_work; /* of one step, at most */
    bool tired;       /* a match took too much work */
};

/* From RE2's words to PCRE2's. */
struct translation {
    struct bytes from;
    size_t at;
    char *to;
    size_t size;
    uint32_t properties;
    int32_t code;      /* of the character that was read last; NO_CODE: it is a set of them */
    bool can_repeat;   /* there is something that a quantifier would repeat */
    bool has_repeated; /* it has one already */
    const char *why;   /* the first mistake */
    size_t why_from;
};

static int peek(const struct translation *t, size_t ahead)
{
    return t->at + ahead < t->from.size ? t->from.data[t->at + ahead] : -1;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_octal(int c)
{
    return c >= '0' && c <= '7';
}

static bool is_one_of(const char *letters, int c)
{
    return c > 0 && strchr(letters, c) != NULL;
}

static int hex_of(int c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void fail(struct translation *t, const char *why)
{
    if (t->why == NULL) {
        t->why = why;
        t->why_from = t->at;
    }
}

static void emit(struct translation *t, const char *text)
{
    size_t size = strlen(text);

    memcpy(t->to + t->size, text, size);
    t->size += size;
}

static void emit_byte(struct translation *t, int byte)
{
    t->to[t->size++] = (char)byte;
}

/* A character by its number. */
static void emit_code(struct translation *t, unsigned code)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "\\x{%x}", code < 0x80 ? code : BEYOND);
    emit(t, text);
    t->code = (int32_t)code;
}

/* The bytes of the UTF-8 character that is next, and its number; 0: it is none. */
static size_t utf8(const struct translation *t, unsigned *code)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    int first = peek(t, 0);
    size_t size = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf8 ? 4 : 0;

    *code = size < 2 ? (unsigned)first : (unsigned)first & (0x7fU >> size);
    for (size_t i = 1; i < size; i++) {
        if (peek(t, i) < 0x80 || peek(t, i) >= 0xc0)
            return 0;
        *code = *code << 6 | ((unsigned)peek(t, i) & 0x3f);
    }
    if (size > 0 && (*code < least[size] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000)))
        return 0;
    return size;
}

/* The next character as itself. */
static void literal(struct translation *t)
{
    unsigned code = 0;
    size_t size = utf8(t, &code);

    if (size == 0) {
        fail(t, "invalid UTF-8");
        return;
    }
    t->at += size;
    if (code >= 0x80) {
        emit_code(t, code);
        return;
    }
    if (!is_digit((int)code) && !is_letter((int)code))
        emit_byte(t, '\\');
    emit_byte(t, (int)code);
    t->code = (int32_t)code;
}

static void hex_escape(struct translation *t) /* behind \x */
{
    unsigned code = 0;
    size_t at = 0;

    if (peek(t, 0) != '{') {
        if (hex_of(peek(t, 0)) < 0 || hex_of(peek(t, 1)) < 0) {
            fail(t, "invalid escape sequence");
            return;
        }
        emit_code(t, (unsigned)(hex_of(peek(t, 0)) * 16 + hex_of(peek(t, 1))));
        t->at += 2;
        return;
    }
    for (at = 1; hex_of(peek(t, at)) >= 0 && code <= 0x10ffff; at++)
        code = code * 16 + (unsigned)hex_of(peek(t, at));
    if (at == 1 || peek(t, at) != '}' || code > 0x10ffff) {
        fail(t, "invalid escape sequence");
        return;
    }
    emit_code(t, code);
    t->at += at + 1;
}

static void octal_escape(struct translation *t) /* at its first digit */
{
    unsigned code = 0;

    if (peek(t, 0) != '0' && !is_octal(peek(t, 1))) {
        fail(t, "invalid escape sequence"); /* a back-reference */
        return;
    }
    for (int i = 0; i < 3 && is_octal(peek(t, 0)); i++)
        code = code * 8 + (unsigned)(t->from.data[t->at++] - '0');
    emit_code(t, code);
}

/* \pN, \p{Greek}, \p{^Greek}: which there are PCRE2 knows. */
static void property_escape(struct translation *t) /* at the p */
{
    t->properties++;
    emit_byte(t, '\\');
    emit_byte(t, t->from.data[t->at++]);
    if (peek(t, 0) != '{') {
        if (is_letter(peek(t, 0)))
            emit_byte(t, t->from.data[t->at++]);
        else
            fail(t, "invalid character class range");
        return;
    }
    do
        emit_byte(t, t->from.data[t->at++]);
    while (peek(t, 0) == '^' || peek(t, 0) == '_' || is_letter(peek(t, 0)));
    if (peek(t, 0) != '}') {
        fail(t, "invalid character class range");
        return;
    }
    emit_byte(t, t->from.data[t->at++]);
}

/* What means the same in and out of a class. */
static void escape(struct translation *t) /* behind the backslash */
{
    int c = peek(t, 0);

    t->code = NO_CODE;
    if (c < 0) {
        fail(t, "trailing backslash at end of expression");
    } else if (c == 'p' || c == 'P') {
        property_escape(t);
    } else if (c == 'x') {
        t->at++;
        hex_escape(t);
    } else if (is_octal(c)) {
        octal_escape(t);
    } else if (c == 'v') {
        t->at++;
        emit_code(t, '\v');
    } else if (is_one_of("dDsSwWafnrt", c)) {
        emit_byte(t, '\\');
        emit_byte(t, c);
        t->at++;
    } else if (c < 0x80 && !is_digit(c) && !is_letter(c)) {
        literal(t);
    } else {
        fail(t, "invalid escape sequence");
    }
}

static void quoted(struct translation *t) /* behind \Q */
{
    while (t->why == NULL && t->at < t->from.size && !(peek(t, 0) == '\\' && peek(t, 1) == 'E'))
        literal(t);
    if (t->at < t->from.size)
        t->at += 2;
}

static void class_name(struct translation *t) /* at the [ of [:alpha:] */
{
    while (peek(t, 0) >= 0 && peek(t, 0) != ']')
        emit_byte(t, t->from.data[t->at++]);
    if (peek(t, 0) == ']')
        emit_byte(t, t->from.data[t->at++]);
    t->code = NO_CODE;
}

static void class_item(struct translation *t)
{
    int c = peek(t, 0);

    if (c < 0) {
        fail(t, "missing closing ]");
    } else if (c == '\\') {
        t->at++;
        escape(t);
    } else if (c == '[' && peek(t, 1) == ':') {
        class_name(t);
    } else if (c == '[' || c == ']' || c >= 0x80) {
        literal(t);
    } else {
        emit_byte(t, c);
        t->code = c;
        t->at++;
    }
}

static void class_of(struct translation *t) /* at the [ */
{
    emit_byte(t, '[');
    t->at++;
    if (peek(t, 0) == '^') {
        emit_byte(t, '^');
        t->at++;
    }
    for (bool first = true; t->why == NULL && (peek(t, 0) != ']' || first); first = false) {
        int32_t low = NO_CODE;

        class_item(t);
        low = t->code;
        if (low == NO_CODE || peek(t, 0) != '-' || peek(t, 1) == ']')
            continue;
        emit_byte(t, '-');
        t->at++;
        class_item(t);
        if (t->code != NO_CODE && t->code < low)
            fail(t, "invalid character class range");
    }
    emit_byte(t, ']');
    t->at++;
}

static bool is_word(int c)
{
    return is_digit(c) || is_letter(c) || c == '_';
}

/* (?P<name> and (?<name>: nobody asks for the groups, so they go without. */
static bool named_group(struct translation *t) /* at the ( */
{
    size_t at = peek(t, 2) == 'P' ? 3 : 2;
    size_t from = at + 1;

    if (peek(t, at) != '<' || !is_word(peek(t, from)))
        return false;
    while (is_word(peek(t, at + 1)))
        at++;
    if (peek(t, at + 1) != '>')
        return false;
    emit(t, "(?:");
    t->at += at + 2;
    return true;
}

static void group(struct translation *t) /* at the ( */
{
    size_t at = 2;
    bool off = false;
    bool any = false;

    t->can_repeat = false;
    if (peek(t, 1) != '?') {
        emit(t, "(?:");
        t->at++;
        return;
    }
    if (named_group(t))
        return;
    for (; is_one_of("-imsU", peek(t, at)); at++) {
        if (peek(t, at) == '-' && off)
            break;
        if (peek(t, at) == '-')
            off = true;
        any = peek(t, at) != '-';
    }
    if ((peek(t, at) != ')' && peek(t, at) != ':') || (off && !any)) {
        fail(t, "invalid or unsupported Perl syntax");
        return;
    }
    for (size_t i = 0; i <= at; i++)
        emit_byte(t, peek(t, i));
    t->at += at + 1;
}

/* The bytes of {n}, {n,} or {n,m}; 0: it is none, and so a text. */
static size_t braces(const struct translation *t, int *from, int *to)
{
    size_t at = 1;
    int *number = from;

    *from = -1;
    *to = -1;
    for (;; at++) {
        int c = peek(t, at);

        if (is_digit(c)) {
            *number = *number < 0 ? c - '0' : *number * 10 + (c - '0');
            if (*number > TOPIC_REGEX_REPEAT_MAX)
                *number = TOPIC_REGEX_REPEAT_MAX + 1;
        } else if (c == ',' && number == from && *from >= 0) {
            number = to;
        } else if (c == '}' && *from >= 0) {
            return at + 1;
        } else {
            return 0;
        }
    }
}

static void repeat(struct translation *t, size_t size)
{
    if (!t->can_repeat) {
        fail(t, "missing argument to repetition operator");
        return;
    }
    if (t->has_repeated) {
        fail(t, "invalid nested repetition operator");
        return;
    }
    for (size_t i = 0; i < size; i++)
        emit_byte(t, t->from.data[t->at++]);
    if (peek(t, 0) == '?')
        emit_byte(t, t->from.data[t->at++]);
    t->has_repeated = true;
}

static void one(struct translation *t)
{
    int c = peek(t, 0);
    int from = 0;
    int to = 0;
    size_t size = c == '{' ? braces(t, &from, &to) : 0;
    bool repeats = c == '*' || c == '+' || c == '?' || size > 0;

    if (repeats) {
        if (size > 0 && (from > TOPIC_REGEX_REPEAT_MAX || to > TOPIC_REGEX_REPEAT_MAX || (to >= 0 && to < from)))
            fail(t, "invalid repeat count");
        else
            repeat(t, size > 0 ? size : 1);
        return;
    }
    t->has_repeated = false;
    t->can_repeat = true;
    if (c == '(') {
        group(t);
    } else if (c == '|') {
        t->can_repeat = false;
        emit_byte(t, c);
        t->at++;
    } else if (c == '[') {
        class_of(t);
    } else if (c == '\\') {
        t->at++;
        if (peek(t, 0) == 'Q') {
            t->at++;
            quoted(t);
        } else if (is_one_of("AbBz", peek(t, 0))) {
            emit_byte(t, '\\');
            emit_byte(t, t->from.data[t->at++]);
        } else {
            escape(t);
        }
    } else if (c == ')' || c == '.' || c == '^' || c == '$') {
        emit_byte(t, c);
        t->at++;
    } else {
        literal(t);
    }
}

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

static enum err contexts(struct topic_regex *regex)
{
    regex->general = pcre2_general_context_create(allocate, release, NULL);
    if (regex->general == NULL)
        return ERR_NOMEM;
    regex->match = pcre2_match_context_create(regex->general);
    if (regex->match == NULL)
        return ERR_NOMEM;
    (void)pcre2_set_depth_limit(regex->match, TOPIC_REGEX_DEPTH_MAX);
    (void)pcre2_set_heap_limit(regex->match, HEAP_KB_MAX);
    return ERR_OK;
}

static enum err compile(struct topic_regex *regex, const struct translation *t, char *why)
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
    regex->code = pcre2_compile((PCRE2_SPTR)t->to, t->size, options, &error, &at, context);
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
    /* A step goes over the name, and a class asks each property for each character; over the code it goes only until it
     * branches. How far that is PCRE2 does not say: an eighth is an estimate, by the times that test_topic_regex.c
     * prints. */
    regex->step_work = size / 8 + NAME_WORK * (1 + t->properties);
    regex->data = pcre2_match_data_create(1, regex->general);
    return regex->data == NULL ? ERR_NOMEM : ERR_OK;
}

static enum err make(struct bytes text, struct topic_regex **regex, char *why)
{
    struct topic_regex *made = mem_calloc(1, sizeof(*made));
    struct translation t = {.from = text};
    enum err err = ERR_NOMEM;

    if (made == NULL)
        return ERR_NOMEM;
    if (text.size > TOPIC_REGEX_BYTES_MAX) {
        (void)snprintf(why, WHY_BYTES, TOO_LARGE);
        err = ERR_INVALID_REGULAR_EXPRESSION;
        goto out;
    }
    t.to = mem_alloc(text.size * GROWTH + CODE_ROOM_EXTRA);
    if (t.to == NULL)
        goto out;
    while (t.at < text.size && t.why == NULL)
        one(&t);
    if (t.why != NULL) {
        (void)snprintf(why, WHY_BYTES, "%s", t.why);
        err = ERR_INVALID_REGULAR_EXPRESSION;
        goto out;
    }
    err = contexts(made);
    if (err == ERR_OK)
        err = compile(made, &t, why);
    if (err != ERR_OK)
        goto out;
    *regex = made;
    made = NULL;
out:
    mem_free(t.to);
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

static bool is_limit(int result)
{
    return result == PCRE2_ERROR_MATCHLIMIT || result == PCRE2_ERROR_DEPTHLIMIT || result == PCRE2_ERROR_HEAPLIMIT;
}

bool topic_regex_matches(struct topic_regex *regex, struct bytes name, uint32_t *cost, uint32_t *tired)
{
    size_t work = TOPIC_REGEX_COST_WORK;
    size_t work_max = *tired < TOPIC_REGEX_TIRED_MAX ? TOPIC_REGEX_WORK_MAX : TOPIC_REGEX_COST_WORK;
    int result = 0;

    if (regex->tired && *tired >= TOPIC_REGEX_TIRED_MAX) {
        *cost += 1;
        return false;
    }
    /* PCRE2 does not say what it did, but stops where told to: little is tried first, so that little is counted. */
    for (;; work *= TOPIC_REGEX_WORK_GROWTH) {
        size_t steps = work / regex->step_work;

        (void)pcre2_set_match_limit(regex->match, steps == 0 ? 1 : (uint32_t)steps);
        result = pcre2_match(regex->code, name.data, name.size, 0, 0, regex->data, regex->match);
        *cost += (uint32_t)(work / TOPIC_REGEX_COST_WORK);
        if (!is_limit(result))
            return result >= 0;
        if (result != PCRE2_ERROR_MATCHLIMIT || work * TOPIC_REGEX_WORK_GROWTH > work_max)
            break;
    }
    regex->tired = true;
    *tired += 1;
    return false;
}
