// Crashes at every commit of sessions with tools of every kind, rolled back and gone on with: a service in a process of its
// own counts what reached it by key. REPRISE_AGENT_CRASH_RUNS sets how many random programs are tried (default 60).

import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Store } from '../../src/core/store/ports.ts'
import { createEngine } from '../../src/engine/api/open.ts'
import { sha256 } from '../../src/engine/base/platform.ts'
import type { Reprise } from '../../src/index.ts'
import { agent, type ModelCall, type Session, type TurnResult, tool } from '../../src/layers/agent/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'
import { type Kind, type Report, type Service, startService } from './service.ts'

const runs = Number(process.env.REPRISE_AGENT_CRASH_RUNS ?? 60)

type Step =
  | { readonly kind: 'turn'; readonly calls: readonly Kind[] }
  | { readonly kind: 'rollback'; readonly back: number }

let service: Service
let runCount = 0
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

function standing(report: Report, kind: Kind): string[] {
  return Object.entries(report.calls)
    .filter(([key, call]) => call.kind === kind && report.undone[key] === undefined)
    .map(([key]) => key)
}

function define(run: string) {
  const call = async (kind: Kind, args: object, key: string) => {
    const intent = `${kind} ${JSON.stringify(args)}`
    return (await service.ask(run, 'call', { kind, key, intent })) as { id: string }
  }
  return agent('swept', {
    model: ({ messages }: ModelCall<null>) => {
      const last = messages.at(-1)!
      if (last.role === 'tool') return { content: 'done', usage: { cost: 1 } }
      const calls = (last.content as { calls: Kind[] }).calls
      const requests = calls.map((name, i) => ({ tool: name, args: { i, at: messages.length } }))
      return { content: '', requests, usage: { cost: 1 } }
    },
    similarCalls: 'new',
    tools: {
      look: tool({ kind: 'read-only', run: (args: object, { key }) => call('look', args, key) }),
      set: tool({ kind: 'idempotent', run: (args: object, { key }) => call('set', args, key) }),
      pay: tool({
        kind: 'compensatable',
        inDoubt: 'retry',
        run: (args: object, { key }) => call('pay', args, key),
        compensate: (_args, result) => service.ask(run, 'undo', result),
      }),
      mail: tool({
        kind: 'irreversible',
        run: (args: object, { key }) => call('mail', args, key),
        probe: async (key) => (await service.ask(run, 'probe', { key })) as Probed,
      }),
      // No probe exists for it, so the call is held for a person.
      gift: tool({ kind: 'irreversible', run: (args: object, { key }) => call('gift', args, key) }),
    },
  })
}

/** Dies at the nth commit: before it is applied, or after, so that its answer gets lost. */
function dying(store: Store, at: number, isApplied: boolean): { store: Store; count(): number } {
  let count = 0
  const dead = () => Promise.reject(new Error('killed'))
  const wrapped = new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      return async (...args: unknown[]) => {
        if (name === 'listen') return member.apply(target, args)
        if (count >= at) return await dead()
        if (name === 'commit') {
          count += 1
          if (count >= at) {
            if (isApplied) await member.apply(target, args)
            return await dead()
          }
        }
        return await member.apply(target, args)
      }
    },
  })
  return {
    store: new Proxy(wrapped, {
      get: (target, name) => (name === 'listen' ? store.listen.bind(store) : Reflect.get(target, name)),
    }),
    count: () => count,
  }
}

type Probed = { happened: true; result: { id: string } } | { happened: false }

/** The person: inspects the service and decides the held calls. */
async function settle(session: Session<null>, run: string, result: TurnResult): Promise<void> {
  for (let at = result; at.status === 'waiting'; at = await session.resume()) {
    const { key } = session.effects.list().find((effect) => effect.id === at.waiting!.call)!
    const probed = (await service.ask(run, 'probe', { key })) as Probed
    if (probed.happened) await session.decide('done', 'ann', { result: probed.result })
    else await session.decide('retry', 'ann')
  }
}

/** Runs the program, or its remaining turns. */
async function play(rp: Reprise, run: string, steps: readonly Step[]): Promise<void> {
  const session = await rp.open(define(run), 's', { takeover: true })
  const doneSteps = () => Number(session.state.settings.parameters?.done ?? 0)
  const isOpen = session.isUnfinished || session.state.status === 'waiting'
  if (isOpen) await settle(session, run, await session.resume())
  for (const [i, step] of steps.entries()) {
    if (step.kind === 'turn') {
      // A turn that a later rollback undid is not requested again.
      if (doneSteps() > i) continue
      await settle(session, run, await session.turn({ calls: step.calls }, { key: `step ${i}` }))
    } else if (doneSteps() <= i) {
      const toTurn = Math.max(0, session.state.turn - step.back)
      await session.rollback({ to: toTurn, settings: { parameters: { done: i + 1 } } })
    }
  }
}

async function sweep(
  steps: readonly Step[],
  crashAt: number,
  isApplied: boolean,
): Promise<{ commits: number; outside: Report }> {
  const world = createWorld()
  const openStore = () => openMemory({ namespace: 'default', hash: sha256, world })
  const run = `run-${++runCount}`
  const first = dying(openStore(), crashAt, isApplied)
  const killed = createEngine({ store: first.store }, { worker: 'killed', patience: 1 })
  await play(killed, run, steps).catch(() => undefined)
  const commits = first.count()
  const survivor = createEngine({ store: openStore() }, { worker: 'survivor' })
  await play(survivor, run, steps)
  await survivor.close()
  await killed.close().catch(() => undefined)
  return { commits, outside: await service.report(run) }
}

/** The outcome of the program without any failure. */
async function reference(steps: readonly Step[]): Promise<{ commits: number; outside: Report }> {
  return await sweep(steps, Number.POSITIVE_INFINITY, false)
}

/** Lookups in one answer are called at the same time: this many can be in flight. */
function inFlight(steps: readonly Step[]): number {
  const widths = steps.map((step) => {
    const looks = step.kind === 'turn' ? step.calls.map((call) => (call === 'look' ? 'l' : ' ')).join('') : ''
    return Math.max(1, ...looks.split(' ').map((run) => run.length))
  })
  return Math.max(1, ...widths)
}

function compare(outside: Report, expected: Report, steps: readonly Step[]): void {
  const most = inFlight(steps)
  expect(outside.confused, 'a key stands for one call').toEqual([])
  for (const [key, call] of Object.entries(outside.calls)) {
    expect(call.count, `${key} was called ${call.count} times`).toBeLessThanOrEqual(2)
    if (call.kind === 'mail' || call.kind === 'gift') expect(call.count, key).toBe(1)
  }
  const repeats = Object.values(outside.calls).filter((call) => call.count > 1).length
  expect(repeats, 'calls repeated').toBeLessThanOrEqual(most)
  for (const kind of ['set', 'pay', 'mail', 'gift'] as const) {
    expect(standing(outside, kind).length, kind).toBe(standing(expected, kind).length)
  }
  expect(outside.undoOrder.length).toBe(expected.undoOrder.length)
  for (const id of outside.undoOrder) expect(outside.calls[id]?.kind, 'only what was paid is undone').toBe('pay')
  const undoRepeats = Object.values(outside.undone).filter((count) => count > 1).length
  expect(repeats + undoRepeats, 'calls and compensations repeated').toBeLessThanOrEqual(most)
}

describe('G5 sessions under crashes', () => {
  const mixed: Step[] = [
    { kind: 'turn', calls: ['look', 'pay', 'mail', 'gift'] },
    { kind: 'turn', calls: ['pay', 'set', 'pay'] },
    { kind: 'rollback', back: 1 },
    { kind: 'turn', calls: ['pay', 'mail'] },
  ]

  it('a crash at any commit repeats at most the calls in flight, and compensates exactly the due ones', async () => {
    const { commits, outside: expected } = await reference(mixed)
    expect(expected.undoOrder).toHaveLength(2)
    // Last first: the two payments of the undone turn.
    expect(expected.undoOrder).toEqual(expected.order.filter((key) => expected.undone[key]).reverse())
    expect(standing(expected, 'pay')).toHaveLength(2)
    for (let at = 1; at <= commits; at++) {
      for (const isApplied of [false, true]) {
        const { outside } = await sweep(mixed, at, isApplied)
        compare(outside, expected, mixed)
      }
    }
  })

  it('so does any program of turns and rollbacks, with a crash anywhere', async () => {
    const call = fc.constantFrom<Kind>('look', 'set', 'pay', 'mail', 'gift')
    const step: fc.Arbitrary<Step> = fc.oneof(
      {
        weight: 3,
        arbitrary: fc.record({ kind: fc.constant('turn' as const), calls: fc.array(call, { maxLength: 4 }) }),
      },
      {
        weight: 1,
        arbitrary: fc.record({ kind: fc.constant('rollback' as const), back: fc.integer({ min: 1, max: 2 }) }),
      },
    )
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 6 }),
        fc.nat(60),
        fc.boolean(),
        async (steps, at, isApplied) => {
          const { outside: expected } = await reference(steps)
          const { outside } = await sweep(steps, at + 1, isApplied)
          compare(outside, expected, steps)
        },
      ),
      { numRuns: runs },
    )
  })
})
