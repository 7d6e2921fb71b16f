#include "net/conversation.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

__attribute__((format(printf, 2, 3))) static void tell(struct conversation *c, const char *format, ...)
{
    va_list args;
    int size = 0;

    va_start(args, format);
    size = vsnprintf(c->told + c->told_size, sizeof(c->told) - c->told_size, format, args);
    va_end(args);
    c->told_size += (size_t)size;
    ck_assert_uint_lt(c->told_size, sizeof(c->told));
}

static void opened(void *context, struct connection *connection)
{
    struct conversation *c = context;

    c->connection = connection;
    connection_set_user(connection, c);
    tell(c, "opened ");
}

static void closed(void *context, struct connection *connection)
{
    ck_assert(connection_is_closed(connection));
    tell(context, "closed ");
}

static void freed(void *context, struct connection *connection)
{
    ck_assert_ptr_eq(connection_user(connection), context);
    tell(context, "freed ");
}

static bool overlaps(void *context, struct connection *connection, struct bytes frame)
{
    (void)context;
    (void)connection;
    return frame.data[0] == 'P';
}

static void released(struct exchange *exchange, bool sent)
{
    tell(connection_user(exchange->connection), sent ? "%c/ " : "%c! ", (char)(uintptr_t)exchange->user);
}

static void reply(struct exchange *exchange)
{
    /* In two slices, and an empty one, as a header and a body might be. */
    struct slice slices[3] = {slice_of(exchange->frame, 3), slice_of(exchange->frame, 0),
                              slice_of(exchange->frame + 3, exchange->frame_size - 3)};

    exchange_reply(exchange, slices, 3, released);
}

static void request(void *context, struct connection *connection, struct exchange *exchange)
{
    struct conversation *c = context;
    char kind = (char)exchange->frame[0];
    uint8_t tag = exchange->frame[1];

    for (size_t i = 2; i < exchange->frame_size; i++)
        if (exchange->frame[i] != (uint8_t)(i * 7))
            ck_abort_msg("byte %zu of the frame is wrong", i);
    exchange->user = (void *)(uintptr_t)tag;
    tell(c, "+%c ", tag);
    switch (kind) {
    case 'S':
        reply(exchange);
        break;
    case 'W':
    case 'P':
        c->exchanges[tag] = exchange;
        break;
    case 'N':
        exchange_finish_silent(exchange);
        break;
    case 'C':
        exchange_close(exchange, "not understood");
        break;
    case 'X':
        connection_close(connection, true);
        reply(exchange);
        break;
    default:
        ck_abort_msg("kind %c", kind);
    }
}

static void abandoned(void *context, struct exchange *exchange)
{
    struct conversation *c = context;

    tell(c, "%c? ", (char)(uintptr_t)exchange->user);
    if (c->ends_when_abandoned)
        reply(exchange);
}

void conversation_start(struct conversation *c, size_t total)
{
    struct connection_handler handler = {
        .context = c,
        .opened = opened,
        .overlaps = overlaps,
        .execute = request,
        .abandoned = abandoned,
        .closed = closed,
        .freed = freed,
    };

    *c = (struct conversation){0};
    double_loop_init(&c->loop, 0);
    double_log_init(&c->log);
    budget_init(&c->budget, total, total / 4, total);
    ck_assert_int_eq(connections_new(&c->loop.loop, &handler, &c->budget, NULL, &c->log.log, &c->connections), ERR_OK);
    c->listener = (struct connection_listener){.loops = &c->connections,
                                               .loop_count = 1,
                                               .name = "PLAINTEXT",
                                               .request_bytes_max = 1 << 20,
                                               .idle_ms_max = 10000};
}

void conversation_end(struct conversation *c)
{
    connections_abort(c->connections);
    double_turn(&c->loop);
    ck_assert_uint_eq(connections_stats(c->connections)->open, 0);
    connections_free(c->connections);
    double_loop_deinit(&c->loop);
    ck_assert_uint_eq(c->budget.used, 0);
}

struct double_stream *conversation_connect(struct conversation *c)
{
    struct double_stream *stream = double_stream_new(&c->loop);

    connections_accepted(&c->listener, &stream->stream);
    double_turn(&c->loop);
    return stream;
}

void conversation_frame(struct double_stream *stream, char kind, char tag, uint32_t size)
{
    uint8_t *frame = mem_alloc(4 + size);

    ck_assert_ptr_nonnull(frame);
    frame[0] = (uint8_t)(size >> 24);
    frame[1] = (uint8_t)(size >> 16);
    frame[2] = (uint8_t)(size >> 8);
    frame[3] = (uint8_t)size;
    for (size_t i = 2; i < size; i++)
        frame[4 + i] = (uint8_t)(i * 7);
    frame[4] = (uint8_t)kind;
    frame[5] = (uint8_t)tag;
    double_arrive(stream, frame, 4 + size);
    mem_free(frame);
}

void conversation_send(struct conversation *c, struct double_stream *stream, char kind, char tag, uint32_t size)
{
    conversation_frame(stream, kind, tag, size);
    double_tell(&c->loop, stream);
}

void conversation_reply(struct conversation *c, char tag)
{
    struct exchange *exchange = c->exchanges[(uint8_t)tag];

    ck_assert_ptr_nonnull(exchange);
    c->exchanges[(uint8_t)tag] = NULL;
    reply(exchange);
    double_turn(&c->loop);
}

void conversation_expect(struct conversation *c, const char *told)
{
    ck_assert_str_eq(c->told, told);
    c->told_size = 0;
    c->told[0] = '\0';
}

const char *conversation_answers(struct double_stream *stream)
{
    static char tags[2048];
    size_t count = 0;
    size_t at = 0;

    while (at < stream->out_size) {
        const uint8_t *field = stream->out + at;
        size_t size = (size_t)field[0] << 24 | (size_t)field[1] << 16 | (size_t)field[2] << 8 | (size_t)field[3];

        ck_assert_uint_le(at + 4 + size, stream->out_size);
        ck_assert_uint_lt(count, sizeof(tags) - 1);
        tags[count++] = (char)field[5];
        at += 4 + size;
    }
    tags[count] = '\0';
    return tags;
}
