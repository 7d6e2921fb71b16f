"""Our record batches against those of Apache Kafka's own classes: read, written, judged."""

import random
import struct
import subprocess
import sys

from harness import cache, tools
from harness.runner import Different

NEEDS = ("kafka",)
NEEDS_BROKER = False

SEED = 20260707
SAMPLES = 60                # batches of each codec, each way
MUTATIONS = 150             # damaged copies of one batch of each codec
NOW_MS = 1700000000000
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
HEADER_BYTES = 61
SHOWN = 12

# Where we refuse what Apache Kafka takes, or take what it refuses, and why.
DIFFERENT = {
    "a length of -2": "Kafka takes any negative length for null, other readers do not",
    "a length varint over 32 bits": "Kafka drops the upper bits, other readers do not",
    "an offset delta that is not the record's number": "Kafka stores the gap in a plain batch, fails in a compressed one; "
                                                       "we refuse the first and mend the second",
    "a batch that claims LogAppendTime": "Kafka looks at the claim only where the topic stamps, or where there is no time",
}


def crc32c(data):
    table = crc32c.table
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


crc32c.table = []
for entry in range(256):
    for _ in range(8):
        entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
    crc32c.table.append(entry)


def seal(batch):
    """With a right CRC: damage that it would show needs no comparing."""
    return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]


def batch(body, count=1, attributes=0, last_delta=None, base_time=NOW_MS, max_time=NOW_MS, producer=-1, epoch=-1, sequence=-1):
    header = struct.pack(">hiqqqhii", attributes, count - 1 if last_delta is None else last_delta, base_time, max_time, producer,
                         epoch, sequence, count)
    return seal(struct.pack(">qiibI", 0, 49 + len(body), -1, 2, 0) + header + body)


def java(lines, folder):
    """What Apache Kafka's classes answer to these lines."""
    source, results = folder / "in", folder / "out"
    source.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    with open(source, encoding="utf-8") as stdin, open(results, "w", encoding="utf-8") as stdout:
        subprocess.run(["java", *tools.java_options(), str(cache.INTEGRATION / "batches/Batches.java")], stdin=stdin,
                       stdout=stdout, stderr=sys.stderr, timeout=300, check=True)
    return results.read_text(encoding="utf-8").split("\n")[:-1]


def ours(env, mode, lines):
    pipe = env.client_program("tests/protocol/batch_pipe")
    return env.run([pipe, mode], input="".join(line + "\n" for line in lines)).stdout.split("\n")[:-1]


def samples(env):
    """Pairs of a batch we built, in hex, and the records in it."""
    pipe = env.client_program("tests/protocol/batch_pipe")
    return [line.split(" ") for line in env.run([pipe, "samples", SEED, SAMPLES]).stdout.splitlines()]


def compare(expected, got):
    if len(expected) != len(got):
        raise Different(f"{len(expected)} batches, {len(got)} answers")
    wrong = [f"{b[:300]} expected {a[:300]}" for a, b in zip(expected, got) if a != b]
    if wrong:
        raise Different(f"{len(wrong)} of {len(got)} differ: " + "; ".join(wrong[:SHOWN]))


def test_kafka_reads_ours(env):
    """Every record of the batches we build, with every codec, is read by Apache Kafka as it was meant."""
    pairs = samples(env)
    compare([text for _, text in pairs], java([f"read {built}" for built, _ in pairs], env.folder))
    env.see("batches", len(pairs))


def test_we_read_kafkas(env):
    """Every record of the batches that Apache Kafka builds, with every codec, is read by us as it was meant."""
    pairs = samples(env)
    lines = [f"build {number % 5} {text}" for number, (_, text) in enumerate(pairs)]
    compare([text for _, text in pairs], ours(env, "read", java(lines, env.folder)))


def test_plain_batches_are_kafkas_bytes(env):
    """A batch without a codec is built byte for byte as Apache Kafka builds it."""
    pairs = samples(env)[::5]
    built = java([f"build 0 {text}" for _, text in pairs], env.folder)
    compare(built, [text for text, _ in pairs])


def hostile():
    """Known trap B118: (what, keys required, time stamped, batch, key of DIFFERENT or None)."""
    length, wide, delta = "a length of -2", "a length varint over 32 bits", "an offset delta that is not the record's number"
    rows = [
        ("fine", b"\x0c\0\0\0\1\1\0", 1, None),
        ("fine, attributes set", b"\x0c\xff\0\0\1\1\0", 1, None),
        ("nothing", b"", 1, None),
        ("length past the end", b"\x10\0\0\0\1\1\0", 1, None),
        ("length of 2^31-1", b"\xfe\xff\xff\xff\x0f\0\0\0\1\1\0", 1, None),
        ("length -1", b"\1\0\0\0\1\1\0", 1, None),
        ("length 0", b"\0\0\0\0\1\1\0", 1, None),
        ("length too short", b"\x0a\0\0\0\1\1\0", 1, None),
        ("length too long", b"\x0e\0\0\0\1\1\0\0", 1, None),
        ("length varint of 6 bytes", b"\x8c\x80\x80\x80\x80\0\0\0\0\1\1\0", 1, None),
        ("length varint over 32 bits", b"\x8c\x80\x80\x80\x10\0\0\0\1\1\0", 1, wide),
        ("length varint cut off", b"\xff", 1, None),
        ("time varlong of 11 bytes", b"\x20\0" + b"\x80" * 10 + b"\0\0\1\1\0", 1, None),
        ("key length -2", b"\x0c\0\0\0\3\1\0", 1, length),
        ("key past the end", b"\x0c\0\0\0\x20\1\0", 1, None),
        ("value length -2", b"\x0c\0\0\0\1\3\0", 1, length),
        ("value length 2^31-1", b"\x14\0\0\0\1\xfe\xff\xff\xff\x0f\0", 1, None),
        ("header count -1", b"\x0c\0\0\0\1\1\1", 1, None),
        ("header count 2^31-1", b"\x14\0\0\0\1\1\xfe\xff\xff\xff\x0f", 1, None),
        ("header missing", b"\x0c\0\0\0\1\1\2", 1, None),
        ("header key length -1", b"\x10\0\0\0\1\1\2\1\1", 1, None),
        ("header value length -2", b"\x10\0\0\0\1\1\2\0\3", 1, length),
        ("bytes behind the last record", b"\x0c\0\0\0\1\1\0\0", 1, None),
        ("a record less than announced", b"\x0c\0\0\0\1\1\0", 2, None),
        ("a record more than announced", b"\x0c\0\0\0\1\1\0\x0c\0\0\2\1\1\0", 1, None),
        ("offset delta 1", b"\x0c\0\0\2\1\1\0", 1, delta),
        ("offset delta -1", b"\x0c\0\0\1\1\1\0", 1, delta),
    ]
    for what, body, count, why in rows:
        yield what, 0, 0, batch(body, count), why


def headers():
    """What the header may say."""
    fine = b"\x0c\0\0\0\1\1\0"
    claim = "a batch that claims LogAppendTime"
    yield "null key, compacted", 1, 0, batch(fine), None
    yield "empty key, compacted", 1, 0, batch(b"\x0c\0\0\0\0\1\0"), None
    yield "control", 0, 0, batch(fine, attributes=0x20), None
    yield "transactional", 0, 0, batch(fine, attributes=0x10, producer=5, epoch=0, sequence=0), None
    yield "claims LogAppendTime", 0, 0, batch(fine, attributes=8), claim
    yield "claims LogAppendTime, topic stamps", 0, 1, batch(fine, attributes=8), None
    yield "delete horizon", 0, 0, batch(fine, attributes=0x40), None
    yield "unused attribute", 0, 0, batch(fine, attributes=0x4000), None
    yield "codec 5", 0, 0, batch(fine, attributes=5), None
    yield "no records", 0, 0, batch(b"", count=0, last_delta=0), None
    yield "count -1", 0, 0, batch(fine, count=-1, last_delta=0), None
    yield "last delta too large", 0, 0, batch(fine, last_delta=5), None
    yield "last delta -1", 0, 0, batch(fine, last_delta=-1), None
    yield "producer without sequence", 0, 0, batch(fine, producer=5, epoch=0), None
    for what, time in (("an hour ahead", NOW_MS + 3600000), ("over an hour ahead", NOW_MS + 3600001), ("none", -1),
                       ("the smallest", -2 ** 63), ("the largest", 2 ** 63 - 1)):
        yield f"time: {what}", 0, 0, batch(fine, base_time=time, max_time=time), None
        yield f"time: {what}, topic stamps", 0, 1, batch(fine, base_time=time, max_time=time), None
    wrong = bytearray(batch(fine))
    wrong[-1] ^= 1
    yield "wrong CRC", 0, 0, bytes(wrong), None


def check(cases, kafkas, mine):
    """Refused by one is refused by the other, with the same error where Kafka has a name for it."""
    wrong, seen = [], set()
    for (what, _, _, _, why), kafka, our in zip(cases, kafkas, mine):
        if why is not None:
            seen.add(why)
            if kafka == our:
                wrong.append(f"{what}: no difference any more, but one is listed")
        elif (kafka == "NONE") != (our == "NONE"):
            wrong.append(f"{what}: ours {our}, Kafka's {kafka}")
        elif kafka not in (our, "UNKNOWN_SERVER_ERROR"):
            wrong.append(f"{what}: ours {our}, Kafka's {kafka}")
    if len(cases) != len(kafkas) or len(cases) != len(mine):
        raise Different(f"{len(cases)} cases, {len(kafkas)} and {len(mine)} answers")
    if wrong:
        raise Different(f"{len(wrong)} of {len(cases)}: " + "; ".join(wrong[:SHOWN]))
    return seen


def judged(env, cases):
    lines = [f"{keys} {stamp} {data.hex()}" for _, keys, stamp, data, _ in cases]
    return java(["judge " + line for line in lines], env.folder), ours(env, "judge", lines)


def test_hostile_batches_are_judged_alike(env):
    """Hostile records and headers get the error that Apache Kafka's LogValidator gives them; where not, it is listed."""
    cases = [*hostile(), *headers()]
    seen = check(cases, *judged(env, cases))
    if seen != set(DIFFERENT):
        raise Different(f"listed, but not seen: {sorted(set(DIFFERENT) - seen)}")
    env.see("listed differences", len(seen))


def test_damage_is_never_taken_where_kafka_refuses(env):
    """Batches of every codec, damaged at random below a right CRC: what Apache Kafka refuses, we refuse, but for two
    listed reasons (offset deltas that we mend; bits of a zstd frame that its newer library minds)."""
    draw = random.Random(SEED)
    cases = []
    for codec, (built, _) in enumerate(samples(env)[5:10]):
        whole = bytes.fromhex(built)
        for number in range(MUTATIONS):
            data = bytearray(whole)
            for _ in range(draw.choice((1, 1, 2, 4))):
                at = draw.randrange(HEADER_BYTES, len(data))
                data[at] = draw.choice((data[at] ^ 1 << draw.randrange(8), draw.randrange(256), 0, 255, 1))
            cases.append((f"codec {codec}, number {number}", 0, 0, seal(bytes(data)), None))
    kafkas, mine = judged(env, cases)
    taken = [what for (what, *_), kafka, our in zip(cases, kafkas, mine)
             if our == "NONE" and kafka not in ("NONE", "UNKNOWN_SERVER_ERROR")]
    env.see("refused by both", sum(our != "NONE" and kafka != "NONE" for kafka, our in zip(kafkas, mine)) > MUTATIONS)
    if taken or len(mine) != len(cases) or len(kafkas) != len(cases):
        raise Different(f"taken, but refused by Kafka: {taken[:SHOWN]}")
