// The query over timelines: every condition is bound, and one that nothing can match is said to match nothing.

import { feedStart, type TimelineQuery } from '../../core/ports.ts'
import { rangeOf } from '../../core/scope.ts'
import { headColumns, headTables } from './rows.ts'
import { withinSql } from './scope.ts'
import { escapeAttributes, escapeText, isStorable } from './text.ts'

export function timelinesQuery(
  s: string,
  ns: number,
  query: TimelineQuery,
): { readonly text: string; readonly values: readonly unknown[] } | null {
  const values: unknown[] = [ns]
  const conditions = ['t.ns = $1', 'NOT t.is_stub']
  const where = (condition: (parameter: string) => string, value: unknown): void => {
    values.push(value)
    conditions.push(condition(`$${values.length}`))
  }
  for (const raw of [query.prefix, query.parent, query.after]) if (raw !== undefined && !isStorable(raw)) return null
  // Nothing equals NaN.
  if (Object.values(query.attributes ?? {}).some(Number.isNaN)) return null

  if (query.prefix !== undefined && query.prefix !== '') {
    where((p) => withinSql('t.id', `${p}::text`), query.prefix)
    // The range that it lies in, which the index can use.
    const { from, to } = rangeOf(query.prefix)
    where((p) => `t.id >= ${p}::text`, from)
    if (to !== null) where((p) => `t.id < ${p}::text`, to)
  }
  if (query.status !== undefined) where((p) => `t.status = ${p}::text`, escapeText(query.status))
  if (query.queue !== undefined) where((p) => `t.queue = ${p}::text`, escapeText(query.queue))
  if (query.owner !== undefined) where((p) => `t.owner = ${p}::text`, escapeText(query.owner))
  if (query.parent !== undefined) where((p) => `coalesce(b.id, t.base_id) = ${p}::text`, query.parent)
  if (query.after !== undefined && query.after !== feedStart) where((p) => `t.id > ${p}::text`, query.after)
  if (query.attributes && Object.keys(query.attributes).length > 0) {
    where((p) => `t.attributes @> ${p}::jsonb`, JSON.stringify(escapeAttributes(query.attributes)))
  }
  values.push(query.limit)
  const text = `SELECT ${headColumns} FROM ${headTables(s)} WHERE ${conditions.join(' AND ')} ORDER BY t.id LIMIT $${values.length}`
  return { text, values }
}
