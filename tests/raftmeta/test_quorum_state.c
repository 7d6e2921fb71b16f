/* Rule: quorum-state is Kafka's line of JSON, replaced as a whole (kraft.md "quorum-state file"). */
#include <check.h>

#include "base/mem.h"
#include "raftmeta/quorum_state.h"
#include "raftmeta/transcript.h"
#include "sim/sim_fs.h"

static struct sim sim;
static struct sim_fs disk;

static void begin(void)
{
    sim_init(&sim, 1);
    sim_fs_init(&disk, &sim);
    ck_assert_int_eq(fs_mkdir(&disk.fs, "/m"), ERR_OK);
}

static void end(void)
{
    sim_fs_deinit(&disk);
    sim_deinit(&sim);
}

START_TEST(kafkas_own_is_read_and_written_the_same)
{
    struct quorum_state state;
    size_t size = 0;
    uint8_t *golden = read_test_file("kafka-4.2/quorum-state", &size);

    begin();
    sim_fs_poke(&disk, "/m/quorum-state", bytes_of(golden, size));
    ck_assert_int_eq(quorum_state_read(&disk.fs, "/m", &state), ERR_OK);
    ck_assert_int_eq(state.leader_id, 1);
    ck_assert_int_eq(state.leader_epoch, 2);
    ck_assert_int_eq(state.voted_id, -1);
    ck_assert_int_eq(state.version, 1);
    ck_assert_int_eq(quorum_state_write(&disk.fs, "/m", &state), ERR_OK);
    ck_assert(bytes_equal(sim_fs_peek(&disk, "/m/quorum-state"), bytes_of(golden, size)));
    mem_free(golden);
    end();
}
END_TEST

START_TEST(version_0_names_the_voters)
{
    static struct voter_set voters = {.voters = {{.id = 1}, {.id = 2}}, .count = 2};
    struct quorum_state state = {.leader_id = 2, .leader_epoch = 7, .voted_id = -1, .voters = &voters};

    begin();
    ck_assert_int_eq(quorum_state_write(&disk.fs, "/m", &state), ERR_OK);
    ck_assert(bytes_equal(sim_fs_peek(&disk, "/m/quorum-state"),
                          BYTES_LITERAL("{\"clusterId\":\"\",\"leaderId\":2,\"leaderEpoch\":7,\"votedId\":-1,"
                                        "\"appliedOffset\":0,\"currentVoters\":[{\"voterId\":1},{\"voterId\":2}],"
                                        "\"data_version\":0}")));
    ck_assert_int_eq(quorum_state_read(&disk.fs, "/m", &state), ERR_OK);
    ck_assert_int_eq(state.leader_epoch, 7);
    end();
}
END_TEST

START_TEST(what_is_no_state_is_refused)
{
    struct quorum_state state;

    begin();
    ck_assert_int_eq(quorum_state_read(&disk.fs, "/m", &state), ERR_NOT_FOUND);
    ck_assert_int_eq(state.leader_epoch, 0);
    ck_assert_int_eq(state.leader_id, -1);
    sim_fs_poke(&disk, "/m/quorum-state", BYTES_LITERAL("{\"leaderEpoch\":"));
    ck_assert_int_eq(quorum_state_read(&disk.fs, "/m", &state), ERR_DAMAGED);
    sim_fs_poke(&disk, "/m/quorum-state", BYTES_LITERAL("{\"leaderEpoch\":3,\"data_version\":2}"));
    ck_assert_int_eq(quorum_state_read(&disk.fs, "/m", &state), ERR_UNSUPPORTED_VERSION);
    sim_fs_poke(&disk, "/m/quorum-state", BYTES_LITERAL("{\"leaderEpoch\":-3,\"data_version\":1}"));
    ck_assert_int_eq(quorum_state_read(&disk.fs, "/m", &state), ERR_DAMAGED);
    end();
}
END_TEST

/* The edge of QUORUM_STATE_BYTES_MAX: what lies behind it is not read. */
START_TEST(a_file_that_is_too_large_is_no_state)
{
    static const char head[] = "{\"leaderEpoch\":3,\"data_version\":1";
    static uint8_t text[64 * 1024 + 1];
    struct quorum_state state;

    begin();
    memset(text, ' ', sizeof(text));
    memcpy(text, head, sizeof(head) - 1);
    text[sizeof(text) - 2] = '}';
    sim_fs_poke(&disk, "/m/quorum-state", bytes_of(text, sizeof(text) - 1));
    ck_assert_int_eq(quorum_state_read(&disk.fs, "/m", &state), ERR_OK);
    text[sizeof(text) - 2] = ' ';
    text[sizeof(text) - 1] = '}';
    sim_fs_poke(&disk, "/m/quorum-state", bytes_of(text, sizeof(text)));
    ck_assert_int_eq(quorum_state_read(&disk.fs, "/m", &state), ERR_DAMAGED);
    end();
}
END_TEST

/* Whatever call the machine dies at, the file is the old one or the new one. */
START_TEST(a_crash_leaves_one_or_the_other)
{
    for (uint64_t k = 1;; k++) {
        struct quorum_state state = {.leader_id = 1, .leader_epoch = 5, .voted_id = -1, .version = 1};
        bool struck = false;

        begin();
        ck_assert_int_eq(fs_sync_dir(&disk.fs, "/"), ERR_OK);
        ck_assert_int_eq(quorum_state_write(&disk.fs, "/m", &state), ERR_OK);
        state.leader_epoch = 6;
        sim_fs_set_fault(&disk, SIM_FS_DIE, SIM_FS_ANY, k, ERR_IO);
        enum err err = quorum_state_write(&disk.fs, "/m", &state);
        struck = sim_fs_fault_struck(&disk);
        sim_fs_cut(&disk);
        ck_assert_int_eq(quorum_state_read(&disk.fs, "/m", &state), ERR_OK);
        ck_assert(state.leader_epoch == 6 || (err != ERR_OK && state.leader_epoch == 5));
        end();
        if (!struck)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quorum_state");
    TCase *tcase = tcase_create("quorum_state");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, kafkas_own_is_read_and_written_the_same);
    tcase_add_test(tcase, version_0_names_the_voters);
    tcase_add_test(tcase, what_is_no_state_is_refused);
    tcase_add_test(tcase, a_file_that_is_too_large_is_no_state);
    tcase_add_test(tcase, a_crash_leaves_one_or_the_other);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
