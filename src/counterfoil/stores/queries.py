"""What is read of a SQLite store, row by row: each question with the rows that answer it.

SQLite keeps anything in any column, and a file may have been altered: what is read as a type was checked to be one.
"""

from typing import Any

import apsw
import msgspec

from counterfoil.core.clock import Instant
from counterfoil.core.events import NAMES_AN_ARTIFACT, Record
from counterfoil.errors import JournalDamagedError
from counterfoil.store import Chunk, Head, Message, Query, Stream, Timer, Worker

_HEADS = """
SELECT key, id, workflow, status, reason, tags, epoch, owner, last_seq, head, created, updated, totals FROM runs
"""
_WALK = """
WITH RECURSIVE walk(id, prev) AS (
    SELECT e.id, e.prev FROM runs AS r CROSS JOIN events AS e ON e.id = r.head_id WHERE r.key = ?
    UNION ALL
    SELECT e.id, e.prev FROM walk AS w CROSS JOIN events AS e ON e.id = w.prev AND e.id < w.id)
SELECT e.seq, CAST(e.envelope AS BLOB), CAST(e.commitment AS BLOB), CAST(e.salt AS BLOB),
       CAST(e.body AS BLOB), CAST(e.hash AS BLOB)
  FROM walk CROSS JOIN events AS e ON e.id = walk.id
"""
_REFERENCES = """
SELECT r.key, e.seq, CAST(e.envelope AS BLOB), CAST(e.commitment AS BLOB), CAST(e.salt AS BLOB),
       CAST(e.body AS BLOB), CAST(e.hash AS BLOB)
  FROM events AS e JOIN runs AS r ON r.id = e.run
 WHERE instr(CAST(e.envelope AS BLOB), ?) OR instr(CAST(e.envelope AS BLOB), ?)
 ORDER BY e.run, e.seq
"""
_LISTING = """
 WHERE (:before IS NULL OR id < :before)
   AND (:workflow IS NULL OR workflow = :workflow)
   AND (:statuses = '[]' OR status IN (SELECT value FROM json_each(:statuses)))
   AND NOT EXISTS (SELECT 1 FROM json_each(:tags) AS wanted WHERE NOT EXISTS (
       SELECT 1 FROM json_each(runs.tags) AS found
        WHERE found.key = wanted.key AND found.value = wanted.value))
 ORDER BY id DESC LIMIT :limit
"""
_CHUNKS = """
SELECT CAST(step AS TEXT), CAST(try AS INTEGER), CAST(number AS INTEGER), CAST(text AS TEXT) FROM stream_chunks
 WHERE run = (SELECT id FROM runs WHERE key = :run) AND number > :after
   AND (:step IS NULL OR (step = :step AND try = :try))
 ORDER BY step, try, number
"""
_INBOX = """
SELECT kind, key, body, who, time FROM inbox
 WHERE taken = 0 AND run = (SELECT id FROM runs WHERE key = ?) ORDER BY id
"""
_TIMERS = """
SELECT r.key, t.step, t.due FROM timers AS t JOIN runs AS r ON r.id = t.run
 WHERE t.due <= ? ORDER BY t.due, r.key, t.step
"""


def head(db: apsw.Connection, run: str) -> Head | None:
    """The run's row, or None."""
    row = db.execute(_HEADS + " WHERE key = ?", (run,)).fetchone()
    return _as_head(row) if row else None


def heads(db: apsw.Connection, query: Query) -> list[Head]:
    """Runs, newest first."""
    wanted = {
        "statuses": msgspec.json.encode(list(query.statuses)).decode(),
        "tags": msgspec.json.encode(query.tags).decode(),
    }
    asked = {"before": query.before, "workflow": query.workflow, "limit": query.limit, **wanted}
    return [_as_head(row) for row in db.execute(_HEADS + _LISTING, asked)]


def records(db: apsw.Connection, run: str) -> list[Record]:
    """All events of a run, in order: walked from its head backwards, each row naming the one before."""
    rows = db.execute(_WALK, (run,)).fetchall()
    return [Record(*row) for row in reversed(rows)]


def chunks(db: apsw.Connection, run: str, *, stream: Stream | None, after: int) -> list[Chunk]:
    """Provisional pieces, of all streams of a run or of one."""
    step, number = (stream.step, stream.try_number) if stream else (None, None)
    rows: list[Any] = db.execute(_CHUNKS, {"run": run, "after": after, "step": step, "try": number}).fetchall()
    return [Chunk(Stream(*of), number, text) for *of, number, text in rows]


def references(db: apsw.Connection) -> list[tuple[str, Record]]:
    """Every event that names an artifact, with its run."""
    rows: list[Any] = db.execute(_REFERENCES, NAMES_AN_ARTIFACT).fetchall()
    return [(run, Record(*record)) for run, *record in rows]


def inbox(db: apsw.Connection, run: str) -> list[Message]:
    """Messages that no event has taken in yet, oldest first."""
    rows: list[Any] = db.execute(_INBOX, (run,)).fetchall()
    return [Message(run=run, kind=kind, id=key, body=body, who=who, time=time) for kind, key, body, who, time in rows]


def timers(db: apsw.Connection, due_until: Instant) -> list[tuple[str, Timer]]:
    """Runs with a timer due by then, in due order."""
    rows: list[Any] = db.execute(_TIMERS, (due_until,)).fetchall()
    return [(run, Timer(step, due)) for run, step, due in rows]


def worker(db: apsw.Connection, id: str) -> Worker | None:
    """A worker's row, or None."""
    row = db.execute("SELECT id, host, until FROM workers WHERE id = ?", (id,)).fetchone()
    return Worker(id=row[0], host=row[1], until=row[2]) if row else None


def _as_head(row: Any) -> Head:
    """The head in a row of _HEADS, each part of the type that we write: SQLite keeps anything in any column."""
    found = dict(zip(Head.__struct_fields__, row, strict=True))
    try:
        return msgspec.convert(found | {"tags": msgspec.json.decode(found["tags"])}, Head, builtin_types=(bytes,))
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        run, seq = str(found["run"]), found["seq"] if isinstance(found["seq"], int) else 0
        raise JournalDamagedError(run=run, seq=seq, problem=f"its run's row can't be read: {error}") from error
