// Functions that live in the database, so that a whole batch is one round trip and its statements are planned once a
// connection. This file: the small ones, and the two that append (the hot path). commit-function.ts has the rest.

import { schemaVersion } from './tables.ts'

/** @example functionName('"reprise"', 'append_one') // '"reprise".append_one_v2' */
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

/**
 * Plans that stay good. A plan made while a table was small reads all of it, and is kept while the table grows; these
 * functions look everything up by key, so they say so.
 */
export const steadyPlans =
  'SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan'

/** A worker's row `w` says that it may still be at work. */
export const isAlive = (now: string) => `(w.retired_at IS NULL AND ${now} < w.beat_at + w.lease_ms)`

/** The operation that wrote a run. */
export const operationOf = (r: string) => `coalesce(${r}.operation, encode(substr(${r}.digest, 1, 8), 'hex'))`

const feedPos = (s: string) =>
  `SELECT pos_base + pg_current_xact_id()::text::bigint FROM ${s}.namespace WHERE id = p_ns`

/**
 * The lock waits for its last holder and sees what that wrote to the row, though nothing else that is younger than the
 * statement. So a run that was trimmed meanwhile would still be found: that the row's sequence lies above tells.
 */
const lockHead = (s: string, id: string, epoch: string, seq: string) =>
  `SELECT tid, seq, last_pos FROM ${s}.timeline WHERE ns = p_ns AND id = ${id} AND epoch = ${epoch} AND seq <= ${seq} AND NOT is_stub LIMIT 1 FOR NO KEY UPDATE`

/** Without them, code of that version can write no more. */
export function dropFunctions(s: string, version: number): string {
  return `DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = '${s}'::regnamespace AND proname LIKE '%\\_v${version}' LOOP
    EXECUTE 'DROP FUNCTION ' || f;
  END LOOP;
END $$;`
}

export function createFunctions(s: string): string {
  const f = (name: string) => functionName(s, name)
  return `
-- The place in the feed of what this transaction writes. Assigns the transaction its number.
CREATE FUNCTION ${f('feed_pos')}(p_ns integer) RETURNS bigint LANGUAGE sql VOLATILE AS $$ ${feedPos(s)} $$;

-- A refusal found in the middle of a commit: the commit's own block rolls back to its start.
CREATE FUNCTION ${f('refuse')}(p_code text, p_reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'RP001', MESSAGE = p_code, DETAIL = p_reason;
END $$;

-- The head of a row that the caller has locked: its last run says where it is, if it lies above seq.
CREATE FUNCTION ${f('sync')}(t ${s}.timeline) RETURNS ${s}.timeline LANGUAGE plpgsql AS $$
DECLARE
  r ${s}.run%ROWTYPE;
BEGIN
  SELECT * INTO r FROM ${s}.run WHERE tid = t.tid AND first > t.seq ORDER BY first DESC LIMIT 1;
  IF FOUND THEN
    t.seq := r.last;
    t.digest := r.digest;
    t.operation := ${operationOf('r')};
    t.last_pos := r.pos;
    t.updated_at := greatest(t.updated_at, r.written_at);
  END IF;
  RETURN t;
END $$;

-- One append. False: nothing was done, and the general commit finds out why. The guard is that a run ends at p_seq (it
-- begins at p_before, says the caller, who may be wrong) and that none begins after it: the first is looked up, the
-- second is the key of the table, which holds whatever this statement's snapshot is; who breaks it gets an error. A run
-- never gets a place in the feed before the one below it, whatever order their transactions got their numbers in.
CREATE FUNCTION ${f('append_one')}(
  p_ns integer, p_id text, p_operation text, p_epoch bigint, p_seq bigint, p_before bigint, p_count bigint, p_digest bytea,
  p_bytes bytea
) RETURNS boolean LANGUAGE plpgsql ${steadyPlans} AS $$
BEGIN
  INSERT INTO ${s}.run (tid, last, first, pos, written_at, ns, digest, operation, bytes)
  SELECT t.tid, p_seq + p_count, p_seq + 1, greatest((${feedPos(s)}), t.last_pos, r.pos), ${nowMs}, p_ns, p_digest,
    p_operation, p_bytes
  FROM (${lockHead(s, 'p_id', 'p_epoch', 'p_seq')}) t
  LEFT JOIN LATERAL (SELECT last, pos FROM ${s}.run WHERE tid = t.tid AND first = p_before LIMIT 1) r ON true
  WHERE p_seq IN (t.seq, r.last);
  RETURN FOUND;
END $$;

-- Many appends to different timelines: all of them, or none (false). They come in the order of their ids, which is the
-- order in which rows are locked everywhere; p_numbers is their order in the batch, and so in the feed. All digests and
-- bytes come in one value: arrays of bytea are slow to parse. Everything is looked up row by row (LATERAL, LIMIT): left
-- to itself, the planner compares each with each while the tables are small, and keeps doing so.
CREATE FUNCTION ${f('append_many')}(
  p_ns integer, p_ids text[], p_operations text[], p_epochs bigint[], p_seqs bigint[], p_befores bigint[],
  p_counts bigint[], p_numbers integer[], p_starts integer[], p_sizes integer[], p_bytes bytea
) RETURNS boolean LANGUAGE plpgsql ${steadyPlans} AS $$
DECLARE
  v_now double precision := ${nowMs};
BEGIN
  WITH fitting AS MATERIALIZED (
    SELECT t.tid, p.seq, p.count, greatest((${feedPos(s)}), t.last_pos, r.pos) AS pos, p.operation, p.number, p.start, p.size
    FROM unnest(p_ids, p_operations, p_epochs, p_seqs, p_befores, p_counts, p_numbers, p_starts, p_sizes)
      AS p(id, operation, epoch, seq, before, count, number, start, size)
    JOIN LATERAL (${lockHead(s, 'p.id', 'p.epoch', 'p.seq')}) t ON true
    LEFT JOIN LATERAL (SELECT last, pos FROM ${s}.run WHERE tid = t.tid AND first = p.before LIMIT 1) r ON true
    WHERE p.seq IN (t.seq, r.last)
  )
  INSERT INTO ${s}.run (tid, last, first, pos, written_at, ns, digest, operation, bytes)
  SELECT tid, seq + count, seq + 1, pos, v_now, p_ns, substr(p_bytes, start, 32), operation, substr(p_bytes, start + 32, size)
  FROM fitting WHERE (SELECT count(*) FROM fitting) = cardinality(p_ids) ORDER BY number;
  RETURN FOUND;
END $$;

-- Takes what is due. First the rows are picked and locked, then looked at again: while we waited for nobody, an owner
-- may have changed between the picture we picked from and the lock, and a join is not looked at again by the lock.
CREATE FUNCTION ${f('claim')}(
  p_ns integer, p_worker text, p_queues text[], p_except text[], p_limit integer
) RETURNS SETOF bigint LANGUAGE plpgsql ${steadyPlans} AS $$
DECLARE
  v_now double precision := ${nowMs};
  v_picked bigint[];
BEGIN
  IF EXISTS (SELECT 1 FROM ${s}.worker w WHERE w.ns = p_ns AND w.id = p_worker AND w.retired_at IS NOT NULL) THEN
    PERFORM ${f('refuse')}('WORKER_RETIRED', 'the worker was retired');
  END IF;
  SELECT array_agg(x.tid) INTO v_picked FROM (
    -- Two small indexes, one for each reason to be due: those that sleep are not looked at.
    SELECT t.tid FROM ${s}.timeline t
    WHERE t.tid IN (
        SELECT d.tid FROM ${s}.timeline d
        WHERE d.ns = p_ns AND d.queue = ANY (p_queues) AND d.queue IS NOT NULL AND d.wakeup <= v_now
        UNION
        SELECT d.tid FROM ${s}.timeline d
        WHERE d.ns = p_ns AND d.queue = ANY (p_queues) AND d.queue IS NOT NULL AND d.mail > 0
      ) AND t.queue = ANY (p_queues) AND (t.mail > 0 OR t.wakeup <= v_now)
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
