// The writing side of a table: one queue, so transactions have one order. All that wait in the same moment are run one
// after another, each on what the ones before it leave, and written as one commit. Isolation is serializable: a
// transaction that had to wait for something outside is checked before it is written, and run again alone if what it
// read has changed. A transaction too large for one commit goes in parts; until its last one nothing of it is visible.

import { Keyed, type KeyedRange } from '../../core/keyed.ts'
import type { NewEntry, OpenTimeline } from '../../engine/timeline.ts'
import type { Along } from '../../engine/writer.ts'
import type { Offset, Ops, TableState } from './state.ts'
import { unfinished } from './state.ts'
import { Buffer, merged, type Transaction, type View, type Write } from './transaction.ts'

/** Beyond these, a batch is closed, an entry is closed, and a commit of parts is closed. */
const batchWrites = 8192
const entryBytes = 512 * 1024
const entryWrites = 4096
const commitBytes = 4 * 1024 * 1024

interface Item<V> {
  readonly run: (tx: Transaction<V>) => unknown
  readonly along: Along | null
  /** It ran already and waited for something: what it did is checked, not run again, if it still holds. */
  readonly ran: { readonly buffer: Buffer<V>; readonly result: unknown } | null
  resolve(result: unknown): void
  reject(error: unknown): void
}

/** Writes of the batch so far, over the committed rows. */
class Overlay<V> implements View<V> {
  readonly writes = new Keyed<Write>()
  readonly offsets = new Map<string, Offset>()
  readonly #rows: View<V>

  constructor(rows: View<V>) {
    this.#rows = rows
  }

  get now(): number {
    return this.#rows.now
  }

  get ttlMs(): number | undefined {
    return this.#rows.ttlMs
  }

  get(key: string): V | undefined {
    const write = this.writes.get(key)
    return write ? (write.value as V | undefined) : this.#rows.get(key)
  }

  entries(range: KeyedRange): IterableIterator<[string, V]> {
    if (this.writes.size === 0) return this.#rows.entries(range)
    return merged(this.#rows.entries(range), this.writes.entries(range), range.reverse ?? false)
  }

  offset(source: string): Offset | undefined {
    return this.offsets.get(source) ?? this.#rows.offset(source)
  }

  take(buffer: Buffer<V>): void {
    for (const [key, write] of buffer.writes) this.writes.set(key, write)
    for (const [source, offset] of buffer.offsets) this.offsets.set(source, offset)
  }
}

export class TableWriter<V> {
  readonly #open: OpenTimeline<TableState<V>>
  readonly #rows: View<V>
  #queue: Item<V>[] = []
  #isBusy = false
  #hasLeftovers = false

  constructor(open: OpenTimeline<TableState<V>>, rows: View<V>) {
    this.#open = open
    this.#rows = rows
  }

  submit<R>(run: (tx: Transaction<V>) => R | Promise<R>, along: Along | null = null): Promise<R> {
    return new Promise<R>((resolve, reject) => {
      this.#queue.push({ run, along, ran: null, resolve: resolve as (result: unknown) => void, reject })
      // Not at once: whatever is submitted in this moment belongs to one batch.
      if (!this.#isBusy) {
        this.#isBusy = true
        queueMicrotask(() => void this.#work())
      }
    })
  }

  /** Transactions that a crash cut short are undone before anything else is written. */
  async undoUnfinished(): Promise<number> {
    const found = unfinished(this.#open.state)
    if (found.length > 0) await this.#open.write(found.map((t) => ({ type: 'u', data: { t } })))
    this.#hasLeftovers = false
    return found.length
  }

  async #work(): Promise<void> {
    while (this.#queue.length > 0) {
      const overlay = new Overlay(this.#rows)
      const done: { item: Item<V>; result: unknown }[] = []
      try {
        if (this.#hasLeftovers) await this.undoUnfinished()
        await this.#runBatch(overlay, done)
        await this.#write(overlay, done[0]?.item.along ?? null)
        for (const { item, result } of done) item.resolve(result)
      } catch (error) {
        for (const { item } of done) item.reject(error)
      }
    }
    this.#isBusy = false
  }

  async #runBatch(overlay: Overlay<V>, done: { item: Item<V>; result: unknown }[]): Promise<void> {
    while (this.#queue.length > 0 && overlay.writes.size < batchWrites) {
      const item = this.#queue[0]!
      if (item.along && done.length > 0) return
      this.#queue.shift()
      try {
        const outcome = item.ran ? await this.#check(item, overlay) : this.#run(item, overlay)
        if (!outcome) continue
        overlay.take(outcome.buffer)
        done.push({ item, result: outcome.result })
      } catch (error) {
        item.reject(error)
      }
      if (item.along) return
    }
  }

  /** Null: it waits for something outside, and comes back when it is through. */
  #run(item: Item<V>, overlay: Overlay<V>): { buffer: Buffer<V>; result: unknown } | null {
    const buffer = new Buffer<V>(overlay)
    const result = item.run(buffer)
    if (!(result instanceof Promise)) {
      buffer.end()
      return { buffer, result }
    }
    result.then(
      (value) => {
        buffer.end()
        this.#queue.push({ ...item, ran: { buffer, result: value } })
        if (this.#isBusy) return
        this.#isBusy = true
        void this.#work()
      },
      (error) => {
        buffer.end()
        item.reject(error)
      },
    )
    return null
  }

  /** Meanwhile others wrote. If what it read is as it was, it counts as run now; else it runs again while all others wait. */
  async #check(item: Item<V>, overlay: Overlay<V>): Promise<{ buffer: Buffer<V>; result: unknown }> {
    if (item.ran!.buffer.isValid(overlay)) return item.ran!
    const buffer = new Buffer<V>(overlay)
    try {
      return { buffer, result: await item.run(buffer) }
    } finally {
      buffer.end()
    }
  }

  async #write(overlay: Overlay<V>, along: Along | null): Promise<void> {
    const pieces = cut(overlay)
    if (pieces.length === 0 && !along) return
    if (pieces.length <= 1) {
      await this.#open.write(
        pieces.map(({ ops }) => ({ type: 'w', data: ops })),
        along ?? {},
      )
      return
    }
    await this.#writeParts(pieces, along)
  }

  async #writeParts(pieces: readonly Piece[], along: Along | null): Promise<void> {
    const t = `${this.#open.epoch}.${this.#open.seq + 1}`
    this.#hasLeftovers = true
    let entries: NewEntry[] = []
    let bytes = 0
    for (let n = 0; n < pieces.length; n++) {
      const piece = pieces[n]!
      if (bytes > 0 && bytes + piece.bytes > commitBytes) {
        await this.#open.write(entries)
        entries = []
        bytes = 0
      }
      entries.push({ type: 'p', data: { t, n, ...piece.ops } })
      bytes += piece.bytes
    }
    await this.#open.write([...entries, { type: 'c', data: { t, n: pieces.length } }], along ?? {})
    this.#hasLeftovers = false
  }
}

interface Piece {
  readonly ops: Ops
  readonly bytes: number
}

/** The writes as entries, each of a size that is good to write and to read. */
function cut<V>(overlay: Overlay<V>): Piece[] {
  const pieces: Piece[] = []
  let piece = newPiece()
  const close = () => {
    if (piece.count > 0) pieces.push({ ops: opsOf(piece), bytes: piece.bytes })
    piece = newPiece()
  }
  for (const [key, { value, isDeleted, expiresAt }] of overlay.writes) {
    if (isDeleted) piece.d.push(key)
    else piece.s.push(key, value)
    if (expiresAt !== undefined) piece.x.push(key, expiresAt)
    piece.count += 1
    piece.bytes += key.length + 16 + (isDeleted ? 0 : roughBytes(value, 0))
    if (piece.bytes >= entryBytes || piece.count >= entryWrites) close()
  }
  for (const [source, offset] of overlay.offsets) {
    piece.o.push(source, offset)
    piece.count += 1
  }
  close()
  return pieces
}

function newPiece() {
  return { s: [] as unknown[], d: [] as string[], x: [] as (string | number)[], o: [] as Offset[], bytes: 0, count: 0 }
}

function opsOf({ s, d, x, o }: ReturnType<typeof newPiece>): Ops {
  return {
    ...(s.length > 0 && { s }),
    ...(d.length > 0 && { d }),
    ...(x.length > 0 && { x }),
    ...(o.length > 0 && { o }),
  }
}

/** About how many bytes a value takes; looks a few levels deep, since it only decides where to cut. */
function roughBytes(value: unknown, depth: number): number {
  if (typeof value === 'string') return value.length + 2
  if (typeof value !== 'object' || value === null) return 8
  if (ArrayBuffer.isView(value)) return value.byteLength + 8
  if (depth > 6) return 64
  const parts: Iterable<unknown> =
    value instanceof Map ? value.entries() : value instanceof Set || Array.isArray(value) ? value : Object.values(value)
  let bytes = 8
  for (const part of parts) bytes += 8 + roughBytes(part, depth + 1)
  return bytes
}
