/* Rule: readiness reaches the service manager as one datagram on the socket that NOTIFY_SOCKET names; without one
 * nothing happens (sd_notify's protocol). */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/notify.h"

START_TEST(the_state_arrives_whole)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char got[32] = "";
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    ssize_t size = 0;

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/ottla-test-notify-%d", (int)getpid());
    (void)unlink(address.sun_path);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(notify_service_manager(address.sun_path, "READY=1"), ERR_OK);
    size = recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT);
    ck_assert_int_eq(size, 7);
    ck_assert_str_eq(got, "READY=1");
    close(fd);
    (void)unlink(address.sun_path);
}
END_TEST

START_TEST(nobody_listens)
{
    ck_assert_int_eq(notify_service_manager(NULL, "READY=1"), ERR_OK);
    ck_assert_int_eq(notify_service_manager("", "READY=1"), ERR_OK);
    ck_assert_int_eq(notify_service_manager("relative", "READY=1"), ERR_USAGE);
    ck_assert_int_ne(notify_service_manager("/nowhere/at/all", "READY=1"), ERR_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notify");
    TCase *tcase = tcase_create("notify");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, the_state_arrives_whole);
    tcase_add_test(tcase, nobody_listens);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
