// Who reads the feed, where each stands, and how far it is behind.

import { hostOf } from '../engine/host.ts'
import type { Reprise } from '../engine/reprise.ts'
import { lagBehind } from '../engine/subscription/feed-stream.ts'

export interface ConsumerRow {
  readonly name: string
  readonly owner: string
  readonly movedAt: number
  readonly position: string
  /** Runs of entries, of the whole feed. */
  readonly behind: number
  readonly isMore: boolean
}

export async function consumersOf(engine: Reprise): Promise<ConsumerRow[]> {
  const { kernel } = hostOf(engine)
  const rows: ConsumerRow[] = []
  for (const { name, owner, position, movedAt } of await kernel.store.cursors()) {
    const { runs: behind, isMore } = await lagBehind(kernel, position)
    rows.push({ name, owner, movedAt, position, behind, isMore })
  }
  return rows
}
