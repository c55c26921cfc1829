// The search for the point at which a state went wrong.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bisect } from './bisect.ts'

function search(states: readonly boolean[]): { readonly found: number; readonly asked: number } {
  const run = bisect(states.length)
  const asked = new Set<number>()
  let step = run.next()
  while (!step.done) {
    // Each question restores a checkpoint, so none may be repeated.
    expect(asked.has(step.value)).toBe(false)
    asked.add(step.value)
    step = run.next(states[step.value]!)
  }
  return { found: step.value, asked: asked.size }
}

describe('bisect', () => {
  it('finds a good state that a bad one follows, whatever the others are', () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 200 }), (states) => {
        const { found } = search(states)
        if (states.length === 0) expect(found).toBe(-1)
        else if (states.at(-1)) expect(found).toBe(states.length - 1)
        else expect([states[found] ?? true, states[found + 1]]).toEqual([true, false])
      }),
    )
  })

  it('tests a single state once', () => {
    expect([search([false]), search([true])]).toEqual([
      { found: -1, asked: 1 },
      { found: 0, asked: 1 },
    ])
  })

  it('finds the only change, and tests few states', () => {
    fc.assert(
      fc.property(fc.nat(5000), fc.nat(5000), (good, bad) => {
        const states = [...Array(good).fill(true), ...Array(bad).fill(false)] as boolean[]
        const { found, asked } = search(states)
        expect(found).toBe(good - 1)
        expect(asked).toBeLessThanOrEqual(2 + Math.ceil(Math.log2(Math.max(1, states.length))))
      }),
    )
  })
})
