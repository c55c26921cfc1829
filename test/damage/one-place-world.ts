// The data of the tests of one damaged place: a table, a paged table, five saves, a timeline with trimmed history, one with
// little state, a projection, a workflow, a job and an agent, all with their default settings, and the expected value of each.

import type { Reprise } from '../../src/engine/api/reprise.ts'
import { isReprise, timeline } from '../../src/index.ts'
import { agent, tool } from '../../src/layers/agent/index.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pagedTable, table } from '../../src/layers/table/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { collect, noise } from '../entities/support.ts'

const rows = table<string>('rows', { checkpoint: {} })
const pages = pagedTable<string>('pages', { cacheBytes: 20_000, changedRows: 1000 })
const weights = save<{ texts: readonly string[] }>('weights', { keep: 5 })
const needed = { checkpoints: 2, history: 'needed' as const }
const trimmed = timeline('trimmed', {
  initial: () => ({ texts: [] as readonly string[] }),
  apply: (state, { text }: { type: 'row'; text: string }) => ({ texts: [...state.texts, text].slice(-40) }),
  retain: needed,
})
const little = timeline('little', {
  initial: () => ({ sum: 0 }),
  apply: (state, { by }: { type: 'add'; by: number }) => ({ sum: state.sum + by }),
  retain: needed,
})
const log = aggregate('log', {
  initial: () => 0,
  evolve: { noted: (s: number, _e: { text: string }) => s + 1 },
  decide: { note: (_s, c: { text: string }) => ({ type: 'noted', text: c.text }) },
})
const lengths = projection('lengths', {
  from: [log],
  initial: () => ({ texts: [] as readonly string[] }),
  on: { noted: (s, e) => ({ texts: [...s.texts, e.text].slice(-20) }) },
})

const trip = workflow('trip', async (ctx, to: string) => {
  const hotel = await ctx.step('hotel', () => `${to} hotel`)
  return [hotel, await ctx.step('flight', () => `${to} flight`)]
})
const letters = job('letters', {
  source: Array.from({ length: 12 }, (_, i) => ({ id: `l${i}` })),
  key: (item) => item.id,
  each: () => undefined,
})
const guide = agent('guide', {
  model: ({ messages }) =>
    messages.at(-1)?.role === 'tool'
      ? { content: `booked ${noise(messages.length, 900)}` }
      : { content: '', requests: [{ tool: 'book', args: { n: messages.length } }] },
  tools: { book: tool({ kind: 'idempotent', run: ({ n }: { n: number }) => ({ booked: n }) }) },
})

/** Trims history behind the newest checkpoints of every model, and sweeps. */
export async function fill(rp: Reprise): Promise<void> {
  const [t, p, s] = [await rp.open(rows), await rp.open(pages), await rp.open(weights)]
  const [w, l, a] = [await rp.open(trimmed, 'w'), await rp.open(little, 'l'), await rp.open(log, 'x')]
  const projected = await rp.open(lengths)
  for (let round = 0; round < 7; round++) {
    for (let i = 0; i < 12; i++) {
      await t.set(`k${(round * 7 + i) % 50}`, noise(round * 100 + i, 1500))
      await p.set(`k${(round * 11 + i) % 50}`, noise(round * 100 + i, 1500))
      await w.append({ type: 'row', text: noise(round * 100 + i, 900) })
      await l.append({ type: 'add', by: i })
      await a.do('note', { text: noise(round * 100 + i, 700) })
    }
    await Promise.all([t.checkpoint(), p.checkpoint(), w.checkpoint(), l.checkpoint()])
    await s.put({ texts: Array.from({ length: 30 }, (_, i) => noise(i < 28 ? i : round * 50 + i, 1200)) })
    await projected.catchUp()
    await projected.checkpoint()
  }
  rp.work([trip])
  await (await rp.run(trip, 'Oslo', { id: 'oslo' })).result()
  await (await rp.run(letters)).result()
  const a1 = await rp.open(guide, 'ann')
  for (const input of ['one', 'two', 'three']) await a1.turn(input)
  await a1.checkpoint()
  const { timeline: oslo, seq } = (await rp.head('workflow/trip/oslo'))!
  await rp.savepoint({ timeline: oslo, seq }, { label: 'there' })
  await rp.collect({ graceMs: 0 })
}

/** The readable value of each, by name, or the error. */
export async function tell(rp: Reprise): Promise<Record<string, string>> {
  const told: Record<string, string> = {}
  const read = async (name: string, work: () => Promise<unknown>) => {
    try {
      told[name] = JSON.stringify(await work())
    } catch (error) {
      told[name] = isReprise(error) ? `${error.code}: ${error.message}` : String((error as Error).stack)
    }
  }
  await read('table', async () => [...(await rp.open(rows)).entries()])
  await read('paged table', async () => await collect((await rp.open(pages)).entries()))
  await read('trimmed', async () => (await rp.open(trimmed, 'w')).state)
  await read('little', async () => (await rp.open(little, 'l')).state)
  await read('projection', async () => await (await rp.open(lengths)).catchUp())
  await read('saves', async () => {
    const reader = weights.read(rp)
    const saved = await reader.list()
    const values: unknown[] = []
    for (const { id } of saved) values.push((await reader.load(id)).value)
    return values
  })
  await read('workflow', async () => await (await rp.run(trip, 'Oslo', { id: 'oslo' })).result())
  await read('job', async () => {
    const { status, done, skipped } = await (await rp.run(letters)).result()
    return { status, items: done + skipped }
  })
  await read('agent', async () => (await rp.open(guide, 'ann')).messages.map(({ role, content }) => [role, content]))
  return told
}

/** The differences from the expected values, and their errors. */
export function differences(truth: Record<string, string>, told: Record<string, string>, where: string): string[] {
  return Object.keys(truth)
    .filter((name) => told[name] !== truth[name])
    .map((name) => `${where}, ${name}: ${told[name]?.slice(0, 200)}`)
}
