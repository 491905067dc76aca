-- What came of a streamed answer so far: no events, and gone once an event holds them all.
CREATE TABLE stream_chunks (
    run    INTEGER NOT NULL,
    step   TEXT NOT NULL,
    try    INTEGER NOT NULL,
    number INTEGER NOT NULL,           -- from 0
    text   TEXT NOT NULL,
    PRIMARY KEY (run, step, try, number)
) WITHOUT ROWID;
