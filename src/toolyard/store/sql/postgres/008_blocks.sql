-- Blocks of calls that have ended, many in a row (`store/blocks.py`). Their numbers are of the same series as those of
-- `calls`; `clock_offset` is how far the ledger's clock was ahead of the clock by which the lines have their times.
CREATE TABLE blocks (
    last bigint PRIMARY KEY,
    first bigint NOT NULL,
    count integer NOT NULL,
    failed integer NOT NULL,
    first_id text COLLATE "C" NOT NULL,
    last_id text COLLATE "C" NOT NULL,
    ids bytea NOT NULL,
    about bytea NOT NULL,
    format integer NOT NULL,
    written_at double precision NOT NULL,
    clock_offset double precision NOT NULL,
    data bytea NOT NULL
);
-- The lines are compressed already.
ALTER TABLE blocks ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX blocks_by_id ON blocks (first_id, last_id);
CREATE INDEX blocks_by_age ON blocks (written_at);

-- Whose calls are in a block, and what each caller is charged for them.
CREATE TABLE block_callers (
    tenant text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    last bigint NOT NULL,
    calls integer NOT NULL,
    charge bigint NOT NULL,
    PRIMARY KEY (tenant, subject, last)
);
CREATE INDEX block_callers_by_block ON block_callers (last);

-- What was called, by the minute and by the node that counted it. `buckets` is a histogram of how long it took.
CREATE TABLE rollups (
    minute bigint NOT NULL,
    node text COLLATE "C" NOT NULL,
    wire text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    code text COLLATE "C" NOT NULL,
    calls bigint NOT NULL,
    total_s double precision NOT NULL,
    buckets bytea NOT NULL,
    PRIMARY KEY (minute, node, wire, tool, code)
);
