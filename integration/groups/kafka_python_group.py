"""Two kafka-python consumers of one group: what one has committed the other goes on from.

usage: python kafka_python_group.py BOOTSTRAP TOPIC GROUP RECORDS
"""

import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def read(bootstrap, topic, group, count):
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
                             enable_auto_commit=False, consumer_timeout_ms=120000, max_poll_records=10)
    values = []
    for message in consumer:
        values.append(int(message.value))
        if len(values) == count:
            break
    consumer.commit()
    committed = consumer.committed(TopicPartition(topic, 0))
    consumer.close()
    return values, committed


def main(bootstrap, topic, group, count):
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(count):
        producer.send(topic, str(number).encode(), partition=0)
    producer.flush()
    first, committed = read(bootstrap, topic, group, count // 2)
    assert first == list(range(count // 2)), first
    assert committed >= count // 2, committed
    rest, committed = read(bootstrap, topic, group, count - committed)
    assert rest[-1] == count - 1, rest[-1:]
    assert committed == count, committed
    print("ok")


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
