"""The outside world in one place: the clock, randomness, ids, and what tells this host and process apart.

Everything else is given what it needs from here, so that a test can give it something else.
"""

import asyncio
import os
import platform
import random
import time
import uuid
from pathlib import Path

from counterfoil.core.clock import SECOND, Instant
from counterfoil.core.integrity import SALT_BYTES

CLOCK_CHECK_SECONDS = 30.0
"""A long wait looks at the wall clock this often, so that a jump of it is noticed."""

_SALTS_AT_ONCE = 256


class System:
    """The real world. Also the only Clock that reads the time."""

    def __init__(self) -> None:
        self.host = _host()
        self._salts = b""

    def now(self) -> Instant:
        """See Clock."""
        return time.time_ns() // 1000

    async def sleep_until(self, due: Instant) -> None:
        """See Clock."""
        while (left := (due - self.now()) / SECOND) > 0:  # noqa: ASYNC110 - time is what is waited for
            await asyncio.sleep(min(left, CLOCK_CHECK_SECONDS))

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps."""
        return time.monotonic()

    @property
    def process(self) -> int:
        """The process id."""
        return os.getpid()

    def salt(self) -> bytes:
        """Random bytes for one commitment."""
        if not self._salts:
            self._salts = os.urandom(SALT_BYTES * _SALTS_AT_ONCE)
        salt, self._salts = self._salts[:SALT_BYTES], self._salts[SALT_BYTES:]
        return salt

    def random(self) -> float:
        """A number from 0 up to, not including, 1."""
        return random.SystemRandom().random()

    def uuid(self) -> uuid.UUID:
        """A random UUID."""
        return uuid.uuid4()

    def new_id(self) -> str:
        """A UUIDv7: unique, and sorted by the time it was made."""
        milliseconds = time.time_ns() // 1_000_000
        value = (milliseconds << 80) | int.from_bytes(os.urandom(10), "big")
        value = value & ~(0xF << 76) | 0x7 << 76
        value = value & ~(0x3 << 62) | 0x2 << 62
        return str(uuid.UUID(int=value))


def _host() -> str:
    """Names the running kernel: file locks tell the truth among processes that share it, containers included."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return boot.read_text(encoding="ascii").strip() if boot.exists() else platform.node()
