#include "raftmeta/quorum_state.h"

#include <jansson.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "raftmeta/snapshot.h"

enum { QUORUM_STATE_BYTES_MAX = 64 * 1024 };

static enum err path_of(const char *dir, const char *suffix, char path[SNAPSHOT_PATH_CHARS_MAX])
{
    size_t size = (size_t)snprintf(path, SNAPSHOT_PATH_CHARS_MAX, "%s/quorum-state%s", dir, suffix);

    return size < SNAPSHOT_PATH_CHARS_MAX ? ERR_OK : ERR_LIMIT;
}

static void set_none(struct quorum_state *state)
{
    *state = (struct quorum_state){.leader_id = -1, .voted_id = -1};
}

static int32_t integer(const json_t *object, const char *key, int32_t otherwise)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? (int32_t)json_integer_value(value) : otherwise;
}

static enum err parse(const char *text, size_t size, struct quorum_state *state)
{
    json_t *object = json_loadb(text, size, 0, NULL);
    const char *directory = NULL;
    enum err err = ERR_DAMAGED;

    if (!json_is_object(object) || !json_is_integer(json_object_get(object, "leaderEpoch")))
        goto out;
    state->version = (int16_t)integer(object, "data_version", -1);
    if (state->version < 0 || state->version > 1) {
        err = ERR_UNSUPPORTED_VERSION;
        goto out;
    }
    state->leader_id = integer(object, "leaderId", -1);
    state->leader_epoch = integer(object, "leaderEpoch", 0);
    state->voted_id = integer(object, "votedId", -1);
    directory = json_string_value(json_object_get(object, "votedDirectoryId"));
    err = state->leader_epoch < 0 ? ERR_DAMAGED : ERR_OK;
    if (directory != NULL && uuid_parse(bytes_of_text(directory), &state->voted_directory_id) != ERR_OK)
        err = ERR_DAMAGED;
out:
    json_decref(object);
    return err;
}

enum err quorum_state_read(struct fs *fs, const char *dir, struct quorum_state *state)
{
    char path[SNAPSHOT_PATH_CHARS_MAX];
    char *text = NULL;
    struct fs_file *file = NULL;
    size_t size = 0;
    enum err err = path_of(dir, "", path);

    set_none(state);
    if (err == ERR_OK)
        err = fs_open(fs, path, FS_READ, &file);
    if (err != ERR_OK)
        return err;
    text = mem_alloc(QUORUM_STATE_BYTES_MAX);
    err = text == NULL ? ERR_NOMEM : fs_read(file, 0, text, QUORUM_STATE_BYTES_MAX, &size);
    if (err == ERR_OK)
        err = parse(text, size, state);
    mem_free(text);
    fs_file_drop(file);
    return err;
}

/* Field order as Apache Kafka writes it. */
static json_t *to_json(const struct quorum_state *state)
{
    json_t *voters = json_array();
    json_t *object = NULL;

    if (state->version == 0) {
        for (uint32_t i = 0; state->voters != NULL && i < state->voters->count; i++)
            (void)json_array_append_new(voters, json_pack("{s:i}", "voterId", state->voters->voters[i].id));
        object = json_pack("{s:s,s:i,s:i,s:i,s:i,s:O,s:i}", "clusterId", "", "leaderId", state->leader_id,
                           "leaderEpoch", state->leader_epoch, "votedId", state->voted_id, "appliedOffset", 0,
                           "currentVoters", voters, "data_version", 0);
    } else {
        object = json_pack("{s:i,s:i,s:i,s:s,s:i}", "leaderId", state->leader_id, "leaderEpoch", state->leader_epoch,
                           "votedId", state->voted_id, "votedDirectoryId", uuid_format(state->voted_directory_id).text,
                           "data_version", 1);
    }
    json_decref(voters);
    return object;
}

static enum err write_file(struct fs *fs, const char *path, struct bytes text)
{
    struct fs_file *file = NULL;
    size_t written = 0;
    enum err err = fs_open(fs, path, FS_WRITE | FS_CREATE | FS_TRUNCATE, &file);

    if (err != ERR_OK)
        return err;
    err = fs_write(file, 0, &text, 1, &written);
    if (err == ERR_OK && written < text.size)
        err = ERR_NO_SPACE;
    if (err == ERR_OK)
        err = fs_sync(file);
    fs_file_drop(file);
    return err;
}

enum err quorum_state_write(struct fs *fs, const char *dir, const struct quorum_state *state)
{
    char path[SNAPSHOT_PATH_CHARS_MAX];
    char beside[SNAPSHOT_PATH_CHARS_MAX];
    char *text = NULL;
    size_t size = 0;
    json_t *object = to_json(state);
    enum err err = path_of(dir, "", path);

    if (err == ERR_OK)
        err = path_of(dir, ".tmp", beside);
    if (err != ERR_OK)
        goto out;
    text = mem_alloc(QUORUM_STATE_BYTES_MAX);
    size = text == NULL ? 0 : json_dumpb(object, text, QUORUM_STATE_BYTES_MAX, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (size == 0) {
        err = ERR_NOMEM;
        goto out;
    }
    assert(size <= QUORUM_STATE_BYTES_MAX);
    err = write_file(fs, beside, bytes_of(text, size));
    if (err == ERR_OK)
        err = fs_rename(fs, beside, path);
    if (err == ERR_OK)
        err = fs_sync_dir(fs, dir);
out:
    json_decref(object);
    mem_free(text);
    return err;
}
