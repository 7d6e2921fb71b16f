"""Record batches (magic 2), by hand, so that wrong ones can be made as well as right ones."""

import gzip
import struct

from .definitions import Reader, zigzag

NO_PRODUCER = (-1, -1, -1)


def _crc_table():
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def sized(data):
    """A key or value with its length in front; None is null."""
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def record(offset_delta, key, value, headers=(), timestamp_delta=0, count=None):
    """One record; `count` overrides the number of headers that is claimed."""
    body = b"\0" + zigzag(timestamp_delta) + zigzag(offset_delta) + sized(key) + sized(value)
    body += zigzag(len(headers) if count is None else count)
    for name, content in headers:
        body += sized(name) + sized(content)
    return zigzag(len(body)) + body


def batch(values, *, timestamp=1_700_000_000_000, producer=NO_PRODUCER, codec=0, attributes=0, magic=2,
          base_offset=0, timestamps=None, bodies=None, count=None, crc=None, last_delta=None, payload=None):
    """A batch of records given as values, (key, value) or (key, value, headers), or as `bodies`."""
    if bodies is None:
        bodies = []
        for delta, value in enumerate(values):
            entry = value if isinstance(value, tuple) else (None, value)
            at = timestamps[delta] - timestamps[0] if timestamps else 0
            bodies.append(record(delta, *entry, timestamp_delta=at))
    if timestamps:
        timestamp = timestamps[0]
    greatest = max(timestamps) if timestamps else timestamp
    data = payload if payload is not None else b"".join(bodies)
    if codec == 1 and payload is None:
        data = gzip.compress(data)
    size = len(bodies) if count is None else count
    after_crc = struct.pack(">hiqqqhii", attributes | codec, size - 1 if last_delta is None else last_delta,
                            timestamp, greatest, *producer, size) + data
    checksum = crc32c(after_crc) if crc is None else crc
    return struct.pack(">qiibI", base_offset, len(after_crc) + 9, -1, magic, checksum) + after_crc


def batches(data):
    """The batches in what a fetch returned; a cut one at the end is left out."""
    found, at = [], 0
    while at + 61 <= len(data):
        base, length, epoch, magic, crc, attributes, last, first_ts, max_ts, pid, pepoch, seq, count = \
            struct.unpack(">qiibIhiqqqhii", data[at:at + 61])
        end = at + 12 + length
        if end > len(data):
            break
        body = data[at + 61:end]
        found.append({"base_offset": base, "leader_epoch": epoch, "magic": magic, "attributes": attributes,
                      "last_offset": base + last, "first_timestamp": first_ts, "max_timestamp": max_ts,
                      "producer": (pid, pepoch, seq), "count": count,
                      "crc_ok": crc == crc32c(data[at + 21:end]), "body": body})
        at = end
    return found


def records(data):
    """(offset, timestamp, key, value, headers) of every record in uncompressed or gzip batches."""
    found = []
    for each in batches(data):
        body = each["body"]
        if each["attributes"] & 7 == 1:
            body = gzip.decompress(body)
        reader = Reader(body)
        for _ in range(each["count"]):
            reader.zigzag()
            reader.take(1)
            at, delta = reader.zigzag(), reader.zigzag()
            parts = [_part(reader) for _ in range(2)]
            headers = [(_part(reader), _part(reader)) for _ in range(reader.zigzag())]
            found.append((each["base_offset"] + delta, each["first_timestamp"] + at, *parts, headers))
    return found


def _part(reader):
    size = reader.zigzag()
    return None if size < 0 else reader.take(size)
