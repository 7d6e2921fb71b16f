#include "broker/hosting.h"

#include <stdio.h>

#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/dir_recovery.h"
#include "broker/topic_config.h"

/* --- what the start found --- */

/* A directory of an earlier topic of that name is not this partition's. Nor is one whose partition came and went since:
 * what the start found of it is history. */
static bool is_of(const struct stored *stored, const struct image_topic *topic)
{
    const struct uuid *id = &stored->found->topic_id;

    return (uuid_equal(*id, topic->id) || (uuid_is_zero(*id) && stored->found->copy == NULL)) &&
           !atomic_load(&stored->claimed);
}

/* The metadata say where it is, and that is none of the directories that this node has now. */
static bool is_elsewhere(const struct broker *broker, struct uuid told)
{
    for (uint32_t i = 0; i < broker->dir_count; i++)
        if (uuid_equal(told, broker->dirs[i].id))
            return false;
    return !image_directory_is_reserved(told);
}

/* What is here of a partition that lies elsewhere is of a move that did not end, or of before one: it is not taken for
 * the partition, nor set aside while the other cannot be looked at. */
static void keep_all(struct broker *broker, const char *key, const struct image_topic *topic)
{
    for (struct stored *at = map_get(&broker->stored, bytes_of_text(key)); at != NULL; at = at->next) {
        if (!is_of(at, topic))
            continue;
        atomic_store(&at->claimed, true);
        atomic_store(&at->kept, true);
        log_warn(&broker->log, "not taken for the partition, which lies in a directory that is not here dir=%s/%s",
                 broker->dirs[at->dir].path, at->found->copy != NULL ? at->found->copy : key);
    }
}

/* The start ends over it, in the controller loop (lifecycle.c), where every shard has told that it is through: the line
 * is the first shard's that came upon one. */
static void refuse_both(struct broker *broker, struct stored *one, struct stored *other)
{
    if (!atomic_exchange(&broker->undecided, true))
        (void)snprintf(broker->undecided_message, sizeof(broker->undecided_message),
                       "partition %s lies in %s and in %s, and the metadata name neither: move the older one away",
                       one->key, broker->dirs[one->dir].path, broker->dirs[other->dir].path);
    for (struct stored *at = map_get(&broker->stored, bytes_of_text(one->key)); at != NULL; at = at->next)
        atomic_store(&at->claimed, true); /* neither is set aside */
}

/* What the start found was not opened, and cannot be later: once the node serves it would be made anew over it. */
static void fail_found(struct broker *broker, const struct stored *stored, enum err err)
{
    if (!atomic_exchange(&broker->undecided, true))
        (void)snprintf(broker->undecided_message, sizeof(broker->undecided_message),
                       "partition %s in %s cannot be taken up: %s", stored->key, broker->dirs[stored->dir].path,
                       err_text(err));
}

struct choice {
    struct stored *at;         /* where it is; NULL: nowhere */
    struct stored *unfinished; /* the copy of a move */
};

/* A bare directory is left of a partition that was about to be begun, or of one whose topic went before it was: it
 * counts where there is nothing else. */
enum rank { RANK_BARE, RANK_LOG, RANK_TOLD };

static enum rank rank(const struct stored *stored, bool is_told)
{
    return is_told ? RANK_TOLD : stored->found->is_bare ? RANK_BARE : RANK_LOG;
}

/* ERR_BUSY: it cannot be told which of two counts. */
static enum err choose(const struct shard *shard, const struct image_topic *topic, int32_t index, struct choice *choice)
{
    struct broker *broker = shard->broker;
    struct uuid told = dir_assign_directory(shard, topic->id, index);
    char key[sizeof(((struct stored *)0)->key)];
    struct stored *second = NULL;
    enum rank best = RANK_BARE;
    bool nothing = false;

    *choice = (struct choice){NULL, NULL};
    if (shard->serving) /* what was not claimed by now has been set aside, and all of it is being forgotten */
        return ERR_OK;
    (void)snprintf(key, sizeof(key), "%.*s-%d", BYTES_PRINTF(topic->name), index);
    for (struct stored *at = map_get(&broker->stored, bytes_of_text(key)); at != NULL; at = at->next) {
        bool is_told = uuid_equal(told, broker->dirs[at->dir].id);
        struct stored *other = at;

        if (!is_of(at, topic))
            continue;
        if (at->found->copy != NULL) {
            if (choice->unfinished == NULL || is_told)
                choice->unfinished = at;
            continue;
        }
        if (choice->at == NULL || rank(at, is_told) > best) {
            other = choice->at;
            choice->at = at;
            best = rank(at, is_told);
        }
        if (other != NULL && rank(other, false) > RANK_BARE)
            second = other;
    }
    if (best == RANK_TOLD)
        second = NULL;
    /* Where none of log.dirs is missing, the one that the metadata name was taken out of it: then a log in another one
     * counts, which somebody has put there, but never half a copy, nor a bare directory. Where the metadata name none,
     * the log may lie in the one that is missing. */
    nothing = best == RANK_BARE;
    if (is_elsewhere(broker, told) ? broker->absent_count > 0 || nothing
                                   : broker->absent_count > 0 && nothing && image_directory_is_reserved(told)) {
        keep_all(broker, key, topic);
        *choice = (struct choice){NULL, NULL};
        return ERR_OK;
    }
    if (second != NULL) {
        refuse_both(broker, choice->at, second);
        return ERR_BUSY;
    }
    if (choice->at != NULL)
        atomic_store(&choice->at->claimed, true);
    if (choice->unfinished != NULL && choice->at != NULL && choice->unfinished->dir == choice->at->dir)
        choice->unfinished = NULL; /* of no use to anybody: it is given up */
    if (choice->unfinished != NULL)
        atomic_store(&choice->unfinished->claimed, true);
    return ERR_OK;
}

/* --- opening --- */

static void found_take(struct hosted *hosted, const struct choice *choice, struct partition_spec *spec)
{
    struct broker *broker = hosted->shard->broker;
    struct stored *stored = choice->at != NULL ? choice->at : choice->unfinished;
    struct broker_dir *dir = &broker->dirs[stored->dir];

    hosted->dir = stored->dir;
    atomic_fetch_add(&dir->partitions, 1);
    spec->recovery_point = stored->found->recovery_point;
    spec->start_offset = stored->found->start_offset;
    spec->high_watermark = stored->found->high_watermark;
    spec->cleaned_offset = stored->found->cleaned_offset;
    spec->clean = dir->clean;
    spec->trust = dir->trust;
    spec->foreign = dir->foreign;
    if (choice->at == NULL) { /* all that is left of the partition is a copy that was not finished */
        spec->from_copy = bytes_of_text(stored->found->copy);
        spec->clean = false;
        spec->trust = LOG_TRUST_SYNCED;
        return;
    }
    spec->journals = dir->journals;
    spec->unsettled = &dir->unsettled;
    hosted->found = true;
    if (choice->unfinished != NULL && choice->unfinished->dir != stored->dir)
        hosted->resume_to = (int32_t)choice->unfinished->dir;
}

/* Of a partition that is not there. False: it is, or may be, in a directory that this node has not got any more. */
static bool new_dir_find(struct shard *shard, const struct image_topic *topic, int32_t index, bool is_new, uint32_t *at)
{
    struct broker *broker = shard->broker;
    struct uuid told = dir_assign_directory(shard, topic->id, index);
    uint32_t wished = 0;

    if (is_elsewhere(broker, told))
        return false;
    for (uint32_t i = 0; i < broker->dir_count; i++) {
        if (!uuid_equal(told, broker->dirs[i].id))
            continue;
        *at = i;
        atomic_fetch_add(&broker->dirs[i].partitions, 1);
        return true;
    }
    /* One that was there before this start and is nowhere to be seen may lie where nobody can look now. */
    if (!is_new && broker->absent_count > 0)
        return false;
    if (dir_moves_take_wish(shard, topic->name, index, &wished) && !shard->dirs[wished].failed) {
        *at = wished;
        atomic_fetch_add(&broker->dirs[wished].partitions, 1);
    } else {
        *at = shard_choose_dir(shard);
    }
    return true;
}

static void loading_is_over(struct hosted *hosted)
{
    hosted->shard->loading -= hosted->loading;
    hosted->loading = false;
}

static void opened_well(struct hosted *hosted)
{
    int32_t resume_to = hosted->resume_to;

    dir_assign_check(hosted);
    hosted->resume_to = -1;
    if (resume_to >= 0 && dir_moves_ask(hosted, (uint32_t)resume_to) != ERR_OK)
        log_warn(&hosted->shard->broker->log, "move not resumed, no memory topic_id=%s partition=%d",
                 uuid_format(hosted->key.topic_id).text, hosted->key.index);
}

static void opened(void *context, struct partition *partition, enum err err)
{
    struct hosted *hosted = context;

    hosted->failed = err != ERR_OK;
    if (err == ERR_NO_SPACE) /* it is opened when there is room */
        return;
    loading_is_over(hosted);
    if (err == ERR_OK && hosted->found)
        dir_recovery_opened(&hosted->shard->broker->dirs[hosted->dir]);
    if (err == ERR_OK) {
        group_coordinators_follow(hosted->shard, hosted);
        opened_well(hosted);
        return;
    }
    log_error(&hosted->shard->broker->log, "partition cannot be opened topic=%.*s partition=%d err=%s",
              BYTES_PRINTF(partition_topic(partition)), partition_index(partition), err_name(err));
}

enum err hosting_begin(struct shard *shard, const struct image_topic *topic, int32_t index, struct log_config *config,
                       bool is_new)
{
    struct broker *broker = shard->broker;
    struct choice choice;
    struct hosted *hosted = NULL;
    struct partition_spec spec = {
        .topic = topic->name,
        .topic_id = topic->id,
        .index = index,
        .leader_epoch = topic->partitions[index]->leader_epoch,
        .shared = config,
        .clean = true,
        .essential = topic_is_internal(topic->name),
    };
    enum err err = choose(shard, topic, index, &choice);

    if (err != ERR_OK)
        return err;
    hosted = mem_calloc(1, sizeof(*hosted));
    if (hosted == NULL) {
        err = ERR_NOMEM;
        goto out;
    }
    hosted->shard = shard;
    hosted->key = (struct partition_key){topic->id, index};
    hosted->resume_to = -1;
    list_node_init(&hosted->unassigned);
    if (choice.at != NULL || choice.unfinished != NULL) {
        found_take(hosted, &choice, &spec);
    } else if (!new_dir_find(shard, topic, index, is_new, &hosted->dir)) {
        if (!shard->serving) /* once; it is looked at again whenever its topic changes */
            log_warn(
                &broker->log,
                "partition lies, or may lie, in a directory that is not here topic=%.*s partition=%d directory_id=%s",
                BYTES_PRINTF(topic->name), index, uuid_format(dir_assign_directory(shard, topic->id, index)).text);
        mem_free(hosted);
        return ERR_OK;
    }
    err = map_insert(&shard->hosted, partition_key_bytes(&hosted->key), hosted);
    if (err != ERR_OK)
        goto out;
    shard->loading++;
    hosted->loading = true;
    err = partition_new(&shard->envs[hosted->dir], &spec, opened, hosted, &hosted->partition);
    if (err != ERR_OK) {
        loading_is_over(hosted);
        (void)map_remove(&shard->hosted, partition_key_bytes(&hosted->key));
        goto out;
    }
    hosted = NULL;
out:
    if (hosted != NULL)
        atomic_fetch_sub(&broker->dirs[hosted->dir].partitions, 1);
    mem_free(hosted);
    if (err != ERR_OK && (choice.at != NULL || choice.unfinished != NULL))
        fail_found(broker, choice.at != NULL ? choice.at : choice.unfinished, err);
    return err;
}

static void closed(struct partition_close *op)
{
    struct hosted *hosted = LIST_ENTRY(op, struct hosted, close);
    struct shard *shard = hosted->shard;

    if (op->err != ERR_OK) {
        if (!hosted->deleted)
            atomic_store(&shard->broker->dirs[hosted->dir].close_failed, true);
        log_error(&shard->broker->log, "partition closed badly err=%s", err_name(op->err));
    } else if (hosted->end_note != NULL) { /* all of it is synced */
        hosted->end_note->checkpoint.recovery_point = hosted->end_note->end_offset;
    }
    if (op->left_unsynced)
        atomic_store(&shard->broker->dirs[hosted->dir].unsynced, true);
    mem_free(hosted);
    shard_closing_ended(shard);
}

void hosting_end(struct shard *shard, struct hosted *hosted, bool delete)
{
    struct partition *partition = hosted->partition;

    group_coordinators_forget(shard, hosted);
    (void)map_remove(&shard->hosted, partition_key_bytes(&hosted->key));
    atomic_fetch_sub(&shard->broker->dirs[hosted->dir].partitions, 1);
    dir_assign_forget(hosted);
    dir_moves_forget(hosted);
    hosted->partition = NULL;
    loading_is_over(hosted); /* nobody is told of it any more */
    hosted->close.done = closed;
    hosted->deleted = delete;
    shard->closing++;
    if (delete)
        partition_delete(partition, &hosted->close);
    else
        partition_close(partition, &hosted->close);
}
