// Lists of timelines, complete or refused. A list by name is read from both indexes of names in step; a list by attribute,
// owner, status or parent is counted against its tally or its parent. Every row is verified before it is filtered: a damaged
// status would hide it from a list by status.

import { isWithin, rangeOf } from '../../../core/history/scope.ts'
import { checkTimelineQuery } from '../../../core/store/argument-checks.ts'
import type { Head, TimelineQuery } from '../../../core/store/ports.ts'
import type { SqlValue } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'
import { searchValue } from './attributes.ts'
import { toHead } from './heads.ts'
import type { QuerySource } from './query-source.ts'
import { attributeKey, ownerKey, readTally, statusKey, type TallyKind } from './tally.ts'
import { selectByWitness } from './timeline-statements.ts'
import type { Timeline } from './timelines.ts'

/** A list that is longer than this by its index is read by name instead: the first page fills up soon. */
const indexedMax = 5000
const pageMin = 64
const pageMax = 1000

export function findTimelines(source: QuerySource, query: TimelineQuery): Head[] {
  checkTimelineQuery(query)
  const parent = query.parent === undefined ? undefined : source.timelines.find(query.parent)
  if (parent === null || query.limit <= 0) return []
  const isWanted = wantedBy(query, parent)
  const few = parent ? source.timelines.forksOf(parent) : fewest(source, query)
  const found = few ? inOrder(few.filter(isWanted)).slice(0, query.limit) : scan(source, query, isWanted)
  return found.map((timeline) => toHead(timeline, source.workers, source.now)!)
}

function wantedBy(query: TimelineQuery, parent: Timeline | undefined): (timeline: Timeline) => boolean {
  const attributes = Object.entries(query.attributes ?? {})
  const { prefix = '', after, status, queue, owner } = query
  return ({ name, row, head }) => {
    if (row.isStub || (after !== undefined && compareBytes(name, after) <= 0)) return false
    if (prefix !== '' && !isWithin(prefix, name)) return false
    if (status !== undefined && row.status !== status) return false
    if (queue !== undefined && row.queue !== queue) return false
    if (owner !== undefined && head.owner !== owner) return false
    if (parent && row.parent !== parent.tid) return false
    return attributes.every(
      ([key, value]) => Object.hasOwn(row.attributes, key) && isEqual(row.attributes[key]!, value),
    )
  }
}

/** 0 and -0 are equal, as in searches. */
function isEqual(a: Parameters<typeof searchValue>[0], b: Parameters<typeof searchValue>[0]): boolean {
  return searchValue(a) === searchValue(b)
}

/** Uses the attribute, owner or status with the fewest rows; null if there is no such index, or it has too many rows. */
function fewest(source: QuerySource, query: TimelineQuery): Timeline[] | null {
  const lists = Object.entries(query.attributes ?? {}).map(([key, value]): List => {
    const pair = [JSON.stringify(key), searchValue(value)] as const
    const sql = 'SELECT tid FROM reprise_attribute INDEXED BY reprise_attribute_value WHERE key = ? AND value = ?'
    return { kind: 'attribute', key: attributeKey(...pair), sql, values: pair }
  })
  if (query.owner !== undefined) {
    const sql = 'SELECT tid FROM reprise_timeline INDEXED BY reprise_timeline_owner WHERE space = ? AND owner = ?'
    lists.push({ kind: 'owner', key: ownerKey(source.space, query.owner), sql, values: [source.space, query.owner] })
  }
  // A file of an older version has no index of statuses.
  if (query.status !== undefined && !source.connection.isOlder) {
    const sql = 'SELECT tid FROM reprise_timeline INDEXED BY reprise_timeline_status WHERE space = ? AND status = ?'
    lists.push({
      kind: 'status',
      key: statusKey(source.space, query.status),
      sql,
      values: [source.space, query.status],
    })
  }
  const counted = lists.map((list) => ({ ...list, count: readTally(source.connection, list.kind, list.key).count }))
  const [least] = counted.sort((a, b) => a.count - b.count)
  if (!least || least.count > indexedMax) return null
  const rows = source.connection.all(`${least.sql} LIMIT ?`, ...least.values, indexedMax + 1)
  if (rows.length !== least.count) {
    const what = `${least.count} timelines have ${least.kind} ${least.key}, but ${rows.length} are in its index`
    throw damaged(what, { kind: least.kind, key: least.key })
  }
  // The index of attributes includes other namespaces, which are not visible here.
  return rows.map(({ tid }) => source.timelines.byTid(tid as number)).filter((timeline) => timeline !== null)
}

interface List {
  readonly kind: TallyKind
  readonly key: string
  readonly sql: string
  readonly values: readonly SqlValue[]
}

/** Reads in order of names until the page is full. */
function scan(source: QuerySource, query: TimelineQuery, isWanted: (timeline: Timeline) => boolean): Timeline[] {
  const found: Timeline[] = []
  const { from, to } = query.prefix ? rangeOf(query.prefix) : { from: '', to: null }
  const pageSize = Math.min(Math.max(query.limit, pageMin), pageMax)
  let after = query.after as string | undefined
  for (;;) {
    const page = pageOf(source, { from, to, after }, pageSize)
    for (const timeline of page) {
      if (!isWanted(timeline)) continue
      found.push(timeline)
      if (found.length === query.limit) return found
    }
    if (page.length < pageSize) return found
    after = page.at(-1)!.name
  }
}

export interface NameRange {
  readonly from: string
  readonly to: string | null
  readonly after: string | undefined
}

export type NameSource = Pick<QuerySource, 'connection' | 'space' | 'timelines'>

/** The timelines of some scopes if they are few, including stubs; null if not, without reading them all. */
export function fewWithin(source: NameSource, prefixes: readonly string[], max: number): Timeline[] | null {
  const found = new Map<number, Timeline>()
  for (const prefix of prefixes) {
    const { from, to } = prefix === '' ? { from: '', to: null } : rangeOf(prefix)
    const sql = `SELECT count(*) AS count FROM (SELECT 1 FROM reprise_witness WHERE space = ? AND name >= ?
      ${to === null ? '' : 'AND name < ?'} LIMIT ?)`
    const values = [source.space, from, ...(to === null ? [] : [to]), max + 1]
    if (Number(source.connection.get(sql, ...values)?.count) > max) return null
    for (const timeline of pageOf(source, { from, to, after: undefined }, max + 1)) {
      if (prefix === '' || isWithin(prefix, timeline.name)) found.set(timeline.tid, timeline)
    }
  }
  return found.size > max ? null : [...found.values()]
}

/** The timelines of a range, including stubs. Throws STORE_DAMAGED if the two indexes of names differ. */
export function pageOf({ connection, space, timelines }: NameSource, range: NameRange, limit: number): Timeline[] {
  const conditions = ['space = ?', 'name >= ?']
  const values: SqlValue[] = [space, range.from]
  if (range.to !== null) {
    conditions.push('name < ?')
    values.push(range.to)
  }
  if (range.after !== undefined) {
    conditions.push('name > ?')
    values.push(range.after)
  }
  const where = (alias: string) => conditions.map((condition) => `${alias}.${condition}`).join(' AND ')
  const names = `SELECT t.tid FROM reprise_timeline t INDEXED BY sqlite_autoindex_reprise_timeline_1 WHERE ${where('t')}
    ORDER BY t.name LIMIT ?`
  const expected = connection.all(names, ...values, limit)
  const rows = connection.all(`${selectByWitness} WHERE ${where('w')} ORDER BY w.name LIMIT ?`, ...values, limit)
  if (
    rows.length === expected.length &&
    rows.every(({ tid, name, w_name }, i) => tid === expected[i]!.tid && name === w_name)
  ) {
    return rows.map((row) => timelines.fromRow(row))
  }
  return pageFromRows({ connection, timelines }, range, limit)
}

/**
 * The two indexes of names disagree, so one of them is damaged: all rows are read instead, and every name in either index must
 * have a row.
 */
function pageFromRows(
  { connection, timelines }: Pick<NameSource, 'connection' | 'timelines'>,
  range: NameRange,
  limit: number,
): Timeline[] {
  const lists = [
    'SELECT tid FROM reprise_timeline NOT INDEXED',
    'SELECT tid FROM reprise_witness',
    'SELECT tid FROM reprise_timeline INDEXED BY sqlite_autoindex_reprise_timeline_1 WHERE space > -1',
  ]
  const tids = new Set(lists.flatMap((sql) => connection.all(sql).map(({ tid }) => tid as number)))
  const found = [...tids].map((tid) => timelines.byTid(tid)).filter((timeline) => timeline !== null)
  const { from, to, after } = range
  const isWithinRange = ({ name }: Timeline) =>
    compareBytes(name, from) >= 0 &&
    (to === null || compareBytes(name, to) < 0) &&
    (after === undefined || compareBytes(name, after) > 0)
  return inOrder(found.filter(isWithinRange)).slice(0, limit)
}

/** In order of UTF-8 bytes, like SQLite. */
function inOrder(timelines: readonly Timeline[]): Timeline[] {
  return [...timelines].sort((a, b) => compareBytes(a.name, b.name))
}

function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
