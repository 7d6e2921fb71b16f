"""Consumer groups with six stock clients: a topic is shared, a member dies, the broker restarts, offsets go on
(story.py), in each protocol and with each kind of membership that a client has."""

import json

from . import migration
from .story import Variant, run

NEEDS = ("kafka", "kcat", "python", "go-members")
NEEDS_BROKER = False                        # each test has its own, with short sessions
WAITS = True


def test_java(env):
    """Apache Kafka's own consumer: eager and cooperative assignors, both assignors of the broker, regular expressions in
    both protocols, static members in both."""
    run(env, "java", [Variant("range", "classic", "range"), Variant("cooperative", "classic", "cooperative-sticky"),
                      Variant("classic-static", "classic", "range", static=True),
                      Variant("classic-regex", "classic", "range", regex=True),
                      Variant("uniform", "consumer", "uniform"), Variant("server-range", "consumer", "range"),
                      Variant("static", "consumer", static=True), Variant("regex", "consumer", regex=True),
                      Variant("classic-lost", "classic", "range", static=True, lost=True),
                      Variant("lost", "consumer", static=True, lost=True)])


def test_franz_go(env):
    """franz-go: three balancers of its own, and both of the broker's for who opts in; a regular expression; static members.
    In the new protocol none of those comes back: it says goodbye (epoch -2) without its instance id, also in 1.22.3, which
    Apache Kafka 4.4 refuses as we do (INVALID_REQUEST, "InstanceId can't be null."), so that its name stays taken."""
    run(env, "franz-go", [Variant("range", "classic", "range"), Variant("sticky", "classic", "sticky"),
                          Variant("cooperative", "classic", "cooperative-sticky"),
                          Variant("classic-static", "classic", "range", static=True),
                          Variant("uniform", "consumer", "uniform"), Variant("server-range", "consumer", "range"),
                          Variant("regex", "consumer", "uniform", regex=True),
                          Variant("lost", "consumer", "uniform", static=True, lost=True)])


def test_sarama(env):
    """sarama: its three balance strategies, and static members."""
    run(env, "sarama", [Variant("range", "classic", "range"), Variant("roundrobin", "classic", "roundrobin"),
                        Variant("sticky", "classic", "sticky"), Variant("static", "classic", "range", static=True)])


def test_aiokafka(env):
    """aiokafka: its three assignors, a regular expression, static members."""
    run(env, "aiokafka", [Variant("range", "classic", "range"), Variant("roundrobin", "classic", "roundrobin"),
                          Variant("sticky", "classic", "sticky"), Variant("regex", "classic", "range", regex=True),
                          Variant("static", "classic", "range", static=True)])


def test_kafka_python(env):
    """kafka-python: eager and cooperative, static members."""
    run(env, "kafka-python", [Variant("range", "classic", "range"), Variant("cooperative", "classic", "cooperative-sticky"),
                              Variant("static", "classic", "range", static=True)])


def test_confluent_kafka(env):
    """confluent-kafka with its librdkafka: eager and cooperative, the broker's assignors, a regular expression, static
    members in both protocols."""
    run(env, "confluent", [Variant("range", "classic", "range"), Variant("cooperative", "classic", "cooperative-sticky"),
                           Variant("classic-static", "classic", "range", static=True),
                           Variant("uniform", "consumer", "uniform"), Variant("server-range", "consumer", "range"),
                           Variant("regex", "consumer", regex=True), Variant("static", "consumer", static=True),
                           Variant("lost", "consumer", static=True, lost=True)])


def test_migration(env):
    """A group of the classic protocol becomes one of the new when a member of that joins, and the other way when the last
    of those leaves or dies; Java and librdkafka on both sides; nothing is lost or read twice, and kafka-groups names the
    type."""
    migration.run(env)


def verify(env, node, protocol, values):
    topic = env.topic(3, f"verified-{protocol}", node=node)
    env.run(["kcat", "-b", node.bootstrap, "-P", "-t", topic], input="\n".join(values) + "\n")
    consumed = []
    for count in (800, 1200):
        said = env.tool("kafka-verifiable-consumer", "--topic", topic, "--group-id", f"{topic}-group", "--max-messages",
                        count, "--group-protocol", protocol, "--verbose", node=node).out
        events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        consumed += [event["value"] for event in events if event["name"] == "record_data"]
        commits = [event["success"] for event in events if event["name"] == "offsets_committed"]
        env.see(f"{protocol}: commits succeed", all(commits) and len(commits) > 0, True)
    env.see(f"{protocol}: consumed", sorted(consumed) == sorted(values), True)


def test_verifiable_consumer(env):
    """Kafka's judge of consumers, in both protocols: all that is written is consumed, each record once, commits succeed,
    and a second run goes on at what the first has committed."""
    with env.own_broker() as node:
        for protocol in ("classic", "consumer"):
            verify(env, node, protocol, [str(number) for number in range(2000)])
