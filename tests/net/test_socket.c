/* Rule: over real sockets and reactors every frame comes back whole, once, in order, whatever its size, from memory and
 * from files; and an ended world owes no memory (the last assertion of real_world_stop).
 *
 * Sources: net/socket_listener.c, net/socket_stream.c */
#include "net/socket.h"

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/real_world.h"

enum { ROOM = 9 << 20 };

/* Check's own assertions cost too much for each byte. */
static bool all_are(const uint8_t *data, size_t size, uint8_t fill)
{
    return size == 0 || (data[0] == fill && memcmp(data, data + 1, size - 1) == 0);
}

static void expect_echo(int fd, uint8_t *room, uint32_t size, uint8_t fill)
{
    ck_assert_int_eq(real_client_receive(fd, room, ROOM), size);
    ck_assert(all_are(room, size, fill));
}

START_TEST(frames_of_all_sizes_come_back)
{
    static const uint32_t sizes[] = {8, 9, 511, 512, 513, 4096, 32767, 32768, 65531, 65532, 65533, 200000, 8 << 20};
    struct real_world world;
    uint8_t *room = mem_alloc(ROOM);
    int fd = -1;

    real_world_start(&world, 2);
    fd = real_client_connect(&world);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        real_client_send(fd, sizes[i], (uint8_t)i);
        expect_echo(fd, room, sizes[i], (uint8_t)i);
    }
    /* Pipelined: all of them at once. */
    for (uint32_t i = 0; i < 3000; i++)
        real_client_send(fd, 8 + i % 100, (uint8_t)i);
    for (uint32_t i = 0; i < 3000; i++)
        expect_echo(fd, room, 8 + i % 100, (uint8_t)i);
    close(fd);
    real_world_stop(&world);
    mem_free(room);
}
END_TEST

static void *chat(void *argument)
{
    struct real_world *world = argument;
    uint8_t *room = mem_alloc(ROOM);

    for (int round = 0; round < 10; round++) {
        int fd = real_client_connect(world);

        for (uint32_t i = 0; i < 50; i++)
            real_client_send(fd, 8 + i * 37, (uint8_t)i);
        for (uint32_t i = 0; i < 50; i++)
            expect_echo(fd, room, 8 + i * 37, (uint8_t)i);
        close(fd);
    }
    mem_free(room);
    return NULL;
}

START_TEST(many_clients_on_several_reactors)
{
    struct real_world world;
    pthread_t threads[4];

    real_world_start(&world, 3);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, chat, &world), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    real_world_stop(&world);
}
END_TEST

static struct fs_file *make_file(struct real_world *world, char *path, size_t size)
{
    struct fs_file *file = NULL;
    uint8_t *bytes = mem_alloc(size);
    struct bytes piece = bytes_of(bytes, size);
    size_t written = 0;
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    close(fd);
    memset(bytes, 'f', size);
    ck_assert_int_eq(fs_open(&world->fs, path, FS_READ | FS_WRITE, &file), ERR_OK);
    ck_assert_int_eq(fs_write(file, 0, &piece, 1, &written), ERR_OK);
    ck_assert_uint_eq(written, size);
    mem_free(bytes);
    return file;
}

START_TEST(file_ranges_follow_memory)
{
    char path[] = "/tmp/ottla-test-socket-XXXXXX";
    struct real_world world;
    uint8_t *room = mem_alloc(ROOM);
    struct fs_file *file = NULL;
    int fd = -1;

    real_world_start(&world, 1);
    file = make_file(&world, path, 3000000);
    fd = real_client_connect(&world);
    real_client_send(fd, 16, 'a');
    expect_echo(fd, room, 16, 'a');
    world.file = file;
    world.file_bytes = 3000000;
    /* More than a socket takes at once, several times over. */
    for (int i = 0; i < 5; i++)
        real_client_send(fd, 16, 'b');
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(real_client_receive(fd, room, ROOM), 3000016);
        ck_assert(all_are(room, 16, 'b'));
        ck_assert(all_are(room + 16, 3000000, 'f'));
    }
    close(fd);
    real_world_stop(&world);
    fs_file_drop(file);
    unlink(path);
    mem_free(room);
}
END_TEST

/* A range whose file was cut cannot be sent: the connection ends rather than send something else. */
START_TEST(a_truncated_range_closes_the_connection)
{
    char path[] = "/tmp/ottla-test-socket-XXXXXX";
    struct real_world world;
    uint8_t *room = mem_alloc(ROOM);
    struct fs_file *file = NULL;
    int fd = -1;

    real_world_start(&world, 1);
    file = make_file(&world, path, 1000);
    world.file = file;
    world.file_bytes = 2000;
    fd = real_client_connect(&world);
    real_client_send(fd, 16, 'b');
    ck_assert_int_eq(real_client_receive(fd, room, ROOM), -1);
    close(fd);
    real_world_stop(&world);
    ck_assert_uint_eq(atomic_load(&world.log_lines), 1);
    fs_file_drop(file);
    unlink(path);
    mem_free(room);
}
END_TEST

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Trap B011: what no Kafka client would send ends that connection alone, and costs no memory that stays. */
START_TEST(hostile_clients_do_not_disturb_healthy_ones)
{
    static const char *const openings[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02", "\xaa\xaa\xaa\xaa",
                                           "\x7f\xff\xff\xff", "\x01\x01\x01\x01half a frame"};
    struct real_world world;
    uint8_t *room = mem_alloc(ROOM);
    uint64_t random = 42;
    int healthy = -1;

    real_world_start(&world, 2);
    healthy = real_client_connect(&world);
    for (uint32_t i = 0; i < 1000; i++) {
        int fd = real_client_connect(&world);
        uint8_t noise[600];
        const char *opening = openings[i % 5];

        for (size_t k = 0; k < sizeof(noise); k++)
            noise[k] = (uint8_t)next_random(&random);
        /* The world may close before it has all: these may fail. */
        if (i % 2 == 0)
            (void)!send(fd, opening, strlen(opening), MSG_NOSIGNAL);
        (void)!send(fd, noise, next_random(&random) % sizeof(noise), MSG_NOSIGNAL);
        if (i % 3 == 0)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
        close(fd);
        if (i % 10 == 0) {
            real_client_send(healthy, 100 + i, (uint8_t)i);
            expect_echo(healthy, room, 100 + i, (uint8_t)i);
        }
    }
    close(healthy);
    ck_assert_uint_le(atomic_load(&world.log_lines), 100);
    real_world_stop(&world);
    mem_free(room);
}
END_TEST

/* At the limit of descriptors a newcomer is told by being closed, who is there goes on, and it passes. */
START_TEST(no_descriptors_left_turns_newcomers_away)
{
    struct real_world world;
    struct rlimit before;
    struct rlimit none;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint8_t room[64];
    int healthy = -1;
    int late = -1;
    int next = -1;

    real_world_start(&world, 1);
    to.sin_port = htons(world.address.port);
    healthy = real_client_connect(&world);
    real_client_send(healthy, 16, 'a');
    ck_assert_int_eq(real_client_receive(healthy, room, sizeof(room)), 16);
    late = socket(AF_INET, SOCK_STREAM, 0);
    next = dup(late);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_int_eq(connect(late, (struct sockaddr *)&to, sizeof(to)), 0);
    ck_assert_int_eq(real_client_receive(late, room, sizeof(room)), -1);
    real_client_send(healthy, 16, 'b');
    ck_assert_int_eq(real_client_receive(healthy, room, sizeof(room)), 16);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    close(late);
    ck_assert_uint_eq(atomic_load(&world.log_lines), 1);
    late = real_client_connect(&world);
    real_client_send(late, 16, 'c');
    ck_assert_int_eq(real_client_receive(late, room, sizeof(room)), 16);
    close(late);
    close(healthy);
    real_world_stop(&world);
}
END_TEST

START_TEST(listening_fails_with_a_reason)
{
    struct real_world world;
    struct net_listener *listener = NULL;
    struct net_address bound;
    struct net_address elsewhere = {.host = "192.0.2.1", .port = 0}; /* TEST-NET-1, RFC 5737 */
    struct net_address unknown = {.host = "no-such-host.invalid", .port = 0};

    real_world_start(&world, 1);
    ck_assert_int_eq(
        net_listen(world.net, &world.address, world.loops, 1, connections_accepted, &world.listener, &listener, &bound),
        ERR_BUSY);
    ck_assert_int_eq(
        net_listen(world.net, &elsewhere, world.loops, 1, connections_accepted, &world.listener, &listener, &bound),
        ERR_NOT_FOUND);
    ck_assert_int_eq(
        net_listen(world.net, &unknown, world.loops, 1, connections_accepted, &world.listener, &listener, &bound),
        ERR_NOT_FOUND);
    real_world_stop(&world);
}
END_TEST

START_TEST(any_address_takes_both_families)
{
    struct real_world world;
    struct net_listener *listener = NULL;
    struct net_address any = {0};
    struct net_address bound;
    uint8_t room[64];
    int fd = -1;

    real_world_start(&world, 2);
    ck_assert_int_eq(
        net_listen(world.net, &any, world.loops, 2, connections_accepted, &world.listener, &listener, &bound), ERR_OK);
    world.address.port = bound.port;
    fd = real_client_connect(&world);
    real_client_send(fd, 16, 'a');
    ck_assert_int_eq(real_client_receive(fd, room, sizeof(room)), 16);
    close(fd);
    net_unlisten(world.net, listener);
    real_world_stop(&world);
}
END_TEST

struct outgoing {
    struct loop_task task;
    struct real_world *world;
    struct net_address to;
    struct net_stream_events events;
    struct net_stream *stream;
    atomic_int result; /* -1: none yet */
};

static void outgoing_readable(void *context)
{
    struct outgoing *outgoing = context;
    uint8_t room[64];
    size_t got = 0;

    if (net_read(outgoing->stream, room, sizeof(room), &got) != ERR_OK || got != 12)
        return;
    net_close(outgoing->stream, true);
    atomic_store(&outgoing->result, 100);
}

static void outgoing_writable(void *context)
{
    (void)context;
}

static void outgoing_connected(void *context, struct net_stream *stream, enum err err)
{
    static const uint8_t frame[12] = {0, 0, 0, 8};
    struct outgoing *outgoing = context;
    struct slice slice = slice_of(frame, sizeof(frame));
    size_t written = 0;

    if (err != ERR_OK) {
        atomic_store(&outgoing->result, (int)err);
        return;
    }
    outgoing->stream = stream;
    outgoing->events = (struct net_stream_events){.readable = outgoing_readable, .writable = outgoing_writable};
    stream->events = &outgoing->events;
    stream->context = outgoing;
    if (net_write(stream, &slice, 1, &written) != ERR_OK || written != sizeof(frame))
        return;
    net_want(stream, true, false);
}

static void outgoing_start(struct loop_task *task)
{
    struct outgoing *outgoing = (struct outgoing *)(void *)((char *)task - offsetof(struct outgoing, task));
    enum err err =
        net_connect(outgoing->world->net, outgoing->world->loops[0], &outgoing->to, outgoing_connected, outgoing);

    if (err != ERR_OK)
        atomic_store(&outgoing->result, (int)err);
}

static int connect_outcome(struct real_world *world, const struct net_address *to)
{
    struct outgoing outgoing = {.task.run = outgoing_start, .world = world, .to = *to};

    atomic_store(&outgoing.result, -1);
    loop_post(world->loops[0], &outgoing.task);
    while (atomic_load(&outgoing.result) == -1)
        usleep(1000);
    return atomic_load(&outgoing.result);
}

/* A refused connection is evidence of death, so it is told from silence. */
START_TEST(connecting_out_works_or_says_why)
{
    struct real_world world;
    struct net_address nobody = {.host = "127.0.0.1"};
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(local);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    real_world_start(&world, 1);
    ck_assert_int_eq(connect_outcome(&world, &world.address), 100);
    /* Bound, not listening: nobody else gets that port meanwhile. */
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&local, sizeof(local)), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&local, &size), 0);
    nobody.port = ntohs(local.sin_port);
    ck_assert_int_eq(connect_outcome(&world, &nobody), ERR_CLOSED);
    ck_assert_int_eq(connect_outcome(&world, &(struct net_address){.host = "localhost", .port = 1}), ERR_NOT_FOUND);
    close(fd);
    real_world_stop(&world);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("socket");
    TCase *tcase = tcase_create("socket");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, frames_of_all_sizes_come_back);
    tcase_add_test(tcase, many_clients_on_several_reactors);
    tcase_add_test(tcase, file_ranges_follow_memory);
    tcase_add_test(tcase, a_truncated_range_closes_the_connection);
    tcase_add_test(tcase, hostile_clients_do_not_disturb_healthy_ones);
    tcase_add_test(tcase, no_descriptors_left_turns_newcomers_away);
    tcase_add_test(tcase, listening_fails_with_a_reason);
    tcase_add_test(tcase, any_address_takes_both_families);
    tcase_add_test(tcase, connecting_out_works_or_says_why);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
