"""Small file systems of a test's own: an image in a folder, mounted through a loop device.

Only what was mounted here is ever unmounted, shut down or removed. It takes root and loop devices; where they are
missing, the suites that need them are named as not run.
"""

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

from .patience import PATIENCE_SECONDS

MAKE = {"ext4": ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,nodiscard"], "xfs": ["mkfs.xfs", "-q", "-f", "-K"]}
BYTES_MIN = {"ext4": 8 << 20, "xfs": 300 << 20}
SPARE_BYTES = 512 << 20                     # of the disk that holds the image, which nobody else is to miss
SHUTDOWN = 0x8004587D                       # EXT4_IOC_SHUTDOWN, and XFS_IOC_GOINGDOWN: both _IOR('X', 125, __u32)
WITHOUT_FLUSH = 2                           # neither data nor journal: what a power cut does
NOBODY = 65534


def missing(kind):
    """Why no volume of this kind can be made here; None if it can."""
    if os.geteuid() != 0:
        return "root is needed to mount a volume"
    if not os.path.exists("/dev/loop-control"):
        return "there are no loop devices"
    for command in (MAKE[kind][0], "losetup", "mount", "umount"):
        if shutil.which(command) is None:
            return f"{command} is missing"
    known = Path("/proc/filesystems").read_text(encoding="ascii").split()
    return None if kind in known else f"the kernel has no {kind}"


def _run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(map(str, command))}` gave {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


class Volume:
    """One image and where it is mounted; owned by nobody in particular, so that who runs without root can write."""

    def __init__(self, kind, folder, size):
        self.kind = kind
        self.image = Path(folder) / f"{kind}.img"
        self.path = Path(folder) / f"{kind}-mounted"
        self.size = max(size, BYTES_MIN[kind])
        self.device = None
        self.mounted = False

    def make(self):
        """An empty file system, mounted."""
        self.image.parent.mkdir(parents=True, exist_ok=True)
        room = shutil.disk_usage(self.image.parent).free
        if room < self.size + SPARE_BYTES:
            raise RuntimeError(f"{self.image.parent} has {room} bytes free, {self.size + SPARE_BYTES} are needed")
        with self.image.open("wb") as image:
            image.truncate(self.size)
        _run(*MAKE[self.kind], self.image)
        self.path.mkdir(exist_ok=True)
        self.mount()
        os.chown(self.path, NOBODY, NOBODY)

    def mount(self):
        self.device = _run("losetup", "--find", "--show", self.image)
        try:
            _run("mount", "-t", self.kind, self.device, self.path)
        except RuntimeError:
            self._detach()
            raise
        self.mounted = True

    def _detach(self):
        if self.device is not None:
            subprocess.run(["losetup", "--detach", self.device], check=False, timeout=PATIENCE_SECONDS)
            self.device = None

    def unmount(self):
        """Whoever had files open there is gone, or about to be. (The path itself may say no more than EIO by now.)"""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.mounted:
            done = subprocess.run(["umount", str(self.path)], capture_output=True, text=True, check=False,
                                  timeout=PATIENCE_SECONDS)
            self.mounted = done.returncode != 0
            if self.mounted and time.monotonic() > deadline:
                raise RuntimeError(f"{self.path} stays mounted: {done.stderr}")
            if self.mounted:
                time.sleep(0.002)
        self._detach()

    def cut(self):
        """The power goes: from now on nothing reaches the image, and what was not synced is lost."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
        finally:
            os.close(folder)

    def free(self):
        """Bytes for an ordinary user."""
        got = os.statvfs(self.path)
        return got.f_bavail * got.f_frsize

    def remove(self):
        """In every case."""
        try:
            self.unmount()
        finally:
            if self.mounted:
                subprocess.run(["umount", "--lazy", str(self.path)], check=False, timeout=PATIENCE_SECONDS)
                self.mounted = False
            self._detach()
            self.image.unlink(missing_ok=True)


@contextlib.contextmanager
def volume(kind, folder, size):
    """An empty one for the length of a test."""
    made = Volume(kind, folder, size)
    try:
        made.make()
        yield made
    finally:
        made.remove()


def as_nobody(command):
    """The same command without root's reserve of blocks and without its rights."""
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *map(str, command)]
