-- Every statement that SQLite's ledger makes. `:now` is the store's clock.

-- name: call
SELECT seq, tenant, subject, family, call_id, keyed, wire, tool, reference,
    coalesce(input, (SELECT data FROM blobs WHERE id = input_blob)), fingerprint, user_id, trace_id, sealed, on_lost,
    state, code, waiting_for, attempt, holder, created_at, started_at, finished_at, duration_ms,
    coalesce(value, (SELECT data FROM blobs WHERE id = value_blob)), error,
    queue, session, request, turn, losses, lease_until, heartbeat, seen_at, progress, effects, offer,
    coalesce(extra, (SELECT data FROM blobs WHERE id = extra_blob))
FROM calls

-- name: listed
SELECT seq, tenant, subject, family, call_id, keyed, wire, tool, reference,
    coalesce(input, x''), fingerprint, user_id, trace_id, sealed, on_lost,
    state, code, waiting_for, attempt, holder, created_at, started_at, finished_at, duration_ms, value, error,
    queue, session, request, turn, losses, lease_until, heartbeat, seen_at, progress, effects, offer,
    extra, input_blob IS NOT NULL OR value_blob IS NOT NULL OR extra_blob IS NOT NULL
FROM calls

-- name: waiting_calls
SELECT seq, count(*) OVER () FROM (
    SELECT seq, row_number() OVER (PARTITION BY tenant, subject ORDER BY seq) AS place FROM calls
    WHERE state = 'PENDING' AND waiting_for = :waiting_for AND (:tenant IS NULL OR tenant = :tenant)) AS each
ORDER BY place, seq LIMIT :limit

-- What lives is found by its own indexes.
-- name: counted
SELECT 'PENDING', count(*) FROM calls INDEXED BY calls_pending WHERE state = 'PENDING'
UNION ALL SELECT 'PROCESSING', count(*) FROM calls INDEXED BY calls_processing WHERE state = 'PROCESSING'
UNION ALL SELECT state, count(*) FROM calls WHERE seq >= :since AND state IN ('COMPLETE', 'ERROR') GROUP BY state

-- name: standing
SELECT seq, tenant, subject, session, request, reference, queue, on_lost, run_s, created_at, deadline_at, queue_until,
    state, code, waiting_for, attempt, losses, holder, lease_until, run_until, started_at, finished_at, seen_at,
    heartbeat, progress, effects, digest, offer
FROM calls

-- A number is never given twice, also where the newest calls were removed.
-- name: begin
INSERT INTO calls (seq, tenant, subject, family, call_id, keyed, wire, tool, reference, input, input_blob, fingerprint,
    user_id, trace_id, sealed, on_lost, queue, session, request, turn, run_s, state, attempt, holder, created_at,
    started_at, queue_until, deadline_at, waiting_for, offer)
VALUES ((SELECT max(last, coalesce((SELECT max(seq) FROM calls), 0)) + 1 FROM numbers),
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: record
INSERT INTO calls (seq, tenant, subject, family, call_id, keyed, wire, tool, reference, input, input_blob, fingerprint,
    user_id, trace_id, on_lost, state, code, attempt, created_at, finished_at, duration_ms, value, value_blob, error,
    effects, extra, extra_blob)
VALUES ((SELECT max(last, coalesce((SELECT max(seq) FROM calls), 0)) + 1 FROM numbers),
    ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, x'', ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_stored
INSERT INTO stored (tenant, subject, bytes) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes

-- name: full_callers
SELECT tenant, subject FROM stored WHERE bytes >= ?

-- name: full_tenants
SELECT tenant FROM stored GROUP BY tenant HAVING sum(bytes) >= ?

-- What `model.judge` says of a Finish, in one step. The WHERE is its fence.
-- name: finish
UPDATE calls SET state = ?, code = ?, finished_at = ?, duration_ms = ?, value = ?, value_blob = ?, error = ?,
    effects = ?, extra = ?, extra_blob = ?, sealed = NULL, waiting_for = NULL
WHERE seq = ? AND attempt = ? AND holder = ? AND state = 'PROCESSING' AND queue = 'node'
RETURNING session

-- An ending that does not say how long it took (a person's) leaves what is known of that.
-- name: end
UPDATE calls SET duration_ms = coalesce(nullif(?, 0.0), duration_ms, 0.0), value = ?, value_blob = ?, error = ?,
    extra = ?, extra_blob = ?, sealed = NULL WHERE seq = ?

-- name: take_key
INSERT INTO keys (tenant, subject, family, call_id, seq, fingerprint, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: release_key
DELETE FROM keys WHERE seq = :seq AND (tenant, subject, family, call_id) IN
    (SELECT tenant, subject, family, call_id FROM calls WHERE seq = :seq)

-- name: key
SELECT seq, fingerprint FROM keys WHERE tenant = ? AND subject = ? AND family = ? AND call_id = ?

-- name: pending_of_offer
SELECT count(*) FROM (SELECT 1 FROM calls INDEXED BY calls_offered WHERE state = 'PENDING' AND offer = ? LIMIT ?)

-- What waits for somebody who has offered the tool anew, as something else.
-- name: superseded
SELECT seq FROM calls INDEXED BY calls_offered
WHERE state = 'PENDING' AND offer > :whose AND offer < :whose || '~' AND offer <> :offer LIMIT :limit

-- Only what lives is looked at, however many have ended.
-- name: overdue
SELECT seq FROM calls INDEXED BY calls_processing WHERE state = 'PROCESSING'
    AND (deadline_at <= :now OR (queue != 'node' AND (lease_until <= :now OR run_until <= :now)))
UNION ALL
SELECT seq FROM calls INDEXED BY calls_pending WHERE state = 'PENDING'
    AND (deadline_at <= :now OR ((attempt = 0 OR waiting_for IS NOT NULL) AND queue_until <= :now))
LIMIT :limit

-- As `model.judge.is_unstarted` has it.
-- name: unstarted
SELECT seq FROM calls INDEXED BY calls_processing WHERE state = 'PROCESSING' AND queue = 'node' AND holder != :node
UNION ALL
SELECT seq FROM calls INDEXED BY calls_pending WHERE state = 'PENDING' AND queue = 'node' AND waiting_for IS NULL
ORDER BY seq LIMIT :limit

-- A key is not free before its call has ended and its result may go.
-- name: keep_keys
UPDATE keys SET expires_at = coalesce(calls.finished_at, :now) + :key_ttl_s
FROM calls WHERE calls.seq = keys.seq AND keys.expires_at < :now
    AND coalesce(calls.finished_at, :now) + :key_ttl_s >= :now

-- name: old_calls
SELECT seq, input_blob, value_blob, extra_blob FROM calls WHERE finished_at < ? ORDER BY finished_at LIMIT ?

-- name: calls_of_user
SELECT seq, input_blob, value_blob, extra_blob FROM calls
WHERE coalesce(nullif(user_id, ''), subject) = :user_id AND (:tenant IS NULL OR tenant = :tenant)
    AND state IN ('COMPLETE', 'ERROR')

-- name: erase_notes
DELETE FROM notes WHERE user_id = :user_id AND (:tenant IS NULL OR tenant = :tenant)
    AND NOT EXISTS (SELECT 1 FROM calls WHERE calls.seq = notes.seq AND state IN ('PENDING', 'PROCESSING'))

-- name: session
SELECT id, tenant, subject, tools, metadata, created_at, revision, turn, open
FROM sessions JOIN session_counts ON session = id WHERE id = ?

-- name: session_counts
SELECT revision, turn, open FROM session_counts WHERE session = ?

-- name: session_standing
SELECT length(tools) + length(metadata), turn, open FROM sessions JOIN session_counts ON session = id
WHERE id = ? AND tenant = ? AND subject = ?

-- name: session_metadata
SELECT metadata FROM sessions WHERE id = ?

-- name: request_standings
SELECT request, tool, state, attempt, waiting_for FROM calls WHERE session = ? ORDER BY seq

-- name: create_session
INSERT INTO sessions (id, tenant, subject, tools, metadata, created_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING

-- name: count_session
INSERT INTO session_counts (session, changed_at) VALUES (?, ?) ON CONFLICT (session) DO NOTHING

-- name: save_session
UPDATE session_counts SET revision = ?, turn = ?, open = ?, changed_at = ? WHERE session = ?

-- name: add_event
INSERT INTO events (session, number, kind, data) VALUES (?, ?, ?, ?)

-- name: events
SELECT number, kind, data FROM events WHERE session = ? AND number > ? ORDER BY number LIMIT ?

-- name: old_sessions
DELETE FROM sessions WHERE id IN (
    SELECT session FROM session_counts WHERE open = 0 AND changed_at < ? ORDER BY changed_at LIMIT ?)
RETURNING id

-- name: put_worker
INSERT INTO workers (tenant, subject, name, tools, revision, lease_until) VALUES (:tenant, :subject, :name, :tools, 1,
    :lease_until)
ON CONFLICT (tenant, subject, name) DO UPDATE
    SET tools = excluded.tools, lease_until = excluded.lease_until, revision = revision + (tools != excluded.tools)

-- name: beat_worker
UPDATE workers SET lease_until = ? WHERE tenant = ? AND subject = ? AND name = ? AND lease_until > ? RETURNING 1

-- name: drop_worker
DELETE FROM workers WHERE tenant = ? AND subject = ? AND name = ? RETURNING 1

-- name: workers
SELECT tenant, subject, name, tools, revision FROM workers WHERE lease_until > ? ORDER BY tenant, subject, name

-- name: drop_dead_workers
DELETE FROM workers WHERE lease_until <= ? RETURNING 1

-- name: upstream_is
SELECT 1 FROM upstreams WHERE name = :name AND address = :address AND listing = :listing

-- name: put_upstream
INSERT INTO upstreams (name, address, listing, seen_at) VALUES (:name, :address, :listing, :now)
ON CONFLICT (name) DO UPDATE SET address = excluded.address, listing = excluded.listing, seen_at = excluded.seen_at

-- name: upstreams
SELECT name, address, listing, seen_at FROM upstreams ORDER BY name

-- name: drop_upstream
DELETE FROM upstreams WHERE name = ? RETURNING 1

-- name: called_of
SELECT value FROM (
    SELECT value, (SELECT seq FROM calls INDEXED BY calls_offered
        WHERE state = 'PENDING' AND offer = served.value AND waiting_for IS NULL
            AND (:houses IS NULL OR tenant IN (SELECT value FROM json_each(:houses)))
            AND (:session IS NULL OR session = :session)
        ORDER BY seq LIMIT 1) AS oldest
    FROM json_each(:offers) AS served
) WHERE oldest IS NOT NULL ORDER BY oldest LIMIT :limit

-- The ledger went back to a copy. --------------------------------------------------------------------

-- name: count_on
UPDATE numbers SET last = ?1 WHERE last < ?1

-- name: leave_gaps
UPDATE session_counts SET revision = ?1 WHERE revision < ?1

-- name: living_calls
SELECT seq FROM calls INDEXED BY calls_pending WHERE state = 'PENDING'
UNION ALL SELECT seq FROM calls INDEXED BY calls_processing WHERE state = 'PROCESSING'
ORDER BY seq

-- It is gone again before anybody sees it.
-- name: check
INSERT INTO blobs (id, data) VALUES (0, zeroblob(?));
DELETE FROM blobs WHERE id = 0

-- name: reject
UPDATE calls SET state = ?, code = ?, finished_at = ?, duration_ms = ?, value = ?, value_blob = ?, error = ?,
    effects = ?, extra = ?, extra_blob = ? WHERE seq = ?

-- name: note_progress
UPDATE calls SET progress = ? WHERE seq = ? AND attempt = ? AND state = 'PROCESSING'

-- A call that is run once more has no outcome, and the deadline that `model.judge` gave it.
-- name: reopen
UPDATE calls SET deadline_at = ?, duration_ms = NULL, value = NULL, value_blob = NULL, error = NULL, extra = NULL,
    extra_blob = NULL WHERE seq = ?

-- name: runs_here
SELECT 1 FROM calls WHERE seq = ? AND attempt = ? AND holder = ? AND state = 'PROCESSING' AND queue = 'node'

-- name: lives
SELECT 1 FROM calls WHERE seq = ? AND state IN ('PENDING', 'PROCESSING')

-- name: answered
SELECT answer FROM answers WHERE seq = ? AND name = ?

-- name: add_question
INSERT INTO questions (seq, name, number, question, asked_at)
SELECT :seq, :name, coalesce(max(number), 0) + 1, :question, :now FROM questions WHERE seq = :seq
ON CONFLICT (seq, name) DO NOTHING

-- name: wait_for_answer
UPDATE calls SET waiting_for = 'answer' WHERE seq = ?

-- name: answer_question
INSERT INTO answers (seq, name, answer, answered_at)
SELECT seq, name, :answer, :now FROM questions WHERE seq = :seq AND name = :name
ON CONFLICT (seq, name) DO NOTHING
RETURNING 1

-- name: wait_no_more
UPDATE calls SET waiting_for = NULL WHERE seq = :seq AND waiting_for = 'answer' AND NOT EXISTS (
    SELECT 1 FROM questions WHERE seq = :seq AND name NOT IN (SELECT name FROM answers WHERE seq = :seq))

-- name: questions
SELECT name, question, answer FROM questions LEFT JOIN answers USING (seq, name) WHERE seq = ? ORDER BY number

-- name: put_note
INSERT INTO notes (kind, tenant, subject, name, data, user_id, seq, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, tenant, subject, name) DO UPDATE SET data = excluded.data, user_id = excluded.user_id,
    seq = excluded.seq, expires_at = excluded.expires_at

-- name: add_note
INSERT INTO notes (kind, tenant, subject, name, data, user_id, seq, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, tenant, subject, name) DO UPDATE SET data = excluded.data, user_id = excluded.user_id,
    seq = excluded.seq, expires_at = excluded.expires_at
    WHERE notes.expires_at <= ?
RETURNING 1

-- name: note
SELECT data FROM notes WHERE kind = ? AND tenant = ? AND subject = ? AND name = ? AND expires_at > ?

-- name: drop_note
DELETE FROM notes WHERE kind = :kind AND tenant = :tenant AND subject = :subject AND name = :name
    AND (:data IS NULL OR data = :data)
RETURNING expires_at > :now

-- name: old_notes
DELETE FROM notes WHERE rowid IN (SELECT rowid FROM notes WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)

-- name: add_call_event
INSERT INTO call_events (seq, number, data) SELECT seq, :number, :data FROM calls WHERE seq = :seq
ON CONFLICT (seq, number) DO NOTHING

-- name: call_events
SELECT number, data FROM call_events WHERE seq = ? AND number > ? ORDER BY number

-- An expired key leaves its name to the next one.
-- name: free_key_name
UPDATE api_keys SET revoked = expires WHERE name = ? AND revoked IS NULL AND expires <= ?

-- name: put_api_key
INSERT INTO api_keys (name, digest, tenant, subject, allow, scopes, created, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: has_api_key
SELECT 1 FROM api_keys WHERE digest = ?

-- name: api_keys
SELECT name, digest, tenant, subject, allow, scopes, created, expires, revoked, last_used FROM api_keys
ORDER BY created, name, digest

-- name: revoke_api_key
UPDATE api_keys SET revoked = ? WHERE name = ? AND revoked IS NULL RETURNING 1

-- name: note_key_use
UPDATE api_keys SET last_used = max(coalesce(last_used, 0), :used) WHERE digest = :digest

-- name: add_audit
INSERT INTO audit (chain, number, count, first_at, last_at, mac, entries, format)
VALUES (:chain, :number, :count, :first_at, :last_at, :mac, :entries, :format)
ON CONFLICT (chain, number) DO NOTHING
RETURNING 1

-- name: audit_mac
SELECT mac FROM audit WHERE chain = ? AND number = ?

-- name: move_audit_head
INSERT INTO audit_heads (chain, number, mac, count, at, seal) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (chain) DO UPDATE SET number = excluded.number, mac = excluded.mac, count = excluded.count,
    at = excluded.at, seal = excluded.seal

-- name: move_audit_anchor
INSERT INTO audit_anchors (chain, number, mac, count, at, seal) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (chain) DO UPDATE SET number = excluded.number, mac = excluded.mac, count = excluded.count,
    at = excluded.at, seal = excluded.seal
WHERE excluded.number > audit_anchors.number

-- What somebody may have spoilt is read as bytes, whatever it is now.
-- name: audit_heads
SELECT chain, number, CAST(mac AS BLOB), count, at, CAST(seal AS BLOB) FROM audit_heads

-- name: audit_head
SELECT chain, number, CAST(mac AS BLOB), count, at, CAST(seal AS BLOB) FROM audit_heads WHERE chain = ?

-- name: audit_anchors
SELECT chain, number, CAST(mac AS BLOB), count, at, CAST(seal AS BLOB) FROM audit_anchors

-- name: audit_anchor
SELECT chain, number, CAST(mac AS BLOB), count, at, CAST(seal AS BLOB) FROM audit_anchors WHERE chain = ?

-- From one name to the next by the index, and not through all blocks.
-- name: audit_names
WITH RECURSIVE names (chain) AS (
    SELECT min(chain) FROM audit
    UNION ALL SELECT (SELECT min(chain) FROM audit WHERE chain > names.chain) FROM names WHERE names.chain IS NOT NULL)
SELECT chain FROM names WHERE chain IS NOT NULL

-- name: audit_blocks
SELECT chain, number, count, first_at, last_at, CAST(mac AS BLOB), CAST(entries AS BLOB), format FROM audit
WHERE chain = :chain AND number > :after AND (:since IS NULL OR number >= (
    SELECT number FROM audit WHERE chain = :chain AND last_at >= :since ORDER BY last_at, number LIMIT 1))
ORDER BY number LIMIT :limit

-- name: drop_audit
DELETE FROM audit WHERE chain = ? AND number <= ? RETURNING 1

-- name: put_sealed
INSERT INTO vault (kind, tenant, owner, name, data, about, version, changed)
SELECT :kind, :tenant, :owner, :name, :data, :about, 1, :now
WHERE :instead_of IS NULL OR :instead_of = 0
    OR EXISTS (SELECT 1 FROM vault WHERE kind = :kind AND tenant = :tenant AND owner = :owner AND name = :name)
ON CONFLICT (kind, tenant, owner, name) DO UPDATE
SET data = excluded.data, about = excluded.about, version = vault.version + 1, changed = excluded.changed
WHERE :instead_of IS NULL OR vault.version = :instead_of
RETURNING version

-- name: sealed
SELECT kind, tenant, owner, name, data, about, version, changed FROM vault

-- name: drop_sealed
DELETE FROM vault WHERE kind = ? AND tenant = ? AND owner = ? AND name = ? RETURNING version

-- Blocks of calls. ---------------------------------------------------------------------------------

-- name: last_number
SELECT max(last, coalesce((SELECT max(seq) FROM calls), 0)) FROM numbers

-- name: add_block
INSERT INTO blocks (last, first, count, failed, first_id, last_id, ids, about, format, written_at, clock_offset, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_block_caller
INSERT INTO block_callers (tenant, subject, last, calls, charge) VALUES (?, ?, ?, ?, ?)

-- name: block
SELECT first, last, count, failed, first_id, last_id, ids, about, format, data, clock_offset FROM blocks WHERE last = ?

-- name: heads
SELECT last, first, about FROM blocks WHERE last <= :end ORDER BY last DESC LIMIT :limit

-- name: heads_of_caller
SELECT blocks.last, first, about FROM block_callers JOIN blocks ON blocks.last = block_callers.last
WHERE tenant = :tenant AND subject = :subject AND block_callers.last <= :end
ORDER BY block_callers.last DESC LIMIT :limit

-- name: blocks_with_id
SELECT last, ids FROM blocks WHERE first_id <= :id AND last_id >= :id

-- name: blocks_near
SELECT last FROM blocks WHERE last >= :seq AND last < :seq + :span AND first <= :seq ORDER BY last

-- name: count_blocks
SELECT coalesce(sum(count - failed), 0), coalesce(sum(failed), 0) FROM blocks WHERE last >= ?1 AND first >= ?1

-- name: blocks_across
SELECT last FROM blocks WHERE last >= :seq AND first < :seq

-- name: old_blocks
SELECT last, count FROM blocks WHERE written_at < ? ORDER BY written_at LIMIT ?

-- name: small_blocks
SELECT last, first, count, length(data), written_at FROM blocks WHERE count < ? AND written_at < ? ORDER BY last LIMIT ?

-- name: blocks_after
SELECT last, written_at FROM blocks WHERE last > ? ORDER BY last LIMIT ?

-- name: uncharge_block
UPDATE stored SET bytes = bytes - charge FROM block_callers
WHERE block_callers.last = :last AND stored.tenant = block_callers.tenant AND stored.subject = block_callers.subject

-- What was called, by the minute. ------------------------------------------------------------------

-- name: put_rollup
INSERT INTO rollups (minute, node, wire, tool, code, calls, total_s, buckets) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET calls = excluded.calls, total_s = excluded.total_s, buckets = excluded.buckets

-- name: rollups
SELECT minute, wire, tool, code, calls, total_s, buckets FROM rollups WHERE minute >= ? AND minute < ?
