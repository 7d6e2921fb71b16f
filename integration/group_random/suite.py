"""Random sequences of group requests, asked of Apache Kafka and of Ottla at once: answers compared, one for one."""

import os
import time

from group_answers.suite import await_coordinator
from harness import broker
from harness.runner import Different, ottla_only
from wire.client import Client

from .driver import Pair
from .generator import Generator

NEEDS = ("kafka",)
NEEDS_BROKER = False

SEED = int(os.environ.get("OTTLA_GROUP_SEED", "20261130"))
COUNT = 30
SECONDS = int(os.environ.get("OTTLA_GROUP_SECONDS", "0"))       # instead of so many, as many as go into that time
KINDS_SHOWN = 40
PARTITIONS = {"t": 12, "u": 5}
# One thread each, so that answers leave in the order in which they were decided; the range assignor, since which
# partitions the uniform one gives to whom depends on the order of a hash map.
CONFIG = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 1, "group_consumer_assignment_interval_ms": 0,
          "group_consumer_assignors": "range,uniform", "num_network_threads": 1, "num_io_threads": 1,
          **dict(setting.split("=") for setting in os.environ.get("OTTLA_GROUP_SETTINGS", "").split())}


@ottla_only
def test_random_sequences(env):
    """What is asked of groups, in whatever order, is answered as by Apache Kafka."""
    kafka = broker.Kafka(env.folder / "kafka-of-random", {key.replace("_", "."): value for key, value in CONFIG.items()})
    try:
        kafka.start()
        with env.own_broker(**CONFIG) as ottla:
            for node in (kafka, ottla):
                with Client(node) as connection:
                    await_coordinator(connection)
            compare(Pair((kafka, ottla), PARTITIONS))
    finally:
        kafka.kill()


def compare(pair):
    """Sequences of one seed after the other; each kind of difference once, with as few requests as show it."""
    found, once, seed, end = {}, [], SEED, time.monotonic() + SECONDS
    while (time.monotonic() < end if SECONDS else seed < SEED + COUNT) and len(found) < KINDS_SHOWN:
        difference = pair.run(Generator(seed).lines())
        if difference and difference.kind() not in found:
            again = pair.confirm(difference)
            if again:
                found[again.kind()] = f"seed {seed}: {pair.shorten(again).text()}"
                print(f"    {found[again.kind()]}", flush=True)
            else:
                once.append(seed)
        seed += 1
    print(f"    seeds {SEED} to {seed - 1}: {pair.runs} sequences, {pair.steps} requests; ended early {dict(pair.ended)}; not again {once}")
    pair.close()
    if found:
        raise Different(f"{len(found)} kinds of difference:\n" + "\n".join(found.values()))
