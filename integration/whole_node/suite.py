"""A whole stopped node of Apache Kafka in Ottla, and the same directory in Apache Kafka again."""

import re
import shutil

from harness import broker
from harness.runner import Different, long, ottla_only
from wire.client import Client

from . import asking, filling

NEEDS = ("kafka",)
NEEDS_BROKER = False
# What both know: the newest level of the metadata that we write, and no feature that we have not.
FORMAT = ("--standalone", "--release-version", "4.2", *(part for feature in (
    "group.version", "transaction.version", "share.version", "streams.version", "eligible.leader.replicas.version")
    for part in ("--feature", f"{feature}=0")))
CONFIG = {"log.cleaner.backoff.ms": 300, "transaction.state.log.num.partitions": 3, "offsets.topic.num.partitions": 3,
          "transaction.abort.timed.out.transaction.cleanup.interval.ms": 3600000}


def oracle(env, name):
    node = broker.Kafka(env.folder / name, CONFIG)
    node.format_options = FORMAT
    return node


def same(ours, theirs, what):
    found = asking.differences(ours, theirs)
    if found:
        raise Different(f"{what}: {len(found)} answers differ:\n" + "\n".join(found[:12]))


def without_first_epochs(answers):
    """Which epoch stood at a beginning that was deleted or compacted away, batches do not tell; neither recovery knows
    it of every topic."""
    for topic in answers.values():
        topic["offsets"] = {key: answer[:3] if key[0] in (-2, -4) else answer
                            for key, answer in topic["offsets"].items()}
    return answers


def no_fault(node, words):
    """Nothing in the log that says that something had to be mended. (How long a turn took says how busy the machine is.)"""
    lines = [line for line in node.log_path.read_text(errors="replace").splitlines()
             if any(word in line for word in words) and " long turn " not in line]
    if lines:
        raise Different("\n".join(lines[:8]))


def see_fenced(env, data):
    """Who stopped cleanly is fenced, by Apache Kafka's reading of the metadata log: else its broker that starts there is
    refused as a second one of that id until a session has timed out."""
    newest = max((data / "__cluster_metadata-0").glob("*.log"))
    out = env.tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", newest, bootstrap=False).out
    told = re.findall(r'"type":"(REGISTER_BROKER_RECORD|BROKER_REGISTRATION_CHANGE_RECORD)".*?"fenced":(\w+)', out)
    env.see("the last word of the broker", told[-1:], [("BROKER_REGISTRATION_CHANGE_RECORD", "1")])


def take_over(env, node):
    """Our broker on that node's directory."""
    ours = env.new_broker()
    ours.home, ours.data = node.home, node.data
    ours.log_path, ours.ready_file = node.home / "ottla.log", node.home / "ready"
    return ours


@ottla_only
def test_stopped_node_changes_hands(env):
    """Every record, offset, time and aborted transaction reads the same in Ottla as in Apache Kafka before it stopped;
    what Ottla goes on to write, Apache Kafka's tools find right and Apache Kafka reads, transactions of before too."""
    kafka = oracle(env, "stopped")
    ours = take_over(env, kafka)
    try:
        kafka.start()
        ids = filling.fill(env, kafka)
        theirs = asking.ask_all(kafka, ids)
        kafka.stop()
        indexes = filling.indexes_of(env, kafka.data)
        env.see("transactions that Kafka indexed", len(indexes) >= 2, True)
        ours.start()
        same(asking.ask_all(ours, ids), theirs, "Ottla")
        with Client(ours) as client:
            client.ids = ids
            for topic in ids:
                for number in range(30):
                    client.produce(topic, [(b"ours", b"%d" % number + b"y" * 200)])
        second = asking.ask_all(ours, ids)
        ours.stop()
        no_fault(ours, (" WARN ", " ERROR "))
        env.see("the same aborted transactions", filling.indexes_of(env, kafka.data) == indexes, True)
        for path in sorted(kafka.data.glob("*-0/*.*")):
            if path.suffix in (".log", ".index", ".timeindex", ".snapshot", ".txnindex"):
                out = env.tool("kafka-dump-log", "--files", path, bootstrap=False)
                if any(word in out.out + out.err for word in
                       ("isvalid: false", "ismatch", "out of order", "invalid bytes", "xception")):
                    raise Different(f"a fault in {path}: {out}")
        see_fenced(env, kafka.data)
        kafka.start()
        same(second, asking.ask_all(kafka, ids), "Apache Kafka again")
        no_fault(kafka, [topic for topic in ids if not topic.startswith("never")])
        kafka.stop()
    finally:
        kafka.kill()
        ours.kill()


@ottla_only
@long
def test_killed_node_changes_hands(env):
    """After kill -9, and without any index of aborted transactions, recovery finds in the batches what Apache Kafka's
    own recovery of the same directory finds."""
    kafka, other = oracle(env, "killed"), oracle(env, "killed-copy")
    ours = take_over(env, kafka)
    try:
        kafka.start()
        ids = filling.fill(env, kafka)
        kafka.kill()
        for path in kafka.data.glob("*/*.txnindex"):
            path.unlink()
        # With no recovery point every segment is read.
        (kafka.data / "recovery-point-offset-checkpoint").write_text("0\n0\n", encoding="ascii")
        shutil.copytree(kafka.data, other.data)
        other.start()
        theirs = asking.ask_all(other, ids)
        other.stop()
        ours.start()
        same(without_first_epochs(asking.ask_all(ours, ids)), without_first_epochs(theirs), "Ottla")
        ours.stop()
        env.see("the same aborted transactions", filling.indexes_of(env, kafka.data),
                filling.indexes_of(env, other.data))
    finally:
        kafka.kill()
        other.kill()
        ours.kill()
