// The remains of a lost timeline row elsewhere in the file: the indexes of due timelines have its queue and wakeup, and
// searchable attributes have their own table. Its status is nowhere else: the row is marked, and the model recomputes it
// (core/history/lost-head.ts). The remains are read once, and only if a row is lost.

import { lostAttribute, lostStatus } from '../../../core/history/lost-head.ts'
import type { SqlValue } from '../file/driver.ts'
import { encodeAttribute } from '../rows/attributes.ts'
import type { DamagedFile } from './source.ts'

/** The columns of queue and due in each index (`due` had three columns up to version 3). */
const indexes = [
  { name: 'reprise_timeline_due', columns: 4, atQueue: 1, atDue: 2 },
  { name: 'reprise_timeline_due', columns: 6, atQueue: 1, atDue: 3 },
  { name: 'reprise_timeline_wake', columns: 4, atQueue: 2, atDue: 0 },
]

interface Due {
  readonly queue: SqlValue
  readonly wakeup: SqlValue
}

export class RowRemains {
  readonly #from: DamagedFile
  #due: ReadonlyMap<number, Due> | null = null
  #attributes: ReadonlyMap<number, readonly [string, string][]> | null = null
  #counts: ReadonlyMap<string, number> | null = null

  constructor(from: DamagedFile) {
    this.#from = from
  }

  /** The columns for a timeline with a lost row. */
  columnsOf(tid: number): Record<'queue' | 'wakeup' | 'status' | 'attributes', SqlValue> {
    this.#due ??= readDue(this.#from)
    this.#attributes ??= readAttributes(this.#from)
    const { queue = null, wakeup = null } = this.#due.get(tid) ?? {}
    const known = (this.#attributes.get(tid) ?? []).filter(([key]) => key !== lostAttribute)
    const attributes = JSON.stringify([...known, [lostAttribute, encodeAttribute(true)]])
    return { queue, wakeup, status: lostStatus, attributes }
  }

  /** The number of rows of this timeline in another table. */
  countOf(table: 'manifest' | 'inbox' | 'cursor', tid: number): number {
    this.#counts ??= readCounts(this.#from)
    return this.#counts.get(`${table} ${tid}`) ?? 0
  }
}

function readDue(from: DamagedFile): Map<number, Due> {
  const due = new Map<number, Due>()
  for (const { name, columns, atQueue, atDue } of indexes) {
    for (const { values } of from.raw(name)) {
      // The last column is the number of the timeline.
      const tid = values.at(-1)
      if (values.length !== columns || !Number.isSafeInteger(tid)) continue
      // With unread mail the value is 0; the mail itself makes the timeline due again.
      const wakeup = values[atDue] === 0 ? null : values[atDue]!
      due.set(tid as number, { queue: values[atQueue]!, wakeup })
    }
  }
  return due
}

function readAttributes(from: DamagedFile): Map<number, [string, string][]> {
  const attributes = new Map<number, [string, string][]>()
  for (const { tid, key, value } of from.rows('reprise_attribute')) {
    const own = attributes.get(tid as number) ?? []
    own.push([JSON.parse(String(key)), JSON.parse(String(value))])
    attributes.set(tid as number, own)
  }
  return attributes
}

function readCounts(from: DamagedFile): Map<string, number> {
  const counts = new Map<string, number>()
  for (const table of ['manifest', 'inbox', 'cursor']) {
    for (const { tid, consumed_at } of from.rows(`reprise_${table}`)) {
      if (table === 'inbox' && consumed_at !== null) continue
      counts.set(`${table} ${tid}`, (counts.get(`${table} ${tid}`) ?? 0) + 1)
    }
  }
  return counts
}
