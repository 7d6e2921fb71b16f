#include "partition/log_path.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

enum { BASE_DIGITS = 20, UNIQUE_HEX_CHARS = 32, INDEX_CHARS_MAX = 10 };

enum err log_path_in(struct log_path *path, const char *dir, const char *name)
{
    int size = snprintf(path->text, sizeof(path->text), "%s/%s", dir, name);

    return size > 0 && (size_t)size < sizeof(path->text) ? ERR_OK : ERR_LIMIT;
}

void log_path_segment(struct log_path *path, const char *dir, int64_t base_offset, const char *suffix)
{
    int size = 0;

    assert(base_offset >= 0);
    size = snprintf(path->text, sizeof(path->text), "%s/%020" PRId64 "%s", dir, base_offset, suffix);
    assert(size > 0 && (size_t)size < sizeof(path->text));
}

/* At most INT64_MAX; false on any other character. */
static bool digits_parse(const char *text, size_t size, int64_t max, int64_t *value)
{
    int64_t sum = 0;

    if (size == 0)
        return false;
    for (size_t i = 0; i < size; i++) {
        int64_t digit = text[i] - '0';

        if (digit < 0 || digit > 9 || sum > (max - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *value = sum;
    return true;
}

bool log_path_parse_segment(const char *name, int64_t *base_offset, const char **suffix)
{
    if (strnlen(name, BASE_DIGITS) < BASE_DIGITS || name[BASE_DIGITS] != '.')
        return false;
    *suffix = name + BASE_DIGITS;
    return digits_parse(name, BASE_DIGITS, INT64_MAX, base_offset);
}

static bool ends_with(const char *name, size_t size, const char *suffix)
{
    size_t suffix_size = strlen(suffix);

    return size > suffix_size && memcmp(name + size - suffix_size, suffix, suffix_size) == 0;
}

static bool partition_parse(const char *name, size_t size, struct bytes *topic, int32_t *partition)
{
    const char *dash = memrchr(name, '-', size);
    int64_t value = 0;

    if (dash == NULL || dash == name)
        return false;
    if (!digits_parse(dash + 1, size - (size_t)(dash + 1 - name), INT32_MAX, &value))
        return false;
    *topic = bytes_of(name, (size_t)(dash - name));
    *partition = (int32_t)value;
    return true;
}

enum log_dir_kind log_path_parse_dir(const char *name, struct bytes *topic, int32_t *partition)
{
    size_t size = strlen(name);
    enum log_dir_kind kind = LOG_DIR_KIND_PARTITION;

    if (ends_with(name, size, "-delete"))
        kind = LOG_DIR_KIND_DELETE;
    else if (ends_with(name, size, "-future"))
        kind = LOG_DIR_KIND_FUTURE;
    else if (ends_with(name, size, "-stray"))
        kind = LOG_DIR_KIND_STRAY;
    if (kind != LOG_DIR_KIND_PARTITION) {
        const char *dot = memrchr(name, '.', size);

        if (dot == NULL) /* a topic may end so: "t-delete" is none of ours, "t-delete-0" is a partition */
            return LOG_DIR_KIND_OTHER;
        size = (size_t)(dot - name);
    }
    return partition_parse(name, size, topic, partition) ? kind : LOG_DIR_KIND_OTHER;
}

enum err log_path_dir_name(struct log_dir_name *name, struct bytes topic, int32_t partition)
{
    int size = snprintf(name->text, sizeof(name->text), "%.*s-%" PRId32, BYTES_PRINTF(topic), partition);

    assert(partition >= 0);
    return size > 0 && (size_t)size < sizeof(name->text) ? ERR_OK : ERR_LIMIT;
}

void log_path_aside_name(struct log_dir_name *name, struct bytes topic, int32_t partition, struct uuid unique,
                         const char *suffix)
{
    char hex[UNIQUE_HEX_CHARS + 1];
    char index[INDEX_CHARS_MAX + 1];
    size_t rest = 0;
    int size = 0;

    for (size_t i = 0; i < UUID_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", unique.bytes[i]);
    snprintf(index, sizeof(index), "%" PRId32, partition);
    rest = 1 + strlen(index) + 1 + UNIQUE_HEX_CHARS + strlen(suffix);
    if (topic.size > LOG_NAME_BYTES_MAX - rest)
        topic.size = LOG_NAME_BYTES_MAX - rest;
    size = snprintf(name->text, sizeof(name->text), "%.*s-%s.%s%s", BYTES_PRINTF(topic), index, hex, suffix);
    assert(size > 0 && (size_t)size < sizeof(name->text));
}
