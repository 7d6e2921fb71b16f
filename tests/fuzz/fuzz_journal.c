/* Any bytes at all in a journal file and in the boot mark: what is found is whole entries or nothing, and what a start
 * is told of reads back. */
#include "base/mem.h"
#include "partition/boot_mark.h"
#include "partition/journal_replay.h"
#include "sim/sim_fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void nothing(struct log_sink *sink, enum log_level level, const char *line, uint32_t size)
{
    (void)sink;
    (void)level;
    (void)line;
    (void)size;
}

static void replay(struct sim *sim, struct sim_fs *disk)
{
    struct log_sink sink = {.write = nothing};
    struct log log = {.sink = &sink, .clock = &sim->clock, .node_id = 1, .room = "fuzz"};
    struct journal_replay_options options = {.fs = &disk->fs, .log = &log, .log_dir = "/data"};
    struct journal_replay *found = NULL;
    uint32_t count = 0;
    const struct journal_replay_entry *entries = NULL;

    if (journal_replay_open(&options, &found) != ERR_OK)
        return;
    /* The corpus has its entries under the zero id. */
    entries = journal_replay_find(found, (struct uuid){{0}}, 0, &count);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *body = mem_alloc(entries[i].body_bytes + 1);

        if (body == NULL)
            continue;
        if (journal_replay_read(found, &entries[i], body) != ERR_OK)
            __builtin_trap();
        mem_free(body);
    }
    journal_replay_free(found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sim sim;
    struct sim_fs disk;
    struct boot_mark mark;
    uint16_t version = 0;

    if (boot_mark_parse(bytes_of(data, size), &mark, &version) == ERR_OK) {
        uint8_t again[BOOT_MARK_BYTES];

        boot_mark_format(&mark, again);
    }
    sim_init(&sim, 1);
    sim_fs_init(&disk, &sim);
    sim_fs_poke(&disk, "/data/ottla-journal-0-1", bytes_of(data, size));
    replay(&sim, &disk);
    sim_fs_forget_files(&disk);
    sim_fs_deinit(&disk);
    sim_deinit(&sim);
    return 0;
}
