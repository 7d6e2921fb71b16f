/* `ottla log verify`: everything is read, and what is not as it should be is said, a line each. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/line_out.h"
#include "cli/log_command.h"
#include "cli/log_target.h"
#include "cli/log_verify_files.h"
#include "cli/progress.h"
#include "partition/log_check.h"

struct verify {
    struct fs fs;
    struct clock clock;
    struct line_out out;
    struct progress progress;
    struct log_check check;
    uint64_t partitions;
};

static void found(void *context, const struct log_finding *finding)
{
    struct verify *verify = context;
    struct line_out *out = &verify->out;
    struct log_path path;

    progress_hide(&verify->progress);
    line_begin(out, finding->weight == LOG_FAULT ? "fault" : "note");
    line_text(out, "file", log_path_in(&path, finding->dir, finding->file) == ERR_OK ? path.text : finding->file);
    if (finding->position >= 0)
        line_i64(out, "position", finding->position);
    if (finding->offset >= 0)
        line_i64(out, "offset", finding->offset);
    if (finding->end_offset >= 0)
        line_i64(out, "end_offset", finding->end_offset);
    line_text(out, "text", finding->text);
    line_end(out);
    (void)fflush(out->to);
}

static void progress(void *context, uint64_t bytes)
{
    progress_add(&((struct verify *)context)->progress, bytes);
}

/* --- how much there is --- */

static uint64_t bytes_of_dir(struct verify *verify, const char *dir, bool and_below)
{
    struct log_names names;
    uint64_t bytes = 0;

    if (log_names_read(&verify->fs, dir, &names) != ERR_OK)
        return 0;
    for (uint32_t i = 0; i < names.count; i++) {
        struct log_path path;
        struct fs_info info;
        int64_t base_offset = 0;

        if (log_path_in(&path, dir, names.names[i].text) != ERR_OK)
            continue;
        if (names.names[i].is_directory)
            bytes += and_below ? bytes_of_dir(verify, path.text, false) : 0;
        else if (log_file_kind_of(names.names[i].text, &base_offset) == LOG_FILE_SEGMENT &&
                 fs_stat(&verify->fs, path.text, &info) == ERR_OK)
            bytes += info.size;
    }
    log_names_deinit(&names);
    return bytes;
}

static uint64_t bytes_of_target(struct verify *verify, const struct log_target *target)
{
    struct fs_info info;

    if (target->kind != LOG_TARGET_FILE)
        return bytes_of_dir(verify, target->path.text, target->kind == LOG_TARGET_DIR);
    return fs_stat(&verify->fs, target->path.text, &info) == ERR_OK ? info.size : 0;
}

/* --- parts --- */

static enum err verify_partition(struct verify *verify, const struct log_target *target,
                                 const struct log_dir_facts *facts, const char *dir, struct bytes topic,
                                 int32_t partition)
{
    struct log_checked checked;
    struct log_names names;
    enum err err = ERR_OK;

    verify->partitions++;
    verify->check.in_use = facts->in_use;
    err = log_check_partition(&verify->check, dir, log_facts_synced(facts, topic, partition), &checked);
    if (err != ERR_OK)
        return err;
    log_verify_checkpoints(&verify->check, target, facts, topic, partition, &checked);
    err = log_names_read(&verify->fs, dir, &names);
    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0; i < names.count && err == ERR_OK; i++) { /* the metadata log has files of its own */
        int64_t base_offset = 0;
        enum log_file_kind kind = log_file_kind_of(names.names[i].text, &base_offset);

        if (!names.names[i].is_directory && (kind == LOG_FILE_METADATA_SNAPSHOT || kind == LOG_FILE_TEXT))
            err = log_verify_file(&verify->check, dir, names.names[i].text, kind);
    }
    log_names_deinit(&names);
    return err;
}

static enum err verify_below(struct verify *verify, const struct log_target *target, const struct log_dir_facts *facts,
                             const char *name)
{
    struct log_path path;
    struct bytes topic;
    int32_t partition = 0;
    enum log_dir_kind kind = log_path_parse_dir(name, &topic, &partition);
    enum err err = log_path_in(&path, target->path.text, name);

    if (err != ERR_OK)
        return err;
    switch (kind) {
    case LOG_DIR_KIND_PARTITION:
        err = verify_partition(verify, target, facts, path.text, topic, partition);
        return err == ERR_NOT_FOUND && facts->in_use ? ERR_OK : err; /* its topic was deleted meanwhile */
    case LOG_DIR_KIND_DELETE:
        log_check_say(&verify->check, LOG_NOTE, target->path.text, name, -1, -1, "is being deleted");
        return ERR_OK;
    case LOG_DIR_KIND_FUTURE:
        log_check_say(&verify->check, LOG_NOTE, target->path.text, name, -1, -1,
                      "is on its way from another directory");
        return ERR_OK;
    case LOG_DIR_KIND_STRAY:
        log_check_say(&verify->check, LOG_NOTE, target->path.text, name, -1, -1,
                      "was set aside: by metadata it is not this node's");
        return ERR_OK;
    case LOG_DIR_KIND_OTHER:
        break;
    }
    if (strcmp(name, "remote-log-index-cache") != 0)
        log_check_say(&verify->check, LOG_FAULT, target->path.text, name, -1, -1,
                      "is no partition's directory: no broker starts beside it");
    return ERR_OK;
}

static enum err verify_dir(struct verify *verify, const struct log_target *target, const struct log_dir_facts *facts)
{
    struct log_names names;
    enum err err = log_names_read(&verify->fs, target->path.text, &names);

    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0; i < names.count && err == ERR_OK; i++) {
        int64_t base_offset = 0;

        if (names.names[i].is_directory)
            err = verify_below(verify, target, facts, names.names[i].text);
        else
            err = log_verify_file(&verify->check, target->path.text, names.names[i].text,
                                  log_file_kind_of(names.names[i].text, &base_offset));
    }
    log_names_deinit(&names);
    log_verify_strangers(&verify->check, target->path.text, facts);
    return err;
}

static enum err verify_file(struct verify *verify, const struct log_target *target, const struct log_dir_facts *facts)
{
    struct log_checked checked;

    switch (target->file) {
    case LOG_FILE_SEGMENT:
    case LOG_FILE_OFFSET_INDEX:
    case LOG_FILE_TIME_INDEX:
    case LOG_FILE_TXN_INDEX:
        return log_check_segment(&verify->check, target->partition_dir.text, target->base_offset,
                                 log_facts_synced(facts, target->topic, target->partition), &checked);
    case LOG_FILE_PRODUCERS:
        return log_check_snapshot(&verify->check, target->partition_dir.text, target->base_offset);
    default:
        return log_verify_file(&verify->check, target->partition_dir.text, target->name, target->file);
    }
}

static enum err verify_target(struct verify *verify, const char *path)
{
    struct log_target target;
    struct log_dir_facts facts;
    enum err err = log_target_find(&verify->fs, path, &target);

    if (err != ERR_OK)
        return err;
    err = log_dir_facts_read(&verify->fs, target.log_dir.text, &facts);
    if (err != ERR_OK)
        goto out;
    verify->check.in_use = facts.in_use;
    if (target.kind == LOG_TARGET_DIR)
        err = verify_dir(verify, &target, &facts);
    else if (target.kind == LOG_TARGET_PARTITION)
        err = verify_partition(verify, &target, &facts, target.path.text, target.topic, target.partition);
    else
        err = verify_file(verify, &target, &facts);
    log_dir_facts_deinit(&facts);
out:
    if (err != ERR_OK) {
        progress_hide(&verify->progress);
        fprintf(stderr, "ottla: %s: %s\n", path, err_text(err));
    }
    return err;
}

static void put_sum(struct verify *verify)
{
    const struct log_check *check = &verify->check;
    struct line_out *out = &verify->out;
    const struct line_number numbers[] = {
        {"partitions", (int64_t)verify->partitions},
        {"segments", (int64_t)check->segments},
        {"batches", (int64_t)check->batches},
        {"records", (int64_t)check->records},
        {"bytes", (int64_t)check->bytes},
        {"gaps", (int64_t)check->gaps},
        {"notes", (int64_t)check->notes},
        {"faults", (int64_t)check->faults},
        {"took_ms", (clock_mono_ns(&verify->clock) - verify->progress.began_ns) / 1000000},
    };

    line_begin(out, "verified");
    line_numbers(out, numbers, sizeof(numbers) / sizeof(numbers[0]));
    line_end(out);
}

static enum err begin(struct verify *verify, int path_count, char **paths)
{
    uint64_t bytes = 0;
    enum err err = ERR_OK;

    for (int i = 0; i < path_count && err == ERR_OK; i++) {
        struct log_target target;

        err = log_target_find(&verify->fs, paths[i], &target);
        if (err == ERR_OK)
            bytes += bytes_of_target(verify, &target);
    }
    progress_begin(&verify->progress, &verify->clock, stderr, isatty(STDERR_FILENO) != 0, "verify", bytes);
    return err;
}

int log_command_verify(int argc, char **argv)
{
    struct verify verify = {.out = {.to = stdout}};
    enum err err = ERR_OK;
    int path_count = 0;

    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--records") == 0)
            verify.check.opens_records = true;
        else if (strcmp(argv[i], "--json") == 0)
            verify.out.json = true;
        else if (strncmp(argv[i], "--", 2) == 0)
            return log_option_unknown("verify", argv[i]);
        else
            argv[path_count++] = argv[i];
    }
    if (path_count == 0) {
        fprintf(stderr,
                "ottla: log verify: no PATH was given: a file of a log, a partition's directory, a log directory\n");
        return LOG_EXIT_UNABLE;
    }
    fs_init_real(&verify.fs);
    clock_init_real(&verify.clock);
    verify.check.fs = &verify.fs;
    verify.check.found = found;
    verify.check.progress = progress;
    verify.check.context = &verify;
    err = begin(&verify, path_count, argv);
    for (int i = 0; i < path_count && err == ERR_OK; i++)
        err = verify_target(&verify, argv[i]);
    progress_end(&verify.progress);
    if (err != ERR_OK)
        return LOG_EXIT_UNABLE;
    put_sum(&verify);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "ottla: log verify: standard output takes no more\n");
        return LOG_EXIT_UNABLE;
    }
    return verify.check.faults > 0 ? LOG_EXIT_FOUND : LOG_EXIT_OK;
}
