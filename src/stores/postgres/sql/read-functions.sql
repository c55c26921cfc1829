-- The most frequent reads of a worker: due timelines with their heads, and then the history and the catalog of each.
-- Concurrent reads are combined (statement-batcher.ts), so the functions take many timelines. Their plans are cached, which
-- saves the server more than the reads themselves cost.

-- Claims due timelines without an owner, in the order of their index: sleeping and running timelines are not read, and no more
-- rows than requested. Rows that another claim has locked are skipped. The claim reads one priority after the other, since it
-- would otherwise read through sleeping timelines of higher priorities. The timelines of dead workers are found by the index of
-- owners; the owner is checked again under the lock, since it may have changed since the snapshot.
CREATE FUNCTION reprise.claim(
  p_ns integer, p_worker text, p_queues text[], p_except text[], p_limit integer
) RETURNS TABLE (id text, seq bigint, epoch bigint, digest bytea, owner text, is_owner_alive boolean, floor bigint,
  floor_digest bytea, base_id text, base_seq bigint, base_digest bytea, queue text, priority double precision, status text,
  wakeup double precision, mail integer, attributes jsonb, operation text, created_at double precision, updated_at double precision, life bigint) LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
  v_now double precision := floor(date_part('epoch', clock_timestamp()) * 1000);
  v_queue text;
  v_level double precision;
  v_owner text;
  v_dead text[] := '{}';
  v_some bigint[];
  v_found bigint[] := '{}';
  v_count integer;
BEGIN
  IF EXISTS (SELECT 1 FROM reprise.worker w WHERE w.ns = p_ns AND w.id = p_worker AND w.retired_at IS NOT NULL) THEN
    PERFORM reprise.refuse('WORKER_RETIRED', format('worker %s was declared dead', p_worker));
  END IF;
  FOR v_queue IN SELECT DISTINCT q FROM unnest(p_queues) q LOOP
    v_level := 'Infinity';
    v_count := 0;
    LOOP
      SELECT t.priority INTO v_level FROM reprise.timeline t
      WHERE t.ns = p_ns AND t.queue = v_queue AND t.priority < v_level AND (t.owner IS NULL AND NOT t.is_stub AND t.queue IS NOT NULL AND (t.mail > 0 OR t.wakeup IS NOT NULL))
      ORDER BY t.priority DESC LIMIT 1;
      EXIT WHEN NOT FOUND;
      SELECT array_agg(x.tid) INTO v_some FROM (
        SELECT t.tid FROM reprise.timeline t
        WHERE t.ns = p_ns AND t.queue = v_queue AND t.priority = v_level AND (CASE WHEN t.mail > 0 THEN 0 ELSE t.wakeup END) <= v_now AND (t.owner IS NULL AND NOT t.is_stub AND t.queue IS NOT NULL AND (t.mail > 0 OR t.wakeup IS NOT NULL))
          AND t.id <> ALL (p_except)
        ORDER BY (CASE WHEN t.mail > 0 THEN 0 ELSE t.wakeup END), t.id LIMIT p_limit - v_count
        FOR NO KEY UPDATE SKIP LOCKED
      ) x;
      v_found := v_found || v_some;
      v_count := v_count + coalesce(cardinality(v_some), 0);
      EXIT WHEN v_count >= p_limit;
    END LOOP;
  END LOOP;
  v_owner := '';
  LOOP
    SELECT t.owner INTO v_owner FROM reprise.timeline t
    WHERE t.ns = p_ns AND t.owner IS NOT NULL AND t.owner > v_owner ORDER BY t.owner LIMIT 1;
    EXIT WHEN NOT FOUND;
    CONTINUE WHEN v_owner = p_worker;
    IF NOT EXISTS (SELECT 1 FROM reprise.worker w WHERE w.ns = p_ns AND w.id = v_owner AND (w.retired_at IS NULL AND v_now < w.beat_at + w.lease_ms)) THEN
      v_dead := v_dead || v_owner;
    END IF;
  END LOOP;
  IF cardinality(v_dead) > 0 THEN
    SELECT array_agg(x.tid) INTO v_some FROM (
      SELECT t.tid FROM reprise.timeline t
      WHERE t.ns = p_ns AND t.owner = ANY (v_dead) AND t.owner IS NOT NULL AND t.queue = ANY (p_queues)
        AND (CASE WHEN t.mail > 0 THEN 0 ELSE t.wakeup END) <= v_now AND NOT t.is_stub AND t.id <> ALL (p_except)
      ORDER BY t.priority DESC, (CASE WHEN t.mail > 0 THEN 0 ELSE t.wakeup END), t.id LIMIT p_limit
      FOR NO KEY UPDATE SKIP LOCKED
    ) x;
    v_found := v_found || v_some;
  END IF;
  IF cardinality(v_found) > p_limit THEN
    SELECT array_agg(x.tid) INTO v_found FROM (
      SELECT t.tid FROM reprise.timeline t WHERE t.tid = ANY (v_found)
      ORDER BY t.priority DESC, (CASE WHEN t.mail > 0 THEN 0 ELSE t.wakeup END), t.id LIMIT p_limit
    ) x;
  END IF;
  WITH taken AS (
    UPDATE reprise.timeline t SET epoch = t.epoch + 1, owner = p_worker, updated_at = v_now
    WHERE t.tid = ANY (v_found) AND (t.mail > 0 OR t.wakeup <= v_now) AND (t.owner IS NULL OR NOT EXISTS (
      SELECT 1 FROM reprise.worker w WHERE w.ns = t.ns AND w.id = t.owner AND (w.retired_at IS NULL AND v_now < w.beat_at + w.lease_ms)))
    RETURNING t.tid
  ) SELECT array_agg(x.tid) INTO v_found FROM taken x;
  RETURN QUERY SELECT t.id, coalesce(r.last, t.seq) AS seq, t.epoch, coalesce(r.digest, t.digest) AS digest, t.owner,
  coalesce((w.retired_at IS NULL AND floor(date_part('epoch', clock_timestamp()) * 1000) < w.beat_at + w.lease_ms), false) AS is_owner_alive, t.floor, t.floor_digest, coalesce(b.id, t.base_id) AS base_id,
  t.base_seq, t.base_digest, t.queue, t.priority, t.status, t.wakeup, t.mail, t.attributes,
  coalesce(r.operation, t.operation) AS operation, t.created_at, greatest(t.updated_at, r.written_at) AS updated_at, t.life FROM reprise.timeline t
    LEFT JOIN LATERAL (SELECT l.last, l.digest, l.written_at, coalesce(l.operation, encode(substr(l.digest, 1, 8), 'hex')) AS operation FROM reprise.run l
      WHERE l.tid = t.tid AND l.first > t.seq ORDER BY l.first DESC LIMIT 1) r ON true
    LEFT JOIN LATERAL (SELECT p.id FROM reprise.timeline p WHERE p.tid = t.base_tid LIMIT 1) b ON true
    LEFT JOIN LATERAL (SELECT o.* FROM reprise.worker o WHERE o.ns = t.ns AND o.id = t.owner LIMIT 1) w ON true WHERE t.tid = ANY (v_found)
    ORDER BY t.priority DESC, (CASE WHEN t.mail > 0 THEN 0 ELSE t.wakeup END), t.id;
END $$;

-- The runs of each timeline above a given sequence, up to about a given number of bytes. The first run may begin at or below
-- that sequence, if it ends above it.
CREATE FUNCTION reprise.read(p_ns integer, p_ids text[], p_afters bigint[], p_bytes numeric[])
RETURNS TABLE (n bigint, first bigint, last bigint, digest bytea, bytes bytea)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT k.n, x.first, x.last, r.digest, r.bytes
  FROM unnest(p_ids, p_afters, p_bytes) WITH ORDINALITY AS k(id, after, bytes, n)
  CROSS JOIN LATERAL (SELECT t.tid FROM reprise.timeline t WHERE t.ns = p_ns AND t.id = k.id LIMIT 1) h
  CROSS JOIN LATERAL (
    SELECT y.first, y.last, row_number() OVER w AS n, sum(y.size) OVER w AS size
    FROM (
      SELECT a.first, a.last, octet_length(a.bytes) AS size FROM reprise.run a
      WHERE a.tid = h.tid AND a.last > k.after AND a.first >= coalesce(
        (SELECT b.first FROM reprise.run b WHERE b.tid = h.tid AND b.first <= k.after ORDER BY b.first DESC LIMIT 1), k.after)
      ORDER BY a.first LIMIT 1000
    ) y WINDOW w AS (ORDER BY y.first)
  ) x
  CROSS JOIN LATERAL (SELECT z.digest, z.bytes FROM reprise.run z WHERE z.tid = h.tid AND z.first = x.first LIMIT 1) r
  WHERE x.n = 1 OR x.size <= k.bytes ORDER BY k.n, x.first;
END $$;

-- The runs of a few timelines after a position of the feed, without reading other timelines. Positions of one timeline grow with
-- its sequence, so a binary search finds the first new run; a timeline without new runs is recognised by its last run.
CREATE FUNCTION reprise.feed_of(p_tids bigint[], p_pos bigint, p_id bigint, p_bound bigint, p_limit bigint)
RETURNS TABLE (pos bigint, id bigint, tid bigint, first bigint, last bigint, size integer)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  v_tid bigint;
  v_low bigint;
  v_high bigint;
  v_middle bigint;
  r record;
BEGIN
  FOREACH v_tid IN ARRAY p_tids LOOP
    SELECT a.pos, a.id, a.first INTO r FROM reprise.run a WHERE a.tid = v_tid ORDER BY a.first DESC LIMIT 1;
    CONTINUE WHEN NOT FOUND OR (r.pos, r.id) <= (p_pos, p_id);
    v_high := r.first;
    SELECT a.pos, a.id, a.first INTO r FROM reprise.run a WHERE a.tid = v_tid ORDER BY a.first LIMIT 1;
    v_low := r.first;
    IF (r.pos, r.id) > (p_pos, p_id) THEN v_high := v_low; END IF;
    -- The run at v_low was delivered before, the run that begins at v_high was not.
    WHILE v_high - v_low > 1 LOOP
      v_middle := (v_low + v_high) / 2;
      SELECT a.pos, a.id, a.first INTO r FROM reprise.run a WHERE a.tid = v_tid AND a.first <= v_middle ORDER BY a.first DESC LIMIT 1;
      IF (r.pos, r.id) > (p_pos, p_id) THEN v_high := r.first; ELSE v_low := v_middle; END IF;
    END LOOP;
    RETURN QUERY SELECT a.pos, a.id, a.tid, a.first, a.last, octet_length(a.bytes) FROM reprise.run a
      WHERE a.tid = v_tid AND a.first >= v_high AND a.pos < p_bound ORDER BY a.first LIMIT p_limit;
  END LOOP;
END $$;

CREATE FUNCTION reprise.catalogs(p_ns integer, p_ids text[]) RETURNS TABLE (n bigint, id text, seq bigint, epoch bigint, digest bytea, body bytea, body_digest bytea, base_id text,
  created_at double precision, trigger text, label text, is_pinned boolean, fold_version text, total_bytes double precision,
  added_bytes double precision, verified_at double precision, invalid text, drilled_at double precision, drill text)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT k.n, m.id, m.seq, m.epoch, m.digest, m.body, m.body_digest, m.base_id, m.created_at, m.trigger, m.label, m.is_pinned,
  m.fold_version, m.total_bytes, m.added_bytes, m.verified_at, m.invalid, m.drilled_at, m.drill
  FROM unnest(p_ids) WITH ORDINALITY AS k(id, n)
  CROSS JOIN LATERAL (SELECT t.tid FROM reprise.timeline t WHERE t.ns = p_ns AND t.id = k.id LIMIT 1) h
  CROSS JOIN LATERAL (SELECT x.* FROM reprise.manifest x WHERE x.tid = h.tid) m ORDER BY k.n, m.seq DESC, m.ord DESC;
END $$;
