// Keys of every model over backups, exports and imports, before a receiver that honours them (G5, SPEC A6.5). A restore takes
// the place of the original, in whatever namespace, and an import under its own id too: the same intents keep their keys. A
// copy of a store and an import under another id live beside the original: all their keys are others.

import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { open } from '../../src/index.ts'
import { agent, tool } from '../../src/layers/agent/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { pipeline, type Source, sendSink } from '../../src/layers/pipeline/index.ts'
import { type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import { OutsideLedger } from '../../src/testing/index.ts'
import { added, counter } from '../support/definitions.ts'
import { pause, temporaryFolder, until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const folder = temporaryFolder('carried')
let files = 0
const newFile = () => join(folder, `${++files}.file`)

/** Counts up to a number. Unless that is its end, more may come, and does not. */
function numbers(upTo: number, isEnd: boolean): Source<number> {
  return {
    partitions: async () => ['all'],
    open: async (from) => {
      let at = Number(from?.get('all') ?? 0)
      return {
        partitions: () => ['all'],
        async read() {
          await pause(1)
          if (at < upTo) return { partition: 'all', values: [++at], position: at }
          return isEnd ? null : { partition: 'all', values: [], position: at }
        },
        close: async () => undefined,
      }
    },
  }
}

/** The names under which each model calls the bank. */
const models = ['step', 'item', 'note', 'effect', 'plain', 'ask', 'pay', 'send'] as const

function shop(bank: OutsideLedger) {
  const receive = (name: (typeof models)[number], key: string) => bank.receive(key, name)
  const order = workflow('order', async (ctx: WorkflowContext, _: { readonly cents: number }) => {
    await ctx.signal('go')
    await ctx.step('charge', ({ key }) => receive('step', key))
    return ctx.uuid()
  })
  const items = (list: readonly string[], name = 'items') =>
    job(name, {
      source: list,
      each: async (item: string, ctx) => {
        if (item !== 'b') return
        receive('item', ctx.idempotencyKey)
        await ctx.effect('note', ({ key }) => receive('note', key))
      },
    })
  const clerk = agent('clerk', {
    initial: () => ({}),
    tools: { pay: tool({ kind: 'idempotent', run: (_: unknown, { key }) => void receive('pay', key) }) },
    model: async ({ messages, key }) => {
      const last = messages.at(-1)!
      if (last.content === 'hello') return { content: 'yes?', requests: [] }
      if (last.role === 'tool') return { content: 'paid', requests: [] }
      receive('ask', key)
      return { content: '', requests: [{ tool: 'pay', args: { cents: 5 } }] }
    },
  })
  const flow = (upTo: number, isEnd: boolean, name = 'flow') =>
    pipeline(name, (p) =>
      p.from('numbers', numbers(upTo, isEnd)).to(
        'out',
        sendSink(async (value, { key }) => {
          if (value === 2) receive('send', key)
        }),
      ),
    )
  return {
    order,
    /** All that a backup is made of. */
    async begin(rp: Reprise): Promise<void> {
      await rp.run(order, { cents: 5 }, { id: 'x' })
      await (await rp.run(items(['a']))).result()
      await (await rp.open(counter, 'x')).append(added(1))
      const session = await rp.open(clerk, 'x')
      await session.turn('hello')
      await session.close()
      const run = rp.run(flow(1, false), { checkpoint: { every: 1 } })
      await until(async () => (await rp.checkpoints('pipeline/flow')).length > 0)
      await run.cancel()
      await run.result()
    },
    /** The next action of each model; `of`: the id for models with another one. */
    async charge(rp: Reprise, of = 'x'): Promise<void> {
      await this.signalled(rp, of)
      await this.chargeTimeline(rp, of)
      await this.ask(rp, of)
      await (await rp.run(items(['a', 'b'], of === 'x' ? 'items' : of))).result()
      await rp.run(flow(2, true, of === 'x' ? 'flow' : of)).result()
    },
    async signalled(rp: Reprise, of: string): Promise<string> {
      rp.work([order])
      const run = await rp.run(order, { cents: 5 }, { id: of })
      await run.signal('go', null)
      return await run.result()
    },
    async chargeTimeline(rp: Reprise, of = 'x'): Promise<void> {
      const c = await rp.open(counter, of)
      await c.effects.run('plain', ({ key }) => receive('plain', key))
      await c.effects.run('charge', ({ key }) => receive('effect', key), { input: { cents: 5 } })
      await c.close()
    },
    async ask(rp: Reprise, of = 'x'): Promise<void> {
      const session = await rp.open(clerk, of)
      await session.turn('pay')
      await session.close()
    },
  }
}

/** By model: the number of keys it was called with. */
function keysOf({ calls }: OutsideLedger, names: readonly string[] = models) {
  return names.map((name) => [name, new Set(calls.filter(({ intent }) => intent === name).map(({ key }) => key)).size])
}

const timelines = ['workflow/order/x', 'counter/x', 'agent/clerk/x', 'job/items', 'pipeline/flow']
const each = (count: number) => models.map((name) => [name, count])

onEveryStore('keys of every model', (world) => {
  const namespaced = (namespace: string) => ({ namespace, ports: { namespace } })

  it('stay over a restore into another namespace, and change where the restored store is a copy', async () => {
    const w = await world()
    const bank = new OutsideLedger()
    const all = shop(bank)
    const red = await w.engine(namespaced('red'))
    await all.begin(red)
    const file = newFile()
    await red.backup(file)
    await all.charge(red)
    expect(keysOf(bank)).toEqual(each(1))
    const blue = await w.engine(namespaced('blue'))
    await blue.restore(file)
    await all.charge(blue)
    expect(keysOf(bank)).toEqual(each(1))
    const copy = await w.engine(namespaced('red-copy'))
    await copy.restore(file, { copy: true })
    await all.charge(copy)
    expect(keysOf(bank)).toEqual(each(2))
    // A copy of the same name, in another database.
    const elsewhere = await (await world()).engine(namespaced('red'))
    await elsewhere.restore(file, { copy: true })
    await all.charge(elsewhere)
    expect(keysOf(bank)).toEqual(each(3))
  })

  it('of a rolled back timeline stay those of its branch, after a restore and after a move', async () => {
    const w = await world()
    const bank = new OutsideLedger()
    const all = shop(bank)
    const rp = await w.engine(namespaced('red'))
    await (await rp.open(counter, 'x')).append(added(1))
    await all.chargeTimeline(rp)
    await rp.rollback({ to: { timeline: 'counter/x', seq: 1 } })
    const [backup, file] = [newFile(), newFile()]
    await rp.backup(backup)
    await rp.export({ timeline: 'counter/x', seq: (await rp.head('counter/x'))!.seq }, file)
    await all.chargeTimeline(rp)
    expect(keysOf(bank, ['effect'])).toEqual([['effect', 2]])
    const restored = await (await world()).engine(namespaced('red'))
    await restored.restore(backup)
    const moved = await (await world()).engine(namespaced('red'))
    await moved.import(file)
    for (const other of [restored, moved]) await all.chargeTimeline(other)
    expect(keysOf(bank, ['effect'])).toEqual([['effect', 2]])
    // The next rollback is another branch in each place, and the same one where the archives were imported too.
    for (const other of [rp, restored, moved]) {
      await other.rollback({ to: { timeline: 'counter/x', seq: 1 } })
      await all.chargeTimeline(other)
    }
    expect(keysOf(bank, ['effect'])).toEqual([['effect', 3]])
  })

  it('stay over a move, and change under another id', async () => {
    const w = await world()
    const bank = new OutsideLedger()
    const all = shop(bank)
    const here = await w.engine(namespaced('red'))
    await all.begin(here)
    const moved = new Map<string, string>()
    for (const timeline of timelines) {
      const file = newFile()
      await here.export({ timeline, seq: (await here.head(timeline))!.seq }, file)
      moved.set(timeline, file)
    }
    await all.charge(here)
    const there = await (await world()).engine(namespaced('green'))
    for (const file of moved.values()) await there.import(file)
    await all.charge(there)
    expect(keysOf(bank)).toEqual(each(1))
    for (const [timeline, file] of moved) await here.import(file, { as: timeline.replace(/\w+$/, 'y') })
    await all.charge(here, 'y')
    expect(keysOf(bank)).toEqual(each(2))
    // The copy is exported and moved in its turn: it stays the one that it is.
    const again = await (await world()).engine(namespaced('blue'))
    const file = newFile()
    // No worker takes the copy before it is exported: it would have drawn by then, and would have other entries.
    await here.close()
    const still = await w.engine(namespaced('red'))
    await still.import(moved.get('workflow/order/x')!, { as: 'workflow/order/z' })
    await still.export({ timeline: 'workflow/order/z', seq: (await still.head('workflow/order/z'))!.seq }, file)
    await again.import(file)
    const charged = bank.calls.length
    const drawn = await Promise.all([still, again].map((rp) => all.signalled(rp, 'z')))
    for (const id of ['x', 'y']) drawn.push(await (await still.run(all.order, { cents: 5 }, { id })).result())
    const [first, second] = bank.calls.slice(charged)
    expect(second!.key).toBe(first!.key)
    expect(keysOf(bank, ['step'])).toEqual([['step', 3]])
    // Copies draw random values of their own.
    expect(new Set(drawn).size).toBe(drawn.length)
  })
})

describe('keys in a set of shards', () => {
  it('stay where timelines move to a shard that is added, and no two timelines of any shard share one', async () => {
    const [bank, till] = [new OutsideLedger(), new OutsideLedger()]
    const all = shop(bank)
    const urls = ['a', 'b', 'c'].map((name) => `sqlite:${join(folder, `${name}.db`)}`)
    const ids = Array.from({ length: 24 }, (_, n) => `n${n}`)
    const chargeAll = async (rp: Reprise) => {
      await all.charge(rp)
      for (const id of ids) {
        const handle = await rp.open(counter, id)
        await handle.effects.run('charge', ({ key }) => till.receive(key, id), { input: { cents: 5 } })
        await handle.close()
      }
    }
    const two = await open({ shards: urls.slice(0, 2), housekeeping: false })
    await all.begin(two)
    for (const id of ids) await (await two.open(counter, id)).close()
    const file = newFile()
    await two.backup(file)
    const { moved } = await two.addShard(urls[2]!, { wait: 0 })
    expect(moved).toBeGreaterThan(0)
    await two.close()
    const three = await open({ shards: urls, housekeeping: false })
    await chargeAll(three)
    await three.close()
    // The same store as it was before: a single database takes its place.
    const one = await open(`sqlite:${join(folder, 'one.db')}`, { housekeeping: false })
    await one.restore(file)
    await chargeAll(one)
    await one.close()
    expect(keysOf(bank)).toEqual(each(1))
    expect([till.confused, new Set(till.calls.map(({ key }) => key)).size]).toEqual([[], ids.length])
    expect(till.calls).toHaveLength(2 * ids.length)
  })
})
