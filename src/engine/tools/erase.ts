// Erasing: deletes a timeline with its archives (and if asked the forks that share its history), and then sees to it that their
// bytes leave the files of the store: entries, mail, checkpoints and the chunks that nobody else names. It says what is gone
// and where copies may be left. Asked again after an interruption, it goes on: also if the timeline itself is gone already.
//
// One entry inside a history cannot be erased: the digest chain vouches for it, and so do forks and checkpoints. Personal data
// in events is sealed with a key that can be shredded (layers/events/personal.ts).

import { isReprise } from '../../core/errors.ts'
import type { Kernel } from '../kernel.ts'
import { collect } from './collect.ts'
import { type DeleteOptions, type DeleteReport, deleteTimeline } from './delete.ts'

export interface EraseReport extends DeleteReport {
  /** Chunks that were taken out of the store, of these timelines and of whatever else nobody named any more. */
  readonly chunks: number
  /** Where bytes of it may be left, in words. Empty: nowhere that the store knows of. */
  readonly remains: readonly string[]
}

/** What no store can reach. */
const elsewhere = 'backups, exports and savepoint files made before: erase those too'

/** @example await eraseTimeline(kernel, 'agent/support/ann', { dryRun: true }) // only says what would go */
export async function eraseTimeline(kernel: Kernel, id: string, options: DeleteOptions = {}): Promise<EraseReport> {
  const deleted = await deleteTimeline(kernel, id, { ...options, erase: true }).catch((error) => {
    // An earlier attempt may have got this far.
    if (!isReprise(error, 'NOT_FOUND') || options.dryRun) throw error
    return { isDryRun: false, timelines: [], refusals: [] }
  })
  if (options.dryRun) return { ...deleted, chunks: 0, remains: [elsewhere] }
  const { chunks } = await collect(kernel, { chunksOnly: true })
  const remains = [...(await kernel.store.scrub(true)), elsewhere]
  if (chunks.tooYoung > 0) {
    remains.unshift(`${chunks.tooYoung} chunks that a capture under way may still name: erase again when it is over`)
  }
  return { ...deleted, chunks: chunks.swept, remains }
}
