#include "raftmeta/control_record.h"

#include "base/assert.h"
#include "base/mem.h"
#include "protocol/gen/kraft_version_record.h"
#include "protocol/gen/leader_change_message.h"
#include "protocol/gen/snapshot_footer_record.h"
#include "protocol/gen/snapshot_header_record.h"
#include "protocol/gen/voters_record.h"

enum {
    CONTROL_VERSION = 0,                  /* of every record here; also written as its first field */
    CONTROL_ARENA_BYTES_MAX = 1024 * 1024 /* a voter set of the largest size is well below */
};

static enum err set_text(char to[VOTER_NAME_CHARS_MAX + 1], struct bytes from)
{
    if (from.size > VOTER_NAME_CHARS_MAX)
        return ERR_LIMIT;
    if (from.size > 0)
        memcpy(to, from.data, from.size);
    to[from.size] = 0;
    return ERR_OK;
}

enum err voter_init(struct voter *voter, int32_t id, struct uuid directory_id, const struct image_endpoint *endpoint)
{
    enum err err = ERR_OK;

    memset(voter, 0, sizeof(*voter));
    voter->id = id;
    voter->directory_id = directory_id;
    voter->kraft_version_max = 1;
    voter->endpoint_count = 1;
    voter->endpoints[0].port = endpoint->port;
    err = set_text(voter->endpoints[0].name, endpoint->name);
    return err == ERR_OK ? set_text(voter->endpoints[0].host, endpoint->host) : err;
}

bool voter_equal(const struct voter *a, const struct voter *b)
{
    if (a->id != b->id || !uuid_equal(a->directory_id, b->directory_id) || a->endpoint_count != b->endpoint_count ||
        a->kraft_version_min != b->kraft_version_min || a->kraft_version_max != b->kraft_version_max)
        return false;
    for (uint32_t i = 0; i < a->endpoint_count; i++)
        if (strcmp(a->endpoints[i].name, b->endpoints[i].name) != 0 ||
            strcmp(a->endpoints[i].host, b->endpoints[i].host) != 0 || a->endpoints[i].port != b->endpoints[i].port)
            return false;
    return true;
}

static enum err add(struct batch_builder *builder, int64_t timestamp_ms, enum control_type type,
                    const struct message_type *message_type, const void *message)
{
    struct arena arena;
    struct bytes value;
    enum err err = ERR_OK;

    arena_init(&arena, CONTROL_ARENA_BYTES_MAX);
    err = message_encode(message_type, CONTROL_VERSION, message, &arena, &value);
    if (err == ERR_OK)
        err = batch_builder_append_control(builder, timestamp_ms, type, value);
    arena_deinit(&arena);
    return err;
}

enum err control_add_leader_change(struct batch_builder *builder, int64_t timestamp_ms, int32_t leader,
                                   const int32_t *voters, uint32_t count)
{
    struct leader_change_message message;
    struct leader_change_message_voter entries[VOTERS_MAX];
    struct leader_change_message_voter granting;

    assert(count <= VOTERS_MAX);
    leader_change_message_init(&message);
    for (uint32_t i = 0; i < count; i++)
        entries[i] = (struct leader_change_message_voter){.voter_id = voters[i]};
    granting = (struct leader_change_message_voter){.voter_id = leader};
    message.leader_id = leader;
    message.voters = entries;
    message.voters_count = count;
    message.granting_voters = &granting;
    message.granting_voters_count = 1;
    return add(builder, timestamp_ms, CONTROL_LEADER_CHANGE, &leader_change_message_message, &message);
}

enum err control_add_kraft_version(struct batch_builder *builder, int64_t timestamp_ms, int16_t level)
{
    struct kraft_version_record message;

    kraft_version_record_init(&message);
    message.kraft_version = level;
    return add(builder, timestamp_ms, CONTROL_KRAFT_VERSION, &kraft_version_record_message, &message);
}

enum err control_add_voters(struct batch_builder *builder, int64_t timestamp_ms, const struct voter_set *voters)
{
    struct voters_record message;
    struct voters_record_voter *entries = mem_calloc((size_t)voters->count + 1, sizeof(*entries));
    struct voters_record_endpoint *endpoints =
        mem_calloc((size_t)voters->count * VOTER_ENDPOINTS_MAX + 1, sizeof(*endpoints));
    enum err err = ERR_NOMEM;

    if (entries == NULL || endpoints == NULL)
        goto out;
    voters_record_init(&message);
    for (uint32_t i = 0; i < voters->count; i++) {
        const struct voter *voter = &voters->voters[i];
        struct voters_record_endpoint *mine = endpoints + (size_t)i * VOTER_ENDPOINTS_MAX;

        voters_record_voter_init(&entries[i]);
        entries[i].voter_id = voter->id;
        entries[i].voter_directory_id = voter->directory_id;
        entries[i].endpoints = mine;
        entries[i].endpoints_count = voter->endpoint_count;
        entries[i].kraft_version_feature.min_supported_version = voter->kraft_version_min;
        entries[i].kraft_version_feature.max_supported_version = voter->kraft_version_max;
        for (uint32_t j = 0; j < voter->endpoint_count; j++) {
            mine[j].name = bytes_of_text(voter->endpoints[j].name);
            mine[j].host = bytes_of_text(voter->endpoints[j].host);
            mine[j].port = voter->endpoints[j].port;
        }
    }
    message.voters = entries;
    message.voters_count = voters->count;
    err = add(builder, timestamp_ms, CONTROL_KRAFT_VOTERS, &voters_record_message, &message);
out:
    mem_free(entries);
    mem_free(endpoints);
    return err;
}

enum err control_add_snapshot_header(struct batch_builder *builder, int64_t timestamp_ms, int64_t last_ms)
{
    struct snapshot_header_record message;

    snapshot_header_record_init(&message);
    message.last_contained_log_timestamp = last_ms;
    return add(builder, timestamp_ms, CONTROL_SNAPSHOT_HEADER, &snapshot_header_record_message, &message);
}

enum err control_add_snapshot_footer(struct batch_builder *builder, int64_t timestamp_ms)
{
    struct snapshot_footer_record message;

    snapshot_footer_record_init(&message);
    return add(builder, timestamp_ms, CONTROL_SNAPSHOT_FOOTER, &snapshot_footer_record_message, &message);
}

/* --- reading --- */

void quorum_facts_init(struct quorum_facts *facts)
{
    memset(facts, 0, sizeof(*facts));
    facts->leader = -1;
    facts->snapshot_timestamp_ms = -1;
}

static enum err take_voters(struct quorum_facts *facts, const struct voters_record *record)
{
    enum err err = ERR_OK;

    if (record->voters_count > VOTERS_MAX)
        return ERR_LIMIT;
    memset(&facts->voters, 0, sizeof(facts->voters));
    for (uint32_t i = 0; i < record->voters_count; i++) {
        const struct voters_record_voter *from = &record->voters[i];
        struct voter *to = &facts->voters.voters[i];

        if (from->endpoints_count > VOTER_ENDPOINTS_MAX)
            return ERR_LIMIT;
        to->id = from->voter_id;
        to->directory_id = from->voter_directory_id;
        to->kraft_version_min = from->kraft_version_feature.min_supported_version;
        to->kraft_version_max = from->kraft_version_feature.max_supported_version;
        to->endpoint_count = from->endpoints_count;
        for (uint32_t j = 0; err == ERR_OK && j < from->endpoints_count; j++) {
            to->endpoints[j].port = from->endpoints[j].port;
            err = set_text(to->endpoints[j].name, from->endpoints[j].name);
            if (err == ERR_OK)
                err = set_text(to->endpoints[j].host, from->endpoints[j].host);
        }
        if (err != ERR_OK)
            return err;
    }
    facts->voters.count = record->voters_count;
    facts->has_voters = true;
    return ERR_OK;
}

static enum err read_value(const struct message_type *type, struct bytes value, struct arena *arena, void *message)
{
    struct wire_reader reader;
    enum err err = ERR_OK;

    wire_reader_init(&reader, value);
    err = message_read(type, &reader, arena, CONTROL_VERSION, message);
    return err == ERR_MALFORMED ? ERR_DAMAGED : err;
}

/* A voter set as it was written; version is the first field of each value. */
enum err quorum_facts_read(struct quorum_facts *facts, struct bytes key, struct bytes value)
{
    struct wire_reader reader;
    struct arena arena;
    union {
        struct leader_change_message leader;
        struct kraft_version_record kraft;
        struct voters_record voters;
        struct snapshot_header_record header;
    } message;
    int16_t type = 0;
    enum err err = ERR_OK;

    wire_reader_init(&reader, key);
    (void)wire_read_i16(&reader);
    type = wire_read_i16(&reader);
    if (reader.err != ERR_OK)
        return ERR_DAMAGED;
    arena_init(&arena, CONTROL_ARENA_BYTES_MAX);
    switch (type) {
    case CONTROL_LEADER_CHANGE:
        err = read_value(&leader_change_message_message, value, &arena, &message.leader);
        if (err == ERR_OK)
            facts->leader = message.leader.leader_id;
        break;
    case CONTROL_KRAFT_VERSION:
        err = read_value(&kraft_version_record_message, value, &arena, &message.kraft);
        if (err == ERR_OK)
            facts->kraft_version = message.kraft.kraft_version;
        break;
    case CONTROL_KRAFT_VOTERS:
        err = read_value(&voters_record_message, value, &arena, &message.voters);
        if (err == ERR_OK)
            err = take_voters(facts, &message.voters);
        break;
    case CONTROL_SNAPSHOT_HEADER:
        err = read_value(&snapshot_header_record_message, value, &arena, &message.header);
        if (err == ERR_OK)
            facts->snapshot_timestamp_ms = message.header.last_contained_log_timestamp;
        break;
    default:
        break; /* unknown control records are skipped, as Kafka does */
    }
    arena_deinit(&arena);
    return err;
}
