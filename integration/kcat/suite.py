"""kcat (librdkafka 2.0 on Debian 12): produce, consume, list and query. Needs nothing but Debian's packages."""

import itertools
import json
import time

from harness.patience import eventually
from harness.runner import Different
from wire import records

NEEDS = ("kcat",)
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_numbers = itertools.count(1)


def name(kind):
    """A topic that does not exist yet: kcat's first produce makes it."""
    return f"kcat-{kind}-{next(_numbers)}"


def kcat(env, *arguments, **how):
    return env.run(["kcat", "-b", env.broker.bootstrap, *arguments], **how)


def read(env, topic, *arguments, form="%s\n"):
    return kcat(env, "-C", "-t", topic, "-e", "-q", "-f", form, "-X", "fetch.wait.max.ms=20", *arguments).stdout


def stored_codecs(env, topic):
    """The codec bits of every batch in the partition's first segment."""
    segment = env.broker.topic_folder(topic) / "00000000000000000000.log"
    return {batch["attributes"] & 7 for batch in records.batches(segment.read_bytes())}


def test_every_codec(env):
    """-P with each codec and -C give the same lines, and the batches are stored with the codec they came in."""
    lines = [f"{number:05d} some words that can be compressed, compressed, compressed" for number in range(5000)]
    text = "\n".join(lines) + "\n"
    for codec, bits in CODECS.items():
        topic = name(codec)
        kcat(env, "-P", "-t", topic, "-z", codec, input=text)
        if read(env, topic, "-o", "beginning", "-X", "check.crcs=true") != text:
            raise Different(f"{codec}: the lines read are not the lines written")
        # The client leaves a batch plain where compressing it would not make it smaller.
        env.see(f"stored with {codec}", bits in stored_codecs(env, topic), True)


def test_every_acks(env):
    """acks 0, 1 and all; with 0 no reply is sent and the connection stays usable."""
    topic = name("acks")
    for acks in (0, 1, -1):
        kcat(env, "-P", "-t", topic, "-X", f"acks={acks}", input=f"with {acks}\n")
    got = eventually(lambda: read(env, topic, "-o", "beginning").splitlines(), lambda lines: len(lines) >= 3)
    if sorted(got) != ["with -1", "with 0", "with 1"]:
        raise Different(f"{got}")


def test_keys_headers_and_nulls(env):
    """Keys, headers, empty and null values come back as they were."""
    topic = name("keys")
    kcat(env, "-P", "-t", topic, "-K", ":", "-Z", "-H", "a=1", "-H", "b=", input="k1:v1\nk2:\n:v3\n")
    got = read(env, topic, "-o", "beginning", form="%o|%K|%k|%S|%s|%h\n")
    env.see("records", got.splitlines(),
            ["0|2|k1|2|v1|a=1,b=", "1|2|k2|-1||a=1,b=", "2|-1||2|v3|a=1,b="])


def test_metadata_list(env):
    """-L names the broker and the topic with its partition and leader."""
    topic = name("list")
    kcat(env, "-P", "-t", topic, input="x\n")
    got = json.loads(kcat(env, "-L", "-J").stdout)
    env.see("brokers", [broker["id"] for broker in got["brokers"]], [1])
    mine = [entry for entry in got["topics"] if entry["topic"] == topic]
    env.see("partitions", mine[0]["partitions"],
            [{"partition": 0, "leader": 1, "replicas": [{"id": 1}], "isrs": [{"id": 1}]}])
    plain = kcat(env, "-L", "-t", topic).stdout
    if f'broker 1 at 127.0.0.1:{env.broker.port}' not in plain:
        raise Different(plain)


def test_query_offsets(env):
    """-Q finds the first record at or after a time, the beginning and the end."""
    topic = name("query")
    kcat(env, "-P", "-t", topic, input="one\ntwo\n")
    time.sleep(0.05)
    between = int(time.time() * 1000)
    time.sleep(0.05)
    kcat(env, "-P", "-t", topic, input="three\n")

    def query(when):
        return kcat(env, "-Q", "-t", f"{topic}:0:{when}").stdout.strip().replace(topic, "T")

    env.see("long ago", query(1000), "T [0] offset 0")
    env.see("between", query(between), "T [0] offset 2")
    env.see("in an hour", query(between + 3600000), "T [0] offset -1")
    env.see("beginning", query(-2), "T [0] offset 0")
    env.see("end", query(-1), "T [0] offset 3")


def test_offsets_and_tail(env):
    """-o as a number, from the end, and by timestamp; a consumer that waits sees what comes later."""
    topic = name("offset")
    kcat(env, "-P", "-t", topic, input="".join(f"{number}\n" for number in range(100)))
    env.see("from 97", read(env, topic, "-p", 0, "-o", 97), "97\n98\n99\n")
    env.see("last two", read(env, topic, "-p", 0, "-o", -2), "98\n99\n")
    env.see("out of range falls to the end", read(env, topic, "-p", 0, "-o", 5000, "-X",
                                                  "topic.auto.offset.reset=latest"), "")
    env.see("one message", kcat(env, "-C", "-t", topic, "-p", 0, "-o", "beginning", "-c", 1, "-q").stdout, "0\n")


def test_large_messages(env):
    """A record near the limit passes; one above it is refused and nothing of it is stored."""
    topic = name("large")
    large = "x" * 990_000
    kcat(env, "-P", "-t", topic, input=large + "\n")
    if read(env, topic, "-o", "beginning", "-X", "fetch.message.max.bytes=1000") != large + "\n":
        raise Different("the large record did not come back whole")
    done = kcat(env, "-P", "-t", topic, "-X", "message.max.bytes=3000000", input="y" * 1_500_000 + "\n", expect=None)
    env.see("too large", "too large" in done.stderr.lower(), True)
    env.see("end", kcat(env, "-Q", "-t", f"{topic}:0:-1").stdout.strip().replace(topic, "T"), "T [0] offset 1")
