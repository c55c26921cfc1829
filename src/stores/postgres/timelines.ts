// The query over timelines: every condition is bound, and one that nothing can match returns nothing. Timelines of an
// owner or a parent are looked up by their index; other conditions are checked in id order. Therefore a rare status or
// queue makes the server scan the timelines of the namespace.

import { rangeOf } from '../../core/history/scope.ts'
import { type DueQuery, feedStart, type TimelineQuery } from '../../core/store/ports.ts'
import { isAlive, nowMs } from './functions.ts'
import { headColumns, headTables } from './rows.ts'
import { withinSql } from './scope.ts'
import { dueSince, hasStatus, isFree } from './tables.ts'
import { escapeAttributes, escapeText, isStorable } from './text.ts'

export interface BuiltQuery {
  readonly text: string
  /** One array, the only parameter of the text. */
  readonly values: readonly string[]
  /** Whether to use steady plans. Not with attributes: their index supports bitmap scans only. */
  readonly isSteady: boolean
}

export function timelinesQuery(s: string, ns: number, query: TimelineQuery): BuiltQuery | null {
  const values: string[] = [String(ns)]
  const at = (n: number) => `($1::text[])[${n}]`
  const isOurs = (row: string) => `${row}.ns = ${at(1)}::integer`
  const conditions = [isOurs('t'), 'NOT t.is_stub']
  const where = (condition: (parameter: string) => string, value: string): void => {
    values.push(value)
    conditions.push(condition(at(values.length)))
  }
  for (const raw of [query.prefix, query.parent, query.after]) if (raw !== undefined && !isStorable(raw)) return null
  // Nothing equals NaN.
  if (Object.values(query.attributes ?? {}).some(Number.isNaN)) return null

  if (query.prefix !== undefined && query.prefix !== '') {
    where((p) => withinSql('t.id', p), query.prefix)
    // The range of the prefix, which the index can use.
    const { from, to } = rangeOf(query.prefix)
    where((p) => `t.id >= ${p}`, from)
    if (to !== null) where((p) => `t.id < ${p}`, to)
  }
  if (query.status !== undefined) where((p) => `t.status = ${p} AND ${hasStatus('t')}`, escapeText(query.status))
  if (query.queue !== undefined) where((p) => `t.queue = ${p}`, escapeText(query.queue))
  if (query.owner !== undefined) {
    where(
      (p) => among(`SELECT o.tid FROM ${s}.timeline o WHERE ${isOurs('o')} AND o.owner = ${p}`),
      escapeText(query.owner),
    )
  }
  if (query.parent !== undefined) {
    // A deleted parent is known by its id only, which has an index of its own.
    const parent = (p: string) => `SELECT p.tid FROM ${s}.timeline p WHERE ${isOurs('p')} AND p.id = ${p}`
    const forks = (p: string) => `SELECT f.tid FROM ${s}.timeline f WHERE f.base_tid = (${parent(p)}) UNION ALL
      SELECT g.tid FROM ${s}.timeline g WHERE ${isOurs('g')} AND g.base_id = ${p} AND g.base_tid IS NULL`
    where((p) => among(forks(p)), query.parent)
  }
  if (query.after !== undefined && query.after !== feedStart) where((p) => `t.id > ${p}`, query.after)
  const hasAttributes = Object.keys(query.attributes ?? {}).length > 0
  if (hasAttributes) {
    where((p) => `t.attributes @> ${p}::jsonb`, JSON.stringify(escapeAttributes(query.attributes!)))
  }
  values.push(String(query.limit))
  const picked = `(SELECT t.* FROM ${s}.timeline t WHERE ${conditions.join(' AND ')} ORDER BY t.id LIMIT ${at(values.length)}::bigint)`
  const text = `SELECT ${headColumns} FROM ${headTables(s, picked)} ORDER BY t.id`
  return { text, values, isSteady: !hasAttributes }
}

/** By number: then the planner does not scan the others in id order. */
function among(numbers: string): string {
  return `t.tid = ANY (ARRAY(${numbers}))`
}

/** For a worker that owns more, the end of its lease is used for all of them. */
const ownedRows = 200

/**
 * The time of Store.nextDue: the first of each queue and priority in the index of claims, and the timelines of each owner, found
 * by their index. Neither sleeping nor ended timelines are read.
 */
export function nextDueQuery(s: string, ns: number, { queues, except = [] }: DueQuery): Omit<BuiltQuery, 'isSteady'> {
  const ours = 't.ns = $1[1]::integer'
  const free = (more: string) => `FROM ${s}.timeline t WHERE ${ours} AND ${isFree('t')} AND ${more}`
  const isAsked = `t.id <> ALL (ARRAY(SELECT jsonb_array_elements_text($1[3]::jsonb)))`
  const owned = `FROM ${s}.timeline t WHERE ${ours} AND t.owner IS NOT NULL`
  const leaseEnd = `(CASE WHEN ${isAlive(nowMs)} THEN w.beat_at + w.lease_ms ELSE 0 END)`
  const text = `WITH RECURSIVE queue AS (SELECT DISTINCT value AS name FROM jsonb_array_elements_text($1[2]::jsonb)),
    level AS (
      SELECT q.name, (SELECT t.priority ${free('t.queue = q.name')} ORDER BY t.priority DESC LIMIT 1) AS priority FROM queue q
      UNION ALL
      SELECT l.name, (SELECT t.priority ${free('t.queue = l.name AND t.priority < l.priority')} ORDER BY t.priority DESC LIMIT 1)
      FROM level l WHERE l.priority IS NOT NULL),
    owner AS (
      SELECT (SELECT t.owner ${owned} ORDER BY t.owner LIMIT 1) AS id
      UNION ALL
      SELECT (SELECT t.owner ${owned} AND t.owner > o.id ORDER BY t.owner LIMIT 1) FROM owner o WHERE o.id IS NOT NULL),
    held AS (
      SELECT o.id, t.queue, t.name, t.due, t.n FROM owner o CROSS JOIN LATERAL (
        SELECT t.queue, t.id AS name, ${dueSince('t')} AS due, row_number() OVER () AS n ${owned} AND t.owner = o.id
        LIMIT ${ownedRows + 1}) t)
    SELECT min(x.at) AS at FROM (
      SELECT f.at FROM level l CROSS JOIN LATERAL (
        SELECT ${dueSince('t')} AS at ${free('t.queue = l.name AND t.priority = l.priority')} AND ${isAsked}
        ORDER BY ${dueSince('t')}, t.id LIMIT 1) f
      UNION ALL
      SELECT CASE WHEN t.n > ${ownedRows} THEN ${leaseEnd} ELSE greatest(t.due, ${leaseEnd}) END FROM held t
      LEFT JOIN LATERAL (SELECT z.* FROM ${s}.worker z WHERE z.ns = $1[1]::integer AND z.id = t.id LIMIT 1) w ON true
      WHERE t.n > ${ownedRows} OR (t.due IS NOT NULL AND t.queue IN (SELECT name FROM queue)
        AND t.name <> ALL (ARRAY(SELECT jsonb_array_elements_text($1[3]::jsonb))))) x`
  const values = [String(ns), JSON.stringify(queues.map(escapeText)), JSON.stringify(except.filter(isStorable))]
  return { text, values }
}
