"""A volume that fills up under real producers. The broker runs as an ordinary user, since root has blocks of its own.

Sources: broker/space_watch.c
"""

import contextlib
import os
import re
import shutil
import subprocess
import time

from harness import broker, cache, tools, volumes
from harness.patience import PATIENCE_SECONDS
from harness.runner import Different, ottla_only
from wire.client import Client

NEEDS = ("ext4", "kafka", "franz-go", "python")
NEEDS_BROKER = False
MIB = 1 << 20
STORAGE_ERROR = 56                      # what a refused producer is told: docs/decisions


class NobodysOttla(broker.Ottla):
    """Our broker without root's rights; its binary is copied to where everybody may run it."""

    def __init__(self, binary, home, config):
        super().__init__(binary, home, config)
        self.binary = self.home / "ottla"
        self.clients = []
        shutil.copy(binary, self.binary)
        os.chown(self.home, volumes.NOBODY, volumes.NOBODY)

    def command(self):
        return volumes.as_nobody(super().command())


@contextlib.contextmanager
def node_on_volume(env, size, **config):
    """A broker whose only log directory lies on a small volume of its own."""
    binary = env.new_broker().binary
    folder = env.folder / f"full-disk-{time.monotonic_ns()}"
    folder.mkdir()
    for path in (env.folder, folder):
        path.chmod(0o755)
    with volumes.volume("ext4", folder, size) as volume:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        node = NobodysOttla(binary, folder / "home", {"log.dirs": volume.path / "data", **settings})
        try:
            node.start()
            yield node, volume
        finally:
            for client in node.clients:
                client.kill()
                client.wait()
            node.kill()


def await_line(node, pattern, count=1):
    """The broker says it, for the count-th time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(re.findall(pattern, node.log_path.read_text(errors="replace"))) < count:
        if not node.alive():
            raise Different(f"the broker ended with {node.process.returncode}\n{node.log_tail()}")
        if time.monotonic() > deadline:
            raise Different(f"no line `{pattern}` in {PATIENCE_SECONDS} s\n{node.log_tail()}")
        time.sleep(0.02)


def await_end(client, log, what):
    try:
        code = client.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        code = None
    if code != 0:
        raise Different(f"{what} gave {code}: {log.read_text(errors='replace')[-2000:]}")


def start_client(node, name, command):
    """(process, its log); it goes with the node."""
    log = node.home.parent / f"{name}.log"
    with log.open("wb") as out:
        client = subprocess.Popen([str(part) for part in command], stdout=out, stderr=out)
    node.clients.append(client)
    return client, log


def start_load(env, node, topic, records):
    program = env.client_program("integration/librdkafka/load")
    return start_client(node, topic, [program, node.bootstrap, topic, 2, records])


def fill(volume, leave=0):
    """Somebody else, who has no reserve either, takes what is free but for so many bytes."""
    filler = volume.path / "filler"
    if leave:
        subprocess.run(["fallocate", "-l", str(volume.free() - leave), filler], check=True)
        return filler
    filler.touch()
    os.chown(filler, volumes.NOBODY, volumes.NOBODY)
    for block in (1 << 20, 1 << 10):
        subprocess.run(volumes.as_nobody(["dd", "if=/dev/zero", f"of={filler}", f"bs={block}", "oflag=append",
                                          "conv=notrunc"]), check=False, stderr=subprocess.DEVNULL)
    return filler


def read_all(client, topic, partitions=2):
    """How many records a topic has, by reading them."""
    client.ids[topic] = client.metadata([topic])[topic]["TopicId"]
    count = 0
    for partition in range(partitions):
        at, end = 0, client.list_offsets(topic, -1, partition)[1]
        while at < end:
            part = client.fetch(topic, at, partition)
            data = part["Records"]
            if part["ErrorCode"] != 0 or not data:
                raise Different(f"fetch at {at} of {end}: error {part['ErrorCode']}, {len(data or b'')} bytes")
            last, position = at, 0
            while position + 61 <= len(data):
                base = int.from_bytes(data[position:position + 8], "big")
                length = int.from_bytes(data[position + 8:position + 12], "big")
                if position + 12 + length > len(data):
                    break
                last = base + int.from_bytes(data[position + 23:position + 27], "big") + 1
                position += 12 + length
            at = last
        count += end
    return count


def delete(client, topic):
    reply = client.call("DeleteTopics", 6, {"Topics": [{"Name": topic, "TopicId": bytes(16)}], "TimeoutMs": 10000})
    if reply["Responses"][0]["ErrorCode"] != 0:
        raise Different(f"{topic} was not deleted: {reply}")


@ottla_only
def test_producers_fill_it_and_go_on(env):
    """A producer fills the volume: it is refused and waits; reads, new topics and deletion work; then it goes on."""
    with node_on_volume(env, 80 * MIB, ottla_disk_warn_bytes=40 * MIB) as (node, _):
        await_line(node, "reserve for a full disk is whole")
        old, log = start_load(env, node, "old", 260_000)
        await_end(old, log, "the first load")
        new, log = start_load(env, node, "new", 450_000)
        await_line(node, "disk is filling up .*hours_until_producers_are_refused=")
        await_line(node, "disk is full: producers are refused")
        with Client(node) as client:
            env.see("records of the old topic", read_all(client, "old"), 260_000)
            client.create(partitions=3)
            env.see("a producer is told", client.produce(client.create(), [b"x"])["ErrorCode"], STORAGE_ERROR)
            if new.poll() is not None:
                raise Different(f"the producer gave up with {new.returncode}: {log.read_text()[-2000:]}")
            delete(client, "old")
            await_line(node, "disk has room again: producers are served")
            await_end(new, log, "the second load")              # it has looked for each of its records
            env.see("the same producer is told now", client.produce(client.create(), [b"x"])["ErrorCode"], 0)
        node.stop()


@ottla_only
def test_stock_clients_wait(env):
    """Java, librdkafka old and new, and franz-go begin while the disk is full, retry, and go on when there is room."""
    config = {"ottla_disk_refuse_bytes": 40 * MIB, "ottla_disk_warn_bytes": 41 * MIB}
    with node_on_volume(env, 96 * MIB, **config) as (node, volume):
        topics = ["--bootstrap-server", node.bootstrap, "--create", "--partitions", "2"]
        for topic in ("franz", "java"):
            env.tool("kafka-topics", *topics, "--topic", topic, bootstrap=False)
        filler = fill(volume, 30 * MIB)
        await_line(node, "disk is full: producers are refused")
        python = cache.INTEGRATION / "python_clients"
        commands = {
            "franz-go": [cache.franz_go(), node.bootstrap, "franz", 2, 500],
            "java": ["java", *tools.java_options(), tools.main_class("kafka-producer-perf-test"), "--topic", "java",
                     "--bootstrap-server", node.bootstrap, "--num-records", 5000, "--record-size", 100,
                     "--throughput", -1, "--command-property", "acks=all"],
            "confluent-kafka": [cache.python_venv() / "bin/python", python / "confluent_round_trip.py",
                                node.bootstrap, "confluent", 200],
        }
        running = {name: start_client(node, name, command) for name, command in commands.items()}
        running["librdkafka"] = start_load(env, node, "librdkafka", 20_000)
        time.sleep(6)                                           # slow starters have been refused a few times by then
        for name, (client, log) in running.items():
            if client.poll() is not None:
                raise Different(f"{name} gave up with {client.returncode}: {log.read_text()[-2000:]}")
        filler.unlink()
        for name, (client, log) in running.items():
            await_end(client, log, name)
        with Client(node) as client:
            env.see("Java's records", sum(client.list_offsets("java", -1, index)[1] for index in range(2)), 5000)
        node.stop()


@ottla_only
def test_starts_without_a_byte(env):
    """kill -9, then not one byte free: it starts, serves reads, makes topics, refuses producers, and goes on later."""
    with node_on_volume(env, 48 * MIB) as (node, volume):
        await_line(node, "reserve for a full disk is whole")
        load, log = start_load(env, node, "load", 60_000)
        await_end(load, log, "the load")
        for life in range(3):
            node.kill()
            filler = fill(volume)
            env.see(f"free bytes before start {life}", volume.free(), 0)
            node.start()
            with Client(node) as client:
                env.see(f"records in life {life}", read_all(client, "load"), 60_000)
                env.see(f"a producer is told in life {life}", client.produce("load", [b"x"])["ErrorCode"], STORAGE_ERROR)
                client.create()
        filler.unlink()
        await_line(node, "disk has room again: producers are served")
        with Client(node) as client:
            client.ids["load"] = client.metadata(["load"])["load"]["TopicId"]
            env.see("with room a producer is told", client.produce("load", [b"x"])["ErrorCode"], 0)
        await_line(node, "reserve for a full disk is whole", 2)
        filler = fill(volume)
        node.stop()                                             # a clean stop needs no room either
        node.start()
        with Client(node) as client:
            env.see("records after a clean stop", read_all(client, "load"), 60_001)
        node.kill()
