"""kafka-configs and kafka-topics change settings while the broker runs.

Sources: broker/handle_list_configs.c
"""

import re

from harness.runner import Different


def shown(env, *entity, all_of=False):
    """{key: (value, sources)} as kafka-configs describes it; sources as "DYNAMIC_TOPIC_CONFIG:retention.ms=1000"."""
    out = env.tool("kafka-configs", "--describe", *entity, *(["--all"] if all_of else [])).out
    found = re.findall(r"^  ([\w.]+)=(.*?) sensitive=(?:true|false) synonyms=\{(.*?)\}$", out, re.MULTILINE)
    return {key: (value, synonyms) for key, value, synonyms in found}


def alter(env, *arguments, expect=0):
    result = env.tool("kafka-configs", "--alter", *arguments, expect=expect)
    return (result.out + result.err).strip()


def test_configs_of_a_topic(env):
    """kafka-configs adds, lists and deletes a topic's settings; a bad one is refused, with all that came with it."""
    topic = env.topic(1, "configured", retention_ms=5000)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    env.see("as created", shown(env, *entity),
            {"retention.ms": ("5000", "DYNAMIC_TOPIC_CONFIG:retention.ms=5000")})
    alter(env, *entity, "--add-config", "cleanup.policy=[compact,delete],segment.bytes=2000000")
    env.see("added", shown(env, *entity), {
        "cleanup.policy": ("compact,delete", "DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
                                             "DEFAULT_CONFIG:log.cleanup.policy=delete"),
        "retention.ms": ("5000", "DYNAMIC_TOPIC_CONFIG:retention.ms=5000"),
        "segment.bytes": ("2000000", "DYNAMIC_TOPIC_CONFIG:segment.bytes=2000000, "
                                     "DEFAULT_CONFIG:log.segment.bytes=1073741824")})
    said = alter(env, *entity, "--add-config", "retention.ms=7000,segment.ms=x", expect=1)
    if "segment.ms" not in said:
        raise Different(f"the key is not named: {said}")
    alter(env, *entity, "--delete-config", "retention.ms,segment.bytes,cleanup.policy")
    env.see("deleted", shown(env, *entity), {})
    described = shown(env, *entity, all_of=True)
    described.pop("min.insync.replicas")           # Apache Kafka's comes from a record that it writes for ELR
    env.see("all", described)
    said = alter(env, "--entity-type", "topics", "--entity-name", "no-such-topic", "--add-config", "retention.ms=1",
                 expect=1)
    env.see("no such topic", "UnknownTopicOrPartitionException" in said, True)


def test_configs_of_brokers(env):
    """kafka-configs sets what all brokers share and what one has of its own; what only the file can say is refused."""
    one, every = ("--entity-type", "brokers", "--entity-name", "1"), ("--entity-type", "brokers", "--entity-default")
    topic = env.topic(1, "of-brokers")
    alter(env, *every, "--add-config", "log.retention.ms=4000000")
    alter(env, *one, "--add-config", "log.retention.ms=3000000,log.cleaner.threads=2")
    got = shown(env, *every)
    got.pop("min.insync.replicas", None)
    env.see("every", got, {"log.retention.ms": ("4000000", "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=4000000")})
    got = shown(env, *one)
    got.pop("min.insync.replicas", None)
    env.see("one", got, {
        "log.cleaner.threads": ("2", "DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2, DEFAULT_CONFIG:log.cleaner.threads=1"),
        "log.retention.ms": ("3000000", "DYNAMIC_BROKER_CONFIG:log.retention.ms=3000000, "
                                        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=4000000, "
                                        "DEFAULT_CONFIG:log.retention.hours=168")})
    described = shown(env, "--entity-type", "topics", "--entity-name", topic, all_of=True)
    env.see("a topic's", described["retention.ms"], got["log.retention.ms"])
    said = alter(env, *one, "--add-config", "log.dirs=/elsewhere", expect=1)
    env.see("only in the file", "Cannot update these configs dynamically" in said, True)
    said = alter(env, *one, "--add-config", "log.retention.ms=soon", expect=1)
    env.see("bad value", "log.retention.ms" in said, True)
    alter(env, *one, "--delete-config", "log.retention.ms,log.cleaner.threads")
    alter(env, *every, "--delete-config", "log.retention.ms")
    got = shown(env, *one)
    got.pop("min.insync.replicas", None)
    env.see("deleted", got, {})
    described = shown(env, *one, all_of=True)
    env.see("node's id", described["node.id"], ("1", "STATIC_BROKER_CONFIG:node.id=1"))
    env.see("broker's id", described["broker.id"], ("1", "STATIC_BROKER_CONFIG:broker.id=1, DEFAULT_CONFIG:broker.id=-1"))


def test_topic_alter(env):
    """kafka-topics --alter grows a topic; its settings stay, and describe shows them."""
    topic = env.topic(1, "grown", segment_bytes=3000000)
    alter(env, "--entity-type", "topics", "--entity-name", topic, "--add-config", "max.message.bytes=77777")
    env.tool("kafka-topics", "--alter", "--topic", topic, "--partitions", 4)
    out = env.tool("kafka-topics", "--describe", "--topic", topic).out
    env.see("described", sorted(re.search(r"Configs: (\S*)", out).group(1).split(",")) if not env.is_kafka else [],
            ["max.message.bytes=77777", "segment.bytes=3000000"] if not env.is_kafka else [])
    env.see("partitions", len(re.findall(r"Partition: \d+", out)), 4)
