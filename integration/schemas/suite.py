"""Our schemas against Kafka's definitions, and our bytes against those of Kafka's own codecs."""

import copy
import importlib.util
import json
import subprocess
import sys
from functools import lru_cache

from harness import cache, tools
from harness.runner import Different

from . import definitions

NEEDS = ("kafka",)
NEEDS_BROKER = False

SEED = 20260707
SAMPLES = 6                 # of each message and version, each way
# Versions that Kafka 4 no longer has and we keep for old clients.
KEPT = {"ListOffsetsRequest": 0, "ListOffsetsResponse": 0, "OffsetCommitRequest": 1, "OffsetCommitResponse": 1}
KIND = {"request": "request", "response": "response", "header": "header", "data": "data", "metadata": "record",
        "coordinator-key": "key", "coordinator-value": "value"}
SHOWN = 12


@lru_cache(maxsize=1)
def ours():
    """Our schemas, by the generator's own reader."""
    top = cache.INTEGRATION.parent
    spec = importlib.util.spec_from_file_location("schema", top / "tools/gen/schema.py")
    schema = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(schema)
    paths = sorted(str(path) for path in (top / "src/protocol/schemas").glob("*/*.schema"))
    return {message.name: message for message in schema.parse_all(paths)}


@lru_cache(maxsize=1)
def theirs():
    return definitions.load()


def layout(message, version):
    """As definitions.layout, of one of ours."""
    flexible = message.flexible is not None and version >= message.flexible[0]

    def inside(versions):
        return versions is not None and versions[0] <= version <= versions[1]

    def of(struct):
        plain, tagged = [], []
        for field in struct.fields:
            if not inside(field.versions):
                continue
            row = (field.name, ("[]" if field.array else "") + field.type, inside(field.nullable),
                   flexible and not field.inflexible, field.default or None,
                   of(field.struct) if field.struct else None)
            if inside(field.tagged):
                tagged.append((field.tag, row))
            else:
                plain.append(row)
        return tuple(plain), tuple(sorted(tagged, key=lambda entry: entry[0]))

    return of(message.root)


def first_difference(a, b, where):
    """The innermost place at which two layouts differ."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        for x, y in zip(a, b):
            if x != y:
                name = x[0] if isinstance(x, tuple) and x and isinstance(x[0], str) else ""
                return first_difference(x, y, f"{where}.{name}" if name else where)
    return f"{where}: ours {str(a)[:300]}, Kafka's {str(b)[:300]}"


def differences(official):
    """Lines that say what differs, field by field, version by version."""
    found = []
    for name in sorted(set(ours()) - set(official)):
        found.append(f"{name}: Kafka has no such message")
    for name, definition in sorted(official.items()):
        message = ours().get(name)
        if message is None:
            found.append(f"{name}: we have no such message")
            continue
        request = official.get(name.removesuffix("Response") + "Request", definition)
        low, high = definitions.released(definition, request.get("latestVersionUnstable", False))
        expected = (KEPT.get(name, low), high)
        if message.versions != expected:
            found.append(f"{name}: versions {message.versions}, Kafka's {expected}")
        if message.key != definition.get("apiKey", -1) or message.kind != KIND[definition["type"]]:
            found.append(f"{name}: key {message.key}, kind {message.kind}")
        for version in range(low, min(high, message.versions[1]) + 1):
            mine, kafkas = layout(message, version), definitions.layout(definition, version)
            if mine != kafkas:
                found.append(first_difference(mine, kafkas, f"{name} v{version}"))
    return found


def test_schemas_are_kafkas(env):
    """Every message, field, version, tag, default and null is as Kafka 4.4's definitions have it."""
    found = differences(theirs())
    env.see("messages", len(ours()))
    if found:
        raise Different(f"{len(found)} differences: " + "; ".join(found[:SHOWN]))


def test_comparison_sees_a_changed_field(_env):
    """The comparison is not blind: each kind of change to one definition is found."""
    def fetch(change):
        changed = dict(theirs(), FetchRequest=copy.deepcopy(theirs()["FetchRequest"]))
        change({field["name"]: field for field in changed["FetchRequest"]["fields"]}, changed["FetchRequest"])
        return differences(changed)

    for change in (lambda f, _: f["MinBytes"].update(type="int64"),
                   lambda f, _: f["MaxBytes"].update(default="7"),
                   lambda f, _: f["ClusterId"].update(tag=5),
                   lambda f, _: f["SessionId"].update(versions="8+"),
                   lambda f, _: f["RackId"].update(nullableVersions="11+"),
                   lambda f, _: f["Topics"]["fields"].reverse(),
                   lambda _, d: d.update(flexibleVersions="13+"),
                   lambda _, d: d.update(apiKey=2)):
        if not fetch(change):
            raise Different("a changed definition of FetchRequest was not noticed")


def java(lines, folder):
    """What Kafka's codecs answer to these lines."""
    source, results = folder / "in", folder / "out"
    source.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    with open(source, encoding="utf-8") as stdin, open(results, "w", encoding="utf-8") as stdout:
        subprocess.run(["java", *tools.java_options(), str(cache.INTEGRATION / "schemas/Codec.java")], stdin=stdin,
                       stdout=stdout, stderr=sys.stderr, timeout=300, check=True)
    return results.read_text(encoding="utf-8").split("\n")[:-1]


def compare(labels, expected, got):
    """Two lists of hex that must be the same."""
    if not len(labels) == len(expected) == len(got):
        raise Different(f"{len(labels)} lines, {len(expected)} expected answers, {len(got)} answers")
    wrong = [f"{label}: {b[:400]} expected {a[:400]}" for label, a, b in zip(labels, expected, got) if a != b]
    if wrong:
        raise Different(f"{len(wrong)} of {len(labels)} differ: " + "; ".join(wrong[:SHOWN]))


def test_our_bytes_are_kafkas(env):
    """What we encode, Kafka's codecs decode and encode to the same bytes: every message, every version."""
    pipe = env.client_program("tests/protocol/message_pipe")
    lines = env.run([pipe, "samples", SEED, SAMPLES]).stdout.splitlines()
    lines = [line for line in lines if not line.startswith(tuple(f"{n} {v} " for n, v in KEPT.items()))]
    compare([line.rsplit(" ", 1)[0] for line in lines], [line.split(" ", 2)[2] for line in lines],
            java(["echo " + line for line in lines], env.folder))
    env.see("messages times versions", len(lines) // SAMPLES)


def golden():
    """(name, version, hex of what stands in front, hex of the body) of all that tests/protocol/golden has."""
    for path in sorted((cache.INTEGRATION.parent / "tests/protocol/golden").iterdir()):
        for entry in path.read_text(encoding="utf-8").split("\n\n")[1:]:
            values, wire = entry.rstrip("\n").split("\n")
            front, body = wire.split(" ")
            yield path.name, int(values.split(" ")[0]), front, body


def golden_lines():
    """(label, what Kafka's codecs are asked, what they should answer) for each of them."""
    kept = [(name, version) for name, version in KEPT.items()]
    keys = {}
    values = []
    for name, version, front, body in golden():
        kind = ours()[name].kind
        label, whole = f"{name} {version}", front + body
        if (name, version) in kept:
            continue
        if kind == "key":
            keys[name] = whole
        elif kind == "value":
            values.append((label, name.removesuffix("Value") + "Key", whole))
        else:
            how = {"request": "frame", "response": "frame", "record": "record"}.get(kind, "versioned" if front else "echo")
            yield label, f"{how} {label} {whole}", whole
    unused = set(keys)
    for label, key, whole in values:
        unused.discard(key)
        yield label, f"pair {key} {keys[key]} {whole}", f"{keys[key]} {whole}"
    if unused:
        raise Different(f"keys of records without values: {sorted(unused)}")


def test_golden_bytes_are_kafkas(env):
    """What tests/protocol/golden has of every message, Kafka's codecs read and write alike: frames behind their headers,
    records of the metadata log and of coordinators' logs as they lie there."""
    names = {name for name, _, _, _ in golden()}
    missing = sorted(name for name in theirs() if name not in names)
    if missing:
        raise Different(f"no golden bytes of {missing[:SHOWN]}")
    labels, lines, expected = zip(*golden_lines())
    compare(labels, expected, java(lines, env.folder))
    env.see("messages times versions", len(labels))


def test_kafkas_bytes_are_ours(env):
    """What Kafka's codecs encode from values drawn from its own definitions, we decode and encode to the same."""
    pipe = env.client_program("tests/protocol/message_pipe")
    draw = definitions.Samples(SEED)
    labels, lines = [], []
    for name, definition in sorted(theirs().items()):
        low, high = ours()[name].versions
        for version in range(KEPT.get(name, low - 1) + 1, high + 1):
            for _ in range(SAMPLES):
                labels.append(f"{name} {version}")
                lines.append(f"json {name} {version} {json.dumps(draw.message(definition, version))}")
    encoded = java(lines, env.folder)
    refused = [f"{label}: {text} for {line}" for label, text, line in zip(labels, encoded, lines)
               if text.startswith("!")]
    if refused:
        raise Different(f"Kafka refused {len(refused)} of {len(lines)}: " + "; ".join(refused[:SHOWN]))
    stdin = "".join(f"{label} {text}\n" for label, text in zip(labels, encoded))
    compare(labels, encoded, env.run([pipe, "echo"], input=stdin).stdout.split("\n")[:-1])
    env.see("messages times versions", len(labels) // SAMPLES)
