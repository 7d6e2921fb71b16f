"""confluent-kafka in the consumer protocol (KIP-848): two members share a topic, one leaves, offsets go on.

Usage: confluent_consumer_groups.py BOOTSTRAP TOPIC PARTITIONS
Prints what was seen, a line each; `ok` at the end.
"""

import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SECONDS = 120


class Member:
    """A consumer that remembers what it read, and how often it was assigned and revoked."""

    def __init__(self, bootstrap, group, topics, **config):
        self.read = []
        self.failed = None
        self.consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer",
                                  "auto.offset.reset": "earliest", "enable.auto.commit": False,
                                  "error_cb": self._error, **config})
        self.consumer.subscribe(topics)

    def _error(self, error):
        if error.fatal():
            self.failed = error

    def poll(self):
        message = self.consumer.poll(0.05)
        if self.failed is not None:
            raise AssertionError(f"fatal: {self.failed}")
        if message is None:
            return
        if message.error():
            raise AssertionError(message.error())
        self.read.append((message.partition(), message.offset()))

    def partitions(self):
        return len(self.consumer.assignment())


def until(members, what, happened):
    deadline = time.monotonic() + SECONDS
    while not happened():
        for member in members:
            member.poll()
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {SECONDS} s: {what}; {[member.partitions() for member in members]} "
                                 f"{[len(member.read) for member in members]}")


def produce(bootstrap, topic, partitions, count):
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=number % partitions)
    assert producer.flush(120) == 0


def committed(member, topic, partitions):
    return sum(max(entry.offset, 0) for entry in
               member.consumer.committed([TopicPartition(topic, index) for index in range(partitions)], timeout=120))


def share(bootstrap, topic, partitions):
    group = f"{topic}-group"
    produce(bootstrap, topic, partitions, 100 * partitions)
    first = Member(bootstrap, group, [topic])
    until([first], "all read", lambda: len(first.read) == 100 * partitions)
    first.consumer.commit(asynchronous=False)
    print("one has", first.partitions(), "committed", committed(first, topic, partitions))
    second = Member(bootstrap, group, [topic], **{"group.remote.assignor": "uniform"})
    until([first, second], "shared", lambda: first.partitions() == second.partitions() == partitions // 2)
    print("two have", first.partitions(), second.partitions())
    produce(bootstrap, topic, partitions, 100 * partitions)
    until([first, second], "the rest read", lambda: len(first.read) + len(second.read) == 200 * partitions)
    for member in (first, second):
        member.consumer.commit(asynchronous=False)
    second.consumer.close()
    until([first], "one has all again", lambda: first.partitions() == partitions)
    print("one has", first.partitions(), "committed", committed(first, topic, partitions))
    read = first.read + second.read
    print("read", len(read), "different", len(set(read)))
    first.consumer.close()
    late = Member(bootstrap, group, [topic])
    until([late], "the late one has all", lambda: late.partitions() == partitions)
    time.sleep(0.5)
    late.poll()
    print("the late one read", len(late.read))
    late.consumer.close()


def by_expression(bootstrap, topic, partitions):
    member = Member(bootstrap, f"{topic}-expression", [f"^{topic}.*"])
    until([member], "the expression's topics", lambda: member.partitions() == partitions)
    print("expression has", member.partitions())
    member.consumer.close()


def main(bootstrap, topic, partitions):
    partitions = int(partitions)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(120)
    share(bootstrap, topic, partitions)
    by_expression(bootstrap, topic, partitions)
    print("ok")


main(*sys.argv[1:])
