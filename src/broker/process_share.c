#include "broker/process_share.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    DESCRIPTORS_WANTED = 20000,
    DESCRIPTORS_OWN = 32, /* of the process itself: loops, pipes, the log */
    CGROUP_TEXT_BYTES = 32,
};

#define MEMORY_SHARE_DIVISOR 3 /* of what the machine gives: the rest is for files' pages and the metadata */
#define MEMORY_BYTES_MAX     ((uint64_t)1024 * 1024 * 1024)

uint32_t process_cpu_count(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 1;
    return CPU_COUNT(&set) > 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

/* The limit of the control group, where there is one. */
static uint64_t cgroup_bytes(struct fs *fs)
{
    char text[CGROUP_TEXT_BYTES] = "";
    struct fs_file *file = NULL;
    size_t got = 0;
    uint64_t bytes = UINT64_MAX;

    if (fs_open(fs, "/sys/fs/cgroup/memory.max", FS_READ, &file) != ERR_OK)
        return bytes;
    if (fs_read(file, 0, text, sizeof(text) - 1, &got) == ERR_OK && got > 0 && byte_is_digit(text[0]))
        bytes = strtoull(text, NULL, 10);
    fs_file_drop(file);
    return bytes;
}

uint64_t process_memory_share(struct fs *fs)
{
    struct rlimit limit;
    uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t group = cgroup_bytes(fs);

    if (group < bytes)
        bytes = group;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes)
        bytes = limit.rlim_cur;
    bytes /= MEMORY_SHARE_DIVISOR;
    return bytes < MEMORY_BYTES_MAX ? bytes : MEMORY_BYTES_MAX;
}

/* A table of descriptors that is full is doubled by the kernel, and where threads share it, whoever opens the next one
 * waits for an RCU grace period then (Linux fs/file.c, expand_fdtable): 10 ms of accept, on a reactor. With one thread
 * it does not wait, and the table never shrinks: 8 bytes each. */
static void grow_table(rlim_t count)
{
    int last = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, (int)count - 1);

    if (last >= 0)
        (void)close(last);
}

uint32_t process_raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    if (limit.rlim_cur < DESCRIPTORS_WANTED && limit.rlim_max > limit.rlim_cur) {
        limit.rlim_cur = limit.rlim_max < DESCRIPTORS_WANTED ? limit.rlim_max : DESCRIPTORS_WANTED;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
            return 0;
    }
    if (limit.rlim_cur > DESCRIPTORS_WANTED)
        limit.rlim_cur = DESCRIPTORS_WANTED;
    grow_table(limit.rlim_cur);
    return limit.rlim_cur > 2 * DESCRIPTORS_OWN ? (uint32_t)limit.rlim_cur - DESCRIPTORS_OWN : DESCRIPTORS_OWN;
}
