"""Kafka's message definitions out of its jars, as data: what our schemas and bytes are held against."""

import json
import random
import zipfile
from base64 import b64encode, urlsafe_b64encode

from harness import cache

FOLDERS = ("common/message/", "common/metadata/", "common/message/metadata/")
NOT_ON_THE_WIRE = {"QuorumStateData"}           # written as JSON, into quorum-state


def _without_comments(text):
    kept = []
    for line in text.split("\n"):
        quotes, slash = 0, None
        for position, character in enumerate(line):
            quotes += character == '"'
            if quotes % 2 == 0 and line.startswith("//", position):
                slash = position
                break
        kept.append(line if slash is None else line[:slash])
    return "\n".join(kept)


def load():
    """Every definition by name that has versions."""
    found = {}
    for jar in sorted(cache.kafka_libs().glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as entries:
            for entry in entries.namelist():
                if entry.startswith("common/") and entry.endswith(".json"):
                    definition = json.loads(_without_comments(entries.read(entry).decode()))
                    if definition["validVersions"] != "none" and definition["name"] not in NOT_ON_THE_WIRE:
                        found[definition["name"]] = definition
    return found


def has(versions, version):
    """Whether "0-3", "2+", "none" ... names the version."""
    if not versions or versions == "none":
        return False
    low, _, high = versions.partition("-")
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    return int(low) <= version <= int(high or low)


def in_version(field, version):
    """Whether the version has the field: a tagged one only where it is tagged, whatever its versions say."""
    return has(field.get("taggedVersions", "0+"), version) and has(field.get("versions", "0+"), version)


def released(definition, request_is_unstable):
    """(lowest, highest) version that is released."""
    low, _, high = definition["validVersions"].partition("-")
    return int(low), int(high or low) - (1 if request_is_unstable else 0)


def structures(definition):
    """Fields by structure name."""
    found = {common["name"]: common["fields"] for common in definition.get("commonStructs", [])}

    def collect(fields):
        for field in fields:
            if "fields" in field:
                found[field["type"].strip().removeprefix("[]")] = field["fields"]
                collect(field["fields"])

    collect(definition["fields"])
    return found


def default_of(field):
    """The default as our schemas write it: None is the type's zero."""
    kind, value = field["type"].strip(), field.get("default")
    if value is None or value == "":        # a null that is no text is not read as one by Kafka's generator
        return None
    if value == "null":
        return "null"
    if kind == "bool":
        return str(value).lower() == "true" or None
    if kind == "float64":
        return float(value) or None
    return int(str(value), 0) or None


def layout(definition, version):
    """What the message looks like on the wire in that version: nested tuples."""
    inside = structures(definition)
    flexible = has(definition["flexibleVersions"], version)

    def of(fields):
        plain, tagged = [], []
        for field in fields:
            if not in_version(field, version):
                continue
            kind = field["type"].strip()
            element = kind.removeprefix("[]")
            row = (field["name"], kind, has(field.get("nullableVersions"), version),
                   flexible and field.get("flexibleVersions") != "none", default_of(field),
                   of(inside[element]) if element in inside else None)
            if has(field.get("taggedVersions"), version):
                tagged.append((field["tag"], row))
            else:
                plain.append(row)
        return tuple(plain), tuple(sorted(tagged, key=lambda entry: entry[0]))

    return of(definition["fields"])


class Samples:
    """Random messages in Kafka's JSON form, from its definitions alone."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def message(self, definition, version):
        inside = structures(definition)
        return self._struct(definition["fields"], version, inside)

    def _struct(self, fields, version, inside):
        values = {}
        for field in fields:
            if not in_version(field, version):
                continue
            if has(field.get("taggedVersions"), version) and self.random.random() < 0.4:
                continue
            name = field["name"][0].lower() + field["name"][1:]
            if has(field.get("nullableVersions"), version) and self.random.random() < 0.25:
                values[name] = None
            else:
                values[name] = self._value(field["type"].strip(), version, inside)
        return values

    def _value(self, kind, version, inside):
        draw = self.random
        if kind.startswith("[]"):
            elements = [self._value(kind[2:], version, inside) for _ in range(draw.randrange(4))]
            # Where Kafka keeps elements by key, equal ones would be fewer.
            return [e for i, e in enumerate(elements) if e not in elements[:i]]
        if kind == "bool":
            return draw.random() < 0.5
        if kind in ("int8", "int16", "int32", "int64"):
            bits = int(kind[3:])
            return draw.choice([0, 1, -1, 2 ** (bits - 1) - 1, -2 ** (bits - 1), draw.getrandbits(bits - 1)])
        if kind in ("uint16", "uint32"):
            return draw.choice([0, 1, 2 ** int(kind[4:]) - 1, draw.getrandbits(int(kind[4:]))])
        if kind == "float64":
            return draw.choice([0.5, -1.25, 1e300, draw.random()])
        if kind == "uuid":
            return urlsafe_b64encode(draw.randbytes(16)).decode().rstrip("=")
        if kind == "string":
            return "".join(draw.choice("abcXYZ019 ._-äö€𝄞\"\\") for _ in range(draw.choice([0, 1, 5, 20, 130])))
        if kind in ("bytes", "records"):
            return b64encode(draw.randbytes(draw.choice([0, 1, 7, 200]))).decode()
        return self._struct(inside[kind], version, inside)
