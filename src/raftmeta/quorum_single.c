#include "raftmeta/quorum_single.h"

#include "base/assert.h"
#include "base/mem.h"
#include "protocol/batch_build.h"
#include "raftmeta/metadata_limits.h"

enum phase {
    SINGLE_NEW,
    SINGLE_VOTING,   /* quorum-state with the new epoch is being written */
    SINGLE_STARTING, /* the epoch's first batch is being written */
    SINGLE_LEADING,
    SINGLE_FAILED,
    SINGLE_STOPPED,
};

struct quorum_single {
    struct quorum quorum;
    struct quorum_single_options options;
    struct voter_set self; /* this node alone */
    bool write_voters;     /* into the log: it has others, or none */
    int16_t kraft_version;
    enum phase phase;
    int32_t epoch;
    /* the vote */
    struct loop_job vote_job;
    enum err vote_err;
    /* the epoch's first batch */
    struct batch_builder builder;
    struct log_append append;
    struct bytes control_batch;
    /* proposals */
    struct quorum_proposal *first, *last; /* handed to the log, not yet written */
    int64_t wanted_offset;                /* somebody waits for all below to be synced */
    int64_t committed_offset;
    struct log_sync sync;
    bool syncing;
    struct loop_task sync_task;
    bool sync_due; /* at the end of this turn */
    bool stopping;
    struct partition_log_close close;
    bool closing;
};

static struct quorum_single *of(struct quorum *quorum)
{
    return (struct quorum_single *)quorum;
}

/* The only place where the phase changes: always onwards. */
static void enter(struct quorum_single *single, enum phase phase)
{
    assert(phase > single->phase);
    single->phase = phase;
}

static void fail(struct quorum_single *single, enum err err)
{
    if (single->phase == SINGLE_FAILED || single->phase == SINGLE_STOPPED)
        return;
    enter(single, SINGLE_FAILED);
    single->quorum.events->failed(single->quorum.context, err);
}

/* --- syncing and committing --- */

static void closed(struct partition_log_close *op)
{
    struct quorum_single *single = LIST_ENTRY(op, struct quorum_single, close);

    single->options.log = NULL;
    enter(single, SINGLE_STOPPED);
    single->quorum.events->stopped(single->quorum.context, op->err);
}

/* Closes the log when a stop was asked for and nothing is under way any more. */
static void go_on_stopping(struct quorum_single *single)
{
    bool busy = single->syncing || single->sync_due || single->first != NULL || single->phase == SINGLE_VOTING ||
                single->phase == SINGLE_STARTING;

    if (!single->stopping || single->closing || busy)
        return;
    single->closing = true;
    single->close.done = closed;
    partition_log_close(single->options.log, &single->close);
}

static void begin_sync(struct quorum_single *single);

static void take_synced(struct quorum_single *single, int64_t offset)
{
    if (offset <= single->committed_offset)
        return;
    assert(offset <= partition_log_synced_offset(single->options.log));
    single->committed_offset = offset;
    single->quorum.events->committed(single->quorum.context, offset);
}

static void synced(struct log_sync *op)
{
    struct quorum_single *single = LIST_ENTRY(op, struct quorum_single, sync);

    single->syncing = false;
    if (op->err != ERR_OK)
        fail(single, op->err);
    else
        take_synced(single, op->offset);
    begin_sync(single);
    go_on_stopping(single);
}

/* One sync at a time; it covers all that was written by now. */
static void begin_sync(struct quorum_single *single)
{
    if (single->syncing || single->phase == SINGLE_FAILED || single->wanted_offset <= single->committed_offset)
        return;
    single->syncing = true;
    single->sync = (struct log_sync){.offset = partition_log_end_offset(single->options.log), .done = synced};
    partition_log_sync(single->options.log, &single->sync);
}

static void sync_now(struct loop_task *task)
{
    struct quorum_single *single = LIST_ENTRY(task, struct quorum_single, sync_task);

    single->sync_due = false;
    begin_sync(single);
    go_on_stopping(single);
}

/* At the end of the turn, so that all it proposes shares one sync. */
static void want(struct quorum_single *single, int64_t offset)
{
    if (offset > single->wanted_offset)
        single->wanted_offset = offset;
    if (single->syncing || single->sync_due)
        return;
    single->sync_due = true;
    single->sync_task.run = sync_now;
    loop_defer(single->options.loop, &single->sync_task);
}

/* --- taking leadership --- */

static void control_written(struct log_append *op)
{
    struct quorum_single *single = LIST_ENTRY(op, struct quorum_single, append);

    if (op->err != ERR_OK) {
        fail(single, op->err);
    } else { /* what is proposed now may share this batch's sync */
        enter(single, SINGLE_LEADING);
        single->quorum.events->leading(single->quorum.context, single->epoch, single->control_batch,
                                       op->last_offset + 1);
        want(single, op->last_offset + 1);
    }
    batch_builder_deinit(&single->builder);
    go_on_stopping(single);
}

static enum err build_control(struct quorum_single *single)
{
    struct batch_spec spec;
    int64_t now_ms = clock_wall_ms(single->options.clock);
    uint8_t *batch = NULL;
    size_t size = 0;
    enum err err = ERR_OK;

    batch_spec_init(&spec);
    spec.base_offset = partition_log_end_offset(single->options.log);
    spec.leader_epoch = single->epoch;
    spec.control = true;
    batch_builder_reset(&single->builder, &spec);
    err = control_add_leader_change(&single->builder, now_ms, single->options.self.id, &single->options.self.id, 1);
    if (err == ERR_OK && single->write_voters)
        err = control_add_kraft_version(&single->builder, now_ms, single->kraft_version);
    if (err == ERR_OK && single->write_voters)
        err = control_add_voters(&single->builder, now_ms, &single->self);
    if (err == ERR_OK)
        err = batch_builder_finish(&single->builder, &batch, &size);
    if (err == ERR_OK) {
        single->control_batch = bytes_of(batch, size);
        single->append = (struct log_append){.batches = batch,
                                             .size = size,
                                             .origin = LOG_ORIGIN_GIVEN,
                                             .leader_epoch = single->epoch,
                                             .done = control_written};
    }
    return err;
}

static void vote_written(struct loop_job *job)
{
    struct quorum_single *single = LIST_ENTRY(job, struct quorum_single, vote_job);
    enum err err = single->vote_err;

    enter(single, SINGLE_STARTING);
    if (err == ERR_OK)
        err = partition_log_assign_epoch(single->options.log, single->epoch);
    if (err == ERR_OK)
        err = build_control(single);
    if (err != ERR_OK) {
        fail(single, err);
        go_on_stopping(single);
        return;
    }
    partition_log_append(single->options.log, &single->append);
}

/* The epoch is on disk before any batch is written in it, so that no epoch is ever led twice. */
static void write_vote(struct loop_job *job)
{
    struct quorum_single *single = LIST_ENTRY(job, struct quorum_single, vote_job);
    struct quorum_state state = {.leader_id = single->options.self.id,
                                 .leader_epoch = single->epoch,
                                 .voted_id = -1,
                                 .version = single->kraft_version > 0 ? 1 : 0,
                                 .voters = &single->self};
    struct dir_relief relief = {0};

    do
        single->vote_err = quorum_state_write(single->options.fs, single->options.dir, &state);
    while (single->vote_err == ERR_NO_SPACE && dir_space_relieve(single->options.space, &relief));
}

static void start(struct quorum *quorum)
{
    struct quorum_single *single = of(quorum);

    assert(single->phase == SINGLE_NEW);
    partition_log_adopt(single->options.log);
    enter(single, SINGLE_VOTING);
    single->vote_job = (struct loop_job){.run = write_vote, .done = vote_written};
    loop_submit(single->options.loop, &single->vote_job);
}

/* --- proposals --- */

static void take_first(struct quorum_single *single)
{
    struct quorum_proposal *proposal = single->first;

    single->first = proposal->next;
    if (single->first == NULL)
        single->last = NULL;
    mem_free(proposal->batches);
    mem_free(proposal);
}

/* What is queued behind a failed append does not continue the log; a smaller one might even find room. */
static void drop_rest(struct quorum_single *single)
{
    while (single->first != NULL) {
        bool queued = partition_log_append_cancel(single->options.log, &single->first->append);

        assert(queued);
        take_first(single);
    }
}

static void written(struct log_append *op)
{
    struct quorum_proposal *proposal = LIST_ENTRY(op, struct quorum_proposal, append);
    struct quorum_single *single = of(proposal->quorum);
    enum err err = op->err;
    bool lazy = proposal->lazy;
    int64_t end = proposal->last_offset + 1;

    assert(single->first == proposal); /* appends complete in order */
    take_first(single);
    if (err == ERR_OK) {
        if (!lazy || single->stopping)
            want(single, end);
    } else if (partition_log_failed(single->options.log)) {
        fail(single, err);
    } else {
        drop_rest(single);
        single->quorum.events->refused(single->quorum.context, partition_log_end_offset(single->options.log), err);
    }
    go_on_stopping(single);
}

static void propose(struct quorum *quorum, struct quorum_proposal *proposal)
{
    struct quorum_single *single = of(quorum);

    assert(single->phase == SINGLE_LEADING || single->phase == SINGLE_FAILED);
    proposal->quorum = quorum;
    proposal->next = NULL;
    proposal->append = (struct log_append){.batches = proposal->batches,
                                           .size = proposal->size,
                                           .origin = LOG_ORIGIN_GIVEN,
                                           .leader_epoch = single->epoch,
                                           .done = written};
    if (single->last != NULL)
        single->last->next = proposal;
    else
        single->first = proposal;
    single->last = proposal;
    partition_log_append(single->options.log, &proposal->append);
}

/* --- the end --- */

static void stop(struct quorum *quorum)
{
    struct quorum_single *single = of(quorum);

    assert(!single->stopping && single->phase != SINGLE_NEW);
    single->stopping = true;
    if (single->phase == SINGLE_LEADING)
        want(single, partition_log_end_offset(single->options.log)); /* lazy ones too */
    go_on_stopping(single);
}

static void free_single(struct quorum *quorum)
{
    struct quorum_single *single = of(quorum);

    assert(single->phase == SINGLE_STOPPED || single->phase == SINGLE_NEW);
    batch_builder_deinit(&single->builder);
    mem_free(single);
}

struct quorum *quorum_single_new(const struct quorum_single_options *options)
{
    static const struct quorum_ops ops = {start, propose, stop, free_single};
    struct quorum_single *single = mem_calloc(1, sizeof(*single));
    const struct quorum_facts *facts = options->facts;
    struct batch_spec spec;
    int32_t last_epoch = partition_log_last_epoch(options->log);

    if (single == NULL)
        return NULL;
    single->quorum = (struct quorum){&ops, options->events, options->context};
    single->options = *options;
    single->options.facts = NULL;
    single->self.voters[0] = options->self;
    single->self.count = 1;
    single->kraft_version = facts->kraft_version;
    single->epoch = (last_epoch > options->state.leader_epoch ? last_epoch : options->state.leader_epoch) + 1;
    batch_spec_init(&spec);
    batch_builder_init(&single->builder, &spec);
    /* The log gets the voters when it has them only from the bootstrap snapshot, or when our address is another now
     * (kraft.md "Leader rules"). */
    if (facts->kraft_version > 0 && facts->has_voters &&
        (!facts->voters_in_log || !voter_equal(&facts->voters.voters[0], &options->self)))
        single->write_voters = true;
    return &single->quorum;
}
