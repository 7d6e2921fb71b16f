/* Rule: what a metadata node has answered is there after any crash; an empty directory becomes a node by itself, and a
 * restart takes over at once, whoever was registered before. */
#include <check.h>

#include "raftmeta/meta_world.h"

static struct meta_world world;

START_TEST(an_empty_directory_becomes_a_node)
{
    meta_world_begin(&world, 1);
    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_int_eq(image_metadata_version(world.image), METADATA_VERSION_NEWEST);
    ck_assert_int_eq(image_feature(world.image, BYTES_LITERAL("kraft.version")), 1);
    ck_assert_int_gt(meta_world_register(&world), 0);
    ck_assert_int_eq(meta_world_create(&world, "lines", 3), ERR_OK);
    ck_assert_int_eq(meta_world_create(&world, "lines", 3), ERR_TOPIC_ALREADY_EXISTS);
    meta_world_stop(&world);

    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_ptr_nonnull(image_topic_by_name(world.image, BYTES_LITERAL("lines")));
    ck_assert_uint_eq(image_topic_by_name(world.image, BYTES_LITERAL("lines"))->partition_count, 3);
    ck_assert_int_gt(meta_world_register(&world), 0);
    ck_assert_int_eq(image_topic_by_name(world.image, BYTES_LITERAL("lines"))->partitions[0]->leader, 1);
    meta_world_stop(&world);
    meta_world_end(&world);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metadata_node");
    TCase *tcase = tcase_create("metadata_node");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, an_empty_directory_becomes_a_node);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
