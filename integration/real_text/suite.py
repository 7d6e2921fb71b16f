"""A real text through stock tools and back, compared byte for byte.

The text is what lies under /usr/share as UTF-8, without carriage returns and blank lines, which the
tools would change by themselves.
"""

import filecmp
import itertools
import os
import time
from pathlib import Path

from harness.runner import Different, long

NEEDS = ("kafka", "kcat")
SHORT_BYTES = 8 << 20
LINE_BYTES_MAX = 200_000
_numbers = itertools.count(1)


def clean(data):
    """The lines of a file that can pass, or nothing if it is no text."""
    if b"\0" in data[:65536]:
        return b""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return b""
    lines = data.replace(b"\r", b"").split(b"\n")
    kept = [line for line in lines if line.strip() and len(line) < LINE_BYTES_MAX]
    return b"\n".join(kept) + b"\n" if kept else b""


def text_files():
    """Regular files below /usr/share, always in the same order."""
    for folder, folders, names in os.walk("/usr/share"):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 20 << 20:
                yield path


def write_text(path, size):
    """A file of about `size` bytes; the text comes again if there is less of it. Its number of lines."""
    written = lines = 0
    with path.open("wb") as out:
        while written < size:
            before = written
            for source in text_files():
                try:
                    part = clean(source.read_bytes())
                except OSError:
                    continue
                out.write(part)
                written += len(part)
                lines += part.count(b"\n")
                if written >= size:
                    break
            if written == before:
                raise Different("/usr/share holds no text")
    return lines


def text(env, size):
    """(file, number of lines), made once for a run."""
    path = env.folder / f"text-{size}"
    if not path.exists():
        write_text(path, size)
    with path.open("rb") as lines:
        return path, sum(part.count(b"\n") for part in iter(lambda: lines.read(1 << 20), b""))


def compare(sent, read, what):
    if not filecmp.cmp(sent, read, shallow=False):
        raise Different(f"{what}: {sent.stat().st_size} bytes sent, {read.stat().st_size} bytes read, not the same")
    read.unlink()


def console_tools(env, size):
    """Console producer in, console consumer out."""
    sent, count = text(env, size)
    topic = env.topic(1, "text")
    read = env.folder / "console-output"
    started = time.monotonic()
    env.tool("kafka-console-producer", "--topic", topic, "--command-property", "acks=all", stdin_file=sent, seconds=600)
    middle = time.monotonic()
    env.tool("kafka-console-consumer", "--topic", topic, "--partition", 0, "--offset", "earliest",
             "--max-messages", count, "--timeout-ms", 60000, stdout_file=read, seconds=600)
    print(f"     console tools: {sent.stat().st_size} bytes, {count} lines, in {middle - started:.1f} s, "
          f"out {time.monotonic() - middle:.1f} s")
    compare(sent, read, "console tools")


def kcat(env, size, codec):
    """kcat in with a codec, kcat out."""
    sent, _ = text(env, size)
    topic = f"text-{codec}-{next(_numbers)}"
    read = env.folder / "kcat-output"
    started = time.monotonic()
    with sent.open("rb") as lines:
        env.run(["kcat", "-b", env.broker.bootstrap, "-P", "-t", topic, "-p", 0, "-z", codec], stdin=lines, seconds=600)
    middle = time.monotonic()
    with read.open("wb") as out:
        env.run(["kcat", "-b", env.broker.bootstrap, "-C", "-t", topic, "-p", 0, "-o", "beginning", "-e", "-q",
                 "-X", "check.crcs=true"], stdout=out, seconds=600)
    print(f"     kcat {codec}: in {middle - started:.1f} s, out {time.monotonic() - middle:.1f} s")
    compare(sent, read, f"kcat with {codec}")


def test_console_tools(env):
    """A text through the console producer comes back from the console consumer byte for byte."""
    console_tools(env, SHORT_BYTES)


def test_kcat_codecs(env):
    """The same through kcat with each codec."""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        kcat(env, SHORT_BYTES, codec)


@long
def test_console_tools_long(env):
    """The same with as much text as the command line says."""
    console_tools(env, env.counts["bytes"])


@long
def test_kcat_codecs_long(env):
    """The same with as much text as the command line says."""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        kcat(env, env.counts["bytes"], codec)
