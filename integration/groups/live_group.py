"""Consumers of one group that live on while the test does things to the broker.

usage: python live_group.py BOOTSTRAP TOPIC GROUP PROTOCOL CONSUMERS PARTITIONS

Says "ready" once all partitions are assigned, as evenly as can be. Its input is how many values there are: when they are
read, or do not come, it says in one line of JSON what each consumer was told since, and which values were read. PROTOCOL is
classic or consumer (KIP-848).
"""

import json
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaError

PATIENCE_SECONDS = 120
QUIET_SECONDS = 2                       # without a callback: what comes later is told
LOOK_SECONDS = 0.2


class Member(threading.Thread):
    """One consumer, with what happened to it."""

    def __init__(self, settings, topic, number):
        super().__init__(daemon=True)
        self.consumer = Consumer({**settings, "client.id": f"member-{number}"})
        self.topic = topic
        self.held = 0
        self.events = []
        self.errors = []
        self.values = []
        self.over = threading.Event()

    def run(self):
        def assigned(_consumer, places):
            self.held += len(places)
            self.events.append(f"assigned {len(places)}")

        def revoked(_consumer, places):
            self.held -= len(places)
            self.events.append(f"revoked {len(places)}")

        def lost(_consumer, places):
            self.held -= len(places)
            self.events.append(f"lost {len(places)}")

        self.consumer.subscribe([self.topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
        while not self.over.is_set():
            message = self.consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                if message.error().code() != KafkaError._TRANSPORT:      # pylint: disable=protected-access
                    self.errors.append(message.error().name())
                continue
            self.values.append(message.value().decode())
        self.consumer.close()


def main(bootstrap, topic, group, protocol, count, partitions):
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 200, "group.protocol": protocol, "reconnect.backoff.max.ms": 500,
                "log_level": 0}
    if protocol == "classic":
        settings |= {"session.timeout.ms": 30000, "partition.assignment.strategy": "cooperative-sticky"}
    members = [Member(settings, topic, number) for number in range(count)]
    for member in members:
        member.start()
    deadline = time.monotonic() + PATIENCE_SECONDS
    marks, quiet_since = None, deadline
    while time.monotonic() - quiet_since < QUIET_SECONDS:
        time.sleep(LOOK_SECONDS)
        held, told = [member.held for member in members], [len(member.events) for member in members]
        if sum(held) != partitions or max(held) - min(held) > 1 or told != marks:
            marks, quiet_since = told, time.monotonic()
        if time.monotonic() > deadline:
            sys.exit(f"partitions are not shared: {held}")
    print("ready", flush=True)
    wanted = int(sys.stdin.read())
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len({value for member in members for value in member.values}) < wanted and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    events = [member.events[mark:] for member, mark in zip(members, marks)]
    for member in members:
        member.over.set()
    for member in members:
        member.join(PATIENCE_SECONDS)
    print(json.dumps({"events": [event for own in events for event in own],
                      "errors": sorted({error for member in members for error in member.errors}),
                      "values": [value for member in members for value in member.values]}))


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]), int(sys.argv[6]))
