"""Fetch: limits, waiting, bounds and sessions; ListOffsets in all its forms."""

import time

from harness.runner import Different

from . import records
from .client import client

SESSION_NOT_FOUND, BAD_SESSION_EPOCH, TOPIC_IDS = 70, 71, 106
FOR_EVER_MS = 3_600_000             # who waits so long for a fetch has given up on its connection before


def parts(reply):
    """{partition: its part of the answer}, over all topics."""
    return {p["PartitionIndex"]: p for topic in reply["Responses"] for p in topic["Partitions"]}


def test_fetch_bounds(env):
    """B026: at the end empty, past it and before the start 1, an empty topic at 0 empty."""
    with client(env) as c:
        topic = c.create()
        part = c.fetch(topic)
        env.see("empty topic", (part["ErrorCode"], part["HighWatermark"], part["LogStartOffset"], part["Records"]),
                (0, 0, 0, b""))
        env.see("empty topic at 1", c.fetch(topic, 1)["ErrorCode"], 1)
        c.produce(topic, [b"a", b"b", b"c"])
        part = c.fetch(topic, 3)
        env.see("end", (part["ErrorCode"], part["HighWatermark"], part["Records"]), (0, 3, b""))
        part = c.fetch(topic, 4)
        env.see("past the end", (part["ErrorCode"], part["HighWatermark"], part["Records"]))
        env.see("past the end: code", part["ErrorCode"], 1)
        env.see("before the start", c.fetch(topic, -1)["ErrorCode"], 1)
        env.see("in the middle of a batch", [r[3] for r in records.records(c.fetch(topic, 2)["Records"])],
                [b"a", b"b", b"c"])


def test_fetch_empty_and_errored_records(env):
    """B017, B019: records are empty bytes, not null, for an empty and for an errored partition."""
    with client(env) as c:
        topic = c.create()
        for version in (4, 7, 11, 12, 13, 16, 18):
            part = c.fetch(topic, version=version)
            env.see(f"v{version} empty", (part["ErrorCode"], part["Records"]), (0, b""))
            env.see(f"v{version} aborted", part["AbortedTransactions"])
            if version >= 11:
                env.see(f"v{version} preferred replica", part["PreferredReadReplica"], -1)
            part = c.fetch(topic, partition=5, version=version)
            env.see(f"v{version} unknown partition", (part["ErrorCode"], part["Records"]), (3, b""))
            part = c.fetch("nowhere", version=version)
            env.see(f"v{version} unknown topic", (part["ErrorCode"], part["Records"]),
                    (100 if version >= 13 else 3, b""))
            env.see(f"v{version} unknown topic: offsets", (part["HighWatermark"], part["LastStableOffset"]))


def test_fetch_limits(env):
    """B020: the first partition with data gives one whole batch even over the limit; the others what fits."""
    with client(env) as c:
        topic = c.create(3)
        for index in range(3):
            c.produce(topic, [b"x" * 200_000], partition=index)
            c.produce(topic, [b"y" * 200_000], partition=index)
        got = parts(c.fetch_all(topic, {0: 0, 1: 0, 2: 0}, partition_max_bytes=1, max_bytes=1))
        env.see("limits of 1", {index: len(records.batches(p["Records"])) for index, p in got.items()},
                {0: 1, 1: 0, 2: 0})
        got = parts(c.fetch_all(topic, {0: 2, 1: 0, 2: 0}, partition_max_bytes=1, max_bytes=1))
        env.see("first one at its end", {index: len(records.batches(p["Records"])) for index, p in got.items()},
                {0: 0, 1: 1, 2: 0})
        got = parts(c.fetch_all(topic, {0: 0, 1: 0, 2: 0}, partition_max_bytes=250_000, max_bytes=50 << 20))
        env.see("a batch and a piece", {index: len(p["Records"]) for index, p in got.items()})
        many = c.create()
        for number in range(20):
            c.produce(many, [b"%02d" % number * 500])
        size = len(records.batch([b"00" * 500]))
        got = c.fetch(many, partition_max_bytes=size * 7)
        env.see("seven batches fit exactly", len(records.batches(got["Records"])), 7)
        env.see("limit 0", len(records.batches(c.fetch(many, partition_max_bytes=0)["Records"])))
        env.see("negative limit", len(records.batches(c.fetch(many, partition_max_bytes=-1)["Records"])))
        old = c.fetch(many, version=4, partition_max_bytes=1)
        env.see("v4 gives a whole batch too", len(records.batches(old["Records"])), 1)


def test_fetch_is_capped(env):
    """B022: whatever the client allows, one answer holds no more than fetch.max.bytes (55 MB) and a batch."""
    with client(env) as c:
        topic = c.create(60)
        data = records.batch([b"\0" * 1_000_000])
        for index in range(60):
            part = c.produce(topic, data, partition=index)
            if part["ErrorCode"] != 0:
                raise Different(f"{part}")
        reply = c.fetch_all(topic, {index: 0 for index in range(60)}, partition_max_bytes=2**31 - 1,
                            max_bytes=2**31 - 1)
        total = sum(len(p["Records"]) for p in parts(reply).values())
        env.see("bytes", 50_000_000 < total <= 57_671_680 + len(data), True)


def test_fetch_waits(env):
    """B023: an empty answer waits for max_wait; data ends the wait; a full partition ends it too."""
    with client(env) as c, client(env) as writer:
        topic = c.create(3)
        writer.ids = c.ids
        started = time.monotonic()
        c.fetch(topic, max_wait=300)
        env.see("nothing comes", time.monotonic() - started > 0.28, True)
        c.send("Fetch", 12, c.fetch_body(12, topic, {0: 0, 1: 0, 2: 0}, max_wait=FOR_EVER_MS))
        time.sleep(0.05)
        writer.produce(topic, [b"wake"], partition=1)
        got = parts(c.receive())
        env.see("a record comes", [r[3] for r in records.records(got[1]["Records"])], [b"wake"])
        c.send("Fetch", 12, c.fetch_body(12, topic, {0: 0}, max_wait=FOR_EVER_MS, min_bytes=1000))
        for _ in range(4):
            time.sleep(0.02)
            writer.produce(topic, [b"z" * 300])
        env.see("min bytes", len(records.batches(parts(c.receive())[0]["Records"])) >= 3, True)
        writer.produce(topic, [b"q" * 50_000], partition=2)
        started = time.monotonic()
        c.fetch_all(topic, {0: 4, 1: 1, 2: 0}, partition_max_bytes=1000, min_bytes=1 << 20, max_wait=3000)
        env.see("full partition, seconds", round(time.monotonic() - started))
        reply = c.fetch_all(topic, {0: 0, 1: 999}, max_wait=FOR_EVER_MS, min_bytes=1 << 20)
        env.see("an error ends the wait", parts(reply)[1]["ErrorCode"], 1)
        started = time.monotonic()
        c.fetch_all(topic, {0: 0, 9: 0}, max_wait=1000, min_bytes=1 << 20)
        env.see("an unknown partition beside it, seconds", round(time.monotonic() - started))


def test_fetch_isolation(env):
    """read_committed sees the same where there are no transactions, with the last stable offset set."""
    with client(env) as c:
        topic = c.create()
        c.produce(topic, [b"a", b"b"])
        part = c.fetch(topic, isolation=1)
        env.see("part", (part["ErrorCode"], part["LastStableOffset"], part["HighWatermark"],
                         len(records.records(part["Records"])), part["AbortedTransactions"]), (0, 2, 2, 2, []))


def test_fetch_leader_epoch(env):
    """An epoch ahead of the broker's is 75; the right one and none are fine."""
    with client(env) as c:
        topic = c.create()
        for label, epoch, code in (("none", -1, 0), ("right", 0, 0), ("ahead", 3, 75)):
            body = c.fetch_body(12, topic, {0: 0})
            body["Topics"][0]["Partitions"][0]["CurrentLeaderEpoch"] = epoch
            part = c.call("Fetch", 12, body)["Responses"][0]["Partitions"][0]
            env.see(label, part["ErrorCode"], code)
        body = c.fetch_body(12, topic, {0: 0})
        body["Topics"][0]["Partitions"][0].update(CurrentLeaderEpoch=0, LastFetchedEpoch=4)
        part = c.call("Fetch", 12, body)["Responses"][0]["Partitions"][0]
        env.see("last fetched epoch unknown", (part["ErrorCode"], part["DivergingEpoch"]))


def test_fetch_sessions(env):
    """B031, KIP-227: a session is made, answers what changed only, and each misuse has its code."""
    with client(env) as c:
        topic = c.create(3)
        reply = c.fetch_all(topic, {0: 0, 1: 0}, session=(0, 0))
        session = reply["SessionId"]
        env.see("made", (reply["ErrorCode"], session != 0, sorted(parts(reply))), (0, True, [0, 1]))
        reply = c.fetch_all(None, {}, session=(session, 1))
        env.see("nothing new", (reply["ErrorCode"], reply["SessionId"] == session, parts(reply)), (0, True, {}))
        c.produce(topic, [b"x"], partition=1)
        reply = c.fetch_all(None, {}, session=(session, 2))
        env.see("one changed", {i: len(p["Records"]) > 0 for i, p in parts(reply).items()}, {1: True})
        reply = c.fetch_all(topic, {1: 1}, session=(session, 3))
        env.see("moved on", parts(reply), {})
        reply = c.fetch_all(topic, {2: 0}, session=(session, 4))
        env.see("a partition more", sorted(parts(reply)), [2])
        reply = c.fetch_all(None, {}, session=(session, 5), forgotten=(topic, [0, 1]))
        env.see("two forgotten", (reply["ErrorCode"], parts(reply)), (0, {}))
        c.produce(topic, [b"y"], partition=0)
        reply = c.fetch_all(None, {}, session=(session, 6))
        env.see("forgotten ones stay out", parts(reply), {})
        reply = c.fetch_all(None, {}, session=(session, 6))
        env.see("epoch again", reply["ErrorCode"], BAD_SESSION_EPOCH)
        reply = c.fetch_all(None, {}, session=(session + 12345, 1))
        env.see("unknown session", reply["ErrorCode"], SESSION_NOT_FOUND)
        reply = c.call("Fetch", 12, c.fetch_body(12, None, {}, session=(session, 7)))
        env.see("by name in a session by id", reply["ErrorCode"], TOPIC_IDS)
        reply = c.fetch_all(None, {}, session=(session, 7), forgotten=(topic, [2]))
        env.see("the last one forgotten", (reply["ErrorCode"], reply["SessionId"]))
        env.see("the emptied session is closed", c.fetch_all(None, {}, session=(session, 8))["ErrorCode"],
                SESSION_NOT_FOUND)


def test_fetch_session_replaced_and_closed(env):
    """B031: epoch 0 with an id replaces the session, -1 closes it and answers in full."""
    with client(env) as c:
        topic = c.create(2)
        first = c.fetch_all(topic, {0: 0}, session=(0, 0))["SessionId"]
        reply = c.fetch_all(topic, {0: 0, 1: 0}, session=(first, 0))
        second = reply["SessionId"]
        env.see("replaced", (reply["ErrorCode"], second not in (0, first), sorted(parts(reply))), (0, True, [0, 1]))
        env.see("the first is gone", c.fetch_all(None, {}, session=(first, 1))["ErrorCode"], SESSION_NOT_FOUND)
        reply = c.fetch_all(topic, {0: 0}, session=(second, -1))
        env.see("closed", (reply["ErrorCode"], reply["SessionId"], sorted(parts(reply))), (0, 0, [0]))
        env.see("the second is gone", c.fetch_all(None, {}, session=(second, 1))["ErrorCode"], SESSION_NOT_FOUND)
        reply = c.fetch_all(topic, {0: 0}, session=(0, 5))
        env.see("epoch without a session", reply["ErrorCode"])
        reply = c.fetch_all(topic, {0: 0, 7: 0}, session=(0, 0))
        env.see("with an unknown partition", {i: p["ErrorCode"] for i, p in parts(reply).items()}, {0: 0, 7: 3})
        reply = c.fetch_all(None, {}, session=(reply["SessionId"], 1))
        env.see("the error comes again", {i: p["ErrorCode"] for i, p in parts(reply).items()}, {7: 3})


def test_missing_partition_does_not_end_the_wait(env):
    """A session that follows a topic that is gone is paced by its max_wait, not answered without a pause."""
    for version in (12, 18):
        with client(env) as c:
            topic = c.create(2)
            reply = c.fetch_all(topic, {0: 0, 7: 0}, version, session=(0, 0), max_wait=400)
            session = reply["SessionId"]
            env.see(f"v{version}: first", {i: p["ErrorCode"] for i, p in parts(reply).items()}, {0: 0, 7: 3})
            started = time.monotonic()
            for epoch in (1, 2):
                reply = c.fetch_all(None, {}, version, session=(session, epoch), max_wait=400)
                env.see(f"v{version}: again", {i: p["ErrorCode"] for i, p in parts(reply).items()}, {7: 3})
            env.see(f"v{version}: both waited", time.monotonic() - started > 0.7, True)
            c.send("Fetch", version, c.fetch_body(version, None, {}, session=(session, 3), max_wait=FOR_EVER_MS))
            time.sleep(0.05)
            with client(env) as writer:
                writer.ids = c.ids
                writer.produce(topic, [b"x"])
            env.see(f"v{version}: data ends the wait", len(parts(c.receive())[0]["Records"]) > 0, True)


def test_fetch_session_in_another_connection(env):
    """A session belongs to the broker, not to the connection that made it."""
    with client(env) as c, client(env) as other:
        topic = c.create()
        session = c.fetch_all(topic, {0: 0}, session=(0, 0))["SessionId"]
        env.see("elsewhere", other.fetch_all(None, {}, session=(session, 1))["ErrorCode"], 0)
        env.see("and back", c.fetch_all(None, {}, session=(session, 2))["ErrorCode"], 0)


def test_session_order_of_partitions(env):
    """KIP-227: what was answered goes to the back of the line, so a small limit starves no partition."""
    with client(env) as c:
        topic = c.create(4)
        for index in range(4):
            for _ in range(3):
                c.produce(topic, [b"x" * 1000], partition=index)
        reply = c.fetch_all(topic, {index: 0 for index in range(4)}, session=(0, 0), partition_max_bytes=1, max_bytes=1)
        session, served = reply["SessionId"], []
        for epoch in range(1, 9):
            reply = c.fetch_all(None, {}, session=(session, epoch), partition_max_bytes=1, max_bytes=1)
            served += [i for i, p in parts(reply).items() if p["Records"]]
        env.see("all are served", set(served), {0, 1, 2, 3})


def test_offsets_by_time(env):
    """B034, B035, B037: the first record at or after the time, also inside a batch; else (-1, -1)."""
    with client(env) as c:
        single, packed, early = c.create(), c.create(), c.create(segment_bytes=1048576)
        for stamp in (2, 4, 6, 8):
            c.produce(single, records.batch([b"x"], timestamp=stamp))
        c.produce(packed, records.batch([b"x"] * 4, timestamps=[2, 4, 6, 8], codec=1))
        expected = {1: (0, 0, 2), 2: (0, 0, 2), 3: (0, 1, 4), 4: (0, 1, 4), 5: (0, 2, 6), 7: (0, 3, 8), 8: (0, 3, 8),
                    9: (0, -1, -1)}
        for label, topic in (("single", single), ("packed", packed)):
            env.see(label, {stamp: c.list_offsets(topic, stamp) for stamp in expected}, expected)
        empty = c.create()
        env.see("empty topic", c.list_offsets(empty, 5), (0, -1, -1))
        unordered = c.create()
        for stamp in (50, 10, 40, 60, 20):
            c.produce(unordered, records.batch([b"x"], timestamp=stamp))
        env.see("out of order", {stamp: c.list_offsets(unordered, stamp) for stamp in (5, 20, 45, 55, 61)})
        for stamp in range(1, 301):
            c.produce(early, records.batch([b"x" * 5000], timestamp=stamp))
        env.see("1970", [c.list_offsets(early, stamp)[1] for stamp in (1, 2, 100, 250, 300, 301)],
                [0, 1, 99, 249, 299, -1])


def test_special_offsets(env):
    """B043: -1 latest, -2 earliest, -3 of the greatest timestamp, -4 earliest local, -5 and -6 tiered ones."""
    with client(env) as c:
        topic = c.create()
        for special in (-1, -2, -3, -4, -5, -6):
            version = 11 if special < -4 else 9
            env.see(f"{special} empty", c.list_offsets(topic, special, version=version))
        env.see("latest of the never written", c.list_offsets(topic, -1)[1], 0)
        c.produce(topic, records.batch([b"x"] * 3, timestamps=[10, 99, 50]))
        c.produce(topic, records.batch([b"x"] * 2, timestamps=[99, 60]))
        for special, offset in ((-1, 5), (-2, 0), (-3, 1), (-4, 0)):
            env.see(f"{special}", c.list_offsets(topic, special, version=9)[:2], (0, offset))
        env.see("timestamps", {special: c.list_offsets(topic, special, version=9)[2] for special in (-1, -2, -3, -4)})
        for special in (-5, -6, -7, -100):
            env.see(f"{special} v11", c.list_offsets(topic, special, version=11))
        for special, version in ((-3, 6), (-4, 7), (-5, 8), (-6, 10)):
            env.see(f"{special} in the too old v{version}", c.list_offsets(topic, special, version=version)[0])
        for version in range(1, 12):
            env.see(f"latest in v{version}", c.list_offsets(topic, -1, version=version), (0, 5, -1))
        env.see("read_committed", c.list_offsets(topic, -1, isolation=1), (0, 5, -1))


def test_list_offsets_errors(env):
    """Unknown topics and partitions, epochs, and the same partition twice."""
    with client(env) as c:
        topic = c.create()
        env.see("unknown topic", c.list_offsets("nowhere", -1)[0], 3)
        env.see("unknown partition", c.list_offsets(topic, -1, partition=3)[0], 3)

        def ask(*entries):
            reply = c.call("ListOffsets", 8, {"ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": [
                {"PartitionIndex": 0, "Timestamp": -1, "CurrentLeaderEpoch": epoch} for epoch in entries]}]})
            return [(p["ErrorCode"], p["LeaderEpoch"]) for p in reply["Topics"][0]["Partitions"]]

        env.see("right epoch", ask(0), [(0, 0)])
        env.see("epoch ahead", ask(5)[0][0], 75)
        env.see("twice", ask(-1, -1))


def test_data_survives_restart(env):
    """Records, offsets by time and producer state are the same after a clean stop and after kill -9."""
    from .client import Client
    # Of today: a producer whose last batch is stamped long ago counts as expired when the log is loaded.
    start = int(time.time() * 1000) - 1000
    with env.own_broker() as node:
        with Client(node) as c:
            topic = c.create(2)
            pid, epoch = c.producer_id()
            for n in range(10):
                c.produce(topic, records.batch([b"%d" % n], timestamp=start + n, producer=(pid, epoch, n)))
            ids = dict(c.ids)
        for label, stop in (("clean stop", node.stop), ("kill -9", node.kill)):
            stop()
            node.start()
            with Client(node) as c:
                c.ids = ids
                c.await_leaders(topic, 2)
                env.see(f"{label}: id", c.metadata([topic])[topic]["TopicId"] == ids[topic], True)
                env.see(f"{label}: end", c.list_offsets(topic, -1)[1], 10)
                env.see(f"{label}: by time", c.list_offsets(topic, start + 5) == (0, 5, start + 5), True)
                again = c.produce(topic, records.batch([b"9"], timestamp=start + 9, producer=(pid, epoch, 9)))
                env.see(f"{label}: a retry", (again["ErrorCode"], again["BaseOffset"]), (0, 9))
                got = [r[3] for r in records.records(c.fetch(topic)["Records"])]
                env.see(f"{label}: records", got, [b"%d" % n for n in range(10)])
                fresh = c.producer_id()[0]
                env.see(f"{label}: a new producer id", fresh > pid, True)
