import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hasTag, wantedOf } from './range.ts'

const etag = '"abc"'
const ask = (range: string | null, ifRange: string | null = null, size = 10) => wantedOf({ range, ifRange }, size, etag)

describe('a range of a download', () => {
  test.each([
    [null, { kind: 'whole' }],
    ['bytes=0-', { kind: 'range', from: 0, to: 10 }],
    ['bytes=2-4', { kind: 'range', from: 2, to: 5 }],
    ['bytes=2-400', { kind: 'range', from: 2, to: 10 }],
    ['bytes=-3', { kind: 'range', from: 7, to: 10 }],
    ['bytes=-30', { kind: 'range', from: 0, to: 10 }],
    ['bytes=10-', { kind: 'unsatisfiable' }],
    ['bytes=-0', { kind: 'unsatisfiable' }],
    // Malformed, of another unit, or several ranges: the whole is always a valid response.
    ['bytes=4-2', { kind: 'whole' }],
    ['bytes=-', { kind: 'whole' }],
    ['lines=1-2', { kind: 'whole' }],
    ['bytes=0-1,3-4', { kind: 'whole' }],
  ])('%s', (range, wanted) => {
    expect(ask(range)).toEqual(wanted)
  })

  test('is given only of the bytes that the client has a part of', () => {
    expect(ask('bytes=2-', etag)).toEqual({ kind: 'range', from: 2, to: 10 })
    for (const other of ['"abd"', `W/${etag}`, 'Mon, 16 Nov 2026 18:00:00 GMT']) {
      expect(ask('bytes=2-', other)).toEqual({ kind: 'whole' })
    }
  })

  test('lies inside the bytes, for any request', () => {
    fc.assert(
      fc.property(fc.string(), fc.nat(), fc.nat(), fc.nat({ max: 50 }), (noise, a, b, size) => {
        for (const range of [noise, `bytes=${noise}`, `bytes=${a}-${b}`, `bytes=${a}-`, `bytes=-${b}`]) {
          const wanted = ask(range, null, size)
          if (wanted.kind !== 'range') continue
          expect(wanted.from).toBeGreaterThanOrEqual(0)
          expect(wanted.to).toBeGreaterThan(wanted.from)
          expect(wanted.to).toBeLessThanOrEqual(size)
        }
      }),
    )
  })

  test('is not needed by a client that has the bytes', () => {
    expect([null, '"x"', etag, `"x", W/${etag}`, '*'].map((tag) => hasTag(tag, etag))).toEqual([
      ...[false, false, true, true, true],
    ])
  })
})
