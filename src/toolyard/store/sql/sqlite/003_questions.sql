-- What calls ask their clients, in the order of `number`. What was answered is in `answers`.
CREATE TABLE questions (
    seq INTEGER NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    question BLOB NOT NULL,
    asked_at REAL NOT NULL,
    PRIMARY KEY (seq, name),
    UNIQUE (seq, number)
) WITHOUT ROWID;

-- What was told of a call while it ran.
CREATE TABLE call_events (
    seq INTEGER NOT NULL,
    number INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (seq, number)
) WITHOUT ROWID;

-- Things kept for callers. They may be large, and so are kept beside the index of their keys, not in it.
CREATE TABLE notes (
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    name TEXT NOT NULL,
    data BLOB NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (kind, tenant, subject, name)
);
CREATE INDEX notes_by_age ON notes (expires_at);
