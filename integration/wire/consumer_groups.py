"""Heartbeats of the consumer protocol (KIP-848): sequences of requests whose answers Apache Kafka 4.4 gave.

A sequence is a list of steps; each is (member, what it says), and the answer is noted as (error, epoch, assignment), the
assignment as how many partitions of each topic, or None where it is not told: which ones is the assignor's affair.
"""

import contextlib

from harness.patience import eventually, until

from .client import Client

HOUR_MS = 3_600_000
UNKNOWN_MEMBER, INVALID, GROUP_NOT_FOUND, FENCED_EPOCH, ASSIGNOR, REGEX = 25, 42, 69, 110, 112, 128


class Member:
    """What a client knows: its epoch, and what it owns."""

    def __init__(self, member_id):
        self.id = member_id
        self.epoch = 0
        self.owned = {}


class Sequence:
    """A group, its topics and its members by name."""

    def __init__(self, env, c, group):
        self.env, self.c, self.group = env, c, group
        self.members = {}
        self.names = {}
        self.number = 0

    def topic(self, name, partitions):
        made = self.c.create(partitions, kind=f"{self.group}-{name}")
        self.names[self.c.ids[made]] = name
        return made

    def _body(self, member, says):
        body = {"GroupId": self.group, "MemberId": member.id, "MemberEpoch": member.epoch, "RebalanceTimeoutMs": -1,
                "InstanceId": None, "RackId": None, "SubscribedTopicNames": None, "SubscribedTopicRegex": None,
                "ServerAssignor": None, "TopicPartitions": None}
        if says.pop("join", False):
            member.epoch = 0
            body.update(MemberEpoch=0, RebalanceTimeoutMs=60000, TopicPartitions=[])
        if says.pop("own", False):
            body["TopicPartitions"] = [{"TopicId": topic, "Partitions": parts}
                                       for topic, parts in member.owned.items() if parts]
        body.update(says)
        return body

    def beat(self, name, expected=..., **says):
        """One heartbeat; keep: the member does not take over what it is told."""
        reply, found = self._beat(name, **says)
        self.see(name, found, expected)
        return reply

    def beat_until(self, name, expected, **says):
        """The same again and again, until the answer shows what the broker has done meanwhile."""
        self.see(name, eventually(lambda: self._beat(name, **says)[1], lambda found: found == expected), expected)

    def _beat(self, name, version=1, keep=False, **says):
        member = self.members.setdefault(name, Member(name))
        reply = self.c.call("ConsumerGroupHeartbeat", version, self._body(member, says))
        told = None
        if reply["Assignment"] is not None:
            parts = {part["TopicId"]: part["Partitions"] for part in reply["Assignment"]["TopicPartitions"]}
            told = {self.names[topic]: len(owned) for topic, owned in parts.items()}
            if not keep:
                member.owned = parts
        if reply["ErrorCode"] == 0 and not keep:
            member.epoch = reply["MemberEpoch"]
        return reply, (reply["ErrorCode"], reply["MemberEpoch"], told)

    def see(self, label, value, expected=...):
        self.number += 1
        self.env.see(f"{self.number}: {label}", value, expected)

    def describe(self, expected):
        self.see("group", self._describe(), expected)

    def describe_until(self, expected):
        """Asked again and again, until the broker has done what it does beside its answers."""
        self.see("group", eventually(self._describe, lambda found: found == expected), expected)

    def _describe(self):
        reply = self.c.call("ConsumerGroupDescribe", 1, {"GroupIds": [self.group]})["Groups"][0]
        members = sorted((m["MemberId"], m["MemberEpoch"], m["MemberType"],
                          sum(len(part["Partitions"]) for part in m["Assignment"]["TopicPartitions"]),
                          sum(len(part["Partitions"]) for part in m["TargetAssignment"]["TopicPartitions"]))
                         for m in reply["Members"])
        return (reply["ErrorCode"], reply["GroupState"], reply["GroupEpoch"], reply["AssignmentEpoch"],
                reply["AssignorName"], members)


@contextlib.contextmanager
def sequence(env, group, **config):
    """On a broker of its own that computes a target whenever it may, unless told otherwise."""
    config.setdefault("group_consumer_assignment_interval_ms", 0)
    with env.own_broker(**config) as node, Client(node) as c:
        await_coordinator(c, group)
        yield Sequence(env, c, group)


def await_coordinator(c, group):
    """The offsets topic is made on first use."""
    def serves():
        reply = c.call("FindCoordinator", 4, {"KeyType": 0, "CoordinatorKeys": [group]})
        if reply["Coordinators"][0]["ErrorCode"] != 0:
            return False
        reply = c.call("ConsumerGroupDescribe", 1, {"GroupIds": [group]})
        return reply["Groups"][0]["ErrorCode"] not in (14, 15, 16)
    until("a coordinator", serves)


def test_consumer_joins_and_leaves(env):
    """One has all; a second one gets its part when the first has given it back; who leaves lets the others have it."""
    with sequence(env, "joins") as s:
        t = s.topic("t", 3)
        s.describe((69, '', 0, 0, '', []))
        s.beat("a", (0, 2, {'t': 3}), join=True, SubscribedTopicNames=[t])
        s.beat("a", (0, 2, None))
        s.beat("b", (0, 3, {}), join=True, SubscribedTopicNames=[t])
        s.beat("b", (0, 3, None))
        s.describe((0, 'Reconciling', 3, 3, 'uniform', [('a', 2, 1, 3, 2), ('b', 3, 1, 0, 1)]))
        s.beat("a", (0, 2, {'t': 2}), keep=True, own=True)
        s.describe((0, 'Reconciling', 3, 3, 'uniform', [('a', 2, 1, 3, 2), ('b', 3, 1, 0, 1)]))
        s.beat("a", (0, 2, None), keep=True, own=True)
        s.beat("a", (0, 2, {'t': 2}), own=True, RebalanceTimeoutMs=60000, SubscribedTopicNames=[t])
        s.beat("a", (0, 3, None), own=True)
        s.beat("b", (0, 3, {'t': 1}))
        s.describe((0, 'Stable', 3, 3, 'uniform', [('a', 3, 1, 2, 2), ('b', 3, 1, 1, 1)]))
        s.beat("a", (0, -1, None), MemberEpoch=-1)
        s.beat("b", (0, 4, {'t': 3}))
        s.beat("b", (0, -1, None), MemberEpoch=-1)
        s.describe((0, 'Empty', 5, 5, 'uniform', []))
        s.beat("b", (25, 0, None), MemberEpoch=-1)
        s.beat("c", (0, 6, {'t': 3}), join=True, SubscribedTopicNames=[t])


def test_consumer_mistakes(env):
    """What a request shows to be wrong by itself, and the words for it."""
    with sequence(env, "mistakes") as s:
        t = s.topic("t", 1)
        ok = {"join": True, "SubscribedTopicNames": [t]}
        for says, error, words in (
                ({"MemberId": ""}, INVALID, "MemberId can't be empty."),
                ({"GroupId": ""}, INVALID, "GroupId can't be empty."),
                ({"InstanceId": ""}, INVALID, "InstanceId can't be empty."),
                ({"RackId": ""}, INVALID, "RackId can't be empty."),
                ({"RebalanceTimeoutMs": -1}, INVALID, "RebalanceTimeoutMs must be provided in first request."),
                ({"TopicPartitions": None}, INVALID, "TopicPartitions must be empty when (re-)joining."),
                ({"TopicPartitions": [{"TopicId": s.c.ids[t], "Partitions": [0]}]}, INVALID,
                 "TopicPartitions must be empty when (re-)joining."),
                ({"SubscribedTopicNames": None}, INVALID,
                 "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."),
                ({"MemberEpoch": -2}, INVALID, "InstanceId can't be null."),
                ({"MemberEpoch": -3}, INVALID, "MemberEpoch is invalid."),
                ({"ServerAssignor": "sticky"}, ASSIGNOR,
                 "ServerAssignor sticky is not supported. Supported assignors: uniform, range."),
                ({"SubscribedTopicRegex": "(?=a)"}, REGEX,
                 "SubscribedTopicRegex `(?=a)` is not a valid regular expression: invalid or unsupported Perl syntax."),
                ({"MemberEpoch": 1}, GROUP_NOT_FOUND, "Consumer group mistakes not found."),
                ({"MemberEpoch": -1}, GROUP_NOT_FOUND, "Group mistakes not found.")):
            reply = s.beat("a", (error, 0, None), **{**ok, **says})
            s.see("words", reply["ErrorMessage"], words)
        s.beat("a", (0, 2, {'t': 1}), **ok)
        for member, says, error, words in (
                ("x", {"MemberEpoch": 1}, UNKNOWN_MEMBER, "Member x is not a member of group mistakes."),
                ("a", {"MemberEpoch": 3}, FENCED_EPOCH,
                 "The consumer group member has a greater member epoch (3) than the one known by the group coordinator "
                 "(2). The member must abandon all its partitions and rejoin."),
                ("a", {"InstanceId": "i", "MemberEpoch": 1}, UNKNOWN_MEMBER, "Instance id i is unknown."),
                ("x", {"MemberEpoch": -1}, UNKNOWN_MEMBER, "Member x is not a member of group mistakes.")):
            reply = s.beat(member, (error, 0, None), keep=True, **says)
            s.see("words", reply["ErrorMessage"], words)


def test_consumer_lost_answers(env):
    """Trap B145: the epoch before counts where the answer was lost; a full request is told everything."""
    with sequence(env, "lost") as s:
        t = s.topic("t", 4)
        s.beat("a", (0, 2, {'t': 4}), join=True, SubscribedTopicNames=[t])
        s.beat("a", (0, 2, {'t': 4}), join=True, SubscribedTopicNames=[t])
        s.beat("b", (0, 3, {}), join=True, SubscribedTopicNames=[t])
        s.beat("a", (0, 2, {'t': 2}), own=True)
        s.beat("a", (0, 3, None), keep=True, own=True)
        s.beat("a", (0, 3, None), keep=True, own=True)
        s.beat("a", (110, 0, None), keep=True)
        s.beat("a", (0, 3, {'t': 2}), keep=True, own=True, RebalanceTimeoutMs=60000, SubscribedTopicNames=[t])
        s.beat("a", (0, 3, None), own=True)
        s.describe((0, 'Reconciling', 3, 3, 'uniform', [('a', 3, 1, 2, 2), ('b', 3, 1, 0, 2)]))


def test_consumer_static_members(env):
    """KIP-345 in the new protocol: leaves for now, comes back under another id, is fenced."""
    with sequence(env, "static") as s:
        t = s.topic("t", 2)
        ok = {"join": True, "SubscribedTopicNames": [t], "InstanceId": "i"}
        s.beat("a", (0, 2, {'t': 2}), **ok)
        s.beat("b", (111, 0, None), **ok)
        s.beat("a", (111, 0, None), keep=True, **ok)
        s.beat("b", (82, 0, None), MemberEpoch=1, InstanceId="i")
        s.beat("a", (0, -2, None), MemberEpoch=-2, InstanceId="i")
        s.describe((0, 'Reconciling', 2, 2, 'uniform', [('a', -2, 1, 2, 2)]))
        s.beat("b", (0, 2, {'t': 2}), **ok)
        s.beat("a", (82, 0, None), MemberEpoch=1, InstanceId="i")
        s.beat("b", (0, -1, None), MemberEpoch=-1, InstanceId="i")
        s.describe((0, 'Empty', 3, 3, 'uniform', []))


def test_consumer_subscription_changes(env):
    """Another subscription takes effect at once; another assignor is a new epoch."""
    with sequence(env, "changes") as s:
        t, u = s.topic("t", 3), s.topic("u", 2)
        s.beat("a", (0, 2, {'t': 3, 'u': 2}), join=True, SubscribedTopicNames=[t, u])
        s.beat("a", (0, 2, {'u': 2}), SubscribedTopicNames=[u])
        s.beat("a", (0, 3, None), own=True)
        s.beat("a", (0, 4, None), ServerAssignor="range")
        s.beat("a", (0, 4, None), own=True)
        s.describe((0, 'Stable', 4, 4, 'range', [('a', 4, 1, 2, 2)]))


def test_consumer_assignment_interval(env):
    """KIP-1263: a target is computed at most once an interval, but for the first; a shorter interval counts at once."""
    with sequence(env, "interval", group_consumer_max_assignment_interval_ms=HOUR_MS,
                  group_consumer_assignment_interval_ms=HOUR_MS) as s:
        t = s.topic("t", 2)
        s.beat("a", (0, 2, {'t': 2}), join=True, SubscribedTopicNames=[t])
        s.beat("b", (0, 2, {}), join=True, SubscribedTopicNames=[t])
        s.beat("b", (0, 2, None))
        s.describe((0, 'Assigning', 3, 2, 'uniform', [('a', 2, 1, 2, 2), ('b', 2, 1, 0, 0)]))
        s.c.call("IncrementalAlterConfigs", 1, {"ValidateOnly": False, "Resources": [
            {"ResourceType": 32, "ResourceName": "interval", "Configs": [
                {"Name": "consumer.assignment.interval.ms", "ConfigOperation": 0, "Value": "0"}]}]})
        s.beat_until("b", (0, 3, None))
        s.describe((0, 'Reconciling', 3, 3, 'uniform', [('a', 2, 1, 2, 1), ('b', 3, 1, 0, 1)]))


def test_consumer_regex(env):
    """An expression is resolved beside the heartbeats."""
    with sequence(env, "regex") as s:
        s.topic("x1", 3)
        s.beat("a", (0, 1, {}), join=True, SubscribedTopicRegex="regex-x.*")
        s.describe_until((0, 'Assigning', 2, 1, 'uniform', [('a', 1, 1, 0, 0)]))
        s.beat("a", (0, 2, {'x1': 3}), join=True, SubscribedTopicRegex="regex-x.*")
        s.beat("b", (0, 3, {}), join=True, SubscribedTopicRegex="regex-x.*")
        s.beat("a", (0, 2, {'x1': 2}), own=True)
        s.beat("a", (0, 3, None), own=True)
        s.beat("b", (0, 3, {'x1': 1}))
        s.beat("a", (0, 3, {}), SubscribedTopicRegex="", SubscribedTopicNames=[])
        s.beat("a", (0, 4, None), own=True)
        s.describe((0, 'Reconciling', 4, 4, 'uniform', [('a', 4, 1, 0, 0), ('b', 3, 1, 1, 3)]))


def test_consumer_full_group(env):
    """A group that is full takes nobody else."""
    with sequence(env, "full", group_consumer_max_size=1) as s:
        t = s.topic("t", 1)
        s.beat("a", (0, 2, {'t': 1}), join=True, SubscribedTopicNames=[t])
        reply = s.beat("b", (81, 0, None), join=True, SubscribedTopicNames=[t])
        s.see("words", reply["ErrorMessage"], "The consumer group has reached its maximum capacity of 1 members.")
        s.beat("a", (0, 2, {'t': 1}), join=True, SubscribedTopicNames=[t])


def test_consumer_metadata(env):
    """More partitions are a new epoch at the next heartbeat; a topic that goes is given back."""
    with sequence(env, "metadata") as s:
        t, u = s.topic("t", 2), s.topic("u", 1)
        s.beat("a", (0, 2, {'u': 1, 't': 2}), join=True, SubscribedTopicNames=[t, u])
        reply = s.c.call("CreatePartitions", 3, {"Topics": [{"Name": t, "Count": 3, "Assignments": None}],
                                                 "TimeoutMs": 10000, "ValidateOnly": False})
        s.see("partitions", reply["Results"][0]["ErrorCode"], 0)
        s.c.await_leaders(t, 3)
        s.beat_until("a", (0, 3, {'u': 1, 't': 3}))
        s.c.call("DeleteTopics", 6, {"TimeoutMs": 10000, "Topics": [{"Name": u, "TopicId": bytes(16)}]})
        s.beat_until("a", (0, 3, {'t': 3}), own=True)
        s.beat("a", (0, 4, None), own=True)
        s.describe((0, 'Stable', 4, 4, 'uniform', [('a', 4, 1, 3, 3)]))
