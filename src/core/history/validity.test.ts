import { expect, it } from 'vitest'
import { badMark, isBadMark, whyInvalid } from './validity.ts'

it('a state is valid if its predicate returns true or nothing; otherwise there is a reason', () => {
  expect(whyInvalid(undefined, 1)).toBeNull()
  expect(whyInvalid(() => true, 1)).toBeNull()
  expect(whyInvalid(() => undefined, 1)).toBeNull()
  expect(whyInvalid(() => false, 1)).toMatch(/returned false/)
  expect(whyInvalid((n) => (n > 0 ? 'too many' : true), 1)).toBe('too many')
  expect(whyInvalid(() => 7 as never, 1)).toMatch(/neither/)
  const broken = () => {
    throw new Error('oh')
  }
  expect(whyInvalid(broken, 1)).toMatch(/threw: oh/)
})

it("a person's mark is distinguished from a reader's finding", () => {
  expect(isBadMark(badMark('ann', 'written by [the] bug'))).toBe(true)
  expect(isBadMark('chunk is missing [CHUNK_MISSING]')).toBe(false)
  expect(isBadMark(null)).toBe(false)
})
