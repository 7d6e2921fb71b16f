"""Deletion from a log's beginning: DeleteRecords, retention by age and by size; and what an epoch's end is told as."""

import time

from harness.patience import eventually

from . import records
from .client import Client, client

OUT_OF_RANGE, UNKNOWN, POLICY = 1, 3, 44
DAY_MS = 86400000
BATCH_BYTES = 200000                # five in a segment of 1 MiB, the smallest that Apache Kafka 4.4 takes
CHECK_MS = 500                      # between two looks of retention


def delete(c, wanted, version=2):
    """DeleteRecords of [(topic, partition, offset)], one topic entry each; {(topic, partition): (error, low watermark)}."""
    reply = c.call("DeleteRecords", version, {"TimeoutMs": 10000, "Topics": [
        {"Name": name, "Partitions": [{"PartitionIndex": index, "Offset": offset}]} for name, index, offset in wanted]})
    return {(topic["Name"], part["PartitionIndex"]): (part["ErrorCode"], part["LowWatermark"])
            for topic in reply["Topics"] for part in topic["Partitions"]}


def test_delete_records(env):
    """Up to the high watermark and no further; what is below the new start is out of range for Fetch (traps B026, B043)."""
    with client(env) as c:
        name = c.create(partitions=6)
        compacted = c.create(cleanup_policy="compact")
        for partition in range(6):
            for _ in range(5):
                c.produce(name, [b"x"], partition=partition)
        for version in (0, 1, 2):
            found = delete(c, [(name, 0, 3), (name, 1, -1), (name, 2, 6), (name, 3, -2), (name, 4, 0), (name, 9, 0),
                               ("missing", 0, 0), (compacted, 0, 0)], version)
            env.see(f"answers v{version}", [found[name, index] for index in (0, 1, 2, 3, 4, 9)] +
                    [found["missing", 0], found[compacted, 0]],
                    [(0, 3), (0, 5), (OUT_OF_RANGE, -1), (OUT_OF_RANGE, -1), (0, 0), (UNKNOWN, -1), (UNKNOWN, -1),
                     (POLICY, -1)])
        env.see("starts", [c.list_offsets(name, -2, partition=index)[1] for index in range(3)], [3, 5, 0])
        env.see("ends", [c.list_offsets(name, -1, partition=index)[1] for index in range(3)], [5, 5, 5])
        env.see("fetches", [c.fetch(name, offset, 0)["ErrorCode"] for offset in (0, 2, 3, 5, 6)], [1, 1, 0, 0, 1])
        env.see("emptied", [c.fetch(name, offset, 1)["ErrorCode"] for offset in (4, 5)], [1, 0])
        env.see("by time", c.list_offsets(name, 0, partition=1), (0, -1, -1))
        env.see("a lower offset", delete(c, [(name, 0, 1)])[name, 0], (0, 3))
        env.see("log start in the reply", c.produce(name, [b"x"], partition=1)["LogStartOffset"], 5)


def test_delete_records_said_twice(env):
    """Of two mentions of a partition the last holds, and it is answered once."""
    with client(env) as c:
        name = c.create()
        for _ in range(5):
            c.produce(name, [b"x"])
        reply = c.call("DeleteRecords", 2, {"TimeoutMs": 10000, "Topics": [
            {"Name": name, "Partitions": [{"PartitionIndex": 0, "Offset": 4}]},
            {"Name": name, "Partitions": [{"PartitionIndex": 0, "Offset": 2}]}]})
        env.see("answers", [(part["PartitionIndex"], part["ErrorCode"], part["LowWatermark"])
                            for topic in reply["Topics"] for part in topic["Partitions"]], [(0, 0, 2)])
        env.see("start", c.list_offsets(name, -2)[1], 2)


def test_epoch_ends(env):
    """OffsetForLeaderEpoch: the present epoch ends at the log's end; others are undefined; a wrong one of the asker's is
    told so (KIP-320)."""
    with client(env) as c:
        name = c.create()
        for _ in range(3):
            c.produce(name, [b"x"])

        def ask(version, partition, current, epoch, topic=name):
            body = {"Topics": [{"Topic": topic, "Partitions": [
                {"Partition": partition, "CurrentLeaderEpoch": current, "LeaderEpoch": epoch}]}]}
            if version >= 3:
                body["ReplicaId"] = -1
            part = c.call("OffsetForLeaderEpoch", version, body)["Topics"][0]["Partitions"][0]
            return part["ErrorCode"], part["LeaderEpoch"], part["EndOffset"]

        for version in (2, 3, 4):
            env.see(f"ends v{version}", [ask(version, 0, -1, 0), ask(version, 0, 0, 0), ask(version, 0, -1, 1),
                                         ask(version, 0, -1, -1), ask(version, 0, 9, 0), ask(version, 5, -1, 0),
                                         ask(version, 0, -1, 0, "missing")],
                    [(0, 0, 3), (0, 0, 3), (0, -1, -1), (0, -1, -1), (75, -1, -1), (3, -1, -1), (3, -1, -1)])
        delete(c, [(name, 0, 2)])
        env.see("after deletion", ask(4, 0, -1, 0), (0, 0, 3))


def starts_of(c, names, expected):
    """The logs' starts, once they are as expected, and when retention has looked on again."""
    def ask():
        return [c.list_offsets(name, -2)[1] for name in names]

    if eventually(ask, lambda starts: starts == expected) == expected:
        time.sleep(4 * CHECK_MS / 1000)
    return ask()


def set_configs(c, settings):
    """{topic: {key: value}}, of all of them at once."""
    results = c.call("IncrementalAlterConfigs", 1, {"ValidateOnly": False, "Resources": [
        {"ResourceType": 2, "ResourceName": name, "Configs": [
            {"Name": key.replace("_", "."), "ConfigOperation": 0, "Value": str(value)} for key, value in entries.items()]}
        for name, entries in settings.items()]})["Responses"]
    if any(result["ErrorCode"] for result in results):
        raise AssertionError(f"not altered: {results}")


def fill(c, name, times):
    for at in times:
        answer = c.produce(name, records.batch([bytes(BATCH_BYTES)], timestamp=at))
        if answer["ErrorCode"] != 0:
            raise AssertionError(f"not produced: {answer}")


def test_retention(env):
    """Given the same batches, as much is deleted by Apache Kafka as by us: by the time of a segment's newest record, by
    size, with records from the future (trap B122), and an active segment that is old."""
    with env.own_broker(log_retention_check_interval_ms=CHECK_MS, log_initial_task_delay_ms=CHECK_MS) as node, Client(node) as c:
        now = int(time.time() * 1000)
        small = {"segment_bytes": 1048576, "message_timestamp_after_max_ms": 9223372036854775807, "retention_ms": -1}
        old, fresh, future = now - 10 * DAY_MS, now - 1000, now + 3000 * DAY_MS
        week = 7 * DAY_MS
        cases = {
            "old, then fresh": ({"retention_ms": week}, [old] * 10 + [fresh] * 7, (10, 17)),
            "fresh, then old": ({"retention_ms": week}, [fresh] + [old] * 12, (0, 13)),
            "old and fresh in one segment": ({"retention_ms": week}, [old] * 7 + [fresh] + [old] * 8, (7, 16)),
            "all old": ({"retention_ms": week}, [old] * 7, (7, 7)),
            "for ever": ({"retention_ms": -1}, [old] * 7, (0, 7)),
            "microseconds": ({"retention_ms": 1000}, [now * 1000] + [old] * 12, (0, 13)),
            "by size": ({"retention_ms": -1, "retention_bytes": 2500000}, [fresh] * 23, (10, 23)),
            "by size, to the byte": ({"retention_ms": -1, "retention_bytes": 5 * (BATCH_BYTES + 73) * 2},
                                    [fresh] * 20, (5, 20)),
            "no bytes at all": ({"retention_ms": -1, "retention_bytes": 0}, [fresh] * 7, (7, 7)),
            "by size, with the future": ({"retention_ms": week, "retention_bytes": 2500000},
                                         [future] * 6 + [old] * 6 + [fresh] * 6, (5, 18)),
        }
        names = {label: c.create(**small) for label in cases}
        names["kept"] = c.create(**{**small, "retention_ms": week})
        cases["kept"] = ({}, [fresh] * 12, (0, 12))
        for label, (_, times, _) in cases.items():
            fill(c, names[label], times)
        # Only now, all written: what is deleted before the next is written is another story, of where segments begin.
        set_configs(c, {names[label]: settings for label, (settings, _, _) in cases.items() if settings})
        starts = starts_of(c, names.values(), [expected for _, _, (expected, _) in cases.values()])
        for label, start in zip(names, starts):
            env.see(label, (start, c.list_offsets(names[label], -1)[1]), cases[label][2])
        set_configs(c, {names["kept"]: {"retention_ms": 1}})
        env.see("once it is asked for", starts_of(c, [names["kept"]], [12]), [12])
        env.see("written to again", c.produce(names["kept"], [b"x"])["BaseOffset"], 12)


def test_greatest_time_of_what_is_deleted(env):
    """The record with the greatest time is named as long as its segment is there, deleted or not."""
    with client(env) as c:
        def ask(label, expected, deleted_to, *batches, **configs):
            name = c.create(message_timestamp_after_max_ms=9223372036854775807, **configs)
            for times in batches:
                c.produce(name, records.batch([b"x"] * len(times), timestamps=times))
            delete(c, [(name, 0, deleted_to)])
            env.see(label, c.list_offsets(name, -3)[1:], expected)

        ask("nothing deleted", (1, 100), 0, [90], [100], [80])
        ask("it is deleted", (1, 100), 2, [90], [100], [80])
        ask("of several in a batch", (1, 100), 2, [90, 100, 80, 85])
        ask("twice", (0, 100), 1, [100, 80, 100, 85])
        ask("all are deleted", (1, 100), -1, [90], [100], [80])
        ask("its segment is gone", (3, 20000), 2, [90], [100], [80], [20000], [19000], segment_ms=1000)
        ask("that of others is gone", (3, 20000), 4, [90], [100], [80], [20000], [19000], segment_ms=1000)
        ask("an older segment has it", (2, 30000), 4, [90], [100], [30000], [80], [20000], [19000], segment_ms=1000)
