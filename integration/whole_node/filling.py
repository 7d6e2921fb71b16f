"""Topics of every kind on a node of Apache Kafka: codecs, times of all sorts, transactions, compaction, deletion."""

import re
import time

from harness.patience import until
from wire import records
from wire.client import Client

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Transactions:
    """A transactional producer, frame by frame, so that transactions can be left as the test wants them."""

    def __init__(self, client, name):
        self.client, self.name = client, name
        self.sequences = {}
        self.is_open = False
        reply = until(f"a producer id of {name}", self._init)
        self.producer = reply["ProducerId"], reply["ProducerEpoch"]

    def _init(self):
        found = self.client.call("FindCoordinator", 4, {"KeyType": 1, "CoordinatorKeys": [self.name]})
        if found["Coordinators"][0]["ErrorCode"] != 0:
            return None
        reply = self.client.call("InitProducerId", 4, {"TransactionalId": self.name, "TransactionTimeoutMs": 600000})
        return reply if reply["ErrorCode"] == 0 else None

    def send(self, topic, values, partition=0, codec=0):
        """One batch within the transaction."""
        def add():
            reply = self.client.call("AddPartitionsToTxn", 3, {
                "V3AndBelowTransactionalId": self.name, "V3AndBelowProducerId": self.producer[0],
                "V3AndBelowProducerEpoch": self.producer[1],
                "V3AndBelowTopics": [{"Name": topic, "Partitions": [partition]}]})
            return reply["ResultsByTopicV3AndBelow"][0]["ResultsByPartition"][0]["PartitionErrorCode"] == 0
        until(f"{topic} in a transaction", add)
        sequence = self.sequences.get((topic, partition), 0)
        data = records.batch(values, producer=(*self.producer, sequence), attributes=0x10, codec=codec,
                             timestamp=int(time.time() * 1000))
        body = self.client.produce_body(9, topic, {partition: data})
        body["TransactionalId"] = self.name
        part = self.client.call("Produce", 9, body)["Responses"][0]["PartitionResponses"][0]
        if part["ErrorCode"] != 0:
            raise AssertionError(f"{self.name}: {part}")
        self.sequences[topic, partition] = sequence + len(values)
        self.is_open = True
        return part["BaseOffset"]

    def end(self, commit):
        """Commits or aborts what is open."""
        if not self.is_open:
            return
        self.is_open = False

        def ask():
            return self.client.call("EndTxn", 3, {
                "TransactionalId": self.name, "ProducerId": self.producer[0], "ProducerEpoch": self.producer[1],
                "Committed": commit})["ErrorCode"] == 0
        until("the end of a transaction", ask)


def codecs(env, node, client):
    """Every codec, several segments."""
    topic = client.create(1, "codecs", retention_ms=-1, segment_bytes=1048576, index_interval_bytes=512)
    for codec in CODECS:
        lines = [f"{codec}-{number} {'z' * (number % 300)}" for number in range(300)]
        env.tool("kafka-console-producer", "--topic", topic, "--compression-codec", codec, "--batch-size", "2000",
                 "--command-property", "acks=all", node=node, stdin="\n".join(lines) + "\n")
    return topic


def times(client):
    """Times that jump, repeat, go back, stand before 1970's first second or are none, plain and compressed."""
    topic = client.create(1, "times", retention_ms=-1, index_interval_bytes=100)
    client.produce(topic, records.batch([b"none"], timestamp=-1))
    for codec in (0, 1):
        client.produce(topic, records.batch([b"a", b"b", b"c", b"d"], timestamps=[2, 4, 6, 8], codec=codec))
        for at in (2, 4, 6, 8):
            client.produce(topic, records.batch([b"one"], timestamp=at, codec=codec))
        client.produce(topic, records.batch([b"x", b"y", b"z"], timestamps=[5000, 70, 5000], codec=codec))
        client.produce(topic, records.batch([b"late"] * 3, timestamps=[4999, 5001, 12], codec=codec))
    for number in range(200):
        client.produce(topic, records.batch([b"s" * 50, b"t"], timestamps=[6000 + number * 7 % 97, 6100 - number],
                                            codec=number % 2))
    return topic


def stamped(client):
    """LogAppendTime, plain and compressed."""
    topic = client.create(1, "stamped", retention_ms=-1, message_timestamp_type="LogAppendTime", index_interval_bytes=100)
    for number in range(30):
        client.produce(topic, records.batch([b"q", b"r"], timestamps=[1000 - number, 2000], codec=number % 2))
        time.sleep(0.002)
    return topic


def transactions(client):
    """Three producers that overlap, over several segments; one transaction spans them all and is aborted, one is left
    open at the end."""
    topic = client.create(1, "txns", retention_ms=-1, segment_bytes=1048576, index_interval_bytes=4096)
    one, two, long_one = (Transactions(client, f"{topic}-{name}") for name in ("one", "two", "long"))
    long_one.send(topic, [b"long"])
    for number in range(60):
        writer = (one, two)[number % 2]
        writer.send(topic, [b"v" * 30000, b"%d" % number], codec=number % 2)
        client.produce(topic, [b"plain"])
        if number % 3 == 2:
            one.end(number % 2 == 0)
        if number % 5 == 4:
            two.end(number % 4 == 0)
        if number == 45:
            long_one.end(False)
    one.end(False)
    two.end(True)
    client.produce(topic, [b"after"])
    one.send(topic, [b"open", b"still"])
    client.produce(topic, [b"behind"])
    return topic


def marked(client):
    """Only committed data and its marker."""
    topic = client.create(1, "marked", retention_ms=-1)
    writer = Transactions(client, topic)
    writer.send(topic, [b"c"])
    writer.end(True)
    return topic


def compacted(node, client):
    """Cleaned at least once, with transactions and tombstones in it."""
    topic = client.create(1, "compacted", retention_ms=-1, cleanup_policy="compact", segment_bytes=1048576, segment_ms=600000,
                          min_cleanable_dirty_ratio="0.01", delete_retention_ms=600000)
    writer = Transactions(client, topic)
    for turn in range(45):
        writer.send(topic, [(b"k%d" % (turn % 7), b"w" * 30000), (b"t%d" % turn, b"gone")])
        writer.end(turn % 3 != 0)
        client.produce(topic, [(b"p%d" % (turn % 5), b"m" * 20000), (b"t%d" % (turn - 1), None)])
    checkpoint = node.data / "cleaner-offset-checkpoint"

    until("the cleaner's turn", lambda: checkpoint.exists() and topic in checkpoint.read_text(encoding="ascii"))
    before = [None]

    def rests():
        time.sleep(1)
        now = client.fetch(topic, 0)["Records"]
        same, before[0] = before[0] == now, now
        return same
    until("the cleaner's rest", rests)
    return topic


def deleted(client, whole):
    """Its first records are deleted, or all of them."""
    topic = client.create(1, "emptied" if whole else "deleted", retention_ms=-1)
    for number in range(20):
        client.produce(topic, records.batch([b"d%d" % number], timestamp=1000 + number))
    client.call("DeleteRecords", 2, {"Topics": [{"Name": topic, "Partitions": [
        {"PartitionIndex": 0, "Offset": -1 if whole else 7}]}], "TimeoutMs": 10000})
    return topic


def fill(env, node):
    """All of it; {topic: id}."""
    with Client(node) as client:
        client.create(1, "never", retention_ms=-1)
        codecs(env, node, client)
        times(client)
        stamped(client)
        deleted(client, False)
        deleted(client, True)
        marked(client)
        transactions(client)
        compacted(node, client)
        return client.ids


def indexes_of(env, folder):
    """What kafka-dump-log says of every index of aborted transactions below a directory."""
    found = {}
    for path in sorted(folder.glob("*/*.txnindex")):
        out = env.tool("kafka-dump-log", "--files", path, bootstrap=False).out
        found[f"{path.parent.name}/{path.name}"] = re.findall(r"^version:.*$", out, re.MULTILINE)
    return {name: lines for name, lines in found.items() if lines}
