-- Every statement that PostgreSQL's ledger makes. What stands in braces is the part of that name.

-- name: call
seq, tenant, subject, family, call_id, keyed, wire, tool, reference, input, fingerprint, user_id, trace_id, sealed,
    on_lost, state, code, waiting_for, attempt, holder, created_at, started_at, finished_at, duration_ms, value, error,
    queue, session, request, turn, losses, lease_until, heartbeat, seen_at, progress, effects, offer, extra

-- name: standing
seq, tenant, subject, session, request, reference, queue, on_lost, run_s, created_at, deadline_at, queue_until, state,
    code, waiting_for, attempt, losses, holder, lease_until, run_until, started_at, finished_at, seen_at, heartbeat,
    progress, effects, digest, offer

-- Without an input and a result that are large.
-- name: cut_call
seq, tenant, subject, family, call_id, keyed, wire, tool, reference,
    CASE WHEN octet_length(input) <= 262144 THEN input ELSE '' END, fingerprint, user_id, trace_id, sealed,
    on_lost, state, code, waiting_for, attempt, holder, created_at, started_at, finished_at, duration_ms,
    CASE WHEN octet_length(value) <= 262144 THEN value END, error,
    queue, session, request, turn, losses, lease_until, heartbeat, seen_at, progress, effects, offer,
    CASE WHEN octet_length(extra) <= 262144 THEN extra END,
    octet_length(input) > 262144 OR coalesce(octet_length(value) > 262144, false)
        OR coalesce(octet_length(extra) > 262144, false)

-- name: listed
SELECT {cut_call} FROM calls

-- name: waiting_calls
SELECT seq, count(*) OVER () FROM (
    SELECT seq, row_number() OVER (PARTITION BY tenant, subject ORDER BY seq) AS place FROM calls
    WHERE seq = ANY (ARRAY (SELECT seq FROM waiting)) AND state = 'PENDING' AND waiting_for = $1
        AND ($2::text IS NULL OR tenant = $2)) AS each
ORDER BY place, seq LIMIT $3

-- name: counted
SELECT 'PENDING', count(*) FROM waiting
UNION ALL SELECT 'PROCESSING', count(*) FROM running
UNION ALL SELECT state, count(*) FROM calls WHERE seq >= $1 AND state IN ('COMPLETE', 'ERROR') GROUP BY state

-- name: row
SELECT {call} FROM calls WHERE seq = $1

-- name: glance
SELECT {cut_call} FROM calls WHERE seq = $1

-- name: rows
SELECT {call} FROM calls WHERE seq = ANY ($1)

-- Calls begin. ------------------------------------------------------------------------------------

-- name: numbers
SELECT nextval('calls_seq') FROM generate_series(1, $1)

-- The keys are taken in the same order by everyone, so that nobody waits for each other in a circle. A node whose lease
-- is about to run out (it was stopped for a while) renews it in the same write.
-- name: begin
WITH new AS MATERIALIZED (
    SELECT new.*, clock.now,
        CASE WHEN end_state IS NOT NULL THEN end_state
            WHEN queue = 'node' AND waiting_for IS NULL THEN 'PROCESSING' ELSE 'PENDING' END AS state,
        end_state IS NULL AND queue = 'node' AND waiting_for IS NULL AS here
    FROM unnest($4::new_call_12[]) AS new, (SELECT ledger_now() AS now) AS clock
), renewed AS (
    INSERT INTO nodes (name, lease_until)
    SELECT $1::text, now + $2::double precision FROM new
    WHERE here AND NOT EXISTS (SELECT 1 FROM nodes WHERE name = $1::text AND lease_until > now + $2::double precision / 2)
    LIMIT 1
    ON CONFLICT (name) DO UPDATE SET lease_until = excluded.lease_until
), taken AS (
    INSERT INTO keys (tenant, subject, family, call_id, seq, fingerprint, expires_at)
    SELECT tenant, subject, family, call_id, seq, fingerprint, now + $3::double precision FROM new WHERE keyed
    ORDER BY tenant, subject, family, call_id, seq
    ON CONFLICT (tenant, subject, family, call_id) DO NOTHING
    RETURNING seq
), made AS (
    INSERT INTO calls (seq, tenant, subject, family, call_id, keyed, wire, tool, reference, input, fingerprint, user_id,
        trace_id, sealed, on_lost, queue, session, request, turn, run_s, state, code, attempt, holder, queue_until,
        deadline_at, created_at, started_at, finished_at, duration_ms, value, error, effects, waiting_for, offer,
        extra)
    SELECT seq, tenant, subject, family, call_id, keyed, wire, tool, reference, input, fingerprint, user_id,
        trace_id, sealed, on_lost, queue, session, request, turn, run_s, state, end_code, here::integer,
        CASE WHEN here THEN $1::text END, CASE WHEN NOT here THEN now + queue_s END, now + total_s, now,
        CASE WHEN here THEN now END, CASE WHEN end_state IS NOT NULL THEN now END, duration_ms, value, error, effects, waiting_for, offer,
        extra
    FROM new WHERE NOT keyed OR seq IN (SELECT seq FROM taken)
    RETURNING {living}
), {lives}
SELECT seq, request FROM made

-- What the tables of the living have to know of a call, and how those that were made or changed come to be in them.
-- name: living
seq, request, state, queue, reference, tenant, subject, session, tool, created_at, queue_until, deadline_at, waiting_for,
    offer

-- name: changed
calls.seq, calls.request, calls.state, calls.queue, calls.reference, calls.tenant, calls.subject, calls.session,
    calls.tool, calls.created_at, calls.queue_until, calls.deadline_at, calls.waiting_for, calls.offer

-- name: lives
waits AS (
    INSERT INTO waiting (seq, queue, reference, tenant, subject, session, tool, created_at, due_at, ready, offer)
    SELECT seq, queue, reference, tenant, subject, session, tool, created_at, least(queue_until, deadline_at),
        waiting_for IS NULL, offer
    FROM made WHERE state = 'PENDING'
    ON CONFLICT (seq) DO UPDATE SET due_at = excluded.due_at, ready = excluded.ready
), runs AS (
    INSERT INTO running (seq, queue) SELECT seq, queue FROM made WHERE state = 'PROCESSING' ON CONFLICT DO NOTHING
)

-- name: recorded
SELECT seq FROM calls WHERE seq = ANY ($1)

-- name: known
SELECT place, taken_by, given, {cut_call} FROM (
    SELECT place, keys.seq AS taken_by, keys.fingerprint AS given
    FROM unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::text[])
        AS wanted (place, tenant, subject, family, call_id)
    JOIN keys USING (tenant, subject, family, call_id)) AS taken
LEFT JOIN calls ON seq = taken_by

-- name: waiting
SELECT wanted.offer, (SELECT count(*) FROM (
    SELECT 1 FROM waiting WHERE queue = 'worker' AND ready AND hashtextextended(offer, 0) = hashtextextended(wanted.offer, 0)
        AND offer || '' = wanted.offer LIMIT wanted.most) AS few)
FROM unnest($1::text[], $2::integer[]) AS wanted (offer, most)

-- What waits for somebody who has offered the tool anew, as something else.
-- name: superseded
SELECT {call} FROM calls WHERE state = 'PENDING' AND seq = ANY (ARRAY (
    SELECT few.seq FROM unnest($1::text[], $2::text[]) AS now (offer, whose), LATERAL (
        SELECT seq FROM waiting WHERE queue = 'worker' AND waiting.offer > whose AND waiting.offer < whose || '~'
            AND waiting.offer <> now.offer LIMIT $3) AS few
    LIMIT $3))

-- name: record
INSERT INTO calls (seq, tenant, subject, family, call_id, keyed, wire, tool, reference, input, fingerprint, user_id,
    trace_id, on_lost, queue, turn, state, code, attempt, created_at, finished_at, duration_ms, value, error, effects,
    extra)
SELECT seq, tenant, subject, family, call_id, false, wire, tool, reference, input, '', user_id, trace_id, on_lost, 'node', 0,
    state, code, 1, clock.now, clock.now, duration_ms, value, error, effects, extra
FROM unnest($1::new_ran_call_12[]) AS new, (SELECT ledger_now() AS now) AS clock
ON CONFLICT (seq) DO NOTHING

-- Calls that this server's nodes run. --------------------------------------------------------------

-- What `model.judge` says of a Finish, in one step for many. The WHERE is its fence; calls of sessions are left to be
-- judged, because their session is told.
-- name: finish
WITH ended AS (
    UPDATE calls SET state = to_state, code = to_code, finished_at = ledger_now(), duration_ms = took, value = result,
        error = failure, effects = had_effects, extra = beside, sealed = NULL, waiting_for = NULL
    FROM unnest($2::new_ending_12[]) AS done
    WHERE seq = number AND attempt = by_attempt AND holder = $1::text AND state = 'PROCESSING' AND queue = 'node'
        AND session IS NULL
    RETURNING seq
), gone AS (DELETE FROM running WHERE seq = ANY (ARRAY (SELECT seq FROM ended)))
SELECT seq FROM ended

-- name: note_progress
UPDATE calls SET progress = done
FROM unnest($2::bigint[], $3::integer[], $4::bytea[]) AS noted (number, by_attempt, done)
WHERE seq = number AND attempt = by_attempt AND holder = $1 AND state = 'PROCESSING' AND queue = 'node'

-- As `model.judge.is_unstarted` has it.
-- name: unstarted
SELECT {call} FROM calls WHERE seq = ANY (ARRAY (SELECT seq FROM running WHERE queue = 'node')) AND state = 'PROCESSING'
    AND holder <> $1 AND NOT EXISTS (SELECT 1 FROM nodes WHERE name = holder AND nodes.lease_until > ledger_now())
UNION ALL
SELECT {call} FROM calls WHERE seq = ANY (ARRAY (SELECT seq FROM waiting WHERE queue = 'node' AND ready)) AND state = 'PENDING'
ORDER BY created_at, seq LIMIT $2

-- What is overdue. ---------------------------------------------------------------------------------

-- name: overdue
(SELECT seq FROM waiting WHERE due_at <= (SELECT ledger_now()) LIMIT $1)
UNION ALL
(SELECT seq FROM (SELECT ledger_now() AS now) AS clock, calls WHERE seq = ANY (ARRAY (SELECT seq FROM running))
    AND (deadline_at <= now OR queue <> 'node' AND (lease_until <= now OR run_until <= now)) LIMIT $1)
LIMIT $1

-- Calls that somebody judges: their rows are locked, and then the time is taken. ------------------------

-- name: lock_requests
SELECT {standing}, tool, false, ledger_now() FROM (
    SELECT {standing}, tool FROM calls JOIN (
        SELECT {found} FROM unnest($1::text[], $2::text[]) AS wanted (in_session, id) OFFSET 0) AS wanted
    ON seq = number
    ORDER BY seq FOR NO KEY UPDATE OF calls) AS locked

-- name: lock_calls
SELECT {standing}, tool,
    EXISTS (SELECT 1 FROM nodes WHERE name = holder AND nodes.lease_until > ledger_now()), ledger_now() FROM (
    SELECT {standing}, tool FROM calls
    JOIN unnest($1::bigint[]) AS wanted (number) ON seq = number
    ORDER BY seq FOR NO KEY UPDATE OF calls) AS locked

-- Who was claimed once has no time to wait any more, whoever has it back, unless it lacks something. An ending that does
-- not say how long it took (a person's) leaves what is known of that.
-- name: save
WITH made AS (
    UPDATE calls SET state = now.state, code = now.code, waiting_for = now.waiting_for, attempt = now.attempt,
        losses = now.losses, holder = now.holder,
        queue_until = CASE WHEN now.attempt = 0 OR now.waiting_for IS NOT NULL THEN now.queue_until END,
        lease_until = now.lease_until, run_until = now.run_until, started_at = now.started_at,
        finished_at = now.finished_at, seen_at = now.seen_at, heartbeat = now.heartbeat, progress = now.progress,
        effects = now.effects, digest = now.digest,
        duration_ms = CASE WHEN ended THEN coalesce(nullif(now.duration_ms, 0), calls.duration_ms, 0) ELSE calls.duration_ms END,
        value = CASE WHEN ended THEN now.value ELSE calls.value END,
        error = CASE WHEN ended THEN now.error ELSE calls.error END,
        extra = CASE WHEN ended THEN now.extra ELSE calls.extra END,
        sealed = CASE WHEN ended THEN NULL ELSE calls.sealed END
    FROM unnest($1::new_standing_12[]) AS now
    WHERE seq = number
    RETURNING {changed}
), waits_no_more AS (
    DELETE FROM waiting WHERE seq = ANY (ARRAY (SELECT seq FROM made WHERE state <> 'PENDING'))
), runs_no_more AS (
    DELETE FROM running WHERE seq = ANY (ARRAY (SELECT seq FROM made WHERE state <> 'PROCESSING'))
), {lives}
SELECT 1

-- name: release_keys
DELETE FROM keys WHERE ctid = ANY (ARRAY (
    SELECT (SELECT ctid FROM keys WHERE keys.tenant = calls.tenant AND keys.subject = calls.subject
        AND keys.family = calls.family AND keys.call_id = calls.call_id AND keys.seq = calls.seq)
    FROM calls WHERE seq = ANY ($1)))

-- A call that is run once more has no outcome, and the deadline that `model.judge` gave it.
-- name: reopen
WITH again AS (
    UPDATE calls SET duration_ms = NULL, value = NULL, error = NULL, extra = NULL, deadline_at = $2::double precision
    WHERE seq = $1
    RETURNING seq
)
UPDATE waiting SET due_at = $2::double precision FROM again WHERE waiting.seq = again.seq

-- Requests. ----------------------------------------------------------------------------------------

-- Each is looked up by itself: where the statistics know of few requests, a join would be made by reading all of them.
-- name: found
(SELECT seq FROM calls AS found WHERE found.session = in_session AND found.request = id) AS number

-- The same for a statement that changes it at once: where the row is. Whoever changed the row since this statement began
-- has moved it; then nothing is found there, or what is there is looked at anew, and the write is judged.
-- name: place
(SELECT ctid FROM calls AS found WHERE found.session = in_session AND found.request = id) AS place

-- {fits} says: somebody holds the request, may touch it, and nothing about it is overdue. Then a write changes it at
-- once, and as `model.judge` would; what does not fit is locked and judged. Those who write are numbered from 0: `$1` to
-- `$4` are who they are, `$5` and `$6` what they offer, `$7` who serves everybody, `$8` and `$9` which tenants the
-- others do, and `$10` how the names begin of all workers of their caller.
-- name: fits
calls.ctid = place AND state = 'PROCESSING' AND waiting_for IS NULL
    AND (attempt = by_attempt AND starts_with(holder, ($10::text[])[who + 1])
        OR by_attempt IS NULL AND (who, holder) IN (SELECT * FROM unnest($1::integer[], $4::text[])))
    AND (queue = 'worker' AND (who, offer) IN (SELECT * FROM unnest($5::integer[], $6::text[]))
            AND (who = ANY ($7::integer[]) OR (who, tenant) IN (SELECT * FROM unnest($8::integer[], $9::text[])))
        OR queue = 'session' AND (who, tenant, subject) IN (SELECT * FROM unnest($1::integer[], $2::text[], $3::text[])))
    AND coalesce(least(deadline_at, run_until, lease_until), 'infinity') > ledger_now()

-- name: beat
UPDATE calls SET lease_until = ledger_now() + $11::double precision, seen_at = ledger_now(),
    heartbeat = coalesce(said, heartbeat), progress = coalesce(done, progress),
    run_until = CASE WHEN done IS NULL THEN run_until ELSE ledger_now() + run_s END
FROM (SELECT each.*, {place} FROM unnest($12::new_beat[]) WITH ORDINALITY
    AS each (in_session, id, by_attempt, who, said, done, ordinal) OFFSET 0) AS beats
WHERE {fits}
RETURNING ordinal, seq, attempt

-- Only of calls that came in outside a session: a session is told of the ends of its requests. A worker that does not
-- say how long it took has taken the time since its claim.
-- name: answer
WITH ended AS (
    UPDATE calls SET state = to_state, code = to_code, finished_at = ledger_now(), duration_ms = CASE WHEN took <> 0
            THEN took ELSE greatest(0, round(((ledger_now() - started_at) * 1000)::numeric, 3))::double precision END,
        value = result, error = failure, effects = had_effects, extra = beside, digest = answered, lease_until = NULL,
        run_until = NULL, sealed = NULL
    FROM (SELECT each.*, {place} FROM unnest($11::new_answer_12[]) WITH ORDINALITY AS each (in_session, id, by_attempt, who,
        to_state, to_code, took, result, failure, had_effects, beside, answered, ordinal) OFFSET 0) AS answers
    WHERE {fits}
    RETURNING ordinal, seq, attempt
), gone AS (DELETE FROM running WHERE seq = ANY (ARRAY (SELECT seq FROM ended)))
SELECT * FROM ended

-- Calls are found by a digest of their offer (so written, the offer itself is in no index): until they are vacuumed away,
-- a claim goes past all that were claimed before, and with short entries they are on a third of the pages.
--
-- Of what somebody may have, `$9` are looked at, more than are wanted, because others may be taking them at this moment;
-- those are passed by. The first column says how many were looked at. `claim` is a number of this one write, by which
-- its rows are found again where its fate is not known; the lock makes that search wait for the end of the write. Where
-- `$13` is false, nothing is taken if there are requests of sessions to be had.
-- name: claim
WITH clock AS MATERIALIZED (SELECT ledger_now() AS now, pg_advisory_xact_lock($1)), seen AS MATERIALIZED (
    SELECT few.*, now FROM clock, unnest($2::text[]) AS served, LATERAL (
        SELECT seq AS number, created_at AS came, queue AS whose FROM waiting
        WHERE queue = 'worker' AND ready AND hashtextextended(offer, 0) = hashtextextended(served, 0)
            AND offer || '' = served
            AND ($11::text[] IS NULL OR tenant = ANY ($11::text[])) AND {wanted}
        ORDER BY created_at, seq LIMIT $9) AS few
    UNION ALL
    SELECT few.*, now FROM clock, LATERAL (
        SELECT seq AS number, created_at AS came, queue AS whose FROM waiting
        WHERE queue = 'session' AND ready AND tenant = $3 AND subject = $4
            AND ($6::text[] IS NULL OR tool LIKE ANY ($6::text[])) AND {wanted}
        ORDER BY created_at, seq LIMIT $9) AS few
), locked AS MATERIALIZED (
    SELECT seq AS number, queue AS whose, created_at AS came, {size} AS size FROM calls
    WHERE seq = ANY (ARRAY (SELECT number FROM seen ORDER BY came, number LIMIT $9))
        AND state = 'PENDING' AND waiting_for IS NULL
        AND ($13::boolean OR NOT EXISTS (SELECT 1 FROM seen WHERE whose = 'session'))
    ORDER BY created_at, seq LIMIT $8 FOR NO KEY UPDATE SKIP LOCKED
), chosen AS MATERIALIZED (
    SELECT number, whose FROM (
        SELECT *, sum(size) OVER (ORDER BY came, number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM locked) AS sized
    WHERE coalesce(before, 0) < $12::bigint
), waits_no_more AS (
    DELETE FROM waiting WHERE seq = ANY (ARRAY (SELECT number FROM chosen))
), runs AS (
    INSERT INTO running (seq, queue) SELECT number, whose FROM chosen
)
UPDATE calls SET state = 'PROCESSING', attempt = attempt + 1, holder = $5, claim = $1, queue_until = NULL,
    lease_until = (SELECT now FROM clock) + $10::double precision, run_until = (SELECT now FROM clock) + run_s,
    started_at = (SELECT now FROM clock), seen_at = (SELECT now FROM clock), heartbeat = NULL, progress = NULL
WHERE seq = ANY (ARRAY (SELECT number FROM chosen))
RETURNING (SELECT count(*) FROM seen), (SELECT now FROM clock), seq, tenant, subject, family, call_id, keyed, wire, tool,
    reference, input, fingerprint, user_id, trace_id, sealed, on_lost, attempt, created_at, queue, session, request, turn,
    losses, effects, offer

-- How much of a call can be large.
-- name: size
octet_length(input) + coalesce(octet_length(value), 0) + coalesce(octet_length(error), 0)
    + coalesce(octet_length(extra), 0)

-- name: wanted
($7::text IS NULL OR session = $7) AND (due_at IS NULL OR due_at > now)

-- name: request
SELECT {standing} FROM calls WHERE session = $1 AND request = $2

-- name: claimed
SELECT {call} FROM calls WHERE seq = ANY (ARRAY (SELECT seq FROM running)) AND claim = $1

-- Sessions. ----------------------------------------------------------------------------------------

-- name: session
SELECT tenant, subject, tools, metadata, created_at, revision, turn, open FROM sessions WHERE id = $1 AND tenant = $2 AND subject = $3

-- name: session_standing
SELECT octet_length(tools) + octet_length(metadata), turn, open FROM sessions
WHERE id = $1 AND tenant = $2 AND subject = $3

-- name: session_metadata
SELECT metadata FROM sessions WHERE id = $1

-- name: request_standings
SELECT request, tool, state, attempt, waiting_for FROM calls WHERE session = $1 ORDER BY turn, seq

-- name: create_session
INSERT INTO sessions (id, tenant, subject, tools, metadata, created_at, changed_at)
SELECT $1, $2, $3, $4, $5, now, now FROM ledger_now() AS now
ON CONFLICT (id) DO NOTHING

-- name: lock_sessions
SELECT id, revision, turn, open FROM sessions WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE

-- name: next_turn
UPDATE sessions SET turn = $2 WHERE id = $1

-- name: announce
WITH added AS (
    INSERT INTO events (session, number, kind, data)
    SELECT * FROM unnest($4::text[], $5::bigint[], $6::text[], $7::bytea[])
)
UPDATE sessions SET revision = to_revision, open = to_open, changed_at = ledger_now()
FROM unnest($1::text[], $2::bigint[], $3::integer[]) AS changed (session, to_revision, to_open)
WHERE id = session AND id = ANY ($1)

-- name: session_requests
WITH sized AS (
    SELECT seq AS number, sum({size}) OVER (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM calls WHERE session = $1 AND ($2::integer IS NULL OR turn = $2) AND seq > $3
)
SELECT {call} FROM calls JOIN sized ON seq = number WHERE coalesce(before, 0) < $4::bigint ORDER BY seq

-- name: events
SELECT number, kind, data FROM events WHERE session = $1 AND number > $2 ORDER BY number LIMIT $3

-- Questions, and what was told of a call. -----------------------------------------------------------

-- name: lock_held
SELECT seq FROM calls WHERE seq = $1 AND attempt = $2 AND holder = $3 AND state = 'PROCESSING' AND queue = 'node'
FOR NO KEY UPDATE

-- name: lock_living
SELECT seq FROM calls WHERE seq = $1 AND state IN ('PENDING', 'PROCESSING') FOR NO KEY UPDATE

-- name: answered
SELECT answer FROM answers WHERE seq = $1 AND name = $2

-- name: ask
WITH asked AS (
    INSERT INTO questions (seq, name, number, question, asked_at)
    SELECT $1, $2, coalesce(max(number), 0) + 1, $3, ledger_now() FROM questions WHERE seq = $1
    ON CONFLICT (seq, name) DO NOTHING
)
UPDATE calls SET waiting_for = 'answer' WHERE seq = $1

-- name: answer_questions
INSERT INTO answers (seq, name, answer, answered_at)
SELECT seq, name, answer, ledger_now() FROM unnest($2::text[], $3::bytea[]) AS given (name, answer)
JOIN questions USING (name) WHERE seq = $1
ON CONFLICT (seq, name) DO NOTHING
RETURNING 1

-- name: wait_no_more
UPDATE calls SET waiting_for = NULL WHERE seq = $1 AND waiting_for = 'answer' AND NOT EXISTS (
    SELECT 1 FROM questions LEFT JOIN answers USING (seq, name) WHERE seq = $1 AND answer IS NULL)

-- name: questions
SELECT name, question, answer FROM questions LEFT JOIN answers USING (seq, name) WHERE seq = $1 ORDER BY number

-- name: add_call_events
INSERT INTO call_events (seq, number, data)
SELECT seq, number, data FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS new (seq, number, data)
WHERE EXISTS (SELECT 1 FROM calls WHERE calls.seq = new.seq)
ON CONFLICT (seq, number) DO NOTHING

-- name: call_events
SELECT number, data FROM call_events WHERE seq = $1 AND number > $2 ORDER BY number

-- Notes. -------------------------------------------------------------------------------------------

-- Who looks for a caller's notes of a kind before it writes one, looks alone.
-- name: lock_notes
SELECT pg_advisory_xact_lock(hashtextextended($1::text || ' ' || $2::text || ' ' || $3::text, 0))

-- name: put_note
INSERT INTO notes (kind, tenant, subject, name, data, expires_at, user_id, seq)
VALUES ($1, $2, $3, $4, $5, ledger_now() + $6::double precision, $7, $8)
ON CONFLICT (kind, tenant, subject, name) DO UPDATE SET data = excluded.data, user_id = excluded.user_id,
    seq = excluded.seq, expires_at = excluded.expires_at

-- name: add_note
INSERT INTO notes AS known (kind, tenant, subject, name, data, expires_at, user_id, seq)
VALUES ($1, $2, $3, $4, $5, ledger_now() + $6::double precision, $7, $8)
ON CONFLICT (kind, tenant, subject, name) DO UPDATE SET data = excluded.data, user_id = excluded.user_id,
    seq = excluded.seq, expires_at = excluded.expires_at
    WHERE known.expires_at <= ledger_now()
RETURNING 1

-- name: note
SELECT data FROM notes WHERE kind = $1 AND tenant = $2 AND subject = $3 AND name = $4 AND expires_at > ledger_now()

-- name: drop_note
DELETE FROM notes WHERE kind = $1 AND tenant = $2 AND subject = $3 AND name = $4 AND ($5::bytea IS NULL OR data = $5)
RETURNING expires_at > ledger_now()

-- Workers. -----------------------------------------------------------------------------------------

-- name: put_worker
INSERT INTO workers AS known (tenant, subject, name, tools, revision, lease_until)
VALUES ($1, $2, $3, $4, 1, ledger_now() + $5::double precision)
ON CONFLICT (tenant, subject, name) DO UPDATE SET tools = excluded.tools, lease_until = excluded.lease_until,
    revision = known.revision + (known.tools <> excluded.tools)::integer

-- name: beat_worker
UPDATE workers SET lease_until = ledger_now() + $4::double precision
WHERE tenant = $1 AND subject = $2 AND name = $3 AND lease_until > ledger_now()
RETURNING 1

-- name: drop_worker
DELETE FROM workers WHERE tenant = $1 AND subject = $2 AND name = $3 RETURNING 1

-- name: workers
SELECT tenant, subject, name, tools, revision FROM workers WHERE lease_until > ledger_now()
ORDER BY tenant, subject, name

-- name: drop_dead_workers
DELETE FROM workers WHERE lease_until <= ledger_now() RETURNING 1

-- Upstreams. ---------------------------------------------------------------------------------------

-- `revision` is another after each change, also of one that was dropped meanwhile: it begins with the time.
-- name: put_upstream
WITH before AS MATERIALIZED (SELECT revision FROM upstreams WHERE name = $1)
INSERT INTO upstreams AS known (name, address, listing, seen_at, revision)
SELECT $1::text, $2::text, $3::bytea, now, (now * 1000)::bigint FROM ledger_now() AS now
ON CONFLICT (name) DO UPDATE SET address = excluded.address, listing = excluded.listing, seen_at = excluded.seen_at,
    revision = known.revision + (known.address <> excluded.address OR known.listing <> excluded.listing)::integer
RETURNING revision IS DISTINCT FROM (SELECT revision FROM before)

-- name: upstreams
SELECT name, address, listing, seen_at FROM upstreams ORDER BY name

-- name: drop_upstream
DELETE FROM upstreams WHERE name = $1 RETURNING 1

-- Nodes and the slots they hold. ---------------------------------------------------------------------

-- name: renew
INSERT INTO nodes (name, lease_until) VALUES ($1, ledger_now() + $2::double precision)
ON CONFLICT (name) DO UPDATE SET lease_until = excluded.lease_until

-- The ledger went back to a copy. --------------------------------------------------------------------

-- name: alive_nodes
SELECT max(lease_until) - ledger_now() FROM nodes WHERE name <> $1 AND lease_until > ledger_now() HAVING count(*) > 0

-- name: count_on
SELECT setval('calls_seq', $1) FROM calls_seq WHERE last_value < $1

-- name: forget_notes
DELETE FROM notes WHERE kind = ANY ($1::text[])

-- The last of the sessions that were looked at; null where there were none.
-- name: leave_gaps
WITH seen AS MATERIALIZED (SELECT id FROM sessions WHERE id > $2 ORDER BY id LIMIT $3), changed AS (
    UPDATE sessions SET revision = $1::bigint WHERE id = ANY (ARRAY (SELECT id FROM seen)) AND revision < $1::bigint)
SELECT max(id) FROM seen

-- name: living_calls
SELECT seq FROM waiting UNION SELECT seq FROM running ORDER BY seq

-- name: check
SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'

-- name: check_locks
SET LOCAL lock_timeout = '1s'; LOCK TABLE calls, keys IN ROW EXCLUSIVE MODE

-- name: leave
WITH gone AS (DELETE FROM nodes WHERE name = $1), unused AS (DELETE FROM usage WHERE node = $1) UPDATE slots SET node = NULL, token = NULL WHERE node = $1

-- name: make_slots
INSERT INTO slots (tool, number) SELECT $1, number FROM generate_series(1, $2) AS number ON CONFLICT DO NOTHING

-- A slot under our name with a token that we do not hold is one that we gave back or never knew we had.
-- name: take_slot
UPDATE slots SET node = $3, token = $4 WHERE tool = $1 AND number = (
    SELECT number FROM slots WHERE tool = $1 AND number <= $2 AND (node IS NULL OR node = $3 AND token <> ALL ($5::bigint[])
        OR node <> $3 AND NOT EXISTS (SELECT 1 FROM nodes WHERE name = node AND lease_until > ledger_now()))
    ORDER BY token IS DISTINCT FROM $4, number LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
RETURNING 1

-- name: give_slot
UPDATE slots SET node = NULL, token = NULL WHERE tool = $1 AND token = $2

-- What is limited on all nodes together. -------------------------------------------------------------

-- name: put_usage
INSERT INTO usage (node, name, minute, used, before, running)
SELECT $1, name, minute, used, before, running
FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
    AS news (name, minute, used, before, running)
ON CONFLICT (node, name) DO UPDATE
SET minute = excluded.minute, used = excluded.used, before = excluded.before, running = excluded.running

-- name: usage_elsewhere
SELECT name, minute, used, before, running FROM usage
WHERE node <> $1 AND (running > 0 OR minute >= floor(ledger_now() / 60)::bigint - 1)
    AND EXISTS (SELECT 1 FROM nodes WHERE nodes.name = node AND lease_until > ledger_now())

-- name: now
SELECT ledger_now()

-- name: sweep_usage
DELETE FROM usage WHERE minute < floor(ledger_now() / 60)::bigint - 2
    AND (running = 0 OR NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.name = node))

-- What is kept for callers. ---------------------------------------------------------------------------

-- One node adds up at a time; the others need not.
-- name: add_up_stored
WITH turn AS MATERIALIZED (SELECT pg_try_advisory_xact_lock($1) AS has
), news AS (
    DELETE FROM stored_news WHERE (SELECT has FROM turn) RETURNING tenant, subject, bytes
)
INSERT INTO stored (tenant, subject, bytes)
SELECT tenant, subject, sum(bytes) FROM news GROUP BY tenant, subject ORDER BY tenant, subject
ON CONFLICT (tenant, subject) DO UPDATE SET bytes = stored.bytes + excluded.bytes

-- name: forget_stored
DELETE FROM stored WHERE bytes <= 0 AND NOT EXISTS (
    SELECT 1 FROM stored_news WHERE stored_news.tenant = stored.tenant AND stored_news.subject = stored.subject)

-- name: full_callers
SELECT tenant, subject FROM stored WHERE bytes >= $1

-- name: full_tenants
SELECT tenant FROM stored GROUP BY tenant HAVING sum(bytes) >= $1

-- API keys. -----------------------------------------------------------------------------------------

-- An expired key leaves its name to the next one.
-- name: free_key_name
UPDATE api_keys SET revoked = expires WHERE name = $1 AND revoked IS NULL AND expires <= ledger_now()

-- name: put_api_key
INSERT INTO api_keys (name, digest, tenant, subject, allow, scopes, created, expires)
VALUES ($1, $2, $3, $4, $5, $6, ledger_now(), $7)
ON CONFLICT DO NOTHING

-- name: has_api_key
SELECT 1 FROM api_keys WHERE digest = $1

-- name: api_keys
SELECT name, digest, tenant, subject, allow, scopes, created, expires, revoked, last_used FROM api_keys
ORDER BY created, name, digest

-- name: revoke_api_key
UPDATE api_keys SET revoked = ledger_now() WHERE name = $1 AND revoked IS NULL RETURNING 1

-- name: note_key_uses
UPDATE api_keys SET last_used = greatest(last_used, used)
FROM unnest($1::bytea[], $2::double precision[]) AS noted (noted_digest, used) WHERE digest = noted_digest

-- Old things go, a few at once. ----------------------------------------------------------------------

-- name: sweep
WITH gone AS (
    DELETE FROM calls WHERE seq = ANY (ARRAY (SELECT seq FROM calls
        WHERE created_at < (SELECT ledger_now() - $1::double precision)
            AND finished_at < (SELECT ledger_now() - $1::double precision)
        ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING seq
), unasked AS (DELETE FROM questions WHERE seq = ANY (ARRAY (SELECT seq FROM gone))
), unanswered AS (DELETE FROM answers WHERE seq = ANY (ARRAY (SELECT seq FROM gone))
), untold AS (DELETE FROM call_events WHERE seq = ANY (ARRAY (SELECT seq FROM gone)))
SELECT count(*) FROM gone

-- A key is not free before its call has ended and its result may go.
-- name: keep_keys
UPDATE keys SET expires_at = coalesce(calls.finished_at, ledger_now()) + $2::double precision
FROM calls WHERE calls.seq = keys.seq
    AND coalesce(calls.finished_at, ledger_now()) + $2::double precision >= ledger_now()
    AND keys.ctid = ANY (ARRAY (SELECT ctid FROM keys WHERE expires_at < (SELECT ledger_now())
        ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))

-- name: sweep_keys
DELETE FROM keys WHERE ctid = ANY (ARRAY (SELECT ctid FROM keys WHERE expires_at < (SELECT ledger_now())
    ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))

-- name: sweep_notes
DELETE FROM notes WHERE ctid = ANY (ARRAY (SELECT ctid FROM notes WHERE expires_at <= (SELECT ledger_now())
    ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))

-- name: sweep_sessions
WITH gone AS (
    DELETE FROM sessions WHERE id = ANY (ARRAY (SELECT id FROM sessions
        WHERE open = 0 AND created_at < (SELECT ledger_now() - $1::double precision)
            AND changed_at < (SELECT ledger_now() - $1::double precision)
        ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING id
)
DELETE FROM events WHERE session = ANY (ARRAY (SELECT id FROM gone))

-- name: sweep_nodes
DELETE FROM nodes WHERE lease_until < ledger_now() - $1::double precision

-- What others changed. -------------------------------------------------------------------------------

-- name: ended_among
SELECT wanted FROM unnest($1::bigint[]) AS wanted LEFT JOIN calls ON seq = wanted
WHERE state IS NULL OR state IN ('COMPLETE', 'ERROR')

-- name: revisions
SELECT id, revision FROM sessions WHERE id = ANY ($1)

-- name: asked_among
SELECT wanted, (SELECT count(*) FROM questions WHERE seq = wanted), (SELECT count(*) FROM answers WHERE seq = wanted),
    (SELECT waiting_for FROM calls WHERE seq = wanted)
FROM unnest($1::bigint[]) AS wanted

-- name: any_pending
SELECT EXISTS (SELECT 1 FROM waiting WHERE queue = 'worker' AND ready)
    OR EXISTS (SELECT 1 FROM waiting WHERE queue = 'session' AND ready)

-- name: workers_alive
SELECT tenant, subject, name, revision FROM workers WHERE lease_until > ledger_now() ORDER BY tenant, subject, name

-- name: upstream_revisions
SELECT name, revision FROM upstreams ORDER BY name

-- name: key_changes
SELECT count(*), count(revoked) FROM api_keys

-- name: notify
SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload

-- The audit log. --------------------------------------------------------------------------------------

-- name: add_audit
INSERT INTO audit (chain, number, count, first_at, last_at, mac, entries) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (chain, number) DO NOTHING
RETURNING 1

-- name: audit_mac
SELECT mac FROM audit WHERE chain = $1 AND number = $2

-- name: move_audit_head
INSERT INTO audit_heads (chain, number, mac, count, at, seal) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (chain) DO UPDATE SET number = excluded.number, mac = excluded.mac, count = excluded.count,
    at = excluded.at, seal = excluded.seal

-- name: move_audit_anchor
INSERT INTO audit_anchors (chain, number, mac, count, at, seal) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (chain) DO UPDATE SET number = excluded.number, mac = excluded.mac, count = excluded.count,
    at = excluded.at, seal = excluded.seal
WHERE excluded.number > audit_anchors.number

-- name: audit_heads
SELECT chain, number, mac, count, at, seal FROM audit_heads WHERE $1::text IS NULL OR chain = $1

-- name: audit_anchors
SELECT chain, number, mac, count, at, seal FROM audit_anchors WHERE $1::text IS NULL OR chain = $1

-- From one name to the next by the index, and not through all blocks.
-- name: audit_names
WITH RECURSIVE names (chain) AS (
    SELECT min(chain) FROM audit
    UNION ALL SELECT (SELECT min(chain) FROM audit WHERE audit.chain > names.chain) FROM names
    WHERE names.chain IS NOT NULL)
SELECT chain FROM names WHERE chain IS NOT NULL

-- name: audit_blocks
SELECT chain, number, count, first_at, last_at, mac, entries FROM audit
WHERE chain = $1 AND number > $2 AND ($4::double precision IS NULL OR number >= (
    SELECT number FROM audit WHERE chain = $1 AND last_at >= $4 ORDER BY last_at, number LIMIT 1))
ORDER BY number LIMIT $3

-- name: drop_audit
DELETE FROM audit WHERE chain = $1 AND number <= $2 RETURNING 1

-- Sealed things. --------------------------------------------------------------------------------------

-- name: put_sealed
INSERT INTO vault (kind, tenant, owner, name, data, about, version, changed)
SELECT $1::text, $2::text, $3::text, $4::text, $5::bytea, $6::bytea, 1, ledger_now()
WHERE $7::bigint IS NULL OR $7::bigint = 0
    OR EXISTS (SELECT 1 FROM vault WHERE kind = $1 AND tenant = $2 AND owner = $3 AND name = $4)
ON CONFLICT (kind, tenant, owner, name) DO UPDATE
SET data = excluded.data, about = excluded.about, version = vault.version + 1, changed = excluded.changed
WHERE $7::bigint IS NULL OR vault.version = $7::bigint
RETURNING version

-- name: sealed
SELECT kind, tenant, owner, name, data, about, version, changed FROM vault
WHERE ($1::text IS NULL OR kind = $1) AND ($2::text IS NULL OR tenant = $2) AND ($3::text IS NULL OR owner = $3)
    AND ($4::text IS NULL OR name = $4)
ORDER BY tenant, owner, name

-- name: drop_sealed
DELETE FROM vault WHERE kind = $1 AND tenant = $2 AND owner = $3 AND name = $4 RETURNING version

-- name: erase
WITH gone AS (
    DELETE FROM calls WHERE coalesce(nullif(user_id, ''), subject) = $2 AND ($1::text IS NULL OR tenant = $1)
        AND state IN ('COMPLETE', 'ERROR')
    RETURNING seq
), unasked AS (DELETE FROM questions WHERE seq = ANY (ARRAY (SELECT seq FROM gone))
), unanswered AS (DELETE FROM answers WHERE seq = ANY (ARRAY (SELECT seq FROM gone))
), untold AS (DELETE FROM call_events WHERE seq = ANY (ARRAY (SELECT seq FROM gone)))
SELECT count(*) FROM gone

-- name: erase_notes
DELETE FROM notes WHERE user_id = $2 AND ($1::text IS NULL OR tenant = $1)
    AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.seq = notes.seq AND state IN ('PENDING', 'PROCESSING'))

-- name: erasures
SELECT tenant, subject, name, expires_at - $2::double precision, ledger_now() FROM notes
WHERE kind = $1 AND expires_at > ledger_now() AND data <> $3::bytea

-- name: drop_calls
DELETE FROM calls WHERE seq = ANY ($1::bigint[])

-- Blocks of calls. ---------------------------------------------------------------------------------

-- name: last_number
SELECT greatest((SELECT coalesce(max(seq), 0) FROM calls), (SELECT coalesce(max(last), 0) FROM blocks))

-- A block that is there already was written by this same write, made before.
-- name: add_block
WITH clock AS MATERIALIZED (SELECT ledger_now() AS now), new AS (
    INSERT INTO blocks (last, first, count, failed, first_id, last_id, ids, about, format, data, written_at, clock_offset)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, coalesce($11::double precision, now),
        coalesce(now - $12::double precision, 0)
    FROM clock
    ON CONFLICT (last) DO NOTHING RETURNING last
), callers AS MATERIALIZED (
    SELECT * FROM unnest($13::text[], $14::text[], $15::integer[], $16::bigint[]) AS who (tenant, subject, calls, charge)
), kept AS (
    INSERT INTO block_callers (tenant, subject, last, calls, charge)
    SELECT tenant, subject, last, calls, charge FROM callers, new
)
INSERT INTO stored_news (tenant, subject, bytes) SELECT tenant, subject, charge FROM callers, new

-- name: blocks_written
SELECT last, written_at FROM blocks WHERE last = ANY ($1::bigint[])

-- name: blocks
SELECT first, last, count, failed, first_id, last_id, ids, about, format, data, clock_offset FROM blocks
WHERE last = ANY ($1::bigint[])

-- name: heads
SELECT last, first, about FROM blocks WHERE last <= $1 ORDER BY last DESC LIMIT $2

-- name: heads_of_caller
SELECT blocks.last, first, about FROM block_callers JOIN blocks ON blocks.last = block_callers.last
WHERE tenant = $1 AND subject = $2 AND block_callers.last <= $3 ORDER BY block_callers.last DESC LIMIT $4

-- name: blocks_with_id
SELECT last, ids FROM blocks WHERE first_id <= $1 AND last_id >= $1

-- name: blocks_near
SELECT last FROM blocks WHERE last >= $1 AND last < $1 + $2 AND first <= $1 ORDER BY last

-- name: count_blocks
SELECT coalesce(sum(count - failed), 0), coalesce(sum(failed), 0) FROM blocks WHERE last >= $1 AND first >= $1

-- name: blocks_across
SELECT last FROM blocks WHERE last >= $1 AND first < $1

-- name: old_blocks
SELECT last, count FROM blocks WHERE written_at < (SELECT ledger_now() - $1::double precision)
ORDER BY written_at LIMIT $2 FOR UPDATE SKIP LOCKED

-- name: small_blocks
SELECT last, first, count, octet_length(data), written_at FROM blocks
WHERE count < $1 AND written_at < (SELECT ledger_now() - $2::double precision)
ORDER BY last LIMIT $3 FOR UPDATE SKIP LOCKED

-- name: blocks_after
SELECT last, written_at FROM blocks WHERE last > $1 ORDER BY last LIMIT $2 FOR UPDATE

-- name: drop_blocks
WITH gone AS (DELETE FROM blocks WHERE last = ANY ($1::bigint[]) RETURNING last
), uncharged AS (DELETE FROM block_callers WHERE last = ANY (ARRAY (SELECT last FROM gone))
    RETURNING tenant, subject, charge)
INSERT INTO stored_news (tenant, subject, bytes) SELECT tenant, subject, - charge FROM uncharged

-- What was called, by the minute. ------------------------------------------------------------------

-- name: put_rollups
INSERT INTO rollups (node, minute, wire, tool, code, calls, total_s, buckets)
SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::double precision[],
    $8::bytea[])
ON CONFLICT (minute, node, wire, tool, code)
DO UPDATE SET calls = excluded.calls, total_s = excluded.total_s, buckets = excluded.buckets

-- name: rollups
SELECT minute, wire, tool, code, calls, total_s, buckets FROM rollups WHERE minute >= $1 AND minute < $2

-- name: sweep_rollups
DELETE FROM rollups WHERE minute < (SELECT (ledger_now() - $1::double precision) / 60)
