"""What the benchmarks in Python share: topics by the hundred, and processes that push ready-made Produce frames as fast
as they are taken and remember what was acknowledged. Old versions, which have no tagged fields and which both brokers
speak: CreateTopics 2, Produce 7, ListOffsets 1, Fetch 4."""

import multiprocessing
import os
import random
import socket
import struct
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "integration"))
from wire import records  # noqa: E402

CREATE_TOPICS_AT_ONCE = 10
LATEST = -1


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def frame(key, version, body, correlation=1):
    data = struct.pack(">hhi", key, version, correlation) + text("bench") + body
    return struct.pack(">i", len(data)) + data


def connect(node, seconds=120):
    connection = socket.create_connection((node.host, node.port), timeout=seconds)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def take(connection, size):
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), 1 << 20))
        if not part:
            raise ConnectionError("closed")
        data += part
    return bytes(data)


def receive(connection):
    return take(connection, struct.unpack(">i", take(connection, 4))[0])


def ask(connection, data):
    connection.sendall(data)
    return receive(connection)


# --- topics ---

def create(node, names, partitions, configs=None):
    """Topics of so many partitions each."""
    settings = b"".join(text(key) + text(str(value)) for key, value in (configs or {}).items())
    settings = struct.pack(">i", len(configs or {})) + settings
    with connect(node) as connection:
        for first in range(0, len(names), CREATE_TOPICS_AT_ONCE):
            some = names[first:first + CREATE_TOPICS_AT_ONCE]
            topics = b"".join(text(name) + struct.pack(">ihi", partitions, 1, 0) + settings for name in some)
            answer = ask(connection, frame(19, 2, struct.pack(">i", len(some)) + topics + struct.pack(">i?", 120000, False)))
            at = 4 + 4 + 4
            for name in some:
                at += 2 + len(name)
                code, size = struct.unpack(">hh", answer[at:at + 4])
                if code != 0:
                    raise SystemExit(f"topic {name} was refused: {code} {answer[at + 4:at + 4 + size]!r}")
                at += 4 + max(size, 0)


def end_offsets(connection, names, partitions):
    """{(topic, partition): end offset or None}, as the broker knows them now (ListOffsets 1)."""
    body = struct.pack(">ii", -1, len(names))
    for name in names:
        body += text(name) + struct.pack(">i", partitions)
        body += b"".join(struct.pack(">iq", index, LATEST) for index in range(partitions))
    answer = ask(connection, frame(2, 1, body))
    found, at = {}, 8
    for _ in range(len(names)):
        size, = struct.unpack(">h", answer[at:at + 2])
        name = answer[at + 2:at + 2 + size].decode()
        at += 2 + size
        count, = struct.unpack(">i", answer[at:at + 4])
        at += 4
        for _ in range(count):
            index, code, _, offset = struct.unpack(">ihqq", answer[at:at + 22])
            found[name, index] = offset if code == 0 else None
            at += 22
    return found


def fetch(connection, name, index, offset, size=1 << 20):
    """The batches from offset on (Fetch 4), as integration/wire/records.py has them; None where it was refused."""
    body = struct.pack(">iiiibi", -1, 0, 1, size, 0, 1) + text(name) + struct.pack(">iiqi", 1, index, offset, size)
    answer = ask(connection, frame(1, 4, body))
    at = 4 + 4 + 4 + 2 + len(name) + 4
    code, = struct.unpack(">h", answer[at + 4:at + 6])
    at += 4 + 2 + 8 + 8
    aborted, = struct.unpack(">i", answer[at:at + 4])
    at += 4 + 16 * max(aborted, 0)
    length, = struct.unpack(">i", answer[at:at + 4])
    return None if code != 0 else records.batches(answer[at + 4:at + 4 + max(length, 0)])


# --- producing ---

def batch_of(count, size, seed=1, keys=None):
    """A batch of so many records of random bytes; keys: drawn from that many."""
    draw = random.Random(seed)
    now = int(time.time() * 1000)
    values = [((b"key-%012d" % draw.randrange(keys)) if keys else None, draw.randbytes(size)) for _ in range(count)]
    return records.batch(values, timestamp=now)


def produce_frame(topic, batches, acks=1):
    """batches: {partition: batch}."""
    body = struct.pack(">hhii", -1, acks, 60000, 1) + text(topic) + struct.pack(">i", len(batches))
    for index, batch in batches.items():
        body += struct.pack(">ii", index, len(batch)) + batch
    return frame(0, 7, body)


def produce_parts(topic, index, batch):
    """The same for one partition, acks=1, as two pieces: ten thousand frames may share one batch."""
    body = struct.pack(">hhii", -1, 1, 60000, 1) + text(topic) + struct.pack(">iii", 1, index, len(batch))
    head = frame(0, 7, body)[4:]
    return struct.pack(">i", len(head) + len(batch)) + head, batch


def produce_answer(answer):
    """[(topic, partition, error, base offset)] of an answer to one topic."""
    size, = struct.unpack(">h", answer[8:10])
    name = answer[10:10 + size].decode()
    at = 10 + size
    count, = struct.unpack(">i", answer[at:at + 4])
    at += 4
    found = []
    for _ in range(count):
        index, code, base = struct.unpack(">ihq", answer[at:at + 14])
        found.append((name, index, code, base))
        at += 30
    return found


class Pump:
    """A process that sends frames in turn, `window` of them unanswered, until it is told to stop, `rounds` are over or
    the broker goes. frames: [(bytes or pieces of them, records in each of its batches)]."""

    def __init__(self, node, frames, window=4, rounds=None, pause=0.0):
        self.where, self.frames, self.window, self.rounds, self.pause = node, frames, window, rounds, pause
        self.pipe, theirs = multiprocessing.Pipe()
        self.stopping = multiprocessing.Event()
        self.process = multiprocessing.Process(target=self._run, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def _run(self, pipe):
        os.nice(0)
        acked, counts, waiting, sent = {}, {"records": 0, "refused": 0, "late_us": 0}, [], 0
        limit = None if self.rounds is None else self.rounds * len(self.frames)
        try:
            with connect(self.where) as connection:
                while not self.stopping.is_set() or waiting:
                    while len(waiting) < self.window and not self.stopping.is_set() and (limit is None or sent < limit):
                        data, size = self.frames[sent % len(self.frames)]
                        for piece in data if isinstance(data, tuple) else (data,):
                            connection.sendall(piece)
                        waiting.append((size, time.monotonic()))
                        sent += 1
                    if not waiting:
                        break
                    size, began = waiting.pop(0)
                    for name, index, code, base in produce_answer(receive(connection)):
                        if code == 0:
                            acked[name, index] = base + size
                            counts["records"] += size
                        else:
                            counts["refused"] += 1
                    counts["late_us"] = max(counts["late_us"], int((time.monotonic() - began) * 1e6))
                    if self.pause:
                        time.sleep(self.pause)
        except OSError:
            pass
        pipe.send((acked, counts))

    def stop(self):
        self.stopping.set()
        return self.result()

    def result(self):
        """({(topic, partition): offset behind the last acknowledged record}, counts); waits for its end."""
        outcome = self.pipe.recv()
        self.process.join()
        return outcome
