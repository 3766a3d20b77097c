-- The ledger's clock, in seconds since 1970. Whoever owns the time replaces this function.
CREATE FUNCTION ledger_now() RETURNS double precision LANGUAGE sql VOLATILE
    AS $$ SELECT date_part('epoch', clock_timestamp()) $$;

-- The numbers of calls. They are taken before a call is written, so that a write made twice knows its own row again.
CREATE SEQUENCE calls_seq AS bigint;

-- Calls, one row each. What is large among `input`, `value` and `error` PostgreSQL keeps out of the row by itself
-- (TOAST), and reads it only where it is asked for. A heartbeat changes no column that an index has, and pages have room
-- left, so that it touches the row and nothing else. Text is compared byte by byte.
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
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX calls_of_caller ON calls (tenant, subject, call_id, seq);
CREATE INDEX calls_by_age ON calls (finished_at) WHERE finished_at IS NOT NULL;
CREATE UNIQUE INDEX calls_of_session ON calls (session, request) WHERE session IS NOT NULL;

-- Calls that live, however many have ended. What an index is for can be told from its condition, so that no plan takes
-- one for the work of another, whatever the statistics say: who looks for work says `state` and `queue`, who looks among
-- all that live says `finished_at`. Work comes in the order of its time, which the index of all calls does not have.
CREATE INDEX calls_for_workers ON calls (reference, created_at, seq) WHERE state = 'PENDING' AND queue = 'worker';
CREATE INDEX calls_for_owners ON calls (tenant, subject, created_at, seq) WHERE state = 'PENDING' AND queue = 'session';
CREATE INDEX calls_alive ON calls (state, queue) WHERE finished_at IS NULL;
CREATE INDEX calls_due ON calls (least(queue_until, deadline_at)) WHERE finished_at IS NULL AND holder IS NULL;

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
