"""Short forms of the requests that tests send again and again."""

import contextlib
import itertools

from harness.patience import eventually, until

from . import records
from .connection import Connection

NONE, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNKNOWN_TOPIC = 0, 1, 2, 3
UNKNOWN_TOPIC_ID = 100
_numbers = itertools.count(1)


class Client(Connection):
    """A connection that knows the ids of the topics it made."""

    def __init__(self, broker, **how):
        super().__init__(broker, **how)
        self.ids = {}

    def ranges(self):
        """{api key: (lowest, highest)} as the broker advertises."""
        reply = self.call("ApiVersions", 3, {"ClientSoftwareName": "wire", "ClientSoftwareVersion": "1"})
        return {entry["ApiKey"]: (entry["MinVersion"], entry["MaxVersion"]) for entry in reply["ApiKeys"]}

    def create(self, partitions=1, kind="wire", **configs):
        """A new topic; its name."""
        name = f"{kind}-{next(_numbers)}"
        entries = [{"Name": key.replace("_", "."), "Value": str(value)} for key, value in configs.items()]
        reply = self.call("CreateTopics", 7, {"Topics": [{
            "Name": name, "NumPartitions": partitions, "ReplicationFactor": 1, "Configs": entries}]})
        topic = reply["Topics"][0]
        if topic["ErrorCode"] != 0:
            raise AssertionError(f"{name} was not made: {topic}")
        self.ids[name] = topic["TopicId"]
        self.await_leaders(name, partitions)
        return name

    def await_leaders(self, name, partitions):
        """Apache Kafka's broker learns of a topic a moment after its creation was answered."""
        body = {"ReplicaId": -1, "Topics": [{"Name": name, "Partitions": [
            {"PartitionIndex": index, "Timestamp": -1} for index in range(partitions)]}]}
        until(f"leaders of {name}", lambda: all(
            part["ErrorCode"] == 0 for part in self.call("ListOffsets", 8, body)["Topics"][0]["Partitions"]))

    def metadata(self, names, version=12, auto_create=False):
        """Metadata's topics by name."""
        topics = None if names is None else [{"Name": name} for name in names]
        body = {"Topics": topics}
        if version >= 4:
            body["AllowAutoTopicCreation"] = auto_create
        return {topic["Name"]: topic for topic in self.call("Metadata", version, body)["Topics"]}

    def produce_body(self, version, topic, parts, acks=-1):
        """A Produce of {partition: bytes} to one topic."""
        where = {"TopicId": self.ids.get(topic, bytes(16))} if version >= 13 else {"Name": topic}
        partitions = [{"Index": index, "Records": data} for index, data in parts.items()]
        return {"TransactionalId": None, "Acks": acks, "TimeoutMs": 10000,
                "TopicData": [{**where, "PartitionData": partitions}]}

    def produce(self, topic, data, partition=0, version=13, acks=-1):
        """Produce to one partition; its part of the answer."""
        if not isinstance(data, bytes):
            data = records.batch(data)
        reply = self.call("Produce", version, self.produce_body(version, topic, {partition: data}, acks))
        return reply["Responses"][0]["PartitionResponses"][0]

    def fetch_body(self, version, topic, offsets, *, partition_max_bytes=1 << 20, max_bytes=50 << 20, min_bytes=1,
                   max_wait=0, session=(0, -1), forgotten=(), isolation=0):
        """A Fetch of {partition: offset} of one topic (none: topic is None)."""
        body = {"ReplicaId": -1, "MaxWaitMs": max_wait, "MinBytes": min_bytes, "MaxBytes": max_bytes,
                "IsolationLevel": isolation, "SessionId": session[0], "SessionEpoch": session[1], "Topics": []}
        if version >= 15:
            del body["ReplicaId"]
        if topic is not None:
            body["Topics"] = [{**self._where(version, topic), "Partitions": [
                {"Partition": index, "FetchOffset": offset, "PartitionMaxBytes": partition_max_bytes}
                for index, offset in offsets.items()]}]
        if forgotten:
            body["ForgottenTopicsData"] = [{**self._where(version, topic or forgotten[0]),
                                            "Partitions": list(forgotten[1])}]
        return body

    def _where(self, version, topic):
        return {"TopicId": self.ids.get(topic, bytes(16))} if version >= 13 else {"Topic": topic}

    def fetch_all(self, topic, offsets, version=18, **how):
        """The whole answer to a Fetch."""
        return self.call("Fetch", version, self.fetch_body(version, topic, offsets, **how))

    def fetch(self, topic, offset=0, partition=0, version=18, **how):
        """One partition's part of the answer."""
        reply = self.fetch_all(topic, {partition: offset}, version, **how)
        if reply.get("ErrorCode"):
            raise AssertionError(f"Fetch gave {reply}")
        return reply["Responses"][0]["Partitions"][0]

    def list_offsets(self, topic, timestamp, partition=0, version=8, isolation=0):
        """(error, offset, timestamp) of one partition."""
        body = {"ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": [
            {"PartitionIndex": partition, "Timestamp": timestamp}]}]}
        if version >= 2:
            body["IsolationLevel"] = isolation
        part = self.call("ListOffsets", version, body)["Topics"][0]["Partitions"][0]
        return part["ErrorCode"], part["Offset"], part["Timestamp"]

    def producer_id(self, version=4):
        """A new (producer id, epoch); 14 means that the broker is still fetching its block of ids."""
        reply = eventually(lambda: self.call("InitProducerId", version, {
            "TransactionalId": None, "TransactionTimeoutMs": 60000}), lambda reply: reply["ErrorCode"] != 14)
        if reply["ErrorCode"] != 0:
            raise AssertionError(f"InitProducerId gave {reply}")
        return reply["ProducerId"], reply["ProducerEpoch"]


@contextlib.contextmanager
def client(env, **how):
    """A connection to the shared broker for the length of a test."""
    with Client(env.broker, **how) as connection:
        yield connection


def errors(values):
    """Only the error codes of a list of results, by name."""
    return {value.get("Name") or value.get("ResourceName") or "": value["ErrorCode"] for value in values}
