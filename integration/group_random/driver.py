"""Asks two brokers the same, a request at a time, and says where their answers part."""

import collections
import concurrent.futures
import json
import re
import select
import time

from group_answers.script import UUID_CHARS, WAITING, Script, how_of, without_words
from group_answers.suite import ordered
from harness.patience import PATIENCE_SECONDS
from wire.client import Client
from wire.connection import Closed

from .rules import ENDS, LEFT_OUT

BARRIERS = 2                        # what a timer of no delay does is in line behind the first
WAIT_SECONDS = 0.03                 # JoinGroup or SyncGroup without an answer by then waits for somebody; times patience
PATIENCE = 10                       # for a difference to be shown again
BACKGROUND_SECONDS = 0.06           # for what is done beside the coordinator: expressions over topic names
TOPIC_SECONDS = 10
MEMBER_ID_REQUIRED = 79
EMPTY_SUBSCRIPTION = b"\0\1\0\0\0\0"
SHORTEN_TRIALS = 150
TOPIC_CHANGES = {"CreateTopics": "Topics", "CreatePartitions": "Results", "DeleteTopics": "Responses"}
# The order of a hash map, and an id that its owner was not told.
OWN_WORDS = re.compile(r"Supported assignors: [^\"]*|(?<=Static member )[\w-]{22}(?= )")


class Side(Script):
    """One of the brokers."""

    def __init__(self, node, barrier, topics, prefix, wait_seconds, background_seconds):
        super().__init__(node, {**topics, "v": prefix + "v"}, dict(barrier.ids))
        self.barrier = barrier
        self.prefix = prefix
        self.named = {}             # instances by member id
        self.expressions = {}       # likewise
        self.asked = {}             # by actor, its last
        self.handed_out = set()     # ids that were given to who has not joined with them yet
        self.random = False         # whether an id has no more to it than a random number
        self.subscribes_to_nothing = False
        self.wait_seconds = wait_seconds
        self.background_seconds = background_seconds

    def step(self, line):
        """The answers that this line brought, to whom it may; nothing is asked on a connection that waits."""
        who, verb, *words = line.split()
        actor = self.actor(who)
        if verb == "forget":
            self.forget(actor)
        elif not actor.connection.awaited:
            # Who has a higher one joined later, whatever the broker made of it: members are put in order by their ids.
            actor.connection.client_id = f"{who}{actor.lives}"
            api = self.ask(actor, verb, how_of(words))
            if api not in WAITING and actor.connection.awaited:
                self.gather(PATIENCE_SECONDS, self.answered(actor))
            if api in TOPIC_CHANGES and self.answers:
                self.await_topics(words[0])
            self.settle(api)
        found, self.answers = self.answers, []
        return sorted((who, what, OWN_WORDS.sub("", self.text(what, reply))) for who, what, reply in found)

    def send(self, actor, api, version, body):
        """But for what Ottla answers otherwise on purpose."""
        if not any(rule(self, api, body) for rule in LEFT_OUT):
            self.asked[actor.name] = body
            self.subscribes_to_nothing |= body.get("SubscribedTopicNames") == [] or EMPTY_SUBSCRIPTION in [
                each["Metadata"][:len(EMPTY_SUBSCRIPTION)] for each in body.get("Protocols", ())]
            super().send(actor, api, version, body)

    def is_left_to_chance(self):
        """Whether which partitions a member is to have may differ (other_shares)."""
        return self.random or self.background_seconds > 0 or self.subscribes_to_nothing

    def described(self):
        """Its groups, as they are."""
        reply = self.barrier.call("ConsumerGroupDescribe", 1, {"GroupIds": [self.prefix + name for name in ("g", "h")]})
        return [("", "ConsumerGroupDescribe 1", self.text("ConsumerGroupDescribe 1", reply))]

    def text(self, what, reply):
        if what.startswith("FindCoordinator"):
            reply = without_words(reply)
            reply = json.loads(json.dumps(reply).replace(f'"Port": {self.broker.port}', '"Port": "its own"'))
        if what.split()[0] in TOPIC_CHANGES:
            reply = [topic["ErrorCode"] for topic in reply[TOPIC_CHANGES[what.split()[0]]]]
        return json.dumps(ordered(self.plain(reply)), sort_keys=True)

    def actor(self, who):
        """A new connection asks first what all may ask: from then on the broker reads it in turn with others."""
        new = who not in self.actors
        actor = super().actor(who)
        if new:
            actor.connection.call("ApiVersions", 0)
        return actor

    @staticmethod
    def forget(actor):
        """A client that starts anew."""
        if not actor.connection.awaited:
            actor.member, actor.generation, actor.epoch, actor.owned, actor.given = "", -1, 0, {}, {}
            actor.instance = None

    def settle(self, api):
        """Waits until whoever is to be answered now has been: what is asked of the coordinator after it is answered after it.
        (A group that was left by all is Empty when a timer of no delay has fired, though nobody waits for that.)"""
        time.sleep(self.background_seconds)
        barriers = BARRIERS
        while True:
            waiting = {actor.connection.socket: actor for actor in self.actors.values() if actor.connection.awaited}
            if not waiting and not (barriers and api == "LeaveGroup"):
                return
            for _ in range(barriers):
                self.barrier.call("OffsetCommit", 8, {"GroupId": "barrier", "Topics": [
                    {"Name": self.topics["t"], "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 0}]}]})
            barriers = 0
            ready = select.select(list(waiting), [], [], self.wait_seconds)[0]
            if not ready:
                return
            for actor in sorted((waiting[one] for one in ready), key=lambda one: one.name):
                self.hear(actor)

    def hear(self, actor):
        api, version, _ = actor.connection.awaited[0]
        try:
            super().hear(actor)
            reply = self.answers[-1][2]
            if api in ("JoinGroup", "ConsumerGroupHeartbeat") and reply["ErrorCode"] == 0:
                body = self.asked[actor.name]
                self.random |= len(reply["MemberId"]) == UUID_CHARS
                if body.get("SubscribedTopicRegex") is not None:
                    self.expressions[reply["MemberId"]] = body["SubscribedTopicRegex"]
                self.named[reply["MemberId"]] = body.get("GroupInstanceId", body.get("InstanceId"))
            if api == "JoinGroup" and reply["ErrorCode"] == MEMBER_ID_REQUIRED:
                self.handed_out.add(reply["MemberId"])
            elif api == "JoinGroup" and reply["ErrorCode"] == 0:
                self.handed_out.discard(reply["MemberId"])
        except Closed:
            actor.connection.close()
            actor.connection = Client(self.broker, client_id=actor.name)
            actor.connection.call("ApiVersions", 0)
            self.answers.append([actor.name, f"{api} {version}", "closed"])

    def await_topics(self, word):
        """The coordinator learns of topics a moment after the controller has answered."""
        _, what, reply = self.answers[-1]
        if any(topic["ErrorCode"] for topic in reply[TOPIC_CHANGES[what.split()[0]]]):
            return
        short, _, count = word.partition("=")
        deadline = time.monotonic() + TOPIC_SECONDS
        while self.seen_partitions(self.topics[short]) != int(count or 0) and time.monotonic() < deadline:
            time.sleep(0.005)

    def seen_partitions(self, topic):
        """How many partitions the coordinator gives to a member of a group of its own."""
        body = {"GroupId": "probe", "MemberId": "probe", "RebalanceTimeoutMs": 60000, "SubscribedTopicNames": [topic], "TopicPartitions": []}
        reply = self.barrier.call("ConsumerGroupHeartbeat", 1, {**body, "MemberEpoch": 0})
        self.barrier.call("ConsumerGroupHeartbeat", 1, {**body, "MemberEpoch": -1})
        return sum(len(part["Partitions"]) for part in reply["Assignment"]["TopicPartitions"])

    @staticmethod
    def partitions(numbers):
        return "+".join(map(str, sorted(numbers)))

    def close(self):
        for actor in self.actors.values():
            actor.connection.close()
        if "v" in self.topic_of.values():
            self.barrier.call("DeleteTopics", 5, {"TopicNames": [self.topics["v"]], "TimeoutMs": 1000 * TOPIC_SECONDS})


class Difference:
    """Where answers parted."""

    def __init__(self, lines, answers):
        self.lines = lines
        self.answers = answers

    def kind(self):
        """Of two differences of one kind the shorter one is as good."""
        apis = sorted({what.split()[0] for one in self.answers for _, what, _ in one})
        errors = [re.findall(r'"ErrorCode": (-?\d+)', " ".join(each for _, _, each in one)) for one in self.answers]
        return " ".join([self.lines[-1].split()[1], *apis, *map(str, errors)])

    def text(self):
        both = [set(one) for one in self.answers]
        told = ["; ".join(self.lines)]
        for name, mine, other in (("Kafka", both[0], both[1]), ("Ottla", both[1], both[0])):
            told += [f"  {name}: {' '.join(each)}" for each in sorted(mine - other)] or [f"  {name}: -"]
        return "\n".join(told)


class Pair:
    """Kafka and Ottla, with the topics that sequences share."""

    def __init__(self, nodes, partitions):
        self.nodes = nodes
        self.barriers = [Client(node) for node in nodes]
        self.topics = {short: short for short in partitions}
        self.runs = self.steps = 0
        self.ended = collections.Counter()
        self.threads = concurrent.futures.ThreadPoolExecutor(len(nodes))
        for connection in self.barriers:
            for short, count in partitions.items():
                made = connection.call("CreateTopics", 7, {"Topics": [
                    {"Name": short, "NumPartitions": count, "ReplicationFactor": 1}]})["Topics"][0]
                connection.ids[short] = made["TopicId"]
                connection.await_leaders(short, count)

    def close(self):
        self.threads.shutdown()
        for connection in self.barriers:
            connection.close()

    def run(self, lines, patience=1):
        """The first difference, if there is one."""
        self.runs += 1
        prefix = f"s{self.runs:05d}-"
        background = BACKGROUND_SECONDS * patience if any("regex" in line for line in lines) else 0
        sides = [Side(node, barrier, self.topics, prefix, WAIT_SECONDS * patience, background)
                 for node, barrier in zip(self.nodes, self.barriers)]
        try:
            for at, line in enumerate(lines):
                answers = list(self.threads.map(lambda side, line=line: side.step(line), sides))
                if answers[0] == answers[1] and any(side.is_left_to_chance() for side in sides):
                    answers = [side.described() for side in sides]      # else what differs shows some steps later
                self.steps += 1
                if answers[0] != answers[1]:
                    ended = [rule for rule in ENDS if rule(line, sides, *answers)]
                    self.ended.update(rule.__name__ for rule in ended)
                    return None if ended else Difference(lines[:at + 1], answers)
        finally:
            for side in sides:
                side.close()
        return None

    def confirm(self, found):
        """The same again, if it comes again where brokers have more time: else it was a matter of time."""
        again = found and self.run(found.lines, PATIENCE)
        return again if again and again.kind() == found.kind() else None

    def shorten(self, found):
        """The same kind of difference with as few lines as can be had by leaving lines out."""
        trials, size = 0, max(1, len(found.lines) // 2)
        while size:
            at = 0
            while at < len(found.lines) - 1 and trials < SHORTEN_TRIALS:
                trials += 1
                shorter = self.run(found.lines[:at] + found.lines[at + size:])
                shorter = shorter and shorter.kind() == found.kind() and self.confirm(shorter)
                if shorter:
                    found = shorter
                else:
                    at += size
            size //= 2
        return found
