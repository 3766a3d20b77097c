-- Calls that others work on, and the limits of every call.
ALTER TABLE calls ADD COLUMN queue TEXT NOT NULL DEFAULT 'node';
ALTER TABLE calls ADD COLUMN request TEXT;
ALTER TABLE calls ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN run_s REAL;
ALTER TABLE calls ADD COLUMN run_until REAL;
ALTER TABLE calls ADD COLUMN queue_until REAL;
ALTER TABLE calls ADD COLUMN seen_at REAL;
ALTER TABLE calls ADD COLUMN heartbeat REAL;
ALTER TABLE calls ADD COLUMN digest BLOB;

DROP INDEX calls_alive;
DROP INDEX calls_of_caller;
CREATE INDEX calls_by_id ON calls (call_id);
CREATE INDEX calls_of_caller ON calls (tenant, subject, seq);
CREATE INDEX calls_pending ON calls (reference, seq) WHERE state = 'PENDING';
CREATE INDEX calls_pending_of ON calls (tenant, subject, seq) WHERE state = 'PENDING' AND queue = 'session';
CREATE INDEX calls_processing ON calls (seq) WHERE state = 'PROCESSING';
CREATE UNIQUE INDEX calls_of_session ON calls (session, request) WHERE session IS NOT NULL;

-- `open`: how many of its requests have not ended. `revision`: the number of its newest event.
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    tools BLOB NOT NULL,
    metadata BLOB NOT NULL,
    created_at REAL NOT NULL,
    changed_at REAL NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0,
    turn INTEGER NOT NULL DEFAULT 0,
    open INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX sessions_by_age ON sessions (changed_at);

CREATE TABLE events (
    session TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;

-- Those who run tools elsewhere, and until when they are taken to be alive.
CREATE TABLE workers (
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    name TEXT NOT NULL,
    tools BLOB NOT NULL,
    revision INTEGER NOT NULL,
    lease_until REAL NOT NULL,
    PRIMARY KEY (tenant, subject, name)
) WITHOUT ROWID;
