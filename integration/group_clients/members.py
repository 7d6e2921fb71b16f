"""A process with group members in it, one program for each language; all of them are spoken to in one way.

Commands, a line each:

    open name=N topic=T group=G protocol=classic|consumer [assignor=A] [instance=I] [pattern=P] session_ms=S
    close name=N            it leaves as its client does when it is closed
    (end of input)          all are closed, then the process ends

What is said, a line each, with the member's name in front:

    has T-0,T-1             what it holds, whenever its client called it back because of a rebalance
    read T-0 OFFSET VALUE   a record
    committed N             the offsets of all N records that it has read are committed
    closed
    failed TEXT             it is over, and should not be
"""

import os
import subprocess
import tempfile
import threading
import time

from harness import cache, tools
from harness.patience import PATIENCE_SECONDS
from harness.runner import Different

SESSION_MS = 10_000                     # until who is dead is dead to its group
INTERVAL_SECONDS = 0.02
ERROR_BYTES = 1000                      # of what a program wrote besides, shown where it failed
BASE = cache.INTEGRATION / "group_clients"


def command(client, bootstrap):
    """How a client's program is started."""
    if client == "java":
        return ["java", *tools.java_options(), "GroupMember", bootstrap]
    if client in ("franz-go", "sarama"):
        return [cache.go_members(), client, bootstrap]
    return [cache.python_venv() / "bin/python", BASE / "python_member.py", client, bootstrap]


class Member:
    """What one member has said so far."""

    def __init__(self):
        self.held = set()
        self.told = 0                   # how often it was called back
        self.read = []                  # (place, offset, value)
        self.committed = 0
        self.over = None                # "closed", or how it failed

    def take(self, verb, rest):
        if verb == "has":
            self.held = set(filter(None, rest.split(",")))
            self.told += 1
        elif verb == "read":
            place, offset, value = rest.split(" ")
            self.read.append((place, int(offset), value))
        elif verb == "committed":
            self.committed = int(rest)
        else:
            self.over = f"{verb} {rest}".strip()


class Process:
    """A client's program, with the members that were opened in it."""

    def __init__(self, client, node):
        self.members = {}
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(part) for part in command(client, node.bootstrap)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True, bufsize=1)
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def _listen(self):
        for line in self.process.stdout:
            name, _, said = line.rstrip("\n").partition(" ")
            self.members[name].take(*said.partition(" ")[::2])

    def open(self, name, session_ms=SESSION_MS, **how):
        """A member begins; what it will have said."""
        member = self.members[name] = Member()
        words = " ".join(f"{key}={value}" for key, value in how.items() if value is not None)
        self.process.stdin.write(f"open name={name} session_ms={session_ms} {words}\n")
        return member

    def close(self, name):
        self.process.stdin.write(f"close name={name}\n")
        return self.members[name]

    def kill(self):
        """kill -9, as a crash."""
        self.process.kill()
        self.process.wait()
        self.listener.join()

    def end(self):
        """All members leave; the process must end by itself."""
        self.process.stdin.close()
        try:
            code = self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise Different(f"the clients did not end in {PATIENCE_SECONDS} s: {self}") from None
        self.listener.join()
        if code != 0 or any(member.over not in (None, "closed") for member in self.members.values()):
            raise Different(f"the clients ended with {code}: {self}")

    def __str__(self):
        names = "; ".join(f"{name} has {sorted(member.held)}, read {len(member.read)}, committed {member.committed}"
                          f"{', ' + member.over if member.over else ''}" for name, member in self.members.items())
        size = self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, size - ERROR_BYTES))
        return f"{names}\n{self.errors.read().decode(errors='replace')}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.errors.close()


def until(what, happened, *processes):
    """Waits for something that the members do."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        failed = [member.over for process in processes for member in process.members.values()
                  if member.over and member.over != "closed"]
        if failed or time.monotonic() > deadline:
            raise Different(f"{what}: not in {PATIENCE_SECONDS} s: {failed}\n" + "\n".join(map(str, processes)))
        time.sleep(INTERVAL_SECONDS)
