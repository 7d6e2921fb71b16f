"""What both brokers compact: written to Apache Kafka first, then, once each has its own copy, to both of them."""

import time

from whole_node.filling import Transactions
from wire import records

from . import asking

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DAY_MS = 86400000
LONG_MS = 90 * DAY_MS                # a delete horizon that no test lives to see
STEP_MS = 1000                       # between batches; a segment takes four of them
BIG_BYTES = 200000                   # five in a segment of 1 MiB

# No log is cleaned before it is asked for: no share of dirty bytes is above 1.
WAITS = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "1.0", "retention_ms": -1, "segment_ms": 4 * STEP_MS,
         "index_interval_bytes": 200}


def put(client, topic, data):
    answer = client.produce(topic, data)
    if answer["ErrorCode"] != 0:
        raise AssertionError(f"not produced to {topic}: {answer}")


def same_again(client, topic, other):
    """The batches of one topic, byte for byte but for their offsets, to another."""
    for batch in raw_batches(client, topic):
        put(client, other, batch)


def raw_batches(client, topic):
    """As they came from their producer."""
    offset, found = 0, []
    while True:
        data = client.fetch(topic, offset)["Records"]
        at = 0
        for size, _, last, *_ in asking.heads(data):
            found.append(bytes(8) + data[at + 8:at + size])
            at += size
            offset = last + 1
        if at == 0:
            return found


class Inputs:
    """The topics, by what is peculiar about each, and what is written to them."""

    def __init__(self, env, kafka, client):
        self.env, self.kafka, self.client = env, kafka, client
        self.now = int(time.time() * 1000)
        self.topics = {}

    def create(self, kind, **configs):
        self.topics[kind] = self.client.create(1, kind, **{**WAITS, **configs})
        return self.topics[kind]

    def codecs(self):
        """Many versions of few keys, headers, tombstones, every codec; the same with a horizon that passes at once."""
        topic = self.create("codecs", delete_retention_ms=LONG_MS, segment_ms=200)
        for number, codec in enumerate(CODECS):
            lines = []
            for turn in range(60):
                value = "NULL" if turn % 7 == 3 else f"{codec} {turn} " + "z" * (turn * 5 % 90)
                headers = f"turn:{turn},codec:{codec}" if turn % 3 else "NULL"
                lines.append(f"{headers}\tk{(turn * 7 + number) % 23}\t{value}")
            lines.append(f"NULL\tonly {codec}\tNULL")
            self.env.tool("kafka-console-producer", "--topic", topic, "--compression-codec", codec, "--batch-size", "700",
                          "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true",
                          "--reader-property", "null.marker=NULL", node=self.kafka, stdin="\n".join(lines) + "\n")
        same_again(self.client, topic, self.create("codecs-passing", delete_retention_ms=0, segment_ms=200))

    def producers(self):
        """Idempotent producers; all but one have their last batch superseded. One of them has a new epoch."""
        topic = self.create("producers", delete_retention_ms=0)
        ids = [self.client.producer_id() for _ in range(3)]
        sequences = [0] * 3
        for turn in range(40):
            who = turn % 3
            values = [(b"a%d" % (turn % 4), b"%d" % turn), (b"b%d" % (turn % 3), b"x" * turn, [(b"h", b"%d" % who)])]
            put(self.client, topic, records.batch(values, timestamp=self.now + turn * STEP_MS, codec=turn % 2,
                                                  producer=(*ids[who], sequences[who])))
            sequences[who] += 2
        for turn in range(40, 50):
            put(self.client, topic, records.batch([(b"a%d" % (turn % 4), b"last"), (b"b%d" % (turn % 3), None)],
                                                  timestamp=self.now + turn * STEP_MS))

    def lag(self):
        """Old records, then such as are too young to be compacted, then old ones again; a segment that is half old."""
        topic = self.create("lag", delete_retention_ms=LONG_MS, min_compaction_lag_ms=DAY_MS)
        for turn in range(40):
            age = 2 * DAY_MS if turn < 18 or turn > 30 else 0
            put(self.client, topic, records.batch([(b"k%d" % (turn % 3), b"%d" % turn)],
                                                  timestamp=self.now - age + turn * STEP_MS))

    def overdue(self):
        """Nothing is dirty enough, but some of it too old not to be compacted."""
        topic = self.create("overdue", delete_retention_ms=LONG_MS)
        for turn in range(20):
            put(self.client, topic, records.batch([(b"k%d" % (turn % 3), b"%d" % turn)],
                                                  timestamp=self.now - 2 * DAY_MS + turn * STEP_MS))

    def big(self):
        """More than one new segment: as many old ones become one as fit into it."""
        topic = self.create("big", delete_retention_ms=LONG_MS, segment_bytes=1048576, segment_ms=7 * DAY_MS)
        batches = [records.batch([(b"k%d" % number, bytes([65 + number]) * BIG_BYTES)], timestamp=self.now + number)
                   for number in range(7)]
        for turn in range(33):
            put(self.client, topic, batches[turn * 3 % 7] if turn % 4 else batches[turn % 7])

    def transactions(self, kind, stays_open, **configs):
        """Committed and aborted ones of producers that overlap, some of them wholly superseded; one may be left open."""
        topic = self.create(kind, segment_ms=40, **configs)
        one, two, long_one = (Transactions(self.client, f"{topic}-{name}") for name in ("one", "two", "long"))
        for turn in range(24):
            writer = (one, two)[turn % 2]
            writer.send(topic, [(b"t%d" % (turn % 5), b"%d" % turn), (b"u%d" % turn, None if turn % 4 == 1 else b"u")],
                        codec=turn % 2)
            self.stamped(topic, [(b"p%d" % (turn % 3), b"plain %d" % turn)])
            if turn == 8:
                long_one.send(topic, [(b"long", b"1")])
            if turn % 3 == 2:
                one.end(turn % 2 == 0)
            if turn % 4 == 3:
                two.end(turn % 8 == 3)
            if turn == 17:
                long_one.end(False)
        one.end(False)
        two.end(True)
        for turn in range(16):
            self.stamped(topic, [(b"t%d" % (turn % 5), b"later"), (b"p%d" % (turn % 3), b"later")])
            time.sleep(0.012)
        if stays_open:
            one.send(topic, [(b"open", b"1")])
        for turn in range(8):
            self.stamped(topic, [(b"t%d" % (turn % 5), b"behind")])
            time.sleep(0.012)

    def stamped(self, topic, values):
        put(self.client, topic, records.batch(values, timestamp=int(time.time() * 1000)))

    def deleted(self):
        """Compacted and deleted: what is old goes first."""
        topic = self.create("deleted", cleanup_policy="compact,delete", delete_retention_ms=LONG_MS)
        for turn in range(40):
            age = 10 * DAY_MS if turn < 18 else DAY_MS
            put(self.client, topic, records.batch([(b"k%d" % (turn % 5), b"%d" % turn)],
                                                  timestamp=self.now - age + turn * STEP_MS))

    def fill(self):
        self.codecs()
        self.producers()
        self.lag()
        self.overdue()
        self.big()
        self.transactions("txns", False, delete_retention_ms=LONG_MS)
        self.transactions("txns-passing", False, delete_retention_ms=0)
        self.transactions("txns-open", True, delete_retention_ms=0)
        self.deleted()
        return self.topics


def more(clients, topics):
    """A second input, the same for both: a good part of what was kept is superseded; producers go on."""
    later = int(time.time() * 1000) + 60 * STEP_MS   # than all that was written, however fast: segments are rolled by it
    for kind, keys in (("codecs", b"k%d"), ("codecs-passing", b"k%d"), ("producers", b"a%d"), ("overdue", b"k%d"),
                       ("txns", b"t%d"), ("txns-passing", b"u%d"), ("lag", b"k%d")):
        for turn in range(24):
            value = None if turn % 5 == 2 else b"second %d" % turn
            data = records.batch([(keys % (turn % 7), value), (b"only none", None)], codec=turn % 2,
                                 timestamp=later + turn * STEP_MS)
            for client in clients:
                put(client, topics[kind], data)
