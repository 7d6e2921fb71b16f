#include "raftmeta/format.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "raftmeta/metadata_record.h"
#include "raftmeta/snapshot.h"

struct formatter {
    const struct format_options *options;
    struct format_result *result;
    char *message;
    struct log_dir_meta *metas; /* of each directory */
    bool *known;                /* it has one */
};

static enum err fail(struct formatter *formatter, enum err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum err fail(struct formatter *formatter, enum err err, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    (void)vsnprintf(formatter->message, FORMAT_MESSAGE_BYTES_MAX, format, list);
    va_end(list);
    return err;
}

static const char *path_of(const struct formatter *formatter, uint32_t dir)
{
    return log_dir_path(formatter->options->dirs[dir]);
}

static struct uuid new_directory_id(struct rng *rng)
{
    struct uuid id;

    do { /* Kafka's generated ids never begin with '-' */
        id = uuid_random(rng);
    } while (uuid_format(id).text[0] == '-');
    return id;
}

static enum err read_all(struct formatter *formatter, uint32_t *known_count)
{
    *known_count = 0;
    for (uint32_t i = 0; i < formatter->options->dir_count; i++) {
        enum err err = log_dir_read_meta(formatter->options->dirs[i], &formatter->metas[i]);

        if (err != ERR_OK && err != ERR_NOT_FOUND)
            return fail(formatter, err, "%s/meta.properties: %s", path_of(formatter, i), err_text(err));
        formatter->known[i] = err == ERR_OK;
        *known_count += err == ERR_OK;
    }
    return ERR_OK;
}

static enum err check_known(struct formatter *formatter)
{
    const struct format_options *options = formatter->options;
    const struct log_dir_meta *first = &formatter->metas[options->metadata_dir];

    for (uint32_t i = 0; i < options->dir_count; i++) {
        const struct log_dir_meta *meta = &formatter->metas[i];

        if (!formatter->known[i])
            continue;
        if (meta->node_id != options->node_id)
            return fail(formatter, ERR_USAGE, "%s belongs to node %d, but node.id is %d", path_of(formatter, i),
                        meta->node_id, options->node_id);
        if (strcmp(meta->cluster_id, first->cluster_id) != 0)
            return fail(formatter, ERR_USAGE, "%s belongs to cluster %s, but %s to cluster %s", path_of(formatter, i),
                        meta->cluster_id, path_of(formatter, options->metadata_dir), first->cluster_id);
        if (options->cluster_id != NULL && strcmp(meta->cluster_id, options->cluster_id) != 0)
            return fail(formatter, ERR_USAGE, "%s belongs to cluster %s, not %s", path_of(formatter, i),
                        meta->cluster_id, options->cluster_id);
        for (uint32_t j = 0; j < i; j++)
            if (formatter->known[j] && !uuid_is_zero(meta->directory_id) &&
                uuid_equal(meta->directory_id, formatter->metas[j].directory_id))
                return fail(formatter, ERR_DAMAGED, "%s and %s have the same directory.id %s: one is a copy",
                            path_of(formatter, j), path_of(formatter, i), uuid_format(meta->directory_id).text);
    }
    return ERR_OK;
}

/* meta.properties of one directory; keeps an id it has. */
static enum err write_meta(struct formatter *formatter, uint32_t dir, const char *cluster_id)
{
    struct log_dir_meta *meta = &formatter->metas[dir];
    enum err err = ERR_OK;

    if (cluster_id != meta->cluster_id)
        (void)snprintf(meta->cluster_id, sizeof(meta->cluster_id), "%s", cluster_id);
    meta->node_id = formatter->options->node_id;
    if (uuid_is_zero(meta->directory_id))
        meta->directory_id = new_directory_id(formatter->options->rng);
    err = log_dir_write_meta(formatter->options->dirs[dir], meta);
    if (err != ERR_OK)
        return fail(formatter, err, "%s/meta.properties: %s", path_of(formatter, dir), err_text(err));
    formatter->known[dir] = true;
    return ERR_OK;
}

/* One of them. */
static enum err first_level(struct image_edit *edit, struct bytes name, int16_t level)
{
    struct metadata_record record;

    metadata_record_init(&record, RECORD_FEATURE_LEVEL, METADATA_VERSION_NEWEST);
    record.feature_level.name = name;
    record.feature_level.feature_level = level;
    return image_edit_apply(edit, &record, 0);
}

/* An image with the levels that a new cluster begins with. */
static enum err first_levels(struct image **image)
{
    struct image *nothing = image_new();
    struct image_edit *edit = nothing == NULL ? NULL : image_edit_new(nothing);
    struct image_delta *delta = NULL;
    enum err err = ERR_NOMEM;

    if (edit == NULL)
        goto out;
    err = first_level(edit, BYTES_LITERAL("metadata.version"), METADATA_VERSION_NEWEST);
    if (err == ERR_OK)
        err = first_level(edit, BYTES_LITERAL("group.version"), GROUP_VERSION_NEWEST);
    if (err == ERR_OK)
        err = image_edit_finish(edit, 0, 0, 0, image, &delta);
    if (err != ERR_OK)
        image_edit_drop(edit);
    image_delta_drop(delta);
out:
    image_drop(nothing);
    return err;
}

static enum err write_bootstrap(struct formatter *formatter, const char *dir, int64_t now_ms)
{
    struct snapshot_source source = {.now_ms = now_ms, .last_ms = now_ms, .features_only = true, .unnamed = true};
    struct image *image = NULL;
    char path[SNAPSHOT_PATH_CHARS_MAX];
    enum err err = first_levels(&image);

    if (err == ERR_OK)
        err = (size_t)snprintf(path, sizeof(path), "%s/bootstrap.checkpoint", dir) < sizeof(path) ? ERR_OK : ERR_LIMIT;
    source.image = image;
    if (err == ERR_OK)
        err = snapshot_write(formatter->options->fs, path, &source);
    image_drop(image);
    return err;
}

/* The (0, 0) snapshot: who votes, before there is a log that says so. */
static enum err write_voters(struct formatter *formatter, const char *dir, struct uuid directory_id, int64_t now_ms)
{
    const struct format_options *options = formatter->options;
    struct voter_set *voters = mem_calloc(1, sizeof(*voters));
    struct snapshot_source source = {.voters = voters, .kraft_version = 1, .now_ms = now_ms, .last_ms = now_ms};
    char path[SNAPSHOT_PATH_CHARS_MAX];
    char name[SNAPSHOT_NAME_CHARS_MAX];
    size_t size = (size_t)snprintf(path, sizeof(path), "%s/__cluster_metadata-0", dir);
    enum err err = voters == NULL ? ERR_NOMEM : ERR_OK;

    if (err != ERR_OK)
        return err;
    voters->count = 1;
    err = voter_init(&voters->voters[0], options->node_id, directory_id, &options->voter_endpoint);
    if (err == ERR_OK)
        err = fs_mkdir(options->fs, path);
    if (err == ERR_EXISTS)
        err = ERR_OK;
    snapshot_name((struct snapshot_id){0, 0}, name);
    if (err == ERR_OK)
        err =
            (size_t)snprintf(path + size, sizeof(path) - size, "/%s", name) + size < sizeof(path) ? ERR_OK : ERR_LIMIT;
    if (err == ERR_OK)
        err = snapshot_write(options->fs, path, &source);
    mem_free(voters);
    return err;
}

static enum err format_all(struct formatter *formatter)
{
    const struct format_options *options = formatter->options;
    const char *dir = path_of(formatter, options->metadata_dir);
    struct uuid_text random = uuid_format(new_directory_id(options->rng));
    const char *cluster_id = options->cluster_id == NULL ? random.text : options->cluster_id;
    struct log_dir_meta *meta = &formatter->metas[options->metadata_dir];
    int64_t now_ms = clock_wall_ms(options->clock);
    enum err err = ERR_OK;

    if (!options->may_format)
        return fail(formatter, ERR_NOT_FOUND,
                    "%s is not formatted: it has no meta.properties. Only a node alone (no configuration file, or the "
                    "only voter) formats by itself",
                    dir);
    meta->directory_id = new_directory_id(options->rng);
    err = write_bootstrap(formatter, dir, now_ms);
    if (err == ERR_OK && !options->static_voters)
        err = write_voters(formatter, dir, meta->directory_id, now_ms);
    if (err == ERR_OK) /* once for both: before meta.properties, with which they are believed */
        err = fs_sync_dir(options->fs, dir);
    if (err != ERR_OK)
        return fail(formatter, err, "%s cannot be formatted: %s", dir, err_text(err));
    /* The metadata directory first: with it the node exists, and the others can be completed. */
    err = write_meta(formatter, options->metadata_dir, cluster_id);
    for (uint32_t i = 0; err == ERR_OK && i < options->dir_count; i++)
        if (i != options->metadata_dir)
            err = write_meta(formatter, i, cluster_id);
    formatter->result->formatted = err == ERR_OK;
    return err;
}

/* Directories that came later, and ids that an older Kafka did not write. */
static enum err complete(struct formatter *formatter)
{
    const struct format_options *options = formatter->options;
    enum err err = ERR_OK;

    for (uint32_t i = 0; err == ERR_OK && i < options->dir_count; i++) {
        if (formatter->known[i] && !uuid_is_zero(formatter->metas[i].directory_id))
            continue;
        if (!formatter->known[i] && !options->may_format)
            return fail(formatter, ERR_NOT_FOUND, "%s is not formatted: it has no meta.properties",
                        path_of(formatter, i));
        err = write_meta(formatter, i, formatter->metas[options->metadata_dir].cluster_id);
    }
    return err;
}

static enum err check_and_format(struct formatter *formatter)
{
    const struct format_options *options = formatter->options;
    uint32_t known_count = 0;
    enum err err = read_all(formatter, &known_count);

    if (err != ERR_OK)
        return err;
    if (known_count == 0)
        return format_all(formatter);
    if (!formatter->known[options->metadata_dir])
        return fail(formatter, ERR_USAGE,
                    "%s is to hold the metadata, but is not formatted while another of log.dirs is: put back the order "
                    "of log.dirs, or set metadata.log.dir",
                    path_of(formatter, options->metadata_dir));
    err = check_known(formatter);
    return err == ERR_OK ? complete(formatter) : err;
}

enum err format_dirs(const struct format_options *options, struct format_result *result,
                     char message[FORMAT_MESSAGE_BYTES_MAX])
{
    struct formatter formatter = {.options = options, .result = result, .message = message};
    enum err err = ERR_NOMEM;

    assert(options->metadata_dir < options->dir_count);
    message[0] = 0;
    result->formatted = false;
    formatter.metas = mem_calloc(options->dir_count, sizeof(*formatter.metas));
    formatter.known = mem_calloc(options->dir_count, sizeof(*formatter.known));
    if (formatter.metas != NULL && formatter.known != NULL)
        err = check_and_format(&formatter);
    if (err == ERR_OK) {
        memcpy(result->cluster_id, formatter.metas[options->metadata_dir].cluster_id, sizeof(result->cluster_id));
        for (uint32_t i = 0; i < options->dir_count; i++)
            result->directory_ids[i] = formatter.metas[i].directory_id;
    }
    mem_free(formatter.metas);
    mem_free(formatter.known);
    return err;
}
