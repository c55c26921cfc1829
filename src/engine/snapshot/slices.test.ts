// A4.4: a large plain state is captured in slices, consistent with its coordinate whatever is folded meanwhile.

import { expect, test } from 'vitest'
import { ioOn, Shelf } from '../../../test/support/shelf.ts'
import { decodeManifest, encodeManifest } from '../../core/checkpoint/manifest.ts'
import { open, timeline } from '../../index.ts'
import type { StateIo } from '../model/state-io.ts'
import { captureState, TouchedValue, writeCapture } from './capture.ts'
import { restoreState } from './restore.ts'

const rows = (count: number) => Array.from({ length: count }, (_, id) => ({ id, text: `row ${id} `.repeat(6) }))

/** Each read of the clock takes a while, so that the work is cut into many slices; counts how often it yields. */
function slowIo(shelf: Shelf): { io: StateIo; turns: () => number } {
  let now = 0
  let turns = 0
  const io = ioOn(shelf, {
    elapsed: () => (now += 0.5),
    yieldToLoop: async () => {
      turns += 1
    },
  })
  return { io, turns: () => turns }
}

test('A4.4: a large value is encoded between the turns of others, and a small one before anybody else has one', async () => {
  const large = slowIo(new Shelf())
  const state = { rows: rows(20_000) }
  const capture = captureState(state, null, large.io, () => false)
  const written = await writeCapture(capture, large.io)
  expect(large.turns()).toBeGreaterThan(5)
  expect(capture.stallMs).toBeLessThan(10)
  const manifest = {
    timeline: 't',
    seq: 1,
    epoch: 1,
    digest: new Uint8Array(32),
    foldVersion: '1',
    parts: written.parts,
  }
  const before = large.turns()
  const restored = await restoreState(decodeManifest(encodeManifest(manifest)), large.io)
  expect(restored.state).toEqual(state)
  expect(large.turns() - before).toBeGreaterThan(5)
  // Nothing has changed: nothing is stored again, even though the value was never compared as a whole.
  const again = await writeCapture(
    captureState(state, restored.base, large.io, () => false),
    large.io,
  )
  expect(again.addedBytes).toBe(0)
  const small = slowIo(new Shelf())
  const touched = captureState({ note: 'a' }, null, small.io, () => true)
  await expect(writeCapture(touched, small.io)).resolves.toMatchObject({ kind: 'full' })
})

test('A4.4: a large value that was touched meanwhile is not written as one of two times', async () => {
  const { io } = slowIo(new Shelf())
  const state = { rows: rows(20_000) }
  const capture = captureState(state, null, io, () => true)
  await expect(writeCapture(capture, io)).rejects.toThrow(TouchedValue)
  expect(capture.status).toBe('abandoned')
})

interface Noted {
  readonly type: 'noted'
  readonly n: number
}

/** Large enough for slices on a fast machine, too. */
const start = () => ({ sum: 0, rows: rows(60_000) })

const pure = timeline('pure', {
  initial: start,
  apply: (state, { n }: Noted) => ({ sum: state.sum + n, rows: state.rows.with(n % 60_000, { id: n, text: 'new' }) }),
  immutable: true,
})

/** Not allowed, but done anyway. */
const inPlace = timeline('in-place', {
  initial: start,
  apply(state, { n }: Noted) {
    state.sum += n
    state.rows[(n * 7919) % 60_000] = { id: n, text: 'new' }
  },
})

test.each([
  ['declared immutable', pure, 0],
  ['changed in place', inPlace, 1],
] as const)(
  'A4.4, G2: a state %s that is folded during its capture comes back as it was at its coordinate',
  async (_, definition, held) => {
    await using rp = await open('memory:')
    const handle = await rp.open(definition as typeof pure, 'x')
    let holds = 0
    rp.events.on('capture-held', () => {
      holds += 1
    })
    let most = 0
    // Whether a fold falls into a capture is chance: repeat until one did.
    for (let round = 1; round <= 2 || (round <= 40 && (most < 2 || holds < held)); round++) {
      const making = handle.checkpoint()
      let isOver = false
      void making.finally(() => {
        isOver = true
      })
      let appends = 0
      while (!isOver) {
        await handle.append({ type: 'noted', n: appends++ * 31 })
        await new Promise((resolve) => setImmediate(resolve))
      }
      await making
      most = Math.max(most, appends)
    }
    expect(most).toBeGreaterThan(1)
    // A drill restores the checkpoint, replays, and compares with history.
    const { results } = await rp.drill({ timelines: [`${definition.name}/x`] } as never)
    expect(results.map(({ ok }) => ok)).not.toContain(false)
    expect(results.length).toBeGreaterThan(0)
    expect(holds >= held).toBe(true)
    if (held === 0) expect(holds).toBe(0)
  },
)
