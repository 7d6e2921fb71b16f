/*
 * metadata_record: one record of the metadata log, whichever kind, and its frame: uvarint 1, uvarint kind, uvarint
 * version, then the body in that version (kraft.md "Record batches in the metadata log"). The bodies are generated
 * codecs.
 *
 * Threads  none of its own.
 */
#ifndef OTTLA_RAFTMETA_METADATA_RECORD_H
#define OTTLA_RAFTMETA_METADATA_RECORD_H

#include "base/arena.h"
#include "base/err.h"
#include "protocol/gen/abort_transaction_record.h"
#include "protocol/gen/access_control_entry_record.h"
#include "protocol/gen/begin_transaction_record.h"
#include "protocol/gen/broker_registration_change_record.h"
#include "protocol/gen/clear_elr_record.h"
#include "protocol/gen/client_quota_record.h"
#include "protocol/gen/config_record.h"
#include "protocol/gen/delegation_token_record.h"
#include "protocol/gen/end_transaction_record.h"
#include "protocol/gen/feature_level_record.h"
#include "protocol/gen/fence_broker_record.h"
#include "protocol/gen/no_op_record.h"
#include "protocol/gen/partition_change_record.h"
#include "protocol/gen/partition_record.h"
#include "protocol/gen/producer_ids_record.h"
#include "protocol/gen/register_broker_record.h"
#include "protocol/gen/register_controller_record.h"
#include "protocol/gen/remove_access_control_entry_record.h"
#include "protocol/gen/remove_delegation_token_record.h"
#include "protocol/gen/remove_topic_record.h"
#include "protocol/gen/remove_user_scram_credential_record.h"
#include "protocol/gen/topic_record.h"
#include "protocol/gen/unfence_broker_record.h"
#include "protocol/gen/unregister_broker_record.h"
#include "protocol/gen/user_scram_credential_record.h"
#include "protocol/gen/zk_migration_state_record.h"

/* clang-format off */
/* kind, its name here, the codec's name. Kinds 6, 13 and 16 are unused; 29 and up belong to levels above ours. */
#define METADATA_RECORD_LIST(X) \
    X(0,  REGISTER_BROKER,               register_broker) \
    X(1,  UNREGISTER_BROKER,             unregister_broker) \
    X(2,  TOPIC,                         topic) \
    X(3,  PARTITION,                     partition) \
    X(4,  CONFIG,                        config) \
    X(5,  PARTITION_CHANGE,              partition_change) \
    X(7,  FENCE_BROKER,                  fence_broker) \
    X(8,  UNFENCE_BROKER,                unfence_broker) \
    X(9,  REMOVE_TOPIC,                  remove_topic) \
    X(10, DELEGATION_TOKEN,              delegation_token) \
    X(11, USER_SCRAM_CREDENTIAL,         user_scram_credential) \
    X(12, FEATURE_LEVEL,                 feature_level) \
    X(14, CLIENT_QUOTA,                  client_quota) \
    X(15, PRODUCER_IDS,                  producer_ids) \
    X(17, BROKER_REGISTRATION_CHANGE,    broker_registration_change) \
    X(18, ACCESS_CONTROL_ENTRY,          access_control_entry) \
    X(19, REMOVE_ACCESS_CONTROL_ENTRY,   remove_access_control_entry) \
    X(20, NO_OP,                         no_op) \
    X(21, ZK_MIGRATION_STATE,            zk_migration_state) \
    X(22, REMOVE_USER_SCRAM_CREDENTIAL,  remove_user_scram_credential) \
    X(23, BEGIN_TRANSACTION,             begin_transaction) \
    X(24, END_TRANSACTION,               end_transaction) \
    X(25, ABORT_TRANSACTION,             abort_transaction) \
    X(26, REMOVE_DELEGATION_TOKEN,       remove_delegation_token) \
    X(27, REGISTER_CONTROLLER,           register_controller) \
    X(28, CLEAR_ELR,                     clear_elr)
/* clang-format on */

#define METADATA_RECORD_KIND(number, name, codec) RECORD_##name = number,
enum metadata_record_kind { METADATA_RECORD_LIST(METADATA_RECORD_KIND) };
#undef METADATA_RECORD_KIND

struct metadata_record {
    enum metadata_record_kind kind;
    int16_t version;
    union {
#define METADATA_RECORD_MEMBER(number, name, codec) struct codec##_record codec;
        METADATA_RECORD_LIST(METADATA_RECORD_MEMBER)
#undef METADATA_RECORD_MEMBER
    };
};

/* "TOPIC"; NULL for a number that is no kind of ours. */
const char *metadata_record_name(uint32_t kind);

/* All fields at their defaults, in the version that this metadata.version writes. */
void metadata_record_init(struct metadata_record *record, enum metadata_record_kind kind, int16_t metadata_version);

/*
 * Reads one frame; what the record points to lies in frame and arena. On failure kind and version hold what was found.
 *
 * ERR_UNSUPPORTED_VERSION  a kind or version that this build does not know
 * ERR_DAMAGED              bytes that are no record, or some behind it
 * ERR_NOMEM                over the arena's limit
 */
MUST_CHECK enum err metadata_record_read(struct bytes frame, struct arena *arena, struct metadata_record *record);

/* The frame, in the arena. */
MUST_CHECK enum err metadata_record_write(const struct metadata_record *record, struct arena *arena,
                                          struct bytes *frame);

/* For people: TOPIC {name="lines" topic_id=...}. Like snprintf. */
size_t metadata_record_print(const struct metadata_record *record, char *text, size_t size);

#endif
