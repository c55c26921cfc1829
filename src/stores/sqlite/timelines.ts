// The timelines of one namespace as one connection sees them: found by name, kept, changed, and written back together.
// The writer keeps them between transactions (it empties this when another process has written); readers do not.

import { crc32 } from 'node:zlib'
import { assert } from '../../core/assert.ts'
import type { TimelineId } from '../../core/coordinate.ts'
import { type Attributes, decodeAttributes, encodeAttributes, searchValue } from './attributes.ts'
import type { Connection } from './connection.ts'
import type { SqlRow, SqlValue } from './driver.ts'
import { damaged } from './failure.ts'
import { decodeHead, encodeHead, encodeTail, type HeadState, headBytesMax } from './head-state.ts'
import type { LooseRuns } from './loose.ts'
import { checkSeal, seal } from './seal.ts'

export interface TimelineRow {
  /** Not made yet: it only has mail waiting. */
  readonly isStub: boolean
  readonly parent: number | null
  readonly queue: string | null
  readonly priority: number
  readonly status: string
  readonly wakeup: number | null
  /** How many unread messages, checkpoints and cursors it has: they are counted when they are read. */
  readonly mail: number
  readonly checkpoints: number
  readonly cursors: number
  readonly attributes: Attributes
  readonly createdAt: number
}

export interface Timeline {
  readonly tid: number
  readonly name: TimelineId
  readonly head: HeadState
  readonly row: TimelineRow
}

const columns = `tid, space, name, key, is_stub, parent, owner, queue, priority, status, wakeup, mail, due, checkpoints,
  cursors, attributes, created_at`
const columnNames = columns.split(',').map((name) => name.trim())
const select = `SELECT t.*, h.state FROM reprise_timeline t LEFT JOIN reprise_head h ON h.tid = t.tid`
const insert = `INSERT INTO reprise_timeline (${columns}, crc) VALUES (${'?, '.repeat(columnNames.length)}?)`
const update = `UPDATE reprise_timeline SET ${settings(columnNames.slice(1))}, crc = ? WHERE tid = ?`
/** Without its name, which it keeps: SQLite writes an index again for each column that is set, changed or not. */
const firstChanging = columnNames.indexOf('is_stub')
const change = `UPDATE reprise_timeline SET ${settings(columnNames.slice(firstChanging))}, crc = ? WHERE tid = ?`
const lastGiven = `SELECT max((SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'reprise_timeline'),
  (SELECT coalesce(max(tid), 0) FROM reprise_timeline)) AS tid`
const keptMax = 20_000
/** Many heads go in few statements: these sizes cover every count. */
const headBatches = [64, 16, 4, 1].map((size) => ({
  size,
  sql: `REPLACE INTO reprise_head (tid, state) VALUES ${'(?, ?), '.repeat(size - 1)}(?, ?)`,
}))

export class Timelines {
  readonly #connection: Connection
  readonly #space: number
  readonly #loose: LooseRuns
  readonly #byName = new Map<string, Timeline>()
  readonly #byTid = new Map<number, Timeline>()
  readonly #dirtyHeads = new Set<number>()
  /** Their heads in the file are behind, since they were appended to loosely from here. */
  readonly #behind = new Set<number>()
  /** With the attributes that are in the file. */
  readonly #dirtyRows = new Map<number, Attributes>()
  /** Some were removed in this transaction, from the file as well. */
  #hasRemoved = false
  /** Not in the file yet. */
  readonly #fresh = new Set<number>()
  /** The highest number given to a timeline; null if it must be looked up. */
  #lastTid: number | null = null
  readonly #undo: (() => void)[] = []
  readonly #tails = new Map<
    number,
    Pick<HeadState, 'owner' | 'floor' | 'floorDigest' | 'base'> & { bytes: Uint8Array }
  >()
  #packed = new Uint8Array(4096)

  constructor(connection: Connection, space: number, loose: LooseRuns) {
    this.#connection = connection
    this.#space = space
    this.#loose = loose
  }

  /** Stubs too; null if there is nothing of that name. */
  find(name: TimelineId): Timeline | null {
    const kept = this.#byName.get(name)
    if (kept) return kept
    const row = this.#connection.get(`${select} WHERE t.space = ? AND t.name = ?`, this.#space, name)
    if (row) return this.#keep(this.#read(row))
    this.#checkMissing(name)
    return null
  }

  /** Of whichever namespace; null if it was forgotten. */
  byTid(tid: number): Timeline | null {
    const kept = this.#byTid.get(tid)
    if (kept) return kept
    const row = this.#connection.get(`${select} WHERE t.tid = ?`, tid)
    if (!row) return null
    const timeline = this.#read(row)
    return row.space === this.#space ? this.#keep(timeline) : null
  }

  forksOf(parent: number): Timeline[] {
    const rows = this.#connection.all('SELECT tid FROM reprise_timeline WHERE parent = ?', parent)
    return rows.map(({ tid }) => this.byTid(tid as number)!)
  }

  /** A fork is in the file at once, so that `forksOf` finds it. */
  insert(name: TimelineId, head: HeadState, row: TimelineRow): Timeline {
    const tid = this.#newTid()
    const timeline = { tid, name, head, row }
    this.put(timeline)
    this.#fresh.add(tid)
    if (row.parent !== null) this.#writeRow(timeline)
    return timeline
  }

  put(timeline: Timeline): void {
    const { tid } = timeline
    const before = this.#byTid.get(tid)
    this.#remember(tid)
    this.#keep(timeline)
    if (before?.head !== timeline.head) this.#dirtyHeads.add(tid)
    const isRowSame = before && before.row === timeline.row && before.head.owner === timeline.head.owner
    if (!isRowSame && !this.#dirtyRows.has(tid)) this.#dirtyRows.set(tid, before?.row.attributes ?? {})
  }

  /** If it is in memory. */
  kept(name: TimelineId): Timeline | undefined {
    return this.#byName.get(name)
  }

  /** It was appended to, and is durable: its head will be written later. */
  putLoose(timeline: Timeline): void {
    this.#keep(timeline)
    this.#behind.add(timeline.tid)
  }

  rename(timeline: Timeline, name: TimelineId): void {
    const renamed = { ...timeline, name }
    this.#byName.delete(timeline.name)
    this.put(renamed)
    this.#writeRow(renamed, update)
  }

  remove({ tid, name }: Timeline): void {
    for (const table of ['timeline', 'head', 'attribute']) {
      this.#connection.run(`DELETE FROM reprise_${table} WHERE tid = ?`, tid)
    }
    this.#remember(tid)
    this.#hasRemoved = true
    this.#byName.delete(name)
    this.#byTid.delete(tid)
    this.#dirtyHeads.delete(tid)
    this.#dirtyRows.delete(tid)
    this.#fresh.delete(tid)
  }

  /** From here on changes can be taken back; those before stay. */
  mark(): void {
    this.#undo.length = 0
  }

  /** Takes back what was changed since the mark. What is already in the file, a savepoint takes back. */
  undo(): void {
    for (const step of this.#undo.splice(0).reverse()) step()
  }

  /** What others may keep has changed: the transaction must add a row (log-end.ts). */
  get isDirty(): boolean {
    return this.#hasRemoved || this.#dirtyHeads.size > 0 || this.#dirtyRows.size > 0
  }

  /** Writes what this transaction changed, and every head that is behind, whoever appended to it. */
  flush(): void {
    this.#takeLoose()
    this.#flushHeads()
    for (const [tid, attributesBefore] of this.#dirtyRows) {
      const timeline = this.#byTid.get(tid)
      assert(timeline, 'a changed timeline is kept until it is written')
      this.#writeRow(timeline)
      this.#writeAttributes(timeline, attributesBefore)
    }
    this.#dirtyRows.clear()
    this.#hasRemoved = false
    if (this.#byTid.size > keptMax) this.clear()
  }

  clear(): void {
    this.#tails.clear()
    this.#byName.clear()
    this.#byTid.clear()
    this.#dirtyHeads.clear()
    this.#behind.clear()
    this.#dirtyRows.clear()
    this.#hasRemoved = false
    this.#fresh.clear()
    this.#lastTid = null
    this.#undo.length = 0
  }

  #remember(tid: number): void {
    const before = this.#byTid.get(tid)
    const wasHeadDirty = this.#dirtyHeads.has(tid)
    const attributesBefore = this.#dirtyRows.get(tid)
    const wasFresh = this.#fresh.has(tid)
    const hadRemoved = this.#hasRemoved
    this.#undo.push(() => {
      this.#hasRemoved = hadRemoved
      const now = this.#byTid.get(tid)
      if (now) this.#byName.delete(now.name)
      this.#byTid.delete(tid)
      if (before) this.#keep(before)
      if (!wasHeadDirty) this.#dirtyHeads.delete(tid)
      else this.#dirtyHeads.add(tid)
      if (attributesBefore === undefined) this.#dirtyRows.delete(tid)
      else this.#dirtyRows.set(tid, attributesBefore)
      if (wasFresh) this.#fresh.add(tid)
      else this.#fresh.delete(tid)
    })
  }

  #keep(timeline: Timeline): Timeline {
    this.#byName.set(timeline.name, timeline)
    this.#byTid.set(timeline.tid, timeline)
    return timeline
  }

  #takeLoose(): void {
    for (const tid of this.#loose.pending().keys()) {
      if (this.#byTid.has(tid)) {
        this.#behind.add(tid)
        continue
      }
      // Of another namespace, or not looked at yet; none if it was forgotten in this transaction.
      const state = this.#connection.get('SELECT state FROM reprise_head WHERE tid = ?', tid)?.state
      if (!(state instanceof Uint8Array)) continue
      const head = this.#loose.apply(tid, decodeHead(tid, state, `timeline ${tid}`))
      const { bytes, ends } = this.#packHeads([tid], [head])
      this.#connection.run(headBatches.at(-1)!.sql, tid, bytes.subarray(0, ends[0]))
    }
  }

  #flushHeads(): void {
    for (const tid of this.#behind) if (this.#byTid.has(tid)) this.#dirtyHeads.add(tid)
    this.#behind.clear()
    const tids = [...this.#dirtyHeads]
    const heads = tids.map((tid) => this.#byTid.get(tid)!.head)
    const { bytes, ends } = this.#packHeads(tids, heads)
    let index = 0
    for (const { size, sql } of headBatches) {
      for (; tids.length - index >= size; index += size) {
        const values: SqlValue[] = []
        for (let i = index; i < index + size; i++) values.push(tids[i]!, bytes.subarray(ends[i - 1] ?? 0, ends[i]))
        this.#connection.run(sql, ...values)
      }
    }
    this.#dirtyHeads.clear()
  }

  #packHeads(tids: readonly number[], heads: readonly HeadState[]): { bytes: Uint8Array; ends: number[] } {
    const tails = heads.map((head, i) => this.#tailOf(tids[i]!, head))
    let sizeMax = 0
    for (let i = 0; i < heads.length; i++) sizeMax += headBytesMax(heads[i]!) + tails[i]!.length
    if (this.#packed.length < sizeMax) this.#packed = new Uint8Array(2 * sizeMax)
    let end = 0
    const ends = heads.map((head, i) => {
      end = encodeHead(this.#packed, end, tids[i]!, head, tails[i]!)
      return end
    })
    return { bytes: this.#packed, ends }
  }

  #tailOf(tid: number, head: HeadState): Uint8Array {
    const kept = this.#tails.get(tid)
    const isSame = kept && kept.owner === head.owner && kept.floorDigest === head.floorDigest && kept.base === head.base
    if (isSame && kept.floor === head.floor) return kept.bytes
    const bytes = encodeTail(head)
    const { owner, floor, floorDigest, base } = head
    this.#tails.set(tid, { owner, floor, floorDigest, base, bytes })
    return bytes
  }

  #writeRow(timeline: Timeline, sql = change): void {
    const { tid } = timeline
    const values = this.#values(timeline)
    const crc = seal(values)
    if (this.#fresh.delete(tid)) this.#connection.run(insert, ...values, crc)
    else this.#connection.run(sql, ...values.slice(sql === update ? 1 : firstChanging), crc, tid)
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
    for (const [key, value] of Object.entries(row.attributes)) {
      const sql = 'INSERT INTO reprise_attribute (tid, key, value) VALUES (?, ?, ?)'
      this.#connection.run(sql, tid, JSON.stringify(key), searchValue(value))
    }
  }

  #read(found: SqlRow): Timeline {
    const where = `timeline ${found.name}`
    checkSeal(found, columnNames, where)
    if (!(found.state instanceof Uint8Array)) throw damaged(`${where} has no head`, { timeline: found.name })
    const head = decodeHead(found.tid as number, found.state, String(found.name))
    if (head.owner !== found.owner) throw damaged(`the head and the row of ${where} disagree about its owner`)
    return {
      tid: found.tid as number,
      name: found.name as TimelineId,
      head: this.#loose.apply(found.tid as number, head),
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
    }
  }

  /** "Not there" is believed only when the second index says so too. */
  #checkMissing(name: TimelineId): void {
    const key = nameKey(this.#space, name)
    const rows = this.#connection.all(
      'SELECT * FROM reprise_timeline INDEXED BY reprise_timeline_key WHERE key = ?',
      key,
    )
    for (const row of rows) {
      checkSeal(row, columnNames, `timeline ${row.name}`)
      if (row.space === this.#space && row.name === name) {
        throw damaged(`timeline ${name} is missing from the index of names`, { timeline: name })
      }
    }
  }
}

function settings(names: readonly string[]): string {
  return names.map((name) => `${name} = ?`).join(', ')
}

function nameKey(space: number, name: string): number {
  return crc32(name, space)
}
