"""ApiVersions, and that every advertised version of every API answers."""

from harness.runner import Different

from . import definitions, records
from .client import client
from .connection import Closed

# What a node without transactions serves; a broker may list more.
SINGLE_NODE = ("ApiVersions", "Metadata", "CreateTopics", "DeleteTopics", "CreatePartitions", "Produce", "Fetch",
               "ListOffsets", "InitProducerId", "DescribeCluster", "DescribeConfigs", "FindCoordinator", "JoinGroup",
               "SyncGroup", "Heartbeat", "LeaveGroup", "DescribeGroups", "ListGroups", "DeleteGroups", "OffsetCommit",
               "OffsetFetch", "OffsetDelete", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe")
SOFTWARE = {"ClientSoftwareName": "wire", "ClientSoftwareVersion": "1.0"}


def test_api_versions_too_new(env):
    """B001: a version above ours is answered as v0 with 35 and one entry, and the connection stays."""
    with client(env) as c:
        for version in (6, 15, 32767):
            data = c.header(18, version) + b"\0whatever a later version holds"
            c.send_raw(len(data).to_bytes(4, "big") + data)
            reply = definitions.response("ApiVersions").decode(0, c.receive_raw()[4:])
            env.see(f"v{version}", (reply["ErrorCode"], reply["ApiKeys"]),
                    (35, [{"ApiKey": 18, "MinVersion": 0, "MaxVersion": 5}]))
        env.see("afterwards", c.call("ApiVersions", 0)["ErrorCode"], 0)


def test_api_versions_every_version(env):
    """ApiVersions v0 to the newest give one table; the name of the client is checked from v3."""
    with client(env) as c:
        tables = []
        for version in range(6):
            reply = c.call("ApiVersions", version, SOFTWARE if version >= 3 else {})
            env.see(f"v{version} error", reply["ErrorCode"], 0)
            tables.append(reply["ApiKeys"])
            if version >= 3:
                env.see(f"v{version} no ZooKeeper migration", reply["ZkMigrationReady"], False)
        if any(table != tables[0] for table in tables):
            raise Different("the table depends on the version asked with")
        for name, software in {"empty name": ("", "1"), "space": ("a b", "1"), "empty version": ("a", ""),
                               "dash first": ("-a", "1"), "dash last": ("a-", "1"), "fine": ("a-b.c", "2.0-x")}.items():
            reply = c.call("ApiVersions", 3, dict(zip(SOFTWARE, software)))
            env.see(name, (reply["ErrorCode"], len(reply["ApiKeys"]) > 0),
                    (0, True) if name == "fine" else (42, False))


def test_api_versions_wrong_cluster(env):
    """KIP-1242: from v5 a client may name the cluster and node it means; a wrong one is told to start over."""
    with client(env) as c:
        cluster = c.call("DescribeCluster", 0)["ClusterId"]
        for label, who in {"right": (cluster, 1), "other node": (cluster, 7), "other cluster": ("x" * 22, 1),
                           "neither": (None, -1)}.items():
            reply = c.call("ApiVersions", 5, {**SOFTWARE, "ClusterId": who[0], "NodeId": who[1]})
            env.see(label, reply["ErrorCode"], 129 if label.startswith("other") else 0)


def test_advertised_ranges(env):
    """B002, B005, B040: the lowest versions that old clients look for, and no gap up to the newest."""
    with client(env) as c:
        ranges = c.ranges()
        own = {api: ranges.get(definitions.request(api).key) for api in SINGLE_NODE}
        env.see("ranges", own)
        for api in SINGLE_NODE:
            low, high = definitions.request(api).range()
            low = 0 if api == "Produce" else low
            if own[api] is None or own[api][0] > low or own[api][1] < high:
                raise Different(f"{api}: {own[api]} is advertised, Kafka serves {low} to {high}")


def test_features(env):
    """B004: a feature whose lowest level is 0 is left out before v4; the finalised levels are listed."""
    with client(env) as c:
        old = c.call("ApiVersions", 3, SOFTWARE)
        new = c.call("ApiVersions", 4, SOFTWARE)
        env.see("minimum 0 in v3", [f["Name"] for f in old["SupportedFeatures"] if f["MinVersion"] == 0], [])
        supported = {f["Name"]: (f["MinVersion"], f["MaxVersion"]) for f in new["SupportedFeatures"]}
        finalized = {f["Name"]: (f["MinVersionLevel"], f["MaxVersionLevel"]) for f in new["FinalizedFeatures"]}
        env.see("metadata.version is supported", "metadata.version" in supported, True)
        env.see("metadata.version is finalised", "metadata.version" in finalized, True)
        env.see("levels at 0", [name for name, level in finalized.items() if level[1] == 0], [])
        env.see("an epoch is known", new["FinalizedFeaturesEpoch"] >= 0, True)


def simple_bodies(topic, topic_id):
    """A request for each API that is small and does no harm."""
    offsets = {"Name": topic, "Partitions": [{"PartitionIndex": 0, "Timestamp": -1}]}
    return {
        "Metadata": lambda v: {"Topics": [{"Name": topic}]},
        "CreateTopics": lambda v: {"validateOnly": True, "Topics": [
            {"Name": f"never-{v}", "NumPartitions": 1, "ReplicationFactor": 1}]},
        "DeleteTopics": lambda v: {"TimeoutMs": 1000, **(
            {"Topics": [{"Name": "never"}]} if v >= 6 else {"TopicNames": ["never"]})},
        "CreatePartitions": lambda v: {"Topics": [{"Name": topic, "Count": 2, "Assignments": None}],
                                       "TimeoutMs": 1000, "ValidateOnly": True},
        "ListOffsets": lambda v: {"ReplicaId": -1, "Topics": [offsets]},
        "InitProducerId": lambda v: {"TransactionalId": None, "TransactionTimeoutMs": 1000},
        "DescribeCluster": lambda v: {},
        "DescribeConfigs": lambda v: {"Resources": [
            {"ResourceType": 2, "ResourceName": topic, "ConfigurationKeys": None}]},
        "FindCoordinator": lambda v: {"CoordinatorKeys": ["g"]} if v >= 4 else {"Key": "g"},
    }


def test_every_version_answers(env):
    """B008: each API at each version it is listed with; the answer decodes to its last byte."""
    with client(env) as c:
        topic = c.create(kind="every")
        ranges = c.ranges()
        bodies = simple_bodies(topic, c.ids[topic])
        for api, body in bodies.items():
            message = definitions.request(api)
            low, high = ranges[message.key]
            for version in range(max(low, message.range()[0]), min(high, message.range()[1]) + 1):
                reply = c.call(api, version, body(version))
                if not reply and api != "ApiVersions":
                    raise Different(f"{api} v{version} gave an empty answer")
        for version in range(3, 14):
            part = c.produce(topic, [b"v%d" % version], version=version)
            env.see(f"Produce v{version}", (part["ErrorCode"], part["BaseOffset"]), (0, version - 3))
        for version in range(4, 19):
            part = c.fetch(topic, version=version)
            env.see(f"Fetch v{version}", (part["ErrorCode"], part["HighWatermark"], part["LastStableOffset"],
                                          len(records.records(part["Records"]))), (0, 11, 11, 11))


def test_tagged_fields(env):
    """B007: fields at their default are not sent as tags, and tags that we do not know are skipped."""
    with client(env) as c:
        topic = c.create(kind="tags")
        c.produce(topic, [b"x"])
        part = c.fetch(topic, version=18)
        env.see("tags in Fetch", (part.get("_present"), part.get("_unknown")), (None, None))
        body = c.fetch_body(18, topic, {0: 0})
        body["_tags"] = {9: b"later", 900: b""}
        body["Topics"][0]["_tags"] = {3: b"x" * 300}
        reply = c.call("Fetch", 18, body)
        env.see("with unknown tags", reply["Responses"][0]["Partitions"][0]["ErrorCode"], 0)
        reply = c.call("Metadata", 12, {"Topics": [{"Name": topic, "_tags": {0: b"abc"}}], "_tags": {70000: b"z"}})
        env.see("Metadata with unknown tags", reply["Topics"][0]["ErrorCode"], 0)


def test_unsupported_versions_close(env):
    """B013, B014: any other API at a version that is not listed, or a key that does not exist, closes."""
    for api, version in {"Produce": 14, "Fetch": 19, "Metadata": 14, "JoinGroup": 99, "SyncGroup": 99,
                         "OffsetCommit": 99, "ListOffsets": -1, "CreateTopics": 1, "Fetch 3": 3,
                         "Produce 2": 2}.items():
        with client(env) as c:
            api = api.split()[0]
            c.send("Metadata", 4, {"Topics": []})
            data = c.header(definitions.request(api).key, version) + b"\0" * 20
            c.send_raw(len(data).to_bytes(4, "big") + data)
            try:
                c.receive()
                answered = True
            except Closed:
                answered = False
            env.see(f"{api} v{version}: what came before is answered", answered, True)
            env.see(f"{api} v{version}: closed", c.closed(), True)
    for key in (24706, -1, 4, 1000):
        with client(env) as c:
            data = c.header(key, 0) + b"\0" * 8
            c.send_raw(len(data).to_bytes(4, "big") + data)
            env.see(f"key {key}: closed", c.closed(), True)
