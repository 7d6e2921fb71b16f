"""A round trip with confluent-kafka, which carries a newer librdkafka than Debian does.

usage: python confluent_round_trip.py BOOTSTRAP TOPIC RECORDS
"""

import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

PARTITIONS = 2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def record(codec, number):
    text = f"{codec}-{number}-{'x' * (number % 200)}".encode()
    key = (None, b"", str(number).encode())[number % 3]
    value = None if number % 5 == 3 else b"" if number % 5 == 4 else text
    headers = [("same", b"1"), ("same", None), ("e", b"")] if number % 4 == 1 else None
    return key, value, headers


def make_topic(bootstrap, topic):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1,
                                  config={"retention.ms": "3600000"})])[topic].result(120)
    try:
        admin.create_topics([NewTopic(topic, num_partitions=1)])[topic].result(120)
        raise AssertionError("the topic was made twice")
    except KafkaException as refused:
        assert refused.args[0].name() == "TOPIC_ALREADY_EXISTS", refused
    admin.create_partitions([NewPartitions(topic, PARTITIONS)])[topic].result(120)
    config = admin.describe_configs([ConfigResource("topic", topic)])
    settings = list(config.values())[0].result(120)
    assert settings["retention.ms"].value == "3600000", settings["retention.ms"]
    cluster = admin.describe_cluster().result(120)
    assert [node.id for node in cluster.nodes] == [1] and cluster.cluster_id, cluster
    return admin


def main(bootstrap, topic, count):
    admin = make_topic(bootstrap, topic)
    sent = [[] for _ in range(PARTITIONS)]
    troubles = []

    def delivered(partition, offset):
        def check(error, message):
            if error or message.offset() != offset or message.partition() != partition:
                troubles.append((error, partition, offset, message and message.offset()))
        return check

    for codec in CODECS:
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5,
                             "enable.idempotence": True})
        for number in range(count):
            key, value, headers = record(codec, number)
            partition = number % PARTITIONS
            producer.produce(topic, key=key, value=value, headers=headers, partition=partition,
                             timestamp=1_700_000_000_000 + number,
                             on_delivery=delivered(partition, len(sent[partition])))
            sent[partition].append((key, value, headers, 1_700_000_000_000 + number))
            producer.poll(0)
        assert producer.flush(120) == 0
    assert not troubles, troubles[:3]

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False,
                         "check.crcs": True})
    for partition in range(PARTITIONS):
        ends = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=120)
        assert ends == (0, len(sent[partition])), ends
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    seen = [0] * PARTITIONS
    while sum(seen) < len(CODECS) * count:
        message = consumer.poll(20)
        assert message is not None, f"{seen} of {len(CODECS) * count} records"
        assert message.error() is None, message.error()
        partition, offset = message.partition(), message.offset()
        wanted = sent[partition][seen[partition]]
        # This client gives an empty key or value and a missing one apart, so both are held to.
        got = (message.key(), message.value(), message.headers(), message.timestamp()[1])
        assert offset == seen[partition] and got == wanted, (offset, got, wanted)
        seen[partition] += 1
    found = consumer.offsets_for_times([TopicPartition(topic, 0, 1_700_000_000_010)], timeout=120)[0]
    assert found.offset == 5, found
    consumer.close()
    admin.delete_topics([topic])[topic].result(120)
    print(f"ok {sum(seen)} records")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
