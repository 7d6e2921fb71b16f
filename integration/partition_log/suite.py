"""Our log code and Apache Kafka 4.4 on the same files: what one wrote, the other opens and reads the same.

No broker of ours: `log_tool` of the unit tests is our log code on real files.
"""

import re
import shutil

from harness import broker
from harness.runner import Different, ottla_only
from wire.client import Client

NEEDS = ("kafka",)
NEEDS_BROKER = False
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def ours(env, mode, folder, topic, *more):
    """log_tool's lines."""
    return env.run([env.build / "tests/partition/log_tool", mode, folder, topic, 0, *more]).stdout.splitlines()


def theirs(env, folder):
    """Batches as kafka-dump-log sees them: (base, last, epoch, crc, max timestamp, producer, sequence, records)."""
    found = []
    for segment in sorted(folder.glob("*.log")):
        out = env.tool("kafka-dump-log", "--files", segment, bootstrap=False).out
        found += re.findall(
            r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) baseSequence: (-?\d+) .*?producerId: (-?\d+) .*?"
            r"partitionLeaderEpoch: (-?\d+) .*?(?:CreateTime|LogAppendTime): (-?\d+) .*?crc: (\d+) ", out, re.MULTILINE)
    return [tuple(map(int, (base, last, epoch, crc, time, producer, sequence, count)))
            for base, last, count, sequence, producer, epoch, time, crc in found]


def batches_of(lines):
    """The same of log_tool's lines."""
    pattern = (r"batch base=(\d+) last=(\d+) epoch=(-?\d+) crc=(\d+) max_timestamp=(-?\d+) producer=(-?\d+) "
               r"sequence=(-?\d+) records=(\d+) ")
    return [tuple(map(int, re.match(pattern, line).groups())) for line in lines if line.startswith("batch")]


def oracle(env, name):
    return broker.Kafka(env.folder / name)


def fill(env, node, topic):
    """Batches of every codec over several segments."""
    sent = []
    for codec in CODECS:
        lines = [f"{codec}-{number} {'z' * (number % 400)}" for number in range(400)]
        env.tool("kafka-console-producer", "--topic", topic, "--compression-codec", codec, "--batch-size", "2000",
                 "--command-property", "acks=all", node=node, stdin="\n".join(lines) + "\n")
        sent += lines
    return sent


def same(seen, expected, what):
    if seen != expected or not expected:
        at = next((place for place, (one, two) in enumerate(zip(seen, expected)) if one != two), None)
        raise Different(f"{what}: {len(seen)} batches, expected {len(expected)}; first difference at {at}: "
                        f"{seen[at] if at is not None else None} {expected[at] if at is not None else None}")


@ottla_only
def test_reads_what_kafka_wrote(env):
    """A topic directory of Apache Kafka opens, after a kill and after a clean stop, with the batches it lists itself."""
    node = oracle(env, "writer")
    node.start()
    try:
        topic = env.topic(1, "written", node=node, segment_bytes=1048576, index_interval_bytes=512)
        sent = fill(env, node, topic)
        folder = node.topic_folder(topic)
        killed = env.folder / "killed"
        shutil.copytree(folder, killed / folder.name)       # as a kill would leave it: preallocated indexes and all
        node.stop()
    finally:
        node.kill()
    stopped = env.folder / "stopped"
    shutil.copytree(folder, stopped / folder.name)
    expected = theirs(env, folder)
    for lines, what in ((ours(env, "read", killed, topic, "unclean"), "after a kill"),
                        (ours(env, "read", stopped, topic), "after a clean stop"),
                        (ours(env, "read", killed, topic), "again, after our recovery")):
        same(batches_of(lines), expected, what)
        env.see(f"end {what}", re.search(r"start=(\d+) end=(\d+)", lines[-1]).groups(), ("0", str(len(sent))))
    same(theirs(env, killed / folder.name), expected, "kafka-dump-log after our recovery")
    for index in sorted((killed / folder.name).glob("*index")):
        out = env.tool("kafka-dump-log", "--files", index, bootstrap=False)
        if re.search(r"(?i)mismatch|out of order|not correct|exception", out.out + out.err):
            raise Different(f"a fault in {index.name}: {out}")


@ottla_only
def test_kafka_reads_what_we_wrote(env):
    """Apache Kafka starts on a topic directory that we wrote, and its consumer reads every record."""
    node = oracle(env, "reader")
    node.start()
    try:
        topic = env.topic(1, "ours", node=node, segment_bytes=1048576)
        node.stop()
        folder = node.topic_folder(topic)
        for path in folder.iterdir():
            if path.name != "partition.metadata":           # the id stays: it is what our code reads, too
                path.unlink()
        ours(env, "write", node.data, topic, 500, 40000)
        expected = batches_of(ours(env, "read", node.data, topic))
        count = sum(batch[7] for batch in expected)
        node.start()
        out = env.tool("kafka-console-consumer", "--topic", topic, "--partition", 0, "--offset", "earliest",
                       "--max-messages", count, "--timeout-ms", 60000, node=node).out
        env.see("records", len(out.splitlines()), count)
        ends = env.tool("kafka-get-offsets", "--topic", topic, node=node).out
        env.see("end offset", ends.strip(), f"{topic}:0:{count}")
        log = node.log_path.read_text(errors="replace")
        found = re.findall(rf"^.*(?:WARN|ERROR).*{topic}.*$", log, re.MULTILINE)
        if found:
            raise Different(f"Kafka complains: {found}")
        node.stop()
    finally:
        node.kill()


@ottla_only
def test_kafka_reads_our_transactions(env):
    """kafka-dump-log finds in our .txnindex files what our markers say, and Apache Kafka's consumer leaves out just what
    we aborted."""
    node = oracle(env, "transactions")
    node.start()
    try:
        topic = env.topic(1, "transactions", node=node, segment_bytes=1048576)
        node.stop()
        folder = node.topic_folder(topic)
        for path in folder.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        ours(env, "transactions", node.data, topic, 240, 20000)     # each producer: 20 transactions, 10 of them aborted
        aborted, markers, snapshots = [], [], []
        for path in sorted(folder.glob("*.txnindex")):
            out = env.tool("kafka-dump-log", "--files", path, bootstrap=False).out
            aborted += map(int, re.findall(r"lastOffset: (\d+)", out))
        for path in sorted(folder.glob("*.log")):
            out = env.tool("kafka-dump-log", "--deep-iteration", "--files", path, bootstrap=False).out
            markers += map(int, re.findall(r"^\| offset: (\d+) .*endTxnMarker: ABORT", out, re.MULTILINE))
        for path in sorted(folder.glob("*.snapshot")):
            out = env.tool("kafka-dump-log", "--files", path, bootstrap=False).out
            snapshots += re.findall(r"producerId: \d+", out)
        env.see("index and markers", (len(aborted), aborted == markers), (30, True))
        env.see("producers in snapshots", len(snapshots) >= 3, True)
        node.start()
        with Client(node) as client:
            client.await_leaders(topic, 1)
            env.see("a last record", client.produce(topic, [b"the last"], version=12)["ErrorCode"], 0)
        for isolation, count in (("read_committed", 120), ("read_uncommitted", 240)):
            out = env.tool("kafka-console-consumer", "--topic", topic, "--partition", 0, "--offset", "earliest",
                           "--isolation-level", isolation, "--max-messages", count + 1, "--timeout-ms", 60000, node=node).out
            lines = out.splitlines()
            env.see(isolation, (len(lines), lines[-1:], lines.count("the last")), (count + 1, ["the last"], 1))
        node.stop()
    finally:
        node.kill()
