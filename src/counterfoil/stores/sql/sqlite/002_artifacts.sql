-- Artifacts lie in files, named by HMAC under this key: a file's name lets nobody test a guess of what is in it.
CREATE TABLE artifact_key (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    key BLOB NOT NULL
);
INSERT INTO artifact_key VALUES (1, randomblob(32));
