"""Produce: what is accepted, what is refused, and with which code; idempotent producers."""

import gzip
import time

from harness.runner import Different

from . import records
from .client import client

CORRUPT, UNKNOWN, TOO_LARGE, BAD_TIMESTAMP, INVALID = 2, 3, 10, 32, 87


def stored(c, topic, partition=0):
    """Every record of a partition, by repeated fetches."""
    found, offset = [], 0
    while True:
        part = c.fetch(topic, offset, partition)
        new = records.records(part["Records"])
        if not new:
            return found
        found += new
        offset = new[-1][0] + 1


def test_produce_errors(env):
    """Codes for topics, partitions, acks and sizes, each for its partition alone."""
    with client(env) as c:
        topic = c.create(2)
        good = records.batch([b"x"])
        env.see("unknown topic by name", c.produce("nowhere", good, version=12)["ErrorCode"], UNKNOWN)
        env.see("unknown topic by id", c.produce("nowhere", good)["ErrorCode"], 100)
        env.see("unknown partition", c.produce(topic, good, partition=2)["ErrorCode"], UNKNOWN)
        env.see("negative partition", c.produce(topic, good, partition=-1)["ErrorCode"], UNKNOWN)
        for acks in (2, -2, 32767):
            env.see(f"acks {acks}", c.produce(topic, good, acks=acks)["ErrorCode"], 21)
        bad = bytearray(good)
        bad[-1] ^= 1
        reply = c.call("Produce", 13, c.produce_body(13, topic, {0: bytes(bad), 1: good}))
        env.see("one bad, one good", sorted((p["Index"], p["ErrorCode"], p["BaseOffset"])
                                            for p in reply["Responses"][0]["PartitionResponses"]),
                [(0, CORRUPT, -1), (1, 0, 0)])
        part = c.produce(topic, records.batch([b"y" * 1_100_000]))
        env.see("too large", (part["ErrorCode"], part["BaseOffset"], part["ErrorMessage"]))
        env.see("too large: code", part["ErrorCode"], TOO_LARGE)
        small = c.create(max_message_bytes=200)
        sizes = [len(records.batch([b"z" * size])) for size in (100, 131, 132)]
        env.see("around the topic's limit", [(size, c.produce(small, records.batch([b"z" * bytes_]))["ErrorCode"])
                                             for size, bytes_ in zip(sizes, (100, 131, 132))])
        env.see("stored", len(stored(c, topic)), 0)


def test_damaged_batches(env):
    """B118, B119: batches whose inside is wrong are refused for that partition and nothing is appended."""
    many = records.record(0, b"k", b"v")
    cases = {
        "wrong crc": records.batch([b"x"], crc=1),
        "record runs past the end": records.batch(None, bodies=[records.zigzag(500) + b"\0\0\0"]),
        "key length -2": records.batch(None, bodies=[sized(b"\0\0\0" + records.zigzag(-2) + records.zigzag(-1) + b"\0")]),
        "header count -1": records.batch(None, bodies=[records.record(0, b"k", b"v", count=-1)]),
        "header count 2^31-1": records.batch(None, bodies=[records.record(0, b"k", b"v", count=2**31 - 1)]),
        "long varint": records.batch(None, bodies=[b"\xff" * 11 + b"\0" * 20]),
        "trailing bytes": records.batch(None, bodies=[many + b"zzz"], count=1),
        "count too high": records.batch(None, bodies=[many], count=2),
        "count too low": records.batch(None, bodies=[many, records.record(1, b"k", b"v")], count=1),
        "count 0": records.batch(None, bodies=[], count=0, last_delta=0),
        "negative count": records.batch(None, bodies=[many], count=-1),
        "last delta off": records.batch(None, bodies=[many], last_delta=5),
        "offset deltas not 0, 1": records.batch(None, bodies=[records.record(0, None, b"a"),
                                                              records.record(2, None, b"b")]),
        "magic 0": records.batch([b"x"], magic=0),
        "magic 1": records.batch([b"x"], magic=1),
        "magic 3": records.batch([b"x"], magic=3),
        "codec 5": records.batch([b"x"], codec=5),
        "not gzip": records.batch(None, bodies=[many], codec=1, payload=b"not gzip at all"),
        "gzip cut": records.batch(None, bodies=[many], codec=1, payload=gzip.compress(many * 10)[:-9]),
        "control batch": records.batch([b"x"], attributes=0x20),
        "shorter than a header": records.batch([b"x"])[:40],
        "length says more": records.batch([b"x"]) + b"\0" * 5,
        "empty": b"",
        "two batches": records.batch([b"x"]) + records.batch([b"y"]),
        "base offset 7": records.batch([b"x"], base_offset=7),
    }
    # What Apache Kafka finds by opening every compressed batch, Ottla by default leaves to the readers.
    accepted = {"not gzip", "gzip cut", "base offset 7", "key length -2", "length says more",
                "offset deltas not 0, 1"}
    with client(env) as c:
        topic = c.create()
        for label, data in cases.items():
            try:
                part = c.produce(topic, data)
                got = part["ErrorCode"]
            except Exception as closed:          # closing is an answer too: see what it is
                got = type(closed).__name__
                c.socket.close()
                c.__init__(env.broker)
                c.ids[topic] = c.metadata([topic])[topic]["TopicId"]
            env.see(label, got)
            if got == 0 and label not in accepted:
                raise Different(f"{label} was accepted")


def sized(body):
    return records.zigzag(len(body)) + body


def test_nulls_and_headers(env):
    """B127: null, empty and filled keys, values and header values come back byte for byte."""
    parts = (None, b"", b"full")
    given = [(key, value, [(b"h", header), (b"h", header), (b"", b"x")])
             for key in parts for value in parts for header in parts]
    with client(env) as c:
        topic = c.create()
        c.produce(topic, given)
        c.produce(topic, records.batch(given, codec=1))
        got = [(key, value, headers) for _, _, key, value, headers in stored(c, topic)]
        env.see("the same", got == given * 2, True)


def test_batch_is_stored_as_sent(env):
    """B125: base offset and leader epoch are written in; all else, and the checksum, stay."""
    with client(env) as c:
        topic = c.create()
        c.produce(topic, [b"first"])
        data = records.batch([(b"k", b"v"), (None, b"w")], codec=1, timestamps=[1000, 3000], base_offset=0)
        c.produce(topic, data)
        part = c.fetch(topic, 1)["Records"]
        env.see("length", len(part) == len(data), True)
        env.see("base offset and epoch", (part[:8], part[12:16]), (bytes([0] * 7 + [1]), bytes(4)))
        env.see("the rest", part[8:12] == data[8:12] and part[16:] == data[16:], True)


def test_log_append_time(env):
    """message.timestamp.type=LogAppendTime: the broker's time on the batch, in the reply, in what is read."""
    with client(env) as c:
        topic = c.create(message_timestamp_type="LogAppendTime")
        for codec in (0, 1):
            part = c.produce(topic, records.batch([b"a", b"b"], timestamps=[1000, 2000], codec=codec))
            near = abs(part["LogAppendTimeMs"] / 1000 - time.time()) < 60
            env.see(f"codec {codec}", (part["ErrorCode"], near), (0, True))
            batch = records.batches(c.fetch(topic, part["BaseOffset"])["Records"])[0]
            env.see(f"codec {codec}: batch", (batch["attributes"] & 8, batch["crc_ok"],
                                              batch["max_timestamp"] == part["LogAppendTimeMs"]), (8, True, True))
        plain = c.create()
        env.see("CreateTime", c.produce(plain, [b"x"])["LogAppendTimeMs"], -1)


def test_compacted_topic_needs_keys(env):
    """B121: a record without key is refused with its index, the whole batch with it; an empty key is a key."""
    with client(env) as c:
        topic = c.create(cleanup_policy="compact")
        for codec in (0, 1):
            part = c.produce(topic, records.batch([(b"a", b"1"), (None, b"2"), (b"b", b"3")], codec=codec))
            env.see(f"codec {codec}", (part["ErrorCode"], [e["BatchIndex"] for e in part["RecordErrors"]]),
                    (INVALID, [1]))
            env.see(f"codec {codec}: has messages", (bool(part["ErrorMessage"]), bool(
                part["RecordErrors"][0]["BatchIndexErrorMessage"])), (True, True))
        env.see("v7 has no details", c.produce(topic, [(None, b"2")], version=7)["ErrorCode"], INVALID)
        env.see("empty key", c.produce(topic, [(b"", b"x")])["ErrorCode"], 0)
        env.see("stored", len(stored(c, topic)), 1)


def test_timestamps_out_of_range(env):
    """B122: too far ahead is 32 with the record's index; -1 means none; the past is open by default."""
    now = int(time.time() * 1000)
    with client(env) as c:
        topic = c.create()
        for label, stamp, code in (("in 2100", 4_102_444_800_000, 32), ("microseconds", now * 1000, 32),
                                   ("in two hours", now + 7_200_000, 32), ("in half an hour", now + 1_800_000, 0),
                                   ("in 1970", 5, 0), ("none", -1, 0)):
            part = c.produce(topic, records.batch([b"x"], timestamp=stamp))
            env.see(label, (part["ErrorCode"], [e["BatchIndex"] for e in part["RecordErrors"]]),
                    (code, [0] if code else []))
        part = c.produce(topic, records.batch([b"a", b"b", b"c"], timestamps=[now, now, now + 7_200_000]))
        env.see("the third", (part["ErrorCode"], [e["BatchIndex"] for e in part["RecordErrors"]]), (32, [2]))
        strict = c.create(message_timestamp_before_max_ms=1000)
        env.see("too old", c.produce(strict, records.batch([b"x"], timestamp=now - 60_000))["ErrorCode"], 32)


def test_idempotent_retries(env):
    """B101: the last five batches are remembered: sent again they give the first offset; older ones 45 or 46."""
    with client(env) as c:
        topic = c.create()
        pid, epoch = c.producer_id()
        offsets = [c.produce(topic, records.batch([b"%d" % n], producer=(pid, epoch, n)))["BaseOffset"]
                   for n in range(10)]
        env.see("offsets", offsets, list(range(10)))
        again = [c.produce(topic, records.batch([b"%d" % n], producer=(pid, epoch, n))) for n in range(5, 10)]
        env.see("the last five again", [(p["ErrorCode"], p["BaseOffset"]) for p in again],
                [(0, n) for n in range(5, 10)])
        old = c.produce(topic, records.batch([b"1"], producer=(pid, epoch, 1)))
        env.see("an older one", old["ErrorCode"] in (45, 46), True)
        env.see("an older one: code", (old["ErrorCode"], old["BaseOffset"]))
        env.see("end", c.list_offsets(topic, -1)[1], 10)


def test_idempotent_sequences(env):
    """B103: gaps, new epochs, old epochs and missing sequences have their codes, and nothing is appended."""
    with client(env) as c:
        topic = c.create()
        pid, epoch = c.producer_id()

        def send(sequence, producer=pid, at=epoch, values=(b"x",)):
            return c.produce(topic, records.batch(list(values), producer=(producer, at, sequence)))["ErrorCode"]

        env.see("first", send(0), 0)
        env.see("gap", send(5), 45)
        env.see("next", send(1, values=(b"a", b"b", b"c")), 0)
        env.see("overlap", send(2), 45)
        env.see("new epoch not at 0", send(3, at=epoch + 1), 45)
        env.see("new epoch at 0", send(0, at=epoch + 1), 0)
        env.see("old epoch", send(4), 47)
        env.see("no sequence", send(-1, at=epoch + 1), INVALID)
        env.see("first of an unknown producer not at 0", send(7, producer=pid + 1_000_000), 0)
        env.see("negative epoch", send(0, at=-1))
        env.see("end", c.list_offsets(topic, -1)[1], 6)


def test_idempotent_in_flight(env):
    """B103: five in flight; when one fails, what was sent after it is refused and can be sent again in order."""
    with client(env) as c:
        topic = c.create()
        pid, epoch = c.producer_id()
        frames = [records.batch([b"%d" % n], producer=(pid, epoch, n)) for n in range(5)]
        broken = bytearray(frames[1])
        broken[-1] ^= 1
        for data in [frames[0], bytes(broken), *frames[2:]]:
            c.send("Produce", 9, c.produce_body(9, topic, {0: data}))
        codes = [c.receive()["Responses"][0]["PartitionResponses"][0]["ErrorCode"] for _ in range(5)]
        env.see("codes", codes, [0, CORRUPT, 45, 45, 45])
        for data in frames[1:]:
            c.send("Produce", 9, c.produce_body(9, topic, {0: data}))
        parts = [c.receive()["Responses"][0]["PartitionResponses"][0] for _ in range(4)]
        env.see("again", [(p["ErrorCode"], p["BaseOffset"]) for p in parts], [(0, n) for n in range(1, 5)])


def test_sequence_wraps(env):
    """The sequence after 2^31-1 is 0, also within a batch."""
    with client(env) as c:
        topic = c.create()
        pid, epoch = c.producer_id()
        part = c.produce(topic, records.batch([b"x"], producer=(pid, epoch, 2147483646)))
        env.see("near the end", part["ErrorCode"], 0)
        part = c.produce(topic, records.batch([b"a", b"b", b"c"], producer=(pid, epoch, 2147483647)))
        env.see("across", part["ErrorCode"], 0)
        part = c.produce(topic, records.batch([b"d"], producer=(pid, epoch, 2)))
        env.see("after", (part["ErrorCode"], part["BaseOffset"]), (0, 4))


def test_transactional_produce_is_refused(env):
    """B104: a transactional batch of a producer that is in no transaction is not silently appended."""
    with client(env) as c:
        topic = c.create()
        pid, epoch = c.producer_id()
        data = records.batch([b"x"], attributes=0x10, producer=(pid, epoch, 0))
        body = c.produce_body(11, topic, {0: data})
        body["TransactionalId"] = "not-known"
        part = c.call("Produce", 11, body)["Responses"][0]["PartitionResponses"][0]
        env.see("with a transactional id", part["ErrorCode"])
        if part["ErrorCode"] == 0:
            raise Different("it was appended")
        env.see("end", c.list_offsets(topic, -1)[1], 0)


def test_many_partitions_in_one_request(env):
    """A request over many partitions is answered for each, in the order asked, with one fault among them."""
    with client(env) as c:
        topic = c.create(20)
        parts = {index: records.batch([b"p%d" % index]) for index in range(20)}
        parts[7] = parts[7][:-1] + bytes([parts[7][-1] ^ 1])
        reply = c.call("Produce", 13, c.produce_body(13, topic, parts))["Responses"]
        got = {p["Index"]: p["ErrorCode"] for topic_part in reply for p in topic_part["PartitionResponses"]}
        env.see("codes", got, {index: CORRUPT if index == 7 else 0 for index in range(20)})


def test_broker_side_compression(env):
    """B124, B125: a topic with a codec of its own holds batches of that codec, whatever the producer sent."""
    with client(env) as c:
        for codec, bits in (("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4), ("uncompressed", 0)):
            topic = c.create(compression_type=codec)
            pid, epoch = c.producer_id()
            sent = [(b"k%d" % n, b"value " * 20) for n in range(50)]
            part = c.produce(topic, records.batch(sent, codec=1 if bits == 0 else 0, producer=(pid, epoch, 0)))
            env.see(f"{codec}: accepted", (part["ErrorCode"], part["BaseOffset"]), (0, 0))
            batch = records.batches(c.fetch(topic)["Records"])[0]
            env.see(codec, (batch["attributes"] & 7, batch["crc_ok"], batch["count"],
                            batch["producer"] == (pid, epoch, 0)), (bits, True, 50, True))
            if bits == 2:
                env.see("xerial header", batch["body"][:16].hex(), "82534e41505059000000000100000001")
            if bits < 2:
                env.see(f"{codec}: records", len(records.records(c.fetch(topic)["Records"])), 50)
