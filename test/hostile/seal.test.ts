import { randomBytes } from 'node:crypto'
import { brotliCompressSync, deflateRawSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import { Sealer } from '../../src/engine/storage/seal/seal.ts'

const ring = { current: 'k1', keys: { k1: randomBytes(32) } }
const context = Buffer.from('counter/visits@7')
const sealers = { plain: new Sealer(), encrypted: new Sealer({ keys: ring }) }

function code(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    if (error instanceof RepriseError) return error.code
    throw error
  }
  return 'opened'
}

/** An envelope that declares deflate compression and this many bytes. */
function claims(size: number, body: Uint8Array): Uint8Array {
  const varint: number[] = []
  let rest = size
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) varint.push((rest % 0x80) | 0x80)
  return Buffer.concat([Buffer.from([1, 1, ...varint, rest]), body])
}

describe('G15 hostile envelopes', () => {
  test('a bomb that admits its size is refused before it is opened', () => {
    const bomb = deflateRawSync(Buffer.alloc(100 * 1024 * 1024))
    expect(code(() => sealers.plain.open(claims(100 * 1024 * 1024, bomb), context))).toBe('LIMIT_EXCEEDED')
    expect(code(() => sealers.plain.open(claims(2 ** 50, bomb), context))).toBe('LIMIT_EXCEEDED')
  })

  test('a bomb with a false size is cut off at the declared size', () => {
    const bomb = deflateRawSync(Buffer.alloc(100 * 1024 * 1024))
    expect(code(() => sealers.plain.open(claims(5000, bomb), context))).toBe('LIMIT_EXCEEDED')
    expect(code(() => sealers.plain.open(claims(0, bomb), context))).toBe('MALFORMED')
  })

  test('the ratio is bounded on its own', () => {
    const body = deflateRawSync(Buffer.alloc(50_000))
    const strict = new Sealer({ limits: { inflateRatio: 10, inflateBytes: 1_000_000 } })
    expect(code(() => strict.open(claims(50_000, body), context))).toBe('LIMIT_EXCEEDED')
    expect(code(() => sealers.plain.open(claims(50_000, body), context))).toBe('opened')
  })

  test('brotli, an unknown algorithm, or a stream that is too short are MALFORMED', () => {
    const brotli = brotliCompressSync(Buffer.alloc(256 * 1024))
    expect(code(() => sealers.plain.open(Buffer.concat([Buffer.from([1, 3, 5]), brotli]), context))).toBe('MALFORMED')
    expect(code(() => sealers.plain.open(claims(200, deflateRawSync(Buffer.alloc(100))), context))).toBe('MALFORMED')
    expect(code(() => sealers.plain.open(claims(200, Buffer.from('garbage')), context))).toBe('MALFORMED')
    expect(code(() => sealers.plain.open(new Uint8Array(), context))).toBe('MALFORMED')
    expect(code(() => sealers.plain.open(Uint8Array.of(0x10, 1), context))).toBe('MALFORMED')
  })

  test('random bytes open or end in a typed error, whatever they are opened as', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), fc.integer({ min: 0, max: 15 }), (bytes, flags) => {
        for (const sealer of Object.values(sealers)) {
          const input = Uint8Array.of(flags, ...bytes)
          for (const act of [
            () => sealer.open(input, context),
            () => sealer.openChecked(input, context),
            () => sealer.openChunk(input),
          ]) {
            expect(code(act)).not.toBe('BUG')
          }
        }
      }),
      { numRuns: 3000 },
    )
  })
})
