/* `ottla log dump`: batches, records, and every other file of a log, one thing a line. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/log_command.h"
#include "cli/log_decode.h"
#include "cli/log_dump_files.h"
#include "cli/log_journal.h"
#include "cli/log_target.h"
#include "partition/batch_walk.h"
#include "partition/text_file.h"

enum { ARENA_BYTES_MAX = 256 * 1024 * 1024 };

struct dump {
    struct fs fs;
    struct line_out out;
    struct arena arena;
    bool records;
    bool decoder_given;
    enum log_decoder decoder;
    int64_t from;
    int64_t to;
    bool in_use; /* a broker may be writing: a batch that is not whole yet is no damage */
    bool damaged;
};

/* --- batches --- */

static void put_record(struct dump *dump, enum log_decoder decoder, bool control, const struct record *record)
{
    struct bytes headers = record->headers;
    struct record_header header;

    line_begin(&dump->out, "record");
    line_i64(&dump->out, "offset", record->offset);
    line_i64(&dump->out, "timestamp", record->timestamp);
    log_decode_record(&dump->out, decoder, control, record, &dump->arena);
    if (record->header_count > 0) {
        line_pairs_begin(&dump->out, "header");
        while (record_header_next(&headers, &header))
            line_pair(&dump->out, "header", header.key, header.value);
    }
    line_end(&dump->out);
}

static void put_damaged(struct dump *dump, const char *what, int64_t position, uint64_t bytes, int64_t first_offset,
                        int64_t end_offset)
{
    line_begin(&dump->out, what);
    line_i64(&dump->out, "position", position);
    line_u64(&dump->out, "bytes", bytes);
    line_i64(&dump->out, "first_offset", first_offset);
    if (end_offset >= 0)
        line_i64(&dump->out, "end_offset", end_offset);
    line_end(&dump->out);
}

static enum err put_records(struct dump *dump, enum log_decoder decoder, const struct batch_header *head,
                            struct bytes batch)
{
    struct record_iter iter;
    struct record record;
    enum err err = record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX);

    if (err != ERR_OK)
        return err;
    while ((err = record_iter_next(&iter, &record)) == ERR_OK)
        if (record.offset >= dump->from && record.offset < dump->to)
            put_record(dump, decoder, batch_has(head, BATCH_CONTROL), &record);
    record_iter_deinit(&iter);
    if (err == ERR_NOMEM)
        return err;
    if (err != ERR_END) {
        put_damaged(dump, "unreadable_records", -1, batch.size, head->base_offset, batch_last_offset(head) + 1);
        dump->damaged = true;
    }
    return ERR_OK;
}

static void put_batch(struct dump *dump, uint64_t position, const struct batch_header *head)
{
    struct line_out *out = &dump->out;

    line_begin(out, "batch");
    line_i64(out, "base_offset", head->base_offset);
    line_i64(out, "last_offset", batch_last_offset(head));
    line_i64(out, "records", head->record_count);
    line_u64(out, "position", position);
    line_u64(out, "bytes", head->size);
    line_i64(out, "leader_epoch", head->leader_epoch);
    line_text(out, "codec", codec_name(batch_codec(head)));
    line_text(out, "time", batch_has(head, BATCH_LOG_APPEND_TIME) ? "append" : "create");
    line_i64(out, batch_has(head, BATCH_DELETE_HORIZON) ? "delete_horizon" : "base_timestamp", head->base_timestamp);
    line_i64(out, "max_timestamp", head->max_timestamp);
    line_i64(out, "producer_id", head->producer_id);
    line_i64(out, "producer_epoch", head->producer_epoch);
    line_i64(out, "base_sequence", head->base_sequence);
    line_i64(out, "last_sequence", batch_last_sequence(head));
    line_i64(out, "crc", head->crc);
    line_flag(out, "transactional", batch_has(head, BATCH_TRANSACTIONAL));
    line_flag(out, "control", batch_has(head, BATCH_CONTROL));
    line_end(out);
}

static enum err dump_batches(struct dump *dump, const char *path, enum log_decoder decoder, int64_t base_offset)
{
    struct fs_file *file = NULL;
    struct batch_walk walk;
    struct batch_header head;
    struct bytes batch;
    uint64_t size = 0;
    enum err err = fs_open(&dump->fs, path, FS_READ, &file);

    if (err == ERR_OK)
        err = fs_size(file, &size);
    if (err != ERR_OK)
        goto out;
    batch_walk_init(&walk, file, 0, size, base_offset);
    walk.gaps_allowed = true;
    while (err == ERR_OK) {
        uint64_t position = walk.scan.position;

        err = batch_walk_next(&walk, &head, &batch);
        if (err == ERR_DAMAGED) {
            bool is_tail = walk.extent.end_offset < 0;

            put_damaged(dump, is_tail ? "tail" : "damaged", (int64_t)walk.extent.position, walk.extent.size,
                        walk.extent.first_offset, walk.extent.end_offset);
            dump->damaged = dump->damaged || !is_tail || !dump->in_use;
            err = ERR_OK;
            continue;
        }
        if (err != ERR_OK || batch_last_offset(&head) < dump->from || head.base_offset >= dump->to)
            continue;
        put_batch(dump, position, &head);
        if (dump->records)
            err = put_records(dump, decoder, &head, batch);
    }
    batch_walk_deinit(&walk);
out:
    fs_file_drop(file);
    return err == ERR_END ? ERR_OK : err;
}

/* --- files and directories --- */

static enum err dump_file(struct dump *dump, const char *dir, const char *name, struct bytes topic)
{
    struct log_path path;
    int64_t base_offset = -1;
    enum log_file_kind kind = log_file_kind_of(name, &base_offset);
    enum log_decoder decoder = dump->decoder_given ? dump->decoder : log_decoder_of(topic);
    enum err err = log_path_in(&path, dir, name);

    if (err != ERR_OK || kind == LOG_FILE_OTHER)
        return err;
    line_begin(&dump->out, "file");
    line_text(&dump->out, "path", path.text);
    line_end(&dump->out);
    if (kind == LOG_FILE_SEGMENT)
        err = dump_batches(dump, path.text, decoder, base_offset);
    else if (kind == LOG_FILE_METADATA_SNAPSHOT)
        err = dump_batches(dump, path.text, dump->decoder_given ? dump->decoder : DECODE_METADATA, 0);
    else if (kind == LOG_FILE_JOURNAL)
        err = log_journal_dump(&dump->fs, &dump->out, dir, name, &dump->damaged);
    else
        err = log_dump_small(&dump->fs, &dump->out, dir, name, kind, base_offset, &dump->damaged);
    if (err == ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT) {
        fprintf(stderr, "ottla: %s: holds messages of a format before 0.11, which are not read\n", path.text);
        dump->damaged = true;
        return ERR_OK;
    }
    if (err == ERR_NOT_FOUND) /* gone since it was listed: a broker is at work */
        return ERR_OK;
    if (err != ERR_OK)
        fprintf(stderr, "ottla: %s: %s\n", path.text, err_text(err));
    return err;
}

static enum err dump_dir(struct dump *dump, const char *dir, struct bytes topic, bool and_below)
{
    struct log_names names;
    enum err err = log_names_read(&dump->fs, dir, &names);

    if (err != ERR_OK) {
        fprintf(stderr, "ottla: %s: %s\n", dir, err_text(err));
        return err;
    }
    for (uint32_t i = 0; i < names.count && err == ERR_OK; i++)
        if (!names.names[i].is_directory)
            err = dump_file(dump, dir, names.names[i].text, topic);
    for (uint32_t i = 0; i < names.count && err == ERR_OK && and_below; i++) {
        struct bytes below;
        struct log_path path;
        int32_t index = 0;

        if (!names.names[i].is_directory ||
            log_path_parse_dir(names.names[i].text, &below, &index) == LOG_DIR_KIND_OTHER)
            continue;
        err = log_path_in(&path, dir, names.names[i].text);
        if (err == ERR_OK)
            err = dump_dir(dump, path.text, below, false);
    }
    log_names_deinit(&names);
    return err;
}

static enum err dump_target(struct dump *dump, const char *path)
{
    struct log_target target;
    struct log_path lock;
    enum err err = log_target_find(&dump->fs, path, &target);

    if (err == ERR_OK)
        err = log_path_in(&lock, target.log_dir.text, LOG_LOCK_FILE);
    if (err != ERR_OK)
        return err;
    dump->in_use = fs_is_locked(&dump->fs, lock.text);
    if (target.kind == LOG_TARGET_FILE)
        return dump_file(dump, target.partition_dir.text, target.name, target.topic);
    return dump_dir(dump, target.path.text, target.topic, target.kind == LOG_TARGET_DIR);
}

/* --- the command line --- */

static bool parse_offset(const char *text, int64_t *offset)
{
    return text_parse_i64(bytes_of_text(text), offset) && *offset >= 0;
}

/* The option at the front: how many arguments it took; 0: it is none, or not usable, which was said. */
static int option(struct dump *dump, int argc, char **argv)
{
    const char *value = NULL;
    int took = 1;

    if (strcmp(argv[0], "--records") == 0) {
        dump->records = true;
    } else if (strcmp(argv[0], "--json") == 0) {
        dump->out.json = true;
    } else if ((value = log_option_value("--from", argc, argv, &took)) != NULL) {
        if (!parse_offset(value, &dump->from))
            goto refused;
    } else if ((value = log_option_value("--to", argc, argv, &took)) != NULL) {
        if (!parse_offset(value, &dump->to))
            goto refused;
    } else if ((value = log_option_value("--decode", argc, argv, &took)) != NULL) {
        dump->decoder_given = true;
        if (!log_decoder_parse(value, &dump->decoder))
            goto refused;
    } else {
        (void)log_option_unknown("dump", argv[0]);
        return 0;
    }
    return took;
refused:
    fprintf(stderr, "ottla: log dump: %s cannot be %s; `ottla log --help` says what it can be\n", argv[0], value);
    return 0;
}

int log_command_dump(int argc, char **argv)
{
    struct dump dump = {.out = {.to = stdout}, .to = INT64_MAX};
    enum err err = ERR_OK;
    int path_count = 0;
    int took = 1;

    fs_init_real(&dump.fs);
    for (int i = 0; i < argc; i += took) {
        took = strncmp(argv[i], "--", 2) == 0 ? option(&dump, argc - i, argv + i) : 1;
        if (took == 0)
            return LOG_EXIT_UNABLE;
        if (took == 1 && strncmp(argv[i], "--", 2) != 0)
            argv[path_count++] = argv[i];
    }
    if (path_count == 0) {
        fprintf(stderr,
                "ottla: log dump: no PATH was given: a file of a log, a partition's directory, a log directory\n");
        return LOG_EXIT_UNABLE;
    }
    arena_init(&dump.arena, ARENA_BYTES_MAX);
    for (int i = 0; i < path_count && err == ERR_OK; i++)
        err = dump_target(&dump, argv[i]);
    arena_deinit(&dump.arena);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "ottla: log dump: standard output takes no more\n");
        return LOG_EXIT_UNABLE;
    }
    return err != ERR_OK ? LOG_EXIT_UNABLE : dump.damaged ? LOG_EXIT_FOUND : LOG_EXIT_OK;
}
