"""What comes back of a request, noted while the client reads it: digest and size, and the bytes up to a limit.

Law: the client sees what it would have seen, as lazily: the same pieces, the same exceptions. One thing is added: where
a model's stream ends without the mark by which its protocol says that it is whole, the reader gets StreamCutError in
place of the end. A reader that stops by itself is told nothing.
"""

import hashlib
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any

from counterfoil.core.marks import Splitter, is_end, is_error
from counterfoil.errors import StreamCutError

KEPT_BYTES_MAX = 8 * 1024 * 1024
"""Of a body that may be a model's answer. Of a longer one only digest and size are known."""

EVENTS = "text/event-stream"
_ZLIB_OR_GZIP = 47
_INFLATED = frozenset({"gzip", "x-gzip", "deflate"})
_ENDS_BY_A_MARK = re.compile(r'chat\.completion\.chunk|message_start|"response\.created"|"candidates"')
_MODEL_PATH = re.compile(r"/chat/completions$|/responses$|/messages$|:streamGenerateContent$")


class _Sum:
    """Digest and size of bytes as they pass."""

    def __init__(self) -> None:
        self._hash, self.size = hashlib.sha256(), 0

    def feed(self, piece: bytes) -> None:
        self._hash.update(piece)
        self.size += len(piece)

    def digest(self) -> str:
        return self._hash.hexdigest()


class Body:
    """A body as far as it has come. Fed by one reader at a time."""

    def __init__(
        self,
        media_type: str = "",
        encoding: str = "",
        *,
        decode: Callable[[bytes], bytes] | None = None,
        url: str = "",
        length: int | None = None,
    ) -> None:
        """`decode` decodes a whole body, for encodings that are not known here; `length` is the stated one."""
        self.is_whole, self.error, self._is_closed = False, "", False
        self.is_streamed = media_type == EVENTS
        self._url, self._decode, self._length = url, decode, length
        self._raw, self._plain = _Sum(), _Sum()
        self._inflate = zlib.decompressobj(_ZLIB_OR_GZIP) if encoding in _INFLATED else None
        self._opaque = None if encoding in _INFLATED | {"", "identity"} else bytearray()  # until it can be decoded
        self._kept = bytearray() if self.is_streamed or "json" in media_type else None
        self._marks = _Marks(url) if self.is_streamed else None

    def feed(self, piece: bytes) -> None:
        """Note the next bytes."""
        is_first = not self._raw.size
        self._raw.feed(piece)
        if self._inflate and self._opaque is None:
            try:
                piece = self._inflate.decompress(piece)
            except zlib.error:  # deflate without its header, or broken: the client will say
                self._opaque = bytearray() if is_first else bytearray(KEPT_BYTES_MAX)
        if self._opaque is None:
            self._take(piece)
        elif len(self._opaque) + len(piece) <= KEPT_BYTES_MAX:
            self._opaque += piece
        else:
            self._decode = None

    def end(self) -> None:
        """It has come to its end. Raises StreamCutError when that is not the end by its protocol."""
        self._settle()
        if self._marks and self._marks.is_missing():
            self.error = StreamCutError.__name__
            raise StreamCutError(url=self._url, events=self._marks.count)
        self.is_whole = True

    def fail(self, error: BaseException) -> None:
        """Reading it failed."""
        self.error = self.error or type(error).__name__

    def close(self) -> None:
        """The reader has closed it. It is whole if nothing was left to come."""
        if self.is_over:
            return
        self._is_closed = True
        self._settle()
        has_mark = self._marks is not None and self._marks.has_end
        self.is_whole = has_mark or self._raw.size == self._length

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self._is_closed or self.is_whole or bool(self.error)

    @property
    def is_undecoded(self) -> bool:
        """Whether digest and size are those of the bytes as they came."""
        return self._opaque is not None

    @property
    def digest(self) -> str:
        """SHA-256 in hexadecimal."""
        return (self._raw if self.is_undecoded else self._plain).digest()

    @property
    def size(self) -> int:
        """In bytes."""
        return (self._raw if self.is_undecoded else self._plain).size

    @property
    def content(self) -> bytes:
        """What was kept of it."""
        return bytes(self._kept or b"")

    def _take(self, piece: bytes) -> None:
        self._plain.feed(piece)
        if self._kept is not None and self._plain.size <= KEPT_BYTES_MAX:
            self._kept += piece
        elif self._kept:
            self._kept = None
        if self._marks:
            self._marks.feed(piece)

    def _settle(self) -> None:
        """Decode what could not be decoded as it came."""
        if self._opaque is None or self._decode is None:
            return
        decode, self._decode = self._decode, None
        try:
            plain = decode(bytes(self._opaque))
        except Exception:  # noqa: BLE001 - of a foreign decoder; the client meets the same
            return
        self._opaque = None
        self._take(plain)


class _Marks:
    """Looks for the end mark of a stream's protocol, if it has one that we know."""

    def __init__(self, url: str) -> None:
        self._splitter, self._has_mark = Splitter(), bool(_MODEL_PATH.search(url))
        self.has_end = self._has_error = False
        self.count = 0

    def feed(self, piece: bytes) -> None:
        for event in self._splitter.feed(piece):
            self.count += 1
            self._look(event)

    def is_missing(self) -> bool:
        self._look(self._splitter.rest())
        return self._has_mark and not self.has_end and not self._has_error

    def _look(self, event: str) -> None:
        self._has_mark = self._has_mark or bool(_ENDS_BY_A_MARK.search(event))
        self.has_end = self.has_end or is_end(event)
        self._has_error = self._has_error or is_error(event)


class _Tee:
    """Stands before a client's own stream of bytes, and notes what passes."""

    def __init__(self, inner: Any, body: Body) -> None:
        self.inner, self._body = inner, body

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class SyncTee(_Tee):
    """Of a plain client."""

    def __iter__(self) -> Iterator[bytes]:
        try:
            for piece in self.inner:
                self._body.feed(piece)
                yield piece
        except GeneratorExit:
            raise
        except BaseException as error:
            self._body.fail(error)
            raise
        self._body.end()

    def close(self) -> None:
        """As the client's own."""
        try:
            self.inner.close()
        finally:
            self._body.close()


class AsyncTee(_Tee):
    """Of an async client."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = self.inner.__aiter__()
        try:
            async for piece in pieces:
                self._body.feed(piece)
                yield piece
        except GeneratorExit:
            raise
        except BaseException as error:
            self._body.fail(error)
            raise
        finally:
            if isinstance(pieces, AsyncGenerator):
                await pieces.aclose()
        self._body.end()

    async def aclose(self) -> None:
        """As the client's own."""
        try:
            await self.inner.aclose()
        finally:
            self._body.close()
