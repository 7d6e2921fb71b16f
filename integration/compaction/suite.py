"""The same log compacted, and its old segments deleted, by Apache Kafka 4.4 and by us: what is left is the same, and Kafka
goes on with ours."""

import shutil
import time

from harness import broker
from harness.patience import eventually, until
from harness.runner import Different, ottla_only
from wire.client import Client
from whole_node.suite import FORMAT, take_over

from . import asking, filling

NEEDS = ("kafka",)
NEEDS_BROKER = False
CONFIG = {"log.cleaner.backoff.ms": 200, "log.retention.check.interval.ms": 300, "log.initial.task.delay.ms": 300,
          "transaction.state.log.num.partitions": 3, "offsets.topic.num.partitions": 3,
          "transaction.abort.timed.out.transaction.cleanup.interval.ms": 3600000}
SET, INVALID_RECORD = 0, 87
STAYS = ("big", "deleted", "lag", "txns-open")   # nothing more of them may be cleaned, or nothing more is written


def alter(clients, topic, **configs):
    entries = [{"Name": key.replace("_", "."), "ConfigOperation": SET, "Value": str(value)}
               for key, value in configs.items()]
    for client in clients:
        answer = client.call("IncrementalAlterConfigs", 1, {"ValidateOnly": False, "Resources": [
            {"ResourceType": 2, "ResourceName": topic, "Configs": entries}]})["Responses"][0]
        if answer["ErrorCode"] != 0:
            raise Different(f"{topic} {configs}: {answer}")


def checkpoint(node, which, topics):
    """{topic: the offset that a checkpoint has of its only partition}."""
    path = node.data / f"{which}-checkpoint"
    lines = path.read_text(encoding="ascii").splitlines()[2:] if path.exists() else []
    found = {line.split()[0]: int(line.split()[2]) for line in lines}
    return {topic: found.get(topic, -1) for topic in topics}


def cleaned(node, topics):
    """{topic: how far it was cleaned}."""
    return checkpoint(node, "cleaner-offset", topics)


def all_rolled_is_synced(node, topics):
    """Only then all of it is cleaned at once by us."""
    points = checkpoint(node, "recovery-point-offset", topics)
    return all(points[topic] >= max(int(path.stem) for path in node.topic_folder(topic).glob("*.log")) for topic in topics)


def clean(nodes, clients, topics, before):
    """Both clean all topics once; how far that went, which must be the same."""
    for kind, topic in topics.items():
        if kind == "overdue":
            alter(clients, topic, max_compaction_lag_ms=3600000)
        else:
            alter(clients, topic, min_cleanable_dirty_ratio="0.0001")

    def look():
        return [cleaned(node, topics.values()) for node in nodes]

    eventually(look, lambda found: all(each[topic] > before[topic] for each in found for topic in topics.values()))
    time.sleep(1)                                   # no other cleaning follows
    ours, theirs = look()
    if ours != theirs or any(ours[topic] <= before[topic] for topic in topics.values()):
        raise Different(f"cleaned up to {ours}, Kafka {theirs}, before {before}")
    for kind, topic in topics.items():
        alter(clients, topic, min_cleanable_dirty_ratio="1.0")
        if kind == "overdue":
            alter(clients, topic, max_compaction_lag_ms=9223372036854775807)
    return ours


def same(what, ours, theirs):
    """Two lists or dicts of the same."""
    if ours == theirs:
        return
    if isinstance(theirs, dict):
        found = [f"{key}: ours {ours.get(key)}, Kafka's {theirs.get(key)}" for key in {**theirs, **ours}
                 if ours.get(key) != theirs.get(key)]
    else:
        lacking, more = set(theirs) - set(ours), set(ours) - set(theirs)
        found = [line for line in ([f"only Kafka: {x}" for x in theirs if x in lacking][:8] +
                                   [f"only ours: {x}" for x in ours if x in more][:8])]
    raise Different(f"{what}: {len(ours)} and {len(theirs)}, {len(found)} differ:\n" + "\n".join(map(str, found[:16])))


def compare(env, nodes, clients, topics, what):
    """Files and answers."""
    for kind, topic in topics.items():
        files = [asking.dump(env, node.topic_folder(topic)) for node in nodes]
        same(f"{what}, {kind}, records", files[0][0], files[1][0])
        same(f"{what}, {kind}, segments", files[0][1], files[1][1])
        for level in (0, 1):
            found = [asking.batches_of(client, topic, level) for client in clients]
            same(f"{what}, {kind}, read at isolation {level}", found[0][0], found[1][0])
            same(f"{what}, {kind}, marks at isolation {level}", found[0][1], found[1][1])
        times = asking.times_of(found[1][0])
        answers = [asking.offsets(client, topic, times) for client in clients]
        if any(path.stat().st_size == 0 for path in nodes[0].topic_folder(topic).glob("*.log")):
            asking.mind_empty_segments(*answers, found[0][0])
        same(f"{what}, {kind}, offsets", *answers)
        for node in nodes:
            asking.check_indexes(env, node.topic_folder(topic), isinstance(node, broker.Kafka))


def delete_by_size(env, nodes, clients, kind, topic):
    """Of a log both delete the older half, once it is not compacted any more. (One of whose size no segment is half.)"""
    starts = [client.list_offsets(topic, -2)[1] for client in clients]
    size = sum(path.stat().st_size for path in nodes[1].topic_folder(topic).glob("*.log"))
    alter(clients, topic, cleanup_policy="delete", retention_bytes=size // 2)

    now = eventually(lambda: [client.list_offsets(topic, -2)[1] for client in clients],
                     lambda now: all(at > start for at, start in zip(now, starts)))
    env.see("the older half is deleted", [at > start for at, start in zip(now, starts)], [True, True])
    time.sleep(1)                                   # nothing more follows
    compare(env, nodes, clients, {kind: topic}, "deleted by size")


@ottla_only
def test_same_as_kafka(env):
    """Keys, tombstones, every codec, producers, transactions with their markers, lags: what Kafka's cleaner leaves of a
    log, ours leaves of its copy, twice over; look-ups agree; Kafka then serves our files as we do."""
    kafka = broker.Kafka(env.folder / "kafka", CONFIG)
    kafka.format_options = FORMAT
    again = broker.Kafka(env.folder / "again", CONFIG)
    ours = take_over(env, again)
    ours.config.update(CONFIG)
    try:
        kafka.start()
        with Client(kafka) as client:
            topics = filling.Inputs(env, kafka, client).fill()
            ids = client.ids
        kafka.stop()
        shutil.copytree(kafka.data, again.data)
        kafka.start()
        ours.start()
        nodes = (ours, kafka)
        with Client(ours) as mine, Client(kafka) as theirs:
            clients = (mine, theirs)
            for each in clients:
                each.ids = ids
                for topic in topics.values():
                    each.await_leaders(topic, 1)
            alter(clients, topics["deleted"], retention_ms=7 * filling.DAY_MS)
            until("a retention by age", lambda: all(each.list_offsets(topics["deleted"], -2)[1] > 0 for each in clients))
            once = clean(nodes, clients, topics, {topic: -1 for topic in topics.values()})
            compare(env, nodes, clients, topics, "cleaned once")
            env.see("null keys", [each.produce(topics["producers"], [(None, b"x")])["ErrorCode"] for each in clients],
                    [INVALID_RECORD] * 2)
            filling.more(clients, topics)
            until("what was rolled is synced", lambda: all_rolled_is_synced(ours, topics.values()))
            changed = {kind: topic for kind, topic in topics.items() if kind not in STAYS}
            clean(nodes, clients, changed, once)
            compare(env, nodes, clients, topics, "cleaned twice")
            delete_by_size(env, nodes, clients, "big", topics["big"])
        ours.stop()
        again.start()
        with Client(again) as mine, Client(kafka) as theirs:
            for each in (mine, theirs):
                each.ids = ids
                for topic in topics.values():
                    each.await_leaders(topic, 1)
            compare(env, (again, kafka), (mine, theirs), topics, "Kafka on ours")
        again.stop()
    finally:
        for node in (kafka, again, ours):
            node.kill()
