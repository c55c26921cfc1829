import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isReprise, type RepriseError } from '../errors.ts'
import {
  applyEffect,
  carriedMarkers,
  compensationKey,
  compensationPlan,
  type Effect,
  type EffectLedger,
  effectTypes,
  emptyLedger,
  getEffect,
  inDoubt,
  listEffects,
} from './effects.ts'

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())

const failure = (act: () => unknown): RepriseError => {
  try {
    act()
  } catch (error) {
    if (isReprise(error)) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

type Marker = { type: string; data: Record<string, unknown> }
const intended = (id: string, over: object = {}): Marker => ({
  type: '$effect.intended',
  data: { id, name: 'charge', key: `key-${id}`, reversal: 'compensate', ...over },
})
const marker = (type: string, id: string, over: object = {}): Marker => ({
  type: `$effect.${type}`,
  data: { id, ...over },
})
const settled = (id: string, outcome: string) => marker('settled', id, { outcome, by: 'ann' })

/** Markers at sequences 1, 2, 3, … */
const ledgerFrom = (markers: readonly Marker[]): EffectLedger =>
  markers.reduce((ledger, one, index) => applyEffect(ledger, { seq: index + 1, ...one }), emptyLedger())

const ids = (effects: readonly Effect[]) => effects.map((effect) => effect.id)

// For each known state of an effect: the markers that may follow, and the state after each. Written independently of the code.
const legal: Record<string, Record<string, string>> = {
  nothing: { intended: 'unknown' },
  unknown: {
    done: 'done',
    failed: 'failed',
    'settled done': 'done',
    'settled failed': 'failed',
    'settled compensated': 'compensated',
  },
  failed: { intended: 'unknown' },
  done: {
    compensating: 'done',
    'compensation-failed': 'done',
    compensated: 'compensated',
    'settled compensated': 'compensated',
  },
  compensated: {},
}
const kinds = [...new Set(Object.values(legal).flatMap((steps) => Object.keys(steps)))]
const toMarker = (kind: string, id: string): Marker =>
  kind === 'intended' ? intended(id) : kind.startsWith('settled ') ? settled(id, kind.slice(8)) : marker(kind, id)

test('A5.3: markers move an effect by the table, anything else is refused and changes nothing', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.constantFrom(...kinds)), { maxLength: 60 }),
      (steps) => {
        const known = new Map<string, string>()
        let ledger = emptyLedger()
        steps.forEach(([id, kind], index) => {
          const entry = { seq: index + 1, ...toMarker(kind, id) }
          const next = legal[known.get(id) ?? 'nothing']![kind]
          if (next === undefined) {
            expect(failure(() => applyEffect(ledger, entry)).code).toBe('MALFORMED')
          } else {
            ledger = applyEffect(ledger, entry)
            known.set(id, next)
          }
          for (const [each, outcome] of known) expect(getEffect(ledger, each)!.outcome ?? 'unknown').toBe(outcome)
        })
      },
    ),
  )
})

/** Histories of many effects in which every step is legal. */
const histories = fc.array(fc.tuple(fc.nat(7), fc.nat(5)), { maxLength: 80 }).map((choices) => {
  const known = new Map<string, string>()
  return choices.flatMap(([which, choice]) => {
    const id = `e${which}`
    const steps = Object.entries(legal[known.get(id) ?? 'nothing']!)
    if (steps.length === 0) return []
    const [kind, next] = steps[choice % steps.length]!
    known.set(id, next)
    return [
      kind === 'intended'
        ? intended(id, { reversal: ['compensate', 'none', 'irreversible'][which % 3] })
        : toMarker(kind, id),
    ]
  })
})

test('A5.2: older ledgers stay as they were, and folding in two parts gives the same ledger', () => {
  fc.assert(
    fc.property(histories, fc.nat(80), (markers, cut) => {
      const half = ledgerFrom(markers.slice(0, cut))
      const before = listEffects(half)
      let ledger = half
      markers.slice(cut).forEach((one, index) => {
        ledger = applyEffect(ledger, { seq: Math.min(cut, markers.length) + index + 1, ...one })
      })
      expect(ledger).toEqual(ledgerFrom(markers))
      expect(listEffects(half)).toEqual(before)
    }),
  )
})

test('A9.2, G5: a roll back undoes in reverse order of completion, and no effect after the coordinate is forgotten', () => {
  fc.assert(
    fc.property(histories, fc.nat(80), (markers, afterSeq) => {
      const ledger = ledgerFrom(markers)
      const plan = compensationPlan(ledger, afterSeq)
      for (const list of [plan.compensate, plan.cannot]) {
        const order = list.map((effect) => effect.endedSeq!)
        expect(order).toEqual([...order].sort((a, b) => b - a))
      }
      expect(plan.compensate.every((effect) => effect.reversal === 'compensate')).toBe(true)
      expect(plan.cannot.every((effect) => effect.reversal !== 'compensate')).toBe(true)
      const named = [...plan.compensate, ...plan.cannot, ...plan.inDoubt, ...plan.carry]
      expect(new Set(named).size).toBe(named.length)
      // Unnamed effects either did not change after the coordinate, or began after it and left no trace outside.
      for (const effect of listEffects(ledger).filter((one) => !named.includes(one))) {
        const leftNoTrace = effect.outcome === 'failed' || effect.outcome === 'compensated'
        expect(effect.changedSeq <= afterSeq || (effect.intendedSeq > afterSeq && leftNoTrace)).toBe(true)
      }
    }),
  )
})

test('A9.2: the branch of a roll back takes over every outcome, also of an effect that had failed or was being undone', () => {
  fc.assert(
    fc.property(histories, fc.nat(80), (markers, afterSeq) => {
      const { carry } = compensationPlan(ledgerFrom(markers), afterSeq)
      let branch = ledgerFrom(markers.slice(0, afterSeq))
      carriedMarkers(carry, branch).forEach((entry, i) => {
        branch = applyEffect(branch, { seq: afterSeq + i + 1, ...entry })
      })
      for (const { id, key, outcome, result } of carry)
        expect(getEffect(branch, id)).toMatchObject({ key, outcome, result })
    }),
    { numRuns: 1000 },
  )
})

test('the order of compensation is that of completion, not of intent', () => {
  const ledger = ledgerFrom([
    intended('a'),
    intended('b'),
    intended('c'),
    marker('done', 'b'),
    marker('done', 'c'),
    marker('done', 'a'),
  ])
  expect(ids(compensationPlan(ledger, 0).compensate)).toEqual(['a', 'c', 'b'])
})

test('effects that cannot be undone, that are in doubt, and that the branch must know are listed separately', () => {
  const ledger = ledgerFrom([
    intended('before'),
    intended('straddling'),
    marker('done', 'before'),
    intended('mail', { reversal: 'irreversible' }), // 4: after the coordinate
    marker('done', 'straddling'),
    marker('done', 'mail'),
    intended('lost'),
    intended('refunded'),
    marker('done', 'refunded'),
    marker('compensated', 'refunded'),
    intended('stuck'),
    marker('done', 'stuck'),
    marker('compensation-failed', 'stuck', { error: 'bank is closed' }),
  ])
  const plan = compensationPlan(ledger, 3)
  expect({
    compensate: ids(plan.compensate),
    cannot: ids(plan.cannot),
    inDoubt: ids(plan.inDoubt),
    carry: ids(plan.carry),
  }).toEqual({
    compensate: ['stuck'],
    cannot: ['mail'],
    inDoubt: ['lost'],
    carry: ['straddling'],
  })
  expect(getEffect(ledger, 'stuck')).toMatchObject({
    state: 'compensating',
    compensationFailures: 1,
    error: 'bank is closed',
  })
})

test('A5.3: intended without an outcome is in doubt, unless it is running right now', () => {
  const ledger = ledgerFrom([intended('b'), intended('a'), intended('c'), marker('done', 'c'), intended('d')])
  expect(ids(inDoubt(ledger))).toEqual(['b', 'a', 'd'])
  expect(ids(inDoubt(ledger, ['a']))).toEqual(['b', 'd'])
  expect(ids(inDoubt(applyEffect(ledger, { seq: 9, ...settled('b', 'failed') })))).toEqual(['a', 'd'])
})

test('a retry keeps its key and its first intent, and counts', () => {
  const ledger = ledgerFrom([intended('a'), marker('failed', 'a', { error: 'no answer' }), intended('a')])
  expect(getEffect(ledger, 'a')).toMatchObject({
    state: 'intended',
    intendedSeq: 1,
    changedSeq: 3,
    attempts: 2,
    key: 'key-a',
    error: null,
  })
  const otherKey = { seq: 3, ...intended('a', { key: 'another' }) }
  expect(failure(() => applyEffect(ledgerFrom([intended('a'), marker('failed', 'a')]), otherKey)).code).toBe(
    'MALFORMED',
  )
})

test('an illegal marker names both sides', () => {
  const ledger = ledgerFrom([intended('a'), marker('done', 'a')])
  const error = failure(() => applyEffect(ledger, { seq: 3, ...marker('done', 'a') }))
  expect(error.message).toContain('$effect.done at sequence 3: effect a is done since sequence 2')
  expect(error.data).toEqual({ seq: 3, type: '$effect.done', effect: 'a', state: 'done', since: 2 })
  expect(failure(() => applyEffect(emptyLedger(), { seq: 1, ...marker('done', 'x') })).message).toContain(
    'was never intended',
  )
})

test('hostile marker data is refused, other entries are none of its business', () => {
  for (const type of effectTypes) {
    for (const data of [null, undefined, 7, 'a', [], {}, { id: 5 }, { id: '' }]) {
      expect(failure(() => applyEffect(emptyLedger(), { seq: 1, type, data })).code).toBe('MALFORMED')
    }
  }
  expect(failure(() => applyEffect(emptyLedger(), { seq: 1, ...intended('a', { reversal: 'maybe' }) })).code).toBe(
    'MALFORMED',
  )
  expect(failure(() => applyEffect(ledgerFrom([intended('a')]), { seq: 2, ...settled('a', 'unclear') })).code).toBe(
    'MALFORMED',
  )
  expect(failure(() => applyEffect(emptyLedger(), { seq: 1, type: '$effect.forgiven', data: { id: 'a' } })).code).toBe(
    'INCOMPATIBLE_VERSION',
  )
  expect(applyEffect(emptyLedger(), { seq: 1, type: 'added', data: null })).toBe(emptyLedger())
  expect(getEffect(ledgerFrom([intended('__proto__')]), '__proto__')?.id).toBe('__proto__')
})

test('G5: the key of a compensation is another than that of its effect, and fits a header', () => {
  expect(compensationKey('charge-9f86d0', sha256)).toBe('charge-9f86d0~undo')
  // Effects intended before keys were digests.
  const long = compensationKey('o'.repeat(512), sha256)
  expect(long).toHaveLength(255)
  expect(compensationKey('o'.repeat(513), sha256)).not.toBe(long)
})

test('forgets settled effects at or below a sequence, never effects in doubt or being undone', () => {
  const marks = [
    { seq: 1, type: '$effect.intended', data: { id: 'done', name: 'a', key: 'k1' } },
    { seq: 2, type: '$effect.done', data: { id: 'done' } },
    { seq: 3, type: '$effect.intended', data: { id: 'doubt', name: 'a', key: 'k2' } },
    { seq: 4, type: '$effect.intended', data: { id: 'undoing', name: 'a', key: 'k3' } },
    { seq: 5, type: '$effect.done', data: { id: 'undoing' } },
    { seq: 6, type: '$effect.compensating', data: { id: 'undoing' } },
    { seq: 7, type: '$effect.intended', data: { id: 'later', name: 'a', key: 'k4' } },
    { seq: 8, type: '$effect.failed', data: { id: 'later' } },
  ]
  const ledger = marks.reduce((all, mark) => applyEffect(all, mark), emptyLedger())
  const below = (seq: number) => applyEffect(ledger, { seq: 9, type: '$effect.forgotten', data: { below: seq } })
  const ids = (seq: number) => listEffects(below(seq)).map((effect) => effect.id)
  expect(ids(1)).toEqual(['done', 'doubt', 'undoing', 'later'])
  expect(ids(2)).toEqual(['doubt', 'undoing', 'later'])
  expect(ids(8)).toEqual(['doubt', 'undoing'])
  expect(() => applyEffect(ledger, { seq: 9, type: '$effect.forgotten', data: {} })).toThrow('MALFORMED')
})
