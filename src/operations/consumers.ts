// The consumers of the feed, their positions and their lag.

import type { Reprise } from '../engine/api/reprise.ts'
import { lagBehind } from '../engine/feed/feed-stream.ts'
import { hostOf } from '../engine/host/host.ts'

export interface ConsumerRow {
  readonly name: string
  readonly owner: string
  readonly movedAt: number
  readonly position: string
  /** Lag in entry runs of the whole feed. */
  readonly behind: number
  readonly isMore: boolean
}

export async function feedConsumers(engine: Reprise): Promise<ConsumerRow[]> {
  const { kernel } = hostOf(engine)
  const rows: ConsumerRow[] = []
  for (const { name, owner, position, movedAt } of await kernel.store.cursors()) {
    const { runs: behind, isMore } = await lagBehind(kernel, position)
    rows.push({ name, owner, movedAt, position, behind, isMore })
  }
  return rows
}
