"""Errors of the store, and of what it holds."""

from counterfoil.errors.root import CounterfoilError


class StoreError(CounterfoilError):
    """Something about the store."""

    code = "store"


class StoreUrlError(StoreError):
    """The URL names no store we know."""

    code = "store_url"
    sentence = "{url!r} is not a store: {problem}"
    advice = "Use sqlite:///relative.db, sqlite:////absolute/path.db or memory://."
    url: str
    problem: str


class StoreNewerError(StoreError):
    """The store was written by a newer release. It was not touched."""

    code = "store_newer"
    sentence = "{store} has schema {found}; this release knows up to {known}"
    advice = "Upgrade counterfoil to the release that wrote it, or open another store."
    store: str
    found: int
    known: int


class NotAStoreError(StoreError):
    """The file is not ours. It was not touched."""

    code = "not_a_store"
    sentence = "{store} is not a counterfoil store: {problem}"
    advice = "Name another file; a new one is made when there is none."
    store: str
    problem: str


class StoreUnavailableError(StoreError):
    """The store could not be read or written. Nothing that was acknowledged is lost."""

    code = "store_unavailable"
    sentence = "{store} can't be used: {problem}"
    advice = (
        "Mend the cause (disk space, permissions, a lock held by another program), then run the same command again."
    )
    store: str
    problem: str


class StoreClosedError(StoreError):
    """The journal was closed before this call."""

    code = "store_closed"
    sentence = "{store} is closed"
    advice = "Open it again: `async with counterfoil.open(url) as journal:`."
    store: str


class StaleEpochError(StoreError):
    """Another owner has taken the run over; this append was refused and nothing of it was kept (law J7)."""

    code = "stale_epoch"
    sentence = "run {run!r}: this owner (epoch {epoch}, revision {revision}) has been replaced"
    advice = "The new owner goes on with the run. Nothing is to be done here."
    run: str
    epoch: int
    revision: int


class JournalDamagedError(StoreError):
    """The stored bytes contradict themselves."""

    code = "journal_damaged"
    sentence = "run {run!r}, event {seq}: {problem}"
    advice = "`counterfoil verify {run}` lists the damage. Restore the store from a backup; do not edit it."
    run: str
    seq: int
    problem: str


class JournalUnreadableError(StoreError):
    """A replay-critical field of an event is missing or has another form."""

    code = "journal_unreadable"
    sentence = "run {run!r}, event {seq} ({type}): {problem}"
    advice = "This field is needed to replay the run. Restore it from a backup or an export."
    run: str
    seq: int
    type: str
    problem: str


class ArtifactError(StoreError):
    """An artifact can't be given. `run`, `seq` and `step` name the event that needs it, where that is known."""

    code = "artifact"
    where: str
    run: str | None
    seq: int | None
    step: str | None
    digest: str
    size_bytes: int


class ArtifactMissingError(ArtifactError):
    """The artifact is not in the store."""

    code = "artifact_missing"
    sentence = "{where}: the artifact {digest} ({size_bytes} bytes) is missing"
    advice = (
        "Restore it from a backup of the store: with SQLite, the folder of artifacts belongs to the file. "
        "`counterfoil doctor` lists all that is missing."
    )


class ArtifactAlteredError(ArtifactError):
    """What lies in the artifact's place is not what was stored. It was not used."""

    code = "artifact_altered"
    sentence = "{where}: the artifact {digest} ({size_bytes} bytes) is not what was stored"
    advice = (
        "Something else than counterfoil changed it. Restore it from a backup; `counterfoil doctor` lists all such."
    )
