-- What a result has beside its value, or beside its error (`model.call.ResultExtra`): in the row, or where it is too large
-- for that, in `blobs`. Most calls have none.
ALTER TABLE calls ADD COLUMN extra BLOB;
ALTER TABLE calls ADD COLUMN extra_blob INTEGER;

-- It is charged for as a part of the result.
DROP VIEW charged;
CREATE VIEW charged AS
SELECT seq, tenant, subject, 1024 + coalesce(length(input), (SELECT length(data) FROM blobs WHERE id = input_blob), 0)
    + CASE WHEN result > 1024 THEN result ELSE 0 END AS bytes
FROM (SELECT *, coalesce(length(value), (SELECT length(data) FROM blobs WHERE id = value_blob), 0)
    + coalesce(length(extra), (SELECT length(data) FROM blobs WHERE id = extra_blob), 0)
    + coalesce(length(error), 0) AS result FROM calls);

DROP TRIGGER call_ended;
CREATE TRIGGER call_ended AFTER UPDATE OF value, value_blob, error, extra, extra_blob ON calls
WHEN coalesce(length(OLD.value), 0) + coalesce(length(OLD.error), 0) + coalesce(length(OLD.extra), 0) > 1024
    OR OLD.value_blob IS NOT NULL OR OLD.extra_blob IS NOT NULL
    OR coalesce(length(NEW.value), 0) + coalesce(length(NEW.error), 0) + coalesce(length(NEW.extra), 0) > 1024
    OR NEW.value_blob IS NOT NULL OR NEW.extra_blob IS NOT NULL
BEGIN
    UPDATE stored SET bytes = bytes - (SELECT CASE WHEN was > 1024 THEN was ELSE 0 END FROM (
            SELECT coalesce(length(OLD.value), (SELECT length(data) FROM blobs WHERE id = OLD.value_blob), 0)
                + coalesce(length(OLD.extra), (SELECT length(data) FROM blobs WHERE id = OLD.extra_blob), 0)
                + coalesce(length(OLD.error), 0) AS was))
        + (SELECT CASE WHEN is_now > 1024 THEN is_now ELSE 0 END FROM (
            SELECT coalesce(length(NEW.value), (SELECT length(data) FROM blobs WHERE id = NEW.value_blob), 0)
                + coalesce(length(NEW.extra), (SELECT length(data) FROM blobs WHERE id = NEW.extra_blob), 0)
                + coalesce(length(NEW.error), 0) AS is_now))
    WHERE tenant = NEW.tenant AND subject = NEW.subject;
END;

-- Other servers whose tools are offered here: where each is, as a digest, and what it offered when it was last seen.
CREATE TABLE upstreams (
    name TEXT PRIMARY KEY,
    address TEXT NOT NULL,
    listing BLOB NOT NULL,
    seen_at REAL NOT NULL
);
