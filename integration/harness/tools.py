"""Kafka's command line tools, run one after the other in one JVM (kafka/ToolServer.java)."""

import re
import select
import subprocess
import tempfile
import zipfile
from functools import lru_cache
from pathlib import Path

from . import cache
from .patience import PATIENCE_SECONDS

# Scripts whose class is not their name in camel case; the package is found by asking the jars.
CLASSES = {
    "kafka-topics": "TopicCommand",
    "kafka-configs": "ConfigCommand",
    "kafka-get-offsets": "GetOffsetShell",
    "kafka-dump-log": "DumpLogSegments",
    "kafka-broker-api-versions": "BrokerApiVersionsCommand",
    "kafka-cluster": "ClusterTool",
    "kafka-storage": "StorageTool",
    "kafka-consumer-groups": "ConsumerGroupCommand",
    "kafka-share-groups": "ShareGroupCommand",
    "kafka-streams-groups": "StreamsGroupCommand",
    "kafka-groups": "GroupsCommand",
    "kafka-acls": "AclCommand",
    "kafka-producer-perf-test": "ProducerPerformance",
    "kafka-consumer-perf-test": "ConsumerPerformance",
    "kafka-e2e-latency": "EndToEndLatency",
    "kafka-metadata-quorum": "MetadataQuorumCommand",
    "kafka-transactions": "TransactionsCommand",
    "kafka-leader-election": "LeaderElectionCommand",
    "kafka-reassign-partitions": "ReassignPartitionsCommand",
    "kafka-log-dirs": "LogDirsCommand",
    "kafka-delete-records": "DeleteRecordsCommand",
    "kafka-features": "FeatureCommand",
    "kafka-delegation-tokens": "DelegationTokenCommand",
    "kafka-client-metrics": "ClientMetricsCommand",
    "kafka-replica-verification": "ReplicaVerificationTool",
    "kafka-server-start": "Kafka",
    "kafka-client-compatibility-test": "ClientCompatibilityTest",         # has no script of its own
}


@lru_cache(maxsize=None)
def main_class(script):
    """The main class of a script, wherever this release keeps it."""
    name = CLASSES.get(script) or "".join(part.capitalize() for part in script.split("-")[1:])
    wanted = re.compile(rf"(kafka/(tools/|admin/)?|org/apache/kafka/tools/(\w+/)*){name}\.class")
    for jar in sorted(cache.kafka_libs().glob("kafka*.jar"), reverse=True):
        with zipfile.ZipFile(jar) as classes:
            for entry in classes.namelist():
                if wanted.fullmatch(entry):
                    return entry.removesuffix(".class").replace("/", ".")
    raise LookupError(f"no jar has a class for {script} ({name})")


def java_options(natives=None):
    return [f"-Djava.io.tmpdir={natives or cache.natives_folder()}", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={cache.INTEGRATION / 'kafka/log4j2.properties'}",
        "-cp", f"{cache.kafka_classes()}:{cache.kafka_libs()}/*"]


class Result:
    """What a command left: its exit code and both outputs."""

    def __init__(self, command, code, out, err):
        self.command, self.code, self.out, self.err = command, code, out, err

    def __str__(self):
        return f"`{self.command}` gave {self.code}\nstdout: {self.out[-2000:]}\nstderr: {self.err[-3000:]}"


class Tools:
    """A JVM that is started with the first command and kept."""

    def __init__(self):
        self.process = None
        self.folder = tempfile.TemporaryDirectory(prefix="ottla-tools-", dir=cache.natives_folder())

    def _start(self):
        self.errors = Path(self.folder.name, "jvm.log").open("ab")
        self.process = subprocess.Popen(["java", *java_options(self.folder.name), "ToolServer"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)
        self._reply(PATIENCE_SECONDS)

    def _reply(self, seconds):
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            self.close()
            raise TimeoutError(f"no reply in {seconds} s")
        line = self.process.stdout.readline().decode().strip()
        if not line:
            self.close()
            raise RuntimeError("the tool server's JVM ended")
        return line

    def run(self, script, *arguments, stdin="", stdin_file=None, stdout_file=None, seconds=PATIENCE_SECONDS):
        """One command to its end."""
        if self.process is None:
            self._start()
        folder = Path(self.folder.name)
        files = [folder / name for name in ("stdin", "stdout", "stderr")]
        files[0].write_text(stdin, encoding="utf-8")
        if stdin_file:
            files[0] = stdin_file
        if stdout_file:
            files[1] = stdout_file
        arguments = [str(argument) for argument in arguments]
        fields = [*map(str, files), main_class(script), *arguments]
        line = "\t".join(field.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
                         for field in fields)
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        command = " ".join([script, *arguments])
        try:
            code = int(self._reply(seconds))
        except (TimeoutError, RuntimeError) as error:
            raise type(error)(f"{Result(command, error, *self._outputs(files))}") from None
        return Result(command, code, *self._outputs(files, stdout_file))

    @staticmethod
    def _outputs(files, stdout_file=None):
        out = "" if stdout_file else files[1].read_text(errors="replace")
        err = files[2].read_text(errors="replace")
        # The error that stands for an exit is printed by tools that catch everything.
        return out, re.sub(r"exit \d+\n(ToolServer\$Exited: exit \d+\n+)?", "", err)

    def close(self):
        """End the JVM."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
