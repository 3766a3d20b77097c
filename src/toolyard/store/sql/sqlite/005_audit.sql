-- The audit log: blocks of entries, in chains. What is read without its entries does not touch them: they come last.
CREATE TABLE audit (
    chain TEXT NOT NULL,
    number INTEGER NOT NULL,
    count INTEGER NOT NULL,
    first_at REAL NOT NULL,
    last_at REAL NOT NULL,
    mac BLOB NOT NULL,
    entries BLOB NOT NULL,
    PRIMARY KEY (chain, number)
);
CREATE INDEX audit_by_age ON audit (chain, last_at, number);

-- Where each chain ends, and after which block it begins where older ones were dropped.
CREATE TABLE audit_heads (
    chain TEXT NOT NULL PRIMARY KEY,
    number INTEGER NOT NULL,
    mac BLOB NOT NULL,
    count INTEGER NOT NULL,
    at REAL NOT NULL,
    seal BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE audit_anchors (
    chain TEXT NOT NULL PRIMARY KEY,
    number INTEGER NOT NULL,
    mac BLOB NOT NULL,
    count INTEGER NOT NULL,
    at REAL NOT NULL,
    seal BLOB NOT NULL
) WITHOUT ROWID;

-- Against accidents. What is done on purpose, the signatures show.
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'a block of the audit log does not change'); END;
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit
WHEN OLD.number > coalesce((SELECT number FROM audit_anchors WHERE chain = OLD.chain), 0)
BEGIN SELECT RAISE(ABORT, 'a block of the audit log is dropped only after its anchor is there'); END;
