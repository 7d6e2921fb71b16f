"""Two Python clients: kafka-python and confluent-kafka, each in a process of its own."""

import itertools

from harness import cache
from harness.runner import Different

NEEDS = ("python",)
WAITS = True
_numbers = itertools.count(1)


def round_trip(env, script, topic):
    done = env.run([cache.python_venv() / "bin/python", cache.INTEGRATION / "python_clients" / script,
                    env.broker.bootstrap, f"{topic}-{next(_numbers)}", 500])
    if not done.stdout.endswith("ok 2500 records\n"):
        raise Different(f"{done.stdout}{done.stderr}")


def test_kafka_python(env):
    """kafka-python: admin, idempotent and plain producer, every codec, reading back, offsets by time."""
    round_trip(env, "kafka_python_round_trip.py", "kafka-python")


def test_confluent_kafka(env):
    """confluent-kafka with its own librdkafka: the same, with partitions added and configs described."""
    round_trip(env, "confluent_round_trip.py", "confluent")


def test_confluent_consumer_groups(env):
    """confluent-kafka in the consumer protocol: a topic is shared, moved and read once; offsets go on; an expression."""
    done = env.run([cache.python_venv() / "bin/python",
                    cache.INTEGRATION / "python_clients/confluent_consumer_groups.py", env.broker.bootstrap,
                    f"shared-{next(_numbers)}", 6], seconds=300)
    env.see("steps", done.stdout.splitlines(),
            ["one has 6 committed 600", "two have 3 3", "one has 6 committed 1200", "read 1200 different 1200",
             "the late one read 0", "expression has 6", "ok"])
