#include "net/double.h"

#include <string.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"

static struct double_loop *loop_of(struct loop *loop)
{
    return (struct double_loop *)loop;
}

static void post(struct loop *loop, struct loop_task *task)
{
    task->next = NULL;
    *loop_of(loop)->posted_last = task;
    loop_of(loop)->posted_last = &task->next;
}

static bool post_bounded(struct loop *loop, struct loop_task *task)
{
    post(loop, task);
    return true;
}

static void defer(struct loop *loop, struct loop_task *task)
{
    task->next = NULL;
    *loop_of(loop)->deferred_last = task;
    loop_of(loop)->deferred_last = &task->next;
}

static void submit(struct loop *loop, struct loop_job *job)
{
    (void)loop;
    assert(job == NULL); /* there are none here */
}

static void timer_start(struct loop *loop, struct loop_timer *timer, int64_t due_ns)
{
    timer_heap_start(&loop_of(loop)->timers, timer, due_ns);
}

static void timer_stop(struct loop *loop, struct loop_timer *timer)
{
    timer_heap_stop(&loop_of(loop)->timers, timer);
}

static int64_t now_ns(struct loop *loop)
{
    return loop_of(loop)->now_ns;
}

static const struct loop_ops loop_ops = {
    .post = post,
    .post_bounded = post_bounded,
    .defer = defer,
    .submit = submit,
    .timer_start = timer_start,
    .timer_stop = timer_stop,
    .now_ns = now_ns,
};

void double_loop_init(struct double_loop *loop, uint32_t index)
{
    enum err err = ERR_OK;

    *loop = (struct double_loop){.loop = {.ops = &loop_ops, .name = "double", .index = index}, .now_ns = 1000000000};
    loop->posted_last = &loop->posted;
    loop->deferred_last = &loop->deferred;
    err = timer_heap_init(&loop->timers);
    assert(err == ERR_OK);
}

void double_loop_deinit(struct double_loop *loop)
{
    assert(loop->posted == NULL);
    assert(loop->deferred == NULL);
    assert(timer_heap_first(&loop->timers) == NULL);
    timer_heap_deinit(&loop->timers);
}

static void run_deferred(struct double_loop *loop)
{
    while (loop->deferred != NULL) {
        struct loop_task *task = loop->deferred;

        loop->deferred = task->next;
        if (loop->deferred == NULL)
            loop->deferred_last = &loop->deferred;
        task->run(task);
    }
}

void double_turn(struct double_loop *loop)
{
    struct loop_task *tasks = loop->posted;
    struct loop_timer *timer = NULL;

    loop->posted = NULL;
    loop->posted_last = &loop->posted;
    while (tasks != NULL) {
        struct loop_task *task = tasks;

        tasks = task->next;
        task->run(task);
    }
    while ((timer = timer_heap_first(&loop->timers)) != NULL && timer->due_ns <= loop->now_ns) {
        timer_heap_stop(&loop->timers, timer);
        timer->fired(timer);
    }
    run_deferred(loop);
}

void double_wait(struct double_loop *loop, int64_t ms)
{
    loop->now_ns += ms * 1000000;
    double_turn(loop);
}

static struct double_stream *stream_of(struct net_stream *stream)
{
    return (struct double_stream *)stream;
}

static enum err stream_read(struct net_stream *base, void *to, size_t size, size_t *got)
{
    struct double_stream *stream = stream_of(base);
    size_t there = stream->in_end - stream->in_start;

    assert(!stream->closed);
    if (there == 0)
        return stream->peer_ended ? ERR_CLOSED : ERR_WOULD_BLOCK;
    if (there > size)
        there = size;
    if (there > stream->read_max)
        there = stream->read_max;
    memcpy(to, stream->in + stream->in_start, there);
    stream->in_start += there;
    *got = there;
    return ERR_OK;
}

static enum err stream_write(struct net_stream *base, const struct slice *slices, uint32_t count, size_t *written)
{
    struct double_stream *stream = stream_of(base);

    assert(!stream->closed);
    stream->writes++;
    *written = 0;
    if (stream->broken)
        return ERR_CLOSED;
    for (uint32_t i = 0; i < count && stream->out_room > 0; i++) {
        size_t size = slices[i].size < stream->out_room ? slices[i].size : stream->out_room;

        assert(stream->out_size + size <= DOUBLE_ROOM);
        memcpy(stream->out + stream->out_size, slices[i].data, size);
        stream->out_size += size;
        stream->out_room -= size;
        *written += size;
        if (size < slices[i].size)
            break;
    }
    return *written > 0 ? ERR_OK : ERR_WOULD_BLOCK;
}

static void stream_want(struct net_stream *base, bool readable, bool writable)
{
    assert(!stream_of(base)->closed);
    stream_of(base)->wants_read = readable;
    stream_of(base)->wants_write = writable;
}

static void stream_close(struct net_stream *base, bool abort)
{
    assert(!stream_of(base)->closed);
    stream_of(base)->closed = true;
    stream_of(base)->aborted = abort;
    stream_of(base)->wants_read = false;
    stream_of(base)->wants_write = false;
}

static const struct net_stream_ops stream_ops = {
    .read = stream_read,
    .write = stream_write,
    .want = stream_want,
    .close = stream_close,
};

struct double_stream *double_stream_new(struct double_loop *loop)
{
    struct double_stream *stream = mem_calloc(1, sizeof(*stream));

    assert(stream != NULL);
    stream->stream.ops = &stream_ops;
    stream->stream.loop = &loop->loop;
    stream->stream.peer = (struct net_address){.host = "10.0.0.9", .port = 5000};
    stream->stream.local = (struct net_address){.host = "10.0.0.1", .port = 9092};
    stream->in = mem_alloc(DOUBLE_ROOM);
    stream->out = mem_alloc(DOUBLE_ROOM);
    assert(stream->in != NULL && stream->out != NULL);
    stream->read_max = SIZE_MAX;
    stream->out_room = SIZE_MAX;
    return stream;
}

void double_stream_free(struct double_stream *stream)
{
    assert(stream->closed);
    mem_free(stream->in);
    mem_free(stream->out);
    mem_free(stream);
}

void double_arrive(struct double_stream *stream, const void *data, size_t size)
{
    assert(stream->in_end + size <= DOUBLE_ROOM);
    memcpy(stream->in + stream->in_end, data, size);
    stream->in_end += size;
}

void double_tell(struct double_loop *loop, struct double_stream *stream)
{
    if (stream->wants_write && (stream->out_room > 0 || stream->broken))
        stream->stream.events->writable(stream->stream.context);
    if (stream->wants_read && (stream->in_end > stream->in_start || stream->peer_ended))
        stream->stream.events->readable(stream->stream.context);
    double_turn(loop);
}

static void keep_line(struct log_sink *sink, enum log_level level, const char *line, uint32_t size)
{
    struct double_log *log = LIST_ENTRY(sink, struct double_log, sink);

    (void)level;
    assert(size < sizeof(log->last));
    memcpy(log->last, line, size);
    log->last[size] = '\0';
    log->lines++;
}

static int64_t frozen_ns(struct clock *clock)
{
    (void)clock;
    return 1;
}

void double_log_init(struct double_log *log)
{
    *log = (struct double_log){.sink.write = keep_line, .clock = {.mono_ns = frozen_ns, .wall_ms = frozen_ns}};
    log->log.sink = &log->sink;
    log->log.clock = &log->clock;
    log->log.node_id = 1;
    log->log.room = "net";
}
