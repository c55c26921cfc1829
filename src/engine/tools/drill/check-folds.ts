// The check before a deploy, for models whose state is the fold of their history: whether this code reads each stored
// timeline, and folds its history into the state that its newest checkpoint has. It changes nothing, unlike a drill.

import { isReprise } from '../../../core/errors.ts'
import type { Head } from '../../../core/store/ports.ts'
import { installGuard } from '../../base/guard/install.ts'
import { floorOf, lineageOf } from '../../history/history.ts'
import { recover } from '../../history/recover.ts'
import type { Fold } from '../../model/definition.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { headsOf } from '../../storage/sound-page.ts'
import { type FoldOf, stateDigest } from './drill.ts'

export interface CheckedFold {
  readonly timeline: string
  readonly ok: boolean
  /** The checkpoint that was restored. Null: none, all of history was folded. */
  readonly checkpoint: string | null
  /** Entries folded by this code. */
  readonly entries: number
  readonly problem: string | null
}

export async function checkFolds(kernel: Kernel, foldOf: FoldOf): Promise<readonly CheckedFold[]> {
  const uninstallGuard = installGuard()
  try {
    const checked: CheckedFold[] = []
    for await (const head of headsOf(kernel)) {
      const fold = head.status === 'archived' ? null : foldOf(head)
      if (fold) checked.push(await checkFold({ ...kernel, guardsFolds: () => true }, head, fold))
    }
    return checked
  } finally {
    uninstallGuard()
  }
}

async function checkFold(kernel: Kernel, head: Head, fold: Fold<unknown>): Promise<CheckedFold> {
  const { timeline } = head
  const failed = (problem: string) => ({ timeline, ok: false, checkpoint: null, entries: 0, problem })
  try {
    const { state, report } = await recover(kernel, head, fold)
    const checkpoint = report.checkpoint?.id ?? null
    const entries = report.entriesReplayed
    const isWhole = fold.authority !== 'state' && floorOf(await lineageOf(kernel, head)).seq === 0
    if (checkpoint === null || !isWhole) return { timeline, ok: true, checkpoint, entries, problem: null }
    const catalog = await kernel.store.checkpoints(timeline)
    const all = await recover(kernel, head, fold, { without: new Set(catalog.map(({ id }) => id as string)) })
    const isSame = stateDigest(kernel, state) === stateDigest(kernel, all.state)
    const isMigrated = catalog.find(({ id }) => id === checkpoint)?.foldVersion !== fold.version
    // A migrated state may differ from a full replay by the current code.
    const ok = isSame || isMigrated
    const problem = `this code folds the same history into another state than checkpoint ${checkpoint} has: raise its version`
    return { timeline, ok, checkpoint, entries: entries + all.report.entriesReplayed, problem: ok ? null : problem }
  } catch (error) {
    if (isReprise(error, 'CLOSED') || (isReprise(error) && error.remedy === 'retry')) throw error
    const message = error instanceof Error ? error.message : String(error)
    return failed(isReprise(error, 'KEY_MISSING', 'CHUNKS_ELSEWHERE') ? `cannot tell: ${message}` : message)
  }
}
