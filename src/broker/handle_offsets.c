/* OffsetCommit and OffsetDelete: what the principal may read goes to the group's coordinator, which judges the rest. */
#include "broker/broker_internal.h"
#include "broker/group_call.h"
#include "broker/handlers.h"
#include "coordinator/group_versions.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_delete.h"

static void no_memory(struct request *request)
{
    request_close(request, "no memory for the request");
}

/* ---- OffsetCommit ---- */

struct commit {
    struct request *request;
    const struct offset_commit_request *in;
    bool *asked; /* by topic of the question: the coordinator is */
    struct offset_commit_request question;
    struct offset_commit_response decided;
    struct offset_commit_response out;
    struct group_part *part; /* NULL: nothing was asked */
};

static bool may_read(const struct request *request, const struct offset_commit_request_topic *topic)
{
    if (request->header.request_api_version < COMMIT_IDS_SINCE)
        return request_may(request, MAY_READ, ON_TOPIC, topic->name);
    return group_call_may_topic_id(request, MAY_READ, topic->topic_id);
}

static bool refuse_topic(struct request *request, const struct offset_commit_request_topic *in, enum err err,
                         struct offset_commit_response_topic *out)
{
    offset_commit_response_topic_init(out);
    out->name = in->name;
    out->topic_id = in->topic_id;
    out->partitions = request_array(request, in->partitions_count, sizeof(*out->partitions));
    if (out->partitions == NULL)
        return false;
    out->partitions_count = in->partitions_count;
    for (uint32_t i = 0; i < in->partitions_count; i++) {
        offset_commit_response_partition_init(&out->partitions[i]);
        out->partitions[i].partition_index = in->partitions[i].partition_index;
        out->partitions[i].error_code = err_wire(err);
    }
    return true;
}

/* err: of what was asked. */
static void answer_commit(struct commit *commit, enum err err)
{
    struct request *request = commit->request;
    const struct offset_commit_request *in = commit->in;
    struct offset_commit_response *out = &commit->out;
    uint32_t taken = 0;

    offset_commit_response_init(out);
    out->topics = request_array(request, in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL)
        goto no_memory;
    out->topics_count = in->topics_count;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        if (commit->asked[i] && err == ERR_OK)
            out->topics[i] = commit->decided.topics[taken++];
        else if (!refuse_topic(request, &in->topics[i], commit->asked[i] ? err : ERR_TOPIC_AUTHORIZATION_FAILED,
                               &out->topics[i]))
            goto no_memory;
    }
    request_reply(request, out);
    return;

no_memory:
    no_memory(request);
}

static void committed(struct group_call *call)
{
    struct commit *commit = call->user;

    answer_commit(commit, commit->part->err);
}

static bool choose_topics(struct commit *commit, bool group_allowed)
{
    struct request *request = commit->request;
    const struct offset_commit_request *in = commit->in;
    struct offset_commit_request *question = &commit->question;

    *question = *in;
    question->topics = request_array(request, in->topics_count, sizeof(*question->topics));
    commit->asked = request_array(request, in->topics_count, sizeof(*commit->asked));
    if (question->topics == NULL || commit->asked == NULL)
        return false;
    question->topics_count = 0;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        commit->asked[i] = !group_allowed || may_read(request, &in->topics[i]);
        if (commit->asked[i])
            question->topics[question->topics_count++] = in->topics[i];
    }
    return true;
}

void handle_offset_commit(struct request *request, void *body)
{
    const struct offset_commit_request *in = body;
    struct commit *commit = arena_alloc(&request->arena, sizeof(*commit));
    bool group_allowed = request_may(request, MAY_READ, ON_GROUP, in->group_id);
    struct group_call *call = NULL;

    if (commit == NULL)
        goto no_memory;
    commit->request = request;
    commit->in = in;
    if (!choose_topics(commit, group_allowed))
        goto no_memory;
    if (!group_allowed || commit->question.topics_count == 0) {
        answer_commit(commit, ERR_GROUP_AUTHORIZATION_FAILED);
        return;
    }
    call = group_call_new(request, committed, commit);
    if (call != NULL)
        commit->part = group_call_add(call, ASK_OFFSET_COMMIT, in->group_id, &commit->question, &commit->decided);
    if (call == NULL || commit->part == NULL)
        goto no_memory;
    group_call_run(call);
    return;

no_memory:
    no_memory(request);
}

/* ---- OffsetDelete ---- */

struct deletion {
    struct request *request;
    const struct offset_delete_request *in;
    bool *asked;
    struct offset_delete_request question;
    struct offset_delete_response decided;
    struct offset_delete_response out;
    struct group_part *part;
};

static bool refuse_deletion(struct request *request, const struct offset_delete_request_topic *in,
                            struct offset_delete_response_topic *out)
{
    offset_delete_response_topic_init(out);
    out->name = in->name;
    out->partitions = request_array(request, in->partitions_count, sizeof(*out->partitions));
    if (out->partitions == NULL)
        return false;
    out->partitions_count = in->partitions_count;
    for (uint32_t i = 0; i < in->partitions_count; i++) {
        offset_delete_response_partition_init(&out->partitions[i]);
        out->partitions[i].partition_index = in->partitions[i].partition_index;
        out->partitions[i].error_code = err_wire(ERR_TOPIC_AUTHORIZATION_FAILED);
    }
    return true;
}

static void answer_deletion(struct deletion *deletion, enum err err)
{
    struct request *request = deletion->request;
    const struct offset_delete_request *in = deletion->in;
    struct offset_delete_response *out = &deletion->out;
    uint32_t taken = 0;

    offset_delete_response_init(out);
    out->error_code = err != ERR_OK ? err_wire(err) : deletion->decided.error_code;
    if (out->error_code != 0) {
        request_reply(request, out);
        return;
    }
    out->topics = request_array(request, in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL)
        goto no_memory;
    out->topics_count = in->topics_count;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        if (deletion->asked[i])
            out->topics[i] = deletion->decided.topics[taken++];
        else if (!refuse_deletion(request, &in->topics[i], &out->topics[i]))
            goto no_memory;
    }
    request_reply(request, out);
    return;

no_memory:
    no_memory(request);
}

static void offsets_deleted(struct group_call *call)
{
    struct deletion *deletion = call->user;

    answer_deletion(deletion, deletion->part->err);
}

static bool choose_deletions(struct deletion *deletion)
{
    struct request *request = deletion->request;
    const struct offset_delete_request *in = deletion->in;
    struct offset_delete_request *question = &deletion->question;

    *question = *in;
    question->topics = request_array(request, in->topics_count, sizeof(*question->topics));
    deletion->asked = request_array(request, in->topics_count, sizeof(*deletion->asked));
    if (question->topics == NULL || deletion->asked == NULL)
        return false;
    question->topics_count = 0;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        deletion->asked[i] = request_may(request, MAY_READ, ON_TOPIC, in->topics[i].name);
        if (deletion->asked[i])
            question->topics[question->topics_count++] = in->topics[i];
    }
    return true;
}

void handle_offset_delete(struct request *request, void *body)
{
    const struct offset_delete_request *in = body;
    struct deletion *deletion = arena_alloc(&request->arena, sizeof(*deletion));
    struct group_call *call = NULL;
    uint64_t entries = in->topics_count;

    if (deletion == NULL)
        goto no_memory;
    deletion->request = request;
    deletion->in = in;
    offset_delete_response_init(&deletion->decided);
    if (!request_may(request, MAY_DELETE, ON_GROUP, in->group_id)) {
        answer_deletion(deletion, ERR_GROUP_AUTHORIZATION_FAILED);
        return;
    }
    if (!choose_deletions(deletion))
        goto no_memory;
    for (uint32_t i = 0; i < in->topics_count; i++)
        entries += in->topics[i].partitions_count;
    if (entries > GROUP_ENTRIES_MAX) {
        answer_deletion(deletion, ERR_INVALID_REQUEST);
        return;
    }
    if (deletion->question.topics_count == 0 && in->topics_count > 0) {
        answer_deletion(deletion, ERR_OK);
        return;
    }
    call = group_call_new(request, offsets_deleted, deletion);
    if (call != NULL)
        deletion->part = group_call_add(call, ASK_OFFSET_DELETE, in->group_id, &deletion->question, &deletion->decided);
    if (call == NULL || deletion->part == NULL)
        goto no_memory;
    group_call_run(call);
    return;

no_memory:
    no_memory(request);
}
