-- The general commit: everything that a Commit can contain, in the order that ports.ts defines. The batch arrives as one JSON
-- value and one value with all the bytes (encode.ts writes them); outcomes are returned as JSON.

-- All lookups are row by row (LATERAL, LIMIT; = ANY of an array): a join that is planned while the tables are small compares
-- each row with each, and the cached plan stays as they grow.
-- p_make: timelines that must have a row (targets of mail, and timelines to be created). p_lock: all written timelines.
-- A commit that can be refused after its first write (p_commits[i].late) has a block of its own to roll back to.
CREATE FUNCTION reprise.commit(p_ns integer, p_commits jsonb, p_make text[], p_lock text[], p_blob bytea)
RETURNS jsonb LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
DECLARE
  c jsonb;
  v_outcome jsonb;
  -- An array, not a growing JSON value, which would be copied with every commit.
  v_outcomes jsonb[];
  v_code text;
  v_reason text;
  v_now double precision := floor(date_part('epoch', clock_timestamp()) * 1000);
BEGIN
  IF cardinality(p_make) > 0 THEN
    INSERT INTO reprise.timeline (ns, id, is_stub, pos_base, created_at, updated_at)
    SELECT p_ns, m.id, true, (SELECT pos_base FROM reprise.namespace WHERE id = p_ns), v_now, v_now FROM unnest(p_make) AS m(id)
    LEFT JOIN LATERAL (SELECT tid FROM reprise.timeline WHERE ns = p_ns AND id = m.id LIMIT 1) t ON true
    WHERE t.tid IS NULL ORDER BY m.id ON CONFLICT (ns, id) DO NOTHING;
  END IF;
  PERFORM 1 FROM reprise.timeline WHERE ns = p_ns AND id = ANY (p_lock) ORDER BY id FOR NO KEY UPDATE;
  -- A row may have been renamed or removed while this call waited for its lock: if a required row is missing now, the
  -- batch is retried.
  IF (SELECT count(*) FROM reprise.timeline WHERE ns = p_ns AND id = ANY (p_make)) < cardinality(p_make) THEN
    RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'a timeline was renamed or removed at this moment';
  END IF;
  FOR c IN SELECT e.value FROM jsonb_array_elements(p_commits) e LOOP
    IF c ? 'late' THEN
      BEGIN
        v_outcome := reprise.commit_one(p_ns, c, p_blob);
      EXCEPTION WHEN SQLSTATE 'RP001' THEN
        GET STACKED DIAGNOSTICS v_code = MESSAGE_TEXT, v_reason = PG_EXCEPTION_DETAIL;
        v_outcome := jsonb_build_object('code', v_code, 'reason', v_reason);
      END;
    ELSE
      v_outcome := reprise.commit_one(p_ns, c, p_blob);
    END IF;
    -- A later commit of the batch may write to it, or create it again.
    IF c ? 'forget' AND c->>'t' = ANY (p_make) THEN
      INSERT INTO reprise.timeline (ns, id, is_stub, pos_base, created_at, updated_at)
    SELECT p_ns, m.id, true, (SELECT pos_base FROM reprise.namespace WHERE id = p_ns), v_now, v_now FROM unnest(ARRAY[c->>'t']) AS m(id)
    LEFT JOIN LATERAL (SELECT tid FROM reprise.timeline WHERE ns = p_ns AND id = m.id LIMIT 1) t ON true
    WHERE t.tid IS NULL ORDER BY m.id ON CONFLICT (ns, id) DO NOTHING;
    END IF;
    -- A refusal shows the head as it was at that moment, between the commits of the batch.
    IF v_outcome ? 'code' AND c ? 't' THEN
      v_outcome := v_outcome || jsonb_build_object('head', reprise.head(p_ns, c->>'t'));
    END IF;
    v_outcomes[coalesce(cardinality(v_outcomes), 0) + 1] := v_outcome;
  END LOOP;
  RETURN to_jsonb(v_outcomes);
END $$;

CREATE FUNCTION reprise.head(p_ns integer, p_id text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT to_jsonb(x) FROM (
    SELECT t.id, coalesce(r.last, t.seq) AS seq, t.epoch, coalesce(r.digest, t.digest) AS digest, t.owner,
  coalesce((w.retired_at IS NULL AND floor(date_part('epoch', clock_timestamp()) * 1000) < w.beat_at + w.lease_ms), false) AS is_owner_alive, t.floor, t.floor_digest, coalesce(b.id, t.base_id) AS base_id,
  t.base_seq, t.base_digest, t.queue, t.priority, t.status, t.wakeup, t.mail, t.attributes,
  coalesce(r.operation, t.operation) AS operation, t.created_at, greatest(t.updated_at, r.written_at) AS updated_at, t.life FROM reprise.timeline t
    LEFT JOIN LATERAL (SELECT l.last, l.digest, l.written_at, coalesce(l.operation, encode(substr(l.digest, 1, 8), 'hex')) AS operation FROM reprise.run l
      WHERE l.tid = t.tid AND l.first > t.seq ORDER BY l.first DESC LIMIT 1) r ON true
    LEFT JOIN LATERAL (SELECT p.id FROM reprise.timeline p WHERE p.tid = t.base_tid LIMIT 1) b ON true
    LEFT JOIN LATERAL (SELECT o.* FROM reprise.worker o WHERE o.ns = t.ns AND o.id = t.owner LIMIT 1) w ON true WHERE t.ns = p_ns AND t.id = p_id AND NOT t.is_stub
  ) x
$$;

CREATE FUNCTION reprise.commit_one(p_ns integer, c jsonb, p_blob bytea) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  t reprise.timeline%ROWTYPE;
  v_now double precision := floor(date_part('epoch', clock_timestamp()) * 1000);
  v_count bigint;
BEGIN
  IF NOT c ? 't' THEN
    PERFORM reprise.check_receivers(p_ns, c->'send');
    IF c ? 'settles' THEN PERFORM reprise.settle(p_ns, c->'settles'); END IF;
    v_count := reprise.send(p_ns, c->'send', p_blob, v_now);
    RETURN jsonb_build_object('seq', 0, 'was', v_count = 0);
  END IF;

  SELECT * INTO t FROM reprise.timeline WHERE ns = p_ns AND id = c->>'t' FOR NO KEY UPDATE;
  IF NOT FOUND OR (t.is_stub AND NOT c ? 'create') THEN
    IF c ? 'forget' THEN RETURN jsonb_build_object('seq', coalesce((c->>'seq')::bigint, 0), 'was', true); END IF;
    RETURN jsonb_build_object('code', 'NOT_FOUND', 'reason', format('there is no timeline %s', c->>'t'));
  END IF;
  IF c ? 'forget' AND (c->>'life')::bigint < t.life THEN
    RETURN jsonb_build_object('seq', coalesce((c->>'seq')::bigint, 0), 'was', true);
  END IF;
  IF t.is_stub THEN
    t := reprise.next_life(t, c->'create'->'copyOf');
    IF (c->'create'->>'life')::bigint <> t.life THEN
      RETURN jsonb_build_object('code', 'FENCED', 'reason',
        format('%s would be life %s, the commit expected %s', t.id, t.life, c->'create'->>'life'));
    END IF;
  END IF;
  t := reprise.sync(t);
  IF t.operation = c->>'op' THEN
    RETURN jsonb_build_object('seq', t.seq, 'was', true);
  END IF;
  IF (c->>'life')::bigint <> t.life THEN
    RETURN jsonb_build_object('code', 'FENCED', 'reason',
      format('%s is in life %s, the commit was made for life %s', t.id, t.life, c->>'life'));
  END IF;
  IF t.epoch <> (c->>'epoch')::bigint THEN
    RETURN jsonb_build_object('code', 'FENCED', 'reason',
      format('%s is at epoch %s, the commit was made under %s', t.id, t.epoch, c->>'epoch'));
  END IF;
  IF t.is_stub THEN
    t := reprise.create(t, c->'create', v_now);
  END IF;
  IF c ? 'seq' AND t.seq <> (c->>'seq')::bigint THEN
    RETURN jsonb_build_object('code', 'CONFLICT', 'reason',
      format('%s is at sequence %s, the commit expected %s', t.id, t.seq, c->>'seq'));
  END IF;
  IF c ? 'digest' AND t.digest <> decode(c->>'digest', 'hex') THEN
    RETURN jsonb_build_object('code', 'CONFLICT', 'reason',
      format('%s has another history up to %s than the commit expected', t.id, t.seq));
  END IF;
  IF c ? 'unlessMail' AND t.mail > 0 THEN
    RETURN jsonb_build_object('code', 'MAIL_WAITING', 'reason', format('%s has %s unread messages', t.id, t.mail));
  END IF;

  IF c ? 'forget' THEN
    PERFORM reprise.forget(t, c->>'forget', v_now);
    RETURN jsonb_build_object('seq', t.seq, 'was', false);
  END IF;

  IF c ? 'take' THEN
    IF EXISTS (SELECT 1 FROM reprise.worker w WHERE w.ns = p_ns AND w.id = c->'take'->>'worker' AND w.retired_at IS NOT NULL) THEN
      RETURN jsonb_build_object('code', 'WORKER_RETIRED', 'reason', format('worker %s was declared dead', c->'take'->>'worker'));
    END IF;
    IF t.owner <> c->'take'->>'worker' AND reprise.is_held(p_ns, t.owner, c->'take'->>'from', v_now) THEN
      RETURN jsonb_build_object('code', 'OWNED', 'reason', format('%s is owned by %s', t.id, t.owner));
    END IF;
    t.owner := c->'take'->>'worker';
    t.epoch := t.epoch + 1;
  END IF;
  IF t.is_stub AND t.base_id IS NOT NULL THEN
    PERFORM reprise.check_reach(t.base_tid, t.base_id, t.base_seq, t.floor);
  END IF;

  IF c ? 'branch' THEN
    t := reprise.branch(t, c->'branch', v_now);
    IF NOT c ? 'take' THEN t.epoch := t.epoch + 1; END IF;
  END IF;

  IF c ? 'run' THEN
    t.last_pos := greatest(t.last_pos, t.pos_base + pg_current_xact_id()::text::bigint);
    INSERT INTO reprise.run (tid, last, first, pos, written_at, ns, digest, operation, bytes)
    VALUES (t.tid, t.seq + (c->'run'->>'count')::bigint, t.seq + 1, t.last_pos, v_now, p_ns,
      decode(c->'run'->>'digest', 'hex'), c->>'op', substr(p_blob, (c->'run'->>'start')::integer, (c->'run'->>'size')::integer))
    RETURNING last, digest INTO t.seq, t.digest;
  END IF;

  IF c ? 'catalog' THEN
    t := reprise.catalog(t, c, p_blob);
  END IF;

  IF c ? 'consume' THEN
    UPDATE reprise.message SET consumed_at = v_now, data = '' WHERE ctid = ANY (ARRAY(
      SELECT m.ctid FROM jsonb_array_elements_text(c->'consume') e(id)
      CROSS JOIN LATERAL (SELECT ctid FROM reprise.message WHERE tid = t.tid AND id = e.id AND consumed_at IS NULL LIMIT 1) m));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count <> jsonb_array_length(c->'consume') THEN
      -- The update consumed all existing messages: the rest are missing, or named twice.
      PERFORM reprise.refuse('CONFLICT', format('no unread message %s to %s', e.id, t.id))
      FROM jsonb_array_elements_text(c->'consume') WITH ORDINALITY e(id, n)
      LEFT JOIN LATERAL (SELECT consumed_at FROM reprise.message WHERE tid = t.tid AND id = e.id LIMIT 1) m ON true
      WHERE m.consumed_at IS DISTINCT FROM v_now
        OR e.n > (SELECT min(o.n) FROM jsonb_array_elements_text(c->'consume') WITH ORDINALITY o(id, n) WHERE o.id = e.id)
      ORDER BY e.n LIMIT 1;
    END IF;
    t.mail := t.mail - v_count;
  END IF;
  IF c ? 'settles' THEN PERFORM reprise.settle(p_ns, c->'settles'); END IF;
  IF c ? 'release' THEN t.owner := NULL; END IF;
  IF c ? 'wakeup' THEN t.wakeup := (c->>'wakeup')::double precision; END IF;
  IF c ? 'queue' THEN t.queue := c->>'queue'; END IF;
  IF c ? 'priority' THEN t.priority := (c->>'priority')::double precision; END IF;
  IF c ? 'status' THEN t.status := c->>'status'; END IF;
  IF c ? 'attributes' THEN
    t.attributes := (t.attributes || (c->'attributes')) - ARRAY(SELECT jsonb_array_elements_text(c->'removed'));
  END IF;
  IF c ? 'cursors' THEN
    PERFORM reprise.move_cursor(t, x->>'name', x->>'position', v_now) FROM jsonb_array_elements(c->'cursors') x;
  END IF;

  UPDATE reprise.timeline SET
    seq = t.seq, life = t.life, epoch = t.epoch, digest = t.digest, last_pos = t.last_pos, floor = t.floor, floor_digest = t.floor_digest,
    base_tid = t.base_tid, base_id = t.base_id, base_seq = t.base_seq, base_digest = t.base_digest, is_stub = false,
    owner = t.owner, operation = CASE WHEN c ? 'aside' THEN t.operation ELSE c->>'op' END, queue = t.queue, priority = t.priority, status = t.status, wakeup = t.wakeup,
    mail = t.mail, attributes = t.attributes, created_at = t.created_at, updated_at = v_now
  WHERE tid = t.tid;
  IF c ? 'send' THEN
    PERFORM reprise.send(p_ns, c->'send', p_blob, v_now);
  END IF;
  RETURN jsonb_build_object('seq', t.seq, 'was', false);
END $$;

-- Whether an owner prevents a takeover of the timeline. A retired worker never does.
CREATE FUNCTION reprise.is_held(p_ns integer, p_owner text, p_from text, p_now double precision)
RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT p_owner IS NOT NULL AND CASE p_from
    WHEN 'anyone' THEN false
    WHEN 'dead' THEN EXISTS (
      SELECT 1 FROM reprise.worker w WHERE w.ns = p_ns AND w.id = p_owner AND (w.retired_at IS NULL AND p_now < w.beat_at + w.lease_ms))
    ELSE NOT EXISTS (
      SELECT 1 FROM reprise.worker w WHERE w.ns = p_ns AND w.id = p_owner AND w.retired_at IS NOT NULL)
  END
$$;

-- The initial values of a new timeline. The parent stays locked until the commit: a trim of it either sees this fork or is
-- visible here. check_base detects a missing parent, after the owner is settled.
CREATE FUNCTION reprise.create(t reprise.timeline, p_create jsonb, p_now double precision)
RETURNS reprise.timeline LANGUAGE plpgsql AS $$
DECLARE
  parent reprise.timeline%ROWTYPE;
BEGIN
  t.digest := decode(p_create->>'digest', 'hex');
  t.floor_digest := t.digest;
  t.created_at := p_now;
  IF p_create ? 'base' THEN
    t.base_id := p_create->'base'->>'timeline';
    t.base_seq := (p_create->'base'->>'seq')::bigint;
    t.base_digest := decode(p_create->'base'->>'digest', 'hex');
    SELECT * INTO parent FROM reprise.timeline WHERE ns = t.ns AND id = t.base_id AND NOT is_stub FOR SHARE;
    IF FOUND THEN
      t.base_tid := parent.tid;
      t.floor := parent.floor;
      t.floor_digest := parent.floor_digest;
    END IF;
  END IF;
  IF p_create ? 'floor' THEN
    t.floor := (p_create->'floor'->>'seq')::bigint;
    t.floor_digest := decode(p_create->'floor'->>'digest', 'hex');
  END IF;
  t.seq := coalesce(t.base_seq, t.floor);
  RETURN t;
END $$;

-- A fork at p_seq reads history above p_floor from its parent, which must still have all of it.
CREATE FUNCTION reprise.check_reach(p_parent bigint, p_id text, p_seq bigint, p_floor bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  parent reprise.timeline%ROWTYPE;
BEGIN
  SELECT * INTO parent FROM reprise.timeline WHERE tid = p_parent;
  IF NOT FOUND THEN PERFORM reprise.refuse('NOT_FOUND', format('there is no timeline %s to fork', p_id)); END IF;
  parent := reprise.sync(parent);
  IF p_seq > parent.seq THEN
    PERFORM reprise.refuse('OUT_OF_RANGE', format('%s ends at sequence %s, before %s', parent.id, parent.seq, p_seq));
  END IF;
  IF p_floor > p_seq THEN
    PERFORM reprise.refuse('OUT_OF_RANGE', format('the floor %s lies above the base %s', p_floor, p_seq));
  END IF;
  IF p_floor < p_seq AND p_floor < parent.floor THEN
    PERFORM reprise.refuse('OUT_OF_RANGE',
      format('history of %s up to %s was trimmed, and %s was requested', parent.id, parent.floor, p_floor));
  END IF;
END $$;

-- The rows of history keep their number (tid) and get the archive's name; the id continues under a new number.
CREATE FUNCTION reprise.branch(t reprise.timeline, p_branch jsonb, p_now double precision)
RETURNS reprise.timeline LANGUAGE plpgsql AS $$
DECLARE
  n reprise.timeline%ROWTYPE := t;
  v_archive text := p_branch->>'archive';
  v_other reprise.timeline%ROWTYPE;
BEGIN
  IF t.is_stub THEN PERFORM reprise.refuse('NOT_FOUND', format('there is no timeline %s to roll back', t.id)); END IF;
  n.seq := (p_branch->>'seq')::bigint;
  n.digest := decode(p_branch->>'digest', 'hex');
  n.floor := (p_branch->>'floor')::bigint;
  n.floor_digest := decode(p_branch->>'floorDigest', 'hex');
  SELECT * INTO v_other FROM reprise.timeline WHERE ns = t.ns AND id = v_archive FOR UPDATE;
  IF FOUND AND NOT v_other.is_stub OR v_archive = t.id THEN
    PERFORM reprise.refuse('EXISTS', format('there is a timeline %s already', v_archive));
  END IF;
  PERFORM reprise.check_reach(t.tid, t.id, n.seq, n.floor);
  IF v_other.tid IS NOT NULL THEN
    DELETE FROM reprise.timeline WHERE tid = v_other.tid;
  END IF;
  UPDATE reprise.timeline SET seq = t.seq, digest = t.digest, operation = t.operation, last_pos = t.last_pos,
    id = v_archive, owner = NULL, wakeup = NULL, queue = NULL, mail = coalesce(v_other.mail, 0),
    priority = 0, attributes = '{}', status = 'archived', updated_at = p_now WHERE tid = t.tid;
  n.base_tid := t.tid;
  n.base_id := v_archive;
  n.base_seq := n.seq;
  n.base_digest := n.digest;
  -- Read from the namespace, not from the row: an update of its base waits for its readers, and then sees this row.
  INSERT INTO reprise.timeline (ns, id, pos_base, created_at, updated_at)
  SELECT t.ns, t.id, x.pos_base, t.created_at, p_now FROM reprise.namespace x WHERE x.id = t.ns
  RETURNING tid INTO n.tid;
  UPDATE reprise.message SET tid = n.tid WHERE tid = t.tid;
  UPDATE reprise.message SET tid = t.tid WHERE tid = v_other.tid;
  UPDATE reprise.cursor SET tid = n.tid WHERE tid = t.tid;
  RETURN n;
END $$;

-- The messages of one commit, in their order. A message that was sent before, consumed or not, is dropped, as is a message to
-- an ended life.
CREATE FUNCTION reprise.send(p_ns integer, p_send jsonb, p_blob bytea, p_now double precision)
RETURNS bigint LANGUAGE sql AS $$
  WITH added AS (
    INSERT INTO reprise.message (tid, id, kind, data, sent_at)
    SELECT t.tid, m.value->>'id', m.value->>'kind',
      substr(p_blob, (m.value->>'start')::integer, (m.value->>'size')::integer), p_now
    FROM jsonb_array_elements(p_send) WITH ORDINALITY AS m(value, n)
    JOIN LATERAL (SELECT tid, life, is_stub FROM reprise.timeline WHERE ns = p_ns AND id = m.value->>'to' LIMIT 1) t
      ON NOT m.value ? 'life' OR (NOT t.is_stub AND t.life = (m.value->>'life')::bigint)
    ORDER BY m.n
    ON CONFLICT (tid, id) DO NOTHING
    RETURNING tid
  ), counted AS (
    UPDATE reprise.timeline t SET mail = t.mail + (SELECT count(*) FROM added a WHERE a.tid = t.tid)
    WHERE t.tid = ANY (ARRAY(SELECT tid FROM added))
  )
  SELECT count(*) FROM added
$$;

CREATE FUNCTION reprise.move_cursor(t reprise.timeline, p_name text, p_position text, p_now double precision)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v_cursor reprise.cursor%ROWTYPE;
BEGIN
  SELECT * INTO v_cursor FROM reprise.cursor WHERE ns = t.ns AND name = p_name FOR UPDATE;
  IF FOUND AND v_cursor.tid <> t.tid THEN
    PERFORM reprise.refuse('CONFLICT', format('cursor %s belongs to %s', p_name, o.id))
    FROM reprise.timeline o WHERE o.tid = v_cursor.tid;
  END IF;
  IF p_position IS NULL THEN
    DELETE FROM reprise.cursor WHERE ns = t.ns AND name = p_name;
    RETURN;
  END IF;
  IF v_cursor.position > p_position THEN
    PERFORM reprise.refuse('CONFLICT', 
      format('cursor %s is at %s and does not move back to %s', p_name, v_cursor.position, p_position));
  END IF;
  INSERT INTO reprise.cursor AS x (ns, name, tid, position, moved_at) VALUES (t.ns, p_name, t.tid, p_position, p_now)
  ON CONFLICT (ns, name) DO UPDATE SET position = excluded.position, moved_at = excluded.moved_at
    WHERE x.tid = t.tid AND x.position <= excluded.position;
  IF NOT FOUND THEN PERFORM reprise.refuse('CONFLICT', format('cursor %s belongs to another timeline', p_name)); END IF;
END $$;

-- publish, marks, drop, trim, in this order.
CREATE FUNCTION reprise.catalog(t reprise.timeline, c jsonb, p_blob bytea) RETURNS reprise.timeline LANGUAGE plpgsql AS $$
DECLARE
  m jsonb;
  v_mark double precision;
BEGIN
  FOR m IN SELECT e.value FROM jsonb_array_elements(c->'publish') e LOOP
    IF (m->>'seq')::bigint > t.seq THEN
      PERFORM reprise.refuse('OUT_OF_RANGE', 
        format('checkpoint %s is at %s, the head of %s at %s', m->>'id', m->>'seq', t.id, t.seq));
    END IF;
    IF EXISTS (SELECT 1 FROM reprise.manifest WHERE ns = t.ns AND id = m->>'id') THEN
      PERFORM reprise.refuse('EXISTS', format('there is a checkpoint %s already', m->>'id'));
    END IF;
    -- The lock prevents a deletion of the base until this manifest is inserted.
    IF m->>'baseId' IS NOT NULL THEN
      PERFORM 1 FROM reprise.manifest WHERE ns = t.ns AND id = m->>'baseId' FOR KEY SHARE;
      IF NOT FOUND THEN PERFORM reprise.refuse('BASE_GONE',
        format('checkpoint %s builds on %s, which is not in the catalog', m->>'id', m->>'baseId')); END IF;
    END IF;
    -- The lock makes a collector that raises the mark wait until this manifest is visible.
    IF m ? 'chunksSince' THEN
      SELECT sweep_mark INTO v_mark FROM reprise.namespace WHERE id = t.ns FOR SHARE;
      IF (m->>'chunksSince')::float8 < v_mark THEN
        PERFORM reprise.refuse('SWEPT', format('chunks of checkpoint %s may be swept: put at %s, mark at %s', m->>'id',
          m->>'chunksSince', v_mark));
      END IF;
    END IF;
    INSERT INTO reprise.manifest (tid, ns, id, seq, epoch, digest, body, body_digest, base_id, created_at, trigger, label,
      is_pinned, fold_version, total_bytes, added_bytes, verified_at, invalid, drilled_at, drill)
    VALUES (t.tid, t.ns, m->>'id', (m->>'seq')::bigint, (m->>'epoch')::bigint, decode(m->>'digest', 'hex'),
      substr(p_blob, (m->>'start')::integer, (m->>'size')::integer), decode(m->>'bodyDigest', 'hex'), m->>'baseId',
      (m->>'createdAt')::float8, m->>'trigger', m->>'label', (m->>'isPinned')::boolean, m->>'foldVersion',
      (m->>'totalBytes')::float8, (m->>'addedBytes')::float8, (m->>'verifiedAt')::float8, m->>'invalid',
      (m->>'drilledAt')::float8, m->>'drill');
  END LOOP;

  FOR m IN SELECT e.value FROM jsonb_array_elements(c->'marks') e LOOP
    UPDATE reprise.manifest SET
      verified_at = coalesce((m->>'verifiedAt')::float8, verified_at), invalid = CASE WHEN jsonb_exists(m, 'invalid') THEN m->>'invalid' ELSE invalid END,
      drilled_at = coalesce((m->>'drilledAt')::float8, drilled_at), drill = coalesce(m->>'drill', drill),
      is_pinned = coalesce((m->>'isPinned')::boolean, is_pinned), label = coalesce(m->>'label', label)
    WHERE tid = t.tid AND id = m->>'id';
  END LOOP;

  IF c ? 'drop' THEN
    PERFORM reprise.refuse('PINNED', format('checkpoint %s of %s is pinned', id, t.id))
    FROM reprise.manifest WHERE tid = t.tid AND is_pinned AND id IN (SELECT jsonb_array_elements_text(c->'drop')) LIMIT 1;
    DELETE FROM reprise.manifest WHERE tid = t.tid AND id IN (SELECT jsonb_array_elements_text(c->'drop'));
    IF FOUND AND t.floor > 0 AND NOT EXISTS (SELECT 1 FROM reprise.manifest
        WHERE tid = t.tid AND seq >= t.floor AND verified_at IS NOT NULL AND invalid IS NULL) THEN
      PERFORM reprise.refuse('PINNED', 
        format('history of %s is trimmed to %s, no verified checkpoint would remain', t.id, t.floor));
    END IF;
  END IF;

  IF c ? 'trim' THEN
    t := reprise.trim(t, c->'trim');
  END IF;
  RETURN t;
END $$;

CREATE FUNCTION reprise.trim(t reprise.timeline, p_trim jsonb) RETURNS reprise.timeline LANGUAGE plpgsql AS $$
DECLARE
  v_seq bigint := (p_trim->>'seq')::bigint;
  v_run reprise.run%ROWTYPE;
BEGIN
  IF v_seq <= t.floor THEN RETURN t; END IF;
  SELECT * INTO v_run FROM reprise.run WHERE tid = t.tid AND first <= v_seq ORDER BY first DESC LIMIT 1;
  IF v_seq IS DISTINCT FROM t.base_seq AND v_seq IS DISTINCT FROM v_run.last THEN
    PERFORM reprise.refuse('OUT_OF_RANGE', format('sequence %s of %s is not the end of a run', v_seq, t.id));
  END IF;
  PERFORM reprise.refuse('PINNED', format('checkpoint %s is not a verified, valid one at or above %s', r.id, v_seq))
  FROM jsonb_array_elements_text(p_trim->'restsOn') r(id) WHERE NOT EXISTS (
    SELECT 1 FROM reprise.manifest m WHERE m.tid = t.tid AND m.id = r.id AND m.seq >= v_seq AND m.verified_at IS NOT NULL AND m.invalid IS NULL)
  LIMIT 1;
  -- A concurrent fork holds a lock on this row, so this statement waits for the fork and then sees it.
  PERFORM 1 FROM reprise.timeline WHERE tid = t.tid FOR NO KEY UPDATE;
  PERFORM reprise.refuse('PINNED', format('the fork %s needs history of %s above %s', id, t.id, floor))
  FROM reprise.timeline WHERE base_tid = t.tid AND floor < v_seq AND floor < base_seq LIMIT 1;
  PERFORM reprise.refuse('PINNED', format('cursor %s has not passed sequence %s of %s', name, v_seq, t.id))
  FROM reprise.cursor WHERE ns = t.ns AND position < lpad((v_run).pos::text, 16, '0') || '-' || lpad((v_run).id::text, 16, '0') LIMIT 1;
  DELETE FROM reprise.run WHERE tid = t.tid AND first <= v_seq;
  t.floor := v_seq;
  t.floor_digest := decode(p_trim->>'digest', 'hex');
  RETURN t;
END $$;
