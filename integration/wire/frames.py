"""Frames, order on a connection, and bytes that are no request at all."""

import random
import socket
import struct
import time

from harness.patience import PATIENCE_SECONDS, eventually
from harness.runner import Different

from . import definitions
from .client import client
from .connection import Closed, Connection

GARBAGE = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "negative size": struct.pack(">i", -1431655766) + b"x" * 50,
    "minus one": struct.pack(">i", -1),
    "size 0": struct.pack(">i", 0),
    "size 3": struct.pack(">i", 3) + b"abc",
    "far too large": struct.pack(">i", 2_000_000_000) + b"x" * 50,
    "random": bytes(random.Random(7).randrange(128, 256) for _ in range(400)),
}


def test_garbage_closes(env):
    """B011: what is no Kafka request closes that connection and nothing else."""
    with client(env) as healthy:
        for label, data in GARBAGE.items():
            with client(env) as c:
                c.send_raw(data)
                env.see(label, c.closed(), True)
            env.see(f"{label}: others go on", healthy.call("ApiVersions", 0)["ErrorCode"], 0)


def test_hostile_counts_close(env):
    """B010: counts and lengths that the frame cannot hold close the connection, without allocating for them."""
    huge = {
        "2^31-1 topics": ("Metadata", 4, struct.pack(">i", 2**31 - 1) + b"\0"),
        "compact count": ("Metadata", 12, b"\xff\xff\xff\xff\x0f"),
        "varint without end": ("Metadata", 12, b"\xff" * 12),
        "array of -2": ("CreateTopics", 4, struct.pack(">i", -2) + b"\0" * 5),
        "string of -2": ("Metadata", 4, struct.pack(">ih", 1, -2) + b"\0"),
        "string past the end": ("Metadata", 4, struct.pack(">ih", 1, 1000) + b"abc"),
        "topics of produce": ("Produce", 3, struct.pack(">hhii", -1, -1, 1000, 2**31 - 1)),
        "topics of fetch": ("Fetch", 4, struct.pack(">iiiibi", -1, 0, 0, 0, 0, 0x7FFFFFFF)),
        "records longer than the frame": ("Produce", 3, struct.pack(">hhii", -1, -1, 1000, 1) + b"\0\1t"
                                          + struct.pack(">iii", 1, 0, 2**31 - 1)),
        "tag longer than the frame": ("Metadata", 12, b"\1\0\0\1\0\xff\xff\xff\xff\x07"),
        "nothing": ("CreateTopics", 7, b""),
    }
    for label, (api, version, body) in huge.items():
        with client(env) as c:
            c.send_raw(c.frame(api, version, body))
            env.see(label, c.closed(), True)


def test_trailing_bytes(env):
    """Bytes after a complete request: seen as Kafka sees them."""
    with client(env) as c:
        body = definitions.request("Metadata").encode(12, {"Topics": []})
        c.send("Metadata", 12, body + b"trailing")
        try:
            env.see("answer", c.receive()["Topics"])
        except Closed:
            env.see("answer", "closed")


def test_pipelined_requests_keep_order(env):
    """Replies come in the order of the requests, also past one that has to wait, which is answered first."""
    with client(env) as c:
        topic = c.create(kind="order")
        fetch = c.fetch_body(12, topic, {0: 0}, max_wait=400)
        started = time.monotonic()
        c.send("Fetch", 12, fetch)
        for number in range(50):
            c.send("Metadata", 9, {"Topics": [{"Name": topic}]})
            c.send("Produce", 9, c.produce_body(9, topic, {9: b""}))
            c.send("ApiVersions", 0, {})
        first = c.receive()
        env.see("the fetch has waited", (first["ErrorCode"], time.monotonic() - started > 0.3), (0, True))
        for _ in range(150):
            c.receive()                          # checks the correlation id


def test_bytes_in_pieces(env):
    """A request that arrives byte by byte, and many in one write, are the same requests."""
    with client(env) as c:
        for byte in c.frame("ApiVersions", 0, {}):
            c.send_raw(bytes([byte]))
            time.sleep(0.001)
        c.receive_raw()
        c.send_raw(b"".join(c.frame("ApiVersions", 0, {}) for _ in range(200)))
        got = [struct.unpack(">i", c.receive_raw()[:4])[0] for _ in range(200)]
        env.see("200 replies in order", got == list(range(2, 202)), True)


def test_acks_0_is_not_answered(env):
    """Produce with acks=0 gets no reply; an error closes the connection so that the client notices."""
    with client(env) as c:
        topic = c.create(kind="silent")
        from . import records
        data = records.batch([b"quiet"])
        c.send_raw(c.frame("Produce", 9, c.produce_body(9, topic, {0: data}, acks=0)))
        env.see("the next reply", c.call("ApiVersions", 0)["ErrorCode"], 0)
        stored = eventually(lambda: c.list_offsets(topic, -1), lambda found: found[1] > 0)
        env.see("stored", stored, (0, 1, -1))
        c.send_raw(c.frame("Produce", 9, c.produce_body(9, "no-such-topic", {0: data}, acks=0)))
        env.see("closed after an error", c.closed(), True)


def test_null_client_id(env):
    """A null client id is an empty one; a flexible header may carry tags."""
    with client(env, client_id=None) as c:
        env.see("null", c.call("Metadata", 12, {"Topics": []})["Topics"], [])
    with client(env) as c:
        body = definitions.request("Metadata").encode(12, {"Topics": []})
        data = c.header("Metadata", 12, tags=b"\1\5\3abc") + body
        c.send_raw(len(data).to_bytes(4, "big") + data)
        env.see("with a tag in the header", len(c.receive_raw()) > 10, True)


def hostile_frame(chance, templates):
    """A frame that is wrong somewhere: cut, changed, with lies about lengths, or plain noise."""
    kind = chance.randrange(6)
    if kind == 0:
        data = chance.randbytes(chance.randrange(0, 200))
        return struct.pack(">i", len(data)) + data
    if kind == 1:
        return chance.randbytes(chance.randrange(1, 100))
    frame = bytearray(chance.choice(templates))
    if kind == 2:                                # cut, with a length that agrees
        frame = frame[:chance.randrange(5, len(frame) + 1)]
        frame[:4] = struct.pack(">i", len(frame) - 4)
    elif kind == 3:                              # some bytes changed behind the header
        for _ in range(chance.randrange(1, 6)):
            frame[chance.randrange(8, len(frame))] = chance.randrange(256)
    elif kind == 4:                              # a large number somewhere
        at = chance.randrange(8, max(9, len(frame) - 4))
        frame[at:at + 4] = chance.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\x80\0\0\0"])
    else:                                        # another API's number on it
        frame[4:8] = struct.pack(">hh", chance.randrange(-2, 96), chance.randrange(0, 20))
    return bytes(frame)


def test_hostile_frames(env):
    """100,000 hostile frames: no crash, memory as before, a healthy client beside them undisturbed."""
    count = 100_000 if not env.is_kafka else 20_000
    chance = random.Random(20)
    with env.own_broker() as node:
        with Connection(node) as probe:
            templates = [probe.frame(api, version, body) for api, version, body in (
                ("Metadata", 12, {"Topics": [{"Name": "abc"}, {"Name": "def"}]}),
                ("Metadata", 1, {"Topics": [{"Name": "abc"}]}),
                ("Produce", 9, {"Acks": 1, "TimeoutMs": 10, "TopicData": [
                    {"Name": "abc", "PartitionData": [{"Index": 0, "Records": b"x" * 80}]}]}),
                ("Fetch", 12, {"ReplicaId": -1, "MaxWaitMs": 0, "MinBytes": 0, "Topics": [
                    {"Topic": "abc", "Partitions": [{"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 100}]}]}),
                ("ListOffsets", 6, {"ReplicaId": -1, "Topics": [
                    {"Name": "abc", "Partitions": [{"PartitionIndex": 0, "Timestamp": -1}]}]}),
                ("DescribeConfigs", 4, {"Resources": [{"ResourceType": 2, "ResourceName": "abc"}]}),
                ("ApiVersions", 3, {"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"}),
                ("FindCoordinator", 4, {"CoordinatorKeys": ["a", "b"]}),
                ("InitProducerId", 4, {"TransactionalId": None, "TransactionTimeoutMs": 1}))]
            storm(node, probe, chance, templates, 2000)          # warm: what a broker allocates once
            before = node.rss_bytes()
            slowest = storm(node, probe, chance, templates, count)
            # The last connections' memory goes when the broker has seen their ends. Sanitizers keep what was freed.
            measured = not env.is_kafka and not env.sanitized
            grown = eventually(lambda: (node.rss_bytes() - before) / 1048576, lambda mib: mib <= 1 or not measured)
        print(f"     hostile frames: resident memory {before / 1048576:.1f} MiB, {grown:+.2f} MiB after, "
              f"slowest answer beside them {slowest * 1000:.0f} ms")
        if measured and grown > 1:
            raise Different(f"{grown:.2f} MiB more resident than before")


def storm(node, healthy, chance, templates, count):
    """Sends the frames over connections of up to 20 frames each; the healthy client's slowest answer."""
    slowest = sent = 0
    while sent < count:
        with socket.create_connection((node.host, node.port), timeout=PATIENCE_SECONDS) as attacker:
            for _ in range(20):
                try:
                    attacker.sendall(hostile_frame(chance, templates))
                except OSError:
                    break                        # closed, as it should
                sent += 1
            if chance.randrange(4) == 0:         # sometimes without waiting for the other side
                attacker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if sent % 100 < 20:
            started = time.monotonic()
            healthy.call("Metadata", 12, {"Topics": []})
            slowest = max(slowest, time.monotonic() - started)
    return slowest
