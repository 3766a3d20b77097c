-- The highest number of a call that was removed. A number never comes to mean another call, however long ago its own
-- was removed: links, notes and answers name calls by it.
CREATE TABLE numbers (last INTEGER NOT NULL);

-- A ledger that was written before this may have removed its newest calls already: what is left of them says how far
-- their numbers went.
INSERT INTO numbers SELECT max(
    coalesce((SELECT max(seq) FROM calls), 0),
    coalesce((SELECT max(seq) FROM keys), 0),
    coalesce((SELECT max(seq) FROM questions), 0),
    coalesce((SELECT max(seq) FROM answers), 0),
    coalesce((SELECT max(seq) FROM call_events), 0),
    coalesce((SELECT max(CAST(name AS INTEGER)) FROM notes WHERE kind IN ('decision', 'given')), 0),
    coalesce((SELECT max(CAST(CAST(data AS TEXT) AS INTEGER)) FROM notes WHERE kind = 'hold'), 0));

CREATE TRIGGER calls_leave_their_number AFTER DELETE ON calls WHEN OLD.seq > (SELECT last FROM numbers)
BEGIN UPDATE numbers SET last = OLD.seq; END;
