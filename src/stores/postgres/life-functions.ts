// How the lives of ids begin and end, in the database: the initial values of a timeline, the receiver of its mail, and
// the past of a forgotten one. Called by the general commit (commit-function.ts).

import { functionName, pastName } from './functions.ts'
import { damagedPast } from './past.ts'
import { isSoundPast } from './tables.ts'

export function createLifeFunctions(s: string): string {
  const f = (name: string) => functionName(s, name)
  return `
-- The life that a timeline is made with, and the epoch that it starts from. Who forgets it holds a lock on its row, and who
-- makes it has made that row again: one sees the other.
CREATE FUNCTION ${f('next_life')}(t ${s}.timeline, p_copy jsonb) RETURNS ${s}.timeline LANGUAGE plpgsql AS $$
DECLARE
  v_past ${s}.past%ROWTYPE;
BEGIN
  IF p_copy IS NOT NULL THEN
    t.life := (p_copy->>'life')::bigint;
    t.epoch := (p_copy->>'epoch')::bigint;
    RETURN t;
  END IF;
  SELECT * INTO v_past FROM ${s}.past WHERE ns = t.ns AND name = ${pastName('t.id')};
  IF NOT FOUND THEN SELECT * INTO v_past FROM ${s}.past WHERE ns = t.ns AND name = ''; END IF;
  IF v_past.ns IS NOT NULL AND NOT ${isSoundPast('v_past')} THEN
    RAISE EXCEPTION USING ERRCODE = 'XX001', MESSAGE = format('${damagedPast}', v_past.name);
  END IF;
  t.life := coalesce(v_past.life, 0) + 1;
  t.epoch := coalesce(v_past.epoch, 0);
  RETURN t;
END $$;

-- A sender without a timeline of its own learns that nobody will read its message.
CREATE FUNCTION ${f('check_receivers')}(p_ns integer, p_send jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM ${f('refuse')}('NOT_FOUND', format('life %s of %s is over', m.value->>'life', m.value->>'to'))
  FROM jsonb_array_elements(p_send) m
  WHERE m.value ? 'life' AND NOT EXISTS (SELECT 1 FROM ${s}.timeline t WHERE t.ns = p_ns AND t.id = m.value->>'to'
    AND NOT t.is_stub AND t.life = (m.value->>'life')::bigint) LIMIT 1;
END $$;

CREATE FUNCTION ${f('forget')}(t ${s}.timeline, p_how text, p_now double precision) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM ${f('refuse')}('PINNED', format('checkpoint %s of %s is pinned', id, t.id))
  FROM ${s}.manifest WHERE tid = t.tid AND is_pinned LIMIT 1;
  -- A fork that is being made holds a lock on this row, so this waits for it and then sees it.
  PERFORM 1 FROM ${s}.timeline WHERE tid = t.tid FOR UPDATE;
  PERFORM ${f('refuse')}('PINNED', format('the fork %s needs %s', id, t.id))
  FROM ${s}.timeline WHERE base_tid = t.tid AND floor < base_seq LIMIT 1;
  UPDATE ${s}.timeline SET base_tid = NULL, base_id = t.id WHERE base_tid = t.tid;
  DELETE FROM ${s}.run WHERE tid = t.tid;
  DELETE FROM ${s}.message WHERE tid = t.tid;
  DELETE FROM ${s}.manifest WHERE tid = t.tid;
  DELETE FROM ${s}.cursor WHERE tid = t.tid;
  DELETE FROM ${s}.timeline WHERE tid = t.tid;
  IF p_how = 'moved' THEN RETURN; END IF;
  -- An erased id leaves no digest, also not that of an earlier life.
  IF p_how = 'erase' THEN DELETE FROM ${s}.past WHERE ns = t.ns AND name = ${pastName('t.id')}; END IF;
  INSERT INTO ${s}.past AS p (ns, name, life, epoch, forgotten_at)
  VALUES (t.ns, CASE p_how WHEN 'erase' THEN '' ELSE ${pastName('t.id')} END, t.life,
    CASE p_how WHEN 'erase' THEN 0 ELSE t.epoch END, p_now)
  ON CONFLICT (ns, name) DO UPDATE SET life = greatest(p.life, excluded.life), epoch = greatest(p.epoch, excluded.epoch),
    forgotten_at = excluded.forgotten_at;
END $$;
`
}
