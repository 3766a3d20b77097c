-- The ledger's clock, in seconds since 1970. Whoever owns the time replaces this function.
CREATE FUNCTION ledger_now() RETURNS double precision LANGUAGE sql VOLATILE
    AS $$ SELECT date_part('epoch', clock_timestamp()) $$;

-- The numbers of calls. They are taken before a call is written, so that a write made twice knows its own row again.
CREATE SEQUENCE calls_seq AS bigint;

-- Calls, one row each. What is large among `input`, `value` and `error` PostgreSQL keeps out of the row by itself
-- (TOAST), and reads it only where it is asked for. What changes in the life of a call is in no index of this table, and
-- pages have as much room left as they are full: so a claim, a heartbeat and an answer change the row where it is, and
-- nothing else (HOT), which is three times as fast. Text is compared byte by byte.
CREATE TABLE calls (
    seq bigint PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    family text COLLATE "C" NOT NULL,
    call_id text COLLATE "C" NOT NULL,
    keyed boolean NOT NULL,
    wire text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    reference text COLLATE "C" NOT NULL,
    input bytea NOT NULL,
    fingerprint bytea NOT NULL,
    user_id text,
    trace_id text,
    sealed bytea,
    on_lost text NOT NULL,
    queue text COLLATE "C" NOT NULL,
    session text COLLATE "C",
    request text COLLATE "C",
    turn integer NOT NULL,
    run_s double precision,
    state text COLLATE "C" NOT NULL,
    code text,
    waiting_for text,
    attempt integer NOT NULL,
    losses integer NOT NULL DEFAULT 0,
    holder text COLLATE "C",
    claim bigint,
    lease_until double precision,
    run_until double precision,
    queue_until double precision,
    deadline_at double precision,
    created_at double precision NOT NULL,
    started_at double precision,
    finished_at double precision,
    seen_at double precision,
    heartbeat double precision,
    duration_ms double precision,
    value bytea,
    error bytea,
    progress bytea,
    effects text,
    digest bytea
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX calls_by_id ON calls (call_id, seq);
CREATE INDEX calls_of_caller ON calls (tenant, subject, seq);
CREATE INDEX calls_by_age ON calls (created_at);
CREATE UNIQUE INDEX calls_of_session ON calls (session, request) WHERE session IS NOT NULL;

-- The calls that live, in small tables of their own, so that it does not matter how many have ended: those that are
-- PENDING, and those that are PROCESSING. Whoever changes the state of a call, its row locked, changes these with it.
CREATE TABLE waiting (
    seq bigint PRIMARY KEY,
    queue text COLLATE "C" NOT NULL,
    reference text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    session text COLLATE "C",
    tool text COLLATE "C" NOT NULL,
    created_at double precision NOT NULL,
    due_at double precision,
    ready boolean NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX waiting_for_workers ON waiting (reference, created_at, seq) WHERE queue = 'worker' AND ready;
CREATE INDEX waiting_for_owners ON waiting (tenant, subject, created_at, seq) WHERE queue = 'session' AND ready;
CREATE INDEX waiting_for_nodes ON waiting (created_at, seq) WHERE queue = 'node' AND ready;
CREATE INDEX waiting_by_due ON waiting (due_at);

CREATE TABLE running (
    seq bigint PRIMARY KEY,
    queue text COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Keys that are taken. A key outlives its call's payload, so that nothing is silently run again.
CREATE TABLE keys (
    tenant text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    family text COLLATE "C" NOT NULL,
    call_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    fingerprint bytea NOT NULL,
    expires_at double precision NOT NULL,
    PRIMARY KEY (tenant, subject, family, call_id)
);
CREATE INDEX keys_by_age ON keys (expires_at);

-- `open`: how many of its requests have not ended. `revision`: the number of its newest event. Its row is locked while
-- an event is added, so that they are numbered without gaps.
CREATE TABLE sessions (
    id text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    tools bytea NOT NULL,
    metadata bytea NOT NULL,
    created_at double precision NOT NULL,
    changed_at double precision NOT NULL,
    revision bigint NOT NULL DEFAULT 0,
    turn integer NOT NULL DEFAULT 0,
    open integer NOT NULL DEFAULT 0
) WITH (fillfactor = 75);
CREATE INDEX sessions_by_age ON sessions (created_at);

CREATE TABLE events (
    session text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    kind text NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (session, number)
);

-- Those who run tools elsewhere, and until when they are taken to be alive.
CREATE TABLE workers (
    tenant text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    tools bytea NOT NULL,
    revision bigint NOT NULL,
    lease_until double precision NOT NULL,
    PRIMARY KEY (tenant, subject, name)
) WITH (fillfactor = 50);

-- Processes that run calls, and until when they are taken to be alive.
CREATE TABLE nodes (
    name text COLLATE "C" PRIMARY KEY,
    lease_until double precision NOT NULL
) WITH (fillfactor = 50);

-- What a call's questions were answered with.
CREATE TABLE answers (
    seq bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    answer bytea NOT NULL,
    answered_at double precision NOT NULL,
    PRIMARY KEY (seq, name)
);

-- The runs that a tool may have at once. One that is taken has the name of its node, and a token of who took it.
CREATE TABLE slots (
    tool text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    node text COLLATE "C",
    token bigint,
    PRIMARY KEY (tool, number)
) WITH (fillfactor = 50);

-- Rows on their way in: a statement that writes many takes them as one array of these, in the order of their fields.
CREATE TYPE new_call AS (
    seq bigint, tenant text, subject text, family text, call_id text, keyed boolean, wire text, tool text,
    reference text, input bytea, fingerprint bytea, user_id text, trace_id text, sealed bytea, on_lost text,
    queue text, session text, request text, turn integer, run_s double precision, queue_s double precision,
    total_s double precision, end_state text, end_code text, duration_ms double precision, value bytea, error bytea,
    effects text
);
CREATE TYPE new_ran_call AS (
    seq bigint, tenant text, subject text, family text, call_id text, wire text, tool text, reference text,
    input bytea, user_id text, trace_id text, on_lost text, state text, code text, duration_ms double precision,
    value bytea, error bytea, effects text
);
CREATE TYPE new_ending AS (
    number bigint, by_attempt integer, to_state text, to_code text, took double precision, result bytea,
    failure bytea, had_effects text
);
CREATE TYPE new_beat AS (
    in_session text, id text, by_attempt integer, who integer, said double precision, done bytea
);
CREATE TYPE new_answer AS (
    in_session text, id text, by_attempt integer, who integer, to_state text, to_code text, took double precision,
    result bytea, failure bytea, had_effects text, answered bytea
);
CREATE TYPE new_standing AS (
    number bigint, state text, code text, waiting_for text, attempt integer, losses integer, holder text,
    lease_until double precision, run_until double precision, started_at double precision,
    finished_at double precision, seen_at double precision, heartbeat double precision, progress bytea, effects text,
    digest bytea, ended boolean, duration_ms double precision, value bytea, error bytea
);
