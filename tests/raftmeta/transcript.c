#include "raftmeta/transcript.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "raftmeta/image_records.h"

static void say_ids(struct transcript *transcript, const char *name, const int32_t *ids, uint32_t count)
{
    if (ids == NULL || (count == 0 && strcmp(name, "isr") != 0))
        return;
    transcript_say(transcript, " %s=[", name);
    for (uint32_t i = 0; i < count; i++)
        transcript_say(transcript, "%s%d", i == 0 ? "" : " ", ids[i]);
    transcript_say(transcript, "]");
}

static void say_partition(struct transcript *transcript, const struct partition_record *record)
{
    transcript_say(transcript, "  PARTITION %s/%d", uuid_format(record->topic_id).text, record->partition_id);
    say_ids(transcript, "replicas", record->replicas, record->replicas_count);
    say_ids(transcript, "isr", record->isr, record->isr_count);
    say_ids(transcript, "adding", record->adding_replicas, record->adding_replicas_count);
    say_ids(transcript, "removing", record->removing_replicas, record->removing_replicas_count);
    say_ids(transcript, "elr", record->eligible_leader_replicas, record->eligible_leader_replicas_count);
    say_ids(transcript, "last_elr", record->last_known_elr, record->last_known_elr_count);
    transcript_say(transcript, " leader=%d epochs=%d/%d%s dirs=[", record->leader, record->leader_epoch,
                   record->partition_epoch, record->leader_recovery_state != 0 ? " recovering" : "");
    for (uint32_t i = 0; i < record->directories_count; i++)
        transcript_say(transcript, "%s%s", i == 0 ? "" : " ", uuid_format(record->directories[i]).text);
    transcript_say(transcript, "]\n");
}

static void say_change(struct transcript *transcript, const struct partition_change_record *record)
{
    transcript_say(transcript, "  PARTITION_CHANGE %s/%d", uuid_format(record->topic_id).text, record->partition_id);
    say_ids(transcript, "isr", record->isr, record->isr_count);
    if (record->leader != -2)
        transcript_say(transcript, " leader=%d", record->leader);
    if (record->directories != NULL) {
        transcript_say(transcript, " dirs=[");
        for (uint32_t i = 0; i < record->directories_count; i++)
            transcript_say(transcript, "%s%s", i == 0 ? "" : " ", uuid_format(record->directories[i]).text);
        transcript_say(transcript, "]");
    }
    transcript_say(transcript, "\n");
}

void transcript_records(struct transcript *transcript, const struct metadata_record *records, uint32_t count)
{
    static char line[16 * 1024];

    for (uint32_t i = 0; i < count; i++) {
        switch (records[i].kind) {
        case RECORD_PARTITION:
            say_partition(transcript, &records[i].partition);
            break;
        case RECORD_PARTITION_CHANGE:
            say_change(transcript, &records[i].partition_change);
            break;
        case RECORD_CONFIG: /* the printer hides values; these are ours */
            transcript_say(transcript, "  CONFIG %d/%.*s %.*s=%.*s\n", records[i].config.resource_type,
                           BYTES_PRINTF(records[i].config.resource_name), BYTES_PRINTF(records[i].config.name),
                           BYTES_PRINTF(records[i].config.value.data == NULL ? BYTES_LITERAL("(removed)")
                                                                             : records[i].config.value));
            break;
        default:
            ck_assert_uint_lt(metadata_record_print(&records[i], line, sizeof(line)), sizeof(line));
            transcript_say(transcript, "  %s\n", line);
        }
    }
}

static enum err say_frame(void *context, struct bytes frame)
{
    struct transcript *transcript = context;
    struct metadata_record record;
    struct arena arena;

    arena_init(&arena, 1024 * 1024);
    ck_assert_int_eq(metadata_record_read(frame, &arena, &record), ERR_OK);
    transcript_records(transcript, &record, 1);
    arena_deinit(&arena);
    return ERR_OK;
}

void transcript_image(struct transcript *transcript, const struct image *image)
{
    ck_assert_int_eq(image_each_frame(image, say_frame, transcript), ERR_OK);
}

static char mark(const void *before, const void *after)
{
    return before == NULL ? '+' : after == NULL ? '-' : '~';
}

void transcript_delta(struct transcript *transcript, const struct image_delta *delta)
{
    for (uint32_t i = 0; i < delta->topic_count; i++) {
        const struct image_topic_change *change = &delta->topics[i];
        const struct image_topic *row = change->after != NULL ? change->after : change->before;

        transcript_say(transcript, " topic %c%s", mark(change->before, change->after), (const char *)row->name.data);
    }
    for (uint32_t i = 0; i < delta->broker_count; i++) {
        const struct image_broker_change *change = &delta->brokers[i];
        const struct image_broker *row = change->after != NULL ? change->after : change->before;

        transcript_say(transcript, " broker %c%d", mark(change->before, change->after), row->id);
    }
    for (uint32_t i = 0; i < delta->configs_count; i++) {
        const struct image_configs_change *change = &delta->configs[i];
        const struct image_configs *row = change->after != NULL ? change->after : change->before;

        transcript_say(transcript, " configs %c%d/%s", mark(change->before, change->after), row->type,
                       (const char *)row->resource.data);
    }
    transcript_say(transcript, "%s%s%s%s\n", delta->features_changed ? " features" : "",
                   delta->producer_ids_changed ? " producer_ids" : "", delta->controllers_changed ? " controllers" : "",
                   delta->records_changed ? " records" : "");
}

uint8_t *read_test_file(const char *name, size_t *size)
{
    enum { TEST_FILE_BYTES_MAX = 1024 * 1024 };
    uint8_t *data = mem_alloc(TEST_FILE_BYTES_MAX);
    char path[4096];
    FILE *file = NULL;

    (void)snprintf(path, sizeof(path), "%s/%s", TEST_FILES_DIR, name);
    file = fopen(path, "r");
    ck_assert_msg(file != NULL && data != NULL, "%s cannot be opened", path);
    *size = fread(data, 1, TEST_FILE_BYTES_MAX, file);
    (void)fclose(file);
    return data;
}
