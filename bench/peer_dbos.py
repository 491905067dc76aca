"""The peer: the same no-op steps in DBOS on SQLite, in a process of its own that is told what to do line by line.

As a program: `peer_dbos.py FOLDER`, then on standard input `RUNS STEPS CONCURRENCY`; each answer is one JSON line.
"""

import asyncio
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import Pace

NAME = "DBOS on SQLite"
TEXT = "x" * 198


class Dbos:
    """The other process."""

    def __init__(self, folder: Path) -> None:
        self._errors = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.problem: str | None = None
        if self._answer() is None:
            self._process.wait()
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").splitlines() or ["no answer"]
            self.problem = f"{NAME} did not start ({lines[-1][:120]}); `make bench` installs it"

    async def run(self, runs: int, steps: int, concurrency: int) -> Pace:
        """Runs of so many steps, so many at once."""
        print(runs, steps, concurrency, file=self._process.stdin, flush=True)
        answer = self._answer()
        if answer is None:
            msg = f"{NAME} ended early"
            raise RuntimeError(msg)
        return Pace(runs * steps / answer["seconds"], answer["cpu"] / runs / steps * 1e6)

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _answer(self) -> dict | None:
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        return None


def main(folder: str) -> None:
    if sqlite3.sqlite_version_info < (3, 42):  # its tables need unixepoch('subsec')
        import pysqlite3  # noqa: PLC0415

        sys.modules["sqlite3"] = pysqlite3
        sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2
    from dbos import DBOS  # noqa: PLC0415 - after the SQLite that it takes

    @DBOS.step()
    async def step(number: int) -> str:
        return TEXT

    @DBOS.workflow()
    async def loop(steps: int) -> None:
        for number in range(steps):
            await step(number)

    url = f"sqlite:///{folder}/dbos.db"
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR", "application_version": "1"})
    asyncio.run(_serve(DBOS, loop))
    DBOS.destroy()


async def _serve(dbos, loop) -> None:
    dbos.launch()
    await loop(1)
    print("{}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        runs, steps, concurrency = map(int, line.split())
        gate = asyncio.Semaphore(concurrency)

        async def one(gate=gate, steps=steps):
            async with gate:
                await loop(steps)

        begun, cpu = time.perf_counter(), _cpu()
        await asyncio.gather(*(one() for _ in range(runs)))
        print(json.dumps({"seconds": time.perf_counter() - begun, "cpu": _cpu() - cpu}), flush=True)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(sys.argv[1])
