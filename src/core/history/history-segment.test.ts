import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { timelineId } from '../coordinate.ts'
import { isReprise } from '../errors.ts'
import type { EntryRun } from '../store/ports.ts'
import { lastSeq, originDigest, packEntries } from './entry-run.ts'
import { checkSegment, decodeSegment, encodeSegment, type HistorySegment } from './history-segment.ts'

const hash = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())
const timeline = timelineId('counter/a')

/** A segment of runs with the given numbers of entries. */
function segmentOf(sizes: readonly number[]): HistorySegment {
  const from = { seq: 0, digest: originDigest(hash, timeline) }
  const runs: EntryRun[] = []
  let at = from
  for (const size of sizes) {
    const drafts = Array.from({ length: size }, (_, i) => ({
      ...{ type: 'added', version: 1, time: 1000 + i },
      data: Uint8Array.of(1, i, size),
    }))
    const run = packEntries(hash, { before: at.digest, first: at.seq + 1, epoch: 1 }, drafts)
    runs.push(run)
    at = { seq: lastSeq(run), digest: run.digest }
  }
  return { timeline, from, to: at, runs }
}

const sizes = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 6 })

test('A8.7: a segment comes back as it went, and its chain leads from end to end', () => {
  fc.assert(
    fc.property(sizes, (given) => {
      const segment = segmentOf(given)
      const back = decodeSegment(encodeSegment(segment))
      expect(back).toEqual(segment)
      checkSegment(hash, back)
    }),
  )
})

test('G9: a change or truncation at any byte is detected: only the written bytes are accepted', () => {
  fc.assert(
    fc.property(sizes, fc.nat(), fc.integer({ min: 1, max: 255 }), fc.boolean(), (given, place, mask, isCut) => {
      const segment = segmentOf(given)
      const bytes = encodeSegment(segment)
      const at = place % bytes.length
      const changed = isCut ? bytes.slice(0, at) : bytes.map((byte, i) => (i === at ? byte ^ mask : byte))
      try {
        const back = decodeSegment(changed)
        checkSegment(hash, back)
        // The name of the timeline is for people: the chain depends only on its start.
        expect({ ...back, timeline }).toEqual(segment)
      } catch (error) {
        if (!isReprise(error)) throw error
      }
    }),
  )
})
