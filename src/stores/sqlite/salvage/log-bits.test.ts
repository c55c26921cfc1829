// Flips bits of every row of a small log, including all of its first bytes: each row is restored as it was written.

import { expect, it } from 'vitest'
import type { Digest } from '../../../core/coordinate.ts'
import { appendOperation, type EntryDraft, packEntries } from '../../../core/history/entry-run.ts'
import { sha256 } from '../../../engine/base/platform.ts'
import type { Connection } from '../file/connection.ts'
import { type Frame, type FrameDraft, RowEncoder, readFrames } from '../log/log-row.ts'
import { wholeRowsNear } from './log-bits.ts'
import { RowNeighbours } from './row-neighbours.ts'

const began = Date.UTC(2026, 0, 1)

/** Three timelines that take turns, sometimes in one row; the sixth row is settled. */
function makeLog(): Map<number, Uint8Array> {
  const rows = new Map<number, Uint8Array>()
  const heads = new Map<number, { last: number; digest: Digest; position: number }>()
  for (let position = 1; position <= 7; position++) {
    const tids = position % 5 === 0 ? [1, 2] : [1 + (position % 3)]
    const drafts = tids.map((tid): FrameDraft => {
      const {
        last,
        digest,
        position: previous,
      } = heads.get(tid) ?? { last: 0, digest: sha256(new Uint8Array([tid])), position: 0 }
      const entries: EntryDraft[] = Array.from({ length: 1 + (position % 2) }, (_, i) => ({
        time: began + position * 1000,
        type: 'added',
        version: 1,
        data: new Uint8Array([position, i]),
      }))
      const run = packEntries(sha256, { epoch: 1, first: last + 1, before: digest as Digest }, entries)
      heads.set(tid, { last: last + run.count, digest: run.digest, position })
      return { tid, previous, before: digest as Digest, run, operation: appendOperation(run.digest) }
    })
    const unsettledAt = position % 6 === 0 ? null : began + position * 1000
    rows.set(position, new RowEncoder().encode(position, drafts, unsettledAt, () => false).slice())
  }
  return rows
}

function connectionTo(rows: ReadonlyMap<number, Uint8Array>): Connection {
  const all = (_sql: string, from: number, to: number, but: number) =>
    [...rows].filter(([at]) => at >= from && at <= to && at !== but).map(([position, body]) => ({ position, body }))
  const get = (_sql: string, at: number) => (rows.has(at) ? { body: rows.get(at) } : undefined)
  return { all, get } as unknown as Connection
}

it('G8: one flipped bit of a row is found in that row, wherever it is', () => {
  const rows = makeLog()
  const unsure: number[] = []
  for (const [position, body] of rows) {
    const others = new Map([...rows].filter(([at]) => at !== position))
    const frames: { frame: Frame }[] = [...others].flatMap(([at, one]) =>
      [...readFrames(at, one)].map((frame) => ({ frame })),
    )
    const among = (at: number, near: readonly Uint8Array[]) =>
      new RowNeighbours(connectionTo(others), new Set([1, 2, 3]), new Map([[at, near]]), frames).only(at, near)
    for (let bit = 0; bit < body.length * 8; bit += bit < 160 ? 1 : 5) {
      const flipped = body.slice()
      flipped[bit >> 3]! ^= 1 << (bit & 7)
      const near = wholeRowsNear(position, flipped)
      if (near.length > 1) unsure.push(position)
      const found = near.length > 1 ? among(position, near) : near[0]
      expect(found && Buffer.from(found).toString('hex'), `bit ${bit} of row ${position}`).toBe(
        Buffer.from(body).toString('hex'),
      )
    }
  }
  // Rows whose checksums start from their time cannot be distinguished by their checksums alone.
  expect(unsure.length).toBeGreaterThan(40)
})
