// A compensation that fails for good, by declared choice: hold (undo.test.ts, told.test.ts), or roll back to before the saga
// with a report of the remaining steps. A process that dies anywhere on the way does not change that.

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, inject, it } from 'vitest'
import { open } from '../../src/index.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { crashEverywhere, type WorkflowKit } from '../../src/testing/index.ts'
import { programPath } from '../support/programs.ts'
import { onEveryStore } from '../support/worlds.ts'

const stands = [
  { step: 'hotel', why: 'the hotel does not answer' },
  { step: 'pay', why: 'it has no compensation' },
]

/** `outside` gets each call; from the second time on there is money. */
const tripWith = (outside: (text: string) => unknown, paid = new Set<string>()) =>
  workflow(
    'trip',
    async (ctx) => {
      await ctx.step('plan', () => outside('plan'))
      await ctx.step('hotel', ({ key }) => outside(`hotel ${key}`), {
        compensate: async () => {
          await outside('cancel hotel')
          throw new Error('the hotel does not answer')
        },
        compensateRetry: { attempts: 2, backoff: 1 },
      })
      await ctx.step('flight', ({ key }) => outside(`flight ${key}`), { compensate: () => outside('cancel flight') })
      const isPaid = await ctx.step('pay', async ({ key }) => {
        await outside(`pay ${key}`)
        return paid.add(key).size > 1
      })
      if (!isPaid) throw new Error('no money')
      return 'went'
    },
    { whenUndoFails: 'restore' },
  )

/** Each key as how many keys the calls of its name had by then. */
function counted(calls: readonly string[]): string[] {
  const keys = new Map<string, Set<string>>()
  return calls.map((call) => {
    const [, name, key] = /^(hotel|flight|pay) (\S+)$/.exec(call) ?? []
    if (name === undefined) return call
    const known = keys.get(name) ?? new Set()
    keys.set(name, known.add(key!))
    return `${name} ${[...known].indexOf(key!) + 1}`
  })
}

const firstTime = ['plan', 'hotel 1', 'flight 1', 'pay 1', 'cancel flight', 'cancel hotel', 'cancel hotel']
const secondTime = ['hotel 2', 'flight 2', 'pay 2']

onEveryStore('a saga that cannot be undone', (world) => {
  it("rolls back to before it, reports the remaining steps, and continues on a person's decision, in any process", async () => {
    const w = await world()
    const calls: string[] = []
    const trip = tripWith((text) => calls.push(text))
    const rp = await w.engine()
    const run = await rp.run(trip, { id: 't' })
    const error = await run.result().catch((thrown) => thrown)
    expect(error).toMatchObject({ code: 'HELD', data: { waits: [{ kind: 'restored', name: 'hotel' }] } })
    expect(error.message).toContain('hotel is still in effect (the hotel does not answer)')
    expect((await run.state()).restored).toMatchObject({ to: 'hotel', stands, undone: ['flight'], isHeld: true })
    expect(counted(calls)).toEqual(firstTime)
    await rp.close()
    const other = await w.engine()
    other.work([trip])
    const again = await other.run(trip, { id: 't' })
    expect(await again.result().catch((thrown) => thrown)).toMatchObject({ code: 'HELD' })
    expect((await again.status()).status).toBe('held')
    await again.resume('ann')
    expect(await again.result({ whenHeld: 'wait' })).toBe('went')
    expect(counted(calls)).toEqual([...firstTime, ...secondTime])
    expect((await again.state()).restored).toMatchObject({ stands, isHeld: false })
  })
})

it('ends alike wherever its process dies', async () => {
  const program = async (kit: WorkflowKit) => {
    const calls: string[] = []
    const trip = tripWith((text) => kit.effect(() => calls.push(text)))
    const run = await kit.run(trip, { id: 't' })
    const held = await kit.result(run).catch((error) => error.code)
    const { restored } = await kit.survive(() => kit.handle(run).state())
    await kit.survive(async () => {
      if ((await kit.handle(run).state()).restored?.isHeld) await kit.handle(run).resume()
    })
    const result = await kit.survive((rp) => kit.handle(run, rp).result({ whenHeld: 'wait' }))
    return { held, restored, result, calls: [...new Set(counted(calls))], repeats: calls.length - new Set(calls).size }
  }
  const { undisturbed, crashes } = await crashEverywhere(program)
  expect(undisturbed).toMatchObject({ held: 'HELD', result: 'went', restored: { stands, undone: ['flight'] } })
  expect(crashes.length).toBeGreaterThan(20)
  for (const { at, outcome } of crashes) {
    const where = JSON.stringify(at)
    expect(outcome.result, where).toBe('went')
    expect(outcome.calls, where).toEqual(undisturbed.calls)
    expect(outcome.repeats, where).toBeLessThanOrEqual(undisturbed.repeats + 1)
    if (outcome.restored) expect(outcome.restored.stands, where).toEqual(stands)
  }
})

it('an unknown choice is refused when the workflow is defined', () => {
  expect(() => workflow('w', async () => 1, { whenUndoFails: 'panic' as never })).toThrow(/whenUndoFails must be/)
})

const programFile = programPath('workflow-restore')
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

describe('a process killed while a saga that cannot be undone goes back', () => {
  it.each([
    ['sqlite', 'first'],
    ['sqlite', 'last'],
    ['sqlite', 'restored'],
    ['postgres', 'last'],
    ['postgres', 'restored'],
  ])('leaves the run to the next one, before the saga (%s, killed at %s)', async (kind, where) => {
    const folder = mkdtempSync(join(tmpdir(), 'reprise-restore-'))
    cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
    const url = kind === 'sqlite' ? `sqlite:${join(folder, 'test.db')}` : inject('postgresUrl')
    const namespace = `restore-${process.pid}-${Date.now()}`
    const file = join(folder, 'calls')
    const start = (at: string): ChildProcess => {
      const child = fork(programFile, [url, namespace, file, at], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
      cleanups.push(() => child.kill('SIGKILL'))
      return child
    }
    const rp = await open(url, { namespace })
    cleanups.push(() => rp.close())
    const run = await rp.run(
      tripWith(() => undefined),
      { id: 't', here: false },
    )
    const [, signal] = await once(start(where), 'exit')
    expect(signal).toBe('SIGKILL')
    const second = start('never')
    const error = await run.result({ timeout: '4m' }).catch((thrown) => thrown)
    expect(error).toMatchObject({ code: 'HELD' })
    expect((await run.state()).restored).toMatchObject({ to: 'hotel', stands, undone: ['flight'] })
    await run.resume('ann')
    expect(await run.result({ whenHeld: 'wait', timeout: '4m' })).toBe('went')
    const calls = counted(readFileSync(file, 'utf8').trim().split('\n'))
    const distinct = [...new Set(calls)]
    expect(distinct).toEqual([...new Set([...firstTime, ...secondTime])])
    expect(calls.length).toBeLessThanOrEqual(firstTime.length + secondTime.length + 1)
    second.send('end')
    await once(second, 'exit')
  })
})
