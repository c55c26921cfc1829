import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { equalBytes, timelineId } from '../coordinate.ts'
import { isReprise } from '../errors.ts'
import { type EntryDraft, originDigest, packEntries, sliceEntries, unpackEntries, verifyEntries } from './entry-run.ts'
import { erasedType, redactRun } from './redact.ts'
import { isIntact } from './redacted-run.ts'

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())
const origin = originDigest(sha256, timelineId('notes/ann'))

const draft: fc.Arbitrary<EntryDraft> = fc.record({
  type: fc.constantFrom('wrote', 'read'),
  version: fc.integer({ min: 1, max: 3 }),
  time: fc.integer({ min: 1, max: 2 ** 40 }),
  data: fc.uint8Array({ maxLength: 300 }),
})

const instead = (time: number) => ({ type: erasedType, version: 1, time, data: new Uint8Array() })

test('every prefix keeps its digest, the remaining entries keep their bytes, and a second erasure erases more', () => {
  fc.assert(
    fc.property(
      fc.array(draft, { minLength: 1, maxLength: 12 }),
      fc.array(fc.nat(11)),
      fc.array(fc.nat(11)),
      fc.option(fc.uint8Array({ minLength: 8, maxLength: 8 })),
      (drafts, first, second, nonce) => {
        const run = packEntries(sha256, { before: origin, first: 5, epoch: 2, nonce }, drafts)
        const erase = (from: typeof run, which: readonly number[]) =>
          redactRun(sha256, from, origin, ({ seq, time }) => (which.includes(seq - 5) ? instead(time) : null))
        const erased = erase(erase(run, first), second)
        verifyEntries(sha256, 'notes/ann', erased, { seq: 4, digest: origin })
        const gone = new Set([...first, ...second])
        const whole = unpackEntries(run)
        for (const [i, entry] of unpackEntries(erased).entries()) {
          expect([entry.seq, entry.epoch, entry.time]).toEqual([whole[i]!.seq, whole[i]!.epoch, whole[i]!.time])
          expect(entry.isErased ?? false).toBe(gone.has(i))
          if (!gone.has(i)) expect(entry).toEqual(whole[i])
          const [was, is] = [run, erased].map((each) => sliceEntries(sha256, each, origin, entry.seq))
          expect(equalBytes(was!.digest, is!.digest)).toBe(true)
          verifyEntries(sha256, 'notes/ann', is!, { seq: 4, digest: origin })
        }
      },
    ),
    { numRuns: 100 },
  )
})

test('any flipped bit, another place and another end are found', () => {
  const drafts = ['a', 'b', 'c'].map((type) => ({ type, version: 1, time: 7, data: new TextEncoder().encode(type) }))
  const run = packEntries(sha256, { before: origin, first: 1, epoch: 1 }, drafts)
  const erased = redactRun(sha256, run, origin, ({ seq, time }) => (seq === 2 ? instead(time) : null))
  expect(isIntact(sha256, origin, erased)).toBe(true)
  expect(isIntact(sha256, sha256(origin), erased)).toBe(false)
  expect(isIntact(sha256, origin, { ...erased, digest: sha256(run.digest) })).toBe(false)
  for (let bit = 0; bit < erased.bytes.length * 8; bit++) {
    const bytes = new Uint8Array(erased.bytes)
    bytes[bit >> 3]! ^= 1 << (bit & 7)
    let code = ''
    try {
      verifyEntries(sha256, 'notes/ann', { ...erased, bytes }, { seq: 0, digest: origin })
    } catch (error) {
      code = isReprise(error) ? error.code : String(error)
    }
    expect(code, `bit ${bit}`).toBe('HISTORY_DAMAGED')
  }
})
