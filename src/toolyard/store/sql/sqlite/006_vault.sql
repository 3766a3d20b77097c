-- Sealed things: the tokens of users at providers, and secrets. Only the ring of keys opens `data`.
CREATE TABLE vault (
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    data BLOB NOT NULL,
    about BLOB NOT NULL,
    version INTEGER NOT NULL,
    changed REAL NOT NULL,
    PRIMARY KEY (kind, tenant, owner, name)
) WITHOUT ROWID;
