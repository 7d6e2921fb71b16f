#include "net/real_world.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

static void count_line(struct log_sink *sink, enum log_level level, const char *line, uint32_t size)
{
    struct real_world *world = (struct real_world *)(void *)((char *)sink - offsetof(struct real_world, sink));

    (void)level;
    (void)line;
    (void)size;
    atomic_fetch_add(&world->log_lines, 1);
}

static int64_t standing_still(struct clock *clock)
{
    (void)clock;
    return 1;
}

static void echoed(struct exchange *exchange, bool sent)
{
    struct fs_file *file = exchange->user;

    (void)sent;
    fs_file_drop(file);
}

static void request(void *context, struct connection *connection, struct exchange *exchange)
{
    struct real_world *world = context;
    struct slice slices[2] = {slice_of(exchange->frame, exchange->frame_size)};
    uint32_t count = 1;

    (void)connection;
    if (world->file != NULL) {
        slices[1] = (struct slice){.file = fs_file_keep(world->file), .size = world->file_bytes};
        exchange->user = world->file;
        count = 2;
    }
    exchange_reply(exchange, slices, count, echoed);
}

void real_world_start(struct real_world *world, uint32_t reactor_count)
{
    struct connection_handler handler = {.context = world, .execute = request};
    struct net_address any = {.host = "127.0.0.1"};

    *world = (struct real_world){.reactor_count = reactor_count};
    clock_init_real(&world->clock);
    world->log_clock.mono_ns = standing_still;
    world->log_clock.wall_ms = standing_still;
    fs_init_real(&world->fs);
    world->sink.write = count_line;
    world->log.sink = &world->sink;
    world->log.clock = &world->log_clock;
    world->log.room = "net";
    budget_init(&world->budget, 64 << 20, 16 << 20, 32 << 20);
    ck_assert_int_eq(io_pool_new("io", 2, reactor_job_completed, &world->io_pool), ERR_OK);
    ck_assert_int_eq(socket_net_new(&world->log, NULL, &world->net), ERR_OK);
    for (uint32_t i = 0; i < reactor_count; i++) {
        struct reactor_config config = {
            .name = "reactor", .index = i, .clock = &world->clock, .io_pool = world->io_pool};

        ck_assert_int_eq(reactor_new(&config, &world->reactors[i]), ERR_OK);
        world->loops[i] = reactor_loop(world->reactors[i]);
        ck_assert_int_eq(
            connections_new(world->loops[i], &handler, &world->budget, NULL, &world->log, &world->connections[i]),
            ERR_OK);
    }
    world->listener = (struct connection_listener){.loops = world->connections,
                                                   .loop_count = reactor_count,
                                                   .name = "PLAINTEXT",
                                                   .request_bytes_max = 16 << 20,
                                                   .idle_ms_max = 600000};
    ck_assert_int_eq(net_listen(world->net, &any, world->loops, reactor_count, connections_accepted, &world->listener,
                                &world->net_listener, &world->address),
                     ERR_OK);
    for (uint32_t i = 0; i < reactor_count; i++)
        ck_assert_int_eq(reactor_start(world->reactors[i]), ERR_OK);
}

struct drain {
    struct loop_task start;
    struct loop_task drained;
    struct real_world *world;
    uint32_t index;
};

static void count_drained(struct loop_task *task)
{
    struct drain *drain = (struct drain *)(void *)((char *)task - offsetof(struct drain, drained));

    atomic_fetch_add(&drain->world->drained, 1);
}

static void start_drain(struct loop_task *task)
{
    struct drain *drain = (struct drain *)(void *)((char *)task - offsetof(struct drain, start));

    drain->drained.run = count_drained;
    connections_drain(drain->world->connections[drain->index], &drain->drained);
}

void real_world_stop(struct real_world *world)
{
    struct drain drains[WORLD_REACTORS_MAX] = {0};

    net_unlisten(world->net, world->net_listener);
    for (uint32_t i = 0; i < world->reactor_count; i++) {
        drains[i] = (struct drain){.start.run = start_drain, .world = world, .index = i};
        loop_post(world->loops[i], &drains[i].start);
    }
    while (atomic_load(&world->drained) < world->reactor_count)
        usleep(1000);
    for (uint32_t i = 0; i < world->reactor_count; i++)
        reactor_stop(world->reactors[i]);
    for (uint32_t i = 0; i < world->reactor_count; i++)
        reactor_join(world->reactors[i]);
    io_pool_free(world->io_pool);
    for (uint32_t i = 0; i < world->reactor_count; i++) {
        connections_free(world->connections[i]);
        reactor_free(world->reactors[i]);
    }
    socket_net_free(world->net);
    ck_assert_uint_eq(atomic_load(&world->budget.used), 0);
}

int real_client_connect(const struct real_world *world)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(world->address.port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(inet_pton(AF_INET, world->address.host, &to.sin_addr), 1);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void send_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);

        ck_assert_int_gt(sent, 0);
        data += sent;
        size -= (size_t)sent;
    }
}

void real_client_send(int fd, uint32_t size, uint8_t fill)
{
    uint8_t *frame = mem_alloc(4 + size);

    ck_assert_ptr_nonnull(frame);
    frame[0] = (uint8_t)(size >> 24);
    frame[1] = (uint8_t)(size >> 16);
    frame[2] = (uint8_t)(size >> 8);
    frame[3] = (uint8_t)size;
    memset(frame + 4, fill, size);
    send_all(fd, frame, 4 + size);
    mem_free(frame);
}

bool real_client_read(int fd, void *to, size_t size)
{
    size_t got = 0;

    while (got < size) {
        ssize_t some = recv(fd, (uint8_t *)to + got, size - got, 0);

        if (some <= 0)
            return false;
        got += (size_t)some;
    }
    return true;
}

int64_t real_client_receive(int fd, void *to, size_t room)
{
    uint8_t field[4];
    size_t size = 0;

    if (!real_client_read(fd, field, sizeof(field)))
        return -1;
    size = (size_t)field[0] << 24 | (size_t)field[1] << 16 | (size_t)field[2] << 8 | (size_t)field[3];
    ck_assert_uint_le(size, room);
    return real_client_read(fd, to, size) ? (int64_t)size : -1;
}
