/* OffsetFetch: each group is asked of its coordinator; where an error stands depends on the version (KIP-88, KIP-709).
 */
#include "broker/broker_internal.h"
#include "broker/group_call.h"
#include "broker/handlers.h"
#include "coordinator/group_versions.h"
#include "protocol/gen/offset_fetch.h"

/* What is asked of the coordinator at a time, in one of its steps. */
struct fetch_piece {
    struct offset_fetch_request_group question;
    struct offset_fetch_response_group decided;
    struct group_part *part;
};

struct fetch_group {
    const struct offset_fetch_request_group *in;
    bool *asked; /* by topic of the question; NULL: all topics are wanted */
    struct fetch_piece *pieces;
    uint32_t piece_count; /* 0: refused here */
};

struct offset_fetch {
    struct request *request;
    struct offset_fetch_request_group one; /* of versions that ask for one group alone */
    struct fetch_group *groups;
    uint32_t count;
    struct offset_fetch_response out;
};

/* The one group of old versions, in the form of the new ones. */
static bool take_one(struct offset_fetch *fetch, const struct offset_fetch_request *in)
{
    struct offset_fetch_request_group *one = &fetch->one;

    offset_fetch_request_group_init(one);
    one->group_id = in->group_id;
    one->topics = NULL;
    if (in->topics == NULL)
        return true;
    one->topics = request_array(fetch->request, in->topics_count, sizeof(*one->topics));
    if (one->topics == NULL)
        return false;
    one->topics_count = in->topics_count;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        offset_fetch_request_topics_init(&one->topics[i]);
        one->topics[i].name = in->topics[i].name;
        one->topics[i].partition_indexes = in->topics[i].partition_indexes;
        one->topics[i].partition_indexes_count = in->topics[i].partition_indexes_count;
    }
    return true;
}

/* ---- the answer ---- */

static void fill_refused(struct offset_fetch_response_partitions *out, int32_t partition, enum err err)
{
    offset_fetch_response_partitions_init(out);
    out->partition_index = partition;
    out->committed_offset = -1;
    out->metadata = BYTES_LITERAL("");
    out->error_code = err_wire(err);
}

static bool refuse_topic(struct request *request, const struct offset_fetch_request_topics *in, enum err err,
                         struct offset_fetch_response_topics *out)
{
    offset_fetch_response_topics_init(out);
    out->name = in->name;
    out->topic_id = in->topic_id;
    out->partitions = request_array(request, in->partition_indexes_count, sizeof(*out->partitions));
    if (out->partitions == NULL)
        return false;
    out->partitions_count = in->partition_indexes_count;
    for (uint32_t i = 0; i < in->partition_indexes_count; i++)
        fill_refused(&out->partitions[i], in->partition_indexes[i], err);
    return true;
}

static enum err piece_error(const struct fetch_piece *piece)
{
    enum err err = piece->part->err;

    if (err == ERR_COORDINATOR_NOT_AVAILABLE) /* old consumers know only the other (groups.md 1.3) */
        return ERR_NOT_COORDINATOR;
    return err != ERR_OK ? err : err_from_wire(piece->decided.error_code);
}

static enum err group_error(const struct fetch_group *group)
{
    enum err err = group->piece_count == 0 ? ERR_GROUP_AUTHORIZATION_FAILED : ERR_OK;

    for (uint32_t i = 0; i < group->piece_count && err == ERR_OK; i++)
        err = piece_error(&group->pieces[i]);
    return err;
}

/* Before FETCH_GROUP_ERROR_SINCE there is no place for an error but at each partition (trap B076). */
static bool refuse_group(struct request *request, const struct fetch_group *group, enum err err,
                         struct offset_fetch_response_group *out)
{
    offset_fetch_response_group_init(out);
    out->group_id = group->in->group_id;
    out->error_code = err_wire(err);
    if (request->header.request_api_version >= FETCH_GROUP_ERROR_SINCE)
        return true;
    out->topics = request_array(request, group->in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL)
        return false;
    out->topics_count = group->in->topics_count;
    for (uint32_t i = 0; i < group->in->topics_count; i++)
        if (!refuse_topic(request, &group->in->topics[i], err, &out->topics[i]))
            return false;
    return true;
}

/* Where in the pieces the next answer stands. */
struct answers {
    const struct fetch_piece *piece;
    uint32_t topic;
};

static const struct offset_fetch_response_topics *next_answer(struct answers *answers)
{
    while (answers->topic == answers->piece->decided.topics_count) {
        answers->piece++;
        answers->topic = 0;
    }
    return &answers->piece->decided.topics[answers->topic++];
}

/* The next topic, of so many partitions; its answers may stand in several pieces. */
static bool take_topic(struct request *request, struct answers *answers, uint32_t count,
                       struct offset_fetch_response_topics *out)
{
    const struct offset_fetch_response_topics *answer = next_answer(answers);
    struct offset_fetch_response_partitions *all = NULL;

    *out = *answer;
    if (answer->partitions_count == count)
        return true;
    all = request_array(request, count, sizeof(*all));
    if (all == NULL)
        return false;
    out->partitions = all;
    for (uint32_t at = 0;;) {
        memcpy(all + at, answer->partitions, answer->partitions_count * sizeof(*all));
        at += answer->partitions_count;
        if (at == count)
            break;
        answer = next_answer(answers);
    }
    out->partitions_count = count;
    return true;
}

static bool fill_group(struct request *request, const struct fetch_group *group,
                       struct offset_fetch_response_group *out)
{
    const struct offset_fetch_request_group *in = group->in;
    enum err err = group_error(group);
    struct answers answers = {.piece = group->pieces};

    if (err != ERR_OK)
        return refuse_group(request, group, err, out);
    if (group->asked == NULL) {
        *out = group->pieces[0].decided;
        return true;
    }
    offset_fetch_response_group_init(out);
    out->group_id = in->group_id;
    out->topics = request_array(request, in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL)
        return false;
    out->topics_count = in->topics_count;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        bool filled = group->asked[i]
                          ? take_topic(request, &answers, in->topics[i].partition_indexes_count, &out->topics[i])
                          : refuse_topic(request, &in->topics[i], ERR_TOPIC_AUTHORIZATION_FAILED, &out->topics[i]);

        if (!filled)
            return false;
    }
    return true;
}

static bool fill_old_topic(struct request *request, const struct offset_fetch_response_topics *in,
                           struct offset_fetch_response_topic *out)
{
    offset_fetch_response_topic_init(out);
    out->name = in->name;
    out->partitions = request_array(request, in->partitions_count, sizeof(*out->partitions));
    if (out->partitions == NULL)
        return false;
    out->partitions_count = in->partitions_count;
    for (uint32_t i = 0; i < in->partitions_count; i++) {
        offset_fetch_response_partition_init(&out->partitions[i]);
        out->partitions[i].partition_index = in->partitions[i].partition_index;
        out->partitions[i].committed_offset = in->partitions[i].committed_offset;
        out->partitions[i].committed_leader_epoch = in->partitions[i].committed_leader_epoch;
        out->partitions[i].metadata = in->partitions[i].metadata;
        out->partitions[i].error_code = in->partitions[i].error_code;
    }
    return true;
}

/* The one group of old versions. */
static bool fill_old(struct request *request, const struct offset_fetch_response_group *in,
                     struct offset_fetch_response *out)
{
    out->error_code = in->error_code;
    out->topics = request_array(request, in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL)
        return false;
    out->topics_count = in->topics_count;
    for (uint32_t i = 0; i < in->topics_count; i++)
        if (!fill_old_topic(request, &in->topics[i], &out->topics[i]))
            return false;
    return true;
}

static void *fill(struct request *request)
{
    struct offset_fetch *fetch = group_call_of(request)->user;
    struct offset_fetch_response *out = &fetch->out;

    offset_fetch_response_init(out);
    out->groups = request_array(request, fetch->count, sizeof(*out->groups));
    if (out->groups == NULL)
        return NULL;
    out->groups_count = fetch->count;
    for (uint32_t i = 0; i < fetch->count; i++)
        if (!fill_group(request, &fetch->groups[i], &out->groups[i]))
            return NULL;
    if (request->header.request_api_version < FETCH_GROUPS_SINCE && !fill_old(request, &out->groups[0], out))
        return NULL;
    return out;
}

static void fetched(struct group_call *call)
{
    group_call_reply(call, fill);
}

/* ---- the question ---- */

static bool may_describe(const struct request *request, const struct offset_fetch_request_topics *topic)
{
    if (request->header.request_api_version < FETCH_IDS_SINCE)
        return request_may(request, MAY_DESCRIBE, ON_TOPIC, topic->name);
    return group_call_may_topic_id(request, MAY_DESCRIBE, topic->topic_id);
}

static bool ask_piece(struct group_call *call, const struct fetch_group *group, struct fetch_piece *piece,
                      bool require_stable)
{
    piece->part = group_call_add(call, ASK_OFFSET_FETCH, group->in->group_id, &piece->question, &piece->decided);
    if (piece->part == NULL)
        return false;
    piece->part->ask.require_stable = require_stable;
    piece->part->ask.may_describe_topic = group_call_may_describe_topic;
    return true;
}

/* Which topics may be asked for; how much they are: topics and partitions. */
static bool choose_topics(struct request *request, struct fetch_group *group, size_t *entries)
{
    const struct offset_fetch_request_group *in = group->in;

    *entries = 0;
    if (in->topics == NULL)
        return true;
    group->asked = request_array(request, in->topics_count, sizeof(*group->asked));
    if (group->asked == NULL)
        return false;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        group->asked[i] = may_describe(request, &in->topics[i]);
        if (group->asked[i])
            *entries += 1 + (size_t)in->topics[i].partition_indexes_count;
    }
    return true;
}

/* Divides what is asked into pieces of OFFSET_FETCH_PIECE_ENTRIES at most; a topic may be in several. topics: room for
 * all of them. */
static void divide(struct fetch_group *group, struct offset_fetch_request_topics *topics)
{
    const struct offset_fetch_request_group *in = group->in;
    struct fetch_piece *piece = &group->pieces[0];
    uint32_t left = OFFSET_FETCH_PIECE_ENTRIES;

    piece->question.topics = topics;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        struct offset_fetch_request_topics rest = in->topics[i];

        if (!group->asked[i])
            continue;
        do {
            struct offset_fetch_request_topics *at = NULL;

            if (left < 2 && (left == 0 || rest.partition_indexes_count > 0)) {
                piece++;
                piece->question.topics = topics;
                left = OFFSET_FETCH_PIECE_ENTRIES;
            }
            at = topics++;
            *at = rest;
            if (at->partition_indexes_count > left - 1)
                at->partition_indexes_count = left - 1;
            left -= 1 + at->partition_indexes_count;
            rest.partition_indexes += at->partition_indexes_count;
            rest.partition_indexes_count -= at->partition_indexes_count;
            piece->question.topics_count++;
        } while (rest.partition_indexes_count > 0);
    }
    group->piece_count = (uint32_t)(piece - group->pieces) + 1;
}

static bool add_group(struct group_call *call, struct fetch_group *group, bool require_stable)
{
    struct request *request = call->request;
    struct offset_fetch_request_topics *topics = NULL;
    size_t entries = 0;
    size_t pieces_max = 0;

    if (!request_may(request, MAY_DESCRIBE, ON_GROUP, group->in->group_id))
        return true;
    if (!choose_topics(request, group, &entries))
        return false;
    pieces_max = 1 + entries / (OFFSET_FETCH_PIECE_ENTRIES / 2); /* each but the last is more than half full */
    group->pieces = request_array(request, pieces_max, sizeof(*group->pieces));
    topics = request_array(request, group->in->topics_count + pieces_max, sizeof(*topics));
    if (group->pieces == NULL || topics == NULL)
        return false;
    for (size_t i = 0; i < pieces_max; i++) {
        group->pieces[i].question = *group->in;
        group->pieces[i].question.topics = NULL;
        group->pieces[i].question.topics_count = 0;
    }
    if (group->in->topics == NULL)
        group->piece_count = 1;
    else
        divide(group, topics);
    for (uint32_t i = 0; i < group->piece_count; i++)
        if (!ask_piece(call, group, &group->pieces[i], require_stable))
            return false;
    return true;
}

void handle_offset_fetch(struct request *request, void *body)
{
    const struct offset_fetch_request *in = body;
    struct offset_fetch *fetch = arena_alloc(&request->arena, sizeof(*fetch));
    bool has_groups = request->header.request_api_version >= FETCH_GROUPS_SINCE;
    struct group_call *call = NULL;

    if (fetch == NULL)
        goto no_memory;
    fetch->request = request;
    fetch->count = has_groups ? in->groups_count : 1;
    fetch->groups = request_array(request, fetch->count, sizeof(*fetch->groups));
    call = group_call_new(request, fetched, fetch);
    if (fetch->groups == NULL || call == NULL || (!has_groups && !take_one(fetch, in)))
        goto no_memory;
    for (uint32_t i = 0; i < fetch->count; i++) {
        fetch->groups[i].in = has_groups ? &in->groups[i] : &fetch->one;
        if (!add_group(call, &fetch->groups[i], in->require_stable))
            goto no_memory;
    }
    group_call_run(call);
    return;

no_memory:
    request_close(request, "no memory for the request");
}
