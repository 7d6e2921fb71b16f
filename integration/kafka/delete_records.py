"""kafka-delete-records and what the console consumer reads afterwards."""

import json

from harness.runner import Different


def test_delete_records(env):
    """Deleted records are read no more; the tool names the new start, and a wrong offset is refused in Kafka's words."""
    topic = env.topic(2, "deleted")
    env.tool("kafka-console-producer", "--topic", topic, "--command-property", "partitioner.class="
             "org.apache.kafka.clients.producer.RoundRobinPartitioner", stdin="".join(f"{n}\n" for n in range(40)))
    total = sum(int(line.rsplit(":", 1)[1]) for line in env.tool("kafka-get-offsets", "--topic", topic).out.split())
    env.see("records", total, 40)

    def delete(offsets, expect=0):
        path = env.folder / "offsets.json"
        path.write_text(json.dumps({"version": 1, "partitions": [
            {"topic": topic, "partition": partition, "offset": offset} for partition, offset in offsets.items()]}),
            encoding="utf-8")
        result = env.tool("kafka-delete-records", "--offset-json-file", path, expect=expect)
        return sorted(line.strip().replace(topic, "T") for line in result.out.splitlines() if "partition:" in line)

    env.see("deleted", delete({0: 1, 1: -1}))
    starts = sorted(env.tool("kafka-get-offsets", "--topic", topic, "--time", "earliest").out.replace(topic, "T").split())
    ends = sorted(env.tool("kafka-get-offsets", "--topic", topic, "--time", "latest").out.replace(topic, "T").split())
    env.see("start of 0", starts[0], "T:0:1")
    if starts[1].rsplit(":", 1)[1] != ends[1].rsplit(":", 1)[1]:
        raise Different(f"partition 1 was to be emptied: {starts} {ends}")
    count = int(ends[0].rsplit(":", 1)[1]) - 1
    left = env.tool("kafka-console-consumer", "--topic", topic, "--partition", 0, "--offset", "earliest",
                    "--max-messages", count).out.splitlines()
    env.see("left", len(left), count)
    env.see("beyond the end", delete({0: 1000}, expect=None))
