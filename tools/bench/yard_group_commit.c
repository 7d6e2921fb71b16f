/*
 * A hundred writers of 1 KiB records that wait for the disk: all in one file with one sync for the round,
 * and each in a file of its own with a sync each. What lies between the two is what a shared journal gains.
 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "histogram.h"
#include "yardstick.h"

enum { WRITERS = 100, RECORD_BYTES = 1 << 10, SHARED_ROUNDS = 2000, OWN_ROUNDS = 30 };

static void sync_data(int file)
{
    if (fdatasync(file) < 0)
        yard_die("fdatasync");
}

static double shared(const char *folder, int64_t rounds, struct histogram *round_us)
{
    static uint8_t records[WRITERS * RECORD_BYTES];
    int file = yard_file_new(folder);
    int64_t started = yard_now_ns();

    for (int64_t round = 0; round < rounds; round++) {
        int64_t begin = yard_now_ns();

        yard_write_all(file, records, sizeof records);
        sync_data(file);
        histogram_add(round_us, (yard_now_ns() - begin) / 1000);
    }
    started = yard_now_ns() - started;
    close(file);
    return (double)(rounds * WRITERS) * 1e9 / (double)started;
}

static double own(const char *folder, int64_t rounds)
{
    static uint8_t record[RECORD_BYTES];
    int files[WRITERS];
    int64_t started;

    for (int i = 0; i < WRITERS; i++)
        files[i] = yard_file_new(folder);
    started = yard_now_ns();
    for (int64_t round = 0; round < rounds; round++) {
        for (int i = 0; i < WRITERS; i++) {
            yard_write_all(files[i], record, sizeof record);
            sync_data(files[i]);
        }
    }
    started = yard_now_ns() - started;
    for (int i = 0; i < WRITERS; i++)
        close(files[i]);
    return (double)(rounds * WRITERS) * 1e9 / (double)started;
}

void yard_group_commit(const char *folder, int64_t scale)
{
    static struct histogram round_us;
    double together = shared(folder, SHARED_ROUNDS / scale + 1, &round_us);
    double apart = own(folder, OWN_ROUNDS / scale + 1);

    printf("{\"shared_commits_per_s\": %.0f, \"own_file_commits_per_s\": %.0f, \"round_p50_us\": %" PRId64
           ", \"round_p99_us\": %" PRId64 "}\n",
           together, apart, histogram_at(&round_us, 0.5), histogram_at(&round_us, 0.99));
}
