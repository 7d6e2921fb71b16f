/* Rule: the real files keep the contract of base/fs.h: errors by name, whole reads, short writes told, a lock that
 * keeps a second broker out, in this process too. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"

/* Linked with --wrap=mem_calloc: the allocation that this counts down to fails. */
static int allocations_left = -1;

void *__real_mem_calloc(size_t count, size_t size);
void *__wrap_mem_calloc(size_t count, size_t size);

void *__wrap_mem_calloc(size_t count, size_t size)
{
    if (allocations_left == 0)
        return NULL;
    if (allocations_left > 0)
        allocations_left--;
    return __real_mem_calloc(count, size);
}

/* Linked with --wrap=preadv64v2: a file system that does not know RWF_NOWAIT, as overlayfs. */
static bool nowait_refused;

ssize_t __real_preadv64v2(int fd, const struct iovec *pieces, int count, off_t position, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *pieces, int count, off_t position, int flags);

ssize_t __wrap_preadv64v2(int fd, const struct iovec *pieces, int count, off_t position, int flags)
{
    if (nowait_refused && (flags & RWF_NOWAIT) != 0) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return __real_preadv64v2(fd, pieces, count, position, flags);
}

static struct {
    struct fs fs;
    char dir[200];
    char path[300];
} t;

static void setup(void)
{
    const char *tmp = getenv("TMPDIR");

    fs_init_real(&t.fs);
    snprintf(t.dir, sizeof(t.dir), "%s/ottla-fs-XXXXXX", tmp != NULL ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(t.dir));
    snprintf(t.path, sizeof(t.path), "%s/file", t.dir);
}

static enum err remove_entry(void *context, const char *name, bool is_directory)
{
    char path[600];

    (void)context;
    snprintf(path, sizeof(path), "%s/%s", t.dir, name);
    return is_directory ? fs_rmdir(&t.fs, path) : fs_unlink(&t.fs, path);
}

static void teardown(void)
{
    ck_assert_int_eq(fs_list(&t.fs, t.dir, remove_entry, NULL), ERR_OK);
    ck_assert_int_eq(fs_rmdir(&t.fs, t.dir), ERR_OK);
}

static struct fs_file *open_file(int flags)
{
    struct fs_file *file = NULL;

    ck_assert_int_eq(fs_open(&t.fs, t.path, flags, &file), ERR_OK);
    return file;
}

static const char *in_dir(const char *name)
{
    static char path[600];

    snprintf(path, sizeof(path), "%s/%s", t.dir, name);
    return path;
}

START_TEST(open_says_what_is_wrong)
{
    struct fs_file *file = NULL;

    ck_assert_int_eq(fs_open(&t.fs, t.path, FS_READ, &file), ERR_NOT_FOUND);
    ck_assert_int_eq(fs_open(&t.fs, in_dir("no/such"), FS_READ | FS_WRITE | FS_CREATE, &file), ERR_NOT_FOUND);
    fs_file_drop(open_file(FS_WRITE | FS_CREATE | FS_EXCLUSIVE));
    ck_assert_int_eq(fs_open(&t.fs, t.path, FS_WRITE | FS_CREATE | FS_EXCLUSIVE, &file), ERR_EXISTS);
    ck_assert_int_eq(fs_mkdir(&t.fs, t.path), ERR_EXISTS);
    ck_assert_int_eq(fs_rmdir(&t.fs, in_dir("none")), ERR_NOT_FOUND);
    ck_assert_int_eq(fs_unlink(&t.fs, in_dir("none")), ERR_NOT_FOUND);
    ck_assert_int_eq(fs_rename(&t.fs, in_dir("none"), in_dir("other")), ERR_NOT_FOUND);
    ck_assert_int_eq(fs_sync_dir(&t.fs, in_dir("none")), ERR_NOT_FOUND);
    ck_assert_int_eq(fs_list(&t.fs, in_dir("none"), remove_entry, NULL), ERR_NOT_FOUND);
    ck_assert_ptr_null(file);
}
END_TEST

START_TEST(pieces_are_written_one_after_the_other)
{
    /* more pieces than one pwritev takes (PIECES_MAX), some of them empty */
    struct bytes pieces[200];
    uint8_t source[200 * 7];
    uint8_t back[sizeof(source) + 10];
    struct fs_file *file = open_file(FS_READ | FS_WRITE | FS_CREATE);
    size_t total = 0;
    size_t written = 0;
    size_t got = 0;
    uint64_t size = 0;

    for (size_t i = 0; i < sizeof(source); i++)
        source[i] = (uint8_t)(i * 31);
    for (size_t i = 0; i < 200; i++) {
        pieces[i] = bytes_of(source + total, i % 8);
        total += i % 8;
    }
    ck_assert_int_eq(fs_write(file, 3, pieces, 200, &written), ERR_OK);
    ck_assert_uint_eq(written, total);
    ck_assert_int_eq(fs_size(file, &size), ERR_OK);
    ck_assert_uint_eq(size, total + 3);
    ck_assert_int_eq(fs_read(file, 3, back, sizeof(back), &got), ERR_OK);
    ck_assert_uint_eq(got, total);
    ck_assert_int_eq(memcmp(back, source, total), 0);
    ck_assert_int_eq(fs_write(file, 0, pieces, 0, &written), ERR_OK);
    ck_assert_uint_eq(written, 0);
    ck_assert_int_eq(fs_write(file, 0, pieces, 1, &written), ERR_OK); /* one empty piece */
    ck_assert_uint_eq(written, 0);
    fs_file_drop(file);
}
END_TEST

START_TEST(reads_stop_at_the_end_of_the_file)
{
    struct fs_file *file = open_file(FS_READ | FS_WRITE | FS_CREATE);
    struct bytes text = BYTES_LITERAL("0123456789");
    char to[20];
    size_t got = 99;
    size_t written = 0;

    nowait_refused = _i == 1;
    ck_assert_int_eq(fs_read(file, 0, to, sizeof(to), &got), ERR_OK);
    ck_assert_uint_eq(got, 0);
    ck_assert_int_eq(fs_write(file, 0, &text, 1, &written), ERR_OK);
    ck_assert_int_eq(fs_read(file, 4, to, sizeof(to), &got), ERR_OK);
    ck_assert_uint_eq(got, 6);
    /* just written: in the page cache, or on a file system that keeps no disk */
    ck_assert_int_eq(fs_read_cached(file, 4, to, sizeof(to), &got), ERR_OK);
    ck_assert_uint_eq(got, 6);
    ck_assert_int_eq(memcmp(to, "456789", 6), 0);
    ck_assert(fs_is_cached(file, 0, 10));
    ck_assert_int_eq(fs_truncate(file, 5), ERR_OK);
    ck_assert_int_eq(fs_read(file, 4, to, sizeof(to), &got), ERR_OK);
    ck_assert_uint_eq(got, 1);
    ck_assert_int_ge(fs_descriptor(file), 0);
    fs_file_drop(file);
}
END_TEST

/* What is not in the page cache would block, whole or in part; after a real read it is there. On tmpfs, overlayfs and
 * disks (TMPDIR) alike: where RWF_NOWAIT is refused (second turn), mincore tells. */
START_TEST(cached_reads_do_not_wait_for_the_disk)
{
    enum { SIZE = 4 * 1024 * 1024 };
    struct fs_file *file = open_file(FS_READ | FS_WRITE | FS_CREATE);
    uint8_t *block = calloc(1, SIZE);
    struct bytes piece = bytes_of(block, SIZE);
    size_t got = 0;
    size_t written = 0;

    ck_assert_int_eq(fs_write(file, 0, &piece, 1, &written), ERR_OK);
    ck_assert_uint_eq(written, SIZE);
    nowait_refused = _i == 1;
    ck_assert_int_eq(fs_write_behind(file, 0, SIZE), ERR_OK);
    ck_assert_int_eq(fs_write_out(file), ERR_OK);
    ck_assert_int_eq(fs_sync(file), ERR_OK);
    ck_assert_int_eq(posix_fadvise(fs_descriptor(file), 0, 0, POSIX_FADV_DONTNEED), 0);
    if (!fs_is_cached(file, 0, SIZE)) { /* on tmpfs nothing can be dropped */
        enum err err = fs_read_cached(file, SIZE / 2, block, SIZE / 4, &got);

        ck_assert_int_eq(err, ERR_WOULD_BLOCK);
        ck_assert_int_eq(fs_read(file, 0, block, SIZE, &got), ERR_OK);
        ck_assert_uint_eq(got, SIZE);
    }
    ck_assert(fs_is_cached(file, 0, SIZE));
    ck_assert_int_eq(fs_read_cached(file, 0, block, SIZE, &got), ERR_OK);
    ck_assert_uint_eq(got, SIZE);
    free(block);
    fs_file_drop(file);
}
END_TEST

/* A full disk: what fits is written and counted, then nothing goes in. The limit on file size stands in for it. */
START_TEST(a_short_write_is_counted_not_an_error)
{
    struct fs_file *file = open_file(FS_READ | FS_WRITE | FS_CREATE);
    struct rlimit limit = {.rlim_cur = 10000, .rlim_max = RLIM_INFINITY};
    uint8_t block[3000] = {1};
    struct bytes pieces[5];
    size_t written = 0;

    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 5; i++)
        pieces[i] = bytes_of(block, sizeof(block));
    ck_assert_int_eq(fs_write(file, 0, pieces, 5, &written), ERR_OK);
    ck_assert_uint_eq(written, 10000);
    ck_assert_int_eq(fs_write(file, 10000, pieces, 5, &written), ERR_NO_SPACE);
    ck_assert_uint_eq(written, 0);
    fs_file_drop(file);
}
END_TEST

START_TEST(writing_to_a_read_only_file_is_an_error)
{
    struct bytes text = BYTES_LITERAL("x");
    struct fs_file *file = NULL;
    size_t written = 7;

    fs_file_drop(open_file(FS_WRITE | FS_CREATE));
    file = open_file(FS_READ);
    ck_assert_int_eq(fs_write(file, 0, &text, 1, &written), ERR_IO);
    ck_assert_uint_eq(written, 0);
    fs_file_drop(file);
}
END_TEST

START_TEST(preallocation_leaves_no_visible_tail)
{
    struct fs_file *file = open_file(FS_READ | FS_WRITE | FS_CREATE);
    struct stat info;
    uint64_t size = 1;

    enum err err = fs_preallocate(file, 1024 * 1024);

    ck_assert(err == ERR_OK || err == ERR_UNSUPPORTED);
    ck_assert_int_eq(fs_preallocate(file, 0), ERR_OK);
    ck_assert_int_eq(fs_size(file, &size), ERR_OK);
    ck_assert_uint_eq(size, 0);
    ck_assert_int_eq(fstat(fs_descriptor(file), &info), 0);
    ck_assert(err != ERR_OK || info.st_blocks * INT64_C(512) >= 1024 * 1024);
    /* Holes behind which the size already stands are filled, too; what is cut off is given back. */
    ck_assert_int_eq(fs_truncate(file, 2 * 1024 * 1024), ERR_OK);
    ck_assert_int_eq(fs_preallocate(file, 2 * 1024 * 1024), err);
    ck_assert_int_eq(fs_truncate(file, 64 * 1024), ERR_OK);
    ck_assert_int_eq(fstat(fs_descriptor(file), &info), 0);
    ck_assert_int_le(info.st_blocks * INT64_C(512), 128 * 1024);
    fs_file_drop(file);
}
END_TEST

START_TEST(a_lock_keeps_a_second_broker_out)
{
    struct flock posix = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct fs_file *first = NULL;
    struct fs_file *second = NULL;
    pid_t child = 0;
    int status = 0;

    ck_assert_int_eq(fs_lock(&t.fs, t.path, &first), ERR_OK);
    ck_assert_int_eq(fs_lock(&t.fs, t.path, &second), ERR_LOCKED);
    ck_assert_ptr_null(second);
    /* Apache Kafka's lock is the POSIX one */
    child = fork();
    if (child == 0) {
        int fd = open(t.path, O_RDWR | O_CLOEXEC);

        _exit(fcntl(fd, F_SETLK, &posix) == 0 ? 1 : 0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    fs_file_drop(first);
    ck_assert_int_eq(fs_lock(&t.fs, t.path, &second), ERR_OK);
    fs_file_drop(second);
}
END_TEST

struct seen {
    int files;
    int directories;
    int stop_after;
};

static enum err count_entry(void *context, const char *name, bool is_directory)
{
    struct seen *seen = context;

    ck_assert_str_ne(name, ".");
    ck_assert_str_ne(name, "..");
    *(is_directory ? &seen->directories : &seen->files) += 1;
    return seen->files + seen->directories == seen->stop_after ? ERR_END : ERR_OK;
}

START_TEST(lists_stats_and_renames)
{
    struct seen seen = {0};
    struct fs_info info;
    struct fs_space space;
    struct fs_file *file = open_file(FS_WRITE | FS_CREATE);

    ck_assert_int_eq(fs_mkdir(&t.fs, in_dir("sub")), ERR_OK);
    ck_assert_int_eq(symlink("nowhere", in_dir("dangling")), 0);
    ck_assert_int_eq(symlink("sub", in_dir("link")), 0);
    ck_assert_int_eq(fs_list(&t.fs, t.dir, count_entry, &seen), ERR_OK);
    ck_assert_int_eq(seen.files, 1);
    ck_assert_int_eq(seen.directories, 2); /* the link to one is one */
    seen = (struct seen){.stop_after = 1};
    ck_assert_int_eq(fs_list(&t.fs, t.dir, count_entry, &seen), ERR_END);
    ck_assert_int_eq(seen.files + seen.directories, 1);
    ck_assert_int_eq(unlink(in_dir("dangling")), 0);
    ck_assert_int_eq(unlink(in_dir("link")), 0);

    ck_assert_int_eq(fs_stat(&t.fs, in_dir("sub"), &info), ERR_OK);
    ck_assert(info.is_directory);
    ck_assert_int_eq(fs_rename(&t.fs, t.path, in_dir("renamed")), ERR_OK);
    ck_assert_int_eq(fs_sync_dir(&t.fs, t.dir), ERR_OK);
    ck_assert_int_eq(fs_stat(&t.fs, t.path, &info), ERR_NOT_FOUND);
    ck_assert_int_eq(fs_stat(&t.fs, in_dir("renamed"), &info), ERR_OK);
    ck_assert(!info.is_directory);
    ck_assert_int_gt(info.mtime_ms, INT64_C(1600000000000));
    ck_assert_int_eq(fs_set_mtime(file, INT64_C(1500000000123)), ERR_OK);
    ck_assert_int_eq(fs_stat(&t.fs, in_dir("renamed"), &info), ERR_OK);
    ck_assert_int_eq(info.mtime_ms, INT64_C(1500000000123));
    fs_file_drop(file);
    ck_assert_int_eq(fs_space(&t.fs, t.dir, &space), ERR_OK);
    ck_assert_uint_gt(space.total_bytes, 0);
    ck_assert_uint_le(space.free_bytes, space.total_bytes);
}
END_TEST

START_TEST(a_kept_file_stays_open)
{
    struct fs_file *file = open_file(FS_READ | FS_WRITE | FS_CREATE);
    char to[1];
    size_t got = 0;

    fs_file_keep(file);
    fs_file_drop(file);
    ck_assert_int_eq(fs_read(file, 0, to, 1, &got), ERR_OK);
    fs_file_drop(file);
    fs_file_drop(NULL);
}
END_TEST

START_TEST(no_descriptors_left_has_its_own_error)
{
    struct rlimit limit = {.rlim_cur = 3, .rlim_max = 1024};
    struct fs_file *file = NULL;

    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(fs_open(&t.fs, t.path, FS_WRITE | FS_CREATE, &file), ERR_NO_DESCRIPTORS);
    limit.rlim_cur = 1024;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}
END_TEST

START_TEST(without_memory_nothing_is_opened)
{
    struct fs_file *file = NULL;

    allocations_left = 0;
    ck_assert_int_eq(fs_open(&t.fs, t.path, FS_WRITE | FS_CREATE, &file), ERR_NOMEM);
    ck_assert_int_eq(fs_lock(&t.fs, t.path, &file), ERR_NOMEM);
    ck_assert_ptr_null(file);
    ck_assert_int_ne(access(t.path, F_OK), 0);
}
END_TEST

/* A process that was started with descriptors closed never gets their numbers for its files. */
START_TEST(closed_standard_descriptors_are_filled)
{
    pid_t child = fork();
    int status = 0;

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct fs_file *file = NULL;
        int inherited = fcntl(STDOUT_FILENO, F_GETFL);
        int next;

        close(STDIN_FILENO);
        close(STDERR_FILENO);
        fs_fill_standard_descriptors();
        if (fcntl(STDIN_FILENO, F_GETFL) < 0 || fcntl(STDERR_FILENO, F_GETFL) < 0 ||
            fcntl(STDOUT_FILENO, F_GETFL) != inherited || fs_open(&t.fs, t.path, FS_WRITE | FS_CREATE, &file) != ERR_OK)
            _exit(1);
        next = dup(STDIN_FILENO);
        _exit(write(STDERR_FILENO, "x", 1) == 1 && next > STDERR_FILENO ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fs");
    TCase *tcase = tcase_create("fs");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, open_says_what_is_wrong);
    tcase_add_test(tcase, pieces_are_written_one_after_the_other);
    tcase_add_loop_test(tcase, reads_stop_at_the_end_of_the_file, 0, 2);
    tcase_add_loop_test(tcase, cached_reads_do_not_wait_for_the_disk, 0, 2);
    tcase_add_test(tcase, a_short_write_is_counted_not_an_error);
    tcase_add_test(tcase, writing_to_a_read_only_file_is_an_error);
    tcase_add_test(tcase, preallocation_leaves_no_visible_tail);
    tcase_add_test(tcase, a_lock_keeps_a_second_broker_out);
    tcase_add_test(tcase, lists_stats_and_renames);
    tcase_add_test(tcase, a_kept_file_stays_open);
    tcase_add_test(tcase, no_descriptors_left_has_its_own_error);
    tcase_add_test(tcase, without_memory_nothing_is_opened);
    tcase_add_test(tcase, closed_standard_descriptors_are_filled);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
