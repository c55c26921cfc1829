// Turns the writes of one batch into entries: one entry if they fit, otherwise parts and a commit. Parts are invisible until
// the commit; parts left without a commit by a crash or a lost reply are undone before anything else is written.

import type { Keyed } from '../../core/keyed-state/keyed.ts'
import type { NewEntry, OpenTimeline } from '../../engine/writing/timeline.ts'
import type { CommitExtras } from '../../engine/writing/writer.ts'
import { type Offset, type Ops, type TableState, unfinished } from './state.ts'
import type { Write } from './transaction.ts'

/** Size limits of an entry, and of a commit of parts. */
const entryBytes = 512 * 1024
const entryWrites = 4096
const commitBytes = 4 * 1024 * 1024

export interface Batch {
  readonly writes: Keyed<Write>
  readonly offsets: ReadonlyMap<string, Offset>
}

interface Piece {
  readonly ops: Ops
  readonly bytes: number
}

export class BatchWriter<V> {
  readonly #open: OpenTimeline<TableState<V>>
  #hasLeftovers = false

  constructor(open: OpenTimeline<TableState<V>>) {
    this.#open = open
  }

  /** Writes the batch in one commit, or as parts that one commit makes visible together. */
  async write(batch: Batch, extras: CommitExtras | null): Promise<void> {
    if (this.#hasLeftovers) await this.undoUnfinished()
    const pieces = cut(batch)
    if (pieces.length === 0 && !extras) return
    if (pieces.length > 1) return await this.#writeParts(pieces, extras)
    const entries = pieces.map(({ ops }) => ({ type: 'w', data: ops }))
    await this.#open.write(entries, extras ?? {})
  }

  /** Undoes interrupted transactions, and returns their number. */
  async undoUnfinished(): Promise<number> {
    const found = unfinished(this.#open.state)
    if (found.length > 0) await this.#open.write(found.map((t) => ({ type: 'u', data: { t } })))
    this.#hasLeftovers = false
    return found.length
  }

  async #writeParts(pieces: readonly Piece[], extras: CommitExtras | null): Promise<void> {
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
    await this.#open.write([...entries, { type: 'c', data: { t, n: pieces.length } }], extras ?? {})
    this.#hasLeftovers = false
  }
}

/** Splits the writes into entries of a suitable size. */
function cut({ writes, offsets }: Batch): Piece[] {
  const pieces: Piece[] = []
  let piece = newPiece()
  const close = () => {
    if (piece.count > 0) pieces.push({ ops: opsOf(piece), bytes: piece.bytes })
    piece = newPiece()
  }
  for (const [key, { value, isDeleted, expiresAt }] of writes) {
    if (isDeleted) piece.d.push(key)
    else piece.s.push(key, value)
    if (expiresAt !== undefined) piece.x.push(key, expiresAt)
    piece.count += 1
    piece.bytes += key.length + 16 + (isDeleted ? 0 : roughBytes(value, 0))
    if (piece.bytes >= entryBytes || piece.count >= entryWrites) close()
  }
  for (const [source, offset] of offsets) {
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

/** Approximate size of a value in bytes, a few levels deep: it only decides where to split. */
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
