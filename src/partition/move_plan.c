/* What a move has still to copy, and whether that is little enough for the log to be held meanwhile. */
#include "base/mem.h"
#include "partition/log_moving.h"
#include "partition/partition_limits.h"

static uint64_t bytes_left(const struct log_moving *moving)
{
    const struct partition_log *log = moving->log;
    uint64_t left = 0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < log->segment_count; i++) {
        const struct segment *segment = log->segments[i];

        while (at < moving->copied_count && moving->copied[at].base_offset < segment->base_offset)
            at++;
        if (at < moving->copied_count && moving->copied[at].base_offset == segment->base_offset)
            left += segment->size - moving->copied[at].size;
        else
            left += segment->size;
    }
    return left;
}

/* What is still to be copied of the segments as they are now; final: of all, whatever is there. */
enum err move_plan_sources(struct log_moving *moving, bool is_final)
{
    const struct partition_log *log = moving->log;
    struct move_source *sources = mem_alloc((log->segment_count + 1) * sizeof(*sources));
    uint32_t at = 0;

    if (sources == NULL)
        return ERR_NOMEM;
    mem_free(moving->sources);
    moving->sources = sources;
    moving->source_count = 0;
    moving->at = 0;
    for (uint32_t i = 0; i < log->segment_count; i++) {
        const struct segment *segment = log->segments[i];
        const struct move_copied *copied = NULL;

        while (at < moving->copied_count && moving->copied[at].base_offset < segment->base_offset)
            at++;
        if (at < moving->copied_count && moving->copied[at].base_offset == segment->base_offset)
            copied = &moving->copied[at];
        if (!is_final && copied != NULL &&
            (copied->sealed || (copied->size == segment->size && (!segment->settled || i + 1 == log->segment_count))))
            continue;
        sources[moving->source_count++] = (struct move_source){
            .base_offset = segment->base_offset,
            .end_offset = segment->end_offset,
            .size = segment->size,
            .sealed = is_final || (segment->settled && i + 1 < log->segment_count),
        };
    }
    return ERR_OK;
}

/* Passes get shorter as long as copying is quicker than appending; where it is not, the last one is allowed more. */
bool move_plan_is_near(const struct log_moving *moving)
{
    uint32_t doublings = moving->passes < MOVE_PASSES_MANY ? 0 : moving->passes - MOVE_PASSES_MANY;
    uint64_t enough = MOVE_FINAL_BYTES;

    while (doublings-- > 0 && enough < MOVE_FINAL_BYTES_MAX)
        enough *= 2;
    return bytes_left(moving) <= enough;
}
