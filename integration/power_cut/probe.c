/*
 * probe: writes until the broker is gone and notes what was acknowledged; later looks whether it is all there. For
 * power cuts: the notes lie on another disk than the broker's.
 *
 * usage: probe make PORT            the topics: "synced" (flush.messages=1) and "plain"
 *        probe load PORT NOTES SEED until the connections break
 *        probe check PORT NOTES     exit code 1, and what is wrong on stderr, where
 *                                     a record acknowledged in "synced" is not where it was said to be,
 *                                     anything that is served has a wrong checksum, a gap or foreign bytes,
 *                                     a topic whose making was acknowledged is not there, or one that is gone is
 *
 * A record says in its first bytes which it is, and all its others follow from that, so nothing needs to be kept of it
 * but its number. Notes are lines: "synced PARTITION OFFSET NUMBER COUNT", "made NAME",
 * "going NAME" (asked for), "gone NAME".
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "protocol/batch_build.h"
#include "protocol/frame.h"
#include "protocol/gen/create_topics.h"
#include "protocol/gen/delete_topics.h"
#include "protocol/gen/fetch.h"
#include "protocol/gen/list_offsets.h"
#include "protocol/gen/metadata.h"
#include "protocol/gen/produce.h"
#include "protocol/record.h"

enum {
    SYNCED_PARTITIONS = 4,
    PLAIN_PARTITIONS = 2,
    WRITERS = 6,
    BATCH_RECORDS_MAX = 20,
    VALUE_BYTES_MAX = 6000,
    ARENA_BYTES = 64 * 1024 * 1024,
    PATIENCE_SECONDS = 120,
    PRODUCE_VERSION = 9,
    FETCH_VERSION = 12,
    CREATE_VERSION = 7,
    DELETE_VERSION = 5,
    METADATA_VERSION = 12,
    OFFSETS_VERSION = 8,
    MADE_KEPT = 3, /* topics that come and go: so many are there at a time */
};

static const char *const topics[] = {"synced", "plain"};
static const int32_t partitions[] = {SYNCED_PARTITIONS, PLAIN_PARTITIONS};

struct peer {
    int fd;
    int32_t correlation_id;
    struct arena arena; /* of the last answer */
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "probe: %s: %s\n", what, why);
    exit(1);
}

/* --- chance --- */

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static uint64_t draw(uint64_t *state, uint64_t bound)
{
    *state += 0x9e3779b97f4a7c15u;
    return mix(*state) % bound;
}

/* The record of that number. */
static size_t value_of(uint64_t number, uint8_t value[VALUE_BYTES_MAX])
{
    uint64_t state = mix(number);
    size_t size = 8 + (size_t)draw(&state, draw(&state, 4) == 0 ? VALUE_BYTES_MAX - 8 : 200);

    memcpy(value, &number, sizeof(number));
    for (size_t i = 8; i < size; i += 8) {
        uint64_t word = mix(number + i);

        memcpy(value + i, &word, size - i < 8 ? size - i : 8);
    }
    return size;
}

/* --- talking --- */

static bool peer_open(struct peer *peer, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    int on = 1;

    *peer = (struct peer){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    arena_init(&peer->arena, ARENA_BYTES);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (peer->fd < 0 || connect(peer->fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return false;
    return setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0 &&
           setsockopt(peer->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0;
}

static void peer_close(struct peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    arena_deinit(&peer->arena);
}

static bool send_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        data += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool receive_all(int fd, uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t got = recv(fd, data, size, 0);

        if (got <= 0)
            return false;
        data += got;
        size -= (size_t)got;
    }
    return true;
}

/* The answer, valid until the next call; NULL: the connection is broken. */
static const void *ask(struct peer *peer, const struct message_type *type, const void *request,
                       const struct message_type *response_type, int16_t version)
{
    struct slice *slices = NULL;
    struct wire_reader reader;
    uint32_t count = 0;
    uint8_t size_field[4];
    uint8_t *frame = NULL;
    void *response = NULL;
    size_t size = 0;
    int32_t correlation_id = 0;
    enum err err = frame_encode_request(type, version, ++peer->correlation_id, bytes_of_text("probe"), request,
                                        &peer->arena, &slices, &count);

    if (err != ERR_OK)
        die("request", err_text(err));
    for (uint32_t i = 0; i < count; i++)
        size += slices[i].size;
    for (int i = 0; i < 4; i++)
        size_field[i] = (uint8_t)(size >> (24 - 8 * i));
    if (!send_all(peer->fd, size_field, 4))
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        if (!send_all(peer->fd, slices[i].data, slices[i].size))
            return NULL;
    arena_reset(&peer->arena);
    if (!receive_all(peer->fd, size_field, 4))
        return NULL;
    size = (size_t)size_field[0] << 24 | (size_t)size_field[1] << 16 | (size_t)size_field[2] << 8 | size_field[3];
    frame = arena_alloc(&peer->arena, size);
    response = arena_alloc(&peer->arena, response_type->structure->size);
    if (frame == NULL || response == NULL)
        die("answer", "too large");
    if (!receive_all(peer->fd, frame, size))
        return NULL;
    wire_reader_init(&reader, bytes_of(frame, size));
    err = frame_read_response_header(&reader, type->api_key, version, &correlation_id);
    if (err == ERR_OK)
        err = message_read(response_type, &reader, &peer->arena, version, response);
    if (err != ERR_OK || correlation_id != peer->correlation_id)
        die("answer", "cannot be read");
    return response;
}

/* -1: the connection is broken. */
static int16_t create(struct peer *peer, const char *name, int32_t partition_count, bool synced)
{
    struct create_topics_request request;
    struct creatable_topic topic;
    struct creatable_topic_config configs[3];
    const struct create_topics_response *response = NULL;

    create_topics_request_init(&request);
    creatable_topic_init(&topic);
    for (int i = 0; i < 3; i++)
        creatable_topic_config_init(&configs[i]);
    configs[0].name = BYTES_LITERAL("segment.bytes"); /* small, so that files are made and sealed all the time */
    configs[0].value = BYTES_LITERAL("1048576");
    configs[1].name = BYTES_LITERAL("index.interval.bytes");
    configs[1].value = BYTES_LITERAL("512");
    configs[2].name = BYTES_LITERAL("flush.messages");
    configs[2].value = BYTES_LITERAL("1");
    topic.name = bytes_of_text(name);
    topic.num_partitions = partition_count;
    topic.replication_factor = 1;
    topic.configs = configs;
    topic.configs_count = synced ? 3 : 2;
    request.topics = &topic;
    request.topics_count = 1;
    request.timeout_ms = PATIENCE_SECONDS * 1000;
    response = ask(peer, &create_topics_request_message, &request, &create_topics_response_message, CREATE_VERSION);
    return response == NULL ? -1 : response->topics[0].error_code;
}

static int16_t remove_topic(struct peer *peer, const char *name)
{
    struct delete_topics_request request;
    const struct delete_topics_response *response = NULL;
    struct bytes names[] = {bytes_of_text(name)};

    delete_topics_request_init(&request);
    request.topic_names = names;
    request.topic_names_count = 1;
    request.timeout_ms = PATIENCE_SECONDS * 1000;
    response = ask(peer, &delete_topics_request_message, &request, &delete_topics_response_message, DELETE_VERSION);
    return response == NULL ? -1 : response->responses[0].error_code;
}

static int16_t topic_error(struct peer *peer, const char *name)
{
    struct metadata_request request;
    struct metadata_request_topic topic;
    const struct metadata_response *response = NULL;

    metadata_request_init(&request);
    metadata_request_topic_init(&topic);
    topic.name = bytes_of_text(name);
    request.topics = &topic;
    request.topics_count = 1;
    request.allow_auto_topic_creation = false;
    response = ask(peer, &metadata_request_message, &request, &metadata_response_message, METADATA_VERSION);
    if (response == NULL)
        die("metadata", "no answer");
    return response->topics[0].error_code;
}

/* --- load --- */

struct load {
    uint16_t port;
    uint64_t seed;
    FILE *notes;
    pthread_mutex_t lock; /* of the notes */
    uint64_t acked;       /* under it */
};

struct writer {
    struct load *load;
    uint32_t index;
};

static void note(struct load *load, uint64_t records, const char *line)
{
    pthread_mutex_lock(&load->lock);
    load->acked += records;
    fputs(line, load->notes);
    pthread_mutex_unlock(&load->lock);
}

static size_t make_batch(struct batch_builder *builder, uint64_t first, uint32_t count, uint8_t **batch)
{
    struct batch_spec spec;
    uint8_t value[VALUE_BYTES_MAX];
    size_t size = 0;
    enum err err = ERR_OK;

    batch_spec_init(&spec);
    spec.leader_epoch = -1;
    spec.codec = first % 4 == 0 ? CODEC_LZ4 : CODEC_NONE;
    batch_builder_reset(builder, &spec);
    for (uint32_t i = 0; i < count && err == ERR_OK; i++) {
        size_t value_size = value_of(first + i, value);

        err = batch_builder_append(builder, (int64_t)time(NULL) * 1000, (struct bytes){0}, bytes_of(value, value_size),
                                   NULL, 0);
    }
    if (err == ERR_OK)
        err = batch_builder_finish(builder, batch, &size);
    if (err != ERR_OK)
        die("batch", err_text(err));
    return size;
}

/* Base offset; below 0: the broker is gone, or has refused. */
static int64_t produce(struct peer *peer, const char *topic_name, int32_t index, uint8_t *batch, size_t size)
{
    struct produce_request request;
    struct topic_produce_data topic;
    struct partition_produce_data partition;
    struct slice slice = slice_of(batch, size);
    const struct produce_response *response = NULL;

    produce_request_init(&request);
    topic_produce_data_init(&topic);
    partition_produce_data_init(&partition);
    partition.index = index;
    partition.records = (struct records){.slices = &slice, .slice_count = 1, .size = size};
    topic.name = bytes_of_text(topic_name);
    topic.partition_data = &partition;
    topic.partition_data_count = 1;
    request.acks = -1;
    request.timeout_ms = PATIENCE_SECONDS * 1000;
    request.topic_data = &topic;
    request.topic_data_count = 1;
    response = ask(peer, &produce_request_message, &request, &produce_response_message, PRODUCE_VERSION);
    if (response == NULL || response->responses[0].partition_responses[0].error_code != 0)
        return -1;
    return response->responses[0].partition_responses[0].base_offset;
}

static void *write_records(void *context)
{
    const struct writer *writer = context;
    struct load *load = writer->load;
    uint64_t chance = mix(load->seed * WRITERS + writer->index);
    uint64_t number = mix(chance) & ~(uint64_t)0xffffff; /* each writer of each load has numbers of its own */
    struct batch_spec spec;
    struct batch_builder builder;
    struct peer peer;

    batch_spec_init(&spec);
    batch_builder_init(&builder, &spec);
    for (bool alive = peer_open(&peer, load->port); alive;) {
        uint32_t topic = draw(&chance, 4) == 0;
        int32_t index = (int32_t)draw(&chance, (uint64_t)partitions[topic]);
        uint32_t count = 1 + (uint32_t)draw(&chance, BATCH_RECORDS_MAX);
        uint8_t *batch = NULL;
        size_t size = make_batch(&builder, number, count, &batch);
        int64_t offset = produce(&peer, topics[topic], index, batch, size);
        char line[128];

        alive = offset >= 0;
        if (alive && topic == 0) {
            (void)snprintf(line, sizeof(line), "synced %" PRId32 " %" PRId64 " %" PRIu64 " %" PRIu32 "\n", index,
                           offset, number, count);
            note(load, count, line);
        }
        number += count;
    }
    peer_close(&peer);
    batch_builder_deinit(&builder);
    return NULL;
}

/* Topics come and go meanwhile; each is noted when that was acknowledged. */
static void *administrate(void *context)
{
    struct load *load = context;
    struct peer peer;
    char name[64];
    char line[128];

    bool alive = peer_open(&peer, load->port);

    for (uint32_t i = 0; alive; i++) {
        (void)snprintf(name, sizeof(name), "made-%016" PRIx64 "-%" PRIu32, load->seed, i);
        alive = create(&peer, name, 2, false) == 0;
        (void)snprintf(line, sizeof(line), "made %s\n", name);
        if (alive)
            note(load, 0, line);
        if (!alive || i < MADE_KEPT)
            continue;
        (void)snprintf(name, sizeof(name), "made-%016" PRIx64 "-%" PRIu32, load->seed, i - MADE_KEPT);
        (void)snprintf(line, sizeof(line), "going %s\n", name); /* it may be gone though nobody hears of it */
        note(load, 0, line);
        alive = remove_topic(&peer, name) == 0;
        (void)snprintf(line, sizeof(line), "gone %s\n", name);
        if (alive)
            note(load, 0, line);
    }
    peer_close(&peer);
    return NULL;
}

static int load_run(uint16_t port, const char *notes, uint64_t seed)
{
    struct load load = {.port = port, .seed = seed, .notes = fopen(notes, "ae"), .lock = PTHREAD_MUTEX_INITIALIZER};
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS + 1];

    if (load.notes == NULL || setvbuf(load.notes, NULL, _IOLBF, 0) != 0) /* whoever cuts reads how far they are */
        die("notes", notes);
    for (uint32_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){&load, i};
        if (pthread_create(&threads[i], NULL, write_records, &writers[i]) != 0)
            die("thread", "cannot be made");
    }
    if (pthread_create(&threads[WRITERS], NULL, administrate, &load) != 0)
        die("thread", "cannot be made");
    for (uint32_t i = 0; i <= WRITERS; i++)
        pthread_join(threads[i], NULL);
    if (fclose(load.notes) != 0)
        die("notes", "not written");
    printf("acked %" PRIu64 "\n", load.acked);
    return 0;
}

/* --- check --- */

/* Which record stands at each offset of one partition. */
struct seen {
    uint64_t *numbers;
    int64_t end;
    int64_t room;
};

static void see(struct seen *seen, int64_t offset, uint64_t number)
{
    if (offset >= seen->room) {
        seen->room = seen->room == 0 ? 4096 : seen->room * 2;
        seen->numbers = realloc(seen->numbers, (size_t)seen->room * sizeof(*seen->numbers));
        if (seen->numbers == NULL)
            die("memory", "none left");
    }
    seen->numbers[offset] = number;
    seen->end = offset + 1;
}

static void wrong(const char *topic, int32_t index, int64_t offset, const char *what)
{
    fprintf(stderr, "probe: %s-%" PRId32 " offset %" PRId64 ": %s\n", topic, index, offset, what);
    exit(1);
}

static void see_batch(const char *topic, int32_t index, struct bytes batch, const struct batch_header *header,
                      struct seen *seen)
{
    struct record_iter records;
    struct record record;
    uint8_t value[VALUE_BYTES_MAX];
    uint64_t number = 0;
    enum err err = ERR_OK;

    if (!batch_crc_is_valid(batch))
        wrong(topic, index, header->base_offset, "served with a wrong checksum");
    if (header->base_offset != seen->end)
        wrong(topic, index, header->base_offset, "there is a gap before it");
    err = record_iter_init(&records, batch, BATCH_OPENED_BYTES_MAX);
    if (err != ERR_OK)
        die("memory", "none left");
    while ((err = record_iter_next(&records, &record)) == ERR_OK) {
        if (record.value.size < 8)
            wrong(topic, index, record.offset, "foreign bytes");
        memcpy(&number, record.value.data, sizeof(number));
        if (value_of(number, value) != record.value.size || memcmp(value, record.value.data, record.value.size) != 0)
            wrong(topic, index, record.offset, "foreign bytes");
        see(seen, record.offset, number);
    }
    record_iter_deinit(&records);
    if (err != ERR_END || seen->end != batch_last_offset(header) + 1)
        wrong(topic, index, header->base_offset, "records that cannot be read");
}

static void read_partition(struct peer *peer, const char *topic_name, int32_t index, struct seen *seen)
{
    struct fetch_request request;
    struct fetch_request_fetch_topic topic;
    struct fetch_request_fetch_partition partition;

    fetch_request_init(&request);
    fetch_request_fetch_topic_init(&topic);
    fetch_request_fetch_partition_init(&partition);
    partition.partition = index;
    partition.partition_max_bytes = 4 * 1024 * 1024;
    topic.topic = bytes_of_text(topic_name);
    topic.partitions = &partition;
    topic.partitions_count = 1;
    request.max_bytes = 8 * 1024 * 1024;
    request.session_epoch = -1;
    request.topics = &topic;
    request.topics_count = 1;
    for (;;) {
        const struct fetch_response *response = NULL;
        const struct fetch_response_partition_data *data = NULL;
        struct batch_header header;
        struct bytes rest;
        size_t size = 0;

        partition.fetch_offset = seen->end;
        response = ask(peer, &fetch_request_message, &request, &fetch_response_message, FETCH_VERSION);
        if (response == NULL)
            die("fetch", "no answer");
        data = &response->responses[0].partitions[0];
        if (data->error_code != 0)
            wrong(topic_name, index, seen->end, err_name(err_from_wire(data->error_code)));
        if (data->records.size == 0) {
            if (data->high_watermark != seen->end)
                wrong(topic_name, index, seen->end, "nothing comes below the high watermark");
            break;
        }
        rest = bytes_of(data->records.slices[0].data, data->records.slices[0].size);
        while (batch_peek(rest, &header, &size) == ERR_OK) {
            see_batch(topic_name, index, bytes_of(rest.data, header.size), &header, seen);
            rest = bytes_of(rest.data + header.size, rest.size - header.size);
        }
    }
}

/* What the notes say of a topic that comes and goes. */
enum fate { FATE_MADE, FATE_GOING, FATE_GONE };

struct named {
    char name[64];
    enum fate fate;
};

struct notes {
    struct named *named;
    uint32_t count;
    uint32_t room;
    uint64_t records; /* acknowledged in "synced" and found there */
};

static void note_fate(struct notes *notes, const char *name, enum fate fate)
{
    struct named *named = NULL;

    for (uint32_t i = notes->count; i > 0; i--) {
        if (strcmp(notes->named[i - 1].name, name) == 0) {
            notes->named[i - 1].fate = fate;
            return;
        }
    }
    if (notes->count == notes->room) {
        notes->room = notes->room == 0 ? 256 : notes->room * 2;
        notes->named = realloc(notes->named, notes->room * sizeof(*notes->named));
        if (notes->named == NULL)
            die("memory", "none left");
    }
    named = &notes->named[notes->count++];
    (void)snprintf(named->name, sizeof(named->name), "%s", name);
    named->fate = fate;
}

static void check_synced(const char *text, const struct seen seen[SYNCED_PARTITIONS], struct notes *notes)
{
    char *rest = NULL;
    int32_t index = (int32_t)strtol(text, &rest, 10);
    int64_t offset = strtoll(rest, &rest, 10);
    uint64_t number = strtoull(rest, &rest, 10);
    uint64_t count = strtoull(rest, &rest, 10);

    if (index < 0 || index >= SYNCED_PARTITIONS || offset < 0 || count == 0)
        die("notes", "a line that cannot be read");
    for (uint64_t i = 0; i < count; i++, offset++) {
        if (offset >= seen[index].end)
            wrong("synced", index, offset, "an acknowledged record is lost");
        if (seen[index].numbers[offset] != number + i)
            wrong("synced", index, offset, "another record stands where an acknowledged one did");
    }
    notes->records += count;
}

static void read_notes(const char *path, const struct seen seen[SYNCED_PARTITIONS], struct notes *notes)
{
    static const char *const words[] = {"made ", "going ", "gone "};
    FILE *file = fopen(path, "re");
    char line[256];

    if (file == NULL)
        die("notes", path);
    while (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "synced ", 7) == 0)
            check_synced(line + 7, seen, notes);
        for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            if (strncmp(line, words[i], strlen(words[i])) == 0)
                note_fate(notes, line + strlen(words[i]), (enum fate)i);
    }
    fclose(file);
}

static int check_run(uint16_t port, const char *path)
{
    struct seen synced[SYNCED_PARTITIONS] = {0};
    struct notes notes = {0};
    struct peer peer;
    uint64_t served = 0;

    if (!peer_open(&peer, port))
        die("connect", "refused");
    for (uint32_t topic = 0; topic < 2; topic++) {
        for (int32_t index = 0; index < partitions[topic]; index++) {
            struct seen plain = {0};
            struct seen *seen = topic == 0 ? &synced[index] : &plain;

            read_partition(&peer, topics[topic], index, seen);
            served += (uint64_t)seen->end;
            free(plain.numbers);
        }
    }
    read_notes(path, synced, &notes);
    for (uint32_t i = 0; i < notes.count; i++) {
        int16_t error = topic_error(&peer, notes.named[i].name);

        if (notes.named[i].fate == FATE_GONE && error == 0)
            die(notes.named[i].name, "is there, though its end was acknowledged");
        if (notes.named[i].fate == FATE_MADE && error != 0)
            die(notes.named[i].name, "is not there, though its making was acknowledged");
    }
    peer_close(&peer);
    for (int i = 0; i < SYNCED_PARTITIONS; i++)
        free(synced[i].numbers);
    free(notes.named);
    printf("ok %" PRIu64 " acknowledged of %" PRIu64 " served\n", notes.records, served);
    return 0;
}

static int make_run(uint16_t port)
{
    struct peer peer;

    if (!peer_open(&peer, port))
        die("connect", "refused");
    for (uint32_t i = 0; i < 2; i++)
        if (create(&peer, topics[i], partitions[i], i == 0) != 0)
            die(topics[i], "not made");
    peer_close(&peer);
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[1] : "";
    uint16_t port = argc > 2 ? (uint16_t)strtol(argv[2], NULL, 10) : 0;

    if (strcmp(mode, "make") == 0 && argc == 3)
        return make_run(port);
    if (strcmp(mode, "load") == 0 && argc == 5)
        return load_run(port, argv[3], strtoull(argv[4], NULL, 10));
    if (strcmp(mode, "check") == 0 && argc == 4)
        return check_run(port, argv[3]);
    die("usage", "probe make PORT | load PORT NOTES SEED | check PORT NOTES");
    return 2;
}
