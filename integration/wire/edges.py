"""Requests that no client sends on purpose, and what they are answered all the same."""

from . import records
from .client import client


def test_said_twice(env):
    """A topic that a request names twice is answered once: DeleteTopics refuses it, there or not; Metadata is a set."""
    with client(env) as c:
        name = c.create()
        reply = c.call("DeleteTopics", 5, {"TopicNames": ["missing", "missing", "other"], "TimeoutMs": 1000})
        env.see("deletions", sorted((entry["Name"], entry["ErrorCode"]) for entry in reply["Responses"]),
                [("missing", 42), ("other", 3)])
        reply = c.call("DeleteTopics", 6, {"TimeoutMs": 1000, "Topics": [
            {"Name": None, "TopicId": bytes(range(16))}, {"Name": None, "TopicId": bytes(range(16))}]})
        env.see("deletions by id", [entry["ErrorCode"] for entry in reply["Responses"]], [42])
        for version in (4, 12):
            reply = c.call("Metadata", version, {"AllowAutoTopicCreation": False, "Topics": [
                {"Name": each} for each in (name, "missing", name, "missing")]})
            env.see(f"metadata v{version}", sorted((topic["Name"] == name, topic["ErrorCode"])
                                                   for topic in reply["Topics"]), [(False, 3), (True, 0)])
        reply = c.call("Metadata", 12, {"AllowAutoTopicCreation": False, "Topics": [
            {"Name": None, "TopicId": c.ids[name]}, {"Name": None, "TopicId": c.ids[name]}]})
        env.see("metadata by id", [topic["Name"] == name for topic in reply["Topics"]], [True])


def test_settings_said_twice(env):
    """CreateTopics: of two values for one key the last holds, in the reply and afterwards."""
    with client(env) as c:
        reply = c.call("CreateTopics", 7, {"timeoutMs": 10000, "validateOnly": False, "Topics": [{
            "Name": "said-twice", "NumPartitions": 1, "ReplicationFactor": 1,
            "Configs": [{"Name": "retention.ms", "Value": "1000"}, {"Name": "retention.ms", "Value": "2000"}]}]})
        told = [entry["Value"] for entry in reply["Topics"][0]["Configs"] if entry["Name"] == "retention.ms"]
        env.see("told", told, ["2000"])
        reply = c.call("DescribeConfigs", 4, {"Resources": [
            {"ResourceType": 2, "ResourceName": "said-twice", "ConfigurationKeys": ["retention.ms"]}]})
        env.see("described", [entry["Value"] for entry in reply["Results"][0]["Configs"]], ["2000"])


def test_empty_handed_errors(env):
    """With an error a reply holds no more than Apache Kafka's: no configs, no controller, but operations on a topic that
    is not there."""
    with client(env) as c:
        reply = c.call("CreateTopics", 7, {"timeoutMs": 10000, "validateOnly": False, "Topics": [{
            "Name": "no-partitions", "NumPartitions": 0, "ReplicationFactor": 1}]})
        env.see("refused topic", (reply["Topics"][0]["ErrorCode"], reply["Topics"][0]["Configs"]), (37, []))
        reply = c.call("DescribeCluster", 2, {"EndpointType": 3, "IncludeClusterAuthorizedOperations": True})
        env.see("unknown endpoint type", (reply["ErrorCode"], reply["ControllerId"], reply["EndpointType"],
                                          reply["ClusterAuthorizedOperations"]), (115, -1, 1, -2147483648))
        reply = c.call("Metadata", 10, {"Topics": [{"Name": "missing"}], "AllowAutoTopicCreation": False,
                                        "IncludeTopicAuthorizedOperations": True})
        env.see("operations on what is missing", reply["Topics"][0]["TopicAuthorizedOperations"], 3576)


def test_half_a_producer_id(env):
    """InitProducerId: an id without its epoch, or the reverse, is no producer (KIP-360)."""
    with client(env) as c:
        for producer_id, epoch in ((5, -1), (-1, 5)):
            reply = c.call("InitProducerId", 4, {"TransactionalId": None, "TransactionTimeoutMs": 1000,
                                                 "ProducerId": producer_id, "ProducerEpoch": epoch})
            env.see(f"{producer_id}, {epoch}", (reply["ErrorCode"], reply["ProducerId"]), (42, -1))


def test_where_the_log_starts(env):
    """Produce: errors that the log itself finds tell where it starts, those found before do not."""
    with client(env) as c:
        name = c.create()
        for label, data, expected in (
                ("base offset", records.batch([b"x"], base_offset=5), (87, 0)),
                ("control batch", records.batch([b"x"], attributes=0x20), (87, 0)),
                ("cut", records.batch([b"x"])[:-1], (87, -1)),
                ("two batches", records.batch([b"x"]) * 2, (87, -1)),
                ("checksum", records.batch([b"x"], crc=1), (2, -1)),
                ("zeros", bytes(61), (2, -1)),
                ("old magic", records.batch([b"x"], magic=1), (87, -1))):
            part = c.produce(name, data, version=11)
            env.see(label, (part["ErrorCode"], part["LogStartOffset"]), expected)


def test_a_session_of_two_minds(env):
    """A session that was a replica's in one fetch and is a consumer's in the next: each fetch is judged by itself."""
    if env.is_kafka:
        return                           # a follower's fetch without being a replica ends otherwise there
    with client(env) as c:
        name = c.create(partitions=50)
        body = c.fetch_body(12, name, {index: 0 for index in range(50)}, session=(0, 0))
        reply = c.call("Fetch", 12, {**body, "ReplicaId": 1})
        env.see("refused", {part["ErrorCode"] for part in reply["Responses"][0]["Partitions"]}, {75})
        body = c.fetch_body(12, "missing", {0: 0}, session=(reply["SessionId"], 1))
        reply = c.call("Fetch", 12, body)
        env.see("served", sorted((topic["Topic"] == name, len(topic["Partitions"])) for topic in reply["Responses"]),
                [(False, 1), (True, 50)])


def test_many_names_cost_little(env):
    """A megabyte of unknown names is answered, and so are others meanwhile. (That it costs no more than it takes to read it,
    a unit test holds.)"""
    with client(env) as c, client(env) as other:
        c.send("Metadata", 12, {"AllowAutoTopicCreation": False,
                                "Topics": [{"Name": f"missing-{number}"} for number in range(60000)]})
        env.see("others are answered", len(other.ranges()) > 0, True)
        env.see("answers", len(c.receive()["Topics"]), 60000)
