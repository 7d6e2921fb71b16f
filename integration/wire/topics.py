"""Metadata, making and deleting topics, their settings, and who coordinates what."""

from harness.patience import eventually
from harness.runner import Different

from .client import client, errors


def create(c, version=7, validate_only=False, **topics):
    """CreateTopics of {name: fields}; the results by name."""
    entries = [{"Name": name, "NumPartitions": 1, "ReplicationFactor": 1, **fields} for name, fields in topics.items()]
    return create_all(c, entries, version, validate_only)


def create_all(c, entries, version=7, validate_only=False):
    reply = c.call("CreateTopics", version, {"Topics": entries, "validateOnly": validate_only, "timeoutMs": 10000})
    return {topic["Name"]: topic for topic in reply["Topics"]}


def configs(**settings):
    return {"Configs": [{"Name": key.replace("_", "."), "Value": value} for key, value in settings.items()]}


def exists(c, name):
    return c.metadata([name])[name]["ErrorCode"] == 0


def test_metadata_does_not_create_unasked(env):
    """B047, B049: no topic is made where the flag is off, nor by asking for all of them."""
    with client(env) as c:
        env.see("flag off", c.metadata(["not-there"], version=4)["not-there"]["ErrorCode"], 3)
        for version in (1, 4, 9, 12):
            c.metadata(None, version=version, auto_create=True)
        env.see("still not there", c.metadata(["not-there"])["not-there"]["ErrorCode"], 3)


def test_metadata_creates_when_asked(env):
    """B052: auto-creation answers 5 (or the topic) and the leader follows within moments; below v4 it is implied."""
    with client(env) as c:
        for version in (0, 1, 3, 4, 8, 9, 12):
            name = f"auto-{version}"
            first = c.metadata([name], version=version, auto_create=True)[name]["ErrorCode"]
            if first not in (0, 3, 5):
                raise Different(f"v{version} answered {first}")
            topic = eventually(lambda: c.metadata([name])[name], lambda found: found["Partitions"])
            env.see(f"v{version}", [part["LeaderId"] for part in topic["Partitions"]], [1])


def test_metadata_by_id(env):
    """B050: ids count from v12; in v10 and v11 a null name or an id is an invalid request."""
    with client(env) as c:
        name = c.create()
        topic_id = c.ids[name]

        def ask(version, entry):
            reply = c.call("Metadata", version, {"Topics": [entry], "AllowAutoTopicCreation": False})
            return [(t["ErrorCode"], t["Name"] == name, t["TopicId"] == topic_id) for t in reply["Topics"]]

        env.see("v12 by id", ask(12, {"Name": None, "TopicId": topic_id}), [(0, True, True)])
        env.see("v13 by id", ask(13, {"Name": None, "TopicId": topic_id}), [(0, True, True)])
        unknown = bytes(range(16))
        reply = c.call("Metadata", 12, {"Topics": [{"Name": None, "TopicId": unknown}]})["Topics"][0]
        env.see("v12 unknown id", (reply["ErrorCode"], reply["Name"], reply["TopicId"]), (100, None, unknown))
        for version in (10, 11):
            env.see(f"v{version} id with name", [t[0] for t in ask(version, {"Name": name, "TopicId": topic_id})], [42])
            env.see(f"v{version} null name", [t[0] for t in ask(version, {"Name": None})], [42])
        env.see("v12 null name, zero id", [t[0] for t in ask(12, {"Name": None})])


def test_metadata_fields(env):
    """Every version gives the broker, controller and partitions of a topic; an empty list is no topic from v1."""
    with client(env) as c:
        name = c.create(3)
        for version in range(14):
            reply = c.call("Metadata", version, {"Topics": [{"Name": name}]})
            brokers = [(b["NodeId"], b["Host"], b["Port"]) for b in reply["Brokers"]]
            env.see(f"v{version} brokers", brokers == [(1, env.broker.host, env.broker.port)], True)
            topic = reply["Topics"][0]
            env.see(f"v{version} partitions",
                    sorted((p["ErrorCode"], p["PartitionIndex"], p["LeaderId"], p["ReplicaNodes"], p["IsrNodes"])
                           for p in topic["Partitions"]), [(0, index, 1, [1], [1]) for index in range(3)])
            if version >= 1:
                env.see(f"v{version} controller", (reply["ControllerId"], topic["IsInternal"]), (1, False))
                env.see(f"v{version} empty list", c.call("Metadata", version, {"Topics": []})["Topics"], [])
            if version >= 2:
                env.see(f"v{version} length of cluster id", len(reply["ClusterId"]), 22)
            if version >= 7:
                env.see(f"v{version} leader epochs", [p["LeaderEpoch"] for p in topic["Partitions"]], [0, 0, 0])
            if version >= 5:
                env.see(f"v{version} offline", [p["OfflineReplicas"] for p in topic["Partitions"]], [[], [], []])
            if version >= 8:
                env.see(f"v{version} operations not asked for", topic["TopicAuthorizedOperations"], -2147483648)
            if version >= 10:
                env.see(f"v{version} id", topic["TopicId"] == c.ids[name], True)
        reply = c.call("Metadata", 12, {"Topics": [{"Name": name}], "IncludeTopicAuthorizedOperations": True})
        env.see("operations asked for", reply["Topics"][0]["TopicAuthorizedOperations"])
        reply = c.call("Metadata", 9, {"Topics": [{"Name": name}, {"Name": name}]})
        env.see("a name twice", len(reply["Topics"]))
        reply = c.call("Metadata", 0, {"Topics": []})
        env.see("v0 empty list is all", name in [t["Name"] for t in reply["Topics"]], True)


def test_topic_names(env):
    """B055: only [a-zA-Z0-9._-], 1 to 249 characters, not . or .. ; the same rule in both APIs."""
    bad = ["", ".", "..", "a/b", "a b", "tööpic", "x" * 250]
    with client(env) as c:
        reply = create_all(c, [{"Name": name, "NumPartitions": 1, "ReplicationFactor": 1} for name in bad])
        env.see("create", errors(reply.values()), {name: 17 for name in bad})
        topics = c.metadata(bad, auto_create=True)
        env.see("metadata", {name: topic["ErrorCode"] for name, topic in topics.items()}, {name: 17 for name in bad})
        env.see("249 characters", errors(create(c, **{"y" * 249: {}}).values()), {"y" * 249: 0})
        stray = [path.name for path in env.broker.data.iterdir() if path.name.startswith(("x" * 200, "a ", "t\u00f6"))]
        env.see("directories made", stray, [])
        first = create_all(c, [{"Name": "col.lide", "NumPartitions": 1, "ReplicationFactor": 1}])
        second = create_all(c, [{"Name": "col_lide", "NumPartitions": 1, "ReplicationFactor": 1}])
        env.see("names that differ in . and _", (errors(first.values()), errors(second.values())))


def test_validate_only(env):
    """B056: validate_only gives the same errors and the would-be result, and makes nothing."""
    with client(env) as c:
        name = c.create()
        reply = create(c, validate_only=True, **{name: {}, "v-bad": configs(retention_ms="x"),
                                                 "v-good": {"NumPartitions": 3}})
        env.see("errors", [reply[topic]["ErrorCode"] for topic in (name, "v-bad", "v-good")], [36, 40, 0])
        good = reply["v-good"]
        env.see("would be", (good["NumPartitions"], good["ReplicationFactor"], len(good["Configs"] or []) > 0),
                (3, 1, True))
        env.see("made", exists(c, "v-good"), False)


def test_create_config_errors(env):
    """B058, B059, B068: bad settings give 40 for that topic alone, and the connection goes on."""
    bad = {
        "compression_type": "foo", "cleanup_policy": "x", "message_timestamp_type": "Y", "retention_ms": "12h",
        "no_such_key": "1", "segment_ms": "0", "segment_bytes": "1", "max_message_bytes": "-1",
        "min_cleanable_dirty_ratio": "1.5", "flush_messages": None,
    }
    with client(env) as c:
        topics = {f"bad-{key}": configs(**{key: value}) for key, value in bad.items()}
        topics["bad-retention-ms-2"] = configs(retention_ms="-2")
        reply = create(c, **topics, **{"good-beside-bad": configs(retention_ms="-1")})
        env.see("errors", errors(reply.values()), {**{name: 40 for name in topics}, "good-beside-bad": 0})
        for key, value in bad.items():
            message = reply[f"bad-{key}"]["ErrorMessage"] or ""
            if key.replace("_", ".") not in message and value is not None:
                raise Different(f"the message does not name the key: {message}")


def test_create_errors(env):
    """B064 and neighbours: duplicates, internal names, counts; the rest of the request still runs."""
    with client(env) as c:
        name = c.create()
        twice = {"Name": "twice", "NumPartitions": 1, "ReplicationFactor": 1}
        reply = create_all(c, [twice, twice, {**twice, "Name": "beside-twice"}])
        env.see("twice in one request", errors(reply.values()), {"twice": 42, "beside-twice": 0})
        reply = create(c, **{
            name: {}, "zero": {"NumPartitions": 0}, "minus-2": {"NumPartitions": -2},
            "rf-0": {"ReplicationFactor": 0}, "rf-3": {"ReplicationFactor": 3}, "__cluster_metadata": {},
            "assigned-and-counted": {"Assignments": [{"PartitionIndex": 0, "BrokerIds": [1]}]},
            "gap": {"NumPartitions": -1, "ReplicationFactor": -1,
                    "Assignments": [{"PartitionIndex": 1, "BrokerIds": [1]}]},
            "no-broker": {"NumPartitions": -1, "ReplicationFactor": -1,
                          "Assignments": [{"PartitionIndex": 0, "BrokerIds": [9]}]},
            "same-broker-twice": {"NumPartitions": -1, "ReplicationFactor": -1,
                                  "Assignments": [{"PartitionIndex": 0, "BrokerIds": [1, 1]}]},
        })
        got = {key.replace(name, "NAME"): code for key, code in sorted(errors(reply.values()).items())}
        env.see("errors", got, {"NAME": 36, "zero": 37, "minus-2": 37, "rf-0": 38, "rf-3": 38,
                                "__cluster_metadata": 42, "assigned-and-counted": 42,
                                "gap": 39, "no-broker": 39, "same-broker-twice": 39})
        env.see("messages", {key: topic["ErrorMessage"].replace(name, "NAME") for key, topic in
                             sorted((t["Name"].replace(name, "NAME"), t) for t in reply.values())})


def test_create_too_many_partitions(env):
    """One request may ask for 10,000 partitions in all; above that nothing of it runs."""
    with client(env) as c:
        reply = create(c, **{"too-many": {"NumPartitions": 9000}, "too-many-2": {"NumPartitions": 1001}})
        env.see("errors", errors(reply.values()), {"too-many": 44, "too-many-2": 44})
        env.see("message", reply["too-many"]["ErrorMessage"])
        env.see("made", exists(c, "too-many"), False)


def test_create_reply_is_complete(env):
    """B062: with defaults asked for, the reply carries real counts, the id and the settings with sources."""
    with client(env) as c:
        asked = {"NumPartitions": -1, "ReplicationFactor": -1, **configs(retention_ms="1000")}
        topic = create(c, version=5, **{"defaults-5": asked})["defaults-5"]
        env.see("v5", (topic["ErrorCode"], topic["NumPartitions"], topic["ReplicationFactor"]), (0, 1, 1))
        topic = create(c, **{"defaults-7": asked})["defaults-7"]
        env.see("v7", (topic["ErrorCode"], topic["NumPartitions"], topic["ReplicationFactor"],
                       topic["TopicId"] != bytes(16)), (0, 1, 1, True))
        settings = {entry["Name"]: (entry["Value"], entry["ConfigSource"]) for entry in topic["Configs"]}
        env.see("own setting", settings["retention.ms"], ("1000", 1))
        env.see("default setting", settings["cleanup.policy"], ("delete", 5))
        env.see("all settings", sorted(settings))


def test_settings_are_echoed(env):
    """B061: every standard topic key is taken and described as it was set."""
    given = {
        "cleanup.policy": "compact,delete", "compression.type": "lz4", "delete.retention.ms": "100000",
        "file.delete.delay.ms": "60001", "flush.messages": "7", "flush.ms": "1000", "index.interval.bytes": "5000",
        "max.compaction.lag.ms": "900000", "max.message.bytes": "500000", "message.timestamp.after.max.ms": "4000000",
        "message.timestamp.before.max.ms": "5000000", "message.timestamp.type": "LogAppendTime",
        "min.cleanable.dirty.ratio": "0.25", "min.compaction.lag.ms": "1", "min.insync.replicas": "1",
        "preallocate": "false", "retention.bytes": "10000000", "retention.ms": "604800001",
        "segment.bytes": "2000000", "segment.index.bytes": "1048576", "segment.jitter.ms": "5",
        "segment.ms": "3600000", "unclean.leader.election.enable": "false",
    }
    with client(env) as c:
        entries = [{"Name": key, "Value": value} for key, value in given.items()]
        reply = create(c, echoed={"Configs": entries})["echoed"]
        env.see("created", (reply["ErrorCode"], reply["ErrorMessage"]), (0, None))
        result = describe(c, (2, "echoed"))[0]
        got = {entry["Name"]: (entry["Value"], entry["ConfigSource"], entry["ReadOnly"], entry["IsSensitive"])
               for entry in result["Configs"]}
        env.see("described", {key: got.get(key) for key in given},
                {key: (value, 1, False, False) for key, value in given.items()})
        env.see("types", {entry["Name"]: entry["ConfigType"] for entry in result["Configs"]})
        env.see("others", {key: value for key, value in got.items() if key not in given})


def describe(c, *resources, keys=None, synonyms=False, version=4):
    return c.call("DescribeConfigs", version, {"IncludeSynonyms": synonyms, "Resources": [
        {"ResourceType": kind, "ResourceName": name, "ConfigurationKeys": keys} for kind, name in resources]})["Results"]


def test_describe_configs_errors(env):
    """B070: missing topic 3, another broker 42, "" the cluster's defaults, unknown type 42 and no closed line."""
    with client(env) as c:
        topic = c.create()
        results = describe(c, (2, "missing"), (4, "1"), (4, ""), (4, "7"), (4, "x"), (2, topic))
        env.see("errors", [(r["ResourceType"], r["ResourceName"].replace(topic, "T"), r["ErrorCode"]) for r in results],
                [(2, "missing", 3), (4, "1", 0), (4, "", 0), (4, "7", 42), (4, "x", 42), (2, "T", 0)])
        env.see("messages", [r["ErrorMessage"] for r in results])
        for kind in (99, 0, 1):
            env.see(f"type {kind}", describe(c, (kind, "x"))[0]["ErrorCode"])
        env.see("bad name", describe(c, (2, "a/b"))[0]["ErrorCode"], 17)
        some = describe(c, (2, topic), keys=["retention.ms", "no.such.key"])[0]["Configs"]
        env.see("named keys", [(e["Name"], e["Value"]) for e in some], [("retention.ms", "604800000")])
        none = describe(c, (2, topic), keys=[])[0]["Configs"]
        env.see("an empty list of keys is all", len(none) > 20, True)
        broker = {e["Name"]: e for e in describe(c, (4, "1"))[0]["Configs"]}
        env.see("node.id", (broker["node.id"]["Value"], broker["node.id"]["ReadOnly"],
                            broker["node.id"]["ConfigSource"]), ("1", True, 4))


def test_describe_configs_synonyms(env):
    """B071: the source is the level that wins; synonyms go from the most to the least specific."""
    with env.own_broker(log_retention_ms="5000000") as node:
        from .client import Client
        with Client(node) as c:
            plain, own = c.create(), c.create(retention_ms="77")
            for label, topic in {"static": plain, "own": own}.items():
                entry = describe(c, (2, topic), keys=["retention.ms"], synonyms=True)[0]["Configs"][0]
                env.see(label, (entry["Value"], entry["ConfigSource"],
                                [(s["Name"], s["Value"], s["Source"]) for s in entry["Synonyms"]]))
                env.see(f"{label} wins", entry["Value"], "77" if label == "own" else "5000000")


def test_create_partitions(env):
    """B065: ids go on without a gap, data stays, and each error is for its topic alone."""
    with client(env) as c:
        name, other = c.create(2), c.create()
        c.produce(name, [b"before"])

        def grow(*entries, validate_only=False, version=3):
            reply = c.call("CreatePartitions", version, {"TimeoutMs": 10000, "ValidateOnly": validate_only, "Topics": [
                {"Name": topic, "Count": count, "Assignments": assignments} for topic, count, assignments in entries]})
            return [(r["ErrorCode"], r["ErrorMessage"] and r["ErrorMessage"].replace(name, "NAME"))
                    for r in sorted(reply["Results"], key=lambda r: r["Name"])]

        env.see("validate only", grow((name, 5, None), validate_only=True), [(0, None)])
        env.see("grown", grow((name, 5, None)), [(0, None)])
        c.await_leaders(name, 5)
        env.see("ids", sorted(p["PartitionIndex"] for p in c.metadata([name])[name]["Partitions"]), [0, 1, 2, 3, 4])
        env.see("produce to each", [c.produce(name, [b"x"], partition=p)["BaseOffset"] for p in range(5)],
                [1, 0, 0, 0, 0])
        for label, entry, code in (("fewer", (name, 3, None), 37), ("same", (name, 5, None), 37),
                                   ("missing", ("missing", 3, None), 3), ("zero", (name, 0, None), 37),
                                   ("negative", (name, -1, None), 37),
                                   ("short assignment", (name, 7, [{"BrokerIds": [1]}]), 39),
                                   ("unknown broker", (name, 6, [{"BrokerIds": [4]}]), 39)):
            got = grow(entry)
            env.see(label, got)
            env.see(f"{label}: code", got[0][0], code)
        env.see("assigned", grow((other, 2, [{"BrokerIds": [1]}])), [(0, None)])
        env.see("a topic twice", grow((other, 4, None), (other, 5, None))[0][0], 42)


def test_delete_topics(env):
    """B067: a missing topic is 3; by name and by id; the name is free again afterwards, with a new id."""
    with client(env) as c:
        name = c.create()
        c.produce(name, [b"gone"])

        def delete(version, **entry):
            body = {"TimeoutMs": 10000}
            body.update({"Topics": [entry]} if version >= 6 else {"TopicNames": [entry["Name"]]})
            return c.call("DeleteTopics", version, body)["Responses"][0]

        for version in range(1, 7):
            env.see(f"missing in v{version}", delete(version, Name="missing")["ErrorCode"], 3)
        env.see("unknown id", delete(6, Name=None, TopicId=bytes(range(16)))["ErrorCode"], 100)
        env.see("name and id", delete(6, Name=name, TopicId=c.ids[name])["ErrorCode"], 42)
        env.see("neither", delete(6, Name=None)["ErrorCode"], 42)
        reply = delete(6, Name=None, TopicId=c.ids[name])
        env.see("by id", (reply["ErrorCode"], reply["Name"] == name), (0, True))
        env.see("gone", eventually(lambda: exists(c, name), lambda found: not found), False)
        env.see("produce by name", c.produce(name, [b"x"], version=12)["ErrorCode"], 3)
        env.see("produce by id", c.produce(name, [b"x"])["ErrorCode"], 100)
        again = create(c, **{name: {}})[name]
        env.see("made again", (again["ErrorCode"], again["TopicId"] != c.ids[name]), (0, True))
        c.ids[name] = again["TopicId"]
        c.await_leaders(name, 1)
        env.see("empty again", c.list_offsets(name, -1)[:2], (0, 0))
        env.see("by name", delete(4, Name=name)["ErrorCode"], 0)


def test_create_then_use_at_once(env):
    """B052: when CreateTopics has answered, the topic has its leaders: no moment of errors after it."""
    with client(env) as c:
        troubles = 0
        for number in range(20):
            name = f"at-once-{number}"
            c.ids[name] = create(c, **{name: {"NumPartitions": 3}})[name]["TopicId"]
            topic = c.metadata([name])[name]
            troubles += topic["ErrorCode"] != 0 or len(topic["Partitions"]) != 3
            troubles += c.produce(name, [b"x"], partition=2)["ErrorCode"] != 0
        env.see("troubles", troubles, troubles if env.is_kafka else 0)


def test_find_coordinator(env):
    """B098: one key before v4, a list from then on; an unknown type is 42."""
    with client(env) as c:
        reply = c.call("FindCoordinator", 4, {"KeyType": 0, "CoordinatorKeys": []})
        env.see("no key", reply["Coordinators"], [])
        reply = c.call("FindCoordinator", 4, {"KeyType": 0, "CoordinatorKeys": ["a", "b", "c"]})
        env.see("three keys", [entry["Key"] for entry in reply["Coordinators"]], ["a", "b", "c"])
        env.see("their errors", [entry["ErrorCode"] for entry in reply["Coordinators"]])
        for version in (1, 2, 3):
            env.see(f"type 9 in v{version}", c.call("FindCoordinator", version, {"Key": "x", "KeyType": 9})["ErrorCode"],
                    42)
        reply = c.call("FindCoordinator", 4, {"KeyType": 9, "CoordinatorKeys": ["x"]})
        env.see("type 9 in v4", [entry["ErrorCode"] for entry in reply["Coordinators"]], [42])
        for version in range(4):
            first = c.call("FindCoordinator", version, {"Key": "group"})["ErrorCode"]
            env.see(f"group in v{version} is served or on its way", first in (0, 15), True)


def test_describe_cluster(env):
    """DescribeCluster gives the broker as Metadata does, and refuses to speak of controllers here."""
    with client(env) as c:
        for version in range(3):
            reply = c.call("DescribeCluster", version)
            env.see(f"v{version}", (reply["ErrorCode"], [(b["BrokerId"], b["Host"], b["Port"] == env.broker.port)
                                                         for b in reply["Brokers"]]), (0, [(1, "127.0.0.1", True)]))
            env.see(f"v{version} operations", reply["ClusterAuthorizedOperations"], -2147483648)
        reply = c.call("DescribeCluster", 1, {"EndpointType": 2})
        env.see("controllers", reply["ErrorCode"], 114)
        env.see("type 9", c.call("DescribeCluster", 1, {"EndpointType": 9})["ErrorCode"])
        reply = c.call("DescribeCluster", 2, {"IncludeClusterAuthorizedOperations": True})
        env.see("operations", reply["ClusterAuthorizedOperations"])


def test_producer_ids(env):
    """InitProducerId without a transactional id: a new id each time, epoch 0, also across a restart's block."""
    with client(env) as c:
        seen = set()
        for version in range(6):
            reply = c.call("InitProducerId", version, {"TransactionalId": None, "TransactionTimeoutMs": 2147483647})
            env.see(f"v{version}", (reply["ErrorCode"], reply["ProducerEpoch"]), (0, 0))
            seen.add(reply["ProducerId"])
        env.see("all different", len(seen), 6)
        reply = c.call("InitProducerId", 4, {"TransactionalId": None, "TransactionTimeoutMs": 1,
                                             "ProducerId": 5, "ProducerEpoch": 3})
        env.see("with an id of its own", (reply["ErrorCode"], reply["ProducerEpoch"]))
        reply = c.call("InitProducerId", 4, {"TransactionalId": "", "TransactionTimeoutMs": 60000})
        env.see("empty transactional id", reply["ErrorCode"], 42)


def test_no_time_at_all(env):
    """A timeout of 0 or less is over before the controller comes to it: each entry is timed out, whatever else is wrong
    with it, and nothing is done."""
    topic, bad = {"NumPartitions": 1, "ReplicationFactor": 1}, {"NumPartitions": 0, "ReplicationFactor": 1}
    with client(env) as c:
        kept = c.create()
        for timeout in (0, -1, -2147483648):
            for validate_only in (False, True):
                made = c.call("CreateTopics", 7, {"timeoutMs": timeout, "validateOnly": validate_only, "Topics": [
                    {"Name": name, **how} for name, how in (
                        ("no-time", topic), (kept, topic), ("a b", topic), ("bad", bad), ("two", topic), ("two", topic))]})
                env.see(f"create in {timeout} ms", sorted(
                    (result["Name"].replace(kept, "kept"), result["ErrorCode"], result["NumPartitions"])
                    for result in made["Topics"]), [(name, 7, -1) for name in ("a b", "bad", "kept", "no-time", "two", "two")])
                grown = c.call("CreatePartitions", 3, {"TimeoutMs": timeout, "ValidateOnly": validate_only, "Topics": [
                    {"Name": name, "Count": 3} for name in (kept, "missing", "two", "two")]})
                env.see(f"grow in {timeout} ms", sorted(
                    (result["Name"].replace(kept, "kept"), result["ErrorCode"]) for result in grown["Results"]),
                    [("kept", 7), ("missing", 7), ("two", 7), ("two", 7)])
            for version, named in ((5, {"TopicNames": [kept, "missing", "two", "two"]}), (6, {"Topics": [
                    {"Name": kept}, {"Name": "missing"}, {"Name": "two"}, {"Name": "two"}, {"TopicId": c.ids[kept]},
                    {"TopicId": bytes(range(16))}, {"Name": kept, "TopicId": c.ids[kept]}]})):
                gone = c.call("DeleteTopics", version, {"TimeoutMs": timeout, **named})["Responses"]
                env.see(f"delete v{version} in {timeout} ms", [result["ErrorCode"] for result in gone], [7] * len(gone))
                env.see(f"delete v{version}: entries", sorted(
                    ((result["Name"] or "").replace(kept, "kept"), any(result.get("TopicId", b"")))
                    for result in gone))
            env.see("nothing asked", [c.call(api, version, {"Topics": [], key: timeout})[results] for
                                      api, version, key, results in (("CreateTopics", 7, "timeoutMs", "Topics"),
                                                                     ("CreatePartitions", 3, "TimeoutMs", "Results"),
                                                                     ("DeleteTopics", 6, "TimeoutMs", "Responses"))],
                    [[], [], []])
        env.see("partitions", len(c.metadata([kept])[kept]["Partitions"]), 1)
        env.see("made", exists(c, "no-time"), False)
