#include "coordinator/re2_read.h"

#include <string.h>

#include "base/utf8.h"

#define BAD_RANGE  "invalid character class range"
#define BAD_ESCAPE "invalid escape sequence"

int re2_peek(const struct re2_reader *reader, size_t ahead)
{
    return reader->at + ahead < reader->from.size ? reader->from.data[reader->at + ahead] : -1;
}

struct bytes re2_rest(const struct re2_reader *reader)
{
    return bytes_of(reader->from.data + reader->at, reader->from.size - reader->at);
}

bool re2_looking_at(const struct re2_reader *reader, const char *text)
{
    size_t size = strlen(text);

    return re2_rest(reader).size >= size && memcmp(re2_rest(reader).data, text, size) == 0;
}

static bool is_octal(int c)
{
    return c >= '0' && c <= '7';
}

void re2_fail(struct re2_reader *reader, const char *why)
{
    if (reader->why == NULL)
        reader->why = why;
}

uint32_t re2_next_char(struct re2_reader *reader)
{
    struct bytes rest = re2_rest(reader);
    size_t before = rest.size;
    uint32_t code = 0;

    if (!utf8_take(&rest, &code)) {
        re2_fail(reader, "invalid UTF-8");
        return 0;
    }
    reader->at += before - rest.size;
    return code;
}

static uint32_t hex_escape(struct re2_reader *reader) /* behind \x */
{
    uint32_t code = 0;
    size_t at = 1;

    if (re2_peek(reader, 0) != '{') {
        if (byte_hex_digit(re2_peek(reader, 0)) < 0 || byte_hex_digit(re2_peek(reader, 1)) < 0) {
            re2_fail(reader, BAD_ESCAPE);
            return 0;
        }
        code = (uint32_t)(byte_hex_digit(re2_peek(reader, 0)) * 16 + byte_hex_digit(re2_peek(reader, 1)));
        reader->at += 2;
        return code;
    }
    for (; byte_hex_digit(re2_peek(reader, at)) >= 0 && code <= CHAR_SET_CODE_MAX; at++)
        code = code * 16 + (uint32_t)byte_hex_digit(re2_peek(reader, at));
    if (at == 1 || re2_peek(reader, at) != '}' || code > CHAR_SET_CODE_MAX) {
        re2_fail(reader, BAD_ESCAPE);
        return 0;
    }
    reader->at += at + 1;
    return code;
}

static uint32_t octal_escape(struct re2_reader *reader) /* at its first digit */
{
    uint32_t code = 0;

    if (re2_peek(reader, 0) != '0' && !is_octal(re2_peek(reader, 1))) {
        re2_fail(reader, BAD_ESCAPE); /* a back-reference */
        return 0;
    }
    for (int i = 0; i < 3 && is_octal(re2_peek(reader, 0)); i++)
        code = code * 8 + (uint32_t)(reader->from.data[reader->at++] - '0');
    return code;
}

/* The one character that an escape stands for. */
uint32_t re2_escaped_char(struct re2_reader *reader) /* behind the backslash */
{
    static const char letters[] = "afnrtv";
    static const char controls[] = "\a\f\n\r\t\v";
    int c = re2_peek(reader, 0);

    if (c < 0) {
        re2_fail(reader, "trailing backslash at end of expression");
        return 0;
    }
    if (is_octal(c))
        return octal_escape(reader);
    if (!byte_is_digit(c) && !byte_is_letter(c))
        return re2_next_char(reader);
    reader->at++;
    if (c == 'x')
        return hex_escape(reader);
    if (re2_is_one_of(letters, c))
        return (uint32_t)controls[strchr(letters, c) - letters];
    re2_fail(reader, BAD_ESCAPE);
    return 0;
}

/* \pN, \p{Greek}, \P{^Greek} */
static void property(struct re2_reader *reader, struct char_set *set) /* at the p */
{
    struct char_set its = {0};
    struct bytes name = {0};
    bool negated = re2_peek(reader, 0) == 'P';

    reader->at++;
    if (re2_peek(reader, 0) == '{') {
        size_t size = 1;

        while (re2_peek(reader, size) >= 0 && re2_peek(reader, size) != '}')
            size++;
        name = bytes_of(re2_rest(reader).data + 1, size - 1);
        if (re2_peek(reader, size) != '}')
            re2_fail(reader, BAD_RANGE);
        reader->at += size + 1;
    } else if (re2_peek(reader, 0) >= 0) {
        name = bytes_of(re2_rest(reader).data, 1);
        reader->at++;
    }
    if (name.size > 0 && name.data[0] == '^') {
        negated = !negated;
        name = bytes_of(name.data + 1, name.size - 1);
    }
    if (!char_set_add_property(&its, name, reader->folds))
        re2_fail(reader, BAD_RANGE);
    if (negated)
        char_set_negate(&its);
    char_set_add_all(set, &its);
}

/* \d and its like, and properties. False: nothing of the kind is next. */
bool re2_escaped_set(struct re2_reader *reader, struct char_set *set) /* at the backslash */
{
    struct char_set its = {0};
    int c = re2_peek(reader, 1);

    if (re2_peek(reader, 0) != '\\' || !re2_is_one_of("dDsSwWpP", c))
        return false;
    reader->at++;
    if (c == 'p' || c == 'P') {
        property(reader, set);
        return true;
    }
    reader->at++;
    char_set_add_perl(&its, c | ('a' ^ 'A'));
    if (c < 'a')
        char_set_negate(&its);
    char_set_add_all(set, &its);
    return true;
}

/* [:alpha:] within a class. False: nothing of the kind is next. */
static bool named_set(struct re2_reader *reader, struct char_set *set)
{
    struct char_set its = {0};
    struct bytes name = {0};
    bool negated = re2_peek(reader, 2) == '^';
    size_t from = negated ? 3 : 2;
    size_t end = from;

    if (!re2_looking_at(reader, "[:"))
        return false;
    while (re2_peek(reader, end) >= 0 && !(re2_peek(reader, end) == ':' && re2_peek(reader, end + 1) == ']'))
        end++;
    if (re2_peek(reader, end) < 0)
        return false;
    name = bytes_of(re2_rest(reader).data + from, end - from);
    if (!char_set_add_posix(&its, name, reader->folds))
        re2_fail(reader, BAD_RANGE);
    if (negated)
        char_set_negate(&its);
    char_set_add_all(set, &its);
    reader->at += end + 2;
    return true;
}

static uint32_t class_char(struct re2_reader *reader)
{
    if (re2_peek(reader, 0) < 0) {
        re2_fail(reader, "missing closing ]");
        return 0;
    }
    if (re2_peek(reader, 0) != '\\')
        return re2_next_char(reader);
    reader->at++;
    return re2_escaped_char(reader);
}

static void class_range(struct re2_reader *reader, struct char_set *set)
{
    uint32_t low = class_char(reader);
    uint32_t high = low;

    if (re2_peek(reader, 0) == '-' && re2_peek(reader, 1) != ']') {
        reader->at++;
        high = class_char(reader);
    }
    if (high < low)
        re2_fail(reader, BAD_RANGE);
    else
        char_set_add(set, low, high, reader->folds);
}

void re2_class(struct re2_reader *reader, struct char_set *set)
{
    bool negated = re2_peek(reader, 1) == '^';

    reader->at += negated ? 2 : 1;
    for (bool first = true; reader->why == NULL && (re2_peek(reader, 0) != ']' || first); first = false) {
        if (!named_set(reader, set) && !re2_escaped_set(reader, set))
            class_range(reader, set);
    }
    reader->at++;
    if (negated)
        char_set_negate(set);
}
