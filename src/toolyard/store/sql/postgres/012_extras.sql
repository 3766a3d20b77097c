-- What a result has beside its value, or beside its error (`model.call.ResultExtra`). Most calls have none.
ALTER TABLE calls ADD COLUMN extra bytea;

-- It is charged for as a part of the result.
CREATE FUNCTION charge(input bytea, value bytea, error bytea, extra bytea) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT 1024 + coalesce(octet_length(input), 0)
        + CASE WHEN coalesce(octet_length(value), 0) + coalesce(octet_length(error), 0)
                + coalesce(octet_length(extra), 0) > 1024
            THEN coalesce(octet_length(value), 0) + coalesce(octet_length(error), 0)
                + coalesce(octet_length(extra), 0) ELSE 0 END::bigint $$;

CREATE OR REPLACE FUNCTION calls_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_news SELECT tenant, subject, sum(charge(input, value, error, extra)) FROM came GROUP BY 1, 2;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION call_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_news VALUES (NEW.tenant, NEW.subject,
        charge(NEW.input, NEW.value, NEW.error, NEW.extra) - charge(OLD.input, OLD.value, OLD.error, OLD.extra));
    RETURN NULL;
END $$;
DROP TRIGGER call_ended ON calls;
CREATE TRIGGER call_ended AFTER UPDATE OF value, error, extra ON calls FOR EACH ROW
    WHEN (coalesce(octet_length(OLD.value), 0) + coalesce(octet_length(OLD.error), 0)
            + coalesce(octet_length(OLD.extra), 0) > 1024
        OR coalesce(octet_length(NEW.value), 0) + coalesce(octet_length(NEW.error), 0)
            + coalesce(octet_length(NEW.extra), 0) > 1024)
    EXECUTE FUNCTION call_ended();

CREATE OR REPLACE FUNCTION call_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_news VALUES (OLD.tenant, OLD.subject, - charge(OLD.input, OLD.value, OLD.error, OLD.extra)
        - (SELECT coalesce(sum(64 + octet_length(question)), 0) FROM questions WHERE seq = OLD.seq)
        - (SELECT coalesce(sum(64 + octet_length(answer)), 0) FROM answers WHERE seq = OLD.seq)
        - (SELECT coalesce(sum(64 + octet_length(data)), 0) FROM call_events WHERE seq = OLD.seq));
    RETURN OLD;
END $$;

DROP FUNCTION charge(bytea, bytea, bytea);

-- Rows on their way in, with it. Nodes of a program before this go on with the types that they know.
CREATE TYPE new_call_12 AS (
    seq bigint, tenant text, subject text, family text, call_id text, keyed boolean, wire text, tool text,
    reference text, input bytea, fingerprint bytea, user_id text, trace_id text, sealed bytea, on_lost text,
    queue text, session text, request text, turn integer, run_s double precision, queue_s double precision,
    total_s double precision, end_state text, end_code text, duration_ms double precision, value bytea, error bytea,
    effects text, extra bytea, waiting_for text, offer text
);
CREATE TYPE new_ran_call_12 AS (
    seq bigint, tenant text, subject text, family text, call_id text, wire text, tool text, reference text,
    input bytea, user_id text, trace_id text, on_lost text, state text, code text, duration_ms double precision,
    value bytea, error bytea, effects text, extra bytea
);
CREATE TYPE new_ending_12 AS (
    number bigint, by_attempt integer, to_state text, to_code text, took double precision, result bytea,
    failure bytea, had_effects text, beside bytea
);
CREATE TYPE new_answer_12 AS (
    in_session text, id text, by_attempt integer, who integer, to_state text, to_code text, took double precision,
    result bytea, failure bytea, had_effects text, beside bytea, answered bytea
);
CREATE TYPE new_standing_12 AS (
    number bigint, state text, code text, waiting_for text, attempt integer, losses integer, holder text,
    lease_until double precision, run_until double precision, started_at double precision,
    finished_at double precision, seen_at double precision, heartbeat double precision, progress bytea, effects text,
    digest bytea, ended boolean, duration_ms double precision, value bytea, error bytea, extra bytea,
    queue_until double precision
);

-- Other servers whose tools are offered here: where each is, as a digest, and what it offered when it was last seen.
CREATE TABLE upstreams (
    name text COLLATE "C" PRIMARY KEY,
    address text COLLATE "C" NOT NULL,
    listing bytea NOT NULL,
    seen_at double precision NOT NULL,
    revision bigint NOT NULL
);
