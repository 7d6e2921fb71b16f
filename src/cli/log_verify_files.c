#include "cli/log_verify_files.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "cli/log_journal.h"
#include "partition/batch_walk.h"
#include "partition/damage.h"
#include "partition/epoch_cache.h"
#include "partition/log_dir.h"
#include "raftmeta/quorum_state.h"

static void say(struct log_check *check, const char *dir, const char *name, const char *text)
{
    log_check_say(check, LOG_FAULT, dir, name, -1, -1, "%s", text);
}

/* A snapshot of the metadata log: whole batches from its first byte to its last, a control batch first and last
 * (kraft.md "Snapshots"). */
static enum err verify_snapshot(struct log_check *check, const char *dir, const char *name)
{
    struct log_path path;
    struct fs_file *file = NULL;
    struct batch_walk walk;
    struct batch_header head = {0};
    struct bytes batch;
    uint64_t size = 0;
    uint64_t count = 0;
    bool framed = false;
    enum err err = log_path_in(&path, dir, name);

    if (err == ERR_OK)
        err = fs_open(check->fs, path.text, FS_READ, &file);
    if (err == ERR_OK)
        err = fs_size(file, &size);
    if (err != ERR_OK)
        goto out;
    batch_walk_init(&walk, file, 0, size, 0);
    walk.gaps_allowed = true;
    while ((err = batch_walk_next(&walk, &head, &batch)) == ERR_OK || err == ERR_DAMAGED) {
        if (err == ERR_DAMAGED) {
            log_check_say(check, LOG_FAULT, dir, name, (int64_t)walk.extent.position, walk.extent.first_offset,
                          "is damaged over %" PRIu64 " bytes", walk.extent.size);
            count++;
            continue;
        }
        check->batches++;
        check->records += (uint64_t)head.record_count;
        if (count++ == 0)
            framed = batch_has(&head, BATCH_CONTROL);
    }
    if (err == ERR_END && (!framed || !batch_has(&head, BATCH_CONTROL)))
        say(check, dir, name, "does not begin and end as a snapshot does");
    check->bytes += size;
    batch_walk_deinit(&walk);
out:
    fs_file_drop(file);
    return err == ERR_END ? ERR_OK : err;
}

static enum err verify_text(struct log_check *check, const char *dir, const char *name)
{
    enum err err = ERR_OK;

    if (strcmp(name, "meta.properties") == 0) {
        struct log_dir_meta meta;

        err = log_dir_read_meta_at(check->fs, dir, &meta);
        if (err == ERR_DAMAGED)
            say(check, dir, name, "is no meta.properties of version 1");
    } else if (strcmp(name, "quorum-state") == 0) {
        struct quorum_state state;

        err = quorum_state_read(check->fs, dir, &state);
        if (err == ERR_DAMAGED || err == ERR_UNSUPPORTED_VERSION)
            say(check, dir, name, "is no quorum-state of version 0 or 1");
    }
    return err == ERR_DAMAGED || err == ERR_UNSUPPORTED_VERSION ? ERR_OK : err;
}

enum err log_verify_file(struct log_check *check, const char *dir, const char *name, enum log_file_kind kind)
{
    struct checkpoint_offsets offsets = {0};
    struct epoch_cache epochs = {0};
    struct damage damage = {0};
    struct uuid topic_id;
    enum err err = ERR_OK;

    switch (kind) {
    case LOG_FILE_METADATA_SNAPSHOT:
        return verify_snapshot(check, dir, name);
    case LOG_FILE_TEXT:
        return verify_text(check, dir, name);
    case LOG_FILE_JOURNAL:
        return log_journal_verify(check, dir, name);
    case LOG_FILE_OFFSETS:
        err = checkpoint_read_offsets(check->fs, dir, name, &offsets);
        break;
    case LOG_FILE_EPOCHS:
        err = checkpoint_read_epochs(check->fs, dir, &epochs);
        break;
    case LOG_FILE_DAMAGE:
        err = damage_read(check->fs, dir, &damage);
        for (uint32_t i = 0; i < damage.count; i++)
            log_check_say(check, LOG_FAULT, dir, name, -1, damage.ranges[i].first_offset,
                          "marks offsets up to %" PRId64 " as damaged", damage.ranges[i].end_offset);
        break;
    case LOG_FILE_TOPIC_ID:
        err = checkpoint_read_topic_id(check->fs, dir, &topic_id);
        break;
    default:
        return ERR_OK;
    }
    checkpoint_offsets_deinit(&offsets);
    epoch_cache_deinit(&epochs);
    damage_deinit(&damage);
    if (err != ERR_DAMAGED && err != ERR_LIMIT && err != ERR_UNSUPPORTED_VERSION)
        return err;
    say(check, dir, name,
        err == ERR_UNSUPPORTED_VERSION ? "is of a later build" : "is not whole: version, count or form");
    return ERR_OK;
}

struct promised {
    const char *log_dir;
    struct bytes topic;
    int32_t partition;
    int64_t end_offset;
};

static void judge(struct log_check *check, const struct promised *by, const char *name, int64_t offset,
                  bool journals_count)
{
    if (offset > by->end_offset)
        log_check_say(check, journals_count ? LOG_NOTE : LOG_FAULT, by->log_dir, name, -1, offset,
                      "promises more than there is of %.*s-%" PRId32 ", which ends at %" PRId64 "%s",
                      BYTES_PRINTF(by->topic), by->partition, by->end_offset,
                      journals_count ? "; the journals may hold the rest" : "");
}

void log_verify_checkpoints(struct log_check *check, const struct log_target *target, const struct log_dir_facts *facts,
                            struct bytes topic, int32_t partition, const struct log_checked *checked)
{
    struct promised by = {target->log_dir.text, topic, partition, checked->end_offset};

    if (facts->in_use) /* they are written now and then */
        return;
    judge(check, &by, "recovery-point-offset-checkpoint", log_facts_find(&facts->recovery_points, topic, partition),
          false);
    judge(check, &by, "log-start-offset-checkpoint", log_facts_find(&facts->starts, topic, partition),
          facts->has_journals);
    judge(check, &by, "replication-offset-checkpoint", log_facts_find(&facts->high_watermarks, topic, partition),
          facts->has_journals);
}

static void strangers_in(struct log_check *check, const char *log_dir, const char *name,
                         const struct checkpoint_offsets *offsets)
{
    for (uint32_t i = 0; i < offsets->count; i++) {
        struct log_dir_name dir;
        struct log_path path;
        struct fs_info info;

        if (log_path_dir_name(&dir, offsets->entries[i].topic, offsets->entries[i].partition) == ERR_OK &&
            log_path_in(&path, log_dir, dir.text) == ERR_OK && fs_stat(check->fs, path.text, &info) == ERR_NOT_FOUND)
            log_check_say(check, LOG_NOTE, log_dir, name, -1, -1, "speaks of %s, which is not here", dir.text);
    }
}

void log_verify_strangers(struct log_check *check, const char *log_dir, const struct log_dir_facts *facts)
{
    if (facts->in_use)
        return;
    strangers_in(check, log_dir, "recovery-point-offset-checkpoint", &facts->recovery_points);
    strangers_in(check, log_dir, "log-start-offset-checkpoint", &facts->starts);
    strangers_in(check, log_dir, "replication-offset-checkpoint", &facts->high_watermarks);
}
