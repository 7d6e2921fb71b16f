#include "cli/log_journal.h"

#include <inttypes.h>

#include "partition/boot_mark.h"
#include "partition/journal_format.h"
#include "partition/text_file.h"

enum { JOURNAL_FILE_BYTES_MAX = 1024 * 1024 * 1024 };

static const char *type_name(enum journal_entry_type type)
{
    switch (type) {
    case JOURNAL_APPEND:
        return "append";
    case JOURNAL_TRUNCATION:
        return "truncation";
    case JOURNAL_START:
        return "start";
    case JOURNAL_DELETION:
        return "deletion";
    case JOURNAL_MOVE:
        return "move";
    }
    return "unknown";
}

static void put_entry(struct line_out *out, const struct journal_entry *entry)
{
    const struct line_number numbers[] = {
        {"partition", entry->partition},       {"offset", entry->offset},
        {"end_offset", entry->end_offset},     {"previous_end", entry->previous_end},
        {"leader_epoch", entry->leader_epoch}, {"bytes", (int64_t)entry->body.size},
    };

    line_begin(out, "journal_entry");
    line_text(out, "type", type_name(entry->type));
    line_text(out, "topic_id", uuid_format(entry->topic_id).text);
    line_numbers(out, numbers, sizeof(numbers) / sizeof(numbers[0]));
    line_end(out);
}

/* The group at position, whole: header and all entries. out NULL: nothing is said. False: none is there. */
static bool group_read(struct bytes file, uint64_t position, const struct journal_header *header, uint32_t number,
                       struct line_out *out, uint64_t *taken)
{
    struct bytes rest = bytes_of(file.data + position, file.size - position);
    struct journal_group_header group;
    struct bytes entries;

    if (journal_group_header_read(rest, &group) != ERR_OK || group.generation != header->generation ||
        group.random != header->random || group.number != number ||
        group.entries_bytes > rest.size - JOURNAL_GROUP_HEADER_BYTES)
        return false;
    *taken = journal_group_bytes(group.entries_bytes);
    entries = bytes_of(rest.data + JOURNAL_GROUP_HEADER_BYTES, group.entries_bytes);
    if (out != NULL) {
        const struct line_number numbers[] = {
            {"position", (int64_t)position},
            {"number", group.number},
            {"entries", group.entry_count},
            {"bytes", group.entries_bytes},
        };

        line_begin(out, "group");
        line_numbers(out, numbers, sizeof(numbers) / sizeof(numbers[0]));
        line_end(out);
    }
    for (uint32_t i = 0; i < group.entry_count; i++) {
        struct journal_entry entry;
        size_t size = 0;

        if (journal_entry_read(entries, &entry, &size) != ERR_OK || entry.random != header->random ||
            size > entries.size)
            return false;
        entries = bytes_of(entries.data + size, entries.size - size);
        if (out != NULL)
            put_entry(out, &entry);
    }
    return true;
}

/* Where the groups of this use end. */
static uint64_t groups_read(struct bytes file, const struct journal_header *header, struct line_out *out,
                            uint32_t *count)
{
    uint64_t position = JOURNAL_BLOCK_BYTES;
    uint64_t taken = 0;

    *count = 0;
    while (position < file.size && group_read(file, position, header, *count, out, &taken)) {
        position += taken;
        (*count)++;
    }
    return position;
}

enum err log_journal_dump(struct fs *fs, struct line_out *out, const char *dir, const char *name, bool *damaged)
{
    struct text content = {0};
    struct journal_header header;
    struct bytes file;
    uint16_t version = 0;
    uint32_t count = 0;
    enum err err = text_file_read(fs, dir, name, JOURNAL_FILE_BYTES_MAX, &content);

    if (err != ERR_OK)
        return err;
    file = bytes_of(content.data, content.size);
    err = journal_header_read(file, &header, &version);
    if (err == ERR_OK) {
        line_begin(out, "journal");
        line_i64(out, "reactor", header.reactor);
        line_text(out, "directory_id", uuid_format(header.directory_id).text);
        line_u64(out, "generation", header.generation);
        line_u64(out, "bytes", header.file_bytes);
        line_end(out);
        (void)groups_read(file, &header, out, &count);
    } else if (err != ERR_NOT_FOUND) { /* never used: zeroes */
        line_unreadable(out, err == ERR_UNSUPPORTED_VERSION ? "it is of a later build" : "its header is not whole",
                        damaged);
    }
    text_deinit(&content);
    return ERR_OK;
}

/* A group of the same use behind the end of the groups: one between them was promised and is lost. */
static bool has_later_group(struct bytes file, const struct journal_header *header, uint64_t position, uint32_t number)
{
    for (position += JOURNAL_BLOCK_BYTES; position + JOURNAL_GROUP_HEADER_BYTES <= file.size;
         position += JOURNAL_BLOCK_BYTES) {
        struct journal_group_header group;

        if (journal_group_header_read(bytes_of(file.data + position, file.size - position), &group) == ERR_OK &&
            group.generation == header->generation && group.random == header->random && group.number > number)
            return true;
    }
    return false;
}

enum err log_journal_verify(struct log_check *check, const char *dir, const char *name)
{
    struct text content = {0};
    struct journal_header header;
    struct bytes file;
    uint16_t version = 0;
    uint32_t count = 0;
    enum err err = text_file_read(check->fs, dir, name, JOURNAL_FILE_BYTES_MAX, &content);

    if (err != ERR_OK)
        return err;
    file = bytes_of(content.data, content.size);
    err = journal_header_read(file, &header, &version);
    if (err == ERR_UNSUPPORTED_VERSION)
        log_check_say(check, LOG_FAULT, dir, name, 0, -1, "is a journal of a later build");
    else if (err == ERR_DAMAGED)
        log_check_say(check, LOG_FAULT, dir, name, 0, -1, "is a journal whose header is not whole");
    if (err == ERR_OK && !check->in_use) {
        uint64_t end = groups_read(file, &header, NULL, &count);

        if (has_later_group(file, &header, end, count))
            log_check_say(check, LOG_FAULT, dir, name, (int64_t)end, -1,
                          "is damaged: a group that was synced is not whole");
        else if (count > 0)
            log_check_say(check, LOG_NOTE, dir, name, -1, -1,
                          "holds %" PRIu32 " groups that the next start, or ottla log recover, sees to", count);
    }
    check->bytes += content.size;
    text_deinit(&content);
    return ERR_OK;
}

void log_journal_dump_boot_mark(struct line_out *out, struct bytes content, bool *damaged)
{
    static const char *const states[] = {
        [BOOT_MARK_RUNNING] = "running", [BOOT_MARK_STOPPED] = "stopped", [BOOT_MARK_FAILED] = "failed"};
    struct boot_mark mark;
    uint16_t version = 0;
    enum err err = boot_mark_parse(content, &mark, &version);

    if (err != ERR_OK) {
        line_unreadable(out,
                        err == ERR_UNSUPPORTED_VERSION ? "it is of a later build" : "magic, checksum or size disagree",
                        damaged);
        return;
    }
    line_begin(out, "boot_mark");
    line_text(out, "state",
              (size_t)mark.state < sizeof(states) / sizeof(states[0]) && states[mark.state] != NULL ? states[mark.state]
                                                                                                    : "unknown");
    line_text(out, "boot_id", uuid_format(mark.boot_id).text);
    line_end(out);
}
