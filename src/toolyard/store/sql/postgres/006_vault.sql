-- Sealed things: the tokens of users at providers, and secrets. Only the ring of keys opens `data`.
CREATE TABLE vault (
    kind text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    about bytea NOT NULL,
    version bigint NOT NULL,
    changed double precision NOT NULL,
    PRIMARY KEY (kind, tenant, owner, name)
);

-- A call may wait for something from its beginning, and for somebody to run it from when that has come.
ALTER TYPE new_call ADD ATTRIBUTE waiting_for text;
ALTER TYPE new_standing ADD ATTRIBUTE queue_until double precision;
