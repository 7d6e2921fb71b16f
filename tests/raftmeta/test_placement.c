/* Rule: replicas are striped (controller.md "Topics"): distinct brokers, the first not fenced; leaders even out, racks
 * too; a factor that cannot be met is refused with Kafka's words. */
#include <check.h>

#include "raftmeta/placement.h"
#include "raftmeta/transcript.h"
#include "sim/sim.h"

enum { BROKERS = 6, PARTITIONS = 600 };

static struct sim sim;
static struct arena arena;

static void begin(void)
{
    sim_init(&sim, 7);
    arena_init(&arena, 1024 * 1024);
}

static void end(void)
{
    arena_deinit(&arena);
    sim_deinit(&sim);
}

START_TEST(replicas_are_distinct_and_even)
{
    static const char *const racks[] = {"a", "a", "b", "b", "c", "c"};
    struct placement_broker brokers[BROKERS];
    uint32_t leads[BROKERS] = {0};
    uint32_t holds[BROKERS] = {0};
    struct placement *placement = NULL;

    begin();
    for (int32_t i = 0; i < BROKERS; i++)
        brokers[i] = (struct placement_broker){i, false, bytes_of_text(racks[i])};
    placement = placement_new(brokers, BROKERS, &sim.rng, &arena);
    ck_assert_ptr_nonnull(placement);
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        int32_t replicas[3];
        struct bytes why;

        ck_assert_int_eq(placement_next(placement, 3, replicas, &why), ERR_OK);
        for (uint32_t i = 0; i < 3; i++) {
            holds[replicas[i]]++;
            for (uint32_t j = 0; j < i; j++) /* three racks, three replicas: one in each */
                ck_assert_str_ne(racks[replicas[i]], racks[replicas[j]]);
        }
        leads[replicas[0]]++;
    }
    for (uint32_t i = 0; i < BROKERS; i++) {
        ck_assert_uint_eq(leads[i], PARTITIONS / BROKERS);
        ck_assert_uint_ge(holds[i], 3 * PARTITIONS / BROKERS * 9 / 10);
        ck_assert_uint_le(holds[i], 3 * PARTITIONS / BROKERS * 11 / 10);
    }
    end();
}
END_TEST

START_TEST(a_fenced_broker_never_comes_first)
{
    static const struct placement_broker brokers[] = {
        {1, true, {NULL, 0}}, {2, false, {NULL, 0}}, {3, true, BYTES_LITERAL("r")}};
    struct placement *placement = NULL;

    begin();
    placement = placement_new(brokers, 3, &sim.rng, &arena);
    for (uint32_t p = 0; p < 50; p++) {
        int32_t replicas[3];
        struct bytes why;

        ck_assert_int_eq(placement_next(placement, 3, replicas, &why), ERR_OK);
        ck_assert_int_eq(replicas[0], 2);
        ck_assert_int_eq(replicas[1] + replicas[2], 4);
        ck_assert_int_ne(replicas[1], replicas[2]);
    }
    end();
}
END_TEST

START_TEST(what_cannot_be_met_is_refused)
{
    static const struct placement_broker fenced[] = {{1, true, {NULL, 0}}};
    int32_t replicas[2];
    struct bytes why;
    struct placement *placement = NULL;

    begin();
    placement = placement_new(fenced, 1, &sim.rng, &arena);
    ck_assert_int_eq(placement_next(placement, 2, replicas, &why), ERR_INVALID_REPLICATION_FACTOR);
    ck_assert(bytes_equal(why, BYTES_LITERAL("The target replication factor of 2 cannot be reached because only 1 "
                                             "broker(s) are registered.")));
    ck_assert_int_eq(placement_next(placement, 1, replicas, &why), ERR_INVALID_REPLICATION_FACTOR);
    ck_assert(bytes_equal(why, BYTES_LITERAL("All brokers are currently fenced.")));
    placement = placement_new(NULL, 0, &sim.rng, &arena);
    ck_assert_int_eq(placement_next(placement, 1, replicas, &why), ERR_INVALID_REPLICATION_FACTOR);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("placement");
    TCase *tcase = tcase_create("placement");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, replicas_are_distinct_and_even);
    tcase_add_test(tcase, a_fenced_broker_never_comes_first);
    tcase_add_test(tcase, what_cannot_be_met_is_refused);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
