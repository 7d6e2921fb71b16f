/* `ottla log repair` and `ottla log recover`: what mends the files of a stopped broker. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/line_out.h"
#include "cli/log_command.h"
#include "cli/log_target.h"
#include "cli/progress.h"
#include "partition/journal_replay.h"
#include "partition/log_dir.h"
#include "partition/log_dir_trust.h"
#include "partition/log_repair.h"

struct repair {
    struct fs fs;
    struct clock clock;
    struct rng rng;
    struct log_sink_fd sink;
    struct log log;
    struct partition_files files;
    struct line_out out;
    bool recover; /* else repair */
    bool accept_loss;
    uint32_t partitions;
    uint32_t damaged;
};

static const char *name_of(const struct repair *repair)
{
    return repair->recover ? "recover" : "repair";
}

static void put(struct repair *repair, const struct log_dir_partition *partition, const struct log_repaired *repaired)
{
    struct line_out *out = &repair->out;

    line_begin(out, repair->recover ? "recovered" : "repaired");
    line_text(out, "topic", partition->topic);
    line_i64(out, "partition", partition->index);
    line_i64(out, "start_offset", repaired->start_offset);
    line_i64(out, "end_offset", repaired->end_offset);
    line_u64(out, "bytes_read", repaired->recovery.bytes_scanned);
    line_u64(out, "bytes_cut", repaired->recovery.bytes_cut);
    line_u64(out, "damaged_ranges", repaired->damaged);
    if (repaired->given_up > 0) {
        line_u64(out, "ranges_given_up", repaired->given_up);
        line_i64(out, "offsets_lost", repaired->offsets_lost);
    }
    line_end(out);
}

/* What the last run left of a directory. */
struct left {
    bool clean;
    int64_t broker_epoch;
    struct log_dir_trust trust;
    struct journal_replay *journals; /* NULL: none */
};

/* What a start would believe (dir_recovery.c). Where this fails nothing has been touched. */
static enum err left_find(struct repair *repair, struct log_dir *dir, const char *path, struct left *left)
{
    struct journal_replay_options options = {.fs = &repair->fs, .log = &repair->log, .log_dir = path};
    struct log_dir_meta meta;
    bool clean = false;
    enum err err = log_dir_read_meta(dir, &meta);

    *left = (struct left){.broker_epoch = -1};
    if (err == ERR_OK)
        err = log_dir_has_clean_mark(dir, &clean);
    if (err == ERR_OK)
        err = log_dir_judge(&repair->fs, &repair->log, path, clean, &left->trust);
    if (err != ERR_OK)
        return err;
    options.directory_id = meta.directory_id;
    options.mode = clean || left->trust.discard_journals ? JOURNAL_REPLAY_KEEP : JOURNAL_REPLAY_READ;
    err = journal_replay_open(&options, &left->journals);
    if (err == ERR_OK)
        err = log_dir_take_clean_mark(dir, &left->clean, &left->broker_epoch);
    /* After a mere kill, too, every checksum above the recovery point is looked at: there is no hurry. */
    if (left->trust.trust == LOG_TRUST_WRITTEN)
        left->trust.trust = LOG_TRUST_SYNCED;
    if (err != ERR_OK || left->journals == NULL || !left->trust.discard_journals)
        return err;
    log_warn(&repair->log, "journals discarded, another program has written to the directory since dir=%s", path);
    err = journal_replay_remove(left->journals);
    journal_replay_free(left->journals);
    left->journals = NULL;
    return err;
}

static enum err mend(struct repair *repair, const struct partition_env *env, struct log_dir_partition *partition,
                     const struct left *left)
{
    struct partition_log_spec spec = {
        .topic = bytes_of_text(partition->topic),
        .partition = partition->index,
        .topic_id = partition->topic_id,
        .recovery_point = partition->recovery_point,
        .start_offset = partition->start_offset,
        .clean = left->clean,
        .trust = left->trust.trust,
        .journals = left->journals,
    };
    struct log_repaired repaired;
    enum err err = ERR_OK;

    log_config_init(&spec.config);
    spec.config.cleanup_compact = true; /* gaps are kept: nobody says here that they should not be there */
    err = repair->recover       ? log_repair_recover(env, &spec, &repaired)
          : repair->accept_loss ? log_repair_give_up(env, &spec, &repaired)
                                : log_repair_partition(env, &spec, &repaired);
    if (err != ERR_OK)
        return err;
    partition->start_offset = repaired.start_offset;
    partition->recovery_point = repaired.end_offset;
    if (partition->high_watermark > repaired.end_offset)
        partition->high_watermark = repaired.end_offset;
    repair->partitions++;
    repair->damaged += repaired.damaged;
    put(repair, partition, &repaired);
    return ERR_OK;
}

static enum err checkpoints_write(struct log_dir *dir, const struct log_dir_list *list)
{
    struct checkpoint_offset *entries = mem_calloc(list->count == 0 ? 1 : list->count, sizeof(entries[0]));
    enum err err = entries == NULL ? ERR_NOMEM : ERR_OK;

    for (enum log_dir_checkpoint which = LOG_DIR_RECOVERY_POINT; which <= LOG_DIR_HIGH_WATERMARK && err == ERR_OK;
         which++) {
        uint32_t count = 0;

        for (uint32_t i = 0; i < list->count; i++) {
            const struct log_dir_partition *partition = &list->partitions[i];

            if (partition->copy != NULL)
                continue;
            entries[count++] = (struct checkpoint_offset){
                .topic = bytes_of_text(partition->topic),
                .partition = partition->index,
                .offset = which == LOG_DIR_RECOVERY_POINT ? partition->recovery_point
                          : which == LOG_DIR_START_OFFSET ? partition->start_offset
                                                          : partition->high_watermark,
            };
        }
        err = log_dir_write_checkpoint(dir, which, entries, count);
    }
    mem_free(entries);
    return err;
}

/* A move's copy is not: the log that it is of lies elsewhere, and the next start decides about it. */
static bool is_wanted(const struct log_target *target, const struct log_dir_partition *partition)
{
    if (partition->copy != NULL)
        return false;
    return target->kind == LOG_TARGET_DIR ||
           (target->partition == partition->index && bytes_equal(target->topic, bytes_of_text(partition->topic)));
}

/* The mark of a clean stop goes before anything is touched, and comes back when all is as after one. */
static enum err mend_dir(struct repair *repair, const struct log_target *target, struct log_dir *dir)
{
    struct partition_env env = {
        .fs = &repair->fs,
        .clock = &repair->clock,
        .rng = &repair->rng,
        .log = &repair->log,
        .files = &repair->files,
        .log_dir = target->log_dir.text,
    };
    struct log_dir_list list = {0};
    struct left left = {0};
    bool found = target->kind == LOG_TARGET_DIR;
    enum err err = log_dir_list(dir, &list);

    if (err == ERR_OK)
        err = left_find(repair, dir, target->log_dir.text, &left);
    for (uint32_t i = 0; i < list.count && err == ERR_OK; i++)
        if (is_wanted(target, &list.partitions[i])) {
            found = true;
            err = mend(repair, &env, &list.partitions[i], &left);
        }
    if (err == ERR_OK && found)
        err = checkpoints_write(dir, &list);
    /* All that they hold is in the segments now, and synced; what they hold for the partitions that were not asked for
     * waits for the next start. */
    if (err == ERR_OK && left.journals != NULL && target->kind == LOG_TARGET_DIR)
        err = journal_replay_remove(left.journals);
    if (err == ERR_OK && left.clean)
        err = log_dir_put_clean_mark(dir, left.broker_epoch);
    journal_replay_free(left.journals);
    log_dir_list_deinit(&list);
    if (err == ERR_OK && !found) {
        fprintf(stderr, "ottla: log %s: %s is no partition of its log directory (the metadata log mends itself)\n",
                name_of(repair), target->path.text);
        return ERR_USAGE;
    }
    return err;
}

/* Not one that is being deleted, was set aside, or is a move's copy: beside it may lie the partition itself. */
static bool is_partition(const struct log_target *target)
{
    const char *slash = strrchr(target->partition_dir.text, '/');
    struct bytes topic;
    int32_t partition = 0;

    return log_path_parse_dir(slash == NULL ? target->partition_dir.text : slash + 1, &topic, &partition) ==
           LOG_DIR_KIND_PARTITION;
}

static enum err mend_target(struct repair *repair, const char *path)
{
    struct log_target target;
    struct log_dir *dir = NULL;
    struct log_path meta;
    struct fs_info info;
    enum err err = log_target_find(&repair->fs, path, &target);

    if (err != ERR_OK)
        return err;
    if (target.kind == LOG_TARGET_FILE || (target.kind == LOG_TARGET_PARTITION && !is_partition(&target)) ||
        log_path_in(&meta, target.log_dir.text, "meta.properties") != ERR_OK ||
        fs_stat(&repair->fs, meta.text, &info) != ERR_OK) {
        fprintf(stderr,
                "ottla: log %s: %s is neither a log directory (there is no meta.properties) nor a partition in one\n",
                name_of(repair), path);
        return ERR_USAGE;
    }
    err = log_dir_open(&repair->fs, &repair->log, target.log_dir.text, &dir);
    if (err == ERR_LOCKED) {
        fprintf(stderr, "ottla: log %s: a broker is running on %s: stop it first (it holds .lock there)\n",
                name_of(repair), target.log_dir.text);
        return err;
    }
    if (err == ERR_OK)
        err = mend_dir(repair, &target, dir);
    log_dir_close(dir);
    if (err != ERR_OK && err != ERR_USAGE)
        fprintf(stderr, "ottla: log %s: %s: %s\n", name_of(repair), path, err_text(err));
    return err;
}

static int run(struct repair *repair, int argc, char **argv)
{
    enum err err = ERR_OK;
    int path_count = 0;

    repair->out.to = stdout;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            repair->out.json = true;
        else if (!repair->recover && strcmp(argv[i], "--accept-loss") == 0)
            repair->accept_loss = true;
        else if (strncmp(argv[i], "--", 2) == 0)
            return log_option_unknown(name_of(repair), argv[i]);
        else
            argv[path_count++] = argv[i];
    }
    if (path_count == 0) {
        fprintf(stderr, "ottla: log %s: no PATH was given: a log directory%s\n", name_of(repair),
                repair->recover ? "" : ", or a partition's directory in one");
        return LOG_EXIT_UNABLE;
    }
    fs_init_real(&repair->fs);
    clock_init_real(&repair->clock);
    rng_init_real(&repair->rng);
    log_sink_fd_init(&repair->sink, STDERR_FILENO);
    repair->log = (struct log){.sink = &repair->sink.sink, .clock = &repair->clock, .node_id = -1, .room = "log"};
    atomic_init(&repair->log.level, LOG_WARN);
    partition_files_init(&repair->files, 0);
    for (int i = 0; i < path_count && err == ERR_OK; i++)
        err = mend_target(repair, argv[i]);
    if (fflush(stdout) != 0 || err != ERR_OK)
        return LOG_EXIT_UNABLE;
    return repair->damaged > 0 ? LOG_EXIT_FOUND : LOG_EXIT_OK;
}

int log_command_repair(int argc, char **argv)
{
    struct repair repair = {0};

    return run(&repair, argc, argv);
}

int log_command_recover(int argc, char **argv)
{
    struct repair repair = {.recover = true};

    return run(&repair, argc, argv);
}
