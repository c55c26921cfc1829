// Workers as seen from this machine: one whose process died here is gone at once, though its lease has not run out. Only
// looks; whoever takes the work over declares it dead.

import type { WorkerRow } from '../core/ports.ts'
import { identifyProcess, isProcessGone } from '../engine/platform.ts'
import type { Reprise } from '../engine/reprise.ts'

export async function workersNow(engine: Reprise): Promise<WorkerRow[]> {
  const own = identifyProcess()
  return (await engine.workers()).map((row) => ({ ...row, isAlive: row.isAlive && !isProcessGone(row, own) }))
}
