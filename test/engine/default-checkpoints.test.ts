// Without a policy of its own, every history gets checkpoints: the replay of a recovery is bounded by default.

import { expect, it } from 'vitest'
import { type Reprise, timeline } from '../../src/index.ts'
import { aggregate } from '../../src/layers/events/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const counter = timeline<number, { type: 'added' }>('counter', { initial: () => 0, apply: (count) => count + 1 })
const byHand = timeline<number, { type: 'added' }>('by-hand', {
  initial: () => 0,
  apply: (count) => count + 1,
  checkpoint: {},
})
const account = aggregate('account', {
  initial: () => ({ count: 0 }),
  evolve: { added: (s) => ({ count: s.count + 1 }) },
  decide: { add: (_, c: { times: number }) => Array.from({ length: c.times }, () => ({ type: 'added' as const })) },
})

async function checkpointsOf(rp: Reprise, timeline: string): Promise<number[]> {
  return (await rp.checkpoints(timeline)).map(({ seq }) => seq)
}

onEveryStore(
  'the default policy',
  (world) => {
    it('G9: a timeline and an aggregate of 12,000 entries have a checkpoint, unless disabled', async () => {
      const w = await world()
      const rp = await w.engine()
      const [counted, silent, decided] = [
        await rp.open(counter, 'a'),
        await rp.open(byHand, 'a'),
        await rp.open(account, 'a'),
      ]
      for (let i = 0; i < 12; i++) {
        const some = Array.from({ length: 1000 }, () => ({ type: 'added' as const }))
        await counted.append(some)
        await silent.append(some)
        await decided.do('add', { times: 1000 })
      }
      for (const each of [counted, silent, decided]) await each.close()
      expect(await checkpointsOf(rp, 'by-hand/a')).toEqual([])
      const other = await w.engine()
      for (const [id, opened] of [
        ['counter/a', await other.open(counter, 'a')],
        ['events/account/a', await other.open(account, 'a')],
      ] as const) {
        const [newest] = await checkpointsOf(rp, id)
        expect(newest).toBeGreaterThanOrEqual(10_000)
        expect(opened.recovery.entriesReplayed).toBeLessThan(10_000)
      }
    })
  },
  ['memory', 'sqlite'],
)
