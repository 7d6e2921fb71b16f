"""Asks two brokers the same, a request at a time, and says where their answers part."""

import json
import re
import select
import time

from group_answers.script import WAITING, Script, how_of, without_words
from group_answers.suite import ordered
from harness.patience import PATIENCE_SECONDS
from wire.client import UNKNOWN_TOPIC, Client
from wire.connection import Closed

BARRIERS = 2                        # what a timer of no delay does is in line behind the first
WAIT_SECONDS = 0.03                 # JoinGroup or SyncGroup without an answer by then waits for somebody; times patience
PATIENCE = 10                       # for a difference to be shown again
BACKGROUND_SECONDS = 0.06           # for what is done beside the coordinator: expressions over topic names
TOPIC_SECONDS = 10
MEMBER_ID_REQUIRED = 79
METADATA_MAX = 4096
SHORTEN_TRIALS = 150
SHORTEN_PATIENCE = 2
TOPIC_CHANGES = {"CreateTopics": "Topics", "CreatePartitions": "Results", "DeleteTopics": "Responses"}
OWN_WORDS = re.compile("Supported assignors: .*")       # a hash map's order


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


LEFT_OUT = (a_name_for_an_unused_id, an_unused_id_leaves, somebody_waits_under_that_id, nothing_but_long_metadata)


class Side(Script):
    """One of the brokers."""

    def __init__(self, node, barrier, topics, prefix, wait_seconds, background_seconds):
        super().__init__(node, {**topics, "v": prefix + "v"}, dict(barrier.ids))
        self.barrier = barrier
        self.prefix = prefix
        self.asked = {}             # by actor, its last
        self.handed_out = set()     # ids that were given to who has not joined with them yet
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
            self.settle()
        found, self.answers = self.answers, []
        return sorted((who, what, OWN_WORDS.sub("", self.text(what, reply))) for who, what, reply in found)

    def send(self, actor, api, version, body):
        """But for what Ottla answers otherwise on purpose."""
        if not any(rule(self, api, body) for rule in LEFT_OUT):
            self.asked[actor.name] = body
            super().send(actor, api, version, body)

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

    def settle(self):
        """Waits until whoever is to be answered now has been."""
        time.sleep(self.background_seconds)
        for _ in range(BARRIERS):
            self.barrier.call("OffsetCommit", 8, {"GroupId": "barrier", "Topics": [
                {"Name": self.topics["t"], "Partitions": [{"PartitionIndex": 0, "CommittedOffset": 0}]}]})
        while True:
            waiting = {actor.connection.socket: actor for actor in self.actors.values() if actor.connection.awaited}
            joins = any(api in WAITING for actor in waiting.values() for api, _, _ in actor.connection.awaited)
            ready = select.select(list(waiting), [], [], self.wait_seconds if joins else 0)[0]
            if not ready:
                return
            for actor in sorted((waiting[one] for one in ready), key=lambda one: one.name):
                self.hear(actor)

    def hear(self, actor):
        api, version, _ = actor.connection.awaited[0]
        try:
            super().hear(actor)
            reply = self.answers[-1][2]
            if api == "JoinGroup":
                change = self.handed_out.add if reply["ErrorCode"] == MEMBER_ID_REQUIRED else self.handed_out.discard
                change(reply["MemberId"])
        except Closed:
            actor.connection.close()
            actor.connection = Client(self.broker, client_id=actor.name)
            actor.connection.call("ApiVersions", 0)
            self.answers.append([actor.name, f"{api} {version}", "closed"])

    def await_topics(self, word):
        """The broker, and with it the coordinator, learns of topics a moment after the controller has answered."""
        _, what, reply = self.answers[-1]
        if any(topic["ErrorCode"] for topic in reply[TOPIC_CHANGES[what.split()[0]]]):
            return
        short, _, count = word.partition("=")
        deadline = time.monotonic() + TOPIC_SECONDS
        while time.monotonic() < deadline:
            topic = self.barrier.metadata([self.topics[short]])[self.topics[short]]
            if topic["ErrorCode"] == UNKNOWN_TOPIC if not count else len(topic["Partitions"]) == int(count):
                break
            time.sleep(0.005)
        time.sleep(BACKGROUND_SECONDS)

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

    def __init__(self, lines, at, answers):
        self.lines = lines[:at + 1]
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
        for connection in self.barriers:
            for short, count in partitions.items():
                made = connection.call("CreateTopics", 7, {"Topics": [
                    {"Name": short, "NumPartitions": count, "ReplicationFactor": 1}]})["Topics"][0]
                connection.ids[short] = made["TopicId"]
                connection.await_leaders(short, count)

    def close(self):
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
                answers = [side.step(line) for side in sides]
                self.steps += 1
                if answers[0] != answers[1]:
                    return Difference(lines, at, answers)
        finally:
            for side in sides:
                side.close()
        return None

    def shorten(self, found):
        """The same kind of difference with as few lines as can be had by leaving lines out."""
        trials, size = 0, max(1, len(found.lines) // 2)
        while size:
            at = 0
            while at < len(found.lines) - 1 and trials < SHORTEN_TRIALS:
                trials += 1
                again = self.run(found.lines[:at] + found.lines[at + size:], SHORTEN_PATIENCE)
                if again is not None and again.kind() == found.kind() and len(again.lines) < len(found.lines):
                    found = again
                else:
                    at += size
            size //= 2
        return found
