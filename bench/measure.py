"""How things are measured here: in rounds, side by side, and not while others use the computer.

Absolute times do not travel and move by the minute on a shared computer; ratios of what ran in the same round do.
"""

import contextlib
import fcntl
import os
import resource
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

QUIET = 0.10
"""A round in which others used more than this share of the computer does not count, if enough others do."""
ROUNDS_MIN = 3
FLOOR_FILE_BYTES = 16 << 20


class Line(msgspec.Struct, kw_only=True, omit_defaults=False):
    """One figure, as it is printed."""

    name: str
    value: float | None
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    ratio: float | None = None
    target: str | None = None
    met: bool | None = None
    note: str | None = None


class Pace(msgspec.Struct):
    """How fast something went."""

    per_second: float
    cpu_us: float  # of this process, for each


class Round(msgspec.Struct):
    """What each contestant made, side by side, and how much others disturbed."""

    paces: dict[str, Pace]
    others: float

    def ratio(self, one: str, other: str) -> float:
        return self.paces[one].per_second / self.paces[other].per_second


class Timed:
    """Wall time, own CPU time and the share of the computer that others used while the block ran."""

    def __enter__(self):
        self._busy, self._own, self.begun = _busy_seconds(), _own_seconds(), time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds = time.perf_counter() - self.begun
        self.cpu = _own_seconds() - self._own
        others = _busy_seconds() - self._busy - self.cpu
        self.others = max(0.0, others) / (self.seconds * (os.cpu_count() or 1))

    def pace(self, count: int) -> Pace:
        return Pace(count / self.seconds, self.cpu / count * 1e6)


async def in_rounds(contestants: dict[str, Callable[[], Awaitable[Any]]], rounds: int) -> list[Round]:
    """Let each take its turn, several times; keep the quiet rounds.

    A contestant returns how much it did, or its own Pace when it is another process.
    """
    made = []
    for _ in range(rounds):
        paces, others = {}, 0.0
        for name, work in contestants.items():
            with Timed() as timed:
                done = await work()
            if isinstance(done, Pace):
                paces[name] = done
            else:
                paces[name] = timed.pace(done)
                others = max(others, timed.others)
        made.append(Round(paces, others))
    made.sort(key=lambda each: each.others)
    quiet = [each for each in made if each.others <= QUIET]
    return quiet if len(quiet) >= ROUNDS_MIN else made[:ROUNDS_MIN]


def median_of(rounds: list[Round], figure: Callable[[Round], float]) -> float:
    return statistics.median(map(figure, rounds))


def noise_of(rounds: list[Round]) -> str | None:
    """A remark when even the kept rounds were not quiet."""
    worst = max(each.others for each in rounds)
    return f"noisy: others used {worst:.0%} of the computer" if worst > QUIET else None


def floor(path: Path, size: int, count: int) -> int:
    """What the disk allows: one write and one sync for each, into a file that was written before."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_size != FLOOR_FILE_BYTES:
            os.pwrite(descriptor, bytes(FLOOR_FILE_BYTES), 0)
            os.fsync(descriptor)
        data = os.urandom(size)
        for number in range(count):
            os.pwrite(descriptor, data, number * size % (FLOOR_FILE_BYTES - size))
            _sync(descriptor)
    finally:
        os.close(descriptor)
    return count


def written_bytes() -> int:
    """Bytes that this process has sent to the disk, by the kernel's own count; -1 where it is not told."""
    with contextlib.suppress(OSError):
        text = Path("/proc/self/io").read_text(encoding="ascii")
        return int(dict(line.split(": ") for line in text.splitlines())["write_bytes"])
    return -1


def _sync(descriptor: int) -> None:
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: anything less stops at the drive's cache
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


def _own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _busy_seconds() -> float:
    """CPU time that the whole computer has used; where it is not told, our own."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=9)[1:9]
    except OSError:
        return _own_seconds()
    ticks = [int(field) for field in fields]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")  # without idle and waiting for the disk
