#include "sim/group_crowd_internal.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"

enum { ARENA_BYTES_MAX = 1024 * 1024, DELAY_MS_MAX = 20, LATE_PERCENT = 3, LATE_MS_MAX = 2000 };

static const char *const group_names[CROWD_GROUPS] = {"g0", "g1", "g2"};

struct bytes crowd_group_id(uint32_t group)
{
    return bytes_of_text(group_names[group]);
}

static int64_t delay_ns(struct group_crowd *crowd)
{
    struct sim *sim = &crowd->sim;
    bool late = !crowd->over && sim_chance(sim, LATE_PERCENT);

    return (int64_t)sim_draw(sim, (uint64_t)(late ? LATE_MS_MAX : DELAY_MS_MAX) * NS_PER_MS);
}

static void end(struct crowd_call *call)
{
    call->crowd->calls--;
    arena_deinit(&call->arena);
    mem_free(call);
}

/* What is asked and answered, for a person who looks into one seed. */
static void tell(const struct crowd_call *call, bool answered)
{
    static const struct message_type *const types[GROUP_ASK_COUNT][2] = {
        [ASK_JOIN_GROUP] = {&join_group_request_message, &join_group_response_message},
        [ASK_SYNC_GROUP] = {&sync_group_request_message, &sync_group_response_message},
        [ASK_HEARTBEAT] = {&heartbeat_request_message, &heartbeat_response_message},
        [ASK_CONSUMER_HEARTBEAT] = {&consumer_group_heartbeat_request_message,
                                    &consumer_group_heartbeat_response_message},
        [ASK_LEAVE_GROUP] = {&leave_group_request_message, &leave_group_response_message},
        [ASK_OFFSET_COMMIT] = {&offset_commit_request_message, &offset_commit_response_message},
        [ASK_TXN_OFFSET_COMMIT] = {&txn_offset_commit_request_message, &txn_offset_commit_response_message},
        [ASK_OFFSET_DELETE] = {&offset_delete_request_message, &offset_delete_response_message},
    };
    static char text[4096];
    const struct message_type *type = types[call->op.ask][answered];

    if (!call->crowd->chatty)
        return;
    text[0] = '\0';
    if (answered && call->op.op.err != ERR_OK)
        (void)snprintf(text, sizeof(text), "%s", err_name(call->op.op.err));
    else if (type != NULL)
        (void)message_print(type, call->op.version, answered ? (const void *)&call->response : &call->request, text,
                            sizeof(text));
    printf("%7.3f %.*s %.*s %s %s\n", (double)call->crowd->sim.mono_ns / 1e9, BYTES_PRINTF(call->op.group_id),
           BYTES_PRINTF(call->op.client_id), answered ? "<-" : "->", text);
}

static void hear(struct sim_event *event)
{
    struct crowd_call *call = (struct crowd_call *)(void *)((char *)event - offsetof(struct crowd_call, hear));

    /* Who has given up on a call does not hear its answer. */
    if (call->member != NULL && call->member->call == call) {
        call->member->call = NULL;
        sim_event_cancel(&call->crowd->sim, &call->member->patience);
        crowd_member_hear(call->member, call);
    }
    end(call);
}

static void done(struct step_op *op)
{
    struct crowd_call *call = (struct crowd_call *)(void *)op;
    struct sim *sim = &call->crowd->sim;

    tell(call, true);
    sim_event_add(sim, &call->hear, sim->mono_ns + delay_ns(call->crowd));
}

static void arrive(struct sim_event *event)
{
    struct crowd_call *call = (struct crowd_call *)(void *)((char *)event - offsetof(struct crowd_call, arrive));
    struct group_coordinator *coordinator = &call->crowd->coordinator;

    tell(call, false);
    coordinator->resetting = call->reset;
    /* By name it may now be of another topic than it was said of. */
    coordinator->confused = (call->op.ask == ASK_OFFSET_COMMIT || call->op.ask == ASK_TXN_OFFSET_COMMIT) &&
                            call->said_lives != coordinator->lives;
    if (call->op.ask == ASK_TXN_OFFSET_COMMIT && coordinator->groups != NULL &&
        !group_coordinator_transaction_is_open(coordinator, call->request.txn_commit.producer_id)) {
        call->op.op.err = ERR_INVALID_TXN_STATE; /* it never comes to a group's coordinator */
        call->op.op.done(&call->op.op);
    } else {
        group_coordinator_ask(coordinator, &call->op);
    }
    /* The core may have answered it and more besides; none of them ends within the call. */
    coordinator->resetting = false;
    coordinator->confused = false;
}

void crowd_call_decided(struct step_op *op)
{
    struct crowd_call *call = (struct crowd_call *)(void *)op;
    const struct group_coordinator *coordinator = &call->crowd->coordinator;

    call->life = group_coordinator_group_life(coordinator, call->op.group_id);
    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++)
        call->topic_lives[t] = group_coordinator_life(coordinator, t);
    crowd_check_answer(call);
}

struct crowd_call *crowd_call_new(struct group_crowd *crowd, struct crowd_member *member, enum group_ask ask,
                                  int16_t version, uint32_t group)
{
    struct crowd_call *call = mem_calloc(1, sizeof(*call));

    assert(call != NULL);
    crowd->calls++;
    arena_init(&call->arena, ARENA_BYTES_MAX);
    call->crowd = crowd;
    call->member = member;
    call->arrive.run = arrive;
    call->hear.run = hear;
    call->op = (struct group_op){.op = {.done = done},
                                 .ask = ask,
                                 .version = version,
                                 .group_id = crowd_group_id(group),
                                 .client_id = member == NULL ? BYTES_LITERAL("admin") : bytes_of_text(member->label),
                                 .client_host = BYTES_LITERAL("/127.0.0.1"),
                                 .request = &call->request,
                                 .response = &call->response,
                                 .arena = &call->arena};
    return call;
}

void *crowd_call_array(struct crowd_call *call, uint32_t count, size_t size)
{
    void *array = arena_array(&call->arena, count, size);

    assert(array != NULL);
    return array;
}

struct bytes crowd_call_text(struct crowd_call *call, const char *text)
{
    struct bytes copy = {0};

    if (arena_copy(&call->arena, bytes_of_text(text), &copy) != ERR_OK)
        assert(false && "memory");
    return copy;
}

void crowd_call_send(struct crowd_call *call)
{
    struct sim *sim = &call->crowd->sim;
    int64_t at_ns = sim->mono_ns + delay_ns(call->crowd);

    call->said_lives = call->crowd->coordinator.lives;
    if (call->member != NULL) { /* one connection, in order */
        if (at_ns <= call->member->last_arrival_ns)
            at_ns = call->member->last_arrival_ns + 1;
        call->member->last_arrival_ns = at_ns;
    }
    sim_event_add(sim, &call->arrive, at_ns);
}
