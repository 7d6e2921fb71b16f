#include "partition/log_dir_trust.h"

#include "partition/boot_mark.h"
#include "partition/checkpoint.h"

/* Our checkpoint files have a hand of their own (checkpoint.h). Apache Kafka writes them anew within a minute and at
 * every clean stop. */
static enum err written_by_another(struct fs *fs, const char *log_dir, bool *foreign)
{
    struct checkpoint_offsets offsets;
    enum err err = checkpoint_read_offsets(fs, log_dir, "recovery-point-offset-checkpoint", &offsets);

    *foreign = false;
    if (err == ERR_NOT_FOUND || err == ERR_DAMAGED || err == ERR_LIMIT)
        return ERR_OK;
    if (err != ERR_OK)
        return err;
    *foreign = !offsets.is_ours;
    checkpoint_offsets_deinit(&offsets);
    return ERR_OK;
}

static enum log_trust trust_of(struct fs *fs, const struct boot_mark *mark, bool resident)
{
    struct uuid boot_id = fs_boot_id(fs);

    if (mark->state == BOOT_MARK_FAILED)
        return LOG_TRUST_REWRITE;
    if (mark->state != BOOT_MARK_RUNNING || !resident || uuid_is_zero(boot_id) || !uuid_equal(boot_id, mark->boot_id))
        return LOG_TRUST_SYNCED;
    return LOG_TRUST_WRITTEN;
}

enum err log_dir_judge(struct fs *fs, struct log *log, const char *log_dir, bool clean, struct log_dir_trust *trust)
{
    struct boot_mark mark = {BOOT_MARK_STOPPED, {{0}}};
    uint16_t version = 0;
    bool resident = false;
    bool foreign = false;
    enum err err = boot_mark_read(fs, log_dir, &mark, &resident, &version);

    *trust = (struct log_dir_trust){.trust = clean ? LOG_TRUST_ALL : LOG_TRUST_SYNCED};
    if (err == ERR_UNSUPPORTED_VERSION) {
        log_error(log, "written by a later build, which this one does not understand file=%s/%s version=%u", log_dir,
                  BOOT_MARK_FILE, version);
        return err;
    }
    if (err == ERR_NOT_FOUND || err == ERR_DAMAGED)
        return ERR_OK;
    if (err != ERR_OK)
        return err;
    if (clean) { /* whoever stopped cleanly while our mark says that we had not, it was not us */
        trust->discard_journals = mark.state != BOOT_MARK_STOPPED;
        return ERR_OK;
    }
    err = written_by_another(fs, log_dir, &foreign);
    if (err != ERR_OK)
        return err;
    trust->discard_journals = foreign;
    if (!foreign)
        trust->trust = trust_of(fs, &mark, resident);
    return ERR_OK;
}
