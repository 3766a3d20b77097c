-- Blocks of calls that have ended, many in a row (`store/blocks.py`). Their numbers are of the same series as those of
-- `calls`; `clock_offset` is how far the ledger's clock was ahead of the clock by which the lines have their times.
CREATE TABLE blocks (
    last INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    first_id TEXT NOT NULL,
    last_id TEXT NOT NULL,
    ids BLOB NOT NULL,
    about BLOB NOT NULL,
    format INTEGER NOT NULL,
    written_at REAL NOT NULL,
    clock_offset REAL NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX blocks_by_id ON blocks (first_id, last_id);
CREATE INDEX blocks_by_age ON blocks (written_at);

-- Whose calls are in a block, and what each caller is charged for them.
CREATE TABLE block_callers (
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    last INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    charge INTEGER NOT NULL,
    PRIMARY KEY (tenant, subject, last)
) WITHOUT ROWID;
CREATE INDEX block_callers_by_block ON block_callers (last);

-- How the entries of a block of the audit log are kept: 0 as they are, 1 compressed.
ALTER TABLE audit ADD COLUMN format INTEGER NOT NULL DEFAULT 0;

-- What was called, by the minute and by the node that counted it. `buckets` is a histogram of how long it took.
CREATE TABLE rollups (
    minute INTEGER NOT NULL,
    node TEXT NOT NULL,
    wire TEXT NOT NULL,
    tool TEXT NOT NULL,
    code TEXT NOT NULL,
    calls INTEGER NOT NULL,
    total_s REAL NOT NULL,
    buckets BLOB NOT NULL,
    PRIMARY KEY (minute, node, wire, tool, code)
) WITHOUT ROWID;
