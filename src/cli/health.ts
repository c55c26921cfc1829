// What doctor thinks of workers and checkpoints: facts in, verdicts out. Reads no clock and no store.

import type { WorkerRow } from '../core/ports.ts'
import { count, relative } from './format.ts'

export interface Check {
  readonly name: string
  readonly state: 'ok' | 'warning' | 'bad'
  readonly what: string
  readonly cure?: string
}

export const stuckAfterMs = 60_000
const drillEveryMs = 30 * 86_400_000
/** Fewer entries without a checkpoint than this are nothing to worry about. */
const entriesBehindLeast = 10_000

export interface WorkerFacts extends Pick<WorkerRow, 'id' | 'isAlive' | 'progressAt'> {
  readonly ownsSomething: boolean
}

export function workersHealth(workers: readonly WorkerFacts[], now: number): Check[] {
  const holders = workers.filter((worker) => worker.ownsSomething)
  const stale = holders.filter((worker) => !worker.isAlive)
  const stuck = holders.filter((worker) => worker.isAlive && now - worker.progressAt > stuckAfterMs)
  const checks: Check[] = []
  if (stale.length > 0)
    checks.push({
      name: 'workers',
      state: 'warning',
      what: `gone without letting go: ${stale.map((worker) => worker.id).join(', ')}`,
      cure: 'run the work again: it is taken over at once',
    })
  if (stuck.length > 0)
    checks.push({
      name: 'workers',
      state: 'warning',
      what: `alive without progress: ${stuck.map((worker) => worker.id).join(', ')}`,
      cure: 'look at what they are doing; reprise workers says since when',
    })
  if (checks.length > 0) return checks
  const alive = workers.filter((worker) => worker.isAlive).length
  return [{ name: 'workers', state: 'ok', what: `${count(alive, 'worker')} alive` }]
}

export interface TimelineFacts {
  readonly timeline: string
  readonly seq: number
  /** Newest first. */
  readonly checkpoints: readonly {
    readonly seq: number
    readonly createdAt: number
    readonly drilledAt: number | null
    readonly invalid: string | null
  }[]
}

export function checkpointsHealth(timelines: readonly TimelineFacts[], now: number): Check[] {
  const known = timelines.filter((each) => each.checkpoints.length > 0)
  const damaged = known.filter(({ checkpoints }) => checkpoints[0]!.invalid !== null)
  const behind = known.filter(isBehind)
  const undrilled = known.filter(({ checkpoints: [newest] }) => {
    return now - (newest!.drilledAt ?? newest!.createdAt) > drillEveryMs
  })
  const checks: Check[] = []
  if (damaged.length > 0)
    checks.push({
      name: 'checkpoints',
      state: 'bad',
      what: `the newest is damaged: ${damaged.map((each) => `${each.timeline} (${each.checkpoints[0]!.invalid})`).join(', ')}`,
      cure: 'reprise verify says more; recovery uses an older one',
    })
  if (behind.length > 0)
    checks.push({
      name: 'checkpoints',
      state: 'warning',
      what: `no longer advance: ${behind
        .map(({ timeline, seq, checkpoints: [newest] }) => {
          return `${timeline}: ${seq - newest!.seq} entries since ${relative(newest!.createdAt, now)}`
        })
        .join(', ')}`,
      cure: 'look for checkpoint-failed events; a recovery point that does not advance is an incident',
    })
  if (checks.length === 0)
    checks.push({ name: 'checkpoints', state: 'ok', what: `${count(timelines.length, 'timeline')} looked at` })
  checks.push(
    undrilled.length > 0
      ? {
          name: 'drills',
          state: 'warning',
          what: `${count(undrilled.length, 'timeline')} not drilled for 30 days`,
          cure: 'reprise drill',
        }
      : { name: 'drills', state: 'ok', what: 'none overdue' },
  )
  return checks
}

/** The last two were so far apart; if nothing came for ten times as long, checkpoints no longer advance. */
function isBehind({ seq, checkpoints: [newest, before] }: TimelineFacts): boolean {
  const usual = before ? newest!.seq - before.seq : 0
  return usual > 0 && seq - newest!.seq > Math.max(entriesBehindLeast, usual * 10)
}
