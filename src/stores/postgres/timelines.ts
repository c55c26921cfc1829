// The query over timelines: every condition is bound, and one that nothing can match returns nothing. Timelines of an
// owner or a parent are looked up by their index; other conditions are checked in id order. Therefore a rare status or
// queue makes the server scan the timelines of the namespace.

import { rangeOf } from '../../core/history/scope.ts'
import { feedStart, type TimelineQuery } from '../../core/store/ports.ts'
import { headColumns, headTables } from './rows.ts'
import { withinSql } from './scope.ts'
import { hasStatus } from './tables.ts'
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
