// The part of a round that moves history: for each timeline whose policy allows it, history no longer needed in the
// store moves to the coldest tier that takes history, as segments. Refusals (another process took the timeline, a fork
// needs it) are reported, and retried in the next round.

import { isReprise, type RepriseError } from '../../../core/errors.ts'
import type { Head } from '../../../core/store/ports.ts'
import { runEndAtOrBelow } from '../../checkpoint/retain.ts'
import { policyOf } from '../../checkpoint/stored-policy.ts'
import { isOfStore } from '../../model/id-prefixes.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { isDamageOfOne, soundHeads } from '../../storage/sound-page.ts'
import type { OpenPlace } from '../../storage/tiered-blobs.ts'
import { planBesideCursors } from './collect.ts'
import { moveHistory } from './segments.ts'

export interface HistoryReport {
  /** The name of the history tier. Null: there is none, and tiered history stays in the store. */
  readonly tier: string | null
  /** The segments after the round. */
  readonly segments: number
  readonly bytes: number
  /** Entries that this round moved, or would move. */
  readonly moved: number
  readonly movedBytes: number
  /** Timelines whose history may move and did not, with the reasons. */
  readonly refused: readonly { readonly timeline: string; readonly why: string }[]
}

interface Options {
  readonly dryRun?: boolean
  readonly signal?: AbortSignal
}

export async function moveHistories(
  kernel: Kernel,
  place: (OpenPlace & { readonly name: string }) | null,
  { dryRun, signal }: Options,
  leave: (timeline: string, error: RepriseError) => void,
): Promise<HistoryReport> {
  const report = { segments: 0, bytes: 0, moved: 0, movedBytes: 0 }
  const refused: { timeline: string; why: string }[] = []
  for await (const head of soundHeads(kernel, {}, leave)) {
    try {
      await moveOne(head)
      for (const { totalBytes } of await kernel.segments.of(head.timeline)) {
        report.segments += 1
        report.bytes += totalBytes
      }
    } catch (error) {
      if (!isDamageOfOne(error)) throw error
      leave(head.timeline, error)
    }
  }
  return { tier: place?.name ?? null, ...report, refused }

  async function moveOne(head: Head): Promise<void> {
    const movable = isOfStore(head.timeline) || signal?.aborted ? null : await movableOf(kernel, head)
    if (movable && !place) {
      refused.push({ timeline: head.timeline, why: 'no tier accepts history: set history: true on one' })
    } else if (movable && !place!.isOwn) {
      refused.push({ timeline: head.timeline, why: `the ${place!.name} tier belongs to another store` })
    } else if (movable && dryRun) {
      const to = await runEndAtOrBelow(kernel, head, movable.seq)
      report.moved += Math.max(0, (to?.seq ?? 0) - head.floor)
    } else if (movable) {
      try {
        const { entries, bytes } = await moveHistory(kernel, head, movable, place!, signal)
        report.moved += entries
        report.movedBytes += bytes
      } catch (error) {
        if (!isReprise(error, 'FENCED', 'CONFLICT', 'PINNED', 'OUT_OF_RANGE', 'HISTORY_DAMAGED', 'NOT_FOUND'))
          throw error
        refused.push({ timeline: head.timeline, why: error.message })
      }
    }
  }
}

async function movableOf(kernel: Kernel, head: Head) {
  const known = await policyOf(kernel, head)
  if (typeof known === 'string') return null
  return (await planBesideCursors(kernel, head, known.policy, known.foldVersion)).movable ?? null
}
