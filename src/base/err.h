/*
 * err: the one error type. A row gives the name, the code on Kafka's wire, what becomes of the connection
 * and a text for people. Rows up to ERR_CONTROLLER_ID_NOT_REGISTERED are Kafka's own codes, named as in
 * its protocol guide; those behind are ours and reach a client as the wire code that stands with them.
 *
 * Threads  any: constants only.
 */
#ifndef OTTLA_BASE_ERR_H
#define OTTLA_BASE_ERR_H

#include <stdint.h>

#define MUST_CHECK __attribute__((warn_unused_result))

enum err_fate {
    FATE_REPLY, /* an error code on that request alone */
    FATE_CLOSE, /* the connection is closed */
};

/* clang-format off */
#define ERR_LIST(X) /* name  wire  fate  text */ \
    X(ERR_OK,                                          0,    FATE_REPLY,  "ok") \
    X(ERR_UNKNOWN_SERVER_ERROR,                        -1,   FATE_REPLY,  "unknown server error") \
    X(ERR_OFFSET_OUT_OF_RANGE,                         1,    FATE_REPLY,  "offset out of range") \
    X(ERR_CORRUPT_MESSAGE,                             2,    FATE_REPLY,  "corrupt message") \
    X(ERR_UNKNOWN_TOPIC_OR_PARTITION,                  3,    FATE_REPLY,  "unknown topic or partition") \
    X(ERR_INVALID_FETCH_SIZE,                          4,    FATE_REPLY,  "invalid fetch size") \
    X(ERR_LEADER_NOT_AVAILABLE,                        5,    FATE_REPLY,  "leader not available") \
    X(ERR_NOT_LEADER_OR_FOLLOWER,                      6,    FATE_REPLY,  "not leader or follower") \
    X(ERR_REQUEST_TIMED_OUT,                           7,    FATE_REPLY,  "request timed out") \
    X(ERR_BROKER_NOT_AVAILABLE,                        8,    FATE_REPLY,  "broker not available") \
    X(ERR_REPLICA_NOT_AVAILABLE,                       9,    FATE_REPLY,  "replica not available") \
    X(ERR_MESSAGE_TOO_LARGE,                           10,   FATE_REPLY,  "message too large") \
    X(ERR_STALE_CONTROLLER_EPOCH,                      11,   FATE_REPLY,  "stale controller epoch") \
    X(ERR_OFFSET_METADATA_TOO_LARGE,                   12,   FATE_REPLY,  "offset metadata too large") \
    X(ERR_NETWORK_EXCEPTION,                           13,   FATE_REPLY,  "network exception") \
    X(ERR_COORDINATOR_LOAD_IN_PROGRESS,                14,   FATE_REPLY,  "coordinator load in progress") \
    X(ERR_COORDINATOR_NOT_AVAILABLE,                   15,   FATE_REPLY,  "coordinator not available") \
    X(ERR_NOT_COORDINATOR,                             16,   FATE_REPLY,  "not coordinator") \
    X(ERR_INVALID_TOPIC_EXCEPTION,                     17,   FATE_REPLY,  "invalid topic exception") \
    X(ERR_RECORD_LIST_TOO_LARGE,                       18,   FATE_REPLY,  "record list too large") \
    X(ERR_NOT_ENOUGH_REPLICAS,                         19,   FATE_REPLY,  "not enough replicas") \
    X(ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,            20,   FATE_REPLY,  "not enough replicas after append") \
    X(ERR_INVALID_REQUIRED_ACKS,                       21,   FATE_REPLY,  "invalid required acks") \
    X(ERR_ILLEGAL_GENERATION,                          22,   FATE_REPLY,  "illegal generation") \
    X(ERR_INCONSISTENT_GROUP_PROTOCOL,                 23,   FATE_REPLY,  "inconsistent group protocol") \
    X(ERR_INVALID_GROUP_ID,                            24,   FATE_REPLY,  "invalid group id") \
    X(ERR_UNKNOWN_MEMBER_ID,                           25,   FATE_REPLY,  "unknown member id") \
    X(ERR_INVALID_SESSION_TIMEOUT,                     26,   FATE_REPLY,  "invalid session timeout") \
    X(ERR_REBALANCE_IN_PROGRESS,                       27,   FATE_REPLY,  "rebalance in progress") \
    X(ERR_INVALID_COMMIT_OFFSET_SIZE,                  28,   FATE_REPLY,  "invalid commit offset size") \
    X(ERR_TOPIC_AUTHORIZATION_FAILED,                  29,   FATE_REPLY,  "topic authorization failed") \
    X(ERR_GROUP_AUTHORIZATION_FAILED,                  30,   FATE_REPLY,  "group authorization failed") \
    X(ERR_CLUSTER_AUTHORIZATION_FAILED,                31,   FATE_REPLY,  "cluster authorization failed") \
    X(ERR_INVALID_TIMESTAMP,                           32,   FATE_REPLY,  "invalid timestamp") \
    X(ERR_UNSUPPORTED_SASL_MECHANISM,                  33,   FATE_REPLY,  "unsupported sasl mechanism") \
    X(ERR_ILLEGAL_SASL_STATE,                          34,   FATE_REPLY,  "illegal sasl state") \
    X(ERR_UNSUPPORTED_VERSION,                         35,   FATE_REPLY,  "unsupported version") \
    X(ERR_TOPIC_ALREADY_EXISTS,                        36,   FATE_REPLY,  "topic already exists") \
    X(ERR_INVALID_PARTITIONS,                          37,   FATE_REPLY,  "invalid partitions") \
    X(ERR_INVALID_REPLICATION_FACTOR,                  38,   FATE_REPLY,  "invalid replication factor") \
    X(ERR_INVALID_REPLICA_ASSIGNMENT,                  39,   FATE_REPLY,  "invalid replica assignment") \
    X(ERR_INVALID_CONFIG,                              40,   FATE_REPLY,  "invalid config") \
    X(ERR_NOT_CONTROLLER,                              41,   FATE_REPLY,  "not controller") \
    X(ERR_INVALID_REQUEST,                             42,   FATE_REPLY,  "invalid request") \
    X(ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT,              43,   FATE_REPLY,  "unsupported for message format") \
    X(ERR_POLICY_VIOLATION,                            44,   FATE_REPLY,  "policy violation") \
    X(ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,                45,   FATE_REPLY,  "out of order sequence number") \
    X(ERR_DUPLICATE_SEQUENCE_NUMBER,                   46,   FATE_REPLY,  "duplicate sequence number") \
    X(ERR_INVALID_PRODUCER_EPOCH,                      47,   FATE_REPLY,  "invalid producer epoch") \
    X(ERR_INVALID_TXN_STATE,                           48,   FATE_REPLY,  "invalid txn state") \
    X(ERR_INVALID_PRODUCER_ID_MAPPING,                 49,   FATE_REPLY,  "invalid producer id mapping") \
    X(ERR_INVALID_TRANSACTION_TIMEOUT,                 50,   FATE_REPLY,  "invalid transaction timeout") \
    X(ERR_CONCURRENT_TRANSACTIONS,                     51,   FATE_REPLY,  "concurrent transactions") \
    X(ERR_TRANSACTION_COORDINATOR_FENCED,              52,   FATE_REPLY,  "transaction coordinator fenced") \
    X(ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED,       53,   FATE_REPLY,  "transactional id authorization failed") \
    X(ERR_SECURITY_DISABLED,                           54,   FATE_REPLY,  "security disabled") \
    X(ERR_OPERATION_NOT_ATTEMPTED,                     55,   FATE_REPLY,  "operation not attempted") \
    X(ERR_KAFKA_STORAGE_ERROR,                         56,   FATE_REPLY,  "kafka storage error") \
    X(ERR_LOG_DIR_NOT_FOUND,                           57,   FATE_REPLY,  "log dir not found") \
    X(ERR_SASL_AUTHENTICATION_FAILED,                  58,   FATE_REPLY,  "sasl authentication failed") \
    X(ERR_UNKNOWN_PRODUCER_ID,                         59,   FATE_REPLY,  "unknown producer id") \
    X(ERR_REASSIGNMENT_IN_PROGRESS,                    60,   FATE_REPLY,  "reassignment in progress") \
    X(ERR_DELEGATION_TOKEN_AUTH_DISABLED,              61,   FATE_REPLY,  "delegation token auth disabled") \
    X(ERR_DELEGATION_TOKEN_NOT_FOUND,                  62,   FATE_REPLY,  "delegation token not found") \
    X(ERR_DELEGATION_TOKEN_OWNER_MISMATCH,             63,   FATE_REPLY,  "delegation token owner mismatch") \
    X(ERR_DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,        64,   FATE_REPLY,  "delegation token request not allowed") \
    X(ERR_DELEGATION_TOKEN_AUTHORIZATION_FAILED,       65,   FATE_REPLY,  "delegation token authorization failed") \
    X(ERR_DELEGATION_TOKEN_EXPIRED,                    66,   FATE_REPLY,  "delegation token expired") \
    X(ERR_INVALID_PRINCIPAL_TYPE,                      67,   FATE_REPLY,  "invalid principal type") \
    X(ERR_NON_EMPTY_GROUP,                             68,   FATE_REPLY,  "non empty group") \
    X(ERR_GROUP_ID_NOT_FOUND,                          69,   FATE_REPLY,  "group id not found") \
    X(ERR_FETCH_SESSION_ID_NOT_FOUND,                  70,   FATE_REPLY,  "fetch session id not found") \
    X(ERR_INVALID_FETCH_SESSION_EPOCH,                 71,   FATE_REPLY,  "invalid fetch session epoch") \
    X(ERR_LISTENER_NOT_FOUND,                          72,   FATE_REPLY,  "listener not found") \
    X(ERR_TOPIC_DELETION_DISABLED,                     73,   FATE_REPLY,  "topic deletion disabled") \
    X(ERR_FENCED_LEADER_EPOCH,                         74,   FATE_REPLY,  "fenced leader epoch") \
    X(ERR_UNKNOWN_LEADER_EPOCH,                        75,   FATE_REPLY,  "unknown leader epoch") \
    X(ERR_UNSUPPORTED_COMPRESSION_TYPE,                76,   FATE_REPLY,  "unsupported compression type") \
    X(ERR_STALE_BROKER_EPOCH,                          77,   FATE_REPLY,  "stale broker epoch") \
    X(ERR_OFFSET_NOT_AVAILABLE,                        78,   FATE_REPLY,  "offset not available") \
    X(ERR_MEMBER_ID_REQUIRED,                          79,   FATE_REPLY,  "member id required") \
    X(ERR_PREFERRED_LEADER_NOT_AVAILABLE,              80,   FATE_REPLY,  "preferred leader not available") \
    X(ERR_GROUP_MAX_SIZE_REACHED,                      81,   FATE_REPLY,  "group max size reached") \
    X(ERR_FENCED_INSTANCE_ID,                          82,   FATE_REPLY,  "fenced instance id") \
    X(ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE,              83,   FATE_REPLY,  "eligible leaders not available") \
    X(ERR_ELECTION_NOT_NEEDED,                         84,   FATE_REPLY,  "election not needed") \
    X(ERR_NO_REASSIGNMENT_IN_PROGRESS,                 85,   FATE_REPLY,  "no reassignment in progress") \
    X(ERR_GROUP_SUBSCRIBED_TO_TOPIC,                   86,   FATE_REPLY,  "group subscribed to topic") \
    X(ERR_INVALID_RECORD,                              87,   FATE_REPLY,  "invalid record") \
    X(ERR_UNSTABLE_OFFSET_COMMIT,                      88,   FATE_REPLY,  "unstable offset commit") \
    X(ERR_THROTTLING_QUOTA_EXCEEDED,                   89,   FATE_REPLY,  "throttling quota exceeded") \
    X(ERR_PRODUCER_FENCED,                             90,   FATE_REPLY,  "producer fenced") \
    X(ERR_RESOURCE_NOT_FOUND,                          91,   FATE_REPLY,  "resource not found") \
    X(ERR_DUPLICATE_RESOURCE,                          92,   FATE_REPLY,  "duplicate resource") \
    X(ERR_UNACCEPTABLE_CREDENTIAL,                     93,   FATE_REPLY,  "unacceptable credential") \
    X(ERR_INCONSISTENT_VOTER_SET,                      94,   FATE_REPLY,  "inconsistent voter set") \
    X(ERR_INVALID_UPDATE_VERSION,                      95,   FATE_REPLY,  "invalid update version") \
    X(ERR_FEATURE_UPDATE_FAILED,                       96,   FATE_REPLY,  "feature update failed") \
    X(ERR_PRINCIPAL_DESERIALIZATION_FAILURE,           97,   FATE_REPLY,  "principal deserialization failure") \
    X(ERR_SNAPSHOT_NOT_FOUND,                          98,   FATE_REPLY,  "snapshot not found") \
    X(ERR_POSITION_OUT_OF_RANGE,                       99,   FATE_REPLY,  "position out of range") \
    X(ERR_UNKNOWN_TOPIC_ID,                            100,  FATE_REPLY,  "unknown topic id") \
    X(ERR_DUPLICATE_BROKER_REGISTRATION,               101,  FATE_REPLY,  "duplicate broker registration") \
    X(ERR_BROKER_ID_NOT_REGISTERED,                    102,  FATE_REPLY,  "broker id not registered") \
    X(ERR_INCONSISTENT_TOPIC_ID,                       103,  FATE_REPLY,  "inconsistent topic id") \
    X(ERR_INCONSISTENT_CLUSTER_ID,                     104,  FATE_REPLY,  "inconsistent cluster id") \
    X(ERR_TRANSACTIONAL_ID_NOT_FOUND,                  105,  FATE_REPLY,  "transactional id not found") \
    X(ERR_FETCH_SESSION_TOPIC_ID_ERROR,                106,  FATE_REPLY,  "fetch session topic id error") \
    X(ERR_INELIGIBLE_REPLICA,                          107,  FATE_REPLY,  "ineligible replica") \
    X(ERR_NEW_LEADER_ELECTED,                          108,  FATE_REPLY,  "new leader elected") \
    X(ERR_OFFSET_MOVED_TO_TIERED_STORAGE,              109,  FATE_REPLY,  "offset moved to tiered storage") \
    X(ERR_FENCED_MEMBER_EPOCH,                         110,  FATE_REPLY,  "fenced member epoch") \
    X(ERR_UNRELEASED_INSTANCE_ID,                      111,  FATE_REPLY,  "unreleased instance id") \
    X(ERR_UNSUPPORTED_ASSIGNOR,                        112,  FATE_REPLY,  "unsupported assignor") \
    X(ERR_STALE_MEMBER_EPOCH,                          113,  FATE_REPLY,  "stale member epoch") \
    X(ERR_MISMATCHED_ENDPOINT_TYPE,                    114,  FATE_REPLY,  "mismatched endpoint type") \
    X(ERR_UNSUPPORTED_ENDPOINT_TYPE,                   115,  FATE_REPLY,  "unsupported endpoint type") \
    X(ERR_UNKNOWN_CONTROLLER_ID,                       116,  FATE_REPLY,  "unknown controller id") \
    X(ERR_UNKNOWN_SUBSCRIPTION_ID,                     117,  FATE_REPLY,  "unknown subscription id") \
    X(ERR_TELEMETRY_TOO_LARGE,                         118,  FATE_REPLY,  "telemetry too large") \
    X(ERR_INVALID_REGISTRATION,                        119,  FATE_REPLY,  "invalid registration") \
    X(ERR_TRANSACTION_ABORTABLE,                       120,  FATE_REPLY,  "transaction abortable") \
    X(ERR_INVALID_RECORD_STATE,                        121,  FATE_REPLY,  "invalid record state") \
    X(ERR_SHARE_SESSION_NOT_FOUND,                     122,  FATE_REPLY,  "share session not found") \
    X(ERR_INVALID_SHARE_SESSION_EPOCH,                 123,  FATE_REPLY,  "invalid share session epoch") \
    X(ERR_FENCED_STATE_EPOCH,                          124,  FATE_REPLY,  "fenced state epoch") \
    X(ERR_INVALID_VOTER_KEY,                           125,  FATE_REPLY,  "invalid voter key") \
    X(ERR_DUPLICATE_VOTER,                             126,  FATE_REPLY,  "duplicate voter") \
    X(ERR_VOTER_NOT_FOUND,                             127,  FATE_REPLY,  "voter not found") \
    X(ERR_INVALID_REGULAR_EXPRESSION,                  128,  FATE_REPLY,  "invalid regular expression") \
    X(ERR_REBOOTSTRAP_REQUIRED,                        129,  FATE_REPLY,  "rebootstrap required") \
    X(ERR_STREAMS_INVALID_TOPOLOGY,                    130,  FATE_REPLY,  "streams invalid topology") \
    X(ERR_STREAMS_INVALID_TOPOLOGY_EPOCH,              131,  FATE_REPLY,  "streams invalid topology epoch") \
    X(ERR_STREAMS_TOPOLOGY_FENCED,                     132,  FATE_REPLY,  "streams topology fenced") \
    X(ERR_SHARE_SESSION_LIMIT_REACHED,                 133,  FATE_REPLY,  "share session limit reached") \
    X(ERR_GROUP_DELETION_FAILED,                       134,  FATE_REPLY,  "group deletion failed") \
    X(ERR_STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,  135,  FATE_REPLY,  "streams topology description update failed") \
    X(ERR_CONTROLLER_ID_NOT_REGISTERED,                136,  FATE_REPLY,  "controller id not registered") \
    X(ERR_MALFORMED,                                   42,   FATE_CLOSE,  "bytes that cannot be parsed") \
    X(ERR_UNSERVED,                                    35,   FATE_CLOSE,  "api or version not served on this listener") \
    X(ERR_NOMEM,                                       -1,   FATE_REPLY,  "out of memory, or over the request's share of it") \
    X(ERR_IO,                                          56,   FATE_REPLY,  "input/output error") \
    X(ERR_NO_SPACE,                                    56,   FATE_REPLY,  "no space left on device") \
    X(ERR_PERMISSION,                                  56,   FATE_REPLY,  "permission denied") \
    X(ERR_NOT_FOUND,                                   56,   FATE_REPLY,  "no such file or directory") \
    X(ERR_EXISTS,                                      56,   FATE_REPLY,  "exists already") \
    X(ERR_NO_DESCRIPTORS,                              56,   FATE_REPLY,  "too many open files") \
    X(ERR_UNSUPPORTED,                                 56,   FATE_REPLY,  "not supported by the file system") \
    X(ERR_LOCKED,                                      56,   FATE_REPLY,  "locked by another process") \
    X(ERR_WOULD_BLOCK,                                 -1,   FATE_REPLY,  "not at hand without blocking") \
    X(ERR_LIMIT,                                       -1,   FATE_REPLY,  "a named limit is reached") \
    X(ERR_CLOSED,                                      13,   FATE_CLOSE,  "connection closed") \
    X(ERR_BUSY,                                        -1,   FATE_REPLY,  "in use") \
    X(ERR_DAMAGED,                                     2,    FATE_REPLY,  "stored bytes are damaged") \
    X(ERR_USAGE,                                       42,   FATE_REPLY,  "command line or configuration not usable") \
    X(ERR_END,                                         0,    FATE_REPLY,  "no more elements")
/* clang-format on */

/* Clang holds every function and function pointer that returns an error, static ones too, as if it were MUST_CHECK;
 * gcc knows the attribute on functions only. */
#ifdef __clang__
#define ERR_MUST_CHECK MUST_CHECK
#else
#define ERR_MUST_CHECK
#endif

#define ERR_NAME(name, wire, fate, text) name,
enum ERR_MUST_CHECK err { ERR_LIST(ERR_NAME) ERR_COUNT };
#undef ERR_NAME

/* The code on the wire (schema: every ErrorCode field). */
int16_t err_wire(enum err err);
/* "OFFSET_OUT_OF_RANGE": the name without ERR_, as Kafka's tools print it. */
const char *err_name(enum err err);
const char *err_text(enum err err);
enum err_fate err_fate(enum err err);
/* The error of a wire code that a peer sent; ERR_UNKNOWN_SERVER_ERROR for one we do not know. */
enum err err_from_wire(int16_t wire);
/* errno of a failed system call as an error; ERR_IO for what has no name of its own. */
enum err err_from_errno(int errno_value);

#endif
