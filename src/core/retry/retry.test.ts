import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RepriseError } from '../errors.ts'
import { resolveBreaker } from './breaker.ts'
import { resolveRate } from './rate.ts'
import {
  decideRetry,
  GiveUp,
  isFault,
  isGiveUp,
  isRetryLater,
  RetryLater,
  type RetryPolicy,
  resolveRetry,
} from './retry.ts'

const now = Date.parse('2026-11-16T00:00:00Z')
const decide = (policy: RetryPolicy, failed: number, error: unknown, chance = 0.5) =>
  decideRetry(resolveRetry(policy), failed, error, { chance: () => chance, now })
const no = { again: false, delayMs: 0, counts: true }
const http = (more: object) => Object.assign(new Error('http'), more)

it('pauses grow by the factor, stay within the jitter and below the longest, and end with the attempts', () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 8 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (attempts, chance) => {
      const policy = { attempts, backoff: 100, factor: 2, backoffMax: 1000, jitter: 0.2 }
      for (let failed = 1; failed < attempts; failed++) {
        const decision = decide(policy, failed, new Error('x'), chance)
        expect(decision.again).toBe(true)
        const middle = Math.min(1000, 100 * 2 ** (failed - 1))
        expect(decision.delayMs).toBeGreaterThanOrEqual(Math.floor(middle * 0.8))
        expect(decision.delayMs).toBeLessThanOrEqual(Math.min(1000, Math.ceil(middle * 1.2)))
      }
      expect(decide(policy, attempts, new Error('x'), chance)).toEqual(no)
    }),
  )
})

it('is tried three times in all, after one and two seconds, by default', () => {
  expect([1, 2, 3].map((failed) => decide({}, failed, new Error('x')))).toEqual([
    { again: true, delayMs: 1000, counts: true },
    { again: true, delayMs: 2000, counts: true },
    no,
  ])
})

describe('RetryLater and GiveUp', () => {
  it('set the time without using up an attempt, and end the attempts', () => {
    expect(decide({ attempts: 2 }, 9, new RetryLater('3s'))).toEqual({ again: true, delayMs: 3000, counts: false })
    expect(decide({ attempts: 5 }, 1, new GiveUp('gone'))).toEqual(no)
  })

  it('from another copy of the package have the same meaning', () => {
    const later = Object.assign(new Error('later'), { [Symbol.for('reprise.RetryLater')]: true, retryAfter: '2s' })
    const giveUp = Object.assign(new Error('no'), { [Symbol.for('reprise.GiveUp')]: true })
    expect([isRetryLater(later), isGiveUp(giveUp), isRetryLater(giveUp), isGiveUp(null)]).toEqual([
      true,
      true,
      false,
      false,
    ])
    expect(decide({ attempts: 1 }, 1, later)).toEqual({ again: true, delayMs: 2000, counts: false })
    expect(decide({ attempts: 5 }, 1, giveUp)).toEqual(no)
  })

  it('do not count for a breaker', () => {
    const policy = resolveRetry({ giveUpOn: ['Mine'] })
    const mine = Object.assign(new Error('x'), { name: 'Mine' })
    const faults = [new RetryLater(1), new GiveUp(), mine, http({ status: 404 }), new Error('x'), http({ status: 503 })]
    expect(faults.map((error) => isFault(policy, error))).toEqual([false, false, false, false, true, true])
  })

  it('is refused with a pause that is none', () => {
    expect(() => new RetryLater('soon' as never)).toThrow(/INVALID_ARGUMENT/)
  })
})

describe("the other side's advice about retries", () => {
  const headers = { 'Retry-After': '7' }
  it.each([
    ['a thrown Response', new Response(null, { status: 429, headers: { 'retry-after': '7' } })],
    ['an error with headers', http({ status: 503, headers })],
    ['an error with Headers (OpenAI)', http({ status: 429, headers: new Headers({ 'retry-after-ms': '7000' }) })],
    ['an error of the AI SDK', http({ statusCode: 429, responseHeaders: { 'retry-after': '7' }, isRetryable: true })],
    ['what the AI SDK gave up on', http({ lastError: http({ statusCode: 503, responseHeaders: headers }) })],
    ['an error with its response', http({ response: { status: 429, headers } })],
    ['a date', http({ status: 503, headers: { 'retry-after': 'Mon, 16 Nov 2026 00:00:07 GMT' } })],
    ['a property', http({ retryAfter: '7s' })],
    ['seconds as text', http({ retryAfter: '7' })],
    ['a cause', new Error('wrapped', { cause: http({ status: 429, headers }) })],
    ['a breaker of ours', new RepriseError('CALLS_SUSPENDED', 'x', { retryAfterMs: 7000 })],
  ])('is understood of %s, and uses up an attempt', (_, error) => {
    expect(decide({ backoff: 10 }, 1, error)).toEqual({ again: true, delayMs: 7000, counts: true })
    expect(decide({ backoff: 10 }, 3, error)).toEqual(no)
  })

  it('ends the attempts if it requests a longer wait than allowed', () => {
    expect(decide({}, 1, http({ retryAfter: '1h' })).delayMs).toBe(3_600_000)
    expect(decide({}, 1, http({ retryAfter: '61m' }))).toEqual(no)
    expect(decide({ retryAfterMax: '5s' }, 1, http({ retryAfter: '6s' }))).toEqual(no)
  })

  it('ends it if the request itself was refused, and not if the service is busy or a program failed', () => {
    const permanent = [400, 401, 403, 404, 413, 422].map((status) => http({ status }))
    permanent.push(http({ status: 429, code: 'insufficient_quota' }))
    permanent.push(new Error('x', { cause: http({ $metadata: { httpStatusCode: 403 } }) }))
    for (const error of permanent) expect(decide({}, 1, error), JSON.stringify(error)).toEqual(no)
    for (const status of [408, 409, 425, 429, 500, 502, 503, 529, 1, 127]) {
      expect(decide({}, 1, http({ status })).again, String(status)).toBe(true)
    }
  })
})

it('gives up on errors that are named, by name, code, class or function, and on mistakes', () => {
  class Mine extends Error {}
  for (const giveUpOn of [['E_GONE'], [Mine], (error: unknown) => error instanceof Mine] as const) {
    expect(decide({ giveUpOn }, 1, Object.assign(new Mine('x'), { code: 'E_GONE' }))).toEqual(no)
    expect(decide({ giveUpOn }, 1, new Error('x')).again).toBe(true)
  }
  expect(decide({}, 1, new RepriseError('UNSERIALIZABLE', 'x'))).toEqual(no)
  expect(decide({}, 1, new RepriseError('TIMEOUT', 'x')).again).toBe(true)
})

it.each([{ attempts: 0 }, { jitter: 2 }, { factor: 0.5 }, { backoff: 'soon' }])('refuses %o', (policy) => {
  expect(() => resolveRetry(policy as RetryPolicy)).toThrow(/INVALID_ARGUMENT/)
})

it.each([
  [() => resolveRetry({ maxBackoff: 5 } as RetryPolicy), /unknown option maxBackoff; it is called backoffMax/],
  [() => resolveRetry({ nonRetryable: [] } as RetryPolicy), /it is called giveUpOn/],
  [() => resolveRetry({ crashes: 5 } as RetryPolicy), /it is called crashesMax/],
  [() => resolveRetry({ tries: 5 } as RetryPolicy), /unknown option tries; use one of attempts, backoff/],
  [() => resolveBreaker({ maxPause: 5 } as object), /it is called pauseMax/],
  [() => resolveRate({ max: 0, per: '1s' }), /rate.max/],
])('says what an option is called now (%#)', (make, says) => {
  expect(make).toThrow(says)
})
