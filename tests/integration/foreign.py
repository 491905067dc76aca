"""An agent whose steps raise the exceptions of a library, run as a program: `foreign.py STORE COMMAND [KIND]`.

Says what came of it in JSON. It can be run where the library is not, and with OPEN=1, which lets the last step succeed.
"""

import asyncio
import json
import os
import sys
from typing import Any

import counterfoil
from counterfoil import Context, CounterfoilError, workflow

try:
    import bought
except ImportError:
    bought = None


CAUGHT: type[Exception] = bought.BoughtError if bought else LookupError


def fails(kind: str) -> None:
    raise bought.make(kind)


def opens() -> None:
    if "OPEN" not in os.environ:
        raise ValueError("not yet open")


def seen(error: BaseException | None) -> Any:
    """What code can see of an exception."""
    if error is None:
        return None
    return {
        "type": type(error).__name__,
        "text": str(error),
        "code": getattr(error, "code", None),
        "cause": seen(error.__cause__),
        "members": [seen(each) for each in getattr(error, "exceptions", ())],
    }


@workflow
async def catching(ctx: Context, kind: str) -> Any:
    try:
        await ctx.step(fails, kind)
    except CAUGHT as error:
        live = seen(error)
    await ctx.step(opens)
    return live


@workflow
async def failing(ctx: Context, kind: str) -> None:
    raise bought.make(kind)


async def answer(journal: counterfoil.Journal, command: str, *kind: str) -> Any:
    if command == "look":
        run = await journal.get("r")
        return [run.state, run.reason, await run.result(timeout=20)]
    if command == "resume":
        return await journal.resume("r")
    declared: Any = {"catch": catching, "fail": failing}[command]
    return await journal.run(declared, *kind, id="r")


async def main(store: str, *command: str) -> Any:
    async with counterfoil.open(store) as journal:
        try:
            return await answer(journal, *command)
        except CounterfoilError as error:
            return {"code": error.code, "reason": getattr(error, "reason", None), "cause": seen(error.__cause__)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(*sys.argv[1:]))))
