"""Apache Kafka's own command line tools against the broker, and on its files."""

import re
import time

from harness.broker import Kafka
from harness.patience import until
from harness.runner import Different, ottla_only

# pylint: disable=unused-import
from .configs import test_configs_of_a_topic, test_configs_of_brokers, test_topic_alter  # noqa: F401
from .delete_records import test_delete_records  # noqa: F401
from .log_dirs import test_log_dirs  # noqa: F401
from .moves import test_alter_log_dirs_codes, test_reassign_log_dirs  # noqa: F401

NEEDS = ("kafka",)


def contains(result, *patterns):
    """Each pattern must match somewhere in the output."""
    for pattern in patterns:
        if not re.search(pattern, result.out, re.MULTILINE):
            raise Different(f"no match for {pattern!r}: {result}")


def consume(env, topic, *, partition=0, offset="earliest", count=None, node=None, extra=()):
    """Console consumer in its --partition form; the output."""
    limit = ["--max-messages", count] if count is not None else []
    return env.tool("kafka-console-consumer", "--topic", topic, "--partition", partition, "--offset", offset,
                    *limit, "--timeout-ms", 60000, *extra, node=node).out


def test_topic_lifecycle(env):
    """kafka-topics creates, lists, describes, alters and deletes; a duplicate is refused as in Kafka."""
    topic = env.topic(2, "lifecycle", retention_ms=3600000, max_message_bytes=2000000)
    contains(env.tool("kafka-topics", "--list"), rf"^{topic}$")
    described = env.tool("kafka-topics", "--describe", "--topic", topic)
    contains(described, r"PartitionCount: 2\s+ReplicationFactor: 1\s",
             r"Configs:.*retention\.ms=3600000", r"Configs:.*max\.message\.bytes=2000000",
             rf"Topic: {topic}\s+Partition: 0\s+Leader: 1\s+Replicas: 1\s+Isr: 1",
             rf"Topic: {topic}\s+Partition: 1\s+Leader: 1\s+Replicas: 1\s+Isr: 1")
    again = env.tool("kafka-topics", "--create", "--topic", topic, expect=1)
    contains(again, f"Topic '{topic}' already exists.")
    env.tool("kafka-topics", "--create", "--if-not-exists", "--topic", topic)
    env.tool("kafka-topics", "--alter", "--topic", topic, "--partitions", 5)
    contains(env.tool("kafka-topics", "--describe", "--topic", topic), r"PartitionCount: 5", r"Partition: 4\s")
    fewer = env.tool("kafka-topics", "--alter", "--topic", topic, "--partitions", 3, expect=1)
    env.see("fewer partitions", fewer.out.replace(topic, "T").strip())
    env.tool("kafka-topics", "--delete", "--topic", topic)
    until(f"{topic} is not listed any more", lambda: topic not in env.tool("kafka-topics", "--list").out.split())
    contains(env.tool("kafka-topics", "--delete", "--topic", topic, expect=1), "does not exist as expected")


def test_topic_manual_assignment(env):
    """A replica assignment given by hand is taken; one that names no broker is refused."""
    env.tool("kafka-topics", "--create", "--topic", "by-hand", "--replica-assignment", "1,1,1")
    contains(env.tool("kafka-topics", "--describe", "--topic", "by-hand"), "PartitionCount: 3")
    refused = env.tool("kafka-topics", "--create", "--topic", "by-hand-2", "--replica-assignment", "7", expect=1)
    env.see("unknown broker", refused.out.strip())
    refused = env.tool("kafka-topics", "--create", "--topic", "rf-3", "--replication-factor", 3, expect=1)
    env.see("too many replicas", refused.out.strip())
    refused = env.tool("kafka-topics", "--create", "--topic", "bad-config", "--config", "retention.ms=12h",
                       expect=1)
    env.see("bad config", refused.out.strip())
    refused = env.tool("kafka-topics", "--create", "--topic", "bad name", expect=1)
    env.see("bad name", refused.out.strip())


def test_console_round_trip(env):
    """What the console producer writes, the console consumer reads: by offset, with keys and headers."""
    topic = env.topic(1, "console")
    lines = [f"line {number} äöü €" for number in range(1000)]
    env.tool("kafka-console-producer", "--topic", topic, stdin="\n".join(lines) + "\n")
    if consume(env, topic, count=1000).splitlines() != lines:
        raise Different("the lines read are not the lines written")
    if consume(env, topic, offset="990", count=10).splitlines() != lines[990:]:
        raise Different("reading from offset 990 gave other lines")
    env.tool("kafka-console-producer", "--topic", topic, "--reader-property", "parse.key=true",
             "--reader-property", "parse.headers=true", stdin="h1:v1,h2:v2\tthe key\tthe value\n")
    out = consume(env, topic, offset="1000", count=1, extra=(
        "--formatter-property", "print.key=true", "--formatter-property", "print.headers=true",
        "--formatter-property", "print.offset=true", "--formatter-property", "print.partition=true"))
    env.see("record with key and headers", out.strip(), "Partition:0\tOffset:1000\th1:v1,h2:v2\tthe key\tthe value")


def test_console_codecs_and_acks(env):
    """Every codec and every acks value of the console producer arrives."""
    topic = env.topic(1, "codecs")
    expected = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        lines = [f"{codec} {number} {'x' * 100}" for number in range(200)]
        env.tool("kafka-console-producer", "--topic", topic, "--compression-codec", codec,
                 stdin="\n".join(lines) + "\n")
        expected += lines
    for acks in ("0", "1", "all"):
        lines = [f"acks {acks} {number}" for number in range(200)]
        env.tool("kafka-console-producer", "--topic", topic, "--command-property", f"acks={acks}",
                 stdin="\n".join(lines) + "\n")
        expected += lines
    got = consume(env, topic, count=len(expected)).splitlines()
    if sorted(got) != sorted(expected) or got[:1000] != expected[:1000]:
        raise Different(f"{len(expected)} lines sent, {len(got)} read, or in another order")


def test_get_offsets(env):
    """kafka-get-offsets: latest, earliest, max-timestamp and by time."""
    topic = env.topic(2, "offsets")
    before = int(time.time() * 1000) - 1000
    env.tool("kafka-console-producer", "--topic", topic, stdin="".join(f"{n}\n" for n in range(20)))
    totals = {}
    for when in ("latest", "earliest", "max-timestamp", before, before + 3600000):
        out = env.tool("kafka-get-offsets", "--topic", topic, "--time", when).out
        found = re.findall(rf"^{topic}:(\d):(-?\d*)$", out, re.MULTILINE)
        totals[when] = [offset for _, offset in found]
    env.see("latest", sum(map(int, totals["latest"])), 20)
    env.see("earliest", totals["earliest"], ["0", "0"])
    env.see("by an early time", totals[before].count("0") >= 1, True)
    env.see("by a late time", totals[before + 3600000])


def test_broker_api_versions(env):
    """kafka-broker-api-versions lists the table that the broker answers with."""
    out = env.tool("kafka-broker-api-versions").out
    listed = dict(re.findall(r"^\s+(\w+\(\d+\)): ([^\[\n]+?) \[usable: \d+\]", out, re.MULTILINE))
    env.see("APIs", listed)
    for api, versions in {"Produce(0)": "0 to 13", "Fetch(1)": "4 to 18", "ApiVersions(18)": "0 to 5",
                          "Metadata(3)": "0 to 13", "InitProducerId(22)": "0 to 6"}.items():
        if not listed.get(api, "").startswith(versions.split(" to ")[0]):
            raise Different(f"{api}: {listed.get(api)}")
    contains(env.tool("kafka-cluster", "api-versions"), r"Produce\(0\)")


def test_describe_configs(env):
    """kafka-configs shows topic and broker settings with their sources."""
    topic = env.topic(1, "configs", cleanup_policy="compact", segment_bytes=2097152)
    out = env.tool("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", topic)
    contains(out, r"cleanup\.policy=compact .*DYNAMIC_TOPIC_CONFIG:cleanup\.policy=compact",
             r"segment\.bytes=2097152 ")
    out = env.tool("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", topic, "--all")
    keys = re.findall(r"^\s+([\w.]+)=", out.out, re.MULTILINE)
    env.see("topic keys", sorted(keys))
    out = env.tool("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    contains(out, r"node\.id=1 ", r"log\.dirs=")


def test_cluster_id(env):
    """kafka-cluster finds one id and one broker endpoint, and they are the ones of Metadata."""
    out = env.tool("kafka-cluster", "cluster-id")
    contains(out, r"^Cluster ID: [\w-]{22}$")
    out = env.tool("kafka-cluster", "list-endpoints")
    contains(out, rf"^1\s+127\.0\.0\.1\s+{env.broker.port}\s")


def test_dump_log_reads_our_files(env):
    """After a clean stop kafka-dump-log finds every record and no fault with log, indexes and snapshots."""
    with env.own_broker() as node:
        topic = env.topic(1, "dump", node=node, segment_bytes=1048576, index_interval_bytes=4096)
        lines = [f"{number:06d} {'y' * 500}" for number in range(6000)]
        env.tool("kafka-console-producer", "--topic", topic, "--command-property", "acks=all", node=node,
                 stdin="\n".join(lines) + "\n")
        node.stop()
        folder = node.topic_folder(topic)
        dump_segments(env, folder, lines)
        dump_indexes(env, folder)
        snapshots = sorted(folder.glob("*.snapshot"))
        if not snapshots:
            raise Different(f"no snapshot among {sorted(path.name for path in folder.iterdir())}")
        out = env.tool("kafka-dump-log", "--files", snapshots[-1], bootstrap=False)
        contains(out, r"producerId: \d+ producerEpoch: 0 .*lastSequence: 5999 lastOffset: 5999")
        epochs = (folder / "leader-epoch-checkpoint").read_text(encoding="ascii").split()
        env.see("epoch checkpoint", epochs, ["0", "1", "0", "0"])


@ottla_only
def test_data_directory_changes_hands(env):
    """Apache Kafka takes over a directory that we formatted and wrote, writes on in it, and gives it back."""
    node = env.new_broker()
    other = Kafka(node.home)
    try:
        node.start()
        topic = env.topic(1, "hands", node=node, retention_ms=3600000)
        env.tool("kafka-console-producer", "--topic", topic, node=node, stdin="ours 1\nours 2\n")
        node.stop()
        other.start()
        described = env.tool("kafka-topics", "--describe", "--topic", topic, node=other)
        contains(described, r"PartitionCount: 1\s+ReplicationFactor: 1\s", r"Configs:.*retention\.ms=3600000")
        if consume(env, topic, node=other, count=2) != "ours 1\nours 2\n":
            raise Different("Kafka reads other records than we wrote")
        env.tool("kafka-topics", "--create", "--topic", "theirs", "--partitions", 1, node=other)
        env.tool("kafka-console-producer", "--topic", "theirs", node=other, stdin="theirs 1\n")
        other.stop()
        node.start()
        contains(env.tool("kafka-topics", "--describe", "--topic", "theirs", node=node), "PartitionCount: 1")
        theirs = consume(env, "theirs", node=node, count=1)
        if theirs != "theirs 1\n":
            raise Different(f"we read {theirs!r} of what Kafka wrote")
        env.tool("kafka-console-producer", "--topic", topic, node=node, stdin="ours 3\n")
        node.stop()
    finally:
        node.kill()
        other.kill()


def dump_segments(env, folder, lines):
    """Every line in order, in several segments."""
    segments = sorted(folder.glob("*.log"))
    if len(segments) < 3:
        raise Different(f"{len(segments)} segments where at least 3 were expected")
    printed, offsets = [], []
    for segment in segments:
        out = env.tool("kafka-dump-log", "--deep-iteration", "--print-data-log", "--files", segment,
                       bootstrap=False)
        printed += re.findall(r"payload: (.*)$", out.out, re.MULTILINE)
        offsets += re.findall(r"^\| offset: (\d+)", out.out, re.MULTILINE)
        if "isvalid: false" in out.out or re.search(r"invalid bytes", out.out):
            raise Different(f"a fault in {segment.name}: {out}")
    if printed != lines or offsets != [str(number) for number in range(len(lines))]:
        raise Different(f"{len(printed)} records printed, the {len(lines)} sent were expected in order")


def dump_indexes(env, folder):
    """The tool's own checks pass, and there is something to check."""
    entries = 0
    for index in sorted(folder.glob("*.index")) + sorted(folder.glob("*.timeindex")):
        for check in ("--index-sanity-check", "--verify-index-only"):
            out = env.tool("kafka-dump-log", check, "--files", index, bootstrap=False)
            if re.search(r"(?i)mismatch|out of order|found timestamp|not correct|Exception", out.out + out.err):
                raise Different(f"a fault in {index.name}: {out}")
        out = env.tool("kafka-dump-log", "--files", index, bootstrap=False)
        entries += len(re.findall(r"^(?:offset|timestamp): [1-9]", out.out, re.MULTILINE))
    if entries < 20:
        raise Different(f"only {entries} index entries")


def test_metadata_log_is_readable(env):
    """kafka-dump-log decodes our __cluster_metadata log: the topic that was made is in it."""
    topic = env.topic(1, "inlog")
    folder = env.broker.data / "__cluster_metadata-0"
    out = env.tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", sorted(folder.glob("*.log"))[-1],
                   bootstrap=False)
    contains(out, rf'"type":"TOPIC_RECORD","version":0,"data":{{"name":"{topic}"', '"type":"PARTITION_RECORD"',
             '"type":"REGISTER_BROKER_RECORD"', '"type":"FEATURE_LEVEL_RECORD"')
    if "isvalid: false" in out.out:
        raise Different(f"a fault in the metadata log: {out}")


def test_client_compatibility(env):
    """Kafka's own judge of what a broker lets its clients do: cluster ids, topics, settings, offsets by time, idempotent
    writing, a record larger than what is asked for."""
    features = {"offsets-for-times-supported": "true", "cluster-id-supported": "true",
                "expect-record-too-large-exception": "false", "num-cluster-nodes": "1", "create-topics-supported": "true",
                "describe-acls-supported": str(env.is_kafka).lower(), "describe-configs-supported": "true",
                "idempotent-producer-supported": "true"}
    with env.own_broker() as node:             # it makes a topic of a fixed name
        said = env.tool("kafka-client-compatibility-test", "--topic", env.topic(1, "judged", node=node), node=node,
                        *(part for key, value in features.items() for part in (f"--{key}", value)))
    env.see("verdict", said.out.strip().splitlines()[-1], "SUCCESS.")
