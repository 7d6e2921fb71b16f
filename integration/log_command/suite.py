"""`ottla log` on files of Apache Kafka 4.4 and on ours: its dump says what kafka-dump-log says, its verify has nothing to
say, and Kafka starts on what its recover and its repair leave.

Sources: cli/log.c, cli/log_journal.c, cli/log_repair.c, cli/log_target.c, partition/log_repair.c
"""

import json
import re
import threading

from harness import broker
from harness.patience import until
from harness.runner import Different, ottla_only
from whole_node.suite import oracle, take_over
from wire import records
from wire.client import Client
from wire.connection import Closed

NEEDS = ("kafka",)
NEEDS_BROKER = False
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def ottla_log(env, *words, expect=0):
    """The lines of an `ottla log` command, as objects."""
    done = env.run([env.build / "src/ottla", "log", *words, "--json"], expect=None)
    if done.returncode != expect:
        raise Different(f"ottla log {words}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def batches_of_kafka(env, segment):
    """Batches as kafka-dump-log sees them."""
    out = env.tool("kafka-dump-log", "--files", segment, bootstrap=False).out
    found = re.findall(
        r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) baseSequence: (-?\d+) lastSequence: (-?\d+) producerId: (-?\d+) "
        r"producerEpoch: (-?\d+) partitionLeaderEpoch: (-?\d+) isTransactional: (\w+) isControl: (\w+) .*?"
        r"position: (\d+) (?:CreateTime|LogAppendTime): (-?\d+) size: (\d+) .*?compresscodec: (\w+) crc: (\d+) ",
        out, re.MULTILINE)
    return [(*map(int, batch[:8]), batch[8] == "true", batch[9] == "true", *map(int, batch[10:13]), batch[13],
             int(batch[14])) for batch in found]


def batches_of_ours(lines):
    return [(line["base_offset"], line["last_offset"], line["records"], line["base_sequence"], line["last_sequence"],
             line["producer_id"], line["producer_epoch"], line["leader_epoch"], line["transactional"], line["control"],
             line["position"], line["max_timestamp"], line["bytes"], line["codec"], line["crc"])
            for line in lines if line["kind"] == "batch"]


def records_of_kafka(env, segment):
    """(offset, key, value) of a topic whose keys and values are text without separators of its own."""
    out = env.tool("kafka-dump-log", "--print-data-log", "--files", segment, bootstrap=False).out
    return [(int(offset), key, value) for offset, key, value in re.findall(
        r"^\| offset: (\d+) .*?(?: key: (\S+))? payload: (.*)$", out, re.MULTILINE)]


def fill(env, node, topic):
    """Records with keys, of every codec, each as batches of their own."""
    for codec in CODECS:
        lines = [f"key{number % 7}:{codec}-{number}-{'z' * (number % 300)}" for number in range(300)]
        env.tool("kafka-console-producer", "--topic", topic, "--compression-codec", codec, "--batch-size", "2000",
                 "--reader-property", "parse.key=true", "--reader-property", "key.separator=:",
                 "--command-property", "acks=all", node=node, stdin="\n".join(lines) + "\n")


@ottla_only
def test_dump_says_what_kafka_dump_log_says(env):
    """Every batch of every codec, every record, index and offsets topic of a node of Apache Kafka; verify is content."""
    node = broker.Kafka(env.folder / "node")
    node.start()
    try:
        topic = env.topic(1, "dumped", node=node, segment_bytes=1048576, index_interval_bytes=512)
        fill(env, node, topic)
        env.tool("kafka-console-consumer", "--topic", topic, "--group", "readers", "--from-beginning",
                 "--max-messages", 1500, "--timeout-ms", 60000, node=node)
        ottla_log(env, "verify", node.data)                 # beside the running broker
        folder = node.topic_folder(topic)
        node.stop()
    finally:
        node.kill()
    for segment in sorted(node.data.glob("*/*.log")):
        seen, expected = batches_of_ours(ottla_log(env, "dump", segment)), batches_of_kafka(env, segment)
        if seen != expected:
            at = next((i for i, (one, two) in enumerate(zip(seen, expected)) if one != two), min(len(seen), len(expected)))
            raise Different(f"{segment}: {len(seen)} batches, Kafka has {len(expected)}; first at {at}: "
                            f"{seen[at:at + 1]} {expected[at:at + 1]}")
    for segment in sorted(folder.glob("*.log")):
        seen = [(line["offset"], line["key"], line["value"]) for line in ottla_log(env, "dump", "--records", segment)
                if line["kind"] == "record"]
        if seen != records_of_kafka(env, segment) or not seen:
            raise Different(f"records differ in {segment}")
    commits = [line for line in ottla_log(env, "dump", "--records", *sorted(node.data.glob("__consumer_offsets-*")))
               if line["kind"] == "record" and isinstance(line.get("key"), dict)
               and line["key"]["type"] == "OffsetCommitKey" and line["key"]["topic"] == topic]
    env.see("committed", commits[-1]["value"]["offset"], 1500)
    found = [line for line in ottla_log(env, "verify", "--records", node.data) if line["kind"] == "fault"]
    env.see("faults", found, [])


def offsets_kafka_reads(env, node, topic, end):
    """Offsets of what a consumer of Apache Kafka's gets."""
    out = env.tool("kafka-console-consumer", "--topic", topic, "--partition", 0, "--offset", "earliest",
                   "--max-messages", end, "--timeout-ms", 60000, "--formatter-property", "print.offset=true",
                   node=node).out
    return [int(line.split("\t")[0].removeprefix("Offset:")) for line in out.splitlines()]


@ottla_only
def test_kafka_starts_on_what_recover_and_repair_leave(env):
    """A torn end and preallocated indexes are put in order by recover, a damaged batch is given up by repair; Kafka starts
    without a word about either and reads all the rest."""
    node = broker.Kafka(env.folder / "mended")
    node.start()
    try:
        torn, hurt = (env.topic(1, name, node=node, segment_bytes=1048576) for name in ("torn", "hurt"))
        fill(env, node, torn)
        fill(env, node, hurt)
        node.kill()
        segment = sorted(node.topic_folder(torn).glob("*.log"))[-1]
        before = batches_of_ours(ottla_log(env, "dump", segment))
        with open(segment, "r+b") as file:
            file.truncate(segment.stat().st_size - 7)
        (node.data / "recovery-point-offset-checkpoint").write_text("0\n0\n")
        ottla_log(env, "recover", node.data)
        ottla_log(env, "verify", node.data)
        env.see("batches left", len(batches_of_ours(ottla_log(env, "dump", segment))), len(before) - 1)
        segment = sorted(node.topic_folder(hurt).glob("*.log"))[0]
        batches = batches_of_ours(ottla_log(env, "dump", segment))
        lost = batches[3]
        content = bytearray(segment.read_bytes())
        content[lost[10] + lost[12] - 1] ^= 1
        segment.write_bytes(content)
        ottla_log(env, "verify", node.data, expect=1)
        env.see("kept", ottla_log(env, "repair", node.topic_folder(hurt), expect=1)[0]["damaged_ranges"], 1)
        given_up = ottla_log(env, "repair", "--accept-loss", node.topic_folder(hurt))[0]
        env.see("given up", (given_up["ranges_given_up"], given_up["offsets_lost"]), (1, lost[2]))
        ottla_log(env, "verify", "--records", node.data)
        node.start()
        end = before[-1][0]
        env.see("read of the torn one", offsets_kafka_reads(env, node, torn, end), list(range(end)))
        env.see("end offset", env.tool("kafka-get-offsets", "--topic", torn, node=node).out.strip(), f"{torn}:0:{end}")
        left = [offset for offset in range(batches[-1][1] + 1) if not lost[0] <= offset <= lost[1]]
        env.see("read of the hurt one", offsets_kafka_reads(env, node, hurt, len(left)), left)
        complaints = re.findall(rf"^.*(?:WARN|ERROR).*(?:{torn}|{hurt}).*$", node.log_path.read_text(errors="replace"),
                                re.MULTILINE)
        env.see("complaints", complaints, [])
        node.stop()
    finally:
        node.kill()


WRITERS = 8
ACKED_MIN = 1000


def write_until_it_dies(node, ids, topic, writer, acked):
    """Notes (partition, offset, value) of what was acknowledged."""
    try:
        with Client(node) as client:
            client.ids = ids
            for number in range(1 << 20):
                value = b"%d-%d-" % (writer, number) + b"v" * (number * 37 % 900)
                part = client.produce(topic, [(None, value)], partition=writer % 4)
                if part["ErrorCode"] == 0:
                    acked.append((writer % 4, part["BaseOffset"], value))
    except (OSError, Closed):
        pass


def lose_what_journals_have(env, segment, partition, entries):
    """Cuts the segment within what was given to the journal without a gap: all before may have been synced by itself."""
    since = entries[0]["offset"]
    for before, entry in zip(entries, entries[1:]):
        if entry["previous_end"] != before["end_offset"]:
            since = entry["offset"]
    batches = [batch for batch in batches_of_ours(ottla_log(env, "dump", segment)) if batch[0] >= since]
    at = batches[len(batches) * partition // 5]
    with open(segment, "r+b") as file:
        file.truncate(at[10] + at[12] // 2)


@ottla_only
def test_kafka_has_what_only_journals_held(env):
    """After kill -9 and the loss of what the segments had not synced, recover brings it out of the journals: Apache Kafka
    starts on the directory and has every acknowledged record."""
    node = oracle(env, "journals")
    node.prepare()
    ours = take_over(env, node)
    acked = []
    try:
        ours.start()
        with Client(ours) as client:
            topic = client.create(4, flush_messages=1)
            ids = client.ids
        writers = [threading.Thread(target=write_until_it_dies, args=(ours, ids, topic, writer, acked))
                   for writer in range(WRITERS)]
        for writer in writers:
            writer.start()
        until("enough is acknowledged", lambda: len(acked) > ACKED_MIN or not ours.alive())
        ours.kill()
        for writer in writers:
            writer.join()
        entries = [line for line in ottla_log(env, "dump", *sorted(node.data.glob("ottla-journal-*")))
                   if line["kind"] == "journal_entry"]
        env.see("in journals", len(entries) > 100, True)
        for partition in range(4):
            lose_what_journals_have(env, node.topic_folder(topic, partition) / f"{0:020}.log", partition,
                                    [entry for entry in entries if entry["partition"] == partition])
        (node.data / "recovery-point-offset-checkpoint").write_text(f"0\n1\n{topic} 0  0\n")    # our hand
        notes = [line for line in ottla_log(env, "verify", node.data) if line["kind"] == "note"]
        env.see("journals noted", any("ottla log recover" in line["text"] for line in notes), True)
        recovered = ottla_log(env, "recover", node.data)
        env.see("journals left", sorted(node.data.glob("ottla-journal-*")), [])
        found = [line for line in ottla_log(env, "verify", "--records", node.data) if line["kind"] in ("note", "fault")]
        env.see("found", [line for line in found if "__cluster_metadata-0" not in line["file"]], [])
        node.start()
        with Client(node) as client:
            client.ids = ids
            have = {}
            for partition in range(4):
                offset, end = 0, client.list_offsets(topic, -1, partition)[1]
                mine = [line["end_offset"] for line in recovered
                        if (line["topic"], line["partition"]) == (topic, partition)]
                env.see(f"end of {partition}", mine, [end])
                while offset < end:
                    for at, _, _, value, _ in records.records(client.fetch(topic, offset, partition)["Records"]):
                        have[partition, at] = value
                        offset = at + 1
        lost = [place for *place, value in acked if have.get(tuple(place)) != value]
        env.see("lost or changed", lost, [])
        print(f"     {len(acked)} records acknowledged as synced, 0 lost", flush=True)
        node.stop()
    finally:
        ours.kill()
        node.kill()
