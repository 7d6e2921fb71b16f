/* A log's part in the journal of its reactor and directory: what it gives, and what it may promise because of it. */
#include "base/assert.h"
#include "base/mem.h"
#include "partition/journal.h"
#include "partition/log.h"
#include "partition/log_internal.h"
#include "partition/partition_limits.h"

/* What was given without a gap lies in [from, to), and is on the disk below written. */
struct log_journal {
    struct journal_client client;
    struct partition_log *log;
    int64_t from;
    int64_t to;
    int64_t written;
};

static struct partition_log *log_of(struct journal_client *client)
{
    return LIST_ENTRY(client, struct log_journal, client)->log;
}

static void gap(struct log_journal *journal, int64_t end_offset)
{
    journal->from = end_offset;
    journal->to = end_offset;
    journal->written = end_offset;
}

/* --- what the journal tells --- */

static void written(struct journal_client *client, int64_t end_offset, enum err err)
{
    struct partition_log *log = log_of(client);
    struct log_journal *journal = log->journal;

    if (err == ERR_IO) {
        partition_log_fail(log, err);
    } else if (err != ERR_OK) {
        gap(journal, log->end_offset);
        log_sync_go_on(log);
    } else if (!log->failed && end_offset > journal->written && end_offset <= journal->to) {
        journal->written = end_offset;
        log_synced_move(log);
        if (log->closing == NULL) {
            log_tell_change(log);
            log_sync_go_on(log);
            log_timer_set(log);
        }
    }
    log_job_ended(log);
}

static bool sync_segments(struct journal_client *client)
{
    struct partition_log *log = log_of(client);

    log_sync_start(log);
    return log->awake->sync_job != NULL;
}

static const struct journal_client_ops ops = {.written = written, .sync = sync_segments};

/* --- giving --- */

/* Where syncs are rare or large the same bytes written twice cost more than they save. */
static bool gains(const struct partition_log *log)
{
    return log->env->journal != NULL &&
           (log->config->flush_messages <= JOURNAL_FLUSH_MESSAGES_MAX || log->config->flush_ms <= JOURNAL_FLUSH_MS_MAX);
}

static struct log_journal *journal_of(struct partition_log *log)
{
    struct log_journal *made = log->journal;

    if (made != NULL)
        return made;
    made = mem_calloc(1, sizeof(*made));
    if (made == NULL)
        return NULL;
    journal_client_init(&made->client, log->env->journal, &ops);
    made->log = log;
    gap(made, log->end_offset);
    log->journal = made;
    return made;
}

void log_journal_give(struct partition_log *log, const struct log_append *op, int64_t end_before)
{
    struct journal_entry entry = {
        .type = JOURNAL_APPEND,
        .topic_id = log->topic_id,
        .partition = log->partition,
        .offset = op->base_offset,
        .end_offset = log->end_offset,
        .previous_end = end_before,
        .body = bytes_of(op->batches, op->size),
    };
    struct log_journal *journal = gains(log) ? journal_of(log) : log->journal;

    if (journal == NULL)
        return;
    if (!gains(log)) {
        gap(journal, log->end_offset);
        return;
    }
    entry.leader_epoch = partition_log_last_epoch(log);
    switch (journal_append(log->env->journal, &journal->client, &entry)) {
    case JOURNAL_REFUSED:
        gap(journal, log->end_offset);
        return;
    case JOURNAL_JOINED:
        log_job_started(log);
        break;
    case JOURNAL_TAKEN:
        break;
    }
    if (journal->to != end_before)
        gap(journal, end_before);
    journal->to = log->end_offset;
}

bool log_journal_covers(const struct partition_log *log)
{
    const struct log_journal *journal = log->journal;

    return journal != NULL && log->placed && journal->from <= log->segments_synced && journal->to == log->end_offset &&
           journal->from < journal->to && !journal_has_failed(log->env->journal);
}

int64_t log_journal_synced(const struct partition_log *log)
{
    const struct log_journal *journal = log->journal;

    if (journal == NULL || !log->placed || journal->from > log->segments_synced ||
        journal->written < log->segments_synced)
        return log->segments_synced;
    return journal->written;
}

void log_journal_want(struct partition_log *log)
{
    if (log->journal != NULL)
        journal_want(log->env->journal);
}

/* --- segments behind --- */

bool log_journal_sync_later(struct partition_log *log)
{
    if (!log_journal_covers(log))
        return false;
    journal_sync_later(&log->journal->client);
    return true;
}

void log_journal_sync_begins(struct partition_log *log)
{
    if (log->journal != NULL)
        journal_sync_begins(&log->journal->client);
}

void log_journal_sync_ended(struct partition_log *log, bool succeeded)
{
    if (log->journal == NULL)
        return;
    journal_sync_ended(&log->journal->client, succeeded);
    log_journal_want(log); /* what nobody waited for is not to lie there for ever: a log at rest is in no group */
}

/* --- changes --- */

void log_journal_truncated(struct partition_log *log, int64_t offset)
{
    struct log_journal *journal = log->journal;

    if (journal == NULL)
        return;
    journal_client_cut(&journal->client, offset);
    gap(journal, offset);
}

void log_journal_skipped(struct partition_log *log, int64_t offset)
{
    struct log_journal *journal = log->journal;

    if (journal != NULL && journal->from > log->segments_synced && journal->from <= offset)
        gap(journal, log->end_offset);
}

void log_journal_started(struct partition_log *log, int64_t offset)
{
    if (log->env->journal == NULL ||
        journal_note_lazily(log->env->journal, JOURNAL_START, log->topic_id, log->partition, offset))
        return;
    /* Then it has to be seen from the segments' names. */
    log->placed = false;
    log->names_changed = true;
}

void log_journal_deleted(struct partition_log *log)
{
    bool noted = log->journal == NULL || journal_note_lazily(log->env->journal, JOURNAL_DELETION, log->topic_id,
                                                             log->partition, log->end_offset);

    (void)noted; /* entries of a topic that is not there are skipped anyway */
}

void log_journal_keep(struct partition_log *log)
{
    if (log->journal != NULL)
        journal_client_keep(&log->journal->client);
}

void log_journal_free(struct partition_log *log)
{
    if (log->journal == NULL)
        return;
    journal_client_leave(&log->journal->client);
    mem_free(log->journal);
    log->journal = NULL;
}
