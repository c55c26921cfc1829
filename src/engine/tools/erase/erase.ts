// Erases a timeline: deletes it with its archives (and optionally the forks that share its history), and then removes
// their bytes from the files of the store: entries, mail, checkpoints and chunks that no other checkpoint names. The
// report names the erased data and where copies may remain. A repeated call resumes after an interruption, even if the
// timeline itself is already deleted. Its id is erased, too: reports that name it are removed from the store's log. For
// single entries of a history that continues, see entries.ts.

import { isReprise } from '../../../core/errors.ts'
import { checkIn } from '../../../core/history/redacted-run.ts'
import { mirrorRemains } from '../../feed/mirror/policy.ts'
import { recordErasure } from '../../history/erasures.ts'
import { entriesOf, readHistory } from '../../history/history.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { newId } from '../../storage/kernel.ts'
import { mentions, reportTimelines } from '../drill/report-log.ts'
import { chunksLeft, collect } from '../housekeeping/collect.ts'
import { type DeleteOptions, type DeleteReport, deleteTimeline } from '../housekeeping/delete.ts'
import { forgetInMark } from '../verify/progress.ts'
import { redact } from './redaction.ts'
import { ownStart } from './select.ts'

export interface EraseReport extends DeleteReport {
  /** Chunks that were removed from the store: those of these timelines, and any other garbage. */
  readonly chunks: number
  /** Where bytes of it may remain, as text. Empty: in no place that the store knows of. */
  readonly remains: readonly string[]
}

const replacesMax = 50

/** Copies that no store can reach. */
const elsewhere = 'backups, exports and savepoint files made before: erase those too'

/** @example await eraseTimeline(kernel, 'agent/support/ann', { dryRun: true }) // only reports */
export async function eraseTimeline(kernel: Kernel, id: string, options: DeleteOptions = {}): Promise<EraseReport> {
  const deleted = await deleteTimeline(kernel, id, { ...options, erase: true }).catch((error) => {
    // An earlier attempt may have deleted it.
    if (!isReprise(error, 'NOT_FOUND') || options.dryRun) throw error
    return { isDryRun: false, timelines: [], refusals: [] }
  })
  if (options.dryRun) {
    const { keepsErased = [] } = await kernel.store.upkeep.facts()
    return { ...deleted, chunks: 0, remains: [...keepsErased, ...(await mirrorRemains(kernel)), elsewhere] }
  }
  const ids = [id, ...deleted.timelines.map(({ timeline }) => timeline)]
  await eraseReports(kernel, ids)
  await forgetInMark(kernel, ids)
  const { chunks } = await collect(kernel, { chunksOnly: true })
  await kernel.store.blobs.compact?.(true)
  const scrubbed = await kernel.store.upkeep.scrub({ whole: true, mayLock: true })
  const remains = [...scrubbed, ...(await mirrorRemains(kernel)), elsewhere]
  remains.unshift(...chunksLeft(chunks))
  return { ...deleted, chunks: chunks.swept, remains }
}

/** Erases the reports about these timelines in the store's log. */
async function eraseReports(kernel: Kernel, ids: readonly string[]): Promise<void> {
  for (const head of await reportTimelines(kernel)) {
    const made = []
    for await (const verified of readHistory(kernel, [head], ownStart(head), head.seq)) {
      const named = entriesOf(kernel, verified).filter(({ data }) => ids.some((id) => mentions(data, id)))
      const run = redact(kernel, verified.run, verified.before, new Set(named.map(({ seq }) => seq)))
      if (run) made.push(run)
    }
    if (made.length === 0) continue
    const checks = made.map(({ bytes }) => checkIn(bytes))
    await recordErasure(kernel, { id: newId(kernel.random), why: 'reports about it', entries: made.length, checks })
    for (let left = 1, attempt = 0; left > 0 && attempt < replacesMax; attempt++) {
      left = (await kernel.store.upkeep.replace(head.timeline, made)).left
    }
  }
}
