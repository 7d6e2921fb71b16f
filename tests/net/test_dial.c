/* Rule: a dialled connection waits no longer than it was told, and says why it does not go on. */
#include <arpa/inet.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/dial.h"
#include "partition/run_tests.h"

enum { SHORT_MS = 30, LONG_MS = 20000 };

static struct clock clock;

/* A socket on a port of its own, which nobody else gets as long as it is open. */
static int bind_somewhere(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    clock_init_real(&clock);
    return fd;
}

/* Nobody accepts from it; the kernel connects. */
static int listen_somewhere(uint16_t *port)
{
    int fd = bind_somewhere(port);

    ck_assert_int_eq(listen(fd, 4), 0);
    return fd;
}

START_TEST(there_and_back)
{
    struct dial dial;
    uint16_t port = 0;
    int listener = listen_somewhere(&port);
    int peer = -1;
    char text[8] = "";
    size_t got = 0;

    ck_assert_int_eq(dial_open(&dial, &clock, "127.0.0.1", port, LONG_MS), ERR_OK);
    peer = accept(listener, NULL, NULL);
    ck_assert_int_ge(peer, 0);
    ck_assert_int_eq(dial_write(&dial, BYTES_LITERAL("hello")), ERR_OK);
    ck_assert_int_eq(read(peer, text, 5), 5);
    ck_assert_int_eq(write(peer, text, 5), 5);
    ck_assert_int_eq(dial_read(&dial, text, 3), ERR_OK);
    ck_assert_int_eq(dial_read_some(&dial, text + 3, 5, &got), ERR_OK);
    ck_assert_uint_eq(got, 2);
    ck_assert_int_eq(memcmp(text, "hello", 5), 0);
    close(peer);
    ck_assert_int_eq(dial_read_some(&dial, text, 5, &got), ERR_OK);
    ck_assert_uint_eq(got, 0);
    ck_assert_int_eq(dial_read(&dial, text, 5), ERR_CLOSED);
    dial_close(&dial);
    dial_close(&dial);
    close(listener);
}
END_TEST

START_TEST(silence)
{
    struct dial dial;
    uint16_t port = 0;
    int listener = listen_somewhere(&port);
    char byte = 0;

    ck_assert_int_eq(dial_open(&dial, &clock, "localhost", port, LONG_MS), ERR_OK);
    dial.timeout_ms = SHORT_MS;
    ck_assert_int_eq(dial_read(&dial, &byte, 1), ERR_REQUEST_TIMED_OUT);
    dial_close(&dial);
    close(listener);
}
END_TEST

START_TEST(nobody)
{
    struct dial dial;
    uint16_t port = 0;
    int bound = bind_somewhere(&port);

    ck_assert_int_eq(dial_open(&dial, &clock, "127.0.0.1", port, LONG_MS), ERR_CLOSED);
    ck_assert_int_eq(dial_open(&dial, &clock, "no.such.host.invalid", port, LONG_MS), ERR_NOT_FOUND);
    close(bound);
}
END_TEST

RUN_TESTS("dial", there_and_back, silence, nobody)
