#include "partition/dir_space.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/crc32c.h"
#include "partition/log_path.h"
#include "partition/partition_limits.h"

#define RESERVE_FILE "ottla-reserve"
#define MAGIC        "ottlarsv"

enum { MAGIC_BYTES = 8, VERSION = 1, HEADER_BYTES = MAGIC_BYTES + 4 + 4 };

/* --- the marks --- */

static uint64_t mark(int64_t configured, uint64_t total_bytes, uint32_t divisor, uint64_t bytes_max)
{
    uint64_t share = total_bytes / divisor;

    if (configured >= 0)
        return (uint64_t)configured;
    return share < bytes_max ? share : bytes_max;
}

static uint64_t reserve_mark(const struct dir_space *space, uint64_t total_bytes)
{
    uint64_t wanted = mark(space->config.reserve_bytes, total_bytes, DIR_RESERVE_DIVISOR, DIR_RESERVE_BYTES_MAX);

    return wanted / DIR_RESERVE_SLICE_BYTES * DIR_RESERVE_SLICE_BYTES;
}

static uint64_t refuse_mark(const struct dir_space *space, uint64_t total_bytes)
{
    return mark(space->config.refuse_bytes, total_bytes, DIR_REFUSE_DIVISOR, DIR_REFUSE_BYTES_MAX);
}

static uint64_t warn_mark(const struct dir_space *space, uint64_t total_bytes)
{
    return mark(space->config.warn_bytes, total_bytes, DIR_WARN_DIVISOR, DIR_WARN_BYTES_MAX);
}

/* --- the reserve's file --- */

static enum err reserve_path(const struct dir_space *space, struct log_path *path)
{
    return log_path_in(path, space->dir, RESERVE_FILE);
}

static uint64_t file_bytes(uint64_t reserve_bytes)
{
    return DIR_RESERVE_HEAD_BYTES + reserve_bytes;
}

static void header_make(uint8_t header[HEADER_BYTES])
{
    memcpy(header, MAGIC, MAGIC_BYTES);
    big_endian_store_u32(header + MAGIC_BYTES, VERSION);
    big_endian_store_u32(header + MAGIC_BYTES + 4, crc32c(0, header, MAGIC_BYTES + 4));
}

/* ERR_DAMAGED: not a whole header, of any version. */
static enum err header_read(struct fs_file *file)
{
    uint8_t header[HEADER_BYTES] = {0};
    size_t got = 0;
    enum err err = fs_read(file, 0, header, sizeof(header), &got);

    if (err != ERR_OK)
        return err;
    if (got < sizeof(header) || memcmp(header, MAGIC, MAGIC_BYTES) != 0 ||
        big_endian_load_u32(header + MAGIC_BYTES + 4) != crc32c(0, header, MAGIC_BYTES + 4))
        return ERR_DAMAGED;
    return big_endian_load_u32(header + MAGIC_BYTES) == VERSION ? ERR_OK : ERR_UNSUPPORTED_VERSION;
}

/* The reserve of an earlier run. One that a power cut left without its header is made anew when there is room. */
static enum err reserve_find(struct dir_space *space)
{
    struct log_path path;
    struct fs_file *file = NULL;
    uint64_t size = 0;
    enum err err = reserve_path(space, &path);

    if (err == ERR_OK)
        err = fs_open(space->fs, path.text, FS_READ | FS_WRITE, &file);
    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    if (err == ERR_OK)
        err = header_read(file);
    if (err == ERR_OK)
        err = fs_size(file, &size);
    if (err == ERR_OK && size < DIR_RESERVE_HEAD_BYTES)
        err = ERR_DAMAGED;
    if (err != ERR_OK) {
        fs_file_drop(file);
        if (err == ERR_UNSUPPORTED_VERSION)
            log_error(space->log, "the reserve was made by a later build dir=%s file=" RESERVE_FILE, space->dir);
        return err == ERR_UNSUPPORTED_VERSION ? err : ERR_OK;
    }
    atomic_store(&space->reserve, file);
    atomic_store(&space->reserve_bytes, size - DIR_RESERVE_HEAD_BYTES);
    return ERR_OK;
}

static enum err reserve_make(struct dir_space *space)
{
    uint8_t header[HEADER_BYTES];
    struct bytes piece = bytes_of(header, sizeof(header));
    struct log_path path;
    struct fs_file *file = NULL;
    size_t written = 0;
    enum err err = reserve_path(space, &path);

    header_make(header);
    if (err == ERR_OK)
        err = fs_open(space->fs, path.text, FS_READ | FS_WRITE | FS_CREATE | FS_TRUNCATE, &file);
    if (err == ERR_OK)
        err = fs_write(file, 0, &piece, 1, &written);
    if (err == ERR_OK && written < sizeof(header))
        err = ERR_NO_SPACE;
    if (err == ERR_OK) {
        atomic_store(&space->reserve, file);
        file = NULL;
    }
    fs_file_drop(file);
    return err;
}

/* The file as long as the reserve says it is. Several may be at it, each behind what it has changed of that: the last
 * one to touch the file has looked once more since. */
static enum err file_fit(struct dir_space *space)
{
    struct fs_file *file = atomic_load(&space->reserve);
    uint64_t held = atomic_load(&space->reserve_bytes);
    uint64_t fitted = 0;
    enum err err = ERR_OK;

    do {
        fitted = held;
        err = fs_truncate(file, file_bytes(fitted));
        held = atomic_load(&space->reserve_bytes);
    } while (err == ERR_OK && held != fitted);
    return err;
}

/* Sets more aside: a hole at the end of the file first, then blocks for it. */
static enum err reserve_extend(struct dir_space *space, uint64_t from, uint64_t to)
{
    struct fs_file *file = atomic_load(&space->reserve);
    enum err err = ERR_OK;

    /* Who has counted it before from was looked at may cut the file only behind what comes here. Who begins from now on
     * changes what from was. */
    if (atomic_load(&space->giving) > 0)
        return ERR_BUSY;
    err = fs_truncate(file, file_bytes(to));
    if (err == ERR_OK)
        err = fs_preallocate(file, file_bytes(to));
    if (err == ERR_OK && !atomic_compare_exchange_strong(&space->reserve_bytes, &from, to))
        err = ERR_BUSY; /* some was given back meanwhile */
    if (err != ERR_OK && file_fit(space) != ERR_OK)
        err = ERR_IO;
    return err;
}

/* How much more is set aside now. */
static uint64_t reserve_grow(struct dir_space *space, uint64_t room_bytes)
{
    uint64_t wanted = atomic_load(&space->reserve_wanted);
    uint64_t held = atomic_load(&space->reserve_bytes);
    uint64_t more = 0;
    enum err err = ERR_OK;

    if (space->reserve_impossible || held >= wanted)
        return 0;
    if (atomic_load(&space->reserve) == NULL)
        room_bytes -= room_bytes < DIR_RESERVE_HEAD_BYTES ? room_bytes : DIR_RESERVE_HEAD_BYTES;
    more = wanted - held < room_bytes ? wanted - held : room_bytes;
    more = more / DIR_RESERVE_SLICE_BYTES * DIR_RESERVE_SLICE_BYTES;
    if (more == 0)
        return 0;
    if (atomic_load(&space->reserve) == NULL)
        err = reserve_make(space);
    if (err == ERR_OK)
        err = reserve_extend(space, held, held + more);
    if (err == ERR_UNSUPPORTED) {
        space->reserve_impossible = true;
        log_warn(space->log, "no reserve for a full disk: the file system sets nothing aside dir=%s", space->dir);
    } else if (err != ERR_OK && err != ERR_BUSY) {
        log_line_rated(space->log, &space->lines, LOG_WARN,
                       "reserve for a full disk not made dir=%s bytes=%" PRIu64 " err=%s", space->dir, held + more,
                       err_name(err));
    } else if (err == ERR_OK && held + more == wanted) {
        log_info(space->log, "reserve for a full disk is whole dir=%s bytes=%" PRIu64, space->dir, wanted);
    }
    return err == ERR_OK ? more : 0;
}

/* Gives that much back, as far as there is that much. */
static bool reserve_give(struct dir_space *space, uint64_t bytes)
{
    uint64_t kept = atomic_load(&space->serving) ? atomic_load(&space->reserve_wanted) / DIR_RESERVE_START_DIVISOR : 0;
    uint64_t held = atomic_load(&space->reserve_bytes);
    uint64_t left = 0;

    do {
        if (held <= kept)
            return false;
        left = held - kept > bytes ? held - bytes : kept;
    } while (!atomic_compare_exchange_weak(&space->reserve_bytes, &held, left));
    log_line_rated(space->log, &space->lines, LOG_WARN,
                   "disk is full, some of the reserve is given back dir=%s bytes=%" PRIu64 " left_bytes=%" PRIu64,
                   space->dir, held - left, left);
    return file_fit(space) == ERR_OK;
}

bool dir_space_relieve(struct dir_space *space, struct dir_relief *relief)
{
    struct fs_space now;
    uint64_t wanted = 0;
    bool given = false;

    if (space == NULL || atomic_load(&space->reserve) == NULL || relief->tries == DIR_SPACE_RELIEFS_MAX ||
        fs_space(space->fs, space->dir, &now) != ERR_OK)
        return false;
    wanted = (uint64_t)DIR_RESERVE_SLICE_BYTES << relief->tries++;
    if (now.free_bytes >= wanted) /* it was somebody else's turn just now; or it is not bytes that lack */
        return true;
    wanted -= now.free_bytes;
    atomic_fetch_add(&space->giving, 1);
    given =
        reserve_give(space, (wanted + DIR_RESERVE_SLICE_BYTES - 1) / DIR_RESERVE_SLICE_BYTES * DIR_RESERVE_SLICE_BYTES);
    atomic_fetch_sub(&space->giving, 1);
    return given;
}

/* --- looking --- */

/* Over all that was seen at first, later over the last few minutes. */
static void rate_note(struct dir_space *space, uint64_t free_bytes, int64_t now_ns)
{
    double seconds = (double)(now_ns - space->looked_ns) / 1e9;
    double whole = (double)(now_ns - space->first_ns) / 1e9;
    double window = whole < DIR_SPACE_RATE_SECONDS ? whole : DIR_SPACE_RATE_SECONDS;

    if (space->looked_ns == 0 || seconds <= 0) {
        space->first_ns = space->looked_ns == 0 ? now_ns : space->first_ns;
    } else {
        double sample = ((double)space->free_bytes - (double)free_bytes) / seconds;

        space->shrinking += (sample - space->shrinking) * (seconds < window ? seconds / window : 1);
    }
    space->looked_ns = now_ns;
    space->free_bytes = free_bytes;
}

/* What is not ample is said when it begins, and again every now and then. */
static void say(struct dir_space *space, uint64_t warn_bytes, uint64_t refuse_bytes)
{
    double left = (double)space->free_bytes - (double)refuse_bytes;

    if (space->said_ns != 0 && space->looked_ns - space->said_ns < DIR_SPACE_SAY_EVERY_NS)
        return;
    space->said_ns = space->looked_ns;
    if (space->state == DIR_SPACE_FULL)
        log_error(space->log,
                  "disk is full: producers are refused until there is room dir=%s free_bytes=%" PRIu64
                  " mark_bytes=%" PRIu64 " reserve_bytes=%" PRIu64,
                  space->dir, space->free_bytes, refuse_bytes, atomic_load(&space->reserve_bytes));
    else if (space->shrinking >= 1)
        log_warn(space->log,
                 "disk is filling up dir=%s free_bytes=%" PRIu64 " mark_bytes=%" PRIu64
                 " bytes_per_s=%.0f hours_until_producers_are_refused=%.1f",
                 space->dir, space->free_bytes, warn_bytes, space->shrinking, left / space->shrinking / 3600);
    else
        log_warn(space->log, "disk has little room dir=%s free_bytes=%" PRIu64 " mark_bytes=%" PRIu64, space->dir,
                 space->free_bytes, warn_bytes);
}

static enum dir_space_state judge(const struct dir_space *space, uint64_t warn_bytes, uint64_t refuse_bytes)
{
    uint64_t resume_bytes = refuse_bytes + refuse_bytes / 4;

    if (space->free_bytes < (space->state == DIR_SPACE_FULL ? resume_bytes : refuse_bytes))
        return DIR_SPACE_FULL;
    return space->free_bytes < warn_bytes ? DIR_SPACE_LOW : DIR_SPACE_AMPLE;
}

static void enter(struct dir_space *space, enum dir_space_state state)
{
    if (state == DIR_SPACE_FULL && space->state != DIR_SPACE_FULL)
        space->said_ns = 0;
    if (state != DIR_SPACE_FULL && space->state == DIR_SPACE_FULL)
        log_info(space->log, "disk has room again: producers are served dir=%s free_bytes=%" PRIu64, space->dir,
                 space->free_bytes);
    if (state == DIR_SPACE_AMPLE)
        space->said_ns = 0;
    space->state = state;
}

/* Before producers get any of what is free, the reserve gets its own. */
static enum err look_and_grow(struct dir_space *space, bool grow, struct fs_space *now)
{
    uint64_t refuse_bytes = 0;
    uint64_t taken = 0;
    enum err err = fs_space(space->fs, space->dir, now);

    if (err != ERR_OK)
        return err;
    refuse_bytes = refuse_mark(space, now->total_bytes);
    atomic_store(&space->reserve_wanted, reserve_mark(space, now->total_bytes));
    if (!grow || now->free_bytes <= refuse_bytes)
        return ERR_OK;
    taken = reserve_grow(space, now->free_bytes - refuse_bytes);
    if (taken == 0)
        return ERR_OK;
    space->free_bytes -= taken < space->free_bytes ? taken : space->free_bytes; /* no news of how fast it fills */
    return fs_space(space->fs, space->dir, now);
}

static void look(struct dir_space *space, bool grow)
{
    struct fs_space now;
    int64_t room = INT64_MAX;
    enum err err = look_and_grow(space, grow, &now);
    uint64_t refuse_bytes = 0;
    uint64_t warn_bytes = 0;

    if (err != ERR_OK) {
        log_line_rated(space->log, &space->lines, LOG_WARN, "free space not known dir=%s err=%s", space->dir,
                       err_name(err));
        return;
    }
    refuse_bytes = refuse_mark(space, now.total_bytes);
    warn_bytes = warn_mark(space, now.total_bytes);
    rate_note(space, now.free_bytes, clock_mono_ns(space->clock));
    enter(space, judge(space, warn_bytes, refuse_bytes));
    if (space->state != DIR_SPACE_AMPLE)
        say(space, warn_bytes, refuse_bytes);
    if (space->state == DIR_SPACE_FULL)
        room = 0;
    else if (refuse_bytes > 0 && now.free_bytes - refuse_bytes < INT64_MAX)
        room = (int64_t)(now.free_bytes - refuse_bytes);
    atomic_store_explicit(&space->room_bytes, room, memory_order_relaxed);
}

void dir_space_look(struct dir_space *space)
{
    look(space, true);
}

int64_t dir_space_pause_ns(const struct dir_space *space)
{
    double room = (double)atomic_load_explicit(&space->room_bytes, memory_order_relaxed);
    bool soon = room < space->shrinking * DIR_SPACE_SOON_SECONDS;

    return space->state == DIR_SPACE_FULL || soon ? DIR_SPACE_LOOK_SOON_NS : DIR_SPACE_LOOK_NS;
}

/* --- life --- */

enum err dir_space_open(struct dir_space *space, struct fs *fs, struct clock *clock, struct log *log, const char *dir,
                        const struct dir_space_config *config)
{
    enum err err = ERR_OK;

    *space = (struct dir_space){.fs = fs, .clock = clock, .log = log, .dir = dir, .config = *config};
    atomic_init(&space->room_bytes, INT64_MAX);
    err = reserve_find(space);
    if (err == ERR_OK)
        look(space, false);
    return err;
}

void dir_space_close(struct dir_space *space)
{
    fs_file_drop(atomic_exchange(&space->reserve, NULL));
}

void dir_space_serve(struct dir_space *space)
{
    atomic_store(&space->serving, true);
}
