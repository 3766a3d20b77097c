-- What calls ask their clients, in the order of `number`. What was answered is in `answers`. Whoever asks or answers has
-- the call's row locked.
CREATE TABLE questions (
    seq bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    question bytea NOT NULL,
    asked_at double precision NOT NULL,
    PRIMARY KEY (seq, name),
    UNIQUE (seq, number)
);

-- What was told of a call while it ran.
CREATE TABLE call_events (
    seq bigint NOT NULL,
    number bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (seq, number)
);

-- Things kept for callers.
CREATE TABLE notes (
    kind text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    expires_at double precision NOT NULL,
    PRIMARY KEY (kind, tenant, subject, name)
);
CREATE INDEX notes_by_age ON notes (expires_at);
