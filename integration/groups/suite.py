"""Consumer groups with stock clients: subscribe(), commits, the group tools, and a broker that restarts under them."""

import itertools
import json
import re
import subprocess
import time

from harness import cache
from harness.patience import PATIENCE_SECONDS, eventually, until
from harness.runner import Different, ottla_only
from wire.client import Client

from . import takeover
# pylint: disable=unused-import
from .first_contact import (test_console_consumer, test_groups_listed, test_perf_consumer,  # noqa: F401
                            test_share_consumers_are_told, test_tools_of_other_groups)
from .offset_forms import test_forms_of_offsets  # noqa: F401
from .slept import test_a_broker_that_slept  # noqa: F401

NEEDS = ("kafka", "kcat", "python", "kafkajs")
WAITS = True
_numbers = itertools.count(1)


def group_name():
    return f"group-{next(_numbers)}"


def produce(env, topic, values, node=None):
    env.run(["kcat", "-b", (node or env.broker).bootstrap, "-P", "-t", topic], input="\n".join(values) + "\n")


def plain(text, **names):
    """A tool's output without what differs from run to run."""
    for name, value in names.items():
        text = text.replace(value, name)
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST", text)
    text = re.sub(r"[\w.-]+-[0-9a-f]{8}-[0-9a-f-]{27}", "MEMBER", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@ottla_only
def test_undo_of_a_reset(env):
    """The file that undoes `ottla group reset` brings back offset, leader epoch and metadata exactly, even where the offset
    lies outside of the log by now."""
    topic, group = env.topic(2, "undo"), group_name()
    produce(env, topic, ["x"] * 10)
    metadata = "a,\"b\"\\x41 \u00e9\n"
    offset_of = {0: (4000, 3, metadata), 1: (0, -1, "")}
    with Client(env.broker) as c:
        def fetched():
            reply = c.call("OffsetFetch", 9, {"Groups": [{"GroupId": group, "MemberId": None, "MemberEpoch": -1,
                                                          "Topics": None}], "RequireStable": False})
            return {part["PartitionIndex"]: (part["CommittedOffset"], part["CommittedLeaderEpoch"], part["Metadata"])
                    for found in reply["Groups"][0]["Topics"] for part in found["Partitions"]}

        body = {"GroupId": group, "GenerationIdOrMemberEpoch": -1, "MemberId": "", "GroupInstanceId": None, "Topics": [
            {"Name": topic, "Partitions": [{"PartitionIndex": index, "CommittedOffset": offset, "CommittedLeaderEpoch": epoch,
                                            "CommittedMetadata": text} for index, (offset, epoch, text) in offset_of.items()]}]}
        c.call("FindCoordinator", 4, {"KeyType": 0, "CoordinatorKeys": [group]})
        until("a commit", lambda: not any(part["ErrorCode"] for part in
                                          c.call("OffsetCommit", 9, body)["Topics"][0]["Partitions"]))
        undo = env.folder / f"{group}.csv"
        command = [env.build / "src/ottla", "group", "reset", group, "--bootstrap-server", env.broker.bootstrap, "--execute"]
        env.run([*command, "--topic", topic, "--to-earliest", "--undo", undo])
        env.see("reset", fetched(), {0: (0, -1, ""), 1: (0, -1, "")})
        env.run([*command, "--from-file", undo, "--undo", env.folder / f"{group}-2.csv"])
        env.see("undone", fetched(), offset_of)


def test_group_tools(env):
    """kafka-consumer-groups and kafka-groups: list, describe, members, state, reset, delete-offsets, delete."""
    topic, group = env.topic(2, "tools"), group_name()
    for partition in (0, 1):
        env.run(["kcat", "-b", env.broker.bootstrap, "-P", "-t", topic, "-p", partition], input="line\n" * 50)
    with subprocess.Popen(["kcat", "-b", env.broker.bootstrap, "-G", group, "-X", "auto.offset.reset=earliest",
                           "-X", "auto.commit.interval.ms=100", topic], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as consumer:
        try:
            until("the group has read all", lambda: len(re.findall(r"\s0\s+rdkafka-", env.tool(
                "kafka-consumer-groups", "--group", group, "--describe", expect=None).out)) == 2)
            names = {"TOPIC": topic, "GROUP": group}
            for form in ((), ("--members",), ("--members", "--verbose"), ("--state",)):
                said = env.tool("kafka-consumer-groups", "--group", group, "--describe", *form).out
                env.see(f"describe {' '.join(form)}", [re.sub(r"\b\d\d\b", "N", line) for line in plain(said, **names)])
            env.see("listed", group in env.tool("kafka-consumer-groups", "--list").out.split(), True)
            busy = env.tool("kafka-consumer-groups", "--group", group, "--delete", expect=None)
            env.see("delete while it is used", "not empty" in busy.out + busy.err, True)
            busy = env.tool("kafka-consumer-groups", "--group", group, "--topic", topic, "--delete-offsets", expect=None)
            env.see("delete offsets while they are used", plain(busy.out, **names))
        finally:
            consumer.terminate()
    for arguments in (("--reset-offsets", "--to-earliest", "--topic", topic, "--dry-run"),
                      ("--reset-offsets", "--to-offset", "7", "--topic", f"{topic}:1", "--execute"),
                      ("--reset-offsets", "--shift-by", "-2", "--topic", f"{topic}:1", "--execute"),
                      ("--delete-offsets", "--topic", topic), ("--delete",)):
        said = eventually(lambda: env.tool("kafka-consumer-groups", "--group", group, *arguments, expect=None),
                          lambda said: said.code == 0)
        env.see(f"{' '.join(arguments)}".replace(topic, "TOPIC"), plain(said.out, **names))
    env.see("gone", group in env.tool("kafka-groups", "--list").out.split(), False)


@ottla_only
def test_a_static_member_that_is_away(env):
    """`ottla group describe` says of a static member that left for a while that it is away, and what is kept for it."""
    topic, group = env.topic(1, "away"), group_name()
    body = {"GroupId": group, "MemberId": "m", "MemberEpoch": 0, "InstanceId": "i", "RackId": None, "RebalanceTimeoutMs": 30000,
            "SubscribedTopicNames": [topic], "SubscribedTopicRegex": None, "ServerAssignor": None, "TopicPartitions": []}
    with Client(env.broker) as c:
        deadline = time.monotonic() + 30
        while (reply := c.call("ConsumerGroupHeartbeat", 1, body))["ErrorCode"]:
            if time.monotonic() > deadline:
                raise Different(f"the member is refused: {reply}")
            c.call("FindCoordinator", 4, {"KeyType": 0, "CoordinatorKeys": [group]})
            time.sleep(0.1)
        c.call("ConsumerGroupHeartbeat", 1, {**body, "MemberEpoch": -2})
    said = env.run([env.build / "src/ottla", "group", "describe", group, "--bootstrap-server", env.broker.bootstrap]).stdout
    env.see("the member", said.splitlines()[-1].split(), ["m", "i", "wire", "/127.0.0.1", "away", "1", f"{topic}:0"])


def test_kafka_python(env):
    """kafka-python: a consumer goes on where another of its group has committed."""
    topic = env.topic(1, "kafka-python")
    done = env.run([cache.python_venv() / "bin/python", cache.INTEGRATION / "groups/kafka_python_group.py",
                    env.broker.bootstrap, topic, group_name(), 200])
    env.see("said", done.stdout.strip(), "ok")


def test_kafkajs(env):
    """kafkajs: a group reads all, commits, is described and deleted."""
    topic = env.topic(2, "kafkajs")
    done = env.run(["node", cache.INTEGRATION / "groups/group.js", cache.kafkajs() / "node_modules",
                    env.broker.bootstrap, topic, group_name(), 100])
    env.see("read, committed, state", done.stdout.strip(), "100 100 Empty")


class LiveGroup:
    """live_group.py, while the test goes on."""

    def __init__(self, node, topic, protocol, consumers, partitions):
        self.process = subprocess.Popen(
            [cache.python_venv() / "bin/python", cache.INTEGRATION / "groups/live_group.py", node.bootstrap, topic,
             group_name(), protocol, str(consumers), str(partitions)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise Different(f"the group did not come up: {self.process.stdout.read()}")

    def end(self, values):
        """What it saw since it was ready; so many values there are."""
        said, _ = self.process.communicate(str(values), timeout=3 * PATIENCE_SECONDS)
        return json.loads(said.splitlines()[-1])


def restart_under(env, protocol):
    with env.own_broker() as node:
        topic = env.topic(40, "live", node=node)
        group = LiveGroup(node, topic, protocol, 20, 40)
        values = []
        for life in range(3):
            more = [f"{life}-{number}" for number in range(400)]
            produce(env, topic, more, node=node)
            values += more
            time.sleep(2)
            if life < 2:
                node.kill() if life == 0 else node.stop()
                node.start()
        time.sleep(8)                       # to be told, after some heartbeats, what nobody is to be told
        seen = group.end(len(values))
        env.see(f"{protocol}: told", seen["events"], [])
        env.see(f"{protocol}: errors", seen["errors"], [])
        env.see(f"{protocol}: values read", set(seen["values"]) == set(values), True)


def test_restart_under_live_consumers(env):
    """kill -9 and a clean stop under 20 live consumers of the old protocol: nobody is fenced or loses a partition, and
    all is read."""
    restart_under(env, "classic")


def test_restart_under_live_consumers_of_the_new_protocol(env):
    """The same with the consumer protocol (KIP-848)."""
    restart_under(env, "consumer")


def test_a_killed_members_partitions_move(env):
    """Two processes of a client share a group under load; one is killed (kill -9); the other takes over what it had, where
    that was committed, and every record is seen: the console consumer in both protocols, kcat with Debian's librdkafka,
    kafkajs."""
    takeover.run(env)
