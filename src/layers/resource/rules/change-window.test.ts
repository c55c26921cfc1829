import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ChangeWindow } from './change-window.ts'
import type { ResourceObject } from './object.ts'
import type { Change } from './state.ts'

const object = { name: 'a', spec: 'x'.repeat(100) } as unknown as ResourceObject
const change = (revision: number): Change => ({ revision, type: 'modified', object, before: object })

it('returns the same as a list of all changes, or reports that it does not know', () => {
  const steps = fc.array(fc.tuple(fc.integer({ min: 1, max: 3 }), fc.boolean()), { maxLength: 60 })
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 5 }), (moves, changes, limit) => {
      const window = new ChangeWindow(10, { changes, bytes: 1e9 })
      const all: Change[] = []
      let at = 10
      for (const [by, isChange] of moves) {
        at += by
        const made = isChange ? change(at) : null
        if (made) all.push(made)
        window.add(at, made)
      }
      expect(window.revision).toBe(at)
      expect(window.size).toBeLessThanOrEqual(changes)
      for (let revision = 0; revision <= at + 1; revision++) {
        const known = window.after(revision, limit)
        const should = all.filter((one) => one.revision > revision)
        const isRight = known
          ? known.length === Math.min(limit, should.length) && known.every((one, i) => one === should[i])
          : // Only dropped changes are unknown.
            revision < 10 || should.length > changes
        if (!isRight) expect({ revision, known }).toEqual({ revision, known: should.slice(0, limit) })
      }
    }),
  )
})

it('is bounded in bytes, however many changes it may hold', () => {
  const window = new ChangeWindow(0, { changes: 1000, bytes: 1000 })
  for (let revision = 1; revision <= 5000; revision++) window.add(revision, change(revision))
  expect(window.size).toBeGreaterThan(0)
  expect(window.size).toBeLessThan(10)
  expect(window.after(4990, 100)).toBeNull()
  expect(window.after(4999, 100)).toHaveLength(1)
})
