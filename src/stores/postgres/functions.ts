// Functions that live in the database, so that a whole batch is one round trip and its statements are planned once a
// connection. This file: the small ones, and the two that append (the hot path). commit-function.ts has the rest.

import { schemaVersion } from './tables.ts'

/** @example functionName('"reprise"', 'append_one') // '"reprise".append_one_v1' */
export function functionName(s: string, name: string): string {
  return `${s}.${name}_v${schemaVersion}`
}

/** Milliseconds of the database's clock, moving also inside a transaction. */
export const nowMs = "floor(date_part('epoch', clock_timestamp()) * 1000)"

/** The feed position of a run as text that sorts like its parts (position.ts reads it). */
export function positionText(run: string): string {
  const part = (column: string) => `lpad((${run}).${column}::text, 16, '0')`
  return `${part('pos')} || '-' || ${part('id')}`
}

/** A worker's row `w` says that it may still be at work. */
export const isAlive = (now: string) => `(w.retired_at IS NULL AND ${now} < w.beat_at + w.lease_ms)`

export function createFunctions(s: string): string {
  const f = (name: string) => functionName(s, name)
  return `
-- The place in the feed of what this transaction writes. Assigns the transaction its number.
CREATE FUNCTION ${f('feed_pos')}(p_ns integer) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT pos_base + pg_current_xact_id()::text::bigint FROM ${s}.namespace WHERE id = p_ns
$$;

-- A refusal found in the middle of a commit: the commit's own block rolls back to its start.
CREATE FUNCTION ${f('refuse')}(p_code text, p_reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'RP001', MESSAGE = p_code, DETAIL = p_reason;
END $$;

-- One append. False: nothing was done, and the general commit finds out why.
-- p_wakeup: NaN leaves it, null clears it. p_status: null leaves it.
-- A run never gets a place in the feed before the one below it, whatever order the transactions got their numbers in.
CREATE FUNCTION ${f('append_one')}(
  p_ns integer, p_id text, p_operation text, p_epoch bigint, p_seq bigint, p_count bigint,
  p_digest bytea, p_status text, p_wakeup double precision, p_bytes bytea
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_tid bigint;
  v_pos bigint;
BEGIN
  SELECT pos_base + pg_current_xact_id()::text::bigint INTO v_pos FROM ${s}.namespace WHERE id = p_ns;
  UPDATE ${s}.timeline SET
    seq = p_seq + p_count, digest = p_digest, operation = p_operation,
    updated_at = ${nowMs},
    last_pos = greatest(last_pos, v_pos),
    status = coalesce(p_status, status),
    wakeup = CASE WHEN p_wakeup = 'NaN' THEN wakeup ELSE p_wakeup END
  WHERE ns = p_ns AND id = p_id AND epoch = p_epoch AND seq = p_seq AND NOT is_stub
  RETURNING tid, last_pos INTO v_tid, v_pos;
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO ${s}.run (tid, last, first, pos, ns, digest, bytes)
  VALUES (v_tid, p_seq + p_count, p_seq + 1, v_pos, p_ns, p_digest, p_bytes);
  RETURN true;
END $$;

-- Many appends to different timelines; answers the numbers (from 1) of those that were done, with commas. All bytes come
-- in one value: arrays of bytea are slow to parse. Rows are locked in the order of their ids, as everywhere. The arrays
-- are indexed, not joined: a join with them is planned badly while the table has no statistics.
CREATE FUNCTION ${f('append_many')}(
  p_ns integer, p_ids text[], p_operations text[], p_epochs bigint[], p_seqs bigint[], p_counts bigint[],
  p_digests bytea, p_statuses text[], p_wakeups double precision[], p_starts integer[], p_sizes integer[], p_bytes bytea
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  v_pos bigint;
  v_now double precision := ${nowMs};
  v_done text;
BEGIN
  SELECT pos_base + pg_current_xact_id()::text::bigint INTO v_pos FROM ${s}.namespace WHERE id = p_ns;
  WITH picked AS (
    SELECT tid, array_position(p_ids, id) AS i FROM ${s}.timeline
    WHERE ns = p_ns AND id = ANY (p_ids) ORDER BY id FOR NO KEY UPDATE
  ), moved AS (
    UPDATE ${s}.timeline t SET
      seq = p_seqs[x.i] + p_counts[x.i], digest = substr(p_digests, 32 * x.i - 31, 32), operation = p_operations[x.i],
      updated_at = v_now,
      last_pos = greatest(t.last_pos, v_pos),
      status = coalesce(p_statuses[x.i], t.status),
      wakeup = CASE WHEN p_wakeups[x.i] = 'NaN' THEN t.wakeup ELSE p_wakeups[x.i] END
    FROM picked x
    WHERE t.tid = x.tid AND t.epoch = p_epochs[x.i] AND t.seq = p_seqs[x.i] AND NOT t.is_stub
    RETURNING t.tid, t.seq, t.last_pos, t.digest, x.i
  ), added AS (
    INSERT INTO ${s}.run (tid, last, first, pos, ns, digest, bytes)
    SELECT tid, seq, seq - p_counts[i] + 1, last_pos, p_ns, digest, substr(p_bytes, p_starts[i], p_sizes[i]) FROM moved ORDER BY i
  )
  SELECT string_agg(i::text, ',') INTO v_done FROM moved;
  RETURN v_done;
END $$;

-- Takes what is due. First the rows are picked and locked, then looked at again: while we waited for nobody, an owner
-- may have changed between the picture we picked from and the lock, and a join is not looked at again by the lock.
CREATE FUNCTION ${f('claim')}(
  p_ns integer, p_worker text, p_queues text[], p_except text[], p_limit integer
) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
  v_now double precision := ${nowMs};
  v_picked bigint[];
BEGIN
  IF EXISTS (SELECT 1 FROM ${s}.worker w WHERE w.ns = p_ns AND w.id = p_worker AND w.retired_at IS NOT NULL) THEN
    PERFORM ${f('refuse')}('WORKER_RETIRED', 'the worker was retired');
  END IF;
  SELECT array_agg(x.tid) INTO v_picked FROM (
    SELECT t.tid FROM ${s}.timeline t
    WHERE t.ns = p_ns AND t.queue = ANY (p_queues) AND (t.mail > 0 OR t.wakeup <= v_now)
      AND NOT t.is_stub AND t.id <> ALL (p_except) AND t.owner IS DISTINCT FROM p_worker
      AND (t.owner IS NULL OR NOT EXISTS (
        SELECT 1 FROM ${s}.worker w WHERE w.ns = t.ns AND w.id = t.owner AND ${isAlive('v_now')}))
    ORDER BY t.priority DESC, t.wakeup NULLS LAST, t.id
    LIMIT p_limit
    FOR NO KEY UPDATE SKIP LOCKED
  ) x;
  RETURN QUERY
    UPDATE ${s}.timeline t SET epoch = t.epoch + 1, owner = p_worker, updated_at = v_now
    WHERE t.tid = ANY (v_picked) AND (t.mail > 0 OR t.wakeup <= v_now) AND (t.owner IS NULL OR NOT EXISTS (
      SELECT 1 FROM ${s}.worker w WHERE w.ns = t.ns AND w.id = t.owner AND ${isAlive('v_now')}))
    RETURNING t.tid;
END $$;
`
}
