-- Calls, one row each, in the order they came.
CREATE TABLE calls (
    seq INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    family TEXT NOT NULL,
    call_id TEXT NOT NULL,
    keyed INTEGER NOT NULL,
    session TEXT,
    wire TEXT NOT NULL,
    tool TEXT NOT NULL,
    reference TEXT NOT NULL,
    user_id TEXT,
    trace_id TEXT,
    input BLOB,
    input_blob INTEGER,
    fingerprint BLOB NOT NULL,
    sealed BLOB,
    on_lost TEXT NOT NULL,
    state TEXT NOT NULL,
    code TEXT,
    waiting_for TEXT,
    attempt INTEGER NOT NULL,
    holder TEXT,
    lease_until REAL,
    created_at REAL NOT NULL,
    started_at REAL,
    finished_at REAL,
    deadline_at REAL,
    duration_ms REAL,
    value BLOB,
    value_blob INTEGER,
    error BLOB,
    progress BLOB,
    effects TEXT
);
CREATE INDEX calls_of_caller ON calls (tenant, subject, call_id);
CREATE INDEX calls_by_age ON calls (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX calls_alive ON calls (state, tool, seq) WHERE state IN ('PENDING', 'PROCESSING');

-- Keys that are taken. A key outlives its call's payload, so that nothing is silently run again.
CREATE TABLE keys (
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    family TEXT NOT NULL,
    call_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    expires_at REAL NOT NULL,
    PRIMARY KEY (tenant, subject, family, call_id)
) WITHOUT ROWID;
CREATE INDEX keys_by_age ON keys (expires_at);

-- Inputs and results too large for a row.
CREATE TABLE blobs (id INTEGER PRIMARY KEY, data BLOB NOT NULL);

-- What a call's questions were answered with.
CREATE TABLE answers (
    seq INTEGER NOT NULL,
    name TEXT NOT NULL,
    answer BLOB NOT NULL,
    answered_at REAL NOT NULL,
    PRIMARY KEY (seq, name)
) WITHOUT ROWID;

-- Processes that run calls, and until when they are taken to be alive.
CREATE TABLE nodes (name TEXT PRIMARY KEY, lease_until REAL NOT NULL) WITHOUT ROWID;
