// An async function where a result is needed at once: its promise must never become state, an event, a key or a verdict. Each is
// refused with ASYNC_CALLBACK, by the name of the callback; types refuse it as well.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { upcast } from '../../src/core/history/fold.ts'
import { whyInvalid } from '../../src/core/history/validity.ts'
import { decideRetry, resolveRetry } from '../../src/core/retry/retry.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { aggregate, processManager, projection, tableProjection } from '../../src/layers/events/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { memo } from '../../src/layers/memo/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { table } from '../../src/layers/table/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { until } from '../support/fixture.ts'

const folder = mkdtempSync(join(tmpdir(), 'reprise-async-'))
const file = join(folder, 'account.rp')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const engines: Reprise[] = []
afterEach(async () => {
  for (const rp of engines.splice(0)) await rp.close()
})

async function engine(): Promise<Reprise> {
  const rp = await open('memory:')
  engines.push(rp)
  return rp
}

/** As JavaScript would pass it: the types refuse it. */
const untyped = <T>(call: unknown) => call as T
const refused = (place: string | RegExp) =>
  expect.objectContaining({
    code: 'ASYNC_CALLBACK',
    data: expect.objectContaining({ place: typeof place === 'string' ? place : expect.stringMatching(place) }),
  })

interface Account {
  readonly balance: number
}

const account = aggregate('account', {
  initial: (): Account => ({ balance: 0 }),
  evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
  decide: { deposit: (_, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }) },
})

describe('an async function where it cannot be', () => {
  it('apply and initial of a timeline', async () => {
    const rp = await engine()
    const visits = timeline('visits', {
      initial: () => 0,
      apply: untyped<(state: number) => number>(async (state: number) => state + 1),
    })
    const opened = await rp.open(visits, 'a')
    await expect(opened.append({ type: 'added' })).rejects.toEqual(refused('apply'))
    const empty = timeline('empty', { initial: untyped<() => number>(async () => 0), apply: (state) => state })
    await expect(rp.open(empty, 'a')).rejects.toEqual(refused('initial'))
  })

  it('decide and evolve of an aggregate: nothing is written', async () => {
    const rp = await engine()
    const slow = aggregate('slow', {
      initial: () => ({ balance: 0 }),
      evolve: {
        deposited: untyped<(s: Account, e: { amount: number }) => Account>(async (s: Account) => s),
      },
      decide: {
        deposit: (_, c: { amount: number }) => ({ type: 'deposited', amount: c.amount }),
        wait: untyped<() => undefined>(async () => ({ type: 'deposited', amount: 1 })),
      },
    })
    const opened = await rp.open(slow, 'a')
    await expect(opened.do('wait')).rejects.toEqual(refused('decide.wait'))
    await expect(opened.do('deposit', { amount: 1 })).rejects.toEqual(refused('evolve.deposited of slow'))
    expect(opened.seq).toBe(0)
  })

  it('handlers of projections and process managers: the event is not passed over', async () => {
    const rp = await engine()
    await (await rp.open(account, 'a')).do('deposit', { amount: 1 })
    const totals = projection('totals', {
      from: [account],
      initial: () => ({ sum: 0 }),
      on: { deposited: untyped<() => { sum: number }>(async () => ({ sum: 1 })) },
    })
    const problems: unknown[] = []
    hostOf(rp).events.on('problem', ({ error }) => problems.push(error))
    rp.work([
      totals,
      processManager('reacting', {
        from: [account],
        on: { deposited: untyped<() => undefined>(async () => undefined) },
      }),
    ])
    const causes = () =>
      problems.map((error) => JSON.stringify(error, ['code', 'message', 'cause', 'data', 'place']) + String(error))
    await until(
      () =>
        causes().filter((text) => text.includes('ASYNC_CALLBACK') || text.includes('returned a promise')).length >= 2,
    )
  })

  it('key and version of a job', async () => {
    const rp = await engine()
    for (const options of [
      { key: untyped<() => string>(async () => 'k') },
      { version: untyped<() => string>(async () => 'v') },
    ]) {
      const name = 'key' in options ? 'by-key' : 'by-version'
      const done: number[] = []
      const numbers = job(name, {
        source: [1, 2, 3],
        key: (n: number) => n,
        each: (n: number) => void done.push(n),
        ...options,
      })
      await expect(rp.run(numbers).result()).rejects.toEqual(refused(/of a job$/))
      expect(done).toEqual([])
    }
  })

  it('indexes of a table, upcasters and valid of a save, key of a memo', async () => {
    const rp = await engine()
    const people = table<{ city: string }>('people', { indexes: { city: untyped<() => string>(async () => 'x') } })
    const rows = await rp.open(people, 'a')
    await rows.set('ann', { city: 'Bern' })
    expect(() => [...rows.by('city', 'Bern')]).toThrow(refused('the function of an index'))
    const states = await rp.open(save<number>('states', { valid: untyped<() => boolean>(async () => false) }))
    await expect(states.put(1)).rejects.toEqual(refused(/^valid/))
    const twice = memo('twice', { key: async (n: number) => n, version: 1, run: async (n: number) => 2 * n })
    const handle = await rp.open(twice)
    await expect(handle.call(1)).rejects.toEqual(refused('key of a memo'))
  })

  it('upcasters, validity and giveUpOn', () => {
    const entry = { type: 'added', version: 1, data: {} }
    const links = { added: { version: 2, from: { 1: async (data: unknown) => data } } }
    expect(() => upcast(entry, links)).toThrow(refused('the upcaster of added from version 1'))
    expect(() =>
      whyInvalid(
        untyped<() => boolean>(async () => true),
        1,
      ),
    ).toThrow(refused('valid(state)'))
    const policy = resolveRetry({ giveUpOn: untyped<() => boolean>(async () => false) })
    const given = { chance: () => 0, now: 0 }
    expect(decideRetry(policy, 1, new Error('busy'), given)).toMatchObject({
      again: false,
      mistake: refused('giveUpOn'),
    })
  })

  it('giveUpOn of a step and of a job: the failure names it, and the process lives', async () => {
    const rp = await engine()
    const fail = () => {
      throw new Error('busy')
    }
    const retry = { attempts: 3, backoff: '1ms', giveUpOn: untyped<() => boolean>(async () => false) } as const
    const stepping = workflow('stepping', async (ctx) => await ctx.step('s', fail, { retry }))
    await expect(rp.run(stepping).result()).rejects.toThrow(/giveUpOn returned a promise/)
    const failed: string[] = []
    let begin = () => {}
    const begun = new Promise<void>((resolve) => {
      begin = resolve
    })
    const each = () => begun.then(fail)
    const run = await rp.run(job('failing', { source: ['a'], key: (item) => item, each, retry }))
    run.watch((event) => void (event.type === 'failure' && failed.push(`${event.next} ${event.error.message}`)))
    begin()
    await run.result()
    expect(failed).toEqual([expect.stringMatching(/^dead giveUpOn returned a promise/)])
  })

  it('validate of an update: the update is refused, and the process lives', async () => {
    const rp = await engine()
    const adding = workflow('adding', async (ctx) => {
      let sum = 0
      const validate = untyped<(n: number) => undefined>(async (n: number) => {
        if (n < 0) throw new Error('negative')
      })
      ctx.onUpdate('add', (n: number) => (sum += n), { validate })
      await ctx.signal('end')
      return sum
    })
    rp.work([adding])
    const run = await rp.run(adding)
    await expect(run.update('add', -5)).rejects.toThrow(/validate of the update add returned a promise/)
    await run.signal('end')
    expect(await run.result()).toBe(0)
  })

  it('upcasters of an aggregate, entries made by append, the condition of an erasure: nothing is changed', async () => {
    const rp = await engine()
    await rp.open(account, 'a').do('deposit', { amount: 5 })
    const from = { 1: async () => ({ amount: 500 }) }
    const later = aggregate('account', {
      ...{ initial: (): Account => ({ balance: 0 }), decide: {}, version: 2 },
      evolve: { deposited: (s, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
      upcasters: { deposited: { version: 2, from } },
    })
    const store = await rp.export({ timeline: 'events/account/a', seq: 1 }, file)
    expect(store.bytes).toBeGreaterThan(0)
    const other = await engine()
    await other.import(file)
    await expect(Promise.resolve(other.open(later, 'a'))).rejects.toEqual(refused('an upcaster'))
    const notes = timeline('notes', { initial: () => 0, apply: (n) => n + 1, erased: (n) => n + 1 })
    const opened = await other.open(notes, 'ann')
    await expect(opened.append(untyped(async () => ({ type: 'note' })))).rejects.toEqual(refused('append()'))
    for (const text of ['keep', 'secret']) await opened.append({ type: 'note', text } as never)
    await opened.close()
    const where = untyped<() => boolean>(async () => false)
    await expect(other.eraseEntries('notes/ann', { where })).rejects.toEqual(refused(/^where/))
    expect(await other.open(notes, 'ann').then(({ state }) => state)).toBe(2)
  })

  it('listeners may be async: a rejection is a warning, and the process lives', async () => {
    const rp = await engine()
    const warnings: string[] = []
    const hear = (warning: Error) => void warnings.push(warning.message)
    process.on('warning', hear)
    const reject = untyped<() => undefined>(async () => {
      throw new Error('from a listener')
    })
    const rows = await rp.open(table<number>('rows'))
    rows.watch('a', reject)
    rp.events.on('checkpoint-published', reject)
    const counted = await rp.open(timeline('counted', { initial: () => 0, apply: (n) => n }), 'x')
    counted.watch(reject)
    await rows.set('a', 1)
    await counted.append({ type: 'added' })
    await counted.checkpoint()
    await until(() => warnings.filter((text) => text.includes('from a listener')).length >= 3)
    process.off('warning', hear)
  })
})

it('types refuse it as well', () => {
  // Never called: what matters is that each line below is an error to the compiler.
  const declared = () => {
    // @ts-expect-error apply cannot wait
    timeline('t', { initial: () => 0, apply: async (state: number) => state })
    aggregate('a', {
      initial: () => ({ balance: 0 }),
      // @ts-expect-error evolve cannot wait
      evolve: { deposited: async (s: Account, _: { amount: number }) => s },
      decide: {},
    })
    aggregate('b', {
      initial: () => 0,
      evolve: { added: (s: number) => s },
      // @ts-expect-error decide cannot wait
      decide: { add: async () => ({ type: 'added' }) },
    })
    // @ts-expect-error a handler of a projection without SQL cannot wait
    projection('c', { from: [account], initial: () => ({ sum: 0 }), on: { deposited: async (s) => s } })
    // @ts-expect-error a handler of a table cannot wait
    tableProjection('d', { from: [account], into: table<number>('e'), on: { deposited: async () => undefined } })
    // @ts-expect-error a reaction cannot wait
    processManager('f', { from: [account], on: { deposited: async () => undefined } })
    // @ts-expect-error a key cannot wait
    job('g', { source: [1], key: async (n: number) => n, each: () => undefined })
    // @ts-expect-error the term of an index cannot wait
    table<number>('h', { indexes: { i: async (n: number) => n } })
    // @ts-expect-error a verdict cannot wait
    save<number>('j', { valid: async () => true })
    workflow('k', async (ctx) => {
      // @ts-expect-error the validation of an update cannot wait
      ctx.onUpdate('u', () => 1, { validate: async () => undefined })
    })
    // @ts-expect-error a verdict on an error cannot wait
    resolveRetry({ giveUpOn: async () => true })
  }
  expect(declared).toBeTypeOf('function')
})
