"""Finds the suites, runs their tests against one broker, and says what happened.

A suite is `integration/<client>/suite.py`: NEEDS names what must be in the cache, NEEDS_BROKER = False says that
none is started, WAITS = True that it mostly waits, so that it may run beside others, and every function named test_* is
a test, taking an Env. Its docstring says which rule it shows.
"""

import contextlib
import importlib
import itertools
import json
import os
import queue
import re
import subprocess
import tempfile
import threading
import time
import traceback
from pathlib import Path

from . import broker as brokers
from . import cache, tools
from .patience import PATIENCE_SECONDS

SHOWN_CHARACTERS = 3000
CUT_SHORT_SECONDS = 5                       # for tests in other threads to see that it is over
WAITERS = 2                                 # suites that mostly wait, at once, beside the one that works


class Different(AssertionError):
    """What was seen is not what was expected."""


def ottla_only(test):
    """For what Apache Kafka has no counterpart of."""
    test.ottla_only = True
    return test


def long(test):
    """Runs only when named, since it takes minutes."""
    test.long = True
    return test


class Env:
    """What a test gets: the shared broker, a way to start its own, Kafka's tools, a folder."""

    _numbers = itertools.count(1)

    def __init__(self, make_broker, build, folder, counts, is_kafka):
        self._make_broker = make_broker
        self.is_kafka = is_kafka
        self.build = build
        self.folder = folder
        self.counts = counts
        self.tools = tools.Tools()
        self.broker = None
        self.over = False
        self.seen = []

    def start(self):
        """The broker that all tests share, unless they ask for one of their own."""
        if self.broker is None or not self.broker.alive():
            self.broker = self.new_broker()
            self.broker.start()
        return self.broker

    def new_broker(self, **config):
        """A broker that is not started yet, on an empty directory."""
        if self.over:
            raise brokers.BrokerError("the run was cut short")
        number = next(self._numbers)
        return self._make_broker(self.folder / f"broker-{number}", config)

    @property
    def sanitized(self):
        """Whether the broker carries sanitizers, which eat memory and time of their own."""
        options = self.build / "meson-info/intro-buildoptions.json"
        if not options.exists():
            return False
        values = {option["name"]: option["value"] for option in json.loads(options.read_text(encoding="utf-8"))}
        return bool(values.get("asan") or values.get("tsan"))

    @contextlib.contextmanager
    def own_broker(self, **config):
        """A broker with settings of its own for the length of a test."""
        node = self.new_broker(**{key.replace("_", "."): value for key, value in config.items()})
        node.start()
        try:
            yield node
            if node.process.poll() is None:
                node.stop()
        finally:
            node.kill()

    def topic(self, partitions=1, name="t", node=None, **config):
        """A new topic by Kafka's own tool, so that no suite depends on another client's admin calls."""
        topic = f"{name}-{next(self._numbers)}"
        settings = [part for key, value in config.items()
                    for part in ("--config", f"{key.replace('_', '.')}={value}")]
        self.tool("kafka-topics", "--create", "--topic", topic, "--partitions", partitions, *settings, node=node)
        return topic

    def tool(self, script, *arguments, expect=0, node=None, bootstrap=True, **how):
        """One of Kafka's tools against the broker; its exit code must be the expected one."""
        where = ["--bootstrap-server", (node or self.broker).bootstrap] if bootstrap else []
        if script in ("kafka-cluster",):
            arguments, where = [*arguments, *where], []
        if self.over:
            raise brokers.BrokerError("the run was cut short")
        result = self.tools.run(script, *where, *arguments, **how)
        if expect is not None and result.code != expect:
            raise Different(f"exit code {result.code}, expected {expect}: {result}")
        return result

    def run(self, command, *, seconds=PATIENCE_SECONDS, expect=0, **how):
        """Any other program."""
        how.setdefault("text", True)
        try:
            done = subprocess.run([str(part) for part in command], capture_output="stdout" not in how,
                                  timeout=seconds, check=False, **how)
        except subprocess.TimeoutExpired as expired:
            raise Different(f"`{command}` did not end in {seconds} s: {expired.stdout} {expired.stderr}") from None
        if expect is not None and done.returncode != expect:
            raise Different(f"`{' '.join(map(str, command))}` gave {done.returncode}\n"
                            f"stdout: {done.stdout}\nstderr: {done.stderr}")
        return done

    def client_program(self, path):
        """A C client that the build made."""
        program = self.build / path
        if not program.exists():
            raise Different(f"{program} is not built")
        return program

    def see(self, label, value, expected=...):
        """Note an observation, so that two brokers can be compared, and check it."""
        self.seen.append((label, value))
        if expected is not ... and value != expected:
            raise Different(f"{label}: {value!r}, expected {expected!r}")
        return value

    def close(self):
        """Ends what was started here; a test that is still under way in another thread starts nothing more."""
        self.over = True
        self.tools.close()
        if self.broker is not None:
            self.broker.kill()


def suites():
    """The names of all suites."""
    return sorted(path.parent.name for path in cache.INTEGRATION.glob("*/suite.py"))


def waits(suite):
    """Whether a suite mostly waits."""
    return getattr(importlib.import_module(f"{suite}.suite"), "WAITS", False)


def tests_of(suite, pattern):
    """What a suite needs, whether it needs a broker, and (name, function) of its tests in the order of the file."""
    module = importlib.import_module(f"{suite}.suite")
    found = [(name, value) for name, value in vars(module).items()
             if name.startswith("test_") and callable(value) and re.search(pattern or "", f"{suite}.{name}")]
    return getattr(module, "NEEDS", ()), getattr(module, "NEEDS_BROKER", True), found


class Report:
    """Counts, and one line for each test; held back, where another report is being printed meanwhile."""

    def __init__(self, held_back=False):
        self.passed = self.failed = self.not_run = 0
        self.seen = {}
        self.held = [] if held_back else None

    def _print(self, text):
        if self.held is None:
            print(text, flush=True)
        else:
            self.held.append(text)

    def result(self, name, seconds, trouble):
        self._print(f"{'ok  ' if trouble is None else 'FAIL'} {name} ({seconds:.1f} s)")
        if trouble is None:
            self.passed += 1
            return
        self.failed += 1
        if len(trouble) > 2 * SHOWN_CHARACTERS:     # what is wrong stands first, what a broker said last
            trouble = f"{trouble[:SHOWN_CHARACTERS]}\n[...]\n{trouble[-SHOWN_CHARACTERS:]}"
        self._print("     " + trouble.replace("\n", "\n     "))

    def skip(self, suite, reason):
        self._print(f"---- {suite}: not run: {reason}")
        self.not_run += 1
        if os.environ.get("CI") == "true":
            self.failed += 1

    def add(self, other):
        """What another found; printed now, where it was held back."""
        self.passed += other.passed
        self.failed += other.failed
        self.not_run += other.not_run
        self.seen |= other.seen
        for text in other.held or ():
            print(text, flush=True)


def run_test(env, name, test, report, needs_broker=True):
    """One test; a broker that died under it is named and replaced."""
    env.seen = []
    started = time.monotonic()
    trouble = None
    try:
        if needs_broker:
            env.start()
        test(env)
        if needs_broker and not env.broker.alive():
            raise Different(f"the broker ended with {env.broker.process.returncode}")
    except Different as different:
        frames = traceback.extract_tb(different.__traceback__)
        places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames
                  if Path(frame.filename).is_relative_to(cache.INTEGRATION) and "harness" not in frame.filename]
        trouble = f"{different} [{' '.join(places)}]"
    except Exception:                           # whatever it is, the next test shall run
        trouble = traceback.format_exc(limit=-3)
    if trouble and env.broker and not env.broker.alive():
        trouble = f"{trouble}\nbroker's log:\n{env.broker.log_tail(60)}"
    report.seen[name] = list(env.seen)
    report.result(name, time.monotonic() - started, trouble)


def run_suite(env, suite, pattern, with_long, report):
    """All tests of one suite, in turn, against env's broker."""
    needs, needs_broker, found = tests_of(suite, pattern)
    found = [(name, test) for name, test in found
             if not (env.is_kafka and getattr(test, "ottla_only", False))
             and (with_long or not getattr(test, "long", False))]
    if not found:
        return
    lacking = [reason for reason in map(cache.missing, needs) if reason]
    if lacking:
        report.skip(suite, "; ".join(lacking))
        return
    for name, test in found:
        run_test(env, f"{suite}.{name}", test, report, needs_broker)


class Waiters:
    """Suites that mostly wait, a few at a time in threads of their own; each thread has an Env, and thereby a broker."""

    def __init__(self, make_env, suites, run):
        self.left, self.done, self.running = queue.SimpleQueue(), queue.SimpleQueue(), {}
        for suite in suites:
            self.left.put(suite)
        self.envs = [make_env() for _ in range(min(WAITERS, len(suites)))]
        self.threads = [threading.Thread(target=self._work, args=(env, run), daemon=True) for env in self.envs]
        for thread in self.threads:
            thread.start()

    def _work(self, env, run):
        with contextlib.suppress(queue.Empty):
            while True:
                self._run(env, self.left.get_nowait(), run)
        self._run(env, None, lambda env, _, report: check_clean_stop(env, report))

    def _run(self, env, suite, run):
        report = self.running[env] = Report(held_back=True)
        try:
            run(env, suite, report)
        except Exception:                       # a suite that cannot even be looked at
            report.result(suite or "broker", 0, traceback.format_exc())
        del self.running[env]
        self.done.put(report)

    def collect(self, total, to_the_end=False):
        """Adds the reports of the suites that have ended."""
        while to_the_end and any(thread.is_alive() for thread in self.threads) or not self.done.empty():
            with contextlib.suppress(queue.Empty):
                total.add(self.done.get(timeout=0.1))

    def close(self, total):
        """Of what was cut short, all that is known is told, and what tests are still under way come to their end."""
        for report in list(self.running.values()):
            total.add(report)
        with contextlib.suppress(queue.Empty):
            while True:
                self.left.get_nowait()
        for env in self.envs:
            env.close()
        for thread in self.threads:
            thread.join(CUT_SHORT_SECONDS)


def run_suites(make_env, names, pattern, with_long):
    """All suites named: those that wait beside the others, which run one after the other."""
    report, env = Report(), make_env()
    waiting = [suite for suite in names if len(names) > 1 and waits(suite)]

    def run(env, suite, report):
        run_suite(env, suite, pattern, with_long, report)

    waiters = Waiters(make_env, waiting, run)
    try:
        for suite in names:
            if suite not in waiting:
                run(env, suite, report)
                waiters.collect(report)
        check_clean_stop(env, report)
        waiters.collect(report, to_the_end=True)
    finally:
        env.close()
        waiters.close(report)
    return report


def print_seen(report):
    """Every observation, for a reader who wants to know what a broker does."""
    for name, seen in report.seen.items():
        for label, value in seen:
            print(f"seen {name}: {label}: {value!r}")


def print_differences(ottla, kafka):
    """Where the two brokers gave different observations."""
    count = 0
    for name, ours in ottla.seen.items():
        theirs = dict(kafka.seen.get(name, ()))
        for label, value in ours:
            if label in theirs and theirs[label] != value:
                print(f"differs {name}: {label}\n     ottla {value!r}\n     kafka {theirs[label]!r}")
                count += 1
    print(f"{count} observations differ")


def check_clean_stop(env, report):
    """The shared broker must still be there at the end, and stop as asked."""
    if env.broker is None or not env.broker.alive():
        return
    started = time.monotonic()
    trouble = None
    try:
        env.broker.stop()
    except brokers.BrokerError as error:
        trouble = str(error)
    report.result("broker.stops_on_sigterm", time.monotonic() - started, trouble)


def run_against(kind, binary, build, names, pattern, counts, with_long, keep):
    """One broker kind, all suites."""
    with _folder(keep) as folder:
        def make(home, config):
            return brokers.Kafka(home, config) if kind == "kafka" else brokers.Ottla(binary, home, config)
        report = run_suites(lambda: Env(make, build, Path(folder), counts, kind == "kafka"), names, pattern, with_long)
        if keep:
            print(f"data and logs are in {folder}")
        return report


@contextlib.contextmanager
def _folder(keep):
    if keep:
        yield tempfile.mkdtemp(prefix="ottla-integration-")
    else:
        with tempfile.TemporaryDirectory(prefix="ottla-integration-", ignore_cleanup_errors=True) as folder:
            yield folder
