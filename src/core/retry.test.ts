import fc from 'fast-check'
import { expect, it } from 'vitest'
import { decideRetry, GiveUp, RetryLater, resolveRetry } from './retry.ts'

it('pauses grow by the factor, stay within the jitter and below the longest, and end with the attempts', () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 8 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (attempts, chance) => {
      const policy = resolveRetry({ attempts, backoff: 100, factor: 2, maxBackoff: 1000, jitter: 0.2 })
      for (let failed = 1; failed < attempts; failed++) {
        const decision = decideRetry(policy, failed, new Error('x'), chance)
        expect(decision.again).toBe(true)
        if (!decision.again) return
        const middle = Math.min(1000, 100 * 2 ** (failed - 1))
        expect(decision.delayMs).toBeGreaterThanOrEqual(Math.floor(middle * 0.8))
        expect(decision.delayMs).toBeLessThanOrEqual(Math.min(1000, Math.ceil(middle * 1.2)))
      }
      expect(decideRetry(policy, attempts, new Error('x'), chance)).toEqual({ again: false })
    }),
  )
})

it('an item says when: by RetryLater without using up an attempt, by retryAfter on any error with using one', () => {
  const policy = resolveRetry({ attempts: 2, backoff: 10 })
  expect(decideRetry(policy, 9, new RetryLater('3s'), 0)).toEqual({ again: true, delayMs: 3000, counts: false })
  const busy = Object.assign(new Error('429'), { retryAfter: '7' })
  expect(decideRetry(policy, 1, busy, 0)).toEqual({ again: true, delayMs: 7000, counts: true })
  expect(decideRetry(policy, 2, busy, 0)).toEqual({ again: false })
})

it('gives up where it was said that trying again is of no use', () => {
  const policy = resolveRetry({ attempts: 5, nonRetryable: (error) => (error as Error).message === '404' })
  expect(decideRetry(policy, 1, new GiveUp('gone'), 0)).toEqual({ again: false })
  expect(decideRetry(policy, 1, new Error('404'), 0)).toEqual({ again: false })
})

it.each([{ attempts: 0 }, { jitter: 2 }, { factor: 0.5 }, { crashes: 0 }, { backoff: 'soon' }])(
  'refuses %o',
  (policy) => {
    expect(() => resolveRetry(policy)).toThrow(/INVALID_ARGUMENT/)
  },
)
