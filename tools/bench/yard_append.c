/* Appending to a fresh file through the page cache, 64 KiB a write. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "yardstick.h"

enum { WRITE_BYTES = 64 << 10, WRITES = 16384 }; /* 1 GiB */

void yard_append(const char *folder, int64_t scale)
{
    int64_t writes = WRITES / scale + 1;
    uint8_t *chunk = calloc(1, WRITE_BYTES);
    int file = yard_file_new(folder);
    double cpu = yard_cpu_seconds();
    int64_t started = yard_now_ns(), bytes = writes * WRITE_BYTES;

    if (chunk == NULL)
        yard_die("memory");
    for (int64_t i = 0; i < writes; i++)
        yard_write_all(file, chunk, WRITE_BYTES);
    started = yard_now_ns() - started;
    cpu = yard_cpu_seconds() - cpu;
    printf("{\"gb_per_s\": %.3f, \"cpu_s_per_gb\": %.3f, \"bytes\": %" PRId64 "}\n", (double)bytes / (double)started,
           cpu * 1e9 / (double)bytes, bytes);
    close(file);
    free(chunk);
}
