-- API keys, by their digests. They stay when they are revoked: once there was one, nobody is let in without. Of those
-- that are not revoked, each has a name of its own.
CREATE TABLE api_keys (
    digest BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    allow BLOB NOT NULL,
    scopes BLOB NOT NULL,
    created REAL NOT NULL,
    expires REAL,
    revoked REAL,
    last_used REAL
) WITHOUT ROWID;
CREATE UNIQUE INDEX api_keys_by_name ON api_keys (name) WHERE revoked IS NULL;
