"""Real power cuts: file systems of the test's own are shut down under load, without a flush of data or journal, mounted
again, and the broker has to have everything that was acknowledged as synced.

No client of other people's: `probe` of the build writes, notes and looks.
"""

import os
import random
import re
import subprocess
import time

from harness import broker, volumes
from harness.patience import PATIENCE_SECONDS
from harness.runner import Different, ottla_only

NEEDS = ("ext4", "xfs")
NEEDS_BROKER = False
CUTS = 85                               # of each kind, and 15 in starts; tools/power_cuts makes as many as one likes
CUTS_A_VOLUME = 25                      # then an empty one: what has piled up is read after every cut
VOLUME_BYTES = 192 << 20
LOAD_SECONDS = (0.01, 0.25)
IN_START_PERCENT = 15                   # of cuts that hit a broker which is just coming up
IN_START_SECONDS = 0.03


class Cuts:
    """One volume after the other, with a broker on it that dies again and again."""

    def __init__(self, env, kind, seed):
        self.env, self.kind, self.seed = env, kind, seed
        self.chance = random.Random(f"{kind} {seed}")
        self.probe = env.client_program("integration/power_cut/probe")
        self.binary = env.new_broker().binary
        self.cuts = self.cuts_in_start = self.acked = 0
        self.restart_seconds = []

    def ask(self, *words):
        done = subprocess.run([str(word) for word in (self.probe, *words)], capture_output=True, text=True,
                              timeout=PATIENCE_SECONDS, check=False)
        if done.returncode != 0:
            raise Different(f"{self.node.log_tail()}\nseed {self.seed}, {self.kind}, cut {self.cuts}: {done.stderr.strip()}")
        return done.stdout

    def start(self):
        self.restart_seconds.append(self.node.start())

    def die(self):
        """The power goes; what is left of the process sees only errors from here on."""
        self.volume.cut()
        self.node.kill()
        self.volume.unmount()
        self.volume.mount()
        self.cuts += 1

    def cut_under_load(self):
        load = subprocess.Popen([self.probe, "load", str(self.node.port), self.notes, str(self.chance.getrandbits(48))],
                                stdout=subprocess.PIPE, text=True)
        time.sleep(self.chance.uniform(*LOAD_SECONDS))
        sure = self.notes.stat().st_size
        self.die()
        load.communicate(timeout=PATIENCE_SECONDS)
        self.doubt(sure)

    def doubt(self, sure):
        """What was noted once the cut had begun proves nothing: of ext4 a sync that is under way then may return 0 for
        bytes that are not there afterwards. What was acknowledged before it has to be there."""
        notes = self.notes.read_bytes()
        sure = notes.rfind(b"\n", 0, sure) + 1
        late = [line.split(b" ", 1) for line in notes[sure:].splitlines()]
        maybe = [b"going " + rest + b"\n" for kind, rest in late if kind in (b"made", b"going")]
        self.notes.write_bytes(notes[:sure] + b"".join(maybe))
        self.acked = sum(int(line.split()[4]) for line in notes[:sure].splitlines() if line.startswith(b"synced"))

    def cut_in_start(self):
        """While it recovers from the last one, or lays out what is new."""
        self.node.prepare()
        with self.node.log_path.open("ab") as log:
            self.node.process = subprocess.Popen(self.node.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                 cwd=self.node.home)
        time.sleep(self.chance.uniform(0, IN_START_SECONDS))
        self.die()
        self.cuts_in_start += 1

    def one_volume(self, cuts):
        folder = self.env.folder / f"{self.kind}-{self.cuts}"
        folder.mkdir()
        self.notes = folder / "notes"
        self.notes.touch()
        with volumes.volume(self.kind, folder, VOLUME_BYTES) as self.volume:
            self.node = broker.Ottla(self.binary, folder / "home", {
                "log.dirs": self.volume.path / "data", "ottla.disk.reserve.bytes": 1 << 20,
                "ottla.disk.refuse.bytes": 0, "ottla.journal.bytes": 4 << 20})
            try:
                self.start()
                self.ask("make", self.node.port)
                for _ in range(cuts):
                    self.cut_under_load()
                    while self.chance.randrange(100) < IN_START_PERCENT:
                        self.cut_in_start()
                    self.start()
                    self.ask("check", self.node.port, self.notes)
            finally:
                self.node.kill()

    def run(self, cuts):
        acked = 0
        for done in range(0, cuts, CUTS_A_VOLUME):
            self.one_volume(min(CUTS_A_VOLUME, cuts - done))
            acked += self.acked
        slowest = max(self.restart_seconds)
        print(f"     {self.kind}: {self.cuts} cuts, {self.cuts_in_start} of them in a start, {acked} records "
              f"acknowledged as synced, 0 lost; the slowest start took {slowest * 1000:.0f} ms", flush=True)


def cuts_wanted():
    """tools/power_cuts says how many."""
    return int(os.environ.get("OTTLA_POWER_CUTS") or CUTS), os.environ.get("OTTLA_POWER_CUTS_SEED") or "1"


@ottla_only
def test_ext4(env):
    """ext4 with its journal: no acknowledged record and no acknowledged topic is lost, nothing torn is served."""
    count, seed = cuts_wanted()
    Cuts(env, "ext4", seed).run(count)


@ottla_only
def test_xfs(env):
    """XFS: likewise."""
    count, seed = cuts_wanted()
    Cuts(env, "xfs", seed).run(count)
