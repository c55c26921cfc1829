// Writes heads, and the marks with their copies, in few statements: this is on the path of every commit that is more than an
// append, and of periodic writes after appends.

import type { Connection } from '../file/connection.ts'
import type { SqlValue } from '../file/driver.ts'
import { encodeHead, encodeTail, type HeadState, headBytesMax } from './head-state.ts'
import { headCrc } from './row-counts.ts'

/** Many heads are written in few statements: these sizes cover every count. */
const batches = [64, 16, 4, 1].map((size) => {
  const values = (one: string) => `VALUES ${`${one}, `.repeat(size - 1)}${one}`
  return {
    size,
    heads: `REPLACE INTO reprise_head (tid, state) ${values('(?, ?)')}`,
    marks: `REPLACE INTO reprise_head_mark (tid, crc, state) ${values('(?, ?, ?)')}`,
  }
})

type Tail = Pick<HeadState, 'life' | 'owner' | 'floor' | 'floorDigest' | 'base'> & { readonly bytes: Uint8Array }

export class HeadWriter {
  readonly #connection: Connection
  /** Packed tails, which appends do not change. */
  readonly #tails = new Map<number, Tail>()
  #packed = new Uint8Array(4096)

  constructor(connection: Connection) {
    this.#connection = connection
  }

  write(tids: readonly number[], heads: readonly HeadState[]): void {
    const { bytes, ends } = this.#pack(tids, heads)
    let index = 0
    for (const batch of batches) {
      for (; tids.length - index >= batch.size; index += batch.size) {
        const values: SqlValue[] = []
        const marks: SqlValue[] = []
        for (let i = index; i < index + batch.size; i++) {
          const state = bytes.subarray(ends[i - 1] ?? 0, ends[i])
          values.push(tids[i]!, state)
          marks.push(tids[i]!, headCrc(state), state)
        }
        this.#connection.run(batch.heads, ...values)
        this.#connection.run(batch.marks, ...marks)
      }
    }
  }

  /** The number of cached timelines. */
  get count(): number {
    return this.#tails.size
  }

  forget(tid: number): void {
    this.#tails.delete(tid)
  }

  /** Cached tails may belong to removed timelines. */
  clear(): void {
    this.#tails.clear()
  }

  #pack(tids: readonly number[], heads: readonly HeadState[]): { bytes: Uint8Array; ends: number[] } {
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
    if (isSame && kept.floor === head.floor && kept.life === head.life) return kept.bytes
    const bytes = encodeTail(head)
    const { life, owner, floor, floorDigest, base } = head
    this.#tails.set(tid, { life, owner, floor, floorDigest, base, bytes })
    return bytes
  }
}
