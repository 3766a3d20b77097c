-- API keys, by their digests. They stay when they are revoked: once there was one, nobody is let in without. Of those
-- that are not revoked, each has a name of its own.
CREATE TABLE api_keys (
    digest bytea PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    allow text[] NOT NULL,
    scopes text[] NOT NULL,
    created double precision NOT NULL,
    expires double precision,
    revoked double precision,
    last_used double precision
);
CREATE UNIQUE INDEX api_keys_by_name ON api_keys (name) WHERE revoked IS NULL;
