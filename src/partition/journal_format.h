/*
 * journal_format: the bytes of a journal file (journal.h): their layout, and nothing that touches a disk.
 *
 *   block 0       file header, zeroes behind it
 *   block 1 ...   groups, each from a block's beginning on: group header, entries, zeroes up to the block's end
 *
 * A block is 4096 bytes, so that no byte that was synced is ever written again while it is needed. Integers are
 * big-endian. A file is used many times over; each use has a generation, greater than any before it in the directory,
 * and a random number, which its header, its groups and its entries carry: what lies there from an earlier use is never
 * taken for new, nor are bytes that a client made to look like a group or an entry. A group is what one write and one
 * sync brought; groups of a generation are numbered from 0. An entry concerns one log.
 *
 *   file header (64)   0 magic u64, 8 version u16, 10 zero, 12 reactor u32, 16 directory id, 32 generation u64,
 *                      40 file bytes u64, 48 random u64, 56 zero, 60 CRC-32C of 0..59; magic, version and checksum
 *                      stay there in every version: a flipped bit is no later build's journal
 *   group header (40)  0 magic u32, 4 CRC-32C of 8..39, 8 random u64, 16 generation u64, 24 number u32, 28 bytes of
 *                      entries u32, 32 entries u32, 36 zero
 *   entry (72 + body)  0 CRC-32C of 4..end of body, 4 type u8, 5 zero, 8 random u64, 16 group number u32, 20 body
 *                      bytes u32, 24 topic id, 40 partition i32, 44 leader epoch i32, 48 offset i64, 56 end offset i64,
 *                      64 previous end i64, 72 body, zeroes up to a multiple of 8
 *
 * Threads  any: no state.
 */
#ifndef OTTLA_PARTITION_JOURNAL_FORMAT_H
#define OTTLA_PARTITION_JOURNAL_FORMAT_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/uuid.h"

enum {
    JOURNAL_VERSION = 1,
    JOURNAL_BLOCK_BYTES = 4096, /* a page, and a multiple of every disk's sector */
    JOURNAL_HEADER_BYTES = 64,
    JOURNAL_GROUP_HEADER_BYTES = 40,
    JOURNAL_ENTRY_HEADER_BYTES = 72,
    JOURNAL_ENTRY_ALIGNMENT = 8,
};

struct journal_header {
    uint32_t reactor;
    struct uuid directory_id; /* a journal that was copied elsewhere is not that directory's */
    uint64_t generation;
    uint64_t file_bytes;
    uint64_t random;
};

/* to: JOURNAL_HEADER_BYTES. */
void journal_header_write(const struct journal_header *header, uint8_t *to);
/* ERR_NOT_FOUND: zeroes, or too short: never used. ERR_UNSUPPORTED_VERSION: *version says which. ERR_DAMAGED. */
MUST_CHECK enum err journal_header_read(struct bytes from, struct journal_header *header, uint16_t *version);

struct journal_group_header {
    uint64_t random;
    uint64_t generation;
    uint32_t number;
    uint32_t entries_bytes;
    uint32_t entry_count;
};

void journal_group_header_write(const struct journal_group_header *header, uint8_t *to);
/* ERR_DAMAGED: no group begins here. */
MUST_CHECK enum err journal_group_header_read(struct bytes from, struct journal_group_header *header);

enum journal_entry_type {
    JOURNAL_APPEND = 1,     /* batches, as they lie in the segment */
    JOURNAL_TRUNCATION = 2, /* the log was cut to `offset` and its segments synced: earlier entries are history */
    JOURNAL_START = 3,      /* the log starts at `offset`, wherever it ended */
    JOURNAL_DELETION = 4,   /* the log is gone: earlier entries are history */
    JOURNAL_MOVE = 5,       /* the log left for another directory, or came whole and synced: likewise */
};

struct journal_entry {
    enum journal_entry_type type;
    uint64_t random;
    uint32_t group;
    struct uuid topic_id;
    int32_t partition;
    int32_t leader_epoch; /* of the first batch; -1 where there is none */
    int64_t offset;       /* of the first record */
    int64_t end_offset;   /* behind the last */
    int64_t previous_end; /* where the log ended before */
    struct bytes body;
};

/* What an entry with such a body takes. */
static inline size_t journal_entry_bytes(size_t body_bytes)
{
    size_t size = JOURNAL_ENTRY_HEADER_BYTES + body_bytes;

    return (size + JOURNAL_ENTRY_ALIGNMENT - 1) / JOURNAL_ENTRY_ALIGNMENT * JOURNAL_ENTRY_ALIGNMENT;
}

/* What a group takes, up to the end of its last block. */
static inline uint64_t journal_group_bytes(uint64_t entries_bytes)
{
    uint64_t size = JOURNAL_GROUP_HEADER_BYTES + entries_bytes;

    return (size + JOURNAL_BLOCK_BYTES - 1) / JOURNAL_BLOCK_BYTES * JOURNAL_BLOCK_BYTES;
}

/* Writes header and body; journal_entry_seal has to follow. Returns what the entry takes. */
size_t journal_entry_write(const struct journal_entry *entry, uint8_t *to);
/* Writes random number, group number and checksum, which are not known before the group goes to the disk, into the
 * entry at `at`. Returns what it takes. */
size_t journal_entry_seal(uint8_t *at, uint64_t random, uint32_t group);
/* The entry at the beginning of from; its body points into it. taken: out, what it takes. ERR_DAMAGED: none is there.
 */
MUST_CHECK enum err journal_entry_read(struct bytes from, struct journal_entry *entry, size_t *taken);

#endif
