"""One connection: frames out, frames in, and whether the other side has closed."""

import socket
import struct

from harness.patience import PATIENCE_SECONDS

from . import definitions


class Closed(Exception):
    """The broker closed the connection where a reply was awaited."""


class Connection:
    """Requests by name and version; `send` and `receive` apart for pipelining."""

    def __init__(self, broker, client_id="wire"):
        self.socket = socket.create_connection((broker.host, broker.port), timeout=PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self.correlation = 0
        self.awaited = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def header(self, api, version, tags=b"\0"):
        """The request header alone; `api` is a name or a number."""
        self.correlation += 1
        name = self.client_id.encode() if self.client_id is not None else None
        key, flexible = api, False
        if isinstance(api, str):
            message = definitions.request(api)
            key, flexible = message.key, message.is_flexible(version)
        out = struct.pack(">hhi", key, version, self.correlation)
        out += struct.pack(">h", -1) if name is None else struct.pack(">h", len(name)) + name
        return out + (tags if flexible else b"")

    def frame(self, api, version, body):
        message = definitions.request(api)
        data = body if isinstance(body, bytes) else message.encode(version, body)
        data = self.header(api, version) + data
        return struct.pack(">i", len(data)) + data

    def send(self, api, version, body):
        data = self.frame(api, version, body)
        self.awaited.append((api, version, self.correlation))
        self.send_raw(data)

    def send_raw(self, data):
        try:
            self.socket.sendall(data)
        except (ConnectionError, BrokenPipeError):
            raise Closed from None

    def _take(self, size):
        data = bytearray()
        while len(data) < size:
            try:
                part = self.socket.recv(min(size - len(data), 1 << 20))
            except ConnectionError:
                part = b""
            if not part:
                raise Closed(f"after {len(data)} of {size} bytes")
            data += part
        return bytes(data)

    def receive_raw(self):
        return self._take(struct.unpack(">i", self._take(4))[0])

    def receive(self):
        """The next reply, decoded as its request asked."""
        api, version, correlation = self.awaited.pop(0)
        data = self.receive_raw()
        got = struct.unpack(">i", data[:4])[0]
        if got != correlation:
            raise ValueError(f"correlation id {got} where {correlation} was due")
        message, at = definitions.response(api), 4
        # The header of ApiVersions never has tags, so that it can be read before versions are agreed.
        if message.is_flexible(version) and api != "ApiVersions":
            if data[4] != 0:
                raise ValueError("tags in the response header")
            at = 5
        return message.decode(version, data[at:])

    def call(self, api, version, body=None):
        self.send(api, version, body or {})
        return self.receive()

    def closed(self):
        """Whether the broker closes (or has closed) without sending anything more."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False
