// The timelines of one namespace in one connection: found by name, cached, changed, and written back together. The writer
// keeps the cache between transactions (and clears it when another process has written); readers do not.

import { crc32 } from 'node:zlib'
import { assert } from '../../../core/assert.ts'
import type { TimelineId } from '../../../core/coordinate.ts'
import type { Writable } from '../../../core/writable.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow, SqlValue } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'
import type { UnsettledRuns } from '../log/unsettled.ts'
import { type Attributes, decodeAttributes, encodeAttributes, searchValue } from './attributes.ts'
import type { HeadState } from './head-state.ts'
import { HeadWriter } from './head-writer.ts'
import { checkRow, checksumOf, isIntact } from './row-checksum.ts'
import {
  noSums,
  removeWitness,
  type Sums,
  witnessedHead,
  witnessedSums,
  writeWitness,
  writeWitnessSums,
} from './row-counts.ts'
import { attributeKey, ownerKey, statusKey, Tallies } from './tally.ts'
import {
  atStatus,
  change,
  changeWithoutStatus,
  columnNames,
  firstChanging,
  headCopies,
  insert,
  lastGiven,
  select,
  update,
} from './timeline-statements.ts'

export interface TimelineRow {
  /** True: the timeline does not exist yet, and only has waiting mail. */
  readonly isStub: boolean
  readonly parent: number | null
  readonly queue: string | null
  readonly priority: number
  readonly status: string
  readonly wakeup: number | null
  /** The numbers of unread messages, checkpoints and cursors, which are checked on reading. */
  readonly mail: number
  readonly checkpoints: number
  readonly cursors: number
  readonly attributes: Attributes
  readonly createdAt: number
}

export interface Timeline {
  readonly tid: number
  readonly name: TimelineId
  /** Only `advance` changes it; all else of a cached timeline is constant. */
  readonly head: HeadState
  readonly row: TimelineRow
  /** The sums over its mail, checkpoints, cursors and forks. */
  readonly sums: Sums
}

/** The tallied values that are in the file. */
interface Counted {
  readonly attributes: Attributes
  readonly owner: string | null
  /** Null: not in the file. */
  readonly status: string | null
}

/** Timelines with an owner are cached beyond this: they are likely to be appended to again, released ones may not be. */
const keptMax = 20_000
const ownedMax = 200_000
export class Timelines {
  readonly #connection: Connection
  readonly #space: number
  readonly #unsettled: UnsettledRuns
  readonly #byName = new Map<string, Timeline>()
  readonly #byTid = new Map<number, Timeline>()
  readonly #dirtyHeads = new Set<number>()
  /** Timelines whose heads in the file are behind, because this process appended to them without settling. */
  readonly #behind = new Set<number>()
  /** Changed rows, with their tallied values in the file. */
  readonly #dirtyRows = new Map<number, Counted>()
  /** Timelines whose sums changed. */
  readonly #dirtySums = new Set<number>()
  readonly #tallies: Tallies
  /** Rows that this transaction wrote before its end: their values in the file are no longer the previous ones. */
  readonly #rewritten = new Set<number>()
  /** True: this transaction removed timelines, from the file as well. */
  #hasRemoved = false
  /** Timelines that are not in the file yet. */
  readonly #fresh = new Set<number>()
  /** The highest number of a timeline; null if it must be looked up. */
  #lastTid: number | null = null
  /** The name that was last looked up in vain: a commit that creates a timeline looks for it twice. */
  #missing: TimelineId | null = null
  readonly #heads: HeadWriter
  readonly #keptMax: number
  #tooMany: number

  constructor(connection: Connection, space: number, unsettled: UnsettledRuns, kept = keptMax) {
    this.#keptMax = kept
    this.#tooMany = kept
    this.#connection = connection
    this.#space = space
    this.#unsettled = unsettled
    this.#tallies = new Tallies(connection)
    this.#heads = new HeadWriter(connection)
  }

  /** The number of cached timelines. */
  get count(): number {
    return Math.max(this.#byTid.size, this.#heads.count)
  }

  /** Includes stubs; null if the name does not exist. */
  find(name: TimelineId): Timeline | null {
    const kept = this.#byName.get(name)
    if (kept) return kept
    if (name === this.#missing) return null
    const row = this.#connection.get(`${select} WHERE t.space = ? AND t.name = ?`, this.#space, name)
    if (!row) {
      this.#checkMissing(name)
      this.#missing = name
      return null
    }
    // An index that lost its order leads to another row.
    if (row.name !== name || row.space !== this.#space) {
      throw damaged(`the index of names leads from ${name} to ${row.name}`, { timeline: name })
    }
    return this.#keep(this.#read(row))
  }

  /** From any namespace; null if it was forgotten. */
  byTid(tid: number): Timeline | null {
    const kept = this.#byTid.get(tid)
    if (kept) return kept
    const row = this.#connection.get(`${select} WHERE t.tid = ?`, tid)
    if (!row) {
      // A forgotten timeline has no head.
      const sql = 'SELECT 1 FROM reprise_head WHERE tid = ? UNION ALL SELECT 1 FROM reprise_head_mark WHERE tid = ?'
      if (this.#connection.get(sql, tid, tid)) throw damaged(`timeline ${tid} is missing, but its head exists`, { tid })
      return null
    }
    const timeline = this.#read(row)
    return row.space === this.#space ? this.#keep(timeline) : null
  }

  /** A timeline that an index or a list names: it must exist. */
  required(tid: number): Timeline {
    const found = this.byTid(tid)
    if (!found) throw damaged(`an index names timeline ${tid}, which is missing`, { tid })
    return found
  }

  /** From a row of `selectByWitness`. */
  fromRow(row: SqlRow): Timeline {
    return this.#keep(this.#read(row))
  }

  forksOf({ tid: parent, name, sums }: Timeline): Timeline[] {
    const rows = this.#connection.all('SELECT tid FROM reprise_timeline WHERE parent = ?', parent)
    const forks = rows.map(({ tid }) => this.required(tid as number))
    if (forks.length !== sums.forks || forks.some(({ row }) => row.parent !== parent)) {
      throw damaged(`${name} should have ${sums.forks} forks; it has ${forks.length}`, { timeline: name })
    }
    return forks
  }

  /** Writes a fork to the file at once, so that `forksOf` finds it. */
  insert(name: TimelineId, head: HeadState, row: TimelineRow, sums: Sums = noSums): Timeline {
    const tid = this.#newTid()
    const timeline = { tid, name, head, row, sums }
    this.put(timeline)
    this.#fresh.add(tid)
    if (row.parent !== null) {
      this.#writeRow(timeline)
      this.countFork(row.parent, 1)
    }
    return timeline
  }

  /** Counts a fork of `parent` that was added or removed. */
  countFork(parent: number, count: number): void {
    const timeline = this.required(parent)
    this.put({ ...timeline, sums: { ...timeline.sums, forks: timeline.sums.forks + count } })
  }

  put(timeline: Timeline): void {
    const { tid } = timeline
    const before = this.#byTid.get(tid)
    this.#keep(timeline)
    if (before?.head !== timeline.head) this.#dirtyHeads.add(tid)
    const isRowSame = before && before.row === timeline.row && before.head.owner === timeline.head.owner
    if (!isRowSame && !this.#dirtyRows.has(tid)) this.#dirtyRows.set(tid, countedOf(before))
    if (before?.sums !== timeline.sums) this.#dirtySums.add(tid)
  }

  /** The cached timeline, if any. */
  kept(name: TimelineId): Timeline | undefined {
    return this.#byName.get(name)
  }

  /**
   * Updates cached timelines after a durable append; their heads will be written later. The change is in place: caching a new
   * timeline costs as much as packing its entry.
   */
  advance(timelines: readonly Timeline[], heads: readonly HeadState[]): void {
    for (let i = 0; i < timelines.length; i++) {
      const timeline: Writable<Timeline> = timelines[i]!
      timeline.head = heads[i]!
      this.#behind.add(timeline.tid)
    }
  }

  /** The number of heads that are behind. */
  get behindCount(): number {
    return this.#behind.size
  }

  rename(timeline: Timeline, name: TimelineId): void {
    const renamed = { ...timeline, name }
    this.#byName.delete(timeline.name)
    this.put(renamed)
    this.#writeRow(renamed, update)
    this.#rewritten.add(timeline.tid)
    // The new witness is written with the row, at the end.
    this.#connection.run('DELETE FROM reprise_witness WHERE space = ? AND name = ?', this.#space, timeline.name)
  }

  remove(timeline: Timeline): void {
    const { tid, name, row } = timeline
    const counted = this.#dirtyRows.get(tid) ?? countedOf(this.#byTid.get(tid) ?? timeline)
    if (row.parent !== null) this.countFork(row.parent, -1)
    for (const table of ['timeline', 'head', 'attribute']) {
      this.#connection.run(`DELETE FROM reprise_${table} WHERE tid = ?`, tid)
    }
    removeWitness(this.#connection, this.#space, tid, name)
    this.#tally(counted, nothingCounted)
    this.#tallies.flush()
    this.#hasRemoved = true
    this.#byName.delete(name)
    this.#byTid.delete(tid)
    this.#heads.forget(tid)
    this.#dirtyHeads.delete(tid)
    this.#dirtyRows.delete(tid)
    this.#dirtySums.delete(tid)
    this.#fresh.delete(tid)
  }

  /** Data that other processes may cache has changed: the transaction must add a row (log-end.ts). */
  get isDirty(): boolean {
    return this.#hasRemoved || this.#dirtyHeads.size + this.#dirtyRows.size + this.#dirtySums.size > 0
  }

  /** Writes the changes of this transaction, and every head that is behind, whichever process appended to it. */
  flush(): void {
    this.#missing = null
    this.#takeUnsettled()
    this.#flushHeads()
    for (const [tid, before] of this.#dirtyRows) {
      const timeline = this.#byTid.get(tid)
      assert(timeline, 'a changed timeline is kept until it is written')
      const isStatusSame = before.status === timeline.row.status && !this.#rewritten.has(tid)
      const crc = this.#writeRow(timeline, isStatusSame ? changeWithoutStatus : change)
      this.#writeAttributes(timeline, before.attributes)
      this.#tally(before, countedOf(timeline))
      writeWitness(this.#connection, this.#space, timeline, crc)
      this.#dirtySums.delete(tid)
    }
    for (const tid of this.#dirtySums) writeWitnessSums(this.#connection, this.#space, this.#byTid.get(tid)!)
    this.#tallies.flush()
    this.#dirtyRows.clear()
    this.#dirtySums.clear()
    this.#rewritten.clear()
    this.#hasRemoved = false
    if (this.#byTid.size > this.#tooMany) this.#forgetFree()
  }

  clear(): void {
    this.#missing = null
    this.#heads.clear()
    this.#byName.clear()
    this.#byTid.clear()
    this.#dirtyHeads.clear()
    this.#behind.clear()
    this.#dirtyRows.clear()
    this.#dirtySums.clear()
    this.#rewritten.clear()
    this.#hasRemoved = false
    this.#fresh.clear()
    this.#lastTid = null
  }

  /** Scans the whole cache only once it is twice as large. */
  #forgetFree(): void {
    for (const { tid, name, head } of this.#byTid.values()) {
      if (head.owner !== null) continue
      this.#byTid.delete(tid)
      this.#byName.delete(name)
    }
    this.#heads.clear()
    if (this.#byTid.size > ownedMax) this.clear()
    this.#tooMany = Math.max(this.#keptMax, 2 * this.#byTid.size)
  }

  #keep(timeline: Timeline): Timeline {
    this.#byName.set(timeline.name, timeline)
    this.#byTid.set(timeline.tid, timeline)
    return timeline
  }

  #takeUnsettled(): void {
    for (const tid of this.#unsettled.pending().keys()) {
      if (this.#byTid.has(tid)) {
        this.#behind.add(tid)
        continue
      }
      // The timeline belongs to another namespace or was not read yet; or it was forgotten in this transaction and has none.
      const copies = this.#connection.get(headCopies, tid, tid)
      if (!copies || (copies.state === null && copies.w_state === null)) continue
      const head = this.#unsettled.apply(tid, witnessedHead({ ...copies, tid, name: `timeline ${tid}` }))
      this.#heads.write([tid], [head])
    }
  }

  #flushHeads(): void {
    for (const tid of this.#behind) if (this.#byTid.has(tid)) this.#dirtyHeads.add(tid)
    this.#behind.clear()
    const tids = [...this.#dirtyHeads]
    const heads = tids.map((tid) => this.#byTid.get(tid)!.head)
    this.#heads.write(tids, heads)
    this.#dirtyHeads.clear()
  }

  #writeRow(timeline: Timeline, sql = change): number {
    const { tid } = timeline
    const values = this.#values(timeline)
    const crc = checksumOf(values)
    if (this.#fresh.delete(tid)) {
      this.#connection.run(insert, ...values, crc)
      return crc
    }
    const set: SqlValue[] = []
    const leftOut = sql === changeWithoutStatus ? firstChanging + atStatus : -1
    for (let i = sql === update ? 1 : firstChanging; i < values.length; i++) if (i !== leftOut) set.push(values[i]!)
    set.push(crc, tid)
    this.#connection.run(sql, ...set)
    return crc
  }

  #tally(before: Counted, after: Counted): void {
    if (before.owner !== after.owner) {
      if (before.owner !== null) this.#tallies.add('owner', ownerKey(this.#space, before.owner), -1)
      if (after.owner !== null) this.#tallies.add('owner', ownerKey(this.#space, after.owner), 1)
    }
    if (before.status !== after.status) {
      if (before.status !== null) this.#tallies.add('status', statusKey(this.#space, before.status), -1)
      if (after.status !== null) this.#tallies.add('status', statusKey(this.#space, after.status), 1)
    }
    if (before.attributes === after.attributes) return
    for (const pair of pairsOf(before.attributes)) this.#tallies.add('attribute', pair, -1)
    for (const pair of pairsOf(after.attributes)) this.#tallies.add('attribute', pair, 1)
  }

  #newTid(): number {
    this.#lastTid ??= this.#connection.get(lastGiven)!.tid as number
    this.#lastTid += 1
    return this.#lastTid
  }

  #values({ tid, name, head, row }: Timeline): SqlValue[] {
    const due = row.mail > 0 ? 0 : row.wakeup
    return [
      tid,
      this.#space,
      name,
      nameKey(this.#space, name),
      row.isStub ? 1 : 0,
      row.parent,
      head.owner,
      row.queue,
      row.priority,
      row.status,
      row.wakeup,
      row.mail,
      row.isStub ? null : due,
      row.checkpoints,
      row.cursors,
      encodeAttributes(row.attributes),
      row.createdAt,
    ]
  }

  #writeAttributes({ tid, row }: Timeline, before: Attributes): void {
    if (before === row.attributes) return
    if (Object.keys(before).length > 0) this.#connection.run('DELETE FROM reprise_attribute WHERE tid = ?', tid)
    const sql = 'INSERT INTO reprise_attribute (tid, key, value) VALUES (?, ?, ?)'
    for (const key in row.attributes) {
      this.#connection.run(sql, tid, JSON.stringify(key), searchValue(row.attributes[key]!))
    }
  }

  #read(found: SqlRow): Timeline {
    const where = `timeline ${found.name}`
    checkRow(found, columnNames, where)
    const sums = witnessedSums(this.#connection, found)
    const head = witnessedHead(found)
    if (head.owner !== found.owner) throw damaged(`the head and the row of ${where} disagree about its owner`)
    return {
      tid: found.tid as number,
      name: found.name as TimelineId,
      head: this.#unsettled.apply(found.tid as number, head),
      row: {
        isStub: found.is_stub === 1,
        parent: found.parent as number | null,
        queue: found.queue as string | null,
        priority: found.priority as number,
        status: found.status as string,
        wakeup: found.wakeup as number | null,
        mail: found.mail as number,
        checkpoints: found.checkpoints as number,
        cursors: found.cursors as number,
        attributes: decodeAttributes(found.attributes as string),
        createdAt: found.created_at as number,
      },
      sums,
    }
  }

  /** A name is missing only if the second index lacks it too, unless that leads to a sound timeline of another name. */
  #checkMissing(name: TimelineId): void {
    const sql = 'SELECT tid FROM reprise_witness WHERE space = ? AND name = ?'
    const witness = this.#connection.get(sql, this.#space, name)
    const row = witness && this.#connection.get('SELECT * FROM reprise_timeline WHERE tid = ?', witness.tid!)
    if (!witness || (row && row.name !== name && isIntact(row, columnNames))) return
    throw damaged(`timeline ${name} is missing from the index of names`, { timeline: name })
  }
}

const nothingCounted: Counted = { attributes: {}, owner: null, status: null }

function countedOf(timeline: Timeline | undefined): Counted {
  if (!timeline) return nothingCounted
  return { attributes: timeline.row.attributes, owner: timeline.head.owner, status: timeline.row.status }
}

function pairsOf(attributes: Attributes): string[] {
  return Object.entries(attributes).map(([key, value]) => attributeKey(JSON.stringify(key), searchValue(value)))
}

export function nameKey(space: number, name: string): number {
  return crc32(name, space)
}
