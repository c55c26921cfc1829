// A state that loads for long reports its progress, by bytes read from its checkpoint and entries replayed, and the event loop
// keeps turning.

import { join } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { open } from '../../src/engine/api/open.ts'
import { timeline } from '../../src/index.ts'
import { temporaryFolder } from '../support/fixture.ts'

let folder: string
beforeEach(() => {
  folder = temporaryFolder('loading')
})

let isSlow = false

/** So slow that it takes a while, and other work runs only when it yields. */
const slow = timeline('slow', {
  initial: () => ({ count: 0 }),
  apply: (state) => {
    for (const end = performance.now() + (isSlow ? 1 : 0); performance.now() < end; );
    return { count: state.count + 1 }
  },
  checkpoint: { every: 100_000 },
})

it('replay reports its progress, and yields to other work', async () => {
  const url = `sqlite:${join(folder, 'store.db')}`
  const first = await open(url, { guardFolds: false })
  const writer = await first.open(slow, 'a')
  for (let n = 0; n < 30; n++) await writer.append(Array.from({ length: 10 }, () => ({ type: 'noted' })))
  await writer.close()
  await first.close()
  isSlow = true
  const rp = await open(url, { guardFolds: false })
  const told: { part: string; done: number; total: number | null }[] = []
  let turns = 0
  const timer = setInterval(() => (turns += 1), 1)
  rp.events.on('progress', ({ work, timeline, part, done, total }) => {
    if (work === 'load' && timeline === 'slow/a') told.push({ part, done, total })
  })
  await (await rp.open(slow, 'a')).close()
  clearInterval(timer)
  expect(turns).toBeGreaterThan(5)
  const replayed = told.filter(({ part }) => part === 'replay')
  expect(replayed.length).toBeGreaterThan(1)
  for (const [i, { done, total }] of replayed.entries()) {
    expect(total).toBe(300)
    expect(done).toBeGreaterThan(replayed[i - 1]?.done ?? 0)
  }
  expect(told.at(-1)).toEqual({ part: 'ready', done: 1, total: 1 })
  await rp.close()
})
