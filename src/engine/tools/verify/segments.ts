// Verifies history in segments: each is read and followed from end to end. A lost or damaged segment is reported with its
// entries.

import { toHex } from '../../../core/coordinate.ts'
import type { Head, ManifestRecord } from '../../../core/store/ports.ts'
import { chained, type NamedSegment, namedSegment, readSegment } from '../../history/segments.ts'
import type { StateIo } from '../../model/state-io.ts'
import { readManifest } from '../../snapshot/read-manifest.ts'
import { liveChunks } from '../../snapshot/restore.ts'
import type { Fault, HealedFault } from '../../storage/fault.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { isSegment } from '../../storage/segment-catalog.ts'
import { mendSegments } from '../repair/segments.ts'
import type { RepairSource } from '../repair/source.ts'

export interface VerifiedSegments {
  readonly entries: number
  /** True: all history from the floor back to the origin was read, so state can be rebuilt without any checkpoint. */
  readonly reachesOrigin: boolean
}

export interface SegmentCheck {
  readonly io: StateIo
  readonly tally: { readonly live: Set<string>; readonly faults: Fault[]; readonly healed: HealedFault[] }
  /** Runs the check of one segment, and returns whether it passed. */
  readonly check: (where: string, call: () => Promise<void>) => Promise<boolean>
  readonly location: string
  /** Sources from which lost or damaged segments are rewritten. */
  readonly copies: readonly RepairSource[]
}

export async function verifySegments(
  kernel: Kernel,
  head: Head,
  lines: readonly ManifestRecord[],
  checking: SegmentCheck,
): Promise<VerifiedSegments> {
  const { tally, location, copies } = checking
  const faultsBefore = tally.faults.length
  const followed = await follow(kernel, head, lines, checking)
  if (tally.faults.length === faultsBefore || copies.length === 0) return followed
  const mended = await mendSegments(kernel, head, lines, copies)
  if (mended.length === 0) return followed
  for (const { first, last, from } of mended) {
    const what = `the entries ${first} to ${last} were damaged or missing in a colder place`
    const fault = { timeline: head.timeline, seq: first, where: `${location}: segments`, what, code: 'HISTORY_DAMAGED' }
    tally.healed.push({ ...fault, from, isPutRight: true })
  }
  // Only the current state counts.
  tally.faults.length = faultsBefore
  return await follow(kernel, head, (await kernel.segments.all(head.timeline)).filter(isSegment), checking)
}

async function follow(
  kernel: Kernel,
  head: Head,
  lines: readonly ManifestRecord[],
  { io, tally, check }: SegmentCheck,
): Promise<VerifiedSegments> {
  const sound: NamedSegment[] = []
  let entries = 0
  for (const record of lines) {
    await check(`segment ${record.id}`, async () => {
      try {
        for (const digest of await liveChunks(readManifest(kernel, record), io)) tally.live.add(toHex(digest))
        const segment = namedSegment(kernel, record)
        const { runs } = await readSegment(kernel, head.timeline, segment, io.blobs)
        entries += runs.reduce((sum, { count }) => sum + count, 0)
        sound.push(segment)
      } catch (error) {
        // A concurrent round may have merged it with the next segment: a removed segment is not damaged.
        if ((await kernel.segments.all(head.timeline)).some(({ id }) => id === record.id)) throw error
      }
    })
  }
  return { entries, reachesOrigin: chained(sound, head)[0]?.from.seq === 0 }
}
