// Forgetting of effects and dedupe keys, compared with a reference that keeps everything.

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { applyEffect, type Effect, emptyLedger, forgottenType, getEffect, listEffects } from './effects.ts'
import { effectsBelow, keysBelow, slackOf } from './forgetting.ts'

const step = fc.record({
  id: fc.integer({ min: 0, max: 8 }).map((n) => `e${n}`),
  what: fc.constantFrom('intended', 'done', 'done', 'failed', 'compensating', 'compensated', 'trim', 'keep'),
})
const story = fc.array(step, { minLength: 40, maxLength: 160 })

/** Plays the steps on two ledgers: one forgets by policy at each trim, the other never does. */
function play(steps: readonly { id: string; what: string }[], last: number, planted: ReadonlySet<string>) {
  let [ledger, all] = [emptyLedger(), emptyLedger()]
  let seq = 0
  let floor = 0
  /** A forgotten id that is used again is a new effect: from then on the reference drops it too. */
  const lost: Effect[] = []
  for (const { id, what } of steps) {
    if (what === 'trim') floor = Math.max(floor, seq - 5)
    if (what === 'trim' || what === 'keep') {
      const below = effectsBelow(ledger, floor, last, planted)
      if (below === null) continue
      seq += 1
      const before = listEffects(ledger)
      ledger = applyEffect(ledger, { seq, type: forgottenType, data: { below } })
      const gone = before.filter((effect) => !getEffect(ledger, effect.id))
      lost.push(...gone)
      check(gone, before, floor, last)
      continue
    }
    const data = { id, name: 'n', key: 'k' }
    const entry = { seq: seq + 1, type: `$effect.${what}`, data }
    try {
      ledger = applyEffect(ledger, entry)
      seq += 1
    } catch {
      continue
    }
    all = lost.some((effect) => effect.id === id) ? all : applyEffect(all, entry)
  }
  // Every effect that is still remembered is unchanged.
  for (const effect of listEffects(ledger)) {
    if (!lost.some(({ id }) => id === effect.id)) expect(effect).toEqual(getEffect(all, effect.id))
  }
  return { ledger, floor }
}

function check(gone: readonly Effect[], before: readonly Effect[], floor: number, last: number): void {
  for (const effect of gone) {
    expect(effect.outcome).not.toBeNull()
    expect(effect.state).not.toBe('compensating')
    expect(effect.changedSeq).toBeLessThanOrEqual(floor)
  }
  const settled = before.filter(({ outcome, state }) => outcome !== null && state !== 'compensating')
  const newest = settled.sort((a, b) => b.changedSeq - a.changedSeq).slice(0, last)
  for (const effect of newest) expect(gone).not.toContain(effect)
}

test('forgets no effect that is in doubt, being undone, above the floor or among the last N; keeps the rest as it was', () => {
  fc.assert(fc.property(story, fc.integer({ min: 0, max: 4 }), (steps, last) => void play(steps, last, new Set())))
})

test('the ledger stays bounded: the last N with some slack, and effects that must be kept', () => {
  fc.assert(
    fc.property(story, fc.integer({ min: 0, max: 4 }), (steps, last) => {
      const { ledger, floor } = play([...steps, { id: '', what: 'keep' }], last, new Set())
      const settled = listEffects(ledger).filter(({ outcome, state }) => outcome !== null && state !== 'compensating')
      const above = settled.filter(({ changedSeq }) => changedSeq > floor).length
      expect(settled.length).toBeLessThanOrEqual(Math.max(last, above) + slackOf(last) + above)
    }),
  )
})

test('the property finds one that forgets above the floor', () => {
  const planted = new Set(['forget-above-floor'])
  expect(() =>
    fc.assert(
      fc.property(story, fc.integer({ min: 0, max: 4 }), (steps, last) => void play(steps, last, planted)),
      {
        seed: 7,
        numRuns: 1000,
      },
    ),
  ).toThrow()
})

test('the last N keys stay, whatever their order, and there are never many more', () => {
  const sequences = fc.uniqueArray(fc.integer({ min: 1, max: 100_000 }), { maxLength: 300 })
  fc.assert(
    fc.property(sequences, fc.integer({ min: 0, max: 50 }), (seqs, last) => {
      const below = keysBelow(seqs, last) ?? 0
      const kept = seqs.filter((seq) => seq > below)
      const newest = [...seqs].sort((a, b) => b - a).slice(0, last)
      for (const seq of newest) expect(kept).toContain(seq)
      expect(kept.length).toBeLessThan(last + Math.max(1, slackOf(last)))
    }),
  )
})
