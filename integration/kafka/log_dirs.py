"""Several log.dirs: where partitions go, and what kafka-log-dirs tells of them."""

import json

from harness.runner import Different


def described(env, node, *arguments):
    """kafka-log-dirs' JSON: {directory: {partition: (size > 0, lag, future)}}, and each directory's error."""
    out = env.tool("kafka-log-dirs", "--describe", *arguments, node=node).out
    line = next((line for line in out.splitlines() if line.startswith("{")), None)
    if line is None:
        raise Different(f"no JSON in {out!r}")
    dirs = json.loads(line)["brokers"][0]["logDirs"]
    return ({entry["logDir"]: {part["partition"]: (part["size"] > 0, part["offsetLag"], part["isFuture"])
                               for part in entry["partitions"]} for entry in dirs},
            {entry["logDir"]: entry["error"] for entry in dirs})


def dirs_of(node, count=3):
    return [str(node.home / f"disk-{number}") for number in range(count)]


def test_log_dirs(env):
    """New partitions go where the fewest are; kafka-log-dirs tells of each directory and what lies there."""
    node = env.new_broker()
    dirs = dirs_of(node)
    node.config["log.dirs"] = ",".join(dirs)
    node.data = node.home / "disk-0"
    node.start()
    try:
        topic = env.topic(6, "spread", node=node)
        other = env.topic(3, "spread", node=node)
        env.tool("kafka-console-producer", "--topic", topic, stdin="a\n" * 200, node=node)
        got, errors = described(env, node, "--topic-list", f"{topic},{other}")
        env.see("directories", sorted(got) == sorted(dirs), True)
        env.see("errors", list(errors.values()), [None] * 3)
        env.see("how many each", sorted(len(parts) for parts in got.values()), [3, 3, 3])
        env.see("all of them", sorted(name for parts in got.values() for name in parts)
                == sorted([f"{topic}-{index}" for index in range(6)] + [f"{other}-{index}" for index in range(3)]), True)
        env.see("some hold records", any(part[0] for parts in got.values() for part in parts.values()), True)
        env.see("none moves", {part[1:] for parts in got.values() for part in parts.values()}, {(0, False)})
        one, _ = described(env, node, "--topic-list", other)
        env.see("one topic", sum(len(parts) for parts in one.values()), 3)
        node.stop()
        node.start()
        env.see("after a restart", described(env, node, "--topic-list", f"{topic},{other}")[0] == got, True)
        node.stop()
    finally:
        node.kill()
