"""The same requests to Apache Kafka and to Ottla, answer for answer: groups and their offsets (sequences.py)."""

import difflib
import json
import os
import re
from pathlib import Path

from harness.patience import until
from harness.runner import Different
from wire.client import Client

from . import consumer_sequences, sequences
from .script import Script

NOBODY = "-"                        # the entry of who waits after which line
NEEDS = ("kafka",)
WAITS = True
ANSWERS = Path(__file__).with_name("answers.json")
EVEN = 12                           # partitions for up to four members: who gets one more is not the same from run to run


def await_coordinator(connection):
    """The first use of a group makes the topic that groups are kept in."""
    def serves():
        found = connection.call("FindCoordinator", 4, {"KeyType": 0, "CoordinatorKeys": ["g"]})["Coordinators"][0]
        if found["ErrorCode"] != 0:
            return False
        return connection.call("OffsetFetch", 7, {"GroupId": "g", "Topics": None, "RequireStable": False})["ErrorCode"] == 0
    until("a coordinator", serves)


def ordered(value):
    """Lists in an order that does not depend on what topics are called in a run."""
    if isinstance(value, dict):
        return {key: ordered(each) for key, each in value.items()}
    return sorted(map(ordered, value), key=lambda one: json.dumps(one, sort_keys=True)) if isinstance(value, list) else value


def lines(answers):
    return [json.dumps(one, sort_keys=True) for one in answers]


def as_text(wanted):
    """JSON with an answer a line, so that a change of one is a diff of a line."""
    families = []
    for family, named in sorted(wanted.items()):
        parts = [f" {json.dumps(name)}: [\n  " + ",\n  ".join(lines(answers)) + "\n ]" for name, answers in named.items()]
        families.append(f"{json.dumps(family)}: {{\n" + ",\n".join(parts) + "\n}")
    return "{\n" + ",\n".join(families) + "\n}\n"


def run(env, family, module=sequences, partitions=3, **config):
    """All sequences of a family; what differs from what Apache Kafka answered is shown as a diff."""
    wanted = json.loads(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.exists() else {}
    write = env.is_kafka and os.environ.get("OTTLA_WRITE_ANSWERS") == "1"
    different = []
    config = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 1,
              "group_consumer_assignment_interval_ms": 0, **config}
    with env.own_broker(**config) as node, Client(node) as connection:
        await_coordinator(connection)
        ids = connection.ids

        def restart():
            node.stop()
            node.start()
            with Client(node) as again:
                await_coordinator(again)

        topics = {short: connection.create(partitions, kind=f"groups-{family}") for short in ("t", "u")}
        Script(node, topics, ids).run(sequences.WARM)
        for name, text in getattr(module, family).items():
            expected = [[who, what, ordered(reply)] for who, what, reply in wanted.get(family, {}).get(name, [])]
            known = None if write else next((reply for who, _, reply in expected if who == NOBODY), None)
            script = Script(node, topics, ids, restart, known)
            answers = script.run(text)
            plain = json.dumps([[NOBODY, "waits", script.waits], *answers])
            for short, topic in topics.items():
                # In a subscription the name has its length in front, which differs from run to run.
                plain = re.sub(r"\\u0000\\u00[0-9a-f]{2}" + re.escape(topic), lambda _, to=short: r"\u0000\u0010" + to, plain)
                plain = plain.replace(topic, short)
            found = [[who, what, ordered(reply)] for who, what, reply in json.loads(plain)]
            env.see(name, found)
            if write:
                wanted.setdefault(family, {})[name] = found
            elif found != expected:
                different.append(name + "\n" + "\n".join(difflib.unified_diff(
                    lines(expected), lines(found), "Apache Kafka", node.name, lineterm="", n=0)))
    if write:
        wanted[family] = {name: wanted[family][name] for name in getattr(module, family)}
        ANSWERS.write_text(as_text(wanted), encoding="utf-8")
    if different:
        raise Different(f"{len(different)} of {len(getattr(module, family))} sequences:\n" + "\n".join(different))


def test_classic(env):
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups: every version, every state, every refusal."""
    run(env, "CLASSIC")


def test_static(env):
    """Static members, who comes back in which state, who is fenced (KIP-345, KIP-814)."""
    run(env, "STATIC")


def test_offsets(env):
    """OffsetCommit, OffsetFetch, OffsetDelete, DeleteGroups, ListGroups."""
    run(env, "OFFSETS")


def test_consumer(env):
    """ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848), and what the other requests are to such groups."""
    run(env, "CONSUMER", consumer_sequences, EVEN)


def test_interval(env):
    """What waits for the interval between two assignments (KIP-1263), and what never does: a first one."""
    run(env, "INTERVAL", consumer_sequences, EVEN, group_consumer_assignment_interval_ms=15000)


def test_full(env):
    """Groups of a bounded size."""
    run(env, "FULL", consumer_sequences, EVEN, group_consumer_max_size=1)


def test_migration(env):
    """From the classic to the consumer protocol and back, with members of both."""
    run(env, "MIGRATION", consumer_sequences, EVEN)


def test_policy(env):
    """Where the broker's policy is against it, nothing migrates."""
    run(env, "POLICY", consumer_sequences, EVEN, group_consumer_migration_policy="disabled")


def test_configs(env):
    """Settings of a group: IncrementalAlterConfigs and DescribeConfigs, and when they count."""
    run(env, "CONFIGS", consumer_sequences, EVEN)


def test_restart(env):
    """A broker that restarts in the middle of it goes on where it was."""
    run(env, "RESTART", consumer_sequences, EVEN)


def test_traps(env):
    """What other brokers got wrong of groups and offsets."""
    run(env, "TRAPS", consumer_sequences, EVEN)
