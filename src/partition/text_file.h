/*
 * text_file: small files read and replaced as a whole. A replacement is written beside the old file, synced and renamed
 * over it, so that a crash leaves the old or the new one, never a part.
 *
 * Threads  all calls block: in a job.
 */
#ifndef OTTLA_PARTITION_TEXT_FILE_H
#define OTTLA_PARTITION_TEXT_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/fs.h"

enum { TEXT_FILE_BYTES_MAX = 64 * 1024 * 1024 }; /* a checkpoint of 200,000 partitions is a fifth of that */

/* Grows as it is written to; all-zero is empty. Once memory has run out it stays failed. */
struct text {
    char *data;
    size_t size;
    size_t room;
    bool failed;
};

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_deinit(struct text *text);
/* Adds the last line of a file that vouches for itself: the CRC-32C of all lines above, 8 hex digits. Whatever version
 * says what those lines are, this one stays, so that a flipped bit is told from a later version. */
void text_seal(struct text *text);
/* The lines above it; false: it is not there, not the last, or not of them. Only the newline behind it may be missing.
 */
bool text_unseal(struct bytes *file);

/* Reads <dir>/<name>; the text's data has a NUL behind it. ERR_NOT_FOUND; ERR_LIMIT: larger than bytes_max. */
MUST_CHECK enum err text_file_read(struct fs *fs, const char *dir, const char *name, size_t bytes_max,
                                   struct text *text);
/* Writes <dir>/<name>.tmp, syncs it, renames it to <name> and syncs the directory. Any failure leaves the old file;
 * that of a sync is ERR_IO, whatever it was. */
MUST_CHECK enum err text_file_replace(struct fs *fs, const char *dir, const char *name, struct bytes content);
/* The same, but for the directory's sync: where the caller changes more names in it, and syncs it once for all. */
MUST_CHECK enum err text_file_replace_unnamed(struct fs *fs, const char *dir, const char *name, struct bytes content);
/* The same without any sync: for what is rebuilt when it is lost. */
MUST_CHECK enum err text_file_replace_lazily(struct fs *fs, const char *dir, const char *name, struct bytes content);

/* In two steps, for many files between which one sync stands for all: <dir>/<name>.tmp is written; then renamed. */
MUST_CHECK enum err text_file_write_beside(struct fs *fs, const char *dir, const char *name, struct bytes content);
MUST_CHECK enum err text_file_take_place(struct fs *fs, const char *dir, const char *name);

/* Cuts the next line (without its newline) off the front of *rest. False: nothing is left. */
bool text_next_line(struct bytes *rest, struct bytes *line);
/* Cuts the next word off, skipping spaces and tabs. False: only spaces are left. */
bool text_next_word(struct bytes *rest, struct bytes *word);
/* A whole decimal number, with an optional sign. */
bool text_parse_i64(struct bytes word, int64_t *value);

#endif
