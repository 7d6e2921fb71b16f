"""Replicas that move between the log directories of a node: kafka-reassign-partitions, kafka-log-dirs, and a client.

Sources: broker/handle_reassignments.c
"""

import json

from harness.patience import eventually
from wire.client import Client

from .log_dirs import described, dirs_of


def start_with_dirs(env):
    node = env.new_broker()
    dirs = dirs_of(node)
    node.config["log.dirs"] = ",".join(dirs)
    node.data = node.home / "disk-0"
    node.start()
    return node, dirs


def where(env, node, topic):
    """{partition: its directory}, and those of copies under way."""
    got, _ = described(env, node, "--topic-list", topic)
    places, copies = {}, {}
    for folder, parts in got.items():
        for name, part in parts.items():
            (copies if part[2] else places)[name] = folder
    return places, copies


def plan_of(env, topic, places):
    path = env.folder / f"plan-{topic}.json"
    path.write_text(json.dumps({"version": 1, "partitions": [
        {"topic": topic, "partition": index, "replicas": [1], "log_dirs": [folder]}
        for index, folder in places.items()]}), encoding="utf-8")
    return path


def words(result, topic):
    """What the tool says, without what differs from run to run."""
    return [line.replace(topic, "T") for line in result.out.splitlines()
            if "partition" in line.lower() and "{" not in line]


def test_reassign_log_dirs(env):
    """kafka-reassign-partitions moves replicas between directories; --verify and kafka-log-dirs tell of it; records stay."""
    node, dirs = start_with_dirs(env)
    try:
        topic = env.topic(2, "moved", node=node)
        env.tool("kafka-console-producer", "--topic", topic, stdin="".join(f"{n}\n" for n in range(500)), node=node)
        places, _ = where(env, node, topic)
        goal = {index: dirs[(dirs.index(places[f"{topic}-{index}"]) + 1) % 3] for index in range(2)}
        plan = plan_of(env, topic, goal)
        done = env.tool("kafka-reassign-partitions", "--reassignment-json-file", plan, "--execute",
                        "--replica-alter-log-dirs-throttle", 100_000_000, node=node)
        env.see("started", sorted(words(done, topic)))
        there = {f"{topic}-{index}": folder for index, folder in goal.items()}, {}
        env.see("where they are", eventually(lambda: where(env, node, topic), lambda found: found == there) == there, True)
        done = env.tool("kafka-reassign-partitions", "--reassignment-json-file", plan, "--verify", node=node)
        env.see("verified", sorted(line for line in words(done, topic) if "throttle" not in line.lower()))
        with Client(node) as client:
            env.see("records", sum(client.list_offsets(topic, -1, index)[1] for index in range(2)), 500)
        env.tool("kafka-console-producer", "--topic", topic, stdin="more\n", node=node)
        node.stop()
        node.start()
        env.see("after a restart", where(env, node, topic)[0]
                == {f"{topic}-{index}": folder for index, folder in goal.items()}, True)
        with Client(node) as client:
            env.see("and more", sum(client.list_offsets(topic, -1, index)[1] for index in range(2)), 501)
        node.stop()
    finally:
        node.kill()


def alter(client, path, topic, partition):
    reply = client.call("AlterReplicaLogDirs", 2, {"Dirs": [
        {"Path": str(path), "Topics": [{"Name": topic, "Partitions": [partition]}]}]})
    return reply["Results"][0]["Partitions"][0]["ErrorCode"]


def test_alter_log_dirs_codes(env):
    """What is asked wrongly is refused with Kafka's codes; a partition that is not there yet keeps the wish."""
    node, dirs = start_with_dirs(env)
    try:
        with Client(node) as client:
            topic = client.create(1)
            place = where(env, node, topic)[0][f"{topic}-0"]
            env.see("no such directory", alter(client, "/nowhere", topic, 0))
            env.see("a relative one", alter(client, "disk-0", topic, 0))
            env.see("no such topic", alter(client, dirs[0], "missing", 0))
            env.see("no such partition", alter(client, dirs[0], topic, 9))
            env.see("a long name", alter(client, dirs[0], "x" * 230, 0))
            env.see("where it is", alter(client, place, topic, 0))
            for index in range(3):
                alter(client, dirs[2], "wire-later", index)
            client.call("CreateTopics", 7, {"Topics": [{"Name": "wire-later", "NumPartitions": 3,
                                                        "ReplicationFactor": 1, "Configs": []}]})
            client.await_leaders("wire-later", 3)
            env.see("as wished", set(where(env, node, "wire-later")[0].values()) == {dirs[2]}, True)
        node.stop()
    finally:
        node.kill()
