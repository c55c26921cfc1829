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

-- A statement of the user's that is not SELECT, INSERT, UPDATE, DELETE or MERGE: definitions, mostly. EXECUTE has no
-- transaction control. Says how many rows it is about.
CREATE FUNCTION reprise.rider_run(p_text text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  v_count bigint;
BEGIN
  EXECUTE p_text;
  GET DIAGNOSTICS v_count = ROW_COUNT;
  RETURN v_count;
END $$;

-- The same for one that has rows (EXPLAIN, SHOW): the name of a cursor over them.
CREATE FUNCTION reprise.rider_open(p_text text) RETURNS refcursor LANGUAGE plpgsql AS $$
DECLARE
  v_cursor refcursor;
BEGIN
  OPEN v_cursor FOR EXECUTE p_text;
  RETURN v_cursor;
END $$;

-- The last look before a commit with the user's SQL: this is still its transaction, and no session lock stays. Says how many
-- prepared statements the session has.
CREATE FUNCTION reprise.rider_end(p_xact text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  IF pg_current_xact_id_if_assigned()::text IS DISTINCT FROM p_xact THEN
    RAISE EXCEPTION USING ERRCODE = 'RP003', MESSAGE = 'the transaction of the commit is over';
  END IF;
  PERFORM pg_advisory_unlock_all();
  RETURN (SELECT count(*) FROM pg_prepared_statements WHERE name <> 'reprise_rider');
END $$;

-- The head of a row that the caller has locked: its last run says where it is, if it lies above seq.
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

-- One append. False: nothing was done, and the general commit finds out why. The guard is that a run ends at p_seq with
-- the digest p_prior (it begins at p_before, says the caller, who may be wrong) and that none begins after it: the first
-- is looked up (a server that went back to an older copy may have another run there, under the same epoch), the
-- second is the key of the table, which holds whatever this statement's snapshot is; who breaks it gets an error. The lock
-- sees what its last holder wrote to the row, but a run that was trimmed meanwhile would still be found: that the row's
-- seq lies above tells. A run never gets a place in the feed before the one below it, whatever order their transactions
-- got their numbers in.
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

-- Many commits to different timelines, each with a run: all of them, or none (false, or an error). They come in the order
-- of their ids, in which rows are locked everywhere; p_numbers is their order in the batch, and so in the feed. All bytes
-- come in one value (of each: the digest before it, its own, the run): arrays of bytea are slow to parse. Heads are locked by one scan of their key, in a statement
-- of their own: the next one sees what the locks' last holders wrote. Runs are looked up row by row (LATERAL, LIMIT): left
-- to itself, the planner compares each with each while the table is small, and keeps doing so.
-- Numbers are taken from their arrays one by one: each array that is unnested is written to a store of rows first. Text and bytes are
-- not, since to find one of them takes a walk over all before it. p_operations: null where the digests tell all of them.
-- p_made: of those that are made here, what their rows hold. p_set: of those that change more than their history, what; those
-- that change to the same are one statement.
-- Neither writes seq, digest or operation: the run above says them.
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
    -- An id that was used before has a life and an epoch to start from: the general commit knows them. Looked up after the
    -- rows are made: they waited for a transaction that was forgetting one of these ids.
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
  -- Rows are locked, so this statement sees the mail that is there.
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

-- A read whose plan does not depend on statistics: rows come by an index, in its order. p_values are $1[1], $1[2], … in the
-- text, which is one of ours.
CREATE FUNCTION reprise.steady(p_text text, p_values text[]) RETURNS SETOF record LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
  RETURN QUERY EXECUTE p_text USING p_values;
END $$;
