"""Runs a sequence: its requests over connections of their own, and the answers as they came, with ids as names.

Who waits after which line is a part of what a broker does. Where it is known (from Apache Kafka), the next line is said when
all others have their answers, however slow the machine is; else, while it is found out, when nothing comes for a moment.
"""

import collections
import itertools
import re
import select
import struct
import time

from harness.patience import PATIENCE_SECONDS
from wire.client import Client

MOMENT_SECONDS = 0.3                # for who waits to have an answer after all
LONG_MOMENT_SECONDS = 1.5           # the same where it is not known who waits
TOPICS_MS = 10000
UUID_CHARS = 22                     # in base 64; ids that clients chose are shorter
RESOURCE_GROUP = 32
OWN_WORDS = ("IncrementalAlterConfigs", "DescribeConfigs", "CreateTopics", "DeleteTopics", "CreatePartitions")
SHARES = ("Assignment", "MemberAssignment")
_groups = itertools.count(1)
UNHEARD_ID = re.compile("-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")     # of one who was not told that it joined
WAITING = ("JoinGroup", "SyncGroup")
DROPPED = ("ThrottleTimeMs", "AuthorizedOperations", "ClientHost")


def without_words(value):
    """Its messages left out: of settings each broker speaks in words of its own."""
    if isinstance(value, dict):
        return {key: without_words(each) for key, each in value.items() if key != "ErrorMessage"}
    return [without_words(each) for each in value] if isinstance(value, list) else value


class Actor:
    """One client: a connection, and what it has learnt."""

    def __init__(self, broker, name):
        self.name = name
        self.connection = Client(broker, client_id=name)
        self.member = ""
        self.generation = -1
        self.epoch = 0              # in the consumer protocol, and what it owns there
        self.interval_ms = 0
        self.owned = {}
        self.given = {}             # partitions by topic, in the classic protocol
        self.lives = 0


def how_of(words):
    """{what: how} of `what=how`, and {what: True} of `what`."""
    return dict(word.split("=", 1) if "=" in word else (word, True) for word in words)


def assignment_of(data):
    """(version, {topic: partitions}) of a ConsumerProtocolAssignment; None of other bytes."""
    if not isinstance(data, (bytes, bytearray)) or len(data) < 10 or data[:2] not in (b"\0\0", b"\0\1"):
        return None
    at, topics = 6, {}
    for _ in range(struct.unpack(">i", data[2:6])[0]):
        size = struct.unpack(">h", data[at:at + 2])[0]
        name = data[at + 2:at + 2 + size].decode()
        count = struct.unpack(">i", data[at + 2 + size:at + 6 + size])[0]
        at += 6 + size + 4 * count
        topics[name] = list(struct.unpack(f">{count}i", data[at - 4 * count:at]))
    return data[1], topics


def with_topics(topics):
    """{topic: partitions} as the embedded protocol writes it."""
    out = struct.pack(">i", len(topics))
    for name, partitions in topics.items():
        out += struct.pack(">h", len(name)) + name.encode() + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return out


class Script:
    """One sequence against one broker."""

    def __init__(self, broker, topics, ids, restart=None, known=None):
        """known: what `waits` becomes, where that is known."""
        self.broker = broker
        self.topics = topics
        self.ids = ids              # of topics by name
        self.topic_of = {bytes(ids[name]): short for short, name in topics.items() if name in ids}
        self.restart = restart
        self.prefix = f"s{next(_groups)}-"
        self.actors = {}
        self.names = {}             # of member ids
        self.answers = []
        self.known = known
        self.waits = {}             # who waits after a line, by its number; a name for each answer

    def run(self, text):
        """The answers, as lists that JSON can hold."""
        try:
            for number, line in enumerate(filter(None, (part.strip() for part in text.split(";"))), 1):
                self.line(line, None if self.known is None else self.known.get(str(number), "").split())
                if waiting := self.waiting():
                    self.waits[str(number)] = " ".join(waiting)
            self.gather(MOMENT_SECONDS)
            for actor in self.actors.values():
                self.answers += [[actor.name, api, "waits"] for api, _, _ in actor.connection.awaited]
        finally:
            for actor in self.actors.values():
                actor.connection.close()
        # Of what several hear at once nobody can say who heard it first: each has an order of its own.
        return sorted(([who, what, self.plain(reply)] for who, what, reply in self.answers), key=lambda one: one[0])

    def waiting(self):
        """Whose answers are awaited."""
        return sorted(actor.name for actor in self.actors.values() for _ in actor.connection.awaited)

    def line(self, line, known):
        who, verb, *words = line.split()
        if who == "-":
            getattr(self, f"do_{verb}")(*words)
            return
        actor = self.actor(who)
        how = how_of(words)
        if "until" in how:
            self.repeat(actor, verb, how, "epoch", int(how.pop("until")))
        if "interval" in how:
            self.repeat(actor, verb, how, "interval_ms", int(how.pop("interval")))
        # What it asks on a connection where something waits is asked when that has its answer.
        blocked = bool(actor.connection.awaited)
        api = self.ask(actor, verb, how)
        if known is None:
            self.gather(LONG_MOMENT_SECONDS if blocked or api in WAITING else PATIENCE_SECONDS, self.answered(actor))
            self.gather(LONG_MOMENT_SECONDS)    # what others are answered with it
            return
        known = collections.Counter(known)
        self.gather(PATIENCE_SECONDS, lambda: collections.Counter(self.waiting()) <= known)
        if actor.name in known:
            self.gather(MOMENT_SECONDS)         # it does wait

    @staticmethod
    def answered(actor):
        return lambda: not actor.connection.awaited

    def actor(self, who):
        if who not in self.actors:
            self.actors[who] = Actor(self.broker, who)
        return self.actors[who]

    def ask(self, actor, verb, how):
        """Sends one request; as: with what another has learnt. What it is called."""
        knows = self.actors.get(how.pop("as", None), actor)
        api, version, body = getattr(self, f"ask_{verb}")(knows, how)
        self.send(actor, api, version, body)
        return api

    def send(self, actor, api, version, body):
        actor.connection.send(api, version, body)

    def repeat(self, actor, verb, how, what, wanted):
        """Asks the same again and again, until its member knows that: what a broker does beside its answers."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while getattr(actor, what) != wanted and time.monotonic() < deadline:
            self.ask(actor, verb, how)
            self.gather(PATIENCE_SECONDS, self.answered(actor))
            del self.answers[max(at for at, (who, _, _) in enumerate(self.answers) if who == actor.name)]

    def do_wait(self, ms):
        time.sleep(int(ms) / 1000)

    def do_restart(self):
        """The broker goes and comes back, with all that it had; who waits has to ask again."""
        for actor in self.actors.values():
            actor.connection.close()
        self.restart()
        for actor in self.actors.values():
            actor.connection = Client(self.broker, client_id=actor.name)

    def gather(self, seconds, enough=lambda: False):
        """All answers that come until it is enough, or for that time."""
        deadline = time.monotonic() + seconds
        while not enough():
            waiting = {actor.connection.socket: actor for actor in self.actors.values() if actor.connection.awaited}
            left = deadline - time.monotonic()
            if not waiting or left <= 0:
                return
            ready = select.select(list(waiting), [], [], left)[0]
            for actor in sorted((waiting[one] for one in ready), key=lambda one: one.name):
                self.hear(actor)

    def hear(self, actor):
        api, version, _ = actor.connection.awaited[0]
        reply = actor.connection.receive()
        if api == "JoinGroup":
            if len(reply["MemberId"]) >= UUID_CHARS and reply["MemberId"] not in self.names and reply["ErrorCode"] in (0, 79):
                actor.lives += 1
                self.names[reply["MemberId"]] = f"<{actor.name}{actor.lives}>"
            if reply["ErrorCode"] in (0, 79):
                actor.member = reply["MemberId"]
            if reply["ErrorCode"] == 0:
                actor.generation = reply["GenerationId"]
        if api == "ConsumerGroupHeartbeat" and reply["ErrorCode"] == 0:
            if len(reply["MemberId"] or "") >= UUID_CHARS and reply["MemberId"] not in self.names:
                actor.lives += 1
                self.names[reply["MemberId"]] = f"<{actor.name}{actor.lives}>"
            actor.member = reply["MemberId"] or actor.member
            actor.epoch = actor.generation = reply["MemberEpoch"]
            actor.interval_ms = reply["HeartbeatIntervalMs"]
            if reply["Assignment"] is not None:
                actor.owned = {part["TopicId"]: part["Partitions"] for part in reply["Assignment"]["TopicPartitions"]}
        if api == "SyncGroup" and reply["ErrorCode"] == 0:
            _, actor.given = assignment_of(reply["Assignment"]) or (0, {})
        if api == "CreateTopics":
            self.learn_topics(reply["Topics"])
        if api == "ListGroups":
            reply["Groups"] = [group for group in reply["Groups"] if group["GroupId"].startswith(self.prefix)]
        if api in OWN_WORDS:
            reply = without_words(reply)
        self.answers.append([actor.name, f"{api} {version}", reply])

    def learn_topics(self, made):
        """The ids of new topics; one that is made again has another, and is told apart."""
        for topic in made:
            if topic["ErrorCode"] == 0 and "TopicId" in topic:
                short = next(short for short, name in self.topics.items() if name == topic["Name"])
                before = sum(name.rstrip("'") == short for name in self.topic_of.values())
                self.ids[topic["Name"]] = topic["TopicId"]
                self.topic_of[bytes(topic["TopicId"])] = short + "'" * before

    @staticmethod
    def partitions(numbers):
        """Which partitions is the assignor's affair, and not the same from run to run."""
        return f"{len(numbers)} of them"

    def plain(self, value):
        """As it can be compared: ids by name, lists of members in order, times left out."""
        if isinstance(value, dict):
            if "TopicId" in value and "Partitions" in value and all(isinstance(one, int) for one in value["Partitions"]):
                value = {**value, "Partitions": self.partitions(value["Partitions"])}
            return {key: self.share(each) if key in SHARES else self.plain(each)
                    for key, each in value.items() if key not in DROPPED}
        if isinstance(value, (list, tuple)):
            return sorted((self.plain(each) for each in value), key=str)
        if isinstance(value, (bytes, bytearray)):
            return self.topic_of.get(bytes(value)) or value.decode("latin-1")
        if isinstance(value, str):
            for member, name in self.names.items():
                value = value.replace(member, name)
            for short, topic in self.topics.items():
                value = short if value == topic else value
            return UNHEARD_ID.sub("-<uuid>", value.replace(self.prefix, ""))
        return value

    def share(self, value):
        """A ConsumerProtocolAssignment: which partitions is the assignor's affair; other bytes as they are."""
        if assignment_of(value) is None:
            return self.plain(value)
        version, topics = assignment_of(value)
        told = sorted(f"{self.partitions(numbers).removesuffix(' them')} {self.plain(name)}" for name, numbers in topics.items())
        return f"version {version}: {', '.join(told) or 'nothing'}"

    # ---- the verbs ----

    def group(self, how):
        return "" if how.get("group") == "" else self.prefix + how.get("group", "g")

    def member(self, actor, how, key="member"):
        said = how.get(key)
        if said is None:
            return actor.member
        return self.actors[said].member if said in self.actors and self.actors[said].member else said

    @staticmethod
    def nullable(how, key, default):
        value = how.get(key, default)
        return None if value in ("null", "") and key in how and value == "null" else value

    def identity(self, actor, version, how, since):
        body = {"MemberId": self.member(actor, how)}
        if version >= since:
            body["GroupInstanceId"] = how.get("instance", getattr(actor, "instance", None)) or None
        return body

    def ask_join(self, actor, how):
        """meta=sub:t,u is a subscription of the consumer protocol; own: with what it has."""
        version = int(how.get("v", 9))
        if how.get("instance"):
            actor.instance = how["instance"]
            if actor.member and actor.generation < 0:
                actor.member = ""
        meta = how.get("meta", "m")
        if meta.startswith("sub:"):
            topics = [self.topics.get(one, one).encode() for one in meta[4:].split(",") if one]
            meta = struct.pack(">hi", 1, len(topics)) + b"".join(struct.pack(">h", len(name)) + name for name in topics)
            meta += struct.pack(">i", -1) + with_topics(actor.given if "own" in how else {})
        else:
            meta = meta.encode()
        names = [name for name in how.get("protocols", "range").split(",") if name]
        body = {"GroupId": self.group(how), "SessionTimeoutMs": int(how.get("session", 10000)),
                **self.identity(actor, version, how, 5), "ProtocolType": how.get("type", "consumer"),
                "Protocols": [{"Name": name, "Metadata": meta} for name in names]}
        if version >= 1:
            body["RebalanceTimeoutMs"] = int(how.get("rebalance", 20000))
        if version >= 8:
            body["Reason"] = how.get("reason")
        return "JoinGroup", version, body

    def ask_sync(self, actor, how):
        """a=text is what a gets; a=t/0+1 is an assignment of the consumer protocol."""
        version = int(how.get("v", 5))
        known = ("v", "gen", "member", "instance", "group", "type", "name")
        shares = [{"MemberId": self.member(actor, {"member": key}), "Assignment": self.portion(value)}
                  for key, value in how.items() if key not in known]
        body = {"GroupId": self.group(how), "GenerationId": int(how.get("gen", actor.generation)),
                **self.identity(actor, version, how, 3), "Assignments": shares}
        if version >= 5:
            body["ProtocolType"] = self.nullable(how, "type", "consumer")
            body["ProtocolName"] = self.nullable(how, "name", "range")
        return "SyncGroup", version, body

    def portion(self, text):
        topic, slash, partitions = text.partition("/")
        if not slash:
            return text.encode()
        return struct.pack(">h", 1) + with_topics({self.topics[topic]: list(map(int, partitions.split("+")))}) + struct.pack(">i", -1)

    def ask_beat(self, actor, how):
        version = int(how.get("v", 4))
        return "Heartbeat", version, {"GroupId": self.group(how), "GenerationId": int(how.get("gen", actor.generation)),
                                      **self.identity(actor, version, how, 3)}

    def ask_leave(self, actor, how):
        version = int(how.get("v", 5))
        if version < 3:
            return "LeaveGroup", version, {"GroupId": self.group(how), "MemberId": self.member(actor, how)}
        members = []
        for said in ([how.get("member", actor.name)] if "members" not in how else filter(None, how["members"].split(","))):
            if said.startswith("@"):
                members.append({"MemberId": "", "GroupInstanceId": said[1:]})
            else:
                who = self.actors[said].member if said in self.actors else "" if said == "none" else said
                members.append({"MemberId": who, "GroupInstanceId": how.get("instance", getattr(actor, "instance", None)) or None})
            if version >= 5:
                members[-1]["Reason"] = how.get("reason")
        return "LeaveGroup", version, {"GroupId": self.group(how), "Members": members}

    def ask_describe(self, _, how):
        version = int(how.get("v", 6))
        body = {"Groups": [self.group(how)]}
        if version >= 3:
            body["IncludeAuthorizedOperations"] = False
        return "DescribeGroups", version, body

    def ask_find(self, _, how):
        version = int(how.get("v", 6))
        body = {"Key": self.group(how)} if version < 4 else {"CoordinatorKeys": [self.group(how)]}
        if version >= 1:
            body["KeyType"] = int(how.get("type", 0))
        return "FindCoordinator", version, body

    def ask_list(self, _, how):
        version = int(how.get("v", 5))
        body = {}
        if version >= 4:
            body["StatesFilter"] = [one for one in how.get("states", "").split(",") if one]
        if version >= 5:
            body["TypesFilter"] = [one for one in how.get("types", "").split(",") if one]
        return "ListGroups", version, body

    def ask_delete(self, _, how):
        return "DeleteGroups", 2, {"GroupsNames": [self.group(how)] * (2 if "twice" in how else 1)}

    def places(self, how):
        """{topic: {partition: offset or None}} of t/0=5 or t/0,t/1."""
        found = {}
        for key, value in how.items():
            for place in key.split(","):
                if "/" in place:
                    topic, partition = place.split("/")
                    found.setdefault(self.topics.get(topic, topic), {})[int(partition)] = value
        return found

    def topic(self, name, version):
        """What names a topic in requests of offsets."""
        return {"Name": name} if version < 10 else {"TopicId": self.ids.get(name, name.encode()[-16:].ljust(16, b"!"))}

    def ask_commit(self, actor, how):
        version = int(how.get("v", 9))
        meta = "x" * int(how["metasize"]) if "metasize" in how else self.nullable(how, "meta", "")
        def entry(partition, offset):
            body = {"PartitionIndex": partition, "CommittedOffset": int(offset), "CommittedMetadata": meta}
            if version >= 6:
                body["CommittedLeaderEpoch"] = int(how.get("lepoch", -1))
            return body
        body = {"GroupId": self.group(how), "GenerationIdOrMemberEpoch": int(how.get("gen", actor.generation)),
                **self.identity(actor, version, how, 7),
                "Topics": [{**self.topic(topic, version), "Partitions": [entry(*one) for one in parts.items()]}
                           for topic, parts in self.places(how).items()]}
        if 2 <= version <= 4:
            body["RetentionTimeMs"] = -1
        return "OffsetCommit", version, body

    def ask_fetch(self, actor, how):
        version = int(how.get("v", 9))
        topics = None if how.get("all") else [{**self.topic(topic, version), "PartitionIndexes": list(parts)}
                                              for topic, parts in self.places(how).items()]
        if version < 8:
            body = {"GroupId": self.group(how), "Topics": topics}
        else:
            body = {"Groups": [{"GroupId": self.group(how), "Topics": topics}]}
            if version >= 9:
                body["Groups"][0]["MemberId"] = self.member(actor, how) if "member" in how else None
                body["Groups"][0]["MemberEpoch"] = int(how.get("epoch", -1))
        if version >= 7:
            body["RequireStable"] = bool(how.get("stable"))
        return "OffsetFetch", version, body

    def ask_offsetdelete(self, _, how):
        return "OffsetDelete", 0, {"GroupId": self.group(how), "Topics": [
            {"Name": topic, "Partitions": [{"PartitionIndex": partition} for partition in parts]}
            for topic, parts in self.places(how).items()]}

    # ---- topics ----

    def ask_create(self, _, how):
        """t=3 makes t with three partitions."""
        return "CreateTopics", 7, {"Topics": [{"Name": self.topics[short], "NumPartitions": int(count), "ReplicationFactor": 1}
                                              for short, count in how.items()]}

    def ask_grow(self, _, how):
        return "CreatePartitions", 3, {"TimeoutMs": TOPICS_MS, "Topics": [
            {"Name": self.topics[short], "Count": int(count), "Assignments": None} for short, count in how.items()]}

    def ask_drop(self, _, how):
        return "DeleteTopics", 5, {"TimeoutMs": TOPICS_MS, "TopicNames": [self.topics[short] for short in how]}

    # ---- the consumer protocol (KIP-848) ----

    def ask_hb(self, actor, how):
        """join: all that a first heartbeat says; own: what it owns; left, gone: it leaves, for good or for now."""
        version = int(how.get("v", 1))
        epoch = 0 if "join" in how else -1 if "left" in how else -2 if "gone" in how else actor.epoch
        member = self.member(actor, how) or (f"{self.prefix}{actor.name}" if version > 0 and "member" not in how else "")
        if how.get("instance"):
            actor.instance = how["instance"]
        topics = how.get("topics")
        body = {"GroupId": self.group(how), "MemberId": member, "MemberEpoch": int(how.get("epoch", epoch)),
                "InstanceId": how.get("instance", getattr(actor, "instance", None)), "RackId": how.get("rack"),
                "RebalanceTimeoutMs": int(how.get("rebalance", 60000 if "join" in how else -1)),
                "SubscribedTopicNames": None if topics is None else [self.topics.get(one, one)
                                                                     for one in topics.split(",") if one],
                "ServerAssignor": how.get("assignor"), "TopicPartitions": None}
        if version > 0:
            body["SubscribedTopicRegex"] = how["regex"].format(**self.topics) if "regex" in how else None
        if "join" in how and "owned" not in how:
            actor.owned = {}
            body["TopicPartitions"] = []
        if "own" in how:
            body["TopicPartitions"] = [{"TopicId": topic, "Partitions": parts}
                                       for topic, parts in actor.owned.items() if parts]
        if "none" in how:
            body["TopicPartitions"] = []
        return "ConsumerGroupHeartbeat", version, body

    def ask_cdescribe(self, _, how):
        return "ConsumerGroupDescribe", int(how.get("v", 1)), {"GroupIds": [self.group(how)],
                                                               "IncludeAuthorizedOperations": False}

    # ---- settings of a group ----

    def ask_alter(self, _, how):
        """key=value sets, key= goes back to the default; dots make a key."""
        configs = [{"Name": key, "ConfigOperation": 0 if value else 1, "Value": value or None}
                   for key, value in how.items() if key not in ("group",)]
        return "IncrementalAlterConfigs", 1, {"ValidateOnly": False, "Resources": [
            {"ResourceType": RESOURCE_GROUP, "ResourceName": self.group(how), "Configs": configs}]}

    def ask_settings(self, _, how):
        keys = [key for key in how if key not in ("group",)] or None
        return "DescribeConfigs", 4, {"IncludeSynonyms": True, "IncludeDocumentation": False, "Resources": [
            {"ResourceType": RESOURCE_GROUP, "ResourceName": self.group(how), "ConfigurationKeys": keys}]}
