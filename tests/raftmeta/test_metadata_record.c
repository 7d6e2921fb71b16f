/* Rule: a frame is version 1, kind, version, body and nothing behind it (kraft.md "Record batches in the metadata
 * log"); what this build does not know is named, not guessed at. */
#include <check.h>

#include "base/mem.h"
#include "raftmeta/metadata_record.h"
#include "raftmeta/transcript.h"

static struct arena arena;

static enum err read_bytes(const char *bytes, size_t size, struct metadata_record *record)
{
    return metadata_record_read(bytes_of(bytes, size), &arena, record);
}

START_TEST(golden_frames)
{
    /* As kafka-storage wrote it (kafka-4.2): metadata.version 29. */
    static const char level[] = "\x01\x0c\x00\x11metadata.version\x00\x1d\x00";
    struct metadata_record record;
    struct bytes frame;

    arena_init(&arena, 1024 * 1024);
    ck_assert_int_eq(read_bytes(level, sizeof(level) - 1, &record), ERR_OK);
    ck_assert_int_eq(record.kind, RECORD_FEATURE_LEVEL);
    ck_assert_int_eq(record.feature_level.feature_level, 29);
    ck_assert_int_eq(metadata_record_write(&record, &arena, &frame), ERR_OK);
    ck_assert(bytes_equal(frame, bytes_of(level, sizeof(level) - 1)));
    arena_deinit(&arena);
}
END_TEST

START_TEST(what_is_not_known_is_refused)
{
    static const char later_kind[] = "\x01\x1d\x00\x00";
    static const char unused_kind[] = "\x01\x06\x00\x00";
    static const char later_version[] = "\x01\x0c\x01\x00";
    static const char frame_zero[] = "\x00\x0c\x00\x00";
    static const char behind[] = "\x01\x14\x00\x00\x00"; /* a NoOp and one byte */
    static const char cut[] = "\x01\x0c\x00\x11meta";
    struct metadata_record record;

    arena_init(&arena, 1024 * 1024);
    ck_assert_int_eq(read_bytes(later_kind, 4, &record), ERR_UNSUPPORTED_VERSION);
    ck_assert_int_eq(record.kind, 29);
    ck_assert_int_eq(read_bytes(unused_kind, 4, &record), ERR_UNSUPPORTED_VERSION);
    ck_assert_int_eq(read_bytes(later_version, 4, &record), ERR_UNSUPPORTED_VERSION);
    ck_assert_int_eq(record.version, 1);
    ck_assert_int_eq(read_bytes(frame_zero, 4, &record), ERR_DAMAGED);
    ck_assert_int_eq(read_bytes(behind, 5, &record), ERR_DAMAGED);
    ck_assert_int_eq(read_bytes(cut, 8, &record), ERR_DAMAGED);
    ck_assert_int_eq(read_bytes("", 0, &record), ERR_DAMAGED);
    arena_deinit(&arena);
}
END_TEST

START_TEST(versions_follow_the_level)
{
    static const struct {
        enum metadata_record_kind kind;
        int16_t level, version;
    } rows[] = {
        {RECORD_REGISTER_BROKER, 7, 1},  {RECORD_REGISTER_BROKER, 8, 2}, {RECORD_REGISTER_BROKER, 16, 2},
        {RECORD_REGISTER_BROKER, 17, 3}, {RECORD_PARTITION, 16, 0},      {RECORD_PARTITION, 17, 1},
        {RECORD_PARTITION, 22, 1},       {RECORD_PARTITION, 23, 2},      {RECORD_PARTITION_CHANGE, 29, 2},
        {RECORD_TOPIC, 29, 0},
    };

    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct metadata_record record;

        metadata_record_init(&record, rows[i].kind, rows[i].level);
        ck_assert_int_eq(record.version, rows[i].version);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metadata_record");
    TCase *tcase = tcase_create("metadata_record");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, golden_frames);
    tcase_add_test(tcase, what_is_not_known_is_refused);
    tcase_add_test(tcase, versions_follow_the_level);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
