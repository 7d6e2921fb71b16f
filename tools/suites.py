#!/usr/bin/env python3
"""Runs the suites of the project in order, each within its share of the time (CONTRIBUTING.md has the table).

A suite is a list of steps. A step is a command; how many tests it ran is read from what it prints: Check's summary
lines, or a last line `N passed, N failed`, else the step is one test. A step that runs out of its suite's time is
stopped and has failed; OTTLA_TEST_PATIENCE=3 gives every suite three times its share, for a slow or a busy machine.
Full output is kept in build/test-logs/."""

import json
import os
import re
import signal
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(TOP, 'build', 'test-logs')
CI = os.environ.get('CI') == 'true'

# Seconds. Kept small enough for all of it to fit in a coffee break on two cores; CONTRIBUTING.md says the same.
BUDGET = {'builds': 360, 'unit': 240, 'simulation': 300, 'clients': 360, 'faults': 120, 'fuzz': 120}
PATIENCE = os.environ.get('OTTLA_TEST_PATIENCE') or '1'

FETCH_SECONDS_MAX = 900  # the clients' packages, once a machine
FAULT_SUITES = ('full_disk', 'power_cut')  # real file systems that fill up and lose power
MEMORY_TESTS = r'wire\.test_hostile_frames$'  # AddressSanitizer keeps what was freed for a while
# What makes all threads of the broker meet. A race ends the broker with an exit code of its own when it is stopped.
RACE_TESTS = r'^(kcat\.|librdkafka\.test_(single|every|kill_under_load$)|wire\.test_(fetch|create|delete|metadata|many|idempotent))'
FUZZ_SLACK_SECONDS = 20
FUZZ_START_SECONDS = 2  # reading the corpus


def limit(name):
    return BUDGET[name] * float(PATIENCE)


class Suite:
    def __init__(self, name):
        self.name = name
        self.passed = 0
        self.failed = 0
        self.not_run = []
        self.started = time.monotonic()
        self.covered = []

    def left(self):
        return limit(self.name) - (time.monotonic() - self.started)

    def count(self, what, passed, failed, since, counts=True):
        self.passed += passed if counts else 0
        self.failed += failed
        seconds = time.monotonic() - since
        outcome = f'{passed} passed' + ('' if counts else ' again') + (f', {failed} FAILED' if failed else '')
        print(f'  {what}: {outcome} ({seconds:.0f} s)', flush=True)

    def command(self, command, log, seconds=None, env=None, unbudgeted=False):
        """Runs it with its whole family of processes bounded; gives (exit code or None when out of time, output)."""
        longest = seconds if unbudgeted else max(1.0, min(self.left(), seconds or self.left()))
        path = os.path.join(LOGS, log + '.log')
        with open(path, 'wb') as output:
            child = subprocess.Popen(command, cwd=TOP, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                     env={**os.environ, **(env or {})}, start_new_session=True)
            code = None
            try:
                code = child.wait(longest)
            except subprocess.TimeoutExpired:
                pass
            finally:  # what it left behind must not disturb the next step, nor outlive Ctrl-C
                try:
                    os.killpg(child.pid, signal.SIGTERM if code is None else signal.SIGKILL)
                    time.sleep(0.5 if code is None else 0)
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()
        with open(path, encoding='utf-8', errors='replace') as file:
            return code, file.read()

    def step(self, what, command, log, seconds=None, env=None, counts=True):
        """One command; counts=False: only its failure counts (its tests were counted in another build already)."""
        since = time.monotonic()
        code, output = self.command(command, log, seconds, env)
        passed, failed = count_tests(output)
        if passed + failed == 0:
            passed, failed = (1, 0) if code == 0 else (0, 1)
        elif code != 0 and failed == 0:
            failed = 1
        if code is None:
            print(f'  {what}: out of time', flush=True)
            failed = max(failed, 1)
        if failed:
            print_tail(output, log)
        self.count(what, passed, failed, since, counts)
        return failed == 0

    def meson_tests(self, what, build, arguments, log, counts=True, env=None):
        """Tests of one build through meson, whose log gives the output of each."""
        since = time.monotonic()
        code, output = self.command(['meson', 'test', '-C', build, '--no-rebuild', '--print-errorlogs', *arguments], log, env=env)
        results = os.path.join(TOP, build, 'meson-logs', 'testlog.json')
        passed = failed = 0
        if code is not None and os.path.exists(results):
            for line in open(results, encoding='utf-8'):
                test = json.loads(line)
                good, bad = count_tests(test.get('stdout') or '')
                if test['result'] not in ('OK', 'EXPECTEDFAIL', 'SKIP') and bad == 0:
                    bad = 1
                if test['result'] == 'OK' and good + bad == 0:
                    good = 1
                passed, failed = passed + good, failed + bad
        if code != 0 and failed == 0:
            failed = 1
        if passed + failed == 0:
            failed = 1
        if code is None:
            print(f'  {what}: out of time', flush=True)
        if failed:
            print_tail(output, log)
        self.count(what, passed, failed, since, counts)

    def skip(self, what, why):
        print(f'  not run: {what}: {why}' + (' (a failure, since CI=true)' if CI else ''), flush=True)
        self.not_run.append(what)
        if CI:
            self.failed += 1


def count_tests(output):
    passed = failed = 0
    for checks, failures, errors in re.findall(r'^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)', output, re.M):
        failed += int(failures) + int(errors)
        passed += int(checks) - int(failures) - int(errors)
    lines = re.findall(r'^(\d+) passed, (\d+) failed', output, re.M)
    if lines:
        passed += int(lines[-1][0])
        failed += int(lines[-1][1])
    return passed, failed


def print_tail(output, log, lines=60):
    tail = output.strip().split('\n')[-lines:]
    print('    | ' + '\n    | '.join(tail))
    print(f'    (all of it: build/test-logs/{log}.log)', flush=True)


BUILT = {}  # flavour -> whether this run could build it


def build(suite, flavour, what, counts=True):
    if flavour == 'tsan':
        BUILT[flavour] = (suite.step('clang, TSan configured', ['tools/build', 'tsan', 'build.ninja'], 'build-tsan', counts=False)
                          and suite.step(what, ['tools/build', 'tsan', *threaded_tests()[1], RACED], 'build-tsan', counts=counts))
    else:
        BUILT[flavour] = suite.step(what, ['tools/build', flavour], f'build-{flavour}', counts=counts)


def built(suite, flavour):
    """Old programs are never tested: a suite that is run without `builds` builds what it needs first, not of its share.
    What `builds` could not build is a failure of each that needs it."""
    if flavour not in BUILT:
        first = Suite('builds')
        build(first, flavour, f'{flavour} build', counts=False)
        suite.failed += first.failed
        suite.started += time.monotonic() - first.started
    elif not BUILT[flavour]:
        print(f'  FAILED: build/{flavour} is not built', flush=True)
        suite.failed += 1
    return BUILT[flavour]


def builds(suite):
    build(suite, 'release', 'gcc, release')
    build(suite, 'asan', 'clang, ASan and UBSan, fuzz targets')
    build(suite, 'tsan', 'clang, TSan, tests with threads')
    if BUILT['release']:
        suite.step('format and lint', ['tools/lint', '--build', 'build/release'], 'lint')


# What threads share, and what runs on several of them at once.
RACED = 'src/ottla'
THREADED = re.compile(r'^(net/|base/(log|pmap|crash|metrics)$)')


def threaded_tests():
    """Names and programs of the tests that run under ThreadSanitizer; the rest has one thread and would only cost
    time."""
    listed = json.loads(subprocess.run(['meson', 'introspect', '--tests', 'build/tsan'], cwd=TOP, stdout=subprocess.PIPE,
                                       stdin=subprocess.DEVNULL, text=True, check=True).stdout)
    tests = [test for test in listed if THREADED.match(test['name'])]
    return ([test['name'] for test in tests],
            [os.path.relpath(test['cmd'][0], os.path.join(TOP, 'build', 'tsan')) for test in tests])


def unit(suite):
    if built(suite, 'asan'):
        suite.meson_tests('unit, ASan and UBSan', 'build/asan', ['--suite', 'unit'], 'unit-asan')
    if built(suite, 'release'):
        suite.meson_tests('unit, release build', 'build/release', ['--suite', 'unit'], 'unit-release', counts=False)
    if built(suite, 'tsan'):
        suite.meson_tests('threads, TSan', 'build/tsan', threaded_tests()[0], 'unit-tsan', counts=False)


SIM_SEEDS = '1-1000'
SIM_SEEDS_ASAN = '1-300'
SIM_SCENARIOS = {'topics_come_and_go': '1-25', 'impatient_clients': '1-25', 'full_disk': '1-25', 'failed_sync': '1-25',
                 'power_cuts': '1-25', 'dir_moves': '1-25', 'groups_crowd': '1-1000'}
SIM_LAST_RUN_SECONDS = 2  # what is begun is finished within it


def kept_seeds(scenario):
    """Those that failed once; a scenario that has none has no file."""
    path = os.path.join('tests', 'sim', 'seeds', scenario)
    return ['--also', path] if os.path.exists(os.path.join(TOP, path)) else []


def simulation(suite):
    """A fixed list of seeds, so that a change never fails for what it did not bring; the same seeds must leave the same
    trace in the build with sanitizers, which has other addresses, another compiler and no optimiser in common. A list that
    time cuts short has failed."""
    hashes = os.path.join(LOGS, 'sim-hashes')
    release, asan = (os.path.join('build', build, 'tests', 'sim', 'ottla-sim') for build in ('release', 'asan'))
    if not all([built(suite, flavour) for flavour in ('release', 'asan')]):
        return

    def seconds():
        return ['--seconds', str(max(1, int(suite.left() - SIM_LAST_RUN_SECONDS)))]

    suite.step(f'whole broker, seeds {SIM_SEEDS}, release build',
               [release, '--seeds', SIM_SEEDS, *kept_seeds('produce_fetch'), *seconds(), '--write', hashes], 'sim-release')
    suite.step(f'the same traces, seeds {SIM_SEEDS_ASAN}, ASan and UBSan',
               [asan, '--seeds', SIM_SEEDS_ASAN, *seconds(), '--expect', hashes], 'sim-asan', counts=False)
    for scenario, seeds in SIM_SCENARIOS.items():
        suite.step(f'{scenario}, seeds {seeds}, release build',
                   [release, '--scenario', scenario, '--seeds', seeds, *kept_seeds(scenario), *seconds()],
                   f'sim-{scenario}', counts=False)
    for log in ('sim-release', 'sim-asan', *(f'sim-{scenario}' for scenario in SIM_SCENARIOS)):
        with open(os.path.join(LOGS, log + '.log'), encoding='utf-8', errors='replace') as file:
            for line in re.findall(r'^sim: \d+ (?:runs|trace).*$', file.read().replace('\r', '\n'), re.M):
                print('  ' + line, flush=True)


def clients(suite):
    """Stock clients against the broker with sanitizers; what they need is fetched before the clock starts."""
    broker = os.path.join('build', 'asan', 'src', 'ottla')
    if not built(suite, 'asan'):
        return
    since = time.monotonic()
    code, output = suite.command(['integration/setup'], 'clients-setup', FETCH_SECONDS_MAX, unbudgeted=True)
    if code != 0:
        print_tail(output, 'clients-setup')
    print(f'  fetched what they need ({time.monotonic() - since:.0f} s, not of their share)', flush=True)
    suite.started = time.monotonic()
    suite.step('stock clients and tools, ASan and UBSan', ['integration/run', broker, '-k', f'^(?!{MEMORY_TESTS}|{"|".join(FAULT_SUITES)})'], 'clients')
    if built(suite, 'release'):
        suite.step('resident memory, release build', ['integration/run', 'build/release/src/ottla', '-k', MEMORY_TESTS],
                   'clients-memory')
        suite.step('benchmark, tiny', ['tools/bench/run', '--tiny'], 'bench')
        suite.step('benchmark of groups, tiny', ['tools/bench/groups', '--tiny'], 'bench-groups')
        suite.step('turns of groups, tiny', ['tools/bench/group_turns', '--tiny'], 'bench-group-turns')
        suite.step('turns of large frames, tiny', ['tools/bench/frame_turns', '--tiny'], 'bench-frame-turns')
    if built(suite, 'release') and built(suite, 'tsan'):
        suite.step('stock clients, TSan', ['integration/run', 'build/tsan/src/ottla', '--build', 'build/release', '-k', RACE_TESTS],
                   'clients-tsan', counts=False)
    name_not_run(suite, 'clients')


def name_not_run(suite, log):
    """What integration/run left out; it has counted it."""
    with open(os.path.join(LOGS, log + '.log'), encoding='utf-8', errors='replace') as file:
        for name, why in re.findall(r'^---- (\S+): not run: (.*)$', file.read(), re.M):
            print(f'  not run: {name}: {why}' + (' (a failure, since CI=true)' if CI else ''), flush=True)
            suite.not_run.append(name)


def faults(suite):
    """Disks that fill up and lose power, on file systems of the tests' own."""
    if not all([built(suite, flavour) for flavour in ('release', 'asan')]):
        return
    suite.step('a full disk, ASan and UBSan', ['integration/run', 'build/asan/src/ottla', 'full_disk'], 'faults-full-disk')
    suite.step('power cuts on ext4 and XFS, release build', ['integration/run', 'build/release/src/ottla', 'power_cut'],
               'faults-power-cut')
    for log in ('faults-full-disk', 'faults-power-cut'):
        name_not_run(suite, log)
    with open(os.path.join(LOGS, 'faults-power-cut.log'), encoding='utf-8', errors='replace') as file:
        for line in re.findall(r'^ +(\w+: \d+ cuts.*)$', file.read(), re.M):
            print('  ' + line, flush=True)


def fuzz(suite):
    """Each target from its corpus, for its share of the time; the tree's corpus is read, never written."""
    if not built(suite, 'asan'):
        return
    folder = os.path.join(TOP, 'build', 'asan', 'tests', 'fuzz')
    targets = sorted(name for name in (os.listdir(folder) if os.path.isdir(folder) else ())
                     if name.startswith('fuzz_') and os.access(os.path.join(folder, name), os.X_OK)
                     and os.path.isfile(os.path.join(folder, name)))
    if not targets:
        suite.failed += 1
        print('  no targets in build/asan', flush=True)
        return
    seconds = max(5, int((BUDGET['fuzz'] - FUZZ_SLACK_SECONDS) / len(targets)) - FUZZ_START_SECONDS)
    for target in targets:
        found = os.path.join(TOP, 'build', 'fuzz', target)
        corpus = os.path.join('tests', 'fuzz', 'corpus', target.removeprefix('fuzz_'))
        os.makedirs(found, exist_ok=True)
        known = [corpus] if os.path.isdir(os.path.join(TOP, corpus)) else []
        suite.step(f'{target}, {seconds} s', [os.path.join(folder, target), f'-max_total_time={seconds}', '-seed=1', '-timeout=10',
                                              '-rss_limit_mb=2048', f'-artifact_prefix={found}/', '-print_final_stats=1', found,
                                              *known], target)


SUITES = {'builds': builds, 'unit': unit, 'simulation': simulation, 'clients': clients, 'faults': faults, 'fuzz': fuzz}


def main(names):
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        sys.exit(f'tools/test: no suite {", ".join(unknown)}; there are {", ".join(SUITES)}')
    if not re.fullmatch(r'\d{1,3}(\.\d+)?', PATIENCE) or float(PATIENCE) <= 0:
        sys.exit(f'tools/test: OTTLA_TEST_PATIENCE={PATIENCE} is no factor such as 2 or 0.5')
    try:
        os.makedirs(LOGS, exist_ok=True)
    except OSError as error:
        sys.exit(f'tools/test: {error.filename}: {error.strerror}')
    started = time.monotonic()
    passed = failed = 0
    summary = []
    for name, run in SUITES.items():
        if names and name not in names:
            continue
        print(f'{name}:', flush=True)
        suite = Suite(name)
        run(suite)
        passed += suite.passed
        failed += suite.failed
        summary.append(f'{name:<12} {suite.passed:>6} passed {suite.failed:>4} failed  '
                       f'{time.monotonic() - suite.started:>4.0f} of {limit(name):.0f} s'
                       + (f'  not run: {", ".join(suite.not_run)}' if suite.not_run else ''))
    print('\n'.join(['', *summary, f'all in {time.monotonic() - started:.0f} s']))
    print(f'{passed} passed, {failed} failed')
    return 0 if failed == 0 and passed > 0 else 1


if __name__ == '__main__':
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit('tools/test: stopped')
