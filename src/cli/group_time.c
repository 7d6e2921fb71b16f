/* Times and durations on the command line, in the forms that kafka-consumer-groups takes too. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/group_command.h"

#define MS_PER_S   INT64_C(1000)
#define MS_PER_MIN (60 * MS_PER_S)
#define MS_PER_H   (60 * MS_PER_MIN)
#define MS_PER_DAY (24 * MS_PER_H)

enum { DECIMAL = 10, EPOCH_YEAR = 1970, MONTHS = 12, FRACTION_DIGITS = 3, DIGITS_MAX = 15 };

/* Exactly that many digits. */
static bool take_digits(const char **at, int count, int64_t *value)
{
    *value = 0;
    for (int i = 0; i < count; i++, (*at)++) {
        if (**at < '0' || **at > '9')
            return false;
        *value = *value * DECIMAL + (**at - '0');
    }
    return true;
}

static bool take(const char **at, char what)
{
    if (**at != what)
        return false;
    (*at)++;
    return true;
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t days_of_month(int64_t year, int64_t month)
{
    static const int days[MONTHS] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

static int64_t days_since_epoch(int64_t year, int64_t month, int64_t day)
{
    int64_t days = day - 1;

    for (int64_t at = EPOCH_YEAR; at < year; at++)
        days += is_leap(at) ? 366 : 365;
    for (int64_t at = 1; at < month; at++)
        days += days_of_month(year, at);
    return days;
}

/* ".123" or nothing. */
static bool take_fraction(const char **at, int64_t *ms)
{
    int64_t scale = 100;

    *ms = 0;
    if (!take(at, '.'))
        return true;
    if (**at < '0' || **at > '9')
        return false;
    for (; byte_is_digit(**at); (*at)++, scale /= DECIMAL)
        *ms += scale * (**at - '0');
    return true;
}

/* "Z", "+01:00", "-0330" or nothing. */
static bool take_zone(const char **at, int64_t *ms)
{
    int64_t hours = 0;
    int64_t minutes = 0;
    bool west = **at == '-';

    *ms = 0;
    if (**at == '\0' || take(at, 'Z'))
        return true;
    if (!west && **at != '+')
        return false;
    (*at)++;
    if (!take_digits(at, 2, &hours))
        return false;
    (void)take(at, ':');
    if (**at != '\0' && !take_digits(at, 2, &minutes))
        return false;
    *ms = (west ? -1 : 1) * (hours * MS_PER_H + minutes * MS_PER_MIN);
    return true;
}

bool group_command_parse_time(const char *text, int64_t *ms)
{
    int64_t year = 0;
    int64_t month = 0;
    int64_t day = 0;
    int64_t hour = 0;
    int64_t minute = 0;
    int64_t second = 0;
    int64_t fraction = 0;
    int64_t zone = 0;

    if (!take_digits(&text, 4, &year) || !take(&text, '-') || !take_digits(&text, 2, &month) || !take(&text, '-') ||
        !take_digits(&text, 2, &day) || year < EPOCH_YEAR || month < 1 || month > MONTHS || day < 1 ||
        day > days_of_month(year, month))
        return false;
    if (take(&text, 'T') || take(&text, ' ')) {
        if (!take_digits(&text, 2, &hour) || !take(&text, ':') || !take_digits(&text, 2, &minute))
            return false;
        if (take(&text, ':') && (!take_digits(&text, 2, &second) || !take_fraction(&text, &fraction)))
            return false;
        if (!take_zone(&text, &zone))
            return false;
    }
    if (*text != '\0' || hour > 23 || minute > 59 || second > 60)
        return false;
    *ms = days_since_epoch(year, month, day) * MS_PER_DAY + hour * MS_PER_H + minute * MS_PER_MIN + second * MS_PER_S +
          fraction - zone;
    return *ms >= 0;
}

/* What may stand in a duration, in this order. */
static const struct {
    char letter;
    bool of_time;
    int64_t ms;
} parts[] = {
    {'W', false, 7 * MS_PER_DAY}, {'D', false, MS_PER_DAY}, {'H', true, MS_PER_H},
    {'M', true, MS_PER_MIN},      {'S', true, MS_PER_S},
};

bool group_command_parse_duration(const char *text, int64_t *ms)
{
    size_t next = 0;
    bool of_time = false;
    bool any = false;

    *ms = 0;
    if (!take(&text, 'P'))
        return false;
    while (*text != '\0') {
        int64_t number = 0;
        int64_t fraction = 0;
        int digits = 0;

        if (!of_time && take(&text, 'T')) {
            of_time = true;
            continue;
        }
        while (byte_is_digit(*text) && digits++ < DIGITS_MAX)
            number = number * DECIMAL + (*text++ - '0');
        if (digits == 0 || !take_fraction(&text, &fraction))
            return false;
        while (next < sizeof(parts) / sizeof(parts[0]) &&
               (parts[next].letter != *text || parts[next].of_time != of_time))
            next++;
        if (next == sizeof(parts) / sizeof(parts[0]) || (fraction > 0 && *text != 'S'))
            return false;
        text++;
        if (__builtin_mul_overflow(number, parts[next].ms, &number) || __builtin_add_overflow(*ms, number, ms))
            return false;
        *ms += fraction;
        any = true;
        next++;
    }
    return any;
}
