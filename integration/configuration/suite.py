"""Our table of configuration keys against Kafka's own definitions."""

import re
import subprocess
import sys
from functools import lru_cache

from harness import cache, tools
from harness.runner import Different

NEEDS = ("kafka",)
NEEDS_BROKER = False

SHOWN = 10


@lru_cache(maxsize=1)
def theirs():
    """Rows of Kafka's definitions, by (kind, name), and the synonyms of topic keys."""
    out = subprocess.run(["java", *tools.java_options(), str(cache.INTEGRATION / "configuration/Keys.java")],
                         stdout=subprocess.PIPE, stderr=sys.stderr, text=True, timeout=120, check=True).stdout
    keys, synonyms = {}, {}
    for line in out.splitlines():
        fields = line.split("\t")
        if fields[0] == "synonym":
            synonyms.setdefault(fields[1], []).append(fields[2])
        else:
            keys[(kind(fields[0]), fields[1])] = fields
    return keys, synonyms


def kind(scope):
    return scope if scope in ("topic", "group") else "node"


def ours(env):
    lines = env.run([env.client_program("src/ottla"), "config", "--lines"]).stdout.splitlines()
    rows = [line.split("\t") for line in lines]
    return {(kind(row[0]), row[1]): row for row in rows}


def complain(what, wrong):
    if wrong:
        raise Different(f"{len(wrong)} {what}: " + "; ".join(wrong[:SHOWN]))


def test_every_key_is_known(env):
    """Every key that Kafka has, we know; what we have beyond is our own, or can only be set on line."""
    mine, (kafkas, _) = ours(env), theirs()
    complain("keys are missing", [f"{k} {name}" for k, name in kafkas if (k, name) not in mine])
    extra = [name for k, name in mine if (k, name) not in kafkas and not name.startswith("ottla.")]
    env.see("only on line", sorted(extra), ["follower.replication.throttled.rate", "leader.replication.throttled.rate",
                                            "replica.alter.log.dirs.io.max.bytes.per.second"])
    env.see("keys", len(kafkas))


def test_types_defaults_and_scopes(env):
    """Type, default and who may change it are Kafka's."""
    mine, (kafkas, _) = ours(env), theirs()
    wrong = []
    for key, (scope, name, of_type, default, _, internal) in kafkas.items():
        row = mine[key]
        got, expected = (row[0], row[2], row[3]), (scope, of_type, default)
        if got != expected:
            wrong.append(f"{name}: {got} expected {expected}")
        if (internal == "true") != (row[5] == "internal"):
            wrong.append(f"{name}: {row[5]}, Kafka's internal: {internal}")
    complain("keys differ", wrong)


def test_ranges(env):
    """What is accepted is what Kafka accepts."""
    mine, (kafkas, _) = ours(env), theirs()
    wrong = []
    for key, (_, name, of_type, _, validator, _) in kafkas.items():
        accepted = mine[key][4]
        bounds = re.fullmatch(r"\[(-?\d+),\.\.\.(?:,(-?\d+))?\]", validator)
        choices = re.fullmatch(r"(?:\(case insensitive\) )?\[([\w.:, ]+)\]", validator)
        if bounds and of_type in ("int", "short", "long"):
            low, high = bounds.group(1), bounds.group(2) or {"int": "2147483647", "short": "32767"}.get(of_type)
            end = f"from {low} to {high}" if high else f"of at least {low}"
            if not accepted.endswith(end):
                wrong.append(f"{name}: {accepted}, Kafka: {validator}")
        elif choices and of_type in ("string", "list"):
            if not accepted.endswith(" " + choices.group(1).replace(", ", ",")):
                wrong.append(f"{name}: {accepted}, Kafka: {validator}")
    complain("ranges differ", wrong)


def test_synonyms_of_topic_keys(env):
    """Which broker keys stand for a topic's, and in which order."""
    _, synonyms = theirs()
    page = env.run([env.client_program("src/ottla"), "config"]).stdout
    wrong = []
    for topic_key, expected in synonyms.items():
        row = next(line for line in page.split("## Topics")[1].splitlines() if line.startswith(f"| `{topic_key}` |"))
        got = re.findall(r"`([\w.]+)`", row.split(" else ")[1]) if " else " in row else []
        if got != expected:
            wrong.append(f"{topic_key}: {got} expected {expected}")
    complain("synonyms differ", wrong)
