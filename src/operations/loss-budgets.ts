// How many timelines do not keep their loss budget, for the metrics: catalogs are read only of timelines that state one.

import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { legibleHeads } from '../engine/storage/sound-page.ts'
import { lossBudgetOf } from '../engine/tools/drill/loss-budget.ts'

const timelinesLookedAt = 2000

/** Among the first 2,000 timelines. */
export async function overBudget(engine: Reprise): Promise<number> {
  const host = hostOf(engine)
  const { kernel } = host
  let over = 0
  let looked = 0
  let workers: Map<string, Awaited<ReturnType<typeof kernel.store.workers>>[number]> | null = null
  for await (const head of legibleHeads(kernel, undefined, () => undefined)) {
    if (++looked > timelinesLookedAt) break
    const policy = host.checkpointPolicyOf(head)
    if (policy?.loseAtMost === undefined) continue
    workers ??= new Map((await kernel.store.workers()).map((row) => [row.id as string, row]))
    const newest = (await kernel.store.checkpoints(head.timeline)).find(({ invalid }) => invalid === null)
    const capturedAt = newest?.createdAt ?? head.createdAt
    const budget = lossBudgetOf(kernel, head, policy, { capturedAt, owner: workers.get(head.owner ?? '') })
    if (budget?.isKept === false) over += 1
  }
  return over
}
