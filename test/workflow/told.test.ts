// The reports of a run: that it is held, its waits, that it sleeps, that no handler accepts an update, that a step failed
// without an observer, and that two definitions have one name.

import { expect, it } from 'vitest'
import { summarizeWorkflow, type WorkflowContext, workflow, workflows } from '../../src/layers/workflow/index.ts'
import { kitWith } from './kits.ts'

const failed = async (promise: Promise<unknown>): Promise<{ code: string; message: string }> =>
  await promise.then(
    () => ({ code: 'none', message: '' }),
    (error) => error,
  )

it('the result of a held run is refused with the reason; a caller that wants to wait for a person can', async () => {
  const kit = kitWith()
  let calls = 0
  const charge = () => kit.effect(() => ++calls)
  const definition = workflow('held', (ctx) => ctx.step('charge', charge, { inDoubt: 'hold' }))
  const held = kitWith({ crashAt: [{ effect: 1, when: 'after' }] })
  const risky = workflow('held', (ctx) => ctx.step('charge', () => held.effect(() => ++calls), { inDoubt: 'hold' }))
  expect(await kit.result(await kit.run(definition, { id: '1' }))).toBe(1)
  const run = await held.run(risky, { id: '1' })
  const error = await failed(held.result(run))
  expect(error).toMatchObject({ code: 'HELD', data: { waits: [{ kind: 'step', name: 'charge', needsPerson: true }] } })
  const waiting = held.survive((rp) => held.handle(run, rp).result({ whenHeld: 'wait' }))
  await held.survive((rp) => held.handle(run, rp).settle('charge', 'done', { result: 7 }))
  expect(await waiting).toBe(7)
})

it('the result of a run whose compensation is stuck is refused and names it', async () => {
  const kit = kitWith()
  const definition = workflow('stuck', async (ctx) => {
    await ctx.step('book', () => 1, {
      compensate: () => {
        throw new Error('the hotel does not answer')
      },
      compensateRetry: { attempts: 1 },
    })
    throw new Error('no')
  })
  const error = await failed(kit.result(await kit.run(definition, { id: '1' })))
  expect(error.code).toBe('HELD')
  expect(error.message).toContain('compensation book (the hotel does not answer)')
})

it('a run shows its waits and deadlines, in memory, asleep, and from history alone', async () => {
  const kit = kitWith()
  const definition = workflow('waiting', async (ctx) => {
    await ctx.parallel([
      (own) => own.signal('paid', { timeout: '2h', otherwise: null }),
      (own) => own.sleep('1h'),
      (own) =>
        own.step(
          'ship',
          () => {
            throw new Error('closed')
          },
          { retry: { attempts: 9, backoff: '3h', backoffMax: '3h', jitter: 0 } },
        ),
    ])
  })
  const startedAt = kit.now()
  const run = await kit.run(definition, { id: '1' })
  const hourMs = 3_600_000
  const expected = [
    { kind: 'signal', name: 'paid', until: startedAt + 2 * hourMs, needsPerson: false, error: null },
    { kind: 'timer', name: 'sleep', until: startedAt + hourMs, needsPerson: false, error: null },
    { kind: 'step', name: '~all.2/ship', until: startedAt + 3 * hourMs, needsPerson: false, error: 'closed' },
  ]
  await kit.settle()
  const close = (waits: readonly { until: number | null }[]) =>
    waits.map((wait) => ({ ...wait, until: wait.until && Math.round(wait.until / 1000) * 1000 }))
  expect(close(await run.waitsFor())).toEqual(close(expected))
  await kit.advance('1m')
  expect((await run.status()).status).toBe('waiting')
  expect(close(summarizeWorkflow(await run.state()).waits)).toEqual(close(expected))
})

it('a run that sleeps in memory is waiting, for its handle and for a batch', async () => {
  const kit = kitWith()
  const definition = workflow('sleepy', async (ctx) => {
    await ctx.step('first', () => 1)
    await ctx.signal('never')
  })
  const run = await kit.run(definition, { id: '1' })
  await kit.settle()
  expect((await run.status()).status).toBe('waiting')
  const report = await workflows(kit.rp).of(definition).cancel({ status: 'waiting' })
  expect(report.done).toEqual(['1'])
})

it('an update that the run does not know is refused with those that it knows, long before its timeout', async () => {
  const kit = kitWith()
  const definition = workflow('updated', async (ctx) => {
    ctx.onUpdate('add', (n: number) => n + 1)
    await ctx.signal('end')
  })
  const run = await kit.run(definition, { id: '1' })
  const startedAt = kit.now()
  const error = await failed(kit.until(run.update('ad', 1, { timeout: '1h' })))
  expect(error.code).toBe('NOT_FOUND')
  expect(error.message).toContain('it has: add')
  expect(kit.now() - startedAt).toBeLessThan(10_000)
  expect(await kit.until(run.update('add', 1))).toBe(2)
})

it('a step that fails unobserved fails the run, and undoes it; an observed one does not', async () => {
  const kit = kitWith()
  const undone: string[] = []
  const fail = () => {
    throw new Error('lost')
  }
  const code = (look: (promise: Promise<unknown>) => unknown) => async (ctx: WorkflowContext) => {
    await ctx.step('book', () => 1, { compensate: () => void undone.push(ctx.id) })
    look(ctx.step('mail', fail))
    await ctx.sleep('1h')
    return 'done'
  }
  const unseen = workflow(
    'unseen',
    code(() => undefined),
  )
  const seen = workflow(
    'seen',
    code((promise) => promise.catch(() => undefined)),
  )
  const error = await failed(kit.result(await kit.run(unseen, { id: 'unseen' })))
  expect(error.message).toContain('lost')
  expect(await kit.result(await kit.run(seen, { id: 'seen' }))).toBe('done')
  expect(undone).toEqual(['unseen'])
})

it('two definitions of one name are refused', async () => {
  const kit = kitWith()
  kit.work(workflow('twice', async () => 1))
  expect(() => kit.work(workflow('twice', async () => 2))).toThrow(/two definitions are called twice/)
})

it('a run that sleeps wakes on time, also if others looked in between', async () => {
  const kit = kitWith()
  const definition = workflow('nap', async (ctx, ms: number) => {
    await ctx.sleep(ms)
    return ctx.now()
  })
  const startedAt = kit.now()
  const runs = []
  for (const ms of [1900, 2500, 4300]) runs.push({ ms, run: await kit.run(definition, ms, { id: `${ms}` }) })
  // In small steps: a leap would wake all runs at once.
  for (let i = 0; i < 120; i++) await kit.advance(50)
  for (const { ms, run } of runs) {
    const wokeAt = await kit.result(run)
    // Virtual time: only the engine's own polls can delay it.
    expect(wokeAt - startedAt).toBeGreaterThanOrEqual(ms)
    expect(wokeAt - startedAt).toBeLessThan(ms + 100)
  }
})
