/*
 * bytes: a borrowed run of bytes. Null (where Kafka has nullable strings and bytes) is data == NULL; an empty
 * one that is not null has data != NULL. Never owns; lives as long as what it points into.
 */
#ifndef OTTLA_BASE_BYTES_H
#define OTTLA_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct bytes {
    const uint8_t *data;
    size_t size; /* in bytes */
};

/* Of a string literal or array, without its closing NUL. */
#define BYTES_LITERAL(text) ((struct bytes){(const uint8_t *)("" text), sizeof(text) - 1})

static inline struct bytes bytes_of(const void *data, size_t size)
{
    return (struct bytes){data, size};
}

/* Of a C string; null of NULL. */
static inline struct bytes bytes_of_text(const char *text)
{
    return (struct bytes){(const uint8_t *)text, text == NULL ? 0 : strlen(text)};
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* But for the case of ASCII's letters. */
static inline bool bytes_equal_any_case(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || strncasecmp((const char *)a.data, (const char *)b.data, a.size) == 0);
}

/* Lexicographic by unsigned byte: <0, 0, >0. */
static inline int bytes_compare(struct bytes a, struct bytes b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* The same for qsort and bsearch over an array of struct bytes. */
static inline int bytes_compare_elements(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* ASCII's, with tabs and line ends. */
static inline bool byte_is_space(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* ASCII's letters and digits; none of them is -1, which may come for an end. */
static inline bool byte_is_digit(int byte)
{
    return byte >= '0' && byte <= '9';
}

static inline bool byte_is_letter(int byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

/* What a hexadecimal digit stands for; -1: it is none (nor is -1, which may come for an end). */
static inline int byte_hex_digit(int byte)
{
    return byte >= '0' && byte <= '9'   ? byte - '0'
           : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
           : byte >= 'A' && byte <= 'F' ? byte - 'A' + 10
                                        : -1;
}

/* Without the space around it. */
static inline struct bytes bytes_trim(struct bytes text)
{
    while (text.size > 0 && byte_is_space(text.data[0]))
        text = bytes_of(text.data + 1, text.size - 1);
    while (text.size > 0 && byte_is_space(text.data[text.size - 1]))
        text.size--;
    return text;
}

/* For printf: "%.*s", BYTES_PRINTF(name). */
#define BYTES_PRINTF(b) (int)((b).size), (const char *)((b).data == NULL ? (const uint8_t *)"" : (b).data)

#endif
