"""A broker under test: Ottla, or Apache Kafka 4.4 as the oracle. Both answer to the same few calls."""

import os
import re
import secrets
import base64
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from . import cache
from .patience import PATIENCE_SECONDS


class BrokerError(Exception):
    """The broker did not do what every test takes for granted: start, stop, stay alive."""


class Reserved:
    """A port that nobody else is given as long as this is kept: a socket is bound to it, and never listens. Who listens with
    SO_REUSEADDR, as brokers do, may still do so, again and again."""

    def __init__(self):
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]


class Broker:
    """A running process with a data directory of its own below `home`."""

    name = "?"
    patience_seconds = PATIENCE_SECONDS     # for a start and for a stop

    def __init__(self, home, config=None):
        self.home = Path(home)
        self.data = self.home / "data"
        self.log_path = self.home / "broker.log"
        self.config = dict(config or {})
        self.process = None
        self.host, self.port = "127.0.0.1", None
        self.home.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self):
        return f"{self.host}:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    def command(self):
        raise NotImplementedError

    def ready(self):
        raise NotImplementedError

    def prepare(self):
        pass

    def start(self):
        """Start and wait until it serves; seconds that took."""
        self.prepare()
        started = time.monotonic()
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, cwd=self.home, env=self.environment())
        self.await_ready()
        return time.monotonic() - started

    def await_ready(self):
        """Until it serves."""
        deadline = time.monotonic() + self.patience_seconds
        while not self.ready():
            if self.process.poll() is not None:
                raise BrokerError(f"{self.name} ended with {self.process.returncode} at start:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerError(f"{self.name} was not ready in {self.patience_seconds} s:\n{self.log_tail()}")
            time.sleep(0.002)

    def environment(self):
        return None

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        """SIGTERM, and the exit code; a broker that does not stop is killed and that is an error."""
        if not self.alive():
            raise BrokerError(f"{self.name} has already ended with "
                              f"{self.process and self.process.returncode}:\n{self.log_tail()}")
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(self.patience_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerError(f"{self.name} did not stop in {self.patience_seconds} s:\n{self.log_tail()}") from None
        if code not in self.clean_exits():
            raise BrokerError(f"{self.name} stopped with {code}:\n{self.log_tail()}")

    def clean_exits(self):
        return (0,)

    def kill(self):
        """kill -9, as a crash."""
        if self.alive():
            self.process.kill()
            self.process.wait()

    def log_tail(self, lines=30):
        if not self.log_path.exists():
            return "(no log)"
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def rss_bytes(self):
        """Resident memory of the process."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) * 1024

    def cpu_seconds(self):
        """User and system time spent so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def topic_folder(self, topic, partition=0):
        return self.data / f"{topic}-{partition}"


class Ottla(Broker):
    """Our own binary; clients come on a port that stays the same over restarts, as a real one would."""

    name = "ottla"

    def __init__(self, binary, home, config=None):
        super().__init__(home, config)
        self.binary = Path(binary).resolve()
        self.ready_file = self.home / "ready"
        self.reserved = Reserved()
        self.port = self.reserved.port

    def prepare(self):
        self.ready_file.unlink(missing_ok=True)

    def command(self):
        config = {"listeners": f"PLAINTEXT://127.0.0.1:{self.reserved.port},CONTROLLER://127.0.0.1:0",
                  "log.dirs": str(self.data), "ottla.http.listener": "", **self.config}
        sets = [part for key, value in config.items() for part in ("--set", f"{key}={value}")]
        return [str(self.binary), "serve", *sets, "--ready-file", str(self.ready_file)]

    def ready(self):
        try:
            text = self.ready_file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return False
        found = re.search(r"PLAINTEXT://\[?([^\]\s,]+?)\]?:(\d+)", text)
        if found is None or not text.endswith("\n"):
            return False
        self.host, self.port = found.group(1), int(found.group(2))
        return True


class Kafka(Broker):
    """Apache Kafka, one node with both roles, as its own documentation starts it."""

    name = "kafka"
    heap = "512m"
    format_options = ("--standalone",)

    def __init__(self, home, config=None):
        super().__init__(home, config)
        self.properties = self.home / "server.properties"
        self.reserved, self.reserved_for_controller = Reserved(), Reserved()
        self.port = self.reserved.port

    def java(self, *arguments):
        return ["java", f"-Xms{self.heap}", f"-Xmx{self.heap}", "-XX:+UseG1GC", f"-Djava.io.tmpdir={cache.natives_folder()}",
                f"-Dlog4j2.configurationFile={cache.INTEGRATION / 'kafka/log4j2.properties'}",
                f"-Dkafka.logs.dir={self.home}", "-cp", f"{cache.kafka_libs()}/*", *arguments]

    def prepare(self):
        controller = self.reserved_for_controller.port
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}"
        config = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self.data,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            **self.config,
        }
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in config.items()),
                                   encoding="utf-8")
        if not (self.data / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=").replace("-", "a")
            done = subprocess.run(
                self.java("kafka.tools.StorageTool", "format", *self.format_options, "-t", cluster,
                          "-c", str(self.properties)),
                capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
            if done.returncode != 0:
                raise BrokerError(f"kafka-storage format failed:\n{done.stdout}{done.stderr}")

    def command(self):
        return self.java("kafka.Kafka", str(self.properties))

    def ready(self):
        # The port opens before the node serves; an answered ApiVersions is what clients wait for.
        request = bytes.fromhex("00000012" "0012" "0000" "00000001" "0008") + b"ready-is"
        try:
            with socket.create_connection((self.host, self.port), timeout=PATIENCE_SECONDS) as connection:
                connection.sendall(request)
                return len(connection.recv(4)) == 4
        except OSError:
            time.sleep(0.05)
            return False

    def clean_exits(self):
        return (0, 143)                  # the JVM reports the signal that it obeyed


def remove_data(broker):
    """Drop the data directory, so that the next start is on an empty one."""
    shutil.rmtree(broker.data, ignore_errors=True)
