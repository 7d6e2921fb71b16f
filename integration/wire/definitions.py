"""Kafka's own message definitions, read out of its jars, and a codec that follows them.

Nothing here shares code or schemas with Ottla: what both sides agree on is Kafka's.
A message is a dict keyed by the names in the definitions; what a dict leaves out has its default.
"""

import json
import re
import struct
import uuid
import zipfile
from functools import lru_cache

from harness import cache

FIXED = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q",
         "float64": ">d"}


class Truncated(Exception):
    """The bytes ended before the message did."""


def _in(versions, version):
    if not versions or versions == "none":
        return False
    low, _, high = versions.partition("-")
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    return int(low) <= version <= int(high or low)


class Message:
    """One request or response in all its versions."""

    def __init__(self, definition):
        self.name = definition["name"]
        self.key = definition.get("apiKey")
        self.valid = definition["validVersions"]
        self.unstable = 1 if definition.get("latestVersionUnstable") else 0
        self.flexible = definition.get("flexibleVersions", "none")
        self.listeners = definition.get("listeners", [])
        self.fields = definition.get("fields", [])    # none for an API that was removed
        self.structs = {common["name"]: common["fields"] for common in definition.get("commonStructs", [])}
        self._collect(self.fields)

    def _collect(self, fields):
        for field in fields:
            if "fields" in field:
                self.structs[field["type"].removeprefix("[]")] = field["fields"]
                self._collect(field["fields"])

    def is_flexible(self, version):
        return _in(self.flexible, version)

    def range(self):
        """The versions that a broker lists; an unstable newest one is not among them."""
        low, _, high = self.valid.partition("-")
        return int(low), int(high or low) - self.unstable

    def encode(self, version, values):
        out = bytearray()
        self._write_fields(out, self.fields, version, values, self.name)
        return bytes(out)

    def decode(self, version, data):
        reader = Reader(data)
        values = self._read_fields(reader, self.fields, version)
        if reader.at != len(data):
            raise ValueError(f"{self.name} v{version}: {len(data) - reader.at} bytes too many")
        return values

    # writing

    def _write_fields(self, out, fields, version, values, where):
        unknown = set(values) - {field["name"] for field in fields} - {"_tags"}
        if unknown:
            raise KeyError(f"{where} has no {unknown}")
        flexible = self.is_flexible(version)
        tags = dict(values.get("_tags", {}))
        for field in fields:
            name = field["name"]
            if not _in(field["versions"], version):
                continue
            value = values.get(name, _default(field))
            if _in(field.get("taggedVersions"), version):
                if name in values:
                    part = bytearray()
                    self._write(part, field, field["type"], version, value, flexible)
                    tags[field["tag"]] = bytes(part)
            else:
                self._write(out, field, field["type"], version, value, flexible)
        if flexible:
            out += varint(len(tags))
            for tag, part in sorted(tags.items()):
                out += varint(tag) + varint(len(part)) + part

    def _write(self, out, field, kind, version, value, flexible):
        if kind.startswith("[]"):
            _length(out, None if value is None else len(value), ">i", flexible)
            for element in value or ():
                self._write(out, field, kind[2:], version, element, flexible)
        elif kind == "bool":
            out += b"\1" if value else b"\0"
        elif kind in FIXED:
            out += struct.pack(FIXED[kind], value)
        elif kind == "uuid":
            out += value or bytes(16)
        elif kind == "string":
            data = None if value is None else value.encode() if isinstance(value, str) else value
            _length(out, None if data is None else len(data), ">h", flexible)
            out += data or b""
        elif kind in ("bytes", "records"):
            _length(out, None if value is None else len(value), ">i", flexible)
            out += value or b""
        else:
            if _in(field.get("nullableVersions"), version) and not field["type"].startswith("[]"):
                out += b"\xff" if value is None else b"\1"
                if value is None:
                    return
            self._write_fields(out, self.structs[kind], version, value or {}, kind)

    # reading

    def _read_fields(self, reader, fields, version):
        flexible = self.is_flexible(version)
        values = {}
        for field in fields:
            if not _in(field["versions"], version):
                continue
            if _in(field.get("taggedVersions"), version):
                values[field["name"]] = _default(field)
            else:
                values[field["name"]] = self._read(reader, field, field["type"], version, flexible)
        if flexible:
            before = -1
            for _ in range(reader.varint()):
                tag, part = reader.varint(), Reader(reader.take(reader.varint()))
                if tag <= before:
                    raise ValueError(f"tag {tag} after tag {before}")
                before = tag
                known = [field for field in fields
                         if field.get("tag") == tag and _in(field.get("taggedVersions"), version)]
                if known:
                    values[known[0]["name"]] = self._read(part, known[0], known[0]["type"], version, True)
                    values.setdefault("_present", []).append(known[0]["name"])
                else:
                    values.setdefault("_unknown", []).append(tag)
        return values

    def _read(self, reader, field, kind, version, flexible):
        if kind.startswith("[]"):
            count = reader.length(">i", flexible)
            if count is None:
                return None
            return [self._read(reader, field, kind[2:], version, flexible) for _ in range(count)]
        if kind == "bool":
            return reader.take(1) != b"\0"
        if kind in FIXED:
            return reader.fixed(FIXED[kind])
        if kind == "uuid":
            return reader.take(16)
        if kind == "string":
            size = reader.length(">h", flexible)
            return None if size is None else reader.take(size).decode()
        if kind in ("bytes", "records"):
            size = reader.length(">i", flexible)
            return None if size is None else reader.take(size)
        if _in(field.get("nullableVersions"), version) and not field["type"].startswith("[]"):
            if reader.fixed(">b") < 0:
                return None
        return self._read_fields(reader, self.structs[kind], version)


class Reader:
    """Walks over received bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        if self.at + size > len(self.data):
            raise Truncated(f"{size} bytes wanted at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size:self.at]

    def fixed(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def zigzag(self):
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def length(self, form, flexible):
        size = self.varint() - 1 if flexible else self.fixed(form)
        return None if size < 0 else size


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value):
    return varint((value << 1) ^ (value >> 63) if value >= 0 else (-value << 1) - 1)


def _length(out, size, form, flexible):
    if flexible:
        out += varint(0 if size is None else size + 1)
    else:
        out += struct.pack(form, -1 if size is None else size)


def _default(field):
    kind, default = field["type"], field.get("default")
    if default == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind in FIXED:
        return int(default, 0) if isinstance(default, str) and default else default or 0
    if kind == "bool":
        return str(default).lower() == "true"
    if kind == "uuid":
        return bytes(16)
    if kind == "string":
        return default or ""
    if kind in ("bytes", "records"):
        return None if "nullableVersions" in field else b""
    return {}


@lru_cache(maxsize=1)
def messages():
    """Every request and response by name, as Kafka's client jar defines them."""
    found = {}
    for jar in cache.kafka_libs().glob("kafka-clients-*.jar"):
        with zipfile.ZipFile(jar) as entries:
            for entry in entries.namelist():
                if re.fullmatch(r"common/message/\w+(Request|Response)\.json", entry):
                    text = re.sub(r"(?m)^\s*//.*$", "", entries.read(entry).decode())
                    message = Message(json.loads(text))
                    found[message.name] = message
    return found


def request(api):
    return messages()[f"{api}Request"]


def response(api):
    return messages()[f"{api}Response"]


def show_uuid(value):
    return str(uuid.UUID(bytes=value))
