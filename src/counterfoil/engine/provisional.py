"""Chunks of streamed answers on their way to the store, while nobody waits for them.

They are written together, a few times a second at most, so that a fast stream costs few commits. What waits here is
lost with the process. Once an event holds a stream's chunks, nothing of it is written any more. A write that is refused
stops the run, as one of an event does: another owner has it, or the store can't be written.
"""

import asyncio

from counterfoil.engine.ending import Ending
from counterfoil.engine.recorder import Recorder
from counterfoil.errors import CounterfoilError
from counterfoil.store import Chunk, Stream

WRITE_SECONDS = 0.05
"""Between two writes at least."""


class Provisional:
    """The chunks of one attempt."""

    def __init__(self, recorder: Recorder, ending: Ending) -> None:
        self._recorder, self._ending = recorder, ending
        self._counts: dict[Stream, int] = {}  # of the streams under way
        self._waiting: list[Chunk] = []
        self._timer: asyncio.TimerHandle | None = None
        self._writing: set[asyncio.Future[None]] = set()
        self.is_refused = False

    def begin(self, stream: Stream) -> None:
        """This stream is under way."""
        self._counts[stream] = 0

    def add(self, stream: Stream, text: str) -> None:
        """One more chunk. Dropped if the stream's outcome is on record."""
        number = self._counts.get(stream)
        if number is None:
            return
        self._counts[stream] = number + 1
        self._waiting.append(Chunk(stream, number, text))
        self._wait()

    def end(self, stream: Stream, *, is_held: bool) -> None:
        """Nothing more comes of it. `is_held`: an event has all that came, or will in a moment."""
        if self._counts.pop(stream, None) is None:
            return
        if is_held:
            self._waiting = [chunk for chunk in self._waiting if chunk.stream != stream]
        else:
            self._write()

    def _wait(self) -> None:
        if self._waiting and self._timer is None and not self._writing:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._write)

    def _write(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None
        if not self._waiting or self.is_refused or self._ending.abandoned.done():
            return
        chunks, self._waiting = self._waiting, []
        written = asyncio.ensure_future(self._recorder.put_chunks(chunks))
        self._writing.add(written)
        written.add_done_callback(self._was_written)

    def _was_written(self, written: "asyncio.Future[None]") -> None:
        self._writing.discard(written)
        error = written.exception()
        if isinstance(error, CounterfoilError):
            self._refuse(error)
        else:
            self._wait()

    def _refuse(self, error: CounterfoilError) -> None:
        self.is_refused = True
        if self._counts:
            self._ending.stop(str(error), error)
