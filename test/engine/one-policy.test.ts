// One policy for whatever is called: each word, thrown in each model, means the same (docs/decisions/one-policy.md).

import { describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../src/engine/base/platform.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { GiveUp, type Reprise, RetryLater, type RetryPolicy } from '../../src/index.ts'
import * as agents from '../../src/layers/agent/index.ts'
import * as events from '../../src/layers/events/index.ts'
import * as jobs from '../../src/layers/job/index.ts'
import * as memos from '../../src/layers/memo/index.ts'
import * as migrating from '../../src/layers/migrate/index.ts'
import * as pipelines from '../../src/layers/pipeline/index.ts'
import * as workflows from '../../src/layers/workflow/index.ts'
import { pause, until } from '../support/fixture.ts'
import { handClock } from '../support/hand-clock.ts'
import { onEveryStore } from '../support/worlds.ts'

type Outcome = 'done' | 'failed'
/** Runs one call in its model, under this policy, and returns its outcome. */
type EntryRun = (rp: Reprise, call: () => void, retry: RetryPolicy) => Promise<Outcome>

const settled = (work: Promise<unknown>): Promise<Outcome> =>
  work.then(
    () => 'done',
    () => 'failed',
  )

const account = events.aggregate('account', {
  initial: () => ({ n: 0 }),
  decide: { touch: () => ({ type: 'touched' as const }) },
  evolve: { touched: (state: { n: number }) => ({ n: state.n + 1 }) },
})
const touch = async (rp: Reprise) => void (await (await rp.open(account, 'a')).do('touch'))

const models: Readonly<Record<string, EntryRun>> = {
  async 'an item of a job'(rp, call, retry) {
    const report = await (await rp.run(jobs.job('j', { source: ['a'], each: call, retry }))).result()
    return report.failed === 0 ? 'done' : 'failed'
  },
  async 'an entry of a consumer'(rp, call, retry) {
    await touch(rp)
    const reading = jobs.consumer('c', { from: [account], follow: false, each: call, retry })
    const report = await (await rp.run(reading)).result()
    return report.failed === 0 ? 'done' : 'failed'
  },
  async 'a step of a workflow'(rp, call, retry) {
    const flow = workflows.workflow('w', (ctx) => ctx.step('call', () => call()), { retry })
    return await settled((await rp.run(flow, { id: '1' })).result())
  },
  async 'a compensation of a workflow'(rp, call, retry) {
    const flow = workflows.workflow('u', async (ctx) => {
      await ctx.step('do', () => 1, { compensate: () => call(), compensateRetry: retry })
      throw new GiveUp('undo it')
    })
    const run = await rp.run(flow, { id: '1' })
    for (;;) {
      const { status } = await run.status()
      if (status === 'failed') return 'done'
      if (status === 'stuck') return 'failed'
      await pause(5)
    }
  },
  async 'a tool of an agent'(rp, call, retry) {
    const use = agents.tool({ kind: 'irreversible', retry, run: () => call() })
    const session = await rp.open(agents.agent('t', { tools: { use } }), 's')
    return (await session.use('use', null)).kind === 'result' ? 'done' : 'failed'
  },
  async 'a model call'(rp, call, retry) {
    const model = () => {
      call()
      return { content: 'hello' }
    }
    return await settled((await rp.open(agents.agent('m', { model, modelCalls: { retry } }), 's')).turn('go'))
  },
  async 'a handler of a projection'(rp, call, retry) {
    await touch(rp)
    const view = events.projection('p', { from: [account], initial: () => 0, on: { touched: () => call() }, retry })
    return await settled((await rp.open(view)).catchUp())
  },
  async 'a reaction of a process manager'(rp, call, retry) {
    await touch(rp)
    const manager = events.processManager('pm', { from: [account], on: { touched: () => call() }, retry })
    return await settled((await rp.open(manager)).catchUp())
  },
  async 'a call of a pipeline'(rp, call, retry) {
    const drawn = pipelines.pipeline('calls', (p) => {
      p.from('in', pipelines.valueSource([1]))
        .call('call', async () => call(), { retry })
        .to('out', pipelines.collectSink())
    })
    const report = await rp.run(drawn).result()
    return report.deadLetters === 0 ? 'done' : 'failed'
  },
  async 'a result that is sent by a pipeline'(rp, call, retry) {
    const drawn = pipelines.pipeline('sends', (p) => {
      p.from('in', pipelines.valueSource([1])).to(
        'out',
        pipelines.sendSink(async () => call(), { retry }),
      )
    })
    return await settled(rp.run(drawn).result())
  },
  async 'a page that a pipeline reads'(rp, call, retry) {
    const page = async () => {
      call()
      return { items: [1], next: null }
    }
    const drawn = pipelines.pipeline('pages', (p) => {
      p.from('in', pipelines.pageSource<number, string>(page, { retry })).to('out', pipelines.collectSink())
    })
    return await settled(rp.run(drawn).result())
  },
  async 'a function of a memo'(rp, call, retry) {
    return await settled((await rp.open(memos.memo('f', { version: 1, retry, run: () => call() }))).call())
  },
  async 'a step of a migration'(rp, call, retry) {
    const steps = [{ id: '001', run: () => call() }]
    return await settled((await rp.run(migrating.migrations('m', { steps, retry }))).result())
  },
}

/** Throws these, one per call, then succeeds. It reads no clock: handlers may not. */
function throwing(...errors: unknown[]): { call: () => void; made(): number } {
  let count = 0
  const call = () => {
    const error = errors[count++]
    if (error) throw error
  }
  return { call, made: () => count }
}

/** Its result, and its minimum duration. */
async function timed<T>(work: Promise<T>): Promise<{ readonly outcome: T; readonly ms: number }> {
  const before = systemClock.elapsed()
  const outcome = await work
  return { outcome, ms: systemClock.elapsed() - before }
}

const quick = { backoff: 1, backoffMax: 2 }
const busy = () => Object.assign(new Error('429'), { status: 429, headers: { 'retry-after-ms': '30' } })

onEveryStore(
  'one policy',
  (world) => {
    describe.each(Object.entries(models))('%s', (_, run) => {
      it('that throws RetryLater is called again then, however often, and has used up no attempt', async () => {
        const { call, made } = throwing(new RetryLater(30), new RetryLater(30), new RetryLater(30))
        const { outcome, ms } = await timed(run(await (await world()).engine(), call, { attempts: 1 }))
        expect([outcome, made()]).toEqual(['done', 4])
        expect(ms).toBeGreaterThanOrEqual(85)
      })

      it('that throws GiveUp has failed at once, and so has one whose request is refused', async () => {
        for (const error of [new GiveUp('no'), Object.assign(new Error('404'), { status: 404 })]) {
          const { call, made } = throwing(error)
          expect(await run(await (await world()).engine(), call, { ...quick, attempts: 5 })).toBe('failed')
          expect(made()).toBe(1)
        }
      })

      it('that fails is called as often as its policy allows', async () => {
        const { call, made } = throwing(new Error('1'), new Error('2'), new Error('3'))
        expect(await run(await (await world()).engine(), call, { ...quick, attempts: 2 })).toBe('failed')
        expect(made()).toBe(2)
      })

      it('with a retry time is repeated then', async () => {
        const { call, made } = throwing(busy())
        const { outcome, ms } = await timed(run(await (await world()).engine(), call, { ...quick, attempts: 2 }))
        expect([outcome, made()]).toEqual(['done', 2])
        expect(ms).toBeGreaterThanOrEqual(29)
      })
    })

    it('a delivery that throws is decided again, and refused if it gives up', async () => {
      const rp = await (await world()).engine()
      const { call, made } = throwing(new RetryLater(30), new GiveUp('no'))
      const refused: string[] = []
      const target = events.aggregate('target', {
        initial: () => ({ n: 0 }),
        decide: {
          set: (_: { n: number }, n: number) => {
            call()
            return { type: 'set' as const, n }
          },
        },
        evolve: { set: (_: { n: number }, { n }: { n: number }) => ({ n }) },
      })
      const watching = events.processManager('watching', {
        from: [target],
        on: {},
        onRefused: ({ reason }) => void refused.push(reason),
      })
      rp.work([target, watching])
      await events.sendCommand(hostOf(rp), events.commandTo(target, 't', 'set', 1))
      // The second is sent when the first was refused: a delivery that pauses does not block others.
      await until(() => refused.length !== 0)
      await events.sendCommand(hostOf(rp), events.commandTo(target, 't', 'set', 2))
      const held = await rp.open(target, 't')
      while (held.state.n !== 2) {
        await pause(5)
        await held.refresh()
      }
      expect(refused).toEqual(['no'])
      expect(made()).toBe(3)
    })

    it.each(['an item of a job', 'a step of a migration'] as const)(
      'the pause of %s outlives its process',
      async (name) => {
        const w = await world()
        const time = handClock()
        const { call, made } = throwing(new RetryLater('2h'), new RetryLater('2h'))
        for (let process = 1; process <= 3; process++) {
          const rp = await w.engine({ ports: { clock: time.clock } })
          const running = models[name]!(rp, call, { attempts: 1 })
          running.catch(() => undefined)
          // Begun by another: it is not made before its time.
          await pause(30)
          if (process > 1) expect(made()).toBe(process - 1)
          // The store's clock goes by itself: what passed in the process before has not passed there.
          if (process > 1) time.pass(7_200_000 * (process - 1))
          await vi.waitFor(() => expect(made()).toBe(process), 120_000)
          if (process === 3) expect(await running).toBe('done')
          await pause(30)
          await rp.close({ grace: 0 })
        }
      },
    )
  },
  ['memory'],
)
