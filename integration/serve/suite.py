"""`ottla serve` as a program: what it says, what it refuses, how it stops. Needs nothing but Debian's packages.

Sources: cli/cli.c, cli/serve.c, cli/version.c
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess

from harness.patience import PATIENCE_SECONDS, until
from harness.runner import Different, ottla_only

NEEDS = ("kcat",)


def serve(env, *arguments, **how):
    """Runs it where it is expected to refuse: (exit code, what it printed)."""
    try:
        done = subprocess.run([env.broker.binary, "serve", *map(str, arguments)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_SECONDS,
                              check=False, text=True, cwd=env.folder, **how)
    except subprocess.TimeoutExpired as running:
        raise Different(f"it did not refuse {arguments}: {running.stdout}") from None
    if done.returncode < 0:
        raise Different(f"it was ended by signal {-done.returncode}: {done.stdout}")
    return done.returncode, done.stdout


def settings(folder, **more):
    """--set arguments for a broker that could start."""
    values = {"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "log.dirs": str(folder)}
    values.update({key.replace("_", "."): value for key, value in more.items()})
    return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]


def refused(env, arguments, *patterns):
    """It must end with an error, and one line of what it says must match every pattern."""
    code, said = serve(env, *arguments)
    if code == 0:
        raise Different(f"{arguments}: exit code 0\n{said}")
    for line in said.splitlines():
        if all(re.search(pattern, line) for pattern in patterns):
            return said
    raise Different(f"{arguments}: no line with {patterns} in\n{said}")


@ottla_only
def test_readiness(env):
    """One line with node id and listeners, and the addresses in the ready file; the start takes moments."""
    with env.own_broker() as node:
        said = [line for line in node.log_path.read_text(encoding="utf-8").splitlines() if "ready" in line]
        if len(said) != 1 or "node" not in said[0] or f":{node.port}" not in said[0]:
            raise Different(f"{said}\n{node.log_tail()}")
        addresses = node.ready_file.read_text(encoding="utf-8")
        if not re.search(r"CONTROLLER://127\.0\.0\.1:\d+", addresses) or ":0" in addresses.replace(":0.", ""):
            raise Different(addresses)


@ottla_only
def test_bad_values_are_refused(env):
    """A bad value ends the start with its key, what was read and what is accepted; in a file with file and line."""
    data = env.folder / "never"
    refused(env, settings(data, num_partitions="zero"), r"num\.partitions", "zero")
    refused(env, settings(data, num_partitions="0"), r"num\.partitions", r"\b0\b")
    refused(env, settings(data, log_retention_hours="1h"), r"log\.retention\.hours", "1h")
    refused(env, settings(data, compression_type="brotli"), r"compression\.type", "brotli", "gzip")
    refused(env, settings(data, listeners="nonsense"), "listeners", "nonsense")
    refused(env, settings(data, auto_create_topics_enable="perhaps"), r"auto\.create\.topics\.enable", "perhaps")
    refused(env, ["--set", "novalue"], "novalue")
    refused(env, ["--nonsense"], "--nonsense")
    refused(env, ["--config", "/nowhere/server.properties"], "/nowhere/server.properties")
    file = env.folder / "bad.properties"
    file.write_text("process.roles=broker,controller\nnode.id=1\n\nnum.partitions=many\n", encoding="utf-8")
    refused(env, ["--config", file], r"bad\.properties", r"\b4\b", r"num\.partitions", "many")
    if data.exists():
        raise Different("a refused start made its data directory")


def started_with_file(env, text):
    """A broker with a file of its own below --set's listeners and directory; not started yet."""
    node = env.new_broker()
    file = node.home / "server.properties"
    file.write_text(text, encoding="utf-8")
    plain = node.command
    node.command = lambda: [plain()[0], "serve", "--config", str(file), *plain()[2:]]
    return node


PROPERTIES = """# a comment
process.roles=broker,controller
node.id = 5
controller.quorum.voters=5@127.0.0.1:9\\
  093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
offsets.topic.replication.factor=1
"""


@ottla_only
def test_unknown_keys(env):
    """An unknown key in a file is a warning with a hint; behind --set it is refused, being typed just now."""
    refused(env, settings(env.folder / "never", num_partition="3"), r"num\.partition;? .*num\.partitions")
    node = started_with_file(env, PROPERTIES + "num.partition=3\n")
    node.start()
    try:
        lines = [line for line in node.log_path.read_text(encoding="utf-8").splitlines() if "num.partition" in line]
        if not any("num.partitions" in line and "warn" in line for line in lines):
            raise Different(f"no hint in {lines}\n{node.log_tail()}")
        node.stop()
    finally:
        node.kill()


@ottla_only
def test_server_properties(env):
    """--config takes Kafka's own file, comments, spaces and continued lines included; --set wins over it."""
    node = started_with_file(env, PROPERTIES + "num.partitions:4\n")
    node.start()
    try:
        env.run(["kcat", "-b", node.bootstrap, "-P", "-t", "four"], input="x\n")
        got = json.loads(env.run(["kcat", "-b", node.bootstrap, "-L", "-J"]).stdout)
        env.see("node id", [broker["id"] for broker in got["brokers"]], [5])
        env.see("partitions", [len(topic["partitions"]) for topic in got["topics"] if topic["topic"] == "four"], [4])
        node.stop()
    finally:
        node.kill()


@ottla_only
def test_what_is_taken_or_missing(env):
    """A port in use, a directory in use, one that cannot be made, a name that does not resolve: one clear line."""
    other = env.folder / "other"
    refused(env, settings(other, listeners=f"PLAINTEXT://127.0.0.1:{env.broker.port},CONTROLLER://127.0.0.1:0"),
            r"127\.0\.0\.1", str(env.broker.port), "(?i)use")
    refused(env, settings(env.broker.data), re.escape(str(env.broker.data)), "(?i)lock|use|another")
    blocked = env.folder / "a-file"
    blocked.write_text("in the way", encoding="utf-8")
    refused(env, settings(blocked / "data"), re.escape(str(blocked)))
    refused(env, settings(other, advertised_listeners="PLAINTEXT://no-such-host.invalid:9092"),
            r"no-such-host\.invalid")
    refused(env, settings(other, controller_quorum_voters="1@127.0.0.1:9093,2@127.0.0.1:9094,3@127.0.0.1:9095"),
            "(?i)format|voter")


@ottla_only
def test_a_partition_in_two_directories(env):
    """A start that cannot tell which of two counts ends with a line that says so, and is never said to be ready."""
    dirs = [env.folder / f"dir-{number}" for number in range(3)]
    ready_file = env.folder / "ready"
    node = env.new_broker(**{"log.dirs": ",".join(map(str, dirs))})
    node.start()
    try:
        for number in range(3):
            env.run(["kcat", "-b", node.bootstrap, "-P", "-t", f"t-{number}"], input="one\n")
        node.stop()
        # The first has the metadata; what is in the last of them is copied to the others, and that one taken away.
        folder, = dirs[2].glob("t-?-0")
        for other in dirs[:2]:
            shutil.copytree(folder, other / folder.name)
        said = refused(env, [*settings(",".join(map(str, dirs[:2]))), "--ready-file", ready_file],
                       re.escape(folder.name), re.escape(str(dirs[0])), re.escape(str(dirs[1])))
        env.see("it was said to be ready", [line for line in said.splitlines() if "ready" in line], [])
        env.see("there is a ready file", ready_file.exists(), False)
    finally:
        node.kill()


@ottla_only
def test_wildcard_listener(env):
    """Bound to a wildcard without advertised address: each client is told the address it came by."""
    with env.own_broker(listeners="PLAINTEXT://0.0.0.0:0,CONTROLLER://127.0.0.1:0") as node:
        for host in ("127.0.0.1", "127.0.0.2"):
            got = json.loads(env.run(["kcat", "-b", f"{host}:{node.port}", "-L", "-J"]).stdout)
            env.see(host, [broker["name"] for broker in got["brokers"]], [f"{host}:{node.port}"])


@ottla_only
def test_stop_under_load(env):
    """SIGTERM while a producer writes: a clean stop, and everything acknowledged is there afterwards."""
    node = env.new_broker()
    node.start()
    client = subprocess.Popen([env.client_program("integration/librdkafka/load"), node.bootstrap, "stopped", "2",
                               "100000"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        for line in client.stdout:
            if line.startswith("acked"):
                break
        node.stop()
        if not (node.data / ".kafka_cleanshutdown").exists():
            raise Different("no clean-shutdown mark was left")
        node.start()
        if client.wait(PATIENCE_SECONDS) != 0:
            raise Different("the client did not find what was acknowledged")
        node.stop()
    finally:
        client.kill()
        node.kill()


def start_with_limit(node, what, limit):
    """Starts the broker with one of the kernel's limits on it."""
    node.prepare()
    with node.log_path.open("ab") as log:
        node.process = subprocess.Popen(node.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        preexec_fn=lambda: resource.setrlimit(what, (limit, limit)))
    node.await_ready()


@ottla_only
def test_small_machine(env):
    """64 MB of memory and 1,024 descriptors are enough: a few hundred partitions, clients and a million bytes."""
    node = env.new_broker()
    start_with_limit(node, resource.RLIMIT_NOFILE, 1024)
    try:
        env.run([env.client_program("integration/librdkafka/load"), node.bootstrap, "small", "400", "40000"])
        megabytes = node.rss_bytes() / 1e6
        print(f"     400 partitions with 40,000 records: {megabytes:.0f} MB resident")
        if not env.sanitized and megabytes > 64:
            raise Different(f"{megabytes:.0f} MB")
        node.stop()
    finally:
        node.kill()


@ottla_only
def test_limit_of_file_size(env):
    """`ulimit -f`: a segment that may grow no further is a full disk, not the broker's death; what was acknowledged
    stays, other topics go on, and so does a restart. Where nothing at all may be written, the start says so."""
    code, said = serve(env, *settings(env.folder / "nothing"),
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    if code == 0 or "no space left on device" not in said:
        raise Different(f"{code}: {said}")
    node = env.new_broker()
    lines = [f"{n:0999}\n" for n in range(4000)]
    file = env.folder / "large"
    file.write_text("".join(lines), encoding="ascii")
    start_with_limit(node, resource.RLIMIT_FSIZE, 1024 * 1024)
    try:
        with file.open() as content, subprocess.Popen(["kcat", "-b", node.bootstrap, "-P", "-t", "large", "-X",
                                                       "batch.num.messages=100"], stdin=content, stderr=subprocess.DEVNULL) as client:
            try:
                until("a refusal", lambda: "append cut back topic=large" in node.log_path.read_text(errors="replace"))
            finally:
                client.kill()
        env.run(["kcat", "-b", node.bootstrap, "-P", "-t", "small"], input="one\ntwo\n")
        for again in range(2):
            read = ["kcat", "-b", node.bootstrap, "-C", "-e", "-q", "-o", "beginning", "-t"]
            env.see("the other topic", env.run([*read, "small"]).stdout, "one\ntwo\n")
            kept = env.run([*read, "large"]).stdout
            if not 800_000 < len(kept) <= 1024 * 1024 or not set(kept.splitlines(keepends=True)) <= set(lines):
                raise Different(f"{len(kept)} bytes of the large topic, {kept[-40:]!r}")
            node.stop()
            if again == 0:
                node.start()
    finally:
        node.kill()


@ottla_only
def test_report_on_signal(env):
    """SIGUSR1 writes a report and the broker goes on."""
    with env.own_broker() as node:
        before = len(node.log_path.read_text(encoding="utf-8", errors="replace"))
        os.kill(node.pid, signal.SIGUSR1)
        until("a report", lambda: len(node.log_path.read_text(encoding="utf-8", errors="replace")) > before)
        env.run(["kcat", "-b", node.bootstrap, "-L"])


@ottla_only
def test_restart_after_kill(env):
    """kill -9 and a start on the same directory: ready again, not locked out by its old registration, however long that
    would count."""
    node = env.new_broker(**{"broker.session.timeout.ms": 3_600_000})
    node.start()
    try:
        env.run(["kcat", "-b", node.bootstrap, "-P", "-t", "kept"], input="one\ntwo\n")
        seconds = []
        for _ in range(3):
            node.kill()
            seconds.append(node.start())
            got = env.run(["kcat", "-b", node.bootstrap, "-C", "-t", "kept", "-e", "-q", "-o", "beginning"]).stdout
            env.see("what was written", got, "one\ntwo\n")
        print(f"     ready again after kill -9 in {min(seconds) * 1000:.0f} to {max(seconds) * 1000:.0f} ms")
        node.stop()
    finally:
        node.kill()
