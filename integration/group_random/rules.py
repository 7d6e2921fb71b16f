"""What of two brokers is not compared, and why: where Ottla has a better answer, and what Apache Kafka decides by chance."""

import json
import re

from group_answers.script import WAITING
from group_answers.suite import ordered

METADATA_MAX = 4096


def an_unused_id_leaves(side, api, body):
    """To Apache Kafka a reason for a rebalance, here none: for everybody else nothing has changed."""
    return api == "LeaveGroup" and bool(
        side.handed_out & {body.get("MemberId"), *(member["MemberId"] for member in body.get("Members", ()))})


def somebody_waits_under_that_id(side, api, body):
    """Whoever asked first is never answered by Apache Kafka then; here it is told at once that another has come."""
    return api in WAITING and body["MemberId"] != "" and any(
        actor.connection.awaited and side.asked[actor.name].get("MemberId") == body["MemberId"] for actor in side.actors.values())


def nothing_but_long_metadata(_, api, body):
    """An administrator's commit of which nothing is taken makes a group of Apache Kafka's memory, and none of its log."""
    parts = [part for topic in body["Topics"] for part in topic["Partitions"]] if api == "OffsetCommit" else []
    return any(len(part["CommittedMetadata"] or "") > METADATA_MAX for part in parts) and body["GenerationIdOrMemberEpoch"] < 0


def a_name_for_an_unused_id(side, api, body):
    """Apache Kafka fails over it (an IllegalStateException of its ClassicGroup)."""
    return api == "JoinGroup" and body.get("GroupInstanceId") is not None and body["MemberId"] in side.handed_out


def another_name(side, api, body):
    """A member's name is of its configuration and stays; one that changes it has its partitions taken by Apache Kafka."""
    return api == "ConsumerGroupHeartbeat" and body["MemberEpoch"] == 0 and \
        side.named.get(body["MemberId"], body["InstanceId"]) != body["InstanceId"]


def another_expression(side, api, body):
    """Where an expression goes with its last member, others are resolved at once; Apache Kafka keeps the 10 s after the one that
    goes, for one request more."""
    if api not in ("ConsumerGroupHeartbeat", "JoinGroup"):
        return False
    name = body.get("GroupInstanceId", body.get("InstanceId"))
    same = {body["MemberId"], *(member for member, its in side.named.items() if its == name and name)}
    says = "" if api == "JoinGroup" else body.get("SubscribedTopicRegex")
    return says is not None and bool({side.expressions.get(member) for member in same} - {None, "", says})


def an_unknown_id_joins_an_empty_group(side, api, body):
    """It is refused (25), but Apache Kafka has forgotten the consumer group by then: until it restarts, as its log knows better."""
    if api != "JoinGroup" or not body["MemberId"]:
        return False
    group = side.barrier.call("ConsumerGroupDescribe", 1, {"GroupIds": [body["GroupId"]]})["Groups"][0]
    return group["ErrorCode"] == 0 and group["GroupState"] == "Empty"


# What is not asked.
LEFT_OUT = (an_unknown_id_joins_an_empty_group, another_expression, another_name, a_name_for_an_unused_id, an_unused_id_leaves,
            somebody_waits_under_that_id, nothing_but_long_metadata)


def upgrade_that_fails(line, sides, kafkas, ours):
    """Apache Kafka sends waiting members off (27) before it sees that the heartbeat is to be refused; and it fails (-1) where a
    member no longer supports the protocol that the others have chosen."""
    def left(answers):
        return [one for one in answers if '"ErrorCode": 27' not in one[2] and
                not (one[1].startswith("ConsumerGroupHeartbeat") and re.search('"ErrorCode": (69|-1),', one[2]))]
    return line.split()[1] == "hb" and len(left(kafkas)) < len(kafkas) and left(kafkas) == left(ours)


def without(keys, value):
    if isinstance(value, dict):
        return {key: without(keys, each) for key, each in value.items() if key not in keys}
    return ordered([without(keys, each) for each in value]) if isinstance(value, list) else value


def same_without(keys, kafkas, ours):
    hidden = [[(who, what, without(keys, json.loads(reply))) for who, what, reply in one] for one in (kafkas, ours)]
    return hidden[0] == hidden[1]


def another_leader(line, sides, kafkas, ours):
    """When a leader is gone, the next is the first in a hash map of ids that are random."""
    return any(what.startswith("JoinGroup") for _, what, _ in kafkas) and same_without(("Leader", "Members"), kafkas, ours)


def other_shares(line, sides, kafkas, ours):
    """Who comes first has its share first, and classic members of a consumer group have ids that are random. To who joins with
    an expression that is not resolved, or with no topics, Apache Kafka's range assignor may give what others subscribe to:
    it takes for granted then that all subscribe to the same."""
    return any(side.is_left_to_chance() for side in sides) and \
        same_without(("Assignment", "TargetAssignment", "MemberAssignment"), kafkas, ours)


# What makes the brokers' states differ from there on: the rest of the sequence says nothing.
ENDS = (another_leader, other_shares, upgrade_that_fails)
