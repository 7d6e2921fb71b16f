"""Group members with a Python client, as many in one process as are asked for (members.py has the commands and what is
said).

usage: python python_member.py CLIENT BOOTSTRAP           CLIENT: confluent, aiokafka or kafka-python
"""

import asyncio
import sys
import threading

_speech = threading.Lock()


class Member:
    """What all clients have in common: a thread that polls and commits, and says so."""

    def __init__(self, bootstrap, wanted):
        self.bootstrap = bootstrap
        self.wanted = wanted
        self.name = wanted["name"]
        self.held = set()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def say(self, *words):
        with _speech:
            print(self.name, *words, flush=True)

    def told(self, places, more):
        """(topic, partition) pairs that the member has from now on, or has not any more."""
        self.held = self.held | set(places) if more else self.held - set(places)
        self.say("has", ",".join(f"{topic}-{partition}" for topic, partition in sorted(self.held)))

    def read(self, topic, partition, offset, value):
        self.say("read", f"{topic}-{partition}", offset, value.decode())

    def _run(self):
        try:
            self.run()
            self.say("closed")
        except Exception as error:              # pylint: disable=broad-exception-caught
            self.say("failed", repr(error))

    def run(self):
        raise NotImplementedError


class Confluent(Member):
    """confluent-kafka: librdkafka, in both protocols."""

    def run(self):
        from confluent_kafka import Consumer, KafkaError, KafkaException
        settings = {"bootstrap.servers": self.bootstrap, "group.id": self.wanted["group"], "client.id": self.name,
                    "group.protocol": self.wanted["protocol"], "auto.offset.reset": "earliest",
                    "enable.auto.commit": False, "reconnect.backoff.max.ms": 500,
                    "topic.metadata.refresh.interval.ms": 1000, "log_level": 0}
        if "instance" in self.wanted:
            settings["group.instance.id"] = self.wanted["instance"]
        if self.wanted["protocol"] == "classic":
            settings |= {"partition.assignment.strategy": self.wanted["assignor"], "heartbeat.interval.ms": 500,
                         "session.timeout.ms": int(self.wanted["session_ms"])}
        elif "assignor" in self.wanted:
            settings["group.remote.assignor"] = self.wanted["assignor"]
        consumer = Consumer(settings)

        def moved(more):
            return lambda _, places: self.told([(place.topic, place.partition) for place in places], more)

        consumer.subscribe([self.wanted.get("pattern") or self.wanted["topic"]], on_assign=moved(True),
                           on_revoke=moved(False), on_lost=moved(False))
        read = committed = 0
        while not self.over.is_set():
            for message in consumer.consume(100, 0.1):
                if message.error() is None:
                    self.read(message.topic(), message.partition(), message.offset(), message.value())
                    read += 1
                elif message.error().fatal():
                    raise KafkaException(message.error())
            if read == committed:
                continue
            try:
                consumer.commit(asynchronous=False)
                committed = read
                self.say("committed", committed)
            except KafkaException as error:     # tried again once the rebalance is over
                if error.args[0].code() not in (KafkaError.REBALANCE_IN_PROGRESS, KafkaError._TRANSPORT):
                    raise
        consumer.close()


class Aiokafka(Member):
    """aiokafka, which has the classic protocol only; each member has an event loop of its own."""

    def run(self):
        asyncio.run(self.in_loop())

    async def in_loop(self):
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
        member = self

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_assigned(self, assigned):
                member.told([(place.topic, place.partition) for place in assigned], True)

            async def on_partitions_revoked(self, revoked):
                member.told([(place.topic, place.partition) for place in revoked], False)

        assignor = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor,
                    "sticky": StickyPartitionAssignor}[self.wanted["assignor"]]
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=self.wanted["group"], client_id=self.name,
                                    group_instance_id=self.wanted.get("instance"), enable_auto_commit=False,
                                    auto_offset_reset="earliest", heartbeat_interval_ms=500, metadata_max_age_ms=1000,
                                    session_timeout_ms=int(self.wanted["session_ms"]),
                                    partition_assignment_strategy=(assignor,))
        listener = Listener()
        if "pattern" in self.wanted:
            consumer.subscribe(pattern=self.wanted["pattern"], listener=listener)
        else:
            consumer.subscribe([self.wanted["topic"]], listener=listener)
        await consumer.start()
        read = 0
        while not self.over.is_set():
            found = await consumer.getmany(timeout_ms=100)
            for place, messages in found.items():
                for message in messages:
                    self.read(place.topic, place.partition, message.offset, message.value)
                    read += 1
            if found:
                await consumer.commit()
                self.say("committed", read)
        await consumer.stop()


class KafkaPython(Member):
    """kafka-python, which has the classic protocol only."""

    def run(self):
        from kafka import ConsumerRebalanceListener, KafkaConsumer
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        member = self

        class Listener(ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned):
                member.told([(place.topic, place.partition) for place in assigned], True)

            def on_partitions_revoked(self, revoked):
                member.told([(place.topic, place.partition) for place in revoked], False)

        assignor = {"range": RangePartitionAssignor,
                    "cooperative-sticky": CooperativeStickyAssignor}[self.wanted["assignor"]]
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, group_id=self.wanted["group"], client_id=self.name,
                                 group_instance_id=self.wanted.get("instance"), enable_auto_commit=False,
                                 auto_offset_reset="earliest", heartbeat_interval_ms=500,
                                 session_timeout_ms=int(self.wanted["session_ms"]),
                                 partition_assignment_strategy=[assignor])
        if "pattern" in self.wanted:
            consumer.subscribe(pattern=self.wanted["pattern"], listener=Listener())
        else:
            consumer.subscribe([self.wanted["topic"]], listener=Listener())
        read = 0
        while not self.over.is_set():
            # A poll whose time is over at the moment at which SyncGroup is answered loses the assignment for good
            # (3.0.12: "timeout in ensure_active_group" beside the answer, then "need_rejoin: False"): few of them are.
            found = consumer.poll(timeout_ms=5000)
            for place, messages in found.items():
                for message in messages:
                    self.read(place.topic, place.partition, message.offset, message.value)
                    read += 1
            if found:
                consumer.commit()
                self.say("committed", read)
        consumer.close()


CLIENTS = {"confluent": Confluent, "aiokafka": Aiokafka, "kafka-python": KafkaPython}


def main(client, bootstrap):
    members = {}
    for line in sys.stdin:
        verb, *words = line.split()
        wanted = dict(word.split("=", 1) for word in words)
        if verb == "open":
            members[wanted["name"]] = CLIENTS[client](bootstrap, wanted)
        else:
            members.pop(wanted["name"]).over.set()
    for member in members.values():
        member.over.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
