/*
 * The metadata directory out of any bytes. The first byte picks what they are: the log, a snapshot, what a directory
 * was formatted with, quorum-state, one record, or a row of records (each behind its size in a byte) that are batched
 * as a controller would. Shows: no bytes crash, hang or bloat us; a record that is read can be written, and reads back;
 * what becomes an image can be written as a snapshot, which makes an image again.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "protocol/batch_build.h"
#include "raftmeta/image_records.h"
#include "raftmeta/metadata_load.h"
#include "sim/sim_fs.h"

enum input { IN_LOG, IN_SNAPSHOT, IN_FORMATTED, IN_BOOTSTRAP, IN_QUORUM_STATE, IN_RECORD, IN_RECORDS, INPUTS };

enum {
    FUZZ_MEND = 8, /* set magic, length and CRC of each batch right first */
    RECORD_ARENA_BYTES = 1 << 20,
};

#define DIR "/data/__cluster_metadata-0"

static const char *const names[] = {
    [IN_LOG] = DIR "/00000000000000000000.log",
    [IN_SNAPSHOT] = DIR "/00000000000000000010-0000000001.checkpoint",
    [IN_FORMATTED] = DIR "/00000000000000000000-0000000000.checkpoint",
    [IN_BOOTSTRAP] = "/data/bootstrap.checkpoint",
    [IN_QUORUM_STATE] = DIR "/quorum-state",
};

struct world {
    struct sim sim;
    struct sim_fs disk;
    struct log log;
    struct log_sink sink;
    struct partition_files files;
    struct partition_env env;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void no_line(struct log_sink *sink, enum log_level level, const char *line, uint32_t size)
{
    (void)sink;
    (void)level;
    (void)line;
    (void)size;
}

static void begin(struct world *world)
{
    *world = (struct world){0};
    sim_init(&world->sim, 1);
    sim_fs_init(&world->disk, &world->sim);
    world->sink.write = no_line;
    world->log = (struct log){.sink = &world->sink, .clock = &world->sim.clock, .node_id = 1, .room = "raftmeta"};
    partition_files_init(&world->files, 0);
    world->env = (struct partition_env){
        .fs = &world->disk.fs,
        .loop = sim_loop_new(&world->sim, "controller", 0),
        .clock = &world->sim.clock,
        .rng = &world->sim.rng,
        .log = &world->log,
        .files = &world->files,
        .log_dir = "/data",
    };
    sim_fs_poke(&world->disk, "/data/meta.properties", BYTES_LITERAL("version=1\n"));
}

static void end(struct world *world)
{
    assert(world->disk.open_files == 0);
    sim_fs_deinit(&world->disk);
    sim_deinit(&world->sim);
}

static void mend(uint8_t *data, size_t size)
{
    while (size >= BATCH_HEADER_BYTES) {
        struct batch_header header;

        data[BATCH_FIELD_MAGIC] = BATCH_MAGIC;
        if (batch_peek(bytes_of(data, size), &header, NULL) != ERR_OK)
            return;
        batch_set_crc(data);
        data += header.size;
        size -= header.size;
    }
}

/* --- what was read is whole --- */

static enum err check_topic(void *context, const struct image_topic *topic)
{
    const struct image *image = context;

    assert(image_topic_by_id(image, topic->id) == topic);
    assert(image_topic_by_name(image, topic->name) == topic);
    for (uint32_t i = 0; i < topic->partition_count; i++)
        assert(topic->partitions[i] != NULL);
    return ERR_OK;
}

/* As a snapshot, and back. */
static void check_image(struct world *world, struct image *image)
{
    struct snapshot_source source = {.image = image, .epoch = 1};
    struct image *nothing = image_new();
    struct loader loader;
    enum err err = image_each_topic(image, check_topic, image);

    assert(err == ERR_OK && nothing != NULL);
    loader_init(&loader, nothing);
    image_drop(nothing);
    err = snapshot_write(&world->disk.fs, "/data/again.checkpoint", &source);
    assert(err == ERR_OK);
    err = snapshot_load(&world->disk.fs, "/data/again.checkpoint", 100, &loader);
    if (err != ERR_OK)
        fprintf(stderr, "%s: %s\n", err_name(err), loader.message);
    assert(err == ERR_OK);
    assert(image_topic_count(loader.image) == image_topic_count(image));
    assert(image_broker_count(loader.image) == image_broker_count(image));
    assert(image_metadata_version(loader.image) == image_metadata_version(image));
    loader_deinit(&loader);
}

struct closing {
    struct partition_log_close op;
    bool done;
};

static void was_closed(struct partition_log_close *op)
{
    ((struct closing *)op)->done = true;
}

static bool is_set(void *context)
{
    return *(const bool *)context;
}

static void run_directory(struct world *world)
{
    struct metadata_loaded *loaded = mem_calloc(1, sizeof(*loaded));
    struct closing closing = {.op.done = was_closed};
    enum err err = metadata_load(&world->env, 1 << 20, loaded);

    if (err == ERR_OK)
        check_image(world, loaded->loader.image);
    else
        assert(loaded->loader.message[0] != '\0'); /* whoever starts it is told what is wrong */
    if (loaded->log != NULL) {
        partition_log_adopt(loaded->log);
        partition_log_close(loaded->log, &closing.op);
        assert(sim_run(&world->sim, world->sim.mono_ns + INT64_C(60000000000), is_set, &closing.done));
    }
    metadata_loaded_deinit(loaded);
    mem_free(loaded);
}

/* --- records --- */

static void run_record(struct bytes frame)
{
    struct arena arena;
    struct metadata_record *record = mem_calloc(2, sizeof(*record));
    struct bytes written;
    char text[512];

    arena_init(&arena, RECORD_ARENA_BYTES);
    if (metadata_record_read(frame, &arena, &record[0]) == ERR_OK) {
        enum err err = metadata_record_write(&record[0], &arena, &written);

        assert(err == ERR_OK || err == ERR_NOMEM);
        (void)metadata_record_print(&record[0], text, sizeof(text));
        if (err == ERR_OK)
            err = metadata_record_read(written, &arena, &record[1]);
        assert(err == ERR_NOMEM || (err == ERR_OK && record[1].kind == record[0].kind));
    }
    arena_deinit(&arena);
    mem_free(record);
}

static void run_records(struct world *world, struct bytes rest)
{
    struct image *nothing = image_new();
    struct batch_builder builder;
    struct batch_spec spec;
    struct loader loader;
    uint8_t *batch = NULL;
    size_t size = 0;
    uint32_t count = 0;
    enum err err = ERR_OK;

    batch_spec_init(&spec);
    spec.leader_epoch = 1;
    batch_builder_init(&builder, &spec);
    while (rest.size > 0) {
        size_t wanted = rest.data[0] < rest.size - 1 ? rest.data[0] : rest.size - 1;

        err = batch_builder_append(&builder, 1000, (struct bytes){0}, bytes_of(rest.data + 1, wanted), NULL, 0);
        assert(err == ERR_OK);
        rest = bytes_of(rest.data + 1 + wanted, rest.size - 1 - wanted);
        count++;
    }
    loader_init(&loader, nothing);
    image_drop(nothing);
    if (count > 0) {
        err = batch_builder_finish(&builder, &batch, &size);
        assert(err == ERR_OK);
        err = loader_batch(&loader, bytes_of(batch, size), LOADER_OWN_OFFSETS);
        if (err == ERR_OK)
            err = loader_flush(&loader);
        if (err == ERR_OK)
            check_image(world, loader.image);
    }
    loader_deinit(&loader);
    batch_builder_deinit(&builder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world world;
    enum input input = IN_LOG;
    uint8_t *content = NULL;

    if (size < 1)
        return 0;
    input = (enum input)((data[0] & 7) % INPUTS);
    content = mem_alloc(size);
    if (content == NULL)
        return 0;
    memcpy(content, data + 1, size - 1);
    if (data[0] & FUZZ_MEND)
        mend(content, size - 1);
    begin(&world);
    if (input == IN_RECORD) {
        run_record(bytes_of(content, size - 1));
    } else if (input == IN_RECORDS) {
        run_records(&world, bytes_of(content, size - 1));
    } else {
        sim_fs_poke(&world.disk, names[input], bytes_of(content, size - 1));
        run_directory(&world);
    }
    end(&world);
    mem_free(content);
    return 0;
}
