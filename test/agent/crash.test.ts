// Crashes at every commit of sessions with tools of every kind, rolled back and gone on with: an outside service counts
// what reached it by key. REPRISE_AGENT_CRASH_RUNS sets how many random programs are tried (default 60).

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Store } from '../../src/core/ports.ts'
import { createEngine } from '../../src/engine/open.ts'
import { sha256 } from '../../src/engine/platform.ts'
import type { Reprise } from '../../src/index.ts'
import { agent, type ModelCall, tool } from '../../src/layers/agent/index.ts'
import { createWorld, openMemory } from '../../src/stores/memory/index.ts'

const runs = Number(process.env.REPRISE_AGENT_CRASH_RUNS ?? 60)

type Kind = 'look' | 'set' | 'pay' | 'mail'
type Step =
  | { readonly kind: 'turn'; readonly calls: readonly Kind[] }
  | { readonly kind: 'rollback'; readonly back: number }

/** The world outside: what was asked, by key, and what was undone, in order. */
class Outside {
  readonly calls = new Map<string, { readonly kind: Kind; count: number }>()
  readonly undone = new Map<string, number>()
  readonly undoOrder: string[] = []

  call(kind: Kind, key: string): { readonly id: string } {
    this.calls.set(key, { kind, count: (this.calls.get(key)?.count ?? 0) + 1 })
    return { id: key }
  }

  undo(id: string): void {
    if (!this.undone.has(id)) this.undoOrder.push(id)
    this.undone.set(id, (this.undone.get(id) ?? 0) + 1)
  }

  standing(kind: Kind): string[] {
    return [...this.calls].filter(([key, call]) => call.kind === kind && !this.undone.has(key)).map(([key]) => key)
  }
}

function define(outside: Outside) {
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
      look: tool({ kind: 'read-only', run: (_args: object, { key }) => outside.call('look', key) }),
      set: tool({ kind: 'idempotent', run: (_args: object, { key }) => outside.call('set', key) }),
      pay: tool({
        kind: 'compensatable',
        inDoubt: 'retry',
        run: (_args: object, { key }) => outside.call('pay', key),
        compensate: (_args, result) => outside.undo(result.id),
      }),
      mail: tool({
        kind: 'irreversible',
        run: (_args: object, { key }) => outside.call('mail', key),
        probe: async (key) => (outside.calls.has(key) ? { happened: true, result: { id: key } } : { happened: false }),
      }),
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

/** Runs the program, or what is left of it. */
async function play(rp: Reprise, outside: Outside, steps: readonly Step[]): Promise<void> {
  const session = await rp.open(define(outside), 's', { takeover: true })
  const doneSteps = () => Number(session.state.settings.parameters?.done ?? 0)
  if (session.isUnfinished) await session.resume()
  for (const [i, step] of steps.entries()) {
    if (step.kind === 'turn') {
      // A turn that a later rollback took away is not asked for again.
      if (doneSteps() <= i) await session.turn({ calls: step.calls }, { key: `step ${i}` })
    } else if (doneSteps() <= i) {
      const toTurn = Math.max(0, session.state.turn - step.back)
      await session.rollback(toTurn, { settings: { parameters: { done: i + 1 } } })
    }
  }
}

async function sweep(
  steps: readonly Step[],
  crashAt: number,
  isApplied: boolean,
): Promise<{ commits: number; outside: Outside }> {
  const world = createWorld()
  const openStore = () => openMemory({ namespace: 'default', hash: sha256, world })
  const outside = new Outside()
  const first = dying(openStore(), crashAt, isApplied)
  const killed = createEngine({ store: first.store }, { worker: 'killed', patience: 1 })
  await play(killed, outside, steps).catch(() => undefined)
  const commits = first.count()
  const survivor = createEngine({ store: openStore() }, { worker: 'survivor' })
  await play(survivor, outside, steps)
  await survivor.close()
  await killed.close().catch(() => undefined)
  return { commits, outside }
}

/** What the program leaves behind when nothing goes wrong. */
async function reference(steps: readonly Step[]): Promise<{ commits: number; outside: Outside }> {
  return await sweep(steps, Number.POSITIVE_INFINITY, false)
}

function compare(outside: Outside, expected: Outside): void {
  for (const [key, call] of outside.calls) {
    expect(call.count, `${key} was called ${call.count} times`).toBeLessThanOrEqual(2)
    if (call.kind === 'mail') expect(call.count, key).toBe(1)
  }
  const repeats = [...outside.calls.values()].filter((call) => call.count > 1).length
  expect(repeats, 'calls repeated').toBeLessThanOrEqual(1)
  for (const kind of ['set', 'pay', 'mail'] as const) {
    expect(outside.standing(kind).length, kind).toBe(expected.standing(kind).length)
  }
  expect(outside.undone.size).toBe(expected.undone.size)
  const undoRepeats = [...outside.undone.values()].filter((count) => count > 1).length
  expect(undoRepeats, 'compensations repeated').toBeLessThanOrEqual(1)
}

describe('G5 sessions under crashes', () => {
  const mixed: Step[] = [
    { kind: 'turn', calls: ['look', 'pay', 'mail'] },
    { kind: 'turn', calls: ['pay', 'set', 'pay'] },
    { kind: 'rollback', back: 1 },
    { kind: 'turn', calls: ['pay', 'mail'] },
  ]

  it('a crash at any commit repeats at most the call in flight, and compensates exactly what is due', async () => {
    const { commits, outside: expected } = await reference(mixed)
    expect(expected.undone.size).toBe(2)
    expect(expected.standing('pay')).toHaveLength(2)
    for (let at = 1; at <= commits; at++) {
      for (const isApplied of [false, true]) {
        const { outside } = await sweep(mixed, at, isApplied)
        compare(outside, expected)
      }
    }
  })

  it('so does any program of turns and rollbacks, with a crash anywhere', async () => {
    const call = fc.constantFrom<Kind>('look', 'set', 'pay', 'mail')
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
          compare(outside, expected)
        },
      ),
      { numRuns: runs },
    )
  })
})
