"""A library that not every process has: exceptions of the shapes that libraries give them."""

import socket
import threading


class BoughtError(Exception):
    """The root."""


class KeywordsOnlyError(BoughtError):
    def __init__(self, *, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code, self.reason = code, reason


class HoldingError(BoughtError):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.connection, self.lock, self.code = socket.socket(), threading.Lock(), 7
        self.connection.close()


class BoughtGroup(ExceptionGroup[Exception], BoughtError):  # noqa: N818 - as groups are named
    """A group of its own."""

    code = 9


def make(kind: str) -> Exception:
    """The exception of this kind, as the library raises it."""
    if kind == "keywords":
        return KeywordsOnlyError(code=51, reason="no funds")
    if kind == "holding":
        return HoldingError("connection lost")
    if kind == "group":
        return BoughtGroup("two", [KeywordsOnlyError(code=1, reason="a"), ValueError("b")])
    error = KeywordsOnlyError(code=52, reason="outer")
    error.__cause__ = HoldingError("inner")
    return error
