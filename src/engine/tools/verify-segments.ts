// Verify, for history that lies in segments: every one of them is read and followed from end to end. One that is lost or
// damaged is named, with the entries that it held.

import { toHex } from '../../core/coordinate.ts'
import type { Head, ManifestRecord } from '../../core/ports.ts'
import type { StateIo } from '../checkpoint/capture.ts'
import type { Kernel } from '../kernel.ts'
import { readManifest } from '../recovery/read-manifest.ts'
import { liveChunks } from '../recovery/restore.ts'
import { chained, type NamedSegment, namedSegment, readSegment } from '../segments/read.ts'

export interface VerifiedSegments {
  readonly entries: number
  /** From the floor down to the origin all of it was read: state can be made anew without any checkpoint. */
  readonly reachesOrigin: boolean
}

/** `attempt` runs a check of one segment, and says whether it held. */
export async function verifySegments(
  kernel: Kernel,
  head: Head,
  lines: readonly ManifestRecord[],
  io: StateIo,
  live: Set<string>,
  attempt: (where: string, check: () => Promise<void>) => Promise<boolean>,
): Promise<VerifiedSegments> {
  const sound: NamedSegment[] = []
  let entries = 0
  for (const record of lines) {
    await attempt(`segment ${record.id}`, async () => {
      try {
        for (const digest of await liveChunks(readManifest(kernel, record), io)) live.add(toHex(digest))
        const segment = namedSegment(kernel, record)
        const { runs } = await readSegment(kernel, head.timeline, segment, io.blobs)
        entries += runs.reduce((sum, { count }) => sum + count, 0)
        sound.push(segment)
      } catch (error) {
        // A round beside us may have written it anew with what follows it: what is gone is not damaged.
        if ((await kernel.segments.all(head.timeline)).some(({ id }) => id === record.id)) throw error
      }
    })
  }
  return { entries, reachesOrigin: chained(sound, head)[0]?.from.seq === 0 }
}
