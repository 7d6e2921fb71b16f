"""librdkafka in C (load.c): an idempotent producer whose every record is looked for afterwards."""

import itertools
import random
import re
import subprocess
import threading
import time

from harness.runner import Different, long

NEEDS = ()
_numbers = itertools.count(1)


def load(env, partitions, records, *properties, seconds=300):
    """The whole round trip; its own checks decide."""
    program = env.client_program("integration/librdkafka/load")
    topic = f"load-{next(_numbers)}"
    done = env.run([program, env.broker.bootstrap, topic, partitions, records, *properties], seconds=seconds)
    if not done.stdout.endswith(f"ok {records} records\n"):
        raise Different(f"{done.stdout[-200:]}{done.stderr[-2000:]}")


def test_million_records(env):
    """An idempotent producer's records are there once, in order, at the acknowledged offsets."""
    load(env, 4, env.counts["records"])


def test_every_codec(env):
    """The same through each codec, which the broker stores as it came."""
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        load(env, 2, 20000, f"compression.type={codec}")


def test_single_in_flight_small_batches(env):
    """One request at a time with tiny batches: every request is waited for."""
    load(env, 1, 2000, "max.in.flight=1", "batch.num.messages=5", "linger.ms=0")


def test_many_partitions(env):
    """A hundred partitions at once."""
    load(env, 100, 50000)


def kill_under_load(env, records, kills):
    """Kill -9 at `kills` moments spread over the load, restart, and let the client finish and check."""
    moments = [records * (kill + 1) // (kills + 1) for kill in range(kills)]
    restarts = []
    chance = random.Random(1)
    node = env.new_broker()
    node.start()
    log = node.home / "client.log"
    with log.open("w", encoding="utf-8") as errors:
        client = subprocess.Popen([env.client_program("integration/librdkafka/load"), node.bootstrap, "crash", "3",
                                   str(records)], stdout=subprocess.PIPE, stderr=errors, text=True)
    watchdog = threading.Timer(120 + 30 * kills, client.kill)
    watchdog.start()
    try:
        for line in client.stdout:
            acked = re.match(r"acked (\d+)", line)
            if acked and len(restarts) < kills and int(acked.group(1)) >= moments[len(restarts)]:
                time.sleep(chance.random() * 0.02)
                node.kill()
                restarts.append(node.start())
        if client.wait() != 0 or len(restarts) < kills:
            raise Different(f"exit code {client.returncode} after {len(restarts)} of {kills} kills\n"
                            f"{log.read_text(encoding='utf-8')[-2000:]}\n{node.log_tail()}")
        env.see("seconds from start to readiness", [round(seconds, 3) for seconds in restarts])
        node.stop()
    finally:
        watchdog.cancel()
        client.kill()
        client.wait()
        node.kill()


def test_kill_under_load(env):
    """kill -9 in the middle of an acks=all load: every acknowledged record is there once, in order."""
    kill_under_load(env, 200_000, 3)


@long
def test_kill_under_load_long(env):
    """The same with as many records and kills as the command line says."""
    kill_under_load(env, env.counts["records"], env.counts["kills"])
