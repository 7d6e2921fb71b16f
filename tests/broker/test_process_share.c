/* Rule: the table of descriptors has room for all that the broker may have before there are threads: later the kernel
 * would hold up whoever opens the one that does not fit, for 10 ms in accept, on a reactor. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../partition/run_tests.h"
#include "broker/process_share.h"

/* Places in the table of this process. */
static unsigned long table_size(void)
{
    char line[256];
    unsigned long size = 0;
    FILE *file = fopen("/proc/self/status", "re");

    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, "FDSize:", 7) == 0)
            size = strtoul(line + 7, NULL, 10);
    (void)fclose(file);
    return size;
}

START_TEST(the_table_has_room_for_all_descriptors)
{
    uint32_t most = process_raise_descriptors();

    ck_assert_uint_gt(most, 0);
    ck_assert_uint_ge(table_size(), most);
}
END_TEST

RUN_TESTS("broker/process_share", the_table_has_room_for_all_descriptors)
