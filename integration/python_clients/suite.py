"""Two Python clients: kafka-python and confluent-kafka, each in a process of its own."""

import itertools

from harness import cache
from harness.runner import Different

NEEDS = ("python",)
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
