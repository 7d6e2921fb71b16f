/* Producer ids are handed to brokers in blocks (controller.md "Configs, quotas ... producer ids"). */
#include "raftmeta/controller_step.h"

enum err step_allocate_producer_ids(struct step *step)
{
    struct allocate_producer_ids *request = &step->request->allocate_producer_ids;
    int64_t first = image_next_producer_id(step->image);
    struct metadata_record *record = NULL;

    request->first = -1;
    request->count = 0;
    if (step_check_epoch(step, request->broker_id, request->broker_epoch) != ERR_OK)
        return ERR_OK;
    if (first > INT64_MAX - PRODUCER_ID_BLOCK) {
        step_refuse(step, ERR_UNKNOWN_SERVER_ERROR,
                    "Exhausted all producerIds as the next block's end producerId has "
                    "exceeded the int64 type limit");
        return ERR_OK;
    }
    record = step_add(step, RECORD_PRODUCER_IDS);
    if (record == NULL)
        return ERR_NOMEM;
    record->producer_ids.broker_id = request->broker_id;
    record->producer_ids.broker_epoch = request->broker_epoch;
    record->producer_ids.next_producer_id = first + PRODUCER_ID_BLOCK;
    request->first = first;
    request->count = PRODUCER_ID_BLOCK;
    return ERR_OK;
}
