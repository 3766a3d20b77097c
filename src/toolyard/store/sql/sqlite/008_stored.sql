-- What may be large is kept beside the index of its keys, not in it: to find its way, SQLite reads the whole of whatever it
-- compares with, and so one caller's large rows made everybody's slow.
ALTER TABLE sessions RENAME TO sessions_in_index;
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    tools BLOB NOT NULL,
    metadata BLOB NOT NULL,
    created_at REAL NOT NULL
);
INSERT INTO sessions SELECT id, tenant, subject, tools, metadata, created_at FROM sessions_in_index;

-- What changes with each request of a session has a small row of its own: whoever writes to a row writes all of it.
CREATE TABLE session_counts (
    session TEXT PRIMARY KEY,
    changed_at REAL NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0,
    turn INTEGER NOT NULL DEFAULT 0,
    open INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
INSERT INTO session_counts SELECT id, changed_at, revision, turn, open FROM sessions_in_index;
DROP TABLE sessions_in_index;
CREATE INDEX sessions_by_age ON session_counts (changed_at);
CREATE INDEX sessions_of_caller ON sessions (tenant, subject);

ALTER TABLE workers RENAME TO workers_in_index;
CREATE TABLE workers (
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    name TEXT NOT NULL,
    tools BLOB NOT NULL,
    revision INTEGER NOT NULL,
    lease_until REAL NOT NULL,
    PRIMARY KEY (tenant, subject, name)
);
INSERT INTO workers SELECT tenant, subject, name, tools, revision, lease_until FROM workers_in_index;
DROP TABLE workers_in_index;

ALTER TABLE questions RENAME TO questions_in_index;
CREATE TABLE questions (
    seq INTEGER NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    question BLOB NOT NULL,
    asked_at REAL NOT NULL,
    PRIMARY KEY (seq, name),
    UNIQUE (seq, number)
);
INSERT INTO questions SELECT seq, name, number, question, asked_at FROM questions_in_index;
DROP TABLE questions_in_index;

ALTER TABLE answers RENAME TO answers_in_index;
CREATE TABLE answers (
    seq INTEGER NOT NULL,
    name TEXT NOT NULL,
    answer BLOB NOT NULL,
    answered_at REAL NOT NULL,
    PRIMARY KEY (seq, name)
);
INSERT INTO answers SELECT seq, name, answer, answered_at FROM answers_in_index;
DROP TABLE answers_in_index;

ALTER TABLE call_events RENAME TO call_events_in_index;
CREATE TABLE call_events (
    seq INTEGER NOT NULL,
    number INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (seq, number)
);
INSERT INTO call_events SELECT seq, number, data FROM call_events_in_index;
DROP TABLE call_events_in_index;

-- How many bytes are kept for each caller. Triggers keep it true, in the transaction that changes them; but for calls that
-- are recorded after they ran, of which there are many at once: whoever writes those adds them up.
--
-- A call is charged for its input and 1,024 bytes more; for its result where that is larger than 1,024 bytes.
CREATE TABLE stored (
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (tenant, subject)
) WITHOUT ROWID;

CREATE INDEX calls_waiting_of ON calls (tenant, subject) WHERE state = 'PENDING';

CREATE VIEW charged AS
SELECT seq, tenant, subject, 1024 + coalesce(length(input), (SELECT length(data) FROM blobs WHERE id = input_blob), 0)
    + CASE WHEN result > 1024 THEN result ELSE 0 END AS bytes
FROM (SELECT *, coalesce(length(value), (SELECT length(data) FROM blobs WHERE id = value_blob), 0)
    + coalesce(length(error), 0) AS result FROM calls);

INSERT INTO stored (tenant, subject, bytes) SELECT tenant, subject, sum(bytes) FROM (
    SELECT tenant, subject, bytes FROM charged
    UNION ALL SELECT tenant, subject, 1024 + length(tools) + length(metadata) FROM sessions
    UNION ALL SELECT tenant, subject, 64 + length(events.data) FROM events JOIN sessions ON id = session
    UNION ALL SELECT tenant, subject, 256 + length(name) + length(data) FROM notes
    UNION ALL SELECT tenant, subject, 64 + length(question) FROM questions JOIN calls USING (seq)
    UNION ALL SELECT tenant, subject, 64 + length(answer) FROM answers JOIN calls USING (seq)
    UNION ALL SELECT tenant, subject, 64 + length(data) FROM call_events JOIN calls USING (seq)
) WHERE true GROUP BY tenant, subject;

CREATE TRIGGER call_begun AFTER INSERT ON calls WHEN NEW.finished_at IS NULL BEGIN
    INSERT INTO stored SELECT tenant, subject, bytes FROM charged WHERE seq = NEW.seq
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER call_ended AFTER UPDATE OF value, value_blob, error ON calls
WHEN coalesce(length(OLD.value), 0) + coalesce(length(OLD.error), 0) > 1024 OR OLD.value_blob IS NOT NULL
    OR coalesce(length(NEW.value), 0) + coalesce(length(NEW.error), 0) > 1024 OR NEW.value_blob IS NOT NULL
BEGIN
    UPDATE stored SET bytes = bytes - (SELECT CASE WHEN was > 1024 THEN was ELSE 0 END FROM (
            SELECT coalesce(length(OLD.value), (SELECT length(data) FROM blobs WHERE id = OLD.value_blob), 0)
                + coalesce(length(OLD.error), 0) AS was))
        + (SELECT CASE WHEN is_now > 1024 THEN is_now ELSE 0 END FROM (
            SELECT coalesce(length(NEW.value), (SELECT length(data) FROM blobs WHERE id = NEW.value_blob), 0)
                + coalesce(length(NEW.error), 0) AS is_now))
    WHERE tenant = NEW.tenant AND subject = NEW.subject;
END;

CREATE TRIGGER call_removed BEFORE DELETE ON calls BEGIN
    UPDATE stored SET bytes = bytes - (SELECT bytes FROM charged WHERE seq = OLD.seq)
        - (SELECT coalesce(sum(64 + length(question)), 0) FROM questions WHERE seq = OLD.seq)
        - (SELECT coalesce(sum(64 + length(answer)), 0) FROM answers WHERE seq = OLD.seq)
        - (SELECT coalesce(sum(64 + length(data)), 0) FROM call_events WHERE seq = OLD.seq)
    WHERE tenant = OLD.tenant AND subject = OLD.subject;
    DELETE FROM stored WHERE tenant = OLD.tenant AND subject = OLD.subject AND bytes <= 0;
END;

CREATE TRIGGER question_asked AFTER INSERT ON questions BEGIN
    UPDATE stored SET bytes = bytes + 64 + length(NEW.question)
    WHERE (tenant, subject) = (SELECT tenant, subject FROM calls WHERE seq = NEW.seq);
END;

CREATE TRIGGER question_answered AFTER INSERT ON answers BEGIN
    UPDATE stored SET bytes = bytes + 64 + length(NEW.answer)
    WHERE (tenant, subject) = (SELECT tenant, subject FROM calls WHERE seq = NEW.seq);
END;

CREATE TRIGGER call_told AFTER INSERT ON call_events BEGIN
    UPDATE stored SET bytes = bytes + 64 + length(NEW.data)
    WHERE (tenant, subject) = (SELECT tenant, subject FROM calls WHERE seq = NEW.seq);
END;

CREATE TRIGGER session_opened AFTER INSERT ON sessions BEGIN
    INSERT INTO stored VALUES (NEW.tenant, NEW.subject, 1024 + length(NEW.tools) + length(NEW.metadata))
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER session_told AFTER INSERT ON events BEGIN
    UPDATE stored SET bytes = bytes + 64 + length(NEW.data)
    WHERE (tenant, subject) = (SELECT tenant, subject FROM sessions WHERE id = NEW.session);
END;

CREATE TRIGGER session_removed BEFORE DELETE ON sessions BEGIN
    UPDATE stored SET bytes = bytes - (1024 + length(OLD.tools) + length(OLD.metadata))
        - (SELECT coalesce(sum(64 + length(data)), 0) FROM events WHERE session = OLD.id)
    WHERE tenant = OLD.tenant AND subject = OLD.subject;
    DELETE FROM stored WHERE tenant = OLD.tenant AND subject = OLD.subject AND bytes <= 0;
END;

CREATE TRIGGER note_put AFTER INSERT ON notes BEGIN
    INSERT INTO stored VALUES (NEW.tenant, NEW.subject, 256 + length(NEW.name) + length(NEW.data))
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER note_changed AFTER UPDATE OF data ON notes BEGIN
    UPDATE stored SET bytes = bytes + length(NEW.data) - length(OLD.data)
    WHERE tenant = NEW.tenant AND subject = NEW.subject;
END;

CREATE TRIGGER note_removed BEFORE DELETE ON notes BEGIN
    UPDATE stored SET bytes = bytes - (256 + length(OLD.name) + length(OLD.data))
    WHERE tenant = OLD.tenant AND subject = OLD.subject;
    DELETE FROM stored WHERE tenant = OLD.tenant AND subject = OLD.subject AND bytes <= 0;
END;
