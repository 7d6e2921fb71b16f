"""Where the clients that other people wrote are kept, and whether they can run here.

The cache lies outside the checkout (OTTLA_CACHE, else ~/.cache/ottla). Each entry's name carries a
hash of the file in the checkout that pins it, so that a changed pin is a new entry and a complete
entry is recognised by being there.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import volumes
from .patience import PATIENCE_SECONDS

INTEGRATION = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("OTTLA_CACHE") or Path.home() / ".cache" / "ottla")

GO_MIN = (1, 25)
NODE_MIN = (20,)
JDK_MIN = (17,)
FRANZ_MEMBERS = "../tools/bench/franz_members.go"
JAVA = ("kafka/ToolServer.java", "group_clients/GroupMember.java")


def _entry(kind, *pins):
    digest = hashlib.sha256()
    for pin in pins:
        digest.update((INTEGRATION / pin).read_bytes())
    return CACHE / f"{kind}-{digest.hexdigest()[:12]}"


def kafka_libs():
    """Kafka's jars, as Maven names them."""
    return _entry("kafka-libs", "kafka/pom.xml")


def kafka_classes():
    """Our Java classes, compiled against those jars."""
    return _entry("kafka-classes", "kafka/pom.xml", *JAVA)


def franz_go():
    """The franz-go client program."""
    return _entry("franz-go", "franz_go/go.mod", "franz_go/go.sum", "franz_go/main.go") / "client"


def go_members():
    """The program with the group members of franz-go and sarama."""
    return _entry("go-members", *(f"group_clients/go/{name}" for name in (
        "go.mod", "go.sum", "main.go", "franz.go", "sarama.go"))) / "members"


def franz_members():
    """The group members of tools/bench/groups with franz-go, of the version that the franz-go client has."""
    return _entry("franz-members", "franz_go/go.mod", "franz_go/go.sum", FRANZ_MEMBERS) / "members"


def python_venv():
    """The virtual environment that holds kafka-python, confluent-kafka and aiokafka."""
    return _entry("python", "python_clients/requirements.txt")


def kafkajs():
    """The folder that holds node_modules with kafkajs."""
    return _entry("kafkajs", "kafkajs/package-lock.json")


def natives_folder():
    """Where a JVM can map the native libraries that it unpacks (Kafka's codecs): not every /tmp allows that."""
    folder = Path(tempfile.gettempdir())
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        folder = CACHE / "tmp"
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def complete(entry):
    """An entry is written beside its name and renamed when whole, so being there is enough."""
    return entry.exists()


def _version(command, pattern):
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    found = re.search(pattern, done.stdout + done.stderr)
    return tuple(int(part) for part in found.groups()) if done.returncode == 0 and found else None


def _shortfall(name, found, least):
    wanted = f"{name} >= {'.'.join(map(str, least))}"
    if found is None:
        return f"{wanted} is missing"
    if found < least:
        return f"{wanted} is needed, {'.'.join(map(str, found))} is here"
    return None


def runtime_missing(runtime):
    """None if the runtime is here and new enough, else one line that says what is lacking."""
    if runtime == "jdk":
        return _shortfall("JDK", _version(["javac", "-version"], r"javac (\d+)"), JDK_MIN)
    if runtime == "go":
        return _shortfall("Go", _version(["go", "version"], r"go(\d+)\.(\d+)"), GO_MIN)
    if runtime == "node":
        return _shortfall("Node", _version(["node", "--version"], r"v(\d+)"), NODE_MIN)
    raise ValueError(runtime)


def missing(need):
    """Why a suite that needs this cannot run here; None if it can."""
    if need == "kafka":
        return runtime_missing("jdk") or _uncached("Kafka's jars", kafka_classes())
    if need == "franz-go":
        return None if complete(franz_go()) else runtime_missing("go") or _uncached("the franz-go client", franz_go())
    if need == "go-members":
        return None if complete(go_members()) else runtime_missing("go") or _uncached("the Go group members", go_members())
    if need == "franz-members":
        return None if complete(franz_members()) else runtime_missing("go") or _uncached("the benchmark's Go members", franz_members())
    if need == "kafkajs":
        return runtime_missing("node") or _uncached("kafkajs", kafkajs())
    if need == "python":
        return _uncached("the Python clients", python_venv() / "complete")
    if need == "kcat":
        return None if shutil.which("kcat") else "kcat is missing"
    if need in volumes.MAKE:
        return volumes.missing(need)
    raise ValueError(need)


def _uncached(what, entry):
    return None if complete(entry) else f"not in the cache: {what} (run integration/setup)"
