#include "transcript/transcript.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void transcript_begin(struct transcript *transcript)
{
    transcript->text[0] = 0;
    transcript->size = 0;
}

void transcript_say(struct transcript *transcript, const char *format, ...)
{
    va_list list;
    int size = 0;

    va_start(list, format);
    size = vsnprintf(transcript->text + transcript->size, sizeof(transcript->text) - transcript->size, format, list);
    va_end(list);
    ck_assert(size >= 0 && transcript->size + (size_t)size < sizeof(transcript->text));
    transcript->size += (size_t)size;
}

void transcript_expect_in(const struct transcript *transcript, const char *dir, const char *name)
{
    static char expected[TRANSCRIPT_BYTES_MAX];
    char path[4096];
    bool write = getenv("OTTLA_WRITE_TRANSCRIPTS") != NULL;
    FILE *file = NULL;
    size_t size = 0;

    (void)snprintf(path, sizeof(path), "%s/transcripts/%s.txt", dir, name);
    file = fopen(path, write ? "w" : "r");
    ck_assert_msg(file != NULL, "%s cannot be opened", path);
    if (write)
        (void)fwrite(transcript->text, 1, transcript->size, file);
    else
        size = fread(expected, 1, sizeof(expected) - 1, file);
    (void)fclose(file);
    expected[size] = 0;
    if (write || strcmp(transcript->text, expected) == 0)
        return;
    fprintf(stderr, "%s says:\n%s\ngot:\n%s", path, expected, transcript->text);
    ck_abort_msg("%s says something else", path);
}

static void count(struct rng *rng, void *to, size_t size)
{
    struct counting_rng *counting = (struct counting_rng *)rng;

    for (size_t i = 0; i < size; i++)
        ((uint8_t *)to)[i] = counting->next++;
}

void counting_rng_init(struct counting_rng *rng)
{
    *rng = (struct counting_rng){.rng = {.fill = count}};
}

struct uuid test_uuid(uint8_t last)
{
    struct uuid id = {{0}};

    id.bytes[UUID_BYTES - 1] = last;
    return id;
}
