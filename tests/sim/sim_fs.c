#include "sim/sim_fs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

enum { NAME_BYTES_MAX = 255, SECTOR_BYTES = 512 };

/* A change that the disk has not promised to keep. */
struct change {
    struct change *next;
    bool truncate; /* to position */
    uint64_t position;
    size_t size;
    uint8_t data[];
};

struct content {
    uint8_t *data;
    uint64_t size;
    uint64_t room;
};

struct entry {
    struct entry *next;
    struct sim_fs_node *node;
    char name[NAME_BYTES_MAX + 1];
};

/* A directory as it stood after some un-synced change. */
struct version {
    struct version *next;
    struct entry *entries;
};

struct sim_fs_node {
    uint32_t references; /* names in any version, and open files */
    bool is_directory;
    bool locked;
    bool cold; /* a file that nobody has read or written since the page cache was lost */
    int64_t mtime_ms;
    uint64_t allocated;     /* bytes that count as used: written or set aside; holes at the end do not */
    struct content now;     /* as it reads */
    struct content durable; /* as of the last sync */
    struct change *changes; /* since, oldest first */
    struct change **changes_tail;
    struct entry *entries;         /* directory: as it stands */
    struct entry *durable_entries; /* as of the last sync_dir */
    struct version *versions;      /* after each change since, oldest first; the last equals entries */
    struct version **versions_tail;
};

struct sim_file {
    struct fs_file file;
    struct sim_fs_node *node;
    uint32_t generation;
    bool holds_lock;
    char volume[NAME_BYTES_MAX + 1];
    struct sim_file *next;
    struct sim_file **previous;
};

static struct sim_fs *of(struct fs *fs)
{
    return (struct sim_fs *)(void *)((char *)fs - offsetof(struct sim_fs, fs));
}

static struct sim_file *file_of(struct fs_file *file)
{
    return (struct sim_file *)(void *)((char *)file - offsetof(struct sim_file, file));
}

static void *must(void *block)
{
    assert(block != NULL); /* the test's own memory */
    return block;
}

/* ---- contents ---- */

static void content_resize(struct content *content, uint64_t size)
{
    if (size > content->room) {
        uint64_t room = content->room * 2 > size ? content->room * 2 : size;

        content->data = must(realloc(content->data, room));
        content->room = room;
    }
    if (size > content->size)
        memset(content->data + content->size, 0, size - content->size);
    content->size = size;
}

static void content_apply(struct content *content, const struct change *change, size_t size)
{
    if (change->truncate) {
        content_resize(content, change->position);
        return;
    }
    if (size == 0)
        return;
    if (change->position + size > content->size)
        content_resize(content, change->position + size);
    memcpy(content->data + change->position, change->data, size);
}

static void content_copy(struct content *to, const struct content *from)
{
    content_resize(to, from->size);
    if (from->size > 0)
        memcpy(to->data, from->data, from->size);
}

static void changes_free(struct sim_fs_node *node)
{
    while (node->changes != NULL) {
        struct change *next = node->changes->next;

        free(node->changes);
        node->changes = next;
    }
    node->changes_tail = &node->changes;
}

static void change_add(struct sim_fs_node *node, bool truncate, uint64_t position, const void *data, size_t size)
{
    struct change *change = must(calloc(1, sizeof(*change) + size));

    change->truncate = truncate;
    change->position = position;
    change->size = size;
    if (size > 0)
        memcpy(change->data, data, size);
    *node->changes_tail = change;
    node->changes_tail = &change->next;
    content_apply(&node->now, change, size);
}

static void set_allocated(struct sim_fs *fs, struct sim_fs_node *node, uint64_t bytes)
{
    fs->used_bytes = fs->used_bytes - node->allocated + bytes;
    node->allocated = bytes;
}

static uint64_t free_bytes(const struct sim_fs *fs)
{
    return fs->capacity_bytes > fs->used_bytes ? fs->capacity_bytes - fs->used_bytes : 0;
}

/* ---- directories ---- */

static struct sim_fs_node *node_new(bool is_directory)
{
    struct sim_fs_node *node = must(calloc(1, sizeof(*node)));

    node->is_directory = is_directory;
    node->changes_tail = &node->changes;
    node->versions_tail = &node->versions;
    return node;
}

static void entries_free(struct sim_fs *fs, struct entry *entries);

static void versions_free(struct sim_fs *fs, struct sim_fs_node *node)
{
    while (node->versions != NULL) {
        struct version *next = node->versions->next;

        entries_free(fs, node->versions->entries);
        free(node->versions);
        node->versions = next;
    }
    node->versions_tail = &node->versions;
}

static void node_drop(struct sim_fs *fs, struct sim_fs_node *node)
{
    assert(node->references > 0);
    if (--node->references > 0)
        return;
    set_allocated(fs, node, 0);
    changes_free(node);
    versions_free(fs, node);
    entries_free(fs, node->entries);
    entries_free(fs, node->durable_entries);
    free(node->now.data);
    free(node->durable.data);
    free(node);
}

static void entries_free(struct sim_fs *fs, struct entry *entries)
{
    while (entries != NULL) {
        struct entry *next = entries->next;

        node_drop(fs, entries->node);
        free(entries);
        entries = next;
    }
}

/* In order of making, so that listings do not depend on addresses. */
static struct entry *entries_copy(const struct entry *entries)
{
    struct entry *copy = NULL;
    struct entry **tail = &copy;

    for (; entries != NULL; entries = entries->next) {
        *tail = must(calloc(1, sizeof(**tail)));
        (*tail)->node = entries->node;
        memcpy((*tail)->name, entries->name, sizeof((*tail)->name));
        (*tail)->node->references++;
        tail = &(*tail)->next;
    }
    return copy;
}

static struct entry **entry_find(struct entry **entries, const char *name)
{
    while (*entries != NULL && strcmp((*entries)->name, name) != 0)
        entries = &(*entries)->next;
    return entries;
}

static void entry_add(struct sim_fs_node *directory, const char *name, struct sim_fs_node *node)
{
    struct entry **at = entry_find(&directory->entries, name);

    assert(*at == NULL);
    *at = must(calloc(1, sizeof(**at)));
    snprintf((*at)->name, sizeof((*at)->name), "%s", name);
    (*at)->node = node;
    node->references++;
}

static void entry_remove(struct sim_fs *fs, struct sim_fs_node *directory, const char *name)
{
    struct entry **at = entry_find(&directory->entries, name);
    struct entry *gone = *at;

    *at = gone->next;
    node_drop(fs, gone->node);
    free(gone);
}

static void version_add(struct sim_fs_node *directory)
{
    struct version *version = must(calloc(1, sizeof(*version)));

    version->entries = entries_copy(directory->entries);
    *directory->versions_tail = version;
    directory->versions_tail = &version->next;
}

/* Finds the directory of a path and the last name in it; NULL when some directory on the way is not there. */
static struct sim_fs_node *walk(struct sim_fs *fs, const char *path, char name[NAME_BYTES_MAX + 1])
{
    struct sim_fs_node *node = fs->root;

    for (;;) {
        size_t size = 0;

        while (*path == '/')
            path++;
        size = strcspn(path, "/");
        if (size > NAME_BYTES_MAX)
            return NULL;
        memcpy(name, path, size);
        name[size] = '\0';
        path += size;
        if (path[strspn(path, "/")] == '\0')
            return node;
        struct entry *entry = *entry_find(&node->entries, name);
        if (entry == NULL || !entry->node->is_directory)
            return NULL;
        node = entry->node;
    }
}

static struct sim_fs_node *find(struct sim_fs *fs, const char *path)
{
    char name[NAME_BYTES_MAX + 1];
    struct sim_fs_node *directory = walk(fs, path, name);
    struct entry *entry = NULL;

    if (directory == NULL || name[0] == '\0')
        return directory;
    entry = *entry_find(&directory->entries, name);
    return entry == NULL ? NULL : entry->node;
}

/* ---- faults ---- */

/* The first name of a path. */
static struct bytes volume_of(const char *path)
{
    while (*path == '/')
        path++;
    return bytes_of(path, strcspn(path, "/"));
}

static bool is_struck(const struct sim_fs *fs, enum sim_fs_call kind, struct bytes volume)
{
    bool is_past = fs->calls[fs->fault_kind] >= fs->fault_at;

    if (fs->fault == SIM_FS_NO_FAULT || (fs->fault_kind != SIM_FS_ANY && fs->fault_kind != kind))
        return false;
    if (fs->fault_volume != NULL && !bytes_equal(volume, volume_of(fs->fault_volume)))
        return false;
    return fs->fault == SIM_FS_BREAK ? is_past : is_past && !fs->struck;
}

/* Counts a call. ERR_OK: go on. *part: how many of size bytes a short or dying write still takes. */
static enum err enter_volume(struct sim_fs *fs, enum sim_fs_call kind, struct bytes volume, size_t size, size_t *part)
{
    if (part != NULL)
        *part = size;
    if (fs->dead)
        return ERR_IO;
    fs->calls[SIM_FS_ANY]++;
    fs->calls[kind]++;
    sim_trace(fs->sim, 0x6673, kind);
    if (!is_struck(fs, kind, volume))
        return ERR_OK;
    fs->struck = true;
    if (fs->fault == SIM_FS_DIE) {
        fs->dead = true;
        if (part != NULL)
            *part = (size_t)sim_draw(fs->sim, size + 1);
        return ERR_IO;
    }
    if (fs->fault == SIM_FS_SHORT && part != NULL && size > 0) {
        *part = (size_t)sim_draw(fs->sim, size);
        return ERR_OK;
    }
    return fs->fault_err;
}

static enum err enter(struct sim_fs *fs, enum sim_fs_call kind, const char *path)
{
    return enter_volume(fs, kind, volume_of(path), 0, NULL);
}

static enum err enter_file(struct fs_file *base, enum sim_fs_call kind, size_t size, size_t *part)
{
    struct sim_file *file = file_of(base);

    if (file->generation != of(base->fs)->generation)
        return ERR_IO;
    return enter_volume(of(base->fs), kind, bytes_of_text(file->volume), size, part);
}

/* ---- the operations ---- */

static enum err sim_open(struct fs *base, const char *path, int flags, struct fs_file **out)
{
    struct sim_fs *fs = of(base);
    char name[NAME_BYTES_MAX + 1];
    struct sim_fs_node *directory = NULL;
    struct sim_fs_node *node = NULL;
    struct sim_file *file = NULL;
    enum err err = enter(fs, SIM_FS_OPEN, path);

    if (err != ERR_OK)
        return err;
    directory = walk(fs, path, name);
    if (directory == NULL)
        return ERR_NOT_FOUND;
    node = find(fs, path);
    if (node != NULL && node->is_directory)
        return ERR_IO;
    if (node != NULL && (flags & FS_CREATE) && (flags & FS_EXCLUSIVE))
        return ERR_EXISTS;
    if (node == NULL && !(flags & FS_CREATE))
        return ERR_NOT_FOUND;
    if (node == NULL) {
        node = node_new(false);
        node->mtime_ms = clock_wall_ms(&fs->sim->clock);
        entry_add(directory, name, node);
        version_add(directory);
    } else if (flags & FS_TRUNCATE) {
        set_allocated(fs, node, 0);
        change_add(node, true, 0, NULL, 0);
    }
    file = must(calloc(1, sizeof(*file)));
    file->file.fs = base;
    atomic_init(&file->file.references, 1);
    file->node = node;
    node->references++;
    file->generation = fs->generation;
    snprintf(file->volume, sizeof(file->volume), "%.*s", BYTES_PRINTF(volume_of(path)));
    fs->open_files++;
    file->next = fs->files;
    file->previous = &fs->files;
    if (fs->files != NULL)
        fs->files->previous = &file->next;
    fs->files = file;
    *out = &file->file;
    return ERR_OK;
}

static enum err sim_lock(struct fs *base, const char *path, struct fs_file **out)
{
    enum err err = enter(of(base), SIM_FS_LOCK, path);

    if (err != ERR_OK)
        return err;
    err = sim_open(base, path, FS_READ | FS_WRITE | FS_CREATE, out);
    if (err != ERR_OK)
        return err;
    if (file_of(*out)->node->locked) {
        fs_file_drop(*out);
        *out = NULL;
        return ERR_LOCKED;
    }
    file_of(*out)->node->locked = true;
    file_of(*out)->holds_lock = true;
    return ERR_OK;
}

static bool sim_is_locked(struct fs *base, const char *path)
{
    const struct sim_fs_node *node = find(of(base), path);

    return node != NULL && node->locked;
}

static enum err sim_rename(struct fs *base, const char *from, const char *to)
{
    struct sim_fs *fs = of(base);
    char from_name[NAME_BYTES_MAX + 1];
    char to_name[NAME_BYTES_MAX + 1];
    struct sim_fs_node *from_directory = NULL;
    struct sim_fs_node *to_directory = NULL;
    struct sim_fs_node *node = NULL;
    struct sim_fs_node *old = NULL;
    enum err err = enter(fs, SIM_FS_RENAME, from);

    if (err != ERR_OK)
        return err;
    from_directory = walk(fs, from, from_name);
    to_directory = walk(fs, to, to_name);
    node = find(fs, from);
    old = find(fs, to);
    if (from_directory == NULL || to_directory == NULL || node == NULL)
        return ERR_NOT_FOUND;
    if (from_directory != fs->root && to_directory != fs->root && !bytes_equal(volume_of(from), volume_of(to)))
        return ERR_IO; /* as of two file systems */
    if (old == node)
        return ERR_OK;
    if (old != NULL && (old->is_directory != node->is_directory || (old->is_directory && old->entries != NULL)))
        return ERR_EXISTS;
    node->references++;
    if (old != NULL)
        entry_remove(fs, to_directory, to_name);
    entry_remove(fs, from_directory, from_name);
    entry_add(to_directory, to_name, node);
    node->references--;
    version_add(to_directory);
    if (from_directory != to_directory)
        version_add(from_directory);
    return ERR_OK;
}

static enum err remove_name(struct sim_fs *fs, const char *path, bool is_directory)
{
    char name[NAME_BYTES_MAX + 1];
    struct sim_fs_node *directory = walk(fs, path, name);
    struct sim_fs_node *node = find(fs, path);

    if (directory == NULL || node == NULL)
        return ERR_NOT_FOUND;
    if (node->is_directory != is_directory || node == fs->root)
        return ERR_IO;
    if (node->entries != NULL)
        return ERR_EXISTS;
    entry_remove(fs, directory, name);
    version_add(directory);
    return ERR_OK;
}

static enum err sim_unlink(struct fs *base, const char *path)
{
    enum err err = enter(of(base), SIM_FS_UNLINK, path);

    return err != ERR_OK ? err : remove_name(of(base), path, false);
}

static enum err sim_rmdir(struct fs *base, const char *path)
{
    enum err err = enter(of(base), SIM_FS_RMDIR, path);

    return err != ERR_OK ? err : remove_name(of(base), path, true);
}

static enum err sim_mkdir(struct fs *base, const char *path)
{
    struct sim_fs *fs = of(base);
    char name[NAME_BYTES_MAX + 1];
    struct sim_fs_node *directory = NULL;
    enum err err = enter(fs, SIM_FS_MKDIR, path);

    if (err != ERR_OK)
        return err;
    directory = walk(fs, path, name);
    if (directory == NULL)
        return ERR_NOT_FOUND;
    if (find(fs, path) != NULL)
        return ERR_EXISTS;
    entry_add(directory, name, node_new(true));
    version_add(directory);
    return ERR_OK;
}

static void settle_names(struct sim_fs *fs, struct sim_fs_node *node)
{
    struct entry *old = node->durable_entries;

    if (node->versions == NULL)
        return;
    node->durable_entries = entries_copy(node->entries);
    entries_free(fs, old);
    versions_free(fs, node);
}

static enum err sim_sync_dir(struct fs *base, const char *path)
{
    struct sim_fs *fs = of(base);
    struct sim_fs_node *node = NULL;
    enum err err = enter(fs, SIM_FS_SYNC_DIR, path);

    if (err != ERR_OK)
        return err;
    node = find(fs, path);
    if (node == NULL || !node->is_directory)
        return ERR_NOT_FOUND;
    settle_names(fs, node);
    return ERR_OK;
}

static enum err sim_list(struct fs *base, const char *path, fs_list_fn *each, void *context)
{
    struct sim_fs *fs = of(base);
    struct sim_fs_node *node = NULL;
    struct entry *copy = NULL;
    enum err err = enter(fs, SIM_FS_LIST, path);

    if (err != ERR_OK)
        return err;
    node = find(fs, path);
    if (node == NULL || !node->is_directory)
        return ERR_NOT_FOUND;
    copy = entries_copy(node->entries); /* the callee may change the directory */
    for (struct entry *entry = copy; entry != NULL && err == ERR_OK; entry = entry->next)
        err = each(context, entry->name, entry->node->is_directory);
    entries_free(fs, copy);
    return err;
}

static enum err sim_stat(struct fs *base, const char *path, struct fs_info *info)
{
    struct sim_fs_node *node = NULL;
    enum err err = enter(of(base), SIM_FS_STAT, path);

    if (err != ERR_OK)
        return err;
    node = find(of(base), path);
    if (node == NULL)
        return ERR_NOT_FOUND;
    *info = (struct fs_info){.size = node->now.size, .mtime_ms = node->mtime_ms, .is_directory = node->is_directory};
    return ERR_OK;
}

static enum err sim_space(struct fs *base, const char *path, struct fs_space *space)
{
    struct sim_fs *fs = of(base);
    enum err err = enter(fs, SIM_FS_SPACE, path);

    (void)path;
    if (err != ERR_OK)
        return err;
    space->total_bytes = fs->capacity_bytes;
    space->free_bytes = free_bytes(fs);
    return ERR_OK;
}

static size_t copy_out(struct fs_file *file, uint64_t position, void *to, size_t size)
{
    const struct content *content = &file_of(file)->node->now;
    size_t got = 0;

    if (position < content->size)
        got = size < content->size - position ? size : (size_t)(content->size - position);
    if (got > 0)
        memcpy(to, content->data + position, got);
    return got;
}

static enum err sim_read(struct fs_file *file, uint64_t position, void *to, size_t size, size_t *got)
{
    enum err err = enter_file(file, SIM_FS_READ, 0, NULL);

    if (err == ERR_OK) {
        file_of(file)->node->cold = false;
        *got = copy_out(file, position, to, size);
    }
    return err;
}

static enum err sim_read_cached(struct fs_file *file, uint64_t position, void *to, size_t size, size_t *got)
{
    struct sim *sim = of(file->fs)->sim;

    if (sim_chance(sim, sim->habits.cached_miss_percent) || file_of(file)->node->cold)
        return ERR_WOULD_BLOCK;
    return sim_read(file, position, to, size, got);
}

static bool sim_is_cached(struct fs_file *file, uint64_t position, size_t size)
{
    struct sim *sim = of(file->fs)->sim;

    (void)position;
    (void)size;
    return !sim_chance(sim, sim->habits.cached_miss_percent) && !file_of(file)->node->cold;
}

static enum err sim_write(struct fs_file *base, uint64_t position, const struct bytes *pieces, uint32_t count,
                          size_t *written)
{
    struct sim_fs *fs = of(base->fs);
    struct sim_fs_node *node = file_of(base)->node;
    size_t size = 0;
    size_t part = 0;
    uint64_t end = 0;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < count; i++)
        size += pieces[i].size;
    *written = 0;
    err = enter_file(base, SIM_FS_WRITE, size, &part);
    if (err != ERR_OK && !(fs->dead && err == ERR_IO))
        return err;
    if (file_of(base)->generation != fs->generation || (fs->dead && part == size && err != ERR_OK && size > 0))
        return ERR_IO; /* long dead: not even a part */
    end = position + part;
    if (end > node->allocated && end - node->allocated > free_bytes(fs)) {
        uint64_t room = node->allocated + free_bytes(fs);

        part = room > position ? (size_t)(room - position) : 0;
        if (part == 0 && size > 0 && err == ERR_OK)
            return ERR_NO_SPACE;
    }
    size = part;
    for (uint32_t i = 0; i < count && part > 0; i++) {
        size_t take = pieces[i].size < part ? pieces[i].size : part;

        if (take == 0)
            continue;
        change_add(node, false, position, pieces[i].data, take);
        node->cold = false;
        position += take;
        part -= take;
    }
    if (size > 0 && position > node->allocated)
        set_allocated(fs, node, position);
    node->mtime_ms = clock_wall_ms(&fs->sim->clock);
    *written = err == ERR_OK ? size : 0;
    return err;
}

static enum err sim_truncate(struct fs_file *file, uint64_t size)
{
    struct sim_fs *fs = of(file->fs);
    struct sim_fs_node *node = file_of(file)->node;
    enum err err = enter_file(file, SIM_FS_TRUNCATE, 0, NULL);

    if (err != ERR_OK)
        return err;
    if (size < node->allocated)
        set_allocated(fs, node, size);
    change_add(node, true, size, NULL, 0);
    node->mtime_ms = clock_wall_ms(&fs->sim->clock);
    return ERR_OK;
}

static enum err sim_preallocate(struct fs_file *file, uint64_t size)
{
    struct sim_fs *fs = of(file->fs);
    struct sim_fs_node *node = file_of(file)->node;
    enum err err = enter_file(file, SIM_FS_PREALLOCATE, 0, NULL);

    if (err != ERR_OK || size <= node->allocated)
        return err;
    if (size - node->allocated > free_bytes(fs))
        return ERR_NO_SPACE;
    set_allocated(fs, node, size);
    return ERR_OK;
}

static enum err sim_write_behind(struct fs_file *file, uint64_t position, uint64_t size)
{
    (void)position;
    (void)size;
    return file_of(file)->generation == of(file->fs)->generation && !of(file->fs)->dead ? ERR_OK : ERR_IO;
}

static enum err sim_write_out(struct fs_file *file)
{
    return sim_write_behind(file, 0, 0);
}

static void settle_content(struct sim_fs_node *node)
{
    for (struct change *change = node->changes; change != NULL; change = change->next)
        content_apply(&node->durable, change, change->size);
    changes_free(node);
}

static void sim_forget_cached(struct fs_file *base, uint64_t position, uint64_t size)
{
    (void)base;
    (void)position;
    (void)size;
}

static enum err sim_sync(struct fs_file *file)
{
    struct sim_fs *fs = of(file->fs);
    bool was_dead = fs->dead;
    enum err err = enter_file(file, SIM_FS_SYNC, 0, NULL);

    if (err == ERR_OK || (!was_dead && fs->dead && sim_chance(fs->sim, 50)))
        settle_content(file_of(file)->node);
    return err;
}

static void settle_tree(struct sim_fs *fs, struct sim_fs_node *node)
{
    if (!node->is_directory) {
        settle_content(node);
        return;
    }
    settle_names(fs, node);
    for (const struct entry *entry = node->entries; entry != NULL; entry = entry->next)
        settle_tree(fs, entry->node);
}

static bool sim_sync_all_tells(struct fs_file *file)
{
    (void)file;
    return true;
}

static enum err sim_sync_all(struct fs_file *file)
{
    enum err err = enter_file(file, SIM_FS_SYNC, 0, NULL);

    if (err == ERR_OK)
        settle_tree(of(file->fs), find(of(file->fs), file_of(file)->volume));
    return err;
}

static enum err sim_set_mtime(struct fs_file *file, int64_t mtime_ms)
{
    enum err err = enter_file(file, SIM_FS_SET_MTIME, 0, NULL);

    if (err == ERR_OK)
        file_of(file)->node->mtime_ms = mtime_ms;
    return err;
}

static enum err sim_size(struct fs_file *file, uint64_t *size)
{
    enum err err = enter_file(file, SIM_FS_SIZE, 0, NULL);

    if (err == ERR_OK)
        *size = file_of(file)->node->now.size;
    return err;
}

static struct uuid sim_boot_id(struct fs *base)
{
    const struct sim_fs *fs = of(base);
    struct uuid id = {{0x51}};

    for (int i = 0; i < 4; i++)
        id.bytes[UUID_BYTES - 1 - i] = (uint8_t)(fs->boots >> (8 * i));
    return id;
}

static int sim_descriptor(struct fs_file *file)
{
    (void)file;
    return -1;
}

static void sim_close(struct fs_file *base)
{
    struct sim_fs *fs = of(base->fs);
    struct sim_file *file = file_of(base);

    if (file->generation == fs->generation) {
        fs->open_files--;
        if (file->holds_lock)
            file->node->locked = false;
    }
    node_drop(fs, file->node);
    *file->previous = file->next;
    if (file->next != NULL)
        file->next->previous = file->previous;
    free(file);
}

static const struct fs_ops ops = {
    .open = sim_open,
    .lock = sim_lock,
    .is_locked = sim_is_locked,
    .rename = sim_rename,
    .unlink = sim_unlink,
    .mkdir = sim_mkdir,
    .rmdir = sim_rmdir,
    .sync_dir = sim_sync_dir,
    .list = sim_list,
    .stat = sim_stat,
    .space = sim_space,
    .read = sim_read,
    .read_cached = sim_read_cached,
    .is_cached = sim_is_cached,
    .write = sim_write,
    .truncate = sim_truncate,
    .preallocate = sim_preallocate,
    .write_behind = sim_write_behind,
    .write_out = sim_write_out,
    .forget_cached = sim_forget_cached,
    .sync = sim_sync,
    .sync_all = sim_sync_all,
    .sync_all_tells = sim_sync_all_tells,
    .set_mtime = sim_set_mtime,
    .size = sim_size,
    .boot_id = sim_boot_id,
    .descriptor = sim_descriptor,
    .close = sim_close,
};

/* ---- the test's side ---- */

void sim_fs_init(struct sim_fs *fs, struct sim *sim)
{
    *fs = (struct sim_fs){.fs = {.ops = &ops}, .sim = sim, .capacity_bytes = UINT64_MAX};
    fs->root = node_new(true);
    fs->root->references = 1;
}

void sim_fs_deinit(struct sim_fs *fs)
{
    node_drop(fs, fs->root);
}

void sim_fs_set_fault(struct sim_fs *fs, enum sim_fs_fault fault, enum sim_fs_call kind, uint64_t k, enum err err)
{
    fs->fault = fault;
    fs->fault_kind = kind;
    fs->fault_at = fs->calls[kind] + k;
    fs->fault_err = err;
    fs->fault_volume = NULL;
    fs->struck = false;
}

void sim_fs_limit_fault(struct sim_fs *fs, const char *volume)
{
    fs->fault_volume = volume;
}

bool sim_fs_fault_struck(const struct sim_fs *fs)
{
    return fs->fault != SIM_FS_NO_FAULT && fs->struck;
}

static void unlock_all(struct sim_fs_node *node)
{
    node->locked = false;
    for (struct entry *entry = node->entries; entry != NULL; entry = entry->next)
        unlock_all(entry->node);
}

void sim_fs_kill(struct sim_fs *fs)
{
    fs->generation++;
    fs->open_files = 0;
    fs->dead = false;
    fs->fault = SIM_FS_NO_FAULT;
    unlock_all(fs->root);
}

void sim_fs_forget_files(struct sim_fs *fs)
{
    for (struct sim_file *file = fs->files; file != NULL;) {
        struct sim_file *next = file->next;

        if (file->generation != fs->generation)
            sim_close(&file->file);
        file = next;
    }
}

/* Of one write some sectors made it, in no order. */
static void keep_sectors(struct sim_fs *fs, struct content *content, const struct change *change)
{
    uint64_t keep_percent = sim_draw(fs->sim, 101);

    for (uint64_t at = change->position; at < change->position + change->size;) {
        uint64_t end = at / SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES;

        if (end > change->position + change->size)
            end = change->position + change->size;
        if (sim_draw(fs->sim, 100) < keep_percent) {
            if (end > content->size)
                content_resize(content, end);
            memcpy(content->data + at, change->data + (at - change->position), (size_t)(end - at));
        }
        at = end;
    }
}

static void cut_file(struct sim_fs *fs, struct sim_fs_node *node)
{
    uint64_t keep_percent = sim_draw(fs->sim, 101); /* of this file's un-synced writes */

    for (struct change *change = node->changes; change != NULL; change = change->next) {
        size_t size = change->size;

        if (sim_draw(fs->sim, 100) >= keep_percent)
            continue;
        if (!change->truncate && size > SECTOR_BYTES && sim_chance(fs->sim, 20)) {
            keep_sectors(fs, &node->durable, change);
            continue;
        }
        if (!change->truncate && sim_chance(fs->sim, 20))
            size = (size_t)sim_draw(fs->sim, size + 1); /* torn anywhere, not only between sectors */
        content_apply(&node->durable, change, size);
    }
    changes_free(node);
    content_copy(&node->now, &node->durable);
    set_allocated(fs, node, node->now.size);
}

static void cut_node(struct sim_fs *fs, struct sim_fs_node *node)
{
    if (!node->is_directory) {
        cut_file(fs, node);
        node->cold = true;
        return;
    }
    uint64_t count = 0;
    for (struct version *version = node->versions; version != NULL; version = version->next)
        count++;
    uint64_t keep = sim_draw(fs->sim, count + 1);
    struct entry *entries = node->durable_entries;
    for (struct version *version = node->versions; version != NULL && keep > 0; version = version->next, keep--)
        entries = version->entries;
    entries = entries_copy(entries);
    entries_free(fs, node->entries);
    node->entries = entries;
    entries_free(fs, node->durable_entries);
    node->durable_entries = entries_copy(entries);
    versions_free(fs, node);
    for (struct entry *entry = node->entries; entry != NULL; entry = entry->next)
        cut_node(fs, entry->node);
}

void sim_fs_cut(struct sim_fs *fs)
{
    sim_fs_kill(fs);
    fs->boots++;
    cut_node(fs, fs->root);
}

void sim_fs_remount(struct sim_fs *fs)
{
    sim_fs_cut(fs);
    fs->boots--;
}

bool sim_fs_flip(struct sim_fs *fs, const char *path, uint64_t position, uint8_t mask)
{
    struct sim_fs_node *node = find(fs, path);

    if (node == NULL || node->is_directory || position >= node->now.size)
        return false;
    settle_content(node);
    node->now.data[position] ^= mask;
    node->durable.data[position] ^= mask;
    return true;
}

struct bytes sim_fs_peek(struct sim_fs *fs, const char *path)
{
    struct sim_fs_node *node = find(fs, path);

    return node == NULL ? (struct bytes){0} : bytes_of(node->now.data, node->now.size);
}

void sim_fs_poke(struct sim_fs *fs, const char *path, struct bytes content)
{
    char part[4096];
    struct fs_file *file = NULL;
    size_t written = 0;
    enum err err = ERR_OK;

    for (size_t i = 1; path[i] != '\0'; i++) {
        if (path[i] != '/')
            continue;
        snprintf(part, sizeof(part), "%.*s", (int)i, path);
        err = fs_mkdir(&fs->fs, part);
        assert(err == ERR_OK || err == ERR_EXISTS);
    }
    err = fs_open(&fs->fs, path, FS_WRITE | FS_CREATE | FS_TRUNCATE, &file);
    assert(err == ERR_OK);
    err = fs_write(file, 0, &content, 1, &written);
    assert(err == ERR_OK && written == content.size);
    err = fs_sync(file);
    assert(err == ERR_OK);
    fs_file_drop(file);
    for (size_t i = 0; path[i] != '\0'; i++) {
        if (path[i] != '/')
            continue;
        snprintf(part, sizeof(part), "%.*s", (int)(i == 0 ? 1 : i), path);
        err = fs_sync_dir(&fs->fs, part);
        assert(err == ERR_OK);
    }
}
