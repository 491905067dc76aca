-- Runs: one row each, where the journal ends and who drives it.
CREATE TABLE runs (
    id       INTEGER PRIMARY KEY,
    key      TEXT NOT NULL UNIQUE,
    workflow TEXT NOT NULL,
    status   TEXT NOT NULL,
    reason   TEXT,
    tags     TEXT NOT NULL,            -- JSON object of strings
    epoch    INTEGER NOT NULL,
    owner    TEXT,                     -- workers.id
    last_seq INTEGER NOT NULL,
    head_id  INTEGER NOT NULL,         -- events.id of the last event
    head     BLOB NOT NULL,            -- its hash
    created  INTEGER NOT NULL,         -- microseconds since 1970 UTC, like every time here
    updated  INTEGER NOT NULL          -- of the last change of status: off the hot path
);
CREATE INDEX runs_by_status ON runs (status, id);

-- Events in append order: each points at its run's previous one, so an append touches one page and no index.
CREATE TABLE events (
    id         INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    prev       INTEGER NOT NULL,       -- events.id, 0 for the first
    envelope   BLOB NOT NULL,
    commitment BLOB NOT NULL,
    salt       BLOB,
    body       BLOB,
    hash       BLOB NOT NULL
);
-- INSERT OR REPLACE removes without asking the triggers below, unless recursive_triggers is on.
CREATE TRIGGER events_are_new BEFORE INSERT ON events WHEN NEW.id <= (SELECT max(id) FROM events)
BEGIN SELECT RAISE(ABORT, 'events are never replaced'); END;
CREATE TRIGGER events_are_kept BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are never removed'); END;
CREATE TRIGGER events_are_fixed BEFORE UPDATE ON events
WHEN NEW.id IS NOT OLD.id OR NEW.run IS NOT OLD.run OR NEW.seq IS NOT OLD.seq OR NEW.prev IS NOT OLD.prev
  OR NEW.envelope IS NOT OLD.envelope OR NEW.commitment IS NOT OLD.commitment OR NEW.hash IS NOT OLD.hash
  OR (NEW.body IS NOT OLD.body AND NEW.body IS NOT NULL) OR (NEW.salt IS NOT OLD.salt AND NEW.salt IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'events are never changed; only a body may go'); END;

CREATE TABLE inbox (
    id    INTEGER PRIMARY KEY,
    run   INTEGER NOT NULL,
    kind  TEXT NOT NULL,
    key   TEXT NOT NULL UNIQUE,        -- the sender's message id
    body  BLOB NOT NULL,
    who   TEXT NOT NULL,
    time  INTEGER NOT NULL,
    taken INTEGER NOT NULL DEFAULT 0   -- 1 once an event has taken it in
);
CREATE INDEX inbox_waiting ON inbox (run, id) WHERE taken = 0;

CREATE TABLE timers (
    due  INTEGER NOT NULL,
    run  INTEGER NOT NULL,
    step TEXT NOT NULL,
    PRIMARY KEY (due, run, step)
) WITHOUT ROWID;

CREATE TABLE workers (
    id    TEXT PRIMARY KEY,
    host  TEXT NOT NULL,
    until INTEGER NOT NULL
) WITHOUT ROWID;
