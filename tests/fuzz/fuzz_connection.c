/*
 * A connection and any bytes, in any pieces, with a peer that reads slowly, falls silent or goes, and a handler that
 * answers when it likes. The input is a script: an operation and its argument, two bytes each; what is delivered
 * follows the operation. Shows: nothing crashes or hangs, every exchange ends once, and all memory is given back (B010,
 * B011).
 */
#include "base/assert.h"
#include "base/list.h"
#include "net/budget.h"
#include "net/connection.h"
#include "net/double.h"
#include "net/net_limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
    struct double_loop loop;
    struct double_log log;
    struct budget budget;
    struct connections *connections;
    struct connection_listener listener;
    struct connection *connection; /* NULL once closed */
    struct exchange *held[CONNECTION_EXCHANGES_MAX];
    uint32_t held_count;
    uint32_t unreleased;
};

static void released(struct exchange *exchange, bool sent)
{
    struct world *world = exchange->user;

    (void)sent;
    assert(world->unreleased > 0);
    world->unreleased--;
}

static void reply(struct world *world, struct exchange *exchange)
{
    struct slice slice = slice_of(exchange->frame, exchange->frame_size);

    world->unreleased++;
    exchange->user = world;
    exchange_reply(exchange, &slice, 1, released);
}

static bool overlaps(void *context, struct connection *connection, struct bytes frame)
{
    (void)context;
    (void)connection;
    return (frame.data[0] & 1) != 0;
}

static void request(void *context, struct connection *connection, struct exchange *exchange)
{
    struct world *world = context;

    (void)connection;
    switch (exchange->frame[1] % 5) {
    case 0:
    case 1:
        reply(world, exchange);
        break;
    case 2:
        exchange_finish_silent(exchange);
        break;
    case 3:
        assert(world->held_count < CONNECTION_EXCHANGES_MAX);
        world->held[world->held_count++] = exchange;
        break;
    default:
        exchange_close(exchange, "refused");
    }
}

static void closed(void *context, struct connection *connection)
{
    (void)connection;
    ((struct world *)context)->connection = NULL;
}

static void opened(void *context, struct connection *connection)
{
    ((struct world *)context)->connection = connection;
}

static void end_held(struct world *world, uint32_t which)
{
    struct exchange *exchange = NULL;

    if (world->held_count == 0)
        return;
    which %= world->held_count;
    exchange = world->held[which];
    world->held[which] = world->held[--world->held_count];
    reply(world, exchange);
}

/* One operation; the bytes of the input that it took. */
static size_t step(struct world *world, struct double_stream *stream, const uint8_t *data, size_t size)
{
    uint8_t argument = data[1];
    size_t delivered = 0;

    switch (data[0] % 8) {
    case 0:
        stream->read_max = 1 + argument;
        break;
    case 1:
        stream->out_room = (size_t)argument * argument;
        break;
    case 2:
        end_held(world, argument);
        break;
    case 3:
        if (world->connection != NULL)
            connection_mute(world->connection, world->loop.now_ns + argument * INT64_C(1000000));
        break;
    case 4:
        double_wait(&world->loop, argument);
        break;
    case 5:
        stream->peer_ended = stream->peer_ended || argument == 0;
        stream->broken = stream->broken || argument == 1;
        break;
    default:
        delivered = size - 2 < argument ? size - 2 : argument;
        if (stream->in_end + delivered <= DOUBLE_ROOM && !stream->peer_ended)
            double_arrive(stream, data + 2, delivered);
    }
    double_tell(&world->loop, stream);
    return 2 + delivered;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world;
    struct connection_handler handler = {
        .context = &world, .opened = opened, .overlaps = overlaps, .execute = request, .closed = closed};
    struct double_stream *stream = NULL;
    enum err err = ERR_OK;

    world = (struct world){0};
    double_loop_init(&world.loop, 0);
    double_log_init(&world.log);
    budget_init(&world.budget, 300000, 10000, 300000);
    err = connections_new(&world.loop.loop, &handler, &world.budget, NULL, &world.log.log, &world.connections);
    assert(err == ERR_OK);
    world.listener = (struct connection_listener){.loops = &world.connections,
                                                  .loop_count = 1,
                                                  .name = "PLAINTEXT",
                                                  .request_bytes_max = 200000,
                                                  .idle_ms_max = 1000};
    stream = double_stream_new(&world.loop);
    connections_accepted(&world.listener, &stream->stream);
    double_turn(&world.loop);
    while (size >= 2 && world.connection != NULL) {
        size_t taken = step(&world, stream, data, size);

        data += taken;
        size -= taken;
    }
    connections_abort(world.connections);
    double_turn(&world.loop);
    while (world.held_count > 0)
        end_held(&world, 0);
    double_turn(&world.loop);
    assert(world.unreleased == 0);
    connections_free(world.connections);
    double_stream_free(stream);
    double_loop_deinit(&world.loop);
    assert(world.budget.used == 0);
    return 0;
}
