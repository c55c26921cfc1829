-- A dump of version 1 of the schema (pg_dump 15): timelines note/a (runs of 1, 3, 1 and 2) and note/b (2, 2 and 1, the
-- last one after its head was written), a cursor that has passed three runs, and one unread message.
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE SCHEMA reprise_1;
CREATE FUNCTION reprise_1.append_many_v1(p_ns integer, p_ids text[], p_operations text[], p_epochs bigint[], p_seqs bigint[], p_counts bigint[], p_numbers integer[], p_digests bytea, p_starts integer[], p_sizes integer[], p_bytes bytea) RETURNS text
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
  v_pos bigint;
  v_now double precision := floor(date_part('epoch', clock_timestamp()) * 1000);
  v_tids bigint[];
  v_seqs bigint[];
  v_poss bigint[];
  v_done text;
BEGIN
  SELECT array_agg(x.tid), array_agg(x.seq), array_agg(x.last_pos) INTO v_tids, v_seqs, v_poss FROM (
    SELECT t.* FROM unnest(p_ids, p_epochs) AS p(id, epoch) LEFT JOIN LATERAL (
      SELECT tid, seq, last_pos FROM "reprise_1".timeline
      WHERE ns = p_ns AND id = p.id AND epoch = p.epoch AND NOT is_stub LIMIT 1 FOR NO KEY UPDATE
    ) t ON true
  ) x;
  SELECT pos_base + pg_current_xact_id()::text::bigint INTO v_pos FROM "reprise_1".namespace WHERE id = p_ns;
  WITH fitting AS MATERIALIZED (
    SELECT d.*, greatest(v_pos, d.last_pos, r.pos) AS pos
    FROM unnest(v_tids, v_seqs, v_poss, p_operations, p_seqs, p_counts, p_numbers, p_starts, p_sizes)
      WITH ORDINALITY AS d(tid, head, last_pos, operation, seq, count, number, start, size, i)
    LEFT JOIN LATERAL (
      SELECT last, pos FROM "reprise_1".run WHERE tid = d.tid AND last > d.head ORDER BY last DESC LIMIT 1
    ) r ON true WHERE coalesce(r.last, d.head) = d.seq
  ), added AS (
    INSERT INTO "reprise_1".run (tid, last, first, pos, written_at, ns, digest, operation, bytes)
    SELECT tid, seq + count, seq + 1, pos, v_now, p_ns, substr(p_digests, 32 * i::integer - 31, 32), operation,
      substr(p_bytes, start, size) FROM fitting ORDER BY number
  )
  SELECT string_agg(i::text, ',') INTO v_done FROM fitting;
  RETURN v_done;
END $$;
CREATE FUNCTION reprise_1.append_one_v1(p_ns integer, p_id text, p_operation text, p_epoch bigint, p_seq bigint, p_count bigint, p_digest bytea, p_bytes bytea) RETURNS boolean
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
  v_tid bigint;
  v_seq bigint;
  v_pos bigint;
  v_last bigint;
  v_last_pos bigint;
BEGIN
  SELECT tid, seq, last_pos INTO v_tid, v_seq, v_pos FROM "reprise_1".timeline
  WHERE ns = p_ns AND id = p_id AND epoch = p_epoch AND NOT is_stub FOR NO KEY UPDATE;
  SELECT last, pos INTO v_last, v_last_pos FROM "reprise_1".run WHERE tid = v_tid AND last > v_seq ORDER BY last DESC LIMIT 1;
  IF coalesce(v_last, v_seq) IS DISTINCT FROM p_seq THEN RETURN false; END IF;
  INSERT INTO "reprise_1".run (tid, last, first, pos, written_at, ns, digest, operation, bytes)
  VALUES (v_tid, p_seq + p_count, p_seq + 1,
    greatest(v_pos, v_last_pos, pg_current_xact_id()::text::bigint + (SELECT pos_base FROM "reprise_1".namespace WHERE id = p_ns)),
    floor(date_part('epoch', clock_timestamp()) * 1000), p_ns, p_digest, p_operation, p_bytes);
  RETURN true;
END $$;
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE reprise_1.timeline (
    tid bigint NOT NULL,
    seq bigint DEFAULT 0 NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    last_pos bigint DEFAULT 0 NOT NULL,
    floor bigint DEFAULT 0 NOT NULL,
    base_tid bigint,
    base_seq bigint,
    priority double precision DEFAULT 0 NOT NULL,
    wakeup double precision,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    ns integer NOT NULL,
    mail integer DEFAULT 0 NOT NULL,
    is_stub boolean DEFAULT false NOT NULL,
    digest bytea DEFAULT '\x'::bytea NOT NULL,
    floor_digest bytea DEFAULT '\x'::bytea NOT NULL,
    base_digest bytea,
    id text NOT NULL COLLATE pg_catalog."C",
    base_id text COLLATE pg_catalog."C",
    owner text COLLATE pg_catalog."C",
    operation text COLLATE pg_catalog."C",
    queue text COLLATE pg_catalog."C",
    status text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    attributes jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT timeline_mail_check CHECK ((mail >= 0))
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.05');
CREATE FUNCTION reprise_1.branch_v1(t reprise_1.timeline, p_branch jsonb, p_now double precision) RETURNS reprise_1.timeline
    LANGUAGE plpgsql
    AS $$
DECLARE
  n "reprise_1".timeline%ROWTYPE := t;
  v_archive text := p_branch->>'archive';
  v_other "reprise_1".timeline%ROWTYPE;
BEGIN
  n.seq := (p_branch->>'seq')::bigint;
  n.digest := decode(p_branch->>'digest', 'hex');
  n.floor := (p_branch->>'floor')::bigint;
  n.floor_digest := decode(p_branch->>'floorDigest', 'hex');
  SELECT * INTO v_other FROM "reprise_1".timeline WHERE ns = t.ns AND id = v_archive FOR UPDATE;
  IF FOUND AND NOT v_other.is_stub OR v_archive = t.id THEN
    PERFORM "reprise_1".refuse_v1('EXISTS', format('there is a timeline %s', v_archive));
  END IF;
  IF t.is_stub THEN PERFORM "reprise_1".refuse_v1('OUT_OF_RANGE', 'a timeline that is just made has nothing to roll back'); END IF;
  PERFORM "reprise_1".check_reach_v1(t.tid, n.seq, n.floor);
  IF v_other.tid IS NOT NULL THEN
    DELETE FROM "reprise_1".timeline WHERE tid = v_other.tid;
  END IF;
  UPDATE "reprise_1".timeline SET seq = t.seq, digest = t.digest, operation = t.operation, last_pos = t.last_pos,
    id = v_archive, owner = NULL, wakeup = NULL, queue = NULL, mail = coalesce(v_other.mail, 0),
    priority = 0, attributes = '{}', status = 'archived', updated_at = p_now WHERE tid = t.tid;
  n.base_tid := t.tid;
  n.base_id := v_archive;
  n.base_seq := n.seq;
  n.base_digest := n.digest;
  INSERT INTO "reprise_1".timeline (ns, id, created_at, updated_at) VALUES (t.ns, t.id, t.created_at, p_now)
  RETURNING tid INTO n.tid;
  UPDATE "reprise_1".message SET tid = n.tid WHERE tid = t.tid;
  UPDATE "reprise_1".message SET tid = t.tid WHERE tid = v_other.tid;
  UPDATE "reprise_1".cursor SET tid = n.tid WHERE tid = t.tid;
  RETURN n;
END $$;
CREATE FUNCTION reprise_1.catalog_v1(t reprise_1.timeline, c jsonb, p_blob bytea) RETURNS reprise_1.timeline
    LANGUAGE plpgsql
    AS $$
DECLARE
  m jsonb;
BEGIN
  FOR m IN SELECT e.value FROM jsonb_array_elements(c->'publish') e LOOP
    IF (m->>'seq')::bigint > t.seq THEN
      PERFORM "reprise_1".refuse_v1('OUT_OF_RANGE', format('history ends at sequence %s, before checkpoint %s', t.seq, m->>'id'));
    END IF;
    IF EXISTS (SELECT 1 FROM "reprise_1".manifest WHERE ns = t.ns AND id = m->>'id') THEN
      PERFORM "reprise_1".refuse_v1('EXISTS', format('there is a checkpoint %s already', m->>'id'));
    END IF;
    -- The lock keeps the base from being dropped until this one is there.
    IF m->>'baseId' IS NOT NULL THEN
      PERFORM 1 FROM "reprise_1".manifest WHERE ns = t.ns AND id = m->>'baseId' FOR KEY SHARE;
      IF NOT FOUND THEN PERFORM "reprise_1".refuse_v1('BASE_GONE', format('checkpoint %s is gone', m->>'baseId')); END IF;
    END IF;
    INSERT INTO "reprise_1".manifest (tid, ns, id, seq, epoch, digest, body, body_digest, base_id, created_at, trigger, label,
      is_pinned, fold_version, total_bytes, added_bytes, verified_at, invalid, drilled_at, drill)
    VALUES (t.tid, t.ns, m->>'id', (m->>'seq')::bigint, (m->>'epoch')::bigint, decode(m->>'digest', 'hex'),
      substr(p_blob, (m->>'start')::integer, (m->>'size')::integer), decode(m->>'bodyDigest', 'hex'), m->>'baseId',
      (m->>'createdAt')::float8, m->>'trigger', m->>'label', (m->>'isPinned')::boolean, m->>'foldVersion',
      (m->>'totalBytes')::float8, (m->>'addedBytes')::float8, (m->>'verifiedAt')::float8, m->>'invalid',
      (m->>'drilledAt')::float8, m->>'drill');
  END LOOP;
  FOR m IN SELECT e.value FROM jsonb_array_elements(c->'marks') e LOOP
    UPDATE "reprise_1".manifest SET
      verified_at = coalesce((m->>'verifiedAt')::float8, verified_at), invalid = coalesce(m->>'invalid', invalid),
      drilled_at = coalesce((m->>'drilledAt')::float8, drilled_at), drill = coalesce(m->>'drill', drill),
      is_pinned = coalesce((m->>'isPinned')::boolean, is_pinned), label = coalesce(m->>'label', label)
    WHERE tid = t.tid AND id = m->>'id';
  END LOOP;
  IF c ? 'drop' THEN
    IF EXISTS (SELECT 1 FROM "reprise_1".manifest WHERE tid = t.tid AND is_pinned
        AND id IN (SELECT jsonb_array_elements_text(c->'drop'))) THEN
      PERFORM "reprise_1".refuse_v1('PINNED', 'a checkpoint to drop is pinned');
    END IF;
    DELETE FROM "reprise_1".manifest WHERE tid = t.tid AND id IN (SELECT jsonb_array_elements_text(c->'drop'));
    IF FOUND AND t.floor > 0 AND NOT EXISTS (SELECT 1 FROM "reprise_1".manifest
        WHERE tid = t.tid AND seq >= t.floor AND verified_at IS NOT NULL AND invalid IS NULL) THEN
      PERFORM "reprise_1".refuse_v1('PINNED', 'history is trimmed and no verified checkpoint would remain');
    END IF;
  END IF;
  IF c ? 'trim' THEN
    t := "reprise_1".trim_v1(t, c->'trim');
  END IF;
  RETURN t;
END $$;
CREATE FUNCTION reprise_1.check_reach_v1(p_parent bigint, p_seq bigint, p_floor bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
  parent "reprise_1".timeline%ROWTYPE;
BEGIN
  SELECT * INTO parent FROM "reprise_1".timeline WHERE tid = p_parent;
  IF NOT FOUND THEN PERFORM "reprise_1".refuse_v1('NOT_FOUND', 'the timeline to fork is not there'); END IF;
  parent := "reprise_1".sync_v1(parent);
  IF p_seq > parent.seq THEN
    PERFORM "reprise_1".refuse_v1('OUT_OF_RANGE', format('%s ends at sequence %s, before %s', parent.id, parent.seq, p_seq));
  END IF;
  IF p_floor > p_seq THEN
    PERFORM "reprise_1".refuse_v1('OUT_OF_RANGE', format('the floor %s lies above the base %s', p_floor, p_seq));
  END IF;
  IF p_floor < p_seq AND p_floor < parent.floor THEN
    PERFORM "reprise_1".refuse_v1('OUT_OF_RANGE',
      format('history of %s up to %s is gone, %s was asked for', parent.id, parent.floor, p_floor));
  END IF;
END $$;
CREATE FUNCTION reprise_1.claim_v1(p_ns integer, p_worker text, p_queues text[], p_except text[], p_limit integer) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
  v_now double precision := floor(date_part('epoch', clock_timestamp()) * 1000);
  v_picked bigint[];
BEGIN
  IF EXISTS (SELECT 1 FROM "reprise_1".worker w WHERE w.ns = p_ns AND w.id = p_worker AND w.retired_at IS NOT NULL) THEN
    PERFORM "reprise_1".refuse_v1('WORKER_RETIRED', 'the worker was retired');
  END IF;
  SELECT array_agg(x.tid) INTO v_picked FROM (
    -- Two small indexes, one for each reason to be due: those that sleep are not looked at.
    SELECT t.tid FROM "reprise_1".timeline t
    WHERE t.tid IN (
        SELECT d.tid FROM "reprise_1".timeline d
        WHERE d.ns = p_ns AND d.queue = ANY (p_queues) AND d.queue IS NOT NULL AND d.wakeup <= v_now
        UNION
        SELECT d.tid FROM "reprise_1".timeline d
        WHERE d.ns = p_ns AND d.queue = ANY (p_queues) AND d.queue IS NOT NULL AND d.mail > 0
      ) AND t.queue = ANY (p_queues) AND (t.mail > 0 OR t.wakeup <= v_now)
      AND NOT t.is_stub AND t.id <> ALL (p_except) AND t.owner IS DISTINCT FROM p_worker
      AND (t.owner IS NULL OR NOT EXISTS (
        SELECT 1 FROM "reprise_1".worker w WHERE w.ns = t.ns AND w.id = t.owner AND (w.retired_at IS NULL AND v_now < w.beat_at + w.lease_ms)))
    ORDER BY t.priority DESC, t.wakeup NULLS LAST, t.id
    LIMIT p_limit
    FOR NO KEY UPDATE SKIP LOCKED
  ) x;
  RETURN QUERY
    UPDATE "reprise_1".timeline t SET epoch = t.epoch + 1, owner = p_worker, updated_at = v_now
    WHERE t.tid = ANY (v_picked) AND (t.mail > 0 OR t.wakeup <= v_now) AND (t.owner IS NULL OR NOT EXISTS (
      SELECT 1 FROM "reprise_1".worker w WHERE w.ns = t.ns AND w.id = t.owner AND (w.retired_at IS NULL AND v_now < w.beat_at + w.lease_ms)))
    RETURNING t.tid;
END $$;
CREATE FUNCTION reprise_1.commit_one_v1(p_ns integer, c jsonb, p_blob bytea) RETURNS jsonb
    LANGUAGE plpgsql
    AS $$
DECLARE
  t "reprise_1".timeline%ROWTYPE;
  v_now double precision := floor(date_part('epoch', clock_timestamp()) * 1000);
  v_count bigint;
BEGIN
  IF NOT c ? 't' THEN
    v_count := "reprise_1".send_v1(p_ns, c->'send', p_blob, v_now);
    RETURN jsonb_build_object('seq', 0, 'was', v_count = 0);
  END IF;
  SELECT * INTO t FROM "reprise_1".timeline WHERE ns = p_ns AND id = c->>'t' FOR NO KEY UPDATE;
  IF NOT FOUND OR (t.is_stub AND NOT c ? 'create') THEN
    IF c ? 'forget' THEN RETURN jsonb_build_object('seq', coalesce((c->>'seq')::bigint, 0), 'was', true); END IF;
    RETURN jsonb_build_object('code', 'NOT_FOUND', 'reason', 'no such timeline');
  END IF;
  t := "reprise_1".sync_v1(t);
  IF t.operation = c->>'op' THEN
    RETURN jsonb_build_object('seq', t.seq, 'was', true);
  END IF;
  IF t.epoch <> (c->>'epoch')::bigint THEN
    RETURN jsonb_build_object('code', 'FENCED', 'reason', format('epoch is %s, not %s', t.epoch, c->>'epoch'));
  END IF;
  IF t.is_stub THEN
    t := "reprise_1".create_v1(t, c->'create', v_now);
  END IF;
  IF c ? 'seq' AND t.seq <> (c->>'seq')::bigint THEN
    RETURN jsonb_build_object('code', 'CONFLICT', 'reason', format('last sequence is %s, not %s', t.seq, c->>'seq'));
  END IF;
  IF c ? 'forget' THEN
    PERFORM "reprise_1".forget_v1(t);
    RETURN jsonb_build_object('seq', t.seq, 'was', false);
  END IF;
  IF c ? 'take' THEN
    IF EXISTS (SELECT 1 FROM "reprise_1".worker w WHERE w.ns = p_ns AND w.id = c->'take'->>'worker' AND w.retired_at IS NOT NULL) THEN
      RETURN jsonb_build_object('code', 'WORKER_RETIRED', 'reason', 'the worker was retired');
    END IF;
    IF t.owner <> c->'take'->>'worker' AND "reprise_1".is_held_v1(p_ns, t.owner, c->'take'->>'from', v_now) THEN
      RETURN jsonb_build_object('code', 'OWNED', 'reason', format('worker %s owns it', t.owner));
    END IF;
    t.owner := c->'take'->>'worker';
    t.epoch := t.epoch + 1;
  END IF;
  IF t.is_stub AND t.base_id IS NOT NULL THEN
    PERFORM "reprise_1".check_reach_v1(t.base_tid, t.base_seq, t.floor);
  END IF;
  IF c ? 'branch' THEN
    t := "reprise_1".branch_v1(t, c->'branch', v_now);
    IF NOT c ? 'take' THEN t.epoch := t.epoch + 1; END IF;
  END IF;
  IF c ? 'run' THEN
    t.last_pos := greatest(t.last_pos, "reprise_1".feed_pos_v1(p_ns));
    INSERT INTO "reprise_1".run (tid, last, first, pos, written_at, ns, digest, operation, bytes)
    VALUES (t.tid, t.seq + (c->'run'->>'count')::bigint, t.seq + 1, t.last_pos, v_now, p_ns,
      decode(c->'run'->>'digest', 'hex'), c->>'op', substr(p_blob, (c->'run'->>'start')::integer, (c->'run'->>'size')::integer))
    RETURNING last, digest INTO t.seq, t.digest;
  END IF;
  IF c ? 'catalog' THEN
    t := "reprise_1".catalog_v1(t, c, p_blob);
  END IF;
  IF c ? 'consume' THEN
    UPDATE "reprise_1".message SET consumed_at = v_now, data = '' WHERE tid = t.tid AND consumed_at IS NULL
      AND id IN (SELECT jsonb_array_elements_text(c->'consume'));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count <> jsonb_array_length(c->'consume') THEN
      PERFORM "reprise_1".refuse_v1('CONFLICT', 'a message to consume is not there unread');
    END IF;
    t.mail := t.mail - v_count;
  END IF;
  IF c ? 'release' THEN t.owner := NULL; END IF;
  IF c ? 'wakeup' THEN t.wakeup := (c->>'wakeup')::double precision; END IF;
  IF c ? 'queue' THEN t.queue := c->>'queue'; END IF;
  IF c ? 'priority' THEN t.priority := (c->>'priority')::double precision; END IF;
  IF c ? 'status' THEN t.status := c->>'status'; END IF;
  IF c ? 'attributes' THEN
    t.attributes := (t.attributes || (c->'attributes')) - ARRAY(SELECT jsonb_array_elements_text(c->'removed'));
  END IF;
  IF c ? 'cursors' THEN
    PERFORM "reprise_1".move_cursor_v1(t, x->>'name', x->>'position', v_now) FROM jsonb_array_elements(c->'cursors') x;
  END IF;
  UPDATE "reprise_1".timeline SET
    seq = t.seq, epoch = t.epoch, digest = t.digest, last_pos = t.last_pos, floor = t.floor, floor_digest = t.floor_digest,
    base_tid = t.base_tid, base_id = t.base_id, base_seq = t.base_seq, base_digest = t.base_digest, is_stub = false,
    owner = t.owner, operation = c->>'op', queue = t.queue, priority = t.priority, status = t.status, wakeup = t.wakeup,
    mail = t.mail, attributes = t.attributes, created_at = t.created_at, updated_at = v_now
  WHERE tid = t.tid;
  IF c ? 'send' THEN
    PERFORM "reprise_1".send_v1(p_ns, c->'send', p_blob, v_now);
  END IF;
  RETURN jsonb_build_object('seq', t.seq, 'was', false);
END $$;
CREATE FUNCTION reprise_1.commit_v1(p_ns integer, p_commits jsonb, p_make text[], p_lock text[], p_blob bytea) RETURNS jsonb
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
  c jsonb;
  v_outcome jsonb;
  v_outcomes jsonb := '[]';
  v_code text;
  v_reason text;
  v_now double precision := floor(date_part('epoch', clock_timestamp()) * 1000);
BEGIN
  IF cardinality(p_make) > 0 THEN
    INSERT INTO "reprise_1".timeline (ns, id, is_stub, created_at, updated_at)
    SELECT p_ns, m.id, true, v_now, v_now FROM unnest(p_make) AS m(id)
    WHERE NOT EXISTS (SELECT 1 FROM "reprise_1".timeline t WHERE t.ns = p_ns AND t.id = m.id)
    ORDER BY m.id ON CONFLICT (ns, id) DO NOTHING;
  END IF;
  PERFORM 1 FROM "reprise_1".timeline WHERE ns = p_ns AND id = ANY (p_lock) ORDER BY id FOR NO KEY UPDATE;
  -- While we waited for a lock, its row may have been renamed or removed. What must be there would be missed: again.
  IF (SELECT count(*) FROM "reprise_1".timeline WHERE ns = p_ns AND id = ANY (p_make)) < cardinality(p_make) THEN
    RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'a timeline was renamed or removed at this moment';
  END IF;
  FOR c IN SELECT e.value FROM jsonb_array_elements(p_commits) e LOOP
    IF c ? 'late' THEN
      BEGIN
        v_outcome := "reprise_1".commit_one_v1(p_ns, c, p_blob);
      EXCEPTION WHEN SQLSTATE 'RP001' THEN
        GET STACKED DIAGNOSTICS v_code = MESSAGE_TEXT, v_reason = PG_EXCEPTION_DETAIL;
        v_outcome := jsonb_build_object('code', v_code, 'reason', v_reason);
      END;
    ELSE
      v_outcome := "reprise_1".commit_one_v1(p_ns, c, p_blob);
    END IF;
    -- A refusal shows the head as it was at that moment, between the commits of the batch.
    IF v_outcome ? 'code' AND c ? 't' THEN
      v_outcome := v_outcome || jsonb_build_object('head', "reprise_1".head_v1(p_ns, c->>'t'));
    END IF;
    v_outcomes := v_outcomes || v_outcome;
  END LOOP;
  RETURN v_outcomes;
END $$;
CREATE FUNCTION reprise_1.create_v1(t reprise_1.timeline, p_create jsonb, p_now double precision) RETURNS reprise_1.timeline
    LANGUAGE plpgsql
    AS $$
DECLARE
  parent "reprise_1".timeline%ROWTYPE;
BEGIN
  t.digest := decode(p_create->>'digest', 'hex');
  t.floor_digest := t.digest;
  t.created_at := p_now;
  IF p_create ? 'base' THEN
    t.base_id := p_create->'base'->>'timeline';
    t.base_seq := (p_create->'base'->>'seq')::bigint;
    t.base_digest := decode(p_create->'base'->>'digest', 'hex');
    SELECT * INTO parent FROM "reprise_1".timeline WHERE ns = t.ns AND id = t.base_id AND NOT is_stub FOR SHARE;
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
CREATE FUNCTION reprise_1.feed_pos_v1(p_ns integer) RETURNS bigint
    LANGUAGE sql
    AS $$
  SELECT pos_base + pg_current_xact_id()::text::bigint FROM "reprise_1".namespace WHERE id = p_ns
$$;
CREATE FUNCTION reprise_1.forget_v1(t reprise_1.timeline) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM "reprise_1".manifest WHERE tid = t.tid AND is_pinned) THEN
    PERFORM "reprise_1".refuse_v1('PINNED', 'a checkpoint of it is pinned');
  END IF;
  -- A fork that is being made holds a lock on this row, so this waits for it and then sees it.
  PERFORM 1 FROM "reprise_1".timeline WHERE tid = t.tid FOR UPDATE;
  IF EXISTS (SELECT 1 FROM "reprise_1".timeline WHERE base_tid = t.tid AND floor < base_seq) THEN
    PERFORM "reprise_1".refuse_v1('PINNED', 'a fork needs its history');
  END IF;
  UPDATE "reprise_1".timeline SET base_tid = NULL, base_id = t.id WHERE base_tid = t.tid;
  DELETE FROM "reprise_1".run WHERE tid = t.tid;
  DELETE FROM "reprise_1".message WHERE tid = t.tid;
  DELETE FROM "reprise_1".manifest WHERE tid = t.tid;
  DELETE FROM "reprise_1".cursor WHERE tid = t.tid;
  DELETE FROM "reprise_1".timeline WHERE tid = t.tid;
END $$;
CREATE FUNCTION reprise_1.head_v1(p_ns integer, p_id text) RETURNS jsonb
    LANGUAGE sql STABLE
    AS $$
  SELECT to_jsonb(x) FROM (
    SELECT t.id, coalesce(r.last, t.seq) AS seq, t.epoch, coalesce(r.digest, t.digest) AS digest, t.owner,
  coalesce((w.retired_at IS NULL AND floor(date_part('epoch', clock_timestamp()) * 1000) < w.beat_at + w.lease_ms), false) AS is_owner_alive, t.floor, t.floor_digest, coalesce(b.id, t.base_id) AS base_id,
  t.base_seq, t.base_digest, t.queue, t.priority, t.status, t.wakeup, t.mail, t.attributes,
  coalesce(r.operation, t.operation) AS operation, t.created_at, greatest(t.updated_at, r.written_at) AS updated_at FROM "reprise_1".timeline t
    LEFT JOIN LATERAL (SELECT last, digest, operation, written_at FROM "reprise_1".run
      WHERE tid = t.tid AND last > t.seq ORDER BY last DESC LIMIT 1) r ON true
    LEFT JOIN "reprise_1".timeline b ON b.tid = t.base_tid
    LEFT JOIN "reprise_1".worker w ON w.ns = t.ns AND w.id = t.owner WHERE t.ns = p_ns AND t.id = p_id AND NOT t.is_stub
  ) x
$$;
CREATE FUNCTION reprise_1.is_held_v1(p_ns integer, p_owner text, p_from text, p_now double precision) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
  SELECT p_owner IS NOT NULL AND CASE p_from
    WHEN 'anyone' THEN false
    WHEN 'dead' THEN EXISTS (
      SELECT 1 FROM "reprise_1".worker w WHERE w.ns = p_ns AND w.id = p_owner AND (w.retired_at IS NULL AND p_now < w.beat_at + w.lease_ms))
    ELSE NOT EXISTS (
      SELECT 1 FROM "reprise_1".worker w WHERE w.ns = p_ns AND w.id = p_owner AND w.retired_at IS NOT NULL)
  END
$$;
CREATE FUNCTION reprise_1.move_cursor_v1(t reprise_1.timeline, p_name text, p_position text, p_now double precision) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_cursor "reprise_1".cursor%ROWTYPE;
BEGIN
  SELECT * INTO v_cursor FROM "reprise_1".cursor WHERE ns = t.ns AND name = p_name FOR UPDATE;
  IF FOUND AND v_cursor.tid <> t.tid THEN
    PERFORM "reprise_1".refuse_v1('CONFLICT', format('another timeline owns the cursor %s', p_name));
  END IF;
  IF p_position IS NULL THEN
    DELETE FROM "reprise_1".cursor WHERE ns = t.ns AND name = p_name;
    RETURN;
  END IF;
  IF v_cursor.position > p_position THEN
    PERFORM "reprise_1".refuse_v1('CONFLICT', format('the cursor %s would move back', p_name));
  END IF;
  INSERT INTO "reprise_1".cursor AS x (ns, name, tid, position, moved_at) VALUES (t.ns, p_name, t.tid, p_position, p_now)
  ON CONFLICT (ns, name) DO UPDATE SET position = excluded.position, moved_at = excluded.moved_at
    WHERE x.tid = t.tid AND x.position <= excluded.position;
  IF NOT FOUND THEN PERFORM "reprise_1".refuse_v1('CONFLICT', format('the cursor %s was just made elsewhere', p_name)); END IF;
END $$;
CREATE FUNCTION reprise_1.refuse_v1(p_code text, p_reason text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'RP001', MESSAGE = p_code, DETAIL = p_reason;
END $$;
CREATE FUNCTION reprise_1.send_v1(p_ns integer, p_send jsonb, p_blob bytea, p_now double precision) RETURNS bigint
    LANGUAGE sql
    AS $$
  WITH added AS (
    INSERT INTO "reprise_1".message (tid, id, kind, data, sent_at)
    SELECT t.tid, m.value->>'id', m.value->>'kind',
      substr(p_blob, (m.value->>'start')::integer, (m.value->>'size')::integer), p_now
    FROM jsonb_array_elements(p_send) WITH ORDINALITY AS m(value, n)
    JOIN "reprise_1".timeline t ON t.ns = p_ns AND t.id = m.value->>'to'
    ORDER BY m.n
    ON CONFLICT (tid, id) DO NOTHING
    RETURNING tid
  ), counted AS (
    UPDATE "reprise_1".timeline t SET mail = t.mail + a.count
    FROM (SELECT tid, count(*) AS count FROM added GROUP BY tid) a WHERE t.tid = a.tid
  )
  SELECT count(*) FROM added
$$;
CREATE FUNCTION reprise_1.sync_v1(t reprise_1.timeline) RETURNS reprise_1.timeline
    LANGUAGE plpgsql
    AS $$
DECLARE
  r "reprise_1".run%ROWTYPE;
BEGIN
  SELECT * INTO r FROM "reprise_1".run WHERE tid = t.tid AND last > t.seq ORDER BY last DESC LIMIT 1;
  IF FOUND THEN
    t.seq := r.last;
    t.digest := r.digest;
    t.operation := r.operation;
    t.last_pos := r.pos;
    t.updated_at := greatest(t.updated_at, r.written_at);
  END IF;
  RETURN t;
END $$;
CREATE FUNCTION reprise_1.trim_v1(t reprise_1.timeline, p_trim jsonb) RETURNS reprise_1.timeline
    LANGUAGE plpgsql
    AS $$
DECLARE
  v_seq bigint := (p_trim->>'seq')::bigint;
  v_position text;
BEGIN
  IF v_seq <= t.floor THEN RETURN t; END IF;
  IF v_seq IS DISTINCT FROM t.base_seq AND NOT EXISTS (SELECT 1 FROM "reprise_1".run WHERE tid = t.tid AND last = v_seq) THEN
    PERFORM "reprise_1".refuse_v1('OUT_OF_RANGE', format('no run ends at sequence %s', v_seq));
  END IF;
  IF EXISTS (SELECT 1 FROM jsonb_array_elements_text(p_trim->'restsOn') r(id) WHERE NOT EXISTS (
      SELECT 1 FROM "reprise_1".manifest m WHERE m.tid = t.tid AND m.id = r.id AND m.seq >= v_seq AND m.verified_at IS NOT NULL AND m.invalid IS NULL)) THEN
    PERFORM "reprise_1".refuse_v1('PINNED', 'a checkpoint that the floor would rest on is not a verified, valid one at or above it');
  END IF;
  -- A fork that is being made holds a lock on this row, so this waits for it and then sees it.
  PERFORM 1 FROM "reprise_1".timeline WHERE tid = t.tid FOR NO KEY UPDATE;
  IF EXISTS (SELECT 1 FROM "reprise_1".timeline WHERE base_tid = t.tid AND floor < v_seq AND floor < base_seq) THEN
    PERFORM "reprise_1".refuse_v1('PINNED', 'a fork needs history that would go');
  END IF;
  SELECT lpad((r).pos::text, 16, '0') || '-' || lpad((r).id::text, 16, '0') INTO v_position FROM "reprise_1".run r
    WHERE r.tid = t.tid AND r.last <= v_seq ORDER BY r.last DESC LIMIT 1;
  IF EXISTS (SELECT 1 FROM "reprise_1".cursor WHERE ns = t.ns AND position < v_position) THEN
    PERFORM "reprise_1".refuse_v1('PINNED', 'a cursor has not passed history that would go');
  END IF;
  DELETE FROM "reprise_1".run WHERE tid = t.tid AND last <= v_seq;
  t.floor := v_seq;
  t.floor_digest := decode(p_trim->>'digest', 'hex');
  RETURN t;
END $$;
CREATE TABLE reprise_1.chunk (
    ns integer NOT NULL,
    digest bytea NOT NULL,
    touched_at double precision NOT NULL,
    bytes bytea NOT NULL
);
ALTER TABLE ONLY reprise_1.chunk ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE TABLE reprise_1.cursor (
    ns integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    tid bigint NOT NULL,
    moved_at double precision NOT NULL,
    "position" text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE reprise_1.manifest (
    tid bigint NOT NULL,
    ord bigint NOT NULL,
    seq bigint NOT NULL,
    epoch bigint NOT NULL,
    created_at double precision NOT NULL,
    total_bytes double precision NOT NULL,
    added_bytes double precision NOT NULL,
    verified_at double precision,
    drilled_at double precision,
    ns integer NOT NULL,
    is_pinned boolean NOT NULL,
    digest bytea NOT NULL,
    body_digest bytea NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    base_id text COLLATE pg_catalog."C",
    trigger text NOT NULL COLLATE pg_catalog."C",
    label text COLLATE pg_catalog."C",
    fold_version text NOT NULL COLLATE pg_catalog."C",
    invalid text COLLATE pg_catalog."C",
    drill text COLLATE pg_catalog."C",
    body bytea NOT NULL
);
ALTER TABLE ONLY reprise_1.manifest ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE reprise_1.manifest ALTER COLUMN ord ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME reprise_1.manifest_ord_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE reprise_1.message (
    tid bigint NOT NULL,
    ord bigint NOT NULL,
    sent_at double precision NOT NULL,
    consumed_at double precision,
    id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    data bytea NOT NULL
);
ALTER TABLE ONLY reprise_1.message ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE reprise_1.message ALTER COLUMN ord ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME reprise_1.message_ord_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE reprise_1.meta (
    is_only boolean DEFAULT true NOT NULL,
    version integer NOT NULL,
    CONSTRAINT meta_is_only_check CHECK (is_only)
);
CREATE TABLE reprise_1.namespace (
    id integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    pos_base bigint DEFAULT 0 NOT NULL
);
ALTER TABLE reprise_1.namespace ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME reprise_1.namespace_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE reprise_1.run (
    tid bigint NOT NULL,
    last bigint NOT NULL,
    first bigint NOT NULL,
    pos bigint NOT NULL,
    id bigint NOT NULL,
    written_at double precision NOT NULL,
    ns integer NOT NULL,
    digest bytea NOT NULL,
    operation text NOT NULL COLLATE pg_catalog."C",
    bytes bytea NOT NULL
);
ALTER TABLE ONLY reprise_1.run ALTER COLUMN bytes SET STORAGE EXTERNAL;
ALTER TABLE reprise_1.run ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME reprise_1.run_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE reprise_1.timeline ALTER COLUMN tid ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME reprise_1.timeline_tid_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE reprise_1.worker (
    ns integer NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    lease_ms double precision NOT NULL,
    progress double precision NOT NULL,
    started_at double precision NOT NULL,
    beat_at double precision NOT NULL,
    progress_at double precision NOT NULL,
    retired_at double precision,
    presence double precision,
    name text NOT NULL COLLATE pg_catalog."C",
    host text NOT NULL COLLATE pg_catalog."C",
    process text NOT NULL COLLATE pg_catalog."C",
    info jsonb NOT NULL
)
WITH (fillfactor='50');
INSERT INTO reprise_1.cursor VALUES (1, 'reader', 2, 1794733961954, '0000000000000731-0000000000000003');
INSERT INTO reprise_1.message OVERRIDING SYSTEM VALUE VALUES (1, 1, 1794733961954, NULL, 'm1', 'hello', '\x6869');
INSERT INTO reprise_1.meta VALUES (true, 1);
INSERT INTO reprise_1.namespace OVERRIDING SYSTEM VALUE VALUES (1, 'shop', 0);
INSERT INTO reprise_1.run OVERRIDING SYSTEM VALUE VALUES (1, 1, 1, 728, 1, 1794733961922, 1, '\xe4def6837695f1765bb689c8d662e3804ddeb54ea2262bf9792a814f44185bc4', 'e4def6837695f176', '\x0101010111056e6f7465640100006e6f74652f612031');
INSERT INTO reprise_1.run OVERRIDING SYSTEM VALUE VALUES (1, 4, 2, 729, 2, 1794733961930, 1, '\x689ebaa644e8f9b3290166ddf61ad726e30fa4e4078fa7f6357bad5d69c7311b', '689ebaa644e8f9b3', '\x0102010111056e6f7465640100006e6f74652f61203211056e6f7465640100006e6f74652f61203311056e6f7465640100006e6f74652f612034');
INSERT INTO reprise_1.run OVERRIDING SYSTEM VALUE VALUES (1, 5, 5, 731, 3, 1794733961933, 1, '\x52933d258c7adb5debb11fc26ded38d0a49c465eabe4f2bb32ad574f6e817e45', '52933d258c7adb5d', '\x0105010111056e6f7465640100006e6f74652f612035');
INSERT INTO reprise_1.run OVERRIDING SYSTEM VALUE VALUES (1, 7, 6, 732, 4, 1794733961934, 1, '\x1a21bc8e3fa4bd9df80884b2aebbb19f834f9c226360df36615552e312b68c78', '1a21bc8e3fa4bd9d', '\x0106010111056e6f7465640100006e6f74652f61203611056e6f7465640100006e6f74652f612037');
INSERT INTO reprise_1.run OVERRIDING SYSTEM VALUE VALUES (2, 2, 1, 734, 5, 1794733961943, 1, '\x9435d7d47cf8fef0c5f28e17364b171a1fa1b8d907fc1a5f3eabf3a2a26a6680', '9435d7d47cf8fef0', '\x0101010111056e6f7465640100006e6f74652f62203111056e6f7465640100006e6f74652f622032');
INSERT INTO reprise_1.run OVERRIDING SYSTEM VALUE VALUES (2, 4, 3, 735, 6, 1794733961945, 1, '\x1e9017e49efdb6511b8f5ad1c90ccf9d657af5f61badda315146734e1f149d50', '1e9017e49efdb651', '\x0103010111056e6f7465640100006e6f74652f62203311056e6f7465640100006e6f74652f622034');
INSERT INTO reprise_1.run OVERRIDING SYSTEM VALUE VALUES (2, 5, 5, 739, 7, 1794733961963, 1, '\x9637f58c87b7bd0da463b225d6013e95db0551a6a42df37e81d93050175d1ca3', 'own-name', '\x0105010111056e6f7465640100006e6f74652f622035');
INSERT INTO reprise_1.timeline OVERRIDING SYSTEM VALUE VALUES (2, 4, 1, 735, 0, NULL, NULL, 0, NULL, 1794733961939, 1794733961954, 1, 0, false, '\x1e9017e49efdb6511b8f5ad1c90ccf9d657af5f61badda315146734e1f149d50', '\xf88797be8846981d2e61dae34283e1899f3e2481202ba38a1e69024c09238f95', NULL, 'note/b', NULL, 'w', 'note-cursor', 'q', '', '{"kind": "note"}');
INSERT INTO reprise_1.timeline OVERRIDING SYSTEM VALUE VALUES (1, 0, 1, 0, 0, NULL, NULL, 0, NULL, 1794733961893, 1794733961893, 1, 1, false, '\xe7337a7d43c38c01075437179cec97ed27e953b7e7351136f7daa371413f6577', '\xe7337a7d43c38c01075437179cec97ed27e953b7e7351136f7daa371413f6577', NULL, 'note/a', NULL, 'w', 'take-note/a', 'q', '', '{"kind": "note"}');
SELECT pg_catalog.setval('reprise_1.manifest_ord_seq', 1, false);
SELECT pg_catalog.setval('reprise_1.message_ord_seq', 1, true);
SELECT pg_catalog.setval('reprise_1.namespace_id_seq', 1, true);
SELECT pg_catalog.setval('reprise_1.run_id_seq', 7, true);
SELECT pg_catalog.setval('reprise_1.timeline_tid_seq', 2, true);
ALTER TABLE ONLY reprise_1.chunk
    ADD CONSTRAINT chunk_pkey PRIMARY KEY (ns, digest);
ALTER TABLE ONLY reprise_1.cursor
    ADD CONSTRAINT cursor_pkey PRIMARY KEY (ns, name);
ALTER TABLE ONLY reprise_1.manifest
    ADD CONSTRAINT manifest_ns_id_key UNIQUE (ns, id);
ALTER TABLE ONLY reprise_1.manifest
    ADD CONSTRAINT manifest_pkey PRIMARY KEY (tid, id);
ALTER TABLE ONLY reprise_1.message
    ADD CONSTRAINT message_pkey PRIMARY KEY (tid, id);
ALTER TABLE ONLY reprise_1.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (is_only);
ALTER TABLE ONLY reprise_1.namespace
    ADD CONSTRAINT namespace_name_key UNIQUE (name);
ALTER TABLE ONLY reprise_1.namespace
    ADD CONSTRAINT namespace_pkey PRIMARY KEY (id);
ALTER TABLE ONLY reprise_1.run
    ADD CONSTRAINT run_pkey PRIMARY KEY (tid, last);
ALTER TABLE ONLY reprise_1.timeline
    ADD CONSTRAINT timeline_ns_id_key UNIQUE (ns, id);
ALTER TABLE ONLY reprise_1.timeline
    ADD CONSTRAINT timeline_pkey PRIMARY KEY (tid);
ALTER TABLE ONLY reprise_1.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (ns, id);
CREATE INDEX cursor_owner ON reprise_1.cursor USING btree (tid);
CREATE INDEX message_unread ON reprise_1.message USING btree (tid, ord) WHERE (consumed_at IS NULL);
CREATE INDEX run_feed ON reprise_1.run USING btree (ns, pos, id);
CREATE INDEX timeline_attributes ON reprise_1.timeline USING gin (attributes jsonb_path_ops);
CREATE INDEX timeline_base ON reprise_1.timeline USING btree (base_tid) WHERE (base_tid IS NOT NULL);
CREATE INDEX timeline_mail ON reprise_1.timeline USING btree (ns, queue) WHERE ((mail > 0) AND (queue IS NOT NULL));
CREATE INDEX timeline_owner ON reprise_1.timeline USING btree (ns, owner) WHERE (owner IS NOT NULL);
CREATE INDEX timeline_wakeup ON reprise_1.timeline USING btree (ns, queue, wakeup) WHERE ((wakeup IS NOT NULL) AND (queue IS NOT NULL));
