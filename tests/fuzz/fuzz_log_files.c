/*
 * The files of a partition and of a log directory out of any bytes. The first byte picks the file (the low bits below)
 * and how it is opened; the rest is its content, beside whole files of a small log. Shows: no bytes on the disk crash,
 * hang or bloat us; what is read is whole and checks; a log that opens can be written to, closed and opened again with
 * the same end; the check changes nothing, and after a repair that gives damage up nothing is damaged.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "partition/damage.h"
#include "partition/log.h"
#include "partition/log_check.h"
#include "partition/log_dir.h"
#include "partition/log_moved_mark.h"
#include "partition/log_repair.h"
#include "partition/log_truncation_mark.h"
#include "protocol/batch_build.h"
#include "sim/sim_fs.h"

enum file {
    FILE_LOG,
    FILE_INDEX,
    FILE_TIME_INDEX,
    FILE_SNAPSHOT,
    FILE_EPOCHS,
    FILE_TOPIC_ID,
    FILE_CHECKPOINT,
    FILE_META, /* and the clean-shutdown mark */
    FILE_COUNT,
};

enum {
    FUZZ_DAMAGE = 128,   /* likewise the marks of damage; mended, with their CRC set right */
    FUZZ_TXN_INDEX = 64, /* not the file that was picked, but the index of aborted transactions */
    FUZZ_BESIDE = FUZZ_DAMAGE | FUZZ_TXN_INDEX, /* but one of `beside` */
    FUZZ_UNCLEAN = 8,
    FUZZ_MEND = 16,   /* set magic, length and CRC of each batch of the log right first; seal a text */
    FUZZ_SYNCED = 32, /* up to ANCHOR, where a snapshot lies: only what is behind it is read by a recovery */
    BATCHES = 12,
    ANCHOR = 8,
    LOG_BYTES_MAX = 4096,
    SEAL_BYTES = 9,
};

#define DAMAGE    "/data/t-0/" DAMAGE_FILE
#define TXN_INDEX "/data/t-0/00000000000000000000.txnindex"

static const char *const names[FILE_COUNT] = {
    [FILE_LOG] = "/data/t-0/00000000000000000000.log",
    [FILE_INDEX] = "/data/t-0/00000000000000000000.index",
    [FILE_TIME_INDEX] = "/data/t-0/00000000000000000000.timeindex",
    [FILE_SNAPSHOT] = "/data/t-0/00000000000000000012.snapshot",
    [FILE_EPOCHS] = "/data/t-0/leader-epoch-checkpoint",
    [FILE_TOPIC_ID] = "/data/t-0/partition.metadata",
    [FILE_CHECKPOINT] = "/data/recovery-point-offset-checkpoint",
    [FILE_META] = "/data/meta.properties",
};

/* What a move, a cut and a compaction leave. */
static const char *const beside[FILE_CHECKPOINT] = {
    "/data/t-0/" LOG_MOVED_NAME,
    "/data/t-0/" LOG_TRUNCATION_NAME,
    "/data/t-0/00000000000000000000.log.swap",
    "/data/t-0/00000000000000000000.index.swap",
    "/data/t-0/00000000000000000000.timeindex.swap",
    "/data/t-0/00000000000000000000.txnindex.swap",
};

struct world {
    struct sim sim;
    struct sim_fs disk;
    struct log log;
    struct log_sink sink;
    struct partition_files files;
    struct partition_env env;
    struct partition_log_spec spec;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void no_line(struct log_sink *sink, enum log_level level, const char *line, uint32_t size)
{
    (void)sink;
    (void)level;
    (void)line;
    (void)size;
}

static size_t batch_make(uint8_t *to, size_t room, int64_t offset)
{
    struct batch_builder builder;
    struct batch_spec spec;
    uint8_t *batch = NULL;
    size_t size = 0;

    batch_spec_init(&spec);
    spec.base_offset = offset;
    spec.leader_epoch = 0;
    batch_builder_init(&builder, &spec);
    if (batch_builder_append(&builder, 1000 + offset, (struct bytes){0}, BYTES_LITERAL("a value of some bytes"), NULL,
                             0) != ERR_OK ||
        batch_builder_finish(&builder, &batch, &size) != ERR_OK)
        abort();
    assert(size <= room);
    memcpy(to, batch, size);
    batch_builder_deinit(&builder);
    return size;
}

static void lay_out(struct world *world)
{
    static const uint8_t snapshot[] = {0, 1, 0x48, 0x67, 0x4b, 0xc7, 0, 0, 0, 0}; /* no producers */
    uint8_t content[LOG_BYTES_MAX];
    size_t size = 0;

    for (int64_t offset = 0; offset < BATCHES; offset++)
        size += batch_make(content + size, sizeof(content) - size, offset);
    sim_fs_poke(&world->disk, names[FILE_LOG], bytes_of(content, size));
    sim_fs_poke(&world->disk, "/data/t-0/00000000000000000008.snapshot", bytes_of(snapshot, sizeof(snapshot)));
    sim_fs_poke(&world->disk, names[FILE_EPOCHS], BYTES_LITERAL("0\n1\n0 0\n"));
    sim_fs_poke(&world->disk, names[FILE_TOPIC_ID], BYTES_LITERAL("version: 0\ntopic_id: AQIDBAUGRwiJCgsMDQ4PEA"));
}

static void begin(struct world *world)
{
    static const uint8_t id[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

    *world = (struct world){0};
    sim_init(&world->sim, 1);
    sim_fs_init(&world->disk, &world->sim);
    world->sink.write = no_line;
    world->log = (struct log){.sink = &world->sink, .clock = &world->sim.clock, .node_id = 1, .room = "partition"};
    partition_files_init(&world->files, 0);
    world->env = (struct partition_env){
        .fs = &world->disk.fs,
        .loop = sim_loop_new(&world->sim, "reactor-0", 0),
        .clock = &world->sim.clock,
        .rng = &world->sim.rng,
        .log = &world->log,
        .files = &world->files,
        .log_dir = "/data",
    };
    world->spec.topic = BYTES_LITERAL("t");
    world->spec.topic_id = uuid_from_random(id);
    log_config_init(&world->spec.config);
    world->spec.config.index_interval_bytes = 200;
    lay_out(world);
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

static enum err check_batch(void *context, struct bytes batch)
{
    int64_t *next = context;
    struct batch_header header;

    assert(batch_peek(batch, &header, NULL) == ERR_OK && header.size == batch.size && batch_crc_is_valid(batch));
    assert(header.base_offset >= *next);
    *next = batch_last_offset(&header) + 1;
    return ERR_OK;
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

static void wait(struct world *world, bool *flag)
{
    bool came = sim_run(&world->sim, world->sim.mono_ns + INT64_C(60000000000), is_set, flag);

    assert(came);
}

static bool close_log(struct world *world, struct partition_log *log)
{
    struct closing closing = {.op.done = was_closed};

    partition_log_close(log, &closing.op);
    wait(world, &closing.done);
    return closing.op.err == ERR_OK;
}

struct appending {
    struct log_append op;
    bool done;
};

static void was_appended(struct log_append *op)
{
    ((struct appending *)op)->done = true;
}

/* The offset behind the appended batch; what was there when the log takes none. */
static int64_t append_one(struct world *world, struct partition_log *log)
{
    uint8_t batch[256];
    struct appending appending = {
        .op = {.batches = batch, .origin = LOG_ORIGIN_CLIENT, .leader_epoch = 0, .done = was_appended}};

    appending.op.size = batch_make(batch, sizeof(batch), 0);
    partition_log_append(log, &appending.op);
    wait(world, &appending.done);
    return partition_log_end_offset(log);
}

struct reading {
    struct log_read op;
    bool done;
};

static void was_read(struct log_read *op)
{
    ((struct reading *)op)->done = true;
}

static void read_at(struct world *world, struct partition_log *log, int64_t offset)
{
    struct arena arena;
    struct reading reading = {.op = {.offset = offset,
                                     .offset_limit = partition_log_end_offset(log),
                                     .bytes_max = 4000,
                                     .at_least_one = true,
                                     .arena = &arena,
                                     .done = was_read}};

    arena_init(&arena, 1 << 20);
    partition_log_read(log, &reading.op);
    wait(world, &reading.done);
    for (uint32_t i = 0; i < reading.op.slice_count; i++)
        fs_file_drop(reading.op.slices[i].file);
    arena_deinit(&arena);
}

struct looking {
    struct log_aborted_find op;
    bool done;
};

static void was_looked_up(struct log_aborted_find *op)
{
    ((struct looking *)op)->done = true;
}

static void find_aborted(struct world *world, struct partition_log *log, int64_t from, int64_t to)
{
    struct arena arena;
    struct looking looking = {.op = {.from = from, .to = to, .arena = &arena, .done = was_looked_up}};

    arena_init(&arena, 1 << 20);
    partition_log_find_aborted(log, &looking.op);
    wait(world, &looking.done);
    for (uint32_t i = 0; looking.op.err == ERR_OK && i < looking.op.count; i++)
        assert(looking.op.aborted[i].first_offset < to);
    arena_deinit(&arena);
}

static void mend_damage(uint8_t *data, size_t size)
{
    if (size < DAMAGE_HEAD_BYTES)
        return;
    memcpy(data, "OTTLADMG", 8);
    big_endian_store_u32(data + 12, crc32c(crc32c(0, data + 8, 4), data + 16, size - 16));
}

static size_t seal(uint8_t *data, size_t size)
{
    return size + (size_t)snprintf((char *)data + size, SEAL_BYTES + 1, "%08x\n", crc32c(0, data, size));
}

static void was_found(void *context, const struct log_finding *finding)
{
    (void)context;
    assert(finding->text != NULL && finding->file != NULL);
}

static void check_files(struct world *world, bool in_use)
{
    struct log_check check = {.fs = &world->disk.fs, .found = was_found, .opens_records = in_use, .in_use = in_use};
    struct log_checked checked;
    uint64_t writes = world->disk.calls[SIM_FS_WRITE];
    enum err err = log_check_partition(&check, "/data/t-0", in_use ? -1 : ANCHOR, &checked);

    assert(err == ERR_OK && checked.start_offset <= checked.end_offset);
    assert(world->disk.calls[SIM_FS_WRITE] == writes);
}

struct scrubbing {
    struct log_scrub op;
    bool done;
};

static void was_scrubbed(struct log_scrub *op)
{
    ((struct scrubbing *)op)->done = true;
}

static void scrub(struct world *world, struct partition_log *log)
{
    struct scrubbing scrubbing = {.op = {.bytes_max = 300, .done = was_scrubbed}};

    while (!scrubbing.op.at_end && scrubbing.op.err == ERR_OK) {
        scrubbing.done = false;
        partition_log_scrub(log, &scrubbing.op);
        wait(world, &scrubbing.done);
    }
}

static void repair(struct world *world)
{
    struct log_repaired repaired;

    if (log_repair_give_up(&world->env, &world->spec, &repaired) == ERR_OK)
        assert(repaired.damaged == 0 && repaired.start_offset <= repaired.end_offset);
}

static void run_log(struct world *world, bool unclean, bool synced)
{
    struct partition_log *log = NULL;
    int64_t next = 0;
    int64_t end = 0;
    enum err err = ERR_OK;

    world->spec.clean = !unclean;
    world->spec.recovery_point = synced ? ANCHOR : 0;
    check_files(world, false);
    check_files(world, true);
    if (partition_log_open(&world->env, &world->spec, &log, NULL) != ERR_OK) {
        repair(world);
        return;
    }
    partition_log_adopt(log);
    assert(partition_log_start_offset(log) <= partition_log_end_offset(log));
    err = partition_log_scan(log, 0, check_batch, &next);
    assert(err == ERR_OK || !unclean || synced); /* what was synced is believed; reads say what is wrong */
    assert(err != ERR_OK || next <= partition_log_end_offset(log));
    for (int64_t offset = 0; offset < 16; offset++)
        read_at(world, log, offset);
    for (int64_t offset = 0; offset < 16; offset++)
        find_aborted(world, log, offset, offset + 1 + offset % 3 * 5);
    assert(partition_log_first_unstable_offset(log) >= 0);
    scrub(world, log);
    end = append_one(world, log);
    if (!close_log(world, log))
        return;
    world->spec.clean = true;
    err = partition_log_open(&world->env, &world->spec, &log, NULL);
    assert(err == ERR_OK);
    partition_log_adopt(log);
    assert(partition_log_end_offset(log) == end);
    if (close_log(world, log))
        repair(world);
}

static void run_dir(struct world *world)
{
    struct log_dir *dir = NULL;
    struct log_dir_meta meta;
    struct log_dir_list list;
    bool clean = false;
    int64_t epoch = 0;
    enum err err = log_dir_open(&world->disk.fs, &world->log, "/data", &dir);

    assert(err == ERR_OK);
    if (log_dir_read_meta(dir, &meta) == ERR_OK)
        assert(meta.node_id >= 0 && strlen(meta.cluster_id) <= LOG_DIR_CLUSTER_ID_BYTES_MAX);
    err = log_dir_take_clean_mark(dir, &clean, &epoch);
    assert(err == ERR_OK && epoch >= -1);
    err = log_dir_list(dir, &list);
    assert(err == ERR_OK && list.count == 1 && list.partitions[0].recovery_point >= 0);
    log_dir_list_deinit(&list);
    log_dir_close(dir);
}

/* The picked file's content as it is to lie there. */
static size_t mend_file(const char *name, uint8_t *content, size_t size)
{
    if (name == names[FILE_LOG] || name == beside[2])
        mend(content, size);
    else if (strcmp(name, DAMAGE) == 0)
        mend_damage(content, size);
    else if (name == beside[0] || name == beside[1])
        return seal(content, size);
    return size;
}

static const char *pick(uint8_t how)
{
    enum file file = (enum file)(how % FILE_COUNT);

    if (file >= FILE_CHECKPOINT)
        return names[file];
    if ((how & FUZZ_BESIDE) == FUZZ_BESIDE)
        return beside[file];
    return (how & FUZZ_TXN_INDEX) != 0 ? TXN_INDEX : (how & FUZZ_DAMAGE) != 0 ? DAMAGE : names[file];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world world;
    const char *name = NULL;
    uint8_t *content = NULL;
    size_t content_size = 0;

    if (size < 1)
        return 0;
    content = mem_alloc(size + SEAL_BYTES);
    if (content == NULL)
        return 0;
    content_size = size - 1;
    memcpy(content, data + 1, content_size);
    name = pick(data[0]);
    if ((data[0] & FUZZ_MEND) != 0)
        content_size = mend_file(name, content, content_size);
    begin(&world);
    sim_fs_poke(&world.disk, name, bytes_of(content, content_size));
    if (name == names[FILE_META])
        sim_fs_poke(&world.disk, "/data/.kafka_cleanshutdown", bytes_of(content, content_size));
    if (name == names[FILE_META] || name == names[FILE_CHECKPOINT])
        run_dir(&world);
    else
        run_log(&world, (data[0] & FUZZ_UNCLEAN) != 0, (data[0] & FUZZ_SYNCED) != 0);
    assert(world.disk.open_files == 0);
    sim_fs_deinit(&world.disk);
    sim_deinit(&world.sim);
    mem_free(content);
    return 0;
}
