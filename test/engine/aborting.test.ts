// Whatever waits for others takes an AbortSignal: it rejects with ABORTED as soon as that fires, and nothing waits here any more
// (docs/decisions/handles.md). Each waits for something that never comes.

import { expect, it } from 'vitest'
import { open } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { timeline } from '../../src/engine/api/timeline-definition.ts'
import { agent } from '../../src/layers/agent/index.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { memo } from '../../src/layers/memo/index.ts'
import { migrations } from '../../src/layers/migrate/index.ts'
import { collectSink, pipeline, type Source } from '../../src/layers/pipeline/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { slowStore } from '../../src/testing/slow-store.ts'
import { newGate, pause } from '../support/fixture.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const counter = timeline('counter', {
  initial: () => 0,
  apply: (n: number, e: { type: 'added'; by: number }) => n + e.by,
})
const account = aggregate('account', {
  initial: () => 0,
  evolve: { paid: (n: number, e: { cents: number }) => n + e.cents },
  decide: { pay: (_: number, cents: number) => ({ type: 'paid' as const, cents }) },
})
const sums = projection('sums', { from: [account], initial: () => 0, on: { paid: (n: number) => n + 1 } })

/** Gives nothing, until the run ends. */
const endless: Source<number> = {
  open: async (_from, { signal }) => ({
    read: () => new Promise((resolve) => signal.addEventListener('abort', () => resolve(null), { once: true })),
    partitions: () => ['0'],
    close: async () => undefined,
  }),
}

/** A signal that counts its listeners. */
function counted() {
  const controller = new AbortController()
  const { signal } = controller
  const listening = new Set<unknown>()
  const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)]
  signal.addEventListener = (type: string, call: never, options?: { readonly once?: boolean }) => {
    listening.add(call)
    add(type, call, options as never)
    // One that is called once is gone when it was.
    if (options?.once) add(type, () => listening.delete(call), { once: true })
  }
  signal.removeEventListener = (type: string, call: never, options?: never) => {
    listening.delete(call)
    remove(type, call, options)
  }
  return { controller, signal, listening }
}

function gate() {
  const { opened: whenOpen, open } = newGate()
  return { whenOpen, open: () => open() }
}

/** `wait` is in progress; `go` ends it, so that the engine can be closed. */
interface Waiting {
  readonly wait: PromiseLike<unknown>
  readonly go?: () => void
}

type Begin = (rp: Reprise, signal: AbortSignal, world: World) => Promise<Waiting>

/** An engine whose store does not answer one kind of question until the gate is open. */
async function stuckAt(world: World, method: string) {
  const { whenOpen, open } = gate()
  let isStuck = false
  const store = slowStore(await world.store(), (asked) => (isStuck && asked === method ? whenOpen : undefined))
  const rp = await world.engine({ ports: { store } })
  return { rp, stick: () => (isStuck = true), open }
}

const waits: Readonly<Record<string, Begin>> = {
  'open, for a live owner': async (rp, signal, world) => {
    await (await world.engine()).open(counter, 'held')
    return { wait: rp.open(counter, 'held', { wait: '1h', signal }) }
  },
  'the result of a workflow': async (rp, signal) => {
    const run = await rp.run(workflow('waits', async (ctx) => ctx.signal('never')))
    return { wait: run.result({ signal }) }
  },
  'the update of a workflow': async (rp, signal) => {
    const waiting = workflow('waits', async (ctx) => {
      ctx.onUpdate('ask', async () => ctx.signal('never'))
      await ctx.signal('end')
    })
    const run = await rp.run(waiting)
    return { wait: run.update('ask', 1, { signal }) }
  },
  'the result of a job': async (rp, signal) => {
    const { whenOpen, open } = gate()
    const run = await rp.run(job('papers', { source: ['a'], key: (each) => each, each: () => whenOpen }))
    return { wait: run.result({ signal }), go: open }
  },
  'the result of migrations': async (rp, signal) => {
    const { whenOpen, open } = gate()
    const run = await rp.run(migrations('schema', { steps: [{ id: '1', run: () => whenOpen }] }))
    return { wait: run.result({ signal }), go: open }
  },
  ...Object.fromEntries(
    (['checkpoint', 'savepoint', 'stop'] as const).map((verb): readonly [string, Begin] => [
      `${verb} of a pipeline`,
      async (_, signal, world) => {
        const { rp, stick, open } = await stuckAt(world, 'commit')
        const run = await rp.run(
          pipeline('endless', (p) => p.from('none', endless).to('out', collectSink())),
          {},
        )
        await run.started()
        stick()
        return { wait: run[verb]({ signal }), go: open }
      },
    ]),
  ),
  'the result of a pipeline': async (rp, signal) => {
    const run = await rp.run(
      pipeline('endless', (p) => p.from('none', endless).to('out', collectSink())),
      {},
    )
    return { wait: run.result({ signal }) }
  },
  'the start of a pipeline': async (_, signal, world) => {
    const { rp, stick, open } = await stuckAt(world, 'checkpoints')
    stick()
    const run = await rp.run(
      pipeline('endless', (p) => p.from('none', endless).to('out', collectSink())),
      {},
    )
    return { wait: run.started({ signal }), go: open }
  },
  'the result of a memo': async (rp, signal) => {
    const { whenOpen, open } = gate()
    const late = await rp.open(memo('late', { version: 1, run: () => whenOpen.then(() => 1) }))
    return { wait: late.recall([], { signal }), go: open }
  },
  'catchUp of a projection': async (_, signal, world) => {
    const { rp, stick, open } = await stuckAt(world, 'feed')
    const handle = await rp.open(sums)
    stick()
    return { wait: handle.catchUp({ signal }), go: open }
  },
  'a turn of a session': async (rp, signal) => {
    const { whenOpen, open } = gate()
    const guide = agent('guide', { model: () => whenOpen.then(() => ({ content: 'late' })) })
    return { wait: (await rp.open(guide, 's')).turn('hello', { signal }), go: open }
  },
  'a cut of a group': async (_, signal, world) => {
    const { rp, stick, open } = await stuckAt(world, 'read')
    const one = await rp.open(counter, 'a')
    await one.append({ type: 'added', by: 1 })
    // Not open any more: its state has to be read from history.
    await one.close()
    stick()
    return { wait: rp.groups.capture('cut', ['counter/a'], { timeout: '1h', signal }), go: open }
  },
  'the restore of a group, for a live owner': async (rp, signal, world) => {
    const one = await rp.open(counter, 'a')
    await one.append({ type: 'added', by: 1 })
    await rp.groups.capture('cut', ['counter/a'])
    await one.append({ type: 'added', by: 2 })
    await one.close()
    await (await world.engine()).open(counter, 'a')
    return { wait: rp.groups.restore({ cut: 'cut' }, { wait: '1h', signal }) }
  },
  'a move, for a live owner': async (rp, signal, world) => {
    await (await world.engine()).open(counter, 'a')
    await (await rp.open(counter, 'b')).close()
    return { wait: rp.move('counter/a', await world.engine({ namespace: 'other' }), { wait: '1h', signal }) }
  },
}

onEveryStore(
  'a wait',
  (world) => {
    it.each(Object.keys(waits))(
      'that is aborted rejects with ABORTED, and nothing listens any more: %s',
      async (name) => {
        const w = await world()
        const { controller, signal, listening } = counted()
        const { wait, go } = await waits[name]!(await w.engine(), signal, w)
        const outcome = Promise.resolve(wait).then(
          () => 'it came to its end',
          (error) => error,
        )
        // It waits: whatever else is ready in this moment does not end it.
        await pause(20)
        controller.abort(new Error('enough'))
        const settled = await outcome
        go?.()
        expect(settled).toMatchObject({ code: 'ABORTED', cause: controller.signal.reason })
        expect([...listening]).toEqual([])
      },
    )

    it('that was aborted before it began does nothing', async () => {
      const rp = await (await world()).engine()
      const signal = AbortSignal.abort()
      const aborted = { code: 'ABORTED' }
      const one = await rp.open(account, 'ann')
      const run = await rp.run(workflow('waits', async (ctx) => ctx.signal('never')))
      await expect(one.do('pay', 1, { signal })).rejects.toMatchObject(aborted)
      await expect((await rp.open(counter, 'a')).append({ type: 'added', by: 1 }, { signal })).rejects.toMatchObject(
        aborted,
      )
      await expect(run.update('ask', 1, { signal })).rejects.toMatchObject(aborted)
      await expect(rp.groups.capture('cut', ['counter/a'], { signal })).rejects.toMatchObject(aborted)
      await expect(rp.verify({ signal })).rejects.toMatchObject(aborted)
      await expect((await rp.open(sums)).catchUp({ signal })).rejects.toMatchObject(aborted)
      expect(one.coordinate.seq).toBe(0)
      expect(await rp.groups.cuts()).toEqual([])
      expect((await rp.head(run.timeline))?.mail).toBe(0)
    })
  },
  ['memory'],
)

it('one signal serves 10,000 waits of every kind: Node.js warns of no leak', async () => {
  const warnings: string[] = []
  const hear = ({ name, message }: Error) => warnings.push(`${name}: ${message}`)
  process.on('warning', hear)
  const rp = await open('memory:')
  const { signal } = new AbortController()
  const gate = newGate()
  const waiting = rp.run(workflow('waiting', async (ctx) => await ctx.signal<number>('go')))
  const working = rp.run(job('working', { source: ['a'], each: () => gate.opened }))
  const results = Array.from({ length: 10_000 }, (_, n) => (n % 2 === 0 ? waiting : working).result({ signal }))
  await (await waiting).signal('go', 7)
  gate.open()
  expect(new Set((await Promise.all(results)).map((value) => (value === 7 ? 7 : 'report')))).toEqual(
    new Set([7, 'report']),
  )
  // Warnings are emitted in the next tick.
  await new Promise((resolve) => setImmediate(resolve))
  await rp.close()
  process.off('warning', hear)
  expect(warnings).toEqual([])
})
