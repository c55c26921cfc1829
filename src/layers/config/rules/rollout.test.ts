// Rollouts decided from the replies of clients: any fleet, any plan, any refusals and requests. A stage never begins before
// the previous one was accepted, and a version that too many clients refuse is withdrawn from all of them.

import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { planOf } from './plan.ts'
import { decideRollout, isChosen, isLatestGood, isOver, type RolloutRequest, tallyOf, targetOf } from './rollout.ts'
import { applyConfig, type ConfigEntry, type ConfigState, initialConfig } from './state.ts'

const forgetAfterMs = 1_000_000

/** A fleet in which some clients refuse version 2, and a process that polls it. */
class World {
  state: ConfigState = initialConfig()
  time = 1
  readonly names: readonly string[]
  readonly refusing: ReadonlySet<string>
  readonly planted: ReadonlySet<string>

  constructor(fleet: number, refusing: readonly number[], planted: ReadonlySet<string>) {
    this.names = Array.from({ length: fleet }, (_, i) => `client-${i}`)
    this.refusing = new Set(refusing.map((i) => `client-${i}`))
    this.planted = planted
    this.set(1, null)
    for (const client of this.names) this.write({ type: 'joined', data: { client, stream: client, has: 1 } })
  }

  write(entry: ConfigEntry): void {
    this.state = applyConfig(this.state, { ...entry, time: this.time })
  }

  set(version: number, plan: ReturnType<typeof planOf> | null): void {
    const isGood = isLatestGood(this.state, this.state.rollout)
    this.write({
      type: 'set',
      data: { version, value: `v${version}`, plan, isGood, key: `k${version}`, digest: `d${version}` },
    })
  }

  target(client: string): number | undefined {
    return targetOf('c', client, this.state, this.state.rollout)?.version
  }

  tally() {
    const share = this.state.rollout?.share ?? 0
    return tallyOf(this.state.clients, 2, this.time, forgetAfterMs, (client) => isChosen('c', client, share))
  }

  look(request: RolloutRequest | null = null): ConfigEntry | null {
    const entry = decideRollout(this.state, this.tally(), this.time, request, this.planted)
    if (entry) this.write(entry)
    return entry
  }

  /** At most `max` clients reply that do not have their target version. */
  answer(max: number): void {
    let left = max
    for (const client of this.names) {
      const record = this.state.clients.get(client)!
      const version = this.target(client)
      if (left === 0 || version === undefined || record.inForce === version || record.rejected?.version === version)
        continue
      left -= 1
      const data = { client, nonce: `${client}-${this.time}`, version }
      if (version === 2 && this.refusing.has(client)) this.write({ type: 'nacked', data: { ...data, reason: 'no' } })
      else this.write({ type: 'acked', data })
    }
  }
}

const plans = fc
  .record({
    stages: fc.uniqueArray(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 4 }),
    share: fc.integer({ min: 1, max: 100 }),
    pauseAbove: fc.integer({ min: 0, max: 30 }),
    withdrawAbove: fc.integer({ min: 0, max: 60 }),
    hold: fc.nat({ max: 3 }),
  })
  .map(({ stages, share, pauseAbove, withdrawAbove, hold }) =>
    planOf({
      stages: stages.sort((a, b) => a - b).map((each) => each / 100),
      share: share / 100,
      pauseAbove: pauseAbove / 100,
      withdrawAbove: withdrawAbove / 100,
      hold,
    }),
  )

const steps = fc.array(
  fc.oneof(
    fc.record({ do: fc.constant('answer' as const), max: fc.nat({ max: 20 }) }),
    fc.constant({ do: 'look' as const }),
    fc.constantFrom({ do: 'pause' as const }, { do: 'resume' as const }, { do: 'withdraw' as const }),
  ),
  { maxLength: 40 },
)

const story = fc.tuple(fc.integer({ min: 0, max: 30 }), fc.array(fc.nat({ max: 29 }), { maxLength: 12 }), plans, steps)
type Story = typeof story extends fc.Arbitrary<infer T> ? T : never

function play([fleet, refusing, plan, acts]: Story, planted: ReadonlySet<string> = new Set()): void {
  const world = new World(fleet, refusing, planted)
  world.set(2, plan)
  const look = (request: RolloutRequest | null = null) => {
    const before = world.tally()
    const { rollout } = world.state
    const entry = world.look(request)
    if (entry?.type !== 'advanced' && entry?.type !== 'completed') return entry
    // A rollout never goes beyond its stage.
    const tolerated = rollout!.tolerated
    expect(before.nacked <= tolerated || before.nacked <= plan.pauseAbove * before.clients).toBe(true)
    expect(before.fleet).toBeGreaterThan(0)
    expect(world.time - rollout!.since).toBeGreaterThanOrEqual(plan.holdMs)
    if (entry.type === 'advanced') expect(entry.data.stage).toBe(rollout!.stage + 1)
    return entry
  }
  for (const act of acts) {
    world.time += 1
    if (act.do === 'answer') world.answer(act.max)
    else look(act.do === 'look' ? null : act.do)
    const { rollout } = world.state
    const isIn = (client: string) => rollout?.status !== 'withdrawn' && isChosen('c', client, rollout?.share ?? 0)
    expect(world.names.filter((client) => world.target(client) !== (isIn(client) ? 2 : 1))).toEqual([])
  }
  // Without interference it completes, pauses, or waits for a fleet.
  for (let i = 0; i < 20 && world.state.rollout?.status !== 'completed'; i++) {
    world.time += 10
    world.answer(100)
    look()
  }
  const { rollout } = world.state
  if (fleet > 0 && rollout!.status !== 'paused') expect(isOver(rollout!)).toBe(true)
  if (rollout?.status !== 'completed') return
  const has = (client: string) => world.state.clients.get(client)!.inForce
  const missing = world.names.filter((client) => has(client) !== 2 && !world.refusing.has(client))
  expect(missing.length).toBeLessThanOrEqual(Math.floor((1 - plan.share) * fleet + 1e-9))
  expect(world.names.every((client) => world.target(client) === 2)).toBe(true)
}

describe('rollouts', () => {
  it('go stage by stage, stop at refusals, and end', () => {
    fc.assert(
      fc.property(story, (each) => play(each)),
      { numRuns: 200 },
    )
  })

  it('the planted bug blind-to-nacks is found', () => {
    const found = fc.check(
      fc.property(story, (each) => play(each, new Set(['blind-to-nacks']))),
      { numRuns: 2000, endOnFailure: true },
    )
    expect(found.failed).toBe(true)
  })

  it('a withdrawn version is offered to no client, and clients with it return to the last good one', () => {
    const world = new World(20, [3], new Set())
    world.set(2, planOf({ stages: [0.5], withdrawAbove: 1 }))
    world.look()
    const canaries = world.names.filter((client) => isChosen('c', client, 0.5))
    expect(canaries.length).toBeGreaterThan(0)
    world.answer(100)
    expect(canaries.map((client) => world.target(client))).toEqual(canaries.map(() => 2))
    world.look('withdraw')
    world.answer(100)
    for (const client of world.names) expect(world.state.clients.get(client)!.inForce).toBe(1)
    // The next version also falls back to version 1: version 2 was never good.
    world.set(3, planOf({}))
    expect(world.state.base).toMatchObject({ version: 1 })
  })
})

test('the clients of one stage are in all later ones, and a share is about that share', () => {
  const names = Array.from({ length: 10_000 }, (_, i) => `edge-${i}`)
  const chosen = (share: number) => names.filter((name) => isChosen('routes', name, share))
  let before: readonly string[] = []
  for (const share of [0.01, 0.1, 0.5, 1]) {
    const now = chosen(share)
    const all = new Set(now)
    expect(before.every((name) => all.has(name))).toBe(true)
    expect(Math.abs(now.length / names.length - share)).toBeLessThan(0.02)
    before = now
  }
  expect(chosen(0)).toEqual([])
  // The hash is part of the stored format: other versions of this code must choose the same clients.
  expect(names.slice(0, 12).filter((name) => isChosen('routes', name, 0.5))).toMatchInlineSnapshot(`
    [
      "edge-1",
      "edge-2",
      "edge-3",
      "edge-4",
      "edge-6",
      "edge-9",
      "edge-11",
    ]
  `)
})

test('a client that was away for too long does not count', () => {
  const world = new World(3, [], new Set())
  expect(tallyOf(world.state.clients, 1, world.time + forgetAfterMs, forgetAfterMs)).toMatchObject({
    clients: 3,
    share: 1,
  })
  expect(tallyOf(world.state.clients, 1, world.time + forgetAfterMs + 1, forgetAfterMs)).toMatchObject({
    clients: 0,
    share: 0,
  })
})

test('an invalid plan is refused with the reason', () => {
  expect(planOf({}).stages).toEqual([0.01, 0.1, 0.5, 1])
  expect(planOf({ stages: [0.2] }).stages).toEqual([0.2, 1])
  for (const stages of [[0], [0.5, 0.4], [1.1], ['x'], 'x'])
    expect(() => planOf({ stages } as never)).toThrow(/rising shares/)
  expect(() => planOf({ share: 2 })).toThrow(/between 0 and 1/)
  expect(() => planOf({ holds: 2 } as never)).toThrow(/did you mean hold/)
})
