#include "broker/config_duration.h"

#include <stdint.h>

enum { FRACTION_DIGITS_MAX = 9, DECIMAL = 10 };

static bool next_is(const struct bytes *rest, char small)
{
    return rest->size > 0 && (rest->data[0] | 0x20) == (uint8_t)small;
}

static void skip(struct bytes *rest)
{
    rest->data++;
    rest->size--;
}

static bool next_is_digit(const struct bytes *rest)
{
    return rest->size > 0 && byte_is_digit(rest->data[0]);
}

/* True: it was a minus. */
static bool take_sign(struct bytes *rest)
{
    bool minus = rest->size > 0 && rest->data[0] == '-';

    if (minus || (rest->size > 0 && rest->data[0] == '+'))
        skip(rest);
    return minus;
}

/* What was read so far, in seconds, and whether there is a fraction below them. */
struct sum {
    int64_t seconds;
    int fraction; /* -1, 0, 1: its sign */
    bool any, wrong;
};

/* Behind the whole seconds. */
static void take_fraction(struct bytes *rest, bool minus, struct sum *sum)
{
    uint32_t digits = 0;

    if (rest->size == 0 || (rest->data[0] != '.' && rest->data[0] != ','))
        return;
    skip(rest);
    for (; next_is_digit(rest); digits++) {
        if (rest->data[0] != '0')
            sum->fraction = minus ? -1 : 1;
        skip(rest);
    }
    sum->wrong |= digits > FRACTION_DIGITS_MAX;
}

/* A number with that unit behind it, where one stands; another one is left for the next. */
static void take_part(struct bytes *rest, char unit, int64_t seconds, struct sum *sum)
{
    struct bytes at = *rest;
    bool minus = take_sign(&at);
    bool wrong = !next_is_digit(&at);
    int64_t number = 0;
    struct sum with = *sum;

    for (; next_is_digit(&at); skip(&at))
        wrong |= __builtin_mul_overflow(number, DECIMAL, &number) ||
                 __builtin_add_overflow(number, at.data[0] - '0', &number);
    if (unit == 's')
        take_fraction(&at, minus, &with);
    if (!next_is(&at, unit))
        return;
    skip(&at);
    with.wrong |= wrong || __builtin_mul_overflow(number, minus ? -seconds : seconds, &number) ||
                  __builtin_add_overflow(with.seconds, number, &with.seconds);
    with.any = true;
    *sum = with;
    *rest = at;
}

bool config_is_duration(struct bytes text)
{
    struct bytes rest = text;
    struct sum sum = {0};
    bool minus = take_sign(&rest);
    bool backwards = false;

    if (!next_is(&rest, 'p'))
        return false;
    skip(&rest);
    take_part(&rest, 'd', INT64_C(86400), &sum);
    if (next_is(&rest, 't')) {
        skip(&rest);
        sum.any = false; /* something has to follow it */
        take_part(&rest, 'h', 3600, &sum);
        take_part(&rest, 'm', 60, &sum);
        take_part(&rest, 's', 1, &sum);
    }
    if (!sum.any || sum.wrong || rest.size > 0)
        return false;
    backwards = minus ? sum.seconds > 0 || (sum.seconds == 0 && sum.fraction > 0)
                      : sum.seconds < 0 || (sum.seconds == 0 && sum.fraction < 0);
    return !backwards;
}
