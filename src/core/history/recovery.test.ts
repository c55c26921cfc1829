import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ManifestId } from '../coordinate.ts'
import { isReprise } from '../errors.ts'
import { type Candidate, planRecovery, type RecoveryInput } from './recovery.ts'

const checkpoint = (seq: number, over: Partial<Candidate> = {}): Candidate => ({
  id: `m${seq}` as ManifestId,
  seq,
  foldVersion: '1',
  invalid: null,
  verifiedAt: 1,
  createdAt: seq * 10,
  totalBytes: 1000,
  ...over,
})

const situation: fc.Arbitrary<RecoveryInput<Candidate>> = fc
  .record({
    seq: fc.nat(60),
    floor: fc.nat(60),
    back: fc.option(fc.nat(60), { nil: undefined }),
    authority: fc.constantFrom('history' as const, 'state' as const),
    catalog: fc.array(
      fc.record({
        seq: fc.nat(70),
        foldVersion: fc.constantFrom('1', '1', '1', '2'),
        invalid: fc.constantFrom(null, null, 'chunk ab is missing'),
        verifiedAt: fc.constantFrom(null, 5),
        createdAt: fc.nat(100),
      }),
      { maxLength: 12 },
    ),
  })
  .map(({ seq, floor, back, authority, catalog }) => ({
    head: { seq, floor: Math.min(seq, floor) },
    authority,
    foldVersion: '1',
    catalog: catalog.map((one, index) => checkpoint(one.seq, { ...one, id: `m${index}` as ManifestId })),
    ...(back === undefined ? {} : { to: Math.max(0, seq - back) }),
  }))

test('A1.3: every checkpoint is either tried or skipped with a reason, and the newest usable goes first', () => {
  fc.assert(
    fc.property(situation, (input) => {
      const plan = planRecovery(input)
      const tried = plan.attempts.flatMap((attempt) => (attempt.kind === 'checkpoint' ? [attempt.manifest] : []))
      expect(new Set([...tried, ...plan.skipped.map((skip) => skip.manifest)])).toEqual(new Set(input.catalog))
      expect(tried.length + plan.skipped.length).toBe(input.catalog.length)
      expect(tried.map((one) => one.seq)).toEqual(tried.map((one) => one.seq).sort((a, b) => b - a))
      for (const skip of plan.skipped) expect(skip.detail).not.toBe('')
    }),
  )
})

test('A1.1, G8: each attempt can reach the target with the existing history', () => {
  fc.assert(
    fc.property(situation, (input) => {
      const plan = planRecovery(input)
      const target = input.to ?? input.head.seq
      for (const attempt of plan.attempts) {
        const start = attempt.kind === 'checkpoint' ? attempt.manifest.seq : 0
        if (attempt.kind === 'checkpoint') {
          expect(attempt.manifest.invalid).toBeNull()
          expect(attempt.manifest.foldVersion).toBe(input.foldVersion)
        }
        expect(start).toBeLessThanOrEqual(target)
        if (input.authority === 'state') {
          expect([attempt.replayEntries, attempt.lost]).toEqual([0, target - start])
        } else {
          expect([start + attempt.replayEntries, attempt.lost]).toEqual([target, 0])
          if (attempt.replay !== null) expect(attempt.replay.from).toBeGreaterThan(input.head.floor)
        }
        expect(attempt.replay).toEqual(attempt.replayEntries === 0 ? null : { from: start + 1, to: target })
      }
    }),
  )
})

test('G8: no usable checkpoint is omitted, by an independent reading of the rule', () => {
  fc.assert(
    fc.property(situation, (input) => {
      const target = input.to ?? input.head.seq
      const whole = input.catalog.filter((one) => one.invalid === null && one.seq <= target)
      const expected =
        input.authority === 'history'
          ? whole.filter((one) => one.foldVersion === '1' && (one.seq >= input.head.floor || one.seq === target))
          : whole.filter(
              (one) =>
                one.foldVersion === '1' && !whole.some((newer) => newer.foldVersion !== '1' && newer.seq > one.seq),
            )
      const plan = planRecovery(input)
      const tried = plan.attempts.flatMap((attempt) => (attempt.kind === 'checkpoint' ? [attempt.manifest] : []))
      const tied = (one: Candidate) => whole.some((other) => other.foldVersion !== '1' && other.seq === one.seq)
      expect(new Set(tried.filter((one) => !tied(one)))).toEqual(new Set(expected.filter((one) => !tied(one))))
      expect(plan.attempts.some((attempt) => attempt.kind === 'origin')).toBe(
        target === 0 || (input.authority === 'history' && input.head.floor === 0),
      )
      expect(plan.missing === null).toBe(plan.attempts.length > 0)
    }),
  )
})

test('A1.3: newest first, then older ones, then the origin, with the expected cost of each', () => {
  const plan = planRecovery({
    head: { seq: 1000, floor: 0 },
    catalog: [checkpoint(500), checkpoint(900, { invalid: 'chunk ab is missing' }), checkpoint(800)],
    foldVersion: '1',
    authority: 'history',
    costs: { replayEntriesPerMs: 100, restoreBytesPerMs: 500 },
  })
  expect(plan.attempts).toMatchObject([
    { kind: 'checkpoint', manifest: { seq: 800 }, replay: { from: 801, to: 1000 }, replayEntries: 200, expectedMs: 4 },
    { kind: 'checkpoint', manifest: { seq: 500 }, replay: { from: 501, to: 1000 }, replayEntries: 500, expectedMs: 7 },
    { kind: 'origin', replay: { from: 1, to: 1000 }, replayEntries: 1000, expectedMs: 10 },
  ])
  expect(plan.skipped).toMatchObject([{ manifest: { seq: 900 }, why: 'invalid', detail: 'chunk ab is missing' }])
  expect(plan.ifAllFail).toBe(
    'every checkpoint failed (at 800, 500) and history 1..1000 could not be replayed from the origin',
  )
})

test('A1.3: when nothing can work the plan names exactly the missing parts', () => {
  const plan = planRecovery({
    head: { seq: 900, floor: 500 },
    catalog: [checkpoint(800, { invalid: 'damaged' }), checkpoint(700, { foldVersion: '0' }), checkpoint(400)],
    foldVersion: '1',
    authority: 'history',
  })
  expect(plan.attempts).toEqual([])
  expect(plan.missing).toBe(
    'history 1..500 was trimmed and there is no valid checkpoint of fold version 1 between 500 and 900; ' +
      'not usable: 800 (invalid), 700 (other fold version), 400 (history after it was trimmed)',
  )
})

test('a checkpoint exactly at the floor is usable, one below it is not', () => {
  const plan = planRecovery({
    head: { seq: 20, floor: 10 },
    catalog: [checkpoint(9), checkpoint(10)],
    foldVersion: '1',
    authority: 'history',
  })
  expect(plan.attempts).toMatchObject([{ manifest: { seq: 10 }, replay: { from: 11, to: 20 } }])
})

test('time travel below the floor works where a checkpoint lies on the target itself', () => {
  const base = {
    head: { seq: 900, floor: 500 },
    catalog: [checkpoint(300)],
    foldVersion: '1',
    authority: 'history',
  } as const
  expect(planRecovery({ ...base, to: 300 }).attempts).toMatchObject([{ manifest: { seq: 300 }, replay: null }])
  expect(planRecovery({ ...base, to: 301 }).missing).toContain('at 301 itself')
})

test('a fork whose parents reach back to the origin can always be replayed', () => {
  const plan = planRecovery({
    head: { seq: 30, floor: 20 },
    catalog: [],
    foldVersion: '1',
    authority: 'history',
    reachesOrigin: true,
  })
  expect(plan.attempts).toMatchObject([{ kind: 'origin', replayEntries: 30 }])
})

test('a timeline without history starts from the origin, whatever its authority', () => {
  for (const authority of ['history', 'state'] as const) {
    const plan = planRecovery({ head: { seq: 0, floor: 0 }, catalog: [], foldVersion: '1', authority })
    expect(plan.attempts).toMatchObject([{ kind: 'origin', replay: null, lost: 0 }])
  }
})

test('A1.2: where state is the authority, a damaged newest save falls back to the previous one and reports the loss', () => {
  const plan = planRecovery({
    head: { seq: 7, floor: 0 },
    catalog: [checkpoint(7, { invalid: 'torn' }), checkpoint(6), checkpoint(5)],
    foldVersion: '1',
    authority: 'state',
  })
  expect(plan.attempts).toMatchObject([
    { manifest: { seq: 6 }, replay: null, lost: 1 },
    { manifest: { seq: 5 }, replay: null, lost: 2 },
  ])
})

test('A1.2: where state is the truth, a whole save of another format is never passed over in silence', () => {
  const plan = planRecovery({
    head: { seq: 7, floor: 0 },
    catalog: [checkpoint(7, { foldVersion: '2' }), checkpoint(6)],
    foldVersion: '1',
    authority: 'state',
  })
  expect(plan.attempts).toEqual([])
  expect(plan.missing).toContain('7 (other fold version), 6 (a newer one has another fold version)')
})

test('a checkpoint that claims more than history holds is not believed', () => {
  const plan = planRecovery({
    head: { seq: 5, floor: 0 },
    catalog: [checkpoint(6)],
    foldVersion: '1',
    authority: 'history',
  })
  expect(plan.skipped).toMatchObject([{ why: 'beyond the head' }])
  expect(plan.attempts).toMatchObject([{ kind: 'origin' }])
})

test('a target outside history is refused', () => {
  for (const to of [6, -1, 1.5]) {
    try {
      planRecovery({ head: { seq: 5, floor: 0 }, catalog: [], foldVersion: '1', authority: 'history', to })
      expect.unreachable()
    } catch (error) {
      expect(isReprise(error, 'OUT_OF_RANGE')).toBe(true)
    }
  }
})
