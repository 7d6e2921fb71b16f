#include "broker/request_aside.h"

#include "base/assert.h"
#include "broker/broker_internal.h"
#include "broker/request.h"

bool request_is_aside(const struct request *request)
{
    return request->shard != request->home;
}

static void told(struct loop_task *task)
{
    struct request *request = LIST_ENTRY(task, struct request, aside.task);

    request->aside.run(request);
}

static void post(struct request *request, const struct shard *to, void (*run)(struct request *request))
{
    request->aside.run = run;
    request->aside.task.run = told;
    loop_post(to->loop, &request->aside.task);
}

void request_aside_go(struct request *request, void (*run)(struct request *request))
{
    post(request, broker_aside(request->broker), run);
}

void request_aside_return(struct request *request, void (*run)(struct request *request))
{
    if (request_is_aside(request))
        request->aside.is_over = true;
    post(request, request->home, run);
}

/* Its end may be on its way home; it is freed by a message that is sent behind this one. */
static void told_abandoned(struct loop_task *task)
{
    struct request *request = LIST_ENTRY(task, struct request, aside.abandon);

    if (!request->aside.is_over && request->abandoned != NULL)
        request->abandoned(request);
}

void request_aside_abandon(struct request *request)
{
    assert(request_is_aside(request));
    request->aside.abandon.run = told_abandoned;
    loop_post(request->shard->loop, &request->aside.abandon);
}

enum err request_aside_reserve(struct request *request, size_t bytes)
{
    enum err err = connections_reserve(request->shard->connections, bytes);

    if (err == ERR_OK)
        request->aside.reserved_bytes += bytes;
    return err;
}

void request_aside_give(struct request *request)
{
    if (request->aside.reserved_bytes > 0)
        connections_give_back(request->shard->connections, request->aside.reserved_bytes);
    request->aside.reserved_bytes = 0;
}
