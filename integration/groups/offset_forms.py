"""kafka-consumer-groups in all its forms on groups without members: what it prints is what it prints on Apache Kafka
(offset_forms.json, written by a run against it with OTTLA_WRITE_ANSWERS=1)."""

import json
import os
import re
from pathlib import Path

from harness.runner import Different

ANSWERS = Path(__file__).with_suffix(".json")
TOPICS = {"wide": 2, "thin": 1}         # partitions of each
RECORDS = 10                            # in each partition


def printed(said):
    """Exit code and lines, without what differs from run to run."""
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST", said.out)
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    lines = [re.sub(r"^\[[^]]+\] (WARN|ERROR|INFO) .*$", r"\1", line) for line in lines if not line.lstrip().startswith("at ")]
    return [said.code, *sorted(lines)]  # rows come in the order of hash maps


def forms(folder):
    """In this order: each leaves what the next finds."""
    plan = folder / "plan.csv"
    plan.write_text("wide,0,7\nwide,1,2\nthin,0,1\n", encoding="utf-8")
    one, two = ("--group", "one"), ("--group", "two")
    reset = ("--reset-offsets",)
    yield from (
        (*one, *reset, "--topic", "wide", "--to-earliest", "--execute"),
        (*one, *reset, "--topic", "thin", "--to-latest", "--execute"),
        (*one, *reset, "--topic", "wide:1", "--to-offset", "4", "--execute"),
        (*one, *reset, "--all-topics", "--shift-by", "1", "--dry-run"),
        (*one, *reset, "--all-topics", "--shift-by", "-100"),
        (*one, *reset, "--topic", "wide:0,1", "--to-offset", "99", "--dry-run"),
        (*one, *reset, "--all-topics", "--to-current", "--dry-run"),
        (*one, *reset, "--topic", "wide", "--topic", "thin", "--by-duration", "P1D", "--dry-run"),
        (*one, *reset, "--topic", "wide", "--to-datetime", "2020-01-01T00:00:00.000", "--dry-run"),
        (*one, *reset, "--topic", "wide", "--to-datetime", "2999-01-01T00:00:00.000", "--dry-run"),
        (*one, *reset, "--all-topics", "--to-current", "--export", "--dry-run"),
        (*two, *reset, "--from-file", plan, "--execute"),
        (*reset, *one, *two, "--all-topics", "--to-current", "--export", "--dry-run"),
        (*one, *reset, "--topic", "missing", "--to-earliest", "--dry-run"),
        ("--group", "nobody", *reset, "--all-topics", "--to-earliest", "--dry-run"),
        ("--list",), ("--list", "--state"), ("--list", "--state", "empty"), ("--list", "--state", "stable"),
        ("--list", "--type"), ("--list", "--type", "classic"), ("--list", "--type", "consumer"), ("--list", "--type", "--state"),
        ("--describe", *one), ("--describe", *one, "--offsets"), ("--describe", *one, "--offsets", "--verbose"),
        ("--describe", *one, "--members"), ("--describe", *one, "--members", "--verbose"), ("--describe", *one, "--state"),
        ("--describe", *one, *two, "--offsets"), ("--describe", "--all-groups", "--state"),
        ("--describe", "--all-groups", "--offsets"), ("--describe", "--group", "nobody"),
        ("--describe", "--group", "nobody", "--state"), ("--describe", "--group", "nobody", "--members"),
        (*one, "--delete-offsets", "--topic", "wide:1"), (*one, "--delete-offsets", "--topic", "wide:7"),
        (*one, "--delete-offsets", "--topic", "missing"), (*one, "--delete-offsets", "--topic", "thin"),
        ("--describe", *one, "--offsets"),
        ("--delete", *one, "--group", "nobody"), ("--list",),
        ("--validate-regex", "wi.*"), ("--validate-regex", "wi(?=d)"),
        ("--delete", "--all-groups"), ("--list",),
    )


def test_forms_of_offsets(env):
    """list, describe, every way to reset, export, delete-offsets, delete, validate-regex; what is not there, too."""
    wanted = json.loads(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.exists() else {}
    seen = {}
    with env.own_broker() as node:
        for name, partitions in TOPICS.items():
            env.tool("kafka-topics", "--create", "--topic", name, "--partitions", partitions, node=node)
            for partition in range(partitions):
                env.run(["kcat", "-b", node.bootstrap, "-P", "-t", name, "-p", partition], input="record\n" * RECORDS)
        for number, form in enumerate(forms(env.folder)):
            label = f"{number} {' '.join(map(str, form)).replace(str(env.folder), 'FOLDER')}"
            seen[label] = printed(env.tool("kafka-consumer-groups", *form, node=node, expect=None))
    if env.is_kafka and os.environ.get("OTTLA_WRITE_ANSWERS") == "1":
        ANSWERS.write_text(json.dumps(seen, indent=1) + "\n", encoding="utf-8")
        wanted = seen
    wrong = [f"{label}: {said}, Apache Kafka's {wanted.get(label)}" for label, said in seen.items() if said != wanted.get(label)]
    if wrong or set(wanted) != set(seen):
        raise Different(f"{len(wrong)} of {len(seen)} forms differ: " + "; ".join(wrong[:5]))
