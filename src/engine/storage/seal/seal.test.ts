import { randomBytes } from 'node:crypto'
import * as zlib from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { RepriseError } from '../../../core/errors.ts'
import { Sealer } from './seal.ts'

const keys = { old: randomBytes(32), new: randomBytes(32) }
const plainSealer = new Sealer()
const oldSealer = new Sealer({ keys: { current: 'old', keys: { old: keys.old } } })
const newSealer = new Sealer({ keys: { current: 'new', keys } })
const everySealer = [plainSealer, oldSealer, newSealer]
const here = Buffer.from('counter/visits@7')
const elsewhere = Buffer.from('counter/visits@8')
const compressible = Buffer.from('all work and no play '.repeat(500))

function code(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    if (error instanceof RepriseError) return error.code
    throw error
  }
  return 'opened'
}

const someBytes = fc.oneof(
  fc.uint8Array({ maxLength: 3000 }),
  fc.tuple(fc.uint8Array({ minLength: 1, maxLength: 20 }), fc.nat({ max: 400 })).map(([unit, times]) => {
    return new Uint8Array(Buffer.concat(Array.from({ length: times }, () => unit)))
  }),
)

describe('sealing', () => {
  test('A8.6 sealed bytes open to the same bytes, with and without keys, compressed or not', () => {
    fc.assert(
      fc.property(someBytes, fc.uint8Array({ maxLength: 40 }), (plain, context) => {
        for (const sealer of everySealer) {
          expect(Buffer.compare(sealer.open(sealer.seal(plain, context), context), plain)).toBe(0)
          expect(Buffer.compare(sealer.openChecked(sealer.sealChecked(plain, context), context), plain)).toBe(0)
          expect(Buffer.compare(sealer.openChunk(sealer.sealChunk(plain)), plain)).toBe(0)
        }
      }),
    )
  })

  test('without keys, small data costs one byte', () => {
    expect(plainSealer.seal(Uint8Array.of(7, 8), here)).toEqual(Buffer.from([0, 7, 8]))
    expect(plainSealer.keyId).toBeNull()
  })

  test('data above the size is compressed, and kept as it is where that does not help', () => {
    expect(plainSealer.seal(compressible, here).length).toBeLessThan(compressible.length / 10)
    expect(plainSealer.seal(compressible.subarray(0, 1024), here).length).toBe(1025)
    expect(plainSealer.seal(compressible.subarray(0, 1025), here).length).toBeLessThan(1025)
    expect(plainSealer.seal(compressible.subarray(0, 513), here, 512).length).toBeLessThan(513)
    expect(new Sealer({ compressAboveBytes: 10 }).seal(compressible.subarray(0, 500), here).length).toBeLessThan(500)
    const noise = randomBytes(5000)
    expect(plainSealer.seal(noise, here).length).toBe(5001)
    expect(plainSealer.sealChunk(compressible.subarray(0, 256)).length).toBe(257)
    expect(plainSealer.sealChunk(compressible.subarray(0, 257)).length).toBeLessThan(257)
  })

  test('data that would exceed the limits on the way back is not compressed', () => {
    const strict = new Sealer({ limits: { inflateRatio: 5, inflateBytes: 20_000 } })
    const zeros = Buffer.alloc(10_000)
    expect(Buffer.compare(strict.open(strict.seal(zeros, here), here), zeros)).toBe(0)
    const large = Buffer.alloc(20_001)
    expect(Buffer.compare(strict.open(strict.seal(large, here), here), large)).toBe(0)
  })

  test('a zstd envelope is read where Node has zstd and refused with the reason where not', () => {
    const compressZstd = (zlib as unknown as { zstdCompressSync?: (b: Uint8Array) => Buffer }).zstdCompressSync
    const body = compressZstd ? compressZstd(Buffer.alloc(100, 'a')) : Buffer.from([0x28, 0xb5, 0x2f, 0xfd])
    const envelope = Buffer.concat([Buffer.from([1, 2, 100]), body])
    expect(code(() => plainSealer.open(envelope, here))).toBe(compressZstd ? 'opened' : 'STORE_UNSUPPORTED')
  })
})

describe('encryption', () => {
  test('a record cannot be moved, changed or opened with another key of the same id', () => {
    const plain = Buffer.from('secret')
    const envelope = newSealer.seal(plain, here)
    expect(Buffer.from(envelope).includes(plain)).toBe(false)
    expect(code(() => newSealer.open(envelope, elsewhere))).toBe('DECRYPT_FAILED')
    const other = new Sealer({ keys: { current: 'new', keys: { new: randomBytes(32) } } })
    expect(code(() => other.open(envelope, here))).toBe('DECRYPT_FAILED')
  })

  test('G7 no flipped bit and no cut of an encrypted record is silent', () => {
    for (const seal of [
      { bytes: newSealer.seal(compressible, here), open: (b: Uint8Array) => newSealer.open(b, here) },
      { bytes: newSealer.sealChunk(compressible), open: (b: Uint8Array) => newSealer.openChunk(b) },
    ]) {
      expect(code(() => seal.open(seal.bytes))).toBe('opened')
      for (let i = 0; i < seal.bytes.length; i++) {
        for (let bit = 0; bit < 8; bit++) {
          // Clearing the "encrypted" flag makes an envelope from before encryption; the digest chain detects that.
          if (i === 0 && bit === 1) continue
          const flipped = Uint8Array.from(seal.bytes)
          flipped[i]! ^= 1 << bit
          expect(['MALFORMED', 'DECRYPT_FAILED', 'KEY_MISSING']).toContain(code(() => seal.open(flipped)))
        }
        expect(code(() => seal.open(seal.bytes.subarray(0, i)))).not.toBe('opened')
      }
    }
  })

  test('after a rotation the old key still opens, and the new one seals', () => {
    const before = oldSealer.seal(compressible, here)
    expect(Buffer.compare(newSealer.open(before, here), compressible)).toBe(0)
    expect(Buffer.compare(newSealer.openChunk(oldSealer.sealChunk(compressible)), compressible)).toBe(0)
    expect(code(() => oldSealer.open(newSealer.seal(compressible, here), here))).toBe('KEY_MISSING')
    expect(code(() => plainSealer.open(before, here))).toBe('KEY_MISSING')
    expect(newSealer.keyId).toBe('new')
  })

  test('data from before encryption still opens', () => {
    expect(Buffer.compare(newSealer.open(plainSealer.seal(compressible, here), here), compressible)).toBe(0)
    const message = plainSealer.sealChecked(compressible, here)
    expect(Buffer.compare(newSealer.openChecked(message, here), compressible)).toBe(0)
  })

  test('sealing the same record twice gives different bytes, sealing the same chunk twice equal ones', () => {
    const plain = Buffer.from('secret')
    expect(Buffer.compare(newSealer.seal(plain, here), newSealer.seal(plain, here))).not.toBe(0)
    const again = new Sealer({ keys: { current: 'new', keys } })
    for (const chunk of [plain, compressible]) {
      expect(Buffer.compare(newSealer.sealChunk(chunk), again.sealChunk(chunk))).toBe(0)
      expect(Buffer.compare(newSealer.sealChunk(chunk), oldSealer.sealChunk(chunk))).not.toBe(0)
      expect(Buffer.compare(plainSealer.sealChunk(chunk), new Sealer().sealChunk(chunk))).toBe(0)
    }
  })

  test('a key ring that cannot work is refused', () => {
    const ring = (current: string, all: Record<string, Uint8Array>) => () =>
      new Sealer({ keys: { current, keys: all } })
    expect(code(ring('a', {}))).toBe('INVALID_ARGUMENT')
    expect(code(ring('a', { a: randomBytes(16) }))).toBe('INVALID_ARGUMENT')
    expect(code(ring('', { '': randomBytes(32) }))).toBe('INVALID_ARGUMENT')
    expect(code(ring('x'.repeat(65), { ['x'.repeat(65)]: randomBytes(32) }))).toBe('INVALID_ARGUMENT')
    expect(code(ring('toString', {}))).toBe('INVALID_ARGUMENT')
    expect(code(ring('x'.repeat(64), { ['x'.repeat(64)]: randomBytes(32) }))).toBe('opened')
  })

  test('changing the caller’s key bytes later changes nothing', () => {
    const key = randomBytes(32)
    const sealer = new Sealer({ keys: { current: 'k', keys: { k: key } } })
    const envelope = sealer.seal(compressible, here)
    key.fill(0)
    expect(code(() => sealer.open(envelope, here))).toBe('opened')
    expect(code(() => sealer.openChunk(sealer.sealChunk(compressible)))).toBe('opened')
  })
})

describe('checked records', () => {
  test('G7 every flipped bit, every cut and every other place is MALFORMED', () => {
    for (const sealer of everySealer) {
      for (const plain of [Buffer.from('hello'), Buffer.alloc(0), compressible.subarray(0, 1500)]) {
        const envelope = sealer.sealChecked(plain, here)
        expect(code(() => sealer.openChecked(envelope, elsewhere))).toBe('MALFORMED')
        for (let i = 0; i < envelope.length; i++) {
          for (let bit = 0; bit < 8; bit++) {
            const flipped = Uint8Array.from(envelope)
            flipped[i]! ^= 1 << bit
            expect(code(() => sealer.openChecked(flipped, here))).toBe('MALFORMED')
          }
          expect(code(() => sealer.openChecked(envelope.subarray(0, i), here))).toBe('MALFORMED')
        }
      }
    }
  })

  test('an envelope of one kind does not open as another', () => {
    const plain = Buffer.from('x')
    for (const sealer of everySealer) {
      expect(code(() => sealer.open(sealer.sealChecked(plain, here), here))).toBe('MALFORMED')
      expect(code(() => sealer.openChecked(sealer.seal(plain, here), here))).toBe('MALFORMED')
      expect(code(() => sealer.openChunk(sealer.seal(plain, here)))).toBe('MALFORMED')
      expect(code(() => sealer.open(sealer.sealChunk(plain), here))).toBe('MALFORMED')
    }
  })
})
