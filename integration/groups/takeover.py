"""Two processes share a group while records keep coming, one of them is killed, the other has all partitions: each client
in a topic and a group of its own, all at once, since most of it is waiting."""

import contextlib
import os
import re
import subprocess
import tempfile
import threading
import time

from harness import cache, tools
from harness.patience import PATIENCE_SECONDS, eventually
from harness.runner import Different

PARTITIONS = 4
SESSION_MS = 6000                       # the least that brokers take of members of the classic protocol
BEAT_MS = 500
CONFIG = {"group.initial.rebalance.delay.ms": 0, "group.consumer.session.timeout.ms": SESSION_MS,
          "group.consumer.min.session.timeout.ms": SESSION_MS, "group.consumer.heartbeat.interval.ms": BEAT_MS,
          "group.consumer.min.heartbeat.interval.ms": BEAT_MS}
COMMIT_MS = 200
FEED_SECONDS = 0.02                     # between two records of a topic
LOOK_SECONDS = 0.05
ERROR_BYTES = 1000
LINE = re.compile(r"(?:Partition:)?(\d+)\s+(?:Offset:)?(\d+)\s+(\d+)")


def console(protocol):
    """kafka-console-consumer, a JVM of its own."""
    own = {"group.protocol": protocol, "auto.commit.interval.ms": COMMIT_MS}
    if protocol == "classic":           # in the other one these are the broker's
        own |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": BEAT_MS}
    settings = [part for key, value in own.items() for part in ("--command-property", f"{key}={value}")]
    shown = [part for key in ("partition", "offset") for part in ("--formatter-property", f"print.{key}=true")]

    def command(bootstrap, topic, group):
        return ["java", *tools.java_options(), tools.main_class("kafka-console-consumer"), "--bootstrap-server", bootstrap,
                "--topic", topic, "--from-beginning", "--group", group, *settings, *shown]
    return command


def kcat(bootstrap, topic, group):
    """kcat with Debian's librdkafka, which has the classic protocol only."""
    own = {"auto.offset.reset": "earliest", "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": BEAT_MS,
           "auto.commit.interval.ms": COMMIT_MS}
    return ["kcat", "-b", bootstrap, "-G", group, "-u", "-q", "-f", "%p %o %s\\n",
            *(part for key, value in own.items() for part in ("-X", f"{key}={value}")), topic]


def kafkajs(bootstrap, topic, group):
    """kafkajs, which has the classic protocol only."""
    return ["node", cache.INTEGRATION / "groups/member.js", cache.kafkajs() / "node_modules", bootstrap, topic, group,
            SESSION_MS]


CLIENTS = {"console-classic": console("classic"), "console-consumer": console("consumer"), "kcat": kcat, "kafkajs": kafkajs}


class Member:
    """A process, and what it has printed: values by partition and offset."""

    def __init__(self, command):
        self.read = {}
        self.newest = {}                # offset by partition
        self.first = {}                 # and the first one, since this was cleared
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True)
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self):
        for line in self.process.stdout:
            found = LINE.fullmatch(line.strip())
            if found is None:
                continue                # a line that the kill cut short was not read
            partition, offset, value = map(int, found.groups())
            self.first.setdefault(partition, offset)
            self.read[partition, offset] = value
            self.newest[partition] = max(offset, self.newest.get(partition, -1))

    def kill(self):
        """kill -9, as a crash."""
        self.process.kill()
        self.wait()

    def wait(self):
        """It has ended, and all that it printed is known."""
        self.process.wait(PATIENCE_SECONDS)
        self.listener.join()

    def close(self):
        self.kill()
        self.errors.close()

    def __str__(self):
        size = self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, size - ERROR_BYTES))
        return (f"{self.process.args[0]} ({self.process.poll()}) read {len(self.read)}, newest {self.newest}\n"
                f"{self.errors.read().decode(errors='replace')}")


class Feed:
    """Numbers to all topics, one after the other, until it is ended."""

    def __init__(self, node, topics):
        self.sent = 0
        self.over = threading.Event()
        self.producers = [subprocess.Popen(["kcat", "-b", node.bootstrap, "-P", "-t", topic, "-X", "acks=all",
                                            "-X", "sticky.partitioning.linger.ms=0"],
                                           stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
                          for topic in topics]
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.over.wait(FEED_SECONDS):
            for producer in self.producers:
                producer.stdin.write(f"{self.sent}\n")
            self.sent += 1

    def end(self):
        """All that was sent is acknowledged."""
        self.over.set()
        self.thread.join()
        for producer in self.producers:
            _, said = producer.communicate(timeout=PATIENCE_SECONDS)
            if producer.returncode != 0 or "failed" in said:
                raise Different(f"the producer ended with {producer.returncode}: {said}")

    def close(self):
        self.over.set()
        for producer in self.producers:
            producer.kill()
            producer.wait()


class Pair:
    """Two members of one client's group."""

    def __init__(self, stack, name, topic, node):
        self.name, self.topic, self.group = name, topic, f"{topic}-group"
        self.doomed, self.heir = (Member(CLIENTS[name](node.bootstrap, topic, self.group)) for _ in range(2))
        for member in (self.doomed, self.heir):
            stack.callback(member.close)

    def held(self, member):
        """Partitions in which nobody has read further."""
        other = self.heir if member is self.doomed else self.doomed
        return {partition for partition, offset in list(member.newest.items()) if offset > other.newest.get(partition, -1)}

    def shared(self):
        return len(self.held(self.doomed)) == len(self.held(self.heir)) == PARTITIONS // 2

    def heir_reads_on(self, mark):
        """It has all partitions: from each it has read what was sent later than this number."""
        newest = [self.heir.read[place] for place in list(self.heir.newest.items())]
        return len(newest) == PARTITIONS and min(newest) > mark

    def seen(self):
        return set(self.doomed.read.values()) | set(self.heir.read.values())

    def __str__(self):
        return f"{self.name}:\n{self.doomed}\n{self.heir}"


def until(what, happened, pairs):
    """Waits for something that all of the clients do."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not all(map(happened, pairs)):
        if time.monotonic() > deadline:
            raise Different(f"{what}: not in {PATIENCE_SECONDS} s\n" + "\n".join(str(pair) for pair in pairs if not happened(pair)))
        time.sleep(LOOK_SECONDS)


def offsets(env, node):
    """What kafka-consumer-groups says is committed and at the end, by topic and partition."""
    said = env.tool("kafka-consumer-groups", "--describe", "--all-groups", node=node).out
    return {(topic, int(partition)): (int(committed), int(end)) for topic, partition, committed, end in
            re.findall(r"^\S+\s+(\S+)\s+(\d+)\s+(\d+)\s+(\d+)\s", said, re.MULTILINE)}


def run(env):
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(env.own_broker(**CONFIG))
        topics = [env.topic(PARTITIONS, name, node=node) for name in CLIENTS]
        feed = Feed(node, topics)
        stack.callback(feed.close)
        pairs = [Pair(stack, name, topic, node) for name, topic in zip(CLIENTS, topics)]
        until("two share", Pair.shared, pairs)
        committed = eventually(lambda: offsets(env, node), lambda found: len(found) == len(pairs) * PARTITIONS)
        env.see("places that are committed", len(committed), len(pairs) * PARTITIONS)

        for pair in pairs:
            pair.doomed.kill()
            pair.heir.first.clear()
        mark = feed.sent
        moved = {pair.name: pair.held(pair.doomed) for pair in pairs}
        until("the other has all", lambda pair: pair.heir_reads_on(mark), pairs)
        feed.end()
        until("every record is seen", lambda pair: len(pair.seen()) == feed.sent, pairs)
        for pair in pairs:
            env.see(f"{pair.name}: partitions that moved", len(moved[pair.name]), PARTITIONS // 2)
            env.see(f"{pair.name}: all records seen", pair.seen() == set(range(feed.sent)), True)
            # A partition is taken over where it was committed: what was committed before the kill is not read again.
            env.see(f"{pair.name}: goes on at what is committed",
                    all(pair.heir.first[partition] >= committed[pair.topic, partition][0] for partition in moved[pair.name]), True)
        for pair in pairs:
            pair.heir.process.terminate()
        for pair in pairs:
            pair.heir.wait()
        env.see("all is committed in the end", [end - at for at, end in offsets(env, node).values()],
                [0] * len(pairs) * PARTITIONS)
