"""A round trip with kafka-python.

usage: python kafka_python_round_trip.py BOOTSTRAP TOPIC RECORDS
"""

import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

PARTITIONS = 2
CODECS = (None, "gzip", "snappy", "lz4", "zstd")


def record(codec, number):
    """(key, value, headers) with every mix of null, empty and filled."""
    text = f"{codec}-{number}-{'x' * (number % 200)}".encode()
    key = (None, b"", str(number).encode())[number % 3]
    value = None if number % 5 == 3 else b"" if number % 5 == 4 else text
    if key is None and value is None:
        key = b"only"                           # this client refuses to send neither
    headers = [("same", b"1"), ("same", b""), ("", b"z")] if number % 4 == 1 else []
    return key, value, headers


def main(bootstrap, topic, count):
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1)])
    sent = [[] for _ in range(PARTITIONS)]
    for codec in CODECS:
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, acks="all", linger_ms=5,
                                 enable_idempotence=codec != "gzip")
        waiting = []
        for number in range(count):
            key, value, headers = record(codec, number)
            partition = number % PARTITIONS
            waiting.append((partition, len(sent[partition]), producer.send(
                topic, key=key, value=value, headers=headers, partition=partition,
                timestamp_ms=1_700_000_000_000 + number)))
            sent[partition].append((key, value, headers, 1_700_000_000_000 + number))
        for partition, offset, future in waiting:
            result = future.get(timeout=120)
            assert (result.partition, result.offset) == (partition, offset), (result, partition, offset)
        producer.close()

    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, consumer_timeout_ms=120000)
    consumer.assign(places)
    assert consumer.beginning_offsets(places) == {place: 0 for place in places}
    assert consumer.end_offsets(places) == {place: len(sent[place.partition]) for place in places}
    consumer.seek_to_beginning(*places)
    seen = [0] * PARTITIONS
    for message in consumer:
        offset = seen[message.partition]
        wanted = sent[message.partition][offset]
        got = (message.key, message.value, list(message.headers), message.timestamp)
        assert message.offset == offset and got == wanted, (message, wanted)
        seen[message.partition] += 1
        if sum(seen) == len(CODECS) * count:
            break
    assert sum(seen) == len(CODECS) * count, seen
    at = consumer.offsets_for_times({places[0]: 1_700_000_000_000 + 10})[places[0]]
    assert (at.offset, at.timestamp) == (5, 1_700_000_000_010), at
    consumer.close()
    admin.delete_topics([topic])
    admin.close()
    print(f"ok {sum(seen)} records")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
