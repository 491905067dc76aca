"""Counts the syncs that SQLite asks for: a number without noise, whatever the disk does."""

import contextlib
from collections.abc import Iterator

import apsw


class SyncCounter(apsw.VFS):
    """The platform's file system for SQLite, with every sync of a file counted."""

    def __init__(self) -> None:
        self.count = 0
        self.platform = apsw.vfs_names()[0]
        super().__init__("sync_counter", self.platform, makedefault=True)

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, counter: SyncCounter, name, flags) -> None:
        self._counter = counter
        super().__init__(counter.platform, name, flags)

    def xSync(self, flags):  # noqa: N802 - SQLite's name
        self._counter.count += 1
        super().xSync(flags)


@contextlib.contextmanager
def counted_syncs() -> Iterator[SyncCounter]:
    """Databases that are opened inside are counted."""
    counter = SyncCounter()
    try:
        yield counter
    finally:
        counter.unregister()
