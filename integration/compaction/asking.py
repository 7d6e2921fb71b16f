"""What a compacted log holds, as Apache Kafka's own tools and the brokers tell it."""

import re
import struct

from harness.runner import Different
from whole_node.asking import SPECIAL, list_offsets

CODECS, CONTROL, DELETE_HORIZON = 0x07, 0x20, 0x40
TIMES_MAX = 60

FAULTS = re.compile(r"(?i)isvalid: false|mismatch|out of order|invalid bytes|exception|not correct|not found")


def dump(env, folder):
    """(what kafka-dump-log says of each batch and each record, where segments begin). A delete horizon is only told to be
    there, and what depends on how well a codec packs is left out."""
    segments = sorted(folder.glob("*.log"))
    out = env.tool("kafka-dump-log", "--deep-iteration", "--print-data-log", "--files", ",".join(map(str, segments)),
                   bootstrap=False)
    if FAULTS.search(out.out + out.err):
        raise Different(f"a fault in {folder}: {out}")
    lines = [line for line in out.out.splitlines() if line.startswith(("baseOffset:", "| offset:"))]
    lines = [re.sub(r"deleteHorizonMs: (Optional\w+\[)\d+", r"deleteHorizonMs: \1...", line) for line in lines]
    lines = [re.sub(r" (position|size|crc): \d+", "", line) for line in lines]
    return lines, [int(path.stem) for path in segments]


def check_indexes(env, folder, is_running):
    """Every index points at what is there, but for those that Apache Kafka has open, with zeros at their ends. Of a batch without records the tool says that it had no time, in its own
    logs too."""
    emptied = {batch[5] for path in folder.glob("*.log") for batch in heads(path.read_bytes()) if batch[7] == 0}
    active = max(path.stem for path in folder.glob("*.log"))
    files = [path for path in sorted(folder.iterdir()) if path.suffix in (".index", ".timeindex", ".snapshot", ".txnindex")
             and not (is_running and path.stem == active)]
    for more in ((), ("--index-sanity-check",)):
        out = env.tool("kafka-dump-log", *more, "--files", ",".join(map(str, files)), bootstrap=False)
        said = re.sub(r"^.* passed.*$", "", out.out + out.err, flags=re.MULTILINE)
        for at in re.findall(r"Index timestamp: (\d+), log timestamp: -1$", said, re.MULTILINE):
            if int(at) not in emptied:
                raise Different(f"a fault in {folder}: {out}")
        if FAULTS.search(re.sub(r"Found timestamp mismatch in .*\n(.*log timestamp: -1\n)*", "", said)):
            raise Different(f"a fault in {folder}: {out}")


def heads(data):
    """(bytes, base offset, last offset, attributes, first and greatest time, producer, count) of each whole batch."""
    at = 0
    while at + 61 <= len(data):
        base, length, _, _, _, attributes, last, first, greatest, *producer, count = \
            struct.unpack(">qiibIhiqqqhii", data[at:at + 61])
        if at + 12 + length > len(data):
            return
        yield 12 + length, base, base + last, attributes, first, greatest, tuple(producer), count
        at += 12 + length


def batches_of(client, topic, isolation, size=1 << 20):
    """Every batch that a consumer gets, and whether it belongs to an aborted transaction; then the marks."""
    offset, found = list_offsets(client, topic, -2, 0)[1], []
    while True:
        part = client.fetch(topic, offset, isolation=isolation, partition_max_bytes=size)
        aborted = [(each["ProducerId"], each["FirstOffset"]) for each in part["AbortedTransactions"] or ()]
        data = part["Records"]
        more = list(heads(data))
        if part["ErrorCode"] != 0 or not more:
            return found, (part["ErrorCode"], offset, part["HighWatermark"], part["LastStableOffset"],
                           part["LogStartOffset"])
        at = 0
        for bytes_, base, last, attributes, first, greatest, producer, count in more:
            # Headers and all: kafka-dump-log tells a header's key only.
            body = data[at + 61:at + bytes_] if attributes & (DELETE_HORIZON | CODECS) == 0 else None
            at += bytes_
            gone = any(producer[0] == who and since <= last for who, since in aborted)
            has_horizon = attributes & DELETE_HORIZON
            found.append((base, last, attributes, None if has_horizon else first, greatest, producer, count, body, gone))
            if attributes & CONTROL:        # a transaction ends here; the next of that producer is another
                aborted = [each for each in aborted if each[0] != producer[0] or each[1] > last]
        offset = more[-1][2] + 1


def times_of(batches):
    """Every time around those that batches begin and end with."""
    wanted = {0, 1, 10 ** 13, 2 ** 62}
    for batch in batches:
        for at in (batch[3], batch[4]):
            if at is not None and at >= 0:
                wanted |= {max(at - 1, 0), at, at + 1}
    return sorted(wanted)


def offsets(client, topic, times):
    """ListOffsets for these times and the special ones, for both isolation levels."""
    ends = [list_offsets(client, topic, -1, isolation)[1] for isolation in (0, 1)]
    return {(at, isolation): list_offsets(client, topic, at, isolation, ends[isolation])
            for at in (*SPECIAL, *times[::1 + len(times) // TIMES_MAX]) for isolation in (0, 1)}


def mind_empty_segments(ours, theirs, batches):
    """Apache Kafka takes a segment without any batch for as new as its file, looks for the time in there and nowhere
    else, and says that there is no record; we say which one there is."""
    for key, answer in theirs.items():
        if key[0] >= 0 and answer[1] == -1 and any(batch[4] >= key[0] for batch in batches):
            base = next(batch[0] for batch in batches if batch[4] >= key[0])
            if ours[key][1] >= base and ours[key][2] >= key[0]:
                theirs[key] = ours[key]
