-- The small functions, and the two that append (the hot path). In these files the schema is called reprise, and functions have
-- no version: sqlFor in functions.ts adds both.
-- The SET clauses of functions keep plans good. A plan made while a table was small reads all of it, and is cached while the
-- table grows; these functions look everything up by key, so other scans are disabled. A disabled scan that is used anyway counts
-- as very expensive, and the server compiles expensive plans (jit), for a second each time.

-- A refusal found in the middle of a commit: the commit's own block rolls back to its start.
CREATE FUNCTION reprise.refuse(p_code text, p_reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'RP001', MESSAGE = p_code, DETAIL = p_reason;
END $$;

-- Executes a user's statement other than SELECT, INSERT, UPDATE, DELETE or MERGE, mostly definitions. EXECUTE permits no
-- transaction control. Returns the number of affected rows.
CREATE FUNCTION reprise.rider_run(p_text text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_count bigint;
BEGIN
  EXECUTE p_text;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  RETURN v_count;
END $$;

-- The same for a statement that returns rows (EXPLAIN, SHOW). Returns the name of a cursor over them.
CREATE FUNCTION reprise.rider_open(p_text text) RETURNS refcursor LANGUAGE plpgsql AS $$
DECLARE
  v_cursor refcursor;
BEGIN
  OPEN v_cursor FOR EXECUTE p_text;
  RETURN v_cursor;
END $$;

-- The last check before a commit with the user's SQL: its transaction is still open, and the session holds no locks. Returns the
-- number of prepared statements of the session.
CREATE FUNCTION reprise.rider_end(p_xact text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  IF pg_current_xact_id_if_assigned()::text IS DISTINCT FROM p_xact THEN
    RAISE EXCEPTION USING ERRCODE = 'RP003', MESSAGE = 'the transaction of the commit is over';
  END IF;
  PERFORM pg_advisory_unlock_all();
  RETURN (SELECT count(*) FROM pg_prepared_statements WHERE name <> 'reprise_rider');
END $$;

-- The head of a row that the caller has locked. If its last run is above seq, that run determines the head.
CREATE FUNCTION reprise.sync(t reprise.timeline) RETURNS reprise.timeline LANGUAGE plpgsql AS $$
DECLARE
  r reprise.run%ROWTYPE;
BEGIN
  SELECT * INTO r FROM reprise.run WHERE tid = t.tid AND first > t.seq ORDER BY first DESC LIMIT 1;
  IF FOUND THEN
    t.seq := r.last;
    t.digest := r.digest;
    t.operation := coalesce(r.operation, encode(substr(r.digest, 1, 8), 'hex'));
    t.last_pos := r.pos;
    t.updated_at := greatest(t.updated_at, r.written_at);
  END IF;
  RETURN t;
END $$;

-- One append. False: nothing was written, and the general commit finds the reason. The guard has two conditions: a run ends
-- at p_seq with the digest p_prior, and no run begins after it. The first is looked up, starting at p_before, which the caller
-- may have wrong: a server that returned to an older copy may have another run there, under the same epoch. The second is the
-- primary key, which holds for every snapshot: a violation is an error. The locked row shows the writes of its last holder, but
-- a run that was trimmed meanwhile would still be found, so the row's seq is compared as well. A run never precedes the run
-- below it in the feed, whatever the numbers of their transactions.
CREATE FUNCTION reprise.append_one(
  p_ns integer, p_id text, p_operation text, p_epoch bigint, p_seq bigint, p_before bigint, p_count bigint, p_prior bytea,
  p_digest bytea, p_bytes bytea
) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
  INSERT INTO reprise.run (tid, last, first, pos, written_at, ns, digest, operation, bytes)
  SELECT t.tid, p_seq + p_count, p_seq + 1, greatest(t.pos_base + pg_current_xact_id()::text::bigint, t.last_pos, r.pos), floor(date_part('epoch', clock_timestamp()) * 1000), p_ns,
    p_digest, p_operation, p_bytes
  FROM (
    SELECT tid, seq, digest, last_pos, pos_base FROM reprise.timeline
    WHERE ns = p_ns AND id = p_id AND epoch = p_epoch AND seq <= p_seq AND NOT is_stub FOR NO KEY UPDATE
  ) t LEFT JOIN reprise.run r ON r.tid = t.tid AND r.first = p_before
  WHERE (p_seq = t.seq AND p_prior = t.digest) OR (p_seq = r.last AND p_prior = r.digest);
  RETURN FOUND;
END $$;

-- Many commits to different timelines, each with a run: all of them, or none (false, or an error). They are sorted by id, the
-- order in which all functions lock rows; p_numbers is their order in the batch, and so in the feed. All bytes arrive in one
-- value (for each commit: the prior digest, its own digest, the run), since arrays of bytea are slow to parse. One scan of the
-- key locks the heads, in a separate statement, so that the next statement sees the writes of the previous lock holders. Runs
-- are looked up row by row (LATERAL, LIMIT): otherwise the planner chooses a nested comparison while the table is small, and
-- keeps that plan. Numbers are read from their arrays by index, since unnest would first write each array to a tuple store;
-- text and bytes are unnested, since reading one of them by index scans all before it. p_operations: null where the digests
-- determine all operations. p_made: the initial rows of timelines that are created here. p_set: the head changes of commits
-- that do more than append; equal changes share one statement. Neither contains seq, digest or operation: the run has them.
CREATE FUNCTION reprise.write_many(
  p_ns integer, p_ids text[], p_operations text[], p_epochs bigint[], p_seqs bigint[], p_befores bigint[],
  p_counts bigint[], p_numbers integer[], p_starts integer[], p_sizes integer[], p_bytes bytea,
  p_made jsonb, p_set jsonb
) RETURNS boolean LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  v_now double precision := floor(date_part('epoch', clock_timestamp()) * 1000);
  v_number bigint := pg_current_xact_id()::text::bigint;
  v_ids text[];
  v_epochs bigint[];
  v_tids bigint[];
  v_seqs bigint[];
  v_digests bytea[];
  v_poss bigint[];
  v_some bigint[];
  v_count integer;
  v_life bigint;
  x jsonb;
BEGIN
  IF p_made IS NOT NULL THEN
    IF EXISTS (SELECT 1 FROM reprise.worker w WHERE w.ns = p_ns AND w.retired_at IS NOT NULL
        AND w.id IN (SELECT m->>'worker' FROM jsonb_array_elements(p_made) m)) THEN
      RETURN false;
    END IF;
    INSERT INTO reprise.timeline (ns, id, life, pos_base, epoch, digest, floor_digest, owner, operation, queue, priority, status, wakeup,
      attributes, created_at, updated_at)
    SELECT p_ns, m.id, m.life, (SELECT pos_base FROM reprise.namespace WHERE id = p_ns), 1, decode(m.digest, 'hex'), decode(m.digest, 'hex'),
      m.owner, m.op, m.queue, coalesce(m.priority, 0), coalesce(m.status, ''), m.wakeup, coalesce(m.attributes, '{}'), v_now, v_now
    FROM jsonb_to_recordset(p_made) AS m(id text, life bigint, op text, digest text, owner text, queue text, priority double precision,
      status text, wakeup double precision, attributes jsonb)
    ORDER BY m.id COLLATE "C" ON CONFLICT (ns, id) DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count < jsonb_array_length(p_made) THEN
      RAISE EXCEPTION USING ERRCODE = 'RP002', MESSAGE = 'a timeline is there already';
    END IF;
    -- A reused id continues the life and the epoch of its past, which the general commit reads. This lookup follows the insert
    -- of the rows, which waited for any transaction that was forgetting one of these ids.
    SELECT coalesce(max(life), 0) + 1 INTO v_life FROM reprise.past WHERE ns = p_ns AND name = '';
    IF EXISTS (SELECT 1 FROM jsonb_to_recordset(p_made) AS m(id text, life bigint) WHERE m.life <> v_life OR EXISTS (
        SELECT 1 FROM reprise.past p WHERE p.ns = p_ns AND p.name = substr(encode(sha256(convert_to(m.id, 'UTF8')), 'hex'), 1, 32))) THEN
      RAISE EXCEPTION USING ERRCODE = 'RP002', MESSAGE = 'an id was used before';
    END IF;
  END IF;
  SELECT array_agg(id), array_agg(epoch), array_agg(tid), array_agg(seq), array_agg(digest),
    array_agg(greatest(pos_base + v_number, last_pos))
  INTO v_ids, v_epochs, v_tids, v_seqs, v_digests, v_poss FROM (
    SELECT id, epoch, tid, seq, digest, last_pos, pos_base FROM reprise.timeline
    WHERE ns = p_ns AND id = ANY (p_ids) AND NOT is_stub ORDER BY id FOR NO KEY UPDATE
  ) t;
  IF v_ids IS DISTINCT FROM p_ids OR v_epochs IS DISTINCT FROM p_epochs THEN
    IF p_made IS NULL THEN RETURN false; END IF;
    RAISE EXCEPTION USING ERRCODE = 'RP002', MESSAGE = 'a head is not what was expected';
  END IF;
  INSERT INTO reprise.run (tid, last, first, pos, written_at, ns, digest, operation, bytes)
  SELECT v_tids[p.n], p_seqs[p.n] + p_counts[p.n], p_seqs[p.n] + 1, greatest(v_poss[p.n], r.pos), v_now, p_ns,
    substr(p_bytes, p_starts[p.n] + 32, 32), p.operation, substr(p_bytes, p_starts[p.n] + 64, p_sizes[p.n])
  FROM ROWS FROM (generate_series(1, cardinality(p_ids)), unnest(p_operations), unnest(v_digests)) AS p(n, operation, digest)
  LEFT JOIN LATERAL (SELECT last, digest, pos FROM reprise.run WHERE tid = v_tids[p.n] AND first = p_befores[p.n] LIMIT 1) r ON true
  WHERE (p_seqs[p.n] = r.last AND r.digest = substr(p_bytes, p_starts[p.n], 32))
    OR (p_seqs[p.n] = v_seqs[p.n] AND p.digest = substr(p_bytes, p_starts[p.n], 32)) ORDER BY p_numbers[p.n];
  GET DIAGNOSTICS v_count = ROW_COUNT;
  IF v_count < cardinality(p_ids) THEN
    RAISE EXCEPTION USING ERRCODE = 'RP002', MESSAGE = 'an append does not fit';
  END IF;
  -- The rows are locked, so this statement sees all of their mail.
  FOR x IN SELECT e.value FROM jsonb_array_elements(p_set) e LOOP
    v_some := ARRAY(SELECT v_tids[a.value::integer] FROM jsonb_array_elements_text(x->'at') a);
    UPDATE reprise.timeline t SET
      owner = CASE WHEN x ? 'release' THEN NULL ELSE t.owner END,
      wakeup = CASE WHEN x ? 'wakeup' THEN (x->>'wakeup')::double precision ELSE t.wakeup END,
      queue = CASE WHEN x ? 'queue' THEN x->>'queue' ELSE t.queue END,
      priority = coalesce((x->>'priority')::double precision, t.priority),
      status = coalesce(x->>'status', t.status),
      updated_at = v_now
    WHERE t.tid = ANY (v_some) AND (t.mail = 0 OR NOT x ? 'unlessMail');
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count < cardinality(v_some) THEN
      RAISE EXCEPTION USING ERRCODE = 'RP002', MESSAGE = 'a timeline has mail';
    END IF;
  END LOOP;
  RETURN true;
END $$;

-- A read whose plan does not depend on statistics: rows are read by an index, in its order. p_values are $1[1], $1[2], … in
-- p_text, which is never user input.
CREATE FUNCTION reprise.steady(p_text text, p_values text[]) RETURNS SETOF record LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
  RETURN QUERY EXECUTE p_text USING p_values;
END $$;
