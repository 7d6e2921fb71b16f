"""kafkajs, the JavaScript client (produce.js), with kcat as the reader."""

import itertools

from harness import cache
from harness.runner import Different

NEEDS = ("kafkajs", "kcat")
_numbers = itertools.count(1)


def test_produce_and_kcat_reads(env):
    """What kafkajs makes and writes (topic, plain and gzip batches, keys, headers) kcat reads in order."""
    topic, records = f"kafkajs-{next(_numbers)}", 500
    done = env.run(["node", cache.INTEGRATION / "kafkajs/produce.js", cache.kafkajs() / "node_modules",
                    env.broker.bootstrap, topic, records])
    env.see("offsets by partition", done.stdout.strip(), f"0:0-{records} 1:0-{records}")
    for partition in (0, 1):
        read = env.run(["kcat", "-b", env.broker.bootstrap, "-C", "-t", topic, "-p", partition, "-o", "beginning",
                        "-e", "-q", "-f", "%o %k %s %h\n"]).stdout.splitlines()
        numbers = range(partition, 2 * records, 2)
        wanted = [f"{offset} k{number} v{number} h={number}" for offset, number in enumerate(numbers)]
        if read != wanted:
            raise Different(f"partition {partition}: {len(read)} lines read, {read[:3]} ... {read[-3:]}")
