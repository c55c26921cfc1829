// Keys of the pairs of `joinInterval` (docs/guides/keys.md): each pair has a key of its own, also if two pairs have equal
// results; it is derived from its two records, in any order and any batches, over a kill and a redrive.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { pipeline, type Source, sendSink } from '../../src/layers/pipeline/index.ts'
import { pause, until } from '../support/fixture.ts'

interface Timed {
  readonly id: string
  readonly cents: number
  readonly at: number
}

/** Batches of `size`, the first one not before `isOpen`. */
function given(all: readonly Timed[], size: number, isOpen: () => boolean): Source<Timed> {
  return {
    open: async (from) => {
      let at = Number(from?.get('0') ?? 0)
      return {
        partitions: () => ['0'],
        async read(max) {
          await pause(1)
          if (!isOpen()) return { partition: '0', values: [], position: at }
          if (at >= all.length) return null
          const values = all.slice(at, at + Math.min(size, max))
          at += values.length
          return { partition: '0', values, position: at }
        },
        close: async () => undefined,
      }
    },
  }
}

const orders = [
  { id: 'o1', cents: 500, at: 1000 },
  { id: 'o2', cents: 500, at: 1200 },
]
const payments = [
  { id: 'p1', cents: 500, at: 1000 },
  { id: 'p2', cents: 500, at: 1000 },
  { id: 'p3', cents: 500, at: 1300 },
]

let folder = ''
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'reprise-join-'))
  const seed = await open(`sqlite:${join(folder, 'seed.db')}`)
  await seed.backup(join(folder, 'seed.rpb'))
  await seed.close()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

type Order = 'orders first' | 'payments first'

/** One store identity in every play. By pair: its keys. `stopped` cancels a first run after its sends, without a checkpoint. */
let plays = 0
async function keysOf(order: Order, size: number, how: { stopped?: boolean; failing?: boolean } = {}) {
  plays += 1
  const rp = await open(`sqlite:${join(folder, `${plays}.db`)}`)
  await rp.restore(join(folder, 'seed.rpb'))
  const keys = new Map<string, Set<string>>()
  let pairs = 0
  let isFailing = how.failing ?? false
  let late = false
  let isHeld = how.failing ?? false
  const drawn = pipeline('p', (p) => {
    const from = (name: string, all: readonly Timed[], isFirst: boolean) =>
      p
        .from(
          name,
          given(all, size, () => isFirst || late),
          { time: ({ at }) => at, outOfOrder: '10s' },
        )
        .keyBy(() => 'k')
    const left = from('orders', orders, order === 'orders first')
    const right = from('payments', payments, order === 'payments first')
    p.from(
      'open',
      given([{ id: 'x', cents: 0, at: 1000 }], 1, () => !isHeld),
      { time: ({ at }) => at },
    )
      .filter(() => false)
      .to(
        'nothing',
        sendSink(async () => undefined),
      )
    left
      .joinInterval('near', right, { from: -1000, to: 1000 }, (one, other) => {
        if (isFailing) throw new TypeError('not yet')
        pairs += 1
        return { names: `${one.id}+${other.id}`, book: other.cents }
      })
      .map(({ names, book }) => {
        // The test compares the names; the results are equal.
        named.push(names)
        return book
      })
      .to(
        'out',
        sendSink(async (_book, { key }) => {
          const name = named.shift()!
          keys.set(name, (keys.get(name) ?? new Set()).add(key))
        }),
      )
  })
  const named: string[] = []
  const options = { checkpoint: { every: 1_000_000 } }
  const waiting = setTimeout(() => {
    late = true
  }, 30)
  if (how.stopped) {
    isHeld = true
    const run = await rp.run(drawn, options).started()
    await until(() => pairs >= 6 && named.length === 0)
    await run.cancel()
    isHeld = false
  }
  const run = await rp.run(drawn, options).started()
  if (how.failing) {
    await until(() => run.status().deadLetters === 6)
    isFailing = false
    await run.redrive()
    isHeld = false
  }
  await run.result()
  clearTimeout(waiting)
  await rp.close()
  expect(pairs).toBe(how.stopped ? 12 : 6)
  return Object.fromEntries([...keys].sort().map(([name, own]) => [name, [...own]]))
}

describe('joinInterval', () => {
  it('gives each pair a key of its own, although the results are equal', async () => {
    const keys = Object.values(await keysOf('orders first', 10)).flat()
    expect(keys).toHaveLength(6)
    expect(new Set(keys).size).toBe(6)
  })

  it('gives a pair the same key in another order, in other batches, in a second run and redriven', async () => {
    const usual = await keysOf('orders first', 10)
    expect(await keysOf('payments first', 10)).toEqual(usual)
    expect(await keysOf('payments first', 1)).toEqual(usual)
    expect(await keysOf('orders first', 1, { stopped: true })).toEqual(usual)
    expect(await keysOf('orders first', 10, { failing: true })).toEqual(usual)
  })
})
