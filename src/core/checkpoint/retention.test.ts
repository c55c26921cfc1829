import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ManifestId } from '../coordinate.ts'
import { isReprise } from '../errors.ts'
import { planRecovery } from '../history/recovery.ts'
import {
  effectsLastOf,
  keysLastOf,
  planRetention,
  type RetentionCandidate,
  type RetentionInput,
  type RetentionPlan,
  resolveRetention,
} from './retention.ts'

const hour = 3_600_000
const day = 24 * hour

const checkpoint = (seq: number, over: Partial<RetentionCandidate> = {}): RetentionCandidate => ({
  id: `m${seq}` as ManifestId,
  seq,
  foldVersion: '1',
  invalid: null,
  verifiedAt: 1,
  createdAt: seq,
  isPinned: false,
  ...over,
})

const input = (catalog: readonly RetentionCandidate[], over: Partial<RetentionInput> = {}): RetentionInput => ({
  policy: { history: 'needed' },
  catalog,
  head: { seq: 1000, floor: 0 },
  foldVersion: '1',
  cursors: [],
  forks: [],
  now: 1_000_000,
  ...over,
})

const kept = (plan: RetentionPlan) => plan.keep.map((verdict) => String(verdict.id)).sort()
const dropped = (plan: RetentionPlan) => plan.drop.map((verdict) => String(verdict.id)).sort()
const named = (plan: RetentionPlan, id: string) =>
  [...plan.keep, ...plan.drop].find((verdict) => verdict.id === id)?.because

const situation: fc.Arbitrary<RetentionInput> = fc
  .record({
    policy: fc.record(
      {
        checkpoints: fc.integer({ min: 1, max: 4 }),
        for: fc.constantFrom(50, '1h' as const),
        hourly: fc.nat(3),
        daily: fc.nat(3),
        weekly: fc.nat(2),
        history: fc.constantFrom(
          'all' as const,
          'needed' as const,
          'needed' as const,
          { for: 40 },
          { for: '2h' as const },
        ),
        otherVersions: fc.constantFrom(0, 100, '7d' as const),
      },
      { requiredKeys: ['history'] },
    ),
    seq: fc.integer({ min: 0, max: 80 }),
    floor: fc.nat(30),
    spread: fc.constantFrom(1, hour / 2, day),
    catalog: fc.array(
      fc.record({
        seq: fc.nat(85),
        foldVersion: fc.constantFrom('1', '1', '1', '0'),
        invalid: fc.constantFrom(null, null, null, 'chunk ab is missing'),
        verifiedAt: fc.constantFrom(null, 5, 5),
        isPinned: fc.constantFrom(false, false, false, true),
        jitter: fc.nat(5),
      }),
      { maxLength: 14 },
    ),
    cursors: fc.array(fc.record({ name: fc.constantFrom('mail', 'search'), seq: fc.nat(90) }), { maxLength: 2 }),
    forks: fc.array(fc.record({ timeline: fc.constantFrom('a', 'b'), baseSeq: fc.nat(80), floor: fc.nat(80) }), {
      maxLength: 2,
    }),
  })
  .map(({ policy, seq, floor, spread, catalog, cursors, forks }) => ({
    policy,
    head: { seq, floor: Math.min(seq, floor) },
    foldVersion: '1',
    catalog: catalog.map(({ jitter, ...one }, index) =>
      checkpoint(one.seq, { ...one, id: `m${index}` as ManifestId, createdAt: (one.seq + jitter) * spread }),
    ),
    cursors,
    forks,
    now: 90 * spread,
  }))

/** Checks the promises of G10 from the outside. Describes the first violation; null: none. */
const violation = (at: RetentionInput, plan: RetentionPlan): string | null => {
  const { floor, seq } = at.head
  const keptIds = new Set(plan.keep.map((verdict) => verdict.id))
  const keeps = at.catalog.filter((one) => keptIds.has(one.id))
  const isRestorable = (one: RetentionCandidate) =>
    one.invalid === null &&
    one.verifiedAt !== null &&
    one.foldVersion === at.foldVersion &&
    one.seq >= floor &&
    one.seq <= seq
  const points = (among: readonly RetentionCandidate[]) =>
    [...new Set(among.filter(isRestorable).map((one) => one.seq))].sort((a, b) => b - a)
  if (at.catalog.some((one) => one.isPinned && !keptIds.has(one.id))) return 'a pinned one is dropped'
  const [newest, second] = points(at.catalog)
  for (const needed of [newest, second]) {
    if (needed !== undefined && !points(keeps).includes(needed))
      return 'one of the two newest restore points is dropped'
  }
  if (plan.floor.seq < floor) return 'the floor sinks'
  if (plan.floor.seq === floor) return null
  if (at.policy.history === 'all') return 'the floor rises although all history is kept'
  if (second === undefined || plan.floor.seq > second) return 'the floor is above the second newest restore point'
  if (at.cursors.some((cursor) => cursor.seq < plan.floor.seq)) return 'the floor passes a cursor'
  if (at.forks.some((fork) => fork.floor < fork.baseSeq && fork.floor < plan.floor.seq))
    return 'the floor passes a fork'
  if (keeps.some((one) => one.invalid === null && one.seq <= seq && one.seq >= floor && one.seq < plan.floor.seq)) {
    return 'the floor passes a checkpoint that stays'
  }
  return null
}

test('A1.4: every checkpoint is kept or dropped, once, with a reason in words', () => {
  fc.assert(
    fc.property(situation, (at) => {
      const plan = planRetention(at)
      expect([...kept(plan), ...dropped(plan)].sort()).toEqual(at.catalog.map((one) => String(one.id)).sort())
      for (const verdict of [...plan.keep, ...plan.drop]) expect(verdict.because).not.toBe('')
      expect(plan.floor.because).not.toBe('')
    }),
  )
})

test('G10, A6.4: nothing that a pin, fork, cursor or the two newest restore points need ever goes', () => {
  fc.assert(
    fc.property(situation, (at) => {
      expect(violation(at, planRetention(at))).toBeNull()
    }),
    { numRuns: 3000 },
  )
})

const carriedOut = (at: RetentionInput, plan: RetentionPlan): RetentionInput => {
  const ids = new Set(plan.keep.map((verdict) => verdict.id))
  return { ...at, catalog: at.catalog.filter((one) => ids.has(one.id)), head: { ...at.head, floor: plan.floor.seq } }
}

test('G8, G10: once a plan that trims is carried out, any one checkpoint may still be damaged', () => {
  fc.assert(
    fc.property(situation, (at) => {
      const plan = planRetention(at)
      if (plan.floor.seq === at.head.floor) return
      expect(plan.restsOn.length).toBe(2)
      const after = carriedOut(at, plan)
      for (const damaged of after.catalog) {
        const catalog = after.catalog.map((one) => ({
          ...one,
          totalBytes: 0,
          invalid: one === damaged ? 'damaged' : one.invalid,
        }))
        const recovery = planRecovery({ head: after.head, catalog, foldVersion: '1', authority: 'history' })
        expect(recovery.missing).toBeNull()
      }
    }),
    { numRuns: 1000 },
  )
})

test('a plan that was carried out leaves nothing more to do', () => {
  fc.assert(
    fc.property(situation, (at) => {
      const plan = planRetention(at)
      const again = planRetention(carriedOut(at, plan))
      expect(again.drop).toEqual([])
      expect(again.floor.seq).toBe(plan.floor.seq)
    }),
    { numRuns: 1000 },
  )
})

test.each(['floor-too-high', 'unverified-counted', 'ignore-forks', 'ignore-cursors'])(
  'the planted bug %s breaks the promise, so its alarm can ring',
  (bug) => {
    const caught = fc.sample(situation, { numRuns: 3000, seed: 7 }).some((at) => {
      return violation(at, planRetention(at, new Set([bug]))) !== null
    })
    expect(caught).toBe(true)
  },
)

test('by default the last three stay, all history stays, and the reasons are given', () => {
  const plan = planRetention(
    input(
      [100, 200, 300, 400].map((seq) => checkpoint(seq)),
      { policy: {} },
    ),
  )
  expect(kept(plan)).toEqual(['m200', 'm300', 'm400'])
  expect(named(plan, 'm200')).toBe('one of the last 3')
  expect(named(plan, 'm100')).toBe('older than the policy keeps')
  expect(plan.floor).toEqual({ seq: 0, because: 'all history is kept', heldBy: [] })
})

test('A6.4: with history as needed the floor rises to the oldest kept checkpoint, and the reason names it', () => {
  const plan = planRetention(input([100, 200, 300, 400].map((seq) => checkpoint(seq))))
  expect(plan.floor).toMatchObject({ seq: 200, heldBy: [{ what: 'checkpoint m200', seq: 200 }] })
  expect(plan.restsOn).toEqual(['m400', 'm300'])
})

test('two verified ones stay even if the policy keeps one, and the floor is not above the second', () => {
  const plan = planRetention(
    input([checkpoint(100), checkpoint(200), checkpoint(300)], { policy: { checkpoints: 1, history: 'needed' } }),
  )
  expect(kept(plan)).toEqual(['m200', 'm300'])
  expect(plan.floor.seq).toBe(200)
})

test('G10: unverified checkpoints stay while they are new, and never raise the floor', () => {
  const unverified = { verifiedAt: null }
  const catalog = [
    checkpoint(100),
    checkpoint(200),
    checkpoint(300, unverified),
    checkpoint(400, unverified),
    checkpoint(50, unverified),
  ]
  const plan = planRetention(input(catalog, { policy: { checkpoints: 1, history: 'needed' } }))
  expect(kept(plan)).toEqual(['m100', 'm200', 'm300', 'm400'])
  expect(plan.floor.seq).toBe(100)
  expect(named(plan, 'm50')).toBe('never verified, and older than two restore points')
})

test('two checkpoints at the same sequence are one restore point', () => {
  const catalog = [checkpoint(100), checkpoint(200), checkpoint(200, { id: 'twin' as ManifestId, createdAt: 1 })]
  const plan = planRetention(input(catalog, { policy: { checkpoints: 1, history: 'needed' } }))
  expect(kept(plan)).toEqual(['m100', 'm200'])
  expect(named(plan, 'twin')).toBe('another one holds sequence 200')
  expect(plan.floor.seq).toBe(100)
})

test('checkpoints of another fold version are no restore points, and stay as the way back for a while', () => {
  const old = { foldVersion: '0', createdAt: 10 * day }
  const catalog = [checkpoint(100, old), checkpoint(200, old), checkpoint(300), checkpoint(400)]
  const soon = planRetention(input(catalog, { now: 12 * day }))
  expect(kept(soon)).toEqual(['m200', 'm300', 'm400'])
  expect(soon.floor).toMatchObject({ seq: 200, heldBy: [{ what: 'checkpoint m200' }] })
  const late = planRetention(input(catalog, { now: 18 * day }))
  expect(kept(late)).toEqual(['m300', 'm400'])
  expect(late.floor.seq).toBe(300)
  const first = planRetention(input(catalog.slice(0, 3), { now: 18 * day }))
  expect(kept(first)).toEqual(['m100', 'm200', 'm300'])
  expect(first.floor.because).toContain('two verified checkpoints of fold version 1 (there is one)')
})

test('an invalid one goes when another is proven, stays as evidence while it is the newest, and as the last hope', () => {
  const bad = { invalid: 'chunk ab is missing' }
  const plan = planRetention(
    input([checkpoint(100), checkpoint(200, bad), checkpoint(300), checkpoint(400, bad), checkpoint(350, bad)]),
  )
  expect(kept(plan)).toEqual(['m100', 'm300', 'm400'])
  expect(named(plan, 'm400')).toBe('invalid: kept as evidence until a newer one is verified')
  expect(named(plan, 'm200')).toBe('invalid: chunk ab is missing')
  const hopeless = planRetention(input([checkpoint(100, bad), checkpoint(200, bad)], { head: { seq: 300, floor: 50 } }))
  expect(kept(hopeless)).toEqual(['m100', 'm200'])
})

test('what restores nothing holds nothing: a pinned invalid one, or one whose history is gone', () => {
  const pinned = checkpoint(50, { isPinned: true, invalid: 'chunk ab is missing' })
  const plan = planRetention(input([pinned, checkpoint(100), checkpoint(200)]))
  expect(kept(plan)).toEqual(['m100', 'm200', 'm50'])
  expect(plan.floor.seq).toBe(100)
  const trimmed = planRetention(input([checkpoint(100), checkpoint(200)], { head: { seq: 300, floor: 150 } }))
  expect(named(trimmed, 'm100')).toBe('history after it was trimmed up to 150')
  expect(trimmed.floor.because).toContain('there is one')
})

test('cursors and forks hold the floor, and are named', () => {
  const catalog = [100, 200, 300].map((seq) => checkpoint(seq))
  const held = planRetention(
    input(catalog, {
      cursors: [
        { name: 'mail', seq: 40 },
        { name: 'search', seq: 900 },
      ],
    }),
  )
  expect(held.floor).toMatchObject({ seq: 40, heldBy: [{ what: 'cursor mail', seq: 40 }] })
  const forked = planRetention(input(catalog, { forks: [{ timeline: 'visits-experiment', baseSeq: 60, floor: 0 }] }))
  expect(forked.floor).toMatchObject({ seq: 0, because: 'held at 0 by fork visits-experiment' })
  const independent = planRetention(
    input(catalog, { forks: [{ timeline: 'visits-experiment', baseSeq: 60, floor: 60 }] }),
  )
  expect(independent.floor.seq).toBe(100)
})

test('a fork keeps the checkpoint of its parent that it may start from', () => {
  const catalog = [100, 200, 300, 400, 500].map((seq) => checkpoint(seq))
  const plan = planRetention(input(catalog, { forks: [{ timeline: 'x', baseSeq: 250, floor: 150 }] }))
  expect(named(plan, 'm200')).toBe('fork x may start from it')
  expect(dropped(plan)).toEqual(['m100'])
})

test('A8.4: hourly, daily and weekly keep the last of each period that has one', () => {
  // A Monday at noon; one checkpoint every 6 hours for 30 days.
  const now = 4 * day + 7 * day * 100 + 12 * hour
  const catalog = Array.from({ length: 120 }, (_, index) =>
    checkpoint(900 - index, { id: `h${index * 6}` as ManifestId, createdAt: now - index * 6 * hour }),
  )
  const plan = planRetention(
    input(catalog, { now, policy: { checkpoints: 1, hourly: 3, daily: 3, weekly: 3, history: 'all' } }),
  )
  // hours: now, 6, 12 · days: today, then the last of yesterday (18 h ago) and of the day before (42 h) · weeks: the
  // last of Sundays
  expect(kept(plan).sort()).toEqual(['h0', 'h12', 'h18', 'h186', 'h42', 'h6'].sort())
})

test('A8.4: keep for a time', () => {
  const catalog = [1, 2, 3, 4, 5].map((days) => checkpoint(days, { createdAt: days * day }))
  const plan = planRetention(input(catalog, { now: 6 * day, policy: { checkpoints: 1, for: '3d' } }))
  expect(kept(plan)).toEqual(['m3', 'm4', 'm5'])
})

test('a window of history keeps the entries from its start on, and at most an eighth more', () => {
  let catalog: readonly RetentionCandidate[] = []
  let floor = 0
  for (let seq = 1; seq <= 500; seq++) {
    const now = seq * hour
    catalog = [...catalog, checkpoint(seq, { createdAt: now })]
    const plan = planRetention(
      input(catalog, { now, head: { seq, floor }, policy: { checkpoints: 2, history: { for: '80h' } } }),
    )
    const ids = new Set(plan.keep.map((verdict) => verdict.id))
    catalog = catalog.filter((one) => ids.has(one.id))
    floor = plan.floor.seq
    if (seq > 100) {
      expect(seq - floor).toBeGreaterThanOrEqual(80)
      expect(seq - floor).toBeLessThanOrEqual(80 + 10 + 1)
      expect(catalog.length).toBeLessThanOrEqual(8 + 5)
    }
  }
})

test('a policy that makes no sense is refused', () => {
  const bad = [{ checkpoints: 0 }, { checkpoints: 1.5 }, { hourly: -1 }, { for: 'soon' }, { history: 'some' as never }]
  for (const policy of bad) {
    try {
      resolveRetention(policy as never)
      expect.unreachable()
    } catch (error) {
      expect(isReprise(error, 'INVALID_ARGUMENT')).toBe(true)
    }
  }
})

test('how many keys and effects are kept is a number that was given, the default, or no limit; anything else is refused', () => {
  expect(keysLastOf({})).toBe(100_000)
  expect(keysLastOf({ keys: 'all' })).toBe(Number.POSITIVE_INFINITY)
  expect(keysLastOf({ keys: { last: 7 } })).toBe(7)
  expect(effectsLastOf({ effects: { last: 0 } })).toBe(0)
  for (const bad of [null, 'some', 7, {}, { last: -1 }]) {
    expect(() => keysLastOf({ keys: bad as never })).toThrow(/INVALID_ARGUMENT/)
    expect(() => effectsLastOf({ effects: bad as never })).toThrow(/INVALID_ARGUMENT/)
  }
  expect(() => keysLastOf({ keys: null as never })).toThrow(/retain.keys must be/)
  expect(() => keysLastOf({ keys: 'some' as never })).toThrow(/retain.keys must be/)
})

test('A6.4: tiered history may move exactly as far as it could be trimmed, and the floor stays until it has moved', () => {
  fc.assert(
    fc.property(situation, (given) => {
      const { history } = given.policy
      const trims = planRetention({
        ...given,
        policy: { ...given.policy, history: history === 'all' ? 'needed' : history! },
      })
      const tiered = typeof history === 'object' ? { ...history, tiered: true } : ('tiered' as const)
      const moves = planRetention({ ...given, policy: { ...given.policy, history: tiered } })
      expect(moves.floor.seq).toBe(given.head.floor)
      expect(moves.restsOn).toEqual([])
      const rises = trims.floor.seq > given.head.floor
      expect(moves.movable).toEqual(rises ? { seq: trims.floor.seq, restsOn: trims.restsOn } : undefined)
      expect(kept(moves)).toEqual(kept(trims))
    }),
  )
})
