"""Settings changed while the broker runs: IncrementalAlterConfigs, AlterConfigs, and how DescribeConfigs tells of it."""

import time

from harness.patience import eventually

from .client import Client, client
from .connection import Closed

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def alter(c, *resources, version=1, validate_only=False):
    """IncrementalAlterConfigs of (type, name, [(key, op, value)]); the results in their order."""
    reply = c.call("IncrementalAlterConfigs", version, {"ValidateOnly": validate_only, "Resources": [
        {"ResourceType": kind, "ResourceName": name, "Configs": [
            {"Name": key, "ConfigOperation": op, "Value": value} for key, op, value in changes]}
        for kind, name, changes in resources]})
    return reply["Responses"]


def replace(c, *resources, version=2, validate_only=False):
    """AlterConfigs of (type, name, {key: value}); the results."""
    reply = c.call("AlterConfigs", version, {"ValidateOnly": validate_only, "Resources": [
        {"ResourceType": kind, "ResourceName": name, "Configs": [
            {"Name": key, "Value": value} for key, value in settings.items()]} for kind, name, settings in resources]})
    return reply["Responses"]


def describe(c, *resources, keys=None, synonyms=False, version=4):
    return c.call("DescribeConfigs", version, {"IncludeSynonyms": synonyms, "Resources": [
        {"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": keys} for kind, name in resources]})["Results"]


def entry_of(c, kind, name, key):
    """(value, source, synonyms) of one key."""
    found = [entry for entry in describe(c, (kind, name), synonyms=True)[0]["Configs"] if entry["Name"] == key]
    if not found:
        return None
    return (found[0]["Value"], found[0]["ConfigSource"],
            [(each["Name"], each["Value"], each["Source"]) for each in found[0]["Synonyms"]])


def settled(c, kind, name, key, value):
    """The entry, once its value is that."""
    return eventually(lambda: entry_of(c, kind, name, key), lambda got: got is not None and got[0] == value)


def codes(results):
    return [result["ErrorCode"] for result in results]


def messages(results, *names):
    texts = [result["ErrorMessage"] for result in results]
    for number, name in enumerate(names):
        texts = [text and text.replace(name, f"T{number}") for text in texts]
    return texts


def test_alter_configs_errors(env):
    """B073: a bad value, a resource or a key said twice, an unknown operation, type or topic: each its own error, and
    the others in the request still apply."""
    with client(env) as c:
        good, bad, twice, keys = (c.create() for _ in range(4))
        results = alter(c, (TOPIC, bad, [("compression.type", SET, "nope")]),
                        (TOPIC, twice, [("retention.ms", SET, "1")]),
                        (TOPIC, twice, [("retention.ms", SET, "2")]),
                        (TOPIC, keys, [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]),
                        (99, "x", [("retention.ms", SET, "1")]),
                        (TOPIC, "missing", [("retention.ms", SET, "1")]),
                        (TOPIC, good, [("retention.ms", SET, "1234")]))
        names = {bad: "bad", twice: "twice", keys: "keys", good: "good"}
        env.see("errors", [(r["ResourceType"], names.get(r["ResourceName"], r["ResourceName"]), r["ErrorCode"])
                           for r in results],
                [(2, "bad", 40), (2, "twice", 42), (2, "twice", 42), (2, "keys", 42), (99, "x", 42), (2, "missing", 3),
                 (2, "good", 0)])
        env.see("messages", messages(results, bad, twice, keys, good))
        env.see("the good one", settled(c, TOPIC, good, "retention.ms", "1234"),
                ("1234", 1, [("retention.ms", "1234", 1)]))
        # Apache Kafka loses the whole request to it, with -1 for each resource; for a broker it says 42.
        env.see("unknown operation", codes(alter(c, (TOPIC, good, [("retention.ms", 9, "1")]))),
                [-1 if env.is_kafka else 42])


def test_alter_configs_values(env):
    """B058, B059, B068: what a topic's key does not take is refused by name."""
    with client(env) as c:
        name = c.create()
        refused = (
            ("retention.ms", "-2"), ("retention.ms", "12h"), ("segment.ms", "0"), ("segment.bytes", "1"),
            ("max.message.bytes", "-1"), ("min.cleanable.dirty.ratio", "1.5"), ("cleanup.policy", "x"),
            ("message.timestamp.type", "Y"), ("no.such.key", "1"), ("retention.ms", ""),
            ("preallocate", "yes"), ("min.insync.replicas", "0"), ("flush.messages", "0"),
            ("leader.replication.throttled.replicas", "x"), ("remote.storage.enable", "true"),
            ("segment.index.bytes", "3"), ("segment.jitter.ms", "-1"), ("compression.gzip.level", "0"),
            ("compression.gzip.level", "10"), ("compression.zstd.level", "23"), ("index.interval.bytes", "-1"),
            ("file.delete.delay.ms", "-1"), ("unclean.leader.election.enable", "maybe"),
            ("max.message.bytes", "2147483648"), ("retention.ms", "9223372036854775808"),
            ("min.cleanable.dirty.ratio", "x"), ("max.compaction.lag.ms", "0"),
            ("message.timestamp.difference.max.ms", "5"), ("message.format.version", "3.0"),
            ("message.downconversion.enable", "true"))
        taken = (
            ("cleanup.policy", ""), ("cleanup.policy", "delete,delete"), ("retention.ms", " 5 "),
            ("preallocate", "TRUE"), ("leader.replication.throttled.replicas", "*"),
            ("leader.replication.throttled.replicas", "0:1,1:1"), ("local.retention.ms", "1"),
            ("retention.bytes", "-2"), ("internal.segment.bytes", "1000"))
        for key, value, code in [(*each, 40) for each in refused] + [(*each, 0) for each in taken]:
            result = alter(c, (TOPIC, name, [(key, SET, value)]))
            env.see(f"{key}={value}", codes(result), [code])
            env.see(f"{key}={value}: message", messages(result))
            alter(c, (TOPIC, name, [(key, DELETE, None)]))
        result = alter(c, (TOPIC, name, [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")]))
        env.see("lags", codes(result), [40])
        env.see("lags: message", messages(result))
        for op in (SET, APPEND, SUBTRACT, DELETE):
            result = alter(c, (TOPIC, name, [("retention.ms", op, None)]))
            env.see(f"null, op {op}", codes(result), [0 if op == DELETE else 42])
            env.see(f"null, op {op}: message", messages(result))
        for label, op, value in (("longest", SET, "0:1," * 8191 + "0:1"), ("one more", APPEND, "1:1")):
            result = alter(c, (TOPIC, name, [("leader.replication.throttled.replicas", op, value)]))
            env.see(f"{label} list", codes(result), [0 if op == SET else 40])
            env.see(f"{label} list: message", messages(result))
        for bad, code in (("", 42), ("a/b", 17), (".", 17), ("x" * 250, 17), ("__cluster_metadata", 3)):
            result = alter(c, (TOPIC, bad, [("retention.ms", SET, "1")]))
            env.see(f"topic {bad[:30]}", codes(result), [code])
            env.see(f"topic {bad[:30]}: message", messages(result))


def test_alter_configs_absent(env):
    """What is wrong with a key or a value is said before that the topic is not there."""
    with client(env) as c:
        for label, code, changes in (
                ("nothing", 3, []), ("good", 3, [("retention.ms", SET, "1")]), ("bad", 40, [("retention.ms", SET, "x")]),
                ("unknown key", 40, [("no.such.key", SET, "1")]), ("null", 42, [("retention.ms", SET, None)]),
                ("lags", 40, [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")]),
                ("deleted", 3, [("retention.ms", DELETE, None)]),
                ("deleted and unknown", 3, [("no.such.key", DELETE, None)]),
                ("append", 3, [("cleanup.policy", APPEND, "compact")]),
                ("append nothing", 40, [("cleanup.policy", APPEND, "")]),
                ("append what is no choice", 40, [("cleanup.policy", APPEND, "x")]),
                ("append to a number", 40, [("retention.ms", APPEND, "1")]),
                ("append to what is unknown", 40, [("no.such.key", APPEND, "x")]),
                ("twice", 42, [("retention.ms", SET, "1"), ("retention.ms", SET, "2")])):
            for validate_only in (False, True):
                result = alter(c, (TOPIC, "missing", changes), validate_only=validate_only)
                env.see(f"{label}, {validate_only}", codes(result), [code])
                if label != "twice":         # Apache Kafka does not name the key
                    env.see(f"{label}: message", messages(result))
                if label == "twice" or any(op != SET for _, op, _ in changes):
                    continue
                result = replace(c, (TOPIC, "missing", {key: value for key, _, value in changes}),
                                 validate_only=validate_only)
                env.see(f"replace, {label}, {validate_only}", codes(result), [code])
                env.see(f"replace, {label}: message", messages(result))


def test_alter_configs_lists(env):
    """APPEND and SUBTRACT change a list against the value that stands or the default, and nothing but a list."""
    with client(env) as c:
        name = c.create()
        for label, code, value, changes in (("append to the default", 0, "delete,compact", [("cleanup.policy", APPEND, "compact")]),
                               ("append what is there", 0, "delete,compact", [("cleanup.policy", APPEND, "delete")]),
                               ("subtract", 0, "compact", [("cleanup.policy", SUBTRACT, "delete")]),
                               ("subtract the last", 0, "", [("cleanup.policy", SUBTRACT, "compact")]),
                               ("append two", 0, "delete,compact", [("cleanup.policy", APPEND, "delete, compact")]),
                               ("append what is no choice", 40, "delete,compact", [("cleanup.policy", APPEND, "x")]),
                               ("append to a number", 40, "delete,compact", [("retention.ms", APPEND, "1")]),
                               ("subtract from a text", 40, "delete,compact", [("compression.type", SUBTRACT, "gzip")]),
                               ("append to what is unknown", 40, "delete,compact", [("no.such.key", APPEND, "x")]),
                               ("empty", 40, "delete,compact", [("cleanup.policy", APPEND, "")])):
            result = alter(c, (TOPIC, name, changes))
            env.see(label, codes(result), [code])
            env.see(f"{label}: message", messages(result, name))
            env.see(f"{label}: value", settled(c, TOPIC, name, "cleanup.policy", value),
                    (value, 1, [("cleanup.policy", value, 1), ("log.cleanup.policy", "delete", 5)]))


def test_alter_configs_validate_only(env):
    """validate_only: the errors of the real call, and nothing changed."""
    with client(env) as c:
        name = c.create()
        results = alter(c, (TOPIC, name, [("retention.ms", SET, "1")]), (TOPIC, "missing", [("retention.ms", SET, "1")]),
                        validate_only=True)
        env.see("errors", codes(results), [0, 3])
        env.see("bad", codes(alter(c, (TOPIC, name, [("retention.ms", SET, "x")]), validate_only=True)), [40])
        env.see("broker", codes(alter(c, (BROKER, "1", [("log.retention.ms", SET, "1")]), validate_only=True)), [0])
        env.see("replace", codes(replace(c, (TOPIC, name, {"retention.ms": "5"}), validate_only=True)), [0])
        time.sleep(0.2)
        env.see("not changed", entry_of(c, TOPIC, name, "retention.ms")[0], "604800000")
        env.see("broker not changed", entry_of(c, BROKER, "1", "log.retention.ms"), (None, 5, []))
        env.see("no resource", alter(c), [])
        env.see("no change", codes(alter(c, (TOPIC, name, []))), [0])


def test_alter_configs_replaces(env):
    """AlterConfigs, the old call: what it does not name goes back to its default; null is refused; each resource has
    its own result."""
    with client(env) as c:
        name, other = c.create(retention_ms="1"), c.create()
        for version in (0, 1, 2):
            env.see(f"v{version}", codes(replace(c, (TOPIC, name, {"segment.ms": "1000", "flush.ms": "7"}),
                                                 version=version)), [0])
        env.see("set", settled(c, TOPIC, name, "segment.ms", "1000"), ("1000", 1, [("segment.ms", "1000", 1)]))
        env.see("not named", settled(c, TOPIC, name, "retention.ms", "604800000"), ("604800000", 5, []))
        env.see("nothing named", codes(replace(c, (TOPIC, name, {}))), [0])
        env.see("all gone", settled(c, TOPIC, name, "segment.ms", "604800000"), ("604800000", 5, []))
        results = replace(c, (TOPIC, name, {"retention.ms": None}), (TOPIC, other, {"retention.ms": "5"}),
                          (TOPIC, "missing", {"retention.ms": "5"}), (99, "x", {}), (LOGGER, "1", {"root": "INFO"}))
        env.see("errors", sorted((r["ResourceType"], r["ResourceName"] if r["ResourceName"] not in (name, other) else
                                  ["null", "good"][r["ResourceName"] == other], r["ErrorCode"]) for r in results),
                [(2, "good", 0), (2, "missing", 3), (2, "null", 42), (8, "1", 42), (99, "x", 42)])
        env.see("messages", sorted(text or "" for text in messages(results, name, other)))
        env.see("the good one", settled(c, TOPIC, other, "retention.ms", "5"), ("5", 1, [("retention.ms", "5", 1)]))
        if not env.is_kafka:         # which does not answer at all
            results = replace(c, (TOPIC, name, {"retention.ms": "5"}), (TOPIC, name, {"retention.ms": "6"}))
            env.see("twice", codes(results), [42, 42])
        env.see("bad", codes(replace(c, (TOPIC, name, {"retention.ms": "x"}))), [40])


def test_alter_broker_configs_errors(env):
    """Broker resources: what can be changed on line and what cannot, whose they are, what they take."""
    with client(env) as c:
        def ask(label, code, name, *changes):
            result = alter(c, (BROKER, name, list(changes)))
            env.see(label, codes(result), ... if code is ... else [code])
            env.see(f"{label}: message", messages(result))
            for key, _, _ in changes:
                alter(c, (BROKER, name, [(key, DELETE, None)]))

        ask("static key", 42, "1", ("log.dirs", SET, "/x"))
        ask("static key at the default", 42, "", ("node.id", SET, "7"))
        ask("static keys", 42, "1", ("log.dirs", SET, "/x"), ("broker.rack", SET, "r"), ("log.retention.ms", SET, "5"))
        ask("hours", 42, "1", ("log.retention.hours", SET, "5"))
        ask("unknown key", 0, "1", ("no.such.key", SET, "x"))
        ask("unknown key at the default", 0, "", ("no.such.key", SET, "x"))
        ask("topic's key", 0, "1", ("retention.ms", SET, "5"))
        env.see("kept", codes(alter(c, (BROKER, "1", [("no.such.key", SET, "x"), ("retention.ms", SET, "5"),
                                                      ("leader.replication.throttled.rate", SET, "1000")]),
                                       (BROKER, "", [("no.such.key", SET, "y"), ("log.roll.ms", SET, "5000000")]))), [0, 0])
        settled(c, BROKER, "", "log.roll.ms", "5000000")
        kept = {"no.such.key": (None, 2, True, True, 0, [("no.such.key", None, 2), ("no.such.key", None, 3)]),
                "retention.ms": (None, 2, True, True, 0, [("retention.ms", None, 2)]),
                "leader.replication.throttled.rate": (
                    "1000", 2, False, False, 5, [("leader.replication.throttled.rate", "1000", 2)])}
        for key in kept:
            found = [e for e in describe(c, (BROKER, "1"), synonyms=True)[0]["Configs"] if e["Name"] == key]
            env.see(f"kept: {key}", [(e["Value"], e["ConfigSource"], e["ReadOnly"], e["IsSensitive"], e["ConfigType"],
                                      [tuple(s.values()) for s in e["Synonyms"]]) for e in found], [kept[key]])
        env.see("kept: default", [(e["Name"], e["Value"], e["ConfigSource"], e["ReadOnly"], e["IsSensitive"],
                                   [tuple(s.values()) for s in e["Synonyms"]])
                                  for e in describe(c, (BROKER, ""), synonyms=True)[0]["Configs"]
                                  if e["Name"] != "min.insync.replicas"],
                [("log.roll.ms", "5000000", 3, False, False, [("log.roll.ms", "5000000", 3)]),
                 ("no.such.key", None, 3, True, True, [("no.such.key", None, 3)])])
        alter(c, (BROKER, "1", [("no.such.key", DELETE, None), ("retention.ms", DELETE, None),
                                ("leader.replication.throttled.rate", DELETE, None)]),
              (BROKER, "", [("no.such.key", DELETE, None), ("log.roll.ms", DELETE, None)]))
        ask("bad value", 42, "1", ("log.retention.ms", SET, "x"))
        ask("out of range", 42, "1", ("log.segment.bytes", SET, "1"))
        ask("bad value at the default", 42, "", ("message.max.bytes", SET, "-1"))
        ask("bad choice", 42, "", ("log.cleanup.policy", SET, "x"))
        ask("another broker", 42, "7", ("log.retention.ms", SET, "5"))
        ask("no number", 42, "x", ("log.retention.ms", SET, "5"))
        ask("negative", 42, "-1", ("log.retention.ms", SET, "5"))
        ask("per broker key at the default", 42, "", ("listeners", SET, "PLAINTEXT://127.0.0.1:1"))
        ask("tls without a listener", 42, "1", ("ssl.keystore.location", SET, "/x"))
        ask("null", 42, "1", ("log.retention.ms", SET, None))
        ask("unknown op", 42, "1", ("log.retention.ms", 9, "1"))
        ask("same key twice", 42, "1", ("log.retention.ms", SET, "1"), ("log.retention.ms", SET, "2"))
        ask("append to a number", 40, "1", ("log.retention.ms", APPEND, "1"))
        ask("append to a list", 0, "1", ("log.cleanup.policy", APPEND, "compact"))
        ask("subtract from a list", 0, "", ("log.cleanup.policy", SUBTRACT, "delete"))
        ask("connections", 42, "1", ("max.connections", SET, "0"))
        ask("overrides", 42, "1", ("max.connections.per.ip.overrides", SET, "no address"))
        ask("min isr", ..., "1", ("min.insync.replicas", SET, "2"))
        ask("min isr default", 0, "", ("min.insync.replicas", SET, "2"))
        ask("threads", 0, "1", ("num.io.threads", SET, "9"))
        ask("many threads", ..., "1", ("num.io.threads", SET, "99"))
        ask("no threads", 42, "1", ("num.io.threads", SET, "0"))
        ask("cleaner", 0, "1", ("log.cleaner.threads", SET, "2"))
        ask("reporters", 0, "1", ("metric.reporters", SET, ""))
        ask("throttle", 0, "1", ("leader.replication.throttled.rate", SET, "1000"))
        ask("throttle default", 0, "", ("replica.alter.log.dirs.io.max.bytes.per.second", SET, "1000"))
        ask("negative throttle", 42, "1", ("leader.replication.throttled.rate", SET, "-1"))
        ask("producer ids", 0, "", ("producer.id.expiration.ms", SET, "600000"))
        ask("deleted and not there", 0, "1", ("log.roll.ms", DELETE, None))
        ask("deleted and static", 0, "1", ("log.dirs", DELETE, None))
        ask("deleted and unknown", 0, "1", ("no.such.key", DELETE, None))
        for label, code, resource in (("logger", ..., (LOGGER, "1", [("no.such.logger", SET, "INFO")])),
                                ("logger of another", 42, (LOGGER, "7", [("root", SET, "INFO")])),
                                ("metrics", ..., (METRICS, "m", [("interval.ms", SET, "1000")])),
                                ("metrics without a name", 42, (METRICS, "", [("interval.ms", SET, "1000")])),
                                ("metrics' unknown key", ..., (METRICS, "m", [("x", SET, "1000")])),
                                ("group", 0, (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")])),
                                ("group without a name", 42, (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")])),
                                ("group's unknown key", 40, (GROUP, "g", [("x", SET, "50000")])),
                                ("group out of range", ..., (GROUP, "g", [("consumer.session.timeout.ms", SET, "1")])),
                                ("type 0", 42, (0, "x", [("x", SET, "50000")])),
                                ("type 1", 42, (1, "x", [("x", SET, "50000")]))):
            result = alter(c, resource)
            env.see(label, codes(result), ... if code is ... else [code])
            env.see(f"{label}: message", messages(result))
        for label, code, resource in (("static key", 42, (BROKER, "1", {"log.dirs": "/x"})),
                                ("good", 0, (BROKER, "1", {"log.retention.ms": "5"})),
                                ("all gone", 0, (BROKER, "1", {})),
                                ("null", 42, (BROKER, "1", {"log.retention.ms": None})),
                                ("another broker", 42, (BROKER, "7", {"log.retention.ms": "5"})),
                                ("bad value", 42, (BROKER, "1", {"log.retention.ms": "x"}))):
            result = replace(c, resource)
            env.see(f"replace, {label}", codes(result), [code])
            env.see(f"replace, {label}: message", messages(result))


def test_levels_of_a_setting(env):
    """B071: topic, broker, cluster default, file, default: the most special wins, is named as the source, and the others
    follow in that order; taking one away lets the next speak."""
    with env.own_broker(log_retention_ms="5000000", log_segment_bytes="2000000", log_roll_hours="3") as node:
        with Client(node) as c:
            name = c.create()
            steps = (
                ("file", ()),
                ("cluster", ((BROKER, "", [("log.retention.ms", SET, "4000000"), ("log.roll.ms", SET, "777777")]),)),
                ("broker", ((BROKER, "1", [("log.retention.ms", SET, "3000000")]),)),
                ("topic", ((TOPIC, name, [("retention.ms", SET, "2000000"), ("segment.ms", SET, "9000000")]),)),
                ("without the broker's", ((BROKER, "1", [("log.retention.ms", DELETE, None)]),)),
                ("without the topic's", ((TOPIC, name, [("retention.ms", DELETE, None)]),)),
                ("without the cluster's", ((BROKER, "", [("log.retention.ms", DELETE, None)]),)),
            )
            topics, one = ("retention.ms", "2000000", 1), ("log.retention.ms", "3000000", 2)
            every, file = ("log.retention.ms", "4000000", 3), ("log.retention.ms", "5000000", 4)
            chains = ([file], [every, file], [one, every, file], [topics, one, every, file], [topics, every, file],
                      [every, file], [file])
            for (label, resources), chain in zip(steps, chains):
                chain.append(("log.retention.hours", "168", 5))
                value = chain[0][1]
                for resource in resources:
                    env.see(f"{label}: altered", codes(alter(c, resource)), [0])
                got = settled(c, TOPIC, name, "retention.ms", value)
                if not env.is_kafka:         # whose broker follows a moment later
                    env.see(f"{label}: retention", got, (value, chain[0][2], chain))
                env.see(f"{label}: segment.ms", entry_of(c, TOPIC, name, "segment.ms"))
                env.see(f"{label}: segment.bytes", entry_of(c, TOPIC, name, "segment.bytes"))
                env.see(f"{label}: node's", entry_of(c, BROKER, "1", "log.retention.ms"))
                env.see(f"{label}: node's hours", entry_of(c, BROKER, "1", "log.retention.hours"))
                env.see(f"{label}: node's roll hours", entry_of(c, BROKER, "1", "log.roll.hours"))
                env.see(f"{label}: node's roll", entry_of(c, BROKER, "1", "log.roll.ms"))
                env.see(f"{label}: default's", [(e["Name"], e["Value"], e["ConfigSource"])
                                                for e in describe(c, (BROKER, ""))[0]["Configs"]
                                                if e["Name"] != "min.insync.replicas"])
            env.see("survives: altered", codes(alter(c, (TOPIC, name, [("retention.ms", SET, "99")]),
                                                     (BROKER, "1", [("log.segment.bytes", SET, "3000000")]),
                                                     (BROKER, "", [("log.segment.bytes", SET, "4000000")]))), [0, 0, 0])
            settled(c, TOPIC, name, "segment.bytes", "3000000")
        node.stop()
        node.start()
        with Client(node) as c:
            env.see("survives: retention", settled(c, TOPIC, name, "retention.ms", "99")[:2], ("99", 1))
            env.see("survives: segment.bytes", settled(c, TOPIC, name, "segment.bytes", "3000000"),
                    ("3000000", 2, [("log.segment.bytes", "3000000", 2), ("log.segment.bytes", "4000000", 3),
                                    ("log.segment.bytes", "2000000", 4), ("log.segment.bytes", "1073741824", 5)]))


def test_hours_speak_for_milliseconds(env):
    """A key of the file that speaks for another one in another unit, as the topic shows it and as the node does."""
    with env.own_broker(log_retention_hours="2", log_roll_hours="3", log_roll_jitter_hours="1",
                        log_flush_scheduler_interval_ms="7000") as node:
        with Client(node) as c:
            name = c.create()
            for key, value in (("retention.ms", "7200000"), ("segment.ms", "10800000"),
                               ("segment.jitter.ms", "3600000"), ("flush.ms", "7000")):
                env.see(key, entry_of(c, TOPIC, name, key), (value, 5, []))
            for key in ("log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.roll.ms",
                        "log.roll.hours", "log.roll.jitter.ms", "log.flush.interval.ms",
                        "log.flush.scheduler.interval.ms", "log.dirs", "log.dir", "node.id", "broker.id",
                        "min.insync.replicas", "listeners", "ssl.keystore.password", "log.segment.bytes"):
                got = entry_of(c, BROKER, "1", key)
                if key in ("log.dirs", "listeners"):
                    got = got and (bool(got[0]), got[1], [(n, bool(v), s) for n, v, s in got[2]])
                env.see(f"node: {key}", got)


def test_described_nodes(env):
    """Every key of a node, its value, source and whether it can be changed, as Apache Kafka tells it."""
    with client(env) as c:
        entries = {e["Name"]: e for e in describe(c, (BROKER, "1"), synonyms=True)[0]["Configs"]}
        env.see("names", sorted(name for name in entries if not name.startswith("ottla.")))
        env.see("read only", sorted(n for n, e in entries.items() if e["ReadOnly"] and not n.startswith("ottla.")))
        env.see("sensitive", sorted(name for name, e in entries.items() if e["IsSensitive"]))
        own = ("log.dirs", "log.dir", "listeners", "advertised.listeners", "controller.quorum.bootstrap.servers",
               "controller.quorum.voters", "process.roles", "offsets.topic.replication.factor")
        env.see("values", {name: (e["Value"], e["ConfigSource"]) for name, e in entries.items()
                           if name not in own and not name.startswith("ottla.")})
        topic = c.create()
        env.see("words where there is no error", [one["ErrorMessage"] for one in describe(c, (TOPIC, topic), (BROKER, "1"), (GROUP, "g"))],
                ["", "", ""])
        entries = {e["Name"]: e for e in describe(c, (TOPIC, topic), synonyms=True)[0]["Configs"]}
        env.see("topic", {name: (e["Value"], e["ConfigSource"], e["ReadOnly"], e["ConfigType"],
                                 [(s["Name"], s["Value"], s["Source"]) for s in e["Synonyms"]])
                          for name, e in entries.items()})


def test_settings_act_at_once(env):
    """When the reply is there, the topic's partitions go by the new settings: size limit, time stamps, null keys."""
    with client(env) as c:
        name = c.create()
        big = [b"x" * 2000]
        env.see("before", c.produce(name, big)["ErrorCode"], 0)
        env.see("altered", codes(alter(c, (TOPIC, name, [("max.message.bytes", SET, "1000")]))), [0])
        wait_for(env, "refused", lambda: c.produce(name, big)["ErrorCode"], 10)
        env.see("altered", codes(alter(c, (TOPIC, name, [("max.message.bytes", DELETE, None)]))), [0])
        wait_for(env, "taken again", lambda: c.produce(name, big)["ErrorCode"], 0)
        env.see("altered", codes(alter(c, (TOPIC, name, [("cleanup.policy", SET, "compact")]))), [0])
        wait_for(env, "no key", lambda: c.produce(name, [b"x"])["ErrorCode"], 87)
        env.see("altered", codes(alter(c, (TOPIC, name, [("cleanup.policy", SET, "delete"),
                                                         ("message.timestamp.type", SET, "LogAppendTime")]))), [0])
        wait_for(env, "stamped", lambda: c.produce(name, [b"x"])["LogAppendTimeMs"] > 0, True)
        env.see("altered", codes(alter(c, (BROKER, "", [("message.max.bytes", SET, "1500")]))), [0])
        wait_for(env, "cluster's limit", lambda: c.produce(name, big)["ErrorCode"], 10)
        env.see("altered", codes(alter(c, (BROKER, "1", [("message.max.bytes", SET, "5000")]))), [0])
        wait_for(env, "node's limit", lambda: c.produce(name, big)["ErrorCode"], 0)
        env.see("altered", codes(alter(c, (BROKER, "", [("message.max.bytes", DELETE, None)]),
                                       (BROKER, "1", [("message.max.bytes", DELETE, None)]))), [0, 0])


def wait_for(env, label, ask, expected):
    """Ottla's reply means that it acts; Apache Kafka's broker follows within moments."""
    env.see(label, eventually(ask, lambda got: got == expected) if env.is_kafka else ask(), expected)


def test_connection_limits_act_at_once(env):
    """max.connections.per.ip and its overrides, changed while the node runs, hold for who comes next."""
    with env.own_broker() as node:
        with Client(node) as c:
            def comes_in():
                try:
                    with Client(node) as other:
                        return bool(other.ranges())
                except (OSError, Closed):
                    return False
            env.see("without a limit", comes_in(), True)
            env.see("altered", codes(alter(c, (BROKER, "1", [("max.connections.per.ip", SET, "1")]))), [0])
            wait_for(env, "one from each address", comes_in, False)
            env.see("altered", codes(alter(c, (BROKER, "1", [("max.connections.per.ip.overrides", SET,
                                                              "127.0.0.1:5")]))), [0])
            wait_for(env, "but five from here", comes_in, True)
            env.see("altered", codes(alter(c, (BROKER, "1", [("max.connections.per.ip.overrides", DELETE, None),
                                                             ("max.connections.per.ip", DELETE, None),
                                                             ("max.connections", SET, "1")]))), [0])
            wait_for(env, "one in all", comes_in, False)
            env.see("altered", codes(alter(c, (BROKER, "1", [("max.connections", DELETE, None)]))), [0])
            wait_for(env, "no limit again", comes_in, True)
