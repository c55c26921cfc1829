// Random workflow programs under crashes, takeovers and pauses: the outcome is that of an undisturbed run, no effect is
// missing, none is compensated twice, and a repetition has the same key. REPRISE_RANDOM_RUNS sets the number.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  checkDefinitions,
  type WorkflowContext,
  type WorkflowDefinition,
  workflow,
} from '../../src/layers/workflow/index.ts'
import { type Disturbance, WorkflowKit } from '../../src/testing/index.ts'

type Program =
  | { readonly op: 'step'; readonly undo: boolean; readonly fails: number }
  | { readonly op: 'sleep'; readonly hours: number }
  | { readonly op: 'signal' }
  | { readonly op: 'timeout' }
  | { readonly op: 'throw' }
  | { readonly op: 'catch'; readonly body: Program }
  | { readonly op: 'seq' | 'all' | 'parallel' | 'race'; readonly parts: readonly Program[] }
  | { readonly op: 'loop'; readonly times: number; readonly body: Program }
  | { readonly op: 'child'; readonly body: Program }

const { program } = fc.letrec<{ program: Program; leaf: Program }>((tie) => ({
  leaf: fc.oneof(
    { weight: 6, arbitrary: fc.record({ op: fc.constant('step' as const), undo: fc.boolean(), fails: fc.nat(2) }) },
    { weight: 2, arbitrary: fc.record({ op: fc.constant('sleep' as const), hours: fc.integer({ min: 1, max: 50 }) }) },
    { weight: 1, arbitrary: fc.constant({ op: 'signal' as const }) },
    { weight: 1, arbitrary: fc.constant({ op: 'timeout' as const }) },
    { weight: 1, arbitrary: fc.constant({ op: 'throw' as const }) },
  ),
  program: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    tie('leaf'),
    fc.record({
      op: fc.constantFrom('seq' as const, 'seq' as const, 'all' as const, 'parallel' as const, 'race' as const),
      parts: fc.array(tie('program'), { minLength: 1, maxLength: 4 }),
    }),
    fc.record({ op: fc.constant('loop' as const), times: fc.integer({ min: 1, max: 3 }), body: tie('program') }),
    fc.record({ op: fc.constant('child' as const), body: tie('program') }),
    fc.record({ op: fc.constant('catch' as const), body: tie('program') }),
  ),
}))

const disturbance: fc.Arbitrary<Disturbance> = fc.oneof(
  fc.record({ commit: fc.integer({ min: 1, max: 30 }), when: fc.constantFrom('before' as const, 'after' as const) }),
  fc.record({ effect: fc.integer({ min: 1, max: 12 }), when: fc.constantFrom('before' as const, 'after' as const) }),
  fc.record({
    commit: fc.integer({ min: 1, max: 30 }),
    when: fc.constantFrom('before' as const, 'after' as const),
    pause: fc.constantFrom('5s', '40s'),
  }),
)

/** The winner of each race, by run and place, as the code saw it each time: at first, and in each replay. */
type Sightings = Map<string, Set<number>>

interface Execution {
  readonly calls: Map<string, number>
  readonly sightings: Sightings
  /** Branches of a race start in the same moment, so that milliseconds decide; else minutes apart. */
  readonly isClose: boolean
}

function interpreter(kit: WorkflowKit, { calls, sightings, isClose }: Execution) {
  const tries = new Map<string, number>()
  const touch = (key: string) => kit.effect(() => calls.set(key, (calls.get(key) ?? 0) + 1))
  const run = async (ctx: WorkflowContext, one: Program, depth = 0, place = ''): Promise<unknown> => {
    switch (one.op) {
      case 'step':
        return await ctx.step(
          's',
          async ({ key }) => {
            tries.set(key, (tries.get(key) ?? 0) + 1)
            if (tries.get(key)! <= one.fails) throw new Error('once more')
            await touch(key)
            return key.length
          },
          {
            retry: { attempts: 5, backoff: '1s', jitter: 0 },
            ...(one.undo && { compensate: (_: unknown, { key }: { key: string }) => touch(key) }),
          },
        )
      case 'sleep':
        return void (await ctx.sleep(`${one.hours}h`))
      case 'signal':
        return await ctx.signal('s')
      case 'timeout':
        return await ctx.signal('nobody', { timeout: '3h', otherwise: 'none' })
      case 'throw':
        throw new Error('thrown')
      case 'catch':
        return await run(ctx, one.body, depth, place).catch((error: Error) => `caught ${error.message}`)
      case 'seq': {
        const values: unknown[] = []
        for (const [i, part] of one.parts.entries()) values.push(await run(ctx, part, depth, `${place}.${i}`))
        return values
      }
      case 'all':
        return await Promise.all(one.parts.map((part, i) => run(ctx, part, depth, `${place}.${i}`)))
      case 'parallel':
        return await ctx.parallel(one.parts.map((part, i) => (own) => run(own, part, depth, `${place}.${i}`)))
      case 'race':
        return await ctx
          .race(
            one.parts.map((part, i) => async (own) => {
              if (!isClose) await own.sleep(`${(i + 1) * 7 * 5 ** depth}m`)
              return { i, value: await run(own, part, depth + 1, `${place}.${i}`) }
            }),
          )
          .then(({ i, value }) => {
            const race = `${ctx.id} ${place}`
            sightings.set(race, (sightings.get(race) ?? new Set()).add(i))
            return value
          })
      case 'loop':
        return await ctx.loop({ n: 0, values: [] as unknown[] }, async ({ n, values }, own) => {
          if (n === one.times) return own.stop(values)
          return { n: n + 1, values: [...values, await run(own, one.body, depth, `${place}.${n}`)] }
        })
      case 'child':
        return await ctx.child(definition, one.body)
    }
  }
  const definition: WorkflowDefinition<Program, unknown> = workflow('random', (ctx, input: Program) => run(ctx, input))
  return definition
}

async function execute(input: Program, crashAt: readonly Disturbance[], isClose = false) {
  const kit = new WorkflowKit({ crashAt })
  const execution: Execution = { calls: new Map(), sightings: new Map(), isClose }
  try {
    const definition = interpreter(kit, execution)
    const run = await kit.run(definition, input, { id: 'r' })
    for (let i = 0; i < 20; i++) await kit.survive(() => signal(kit, run.timeline, i))
    const result = await kit.result(run).catch((error: Error) => `failed: ${error.message}`)
    await kit.advance('100d')
    // History alone must produce the same result again: every run of the program, children included.
    const check = await kit.survive((rp) => checkDefinitions(rp, [definition], { ended: true }))
    return { result, ...execution, crashes: kit.crashes, check }
  } finally {
    await kit.close()
  }
}

/** To the run and, as all of them are equal, it does not matter which wait gets which. */
const signal = (kit: WorkflowKit, timeline: string, i: number) =>
  kit.rp.send(timeline, 'signal', { name: 's', value: 'signal' }, { key: `signal-${i}` })

/** A signal from outside against anything else: the outside decides the winner. */
function isLuck(one: Program, inRace = false): boolean {
  if (one.op === 'signal') return inRace
  if ('body' in one) return isLuck(one.body, inRace)
  return 'parts' in one && one.parts.some((part) => isLuck(part, inRace || one.op === 'race'))
}

/** Programs that would wait forever: a child gets no signals. */
function waits(one: Program, inChild = false): boolean {
  if (one.op === 'signal') return inChild
  if (one.op === 'child') return waits(one.body, true)
  if ('body' in one) return waits(one.body, inChild)
  return 'parts' in one && one.parts.some((part) => waits(part, inChild))
}

it('random programs come to the same end under crashes, takeovers and pauses (G5, G13)', async () => {
  await fc.assert(
    fc.asyncProperty(
      program.filter((one) => !waits(one) && !isLuck(one)),
      fc.array(disturbance, { minLength: 1, maxLength: 3 }),
      async (input, crashAt) => {
        const plain = await execute(input, [])
        const disturbed = await execute(input, crashAt)
        expect(disturbed.result).toEqual(plain.result)
        for (const { sightings, check } of [plain, disturbed]) {
          for (const [place, winners] of sightings) expect([...winners], place).toHaveLength(1)
          expect(check.diverging).toEqual([])
        }
        expect([...disturbed.calls.keys()].sort()).toEqual([...plain.calls.keys()].sort())
        for (const [key, count] of plain.calls) expect(count, key).toBe(1)
        for (const [key, count] of disturbed.calls) expect(count, key).toBeLessThanOrEqual(1 + 2 * disturbed.crashes)
      },
    ),
    { numRuns: Number(process.env.REPRISE_RANDOM_RUNS ?? 40), timeout: 120_000 },
  )
})

it('races that milliseconds decide are decided once: every replay has the same winner (G5, G13)', async () => {
  let races = 0
  await fc.assert(
    fc.asyncProperty(
      // At least one race at the top, between parts that take the same time or nearly so.
      fc.array(program, { minLength: 2, maxLength: 4 }).map((parts): Program => ({ op: 'race', parts })),
      fc.array(disturbance, { minLength: 1, maxLength: 3 }),
      async (race, crashAt) => {
        const input: Program = {
          op: 'seq',
          parts: [{ op: 'catch', body: race }, aStep, { op: 'catch', body: race }, aStep],
        }
        fc.pre(!waits(input))
        const { calls, crashes, sightings, check } = await execute(input, crashAt, true)
        races += sightings.size
        for (const [place, winners] of sightings) expect([...winners], place).toHaveLength(1)
        expect(check.diverging).toEqual([])
        expect(check.checked).toBeGreaterThan(0)
        for (const [key, count] of calls) expect(count, key).toBeLessThanOrEqual(1 + 2 * crashes)
      },
    ),
    { numRuns: Number(process.env.REPRISE_RANDOM_RUNS ?? 40), timeout: 120_000 },
  )
  expect(races).toBeGreaterThan(0)
})

const aStep: Program = { op: 'step', undo: false, fails: 0 }
