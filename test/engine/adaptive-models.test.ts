// A4.2, A4.3: every model accepts the same checkpoint policy and follows it; its handle and its card report the same.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { CheckpointPolicy } from '../../src/core/checkpoint/checkpoint-policy.ts'
import type { Clock } from '../../src/core/store/ports.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { sha256, systemClock } from '../../src/engine/base/platform.ts'
import { open, timeline } from '../../src/index.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { stateStore, table } from '../../src/layers/table/index.ts'
import { type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import { openMemory } from '../../src/stores/memory/index.ts'
import { cli } from '../cli/support.ts'
import { pause } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

/** Every read of the clock takes time, so every fold seems slow, also folds that a test cannot slow down. */
function slowClock(): Clock {
  let spent = 0
  return {
    ...systemClock,
    elapsed: () => {
      spent += 0.5
      return systemClock.elapsed() + spent
    },
  }
}

/** Writes some entries; called again as long as they are waited for. Gives the timeline. */
type Drive = (rp: Reprise, checkpoint: CheckpointPolicy) => Promise<{ id: string; more(): Promise<unknown> }>

const steps = async (ctx: WorkflowContext) => {
  for (let n = 0; ; n++) {
    const { isLast } = (await ctx.signal('next')) as { isLast: boolean }
    if (isLast) return
    await ctx.step('step', () => n)
  }
}

const account = aggregate('account', {
  initial: () => ({ n: 0 }),
  evolve: { noted: (s, _e: object) => ({ n: s.n + 1 }) },
  decide: { note: () => ({ type: 'noted' }) },
})

const models: Record<string, Drive> = {
  async timeline(rp, checkpoint) {
    const raw = timeline('raw', { initial: () => 0, apply: (n: number, _: { type: 'tick' }) => n + 1, checkpoint })
    const handle = await rp.open(raw, 'x')
    return { id: 'raw/x', more: () => handle.append({ type: 'tick' }) }
  },
  async aggregate(rp, checkpoint) {
    const own = aggregate('own', {
      initial: () => ({ n: 0 }),
      evolve: { noted: (s, _e: object) => ({ n: s.n + 1 }) },
      decide: { note: () => ({ type: 'noted' }) },
      checkpoint,
    })
    const handle = await rp.open(own, 'x')
    return { id: 'events/own/x', more: () => handle.do('note') }
  },
  async table(rp, checkpoint) {
    const rows = await rp.open(table<number>('rows', { checkpoint }))
    return { id: 'table/rows', more: () => rows.set('a', 1) }
  },
  async 'state store'(rp, checkpoint) {
    const store = await rp.open(stateStore<number>('parts', { partitions: 1, checkpoint }))
    return { id: 'table/parts/p0', more: () => store.set('a', 1) }
  },
  async job(rp, checkpoint) {
    let round = 0
    const run = async () => {
      const items = Array.from({ length: 40 }, (_, n) => `${round}-${n}`)
      round += 1
      const numbers = job('numbers', {
        source: () => items,
        key: (each: string) => each,
        each: () => undefined,
        checkpoint,
      })
      await (await rp.run(numbers)).result()
    }
    return { id: 'job/numbers', more: run }
  },
  async workflow(rp, checkpoint) {
    const run = await rp.run(workflow('many', steps, { checkpoint }), { id: '1' })
    return { id: run.timeline, more: () => run.signal('next', { isLast: false }) }
  },
  async agent(rp, checkpoint) {
    const helper = agent('helper', { model: () => ({ content: 'yes' }), checkpoint })
    const session = await rp.open(helper, 'x')
    return { id: 'agent/helper/x', more: () => session.turn('hello') }
  },
  async projection(rp, checkpoint) {
    const totals = projection('totals', {
      from: [account],
      initial: () => ({ n: 0 }),
      on: { noted: (s) => ({ n: s.n + 1 }) },
      checkpoint: { every: 1e9, each: '1d', ...checkpoint },
    })
    const handle = await rp.open(totals)
    const one = await rp.open(account, 'x')
    const more = async () => {
      await one.do('note')
      await handle.catchUp()
    }
    return { id: 'projection/totals@1-1', more }
  },
}

const policies: Record<string, CheckpointPolicy> = {
  count: { every: 7 },
  time: { each: 5 },
  budget: { recoverWithin: '30ms' },
  'failure rate': { failureEvery: 2 },
}

describe.each(Object.entries(models))('A4.2, A4.3: the checkpoint policy of one %s', (name, drive) => {
  it.each(Object.entries(policies))('acts by %s', async (trigger, policy) => {
    const store = openMemory({ namespace: 'default', hash: sha256 })
    await using rp = createEngine({ store, clock: slowClock() }, { worker: 'test' })
    const made = new Set<string>()
    const { id, more } = await drive(rp, policy)
    // The first writes of this model, whatever they are, and then as many as it takes.
    for (let n = 0; n < 2000 && !made.has(trigger); n++) {
      await more()
      for (const record of await rp.checkpoints(id)) made.add(record.trigger)
      await pause(0)
    }
    expect([...made], name).toContain(trigger)
  })

  it('and by nothing else', async () => {
    const store = openMemory({ namespace: 'default', hash: sha256 })
    await using rp = createEngine({ store, clock: slowClock() }, { worker: 'test' })
    const { id, more } = await drive(rp, { every: 1_000_000 })
    for (let n = 0; n < 30; n++) await more()
    const made = (await rp.checkpoints(id)).map((record) => record.trigger)
    // A job captures its state when a round is over.
    expect(made.filter((trigger) => trigger !== 'finished')).toEqual([])
  })
})

const busy = timeline('busy', {
  initial: () => ({ sum: 0 }),
  apply(state, entry: { type: 'add'; by: number }) {
    let sum = state.sum
    for (let n = 0; n < 20_000; n++) sum = (sum + entry.by * n) % 1_000_003
    return { sum }
  },
  checkpoint: { recoverWithin: '5s', failureEvery: 'observed', every: 100_000 },
})

onEveryStore('A4.3, D6: the card', (world) => {
  it('shows the figures of the handle, in this process and in another, also once it is closed', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const handle = await one.open(busy, 'x')
    await handle.append(Array.from({ length: 40 }, () => ({ type: 'add' as const, by: 3 })))
    await handle.checkpoint()
    const figures = (rp: Reprise) => rp.card('busy/x').then((card) => card.checkpointing)
    const { interval, costs, failureEveryMs } = handle.checkpointing
    expect(costs.applyMsPerEntry).toBeGreaterThan(0)
    expect(costs.checkpointMs).toBeGreaterThan(0)
    const { entries, because } = interval
    // Time passes between two observations of a rate.
    expect(await figures(one)).toMatchObject({ from: 'handle', costs, interval: { entries } })
    const elsewhere = await figures(two)
    expect(elsewhere).toMatchObject({ from: 'kept', costs, interval: { entries } })
    expect(elsewhere.because[1]).toBe(because[1])
    expect(elsewhere.failureEveryMs! / failureEveryMs!).toBeCloseTo(1, 2)
    // Ten times as slow: the handle notices at once, other processes after its release.
    await handle.append(Array.from({ length: 10 }, () => ({ type: 'add' as const, by: 5 })))
    expect((await figures(one)).costs).toEqual(handle.checkpointing.costs)
    await handle.close()
    expect((await figures(two)).costs.applyMsPerEntry).toBeGreaterThan(0)
    const again = await two.open(busy, 'x')
    expect(again.checkpointing.costs.checkpointMs).toBe(costs.checkpointMs)
  })
})

it('A4.3: reprise card shows them too, without the code', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-card-'))
  try {
    const url = `sqlite:${join(folder, 'a.db')}`
    await using rp = await open(url)
    const handle = await rp.open(busy, 'x')
    await handle.append(Array.from({ length: 40 }, () => ({ type: 'add' as const, by: 3 })))
    await handle.checkpoint()
    const { interval, costs } = handle.checkpointing
    const { stdout } = await cli(['card', 'busy/x', '--url', url, '--json'], { cwd: folder })
    expect(JSON.parse(stdout).checkpointing).toMatchObject({
      from: 'kept',
      costs,
      interval: { entries: interval.entries },
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
