/* group_versions: from which version on a request about groups says more, or is answered otherwise. */
#ifndef OTTLA_COORDINATOR_GROUP_VERSIONS_H
#define OTTLA_COORDINATOR_GROUP_VERSIONS_H

enum {
    JOIN_REBALANCE_TIMEOUT_SINCE = 1, /* before, the session time-out is both (KIP-62) */
    JOIN_ID_REQUIRED_SINCE = 4,       /* a dynamic member is given its id first (KIP-394) */
    JOIN_NULL_PROTOCOL_SINCE = 7,     /* before, where there is none it is "" (KIP-559) */
    JOIN_SKIP_ASSIGNMENT_SINCE = 9,   /* KIP-814 */
    SYNC_PROTOCOL_SINCE = 5,          /* KIP-559 */
    LEAVE_MEMBERS_SINCE = 3,          /* before, one member (KIP-345) */
    DESCRIBE_UNKNOWN_SINCE = 6,       /* an unknown group is an error (KIP-1043) */
    COMMIT_EPOCHS_SINCE = 9, /* carries member epochs; GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH are answered */
    COMMIT_IDS_SINCE = 10,   /* topics by id (KIP-848) */
    TXN_COMMIT_IDS_SINCE = 6,
    FETCH_GROUP_ERROR_SINCE = 2, /* an error of the group stands beside its topics */
    FETCH_GROUPS_SINCE = 8,      /* of several groups (KIP-709) */
    FETCH_IDS_SINCE = 10,
};

#endif
