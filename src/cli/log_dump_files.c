#include "cli/log_dump_files.h"

#include "base/big_endian.h"
#include "cli/log_journal.h"
#include "partition/damage.h"
#include "partition/epoch_cache.h"
#include "partition/offset_index.h"
#include "partition/producer_state.h"
#include "partition/text_file.h"
#include "partition/time_index.h"
#include "partition/txn_index.h"

enum { FILE_BYTES_MAX = 1024 * 1024 * 1024 };

/* --- indexes: entries of one size each --- */

static void put_offset_entry(struct line_out *out, const uint8_t *at, int64_t base_offset)
{
    line_begin(out, "index_entry");
    line_i64(out, "offset", base_offset + (int64_t)big_endian_load_u32(at));
    line_i64(out, "position", (int64_t)big_endian_load_u32(at + 4));
    line_end(out);
}

static void put_time_entry(struct line_out *out, const uint8_t *at, int64_t base_offset)
{
    line_begin(out, "time_index_entry");
    line_i64(out, "timestamp", (int64_t)big_endian_load_u64(at));
    line_i64(out, "offset", base_offset + (int64_t)big_endian_load_u32(at + 8));
    line_end(out);
}

static void put_txn_entry(struct line_out *out, const uint8_t *at, int64_t base_offset)
{
    (void)base_offset;
    line_begin(out, "aborted_transaction");
    line_i64(out, "version", (int16_t)big_endian_load_u16(at));
    line_i64(out, "producer_id", (int64_t)big_endian_load_u64(at + 2));
    line_i64(out, "first_offset", (int64_t)big_endian_load_u64(at + 10));
    line_i64(out, "last_offset", (int64_t)big_endian_load_u64(at + 18));
    line_i64(out, "last_stable_offset", (int64_t)big_endian_load_u64(at + 26));
    line_end(out);
}

static bool is_zero(const uint8_t *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (at[i] != 0)
            return false;
    return true;
}

static void put_entries(struct line_out *out, struct bytes content, size_t entry_bytes, int64_t base_offset,
                        void (*put)(struct line_out *, const uint8_t *, int64_t), bool *damaged)
{
    size_t whole = content.size - content.size % entry_bytes;

    for (size_t at = 0; at < whole; at += entry_bytes) {
        /* What Apache Kafka sets aside while it writes is zero up to the end. */
        if (at > 0 && is_zero(content.data + at, entry_bytes) && is_zero(content.data + at, content.size - at)) {
            line_begin(out, "preallocated");
            line_u64(out, "bytes", content.size - at);
            line_end(out);
            return;
        }
        put(out, content.data + at, base_offset);
    }
    if (whole < content.size)
        line_unreadable(out, "the file ends within an entry", damaged);
}

/* --- others --- */

static enum err put_producers(struct line_out *out, struct bytes content, bool *damaged)
{
    struct producer_state state;
    enum err err = ERR_OK;

    producer_state_init(&state, 0);
    err = producer_state_parse(&state, content);
    if (err == ERR_DAMAGED) {
        line_unreadable(out, "version, checksum or size disagree", damaged);
        err = ERR_OK;
    }
    for (const struct producer *producer = producer_state_next(&state, NULL); producer != NULL;
         producer = producer_state_next(&state, producer)) {
        const struct producer_batch none = {.last_sequence = -1, .last_offset = -1};
        const struct producer_batch *last =
            producer->batch_count == 0 ? &none : &producer->batches[producer->batch_count - 1];
        const struct line_number numbers[] = {
            {"producer_id", producer->id},
            {"producer_epoch", producer->epoch},
            {"last_sequence", last->last_sequence},
            {"last_offset", last->last_offset},
            {"offset_delta", last->offset_delta},
            {"timestamp", producer->last_timestamp},
            {"coordinator_epoch", producer->coordinator_epoch},
            {"txn_first_offset", producer->txn_first_offset},
        };

        line_begin(out, "producer");
        line_numbers(out, numbers, sizeof(numbers) / sizeof(numbers[0]));
        line_end(out);
    }
    producer_state_deinit(&state);
    return err;
}

static enum err put_damage(struct line_out *out, struct bytes content, bool *damaged)
{
    struct damage damage = {0};
    enum err err = damage_parse(&damage, content);

    if (err == ERR_DAMAGED || err == ERR_UNSUPPORTED_VERSION) {
        line_unreadable(out, err == ERR_DAMAGED ? "magic, checksum or size disagree" : "it is of a later build",
                        damaged);
        err = ERR_OK;
    }
    for (uint32_t i = 0; i < damage.count; i++) {
        const struct damage_range *range = &damage.ranges[i];

        line_begin(out, "damage_mark");
        line_i64(out, "first_offset", range->first_offset);
        line_i64(out, "end_offset", range->end_offset);
        line_i64(out, "segment", range->segment_base);
        line_u64(out, "position", range->position);
        line_u64(out, "bytes", range->size);
        line_i64(out, "found", range->found_ms);
        line_end(out);
    }
    damage_deinit(&damage);
    return err;
}

static enum err put_epochs(struct fs *fs, struct line_out *out, const char *dir, bool *damaged)
{
    struct epoch_cache epochs = {0};
    enum err err = checkpoint_read_epochs(fs, dir, &epochs);

    if (err == ERR_DAMAGED || err == ERR_LIMIT) {
        line_unreadable(out, "it is no list of epochs that ascend", damaged);
        err = ERR_OK;
    }
    for (uint32_t i = 0; i < epochs.count; i++) {
        line_begin(out, "leader_epoch");
        line_i64(out, "epoch", epochs.entries[i].epoch);
        line_i64(out, "start_offset", epochs.entries[i].start_offset);
        line_end(out);
    }
    epoch_cache_deinit(&epochs);
    return err;
}

static enum err put_offsets(struct fs *fs, struct line_out *out, const char *dir, const char *name, bool *damaged)
{
    struct checkpoint_offsets offsets;
    enum err err = checkpoint_read_offsets(fs, dir, name, &offsets);

    if (err == ERR_DAMAGED || err == ERR_LIMIT) {
        line_unreadable(out, "it is no checkpoint of version 0, or its count disagrees", damaged);
        return ERR_OK;
    }
    for (uint32_t i = 0; i < offsets.count; i++) {
        line_begin(out, "checkpoint");
        line_bytes(out, "topic", offsets.entries[i].topic);
        line_i64(out, "partition", offsets.entries[i].partition);
        line_i64(out, "offset", offsets.entries[i].offset);
        line_end(out);
    }
    checkpoint_offsets_deinit(&offsets);
    return err;
}

static void put_lines(struct line_out *out, struct bytes rest)
{
    struct bytes line;

    while (text_next_line(&rest, &line)) {
        line_begin(out, "line");
        line_bytes(out, "text", line);
        line_end(out);
    }
}

enum err log_dump_small(struct fs *fs, struct line_out *out, const char *dir, const char *name, enum log_file_kind kind,
                        int64_t base_offset, bool *damaged)
{
    struct text text = {0};
    struct bytes content;
    enum err err = text_file_read(fs, dir, name, FILE_BYTES_MAX, &text);

    if (err != ERR_OK)
        return err;
    content = bytes_of(text.data, text.size);
    switch (kind) {
    case LOG_FILE_OFFSET_INDEX:
        put_entries(out, content, OFFSET_INDEX_ENTRY_BYTES, base_offset, put_offset_entry, damaged);
        break;
    case LOG_FILE_TIME_INDEX:
        put_entries(out, content, TIME_INDEX_ENTRY_BYTES, base_offset, put_time_entry, damaged);
        break;
    case LOG_FILE_TXN_INDEX:
        put_entries(out, content, TXN_INDEX_ENTRY_BYTES, base_offset, put_txn_entry, damaged);
        break;
    case LOG_FILE_PRODUCERS:
        err = put_producers(out, content, damaged);
        break;
    case LOG_FILE_DAMAGE:
        err = put_damage(out, content, damaged);
        break;
    case LOG_FILE_BOOT_MARK:
        log_journal_dump_boot_mark(out, content, damaged);
        break;
    case LOG_FILE_EPOCHS:
        err = put_epochs(fs, out, dir, damaged);
        break;
    case LOG_FILE_OFFSETS:
        err = put_offsets(fs, out, dir, name, damaged);
        break;
    case LOG_FILE_TOPIC_ID:
    case LOG_FILE_TEXT:
        put_lines(out, content);
        break;
    case LOG_FILE_JOURNAL:
    case LOG_FILE_SEGMENT:
    case LOG_FILE_METADATA_SNAPSHOT:
    case LOG_FILE_OTHER:
        break;
    }
    text_deinit(&text);
    return err;
}
