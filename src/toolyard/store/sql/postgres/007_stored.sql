-- How many bytes are kept for each caller, as of when somebody last added up `stored_news`: whoever keeps or removes
-- something adds a line there, so that nobody waits for anybody else.
--
-- A call is charged for its input and 1,024 bytes more; for its result where that is larger than 1,024 bytes.
CREATE TABLE stored (
    tenant text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (tenant, subject)
) WITH (fillfactor = 50);
CREATE TABLE stored_news (tenant text COLLATE "C" NOT NULL, subject text COLLATE "C" NOT NULL, bytes bigint NOT NULL)
    WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX sessions_of_caller ON sessions (tenant, subject);
CREATE INDEX waiting_of_caller ON waiting (tenant, subject);

CREATE FUNCTION charge(input bytea, value bytea, error bytea) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$ SELECT 1024 + coalesce(octet_length(input), 0)
        + CASE WHEN coalesce(octet_length(value), 0) + coalesce(octet_length(error), 0) > 1024
            THEN coalesce(octet_length(value), 0) + coalesce(octet_length(error), 0) ELSE 0 END::bigint $$;

INSERT INTO stored (tenant, subject, bytes) SELECT tenant, subject, sum(bytes) FROM (
    SELECT tenant, subject, charge(input, value, error) AS bytes FROM calls
    UNION ALL SELECT tenant, subject, 1024 + octet_length(tools) + octet_length(metadata) FROM sessions
    UNION ALL SELECT tenant, subject, 64 + octet_length(data) FROM events JOIN sessions ON id = session
    UNION ALL SELECT tenant, subject, 256 + length(name) + octet_length(data) FROM notes
    UNION ALL SELECT tenant, subject, 64 + octet_length(question) FROM questions JOIN calls USING (seq)
    UNION ALL SELECT tenant, subject, 64 + octet_length(answer) FROM answers JOIN calls USING (seq)
    UNION ALL SELECT tenant, subject, 64 + octet_length(data) FROM call_events JOIN calls USING (seq)
) AS kept GROUP BY tenant, subject;

CREATE FUNCTION calls_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_news SELECT tenant, subject, sum(charge(input, value, error)) FROM came GROUP BY 1, 2;
    RETURN NULL;
END $$;
CREATE TRIGGER calls_came AFTER INSERT ON calls REFERENCING NEW TABLE AS came
    FOR EACH STATEMENT EXECUTE FUNCTION calls_came();

CREATE FUNCTION call_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_news VALUES (NEW.tenant, NEW.subject,
        charge(NEW.input, NEW.value, NEW.error) - charge(OLD.input, OLD.value, OLD.error));
    RETURN NULL;
END $$;
CREATE TRIGGER call_ended AFTER UPDATE OF value, error ON calls FOR EACH ROW
    WHEN (coalesce(octet_length(OLD.value), 0) + coalesce(octet_length(OLD.error), 0) > 1024
        OR coalesce(octet_length(NEW.value), 0) + coalesce(octet_length(NEW.error), 0) > 1024)
    EXECUTE FUNCTION call_ended();

-- Before, because what is kept beside the call goes in the same statement.
CREATE FUNCTION call_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_news VALUES (OLD.tenant, OLD.subject, - charge(OLD.input, OLD.value, OLD.error)
        - (SELECT coalesce(sum(64 + octet_length(question)), 0) FROM questions WHERE seq = OLD.seq)
        - (SELECT coalesce(sum(64 + octet_length(answer)), 0) FROM answers WHERE seq = OLD.seq)
        - (SELECT coalesce(sum(64 + octet_length(data)), 0) FROM call_events WHERE seq = OLD.seq));
    RETURN OLD;
END $$;
CREATE TRIGGER call_removed BEFORE DELETE ON calls FOR EACH ROW EXECUTE FUNCTION call_removed();

CREATE FUNCTION questions_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_news SELECT tenant, subject, sum(64 + octet_length(question)) FROM came JOIN calls USING (seq)
        GROUP BY 1, 2;
    RETURN NULL;
END $$;
CREATE TRIGGER questions_came AFTER INSERT ON questions REFERENCING NEW TABLE AS came
    FOR EACH STATEMENT EXECUTE FUNCTION questions_came();

CREATE FUNCTION answers_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_news SELECT tenant, subject, sum(64 + octet_length(answer)) FROM came JOIN calls USING (seq)
        GROUP BY 1, 2;
    RETURN NULL;
END $$;
CREATE TRIGGER answers_came AFTER INSERT ON answers REFERENCING NEW TABLE AS came
    FOR EACH STATEMENT EXECUTE FUNCTION answers_came();

CREATE FUNCTION call_events_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_news SELECT tenant, subject, sum(64 + octet_length(data)) FROM came JOIN calls USING (seq)
        GROUP BY 1, 2;
    RETURN NULL;
END $$;
CREATE TRIGGER call_events_came AFTER INSERT ON call_events REFERENCING NEW TABLE AS came
    FOR EACH STATEMENT EXECUTE FUNCTION call_events_came();

CREATE FUNCTION session_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO stored_news
        VALUES (NEW.tenant, NEW.subject, 1024 + octet_length(NEW.tools) + octet_length(NEW.metadata));
        RETURN NEW;
    END IF;
    INSERT INTO stored_news
    VALUES (OLD.tenant, OLD.subject, - 1024 - octet_length(OLD.tools) - octet_length(OLD.metadata)
        - (SELECT coalesce(sum(64 + octet_length(data)), 0) FROM events WHERE session = OLD.id));
    RETURN OLD;
END $$;
CREATE TRIGGER session_opened AFTER INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION session_kept();
CREATE TRIGGER session_removed BEFORE DELETE ON sessions FOR EACH ROW EXECUTE FUNCTION session_kept();

CREATE FUNCTION events_came() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stored_news SELECT tenant, subject, sum(64 + octet_length(data)) FROM came JOIN sessions ON id = session
        GROUP BY 1, 2;
    RETURN NULL;
END $$;
CREATE TRIGGER events_came AFTER INSERT ON events REFERENCING NEW TABLE AS came
    FOR EACH STATEMENT EXECUTE FUNCTION events_came();

CREATE FUNCTION note_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO stored_news VALUES (OLD.tenant, OLD.subject, - 256 - length(OLD.name) - octet_length(OLD.data));
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO stored_news VALUES (NEW.tenant, NEW.subject, 256 + length(NEW.name) + octet_length(NEW.data));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER note_kept AFTER INSERT OR UPDATE OR DELETE ON notes FOR EACH ROW EXECUTE FUNCTION note_kept();
