#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"

enum {
    PIECES_MAX = 64,                     /* of one pwritev: on the stack, and far below IOV_MAX */
    CALL_BYTES_MAX = 1024 * 1024 * 1024, /* Linux moves at most 0x7ffff000 bytes in one call */
    RESIDENT_PAGES_MAX = 512,            /* asked about at a time: on the stack */
    FILE_MODE = 0644,                    /* as Apache Kafka's under the usual umask */
    DIRECTORY_MODE = 0755,
};

struct real_file {
    struct fs_file file;
    int fd;
    _Atomic(bool) cannot_tell; /* its file system does not know RWF_NOWAIT (overlayfs; tmpfs before 6.6) */
};

static int fd_of(struct fs_file *file)
{
    return ((struct real_file *)file)->fd;
}

static enum err failed(void)
{
    return err_from_errno(errno);
}

static enum err real_open(struct fs *fs, const char *path, int flags, struct fs_file **file)
{
    struct real_file *opened = NULL;
    int mode = O_CLOEXEC;
    int fd = -1;

    assert((flags & (FS_READ | FS_WRITE)) != 0);
    mode |= (flags & FS_WRITE) == 0 ? O_RDONLY : (flags & FS_READ) != 0 ? O_RDWR : O_WRONLY;
    mode |= (flags & FS_CREATE) != 0 ? O_CREAT : 0;
    mode |= (flags & FS_EXCLUSIVE) != 0 ? O_EXCL : 0;
    mode |= (flags & FS_TRUNCATE) != 0 ? O_TRUNC : 0;
    opened = mem_calloc(1, sizeof(*opened));
    if (opened == NULL)
        return ERR_NOMEM;
    do
        fd = open(path, mode, FILE_MODE);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        enum err err = failed();

        mem_free(opened);
        return err;
    }
    opened->file.fs = fs;
    atomic_init(&opened->file.references, 1);
    opened->fd = fd;
    *file = &opened->file;
    return ERR_OK;
}

static void real_close(struct fs_file *file)
{
    /* Linux has given the descriptor back even when close fails; what had to be on disk was synced before. */
    close(fd_of(file));
    mem_free(file);
}

/* An open file description's lock: it keeps out a second broker in this process as well, and Apache Kafka, whose
 * FileChannel.tryLock takes the POSIX lock of the same range. */
static enum err real_lock(struct fs *fs, const char *path, struct fs_file **file)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct fs_file *opened = NULL;
    enum err err = real_open(fs, path, FS_READ | FS_WRITE | FS_CREATE, &opened);

    if (err != ERR_OK)
        return err;
    if (fcntl(fd_of(opened), F_OFD_SETLK, &whole) != 0) {
        err = errno == EAGAIN || errno == EACCES ? ERR_LOCKED : failed();
        real_close(opened);
        return err;
    }
    *file = opened;
    return ERR_OK;
}

static bool real_is_locked(struct fs *fs, const char *path)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct fs_file *opened = NULL;
    bool locked = false;

    if (real_open(fs, path, FS_READ, &opened) != ERR_OK)
        return false;
    locked = fcntl(fd_of(opened), F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
    real_close(opened);
    return locked;
}

static enum err real_rename(struct fs *fs, const char *from, const char *to)
{
    (void)fs;
    return rename(from, to) == 0 ? ERR_OK : failed();
}

static enum err real_unlink(struct fs *fs, const char *path)
{
    (void)fs;
    return unlink(path) == 0 ? ERR_OK : failed();
}

static enum err real_mkdir(struct fs *fs, const char *path)
{
    (void)fs;
    return mkdir(path, DIRECTORY_MODE) == 0 ? ERR_OK : failed();
}

static enum err real_rmdir(struct fs *fs, const char *path)
{
    (void)fs;
    return rmdir(path) == 0 ? ERR_OK : failed();
}

static enum err real_sync_dir(struct fs *fs, const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum err err = ERR_OK;

    (void)fs;
    if (fd < 0)
        return failed();
    if (fsync(fd) != 0)
        err = failed();
    close(fd);
    return err;
}

static enum err entry_is_directory(int directory, const struct dirent *entry, bool *is_directory)
{
    struct stat info = {0};

    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK) {
        *is_directory = entry->d_type == DT_DIR;
        return ERR_OK;
    }
    if (fstatat(directory, entry->d_name, &info, 0) != 0)
        return failed();
    *is_directory = S_ISDIR(info.st_mode);
    return ERR_OK;
}

static enum err real_list(struct fs *fs, const char *path, fs_list_fn *each, void *context)
{
    DIR *directory = opendir(path);
    const struct dirent *entry = NULL;
    enum err err = ERR_OK;

    (void)fs;
    if (directory == NULL)
        return failed();
    while (err == ERR_OK) {
        bool is_directory = false;

        errno = 0;
        entry = readdir(directory);
        if (entry == NULL) {
            err = errno == 0 ? ERR_OK : failed();
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        err = entry_is_directory(dirfd(directory), entry, &is_directory);
        if (err == ERR_NOT_FOUND) { /* gone since, or a link that leads nowhere */
            err = ERR_OK;
            continue;
        }
        if (err == ERR_OK)
            err = each(context, entry->d_name, is_directory);
    }
    closedir(directory);
    return err;
}

static enum err real_stat(struct fs *fs, const char *path, struct fs_info *info)
{
    struct stat got = {0};

    (void)fs;
    if (stat(path, &got) != 0)
        return failed();
    *info = (struct fs_info){
        .size = (uint64_t)got.st_size,
        .mtime_ms = (int64_t)got.st_mtim.tv_sec * 1000 + got.st_mtim.tv_nsec / 1000000,
        .is_directory = S_ISDIR(got.st_mode),
    };
    return ERR_OK;
}

static enum err real_space(struct fs *fs, const char *path, struct fs_space *space)
{
    struct statvfs got = {0};

    (void)fs;
    if (statvfs(path, &got) != 0)
        return failed();
    *space = (struct fs_space){
        .free_bytes = (uint64_t)got.f_bavail * got.f_frsize,
        .total_bytes = (uint64_t)got.f_blocks * got.f_frsize,
    };
    return ERR_OK;
}

/* Reads until size is there or the file ends; flags as preadv2(2). */
static enum err read_whole(int fd, uint64_t position, void *to, size_t size, int flags, size_t *got)
{
    size_t done = 0;

    *got = 0;
    while (done < size) {
        size_t want = size - done < CALL_BYTES_MAX ? size - done : CALL_BYTES_MAX;
        struct iovec piece = {(uint8_t *)to + done, want};
        ssize_t count = preadv2(fd, &piece, 1, (off_t)(position + done), flags);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return failed();
        if (count == 0)
            break;
        done += (size_t)count;
    }
    *got = done;
    return ERR_OK;
}

static enum err real_read(struct fs_file *file, uint64_t position, void *to, size_t size, size_t *got)
{
    return read_whole(fd_of(file), position, to, size, 0, got);
}

/* The page tables' view of the page cache: two more calls than RWF_NOWAIT and a race with eviction, but every file
 * system has it. */
static bool is_resident(int fd, uint64_t position, size_t size)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = position / page_bytes * page_bytes;
    unsigned char in_core[RESIDENT_PAGES_MAX];
    bool resident = true;

    for (uint64_t end = position + size; start < end && resident;) {
        size_t span = end - start < page_bytes * RESIDENT_PAGES_MAX ? end - start : page_bytes * RESIDENT_PAGES_MAX;
        void *view = mmap(NULL, span, PROT_READ, MAP_SHARED, fd, (off_t)start);

        if (view == MAP_FAILED)
            return false;
        resident = mincore(view, span, in_core) == 0;
        for (size_t i = 0; resident && i < (span + page_bytes - 1) / page_bytes; i++)
            resident = (in_core[i] & 1) != 0;
        munmap(view, span);
        start += span;
    }
    return resident;
}

/* The part of a range that lies in the file: what is behind its end cannot be waited for. */
static size_t range_in_file(int fd, uint64_t position, size_t size)
{
    struct stat info = {0};

    if (fstat(fd, &info) != 0 || (uint64_t)info.st_size <= position)
        return 0;
    return size < (uint64_t)info.st_size - position ? size : (size_t)((uint64_t)info.st_size - position);
}

static enum err real_read_cached(struct fs_file *file, uint64_t position, void *to, size_t size, size_t *got)
{
    struct real_file *real = (struct real_file *)file;

    if (!atomic_load_explicit(&real->cannot_tell, memory_order_relaxed)) {
        enum err err = read_whole(real->fd, position, to, size, RWF_NOWAIT, got);

        if (err == ERR_OK || errno != EOPNOTSUPP)
            return err;
        atomic_store_explicit(&real->cannot_tell, true, memory_order_relaxed);
    }
    if (!is_resident(real->fd, position, range_in_file(real->fd, position, size)))
        return ERR_WOULD_BLOCK;
    return read_whole(real->fd, position, to, size, 0, got);
}

static bool byte_is_cached(struct real_file *real, uint64_t position)
{
    uint8_t byte = 0;
    struct iovec piece = {&byte, 1};

    if (preadv2(real->fd, &piece, 1, (off_t)position, RWF_NOWAIT) >= 0)
        return true;
    if (errno == EOPNOTSUPP)
        atomic_store_explicit(&real->cannot_tell, true, memory_order_relaxed);
    return false;
}

enum { EXACT_BYTES_MAX = 4096 }; /* a page: what is small is told exactly */

/* The kernel fills and drops the page cache in runs, so both ends and the middle speak for the range. */
static bool real_is_cached(struct fs_file *file, uint64_t position, size_t size)
{
    struct real_file *real = (struct real_file *)file;

    if (size == 0)
        return true;
    /* A read that is not to wait may bring in what it asks for, and then say that it was there (Linux 6.18: seen). */
    if (size > EXACT_BYTES_MAX && !atomic_load_explicit(&real->cannot_tell, memory_order_relaxed)) {
        if (byte_is_cached(real, position) && byte_is_cached(real, position + size / 2) &&
            byte_is_cached(real, position + size - 1))
            return true;
        if (!atomic_load_explicit(&real->cannot_tell, memory_order_relaxed))
            return false;
    }
    return is_resident(real->fd, position, range_in_file(real->fd, position, size));
}

/* Fills pieces with what is left of from behind its first `skip` bytes. */
static int pieces_left(const struct bytes *from, uint32_t count, size_t skip, struct iovec *pieces)
{
    size_t room = CALL_BYTES_MAX;
    int filled = 0;

    for (uint32_t i = 0; i < count && filled < PIECES_MAX && room > 0; i++) {
        size_t size = from[i].size;

        if (skip >= size) {
            skip -= size;
            continue;
        }
        size -= skip;
        if (size > room)
            size = room;
        /* writev(2) only reads what iov_base points to */
        pieces[filled] = (struct iovec){(void *)(uintptr_t)(from[i].data + skip), size};
        filled++;
        skip = 0;
        room -= size;
    }
    return filled;
}

static enum err real_write(struct fs_file *file, uint64_t position, const struct bytes *pieces, uint32_t count,
                           size_t *written)
{
    struct iovec batch[PIECES_MAX];
    size_t first_bytes = 0; /* of the pieces that are wholly written, which `pieces` has moved past */

    *written = 0;
    for (;;) {
        int filled = 0;
        ssize_t moved = 0;

        while (count > 0 && *written - first_bytes >= pieces->size) {
            first_bytes += pieces->size;
            pieces++;
            count--;
        }
        filled = pieces_left(pieces, count, *written - first_bytes, batch);
        if (filled == 0)
            return ERR_OK;
        moved = pwritev(fd_of(file), batch, filled, (off_t)(position + *written));
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0) {
            enum err err = failed();

            return err == ERR_NO_SPACE && *written > 0 ? ERR_OK : err;
        }
        /* After a short count the next turn tells why: it goes on, or says that the disk is full. */
        *written += (size_t)moved;
    }
}

static enum err real_truncate(struct fs_file *file, uint64_t size)
{
    int result = 0;

    do
        result = ftruncate(fd_of(file), (off_t)size);
    while (result != 0 && errno == EINTR);
    return result == 0 ? ERR_OK : failed();
}

static enum err real_preallocate(struct fs_file *file, uint64_t size)
{
    int result = 0;

    if (size == 0)
        return ERR_OK;
    do
        result = fallocate(fd_of(file), FALLOC_FL_KEEP_SIZE, 0, (off_t)size);
    while (result != 0 && errno == EINTR);
    if (result == 0)
        return ERR_OK;
    return errno == EOPNOTSUPP || errno == ENOSYS ? ERR_UNSUPPORTED : failed();
}

static enum err real_write_behind(struct fs_file *file, uint64_t position, uint64_t size)
{
    if (sync_file_range(fd_of(file), (off_t)position, (off_t)size, SYNC_FILE_RANGE_WRITE) == 0)
        return ERR_OK;
    return errno == ENOSYS || errno == EINVAL || errno == EOPNOTSUPP ? ERR_OK : failed();
}

static enum err real_write_out(struct fs_file *file)
{
    unsigned how = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

    if (sync_file_range(fd_of(file), 0, 0, how) == 0)
        return ERR_OK;
    return errno == ENOSYS || errno == EINVAL || errno == EOPNOTSUPP ? ERR_OK : failed();
}

static void real_forget_cached(struct fs_file *file, uint64_t position, uint64_t size)
{
    (void)posix_fadvise(fd_of(file), (off_t)position, (off_t)size, POSIX_FADV_DONTNEED);
}

static enum err real_sync(struct fs_file *file)
{
    return fdatasync(fd_of(file)) == 0 ? ERR_OK : failed();
}

static enum err real_sync_all(struct fs_file *file)
{
    return syncfs(fd_of(file)) == 0 ? ERR_OK : failed();
}

static bool kernel_is_5_8(void)
{
    struct utsname names;
    unsigned long major;
    unsigned long minor;
    char *end;

    if (uname(&names) != 0)
        return false;
    major = strtoul(names.release, &end, 10);
    if (end == names.release || *end != '.')
        return false;
    minor = strtoul(end + 1, NULL, 10); /* 0 where there is none: an old kernel by the same token */
    return major > 5 || (major == 5 && minor >= 8);
}

static bool real_sync_all_tells(struct fs_file *file)
{
    struct statfs info;

    if (!kernel_is_5_8() || fstatfs(fd_of(file), &info) != 0)
        return false;
    return info.f_type == EXT4_SUPER_MAGIC || info.f_type == XFS_SUPER_MAGIC || info.f_type == BTRFS_SUPER_MAGIC;
}

static enum err real_set_mtime(struct fs_file *file, int64_t mtime_ms)
{
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = (time_t)(mtime_ms / 1000), .tv_nsec = (long)(mtime_ms % 1000) * 1000000},
    };

    return futimens(fd_of(file), times) == 0 ? ERR_OK : failed();
}

static enum err real_size(struct fs_file *file, uint64_t *size)
{
    struct stat info = {0};

    if (fstat(fd_of(file), &info) != 0)
        return failed();
    *size = (uint64_t)info.st_size;
    return ERR_OK;
}

/* Linux: a random uuid in its usual text form, made at each boot. */
static struct uuid real_boot_id(struct fs *fs)
{
    char text[64] = "";
    struct uuid id = {{0}};
    uint32_t digits = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    (void)fs;
    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < got && digits < 2 * UUID_BYTES; i++) {
        int digit = byte_hex_digit(text[i]);

        if (digit >= 0) {
            id.bytes[digits / 2] = (uint8_t)(id.bytes[digits / 2] << 4 | digit);
            digits++;
        }
    }
    return digits == 2 * UUID_BYTES ? id : (struct uuid){{0}};
}

static int real_descriptor(struct fs_file *file)
{
    return fd_of(file);
}

static const struct fs_ops real_ops = {
    .open = real_open,
    .lock = real_lock,
    .is_locked = real_is_locked,
    .rename = real_rename,
    .unlink = real_unlink,
    .mkdir = real_mkdir,
    .rmdir = real_rmdir,
    .sync_dir = real_sync_dir,
    .list = real_list,
    .stat = real_stat,
    .space = real_space,
    .read = real_read,
    .read_cached = real_read_cached,
    .is_cached = real_is_cached,
    .write = real_write,
    .truncate = real_truncate,
    .preallocate = real_preallocate,
    .write_behind = real_write_behind,
    .write_out = real_write_out,
    .forget_cached = real_forget_cached,
    .sync = real_sync,
    .sync_all = real_sync_all,
    .sync_all_tells = real_sync_all_tells,
    .set_mtime = real_set_mtime,
    .size = real_size,
    .boot_id = real_boot_id,
    .descriptor = real_descriptor,
    .close = real_close,
};

void fs_init_real(struct fs *fs)
{
    *fs = (struct fs){.ops = &real_ops};
}

void fs_fill_standard_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}
