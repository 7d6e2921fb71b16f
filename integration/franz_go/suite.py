"""franz-go, the Go client (main.go): idempotent producer, every codec, consumer of explicit partitions."""

from harness import cache
from harness.runner import Different

NEEDS = ("franz-go", "kafka")


def test_round_trip(env):
    """Keys, values and headers, null or empty or filled, come back as they were for every codec."""
    topic = env.topic(3, "franz")
    done = env.run([cache.franz_go(), env.broker.bootstrap, topic, 3, 1500])
    if done.stdout != "ok 7500 records\n":
        raise Different(f"{done.stdout}{done.stderr}")
