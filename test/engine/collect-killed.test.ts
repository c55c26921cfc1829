// G10: a collection is killed at calls that write to the store (support/kill-points.ts). Then verify finds no fault, every
// state is readable, and the next collection completes the interrupted one.

import { expect, it } from 'vitest'
import { blobMethods, storeMethods, upkeepMethods } from '../../src/core/store/store-wrapper.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { keyed, timeline } from '../../src/index.ts'
import { faultyStore } from '../../src/testing/index.ts'
import { pause } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { fatesAt } from '../support/kill-points.ts'
import { onEveryStore } from '../support/worlds.ts'

const shelf = timeline('shelf', {
  initial: () => ({ rows: keyed<string>() }),
  apply: (state: { rows: ReturnType<typeof keyed<string>> }, entry: { type: 'put'; key: string; text: string }) => {
    state.rows.set(entry.key, entry.text)
    return state
  },
  retain: { checkpoints: 1, history: 'needed', forks: '1ms' },
})
const textOf = (n: number) => Array.from({ length: 600 }, (_, i) => `${n}:${(i * 7919 * n) % 99991}`).join(' ')
const writes = new Set([
  ...Object.entries({ ...storeMethods, ...upkeepMethods }).flatMap(([name, access]) =>
    access === 'writes' ? [name] : [],
  ),
  ...Object.entries(blobMethods).flatMap(([name, access]) => (access === 'writes' ? [`blobs.${name}`] : [])),
])

async function fill(rp: Reprise): Promise<void> {
  for (const name of ['a', 'b']) {
    const open = await rp.open(shelf, name)
    for (let n = 1; n <= 4; n++) {
      await open.append({ type: 'put', key: `k${n % 3}`, text: textOf(n) })
      await open.checkpoint()
    }
    await open.close()
  }
  await hostOf(rp).forkTimeline({ timeline: 'shelf/a', seq: 4 }, 'shelf/fork')
  // Pinned, so that it stays: it has a chunk that nothing else names.
  await hostOf(rp).forkTimeline({ timeline: 'shelf/b', seq: 4 }, 'shelf/kept')
  const kept = await rp.open(shelf, 'kept')
  await kept.append({ type: 'put', key: 'k7', text: textOf(7) })
  await kept.close()
  await rp.savepoint({ timeline: 'shelf/kept', seq: 5 })
  const gone = await rp.open(shelf, 'gone')
  await gone.append({ type: 'put', key: 'k', text: textOf(9) })
  await gone.checkpoint()
  await gone.close()
  await rp.delete('shelf/gone')
}

async function rowsOf(rp: Reprise, name: string): Promise<Record<string, string>> {
  const open = await rp.open(shelf, name, { takeover: true })
  const rows = Object.fromEntries(open.state.rows.entries())
  await open.close()
  return rows
}

onEveryStore(
  'a collection that is killed',
  (world) => {
    it('loses nothing, and is made good by the next one', { timeout: 300_000 }, async () => {
      const at = await world()
      let kills = 0
      for (let n = 1, isOver = false; !isOver; n++) {
        for (const fate of fatesAt(n)) {
          const where = `killed at write ${n}, ${fate}`
          const namespace = `${n}-${fate}`
          const first = await at.engine({ namespace })
          await fill(first)
          await first.close()
          await pause(5)
          let count = 0
          const port = faultyStore(await at.store(namespace), (method) => {
            if (count >= n && method !== 'close') return 'fail-before'
            if (!writes.has(method)) return 'ok'
            count += 1
            return count === n ? fate : 'ok'
          })
          const killed = createEngine({ store: port }, { worker: 'killed', patience: 20 })
          await killed.collect({ graceMs: -60_000 }).catch(() => undefined)
          if (count < n) isOver = true
          else kills += 1
          await killed.close().catch(() => undefined)
          const rp = await at.engine({ namespace })
          expect((await rp.verify()).faults, where).toEqual([])
          const rows = { k1: textOf(4), k2: textOf(2), k0: textOf(3) }
          for (const name of ['a', 'b']) expect(await rowsOf(rp, name), where).toEqual(rows)
          expect(await rowsOf(rp, 'kept'), where).toEqual({ ...rows, k7: textOf(7) })
          hostOf(rp).register('shelf/', shelf.fold)
          const { chunks } = await rp.collect({ graceMs: -60_000 })
          expect(chunks.unreadable, where).toEqual([])
          expect(await rp.list({ prefix: 'shelf/fork' }), where).toEqual([])
          expect(await rp.verify(), where).toMatchObject({ ok: true, faults: [] })
          expect((await rp.collect({ graceMs: -60_000, dryRun: true })).chunks.swept, where).toBe(0)
          await rp.close()
        }
      }
      expect(kills).toBeGreaterThan(10)
    })
  },
  ['sqlite', 'postgres'],
)
