-- How the lives of ids begin and end: the initial values of a timeline, the receiver of its mail, and the past of a forgotten
-- one. Called by the general commit (commit-functions.sql).

-- The life and the epoch of a new timeline. A transaction that forgets the id locks its row, and the creating transaction has
-- inserted that row again, so one of them sees the other.
CREATE FUNCTION reprise.next_life(t reprise.timeline, p_copy jsonb) RETURNS reprise.timeline LANGUAGE plpgsql AS $$
DECLARE
  v_past reprise.past%ROWTYPE;
BEGIN
  IF p_copy IS NOT NULL THEN
    t.life := (p_copy->>'life')::bigint;
    t.epoch := (p_copy->>'epoch')::bigint;
    RETURN t;
  END IF;
  SELECT * INTO v_past FROM reprise.past WHERE ns = t.ns AND name = substr(encode(sha256(convert_to(t.id, 'UTF8')), 'hex'), 1, 32);
  IF NOT FOUND THEN SELECT * INTO v_past FROM reprise.past WHERE ns = t.ns AND name = ''; END IF;
  IF v_past.ns IS NOT NULL AND NOT (v_past.checksum = md5(v_past.ns::text || ' ' || v_past.name || ' ' || v_past.life::text || ' ' || v_past.epoch::text || ' ' || encode(float8send(v_past.forgotten_at), 'hex'))) THEN
    RAISE EXCEPTION USING ERRCODE = 'XX001', MESSAGE = format('the life of a forgotten id (%s) does not match its checksum', v_past.name);
  END IF;
  t.life := coalesce(v_past.life, 0) + 1;
  t.epoch := coalesce(v_past.epoch, 0);
  RETURN t;
END $$;

-- A sender without its own timeline is informed that the message has no reader.
CREATE FUNCTION reprise.check_receivers(p_ns integer, p_send jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM reprise.refuse('NOT_FOUND', format('life %s of %s is over', m.value->>'life', m.value->>'to'))
  FROM jsonb_array_elements(p_send) m
  WHERE m.value ? 'life' AND NOT EXISTS (SELECT 1 FROM reprise.timeline t WHERE t.ns = p_ns AND t.id = m.value->>'to'
    AND NOT t.is_stub AND t.life = (m.value->>'life')::bigint) LIMIT 1;
END $$;

CREATE FUNCTION reprise.forget(t reprise.timeline, p_how text, p_now double precision) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM reprise.refuse('PINNED', format('checkpoint %s of %s is pinned', id, t.id))
  FROM reprise.manifest WHERE tid = t.tid AND is_pinned LIMIT 1;
  -- A concurrent fork holds a lock on this row, so this statement waits for the fork and then sees it.
  PERFORM 1 FROM reprise.timeline WHERE tid = t.tid FOR UPDATE;
  PERFORM reprise.refuse('PINNED', format('the fork %s needs %s', id, t.id))
  FROM reprise.timeline WHERE base_tid = t.tid AND floor < base_seq LIMIT 1;
  UPDATE reprise.timeline SET base_tid = NULL, base_id = t.id WHERE base_tid = t.tid;
  DELETE FROM reprise.run WHERE tid = t.tid;
  DELETE FROM reprise.message WHERE tid = t.tid;
  DELETE FROM reprise.manifest WHERE tid = t.tid;
  DELETE FROM reprise.cursor WHERE tid = t.tid;
  DELETE FROM reprise.timeline WHERE tid = t.tid;
  IF p_how = 'moved' THEN RETURN; END IF;
  -- An erased id leaves no digest, not even that of an earlier life.
  IF p_how = 'erase' THEN DELETE FROM reprise.past WHERE ns = t.ns AND name = substr(encode(sha256(convert_to(t.id, 'UTF8')), 'hex'), 1, 32); END IF;
  INSERT INTO reprise.past AS p (ns, name, life, epoch, forgotten_at)
  VALUES (t.ns, CASE p_how WHEN 'erase' THEN '' ELSE substr(encode(sha256(convert_to(t.id, 'UTF8')), 'hex'), 1, 32) END, t.life,
    CASE p_how WHEN 'erase' THEN 0 ELSE t.epoch END, p_now)
  ON CONFLICT (ns, name) DO UPDATE SET life = greatest(p.life, excluded.life), epoch = greatest(p.epoch, excluded.epoch),
    forgotten_at = excluded.forgotten_at;
END $$;
