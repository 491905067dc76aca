"""Artifacts as files: each content once, whole or not there, never changed.

    FOLDER/a/b/NAME    an artifact; NAME is the HMAC of its digest under the store's key, a and b its first two digits
    FOLDER/new/...     what is being written, or was when its process died

A content is written under `new`, synced, renamed into its place, and the folder of its place is synced; only then may
an event name it. A writer holds a lock on what it writes, so whoever opens the store can tell what the dead have left.
256 folders keep a listing quick for millions of files, and are soon all there: a new folder costs a sync of its own.
"""

import contextlib
import fcntl
import hmac
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

CHUNK_BYTES = 1 << 20
LOOK = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""A link is not followed, since what it points to may change; a pipe is not waited for."""


class _Spot(NamedTuple):
    """A file that is being written: its name, and its open and locked descriptor."""

    name: str
    descriptor: int


class ArtifactFiles:
    """The artifacts of one store, in one folder. It is made when there is something to put into it."""

    def __init__(self, folder: Path, key: bytes, mode: int) -> None:
        """`mode` says who may read and write the files, as for the store's own file."""
        self._folder, self._new, self._key = folder, folder / "new", key
        self._mode = stat.S_IMODE(mode) & 0o666
        self._synced: set[Path] = set()  # folders that are sure to be found again

    def keep(self, contents: Mapping[str, bytes]) -> dict[str, Exception]:
        """Put contents on disk, by digest. Returns what went wrong; all others are there to stay."""
        wrong: dict[str, Exception] = {}
        placed: dict[Path, list[str]] = {}
        for digest, content in contents.items():
            place = self._place(digest)
            try:
                self._put(place, content)
                placed.setdefault(place.parent, []).append(digest)
            except Exception as error:  # noqa: BLE001 - handed to whoever wanted it kept
                self._synced.clear()  # somebody may have removed the folders
                wrong[digest] = error
        for folder, digests in placed.items():
            try:
                _sync_folder(folder)
            except OSError as error:
                wrong |= dict.fromkeys(digests, error)
        return wrong

    def content(self, digest: str) -> bytes | None:
        """What lies in the place of this artifact; None when it is no plain file. Raises OSError."""
        place = self._place(digest)
        try:
            is_file = stat.S_ISREG(place.lstat().st_mode)
            descriptor = os.open(place, LOOK) if is_file else None
        except (FileNotFoundError, NotADirectoryError):
            return None
        if descriptor is None:
            return None
        with open(descriptor, "rb") as file:
            return file.read()

    def strays(self, digests: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Name and size of each file that is none of these artifacts."""
        known = {self._place(digest) for digest in digests}
        for folder, _, names in os.walk(self._folder):
            for path in sorted(Path(folder, name) for name in names):
                if path not in known:
                    with contextlib.suppress(FileNotFoundError):  # it has just been finished, or swept
                        yield str(path.relative_to(self._folder)), path.lstat().st_size

    def sweep(self) -> None:
        """Remove what processes that died had begun to write."""
        try:
            names = os.listdir(self._new)
        except OSError:  # there are none, or it is not ours to look
            return
        for name in names:
            with contextlib.suppress(OSError):  # it is being written, or was just finished
                self._remove_if_left(self._new / name)

    def _put(self, place: Path, content: bytes) -> None:
        self._make(self._new)
        self._make(place.parent)
        if not _holds(place, content):
            self._write(place, content)

    def _write(self, place: Path, content: bytes) -> None:
        spot = self._begin()
        try:
            os.fchmod(spot.descriptor, self._mode)
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(spot.descriptor, rest) :]
            _sync(spot.descriptor)
            os.replace(spot.name, place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(spot.name)
            raise
        finally:
            os.close(spot.descriptor)

    def _begin(self) -> _Spot:
        """A new file, locked. It may be swept before it is locked; then another one is made."""
        while True:
            descriptor, name = tempfile.mkstemp(dir=self._new)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                is_there = os.fstat(descriptor).st_nlink > 0
            except OSError:  # a file system without locks
                os.unlink(name)
                os.close(descriptor)
                raise
            if is_there:
                return _Spot(name, descriptor)
            os.close(descriptor)

    def _make(self, folder: Path) -> None:
        """Make sure of a folder: that it is there, and that it will be after a power cut."""
        if folder in self._synced:
            return
        if folder != self._folder:
            self._make(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(self._mode | (self._mode & 0o444) >> 2)
        _sync_folder(folder.parent)
        self._synced.add(folder)

    def _place(self, digest: str) -> Path:
        name = hmac.digest(self._key, digest.encode(), "sha256").hex()
        return self._folder / name[0] / name[1] / name

    @staticmethod
    def _remove_if_left(path: Path) -> None:
        descriptor = os.open(path, LOOK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(descriptor)


def _holds(place: Path, content: bytes) -> bool:
    """Whether the content is there already, and sure to stay: another process may not have synced it yet."""
    try:
        descriptor = os.open(place, LOOK)
    except OSError:
        return False
    try:
        return _is_same(descriptor, content) and _sync(descriptor)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _is_same(descriptor: int, content: bytes) -> bool:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_size != len(content):
        return False
    rest = memoryview(content)
    while rest:
        chunk = os.read(descriptor, CHUNK_BYTES)
        if not chunk or chunk != rest[: len(chunk)]:
            return False
        rest = rest[len(chunk) :]
    return True


def _sync(descriptor: int) -> bool:
    """Wait until it is on disk."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: anything less stops at the drive's cache
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)
    return True


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
