import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ByteWriter } from '../bytes.ts'
import { type Digest, equalBytes, timelineId } from '../coordinate.ts'
import { isReprise } from '../errors.ts'
import type { EntryRun } from '../store/ports.ts'
import {
  appendOperation,
  chainDigest,
  type EntryDraft,
  isAppendOperation,
  lastSeq,
  originDigest,
  packEntries,
  sliceEntries,
  unpackEntries,
  verifyEntries,
} from './entry-run.ts'

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())
const timeline = timelineId('counter/visits')
const origin = originDigest(sha256, timeline)

const codeOf = (act: () => unknown): string => {
  try {
    act()
  } catch (error) {
    if (isReprise(error)) return error.code
    throw error
  }
  return 'accepted'
}

const draft: fc.Arbitrary<EntryDraft> = fc.record(
  {
    type: fc.oneof(fc.string({ unit: 'binary', minLength: 1 }), fc.constantFrom('added', '__proto__')),
    version: fc.integer({ min: 1, max: 300 }),
    time: fc.integer({ min: 0, max: 2 ** 43 }),
    key: fc.string({ unit: 'binary' }),
    data: fc.uint8Array({ maxLength: 300 }),
  },
  { requiredKeys: ['type', 'version', 'time', 'data'] },
)
const drafts = fc.array(draft, { minLength: 1, maxLength: 8 })
const epochs = fc.integer({ min: 1, max: 2 ** 40 })

/** A history in several runs, from the origin. */
const history = fc.array(fc.tuple(drafts, epochs), { minLength: 1, maxLength: 5 }).map((parts) => {
  const runs: EntryRun[] = []
  let before: { seq: number; digest: Digest } = { seq: 0, digest: origin }
  for (const [entries, epoch] of parts) {
    const run = packEntries(sha256, { before: before.digest, first: before.seq + 1, epoch }, entries)
    runs.push(run)
    before = { seq: lastSeq(run), digest: run.digest }
  }
  return runs
})

/** Reads runs as recovery does, up to the digest of the head. */
const read = (runs: readonly EntryRun[], start: Digest, head: Digest): string =>
  codeOf(() => {
    let before = { seq: 0, digest: start }
    for (const run of runs) {
      verifyEntries(sha256, timeline, run, before)
      unpackEntries(run)
      before = { seq: lastSeq(run), digest: run.digest }
    }
    if (Buffer.compare(before.digest, head) !== 0) throw new Error('history ends before its head')
  })

const isFound = (runs: readonly EntryRun[], start: Digest, head: Digest): boolean => {
  try {
    return read(runs, start, head) !== 'accepted'
  } catch {
    return true
  }
}

test('entries come back as they went in, with their sequence and epoch', () => {
  fc.assert(
    fc.property(drafts, epochs, fc.integer({ min: 1, max: 2 ** 50 }), (entries, epoch, first) => {
      const run = packEntries(sha256, { before: origin, first, epoch }, entries)
      expect(unpackEntries(run)).toEqual(
        entries.map((entry, index) => ({ key: undefined, ...entry, seq: first + index, epoch })),
      )
      expect(lastSeq(run)).toBe(first + entries.length - 1)
    }),
  )
})

test('the first byte of the data belongs to it, whatever the size of the entry', () => {
  fc.assert(
    fc.property(
      draft,
      fc.oneof(fc.nat({ max: 300 }), fc.integer({ min: 16_200, max: 16_500 })),
      fc.nat({ max: 255 }),
      (one, size, lead) => {
        const data = new Uint8Array(size).fill(7)
        const joined = Uint8Array.from([lead, ...data])
        const at = { before: origin, first: 1, epoch: 1 }
        const led = packEntries(sha256, at, [{ ...one, data, lead }, one])
        expect(equalBytes(led.bytes, packEntries(sha256, at, [{ ...one, data: joined }, one]).bytes)).toBe(true)
        expect(equalBytes(unpackEntries(led)[0]!.data, joined)).toBe(true)
      },
    ),
    { numRuns: 300 },
  )
})

test('the operation of an append follows from its digest and from nothing else', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), fc.nat({ max: 7 }), (digest, place) => {
      expect(isAppendOperation(appendOperation(digest), digest)).toBe(true)
      const other = digest.slice()
      other[place]! ^= 1
      expect(isAppendOperation(appendOperation(other), digest)).toBe(false)
      expect(isAppendOperation(`${appendOperation(digest)}0`, digest)).toBe(false)
    }),
  )
})

test('every prefix of a run has the digest that a shorter run of the same entries would have', () => {
  fc.assert(
    fc.property(drafts, fc.nat(), (entries, choice) => {
      const count = 1 + (choice % entries.length)
      // The time of a run is the earliest of its entries: a prefix has the same bytes only if it contains that entry.
      const steady = entries.map((entry, index) => ({ ...entry, time: entries[0]!.time + index }))
      const at = { before: origin, first: 5, epoch: 2 }
      const slice = sliceEntries(sha256, packEntries(sha256, at, steady), origin, 4 + count)
      expect(slice).toEqual(packEntries(sha256, at, steady.slice(0, count)))
      expect(codeOf(() => verifyEntries(sha256, timeline, slice, { seq: 4, digest: origin }))).toBe('accepted')
      expect(unpackEntries(slice)).toHaveLength(count)
    }),
  )
})

test('a slice outside the run is our bug', () => {
  const run = packEntries(sha256, { before: origin, first: 5, epoch: 1 }, [
    { type: 'a', version: 1, time: 1, data: new Uint8Array() },
  ])
  expect(sliceEntries(sha256, run, origin, 5)).toBe(run)
  for (const last of [4, 6]) expect(codeOf(() => sliceEntries(sha256, run, origin, last))).toBe('BUG')
})

test('G7: any flipped bit of any run, in its bytes or its digest, is found', () => {
  fc.assert(
    fc.property(history, fc.nat(), fc.nat(), fc.nat(7), fc.boolean(), (runs, which, where, bit, inDigest) => {
      const index = which % runs.length
      const run = runs[index]!
      const damaged = (inDigest ? run.digest : run.bytes).slice()
      damaged[where % damaged.length]! ^= 1 << bit
      const after = runs.with(index, { ...run, [inDigest ? 'digest' : 'bytes']: damaged })
      expect(read(runs, origin, runs.at(-1)!.digest)).toBe('accepted')
      expect(read(after, origin, runs.at(-1)!.digest)).toBe('HISTORY_DAMAGED')
    }),
    { numRuns: 2000 },
  )
})

test('G7: a truncated, dropped, repeated, moved or swapped run is found', () => {
  fc.assert(
    fc.property(
      history,
      fc.nat(),
      fc.nat(),
      fc.constantFrom('cut', 'drop', 'repeat', 'swap', 'shift', 'recount'),
      (runs, one, two, how) => {
        const [i, j] = [one % runs.length, two % runs.length]
        const run = runs[i]!
        const after = {
          cut: () => runs.with(i, { ...run, bytes: run.bytes.subarray(0, two % run.bytes.length) }),
          drop: () => runs.toSpliced(i, 1),
          repeat: () => runs.toSpliced(i, 0, run),
          swap: () => runs.with(i, runs[j]!).with(j, run),
          shift: () => runs.with(i, { ...run, first: run.first + 1 }),
          recount: () => runs.with(i, { ...run, count: run.count + 1 }),
        }[how]()
        fc.pre(how !== 'swap' || i !== j)
        expect(isFound(after, origin, runs.at(-1)!.digest)).toBe(true)
      },
    ),
    { numRuns: 1000 },
  )
})

test('G7: changing a run and its own digest together is found at the next run, or at the head', () => {
  fc.assert(
    fc.property(history, drafts, fc.nat(), (runs, other, which) => {
      const index = which % runs.length
      const run = runs[index]!
      const before = index === 0 ? origin : runs[index - 1]!.digest
      const forged = packEntries(sha256, { before, first: run.first, epoch: 1 }, other)
      fc.pre(Buffer.compare(forged.digest, run.digest) !== 0)
      expect(isFound(runs.with(index, forged), origin, runs.at(-1)!.digest)).toBe(true)
    }),
  )
})

test('A6.1: the same entries on another timeline have another digest, and its run is refused here', () => {
  fc.assert(
    fc.property(
      history,
      fc.string({ minLength: 1 }).filter((id) => !/\p{Cc}|\//u.test(id)),
      (runs, id) => {
        const elsewhere = originDigest(sha256, timelineId(id))
        expect(read(runs, elsewhere, runs.at(-1)!.digest)).toBe('HISTORY_DAMAGED')
      },
    ),
  )
})

test('a gap names the sequence that is missing', () => {
  const run = packEntries(sha256, { before: origin, first: 9, epoch: 1 }, [
    { type: 'a', version: 1, time: 1, data: new Uint8Array() },
  ])
  try {
    verifyEntries(sha256, timeline, run, { seq: 6, digest: origin })
    expect.unreachable()
  } catch (error) {
    expect(error).toMatchObject({ code: 'HISTORY_DAMAGED', data: { timeline, seq: 7, found: 9 } })
  }
})

test('G15: whatever bytes a run claims to be, unpacking ends with entries or a typed error', () => {
  const header = new ByteWriter()
  header.byte(1)
  header.integer(1)
  header.integer(1)
  header.integer(0)
  const start = header.take()
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 60 }),
      fc.boolean(),
      fc.integer({ min: 1, max: 3 }),
      (tail, isHeaded, count) => {
        const bytes = isHeaded ? Uint8Array.from([...start, ...tail]) : tail
        const run = { first: 1, count, bytes, digest: chainDigest(sha256, origin, bytes) }
        expect(['accepted', 'MALFORMED', 'INCOMPATIBLE_VERSION']).toContain(codeOf(() => unpackEntries(run)))
      },
    ),
    { numRuns: 2000 },
  )
})

test('a run in a format that is not known is refused as newer, not guessed at', () => {
  const run = packEntries(sha256, { before: origin, first: 1, epoch: 1 }, [
    { type: 'a', version: 1, time: 1, data: new Uint8Array() },
  ])
  expect(codeOf(() => unpackEntries({ ...run, bytes: Uint8Array.from([4, ...run.bytes.slice(1)]) }))).toBe(
    'INCOMPATIBLE_VERSION',
  )
})

test('two runs of the same entries at the same place differ by their nonce, and read back the same', () => {
  const drafts = [{ type: 'a', version: 1, time: 1, key: 'k', data: Uint8Array.of(7) }]
  const of = (fill: number) =>
    packEntries(sha256, { before: origin, first: 1, epoch: 1, nonce: new Uint8Array(8).fill(fill) }, drafts)
  const [one, two] = [of(1), of(2)]
  expect(equalBytes(one.digest, two.digest)).toBe(false)
  verifyEntries(sha256, 'a', one, { seq: 0, digest: origin })
  expect(unpackEntries(one)).toEqual(unpackEntries(two))
  expect(unpackEntries(one)).toMatchObject([{ seq: 1, type: 'a', key: 'k', data: Uint8Array.of(7) }])
})

test('runs hold at least one entry, start at 1, and take a large one whole', () => {
  const one = { type: 'a', version: 1, time: 1, data: new Uint8Array(3_000_000).fill(7) }
  expect(codeOf(() => packEntries(sha256, { before: origin, first: 1, epoch: 1 }, []))).toBe('BUG')
  expect(codeOf(() => packEntries(sha256, { before: origin, first: 0, epoch: 1 }, [one]))).toBe('BUG')
  const run = packEntries(sha256, { before: origin, first: 1, epoch: 1 }, [one])
  expect(unpackEntries(run)[0]!.data.length).toBe(3_000_000)
  expect(run.bytes.length).toBeLessThan(3_000_000 + 32)
})

test('packing costs few bytes an entry beyond its data and type', () => {
  const entries = Array.from({ length: 256 }, () => ({
    type: 'added',
    version: 1,
    time: 1_700_000_000_000,
    data: new Uint8Array(200),
  }))
  const run = packEntries(sha256, { before: origin, first: 1, epoch: 1 }, entries)
  expect(run.bytes.length / 256 - 200).toBeLessThanOrEqual(12)
})

test('an entry shows whether its head is sealed with its data, and whether it was erased', () => {
  const plain = { type: 'added', version: 1, time: 5, data: new Uint8Array([1]) }
  const marks = [{}, { isHeadInside: true }, { isErased: true }, { isHeadInside: true, isErased: true }]
  const run = packEntries(
    sha256,
    { before: origin, first: 1, epoch: 1 },
    marks.map((mark) => ({ ...plain, ...mark })),
  )
  expect(unpackEntries(run).map(({ isHeadInside, isErased }) => ({ isHeadInside, isErased }))).toEqual(
    marks.map((mark) => ({ isHeadInside: undefined, isErased: undefined, ...mark })),
  )
})

test('a key that is longer than everything else has room', () => {
  const key = 'k'.repeat(200_000)
  const entry = { type: 'added', version: 1, time: 5, key, data: new Uint8Array([1]) }
  const run = packEntries(sha256, { before: origin, first: 1, epoch: 1 }, [entry])
  expect(codeOf(() => verifyEntries(sha256, timeline, run, { seq: 0, digest: origin }))).toBe('accepted')
  expect(unpackEntries(run)).toMatchObject([{ key, data: entry.data }])
})
