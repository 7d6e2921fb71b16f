/* UpdateFeatures (KIP-584): the levels that a cluster has agreed on; decided by the controller, all or nothing. */
#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "protocol/gen/update_features.h"

enum { UPGRADE_TYPE_SINCE = 1, RESULTS_UNTIL = 1 };

struct update {
    struct metadata_call ask;
    struct request *request;
    struct feature_change *changes;
    uint32_t count;
    struct update_features_response response;
};

static void answer(struct update *update, enum err err, struct bytes message)
{
    struct request *request = update->request;
    struct update_features_response *out = &update->response;

    update_features_response_init(out);
    out->error_code = err_wire(err);
    out->error_message = err == ERR_OK          ? (struct bytes){0}
                         : message.data != NULL ? message
                                                : bytes_of_text(err_text(err));
    if (err == ERR_OK && request->header.request_api_version <= RESULTS_UNTIL) {
        out->results = request_array(request, update->count, sizeof(*out->results));
        if (out->results == NULL) {
            request_close(request, "no memory for the reply");
            return;
        }
        for (uint32_t i = 0; i < update->count; i++) {
            updatable_feature_result_init(&out->results[i]);
            out->results[i].feature = update->changes[i].name;
            out->results[i].error_message = (struct bytes){0};
        }
        out->results_count = update->count;
    }
    request_reply(request, out);
}

static void updated(struct metadata_call *ask)
{
    answer(LIST_ENTRY(ask, struct update, ask), ask->request.err, ask->request.message);
}

void handle_update_features(struct request *request, void *body)
{
    const struct update_features_request *in = body;
    struct update *update = arena_alloc(&request->arena, sizeof(*update));

    if (update == NULL)
        goto no_memory;
    update->request = request;
    update->count = in->feature_updates_count;
    if (!request_may(request, MAY_ALTER, ON_CLUSTER, BYTES_LITERAL("kafka-cluster"))) {
        answer(update, ERR_CLUSTER_AUTHORIZATION_FAILED, (struct bytes){0});
        return;
    }
    update->changes = request_array(request, update->count, sizeof(*update->changes));
    if (update->changes == NULL)
        goto no_memory;
    for (uint32_t i = 0; i < update->count; i++) {
        const struct feature_update_key *key = &in->feature_updates[i];
        bool old = request->header.request_api_version < UPGRADE_TYPE_SINCE;

        update->changes[i] = (struct feature_change){.name = key->feature, .level = key->max_version_level};
        update->changes[i].type =
            !old ? key->upgrade_type : (int8_t)(key->allow_downgrade ? FEATURE_DOWNGRADE_SAFE : FEATURE_UPGRADE);
        if (update->changes[i].type < FEATURE_UPGRADE || update->changes[i].type > FEATURE_DOWNGRADE_UNSAFE) {
            answer(update, ERR_INVALID_UPDATE_VERSION, BYTES_LITERAL("the upgrade type is not known"));
            return;
        }
    }
    update->ask.home = request->shard->loop;
    update->ask.done = updated;
    update->ask.request.type = CONTROLLER_UPDATE_FEATURES;
    update->ask.request.arena = &request->arena;
    update->ask.request.update_features = (struct update_features){
        .changes = update->changes, .count = update->count, .validate_only = in->validate_only};
    metadata_node_call(request->broker->metadata, &update->ask);
    return;

no_memory:
    request_close(request, "no memory for the request");
}
