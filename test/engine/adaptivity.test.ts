// A4.3, G9: checkpoints by what recovery would cost. In the time of a CostClock everything is exact: a recovery is within
// its budget or it is not.

import { describe, expect, it } from 'vitest'
import type { CheckpointPolicy } from '../../src/core/checkpoint/checkpoint-policy.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import { timeline } from '../../src/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { CostClock, costlyStore, type StoreCosts, settle } from '../support/cost-clock.ts'
import { seeded } from '../support/seeded.ts'

const cheap: StoreCosts = { commitMs: 0.2, readMs: 0.3, msPerByte: 1 / 50_000 }

interface Item {
  readonly type: 'item' | 'milestone'
  readonly text: string
}

function world(costs: StoreCosts = cheap) {
  const clock = new CostClock()
  const shared = createWorld()
  const engine = (): { rp: Reprise; kill(): void } => {
    const store = openMemory({ namespace: 'default', hash: sha256, world: shared, clock: () => clock.now })
    const view = clock.view()
    const rp = createEngine({ store: costlyStore(store, clock, costs), clock: view.clock }, { worker: 'test' })
    return { rp, kill: view.kill }
  }
  return { clock, engine }
}

/** A timeline whose fold takes `costMs` per entry, and whose state grows by the entries' text. */
function slowFold(clock: CostClock, checkpoint: CheckpointPolicy, costMs: (item: Item) => number) {
  return timeline('slow', {
    initial: (): { count: number; texts: readonly string[] } => ({ count: 0, texts: [] }),
    apply(state, item: Item) {
      clock.spend(costMs(item))
      return { count: state.count + 1, texts: item.text === '' ? state.texts : [...state.texts, item.text] }
    },
    checkpoint,
  })
}

const item = (text = ''): Item => ({ type: 'item', text })

describe('a recovery-time budget', () => {
  it('A4.3: recoverWithin 200ms with a fold of 0.5 ms per entry holds from the first minute on, in each new process', async () => {
    const { clock, engine } = world()
    const slow = slowFold(clock, { recoverWithin: '200ms' }, () => 0.5)
    for (let life = 0; life < 5; life++) {
      const { rp, kill } = engine()
      const opened = await rp.open(slow, 'x', { takeover: true })
      expect(opened.recovery.totalMs).toBeLessThanOrEqual(200)
      // Known before this process has folded a single entry.
      if (life > 0) expect(opened.checkpointing.costs.applyMsPerEntry).toBeCloseTo(0.5, 1)
      for (let n = 0; n < 500 + life * 11; n++) {
        await opened.append(item())
        expect(opened.checkpointing.entriesSince * 0.5).toBeLessThan(200)
      }
      kill()
    }
  })

  it('G9: with any costs, a process killed at any moment recovers within the budget, or reported that it cannot', async () => {
    let kept = 0
    const seeds = Number(process.env.REPRISE_BUDGET_SEEDS ?? 12)
    for (let seed = Number(process.env.REPRISE_BUDGET_FROM ?? 1); seed <= seeds; seed++) {
      const random = seeded(seed)
      const between = (least: number, most: number) => least * (most / least) ** random()
      const { clock, engine } = world({
        commitMs: between(0.05, 2),
        readMs: between(0.05, 2),
        msPerByte: 1 / between(5_000, 100_000),
      })
      const budgetMs = Math.round(between(60, 3000))
      const meanMs = between(0.05, 5)
      const isUneven = random() < 0.3
      const text = random() < 0.4 ? 'x'.repeat(Math.round(between(10, 2000))) : ''
      const gapMs = random() < 0.5 ? 0 : between(0.1, 20)
      const cost = () => (isUneven ? (random() < 0.02 ? 20 * meanMs : meanMs / 2) : meanMs * (0.5 + random()))
      const slow = slowFold(clock, { recoverWithin: budgetMs }, cost)
      for (let life = 0; life < 4; life++) {
        const { rp, kill } = engine()
        const opened = await rp.open(slow, 'x', { takeover: true })
        const where = `seed ${seed}, life ${life}: ${opened.recovery.totalMs} of ${budgetMs} ms`
        const isPromised = !opened.checkpointing.interval.because.join().includes('is not possible')
        if (isPromised) expect(opened.recovery.totalMs, where).toBeLessThanOrEqual(budgetMs)
        kept += isPromised ? 1 : 0
        const entries = Math.min(600, Math.round(between(1, 3) * (budgetMs / meanMs) * random()) + 1)
        for (let n = 0; n < entries; n++) {
          await opened.append(item(text && text + n))
          clock.tick()
          if (gapMs > 0 && n % 8 === 0) await clock.pass(8 * gapMs)
        }
        kill()
      }
    }
    expect(kept).toBeGreaterThan(2 * seeds)
  })

  it('A4.3: a limit that had to wait, so that checkpoints do not run back to back, needs no append to be reached', async () => {
    const { clock, engine } = world({ ...cheap, commitMs: 30 })
    const { rp } = engine()
    const opened = await rp.open(
      slowFold(clock, { recoverWithin: '100ms' }, () => 1),
      'x',
    )
    await opened.append(item())
    await opened.checkpoint()
    // More than the budget in one go, before a checkpoint would have been written.
    await opened.append(Array.from({ length: 200 }, () => item()))
    const before = opened.checkpointing.lastSeq!
    await clock.pass(1000)
    expect(opened.checkpointing.lastSeq).toBeGreaterThan(before)
    expect(opened.checkpointing.entriesSince).toBe(0)
  })
})

describe('a failure rate', () => {
  it('A4.3: failureEvery takes the interval that it prints', async () => {
    const { clock, engine } = world()
    const { rp } = engine()
    const opened = await rp.open(
      slowFold(clock, { failureEvery: '1d' }, () => 0),
      'x',
    )
    for (let round = 0; round < 3; round++) {
      await opened.append(item())
      await opened.checkpoint()
      const { ms } = opened.checkpointing.interval
      expect(ms).toBeGreaterThan(1000)
      expect(ms).toBeLessThan(120_000)
      const before = opened.checkpointing.lastSeq!
      await opened.append(item())
      await clock.pass(ms! * 0.9)
      expect(opened.checkpointing.lastSeq).toBe(before)
      await clock.pass(ms! * 0.2)
      expect(opened.checkpointing.lastSeq).toBe(before + 1)
    }
  })

  it('A4.3: each trigger of a mix fires at its own limit, whichever comes first', async () => {
    const { clock, engine } = world()
    const { rp } = engine()
    const policy = { every: 300, each: '10m', recoverWithin: '2s', failureEvery: '1d', on: ['milestone'] } as const
    let costMs = 0
    const opened = await rp.open(
      slowFold(clock, policy, () => costMs),
      'x',
    )
    const triggers: string[] = []
    rp.events.on('checkpoint-published', ({ trigger }) => triggers.push(trigger))
    await opened.append(Array.from({ length: 300 }, () => item()))
    await settle()
    await opened.append({ type: 'milestone', text: '' })
    await settle()
    await opened.append(item())
    await clock.pass(opened.checkpointing.interval.ms! + 1)
    costMs = 100
    for (let n = 0; n < 20; n++) await opened.append(item())
    await settle()
    expect(triggers.slice(0, 4)).toEqual(['count', 'event', 'failure rate', 'budget'])
  })

  it('A4.3: observed instead of stated: deaths count, clean ends and live takeovers do not, and it is kept', async () => {
    const { clock, engine } = world()
    const slow = slowFold(clock, { failureEvery: 'observed' }, () => 0)
    const hour = 3_600_000
    let seen = 0
    for (let life = 0; life < 20; life++) {
      const { rp, kill } = engine()
      const opened = await rp.open(slow, 'x')
      await opened.append(item())
      await clock.pass(hour)
      seen = opened.checkpointing.failureEveryMs!
      const isClean = life % 4 !== 0
      if (isClean) await rp.close()
      kill()
      // Its lease runs out.
      await clock.pass(60_000)
    }
    // 5 deaths in 20 hours, and the assumed one in a day.
    expect(seen / hour).toBeGreaterThan(6)
    expect(seen / hour).toBeLessThan(9)
    const { rp } = engine()
    const opened = await rp.open(slow, 'x')
    expect(opened.checkpointing.interval.because[0]).toContain('a failure is observed every')
    const again = await engine().rp.open(slow, 'x', { takeover: true })
    expect(Math.abs(again.checkpointing.failureEveryMs! - opened.checkpointing.failureEveryMs!)).toBeLessThan(
      hour / 100,
    )
  })
})
